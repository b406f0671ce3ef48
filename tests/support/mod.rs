//! What the end-to-end tests share: the plugin, and the stored curves.

#![allow(dead_code, reason = "each test file uses a part of this")]

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Mutex, OnceLock, PoisonError};

use serde::Deserialize;
use shardwright_model::ModelConfig;
use shardwright_partition::{Lowering, PlanOptions, WrapConfig, WrapPolicy};
use shardwright_runtime::{Runtime, RuntimeOptions};
use shardwright_tensor::HostArray;
use shardwright_train::{AdamWConfig, LossDenominator, StepConfig, model_modules};

/// Examples of a batch of the curves, and the tokens of each.
pub(crate) const BATCH: [usize; 2] = [8, 64];

/// The pinned CPU plugin with this many virtual devices; fetched on first use.
pub(crate) fn runtime(devices: usize) -> Runtime {
    static RUNTIMES: OnceLock<Mutex<BTreeMap<usize, Runtime>>> = OnceLock::new();
    let mut runtimes = RUNTIMES.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner);
    let open = || Runtime::open(&RuntimeOptions::cpu_devices(devices)).unwrap();
    runtimes.entry(devices).or_insert_with(open).clone()
}

/// A file or folder of `tests/data`.
pub(crate) fn data(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(path)
}

/// One of the models of the curves.
pub(crate) fn oracle_model(name: &str) -> ModelConfig {
    let text = std::fs::read_to_string(data("oracle/models").join(name).join("config.json")).unwrap();
    ModelConfig::parse(&text, "config.json").unwrap()
}

/// A step over the batches of the curves, its decoder layers wrapped and kept.
pub(crate) fn oracle_step(model: &ModelConfig, plan: PlanOptions) -> StepConfig {
    let known = model_modules(model);
    StepConfig {
        global_batch_size: BATCH[0],
        block_size: BATCH[1],
        optimizer: AdamWConfig::default(),
        max_grad_norm: Some(1.0),
        loss_denominator: LossDenominator::Targets,
        wrap: WrapPolicy::resolve(&WrapConfig::ModelDefault, &known, &["LlamaDecoderLayer"]).unwrap(),
        remat: false,
        plan,
        lowering: Lowering::Annotate,
    }
}

/// Losses and gradient norms of twenty steps in plain PyTorch.
#[derive(Deserialize)]
pub(crate) struct Curve {
    pub(crate) config: Option<CurveConfig>,
    pub(crate) loss: Vec<f64>,
    pub(crate) grad_norm: Vec<f64>,
    pub(crate) lr: Option<Vec<f64>>,
}

/// The settings of a curve.
#[derive(Clone, Deserialize)]
pub(crate) struct CurveConfig {
    pub(crate) model: String,
    pub(crate) lr: f64,
    pub(crate) weight_decay: f64,
    pub(crate) max_norm: f64,
}

impl Curve {
    /// All stored curves, by name; `NAME@hf` has the Trainer's denominator.
    pub(crate) fn all() -> BTreeMap<String, Curve> {
        let text = std::fs::read_to_string(data("oracle/losses.json")).unwrap();
        serde_json::from_str(&text).unwrap()
    }
}

impl CurveConfig {
    /// The name of the model that the curve starts from.
    pub(crate) fn model_name(&self) -> &str {
        if self.model == "." { "base" } else { &self.model }
    }
}

/// The token ids of the curves, one batch of 8 × 64 for each of twenty steps.
pub(crate) fn oracle_batches() -> Vec<HostArray> {
    const HEADER: usize = 128;
    let file = std::fs::read(data("oracle/tokens.npy")).unwrap();
    let ids: Vec<i32> = file[HEADER..]
        .chunks_exact(8)
        .map(|bytes| i64::from_le_bytes(bytes.try_into().unwrap()) as i32)
        .collect();
    assert_eq!(ids.len(), 20 * BATCH[0] * BATCH[1]);
    ids.chunks_exact(BATCH[0] * BATCH[1]).map(|batch| HostArray::from_slice(&BATCH, batch).unwrap()).collect()
}
