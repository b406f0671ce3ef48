//! What a train step needs to know of a model.

use shardwright_graph::{Graph, GraphError, Value};
use shardwright_model::{ModuleInfo, ParameterInfo, TensorError};
use shardwright_partition::TensorPlan;
use shardwright_tensor::TensorType;

/// A model that can be trained: what it consists of, and its loss as a program.
///
/// Parameters are sharded, updated and saved one by one, under the names that they have here.
pub trait Model: Send + Sync {
    /// The parameters, in the order in which [`loss`](Model::loss) takes them.
    fn parameters(&self) -> Vec<ParameterInfo>;

    /// Whether a parameter may be trained at all. What may not be is frozen, whatever the groups say.
    fn trains(&self, _parameter: &ParameterInfo) -> bool {
        true
    }

    /// The modules that hold parameters, each after the one that contains it: what wrap policies name.
    fn modules(&self) -> Vec<ModuleInfo>;

    /// The classes that are wrapped where nobody names any.
    fn wrapped_by_default(&self) -> Vec<&'static str> {
        Vec::new()
    }

    /// How modules are split over a tensor axis of so many devices. Without rules they are whole.
    ///
    /// # Errors
    /// When the model cannot be split over so many.
    fn tensor_plan(&self, _devices: usize) -> Result<TensorPlan, TensorError> {
        Ok(TensorPlan::default())
    }

    /// The arrays of a batch of so many examples; dim 0 of each counts the examples.
    ///
    /// # Errors
    /// When they are too large to be addressed.
    fn batch(&self, examples: usize) -> Result<Vec<BatchInput>, GraphError>;

    /// Writes the loss of a batch into a program. The values are of the types that [`parameters`](Model::parameters) and
    /// [`batch`](Model::batch) give, but for the number of examples, which is that of the batch's part that is seen.
    ///
    /// # Errors
    /// When the ops are not defined on what they are given.
    fn loss(&self, g: &Graph, parameters: &[Value], batch: &[Value]) -> Result<ModelLoss, GraphError>;
}

/// One array of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchInput {
    /// What it is called.
    pub name: &'static str,
    /// Its type.
    pub ty: TensorType,
}

/// The loss of a batch. What is minimised is the sum over the whole batch divided by the count over the whole batch,
/// however the batch is cut into parts.
#[derive(Clone, Copy, Debug)]
pub struct ModelLoss {
    /// The summed loss, `f32[]`.
    pub sum: Value,
    /// What the sum is divided by, `s32[]`.
    pub count: Value,
}
