//! Logical meshes laid on physical topologies: [`Placement`].

use std::fmt;

use crate::assign::{Assignment, assignments};
use crate::text::clip;
use crate::{
    AbstractMesh, AxisName, DimSharding, Mesh, NamedSharding, PartitionSpec, PhysicalAxis, PhysicalTopology,
    ShardingError,
};

/// A mesh laid on a [`PhysicalTopology`], with what each of its axes is made of.
///
/// The axes of a mesh are ordered by how much they communicate, the last one most, and the fastest network is
/// found for each in turn. Here `fsdp` gets the whole torus of a slice, and `data` runs over the slices:
///
/// ```
/// # use shardwright_mesh::{AbstractMesh, PhysicalDevice, PhysicalTopology, Placement, TorusPosition};
/// # let devices = (0..32).map(|i| PhysicalDevice {
/// #     id: 100_000 * (1 + i / 16) + i % 16,
/// #     process: i / 4,
/// #     slice: i / 16,
/// #     position: Some(TorusPosition { coords: [i % 4, i / 4 % 4, 0], core: 0 }),
/// # });
/// # let topology = PhysicalTopology::new(devices, [false; 3])?;
/// assert_eq!(topology.to_string(), "32 devices: 2 slices of 4x4 chips, 8 hosts");
/// let placement = Placement::hybrid(&AbstractMesh::parse("data=1, fsdp=16")?, &[2, 1], &topology)?;
/// assert_eq!(placement.mesh().shape().to_string(), "data=2, fsdp=16");
/// assert_eq!(placement.to_string(), "data=2 (data.dcn=2), fsdp=16 (fsdp.x=4, fsdp.y=4)");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # The physical mesh
///
/// TPU compilers make poor collectives of one axis that covers a torus: they run over all its devices at once,
/// and a gradient's reduce-scatter becomes an all-reduce. Written by hand over one torus axis after the other,
/// the same exchange stays what it is. [`Placement::physical_mesh`] is the mesh for that: the same devices at
/// the same partitions, with each axis broken into *sub-axes*, the pieces of physical axes that it is made of.
/// The order of the devices alone, which [`Placement::mesh`] has, makes neighbours on the mesh neighbours on the
/// torus; it does not make reduce-scatters. For these the program itself has to be over the physical mesh.
/// [`Placement::physical_sharding`] turns a sharding over one into the sharding over the other that puts every
/// block on the same device:
///
/// ```
/// # use shardwright_mesh::{AbstractMesh, PhysicalDevice, PhysicalTopology, Placement, TorusPosition};
/// # let devices = (0..64).map(|id| PhysicalDevice {
/// #     id, process: 0, slice: 0,
/// #     position: Some(TorusPosition { coords: [id % 4, id / 4 % 4, id / 16], core: 0 }),
/// # });
/// # let topology = PhysicalTopology::new(devices, [true; 3])?;
/// let placement = Placement::new(&AbstractMesh::parse("fsdp=64")?, &topology)?;
/// assert_eq!(placement.physical_mesh().shape().to_string(), "fsdp.x=4, fsdp.y=4, fsdp.z=4");
/// let weight = placement.mesh().sharding("(fsdp, -)".parse()?)?;
/// let weight = placement.physical_sharding(&weight)?;
/// assert_eq!(weight.spec().to_string(), "((fsdp.x,fsdp.y,fsdp.z), -)");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placement {
    mesh: Mesh,
    // The same device ids in the same order, as the sub-axes come in the order of the axes.
    physical_mesh: Mesh,
    // For each axis of the mesh.
    sub_axes: Vec<Vec<SubAxis>>,
}

/// The piece of one physical axis that an axis of a mesh has.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SubAxis {
    /// Its name in the physical mesh, such as `fsdp.x`.
    pub name: AxisName,
    /// The physical axis.
    pub physical: PhysicalAxis,
    /// How many devices lie along it, at least 2.
    pub size: usize,
    /// How many steps along the physical axis lie between neighbours: 1 unless another axis of the mesh, further
    /// to the minor end, has a piece of the same physical axis.
    pub stride: usize,
}

/// A mesh that does not fit a topology.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlacementError {
    /// The sizes over slices are not one for each axis.
    #[error("mesh {ici} has {} axes, and {} sizes over slices are given: {dcn:?}; there is one for each axis, 1 where it stays in a slice", ici.axes().len(), dcn.len())]
    RankMismatch {
        /// The part of the mesh in one slice.
        ici: AbstractMesh,
        /// The sizes over slices.
        dcn: Vec<usize>,
    },
    /// The name of an axis leaves no room for what the names of its sub-axes add to it.
    #[error("axis {} has too long a name: those of its sub-axes, which add to it, would have more than {max} bytes", clip(axis), max = AxisName::MAX_LEN)]
    LongName {
        /// The axis.
        axis: AxisName,
    },
    /// The sizes over slices do not multiply to the number of slices.
    #[error(
        "the mesh spans {} (sizes over slices: {}), and the topology has {slice_count}; \
         the sizes over slices multiply to the number of slices",
        n_slices(*product), sizes(dcn)
    )]
    SliceCount {
        /// Each axis with its size over slices.
        dcn: Vec<(AxisName, usize)>,
        /// Their product.
        product: usize,
        /// Slices present.
        slice_count: usize,
    },
    /// The sizes within a slice do not multiply to the number of its devices.
    #[error(
        "mesh {ici} takes {product} devices of a slice, and a slice of the topology has {devices_per_slice}"
    )]
    SliceSize {
        /// The part of the mesh in one slice.
        ici: AbstractMesh,
        /// Its size.
        product: usize,
        /// Devices of each slice.
        devices_per_slice: usize,
    },
}

impl Mesh {
    /// A mesh of this shape on the devices of a topology of one slice, in the order that suits it best, and what
    /// its axes are made of: [`Placement::new`]. The mesh itself is [`Placement::mesh`].
    ///
    /// # Errors
    ///
    /// The topology has more than one slice, or not as many devices as the mesh.
    pub fn for_topology(
        shape: &AbstractMesh,
        topology: &PhysicalTopology,
    ) -> Result<Placement, PlacementError> {
        Placement::new(shape, topology)
    }
}

impl Placement {
    /// The best placement of a mesh on a topology of one slice: the first of [`Placement::candidates`].
    ///
    /// # Errors
    ///
    /// The topology has more than one slice, or not as many devices as the mesh.
    pub fn new(mesh: &AbstractMesh, topology: &PhysicalTopology) -> Result<Self, PlacementError> {
        Self::hybrid(mesh, &vec![1; mesh.axes().len()], topology)
    }

    /// The best placement of a mesh over several slices: the first of [`Placement::candidates`].
    ///
    /// `ici` has the names of the axes and their sizes within each slice, `dcn` for each axis its size over
    /// slices, which is the outer part of the axis: `data=1, fsdp=16` with `[2, 1]` is the mesh
    /// `data=2, fsdp=16`. The slow network wants its own axis, over which parameters are replicated.
    ///
    /// # Errors
    ///
    /// The two differ in length, or their products are not the number of devices of a slice and of slices.
    pub fn hybrid(
        ici: &AbstractMesh,
        dcn: &[usize],
        topology: &PhysicalTopology,
    ) -> Result<Self, PlacementError> {
        let first = Self::candidates(ici, dcn, topology)?.next();
        Ok(first.expect("equal products have a common factorization"))
    }

    /// All placements of a mesh, best first, as for [`Placement::hybrid`].
    ///
    /// They differ in which axis of the mesh has which part of which physical axis. The axes choose from the
    /// last one, which communicates most, to the first. Each prefers, in this order: whole physical axes, with
    /// nobody else on their links; several of them, whose links carry data at the same time; those that no axis
    /// before it has a part of; among whole ones those that wrap around, which are rings and not lines; the earlier
    /// of core, x, y and z. Where axes share a physical axis, neighbours along the
    /// last of them are neighbours on the torus. Without coordinates there is one placement: row-major by id.
    ///
    /// The number of placements can be astronomical; each is worked out when it is asked for.
    ///
    /// # Errors
    ///
    /// Those of [`Placement::hybrid`].
    pub fn candidates<'t>(
        ici: &AbstractMesh,
        dcn: &[usize],
        topology: &'t PhysicalTopology,
    ) -> Result<impl Iterator<Item = Self> + use<'t>, PlacementError> {
        check(ici, dcn, topology)?;
        // The first physical axis is the one over slices, and of that the caller has decided. The last one, the
        // cores of a chip, is chosen first.
        let mut axes = topology.axes()[1..].to_vec();
        axes.rotate_right(1);
        let physical = axes.iter().map(|(_, size)| *size).collect();
        let wraps = axes.iter().map(|(axis, _)| topology.wraps(*axis)).collect();
        let logical = ici.axes().iter().map(|(_, size)| *size).collect();
        let (ici, dcn) = (ici.clone(), dcn.to_vec());
        Ok(assignments(logical, physical, wraps).map(move |mut assignment| {
            for (factors, &over_slices) in assignment.iter_mut().zip(&dcn) {
                factors.rotate_left(1);
                factors.insert(0, over_slices);
            }
            Self::from_assignment(&ici, &assignment, topology)
        }))
    }

    fn from_assignment(names: &AbstractMesh, assignment: &Assignment, topology: &PhysicalTopology) -> Self {
        const FITS: &str = "names are those of a mesh, and the sizes multiply to the number of devices";
        let axes = names.axis_names().zip(assignment);
        let shape =
            AbstractMesh::new(axes.map(|(name, factors)| (name, factors.iter().product()))).expect(FITS);
        let sub_axes: Vec<_> =
            (0..assignment.len()).map(|idx| sub_axes(names, assignment, idx, topology)).collect();
        let flat: Vec<&SubAxis> = sub_axes.iter().flatten().collect();
        let physical = AbstractMesh::new(flat.iter().map(|sub| (&sub.name, sub.size))).expect(FITS);
        let ids = device_ids(&flat, topology);
        Self {
            mesh: Mesh::new(shape, ids.clone()).expect("each place of the grid is in the mesh once"),
            physical_mesh: Mesh::new(physical, ids).expect("each place of the grid is in the mesh once"),
            sub_axes,
        }
    }

    /// The mesh with its devices.
    pub fn mesh(&self) -> &Mesh {
        &self.mesh
    }

    /// The same devices at the same partitions, as a mesh of sub-axes.
    pub fn physical_mesh(&self) -> &Mesh {
        &self.physical_mesh
    }

    /// What the axis called `axis` is made of, major to minor; nothing if its size is 1 or there is none.
    pub fn sub_axes(&self, axis: impl AsRef<str>) -> &[SubAxis] {
        self.mesh.shape().axis_index(axis.as_ref()).map_or(&[], |idx| &self.sub_axes[idx])
    }

    /// The spec over sub-axes that places every block on the device where `spec` places it.
    ///
    /// # Errors
    ///
    /// The spec does not fit [`Placement::mesh`].
    pub fn physical_spec(&self, spec: &PartitionSpec) -> Result<PartitionSpec, ShardingError> {
        Ok(self.physical_sharding(&self.mesh.sharding(spec.clone())?)?.spec().clone())
    }

    /// The sharding over [`Placement::physical_mesh`] that places every block, and every copy of one, on the
    /// device where `sharding` over [`Placement::mesh`] places it.
    ///
    /// # Errors
    ///
    /// The sharding is over another mesh.
    pub fn physical_sharding(&self, sharding: &NamedSharding) -> Result<NamedSharding, ShardingError> {
        sharding.check_mesh(&self.mesh)?;
        let dims = sharding.spec().dims().iter().map(|dim| DimSharding {
            axes: dim.axes.iter().flat_map(|axis| self.sub_axes(axis)).map(|sub| sub.name.clone()).collect(),
        });
        self.physical_mesh.sharding(PartitionSpec::new(dims))
    }
}

/// Checks that a mesh fits a topology.
fn check(ici: &AbstractMesh, dcn: &[usize], topology: &PhysicalTopology) -> Result<(), PlacementError> {
    let longest = PhysicalAxis::Devices;
    if let Some(axis) = ici.axis_names().find(|name| !sub_axis_name(name, longest).is_valid()) {
        return Err(PlacementError::LongName { axis: axis.clone() });
    }
    if dcn.len() != ici.axes().len() {
        return Err(PlacementError::RankMismatch { ici: ici.clone(), dcn: dcn.to_vec() });
    }
    let product = dcn.iter().fold(1_usize, |product, &size| product.saturating_mul(size));
    let slice_count = topology.slice_count();
    if product != slice_count {
        let dcn = ici.axis_names().cloned().zip(dcn.iter().copied()).collect();
        return Err(PlacementError::SliceCount { dcn, product, slice_count });
    }
    let (product, devices_per_slice) = (ici.size(), topology.devices_per_slice());
    if product != devices_per_slice {
        return Err(PlacementError::SliceSize { ici: ici.clone(), product, devices_per_slice });
    }
    Ok(())
}

fn sub_axis_name(axis: &AxisName, physical: PhysicalAxis) -> AxisName {
    format!("{axis}.{physical}").into()
}

/// What one axis of the mesh is made of.
fn sub_axes(
    names: &AbstractMesh,
    assignment: &Assignment,
    axis_idx: usize,
    topology: &PhysicalTopology,
) -> Vec<SubAxis> {
    let name = &names.axes()[axis_idx].0;
    let sub_axis = |(idx, (physical, _)): (usize, &(PhysicalAxis, usize))| SubAxis {
        name: sub_axis_name(name, *physical),
        physical: *physical,
        size: assignment[axis_idx][idx],
        // Later axes of the mesh have the minor parts.
        stride: assignment[axis_idx + 1..].iter().map(|factors| factors[idx]).product(),
    };
    topology.axes().iter().enumerate().map(sub_axis).filter(|sub| sub.size > 1).collect()
}

/// The device at each position of the mesh of these sub-axes, row-major.
fn device_ids(sub_axes: &[&SubAxis], topology: &PhysicalTopology) -> Vec<usize> {
    let stride_of = |physical: PhysicalAxis| -> usize {
        let behind = topology.axes().iter().skip_while(|(axis, _)| *axis != physical).skip(1);
        behind.map(|(_, size)| size).product()
    };
    let places = sub_axes.iter().fold(vec![0], |places, sub| {
        let step = sub.stride * stride_of(sub.physical);
        places.into_iter().flat_map(|place| (0..sub.size).map(move |index| place + index * step)).collect()
    });
    places.into_iter().map(|place| topology.devices()[place].id).collect()
}

impl fmt::Display for Placement {
    /// Each axis with its sub-axes: `data=2 (data.dcn=2), fsdp=16 (fsdp.x=4, fsdp.y=4)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (idx, ((name, size), sub_axes)) in self.mesh.shape().axes().iter().zip(&self.sub_axes).enumerate()
        {
            let separator = if idx == 0 { "" } else { ", " };
            write!(f, "{separator}{name}={size}")?;
            if !sub_axes.is_empty() {
                let parts: Vec<_> = sub_axes.iter().map(SubAxis::to_string).collect();
                write!(f, " ({})", parts.join(", "))?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for SubAxis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.name, self.size)?;
        if self.stride > 1 { write!(f, " every {}", self.stride) } else { Ok(()) }
    }
}

fn sizes(sizes: &[(AxisName, usize)]) -> String {
    sizes.iter().map(|(name, size)| format!("{name}={size}")).collect::<Vec<_>>().join(", ")
}

fn n_slices(n: usize) -> String {
    format!("{n} slice{}", if n == 1 { "" } else { "s" })
}
