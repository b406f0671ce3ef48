//! Fine-tuning with low-rank adapters: a small model is trained and saved, and then adapters for it. Their folder is one
//! that PEFT reads.
//!
//! `cargo run --release --example 09_lora`

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::fs;
use std::path::Path;

use anyhow::{Context, ensure};
use shardwright::checkpoint::HfWeights;
use shardwright::model::{LoraConfig, LoraModules};
use shardwright::runtime::{Runtime, RuntimeOptions};
use shardwright::train::{
    Event, GroupConfig, LoraSource, ModelSource, Observer, StopFlag, TrainConfig, prepare,
};

const MODEL: &str = r#"{
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 300, "hidden_size": 64,
    "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4, "max_position_embeddings": 64
}"#;

/// Shows how much of a model is trained.
struct Shown;

impl Observer for Shown {
    fn event(&mut self, event: Event<'_>) {
        if let Event::Plan { parameters, trained, .. } = event {
            println!("{trained} of {parameters} parameters are trained");
        }
    }
}

fn main() -> anyhow::Result<()> {
    let runtime = Runtime::open(&RuntimeOptions::cpu_devices(8)).context("no CPU plugin")?;
    let folder = tempfile::tempdir()?;
    let (config, base, adapter) =
        (folder.path().join("config.json"), folder.path().join("base"), folder.path().join("adapter"));
    fs::write(&config, MODEL)?;
    let page = |name: &str| vec![Path::new(env!("CARGO_MANIFEST_DIR")).join(name)];

    let learning_rate = |learning_rate| GroupConfig { learning_rate, ..GroupConfig::default() };
    let mut pretraining =
        TrainConfig::new(ModelSource::Config(config), page("ARCHITECTURE.md"), base.clone());
    pretraining.max_steps = Some(20);
    pretraining.per_device_train_batch_size = 2;
    pretraining.groups = learning_rate(3e-3);
    let loss = train(&runtime, &pretraining)?;
    println!("the model: mean loss {loss:.4}");

    let mut tuning =
        TrainConfig::new(ModelSource::Pretrained(base.clone()), page("CONTRIBUTING.md"), adapter.clone());
    tuning.tokenizer = Some(base);
    tuning.max_steps = Some(20);
    tuning.per_device_train_batch_size = 2;
    tuning.groups = learning_rate(1e-2);
    let mut lora = LoraConfig::default();
    (lora.r, lora.target_modules) = (4, LoraModules::all_linear());
    tuning.lora = Some(LoraSource::New(Box::new(lora)));
    let loss = train(&runtime, &tuning)?;
    println!("its adapters: mean loss {loss:.4}");

    let saved = HfWeights::open(adapter.join("adapter_model.safetensors"))?;
    let matrix = "base_model.model.model.layers.0.self_attn.q_proj.lora_B.weight";
    ensure!(saved.read(matrix)?.to_f64().iter().any(|&x| x != 0.0), "{matrix} was not trained");
    println!("saved: {:?} for {matrix}", saved.ty(matrix).map(|ty| ty.to_string()));
    Ok(())
}

fn train(runtime: &Runtime, config: &TrainConfig) -> anyhow::Result<f64> {
    let job = prepare(config, &mut Shown)?;
    let results = job.run(runtime, &mut Shown, &StopFlag::default())?;
    Ok(results.train.context("the run trains")?.train_loss)
}
