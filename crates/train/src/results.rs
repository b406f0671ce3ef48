use serde::Serialize;

use crate::LogRecord;
use crate::log::number;

/// Figures of a whole run, under the names of the Hugging Face Trainer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TrainResults {
    /// Passes over the data.
    pub epoch: f64,
    /// Estimate: 6 × parameters outside the embeddings × tokens.
    pub total_flos: f64,
    /// Mean over all steps.
    #[serde(serialize_with = "number")]
    pub train_loss: f64,
    /// Seconds, without preparation, compilation and evaluations.
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
    #[serde(serialize_with = "number")]
    pub first_loss: f64,
    /// Loss of the last step.
    #[serde(serialize_with = "number")]
    pub last_loss: f64,
    /// Steps that were taken.
    #[serde(skip)]
    pub steps: usize,
}

/// Figures of an evaluation, under the names of the Hugging Face Trainer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EvaluationResults {
    /// Passes over the training data before it; none in a run that does not train.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub epoch: Option<f64>,
    /// Mean loss of all tokens that are predicted, each counted once, however they are batched and spread.
    #[serde(serialize_with = "number")]
    pub eval_loss: f64,
    /// Seconds, without compilation.
    pub eval_runtime: f64,
    /// Examples.
    pub eval_samples: usize,
    /// Examples per second.
    pub eval_samples_per_second: f64,
    /// Batches per second.
    pub eval_steps_per_second: f64,
    /// e to the power of the loss; infinite where that is too large for a number.
    #[serde(serialize_with = "number")]
    pub perplexity: f64,
}

/// Figures of what a run was told to do.
#[derive(Clone, Debug, PartialEq)]
pub struct RunResults {
    /// Training, unless the run only evaluated.
    pub train: Option<TrainResults>,
    /// The last evaluation, if there was one.
    pub eval: Option<EvaluationResults>,
}

/// `trainer_state.json`: where a run stands, and its log.
#[derive(Serialize)]
pub(crate) struct TrainerState {
    /// Nothing is kept of evaluations but their records: there is no best of them.
    pub(crate) best_metric: (),
    pub(crate) best_model_checkpoint: (),
    pub(crate) epoch: f64,
    pub(crate) eval_steps: Option<usize>,
    pub(crate) global_step: usize,
    pub(crate) log_history: Vec<LogRecord>,
    pub(crate) logging_steps: Option<usize>,
    pub(crate) max_steps: usize,
    pub(crate) num_train_epochs: usize,
    pub(crate) total_flos: f64,
    pub(crate) train_batch_size: usize,
}

/// Rounded to so many decimal places, as the Trainer's records are.
pub(crate) fn rounded(value: f64, places: i32) -> f64 {
    let scale = 10f64.powi(places);
    let scaled = (value * scale).round() / scale;
    if scaled.is_finite() { scaled } else { value }
}
