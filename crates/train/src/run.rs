//! The training loop, and what it notes down.

use std::time::Instant;

use shardwright_data::Batches;
use shardwright_model::{ParameterInfo, ParameterKind};
use shardwright_runtime::Runtime;

use crate::results::{LogEntry, TrainerState, rounded};
use crate::{
    Event, IntervalStrategy, LogRecord, Observer, PendingMetrics, Schedule, StepMetrics, StepReading,
    StopFlag, TrainConfig, TrainError, TrainResults, TrainState, TrainStep,
};

/// A loop over batches.
pub(crate) struct Run<'a> {
    config: &'a TrainConfig,
    batches: &'a Batches,
    step: &'a TrainStep,
    schedule: Schedule,
    total_steps: usize,
    losses: Vec<f64>,
    /// Real ones: what fills up a ragged batch does not count.
    examples: usize,
    is_finite: bool,
    log: Vec<LogRecord>,
    logged: usize,
    seconds: f64,
}

/// A step that was started and not yet read.
struct Started {
    number: usize,
    learning_rate: f64,
    metrics: PendingMetrics,
}

impl<'a> Run<'a> {
    pub(crate) fn new(config: &'a TrainConfig, batches: &'a Batches, step: &'a TrainStep) -> Run<'a> {
        let per_epoch = batches.steps_per_epoch() as f64;
        let by_epochs = || (config.num_train_epochs * per_epoch).ceil() as usize;
        let total_steps = config.max_steps.unwrap_or_else(by_epochs);
        let schedule = Schedule::new(&config.schedule, total_steps);
        Run {
            config,
            batches,
            step,
            schedule,
            total_steps,
            losses: Vec::with_capacity(total_steps.min(1 << 20)),
            examples: 0,
            is_finite: true,
            log: Vec::new(),
            logged: 0,
            seconds: 0.0,
        }
    }

    /// Steps to be taken.
    pub(crate) fn total_steps(&self) -> usize {
        self.total_steps
    }

    /// Takes all steps.
    pub(crate) fn train(
        &mut self,
        runtime: &Runtime,
        mut state: TrainState,
        observer: &mut dyn Observer,
        stop: &StopFlag,
    ) -> Result<TrainState, TrainError> {
        let start = Instant::now();
        let mut batches = self.batches.prefetch(0..self.total_steps as u64)?;
        // One step is read while the next one runs.
        let mut previous: Option<Started> = None;
        for number in 0..self.total_steps {
            if stop.is_requested() {
                return Err(TrainError::Interrupted { steps: number, total: self.total_steps });
            }
            let _span = tracing::debug_span!("step", number = number + 1).entered();
            let Some(batch) = tracing::debug_span!("next batch").in_scope(|| batches.next()) else { break };
            let batch = batch?;
            self.examples += batch.block_indices.len();
            let factor = self.schedule.factor(number);
            let learning_rate = self.config.groups.learning_rate * factor;
            let arrays = [&batch.input_ids, &batch.labels];
            let (next, metrics) = self.step.run(runtime, state, &arrays, factor)?;
            state = next;
            if let Some(previous) = previous.replace(Started { number, learning_rate, metrics }) {
                self.note(&previous, observer)?;
            }
        }
        if let Some(last) = previous {
            self.note(&last, observer)?;
        }
        self.seconds = start.elapsed().as_secs_f64();
        Ok(state)
    }

    fn note(&mut self, started: &Started, observer: &mut dyn Observer) -> Result<(), TrainError> {
        let step = started.number + 1;
        let _span = tracing::debug_span!("read metrics", of_step = step).entered();
        let StepReading { loss, grad_norm } = started.metrics.read()?;
        let (epoch, learning_rate) = (self.epoch(step), started.learning_rate);
        self.losses.push(loss);
        if self.is_finite && !(loss.is_finite() && grad_norm.is_finite()) {
            self.is_finite = false;
            let notice = format!(
                "loss {loss} and gradient norm {grad_norm} at step {step}: from here on the numbers are lost"
            );
            observer.event(Event::Notice(&notice));
        }
        if self.logging_steps().is_some_and(|every| step.is_multiple_of(every)) {
            let since = &self.losses[self.logged..];
            let mean = since.iter().sum::<f64>() / since.len() as f64;
            let (epoch, loss) = (rounded(epoch, 2), rounded(mean, 4));
            self.log.push(LogRecord { epoch, grad_norm, learning_rate, loss, step });
            self.logged = self.losses.len();
        }
        observer.event(Event::Step(StepMetrics { step, epoch, loss, grad_norm, learning_rate }));
        Ok(())
    }

    fn logging_steps(&self) -> Option<usize> {
        match self.config.logging.strategy {
            IntervalStrategy::No => None,
            IntervalStrategy::Steps(steps) => Some(steps),
            IntervalStrategy::Part(part) => Some(((part * self.total_steps as f64).ceil() as usize).max(1)),
            IntervalStrategy::Epoch => Some(self.batches.steps_per_epoch() as usize),
        }
    }

    fn epoch(&self, steps: usize) -> f64 {
        steps as f64 / self.batches.steps_per_epoch() as f64
    }

    /// The figures of the whole run.
    pub(crate) fn results(&self) -> TrainResults {
        let steps = self.losses.len();
        let tokens = (self.examples * self.batches.blocks().block_size()) as f64;
        let embedding = |p: &&ParameterInfo| p.kind != ParameterKind::Embedding;
        let outside: usize = self.step.parameters().iter().filter(embedding).map(|p| p.element_count()).sum();
        let rate = |amount: f64| if self.seconds > 0.0 { amount / self.seconds } else { 0.0 };
        TrainResults {
            epoch: self.epoch(steps),
            total_flos: 6.0 * outside as f64 * tokens,
            train_loss: self.losses.iter().sum::<f64>() / steps.max(1) as f64,
            train_runtime: self.seconds,
            train_samples: self.batches.blocks().num_blocks(),
            train_samples_per_second: rate(self.examples as f64),
            train_steps_per_second: rate(steps as f64),
            train_tokens_per_second: rate(tokens),
            first_loss: self.losses.first().copied().unwrap_or(f64::NAN),
            last_loss: self.losses.last().copied().unwrap_or(f64::NAN),
            steps,
        }
    }

    /// Where the run stands, and its log.
    pub(crate) fn trainer_state(&self, results: &TrainResults) -> TrainerState {
        TrainerState {
            epoch: results.epoch,
            global_step: results.steps,
            log_history: self.log.iter().cloned().map(LogEntry::Step).chain([results.into()]).collect(),
            logging_steps: self.logging_steps(),
            max_steps: self.total_steps,
            num_train_epochs: self.epoch(self.total_steps).ceil() as usize,
            train_batch_size: self.config.per_device_train_batch_size,
        }
    }
}
