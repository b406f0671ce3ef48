//! What a run notes down while it goes on: its log, in memory for `trainer_state.json`, and in a folder line by line.

mod figure;
mod folder;
mod tensorboard;

use serde::{Serialize, Serializer};

use crate::results::rounded;
use crate::{EvaluationResults, TrainError, TrainResults};

pub(crate) use folder::{LogFolder, run_folder_name};

/// One record of the log, under the names of the Hugging Face Trainer.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum LogRecord {
    /// Steps that were taken.
    Train(TrainRecord),
    /// An evaluation.
    Evaluation(EvaluationRecord),
    /// The end of training: figures of the whole run.
    End(EndRecord),
}

/// A record of the steps since the one before.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TrainRecord {
    /// Passes over the data so far, rounded to two places.
    pub epoch: f64,
    /// Norm of the gradients of the last step.
    #[serde(serialize_with = "number")]
    pub grad_norm: f64,
    /// Learning rate of the last step.
    pub learning_rate: f64,
    /// Mean loss of the steps since the last record, rounded to four places.
    #[serde(serialize_with = "number")]
    pub loss: f64,
    /// Steps that were taken.
    pub step: usize,
}

/// A record of an evaluation.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EvaluationRecord {
    /// Passes over the training data so far, rounded to two places.
    pub epoch: f64,
    /// Mean loss of all tokens that are predicted.
    #[serde(serialize_with = "number")]
    pub eval_loss: f64,
    /// Seconds.
    pub eval_runtime: f64,
    /// Examples per second.
    pub eval_samples_per_second: f64,
    /// Batches per second.
    pub eval_steps_per_second: f64,
    /// Training steps that were taken.
    pub step: usize,
}

/// The last record of training.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EndRecord {
    /// Figures of the whole run.
    #[serde(flatten)]
    pub results: TrainResults,
    /// Steps that were taken.
    pub step: usize,
}

/// A number that JSON may have no word for: those that are not finite are written as text, `"inf"`, `"-inf"` or `"NaN"`,
/// which Python's `float` and Rust's `parse` read.
pub(crate) fn number<S: Serializer>(number: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    match number.is_finite() {
        true => serializer.serialize_f64(*number),
        false => serializer.serialize_str(&number.to_string()),
    }
}

impl LogRecord {
    /// The training step that it was noted down at.
    pub fn step(&self) -> usize {
        match self {
            LogRecord::Train(record) => record.step,
            LogRecord::Evaluation(record) => record.step,
            LogRecord::End(record) => record.step,
        }
    }
}

/// The records of a run so far.
pub(crate) struct RunLog {
    records: Vec<LogRecord>,
    window: Window,
    /// Where records are also written, as they are made.
    folder: Option<LogFolder>,
}

/// The steps since the last record.
struct Window {
    /// Whether a loss that is no number counts as the mean of those before it in the window.
    filter: bool,
    loss: f64,
    steps: usize,
    grad_norm: f64,
}

impl RunLog {
    /// An empty log. `filter` is the Trainer's `logging_nan_inf_filter`.
    pub(crate) fn new(filter: bool, folder: Option<LogFolder>) -> RunLog {
        let window = Window { filter, loss: 0.0, steps: 0, grad_norm: f64::NAN };
        RunLog { records: Vec::new(), window, folder }
    }

    /// All records, in the order in which they were made.
    pub(crate) fn records(&self) -> &[LogRecord] {
        &self.records
    }

    /// A step was read; what it counts for in means of losses.
    pub(crate) fn add_step(&mut self, loss: f64, grad_norm: f64) -> f64 {
        self.window.add(loss, grad_norm)
    }

    /// Notes down the steps since the last record, of which this is the last. Without any there is nothing to note.
    pub(crate) fn note_steps(
        &mut self,
        step: usize,
        epoch: f64,
        learning_rate: f64,
    ) -> Result<Option<&LogRecord>, TrainError> {
        let Some((loss, grad_norm)) = self.window.close() else { return Ok(None) };
        let (epoch, loss) = (rounded(epoch, 2), rounded(loss, 4));
        self.note(LogRecord::Train(TrainRecord { epoch, grad_norm, learning_rate, loss, step })).map(Some)
    }

    /// Notes down an evaluation.
    pub(crate) fn note_evaluation(
        &mut self,
        step: usize,
        epoch: f64,
        results: &EvaluationResults,
    ) -> Result<&LogRecord, TrainError> {
        self.note(LogRecord::Evaluation(EvaluationRecord {
            epoch: rounded(epoch, 2),
            eval_loss: results.eval_loss,
            eval_runtime: results.eval_runtime,
            eval_samples_per_second: results.eval_samples_per_second,
            eval_steps_per_second: results.eval_steps_per_second,
            step,
        }))
    }

    /// Notes down the end of training.
    pub(crate) fn note_end(&mut self, results: &TrainResults) -> Result<(), TrainError> {
        let record = EndRecord { results: results.clone(), step: results.steps };
        self.note(LogRecord::End(record)).map(drop)
    }

    /// Draws the losses, where there are some and a folder is kept.
    pub(crate) fn draw(&self) -> Result<(), TrainError> {
        self.folder.as_ref().map_or(Ok(()), |folder| folder.draw(&self.records))
    }

    fn note(&mut self, record: LogRecord) -> Result<&LogRecord, TrainError> {
        if let Some(folder) = &mut self.folder {
            folder.write(&record)?;
        }
        self.records.push(record);
        Ok(self.records.last().expect("it was just put there"))
    }
}

impl Window {
    fn add(&mut self, loss: f64, grad_norm: f64) -> f64 {
        // As the Trainer does: what has come so far, over the steps with this one.
        let counted = match self.filter && !loss.is_finite() {
            true => self.loss / (self.steps + 1) as f64,
            false => loss,
        };
        self.loss += counted;
        self.steps += 1;
        self.grad_norm = grad_norm;
        counted
    }

    /// Mean loss and last gradient norm, if there were steps; the next window is empty.
    fn close(&mut self) -> Option<(f64, f64)> {
        let steps = std::mem::take(&mut self.steps);
        let loss = std::mem::take(&mut self.loss);
        (steps > 0).then(|| (loss / steps as f64, self.grad_norm))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn losses(filter: bool, losses: &[f64]) -> f64 {
        let mut log = RunLog::new(filter, None);
        for loss in losses {
            log.add_step(*loss, 1.0);
        }
        match log.note_steps(losses.len(), 0.126, 0.5).unwrap().unwrap() {
            LogRecord::Train(record) => record.loss,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_record_is_the_mean_since_the_one_before() {
        let mut log = RunLog::new(true, None);
        assert!(log.note_steps(0, 0.0, 0.5).unwrap().is_none(), "no steps, no record");
        for (loss, grad_norm) in [(4.0, 1.0), (3.0, 2.0), (1.000_06, 3.0)] {
            log.add_step(loss, grad_norm);
        }
        let record = log.note_steps(3, 0.126, 0.5).unwrap().unwrap();
        let text = serde_json::to_string(record).unwrap();
        assert_eq!(text, r#"{"epoch":0.13,"grad_norm":3.0,"learning_rate":0.5,"loss":2.6667,"step":3}"#);
        log.add_step(7.0, 1.0);
        let record = serde_json::to_value(log.note_steps(4, 0.2, 0.5).unwrap().unwrap()).unwrap();
        assert_eq!(record["loss"], 7.0);
    }

    #[test]
    fn losses_that_are_no_numbers_are_filtered_or_shown() {
        // (4 + 2 + 6/3) / 3: what has come so far, over the steps with this one.
        assert_eq!(losses(true, &[4.0, 2.0, f64::NAN]), 2.6667);
        assert_eq!(losses(true, &[f64::INFINITY]), 0.0);
        assert!(losses(false, &[4.0, f64::NAN]).is_nan());
        let record =
            TrainRecord { epoch: 0.0, grad_norm: f64::NAN, learning_rate: 0.0, loss: f64::INFINITY, step: 1 };
        let text = serde_json::to_string(&record).unwrap();
        assert_eq!(text, r#"{"epoch":0.0,"grad_norm":"NaN","learning_rate":0.0,"loss":"inf","step":1}"#);
    }
}
