//! Arrays read back into host memory.

use std::ops::Range;
use std::vec;

use shardwright_pjrt::{Buffer, PendingHostCopy};
use shardwright_tensor::HostArray;

use super::ShardedArray;
use super::blocks::{Block, blocks};
use crate::RuntimeError;

/// The parts of an array, each with its index range: see [`ShardedArray::shards`].
pub struct Shards<'a> {
    blocks: vec::IntoIter<(&'a Buffer, Vec<Range<usize>>)>,
    ahead: Option<Ahead>,
}

/// The part that comes next.
struct Ahead {
    ranges: Vec<Range<usize>>,
    copy: Result<PendingHostCopy, RuntimeError>,
}

impl ShardedArray {
    /// The whole array, read from one copy of each shard. Waits for what computes it.
    ///
    /// The host holds the array and two shards at most.
    ///
    /// # Errors
    /// When the program that computes it failed, or a copy did; and when only other processes have some of the shards,
    /// which the message lists.
    pub fn to_host(&self) -> Result<HostArray, RuntimeError> {
        let _span = tracing::debug_span!("to host", ty = %self.ty()).entered();
        if self.sharding().is_fully_replicated() {
            return Ok(self.buffers[0].to_host()?);
        }
        let elsewhere = self.held_blocks().filter(|block| self.addressable(block).is_none());
        let elsewhere: Vec<usize> = elsewhere.flat_map(|block| block.partitions).collect();
        if !elsewhere.is_empty() {
            return Err(self.elsewhere(&elsewhere));
        }
        let mut whole = HostArray::zeros(self.ty().clone());
        for part in self.shards() {
            let (ranges, block) = part?;
            whole.write_slice(&ranges, &block)?;
        }
        Ok(whole)
    }

    /// The distinct parts of the array with their index ranges, in the order of the indices, without padding; parts
    /// that hold nothing are left out, and so are those that only other processes have. Waits for what computes them.
    ///
    /// One part is copied ahead, so the host holds two shards at most, and those that the caller keeps. What goes wrong
    /// with a part takes its place.
    pub fn shards(&self) -> Shards<'_> {
        let here = |block: Block| Some((self.addressable(&block)?, block.ranges));
        let blocks: Vec<_> = self.held_blocks().filter_map(here).collect();
        Shards { blocks: blocks.into_iter(), ahead: None }
    }

    /// The distinct blocks that hold something, in the order of their indices.
    fn held_blocks(&self) -> impl Iterator<Item = Block> {
        let blocks = blocks(self.sharding(), self.ty().dims()).expect("an array has its sharding's rank");
        blocks.into_iter().filter(|block| block.ranges.iter().all(|range| !range.is_empty()))
    }

    /// The buffer of the first partition of this process that holds the block, if one does.
    pub(super) fn addressable(&self, block: &Block) -> Option<&Buffer> {
        block.partitions.iter().find_map(|&partition| self.addressable_buffer(partition))
    }

    /// The part that one partition holds, without padding. Waits for what computes it.
    ///
    /// The host holds the shard, and its padding where it has some.
    ///
    /// # Errors
    /// When the mesh has no such partition, or its device is one of another process; when the program that computes it
    /// failed, or the copy did.
    pub fn shard(&self, partition: usize) -> Result<HostArray, RuntimeError> {
        let buffer = self.buffer(partition)?;
        unpadded(buffer.to_host()?, &self.sharding().shard_ranges(partition, self.ty().dims()))
    }
}

impl Shards<'_> {
    fn start_next(&mut self) {
        self.ahead = self.blocks.next().map(|(buffer, ranges)| {
            let copy = buffer.copy_to_host_async();
            Ahead { ranges, copy: copy.map_err(RuntimeError::from) }
        });
    }
}

impl Iterator for Shards<'_> {
    type Item = Result<(Vec<Range<usize>>, HostArray), RuntimeError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ahead.is_none() {
            self.start_next();
        }
        let Ahead { ranges, copy } = self.ahead.take()?;
        self.start_next();
        Some(copy.and_then(|copy| {
            let block = unpadded(copy.wait()?, &ranges)?;
            Ok((ranges, block))
        }))
    }
}

/// A shard without what it was padded with at the ends of its dims.
fn unpadded(padded: HostArray, ranges: &[Range<usize>]) -> Result<HostArray, RuntimeError> {
    if padded.dims().iter().copied().eq(ranges.iter().map(|r| r.len())) {
        return Ok(padded);
    }
    let filled: Vec<Range<usize>> = ranges.iter().map(|r| 0..r.len()).collect();
    Ok(padded.slice(&filled)?)
}
