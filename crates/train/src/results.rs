use serde::Serialize;

/// Figures of a whole run, under the names of the Hugging Face Trainer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TrainResults {
    /// Passes over the data.
    pub epoch: f64,
    /// Estimate: 6 × parameters outside the embeddings × tokens.
    pub total_flos: f64,
    /// Mean over all steps.
    pub train_loss: f64,
    /// Seconds, without preparation and compilation.
    pub train_runtime: f64,
    /// Examples in the data.
    pub train_samples: usize,
    /// Examples that were seen, per second.
    pub train_samples_per_second: f64,
    /// Steps per second.
    pub train_steps_per_second: f64,
    /// Tokens that were seen, per second, on all devices.
    pub train_tokens_per_second: f64,
    /// Loss of the first step.
    pub first_loss: f64,
    /// Loss of the last step.
    pub last_loss: f64,
    /// Steps that were taken.
    #[serde(skip)]
    pub steps: usize,
}

/// One record of the log.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LogRecord {
    /// Passes over the data so far.
    pub epoch: f64,
    /// Norm of the gradients of the last step.
    pub grad_norm: f64,
    /// Learning rate of the last step.
    pub learning_rate: f64,
    /// Mean loss since the last record.
    pub loss: f64,
    /// Steps that were taken.
    pub step: usize,
}

/// `trainer_state.json`: where a run stands, and its log.
#[derive(Serialize)]
pub(crate) struct TrainerState {
    pub(crate) epoch: f64,
    pub(crate) global_step: usize,
    pub(crate) log_history: Vec<LogEntry>,
    pub(crate) logging_steps: Option<usize>,
    pub(crate) max_steps: usize,
    pub(crate) num_train_epochs: usize,
    pub(crate) train_batch_size: usize,
}

/// An entry of the log.
#[derive(Serialize)]
#[serde(untagged)]
pub(crate) enum LogEntry {
    Step(LogRecord),
    /// The last one: the figures of the whole run.
    End {
        #[serde(flatten)]
        results: TrainResults,
        step: usize,
    },
}

impl From<&TrainResults> for LogEntry {
    fn from(results: &TrainResults) -> Self {
        LogEntry::End { results: results.clone(), step: results.steps }
    }
}

/// Rounded to so many decimal places, as the Trainer's records are.
pub(crate) fn rounded(value: f64, places: i32) -> f64 {
    let scale = 10f64.powi(places);
    let scaled = (value * scale).round() / scale;
    if scaled.is_finite() { scaled } else { value }
}
