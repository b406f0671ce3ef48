//! Shardings as compilers give them beside a program: XLA's `OpSharding`, of which the fields that are needed are
//! declared here.

use std::fmt::Debug;

use prost::Message;
use shardwright_mesh::{HloSharding, NamedSharding, Subgroup, TextError, TileSharding};
use thiserror::Error;

use crate::compiled;

/// Bytes that are no `OpSharding`, or one that has no [`HloSharding`].
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("not a sharding that is known here: {reason}")]
pub struct OpShardingError {
    reason: String,
}

/// Reads a serialized `OpSharding`: that of an array, or those of the parts of a tuple.
///
/// ```
/// use shardwright_hlo::read_op_sharding;
///
/// // Type 3, tiles [2], counted in [2], not transposed.
/// let shardings = read_op_sharding(&[0x08, 3, 0x1a, 1, 2, 0x4a, 1, 2, 0x52, 1, 0])?;
/// assert_eq!(shardings[0].to_string(), "{devices=[2]<=[2]}");
/// # Ok::<(), shardwright_hlo::OpShardingError>(())
/// ```
///
/// # Errors
///
/// When the bytes are something else, or say less than a sharding does; tuples in tuples are such a case.
pub fn read_op_sharding(bytes: &[u8]) -> Result<Vec<HloSharding>, OpShardingError> {
    let sharding = proto::OpSharding::decode(bytes).map_err(|e| refuse(e.to_string()))?;
    match sharding.kind {
        proto::TUPLE => sharding.tuple.into_iter().map(of_array).collect(),
        _ => of_array(sharding).map(|sharding| vec![sharding]),
    }
}

/// Writes the `OpSharding` of an array, which [`read_op_sharding`] reads.
pub(crate) fn write_op_sharding(sharding: &NamedSharding) -> Vec<u8> {
    proto::OpSharding::of(sharding).encode_to_vec()
}

/// Writes the `OpSharding` of a tuple of arrays.
pub(crate) fn write_tuple_sharding(shardings: &[NamedSharding]) -> Vec<u8> {
    let tuple = shardings.iter().map(proto::OpSharding::of).collect();
    proto::OpSharding { kind: proto::TUPLE, tuple, ..Default::default() }.encode_to_vec()
}

fn refuse(reason: impl Into<String>) -> OpShardingError {
    OpShardingError { reason: reason.into() }
}

fn of_array(sharding: proto::OpSharding) -> Result<HloSharding, OpShardingError> {
    Ok(match sharding.kind {
        0 => HloSharding::Replicated,
        1 => {
            let devices = sizes(&sharding.devices)?;
            let [device] = devices[..] else {
                return Err(refuse(format!("one device is meant, and {} are named", devices.len())));
            };
            HloSharding::Maximal { device }
        }
        proto::TUPLE => return Err(refuse("a tuple in a tuple")),
        proto::TILED => HloSharding::Tiled(tiled(&sharding)?),
        proto::MANUAL => HloSharding::Manual,
        5 => HloSharding::Unknown,
        proto::UNREDUCED => HloSharding::Unreduced,
        other => return Err(refuse(format!("its type has the number {other}"))),
    })
}

fn tiled(sharding: &proto::OpSharding) -> Result<TileSharding, OpShardingError> {
    let mut tiles = sizes(&sharding.tiles)?;
    let kinds = match sharding.last_dim_replicated {
        true => vec![Subgroup::Replicated],
        false => sharding.last_tile_dims.iter().copied().map(subgroup).collect::<Result<_, _>>()?,
    };
    let rank =
        tiles.len().checked_sub(kinds.len()).ok_or_else(|| refuse("it has fewer tiles than subgroups"))?;
    let subgroups = kinds.into_iter().zip(tiles.split_off(rank)).collect();
    let order = |error: TextError| refuse(error.to_string());
    match sharding.iota_dims.is_empty() {
        true => TileSharding::of_devices(tiles, subgroups, sizes(&sharding.devices)?).map_err(order),
        false => {
            let (counted, permutation) = (sizes(&sharding.iota_dims)?, sizes(&sharding.iota_transpose)?);
            TileSharding::of_counted(tiles, subgroups, &counted, &permutation).map_err(order)
        }
    }
}

fn subgroup(kind: i32) -> Result<Subgroup, OpShardingError> {
    match kind {
        0 => Ok(Subgroup::Replicated),
        proto::MANUAL => Ok(Subgroup::Manual),
        proto::UNREDUCED => Ok(Subgroup::Unreduced),
        other => Err(refuse(format!("a subgroup is of the type with the number {other}"))),
    }
}

fn sizes<N: Copy + TryInto<usize> + Debug>(numbers: &[N]) -> Result<Vec<usize>, OpShardingError> {
    compiled::sizes(numbers).ok_or_else(|| refuse(format!("a number of {numbers:?} is negative")))
}

mod proto {
    use shardwright_mesh::{HloSharding, NamedSharding};

    /// A number of `OpSharding.Type`.
    pub(super) const TUPLE: i32 = 2;
    /// As before.
    pub(super) const TILED: i32 = 3;
    /// As before.
    pub(super) const MANUAL: i32 = 4;
    /// As before.
    pub(super) const UNREDUCED: i32 = 6;

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct OpSharding {
        #[prost(int32, tag = "1")]
        pub(super) kind: i32,
        #[prost(int64, repeated, tag = "3")]
        pub(super) tiles: Vec<i64>,
        #[prost(int64, repeated, tag = "4")]
        pub(super) devices: Vec<i64>,
        #[prost(message, repeated, tag = "5")]
        pub(super) tuple: Vec<OpSharding>,
        #[prost(bool, tag = "6")]
        pub(super) last_dim_replicated: bool,
        #[prost(int32, repeated, tag = "8")]
        pub(super) last_tile_dims: Vec<i32>,
        #[prost(int64, repeated, tag = "9")]
        pub(super) iota_dims: Vec<i64>,
        #[prost(int32, repeated, tag = "10")]
        pub(super) iota_transpose: Vec<i32>,
    }

    impl OpSharding {
        pub(super) fn of(sharding: &NamedSharding) -> OpSharding {
            let HloSharding::Tiled(tiled) = sharding.hlo_sharding() else {
                // The other one that a named sharding can be: whole on every device.
                return OpSharding::default();
            };
            let numbers = |sizes: &[usize]| sizes.iter().map(|&size| size as i64).collect::<Vec<_>>();
            let (counted, permutation) = tiled.counted().unwrap_or_default();
            let copies = tiled.subgroups().iter().map(|(_, count)| *count as i64);
            OpSharding {
                kind: TILED,
                tiles: numbers(tiled.tiles()).into_iter().chain(copies).collect(),
                last_dim_replicated: !tiled.subgroups().is_empty(),
                iota_dims: numbers(counted),
                iota_transpose: permutation.iter().map(|&dim| dim as i32).collect(),
                ..OpSharding::default()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tiles(tiles: &[i64], devices: &[i64]) -> proto::OpSharding {
        proto::OpSharding { kind: 3, tiles: tiles.to_vec(), devices: devices.to_vec(), ..Default::default() }
    }

    #[track_caller]
    fn check(sharding: &proto::OpSharding, expected: &str) {
        let read = read_op_sharding(&sharding.encode_to_vec());
        let text = read.map(|read| read.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "));
        assert_eq!(text.unwrap_or_else(|error| error.to_string()), expected);
    }

    #[test]
    fn each_kind_is_read() {
        let kind = |kind| proto::OpSharding { kind, ..Default::default() };
        check(&kind(0), "{replicated}");
        check(&proto::OpSharding { devices: vec![3], ..kind(1) }, "{maximal device=3}");
        check(&kind(4), "{manual}");
        check(&kind(5), "{unknown}");
        check(&kind(6), "{unreduced}");
        check(&tiles(&[2, 1], &[1, 0]), "{devices=[2,1]1,0}");
        let copies = proto::OpSharding { last_dim_replicated: true, ..tiles(&[2, 2], &[0, 2, 1, 3]) };
        check(&copies, "{devices=[2,2]0,2,1,3 last_tile_dim_replicate}");
        let counted = proto::OpSharding {
            iota_dims: vec![2, 2],
            iota_transpose: vec![1, 0],
            last_tile_dims: vec![4, 0],
            ..tiles(&[1, 2, 2], &[])
        };
        check(&counted, "{devices=[1,2,2]<=[2,2]T(1,0) last_tile_dims={manual, replicated}}");
        check(
            &proto::OpSharding { tuple: vec![kind(0), copies], ..kind(2) },
            "{replicated}; {devices=[2,2]0,2,1,3 last_tile_dim_replicate}",
        );
    }

    #[test]
    fn what_is_no_sharding_says_why() {
        let kind = |kind| proto::OpSharding { kind, ..Default::default() };
        let refused = |why: &str| format!("not a sharding that is known here: {why}");
        check(&kind(1), &refused("one device is meant, and 0 are named"));
        check(&kind(9), &refused("its type has the number 9"));
        check(&proto::OpSharding { tuple: vec![kind(2)], ..kind(2) }, &refused("a tuple in a tuple"));
        check(&tiles(&[-1], &[0]), &refused("a number of [-1] is negative"));
        let nothing = proto::OpSharding { last_dim_replicated: true, ..tiles(&[], &[0]) };
        check(&nothing, &refused("it has fewer tiles than subgroups"));
        let odd = proto::OpSharding { last_tile_dims: vec![1], ..tiles(&[1], &[0]) };
        check(&odd, &refused("a subgroup is of the type with the number 1"));
        assert!(read_op_sharding(&tiles(&[2, 2], &[0, 1]).encode_to_vec()).is_err());
        assert!(read_op_sharding(&tiles(&[2], &[1, 1]).encode_to_vec()).is_err());
        assert!(read_op_sharding(b"damaged").is_err());
    }
}
