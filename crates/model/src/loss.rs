//! The causal language-model loss.

use shardwright_graph::{Graph, GraphError, Value};
use shardwright_hlo::{Comparison, Unary};
use shardwright_tensor::{DType, HostArray};

type Result<T> = std::result::Result<T, GraphError>;

/// The label of a token that is not to be predicted.
pub const IGNORED_LABEL: i32 = -100;

/// The loss of a batch, and what it may be divided by.
#[derive(Clone, Copy, Debug)]
pub struct CausalLoss {
    /// Cross-entropy summed over all targets, `f32[]`.
    pub sum: Value,
    /// How many targets there are: labels after the shift that are not ignored, `s32[]`.
    pub targets: Value,
    /// How many labels before the shift are not ignored, `s32[]`: what the Hugging Face Trainer divides by.
    pub labels: Value,
}

/// The cross-entropy of `f32[batch, position, vocabulary]` logits against the `s32[batch, position]` labels one
/// position on.
///
/// # Errors
/// When logits and labels are not of these types.
pub fn causal_loss(g: &Graph, logits: Value, labels: Value) -> Result<CausalLoss> {
    let dims = g.dims(logits);
    let [batch, positions] = [dims[0], dims[1]];
    let ignored =
        |dims: &[usize]| g.broadcast_in_dim(g.constant(HostArray::scalar(IGNORED_LABEL))?, dims, &[]);
    // The last position has nothing to predict.
    let shifted = g.slice_dim(labels, 1, 1..positions)?;
    let targets = g.concatenate(&[shifted, ignored(&[batch, 1])?], 1)?;

    let spread = |v| g.broadcast_in_dim(v, &dims, &[0, 1]);
    let max = g.detach(g.max(logits, &[2])?);
    let shifted = g.sub(logits, spread(max)?)?;
    let log_sum = g.unary(Unary::Log, g.sum(g.unary(Unary::Exponential, shifted)?, &[2])?)?;
    let is_target = g.compare(Comparison::Equal, g.iota(DType::S32, &dims, 2)?, spread(targets)?)?;
    let picked = g.sum(g.select(is_target, shifted, g.full_like(shifted, 0.0)?)?, &[2])?;

    let counts = |labels| g.compare(Comparison::NotEqual, labels, ignored(&[batch, positions])?);
    let each = g.sub(log_sum, picked)?;
    let sum = g.sum(g.select(counts(targets)?, each, g.full_like(each, 0.0)?)?, &[0, 1])?;
    // Counted as integers: in f32, counts beyond 2²⁴ would be rounded.
    let count = |labels| g.sum(g.convert(counts(labels)?, DType::S32)?, &[0, 1]);
    Ok(CausalLoss { sum, targets: count(targets)?, labels: count(labels)? })
}
