//! Lion: steps of one size, in the direction of the sign of a mean gradient.

use shardwright_graph::{Graph, GraphError};
use shardwright_hlo::Unary;

use super::{Optimizer, StateInfo, Update, Updated, spread};
use crate::Group;

/// Lion with decoupled weight decay.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Lion {
    /// How much the kept mean counts in the direction of a step.
    pub beta1: f64,
    /// Decay of the kept mean.
    pub beta2: f64,
}

impl Default for Lion {
    /// Trainer's defaults, which are those that it has for Adam.
    fn default() -> Self {
        Lion { beta1: 0.9, beta2: 0.999 }
    }
}

impl Optimizer for Lion {
    fn state(&self, _dims: &[usize]) -> Vec<StateInfo> {
        vec![StateInfo { name: "exp_avg", without: None }]
    }

    fn numbers(&self, group: &Group, factor: f64, _taken: usize) -> Vec<f64> {
        let learning_rate = group.learning_rate * factor;
        vec![1.0 - learning_rate * group.weight_decay, learning_rate]
    }

    fn update(&self, g: &Graph, update: &Update<'_>) -> Result<Updated, GraphError> {
        let (&[exp_avg], &[decay, learning_rate]) = (update.state, update.numbers) else {
            unreachable!("an update has the state and the numbers that its optimizer asks for");
        };
        let gradient = update.gradient;
        let mix = |beta: f64| g.add(g.scale(exp_avg, beta)?, g.scale(gradient, 1.0 - beta)?);
        // p ← (1 − η λ) p − η sign(β₁ m + (1 − β₁) g), m ← β₂ m + (1 − β₂) g
        let direction = g.unary(Unary::Sign, mix(self.beta1)?)?;
        let decayed = g.mul(update.parameter, spread(g, decay, gradient)?)?;
        let parameter = g.sub(decayed, g.mul(direction, spread(g, learning_rate, gradient)?)?)?;
        Ok(Updated { parameter, state: vec![mix(self.beta2)?] })
    }
}
