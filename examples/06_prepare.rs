//! A loop of one's own around a decoder: its parts are prepared, and each batch is one call. The model is evaluated,
//! saved, read again and evaluated once more.
//!
//! `cargo run --release --example 06_prepare`

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, ensure};
use shardwright::checkpoint::HfWeights;
use shardwright::data::{BatchPlan, Batches, BlockOptions, Blocks, Corpus, CorpusOptions, Tokenizer};
use shardwright::model::ModelConfig;
use shardwright::runtime::{Runtime, RuntimeOptions};
use shardwright::train::{
    Accelerator, AcceleratorConfig, AdamW, CausalLm, Clipping, GroupConfig, GroupedOptimizer,
    LossDenominator, PendingMetrics, Schedule, ScheduleConfig, WeightSource,
};
use shardwright::{require_global_mesh, set_global_mesh};

const BLOCK: usize = 32;
const VOCABULARY: usize = 300;
const MODEL: &str = r#"{
    "model_type": "llama", "vocab_size": 300, "hidden_size": 64, "intermediate_size": 128,
    "num_hidden_layers": 2, "num_attention_heads": 4, "max_position_embeddings": 32, "tie_word_embeddings": true
}"#;

fn main() -> anyhow::Result<()> {
    let runtime = Runtime::open(&RuntimeOptions::cpu_devices(8)).context("no CPU plugin")?;
    set_global_mesh(Some(runtime.mesh("fsdp=8")?));
    let mesh = require_global_mesh()?;

    let model = Arc::new(CausalLm {
        config: ModelConfig::parse(MODEL, "the example's model")?,
        block_size: BLOCK,
        denominator: LossDenominator::Targets,
        lora: None,
    });
    let blocks = blocks()?;
    let (train, eval) = (blocks.clone().take(blocks.num_blocks() * 9 / 10), blocks);
    let train = Batches::new(&train, BatchPlan { accumulation: 2, ..BatchPlan::new(32) })?;
    // The last batch is short: what fills it up counts nothing.
    let eval = Batches::new(&eval, BatchPlan::evaluation(16))?;
    let epochs = 2;
    let steps = epochs * train.steps_per_epoch();
    let groups = GroupConfig { learning_rate: 3e-3, weight_decay: 0.1, ..GroupConfig::default() };
    let optimizer = GroupedOptimizer::new(AdamW::default(), groups);
    let schedule = Schedule::new(&ScheduleConfig::default(), steps as usize);

    let config = AcceleratorConfig {
        gradient_accumulation_steps: 2,
        clipping: Clipping { norm: Some(1.0), ..Clipping::default() },
        remat: true,
        ..AcceleratorConfig::default()
    };
    let mut accelerator = Accelerator::new(&runtime, &mesh, config)?;
    let (model, optimizer, _, train, eval) =
        accelerator.prepare((model, optimizer, schedule, train, eval))?;

    // The loss of a step is read while the next one is under way.
    let mut under_way: Option<(usize, PendingMetrics)> = None;
    for (step, batch) in train.prefetch(0..steps)?.enumerate() {
        let started = accelerator.step(&batch?)?;
        let before = under_way.replace((step, started));
        if let Some((step, metrics)) = before.filter(|(step, _)| step % 10 == 0) {
            println!("step {step:3}  loss {:.4}", metrics.read()?.loss);
        }
    }
    let loss = accelerator.evaluate(eval.steps(0..eval.steps_per_epoch()))?;
    println!("after {steps} steps: loss {loss:.4}");
    ensure!(loss < 5.0, "the model did not learn");

    let folder = tempfile::tempdir()?;
    accelerator.save(folder.path())?;
    let weights = HfWeights::open(folder.path())?;
    let config = AcceleratorConfig { weights: WeightSource::Files(&weights), ..AcceleratorConfig::default() };
    let mut again = Accelerator::new(&runtime, &mesh, config)?;
    again.prepare((optimizer, model))?;
    let read = again.evaluate(eval.steps(0..eval.steps_per_epoch()))?;
    println!("read again:     loss {read:.4}");
    ensure!(read == loss, "what was saved is another model");
    Ok(())
}

/// One of this project's own pages as token ids, with a tokenizer of its own.
fn blocks() -> anyhow::Result<Blocks> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("ARCHITECTURE.md");
    let corpus = Corpus::open(&[page], CorpusOptions::default())?;
    let tokenizer = Tokenizer::train_byte_level_bpe(&corpus, VOCABULARY, &["<s>", "</s>"])?;
    Ok(Blocks::from_corpus(&corpus, &tokenizer, &BlockOptions::new(BLOCK))?)
}
