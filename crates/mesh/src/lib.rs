//! Named device grids, partition specs and shardings: which slice of an array lies on which device.
//!
//! A [`Mesh`] arranges devices in a grid whose axes have names. A [`PartitionSpec`] says, for each dim of
//! an array, which axes split it. Together they are a [`NamedSharding`], which answers every question
//! about the split array: the shape each device stores, the index range it truly holds, how many copies
//! of it there are, how the split is written for XLA. (An *axis* is always the mesh's, a *dim* the array's.)
//!
//! It is not a partitioner and moves no data: everything here is arithmetic on small integers. It reads
//! no device, file or environment, so planning works on a machine without the hardware.
//!
//! # The key decision
//!
//! The compiler sees an [`AbstractMesh`], names and sizes only; the runtime sees a [`Mesh`], which adds
//! device ids. A program speaks of *partitions* 0, 1, 2, …, the row-major positions in the mesh, and only
//! the mesh knows that partition `p` runs on `device_id(p)`. Equal abstract meshes therefore give
//! equal programs, whatever the devices and their order.
//!
//! # Major to minor
//!
//! Several axes may split one dim. The first one named is the major one: it cuts first, into the largest
//! pieces, and each next axis cuts those pieces further. On this mesh
//!
//! ```text
//! data=2 ↓, fsdp=3 →
//!     0   1   2
//!   ┌───┬───┬───┐
//! 0 │ 0 │ 1 │ 2 │
//!   ├───┼───┼───┤
//! 1 │ 3 │ 4 │ 5 │
//!   └───┴───┴───┘
//! ```
//!
//! the twelve rows of a `[12, 4]` array go to these devices:
//!
//! ```text
//! rows               0..2   2..4   4..6   6..8   8..10  10..12
//! ((data,fsdp), -)    0      1      2      3      4      5
//! ((fsdp,data), -)    0      3      1      4      2      5
//! (fsdp, -)           0 and 3       1 and 4       2 and 5
//! ```
//!
//! An axis that a spec does not name holds copies, as `data` does in the last row. A dim that does not
//! divide evenly is cut into pieces of the rounded-up length, the last ones shorter or empty: 5 over 4
//! devices is 2, 2, 1, 0.
//!
//! # Text
//!
//! What is printed is read back, and what is read is valid. Errors say where a text goes wrong.
//!
//! | form | looks like | of |
//! | --- | --- | --- |
//! | own | `data=2, fsdp=4`, `((data,fsdp), -)` | [`AbstractMesh`], [`PartitionSpec`] |
//! | JSON, by serde | `{"mesh": {"data": 2, "fsdp": 4}, "spec": ["fsdp", null]}` | these, [`Mesh`], [`NamedSharding`] |
//! | Shardy | `<["x"=2, "y"=2], device_ids=[0, 2, 1, 3]>`, `<@mesh, [{"x"}, {}]>` | [`Mesh`], [`SdySharding`] |
//! | HLO | `{devices=[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate}` | [`HloSharding`] |
//! | HLO, with axes | `{mesh['x'=2,'y'=4], [{'y'}, {}]}` | [`HloSharding`] |
//! | HLO | `[2,4]<=[8]`, `{{0,1},{2,3}}`, `mesh['x'=2,'y'=4] {'y'}` | [`ReplicaGroups`] |
//!
//! Compilers number tiles, and name axes of meshes of their own. [`HloSharding::to_named`] and
//! [`ReplicaGroups::axes_of`] find the axes of the program's mesh in that.
//!
//! # Where devices are
//!
//! Which device stands at which position of a mesh decides how far neighbours are apart. A [`PhysicalTopology`]
//! says where devices are, and a [`Placement`] lays a mesh on it so that the axes that communicate most get the
//! best connections. A [`HostView`] is the part of a mesh that one of several processes drives.
//!
//! # Example
//!
//! ```
//! use shardwright_mesh::{AbstractMesh, Mesh};
//!
//! let mesh = Mesh::iota(AbstractMesh::parse("data=2, fsdp=4")?);
//! let sharding = mesh.sharding("(fsdp, -)".parse()?)?;
//!
//! assert_eq!(sharding.shard_shape(&[10, 8])?, [3, 8]);
//! assert_eq!(sharding.shard_ranges(3, &[10, 8]), [9..10, 0..8]);
//! assert_eq!(sharding.sdy_text(), r#"<@mesh, [{"fsdp"}, {}]>"#);
//! assert_eq!(sharding.hlo_sharding().to_string(), "{devices=[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate}");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod assign;
mod axis;
mod axis_ref;
mod device_order;
mod draw;
mod draw_svg;
mod draw_text;
mod hlo_sharding;
mod host;
mod json;
mod mesh;
mod placement;
mod replica_groups;
mod sdy;
mod sharding;
mod spec;
mod text;
mod to_named;
mod topology;

pub use axis::AxisName;
pub use draw::{DrawStyle, draw_mesh, draw_sharding, svg_mesh, svg_sharding};
pub use hlo_sharding::{HloSharding, MeshSharding, Subgroup, TileSharding};
pub use host::{BatchRows, HostError, HostView};
pub use mesh::{AbstractMesh, Mesh, MeshError};
pub use placement::{Placement, PlacementError, SubAxis};
pub use replica_groups::ReplicaGroups;
pub use sdy::SdySharding;
pub use sharding::{NamedSharding, Shard, ShardingError};
pub use spec::{DimSharding, PartitionSpec, SpecParseError};
pub use text::TextError;
pub use to_named::AxesError;
pub use topology::{PhysicalAxis, PhysicalDevice, PhysicalTopology, TopologyError, TorusPosition};
