//! A framework that writes its loss itself: the model gives predictions, and the loss of them is StableHLO text, as JAX or
//! any other tracer makes it. Gradients flow through it.
//!
//! `cargo run --release --example 10_foreign_loss`

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::sync::Arc;

use anyhow::{Context, ensure};
use shardwright::graph::{Graph, GraphError, Value};
use shardwright::hlo::{Parsed, parse};
use shardwright::model::{Init, ModuleInfo, ParameterInfo, ParameterKind};
use shardwright::runtime::{Runtime, RuntimeOptions};
use shardwright::tensor::{DType, HostArray, TensorType};
use shardwright::train::{
    Accelerator, AcceleratorConfig, BatchInput, GroupConfig, GroupedOptimizer, Model, ModelLoss, Momentum,
    Sgd,
};

const IN: usize = 16;
const OUT: usize = 8;
const BATCH: usize = 32;
const STEPS: usize = 240;

/// The Huber loss, summed, as a program over so many rows: quadratic near the target, linear far from it.
fn huber(rows: usize) -> Parsed {
    let (array, flags) = (format!("tensor<{rows}x{OUT}xf32>"), format!("tensor<{rows}x{OUT}xi1>"));
    let text = format!(
        "module @huber {{
          func.func public @main(%predictions: {array}, %targets: {array}) -> tensor<f32> {{
            %error = stablehlo.subtract %predictions, %targets : {array}
            %each = call @penalty(%error) : ({array}) -> {array}
            %zero = stablehlo.constant dense<0.0> : tensor<f32>
            %sum = stablehlo.reduce(%each init: %zero) applies stablehlo.add across dimensions = [0, 1]
              : ({array}, tensor<f32>) -> tensor<f32>
            return %sum : tensor<f32>
          }}
          func.func private @penalty(%error: {array}) -> {array} {{
            %one = stablehlo.constant dense<1.0> : {array}
            %half = stablehlo.constant dense<0.5> : {array}
            %size = stablehlo.abs %error : {array}
            %near = stablehlo.compare LT, %size, %one : ({array}, {array}) -> {flags}
            %square = stablehlo.multiply %error, %error : {array}
            %quadratic = stablehlo.multiply %half, %square : {array}
            %linear = stablehlo.subtract %size, %half : {array}
            %each = stablehlo.select %near, %quadratic, %linear : {flags}, {array}
            return %each : {array}
          }}
        }}"
    );
    parse(&text).expect("the text is a program")
}

struct Regression;

impl Model for Regression {
    fn parameters(&self) -> Vec<ParameterInfo> {
        vec![ParameterInfo {
            name: "weight".to_owned(),
            shape: vec![OUT, IN],
            init: Init::Zeros,
            kind: ParameterKind::Matrix,
        }]
    }

    fn modules(&self) -> Vec<ModuleInfo> {
        vec![ModuleInfo { path: String::new(), class: "Regression" }]
    }

    fn batch(&self, examples: usize) -> Result<Vec<BatchInput>, GraphError> {
        let input = |name, size| -> Result<BatchInput, GraphError> {
            Ok(BatchInput { name, ty: TensorType::new(DType::F32, [examples, size])? })
        };
        Ok(vec![input("inputs", IN)?, input("targets", OUT)?])
    }

    fn loss(&self, g: &Graph, parameters: &[Value], batch: &[Value]) -> Result<ModelLoss, GraphError> {
        let predictions = g.dot(batch[0], g.weight(parameters[0])?, &[], &[(1, 1)])?;
        // A device may see a part of the batch, and is given a program over that.
        let rows = g.dims(predictions)[0];
        let sum = g.inline(&huber(rows).module, &[predictions, batch[1]])?[0];
        Ok(ModelLoss { sum, count: g.full(DType::S32, &[], rows as f64)? })
    }
}

fn main() -> anyhow::Result<()> {
    let runtime = Runtime::open(&RuntimeOptions::cpu_devices(8)).context("no CPU plugin")?;
    let mut accelerator = Accelerator::new(&runtime, &runtime.mesh("fsdp=8")?, AcceleratorConfig::default())?;
    let optimizer = Sgd { momentum: Some(Momentum::Classic { momentum: 0.9, dampening: 0.0 }) };
    let groups = GroupConfig { learning_rate: 0.05, ..GroupConfig::default() };
    accelerator.prepare((Arc::new(Regression), GroupedOptimizer::new(optimizer, groups)))?;

    for step in 0..STEPS {
        let metrics = accelerator.step(&batch(step)?)?;
        if step % 40 == 0 {
            println!("step {step:3}  loss {:.6}", metrics.read()?.loss);
        }
    }
    let learned = accelerator.state().context("no step was taken")?.parameters[0].to_host()?;
    let error =
        learned.to_f64().iter().enumerate().map(|(i, w)| (w - true_weight(i)).abs()).fold(0.0, f64::max);
    println!("largest error of a weight: {error:.1e}");
    ensure!(error < 1e-3, "the model did not learn the weights");
    Ok(())
}

fn true_weight(index: usize) -> f64 {
    (index % 7) as f64 - 3.0
}

/// Inputs that look random, and the targets that the true weights give.
fn batch(step: usize) -> anyhow::Result<[HostArray; 2]> {
    let noise = |i: usize| ((step * BATCH * IN + i) as f64 * 12.9898).sin() * 43758.5453 % 1.0;
    let x: Vec<f64> = (0..BATCH * IN).map(noise).collect();
    let y = |row: usize, column: usize| -> f64 {
        (0..IN).map(|i| x[row * IN + i] * true_weight(column * IN + i)).sum()
    };
    let y: Vec<f32> = (0..BATCH * OUT).map(|i| y(i / OUT, i % OUT) as f32).collect();
    let x: Vec<f32> = x.iter().map(|&x| x as f32).collect();
    Ok([HostArray::from_slice(&[BATCH, IN], &x)?, HostArray::from_slice(&[BATCH, OUT], &y)?])
}
