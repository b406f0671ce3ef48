//! Norms of gradients, and clipping by them.

use shardwright_graph::{Graph, GraphError, Value};
use shardwright_hlo::{AxisGroup, Binary, Comparison, Unary};
use shardwright_model::ParameterInfo;
use shardwright_partition::Shards;
use shardwright_tensor::DType;

use crate::groups::check_covers;
use crate::{Clipping, GroupError};

type Result<T> = std::result::Result<T, GraphError>;

/// The squared L2 norm of each gradient, each `f32[]`.
pub(super) struct GradientNorms {
    squares: Vec<Value>,
}

impl GradientNorms {
    /// The norms of the gradients of these parameters. What devices hold in parts is summed over them, in one
    /// collective for all parameters that are split over the same ones.
    pub(super) fn new(
        g: &Graph,
        parameters: &[usize],
        gradients: &[Value],
        shards: Option<&Shards<'_>>,
    ) -> Result<GradientNorms> {
        let square = |&gradient: &Value| {
            let all: Vec<usize> = (0..g.dims(gradient).len()).collect();
            g.sum(g.mul(gradient, gradient)?, &all)
        };
        let mut squares = gradients.iter().map(square).collect::<Result<Vec<Value>>>()?;
        let mut split: Vec<(AxisGroup, Vec<usize>)> = Vec::new();
        for (place, &parameter) in parameters.iter().enumerate() {
            let Some(devices) = shards.and_then(|shards| shards.split(parameter)) else { continue };
            match split.iter_mut().find(|(known, _)| *known == devices) {
                Some((_, places)) => places.push(place),
                None => split.push((devices, vec![place])),
            }
        }
        for (devices, places) in split {
            let parts: Vec<Value> = places.iter().map(|&place| squares[place]).collect();
            let sums = g.all_reduce(stack(g, &parts)?, devices)?;
            for (index, place) in places.into_iter().enumerate() {
                squares[place] = g.reshape(g.slice_dim(sums, 0, index..index + 1)?, &[])?;
            }
        }
        Ok(GradientNorms { squares })
    }

    /// The squares, `f32[gradient]`.
    pub(super) fn stacked(&self, g: &Graph) -> Result<Value> {
        stack(g, &self.squares)
    }

    /// The L2 norm over all gradients.
    pub(super) fn global(&self, g: &Graph) -> Result<Value> {
        norm(g, &self.squares)
    }
}

impl Clipping {
    /// Whether the gradient of a parameter is clipped.
    pub(super) fn covers(&self, parameter: &str) -> bool {
        self.within.is_empty() || self.within.iter().any(|pattern| pattern.covers(parameter))
    }

    /// Checks that each pattern covers a parameter.
    pub(crate) fn check(&self, parameters: &[ParameterInfo]) -> std::result::Result<(), GroupError> {
        self.within.iter().try_for_each(|pattern| check_covers(pattern, "of what is clipped", parameters))
    }
}

/// Clips the gradients that are to be clipped: by the norm over them, then by value. By a norm they are scaled by
/// `min(1, max_norm / (norm + 10⁻⁶))`, as `torch.nn.utils.clip_grad_norm_` does.
pub(super) fn clip(
    g: &Graph,
    clipping: &Clipping,
    clipped: &[bool],
    gradients: &[Value],
    norms: &GradientNorms,
) -> Result<Vec<Value>> {
    let squares: Vec<Value> = norms
        .squares
        .iter()
        .zip(clipped)
        .filter_map(|(square, clipped)| clipped.then_some(*square))
        .collect();
    let factor = clipping.norm.map(|max_norm| factor(g, norm(g, &squares)?, max_norm)).transpose()?;
    let one = |(&gradient, &clipped): (&Value, &bool)| {
        let mut gradient = gradient;
        if let (Some(factor), true) = (factor, clipped) {
            gradient = g.mul(gradient, g.broadcast_in_dim(factor, &g.dims(gradient), &[])?)?;
        }
        if let (Some(most), true) = (clipping.value, clipped) {
            gradient = g.binary(Binary::Minimum, gradient, g.full_like(gradient, most)?)?;
            gradient = g.binary(Binary::Maximum, gradient, g.full_like(gradient, -most)?)?;
        }
        Ok(gradient)
    };
    gradients.iter().zip(clipped).map(one).collect()
}

fn factor(g: &Graph, norm: Value, max_norm: f64) -> Result<Value> {
    let ratio = g.div(g.full_like(norm, max_norm)?, g.offset(norm, 1e-6)?)?;
    let one = g.full_like(norm, 1.0)?;
    // A NaN must not come out as 1.
    let below = g.compare(Comparison::Greater, ratio, one)?;
    g.select(below, one, ratio)
}

/// The root of a sum of squares.
fn norm(g: &Graph, squares: &[Value]) -> Result<Value> {
    let zero = g.full(DType::F32, &[], 0.0)?;
    let sum = squares.iter().try_fold(zero, |sum, &square| g.add(sum, square))?;
    g.unary(Unary::Sqrt, sum)
}

/// Scalars as one vector.
fn stack(g: &Graph, scalars: &[Value]) -> Result<Value> {
    let parts = scalars.iter().map(|&scalar| g.reshape(scalar, &[1])).collect::<Result<Vec<Value>>>()?;
    g.concatenate(&parts, 0)
}
