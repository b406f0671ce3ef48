//! Where batches lie.

use shardwright_mesh::{AbstractMesh, AxisName, DimSharding, PartitionSpec};
use shardwright_tensor::TensorType;

use crate::PlanError;
use crate::tensor::is_tensor_axis;

/// The axes that batches are split over: all but `tensor`, over which every device sees the same examples, and the axes
/// of a torus that it is made of, `tensor.x` and so on.
pub fn data_axes(mesh: &AbstractMesh) -> impl Iterator<Item = &AxisName> {
    mesh.axis_names().filter(|axis| !is_tensor_axis(axis.as_str()))
}

/// The spec of a batch, whose dim 0 has to divide.
pub(crate) fn batch_spec_of(
    mesh: &AbstractMesh,
    name: &str,
    ty: &TensorType,
) -> Result<PartitionSpec, PlanError> {
    let shards = data_axes(mesh).filter_map(|a| mesh.axis_size(a)).product();
    match ty.dims().first() {
        Some(examples) if examples % shards == 0 => Ok(batch_spec(mesh, ty.rank())),
        Some(&examples) => {
            Err(PlanError::Batch { argument: name.to_owned(), examples, shards, mesh: mesh.clone() })
        }
        None => Ok(PartitionSpec::replicated(0)),
    }
}

pub(super) fn batch_spec(mesh: &AbstractMesh, rank: usize) -> PartitionSpec {
    let dim0 = DimSharding { axes: data_axes(mesh).cloned().collect() };
    let rest = std::iter::repeat_with(DimSharding::default);
    PartitionSpec::new(std::iter::once(dim0).chain(rest).take(rank))
}
