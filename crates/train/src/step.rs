//! One optimizer step as one program: forward, backward, clipping, update. And beside it, the loss alone.

mod compiled;
mod eval;
mod norm;
mod program;
mod writer;

use std::sync::Arc;

use shardwright_graph::Recompute;
use shardwright_hlo::{ArgumentKind, Module, Precision, VerifiedModule, verify};
use shardwright_mesh::AbstractMesh;
use shardwright_model::ParameterInfo;
use shardwright_partition::{
    Lowering, PlanOptions, ShardedModule, ShardingPlan, Shards, TENSOR_AXIS, WrapPolicy, data_axes,
};
use shardwright_tensor::{ShapeError, TensorType};

use crate::{
    Clipping, GroupConfig, GroupError, Model, Optimizer, ParameterGroups, PrecisionConfig, StateInfo,
    TrainError,
};

pub use compiled::{PendingMetrics, StepReading, TrainStep};
pub use eval::{EvalStep, PendingLoss};
use program::Program;

/// What the program of a step depends on, besides the model.
#[derive(Clone, Debug)]
pub struct StepConfig {
    /// Examples of one step on all devices.
    pub global_batch_size: usize,
    /// How many parts of them are gone through one after the other: memory is needed for the activations of one.
    pub gradient_accumulation_steps: usize,
    /// The dtypes of parameters and of what is computed with them.
    pub precision: PrecisionConfig,
    /// How exactly products of matrices are computed, forward and backward. On CPUs all settings are f32's own products;
    /// on TPUs the default is of bf16 factors, on recent GPUs of TF32.
    pub dot_precision: Precision,
    /// How parameters are updated.
    pub optimizer: Arc<dyn Optimizer>,
    /// Which are, and with which constants.
    pub groups: GroupConfig,
    /// What gradients are limited to.
    pub clipping: Clipping,
    /// The units at whose boundaries activations are pinned.
    pub wrap: WrapPolicy,
    /// Whether these units are computed again in the backward pass.
    pub remat: bool,
    /// Where parameters lie.
    pub plan: PlanOptions,
    /// How that is written into the program.
    pub lowering: Lowering,
}

/// What a step keeps between two runs: the parameters, and what the optimizer keeps for those that are trained.
///
/// The program takes them in this order, before the batch.
#[derive(Clone, Debug)]
pub struct StateLayout {
    /// The model's parameters.
    pub parameters: Vec<ParameterInfo>,
    /// Which of them are trained, and with which constants.
    pub groups: ParameterGroups,
    /// What is kept for them, parameter by parameter.
    pub slots: Vec<StateSlot>,
    precision: PrecisionConfig,
}

/// An array that the optimizer keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateSlot {
    /// The index of the parameter that it is kept for.
    pub parameter: usize,
    /// What it is.
    pub info: StateInfo,
}

impl StateLayout {
    fn new(model: &dyn Model, config: &StepConfig) -> Result<StateLayout, GroupError> {
        let parameters = model.parameters();
        let groups = ParameterGroups::new(&config.groups, model)?;
        config.clipping.check(&parameters)?;
        let slots = groups.trained().flat_map(|parameter| {
            let kept = config.optimizer.state(&parameters[parameter].shape);
            kept.into_iter().map(move |info| StateSlot { parameter, info })
        });
        Ok(StateLayout { slots: slots.collect(), groups, parameters, precision: config.precision })
    }

    /// The type that the parameter with this index is kept in.
    ///
    /// # Errors
    /// When it is too large to be addressed.
    ///
    /// # Panics
    /// If there is no such parameter.
    pub fn parameter_ty(&self, parameter: usize) -> Result<TensorType, ShapeError> {
        let dtype = self.precision.kept(self.groups.of(parameter).is_some());
        TensorType::new(dtype, self.parameters[parameter].shape.clone())
    }

    /// The name of an array that the optimizer keeps: its parameter's, and its own.
    pub fn slot_name(&self, slot: &StateSlot) -> String {
        format!("{}.{}", self.parameters[slot.parameter].name, slot.info.name)
    }

    /// The dims of an array that the optimizer keeps.
    fn slot_dims(&self, slot: &StateSlot) -> Vec<usize> {
        let dims = self.parameters[slot.parameter].shape.iter().enumerate();
        dims.filter(|(dim, _)| Some(*dim) != slot.info.without).map(|(_, size)| *size).collect()
    }

    /// What an array that the optimizer keeps is to the program.
    fn slot_kind(slot: &StateSlot) -> ArgumentKind {
        ArgumentKind::State { parameter: slot.parameter, without: slot.info.without }
    }
}

impl StepConfig {
    /// The program of a step: takes the parameters, what the optimizer keeps, a batch and the numbers of the step; gives
    /// what it has updated, then the squared norm of each gradient, then `[loss, gradient norm]`.
    ///
    /// # Errors
    /// When the groups do not fit the model, its sizes do not make a program, the batch cannot be cut into its parts, or
    /// models are not trained in the dtypes.
    pub fn module(&self, model: &dyn Model) -> Result<VerifiedModule, TrainError> {
        self.precision.check()?;
        self.check_accumulation(1)?;
        Ok(verify(Program::new(self, model, None)?.trace()?)?)
    }

    /// Where the arguments of the step's program lie. Over a tensor axis, the model is split by the plan that the
    /// options give, or else by its own.
    ///
    /// # Errors
    /// When the mesh does not fit the program, or its tensor axis the model.
    pub fn sharding_plan(
        &self,
        model: &dyn Model,
        module: &Module,
        mesh: &AbstractMesh,
    ) -> Result<ShardingPlan, TrainError> {
        self.check_accumulation(data_axes(mesh).filter_map(|axis| mesh.axis_size(axis)).product())?;
        let mut options = self.plan.clone();
        if let (None, Some(devices)) = (&options.tensor, mesh.axis_size(TENSOR_AXIS)) {
            options.tensor = Some(model.tensor_plan(devices)?);
        }
        Ok(ShardingPlan::new(module, mesh, &options)?)
    }

    /// The program that compilers are given for [`StepConfig::module`] and a plan of it.
    ///
    /// # Errors
    /// When the plan is of another program, or one that the lowering cannot write.
    pub fn lower(
        &self,
        model: &dyn Model,
        module: VerifiedModule,
        plan: &ShardingPlan,
    ) -> Result<ShardedModule, TrainError> {
        self.lower_traced(module, plan, |shards| Ok(Program::new(self, model, Some(shards))?.trace()?))
    }

    /// Lowers a program and a plan of it; `body` writes it over shards.
    fn lower_traced(
        &self,
        module: VerifiedModule,
        plan: &ShardingPlan,
        body: impl FnOnce(&Shards<'_>) -> Result<Module, TrainError>,
    ) -> Result<ShardedModule, TrainError> {
        match self.lowering.shards(plan)? {
            None => Ok(ShardedModule::from_plan(module, plan, &self.wrap)?),
            Some(shards) => Ok(ShardedModule::explicit(&module, plan, body(&shards)?)?),
        }
    }

    /// Whether the batch can be cut into micro-batches, and each of them for so many devices.
    fn check_accumulation(&self, shards: usize) -> Result<(), TrainError> {
        let (examples, micro_batches) = (self.global_batch_size, self.gradient_accumulation_steps);
        let parts = micro_batches.saturating_mul(shards);
        // Without accumulation, it is the plan that says what does not divide.
        if micro_batches == 1 || examples.checked_rem(parts) == Some(0) {
            return Ok(());
        }
        Err(TrainError::Accumulation { examples, micro_batches, shards })
    }

    /// What of the unit at `path` is computed again in the reverse pass. Parameters that are gathered in a wrapped unit
    /// are freed after it and gathered again, unless the policy keeps them.
    fn recompute(&self, path: &str) -> Recompute {
        let reshards = self.plan.strategy.reshards_after_forward() && !self.wrap.keeps_gathered(path);
        match (self.wrap.wraps(path), self.remat, reshards) {
            (false, ..) | (true, false, false) => Recompute::Nothing,
            (true, false, true) => Recompute::Weights,
            (true, true, false) => Recompute::Activations,
            (true, true, true) => Recompute::All,
        }
    }
}
