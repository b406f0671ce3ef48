//! What a run tells while it goes on, and how it is told to stop.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::thread;
use std::time::Duration;

use shardwright_mesh::Mesh;
use shardwright_partition::{CollectiveSummary, ShardingPlan};

use crate::{EvaluationResults, LogRecord, TrainResults};

/// Is told what a run does. The library prints nothing itself.
pub trait Observer {
    /// Something happened.
    fn event(&mut self, event: Event<'_>);

    /// How often [`StepProgress::loss`] is to be a new one, beside the records of the log; each time takes a copy from a
    /// device. `None` for never.
    fn wants_loss_every(&self) -> Option<Duration> {
        None
    }
}

/// What happens in a run, in this order.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// Something that a user may want to know: a default that was chosen, a key without effect.
    Notice(&'a str),
    /// A stretch of work begins that may take a while.
    Phase(Phase),
    /// A part of the text was tokenized.
    Tokenizing {
        /// Bytes of the files so far.
        bytes: u64,
        /// Bytes of all files.
        total: u64,
    },
    /// Text was read and cut into blocks.
    Data {
        /// What it is for.
        split: Split,
        /// Tokens of the text that is used.
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
        /// How many of them are trained.
        trained: usize,
        /// The devices.
        mesh: &'a Mesh,
        /// Where each argument of the train step lies.
        plan: &'a ShardingPlan,
        /// How many units are wrapped.
        wrapped_units: usize,
        /// Whether wrapped units are rematerialised.
        remat: bool,
    },
    /// A step was compiled, which happens once to each in a run.
    Compiled {
        /// What it is for.
        split: Split,
        /// How long that took.
        seconds: f64,
        /// Whether it was kept from an earlier run, and only loaded.
        is_kept: bool,
        /// What it does between devices, where the plugin tells.
        collectives: Option<&'a CollectiveSummary>,
        /// Bytes that one device needs at most while it runs, where the plugin tells: arguments, outputs and
        /// temporaries, less what they share.
        bytes_per_device: Option<u64>,
    },
    /// Training begins.
    Start(&'a TrainStart),
    /// A step was started. Few are under way at a time.
    Step(StepProgress),
    /// A record was added to the log.
    Logged(&'a LogRecord),
    /// Training is over and everything of it is written.
    Trained {
        /// Figures of the whole run.
        results: &'a TrainResults,
        /// Where everything was written.
        output_dir: &'a Path,
    },
    /// The last evaluation is over and its figures are written.
    Evaluated {
        /// The figures.
        results: &'a EvaluationResults,
        /// Where they were written.
        output_dir: &'a Path,
    },
}

/// What data or a program are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Split {
    /// Training.
    Train,
    /// Evaluation.
    Eval,
}

/// What a training is going to be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TrainStart {
    /// Steps to be taken.
    pub steps: usize,
    /// Examples in the data.
    pub examples: usize,
    /// Passes over the data.
    pub epochs: f64,
    /// Examples that one device sees at a time.
    pub per_device_batch_size: usize,
    /// Batches that make one step.
    pub accumulation_steps: usize,
    /// Examples of one step on all devices.
    pub global_batch_size: usize,
    /// Tokens of one example.
    pub block_size: usize,
    /// Numbers that are trained; tied ones count once.
    pub trainable_parameters: usize,
    /// Floating-point operations of training on one token, as [`TrainResults::total_flos`] counts them.
    pub flops_per_token: f64,
    /// Floating-point operations that all devices together can do in a second in bf16, where that is known.
    pub peak_flops: Option<f64>,
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
    /// Compiles the steps.
    Compile,
    /// Computes the loss on the evaluation data.
    Evaluate,
    /// Writes the model.
    Save,
}

/// How far training is. Devices are a few steps behind.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepProgress {
    /// Steps that were started, this one included.
    pub step: usize,
    /// Steps that the devices are known to be through with.
    pub finished: usize,
    /// Passes over the data after it.
    pub epoch: f64,
    /// Learning rate of its update.
    pub learning_rate: f64,
    /// Seconds of training so far, without evaluations: those that the finished steps took, and a part of the next.
    pub seconds: f64,
    /// The last loss that was read from a device, which may be of an earlier step.
    pub loss: Option<f64>,
}

/// Asks a run to stop, from a signal handler or another thread. Each run has one of its own.
///
/// A run looks between two steps and ends with [`TrainError::Interrupted`](crate::TrainError::Interrupted). Whoever
/// cannot wait for that ends the process, which [`claim_end`](StopFlag::claim_end) allows while no files are being
/// written. A run and whoever ends the process exclude each other:
///
/// ```text
/// running ── the run writes files ──► writing ──► running, or done if a stop was asked for
/// running ── claim_end ──► ending
/// running ── finish ──► done
/// ```
#[derive(Clone, Debug, Default)]
pub struct StopFlag {
    state: Arc<StopState>,
}

#[derive(Debug, Default)]
struct StopState {
    requested: AtomicBool,
    stage: AtomicU8,
}

/// No files are being written, so the process may be ended.
const RUNNING: u8 = 0;
/// Files are being written that an abrupt end would leave half done.
const WRITING: u8 = 1;
/// A thread is ending the process.
const ENDING: u8 = 2;
/// The run is over, and the process ends by itself.
const DONE: u8 = 3;

/// How often a thread that wants to end the process looks whether files are still being written.
const POLL: Duration = Duration::from_millis(20);

/// Files are being written while it lives.
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

    /// Claims the right to end the process, after waiting for files that are being written.
    ///
    /// With `true` the caller has to end the process now: threads that come to write files, or to the end of the run,
    /// stop there for good. With `false` the process ends without the caller, because the run is over or because
    /// another thread has claimed its end.
    #[must_use]
    pub fn claim_end(&self) -> bool {
        loop {
            match self.state.stage.compare_exchange(RUNNING, ENDING, Ordering::SeqCst, Ordering::SeqCst) {
                Ok(_) => return true,
                Err(WRITING) => thread::sleep(POLL),
                Err(_) => return false,
            }
        }
    }

    /// Tells that the run is over, with whatever result, and that the process ends by itself. Does not return where
    /// another thread has claimed its end.
    pub fn finish(&self) {
        self.enter(DONE);
    }

    /// Tells that files are going to be written. Does not return where another thread has claimed the end of the process.
    pub(crate) fn writing(&self) -> Writing {
        self.enter(WRITING);
        Writing(self.clone())
    }

    fn enter(&self, stage: u8) {
        let unless_ending = |current| (current != ENDING).then_some(stage);
        if self.state.stage.fetch_update(Ordering::SeqCst, Ordering::SeqCst, unless_ending).is_err() {
            loop {
                thread::park();
            }
        }
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        // A run that was asked to stop ends now, and its result stands: whoever waited for the files to be written must
        // not come between the last file and the end of the run.
        let next = if self.0.is_requested() { DONE } else { RUNNING };
        self.0.state.stage.store(next, Ordering::SeqCst);
    }
}

impl std::fmt::Display for Phase {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Phase::Tokenizer => "reading the text",
            Phase::Tokenize => "tokenizing",
            Phase::Weights => "making the weights",
            Phase::Compile => "compiling",
            Phase::Evaluate => "evaluating",
            Phase::Save => "saving the model",
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{RecvTimeoutError, channel};

    use super::*;

    /// Whether a call on another thread returns. One that does not can only be waited for so long.
    fn returns(flag: &StopFlag, call: fn(&StopFlag)) -> bool {
        let (sender, receiver) = channel();
        let flag = flag.clone();
        thread::spawn(move || {
            call(&flag);
            let _ = sender.send(());
        });
        receiver.recv_timeout(3 * POLL) != Err(RecvTimeoutError::Timeout)
    }

    fn write(flag: &StopFlag) {
        drop(flag.writing());
    }

    fn claim(flag: &StopFlag) {
        let _ = flag.claim_end();
    }

    #[test]
    fn the_end_is_claimed_once() {
        let flag = StopFlag::new();
        assert_eq!([flag.claim_end(), flag.claim_end()], [true, false]);
    }

    #[test]
    fn once_the_end_is_claimed_nothing_is_written_and_no_run_is_over() {
        let flag = StopFlag::new();
        assert!(flag.claim_end());
        assert!(!returns(&flag, write));
        assert!(!returns(&flag, StopFlag::finish));
    }

    #[test]
    fn the_end_waits_for_files_that_are_written() {
        let flag = StopFlag::new();
        let writing = flag.writing();
        assert!(!returns(&flag, claim));
        drop(writing);
    }

    #[test]
    fn a_run_that_was_asked_to_stop_while_it_saved_ends_by_itself() {
        let flag = StopFlag::new();
        let writing = flag.writing();
        flag.request();
        drop(writing);
        assert!(!flag.claim_end());
    }

    #[test]
    fn a_run_that_goes_on_after_saving_can_be_ended() {
        let flag = StopFlag::new();
        write(&flag);
        write(&flag);
        assert!(flag.claim_end());
    }

    #[test]
    fn after_the_run_nobody_ends_the_process() {
        let flag = StopFlag::new();
        flag.request();
        flag.finish();
        assert!(!flag.claim_end());
    }
}
