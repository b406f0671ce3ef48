use std::path::PathBuf;

use shardwright_checkpoint::CheckpointError;
use shardwright_data::DataError;
use shardwright_graph::GraphError;
use shardwright_hlo::VerifyErrors;
use shardwright_hlo::compiled::CompiledError;
use shardwright_model::{ConfigError, LoraError, TensorError};
use shardwright_partition::{PlanError, ShardError, WrapError};
use shardwright_runtime::{RuntimeError, RuntimeErrorKind};
use thiserror::Error;

use crate::{GroupError, PrecisionError, PrepareError};

/// Why a run did not come to its end.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TrainError {
    /// A file or folder that cannot be read or written.
    #[error("cannot {action} {path}: {source}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// The output folder has files that would be mixed with the new ones.
    #[error(
        "the output folder {path} is not empty; choose another --output_dir, or pass --overwrite_output_dir"
    )]
    OutputNotEmpty {
        /// The folder.
        path: PathBuf,
    },
    /// The output folder of adapters is that of the model which they are for.
    #[error(
        "the output folder {path} is that of the model whose adapters are trained, which would be removed; choose another --output_dir"
    )]
    OutputIsBase {
        /// The folder.
        path: PathBuf,
    },
    /// The model's configuration.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Adapters of a model whose weights are nowhere.
    #[error(
        "adapters are for weights that are there, and those of {config} are new; give a folder of weights as the model"
    )]
    AdapterWithoutBase {
        /// The model's configuration.
        config: PathBuf,
    },
    /// The adapters' configuration.
    #[error(transparent)]
    Lora(#[from] LoraError),
    /// The text, the tokenizer, or what they make.
    #[error(transparent)]
    Data(#[from] DataError),
    /// The weights, or what was to be saved.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// The classes to wrap.
    #[error(transparent)]
    Wrap(#[from] WrapError),
    /// The parameter groups.
    #[error(transparent)]
    Groups(#[from] GroupError),
    /// The parts of a loop of one's own.
    #[error(transparent)]
    Prepare(#[from] PrepareError),
    /// The sharding plan.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// Dtypes that models are not trained in.
    #[error(transparent)]
    Precision(#[from] PrecisionError),
    /// A batch that cannot be cut into micro-batches.
    #[error(
        "a step of {examples} examples is not {micro_batches} micro-batches of equal parts for {shards} data shards: at least 1 micro-batch, and examples that divide by both numbers together"
    )]
    Accumulation {
        /// Examples of one step on all devices.
        examples: usize,
        /// Gradient accumulation steps.
        micro_batches: usize,
        /// Devices that see different examples.
        shards: usize,
    },
    /// A tensor axis that does not fit the model.
    #[error(transparent)]
    Tensor(#[from] TensorError),
    /// A batch of all devices that does not divide.
    #[error(
        "global_batch_size {global} does not divide into {shards} devices that split a batch, times {accumulated} batches accumulated; \
         make it a multiple of {}", .shards.saturating_mul(*.accumulated)
    )]
    GlobalBatch {
        /// Its examples.
        global: usize,
        /// Into how many parts the mesh splits a batch.
        shards: usize,
        /// How many batches make a step.
        accumulated: usize,
    },
    /// Fully sharded training in which nothing would be sharded.
    #[error(
        "none of the {parameters} parameters can be split over the {devices} devices of mesh axis {axis}; pass --fsdp no_shard to train without sharding"
    )]
    NothingSharded {
        /// How many parameters there are.
        parameters: usize,
        /// Size of the axis.
        devices: usize,
        /// The axis.
        axis: String,
    },
    /// The compiler made a program that gathers no parameters, though they are split.
    #[error(
        "the compiled train step gathers no parameters, though {split} of them are split over mesh {mesh}: this is not FSDP"
    )]
    NoGathers {
        /// How many parameters are split.
        split: usize,
        /// The mesh.
        mesh: String,
    },
    /// A model whose output table is said to be its input table, with a file that holds two different ones.
    #[error(
        "{path}: lm_head.weight differs from model.embed_tokens.weight, though config.json says tie_word_embeddings; set that to false to keep both"
    )]
    HeadNotTied {
        /// The folder of the weights.
        path: PathBuf,
    },
    /// The results of a run that came to its end could not be saved.
    #[error("saving the model: {0}")]
    Save(#[source] Box<TrainError>),
    /// The train step cannot be written.
    #[error("writing the train step: {0}")]
    Graph(#[from] GraphError),
    /// The train step is not a sound program.
    #[error(transparent)]
    Verify(#[from] VerifyErrors),
    /// The plan does not fit the train step.
    #[error(transparent)]
    Shard(#[from] ShardError),
    /// The plugin, its devices, or a program on them.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    /// What the compiler made cannot be read.
    #[error(transparent)]
    Compiled(#[from] CompiledError),
    /// A run that neither trains nor evaluates.
    #[error("the run neither trains nor evaluates; pass --do_train or --do_eval")]
    NothingToDo,
    /// A dry run of one that does not train.
    #[error("a dry run is of training, and this run only evaluates; pass --do_train")]
    NothingTrained,
    /// A loss or gradient that is not a finite number.
    #[error(
        "{what} is not finite at step {step} (loss {loss}, gradient norm {grad_norm}); nothing was saved; try a lower \
         --learning_rate, a longer --warmup_steps or a lower --max_grad_norm, or pass --nan_stop no to go on all the same"
    )]
    NotFinite {
        /// The first step at which it was not, from 1.
        step: usize,
        /// The first tensor that is not finite.
        what: String,
        /// The loss of the step.
        loss: f64,
        /// The norm of its gradients.
        grad_norm: f64,
    },
    /// The run was asked to stop while a model was evaluated that is trained and saved, or was not trained.
    #[error("interrupted during the evaluation, whose results are not saved")]
    EvaluationInterrupted,
    /// The run was asked to stop.
    #[error("interrupted after {steps} of {total} steps; nothing was saved")]
    Interrupted {
        /// Steps that were taken.
        steps: usize,
        /// Steps that were planned.
        total: usize,
    },
}

/// What is at fault when a run fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TrainErrorKind {
    /// Settings or files.
    Input,
    /// The plugin or its devices.
    Device,
    /// The run itself.
    Run,
    /// Nothing: it was asked to stop.
    Interrupted,
}

impl TrainError {
    /// What is at fault.
    pub fn kind(&self) -> TrainErrorKind {
        match self {
            TrainError::Io { .. }
            | TrainError::OutputNotEmpty { .. }
            | TrainError::OutputIsBase { .. }
            | TrainError::Config(_)
            | TrainError::AdapterWithoutBase { .. }
            | TrainError::Lora(_)
            | TrainError::Data(_)
            | TrainError::Checkpoint(_)
            | TrainError::Wrap(_)
            | TrainError::Groups(_)
            | TrainError::Prepare(_)
            | TrainError::HeadNotTied { .. }
            | TrainError::Plan(_)
            | TrainError::Tensor(_)
            | TrainError::GlobalBatch { .. }
            | TrainError::NothingToDo
            | TrainError::NothingTrained
            | TrainError::Precision(_)
            | TrainError::Accumulation { .. }
            | TrainError::NothingSharded { .. } => TrainErrorKind::Input,
            TrainError::Runtime(error) if error.kind() == RuntimeErrorKind::Mesh => TrainErrorKind::Input,
            TrainError::Runtime(error) if error.kind() == RuntimeErrorKind::CompilerDied => {
                TrainErrorKind::Run
            }
            TrainError::Runtime(_) => TrainErrorKind::Device,
            TrainError::Save(_)
            | TrainError::NoGathers { .. }
            | TrainError::NotFinite { .. }
            | TrainError::Graph(_)
            | TrainError::Verify(_)
            | TrainError::Shard(_)
            | TrainError::Compiled(_) => TrainErrorKind::Run,
            TrainError::Interrupted { .. } | TrainError::EvaluationInterrupted => TrainErrorKind::Interrupted,
        }
    }
}
