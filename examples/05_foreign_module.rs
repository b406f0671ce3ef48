//! A train step that JAX wrote, sharded, explained and run over eight virtual devices.
//!
//! The file is what `jax.jit(step, donate_argnums=0).lower(...).as_text(debug_info=True)` gave. It says nothing of
//! devices; what its arguments are is seen from what is donated and what the loss needs, and told by one rule.
//!
//! `cargo run --release --example 05_foreign_module`

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use anyhow::Context;
use shardwright::hlo::{ArgumentKind, parse};
use shardwright::partition::explain::{Explanation, Subject};
use shardwright::partition::{
    LintOptions, PlannedArgument, RuleOptions, ShardRules, ShardedModule, ShardingPlan, lint,
    needed_by_results,
};
use shardwright::runtime::{Argument, Runtime, RuntimeOptions, ShardedArray};
use shardwright::tensor::{DType, HostArray};

const PROGRAM: &str = include_str!("../tests/data/foreign/mlp.mlir");

fn main() -> anyhow::Result<()> {
    let program = parse(PROGRAM)?;
    let signature = program.signature();
    let needed = Some(needed_by_results(&program.module));

    // Whatever no rule is about lies where FSDP has it. Biases are not worth splitting. And for a batch as small as this
    // one, a compiler left to itself keeps weights in parts and moves activations; so these are pinned.
    let mut rules = ShardRules::default();
    for rule in ["*.b1=replicated", "op:*/jvp()/dot_general=(fsdp)"] {
        rules.push(rule)?;
    }
    let runtime = Runtime::open(&RuntimeOptions::cpu_devices(8)).context("no CPU plugin")?;
    let mesh = runtime.mesh("fsdp=8")?;
    let options = RuleOptions { needed, ..RuleOptions::default() };
    let plan = ShardingPlan::by_rules(&signature, mesh.shape(), &rules, &options)?;
    println!("the plan:\n{}\n", plan.table());
    for lint in lint(&plan, &LintOptions::default()).iter().take(3) {
        println!("{}: {lint}", lint.severity);
    }

    let sharded = ShardedModule::from_parsed(program, &plan, &rules)?;
    let step = runtime.compile(&sharded, &mesh)?;
    let subject = Subject::of_plan(&plan);
    println!("\nwhat the compiler made of it:\n{}", Explanation::new(&step.compiled()??, &subject, None));

    let place = |a: &PlannedArgument| -> anyhow::Result<ShardedArray> {
        Ok(ShardedArray::from_host(&runtime, &mesh, &a.sharding, &host(a)?)?)
    };
    let mut state = plan.arguments().iter().map(place).collect::<Result<Vec<_>, _>>()?;
    let batch = state.split_off(state.len() - 2);
    let mut losses = Vec::new();
    for _ in 0..50 {
        // State is given up and comes back in place; the batch stays.
        let arguments = state.into_iter().map(Argument::Donate).chain(batch.iter().map(Argument::Borrow));
        let mut outputs = step.execute(arguments)?.outputs;
        losses.push(outputs.pop().context("the step gives a loss")?.to_host()?.to_f64()[0]);
        state = outputs;
    }
    println!("loss {:.3} at first, {:.3} after {} steps", losses[0], losses[49], losses.len());
    anyhow::ensure!(losses[49] < losses[0], "the model did not learn");
    Ok(())
}

/// Labels, numbers that look random for weights and inputs, and zeros for what the optimizer keeps.
fn host(argument: &PlannedArgument) -> anyhow::Result<HostArray> {
    let (dims, n) = (argument.ty.dims(), argument.ty.shape.element_count());
    Ok(match (argument.kind, argument.ty.dtype) {
        (_, DType::S32) => HostArray::from_slice(dims, &(0..n as i32).map(|i| i % 4).collect::<Vec<_>>())?,
        (ArgumentKind::Parameter | ArgumentKind::Batch, _) => {
            let noise = |i: usize| (i as f32 * 12.9898).sin() * 0.5;
            HostArray::from_slice(dims, &(0..n).map(noise).collect::<Vec<_>>())?
        }
        _ => HostArray::zeros(argument.ty.clone()),
    })
}
