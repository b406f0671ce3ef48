//! One optimizer step as one program: forward, backward, clipping, update.

mod compiled;
mod norm;
mod program;

use std::sync::Arc;

use shardwright_graph::Recompute;
use shardwright_hlo::{ArgumentKind, Module, VerifiedModule, verify};
use shardwright_mesh::AbstractMesh;
use shardwright_model::ParameterInfo;
use shardwright_partition::{Lowering, PlanOptions, ShardedModule, ShardingPlan, TENSOR_AXIS, WrapPolicy};

use crate::{Clipping, GroupConfig, GroupError, Model, Optimizer, ParameterGroups, StateInfo, TrainError};

pub use compiled::{PendingMetrics, StepReading, TrainStep};
use program::Program;

/// What the program of a step depends on, besides the model.
#[derive(Clone, Debug)]
pub struct StepConfig {
    /// Examples of one step on all devices.
    pub global_batch_size: usize,
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
        Ok(StateLayout { slots: slots.collect(), groups, parameters })
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
    /// When the groups do not fit the model, or its sizes do not make a program.
    pub fn module(&self, model: &dyn Model) -> Result<VerifiedModule, TrainError> {
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
        match self.lowering.shards(plan)? {
            None => Ok(ShardedModule::from_plan(module, plan, &self.wrap)?),
            Some(shards) => {
                let body = Program::new(self, model, Some(&shards))?.trace()?;
                Ok(ShardedModule::explicit(&module, plan, body)?)
            }
        }
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
