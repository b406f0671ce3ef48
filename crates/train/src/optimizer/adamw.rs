//! AdamW, in the order of operations of PyTorch's `torch.optim.AdamW`.

use shardwright_graph::{Graph, GraphError, Value};
use shardwright_hlo::Unary;

use super::{Optimizer, StateInfo, Update, Updated, spread};
use crate::Group;

/// AdamW as PyTorch defines it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdamW {
    /// Decay of the mean of gradients.
    pub beta1: f64,
    /// Decay of the mean of squared gradients.
    pub beta2: f64,
    /// Added to the root of the mean square.
    pub epsilon: f64,
}

impl Default for AdamW {
    /// Trainer's defaults.
    fn default() -> Self {
        AdamW { beta1: 0.9, beta2: 0.999, epsilon: 1e-8 }
    }
}

impl Optimizer for AdamW {
    fn state(&self, _dims: &[usize]) -> Vec<StateInfo> {
        ["exp_avg", "exp_avg_sq"].map(|name| StateInfo { name, without: None }).into()
    }

    fn numbers(&self, group: &Group, factor: f64, taken: usize) -> Vec<f64> {
        let learning_rate = group.learning_rate * factor;
        let t = i32::try_from(taken + 1).unwrap_or(i32::MAX);
        let decay = 1.0 - learning_rate * group.weight_decay;
        let step_size = learning_rate / (1.0 - self.beta1.powi(t));
        let root_correction = (1.0 - self.beta2.powi(t)).sqrt();
        vec![decay, step_size, root_correction]
    }

    fn update(&self, g: &Graph, update: &Update<'_>) -> Result<Updated, GraphError> {
        let (&[exp_avg, exp_avg_sq], &[decay, step_size, root_correction]) = (update.state, update.numbers)
        else {
            unreachable!("an update has the state and the numbers that its optimizer asks for");
        };
        let gradient = update.gradient;
        let spread = |factor: Value| spread(g, factor, gradient);
        // m ← m + (1 − β₁)(g − m), v ← β₂ v + (1 − β₂) g²
        let toward = g.scale(g.sub(gradient, exp_avg)?, 1.0 - self.beta1)?;
        let exp_avg = g.add(exp_avg, toward)?;
        let square = g.scale(g.mul(gradient, gradient)?, 1.0 - self.beta2)?;
        let exp_avg_sq = g.add(g.scale(exp_avg_sq, self.beta2)?, square)?;

        // p ← (1 − η λ) p − η / (1 − β₁ᵗ) · m / (√v / √(1 − β₂ᵗ) + ε)
        let decayed = g.mul(update.parameter, spread(decay)?)?;
        let root = g.div(g.unary(Unary::Sqrt, exp_avg_sq)?, spread(root_correction)?)?;
        let direction = g.div(exp_avg, g.offset(root, self.epsilon)?)?;
        let parameter = g.sub(decayed, g.mul(spread(step_size)?, direction)?)?;
        Ok(Updated { parameter, state: vec![exp_avg, exp_avg_sq] })
    }
}
