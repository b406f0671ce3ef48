//! AdamW, in the order of operations of PyTorch's `torch.optim.AdamW`.

use shardwright_graph::{Graph, GraphError, Value};
use shardwright_hlo::Unary;
use shardwright_tensor::HostArray;

use crate::AdamWConfig;

type Result<T> = std::result::Result<T, GraphError>;

/// How many numbers of a step are worked out on the host.
pub(crate) const FACTORS: usize = 3;

/// The numbers that differ from step to step, in f64 until they are passed in.
pub(crate) fn factors(config: &AdamWConfig, learning_rate: f64, step: usize) -> HostArray {
    let taken = i32::try_from(step + 1).unwrap_or(i32::MAX);
    let decay = 1.0 - learning_rate * config.weight_decay;
    let step_size = learning_rate / (1.0 - config.beta1.powi(taken));
    let root_correction = (1.0 - config.beta2.powi(taken)).sqrt();
    let factors: [f32; FACTORS] = [decay, step_size, root_correction].map(|f| f as f32);
    HostArray::from_slice(&[FACTORS], &factors).expect("as many as the type says")
}

/// The factors inside the program.
#[derive(Clone, Copy)]
pub(crate) struct Factors {
    decay: Value,
    step_size: Value,
    root_correction: Value,
}

/// A parameter with its moments.
#[derive(Clone, Copy)]
pub(crate) struct Slot {
    pub(crate) parameter: Value,
    pub(crate) exp_avg: Value,
    pub(crate) exp_avg_sq: Value,
}

impl Factors {
    /// Takes the argument apart that [`factors`] makes.
    pub(crate) fn new(g: &Graph, argument: Value) -> Result<Factors> {
        let factor = |i| g.reshape(g.slice_dim(argument, 0, i..i + 1)?, &[]);
        Ok(Factors { decay: factor(0)?, step_size: factor(1)?, root_correction: factor(2)? })
    }
}

/// The slot after one update.
pub(crate) fn update(
    g: &Graph,
    config: &AdamWConfig,
    factors: Factors,
    slot: Slot,
    gradient: Value,
    decays: bool,
) -> Result<Slot> {
    let spread = |factor| g.broadcast_in_dim(factor, &g.dims(gradient), &[]);
    // m ← m + (1 − β₁)(g − m), v ← β₂ v + (1 − β₂) g²
    let toward = g.scale(g.sub(gradient, slot.exp_avg)?, 1.0 - config.beta1)?;
    let exp_avg = g.add(slot.exp_avg, toward)?;
    let square = g.scale(g.mul(gradient, gradient)?, 1.0 - config.beta2)?;
    let exp_avg_sq = g.add(g.scale(slot.exp_avg_sq, config.beta2)?, square)?;

    // p ← (1 − η λ) p − η / (1 − β₁ᵗ) · m / (√v / √(1 − β₂ᵗ) + ε)
    let parameter = match decays {
        true => g.mul(slot.parameter, spread(factors.decay)?)?,
        false => slot.parameter,
    };
    let root = g.div(g.unary(Unary::Sqrt, exp_avg_sq)?, spread(factors.root_correction)?)?;
    let direction = g.div(exp_avg, g.offset(root, config.epsilon)?)?;
    let parameter = g.sub(parameter, g.mul(spread(factors.step_size)?, direction)?)?;
    Ok(Slot { parameter, exp_avg, exp_avg_sq })
}
