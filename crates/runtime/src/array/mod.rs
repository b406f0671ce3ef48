//! Arrays that lie in shards on the devices of a mesh: put there (`place.rs`), read (`read.rs`) and turned into others
//! (`convert.rs`).

mod blocks;
mod convert;
mod place;
mod read;
mod refine;

use std::fmt;
use std::sync::Arc;

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
    ty: Arc<ShardedType>,
    /// One for each partition, in order.
    buffers: Vec<Buffer>,
}

/// What an array is, but for its contents. A program shares those of its outputs with them, so that starting it
/// copies and compares pointers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ShardedType {
    pub(crate) ty: TensorType,
    pub(crate) mesh: Mesh,
    pub(crate) sharding: NamedSharding,
}

impl ShardedType {
    /// What tells it from `other`, in a few words: devices are listed where those of `other` are different.
    pub(crate) fn describe(&self, other: &ShardedType) -> String {
        let ShardedType { ty, mesh, sharding } = self;
        if mesh.device_ids().eq(other.mesh.device_ids()) {
            return format!("{ty} {sharding}");
        }
        format!("{ty} {sharding}, devices {:?}", mesh.device_ids().collect::<Vec<_>>())
    }
}

impl ShardedArray {
    pub(crate) fn from_buffers(
        ty: TensorType,
        mesh: Mesh,
        sharding: NamedSharding,
        buffers: Vec<Buffer>,
    ) -> ShardedArray {
        ShardedArray::from_parts(Arc::new(ShardedType { ty, mesh, sharding }), buffers)
    }

    pub(crate) fn from_parts(ty: Arc<ShardedType>, buffers: Vec<Buffer>) -> ShardedArray {
        ShardedArray { ty, buffers }
    }

    pub(crate) fn sharded_type(&self) -> &Arc<ShardedType> {
        &self.ty
    }

    /// The type of the whole array.
    pub fn ty(&self) -> &TensorType {
        &self.ty.ty
    }

    /// The devices that it lies on.
    pub fn mesh(&self) -> &Mesh {
        &self.ty.mesh
    }

    /// How it is cut.
    pub fn sharding(&self) -> &NamedSharding {
        &self.ty.sharding
    }

    /// One buffer for each partition, in order.
    pub fn buffers(&self) -> &[Buffer] {
        &self.buffers
    }

    /// Its buffers, for a program that they are donated to. What is left is there to be refilled.
    pub(crate) fn take_buffers(&mut self) -> Vec<Buffer> {
        std::mem::take(&mut self.buffers)
    }

    /// Another array in the place of this one.
    pub(crate) fn refilled(mut self, ty: &Arc<ShardedType>, buffers: Vec<Buffer>) -> ShardedArray {
        if !Arc::ptr_eq(&self.ty, ty) {
            self.ty = Arc::clone(ty);
        }
        self.buffers = buffers;
        self
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
        write!(f, "{} {}", self.ty(), self.sharding())
    }
}

/// The type that every device stores of an array.
pub(crate) fn shard_type(sharding: &NamedSharding, ty: &TensorType) -> Result<TensorType, RuntimeError> {
    let dims = sharding.shard_shape(ty.dims())?;
    let shape = Shape::new(dims).map_err(shardwright_tensor::TensorError::from)?;
    Ok(TensorType { dtype: ty.dtype, shape })
}
