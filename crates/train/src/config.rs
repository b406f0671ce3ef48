//! What a run is told: the meaning of the command line and its files, after both were read.

use std::path::PathBuf;
use std::sync::Arc;

use shardwright_data::DEFAULT_VALIDATION_PERCENT;
use shardwright_hlo::Precision;
use shardwright_partition::{DimRule, FsdpConfig, Lowering, ModulePattern, Strategy};

use crate::{AdamW, GroupConfig, LoraSource, Optimizer, PrecisionConfig, TrainError};

/// A training run. Field names are those of Hugging Face's `TrainingArguments` and `run_clm.py` where those have one.
#[derive(Clone, Debug)]
pub struct TrainConfig {
    /// Where the model comes from.
    pub model: ModelSource,
    /// Adapters that are trained in the model's place.
    pub lora: Option<LoraSource>,
    /// What a [`Corpus`](shardwright_data::Corpus) is opened of: files, folders and patterns.
    pub train_files: Vec<PathBuf>,
    /// A `tokenizer.json`, or a folder with one; without it, one is trained on the text.
    pub tokenizer: Option<PathBuf>,
    /// Tokens of one example; without it, the rule of [`effective_block_size`](shardwright_data::effective_block_size).
    pub block_size: Option<usize>,
    /// Use no more than this many blocks.
    pub max_train_samples: Option<usize>,
    /// Text for evaluation; without any, a part of that for training.
    pub validation_files: Vec<PathBuf>,
    /// That part, in percent.
    pub validation_split_percentage: u8,
    /// The column that holds the text.
    pub text_column: Option<String>,
    /// Evaluate on no more than this many blocks.
    pub max_eval_samples: Option<usize>,
    /// Whether rows are joined and cut into full blocks; otherwise each is a block of its own, cut or filled up.
    pub packing: bool,
    /// Where token ids are kept from run to run.
    pub cache_dir: Option<PathBuf>,
    /// Whether ids that are kept are made again.
    pub overwrite_cache: bool,

    /// Where the model and the results are written.
    pub output_dir: PathBuf,
    /// Whether files that are there may be replaced.
    pub overwrite_output_dir: bool,

    /// Examples that one device sees in one step.
    pub per_device_train_batch_size: usize,
    /// Examples of one step over all devices and accumulated batches, in place of `per_device_train_batch_size`.
    pub global_batch_size: Option<usize>,
    /// Examples that one device sees at a time when the model is evaluated.
    pub per_device_eval_batch_size: usize,
    /// Batches whose gradients make one step.
    pub gradient_accumulation_steps: usize,
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
    /// What gradients are limited to.
    pub clipping: Clipping,
    /// What the summed loss of a step is divided by.
    pub loss_denominator: LossDenominator,

    /// The dtypes of weights, computation and reductions.
    pub precision: PrecisionConfig,
    /// How exactly products of matrices are computed.
    pub dot_precision: Precision,

    /// Whether and how parameters are split over devices.
    pub sharding: ShardingConfig,
    /// Whether the model is trained.
    pub do_train: bool,
    /// Whether and when it is evaluated.
    pub evaluation: EvaluationConfig,
    /// What is noted down.
    pub logging: LoggingConfig,
    /// Whether the run stops at the first loss or gradient norm that is not finite.
    pub nan_stop: bool,
    /// What the run is called, in the name of its log's folder.
    pub run_name: Option<String>,
    /// The settings as they are saved in `training_args.json`.
    pub arguments: serde_json::Value,
}

impl TrainConfig {
    /// A run that is all else as Trainer has it where nothing is said: three epochs of AdamW in f32, eight examples on
    /// each device. Parameters are split over all devices.
    pub fn new(model: ModelSource, train_files: Vec<PathBuf>, output_dir: PathBuf) -> TrainConfig {
        TrainConfig {
            model,
            lora: None,
            train_files,
            tokenizer: None,
            block_size: None,
            max_train_samples: None,
            validation_files: Vec::new(),
            validation_split_percentage: DEFAULT_VALIDATION_PERCENT,
            text_column: None,
            max_eval_samples: None,
            packing: true,
            cache_dir: None,
            overwrite_cache: false,
            output_dir,
            overwrite_output_dir: false,
            per_device_train_batch_size: 8,
            global_batch_size: None,
            per_device_eval_batch_size: 8,
            gradient_accumulation_steps: 1,
            num_train_epochs: 3.0,
            max_steps: None,
            dataloader_drop_last: false,
            seed: 42,
            data_seed: None,
            optimizer: Arc::new(AdamW::default()),
            groups: GroupConfig::default(),
            schedule: ScheduleConfig::default(),
            clipping: Clipping { norm: Some(1.0), ..Clipping::default() },
            loss_denominator: LossDenominator::default(),
            precision: PrecisionConfig::default(),
            dot_precision: Precision::Default,
            sharding: ShardingConfig::default(),
            do_train: true,
            evaluation: EvaluationConfig::default(),
            logging: LoggingConfig::default(),
            nan_stop: true,
            run_name: None,
            arguments: serde_json::Value::Null,
        }
    }

    /// Examples that one device sees at a time, where a batch is split into so many parts.
    ///
    /// # Errors
    /// When `global_batch_size` does not divide into them.
    pub fn per_device_batch_size(&self, shards: usize) -> Result<usize, TrainError> {
        let Some(global) = self.global_batch_size else { return Ok(self.per_device_train_batch_size) };
        let accumulated = self.gradient_accumulation_steps;
        match shards.checked_mul(accumulated) {
            Some(parts) if parts > 0 && global.is_multiple_of(parts) && global > 0 => Ok(global / parts),
            _ => Err(TrainError::GlobalBatch { global, shards, accumulated }),
        }
    }
}

/// Whether and when a model is evaluated.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct EvaluationConfig {
    /// At the end, and when `strategy` says so.
    pub do_eval: bool,
    /// In the course of training.
    pub strategy: IntervalStrategy,
    /// Before the first step.
    pub on_start: bool,
}

/// What is noted down of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct LoggingConfig {
    /// When a record is made.
    pub strategy: IntervalStrategy,
    /// Also of the first step.
    pub first_step: bool,
    /// Leave losses that are not finite out of the means.
    pub nan_inf_filter: bool,
    /// The folder of the log, in place of `runs/NAME` in the output folder.
    pub dir: Option<PathBuf>,
    /// Who reads it.
    pub report_to: Vec<ReportTo>,
}

/// Programs that read logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReportTo {
    /// TensorBoard.
    TensorBoard,
}

/// When something is done in the course of training.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum IntervalStrategy {
    /// Never.
    #[default]
    No,
    /// Each time that so many steps were taken.
    Steps(usize),
    /// Each time that this part of all steps was taken, rounded up to whole steps.
    Part(f64),
    /// After each epoch.
    Epoch,
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

/// Shapes of a learning-rate schedule. Rates are parts of the highest one.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum ScheduleKind {
    /// Falls in a line to 0 at the last step.
    #[default]
    Linear,
    /// Falls along a cosine: with half a cycle, to `floor` at the last step.
    Cosine {
        /// How many waves it goes through.
        cycles: f64,
        /// The lowest rate.
        floor: f64,
    },
    /// Falls along half a cosine to 0, so many times.
    CosineWithRestarts {
        /// How often.
        cycles: usize,
    },
    /// Falls to `end` at the last step, along a power of what is left.
    Polynomial {
        /// The power; 1 is a line.
        power: f64,
        /// The last rate.
        end: f64,
    },
    /// Stays.
    Constant,
    /// Falls with the root of the steps.
    InverseSqrt {
        /// Steps behind the warm-up until the square of the rate is half as high; by default those of the warm-up, or
        /// 10,000. 0 is as 1.
        timescale: Option<usize>,
    },
    /// Stays, and falls in the last steps.
    WarmupStableDecay(StableDecay),
}

/// The parts of [`ScheduleKind::WarmupStableDecay`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StableDecay {
    /// How it rises.
    pub warmup: Curve,
    /// Steps in which it stays; by default all that the warm-up and the fall leave.
    pub stable_steps: Option<usize>,
    /// Steps in which it falls.
    pub decay_steps: usize,
    /// How it falls.
    pub decay: Curve,
    /// The rate that it begins at and falls to.
    pub floor: f64,
    /// Waves of a cosine that falls; half of one is one way.
    pub cycles: f64,
}

/// How a rate rises or falls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Curve {
    /// In a line.
    #[default]
    Linear,
    /// Along a cosine.
    Cosine,
    /// With the root of the steps.
    OneMinusSqrt,
}

/// The length of a warm-up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Warmup {
    /// So many steps.
    Steps(usize),
    /// This part of all steps, rounded up.
    Ratio(f64),
}

/// What gradients are limited to, before an update.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Clipping {
    /// They are scaled down to this L2 norm over all of them.
    pub norm: Option<f64>,
    /// Each number is then kept between this one and its negative.
    pub value: Option<f64>,
    /// The modules or parameters whose gradients are limited, and make up the norm that does; without any, all.
    pub within: Vec<ModulePattern>,
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

impl Default for LoggingConfig {
    /// A record each 500 steps, for nobody beside the results.
    fn default() -> Self {
        LoggingConfig {
            strategy: IntervalStrategy::Steps(500),
            first_step: false,
            nan_inf_filter: true,
            dir: None,
            report_to: Vec::new(),
        }
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
