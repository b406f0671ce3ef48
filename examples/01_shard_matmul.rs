//! A matrix product over eight virtual devices, seen at each step: the mesh, the plan, the program that is handed to
//! the compiler, what the compiler made of it, and where the result lies.
//!
//! `cargo run --release --example 01_shard_matmul`

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use anyhow::Context;
use shardwright::graph::Graph;
use shardwright::hlo::{ArgumentKind, verify};
use shardwright::mesh::{DrawStyle, draw_mesh, draw_sharding};
use shardwright::partition::{CollectiveSummary, PlanOptions, ShardedModule, ShardingPlan, WrapPolicy};
use shardwright::runtime::{Argument, Runtime, RuntimeOptions, ShardedArray};
use shardwright::tensor::{DType, HostArray, TensorType};

const BATCH: usize = 16;
const IN: usize = 24;
const OUT: usize = 32;

fn main() -> anyhow::Result<()> {
    let runtime = Runtime::open(&RuntimeOptions::cpu_devices(8)).context("no CPU plugin")?;
    let mesh = runtime.mesh("data=2,fsdp=4")?;
    println!("the mesh:\n{}", draw_mesh(&mesh, DrawStyle::Plain));

    // y = x · wᵀ, as model code writes it. Nothing here says anything about devices.
    let g = Graph::new("matmul");
    let x = g.argument("x", TensorType::new(DType::F32, [BATCH, IN])?, ArgumentKind::Batch);
    let w = g.argument("w", TensorType::new(DType::F32, [OUT, IN])?, ArgumentKind::Parameter);
    g.output("y", g.dot(x, g.weight(w)?, &[], &[(1, 1)])?);
    let module = verify(g.finish())?;

    let plan = ShardingPlan::new(&module, mesh.shape(), &PlanOptions::default())?;
    println!("the plan:\n{plan}\n");
    let sharding = &plan.arguments()[1].sharding;
    println!("w on the devices:\n{}", draw_sharding(&mesh, sharding, &[OUT, IN], DrawStyle::Plain)?);

    let sharded = ShardedModule::from_plan(module, &plan, &WrapPolicy::default())?;
    println!("the program:\n{}", sharded.stablehlo_text());

    let program = runtime.compile(&sharded, &mesh)?;
    println!("the compiler put in: {}\n", CollectiveSummary::new(&program.compiled()??));

    let host = |dims: &[usize]| {
        let n: usize = dims.iter().product();
        HostArray::from_slice(dims, &(0..n).map(|i| (i % 7) as f32).collect::<Vec<_>>())
    };
    let (host_x, host_w) = (host(&[BATCH, IN])?, host(&[OUT, IN])?);
    let place =
        |index, array| ShardedArray::from_host(&runtime, &mesh, sharded.argument_sharding(index), array);
    let arguments = vec![Argument::Donate(place(0, &host_x)?), Argument::Donate(place(1, &host_w)?)];
    let execution = program.execute(arguments)?;
    let y = execution.outputs[0].to_host()?;

    let (x, w, y) = (host_x.view::<f32>()?, host_w.view::<f32>()?, y.view::<f32>()?);
    for row in 0..BATCH {
        for column in 0..OUT {
            let expected: f32 = (0..IN).map(|k| x[[row, k]] * w[[column, k]]).sum();
            anyhow::ensure!(y[[row, column]] == expected, "y[{row},{column}] is {}", y[[row, column]]);
        }
    }
    println!("all {} numbers are those of the host", BATCH * OUT);
    Ok(())
}
