//! A parameter as the program of an update has it, and sums over the whole of it.

use shardwright_graph::{Graph, GraphError, Value};
use shardwright_hlo::{AxisGroup, Unary};
use shardwright_partition::Shards;

/// A parameter in the program that updates it: whole, or as one device's shard. What is kept for it or made of it lies as
/// it does, and may lack some of its dims.
#[derive(Clone, Debug, PartialEq)]
pub struct Held {
    dims: Vec<usize>,
    /// For each dim, the devices whose shards make it up.
    split: Vec<Option<AxisGroup>>,
}

impl Held {
    /// A parameter of these dims, all of which the program has.
    pub fn whole(dims: &[usize]) -> Held {
        Held { dims: dims.to_vec(), split: vec![None; dims.len()] }
    }

    /// The parameter of these dims that is the argument with this index, as one device's shard.
    pub(crate) fn shard(dims: &[usize], shards: &Shards<'_>, parameter: usize) -> Held {
        Held { dims: dims.to_vec(), split: shards.split_dims(parameter) }
    }

    /// The dims of the whole, without padding.
    pub fn dims(&self) -> &[usize] {
        &self.dims
    }

    /// How many elements the whole has.
    pub fn element_count(&self) -> usize {
        self.dims.iter().product()
    }

    /// What lies as this does and lacks the dim with this index.
    ///
    /// # Panics
    /// If there is no such dim.
    #[must_use]
    pub fn without(&self, dim: usize) -> Held {
        let mut rest = self.clone();
        rest.dims.remove(dim);
        rest.split.remove(dim);
        rest
    }

    /// Sums an array that lies as this does over dims of the whole. Shards may be padded, so `x` has to be zero where the
    /// parameter's gradient is zero for good: that is so at all of the padding.
    ///
    /// # Errors
    /// When `x` has no such dims.
    pub fn sum(&self, g: &Graph, x: Value, dims: &[usize]) -> Result<Value, GraphError> {
        let sum = g.sum(x, dims)?;
        let groups: Vec<&AxisGroup> = dims.iter().filter_map(|&dim| self.split.get(dim)?.as_ref()).collect();
        let Some(first) = groups.first() else { return Ok(sum) };
        let axes = groups.iter().flat_map(|group| group.axes()).cloned();
        let group = AxisGroup::new(first.mesh(), axes).expect("a mesh axis splits one dim at most");
        g.all_reduce(sum, group)
    }

    /// [`Held::sum`], divided by the size of these dims of the whole.
    ///
    /// # Errors
    /// When `x` has no such dims.
    pub fn mean(&self, g: &Graph, x: Value, dims: &[usize]) -> Result<Value, GraphError> {
        let count: usize = dims.iter().filter_map(|&dim| self.dims.get(dim)).product();
        g.scale(self.sum(g, x, dims)?, 1.0 / count.max(1) as f64)
    }

    /// The root of the mean of the squares over the whole, `f32[]`.
    ///
    /// # Errors
    /// When `x` has other dims.
    pub fn rms(&self, g: &Graph, x: Value) -> Result<Value, GraphError> {
        let all: Vec<usize> = (0..self.dims.len()).collect();
        g.unary(Unary::Sqrt, self.mean(g, g.mul(x, x)?, &all)?)
    }
}
