//! Training: what a run is told, the train step as one sharded program, the loop around it, and what it leaves behind.
//!
//! ```text
//! TrainConfig ──► prepare ──► Job ──► run ──► TrainResults and a folder with the model
//!                  reads         compiles and trains
//! ```
//!
//! [`prepare`] does everything that needs no device, so that what is wrong with files and settings is said before a
//! plugin is even looked for. [`Job::run`] is the loop. Underneath, a [`TrainStep`] is one compiled program that takes
//! a [`TrainState`] and a batch and gives the next state: the old one is moved in, and its memory used again.
//!
//! The numbers of a run do not depend on the mesh: initial weights are a function of the seed and the parameter's name,
//! the order of the data one of the seed and the epoch.
//!
//! The crate prints nothing; an [`Observer`] is told what happens.
#![forbid(unsafe_code)]

/// Labels that are made in one crate are left out in another.
const _: () = assert!(shardwright_data::IGNORED_LABEL == shardwright_model::IGNORED_LABEL);

mod accelerator;
mod card;
mod causal_lm;
mod config;
mod draw;
mod dry_run;
mod error;
mod evaluate;
mod event;
mod groups;
mod interval;
mod job;
mod log;
mod lora;
mod model;
mod optimizer;
mod peak;
mod precision;
mod prepare;
mod programs;
mod readings;
mod results;
mod run;
mod save;
mod schedule;
mod state;
mod step;
mod texts;
mod torus;

pub use accelerator::{Accelerator, AcceleratorConfig, BatchArrays, GroupedOptimizer, Prepare, PrepareError};
pub use causal_lm::CausalLm;
pub use config::{
    Clipping, Curve, EvaluationConfig, IntervalStrategy, LoggingConfig, LossDenominator, ModelSource,
    ReportTo, ScheduleConfig, ScheduleKind, ShardingConfig, StableDecay, TrainConfig, Warmup,
};
pub use dry_run::{DryRun, DryRunStage, MemoryShare};
pub use error::{TrainError, TrainErrorKind};
pub use event::{Event, Observer, Phase, Split, StepProgress, StopFlag, TrainStart};
pub use groups::{Group, GroupConfig, GroupError, GroupRule, ParameterGroups};
pub use job::Job;
pub use log::{EndRecord, EvaluationRecord, LogRecord, TrainRecord};
pub use lora::LoraSource;
pub use model::{BatchInput, Model, ModelLoss};
pub use optimizer::{Adafactor, AdamW, Held, Lion, Momentum, Optimizer, Sgd, StateInfo, Update, Updated};
pub use precision::{PrecisionConfig, PrecisionError};
pub use prepare::{model_modules, prepare, prepare_unsaved};
pub use results::{EvaluationResults, RunResults, TrainResults};
pub use schedule::Schedule;
pub use state::{TrainState, WeightSource};
pub use step::{
    EvalStep, PendingLoss, PendingMetrics, StateLayout, StateSlot, StepConfig, StepReading, TrainStep,
};
