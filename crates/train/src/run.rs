//! The training loop: steps one after the other, and what is told and noted down between them.

use std::time::{Duration, Instant};

use shardwright_data::Batches;
use shardwright_model::{ParameterInfo, ParameterKind};
use shardwright_runtime::Runtime;

use crate::evaluate::Evaluator;
use crate::interval::{is_due, steps_between};
use crate::log::{LogFolder, RunLog};
use crate::programs::per_device;
use crate::readings::{MetricRows, Reading, Readings, Started};
use crate::results::TrainerState;
use crate::{
    EvaluationResults, Event, Observer, Schedule, StepProgress, StopFlag, TrainConfig, TrainError,
    TrainResults, TrainState, TrainStep,
};

/// What a run works with.
#[derive(Clone, Copy)]
pub(crate) struct Tools<'a> {
    pub(crate) runtime: &'a Runtime,
    pub(crate) config: &'a TrainConfig,
    pub(crate) batches: &'a Batches,
    pub(crate) step: &'a TrainStep,
    pub(crate) rows: &'a MetricRows,
    /// Where evaluations are asked for.
    pub(crate) evaluator: Option<&'a Evaluator<'a>>,
    pub(crate) stop: &'a StopFlag,
}

/// A loop over batches.
pub(crate) struct Run<'a> {
    tools: Tools<'a>,
    schedule: Schedule,
    total_steps: usize,
    readings: Readings<'a>,
    log: RunLog,
    /// The step whose record is written once the next one is under way, so that the devices do not wait for it.
    due: Option<usize>,
    losses: Losses,
    /// Real ones: what fills up a ragged batch does not count.
    examples: usize,
    clock: Clock,
    told: Instant,
}

/// The losses that were read.
#[derive(Default)]
struct Losses {
    steps: usize,
    sum: f64,
    first: Option<f64>,
    last: Option<Reading>,
    any_lost: bool,
}

/// Time that goes into training; evaluations stop it.
#[derive(Default)]
struct Clock {
    before: Duration,
    running: Option<Instant>,
}

impl<'a> Run<'a> {
    pub(crate) fn new(tools: Tools<'a>, folder: Option<LogFolder>) -> Run<'a> {
        let total_steps = total_steps(tools.config, tools.batches);
        Run {
            schedule: Schedule::new(&tools.config.schedule, total_steps),
            total_steps,
            readings: Readings::new(tools.rows),
            log: RunLog::new(tools.config.logging.nan_inf_filter, folder),
            due: None,
            losses: Losses::default(),
            examples: 0,
            clock: Clock::default(),
            told: Instant::now(),
            tools,
        }
    }

    /// Takes all steps.
    pub(crate) fn train(
        &mut self,
        mut state: TrainState,
        observer: &mut dyn Observer,
    ) -> Result<TrainState, TrainError> {
        let mut batches = self.tools.batches.prefetch(0..self.total_steps as u64)?;
        if self.tools.config.evaluation.on_start {
            self.evaluate(0, &state, observer)?;
        }
        self.clock.start();
        for number in 0..self.total_steps {
            self.check_stop(number)?;
            self.readings.wait_for_room()?;
            let _span = tracing::debug_span!("step", number = number + 1).entered();
            let Some(batch) = tracing::debug_span!("next batch").in_scope(|| batches.next()) else { break };
            let batch = batch?;
            let factor = self.schedule.factor(number);
            let arrays = [&batch.input_ids, &batch.labels];
            let (next, metrics) = self.tools.step.run(self.tools.runtime, state, &arrays, factor)?;
            state = next;
            self.write_due(observer)?;
            self.examples += batch.block_indices.len();
            let learning_rate = self.tools.config.groups.learning_rate * factor;
            self.readings.push(Started { step: number + 1, learning_rate, metrics });
            self.after_step(number + 1, learning_rate, &state, observer)?;
        }
        self.write_due(observer)?;
        self.read(self.readings.all(), observer)?;
        self.clock.stop();
        Ok(state)
    }

    /// What follows the start of a step.
    fn after_step(
        &mut self,
        step: usize,
        learning_rate: f64,
        state: &TrainState,
        observer: &mut dyn Observer,
    ) -> Result<(), TrainError> {
        let TrainConfig { logging, evaluation, .. } = self.tools.config;
        let (per_epoch, total) = (self.tools.batches.steps_per_epoch(), self.total_steps);
        if is_due(logging.strategy, step, per_epoch, total) || (logging.first_step && step == 1) {
            self.due = Some(step);
        }
        self.read(self.readings.overdue(), observer)?;
        self.refresh(observer)?;
        let (epoch, seconds) = (self.epoch(step), self.clock.seconds());
        let loss = self.losses.last.as_ref().map(|last| last.loss);
        let finished = self.losses.steps + self.readings.settled();
        observer.event(Event::Step(StepProgress { step, finished, epoch, learning_rate, seconds, loss }));
        // What is evaluated at the very end is evaluated there.
        if step < total && is_due(evaluation.strategy, step, per_epoch, total) {
            self.write_due(observer)?;
            self.evaluate(step, state, observer)?;
        }
        Ok(())
    }

    /// Reads what is over, if somebody watches and has not been told for a while.
    fn refresh(&mut self, observer: &mut dyn Observer) -> Result<(), TrainError> {
        let Some(period) = observer.wants_loss_every() else { return Ok(()) };
        if self.told.elapsed() >= period {
            self.told = Instant::now();
            self.read(self.readings.settled(), observer)?;
        }
        Ok(())
    }

    /// Writes the record that is due.
    fn write_due(&mut self, observer: &mut dyn Observer) -> Result<(), TrainError> {
        let Some(step) = self.due.take() else { return Ok(()) };
        self.read(self.readings.all(), observer)?;
        let epoch = self.epoch(step);
        let learning_rate = self.losses.last.as_ref().map_or(0.0, |last| last.started.learning_rate);
        if let Some(record) = self.log.note_steps(step, epoch, learning_rate)? {
            observer.event(Event::Logged(record));
        }
        Ok(())
    }

    /// Reads so many of the steps that were not read.
    fn read(&mut self, count: usize, observer: &mut dyn Observer) -> Result<(), TrainError> {
        if count == 0 {
            return Ok(());
        }
        let _span = tracing::debug_span!("read metrics", steps = count).entered();
        for reading in self.readings.read(count)? {
            self.check_finite(&reading, observer)?;
            self.losses.sum += self.log.add_step(reading.loss, reading.grad_norm);
            self.losses.steps += 1;
            self.losses.first.get_or_insert(reading.loss);
            self.losses.last = Some(reading);
        }
        Ok(())
    }

    /// Stops at the first numbers that are lost or, where that is not wanted, tells of them.
    fn check_finite(&mut self, reading: &Reading, observer: &mut dyn Observer) -> Result<(), TrainError> {
        let Reading { started, loss, grad_norm } = reading;
        if self.losses.any_lost || (loss.is_finite() && grad_norm.is_finite()) {
            return Ok(());
        }
        self.losses.any_lost = true;
        let (loss, grad_norm, step) = (*loss, *grad_norm, started.step);
        let what = started.metrics.first_bad(self.tools.step)?.unwrap_or_else(|| "the loss".to_owned());
        if self.tools.config.nan_stop {
            return Err(TrainError::NotFinite { step, what, loss, grad_norm });
        }
        let notice = format!(
            "{what} is not finite at step {step} (loss {loss}, gradient norm {grad_norm}): from here on the numbers are lost"
        );
        observer.event(Event::Notice(&notice));
        Ok(())
    }

    /// `None` where nobody asked for evaluations.
    fn evaluate(
        &mut self,
        step: usize,
        state: &TrainState,
        observer: &mut dyn Observer,
    ) -> Result<Option<EvaluationResults>, TrainError> {
        let Some(evaluator) = self.tools.evaluator else { return Ok(None) };
        self.read(self.readings.all(), observer)?;
        self.clock.stop();
        let epoch = self.epoch(step);
        let results = evaluator.evaluate(&state.parameters, Some(epoch), self.tools.stop)?;
        let Some(results) = results else {
            // What is evaluated at the end is saved by then.
            return Err(match step == self.total_steps {
                true => TrainError::EvaluationInterrupted,
                false => TrainError::Interrupted { steps: step, total: self.total_steps },
            });
        };
        observer.event(Event::Logged(self.log.note_evaluation(step, epoch, &results)?));
        self.clock.start();
        Ok(Some(results))
    }

    fn check_stop(&self, steps: usize) -> Result<(), TrainError> {
        match self.tools.stop.is_requested() {
            true => Err(TrainError::Interrupted { steps, total: self.total_steps }),
            false => Ok(()),
        }
    }

    fn epoch(&self, steps: usize) -> f64 {
        steps as f64 / self.tools.batches.steps_per_epoch() as f64
    }

    /// The figures of the whole run, which also end its log.
    pub(crate) fn results(&mut self) -> Result<TrainResults, TrainError> {
        let Losses { steps, sum, first, .. } = self.losses;
        let blocks = self.tools.batches.blocks();
        let tokens = (self.examples * blocks.block_size()) as f64;
        let seconds = self.clock.seconds();
        let rate = |amount: f64| if seconds > 0.0 { amount / seconds } else { 0.0 };
        let results = TrainResults {
            epoch: self.epoch(steps),
            total_flos: flops_per_token(self.tools.step.parameters()) * tokens,
            train_loss: sum / steps.max(1) as f64,
            train_runtime: seconds,
            train_samples: blocks.num_blocks(),
            train_samples_per_second: rate(self.examples as f64),
            train_steps_per_second: rate(steps as f64),
            train_tokens_per_second: rate(tokens),
            first_loss: first.unwrap_or(f64::NAN),
            last_loss: self.losses.last.as_ref().map_or(f64::NAN, |last| last.loss),
            steps,
        };
        self.log.note_end(&results)?;
        Ok(results)
    }

    /// Evaluates the model that was trained; `None` where nobody asked for it.
    pub(crate) fn evaluate_end(
        &mut self,
        state: &TrainState,
        observer: &mut dyn Observer,
    ) -> Result<Option<EvaluationResults>, TrainError> {
        self.evaluate(self.total_steps, state, observer)
    }

    /// Draws the losses of the log.
    pub(crate) fn draw(&self) -> Result<(), TrainError> {
        self.log.draw()
    }

    /// Where the run stands, and its log.
    pub(crate) fn trainer_state(&self, results: &TrainResults) -> TrainerState {
        let TrainConfig { logging, evaluation, .. } = self.tools.config;
        let mesh = self.tools.step.executable().mesh();
        TrainerState {
            best_metric: (),
            best_model_checkpoint: (),
            epoch: results.epoch,
            eval_steps: steps_between(evaluation.strategy, self.total_steps),
            global_step: results.steps,
            log_history: self.log.records().to_vec(),
            logging_steps: steps_between(logging.strategy, self.total_steps),
            max_steps: self.total_steps,
            num_train_epochs: self.epoch(self.total_steps).ceil() as usize,
            total_flos: results.total_flos,
            train_batch_size: per_device(self.tools.batches.plan(), mesh.shape()),
        }
    }
}

/// Steps of a whole run.
pub(crate) fn total_steps(config: &TrainConfig, batches: &Batches) -> usize {
    let by_epochs = || (config.num_train_epochs * batches.steps_per_epoch() as f64).ceil() as usize;
    config.max_steps.unwrap_or_else(by_epochs)
}

/// Floating-point operations of training on one token, as the Trainer estimates them: 6 for each parameter outside the
/// embeddings.
pub(crate) fn flops_per_token(parameters: &[ParameterInfo]) -> f64 {
    let outside = parameters.iter().filter(|p| p.kind != ParameterKind::Embedding);
    6.0 * outside.map(ParameterInfo::element_count).sum::<usize>() as f64
}

impl Clock {
    fn start(&mut self) {
        self.running = Some(Instant::now());
    }

    fn stop(&mut self) {
        self.before += self.running.take().map_or(Duration::ZERO, |since| since.elapsed());
    }

    fn seconds(&self) -> f64 {
        (self.before + self.running.map_or(Duration::ZERO, |since| since.elapsed())).as_secs_f64()
    }
}
