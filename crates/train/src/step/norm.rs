//! The global norm of gradients, and clipping by it.

use shardwright_graph::{Graph, GraphError, Value};
use shardwright_hlo::{Binary, Comparison, Unary};
use shardwright_partition::Shards;
use shardwright_tensor::DType;

type Result<T> = std::result::Result<T, GraphError>;

/// The L2 norm over the gradients of these parameters. What devices hold in parts is summed over them, what all hold is
/// counted once.
pub(super) fn global_norm(
    g: &Graph,
    parameters: &[usize],
    gradients: &[Value],
    shards: Option<&Shards<'_>>,
) -> Result<Value> {
    let mut totals = vec![(None, g.full(DType::F32, &[], 0.0)?)];
    for (&parameter, &gradient) in parameters.iter().zip(gradients) {
        let all: Vec<usize> = (0..g.dims(gradient).len()).collect();
        let square = g.sum(g.mul(gradient, gradient)?, &all)?;
        let devices = shards.and_then(|shards| shards.split(parameter));
        match totals.iter_mut().find(|(known, _)| *known == devices) {
            Some((_, total)) => *total = g.add(*total, square)?,
            None => totals.push((devices, square)),
        }
    }
    let mut sum = totals[0].1;
    for (devices, total) in totals {
        if let Some(devices) = devices {
            sum = g.add(sum, g.all_reduce(total, devices)?)?;
        }
    }
    g.unary(Unary::Sqrt, sum)
}

/// Scales gradients by `min(1, max_norm / (norm + 10⁻⁶))`, as `torch.nn.utils.clip_grad_norm_` does.
pub(super) fn clip(g: &Graph, gradients: &[Value], norm: Value, max_norm: f64) -> Result<Vec<Value>> {
    let ratio = g.div(g.full_like(norm, max_norm)?, g.offset(norm, 1e-6)?)?;
    let one = g.full_like(norm, 1.0)?;
    // A NaN must not come out as 1.
    let below = g.compare(Comparison::Greater, ratio, one)?;
    let factor = g.select(below, one, ratio)?;
    let scaled =
        |&gradient| g.binary(Binary::Multiply, gradient, g.broadcast_in_dim(factor, &g.dims(gradient), &[])?);
    gradients.iter().map(scaled).collect()
}
