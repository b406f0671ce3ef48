//! Why no plan can be made.

use shardwright_mesh::{AbstractMesh, AxisName, ShardingError};
use thiserror::Error;

use crate::{Strategy, TENSOR_AXIS};

/// A program and a mesh that no plan can be made for.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum PlanError {
    /// The mesh lacks the axis that parameters are split over.
    #[error(
        "the mesh ({mesh}) has no axis {axis} to split parameters over; name one of its axes {axis}, or choose another axis for them"
    )]
    NoAxis {
        /// The mesh.
        mesh: AbstractMesh,
        /// The axis that is missing.
        axis: String,
    },
    /// A hybrid strategy on a mesh without an axis to replicate over.
    #[error(
        "{strategy} replicates parameters over a second mesh axis, and the mesh ({mesh}) has none besides {axis}; give one, as in data=2,{axis}=-1"
    )]
    NoReplicaAxis {
        /// The strategy.
        strategy: Strategy,
        /// The mesh.
        mesh: AbstractMesh,
        /// The axis that parameters are split over.
        axis: String,
    },
    /// A batch that cannot be cut into equal parts.
    #[error("{argument}: a batch of {examples} does not divide over {shards} data shards (mesh {mesh})")]
    Batch {
        /// Name of the argument.
        argument: String,
        /// Its dim 0.
        examples: usize,
        /// Product of the data axes.
        shards: usize,
        /// The mesh.
        mesh: AbstractMesh,
    },
    /// A parameter that is split over an axis that the batch is not split over, and a lowering that cannot do that.
    #[error(
        "{argument} is split over mesh axis {axis}, along which all devices see the same examples; the explicit lowering gathers over the axes of the batch only, and the annotate lowering over any"
    )]
    NotADataAxis {
        /// Name of the argument.
        argument: String,
        /// The axis.
        axis: AxisName,
    },
    /// A mesh of more devices than a program can list, and a lowering that lists them.
    #[error(
        "mesh {mesh} has {} devices, and the explicit lowering lists those that exchange something, up to 1048576; the annotate lowering leaves that to the compiler",
        mesh.size()
    )]
    TooManyDevices {
        /// The mesh.
        mesh: AbstractMesh,
    },
    /// A parameter whose rows are whole on some devices each, and a lowering that gathers rows.
    #[error(
        "{argument}: dim 0 is split over mesh axis {axis}, and the program takes one index of it at a time; split another dim"
    )]
    SplitRows {
        /// Name of the argument.
        argument: String,
        /// The axis.
        axis: AxisName,
    },
    /// Parameters cannot be split for storage over the axis that layers are split over.
    #[error(
        "parameters cannot be sharded over the axis {TENSOR_AXIS}, over which all devices see the same examples; choose another axis"
    )]
    TensorAxis,
    /// A dim that the tensor axis does not cut into equal parts.
    #[error(
        "parameter {parameter}: dim {dim} of size {size} does not divide into {shards} parts (mesh axis {TENSOR_AXIS}); choose another size of the axis, or a tensor_plan in which this module is replicated"
    )]
    Tensor {
        /// Name of the parameter.
        parameter: String,
        /// The dim.
        dim: usize,
        /// Its size.
        size: usize,
        /// The size of the axis.
        shards: usize,
    },
    /// A spec that does not fit the mesh or the argument.
    #[error("argument {argument}: {source}")]
    Sharding {
        /// Name of the argument.
        argument: String,
        /// What is wrong.
        source: ShardingError,
    },
}
