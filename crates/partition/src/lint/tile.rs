//! Tiles: what a TPU stores an array in.
//!
//! The compiler lays the arguments of a program out in tiles of 8 rows and 128 lanes, which XLA writes `T(8,128)`. Of
//! narrower elements, several rows are packed into one of 32 bits (`T(8,128)(2,1)` for 16 bits), and the tile stays one
//! of 8 by 128 elements. Any two dims can be rows and lanes; those are taken that need the least. Fewer than 8 rows are
//! stored as the next power of two, in tiles of that many rows, but never less than is packed into one; an array of one
//! dim has tiles of up to 1024 elements. These rules give the sizes that the compiler states, for all dtypes.

use shardwright_tensor::DType;

use super::{Lint, LintCode};
use crate::{Bytes, PlannedArgument};

const ROWS: usize = 8;
const LANES: usize = 128;
/// Elements of the largest tile of an array of one dim.
const FLAT: usize = ROWS * LANES;

/// Of more dims than this, no one has arrays, and to try all pairs of them would take long.
const MOST_DIMS: usize = 8;

/// Bytes in which a TPU stores an array of this shape.
fn stored_bytes(dims: &[usize], dtype: DType) -> Option<usize> {
    const WORD: usize = 4;
    let packed = (WORD / dtype.size()).max(1);
    let rows = |size: usize| match size {
        ROWS.. => size.checked_next_multiple_of(ROWS),
        _ => Some(size.next_power_of_two().max(packed)),
    };
    let elements = match dims {
        [] => return None,
        [size] => size.checked_next_multiple_of(size.next_power_of_two().clamp(LANES * packed, FLAT)),
        _ if dims.len() > MOST_DIMS => return None,
        _ => {
            let pairs =
                (0..dims.len()).flat_map(|r| (0..dims.len()).map(move |l| (r, l))).filter(|(r, l)| r != l);
            let stored = pairs.filter_map(|(row, lane)| {
                let matrix = rows(dims[row])?.checked_mul(dims[lane].checked_next_multiple_of(LANES)?)?;
                let others = (0..dims.len()).filter(|dim| ![row, lane].contains(dim));
                others.map(|dim| dims[dim]).try_fold(matrix, usize::checked_mul)
            });
            stored.min()
        }
    };
    elements?.checked_mul(dtype.size())
}

/// Tells of an array that is cut so small that its parts together are stored in twice what the whole is, or more.
pub(super) fn tile_lint(argument: &PlannedArgument) -> Option<Lint> {
    let (dims, dtype) = (argument.ty.dims(), argument.ty.dtype);
    let shard = argument.sharding.shard_shape(dims).ok()?;
    let shards = argument.sharding.shards_per_dim().into_iter().try_fold(1, usize::checked_mul)?;
    let (whole, each) = (stored_bytes(dims, dtype)?, stored_bytes(&shard, dtype)?);
    let needed = argument.bytes_per_device;
    if each < needed.saturating_mul(2) || each.saturating_mul(shards) < whole.saturating_mul(2) {
        return None;
    }
    let sizes: Vec<String> = shard.iter().map(usize::to_string).collect();
    let message = format!(
        "shards {dtype}[{}] are below the tile of a TPU, {ROWS}x{LANES}: each of {} is stored in {}",
        sizes.join(","),
        Bytes(needed as u64),
        Bytes(each as u64)
    );
    let advice = "on a TPU, split it fewer ways, or leave it whole".to_owned();
    Some(Lint::note(LintCode::BelowTile, &argument.name, message, advice))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sizes that the TPU compiler stated for arguments of these shapes.
    #[test]
    fn sizes_are_those_of_the_compiler() {
        let (f32, bf16, s8) = (DType::F32, DType::Bf16, DType::S8);
        let cases: [(DType, &[usize], usize); 28] = [
            (f32, &[1, 8, 128], 4096),
            (f32, &[1, 1, 128], 512),
            (f32, &[1, 8, 16], 4096),
            (f32, &[1, 64, 4], 2048),
            (f32, &[1, 100], 512),
            (f32, &[4, 128], 2048),
            (f32, &[16, 16], 8192),
            (f32, &[1024, 16], 65536),
            (f32, &[10, 200], 16384),
            (f32, &[11, 3], 2048),
            (f32, &[4, 3, 3, 4], 18432),
            (f32, &[4, 3, 3, 32], 18432),
            (f32, &[1, 2, 2, 512], 8192),
            (f32, &[128, 2, 2, 4], 8192),
            (f32, &[25], 512),
            (f32, &[250], 1024),
            (f32, &[1100], 8192),
            (bf16, &[1, 8, 128], 2048),
            (bf16, &[1, 16, 128], 4096),
            (bf16, &[1, 1, 128], 512),
            (bf16, &[1, 3, 128], 1024),
            (bf16, &[1, 72, 128], 18432),
            (bf16, &[1024, 16], 32768),
            (bf16, &[25], 512),
            (bf16, &[250], 512),
            (s8, &[1, 8, 128], 1024),
            (s8, &[1, 32, 128], 4096),
            (s8, &[1, 40, 128], 5120),
        ];
        for (dtype, dims, bytes) in cases {
            assert_eq!(stored_bytes(dims, dtype), Some(bytes), "{dtype}{dims:?}");
        }
        assert_eq!(stored_bytes(&[usize::MAX, 3], f32), None);
        assert_eq!(stored_bytes(&[1; 9], f32), None);
        assert_eq!(stored_bytes(&[0, 128], f32), Some(0));
    }
}
