//! What a run is told: the meaning of the command line and its files, after both were read.

use std::path::PathBuf;
use std::sync::Arc;

use shardwright_partition::{DimRule, FsdpConfig, Lowering, Strategy};

use crate::{GroupConfig, Optimizer};

/// A training run. Field names are those of Hugging Face's `TrainingArguments` and `run_clm.py` where those have one.
#[derive(Clone, Debug)]
pub struct TrainConfig {
    /// Where the model comes from.
    pub model: ModelSource,
    /// Text and JSON-lines files, or folders of them.
    pub train_files: Vec<PathBuf>,
    /// A `tokenizer.json`, or a folder with one; without it, one is trained on the text.
    pub tokenizer: Option<PathBuf>,
    /// Tokens of one example; without it, the rule of [`effective_block_size`](shardwright_data::effective_block_size).
    pub block_size: Option<usize>,
    /// Use no more than this many blocks.
    pub max_train_samples: Option<usize>,

    /// Where the model and the results are written.
    pub output_dir: PathBuf,
    /// Whether files that are there may be replaced.
    pub overwrite_output_dir: bool,

    /// Examples that one device sees in one step.
    pub per_device_train_batch_size: usize,
    /// Passes over the data; may be fractional.
    pub num_train_epochs: f64,
    /// Steps to take; overrides the epochs.
    pub max_steps: Option<usize>,
    /// Whether the last, smaller batch of an epoch is left out.
    pub dataloader_drop_last: bool,
    /// Keys the initial weights and, unless `data_seed` is given, the order of the data.
    pub seed: u64,
    /// Keys the order of the data.
    pub data_seed: Option<u64>,

    /// How parameters are updated.
    pub optimizer: Arc<dyn Optimizer>,
    /// Which are, and with which constants.
    pub groups: GroupConfig,
    /// The learning rate over time.
    pub schedule: ScheduleConfig,
    /// Gradients are scaled down to this global L2 norm; `None` leaves them.
    pub max_grad_norm: Option<f64>,
    /// What the summed loss of a step is divided by.
    pub loss_denominator: LossDenominator,

    /// Whether and how parameters are split over devices.
    pub sharding: ShardingConfig,
    /// Steps between records of the log; `None` keeps none.
    pub logging_steps: Option<usize>,
}

/// Where a model comes from.
#[derive(Clone, Debug, PartialEq)]
pub enum ModelSource {
    /// A `config.json`, or a folder with one; the weights are new.
    Config(PathBuf),
    /// A folder with `config.json` and weights.
    Pretrained(PathBuf),
}

/// The learning rate over time, by Hugging Face's names.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScheduleConfig {
    /// The shape after the warm-up.
    pub kind: ScheduleKind,
    /// Steps, or part of all steps, over which the rate rises from 0.
    pub warmup: Warmup,
}

/// Shapes of a learning-rate schedule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ScheduleKind {
    /// Falls in a line to 0 at the last step.
    #[default]
    Linear,
    /// Falls along half a cosine to 0 at the last step.
    Cosine,
    /// Stays.
    Constant,
}

/// The length of a warm-up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Warmup {
    /// So many steps.
    Steps(usize),
    /// This part of all steps, rounded up.
    Ratio(f64),
}

/// What the summed loss of a step is divided by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LossDenominator {
    /// The labels before the shift, as the Hugging Face Trainer counts them: a block of `n` tokens counts `n`, though it
    /// has `n − 1` targets.
    #[default]
    Labels,
    /// The targets: the mean over what is predicted.
    Targets,
}

/// How a model is spread over devices.
#[derive(Clone, Debug, PartialEq)]
pub struct ShardingConfig {
    /// The device mesh, such as `fsdp=8` or `data=2,fsdp=-1`; by default all devices in one axis.
    pub mesh: Option<String>,
    /// The mesh axis that parameters are split over.
    pub axis: String,
    /// What is split.
    pub strategy: Strategy,
    /// Which dim of a parameter is split.
    pub dim_rule: DimRule,
    /// Parameters of fewer bytes stay whole.
    pub min_shard_bytes: usize,
    /// How that is written into the program.
    pub lowering: Lowering,
    /// Wrapping and rematerialisation.
    pub fsdp: FsdpConfig,
    /// Rematerialise the wrapped units, whatever `fsdp` says: Trainer's `gradient_checkpointing`.
    pub gradient_checkpointing: bool,
}

impl Default for ScheduleConfig {
    fn default() -> Self {
        ScheduleConfig { kind: ScheduleKind::default(), warmup: Warmup::Steps(0) }
    }
}

impl Default for ShardingConfig {
    fn default() -> Self {
        ShardingConfig {
            mesh: None,
            axis: "fsdp".into(),
            strategy: Strategy::FullShard,
            dim_rule: DimRule::default(),
            min_shard_bytes: 0,
            lowering: Lowering::default(),
            fsdp: FsdpConfig::default(),
            gradient_checkpointing: false,
        }
    }
}
