use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use shardwright_mesh::{Mesh, NamedSharding, Shard};
use shardwright_pjrt::Buffer;
use shardwright_tensor::{HostArray, Shape, TensorType};

use crate::error::Problem;
use crate::{Runtime, RuntimeError};

/// An array that lies in shards on the devices of a mesh.
///
/// Where a dim does not divide, the last shards are shorter and their buffers padded; [`ShardedArray::to_host`] and
/// [`ShardedArray::shard`] never show padding.
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
        if mesh.device_ids() == other.mesh.device_ids() {
            return format!("{ty} {sharding}");
        }
        format!("{ty} {sharding}, devices {:?}", mesh.device_ids())
    }
}

impl ShardedArray {
    /// Places an array that the host holds whole.
    ///
    /// # Errors
    /// When the sharding does not fit the array, or the mesh the sharding or the runtime.
    pub fn from_host(
        runtime: &Runtime,
        mesh: &Mesh,
        sharding: &NamedSharding,
        array: &HostArray,
    ) -> Result<ShardedArray, RuntimeError> {
        ShardedArray::from_fn(runtime, mesh, sharding, array.ty(), |ranges| Ok(array.slice(ranges)?))
    }

    /// Places an array whose blocks are worked out one at a time: `block` is called with the index range of each
    /// distinct shard, once. The host holds one shard at a time.
    ///
    /// # Errors
    /// Those of `block`; and when a block is not of the range's shape, or the sharding, the mesh and the runtime do
    /// not fit.
    pub fn from_fn<E: From<RuntimeError>>(
        runtime: &Runtime,
        mesh: &Mesh,
        sharding: &NamedSharding,
        ty: &TensorType,
        mut block: impl FnMut(&[Range<usize>]) -> Result<HostArray, E>,
    ) -> Result<ShardedArray, E> {
        let devices = runtime.device_order(mesh)?;
        let padded = shard_type(sharding, ty)?;
        let mut shards = mesh.device_shards(sharding, ty.dims()).map_err(RuntimeError::from)?;
        // Copies of one block stand together, so that it is worked out once and then let go.
        let start_of = |shard: &Shard| shard.ranges.iter().map(|r| (r.start, r.end)).collect::<Vec<_>>();
        shards.sort_by_cached_key(|(_, shard)| (start_of(shard), shard.replica));

        let mut buffers: Vec<Option<Buffer>> = devices.iter().map(|_| None).collect();
        let mut current: Option<(Vec<Range<usize>>, HostArray)> = None;
        for (_, Shard { partition, ranges, .. }) in shards {
            if current.as_ref().is_some_and(|(known, _)| *known != ranges) {
                current = None; // Before the next one is made.
            }
            let host = match current.take() {
                Some((_, host)) => host,
                None => pad(block(&ranges)?, &ranges, ty, &padded)?,
            };
            let buffer = runtime.client().buffer_from_host(&host, devices[partition]);
            buffers[partition] = Some(buffer.map_err(RuntimeError::from)?);
            current = Some((ranges, host));
        }
        let buffers = buffers.into_iter().flatten().collect();
        Ok(ShardedArray::from_buffers(ty.clone(), mesh.clone(), sharding.clone(), buffers))
    }

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

    /// The whole array, read from one copy of each shard. Waits for what computes it.
    ///
    /// The host holds the array and one shard at a time.
    ///
    /// # Errors
    /// When the program that computes it failed, or a copy did.
    pub fn to_host(&self) -> Result<HostArray, RuntimeError> {
        if self.sharding().is_fully_replicated() {
            return Ok(self.buffers[0].to_host()?);
        }
        let shards = self.sharding().shards(self.ty().dims())?;
        let mut whole = HostArray::zeros(self.ty().clone());
        for Shard { partition, ranges, .. } in shards.into_iter().filter(|s| s.replica == 0) {
            whole.write_slice(&ranges, &self.shard(partition)?)?;
        }
        Ok(whole)
    }

    /// The part that one partition holds, without padding. Waits for what computes it.
    ///
    /// # Errors
    /// When the program that computes it failed, or the copy did.
    ///
    /// # Panics
    /// If the mesh has no such partition.
    pub fn shard(&self, partition: usize) -> Result<HostArray, RuntimeError> {
        let padded = self.buffers[partition].to_host()?;
        let ranges = self.sharding().shard_ranges(partition, self.ty().dims());
        if padded.dims().iter().copied().eq(ranges.iter().map(|r| r.len())) {
            return Ok(padded);
        }
        let filled: Vec<Range<usize>> = ranges.iter().map(|r| 0..r.len()).collect();
        Ok(padded.slice(&filled)?)
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

/// A block as a device stores it: of the shape that all shards have, zeros at the end.
fn pad(
    block: HostArray,
    ranges: &[Range<usize>],
    ty: &TensorType,
    padded: &TensorType,
) -> Result<HostArray, RuntimeError> {
    let fits = block.dims().iter().copied().eq(ranges.iter().map(|r| r.len()));
    if !fits || block.dtype() != ty.dtype {
        let (ty, ranges, found) = (ty.clone(), ranges.to_vec(), block.ty().clone());
        return Err(Problem::Block { ty, ranges, found }.into());
    }
    if block.ty() == padded {
        return Ok(block);
    }
    let mut whole = HostArray::zeros(padded.clone());
    let filled: Vec<Range<usize>> = block.dims().iter().map(|&n| 0..n).collect();
    whole.write_slice(&filled, &block)?;
    Ok(whole)
}
