//! Arrays that lie in shards on the devices of a mesh: put there (`place.rs`), read (`read.rs`) and turned into others
//! (`convert.rs`).

mod blocks;
mod convert;
mod place;
mod read;
mod refine;

use std::fmt;

use shardwright_mesh::{Mesh, NamedSharding};
use shardwright_pjrt::Buffer;
use shardwright_tensor::{Shape, TensorType};

use crate::RuntimeError;

pub use blocks::LocalPart;
pub(crate) use convert::Conversions;
pub use read::Shards;

/// An array that lies in shards on the devices of a mesh.
///
/// Where a dim does not divide, the last shards are shorter and their buffers padded; [`ShardedArray::to_host`],
/// [`ShardedArray::shard`] and [`ShardedArray::shards`] never show padding.
///
/// No operation needs the whole array in host memory but [`ShardedArray::from_host`], which is given it, and
/// [`ShardedArray::to_host`], which makes it; each says how much it needs.
pub struct ShardedArray {
    ty: TensorType,
    mesh: Mesh,
    sharding: NamedSharding,
    /// One for each partition, in order.
    buffers: Vec<Buffer>,
}

impl ShardedArray {
    pub(crate) fn from_buffers(
        ty: TensorType,
        mesh: Mesh,
        sharding: NamedSharding,
        buffers: Vec<Buffer>,
    ) -> ShardedArray {
        ShardedArray { ty, mesh, sharding, buffers }
    }

    /// The type of the whole array.
    pub fn ty(&self) -> &TensorType {
        &self.ty
    }

    /// The devices that it lies on.
    pub fn mesh(&self) -> &Mesh {
        &self.mesh
    }

    /// How it is cut.
    pub fn sharding(&self) -> &NamedSharding {
        &self.sharding
    }

    /// One buffer for each partition, in order.
    pub fn buffers(&self) -> &[Buffer] {
        &self.buffers
    }

    pub(crate) fn into_buffers(self) -> Vec<Buffer> {
        self.buffers
    }

    /// The bytes that each device holds, by partition, as the plugin says.
    ///
    /// # Errors
    /// When the plugin does not tell.
    pub fn bytes_on_devices(&self) -> Result<Vec<usize>, RuntimeError> {
        self.buffers.iter().map(|b| Ok(b.on_device_size_in_bytes()?)).collect()
    }
}

impl fmt::Debug for ShardedArray {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.ty, self.sharding)
    }
}

/// The type that every device stores of an array.
pub(crate) fn shard_type(sharding: &NamedSharding, ty: &TensorType) -> Result<TensorType, RuntimeError> {
    let dims = sharding.shard_shape(ty.dims())?;
    let shape = Shape::new(dims).map_err(shardwright_tensor::TensorError::from)?;
    Ok(TensorType { dtype: ty.dtype, shape })
}
