//! Arrays that lie in shards on the devices of a mesh: put there (`place.rs`), read (`read.rs`) and turned into others
//! (`convert.rs`).

mod blocks;
mod convert;
mod place;
mod read;
mod refine;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use shardwright_mesh::{Mesh, NamedSharding};
use shardwright_pjrt::Buffer;
use shardwright_tensor::{Shape, TensorType};

use crate::RuntimeError;
use crate::error::{Elsewhere, Problem};

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
///
/// A mesh may reach over the devices of several processes. Each of them then has an array of its own for the one
/// global array, with the buffers of its [addressable](ShardedArray::addressable_partitions) partitions, of which there
/// is at least one. What would need the shards of others is an error that names them.
pub struct ShardedArray {
    ty: Arc<ShardedType>,
    /// One for each partition that this process drives, in order.
    buffers: Vec<Buffer>,
}

/// What an array is, but for its contents. A program shares those of its outputs with them, so that starting it
/// copies and compares pointers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ShardedType {
    pub(crate) ty: TensorType,
    pub(crate) mesh: Mesh,
    pub(crate) sharding: NamedSharding,
    /// The partitions that this process drives, in order.
    pub(crate) addressable: Arc<[usize]>,
}

impl ShardedType {
    /// What tells it from `other`, in a few words: devices are listed where those of `other` are different.
    pub(crate) fn describe(&self, other: &ShardedType) -> String {
        let ShardedType { ty, mesh, sharding, addressable } = self;
        if !mesh.device_ids().eq(other.mesh.device_ids()) {
            return format!("{ty} {sharding}, devices {:?}", mesh.device_ids().collect::<Vec<_>>());
        }
        if *addressable != other.addressable {
            return format!("{ty} {sharding}, partitions {addressable:?} of it");
        }
        format!("{ty} {sharding}")
    }
}

impl ShardedArray {
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

    /// The partitions whose devices this process drives, in order: all of them where it works alone.
    pub fn addressable_partitions(&self) -> &[usize] {
        &self.ty.addressable
    }

    /// Whether this process drives all devices of the mesh.
    pub fn is_fully_addressable(&self) -> bool {
        self.addressable_partitions().len() == self.mesh().shape().size()
    }

    /// One buffer for each of the [`addressable_partitions`](ShardedArray::addressable_partitions), in order.
    pub fn buffers(&self) -> &[Buffer] {
        &self.buffers
    }

    /// The buffer of a partition.
    ///
    /// # Errors
    /// When the mesh has no such partition, or its device is one of another process.
    pub(crate) fn buffer(&self, partition: usize) -> Result<&Buffer, RuntimeError> {
        if partition >= self.mesh().shape().size() {
            return Err(blocks::no_partition(partition, self.sharding()));
        }
        self.addressable_buffer(partition).ok_or_else(|| self.elsewhere(&[partition]))
    }

    /// The buffer of a partition, if this process drives its device.
    fn addressable_buffer(&self, partition: usize) -> Option<&Buffer> {
        let place = self.addressable_partitions().binary_search(&partition).ok()?;
        Some(&self.buffers[place])
    }

    /// The error of whoever needs these partitions, all of which other processes have.
    fn elsewhere(&self, partitions: &[usize]) -> RuntimeError {
        let client = self.buffers[0].client();
        let devices: Vec<usize> = partitions.iter().map(|&p| self.mesh().device_id(p)).collect();
        let process =
            |&id: &usize| Some(client.device(i64::try_from(id).ok()?)?.description().process_index());
        let processes: BTreeSet<i64> = devices.iter().filter_map(process).collect();
        let problem = Elsewhere {
            array: format!("{self:?}"),
            partitions: partitions.to_vec(),
            devices,
            processes: processes.into_iter().collect(),
            process: client.process_index(),
            addressable: Arc::clone(&self.ty.addressable),
        };
        Problem::Elsewhere(problem.into()).into()
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

    /// The bytes that each device of this process holds, by partition, as the plugin says.
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
