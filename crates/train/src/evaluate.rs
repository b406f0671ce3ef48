//! Evaluation: the mean loss over all tokens of some data.

use std::time::Instant;

use shardwright_data::Batches;
use shardwright_runtime::{Runtime, ShardedArray};

use crate::results::rounded;
use crate::{EvalStep, EvaluationResults, PendingLoss, StopFlag, TrainError};

/// A compiled evaluation and the data that it is over.
pub(crate) struct Evaluator<'a> {
    pub(crate) runtime: &'a Runtime,
    pub(crate) step: EvalStep,
    /// Each block once and in order; what fills up the last batch counts nothing.
    pub(crate) batches: Batches,
}

/// Summed loss, and the number of tokens that were predicted.
#[derive(Default)]
struct Total {
    loss: f64,
    tokens: u64,
}

impl Evaluator<'_> {
    /// The loss of a model with these parameters; `None` if the run was asked to stop meanwhile.
    pub(crate) fn evaluate(
        &self,
        parameters: &[ShardedArray],
        epoch: Option<f64>,
        stop: &StopFlag,
    ) -> Result<Option<EvaluationResults>, TrainError> {
        let _span = tracing::debug_span!("evaluate").entered();
        let start = Instant::now();
        let steps = self.batches.steps_per_epoch();
        let mut total = Total::default();
        // One batch is read while the next one runs.
        let mut under_way: Option<PendingLoss> = None;
        for batch in self.batches.prefetch(0..steps)? {
            if stop.is_requested() {
                return Ok(None);
            }
            let batch = batch?;
            let started = self.step.run(self.runtime, parameters, &[&batch.input_ids, &batch.labels])?;
            if let Some(before) = under_way.replace(started) {
                total.add(&before)?;
            }
        }
        if let Some(last) = under_way {
            total.add(&last)?;
        }
        let (seconds, samples) = (start.elapsed().as_secs_f64(), self.batches.blocks().num_blocks());
        Ok(Some(results(epoch, total.loss / total.tokens as f64, seconds, samples, steps)))
    }
}

impl Total {
    fn add(&mut self, batch: &PendingLoss) -> Result<(), TrainError> {
        let (loss, tokens) = batch.read()?;
        self.loss += loss;
        self.tokens += tokens;
        Ok(())
    }
}

/// The figures, rounded as the Trainer's are.
fn results(epoch: Option<f64>, loss: f64, seconds: f64, samples: usize, steps: u64) -> EvaluationResults {
    let rate = |amount: f64| if seconds > 0.0 { rounded(amount / seconds, 3) } else { 0.0 };
    EvaluationResults {
        epoch,
        eval_loss: loss,
        eval_runtime: rounded(seconds, 4),
        eval_samples: samples,
        eval_samples_per_second: rate(samples as f64),
        eval_steps_per_second: rate(steps as f64),
        perplexity: loss.exp(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_perplexity_that_no_number_holds_is_infinite() {
        let infinite = results(None, 1000.0, 2.0, 13, 4);
        assert_eq!(infinite.perplexity, f64::INFINITY);
        let text = serde_json::to_string(&infinite).unwrap();
        assert_eq!(
            text,
            r#"{"eval_loss":1000.0,"eval_runtime":2.0,"eval_samples":13,"eval_samples_per_second":6.5,"eval_steps_per_second":2.0,"perplexity":"inf"}"#
        );
    }
}
