//! Arrays read back into host memory.

use std::ops::Range;
use std::vec;

use shardwright_pjrt::PendingHostCopy;
use shardwright_tensor::HostArray;

use super::ShardedArray;
use super::blocks::{Block, blocks, no_partition};
use crate::RuntimeError;

/// The parts of an array, each with its index range: see [`ShardedArray::shards`].
pub struct Shards<'a> {
    array: &'a ShardedArray,
    blocks: vec::IntoIter<Block>,
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
    /// When the program that computes it failed, or a copy did.
    pub fn to_host(&self) -> Result<HostArray, RuntimeError> {
        if self.sharding().is_fully_replicated() {
            return Ok(self.buffers[0].to_host()?);
        }
        let mut whole = HostArray::zeros(self.ty().clone());
        for part in self.shards() {
            let (ranges, block) = part?;
            whole.write_slice(&ranges, &block)?;
        }
        Ok(whole)
    }

    /// The distinct parts of the array with their index ranges, in the order of the indices, without padding; parts
    /// that hold nothing are left out. Waits for what computes them.
    ///
    /// One part is copied ahead, so the host holds two shards at most, and those that the caller keeps. What goes wrong
    /// with a part takes its place.
    pub fn shards(&self) -> Shards<'_> {
        let mut blocks = blocks(self.sharding(), self.ty().dims()).expect("an array has its sharding's rank");
        blocks.retain(|block| block.ranges.iter().all(|range| !range.is_empty()));
        Shards { array: self, blocks: blocks.into_iter(), ahead: None }
    }

    /// The part that one partition holds, without padding. Waits for what computes it.
    ///
    /// The host holds the shard, and its padding where it has some.
    ///
    /// # Errors
    /// When the mesh has no such partition, the program that computes it failed, or the copy did.
    pub fn shard(&self, partition: usize) -> Result<HostArray, RuntimeError> {
        let buffer = self.buffers.get(partition).ok_or_else(|| no_partition(partition, self.sharding()))?;
        unpadded(buffer.to_host()?, &self.sharding().shard_ranges(partition, self.ty().dims()))
    }
}

impl Shards<'_> {
    fn start_next(&mut self) {
        self.ahead = self.blocks.next().map(|Block { ranges, partitions }| {
            let copy = self.array.buffers[partitions[0]].copy_to_host_async();
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
