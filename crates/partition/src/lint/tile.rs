//! Tiles: what a TPU stores an array in.

use shardwright_tensor::DType;

use super::{Lint, LintCode};
use crate::{Bytes, PlannedArgument};

/// Elements of a tile along the last dim, on every generation.
const LANES: usize = 128;

/// Elements of a tile along the dim before the last: 8 rows of 32 bits, into which narrower elements are packed, so that
/// 16 rows of 16 bits and 32 of 8 bits fill one. XLA writes these layouts `T(8,128)`, `T(8,128)(2,1)` and
/// `T(8,128)(4,1)`.
fn rows(dtype: DType) -> usize {
    const WORD: usize = 4;
    8 * (WORD / dtype.size()).max(1)
}

/// Tells of a matrix that is cut so small that a tile is not full any more, where it was before.
pub(super) fn tile_lint(argument: &PlannedArgument) -> Option<Lint> {
    let (dims, dtype) = (argument.ty.dims(), argument.ty.dtype);
    let shard = argument.sharding.shard_shape(dims).ok()?;
    let [.., rows_whole, columns_whole] = *dims else { return None };
    let [.., rows_shard, columns_shard] = *shard else { return None };
    let tile = [rows(dtype), LANES];
    let is_cut = |whole: usize, shard: usize, tile: usize| shard < whole && shard < tile && shard > 0;
    if !is_cut(rows_whole, rows_shard, tile[0]) && !is_cut(columns_whole, columns_shard, tile[1]) {
        return None;
    }
    let matrices: usize = shard[..shard.len() - 2].iter().product();
    let stored = [rows_shard.next_multiple_of(tile[0]), columns_shard.next_multiple_of(tile[1])];
    let stored_bytes = stored.iter().product::<usize>().saturating_mul(matrices).saturating_mul(dtype.size());
    let message = format!(
        "shards of {rows_shard}x{columns_shard} are below the tile of a TPU for {dtype}, {}x{}: each is stored in {}, \
         and needs {}",
        tile[0],
        tile[1],
        Bytes(stored_bytes as u64),
        Bytes(argument.bytes_per_device as u64)
    );
    let advice = "on a TPU, split another dim or fewer ways, or leave it whole".to_owned();
    Some(Lint::note(LintCode::BelowTile, &argument.name, message, advice))
}
