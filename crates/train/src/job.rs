//! A run from its settings to the saved model.

use shardwright_checkpoint::HfWeights;
use shardwright_partition::explain::{Explanation, Subject};
use shardwright_partition::{Lowering, WrapPolicy};
use shardwright_runtime::{Runtime, ShardedArray};

use crate::draw::Draws;
use crate::evaluate::Evaluator;
use crate::log::{LogFolder, run_folder_name};
use crate::peak::peak_flops;
use crate::programs::{Planned, Programs, per_device};
use crate::run::{Run, Tools, flops_per_token, total_steps};
use crate::save::Output;
use crate::texts::Texts;
use crate::{
    CausalLm, Event, IntervalStrategy, Model, Observer, Phase, ReportTo, RunResults, StepConfig, StopFlag,
    TrainConfig, TrainError, TrainStart, TrainState, TrainStep, WeightSource,
};

/// A run all of whose settings and files were read and found in order.
pub struct Job {
    pub(crate) config: TrainConfig,
    pub(crate) model: CausalLm,
    pub(crate) weights: Option<HfWeights>,
    /// The adapter that training goes on from.
    pub(crate) adapter: Option<HfWeights>,
    pub(crate) texts: Texts,
    pub(crate) wrap: WrapPolicy,
    pub(crate) remat: bool,
}

impl Job {
    /// Compiles, trains, saves and evaluates, as far as the run was told to. `stop` is looked at between steps.
    ///
    /// A trained model is saved before it is evaluated for the last time.
    ///
    /// # Errors
    /// When the devices, the model and the batch do not go together, the plugin fails, numbers are lost, files cannot be
    /// written, or the run was asked to stop.
    pub fn run(
        &self,
        runtime: &Runtime,
        observer: &mut dyn Observer,
        stop: &StopFlag,
    ) -> Result<RunResults, TrainError> {
        let planned = self.plan(runtime, observer)?;
        observer.event(Event::Phase(Phase::Compile));
        let Programs { train, eval, draws } = self.compile(runtime, &planned, observer)?;
        observer.event(Event::Phase(Phase::Weights));
        let parameters = self.initial_parameters(runtime, &planned, &draws)?;
        let evaluator = eval.zip(planned.eval.clone());
        let evaluator = evaluator.map(|(step, batches)| Evaluator { runtime, step, batches });
        match (&train, &planned.train, &evaluator) {
            (Some((step, rows)), Some(batches), evaluator) => {
                let (config, evaluator) = (&self.config, evaluator.as_ref());
                let tools = Tools { runtime, config, batches, step, rows, evaluator, stop };
                self.train(tools, parameters, observer)
            }
            (_, _, Some(evaluator)) => self.evaluate(evaluator, &parameters, observer, stop),
            (_, _, None) => Err(TrainError::NothingToDo),
        }
    }

    /// Compiles the step of the run, lowered as is said here whatever the run's configuration says, and explains what the
    /// compiler made of it. The step is not run.
    ///
    /// # Errors
    /// When the devices, the model and the batch do not go together, the plan cannot be lowered so, or the plugin fails
    /// or does not tell what it made.
    pub fn explain(
        &self,
        runtime: &Runtime,
        lowering: Lowering,
        observer: &mut dyn Observer,
    ) -> Result<(TrainStep, Explanation), TrainError> {
        let Planned { mesh, step, module, plan, .. } = self.plan(runtime, observer)?;
        let config = StepConfig { lowering, ..step };
        let (mesh, plan) = config.on_torus(runtime, mesh, plan)?;
        let subject = Subject::of_module(&module, &plan, &config.wrap);
        observer.event(Event::Phase(Phase::Compile));
        let step = TrainStep::compile_planned(runtime, &mesh, &self.model, &config, module, plan)?;
        let program = step.executable().compiled()??;
        let explanation = Explanation::new(&program, &subject, step.executable().compiled_memory().ok());
        Ok((step, explanation))
    }

    /// Trains on these parameters, saves the model, and evaluates it.
    fn train(
        &self,
        tools: Tools<'_>,
        parameters: Vec<ShardedArray>,
        observer: &mut dyn Observer,
    ) -> Result<RunResults, TrainError> {
        let (output, folder) = (Output::of(self), &self.config.output_dir);
        let saved = |result: Result<(), TrainError>| result.map_err(|e| TrainError::Save(e.into()));
        let state = TrainState::of_parameters(tools.runtime, tools.step, parameters)?;
        observer.event(Event::Start(&self.start(&tools)));
        let mut run = Run::new(tools, self.log_folder());
        let state = run.train(state, observer)?;

        observer.event(Event::Phase(Phase::Save));
        let results = run.results()?;
        let writing = tools.stop.writing();
        saved(output.save_model(&state.parameters))?;
        saved(output.save_training(&results, &run.trainer_state(&results)))?;
        saved(run.draw())?;
        drop(writing);
        observer.event(Event::Trained { results: &results, output_dir: folder });

        let Some(eval) = run.evaluate_end(&state, observer)? else {
            return Ok(RunResults { train: Some(results), eval: None });
        };
        let writing = tools.stop.writing();
        saved(output.save_evaluation(Some(&results), &eval))?;
        saved(output.save_trainer_state(&run.trainer_state(&results)))?;
        saved(run.draw())?;
        drop(writing);
        observer.event(Event::Evaluated { results: &eval, output_dir: folder });
        Ok(RunResults { train: Some(results), eval: Some(eval) })
    }

    /// Evaluates a model that is not trained.
    fn evaluate(
        &self,
        evaluator: &Evaluator<'_>,
        parameters: &[ShardedArray],
        observer: &mut dyn Observer,
        stop: &StopFlag,
    ) -> Result<RunResults, TrainError> {
        observer.event(Event::Phase(Phase::Evaluate));
        let Some(eval) = evaluator.evaluate(parameters, None, stop)? else {
            return Err(TrainError::EvaluationInterrupted);
        };
        let writing = stop.writing();
        Output::of(self).save_evaluation(None, &eval)?;
        drop(writing);
        observer.event(Event::Evaluated { results: &eval, output_dir: &self.config.output_dir });
        Ok(RunResults { train: None, eval: Some(eval) })
    }

    /// The parameters before the first step, each at its place.
    pub(crate) fn initial_parameters(
        &self,
        runtime: &Runtime,
        planned: &Planned,
        draws: &Draws,
    ) -> Result<Vec<ShardedArray>, TrainError> {
        let _span = tracing::debug_span!("make parameters").entered();
        let (mesh, plan) = planned.step.on_torus(runtime, planned.mesh.clone(), planned.plan.clone())?;
        let infos = self.model.parameters();
        let places = &plan.arguments()[..infos.len()];
        self.source().parameters(runtime, &mesh, draws, &infos, places)
    }

    /// Where the first weights come from.
    pub(crate) fn source(&self) -> WeightSource<'_> {
        let (seed, adapter) = (self.config.seed, self.adapter.as_ref());
        match (&self.weights, &self.model.lora) {
            (None, _) => WeightSource::Random { seed },
            (Some(files), None) => WeightSource::Files(files),
            (Some(base), Some(_)) => WeightSource::Adapted { base, adapter, seed },
        }
    }

    fn start(&self, tools: &Tools<'_>) -> TrainStart {
        let (batches, layout) = (tools.batches, tools.step.layout());
        let steps = total_steps(&self.config, batches);
        let trained = layout.groups.trained().map(|index| layout.parameters[index].element_count());
        let kinds = tools.runtime.devices().map(|device| peak_flops(device.kind()));
        let devices = tools.step.executable().mesh().shape().size();
        TrainStart {
            steps,
            examples: batches.blocks().num_blocks(),
            epochs: steps as f64 / batches.steps_per_epoch() as f64,
            per_device_batch_size: per_device(batches.plan(), tools.step.executable().mesh().shape()),
            accumulation_steps: batches.plan().accumulation,
            global_batch_size: batches.plan().global_batch_size,
            block_size: batches.blocks().block_size(),
            trainable_parameters: trained.sum(),
            flops_per_token: flops_per_token(&layout.parameters),
            peak_flops: kinds.take(devices).sum(),
        }
    }

    /// The folder of the log, where one is kept.
    fn log_folder(&self) -> Option<LogFolder> {
        let logging = &self.config.logging;
        let path = || {
            let name = self.config.run_name.clone().unwrap_or_else(run_folder_name);
            self.config.output_dir.join("runs").join(name)
        };
        let is_kept = logging.strategy != IntervalStrategy::No;
        is_kept.then(|| {
            let wants_events = logging.report_to.contains(&ReportTo::TensorBoard);
            LogFolder::new(logging.dir.clone().unwrap_or_else(path), wants_events)
        })
    }
}
