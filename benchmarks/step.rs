//! Times train steps of a small Llama over virtual CPU devices, and what comes before them.
//!
//! `cargo bench --bench step -- SIZE DEVICES [remat] [explicit]` prints one line of JSON. Sizes: `micro`, `quickstart`,
//! `tiny`, `small`; each step sees 8 examples. Each step is waited for, so the time is that of the step and not of its
//! dispatch. On Linux, the time of all processors is there too, which other work on the machine changes less.

#![expect(clippy::print_stdout, reason = "a benchmark shows what it measured")]

use std::sync::Arc;
use std::time::Instant;

use anyhow::Context;
use serde_json::json;
use shardwright::hlo::Precision;
use shardwright::model::ModelConfig;
use shardwright::partition::{CollectiveSummary, Lowering, PlanOptions, WrapConfig, WrapPolicy};
use shardwright::runtime::{Runtime, RuntimeOptions};
use shardwright::tensor::HostArray;
use shardwright::train::{
    AdamW, CausalLm, Clipping, GroupConfig, LossDenominator, Model, PrecisionConfig, StepConfig, TrainState,
    TrainStep, WeightSource, model_modules,
};

const BATCH: usize = 8;
const STEPS: usize = 30;

/// Hidden size, layers, heads, key and value heads, intermediate size, vocabulary, tokens of an example.
fn size(name: &str) -> Option<[usize; 7]> {
    match name {
        "micro" => Some([128, 2, 4, 2, 352, 512, 64]),
        "quickstart" => Some([128, 4, 4, 2, 352, 1024, 128]),
        "tiny" => Some([256, 4, 8, 4, 688, 1024, 128]),
        "small" => Some([512, 8, 8, 4, 1376, 32000, 256]),
        _ => None,
    }
}

fn main() -> anyhow::Result<()> {
    let start = Instant::now();
    // Cargo adds a flag of its own.
    let arguments: Vec<String> = std::env::args().skip(1).filter(|a| a != "--bench").collect();
    let name = arguments.first().map_or("micro", String::as_str);
    let devices: usize = arguments.get(1).map_or(Ok(8), |a| a.parse()).context("DEVICES is a number")?;
    let (mut remat, mut lowering) = (false, Lowering::Annotate);
    for word in arguments.iter().skip(2) {
        match word.as_str() {
            "remat" => remat = true,
            "explicit" => lowering = Lowering::Explicit,
            _ => anyhow::bail!("unknown word {word}; there are remat and explicit"),
        }
    }
    let [hidden, layers, heads, kv_heads, intermediate, vocab, block] =
        size(name).with_context(|| format!("no size {name}; there are micro, quickstart, tiny and small"))?;

    let config = json!({
        "model_type": "llama", "hidden_size": hidden, "num_hidden_layers": layers, "num_attention_heads": heads,
        "num_key_value_heads": kv_heads, "intermediate_size": intermediate, "vocab_size": vocab,
    });
    let config = ModelConfig::parse(&config.to_string(), name)?;
    let model = CausalLm { config, block_size: block, denominator: LossDenominator::Targets, lora: None };
    let runtime = Runtime::open(&RuntimeOptions::cpu_devices(devices))?;
    let mesh = runtime.mesh("fsdp=-1")?;
    let wrap =
        WrapPolicy::resolve(&WrapConfig::ModelDefault, &model_modules(&model), &model.wrapped_by_default())?;
    let step_config = StepConfig {
        global_batch_size: BATCH,
        gradient_accumulation_steps: 1,
        precision: PrecisionConfig::default(),
        dot_precision: Precision::Default,
        optimizer: Arc::new(AdamW::default()),
        groups: GroupConfig { learning_rate: 1e-4, ..GroupConfig::default() },
        clipping: Clipping { norm: Some(1.0), ..Clipping::default() },
        wrap,
        remat,
        plan: PlanOptions::default(),
        lowering,
    };
    let (opened, cpu_opened) = (start.elapsed(), cpu_seconds());
    let step = TrainStep::compile(&runtime, &mesh, &model, &step_config)?;
    let (compiled, cpu_compiled) = (start.elapsed(), cpu_seconds());
    let mut state = TrainState::new(&runtime, &step, WeightSource::Random { seed: 0 })?;
    let initialised = start.elapsed();

    let ids: Vec<i32> = (0..BATCH * block).map(|i| (i * 7919 % vocab) as i32).collect();
    let batch = HostArray::from_slice(&[BATCH, block], &ids)?;
    let mut first = None;
    let mut milliseconds = Vec::with_capacity(STEPS);
    let cpu_initialised = cpu_seconds();
    for _ in 0..STEPS {
        let began = Instant::now();
        let (next, metrics) = step.run(&runtime, state, &[&batch, &batch], 1.0)?;
        state = next;
        metrics.read()?;
        milliseconds.push(began.elapsed().as_secs_f64() * 1e3);
        first.get_or_insert_with(|| start.elapsed());
    }
    let cpu_done = cpu_seconds();
    milliseconds.sort_by(f64::total_cmp);

    let collectives = CollectiveSummary::new(&step.executable().compiled()??);
    let seconds = |d: std::time::Duration| (d.as_secs_f64() * 1e3).round() / 1e3;
    let report = json!({
        "size": name, "devices": devices, "remat": remat, "explicit": lowering == Lowering::Explicit,
        "step_ms_median": milliseconds[STEPS / 2], "step_ms_min": milliseconds[0],
        "open_s": seconds(opened), "compile_s": seconds(compiled - opened),
        "init_s": seconds(initialised - compiled), "first_step_done_s": first.map(seconds),
        "compile_cpu_s": difference(cpu_opened, cpu_compiled),
        "step_cpu_ms": difference(cpu_initialised, cpu_done).map(|s| s * 1e3 / STEPS as f64),
        "bytes_per_device": step.executable().bytes_per_device()?, "collectives": collectives.to_string(),
    });
    println!("{report}");
    Ok(())
}

/// Seconds that processors worked for this process so far, where the system tells.
fn cpu_seconds() -> Option<f64> {
    const TICKS_PER_SECOND: f64 = 100.0;
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The name of the program, in parentheses, may hold anything. User and system time are the 12th and 13th behind it.
    let mut fields = stat.rsplit_once(") ")?.1.split(' ').skip(11);
    let (user, system): (f64, f64) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    Some((user + system) / TICKS_PER_SECOND)
}

fn difference(before: Option<f64>, after: Option<f64>) -> Option<f64> {
    Some(after? - before?)
}
