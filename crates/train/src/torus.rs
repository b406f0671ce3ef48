//! A step whose collectives are written by hand, on devices that lie on a torus.

use shardwright_mesh::{Mesh, PhysicalTopology, Placement};
use shardwright_partition::ShardingPlan;
use shardwright_runtime::Runtime;

use crate::{StepConfig, TrainError};

impl StepConfig {
    /// The mesh and the plan that a step is compiled for. Where its collectives are written by hand and the devices lie
    /// on a torus, they run over the axes of that: compilers make gathers and scatters of those, and not of one axis
    /// over all. What a device holds stays the same.
    ///
    /// # Errors
    /// When the lowering cannot write the plan.
    pub fn on_torus(
        &self,
        runtime: &Runtime,
        mesh: Mesh,
        plan: ShardingPlan,
    ) -> Result<(Mesh, ShardingPlan), TrainError> {
        let placed = match self.lowering.shards(&plan)? {
            None => None,
            Some(_) => runtime.physical_topology().ok().and_then(|topology| place(&topology, &mesh, &plan)),
        };
        Ok(placed.unwrap_or((mesh, plan)))
    }
}

/// The mesh and the plan over the axes of the torus. None of devices that a placement does not have in this order, or
/// has no torus for: these are taken as they are.
fn place(topology: &PhysicalTopology, mesh: &Mesh, plan: &ShardingPlan) -> Option<(Mesh, ShardingPlan)> {
    let placement = Placement::new(mesh.shape(), topology).ok().filter(|placed| placed.mesh() == mesh)?;
    let is_torus = mesh.shape().axis_names().any(|axis| placement.sub_axes(axis).len() > 1);
    let plan = plan.placed(&placement).ok().filter(|_| is_torus)?;
    Some((placement.physical_mesh().clone(), plan))
}

#[cfg(test)]
mod tests {
    use shardwright_hlo::{ArgumentKind, Module};
    use shardwright_mesh::{AbstractMesh, PhysicalDevice, TorusPosition};
    use shardwright_partition::{PlanOptions, PlannedArgument};
    use shardwright_tensor::{DType, TensorType};

    use super::*;

    /// A torus of one slice whose devices have other ids than their places.
    fn torus([x, y, z]: [usize; 3]) -> PhysicalTopology {
        let n = x * y * z;
        let device = |at: usize| PhysicalDevice {
            id: n - 1 - at,
            process: at / 4,
            slice: 0,
            position: Some(TorusPosition { coords: [at % x, at / x % y, at / x / y], core: 0 }),
        };
        PhysicalTopology::new((0..n).map(device), [true; 3]).unwrap()
    }

    /// A plan for a weight, one of sizes that do not divide, its state and a batch.
    fn plan(mesh: &AbstractMesh) -> ShardingPlan {
        let mut module = Module::new("step");
        let mut argument = |name: &str, dims: &[usize], kind| {
            module.add_argument_of_kind(name, TensorType::new(DType::F32, dims).unwrap(), kind);
        };
        argument("w", &[128, 64], ArgumentKind::Parameter);
        argument("odd", &[3, 133], ArgumentKind::Parameter);
        argument("w.exp_avg", &[128, 64], ArgumentKind::State { parameter: 0, without: None });
        argument("x", &[128, 5], ArgumentKind::Batch);
        let dim_rule = shardwright_partition::DimRule::StrictLargest;
        ShardingPlan::new(&module, mesh, &PlanOptions { dim_rule, ..PlanOptions::default() }).unwrap()
    }

    /// What each device holds of an argument, and how much memory that takes with padding.
    fn held(
        mesh: &Mesh,
        argument: &PlannedArgument,
    ) -> Vec<(usize, Vec<std::ops::Range<usize>>, Vec<usize>)> {
        let dims = argument.ty.dims();
        let of = |(partition, device)| {
            let ranges = argument.sharding.shard_ranges(partition, dims);
            (device, ranges, argument.sharding.shard_shape(dims).unwrap())
        };
        let mut held: Vec<_> = mesh.device_ids().enumerate().map(of).collect();
        held.sort_by_key(|(device, ..)| *device);
        held
    }

    #[test]
    fn over_the_axes_of_a_torus_each_device_holds_the_same() {
        for (sizes, shape, physical) in [
            ([4, 4, 1], "fsdp=16", "fsdp.x=4, fsdp.y=4"),
            ([4, 4, 4], "fsdp=64", "fsdp.x=4, fsdp.y=4, fsdp.z=4"),
            ([4, 4, 4], "data=4,fsdp=16", "data.z=4, fsdp.x=4, fsdp.y=4"),
            ([2, 4, 1], "fsdp=8", "fsdp.x=2, fsdp.y=4"),
        ] {
            let topology = torus(sizes);
            let mesh =
                Placement::new(&AbstractMesh::parse(shape).unwrap(), &topology).unwrap().mesh().clone();
            let plan = plan(mesh.shape());
            let (physical_mesh, placed) = place(&topology, &mesh, &plan).unwrap();
            assert_eq!(physical_mesh.shape().to_string(), physical);
            assert_eq!(placed.mesh(), physical_mesh.shape());
            assert_eq!(placed.split_parameters(), plan.split_parameters());
            for (argument, placed) in plan.arguments().iter().zip(placed.arguments()) {
                assert_eq!(
                    held(&physical_mesh, placed),
                    held(&mesh, argument),
                    "{} on {shape}",
                    argument.name
                );
                assert_eq!(
                    (placed.bytes_per_device, placed.padding_bytes),
                    (argument.bytes_per_device, argument.padding_bytes)
                );
            }
        }
    }

    #[test]
    fn devices_in_another_order_and_on_one_axis_are_taken_as_they_are() {
        let topology = torus([4, 4, 1]);
        let shape = AbstractMesh::parse("fsdp=16").unwrap();
        assert!(place(&topology, &Mesh::iota(shape.clone()), &plan(&shape)).is_none());
        let ring = torus([8, 1, 1]);
        let mesh = Placement::new(&AbstractMesh::parse("fsdp=8").unwrap(), &ring).unwrap().mesh().clone();
        assert!(place(&ring, &mesh, &plan(mesh.shape())).is_none());
    }
}
