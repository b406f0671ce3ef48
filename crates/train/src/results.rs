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
    pub(crate) log_history: Vec<serde_json::Value>,
    pub(crate) logging_steps: Option<usize>,
    pub(crate) max_steps: usize,
    pub(crate) num_train_epochs: usize,
    pub(crate) train_batch_size: usize,
}

impl TrainResults {
    /// The records of a log, with these figures as the last one.
    pub(crate) fn history(&self, log: &[LogRecord]) -> serde_json::Result<Vec<serde_json::Value>> {
        let mut last = serde_json::to_value(self)?;
        if let Some(last) = last.as_object_mut() {
            last.insert("step".into(), self.steps.into());
        }
        let mut history = log.iter().map(serde_json::to_value).collect::<Result<Vec<_>, _>>()?;
        history.push(last);
        Ok(history)
    }
}

/// Rounded to so many decimal places, as the Trainer's records are.
pub(crate) fn rounded(value: f64, places: i32) -> f64 {
    let scale = 10f64.powi(places);
    let scaled = (value * scale).round() / scale;
    if scaled.is_finite() { scaled } else { value }
}
