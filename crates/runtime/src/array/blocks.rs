//! The distinct blocks that a sharding cuts an array into, and the block that several partitions hold together.

use std::ops::Range;

use shardwright_mesh::{NamedSharding, Shard};
use shardwright_tensor::{HostArray, Shape, TensorError, TensorType};

use crate::RuntimeError;
use crate::error::Problem;

/// A part of an array, and the partitions that each hold a copy of it.
pub(super) struct Block {
    pub(super) ranges: Vec<Range<usize>>,
    pub(super) partitions: Vec<usize>,
}

/// The distinct blocks, in the order of their indices; also those that hold nothing, where a dim does not divide.
pub(super) fn blocks(sharding: &NamedSharding, dims: &[usize]) -> Result<Vec<Block>, RuntimeError> {
    let mut shards = sharding.shards(dims)?;
    let start_of = |shard: &Shard| shard.ranges.iter().map(|r| (r.start, r.end)).collect::<Vec<_>>();
    shards.sort_by_cached_key(|shard| (start_of(shard), shard.partition));
    let mut blocks: Vec<Block> = Vec::new();
    for Shard { partition, ranges, .. } in shards {
        match blocks.last_mut() {
            Some(block) if block.ranges == ranges => block.partitions.push(partition),
            _ => blocks.push(Block { ranges, partitions: vec![partition] }),
        }
    }
    Ok(blocks)
}

/// The indices that both have, of which there may be none.
pub(super) fn overlap(a: &[Range<usize>], b: &[Range<usize>]) -> Option<Vec<Range<usize>>> {
    let both = a.iter().zip(b).map(|(a, b)| a.start.max(b.start)..a.end.min(b.end));
    let both: Vec<_> = both.collect();
    both.iter().all(|range| range.start < range.end).then_some(both)
}

/// Where `inner` lies inside of `outer`.
pub(super) fn relative(inner: &[Range<usize>], outer: &[Range<usize>]) -> Vec<Range<usize>> {
    inner.iter().zip(outer).map(|(i, o)| i.start - o.start..i.end - o.start).collect()
}

/// The part of an array that several partitions hold together, such as those of one process, as an array of its own.
///
/// In each dim it has the indices that the partitions hold, in order, each once. Ten rows over four devices, of which
/// two belong to each of two processes, are rows 0 to 6 for the first process and 6 to 10 for the second:
///
/// ```
/// use shardwright_mesh::{AbstractMesh, NamedSharding};
/// use shardwright_runtime::LocalPart;
/// use shardwright_tensor::{DType, TensorType};
///
/// let batch = TensorType::new(DType::S32, [10, 8])?;
/// let sharding = NamedSharding::new(&AbstractMesh::parse("data=4")?, "(data, -)".parse()?)?;
/// assert_eq!(LocalPart::new(&sharding, &batch, [0, 1])?.ty().dims(), [6, 8]);
/// assert_eq!(LocalPart::new(&sharding, &batch, [2, 3])?.ranges(0), [6..10]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct LocalPart {
    whole: TensorType,
    ty: TensorType,
    /// For each dim, the ranges that are held, in order, none of them empty or the beginning of the next.
    ranges: Vec<Vec<Range<usize>>>,
}

impl LocalPart {
    /// The part of an array of type `whole` that these partitions hold.
    ///
    /// # Errors
    /// When the sharding has no such partition or does not fit the array, or when the partitions hold parts that do
    /// not make up a rectangle, such as two blocks on a diagonal.
    pub fn new(
        sharding: &NamedSharding,
        whole: &TensorType,
        partitions: impl IntoIterator<Item = usize>,
    ) -> Result<LocalPart, RuntimeError> {
        let shards = sharding.shards(whole.dims())?;
        let partitions: Vec<usize> = partitions.into_iter().collect();
        let mut held: Vec<Vec<Range<usize>>> = Vec::new();
        for &partition in &partitions {
            let shard = shards.get(partition).ok_or_else(|| no_partition(partition, sharding))?;
            held.push(shard.ranges.clone());
        }
        let of_dim = |dim: usize| {
            let mut ranges: Vec<_> = held.iter().map(|block| block[dim].clone()).collect();
            ranges.sort_by_key(|range| (range.start, range.end));
            ranges.dedup();
            ranges.retain(|range| !range.is_empty());
            ranges
        };
        let ranges: Vec<_> = (0..whole.rank()).map(of_dim).collect();

        held.retain(|block| block.iter().all(|range| !range.is_empty()));
        held.sort_by_cached_key(|block| block.iter().map(|r| r.start).collect::<Vec<_>>());
        held.dedup();
        if held.len() != ranges.iter().map(Vec::len).product::<usize>() {
            let (ty, sharding) = (whole.clone(), sharding.clone());
            return Err(Problem::NoRectangle { ty, sharding, partitions }.into());
        }
        let ranges: Vec<_> = ranges.into_iter().map(joined).collect();
        let dims: Vec<usize> = ranges.iter().map(|dim| dim.iter().map(Range::len).sum()).collect();
        let shape = Shape::new(dims).map_err(TensorError::from)?;
        Ok(LocalPart { whole: whole.clone(), ty: TensorType { dtype: whole.dtype, shape }, ranges })
    }

    /// The type of the part.
    pub fn ty(&self) -> &TensorType {
        &self.ty
    }

    /// Which indices of a dim of the whole array the part has, in order.
    ///
    /// # Panics
    /// If the array has no such dim.
    pub fn ranges(&self, dim: usize) -> &[Range<usize>] {
        &self.ranges[dim]
    }

    /// The block of the whole array at `ranges`, taken from the data of this part.
    ///
    /// # Errors
    /// When the data are not of the part's type, or the block does not lie in the part.
    pub fn block(&self, data: &HostArray, ranges: &[Range<usize>]) -> Result<HostArray, RuntimeError> {
        if *data.ty() != self.ty {
            let (part, found) = (self.clone(), data.ty().clone());
            return Err(Problem::LocalData { part: Box::new(part), found }.into());
        }
        let outside = || Problem::NotInPart { part: Box::new(self.clone()), ranges: ranges.to_vec() };
        if ranges.len() != self.ranges.len() {
            return Err(outside().into());
        }
        let dims = ranges.iter().zip(&self.ranges);
        let local = dims.map(|(range, held)| position(range, held)).collect::<Option<Vec<_>>>();
        Ok(data.slice(&local.ok_or_else(outside)?)?)
    }
}

/// Text such as `s32[6,8], indices [[0..6], [0..8]] of s32[10,8]`.
impl std::fmt::Display for LocalPart {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}, indices {:?} of {}", self.ty, self.ranges, self.whole)
    }
}

/// The ranges, which are in order, with neighbours made one.
fn joined(ranges: Vec<Range<usize>>) -> Vec<Range<usize>> {
    let mut joined: Vec<Range<usize>> = Vec::new();
    for range in ranges {
        match joined.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => joined.push(range),
        }
    }
    joined
}

/// Where the indices of `range` lie when all that are held are counted from 0; all of them have to be held.
fn position(range: &Range<usize>, held: &[Range<usize>]) -> Option<Range<usize>> {
    if range.is_empty() {
        return Some(0..0);
    }
    let mut before = 0;
    for piece in held {
        if piece.contains(&range.start) {
            let start = before + range.start - piece.start;
            return (range.end <= piece.end).then_some(start..start + range.len());
        }
        before += piece.len();
    }
    None
}

pub(super) fn no_partition(partition: usize, sharding: &NamedSharding) -> RuntimeError {
    Problem::NoSuchPartition { partition, sharding: sharding.clone() }.into()
}
