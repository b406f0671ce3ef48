//! Gradient descent, in the order of operations of PyTorch's `torch.optim.SGD`.

use shardwright_graph::{Graph, GraphError};

use super::{Optimizer, StateInfo, Update, Updated, spread};
use crate::Group;

/// Gradient descent as PyTorch defines it: weight decay is added to the gradient.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sgd {
    /// What earlier gradients do; by default nothing.
    pub momentum: Option<Momentum>,
}

/// What earlier gradients do to a step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Momentum {
    /// The step is along a sum of gradients, in which earlier ones fade.
    Classic {
        /// What the sum is multiplied by before a gradient is added.
        momentum: f64,
        /// A gradient counts as one less this, but for the first.
        dampening: f64,
    },
    /// The step is along what the sum would be one step later.
    Nesterov {
        /// What the sum is multiplied by before a gradient is added.
        momentum: f64,
    },
}

impl Optimizer for Sgd {
    fn state(&self, _dims: &[usize]) -> Vec<StateInfo> {
        let buffer = self.momentum.map(|_| StateInfo { name: "momentum_buffer", without: None });
        buffer.into_iter().collect()
    }

    fn numbers(&self, group: &Group, factor: f64, taken: usize) -> Vec<f64> {
        let weight = match self.momentum {
            Some(Momentum::Classic { dampening, .. }) if taken > 0 => 1.0 - dampening,
            _ => 1.0,
        };
        vec![group.learning_rate * factor, group.weight_decay, weight]
    }

    fn update(&self, g: &Graph, update: &Update<'_>) -> Result<Updated, GraphError> {
        let &[learning_rate, weight_decay, weight] = update.numbers else {
            unreachable!("an update has the numbers that its optimizer asks for");
        };
        let before = update.parameter;
        let gradient = g.add(update.gradient, g.mul(before, spread(g, weight_decay, before)?)?)?;
        let (direction, state) = match (self.momentum, update.state) {
            (Some(kind), &[buffer]) => {
                let (Momentum::Classic { momentum, .. } | Momentum::Nesterov { momentum }) = kind;
                let weighted = g.mul(gradient, spread(g, weight, gradient)?)?;
                let buffer = g.add(g.scale(buffer, momentum)?, weighted)?;
                let direction = match kind {
                    Momentum::Classic { .. } => buffer,
                    Momentum::Nesterov { .. } => g.add(gradient, g.scale(buffer, momentum)?)?,
                };
                (direction, vec![buffer])
            }
            _ => (gradient, Vec::new()),
        };
        let parameter = g.sub(before, g.mul(direction, spread(g, learning_rate, before)?)?)?;
        Ok(Updated { parameter, state })
    }
}
