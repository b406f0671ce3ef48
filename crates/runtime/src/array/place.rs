//! Arrays of the host that are put on the devices of a mesh.

use std::ops::Range;
use std::sync::Arc;

use shardwright_mesh::{Mesh, NamedSharding};
use shardwright_pjrt::{Buffer, Client, Device};
use shardwright_tensor::{HostArray, TensorType};

use super::blocks::{Block, LocalPart, blocks};
use super::{ShardedArray, shard_type};
use crate::error::Problem;
use crate::{Runtime, RuntimeError};

impl ShardedArray {
    /// Places an array that the host holds whole.
    ///
    /// The host holds two blocks at most, besides `array` and what is in the memory of its CPU devices.
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

    /// Places an array of which each process gives the part that its own devices hold, of global type `ty`: see
    /// [`LocalPart`]. Nothing is padded in between, so the rows of all processes follow each other.
    ///
    /// The host holds two blocks at most, besides `local` and what is in the memory of its CPU devices.
    ///
    /// # Errors
    /// When `local` is anything but exactly that part; and as [`ShardedArray::from_host`].
    pub fn from_local(
        runtime: &Runtime,
        mesh: &Mesh,
        sharding: &NamedSharding,
        ty: &TensorType,
        local: &HostArray,
    ) -> Result<ShardedArray, RuntimeError> {
        let is_local = |id: usize| runtime.devices().any(|device| usize::try_from(device.id()) == Ok(id));
        let ids = mesh.device_ids().enumerate();
        let partitions = ids.filter(|&(_, id)| is_local(id)).map(|(partition, _)| partition);
        let part = LocalPart::new(sharding, ty, partitions)?;
        ShardedArray::from_fn(runtime, mesh, sharding, ty, |ranges| part.block(local, ranges))
    }

    /// Places an array whose blocks are worked out one at a time: `block` is called with the index range of each
    /// distinct shard, once, in the order of the indices.
    ///
    /// The host holds two blocks at most, besides what is in the memory of its CPU devices: the one that is worked out
    /// and the one before, which may still be on its way.
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
        let _span = tracing::debug_span!("to devices", %ty, %sharding).entered();
        let mut placing = Placing::new(runtime, mesh, sharding, ty)?;
        for Block { ranges, partitions } in placing.blocks()? {
            placing.put(block(&ranges)?, &ranges, &partitions)?;
        }
        Ok(placing.finish())
    }
}

/// An array whose buffers are made one after the other.
pub(super) struct Placing<'a> {
    runtime: &'a Runtime,
    mesh: &'a Mesh,
    sharding: &'a NamedSharding,
    ty: &'a TensorType,
    /// Those of the partitions, in order.
    devices: Vec<&'a Device>,
    /// What each of them stores.
    padded: TensorType,
    buffers: Vec<Option<Buffer>>,
    /// Partitions whose buffers may still be on their way.
    in_flight: Vec<usize>,
}

impl<'a> Placing<'a> {
    /// # Errors
    /// When the sharding does not fit the array, or the mesh the sharding or the runtime.
    pub(super) fn new(
        runtime: &'a Runtime,
        mesh: &'a Mesh,
        sharding: &'a NamedSharding,
        ty: &'a TensorType,
    ) -> Result<Placing<'a>, RuntimeError> {
        let devices = runtime.device_order(mesh)?;
        // For its check that mesh and sharding go together.
        mesh.device_shards(sharding, ty.dims())?;
        let buffers = devices.iter().map(|_| None).collect();
        let padded = shard_type(sharding, ty)?;
        Ok(Placing { runtime, mesh, sharding, ty, devices, padded, buffers, in_flight: Vec::new() })
    }

    /// Puts the block at `ranges` on the devices of these partitions.
    ///
    /// # Errors
    /// When the block is not of the range's shape; and the plugin's.
    pub(super) fn put(
        &mut self,
        block: HostArray,
        ranges: &[Range<usize>],
        partitions: &[usize],
    ) -> Result<(), RuntimeError> {
        // Until then the host holds the block before this one, too.
        for partition in self.in_flight.drain(..) {
            self.buffers[partition].as_ref().map_or(Ok(()), |buffer| buffer.ready()?.wait())?;
        }
        let block = self.pad(block, ranges)?;
        let client = self.runtime.client();
        if let &[partition] = partitions {
            self.buffers[partition] = Some(client.buffer_from_owned(block, self.devices[partition])?);
        } else {
            let block = Arc::new(block);
            for &partition in partitions {
                let buffer = client.buffer_sharing(Arc::clone(&block), self.devices[partition])?;
                self.buffers[partition] = Some(buffer);
            }
        }
        self.in_flight.extend(partitions);
        Ok(())
    }

    /// Gives a partition a copy of a buffer that holds its block.
    pub(super) fn put_copy(&mut self, buffer: &Buffer, partition: usize) -> Result<(), RuntimeError> {
        self.buffers[partition] = Some(buffer.copy_to(self.devices[partition])?);
        Ok(())
    }

    /// The distinct blocks, in the order of their indices.
    pub(super) fn blocks(&self) -> Result<Vec<Block>, RuntimeError> {
        blocks(self.sharding, self.ty.dims())
    }

    /// The type that each device stores.
    pub(super) fn padded(&self) -> &TensorType {
        &self.padded
    }

    /// Whether the array will belong to this client.
    pub(super) fn is_of(&self, client: &Client) -> bool {
        self.runtime.client().is_same(client)
    }

    /// The device of a partition.
    pub(super) fn device(&self, partition: usize) -> &Device {
        self.devices[partition]
    }

    /// The array; each partition has been given its buffer.
    pub(super) fn finish(self) -> ShardedArray {
        let buffers = self.buffers.into_iter().flatten().collect();
        ShardedArray::from_buffers(self.ty.clone(), self.mesh.clone(), self.sharding.clone(), buffers)
    }

    /// A block as a device stores it: of the shape that all shards have, zeros at the end.
    fn pad(&self, block: HostArray, ranges: &[Range<usize>]) -> Result<HostArray, RuntimeError> {
        let fits = block.dims().iter().copied().eq(ranges.iter().map(|r| r.len()));
        if !fits || block.dtype() != self.ty.dtype {
            let (ty, ranges, found) = (self.ty.clone(), ranges.to_vec(), block.ty().clone());
            return Err(Problem::Block { ty, ranges, found }.into());
        }
        if *block.ty() == self.padded {
            return Ok(block);
        }
        let mut whole = HostArray::zeros(self.padded.clone());
        let filled: Vec<Range<usize>> = block.dims().iter().map(|&n| 0..n).collect();
        whole.write_slice(&filled, &block)?;
        Ok(whole)
    }
}
