//! An optimizer of one's own, and groups of parameters by their names: steps of one size in the direction of the
//! gradient's sign, with momentum; the embedding is frozen, and the output table learns more slowly.
//!
//! `cargo run --release --example 08_custom_optimizer`

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::sync::Arc;

use anyhow::{Context, ensure};
use shardwright::graph::{Graph, GraphError};
use shardwright::hlo::Unary;
use shardwright::model::ModelConfig;
use shardwright::runtime::{Runtime, RuntimeOptions};
use shardwright::tensor::HostArray;
use shardwright::train::{
    Accelerator, AcceleratorConfig, CausalLm, Group, GroupConfig, GroupRule, GroupedOptimizer,
    LossDenominator, Model, Optimizer, StateInfo, Update, Updated,
};

const BATCH: usize = 8;
const BLOCK: usize = 16;
const STEPS: usize = 30;
const MODEL: &str = r#"{
    "model_type": "llama", "vocab_size": 64, "hidden_size": 32, "intermediate_size": 64,
    "num_hidden_layers": 2, "num_attention_heads": 2, "max_position_embeddings": 16
}"#;

/// `m ← β m + (1 − β) g`, `p ← (1 − η λ) p − η sign(m)`.
#[derive(Debug)]
struct SignSgd {
    beta: f64,
}

impl Optimizer for SignSgd {
    /// One array for each parameter, split as the parameter is.
    fn state(&self, _dims: &[usize]) -> Vec<StateInfo> {
        vec![StateInfo { name: "momentum", without: None }]
    }

    /// What changes from step to step is passed in, so the program stays the same.
    fn numbers(&self, group: &Group, factor: f64, _taken: usize) -> Vec<f64> {
        let learning_rate = group.learning_rate * factor;
        vec![learning_rate, 1.0 - learning_rate * group.weight_decay]
    }

    fn update(&self, g: &Graph, update: &Update<'_>) -> Result<Updated, GraphError> {
        let (&[momentum], &[learning_rate, decay]) = (update.state, update.numbers) else {
            unreachable!("as many as `state` and `numbers` say");
        };
        let spread = |number| g.broadcast_in_dim(number, &g.dims(momentum), &[]);
        let kept = g.scale(momentum, self.beta)?;
        let momentum = g.add(kept, g.scale(update.gradient, 1.0 - self.beta)?)?;
        let decayed = g.mul(update.parameter, spread(decay)?)?;
        let step = g.mul(g.unary(Unary::Sign, momentum)?, spread(learning_rate)?)?;
        Ok(Updated { parameter: g.sub(decayed, step)?, state: vec![momentum] })
    }
}

fn main() -> anyhow::Result<()> {
    let runtime = Runtime::open(&RuntimeOptions::cpu_devices(8)).context("no CPU plugin")?;
    let rule = |pattern: &str, learning_rate, trained| -> anyhow::Result<GroupRule> {
        Ok(GroupRule { pattern: pattern.parse()?, learning_rate, weight_decay: None, trained })
    };
    let groups = GroupConfig {
        learning_rate: 5e-3,
        weight_decay: 0.01,
        rules: vec![rule("embed_tokens", None, false)?, rule("lm_head", Some(2e-3), true)?],
    };
    // It is made, and prepared, before the model is.
    let optimizer = GroupedOptimizer::new(SignSgd { beta: 0.9 }, groups);
    let mut accelerator =
        Accelerator::new(&runtime, &runtime.mesh("data=2,fsdp=4")?, AcceleratorConfig::default())?;
    accelerator.prepare(optimizer)?;
    let model = accelerator.prepare(Arc::new(CausalLm {
        config: ModelConfig::parse(MODEL, "the example's model")?,
        block_size: BLOCK,
        denominator: LossDenominator::Targets,
        lora: None,
    }))?;

    let ids = batch()?;
    let first = accelerator.step(&ids)?.read()?.loss;
    let is_embedding = |name: &str| name == "model.embed_tokens.weight";
    let embedding = model.parameters().iter().position(|p| is_embedding(&p.name)).context("no embedding")?;
    let frozen = |accelerator: &Accelerator<'_>| -> anyhow::Result<HostArray> {
        let state = accelerator.state().context("no step was taken")?;
        Ok(state.parameters[embedding].to_host()?)
    };
    let before = frozen(&accelerator)?;
    for step in 1..STEPS {
        let loss = accelerator.step(&ids)?.read()?.loss;
        if step % 5 == 0 {
            println!("step {step:2}  loss {loss:.4}");
        }
    }
    let last = accelerator.step(&ids)?.read()?.loss;
    ensure!(last < 0.5 * first, "the loss went from {first} to {last}");
    ensure!(frozen(&accelerator)? == before, "what is frozen was trained");

    let step = accelerator.train_step().context("no step was taken")?;
    let kept = step.layout().slots.len();
    println!("{} parameters, of which {kept} are trained and have a momentum", step.parameters().len());
    ensure!(kept == step.parameters().len() - 1, "the embedding has a momentum");
    Ok(())
}

/// One text of words that follow each other by a rule, as ids and as labels.
fn batch() -> anyhow::Result<[HostArray; 2]> {
    let ids: Vec<i32> = (0..BATCH * BLOCK).map(|i| ((i / BLOCK * 7 + i % BLOCK * 5) % 64) as i32).collect();
    let ids = HostArray::from_slice(&[BATCH, BLOCK], &ids)?;
    Ok([ids.clone(), ids])
}
