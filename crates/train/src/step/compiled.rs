//! A step that was compiled, and how it is run.

use std::collections::BTreeMap;
use std::sync::Arc;

use shardwright_hlo::VerifiedModule;
use shardwright_mesh::Mesh;
use shardwright_model::ParameterInfo;
use shardwright_partition::ShardingPlan;
use shardwright_runtime::{
    Argument, Executable, ExecutableValue, Execution, Runtime, RuntimeError, ShardedArray,
};
use shardwright_tensor::HostArray;

use super::{StateLayout, StepConfig};
use crate::{Model, Optimizer, TrainError, TrainState};

/// A compiled train step.
pub struct TrainStep {
    executable: Executable,
    plan: ShardingPlan,
    layout: StateLayout,
    optimizer: Arc<dyn Optimizer>,
}

/// Loss and gradient norms of a step that may still be under way.
pub struct PendingMetrics {
    values: ShardedArray,
    squares: ShardedArray,
    execution: Execution,
}

/// What is read of a step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepReading {
    /// The loss over the batch.
    pub loss: f64,
    /// The global L2 norm of all gradients, before clipping.
    pub grad_norm: f64,
}

impl TrainStep {
    /// Plans, shards and compiles the step for a mesh.
    ///
    /// # Errors
    /// When no plan can be made, or the compiler refuses the program.
    pub fn compile(
        runtime: &Runtime,
        mesh: &Mesh,
        model: &dyn Model,
        config: &StepConfig,
    ) -> Result<TrainStep, TrainError> {
        let module = config.module(model)?;
        let plan = config.sharding_plan(model, &module, mesh.shape())?;
        let (mesh, plan) = config.on_torus(runtime, mesh.clone(), plan)?;
        TrainStep::compile_planned(runtime, &mesh, model, config, module, plan)
    }

    pub(crate) fn compile_planned(
        runtime: &Runtime,
        mesh: &Mesh,
        model: &dyn Model,
        config: &StepConfig,
        module: VerifiedModule,
        plan: ShardingPlan,
    ) -> Result<TrainStep, TrainError> {
        let sharded = config.lower(model, module, &plan)?;
        let executable = runtime.compile(&sharded, mesh)?;
        let layout = StateLayout::new(model, config)?;
        Ok(TrainStep { executable, plan, layout, optimizer: config.optimizer.clone() })
    }

    /// The compiled step.
    pub fn executable(&self) -> &Executable {
        &self.executable
    }

    /// The output with the loss and the gradient norm.
    pub(crate) fn metrics(&self) -> &ExecutableValue {
        self.executable.outputs().last().expect("the program gives metrics")
    }

    /// Where its arguments lie.
    pub fn plan(&self) -> &ShardingPlan {
        &self.plan
    }

    /// What it keeps between two runs.
    pub fn layout(&self) -> &StateLayout {
        &self.layout
    }

    /// The model's parameters, in the order of the state.
    pub fn parameters(&self) -> &[ParameterInfo] {
        &self.layout.parameters
    }

    /// Starts a step and does not wait for it. The state is moved in and its memory used again; on an error it is gone.
    ///
    /// `batch` are the arrays that the model asks for; `factor` is what the schedule multiplies learning rates by.
    ///
    /// # Errors
    /// When the batch is not of the program's type, or the plugin refuses.
    pub fn run(
        &self,
        runtime: &Runtime,
        state: TrainState,
        batch: &[&HostArray],
        factor: f64,
    ) -> Result<(TrainState, PendingMetrics), TrainError> {
        let TrainState { step, parameters, state } = state;
        let numbers = self.numbers(factor, step);
        let inputs = [batch, &[&numbers]].concat();
        let inputs = place_all(runtime, &self.executable, parameters.len() + state.len(), &inputs)?;

        let count = parameters.len();
        let is_frozen = |(index, _): &(usize, ShardedArray)| self.layout.groups.of(*index).is_none();
        let (frozen, trained): (Vec<_>, Vec<_>) = parameters.into_iter().enumerate().partition(is_frozen);
        let mut frozen: BTreeMap<usize, ShardedArray> = frozen.into_iter().collect();
        let mut trained = trained.into_iter().map(|(_, parameter)| Argument::Donate(parameter));
        let argument = |index| match frozen.get(&index) {
            Some(parameter) => Argument::Borrow(parameter),
            None => trained.next().expect("what is not frozen is trained"),
        };
        let mut arguments: Vec<Argument<'_>> = (0..count).map(argument).collect();
        arguments.extend(state.into_iter().chain(inputs).map(Argument::Donate));
        let mut execution = self.executable.execute(arguments)?;
        let mut outputs = std::mem::take(&mut execution.outputs);
        let values = outputs.pop().expect("the program gives metrics");
        let squares = outputs.pop().expect("the program gives the norms of gradients");
        let mut outputs = outputs.into_iter();
        let parameter = |index| frozen.remove(&index).or_else(|| outputs.next());
        let parameters = (0..count).map(parameter).collect::<Option<_>>();
        let parameters = parameters.expect("the program gives what it trains");
        let state = TrainState { step: step + 1, parameters, state: outputs.collect() };
        Ok((state, PendingMetrics { values, squares, execution }))
    }

    /// The numbers of a step, `f32[group, number]`; in f64 until here.
    fn numbers(&self, factor: f64, taken: usize) -> HostArray {
        let groups = self.layout.groups.groups();
        let rows = groups.iter().map(|group| self.optimizer.numbers(group, factor, taken));
        let numbers: Vec<f32> = rows.flatten().map(|number| number as f32).collect();
        let dims = [groups.len(), numbers.len().checked_div(groups.len()).unwrap_or(0)];
        HostArray::from_slice(&dims, &numbers).expect("as many for each group")
    }
}

/// The arguments of a program from the one with index `first` on, where it takes them.
pub(super) fn place_all(
    runtime: &Runtime,
    executable: &Executable,
    first: usize,
    arrays: &[&HostArray],
) -> Result<Vec<ShardedArray>, RuntimeError> {
    let place = |(place, host): (&ExecutableValue, &&HostArray)| {
        ShardedArray::from_host(runtime, executable.mesh(), &place.sharding, host)
    };
    executable.arguments().iter().skip(first).zip(arrays).map(place).collect()
}

impl PendingMetrics {
    /// Loss and gradient norm; waits for the step.
    ///
    /// # Errors
    /// When the step failed.
    pub fn read(&self) -> Result<StepReading, TrainError> {
        let metrics = self.values.to_host()?.to_f64();
        Ok(StepReading { loss: metrics[0], grad_norm: metrics[1] })
    }

    /// The L2 norm of the gradient of each parameter that is trained, before clipping, with the parameter's name; waits
    /// for the step. This is a copy of its own: steps that nobody asks do without.
    ///
    /// # Errors
    /// When the step failed.
    pub fn norms<'s>(&self, step: &'s TrainStep) -> Result<Vec<(&'s str, f64)>, TrainError> {
        let squares = self.squares.to_host()?.to_f64();
        let trained = step.layout.groups.trained();
        let names = trained.map(|index| step.layout.parameters[index].name.as_str());
        Ok(names.zip(squares.into_iter().map(f64::sqrt)).collect())
    }

    /// The first of the step's results that is not finite: `the loss`, or the gradient of a parameter, in the model's
    /// order. Copies more than the metrics only where these are not finite.
    ///
    /// # Errors
    /// When the step failed.
    pub fn first_bad(&self, step: &TrainStep) -> Result<Option<String>, TrainError> {
        let StepReading { loss, grad_norm } = self.read()?;
        if !loss.is_finite() {
            return Ok(Some("the loss".to_owned()));
        }
        if grad_norm.is_finite() {
            return Ok(None);
        }
        Ok(Some(first_bad_of(&self.norms(step)?)))
    }

    /// Waits for the step, and copies nothing.
    ///
    /// # Errors
    /// When the step failed.
    pub fn wait(&self) -> Result<(), TrainError> {
        Ok(self.execution.wait()?)
    }

    /// Loss and gradient norm, `f32[2]`, on every device.
    pub(crate) fn values(&self) -> &ShardedArray {
        &self.values
    }
}

/// What is not finite, given the norm of each gradient, where the norm over all is not.
fn first_bad_of(norms: &[(&str, f64)]) -> String {
    match norms.iter().find(|(_, norm)| !norm.is_finite()) {
        Some((name, _)) => format!("the gradient of {name}"),
        // Squares may overflow in their sum only.
        None => "the norm over all gradients".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_gradient_that_is_not_finite_is_named_or_else_the_norm_over_all() {
        let large = 1.5e19;
        let norms = [("a", large), ("b", f64::NAN), ("c", f64::INFINITY)];
        assert_eq!(first_bad_of(&norms), "the gradient of b");
        assert_eq!(first_bad_of(&[("a", large), ("b", large)]), "the norm over all gradients");
    }
}
