//! What the end-to-end tests share: the plugin, and the stored curves.

#![allow(dead_code, reason = "each test file uses a part of this")]

use std::collections::BTreeMap;
use std::env;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use serde::Deserialize;
use shardwright_hlo::Precision;
use shardwright_hlo::compiled::{Collective, CollectiveKind, CompiledProgram};
use shardwright_mesh::{AbstractMesh, AxisName, Mesh};
use shardwright_model::{ModelConfig, ParameterInfo, parameters};
use shardwright_partition::{Lowering, PlanOptions, WrapConfig, WrapPolicy};
use shardwright_runtime::topology::VARIABLES;
use shardwright_runtime::{Runtime, RuntimeOptions};
use shardwright_tensor::HostArray;
use shardwright_train::{
    AdamW, CausalLm, Clipping, GroupConfig, LossDenominator, Model, PrecisionConfig, StepConfig, TrainStep,
    model_modules,
};

/// Examples of a batch of the curves, and the tokens of each.
pub(crate) const BATCH: [usize; 2] = [8, 64];

/// The pinned CPU plugin with this many virtual devices; fetched on first use.
pub(crate) fn runtime(devices: usize) -> Runtime {
    static RUNTIMES: OnceLock<Mutex<BTreeMap<usize, Runtime>>> = OnceLock::new();
    let mut runtimes = RUNTIMES.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner);
    let open = || Runtime::open(&RuntimeOptions::cpu_devices(devices)).unwrap();
    runtimes.entry(devices).or_insert_with(open).clone()
}

/// Whether this is the child that may load the TPU compiler, which wants variables of its own. Elsewhere, runs the test
/// of this name in such a child.
pub(crate) fn in_a_tpu_child(test: &str) -> bool {
    let is_child = VARIABLES.iter().all(|(name, value)| env::var(name).is_ok_and(|set| set == *value));
    if !is_child {
        let mut child = Command::new(env::current_exe().unwrap());
        let output = child.args(["--exact", test, "--nocapture"]).envs(VARIABLES).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && text.contains("1 passed"), "{text}");
    }
    is_child
}

/// A file or folder of `tests/data`.
pub(crate) fn data(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(path)
}

/// One of the models of the curves.
pub(crate) fn oracle_config(name: &str) -> ModelConfig {
    let text = std::fs::read_to_string(data("oracle/models").join(name).join("config.json")).unwrap();
    ModelConfig::parse(&text, "config.json").unwrap()
}

/// The same with the loss over its targets.
pub(crate) fn oracle_model(name: &str) -> CausalLm {
    causal_lm(oracle_config(name), BATCH[1])
}

/// A decoder with the loss over its targets.
pub(crate) fn causal_lm(config: ModelConfig, block_size: usize) -> CausalLm {
    CausalLm { config, block_size, denominator: LossDenominator::Targets, lora: None }
}

/// A decoder of which each shard of a weight, on sixteen TPUs, is whole tiles. Of a smaller one's reduce-scatters the
/// compiler makes all-reduces.
pub(crate) fn model_of_whole_tiles() -> CausalLm {
    let text = r#"{"model_type": "llama", "hidden_size": 256, "intermediate_size": 2048, "num_hidden_layers": 2,
        "num_attention_heads": 4, "vocab_size": 1024}"#;
    causal_lm(ModelConfig::parse(text, "config.json").unwrap(), BATCH[1])
}

/// A step over the batches of the curves, its decoder layers wrapped and kept.
pub(crate) fn oracle_step(model: &CausalLm, plan: PlanOptions) -> StepConfig {
    let known = model_modules(model);
    StepConfig {
        global_batch_size: BATCH[0],
        gradient_accumulation_steps: 1,
        precision: PrecisionConfig::default(),
        dot_precision: Precision::Default,
        optimizer: Arc::new(AdamW::default()),
        groups: GroupConfig::default(),
        clipping: Clipping { norm: Some(1.0), ..Clipping::default() },
        wrap: WrapPolicy::resolve(&WrapConfig::ModelDefault, &known, &model.wrapped_by_default()).unwrap(),
        remat: false,
        plan,
        lowering: Lowering::Annotate,
    }
}

/// The model of `examples/quickstart`.
pub(crate) fn quickstart_config() -> ModelConfig {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("examples/quickstart/config.json");
    ModelConfig::parse(&std::fs::read_to_string(path).unwrap(), "config.json").unwrap()
}

/// A compiled train step, and what it does between devices.
pub(crate) struct CompiledStep {
    pub(crate) model: CausalLm,
    pub(crate) mesh: AbstractMesh,
    pub(crate) program: CompiledProgram,
    pub(crate) temporary_bytes: i64,
}

impl CompiledStep {
    /// Compiles a step for a mesh of eight devices.
    pub(crate) fn new(model: &CausalLm, mesh: &str, config: &StepConfig) -> CompiledStep {
        let mesh = AbstractMesh::parse(mesh).unwrap();
        let step = TrainStep::compile(&runtime(8), &Mesh::iota(mesh.clone()), model, config).unwrap();
        let program = step.executable().compiled().unwrap().unwrap();
        let temporary_bytes = step.executable().memory_stats().unwrap().temp;
        CompiledStep { model: model.clone(), mesh, program, temporary_bytes }
    }

    /// The collectives of one kind, each with the axes that it runs along.
    pub(crate) fn of_kind(&self, kind: CollectiveKind) -> Vec<(&Collective, String)> {
        let of_kind = self.program.collectives.iter().filter(|c| c.kind == kind);
        of_kind.map(|c| (c, self.axes(c))).collect()
    }

    /// The axes of the mesh along which a collective runs, `fsdp+tensor`; `?` where it is not along whole axes.
    fn axes(&self, collective: &Collective) -> String {
        let axes = collective.groups.as_ref().and_then(|groups| groups.axes_of(&self.mesh).ok());
        let names = |axes: Vec<AxisName>| axes.iter().map(|a| a.to_string()).collect::<Vec<_>>().join("+");
        axes.map_or("?".to_owned(), names)
    }

    /// Result bytes of the collectives of one kind along these axes.
    pub(crate) fn bytes(&self, kind: CollectiveKind, axes: &str) -> Vec<usize> {
        let along = self.of_kind(kind).into_iter().filter(|(_, found)| found == axes);
        along.map(|(c, _)| usize::try_from(c.bytes()).unwrap()).collect()
    }

    /// How many collectives of one kind there are.
    pub(crate) fn count(&self, kind: CollectiveKind) -> usize {
        self.of_kind(kind).len()
    }

    /// Bytes of each parameter for which `wanted` holds.
    pub(crate) fn parameter_bytes(&self, wanted: impl Fn(&ParameterInfo) -> bool) -> Vec<usize> {
        parameters(&self.model.config).iter().filter(|p| wanted(p)).map(|p| p.element_count() * 4).collect()
    }

    /// Checks that `found` holds the same numbers as `expected`, in any order.
    #[track_caller]
    pub(crate) fn check_same(&self, what: &str, mut found: Vec<usize>, mut expected: Vec<usize>) {
        found.sort_unstable();
        expected.sort_unstable();
        assert_eq!(found, expected, "{what}\n{:#?}", self.program.collectives);
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
    pub(crate) opt: String,
    pub(crate) lr: f64,
    pub(crate) weight_decay: f64,
    /// Modules that are not trained.
    pub(crate) freeze: Vec<String>,
    pub(crate) schedule: String,
    pub(crate) warmup: usize,
    /// Whether some labels are left out.
    pub(crate) masked: bool,
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

    /// The folder of its weights. What differs in its configuration only has those of the base.
    pub(crate) fn weights(&self) -> PathBuf {
        let folder = data("oracle/models").join(self.model_name());
        if folder.join("model.safetensors").exists() { folder } else { data("oracle/models/base") }
    }
}

/// The token ids of the curves, one batch of 8 × 64 for each of twenty steps.
pub(crate) fn oracle_batches() -> Vec<HostArray> {
    oracle_ids("oracle/tokens.npy")
}

/// The labels of these batches for the curves in which some are left out.
pub(crate) fn oracle_masked_labels() -> Vec<HostArray> {
    oracle_ids("oracle/labels_masked.npy")
}

fn oracle_ids(file: &str) -> Vec<HostArray> {
    const HEADER: usize = 128;
    let file = std::fs::read(data(file)).unwrap();
    let ids: Vec<i32> = file[HEADER..]
        .chunks_exact(8)
        .map(|bytes| i64::from_le_bytes(bytes.try_into().unwrap()) as i32)
        .collect();
    assert_eq!(ids.len(), 20 * BATCH[0] * BATCH[1]);
    ids.chunks_exact(BATCH[0] * BATCH[1]).map(|batch| HostArray::from_slice(&BATCH, batch).unwrap()).collect()
}
