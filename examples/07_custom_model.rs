//! A model of one's own: a classifier of two layers, trained to tell which side of two lines a point is on.
//!
//! `cargo run --release --example 07_custom_model`

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::sync::Arc;

use anyhow::{Context, ensure};
use shardwright::graph::{Graph, GraphError, Value};
use shardwright::hlo::{Binary, Comparison, Unary};
use shardwright::model::{Init, ModuleInfo, ParameterInfo, ParameterKind};
use shardwright::runtime::{Runtime, RuntimeOptions};
use shardwright::tensor::{DType, HostArray, TensorType};
use shardwright::train::{
    Accelerator, AcceleratorConfig, AdamW, BatchInput, GroupConfig, GroupedOptimizer, Model, ModelLoss,
};

const FEATURES: usize = 8;
const HIDDEN: usize = 64;
const CLASSES: usize = 4;
const BATCH: usize = 64;
const STEPS: usize = 150;

/// `softmax(W₂ relu(W₁ x + b₁))`, with the cross entropy as its loss.
struct Classifier;

impl Model for Classifier {
    fn parameters(&self) -> Vec<ParameterInfo> {
        let matrix = |name: &str, shape: [usize; 2]| ParameterInfo {
            name: name.to_owned(),
            shape: shape.to_vec(),
            init: Init::Normal { std: (shape[1] as f64).sqrt().recip(), zero_row: None },
            kind: ParameterKind::Matrix,
        };
        let bias = ParameterInfo {
            name: "hidden.bias".to_owned(),
            shape: vec![HIDDEN],
            init: Init::Zeros,
            kind: ParameterKind::Bias,
        };
        vec![matrix("hidden.weight", [HIDDEN, FEATURES]), bias, matrix("output.weight", [CLASSES, HIDDEN])]
    }

    fn modules(&self) -> Vec<ModuleInfo> {
        let module = |(path, class): (&str, &'static str)| ModuleInfo { path: path.to_owned(), class };
        [("", "Classifier"), ("hidden", "Hidden"), ("output", "Output")].map(module).into()
    }

    fn wrapped_by_default(&self) -> Vec<&'static str> {
        vec!["Hidden"]
    }

    fn batch(&self, examples: usize) -> Result<Vec<BatchInput>, GraphError> {
        let points = TensorType::new(DType::F32, [examples, FEATURES])?;
        let classes = TensorType::new(DType::S32, [examples])?;
        Ok(vec![BatchInput { name: "points", ty: points }, BatchInput { name: "classes", ty: classes }])
    }

    fn loss(&self, g: &Graph, parameters: &[Value], batch: &[Value]) -> Result<ModelLoss, GraphError> {
        let (&[hidden, bias, output], &[points, classes]) = (parameters, batch) else {
            unreachable!("as many as `parameters` and `batch` say");
        };
        // A unit is what can be wrapped; `weight` is where a parameter is gathered.
        let features = g.unit("hidden", "Hidden", || {
            let x = g.dot(points, g.weight(hidden)?, &[], &[(1, 1)])?;
            let x = g.add(x, g.broadcast_in_dim(g.weight(bias)?, &g.dims(x), &[1])?)?;
            g.activation(g.binary(Binary::Maximum, x, g.full_like(x, 0.0)?)?)
        })?;
        let logits = g.unit("output", "Output", || g.dot(features, g.weight(output)?, &[], &[(1, 1)]))?;
        cross_entropy(g, logits, classes)
    }
}

/// Summed over the examples that are there, which need not be all of the batch.
fn cross_entropy(g: &Graph, logits: Value, classes: Value) -> Result<ModelLoss, GraphError> {
    let dims = g.dims(logits);
    let spread = |x| g.broadcast_in_dim(x, &dims, &[0]);
    let shifted = g.sub(logits, spread(g.detach(g.max(logits, &[1])?))?)?;
    let log_sum = g.unary(Unary::Log, g.sum(g.unary(Unary::Exponential, shifted)?, &[1])?)?;
    let is_class = g.compare(Comparison::Equal, g.iota(DType::S32, &dims, 1)?, spread(classes)?)?;
    let picked = g.sum(g.select(is_class, shifted, g.full_like(shifted, 0.0)?)?, &[1])?;
    let sum = g.sum(g.sub(log_sum, picked)?, &[0])?;
    Ok(ModelLoss { sum, count: g.full(DType::S32, &[], dims[0] as f64)? })
}

fn main() -> anyhow::Result<()> {
    let on_one = train(1)?;
    let on_eight = train(8)?;
    println!("last loss on one device {on_one:.6}, on eight {on_eight:.6}");
    ensure!((on_one - on_eight).abs() < 1e-4, "the mesh made a difference");
    ensure!(on_eight < 0.3, "the model did not learn");
    Ok(())
}

/// The loss on new points after training on so many devices.
fn train(devices: usize) -> anyhow::Result<f64> {
    let runtime = Runtime::open(&RuntimeOptions::cpu_devices(devices)).context("no CPU plugin")?;
    let mesh = runtime.mesh("fsdp=-1")?;
    let mut accelerator = Accelerator::new(&runtime, &mesh, AcceleratorConfig::default())?;
    let groups = GroupConfig { learning_rate: 0.01, ..GroupConfig::default() };
    accelerator.prepare((Arc::new(Classifier), GroupedOptimizer::new(AdamW::default(), groups)))?;
    for step in 0..STEPS {
        let metrics = accelerator.step(&batch(step)?)?;
        if step % 30 == 0 {
            println!("{devices} devices, step {step:3}  loss {:.4}", metrics.read()?.loss);
        }
    }
    Ok(accelerator.evaluate([batch(STEPS)])?)
}

/// Points that look random, each with the sides of two planes that it is on.
fn batch(step: usize) -> Result<[HostArray; 2], shardwright::train::TrainError> {
    let noise = |i: usize| ((step * BATCH * FEATURES + i) as f64 * 12.9898).sin() * 43758.5453 % 1.0;
    let points: Vec<f32> = (0..BATCH * FEATURES).map(|i| noise(i) as f32).collect();
    let side = |point: &[f32], features: [usize; 2]| i32::from(point[features[0]] > point[features[1]]);
    let class = |point: &[f32]| 2 * side(point, [0, 1]) + side(point, [2, 3]);
    let classes: Vec<i32> = points.chunks_exact(FEATURES).map(class).collect();
    let points = HostArray::from_slice(&[BATCH, FEATURES], &points);
    let classes = HostArray::from_slice(&[BATCH], &classes);
    Ok([points.expect("as many as there are"), classes.expect("as many as there are")])
}
