//! A training loop of one's own: a linear model fitted with momentum over eight virtual devices. The state moves
//! through each step and is never copied, and the loss of a step is read while the next one is under way.
//!
//! `cargo run --release --example 04_training_loop`

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use anyhow::Context;
use shardwright::graph::{Graph, Recompute};
use shardwright::hlo::{ArgumentKind, VerifiedModule, verify};
use shardwright::partition::{PlanOptions, ShardedModule, ShardingPlan, WrapPolicy};
use shardwright::pjrt::PendingHostCopy;
use shardwright::runtime::{Argument, Executable, Runtime, RuntimeOptions, ShardedArray};
use shardwright::tensor::{DType, HostArray, TensorType};

const BATCH: usize = 64;
const IN: usize = 32;
const OUT: usize = 8;
const STEPS: usize = 200;
const LEARNING_RATE: f64 = 0.05;
const MOMENTUM: f64 = 0.9;

fn main() -> anyhow::Result<()> {
    let runtime = Runtime::open(&RuntimeOptions::cpu_devices(8)).context("no CPU plugin")?;
    let mesh = runtime.mesh("fsdp=8")?;
    let module = train_step()?;
    let plan = ShardingPlan::new(&module, mesh.shape(), &PlanOptions::default())?;
    let executable =
        runtime.compile(&ShardedModule::from_plan(module, &plan, &WrapPolicy::default())?, &mesh)?;

    let zeros = HostArray::zeros(f32(&[OUT, IN])?);
    let mut state = vec![place(&runtime, &executable, 0, &zeros)?, place(&runtime, &executable, 1, &zeros)?];
    println!("each device holds {:?} of {:?}", state[0].shard(0)?.dims(), state[0].ty().dims());

    let mut pending: Option<(usize, PendingHostCopy)> = None;
    for step in 0..STEPS {
        let (x, y) = batch(step)?;
        let batch = [place(&runtime, &executable, 2, &x)?, place(&runtime, &executable, 3, &y)?];
        // The arrays are given up here, and the memory of weights and velocity is that of the new ones.
        let mut outputs = executable.execute(state.into_iter().chain(batch).map(Argument::Donate))?.outputs;
        let loss = outputs.pop().context("the step gives a loss")?;
        state = outputs;

        // The copy is started now and waited for after the next step was started, so the devices are never idle.
        let started = loss.buffers()[0].copy_to_host_async()?;
        report(pending.replace((step, started)))?;
    }
    report(pending)?;

    let learned = state[0].to_host()?;
    let error =
        learned.to_f64().iter().enumerate().map(|(i, w)| (w - true_weight(i)).abs()).fold(0.0, f64::max);
    println!("largest error of a weight: {error:.1e}");
    anyhow::ensure!(error < 1e-3, "the model did not learn the weights");
    Ok(())
}

/// Takes weights, velocity, inputs and targets; gives new weights and velocity, in place of the old ones, and the loss.
fn train_step() -> anyhow::Result<VerifiedModule> {
    let g = Graph::new("train_step");
    let w = g.argument("w", f32(&[OUT, IN])?, ArgumentKind::Parameter);
    let velocity =
        g.argument("w.velocity", f32(&[OUT, IN])?, ArgumentKind::State { parameter: 0, without: None });
    let x = g.argument("x", f32(&[BATCH, IN])?, ArgumentKind::Batch);
    let y = g.argument("y", f32(&[BATCH, OUT])?, ArgumentKind::Batch);

    let error = g.sub(g.dot(x, g.weight(w)?, &[], &[(1, 1)])?, y)?;
    let loss = g.scale(g.sum(g.mul(error, error)?, &[0, 1])?, 1.0 / BATCH as f64)?;
    let gradient = g.gradients(loss, &[w], &|_| Recompute::Nothing)?[0];

    let new_velocity = g.add(g.scale(velocity, MOMENTUM)?, gradient)?;
    let new_w = g.sub(w, g.scale(new_velocity, LEARNING_RATE)?)?;
    g.donated_output("w", new_w, 0);
    g.donated_output("w.velocity", new_velocity, 1);
    g.output("loss", loss);
    Ok(verify(g.finish())?)
}

fn f32(dims: &[usize]) -> anyhow::Result<TensorType> {
    Ok(TensorType::new(DType::F32, dims)?)
}

/// Puts an array where the program wants its argument of this index.
fn place(
    runtime: &Runtime,
    executable: &Executable,
    index: usize,
    host: &HostArray,
) -> anyhow::Result<ShardedArray> {
    Ok(ShardedArray::from_host(runtime, executable.mesh(), &executable.arguments()[index].sharding, host)?)
}

/// Waits for a step's loss and prints every twentieth.
fn report(pending: Option<(usize, PendingHostCopy)>) -> anyhow::Result<()> {
    let Some((step, loss)) = pending else { return Ok(()) };
    let loss = loss.wait()?.to_f64()[0];
    if step % 20 == 0 {
        println!("step {step:3}  loss {loss:.6}");
    }
    Ok(())
}

/// What is to be learned.
fn true_weight(index: usize) -> f64 {
    (index % 7) as f64 - 3.0
}

/// Inputs that look random, and the targets that the true weights give.
fn batch(step: usize) -> anyhow::Result<(HostArray, HostArray)> {
    let noise = |i: usize| ((step * BATCH * IN + i) as f64 * 12.9898).sin() * 43758.5453 % 1.0;
    let x: Vec<f64> = (0..BATCH * IN).map(noise).collect();
    let y = |row: usize, column: usize| -> f64 {
        (0..IN).map(|i| x[row * IN + i] * true_weight(column * IN + i)).sum()
    };
    let y: Vec<f32> = (0..BATCH * OUT).map(|i| y(i / OUT, i % OUT) as f32).collect();
    let x: Vec<f32> = x.iter().map(|&x| x as f32).collect();
    Ok((HostArray::from_slice(&[BATCH, IN], &x)?, HostArray::from_slice(&[BATCH, OUT], &y)?))
}
