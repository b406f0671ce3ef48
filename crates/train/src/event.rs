//! What a run tells while it goes on, and how it is told to stop.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use shardwright_mesh::Mesh;
use shardwright_partition::{CollectiveSummary, ShardingPlan};

use crate::TrainResults;

/// Is told what a run does. The library prints nothing itself.
pub trait Observer {
    /// Something happened.
    fn event(&mut self, event: Event<'_>);
}

/// What happens in a run, in this order.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// Something that a user may want to know: a default that was chosen, a key without effect.
    Notice(&'a str),
    /// A stretch of work begins that may take a while.
    Phase(Phase),
    /// The text was read and cut into blocks.
    Data {
        /// Tokens of all text.
        tokens: usize,
        /// Examples of equal length.
        blocks: usize,
        /// Tokens of one example.
        block_size: usize,
        /// Tokens that did not fill a block.
        dropped_tokens: usize,
        /// Size of the vocabulary.
        vocab_size: usize,
    },
    /// The model is known, and where its parts will lie.
    Plan {
        /// Numbers that the model holds; tied ones count once.
        parameters: usize,
        /// The devices.
        mesh: &'a Mesh,
        /// Where each argument of the train step lies.
        plan: &'a ShardingPlan,
        /// Units that are wrapped, and whether they are rematerialised.
        wrapped_units: usize,
        /// Whether wrapped units are rematerialised.
        remat: bool,
    },
    /// The train step was compiled.
    Compiled {
        /// How long that took.
        seconds: f64,
        /// What it does between devices, where the plugin tells.
        collectives: Option<&'a CollectiveSummary>,
        /// Bytes that one device needs at most while it runs, where the plugin tells: arguments, outputs and
        /// temporaries, less what they share.
        bytes_per_device: Option<u64>,
    },
    /// Training begins.
    Start {
        /// Steps to be taken.
        steps: usize,
        /// Examples of one step on one device.
        per_device_batch_size: usize,
        /// Examples of one step on all devices.
        global_batch_size: usize,
        /// Tokens of one example.
        block_size: usize,
    },
    /// A step was taken.
    Step(StepMetrics),
    /// Training is over and everything is written.
    Finished {
        /// Figures of the whole run.
        results: &'a TrainResults,
        /// Where everything was written.
        output_dir: &'a Path,
    },
}

/// Stretches of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Phase {
    /// Reads the text and trains or loads the tokenizer.
    Tokenizer,
    /// Turns the text into blocks of tokens.
    Tokenize,
    /// Makes or loads the weights.
    Weights,
    /// Compiles the train step.
    Compile,
    /// Writes the model.
    Save,
}

/// Figures of one step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepMetrics {
    /// Steps that were taken, this one included.
    pub step: usize,
    /// Passes over the data so far.
    pub epoch: f64,
    /// Loss of the batch, before the update.
    pub loss: f64,
    /// Global L2 norm of the gradients, before clipping.
    pub grad_norm: f64,
    /// Learning rate of the update.
    pub learning_rate: f64,
}

/// Asks a run to stop, from a signal handler or another thread.
///
/// A run looks between two steps and ends with [`TrainError::Interrupted`](crate::TrainError::Interrupted). Whoever
/// cannot wait for that may end the process while nothing is being [written](StopFlag::is_writing).
#[derive(Clone, Debug, Default)]
pub struct StopFlag {
    state: Arc<StopState>,
}

#[derive(Debug, Default)]
struct StopState {
    requested: AtomicBool,
    writing: AtomicUsize,
}

/// Holds [`StopFlag::is_writing`] true while it lives.
pub(crate) struct Writing(StopFlag);

impl StopFlag {
    /// A flag that nobody has raised.
    pub fn new() -> StopFlag {
        StopFlag::default()
    }

    /// Asks the run to stop.
    pub fn request(&self) {
        self.state.requested.store(true, Ordering::SeqCst);
    }

    /// Whether the run was asked to stop.
    pub fn is_requested(&self) -> bool {
        self.state.requested.load(Ordering::SeqCst)
    }

    /// Whether files are being written that an abrupt end would leave half done.
    pub fn is_writing(&self) -> bool {
        self.state.writing.load(Ordering::SeqCst) > 0
    }

    pub(crate) fn writing(&self) -> Writing {
        self.state.writing.fetch_add(1, Ordering::SeqCst);
        Writing(self.clone())
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        self.0.state.writing.fetch_sub(1, Ordering::SeqCst);
    }
}

impl std::fmt::Display for Phase {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Phase::Tokenizer => "reading the text",
            Phase::Tokenize => "tokenizing",
            Phase::Weights => "making the weights",
            Phase::Compile => "compiling the train step",
            Phase::Save => "saving the model",
        })
    }
}
