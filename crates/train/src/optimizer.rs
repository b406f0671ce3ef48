//! Optimizers: what is kept for a parameter, and how it is updated.

mod adafactor;
mod adamw;
mod held;
mod lion;
mod sgd;

use std::fmt;

use shardwright_graph::{Graph, GraphError, Value};

use crate::Group;

pub use adafactor::Adafactor;
pub use adamw::AdamW;
pub use held::Held;
pub use lion::Lion;
pub use sgd::{Momentum, Sgd};

/// An optimizer, written into the program of a train step.
///
/// One that needs more than elementwise ops asks the [`Held`] parameter to reduce: an update may be written over one
/// device's shard.
pub trait Optimizer: fmt::Debug + Send + Sync {
    /// What is kept for a parameter of these dims, in the order in which [`update`](Optimizer::update) takes and gives
    /// it. All of it begins as zeros, in f32.
    fn state(&self, dims: &[usize]) -> Vec<StateInfo>;

    /// The numbers of one update that are worked out on the host, in f64: as many for each group and step. `taken` are
    /// the updates before this one, `factor` is what the schedule multiplies learning rates by.
    fn numbers(&self, group: &Group, factor: f64, taken: usize) -> Vec<f64>;

    /// Writes the update of one parameter.
    ///
    /// # Errors
    /// When the ops are not defined on what they are given.
    fn update(&self, g: &Graph, update: &Update<'_>) -> Result<Updated, GraphError>;
}

/// An array that an optimizer keeps for a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateInfo {
    /// Its name, as PyTorch's optimizers have it; it is kept as `PARAMETER.NAME`.
    pub name: &'static str,
    /// The dim of the parameter that it has not; without, it is of the parameter's shape.
    pub without: Option<usize>,
}

/// What an update is written of. All values are f32, of the dims that the device holds.
#[derive(Clone, Copy)]
pub struct Update<'a> {
    /// The parameter, as the program has it.
    pub held: &'a Held,
    /// Its value before the update.
    pub parameter: Value,
    /// What was kept for it.
    pub state: &'a [Value],
    /// Its gradient.
    pub gradient: Value,
    /// The [numbers](Optimizer::numbers) of its group, each `f32[]`.
    pub numbers: &'a [Value],
}

/// What an update gives.
#[derive(Clone, Debug)]
pub struct Updated {
    /// The parameter's new value.
    pub parameter: Value,
    /// What is kept for it.
    pub state: Vec<Value>,
}

/// A scalar at every index of an array like `x`.
fn spread(g: &Graph, scalar: Value, x: Value) -> Result<Value, GraphError> {
    g.broadcast_in_dim(scalar, &g.dims(x), &[])
}
