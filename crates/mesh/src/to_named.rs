//! The way back: the axes of a mesh that give what a text says.
//!
//! HLO numbers tiles and says nothing of axes. Which axes made them can be read off the numbers: within the
//! tiles of a dim, neighbours are as far apart in partitions as the minor one of its axes strides, and no two axes
//! longer than 1 have one stride.

use crate::axis_ref::{AxisRef, Parts, Quoted};
use crate::device_order::DeviceOrder;
use crate::hlo_sharding::{HloSharding, Subgroup, TileSharding};
use crate::sdy::SdySharding;
use crate::text::{SDY_QUOTE, clip};
use crate::{AbstractMesh, AxisName, NamedSharding, PartitionSpec, ReplicaGroups, ShardingError, TextError};

/// What a text says, but whole axes of a mesh do not give.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AxesError {
    /// A dim is split over a part of an axis.
    #[error(
        "not representable: dim {dim} is split over sub-axis {sub_axis}, and a named sharding splits over whole axes"
    )]
    SubAxis {
        /// The dim.
        dim: usize,
        /// The part of an axis.
        sub_axis: String,
    },
    /// A dim is open.
    #[error("not representable: dim {dim} is open, so the compiler may split it further")]
    OpenDim {
        /// The dim.
        dim: usize,
    },
    /// Not every device has elements of the array itself, or copies of them.
    #[error("not representable: the sharding {sharding} is {kind}")]
    NotTiles {
        /// The sharding.
        sharding: String,
        /// Which kind of sharding it is.
        kind: &'static str,
    },
    /// The sharding is for arrays of another rank.
    #[error("the sharding {sharding} is for rank {found}, not {rank}")]
    Rank {
        /// The sharding.
        sharding: String,
        /// The rank that it is for.
        found: usize,
        /// The rank asked for.
        rank: usize,
    },
    /// The text and the mesh differ in size.
    #[error("the text is about {devices} devices, but mesh {mesh} has {}", mesh.size())]
    DeviceCount {
        /// The devices of the text.
        devices: usize,
        /// The mesh.
        mesh: AbstractMesh,
    },
    /// The tiles of a dim are not those of any axes.
    #[error("no axes of mesh {mesh} cut dim {dim} into the {tiles} tiles of {sharding}")]
    Tiles {
        /// The sharding.
        sharding: String,
        /// The dim.
        dim: usize,
        /// Into how many tiles it is cut.
        tiles: usize,
        /// The mesh.
        mesh: AbstractMesh,
    },
    /// The tiles are those of some axes, but the copies are on other devices.
    #[error("no axes of mesh {mesh} put the tiles of {sharding} on these devices")]
    Devices {
        /// The sharding.
        sharding: String,
        /// The mesh.
        mesh: AbstractMesh,
    },
    /// The groups do not run over any axes.
    #[error("the groups {groups} do not run over axes of mesh {mesh}")]
    Groups {
        /// The groups.
        groups: String,
        /// The mesh.
        mesh: AbstractMesh,
    },
    /// The axes do not fit the mesh.
    #[error(transparent)]
    Sharding(#[from] ShardingError),
    /// The axes do not fit the mesh that the text itself has.
    #[error(transparent)]
    Text(#[from] TextError),
}

impl HloSharding {
    /// The sharding over `mesh` that lays out arrays of this rank as this one does. Axes of size 1 are left
    /// out of its spec.
    ///
    /// # Errors
    ///
    /// No whole axes of the mesh make these tiles; the sharding is for another rank or number of devices; a dim is
    /// open; or some devices do not hold elements of the array (maximal, manual, unreduced, unknown).
    pub fn to_named(&self, mesh: &AbstractMesh, rank: usize) -> Result<NamedSharding, AxesError> {
        let not_tiles = |kind| Err(AxesError::NotTiles { sharding: clip(self), kind });
        match self {
            Self::Replicated => Ok(NamedSharding::replicated(mesh, rank)),
            Self::Maximal { device: 0 } if mesh.size() == 1 => Ok(NamedSharding::replicated(mesh, rank)),
            Self::Maximal { .. } => not_tiles("on one device"),
            Self::Manual => not_tiles("manual"),
            Self::Unreduced => not_tiles("unreduced"),
            Self::Unknown => not_tiles("left to the compiler"),
            Self::Tiled(tiles) => self.axes_of_tiles(tiles, mesh, rank),
            Self::Named(sharding) => {
                if let Some(dim) = sharding.open_dim() {
                    return Err(AxesError::OpenDim { dim });
                }
                self.axes_of_tiles(&sharding.tiled()?, mesh, rank)
            }
        }
    }

    fn axes_of_tiles(
        &self,
        sharding: &TileSharding,
        mesh: &AbstractMesh,
        rank: usize,
    ) -> Result<NamedSharding, AxesError> {
        let (text, found) = (|| clip(self), sharding.tiles().len());
        let kind = sharding.subgroups().iter().find_map(|(kind, _)| match kind {
            Subgroup::Replicated => None,
            Subgroup::Manual => Some("partly manual"),
            Subgroup::Unreduced => Some("partly unreduced"),
        });
        if let Some(kind) = kind {
            return Err(AxesError::NotTiles { sharding: text(), kind });
        }
        if found != rank {
            return Err(AxesError::Rank { sharding: text(), found, rank });
        }
        let devices = sharding.order.len();
        if devices != mesh.size() {
            return Err(AxesError::DeviceCount { devices, mesh: mesh.clone() });
        }
        let n_replicas = sharding.subgroups().iter().map(|(_, size)| size).product();
        // In which order the devices of a tile hold copies makes no difference.
        let Some(order) = sharding.order.with_sorted_groups(n_replicas) else {
            return Err(AxesError::Devices { sharding: text(), mesh: mesh.clone() });
        };
        let spec = match spec_of_tiles(sharding.tiles(), |tile| order.device(tile * n_replicas), mesh) {
            Ok(spec) => spec,
            Err(dim) => {
                let tiles = sharding.tiles()[dim];
                return Err(AxesError::Tiles { sharding: text(), dim, tiles, mesh: mesh.clone() });
            }
        };
        let named = NamedSharding::new(mesh, spec)?;
        let same = named.device_order(rank);
        let is_same = match &order {
            DeviceOrder::Iota { .. } => same == order,
            DeviceOrder::List(devices) => same.devices().eq(devices.iter().copied()),
        };
        if !is_same {
            return Err(AxesError::Devices { sharding: text(), mesh: mesh.clone() });
        }
        Ok(named)
    }
}

/// The axes that cut the dims into these tiles, of which `holder` is the first device; if there are none, the dim
/// in question.
fn spec_of_tiles(
    tiles: &[usize],
    holder: impl Fn(usize) -> usize,
    mesh: &AbstractMesh,
) -> Result<PartitionSpec, usize> {
    let axis_of_stride = |stride| {
        let mut axes = mesh.axes().iter().enumerate();
        axes.find(|(axis_idx, (_, size))| *size > 1 && mesh.stride(*axis_idx) == stride).map(|(_, axis)| axis)
    };
    let mut entries = vec![Vec::new(); tiles.len()];
    // How many tiles there are between one of this dim and the next, or within its minor axes.
    let mut step = 1;
    for (dim, entry) in entries.iter_mut().enumerate().rev() {
        let mut left = tiles[dim];
        while left > 1 {
            let stride = holder(step).checked_sub(holder(0)).ok_or(dim)?;
            let (name, size) =
                axis_of_stride(stride).filter(|(_, size)| left.is_multiple_of(*size)).ok_or(dim)?;
            entry.insert(0, name);
            left /= size;
            step *= size;
        }
    }
    Ok(PartitionSpec::new(entries))
}

impl SdySharding {
    /// The sharding over `mesh`, whose axes the names are. Which axes are listed as replicated and in which
    /// order dims propagate makes no difference to where an array lies, and is dropped.
    ///
    /// # Errors
    ///
    /// A dim is open or split over a part of an axis, the array is unreduced, or the mesh lacks an axis.
    pub fn to_named(&self, mesh: &AbstractMesh) -> Result<NamedSharding, AxesError> {
        if !self.unreduced.is_empty() {
            return Err(AxesError::NotTiles { sharding: clip(self), kind: "partly unreduced" });
        }
        let mut entries = Vec::with_capacity(self.dims.len());
        for (dim, entry) in self.dims.iter().enumerate() {
            if entry.axes.is_open {
                return Err(AxesError::OpenDim { dim });
            }
            let whole = |axis: &AxisRef| match axis.part {
                None => Ok(axis.axis.clone()),
                Some(_) => Err(AxesError::SubAxis { dim, sub_axis: Quoted(SDY_QUOTE, axis).to_string() }),
            };
            entries.push(entry.axes.axes.iter().map(whole).collect::<Result<Vec<_>, _>>()?);
        }
        let named = NamedSharding::new(mesh, PartitionSpec::new(entries))?;
        let used = self.dims.iter().flat_map(|dim| &dim.axes.axes).chain(&self.replicated);
        Parts::new(mesh, &used.collect::<Vec<_>>())?;
        Ok(named)
    }
}

impl ReplicaGroups {
    /// The axes of `mesh`, in mesh order, along which each group runs: devices of one group differ along these
    /// and no others. Axes of size 1 are left out.
    ///
    /// # Errors
    ///
    /// The groups are of another number of devices, or each is not all devices along some axes.
    pub fn axes_of(&self, mesh: &AbstractMesh) -> Result<Vec<AxisName>, AxesError> {
        let axes = mesh.axes().iter().enumerate().filter(|(_, (_, size))| *size > 1);
        let axes = axes.map(|(axis_idx, (name, size))| (name, *size, mesh.stride(axis_idx)));
        let groups = self.groups();
        let Some(first) = groups.first() else {
            return Ok(axes.map(|(name, ..)| name.clone()).collect());
        };
        let devices = groups.iter().map(Vec::len).sum();
        if devices != mesh.size() {
            return Err(AxesError::DeviceCount { devices, mesh: mesh.clone() });
        }
        let along = |device: usize, (_, size, stride): (&AxisName, usize, usize)| device / stride % size;
        let (varying, fixed): (Vec<_>, Vec<_>) =
            axes.partition(|axis| first.iter().any(|&device| along(device, *axis) != along(first[0], *axis)));
        let extent: usize = varying.iter().map(|(_, size, _)| size).product();
        // Devices are listed once, so a group that agrees along the fixed axes and has this size has them all.
        let fits = |group: &Vec<usize>| {
            let agrees = |device| fixed.iter().all(|axis| along(device, *axis) == along(group[0], *axis));
            group.len() == extent && group.iter().all(|&device| device < mesh.size() && agrees(device))
        };
        if !groups.iter().all(fits) {
            return Err(AxesError::Groups { groups: clip(self), mesh: mesh.clone() });
        }
        Ok(varying.into_iter().map(|(name, ..)| name.clone()).collect())
    }
}

#[cfg(test)]
mod tests;
