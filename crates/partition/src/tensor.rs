//! Tensor parallelism: which dim of a module's parameters the mesh axis [`TENSOR_AXIS`] splits, and what that makes
//! of the module's output.
//!
//! Over the tensor axis all devices see the same examples, and each computes a part of every layer. Weights are
//! stored `[out, in]`. Where a module is split by its outputs and the next one by its inputs, as an MLP's up and down
//! projections are, what lies in between stays split, and only the sum that the second one gives travels:
//!
//! ```text
//!              x whole          h split               y summed over tensor
//!  [batch, hidden] ── colwise ── [batch, inner/n] ── rowwise ── [batch, hidden]
//!                   up [inner/n, hidden]         down [hidden, inner/n]
//! ```
//!
//! A plan is data, in the words of Hugging Face's `base_model_tp_plan`: a model states its own, and a configuration may
//! give another.

use std::fmt;

use shardwright_mesh::{AbstractMesh, AxisName, DimSharding, PartitionSpec};

use crate::ModulePattern;

/// The mesh axis over which modules are split, and batches are not.
pub const TENSOR_AXIS: &str = "tensor";

/// How the parameters of a module are split over the tensor axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TensorSplit {
    /// By outputs: dim 0 of weights and biases. The module's output stays split, on its last dim.
    Colwise,
    /// Dim 0 of weights and biases, and the output is whole: an embedding table by its rows, or an output layer whose
    /// results are wanted together.
    ColwiseGathered,
    /// By inputs: dim 1 of weights; biases are whole. The output, a sum over the axis, is whole.
    Rowwise,
    /// Not at all.
    Replicated,
}

/// Rules from modules to how they are split. The first that covers a module counts. One that none covers is whole,
/// and where what it hands on lies is left to the compiler.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TensorPlan {
    /// The rules, in the order in which they are tried.
    pub rules: Vec<TensorRule>,
}

/// One rule of a [`TensorPlan`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorRule {
    /// The modules.
    pub modules: ModulePattern,
    /// How they are split.
    pub split: TensorSplit,
}

impl TensorSplit {
    /// Each split with its words, the first of which is printed. The rest are other words of Hugging Face.
    const WORDS: [(TensorSplit, &[&str]); 4] = [
        (TensorSplit::Colwise, &["colwise"]),
        (TensorSplit::ColwiseGathered, &["colwise_rep", "colwise_gather_output", "embedding_rowwise"]),
        (TensorSplit::Rowwise, &["rowwise"]),
        (TensorSplit::Replicated, &["replicated"]),
    ];

    /// The split of this name.
    pub fn from_word(word: &str) -> Option<TensorSplit> {
        Self::WORDS.into_iter().find(|(_, words)| words.contains(&word)).map(|(split, _)| split)
    }

    /// All names, as a list for messages.
    pub fn words() -> String {
        Self::WORDS.iter().flat_map(|(_, words)| *words).copied().collect::<Vec<_>>().join(", ")
    }

    /// The dim of a parameter of this rank that is split.
    fn dim(self, rank: usize) -> Option<usize> {
        let dim = match self {
            TensorSplit::Colwise | TensorSplit::ColwiseGathered => 0,
            TensorSplit::Rowwise => 1,
            TensorSplit::Replicated => return None,
        };
        (dim < rank).then_some(dim)
    }
}

impl fmt::Display for TensorSplit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = Self::WORDS.into_iter().find(|(split, _)| split == self);
        f.write_str(words.map_or("", |(_, words)| words[0]))
    }
}

impl TensorPlan {
    /// How the module at `path`, or the one that the parameter of that name belongs to, is split, if a rule says so.
    pub fn split(&self, path: &str) -> Option<TensorSplit> {
        self.rules.iter().find(|rule| rule.modules.covers(path)).map(|rule| rule.split)
    }

    /// The dim of a parameter that the mesh's tensor axis splits, where it has one of more than one device.
    pub(crate) fn parameter_dim(&self, name: &str, rank: usize, mesh: &AbstractMesh) -> Option<usize> {
        tensor_size(mesh).and(self.split(name)).and_then(|split| split.dim(rank))
    }

    /// Where the output of the module at `path` lies, if a rule says so, on a mesh with a tensor axis. `batch` is where
    /// it would without that.
    pub(crate) fn output_spec(
        &self,
        path: &str,
        dims: &[usize],
        batch: PartitionSpec,
        mesh: &AbstractMesh,
    ) -> Option<PartitionSpec> {
        let n = tensor_size(mesh)?;
        let split = self.split(path)?;
        match dims {
            [_, .., last] if split == TensorSplit::Colwise && last.is_multiple_of(n) => {
                Some(split_further(&batch, dims.len() - 1, TENSOR_AXIS))
            }
            _ => Some(batch),
        }
    }
}

/// The size of the tensor axis, if the mesh has one of more than one device.
pub(crate) fn tensor_size(mesh: &AbstractMesh) -> Option<usize> {
    mesh.axis_size(TENSOR_AXIS).filter(|n| *n > 1)
}

/// The spec with one more axis, the most minor one, on `dim`.
pub(crate) fn split_further(spec: &PartitionSpec, dim: usize, axis: &str) -> PartitionSpec {
    let mut dims = spec.dims().to_vec();
    dims[dim].axes.push(axis.into());
    PartitionSpec::new(dims)
}

/// The spec without an axis.
pub(crate) fn without_axis(spec: &PartitionSpec, axis: &AxisName) -> PartitionSpec {
    let kept = |dim: &DimSharding| dim.axes.iter().filter(|a| *a != axis).cloned().collect::<Vec<_>>();
    PartitionSpec::new(spec.dims().iter().map(kept))
}
