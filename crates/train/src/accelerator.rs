//! A loop of one's own: a model, an optimizer and a schedule become one compiled train step, and the rest is the
//! caller's.

mod batch;
mod error;
mod parts;

use std::path::Path;
use std::sync::Arc;

use shardwright_checkpoint::make_writable_folder;
use shardwright_hlo::{Precision, VerifiedModule};
use shardwright_mesh::Mesh;
use shardwright_partition::{Lowering, PlanOptions, ShardingPlan, WrapConfig, WrapPolicy};
use shardwright_runtime::Runtime;

use crate::programs::check_sharded;
use crate::save::save_weights;
use crate::{
    Clipping, EvalStep, Model, PendingLoss, PendingMetrics, PrecisionConfig, Schedule, StepConfig,
    TrainError, TrainState, TrainStep, WeightSource, model_modules,
};

pub use batch::BatchArrays;
pub use error::PrepareError;
pub use parts::{GroupedOptimizer, Prepare};

/// What makes a train step of parts that were [prepared](Accelerator::prepare), and holds the state that it runs on.
///
/// Parts are prepared in any order, all at once or one by one, and the result is the same bit for bit. Nothing is
/// wrapped: what [`prepare`](Accelerator::prepare) gives back is what it was given, and names of parameters stay as they
/// are. The step is planned, compiled and given its first weights with the first batch, when all is known. From then on
/// batches have the shape of that one.
///
/// An accelerator is for one model; several models have one each, over the same runtime and mesh.
///
/// ```no_run
/// use std::path::Path;
/// use std::sync::Arc;
///
/// use shardwright_data::Batches;
/// use shardwright_runtime::{Runtime, RuntimeOptions};
/// use shardwright_train::{
///     Accelerator, AcceleratorConfig, AdamW, CausalLm, GroupConfig, GroupedOptimizer, Schedule, ScheduleConfig,
/// };
///
/// fn train(model: CausalLm, train: Batches, eval: Batches) -> Result<(), Box<dyn std::error::Error>> {
///     let runtime = Runtime::open(&RuntimeOptions::cpu_devices(8))?;
///     let mut accelerator = Accelerator::new(&runtime, &runtime.mesh("fsdp=8")?, AcceleratorConfig::default())?;
///
///     let steps = train.steps_per_epoch();
///     let optimizer = GroupedOptimizer::new(AdamW::default(), GroupConfig::default());
///     let schedule = Schedule::new(&ScheduleConfig::default(), steps as usize);
///     let (_, _, _, train, eval) = accelerator.prepare((Arc::new(model), optimizer, schedule, train, eval))?;
///
///     let mut losses = Vec::new();
///     for batch in train.prefetch(0..steps)? {
///         losses.push(accelerator.step(&batch?)?);
///     }
///     println!("{:?}", losses.last().map(|loss| loss.read()).transpose()?);
///     println!("{}", accelerator.evaluate(eval.steps(0..eval.steps_per_epoch()))?);
///     accelerator.save(Path::new("model"))?;
///     Ok(())
/// }
/// ```
pub struct Accelerator<'a> {
    runtime: Runtime,
    mesh: Mesh,
    config: AcceleratorConfig<'a>,
    model: Option<Arc<dyn Model>>,
    optimizer: Option<GroupedOptimizer>,
    schedule: Option<Schedule>,
    train: Option<Compiled<TrainStep>>,
    eval: Option<Compiled<EvalStep>>,
    state: State,
}

/// How an [`Accelerator`] trains: all of a step but its parts.
#[derive(Clone)]
pub struct AcceleratorConfig<'a> {
    /// Where the first weights come from.
    pub weights: WeightSource<'a>,
    /// How many parts of a batch are gone through one after the other.
    pub gradient_accumulation_steps: usize,
    /// The dtypes of weights, computation and reductions.
    pub precision: PrecisionConfig,
    /// How exactly products of matrices are computed.
    pub dot_precision: Precision,
    /// What gradients are limited to.
    pub clipping: Clipping,
    /// The units of the model that are wrapped.
    pub wrap: WrapConfig,
    /// Whether these units are computed again in the backward pass.
    pub remat: bool,
    /// What is split over which mesh axis.
    pub plan: PlanOptions,
    /// How that is written into the program.
    pub lowering: Lowering,
}

impl Default for AcceleratorConfig<'_> {
    /// New weights of seed 42 in f32, fully sharded over the axis `fsdp` by the layers that the model names; neither
    /// accumulation nor clipping.
    fn default() -> Self {
        AcceleratorConfig {
            weights: WeightSource::Random { seed: 42 },
            gradient_accumulation_steps: 1,
            precision: PrecisionConfig::default(),
            dot_precision: Precision::Default,
            clipping: Clipping::default(),
            wrap: WrapConfig::default(),
            remat: false,
            plan: PlanOptions::default(),
            lowering: Lowering::default(),
        }
    }
}

/// A program for batches of so many examples.
struct Compiled<T> {
    examples: usize,
    program: T,
}

/// What steps run on.
enum State {
    /// Made with the first batch.
    New,
    /// Of a step that was compiled, or the parameters alone where there was none yet.
    Held(TrainState),
    /// Given to a step that failed.
    Lost,
}

/// A step before it is compiled.
struct Planned {
    config: StepConfig,
    module: VerifiedModule,
    mesh: Mesh,
    plan: ShardingPlan,
}

impl<'a> Accelerator<'a> {
    /// An accelerator over the devices of a mesh.
    ///
    /// # Errors
    /// When the runtime lacks devices of the mesh, or models are not trained in the dtypes.
    pub fn new(
        runtime: &Runtime,
        mesh: &Mesh,
        config: AcceleratorConfig<'a>,
    ) -> Result<Accelerator<'a>, TrainError> {
        runtime.check_devices(mesh)?;
        config.precision.check()?;
        Ok(Accelerator {
            runtime: runtime.clone(),
            mesh: mesh.clone(),
            config,
            model: None,
            optimizer: None,
            schedule: None,
            train: None,
            eval: None,
            state: State::New,
        })
    }

    /// Takes parts in: a model, an optimizer, a schedule and loaders, one of them or a tuple in any order. Gives back what
    /// it was given. A part that was prepared before is known again.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use shardwright_train::{Accelerator, AdamW, GroupConfig, GroupedOptimizer, Model, TrainError};
    /// fn in_pieces(accelerator: &mut Accelerator<'_>, model: Arc<impl Model + 'static>) -> Result<(), TrainError> {
    ///     let optimizer = GroupedOptimizer::new(AdamW::default(), GroupConfig::default());
    ///     let optimizer = accelerator.prepare(optimizer)?;
    ///     accelerator.prepare((optimizer, model))?;
    ///     Ok(())
    /// }
    /// ```
    ///
    /// # Errors
    /// When there is another such part, or the parts do not go together: groups that name what the model lacks, classes
    /// to wrap that it has not, a loader of other micro-batches.
    pub fn prepare<P: Prepare>(&mut self, parts: P) -> Result<P, TrainError> {
        parts.prepare(self)
    }

    /// Starts a step on a batch and does not wait for it.
    ///
    /// The learning rates of the optimizer's groups are multiplied by the schedule's factor, if one was prepared.
    ///
    /// # Errors
    /// When the model or the optimizer is missing, the batch is not what the model takes or of another size than the
    /// first, the step cannot be compiled, or the plugin refuses.
    pub fn step(&mut self, batch: &impl BatchArrays) -> Result<PendingMetrics, TrainError> {
        let arrays = batch.arrays();
        let model = self.known("step")?.0;
        let known = self.train.as_ref().map(|train| train.examples);
        let examples = batch::check(&*model, &arrays, known)?;
        if self.train.is_none() {
            self.compile_train(examples)?;
        }
        let train = self.train.as_ref().expect("it was just compiled");
        let State::Held(state) = std::mem::replace(&mut self.state, State::Lost) else {
            return Err(PrepareError::StateLost.into());
        };
        let factor = self.schedule.map_or(1.0, |schedule| schedule.factor(state.step));
        let (state, metrics) = train.program.run(&self.runtime, state, &arrays, factor)?;
        self.state = State::Held(state);
        Ok(metrics)
    }

    /// Starts the model on a batch that it does not learn from. [`PendingLoss::read`] gives the summed loss and the count
    /// that it is divided by.
    ///
    /// # Errors
    /// As [`step`](Accelerator::step). Parameters lie as training has them, so the optimizer has to be there too.
    pub fn eval_step(&mut self, batch: &impl BatchArrays) -> Result<PendingLoss, TrainError> {
        let arrays = batch.arrays();
        let model = self.known("evaluate")?.0;
        let known = self.eval.as_ref().map(|eval| eval.examples);
        let examples = batch::check(&*model, &arrays, known)?;
        if self.eval.is_none() {
            self.compile_eval(examples)?;
        }
        let eval = self.eval.as_ref().expect("it was just compiled");
        let State::Held(state) = &self.state else { return Err(PrepareError::StateLost.into()) };
        eval.program.run(&self.runtime, &state.parameters, &arrays)
    }

    /// The mean loss over batches: all that counts, counted once, however it is cut into batches. One batch is read while
    /// the next one runs.
    ///
    /// # Errors
    /// As [`eval_step`](Accelerator::eval_step), and what the batches give.
    pub fn evaluate<B: BatchArrays, E>(
        &mut self,
        batches: impl IntoIterator<Item = Result<B, E>>,
    ) -> Result<f64, TrainError>
    where
        TrainError: From<E>,
    {
        let (mut loss, mut count) = (0.0, 0);
        let mut add = |pending: PendingLoss| {
            let (sum, counted) = pending.read()?;
            (loss, count) = (loss + sum, count + counted);
            Ok::<(), TrainError>(())
        };
        let mut under_way: Option<PendingLoss> = None;
        for batch in batches {
            let started = self.eval_step(&batch?)?;
            under_way.replace(started).map_or(Ok(()), &mut add)?;
        }
        under_way.map_or(Ok(()), &mut add)?;
        if count == 0 {
            return Err(PrepareError::NothingEvaluated.into());
        }
        Ok(loss / count as f64)
    }

    /// Writes the parameters to `model.safetensors` in a folder, whole and under the model's names, in the dtype that
    /// weights are saved in. Nothing on the devices changes. [`WeightSource::Files`] takes them in again.
    ///
    /// # Errors
    /// When there are no weights yet, or the folder cannot be written.
    pub fn save(&self, folder: &Path) -> Result<(), TrainError> {
        let model = self.known("save")?.0;
        let state = match &self.state {
            State::Held(state) => state,
            State::New => return Err(PrepareError::NothingToSave.into()),
            State::Lost => return Err(PrepareError::StateLost.into()),
        };
        make_writable_folder(folder)?;
        save_weights(folder, &model.parameters(), &state.parameters, self.config.precision.weights)
    }

    /// The state after the steps that were started; without any, or after one that failed, there is none.
    pub fn state(&self) -> Option<&TrainState> {
        match &self.state {
            State::Held(state) => Some(state),
            State::New | State::Lost => None,
        }
    }

    /// The step, once it is compiled.
    pub fn train_step(&self) -> Option<&TrainStep> {
        self.train.as_ref().map(|train| &train.program)
    }

    /// Model and optimizer, for a method with this name.
    fn known(&self, method: &'static str) -> Result<(Arc<dyn Model>, &GroupedOptimizer), PrepareError> {
        let missing = |part| PrepareError::Missing { part, method };
        let model = self.model.clone().ok_or(missing("a model"))?;
        Ok((model, self.optimizer.as_ref().ok_or(missing("an optimizer"))?))
    }

    fn compile_train(&mut self, examples: usize) -> Result<(), TrainError> {
        let model = self.known("step")?.0;
        let Planned { config, module, mesh, plan } =
            self.plan(examples, self.config.gradient_accumulation_steps)?;
        let program = TrainStep::compile_planned(&self.runtime, &mesh, &*model, &config, module, plan)?;
        self.make_parameters(&*model, &mesh, program.plan())?;
        if let State::Held(state) = std::mem::replace(&mut self.state, State::Lost) {
            let state = TrainState::of_parameters(&self.runtime, &program, state.parameters)?;
            self.state = State::Held(state);
        }
        self.train = Some(Compiled { examples, program });
        Ok(())
    }

    fn compile_eval(&mut self, examples: usize) -> Result<(), TrainError> {
        let model = self.known("evaluate")?.0;
        let Planned { config, mesh, plan, .. } = self.plan(examples, 1)?;
        let program = EvalStep::compile(&self.runtime, &mesh, &*model, &config, &plan, examples)?;
        self.make_parameters(&*model, &mesh, &plan)?;
        self.eval = Some(Compiled { examples, program });
        Ok(())
    }

    /// Plans a step over so many examples. Where parameters lie does not depend on them.
    fn plan(&self, examples: usize, micro_batches: usize) -> Result<Planned, TrainError> {
        let (model, optimizer) = self.known("step")?;
        let config = StepConfig {
            global_batch_size: examples,
            gradient_accumulation_steps: micro_batches,
            precision: self.config.precision,
            dot_precision: self.config.dot_precision,
            optimizer: optimizer.optimizer.clone(),
            groups: optimizer.groups.clone(),
            clipping: self.config.clipping.clone(),
            wrap: self.wrapped(&*model)?,
            remat: self.config.remat,
            plan: self.config.plan.clone(),
            lowering: self.config.lowering,
        };
        let module = config.module(&*model)?;
        let plan = config.sharding_plan(&*model, &module, self.mesh.shape())?;
        check_sharded(&plan, &config.plan.axis)?;
        let (mesh, plan) = config.on_torus(&self.runtime, self.mesh.clone(), plan)?;
        Ok(Planned { config, module, mesh, plan })
    }

    fn wrapped(&self, model: &dyn Model) -> Result<WrapPolicy, TrainError> {
        Ok(WrapPolicy::resolve(&self.config.wrap, &model_modules(model), &model.wrapped_by_default())?)
    }

    /// Makes the first weights, if there are none.
    fn make_parameters(
        &mut self,
        model: &dyn Model,
        mesh: &Mesh,
        plan: &ShardingPlan,
    ) -> Result<(), TrainError> {
        if let State::New = self.state {
            let (source, infos, places) = (self.config.weights, model.parameters(), plan.arguments());
            let draws = source.draws(&self.runtime, mesh, &infos, places)?;
            let parameters = source.parameters(&self.runtime, mesh, &draws, &infos, places)?;
            self.state = State::Held(TrainState { step: 0, parameters, state: Vec::new() });
        }
        Ok(())
    }
}
