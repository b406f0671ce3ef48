//! The programs of a run: planned for its mesh, and compiled side by side.

use std::panic::resume_unwind;
use std::thread::{self, ScopedJoinHandle};
use std::time::Instant;

use shardwright_data::{BatchPlan, Batches, Blocks};
use shardwright_hlo::VerifiedModule;
use shardwright_mesh::{AbstractMesh, Mesh};
use shardwright_model::ParameterInfo;
use shardwright_partition::{CollectiveSummary, PlanOptions, ShardingPlan, Strategy, data_axes};
use shardwright_runtime::compile::CompiledBy;
use shardwright_runtime::{Executable, Runtime};

use crate::draw::Draws;
use crate::readings::MetricRows;
use crate::{
    CausalLm, EvalStep, Event, Job, LossDenominator, Model, Observer, ParameterGroups, Split, StepConfig,
    TrainError, TrainStep,
};

/// What a run does on which devices, before anything of it is compiled.
pub(crate) struct Planned {
    pub(crate) mesh: Mesh,
    pub(crate) step: StepConfig,
    pub(crate) module: VerifiedModule,
    pub(crate) plan: ShardingPlan,
    /// Where the run trains.
    pub(crate) train: Option<Batches>,
    /// Where it evaluates.
    pub(crate) eval: Option<Batches>,
}

/// What was compiled.
pub(crate) struct Programs {
    /// Where the run trains: the step, and what reads its metrics.
    pub(crate) train: Option<(TrainStep, MetricRows)>,
    /// Where it evaluates.
    pub(crate) eval: Option<EvalStep>,
    /// What draws the weights that are in no file.
    pub(crate) draws: Draws,
}

impl Job {
    /// Lays the run on the devices.
    pub(crate) fn plan(&self, runtime: &Runtime, observer: &mut dyn Observer) -> Result<Planned, TrainError> {
        let mesh = self.mesh(runtime)?;
        let train = self.texts.train.as_ref().map(|blocks| self.train_batches(blocks, &mesh)).transpose()?;
        let eval = self.texts.eval.as_ref().map(|blocks| self.eval_batches(blocks, &mesh)).transpose()?;
        if let Some(dropped) = train.as_ref().map(Batches::dropped_blocks).filter(|dropped| *dropped > 0) {
            let notice = format!("{dropped} blocks of each epoch do not fill a batch and are dropped");
            observer.event(Event::Notice(&notice));
        }
        // A run that only evaluates has its parameters where training would have them.
        let batches = train.as_ref().or(eval.as_ref()).ok_or(TrainError::NothingToDo)?;
        let step = self.step_config(batches.plan());
        let module = step.module(&self.model)?;
        let plan = step.sharding_plan(&self.model, &module, mesh.shape())?;
        self.check_sharded(&plan, observer)?;
        let infos = self.model.parameters();
        let groups = ParameterGroups::new(&step.groups, &self.model)?;
        observer.event(Event::Plan {
            parameters: infos.iter().map(ParameterInfo::element_count).sum(),
            trained: groups.trained().map(|index| infos[index].element_count()).sum(),
            mesh: &mesh,
            plan: &plan,
            wrapped_units: self.wrap.len(),
            remat: self.remat,
        });
        Ok(Planned { mesh, step, module, plan, train, eval })
    }

    /// Compiles what the run needs, each program once.
    pub(crate) fn compile(
        &self,
        runtime: &Runtime,
        planned: &Planned,
        observer: &mut dyn Observer,
    ) -> Result<Programs, TrainError> {
        let Planned { step, module, plan, train, eval, .. } = planned;
        let (mesh, plan) = step.on_torus(runtime, planned.mesh.clone(), plan.clone())?;
        let infos = self.model.parameters();
        thread::scope(|scope| {
            // The train step takes long, and a part of that time only one processor.
            let draws = scope.spawn(|| self.source().draws(runtime, &mesh, &infos, plan.arguments()));
            let compile_eval = |batches: &Batches| {
                let start = Instant::now();
                let batch_size = batches.plan().global_batch_size;
                // An evaluation is a mean over what is predicted, whatever a train step divides by.
                let model = CausalLm { denominator: LossDenominator::Targets, ..self.model.clone() };
                let compiled = EvalStep::compile(runtime, &mesh, &model, step, &plan, batch_size)?;
                Ok((compiled, start.elapsed().as_secs_f64()))
            };
            let eval = eval.as_ref().map(|batches| scope.spawn(move || compile_eval(batches)));
            let train = match train {
                Some(_) => {
                    Some(self.compile_train(runtime, &mesh, step, module.clone(), plan.clone(), observer)?)
                }
                None => None,
            };
            let eval = eval.map(join).transpose()?.map(|(step, seconds)| {
                tell_compiled(Split::Eval, step.executable(), seconds, None, observer);
                step
            });
            Ok(Programs { train, eval, draws: join(draws)? })
        })
    }

    fn compile_train(
        &self,
        runtime: &Runtime,
        mesh: &Mesh,
        config: &StepConfig,
        module: VerifiedModule,
        plan: ShardingPlan,
        observer: &mut dyn Observer,
    ) -> Result<(TrainStep, MetricRows), TrainError> {
        let (split, _) = plan.split_parameters();
        let start = Instant::now();
        let step = TrainStep::compile_planned(runtime, mesh, &self.model, config, module, plan)?;
        let seconds = start.elapsed().as_secs_f64();
        let program = match step.executable().compiled() {
            Ok(Ok(program)) => Some(program),
            Ok(Err(e)) => {
                observer.event(Event::Notice(&e.to_string()));
                None
            }
            Err(e) => {
                observer.event(Event::Notice(&format!("what the compiler made is not known: {e}")));
                None
            }
        };
        let collectives = program.as_ref().map(CollectiveSummary::new);
        if split > 0 && collectives.as_ref().is_some_and(|c| !c.gathers()) {
            return Err(TrainError::NoGathers { split, mesh: mesh.shape().to_string() });
        }
        tell_compiled(Split::Train, step.executable(), seconds, collectives.as_ref(), observer);
        let rows = MetricRows::compile(runtime, mesh, step.metrics())?;
        Ok((step, rows))
    }

    fn mesh(&self, runtime: &Runtime) -> Result<Mesh, TrainError> {
        let all = || format!("{}=-1", self.config.sharding.axis);
        let text = self.config.sharding.mesh.clone().unwrap_or_else(all);
        Ok(runtime.mesh(&text)?)
    }

    fn train_batches(&self, blocks: &Blocks, mesh: &Mesh) -> Result<Batches, TrainError> {
        let accumulation = self.config.gradient_accumulation_steps;
        let per_device = self.config.per_device_batch_size(data_shards(mesh.shape()))?;
        let global_batch_size = global(per_device, mesh).saturating_mul(accumulation);
        let plan = BatchPlan {
            accumulation,
            drop_last: self.config.dataloader_drop_last,
            seed: self.config.data_seed.unwrap_or(self.config.seed),
            ..BatchPlan::new(global_batch_size)
        };
        Ok(Batches::new(blocks, plan)?)
    }

    fn eval_batches(&self, blocks: &Blocks, mesh: &Mesh) -> Result<Batches, TrainError> {
        let batch_size = global(self.config.per_device_eval_batch_size, mesh);
        Ok(Batches::new(blocks, BatchPlan::evaluation(batch_size))?)
    }

    fn step_config(&self, batches: &BatchPlan) -> StepConfig {
        let (global_batch_size, gradient_accumulation_steps) =
            (batches.global_batch_size, batches.accumulation);
        let sharding = &self.config.sharding;
        StepConfig {
            global_batch_size,
            gradient_accumulation_steps,
            precision: self.config.precision,
            dot_precision: self.config.dot_precision,
            optimizer: self.config.optimizer.clone(),
            groups: self.config.groups.clone(),
            clipping: self.config.clipping.clone(),
            wrap: self.wrap.clone(),
            remat: self.remat,
            plan: PlanOptions {
                axis: sharding.axis.clone(),
                strategy: sharding.strategy,
                dim_rule: sharding.dim_rule,
                min_shard_bytes: sharding.min_shard_bytes,
                ignored: sharding.fsdp.ignored.clone(),
                tensor: sharding.fsdp.tensor.clone(),
            },
            lowering: sharding.lowering,
        }
    }

    /// Tells where one device is all that there is to split over.
    fn check_sharded(&self, plan: &ShardingPlan, observer: &mut dyn Observer) -> Result<(), TrainError> {
        let axis = &self.config.sharding.axis;
        check_sharded(plan, axis)?;
        let (split, _) = plan.split_parameters();
        if plan.strategy() != Strategy::NoShard && split == 0 {
            let notice = format!("mesh axis {axis} has one device: parameters are not sharded");
            observer.event(Event::Notice(&notice));
        }
        Ok(())
    }
}

/// Training is only called FSDP if parameters are split, where there are devices for that.
pub(crate) fn check_sharded(plan: &ShardingPlan, axis: &str) -> Result<(), TrainError> {
    let devices = plan.mesh().axis_size(axis).unwrap_or(1);
    let (split, parameters) = plan.split_parameters();
    if plan.strategy() == Strategy::NoShard || split > 0 || devices == 1 {
        return Ok(());
    }
    Err(TrainError::NothingSharded { parameters, devices, axis: axis.to_owned() })
}

/// Examples on all devices that a batch is split over, if one sees so many.
fn global(per_device: usize, mesh: &Mesh) -> usize {
    per_device.saturating_mul(data_shards(mesh.shape()))
}

/// Into how many parts a mesh splits a batch.
pub(crate) fn data_shards(mesh: &AbstractMesh) -> usize {
    data_axes(mesh).filter_map(|axis| mesh.axis_size(axis)).product()
}

/// Examples that one device sees at a time.
pub(crate) fn per_device(plan: &BatchPlan, mesh: &AbstractMesh) -> usize {
    plan.global_batch_size / (plan.accumulation * data_shards(mesh)).max(1)
}

fn tell_compiled(
    split: Split,
    executable: &Executable,
    seconds: f64,
    collectives: Option<&CollectiveSummary>,
    observer: &mut dyn Observer,
) {
    let bytes_per_device = executable.bytes_per_device().ok();
    let is_kept = executable.compilation().by == CompiledBy::Cache;
    observer.event(Event::Compiled { split, seconds, is_kept, collectives, bytes_per_device });
}

fn join<T>(thread: ScopedJoinHandle<'_, Result<T, TrainError>>) -> Result<T, TrainError> {
    thread.join().unwrap_or_else(|panic| resume_unwind(panic))
}
