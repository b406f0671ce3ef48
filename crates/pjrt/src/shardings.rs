//! How the arguments and results of a compiled program are cut, which plugins tell through an extension.

use std::fmt;

use prost::Message;
use shardwright_pjrt_sys::{self as sys, Struct};

use crate::Extension;
use crate::api::{Api, blobs};
use crate::error::{Error, ErrorKind};

/// How an array is cut, in the compiler's own terms.
///
/// Printed as HLO does: `{replicated}`, or `{devices=[2,1]<=[2]}` for an array of partitions with a dim for each of
/// the array's, and one more for copies.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OpSharding {
    /// Every device has the whole array.
    Replicated,
    /// One device has the whole array.
    Maximal {
        /// Its id.
        device: i64,
    },
    /// Cut into tiles.
    Tiled {
        /// The shape of the array of tiles.
        tiles: Vec<i64>,
        /// Which partition has which tile, row-major.
        partitions: Partitions,
        /// Whether the last dim of `tiles` counts copies.
        last_dim_replicated: bool,
    },
    /// One sharding for each part of a tuple.
    Tuple(Vec<OpSharding>),
    /// In another way, such as by hand: the number is that of `OpSharding.Type` in XLA.
    Other(i32),
}

/// The partitions of a tiled sharding, in the order of its tiles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Partitions {
    /// One after the other.
    List(Vec<i64>),
    /// Counted from 0 in an array of shape `dims`, which is then transposed.
    Iota {
        /// The shape in which they are counted.
        dims: Vec<i64>,
        /// The order of its dims.
        transpose: Vec<i32>,
    },
}

/// # Safety
///
/// The executable is alive and of this plugin.
pub(crate) unsafe fn of_parameters(
    api: Api,
    executable: *mut sys::PJRT_Executable,
) -> Result<Option<Vec<OpSharding>>, Error> {
    let Some(extension) = extension(api) else { return Ok(None) };
    let function = extension.PJRT_Shardings_PJRT_Executable_ParameterShardings;
    // SAFETY: the caller's contract.
    unsafe { ask(api, "PJRT_Shardings_PJRT_Executable_ParameterShardings", function, executable) }
}

/// # Safety
///
/// The executable is alive and of this plugin.
pub(crate) unsafe fn of_outputs(
    api: Api,
    executable: *mut sys::PJRT_Executable,
) -> Result<Option<Vec<OpSharding>>, Error> {
    let Some(extension) = extension(api) else { return Ok(None) };
    let function = extension.PJRT_Shardings_PJRT_Executable_OutputShardings;
    // SAFETY: the caller's contract.
    unsafe { ask(api, "PJRT_Shardings_PJRT_Executable_OutputShardings", function, executable) }
}

fn extension(api: Api) -> Option<sys::PJRT_Shardings_Extension> {
    let size = size_of::<sys::PJRT_Shardings_Extension>();
    let extension = api.extension(Extension::SHARDINGS, size).ok()?;
    // SAFETY: an extension of this type that is at least as large has these fields, and lives as long as the process.
    Some(unsafe { extension.cast().read() })
}

/// # Safety
///
/// The function is one of the plugin's Shardings extension, and the executable is alive and of this plugin.
unsafe fn ask(
    api: Api,
    name: &'static str,
    function: sys::PJRT_Shardings_Function,
    executable: *mut sys::PJRT_Executable,
) -> Result<Option<Vec<OpSharding>>, Error> {
    let Some(function) = function else { return Ok(None) };
    let args = sys::PJRT_Shardings_Executable_Args { executable, ..Struct::new() };
    // SAFETY: the caller's contract; the lists live as long as the executable, and are copied.
    unsafe {
        let args = api.call_function(name, function, args)?;
        if args.shardings.is_null() || args.sharding_sizes.is_null() {
            return Ok(None);
        }
        let decode = |bytes: &[u8]| {
            proto::OpSharding::decode(bytes)
                .map(OpSharding::from)
                .map_err(|e| Error::new(ErrorKind::BrokenContract, name, e.to_string()))
        };
        blobs(args.shardings, args.sharding_sizes, args.num_shardings)
            .map(decode)
            .collect::<Result<_, _>>()
            .map(Some)
    }
}

impl From<proto::OpSharding> for OpSharding {
    fn from(proto: proto::OpSharding) -> OpSharding {
        match proto.kind {
            0 => OpSharding::Replicated,
            1 => OpSharding::Maximal { device: proto.devices.first().copied().unwrap_or(0) },
            2 => OpSharding::Tuple(proto.tuple.into_iter().map(OpSharding::from).collect()),
            3 => {
                let partitions = match proto.iota_dims.is_empty() {
                    true => Partitions::List(proto.devices),
                    false => Partitions::Iota { dims: proto.iota_dims, transpose: proto.iota_transpose },
                };
                let last_dim_replicated =
                    proto.last_dim_replicated || proto.last_tile_dims.last().is_some_and(|&kind| kind == 0);
                OpSharding::Tiled { tiles: proto.tiles, partitions, last_dim_replicated }
            }
            other => OpSharding::Other(other),
        }
    }
}

impl fmt::Display for OpSharding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpSharding::Replicated => f.write_str("{replicated}"),
            OpSharding::Maximal { device } => write!(f, "{{maximal device={device}}}"),
            OpSharding::Tiled { tiles, partitions, last_dim_replicated } => {
                let copies = if *last_dim_replicated { " last_tile_dim_replicate" } else { "" };
                write!(f, "{{devices=[{}]{partitions}{copies}}}", list(tiles))
            }
            OpSharding::Tuple(parts) => write!(f, "{{{}}}", list(parts)),
            OpSharding::Other(number) => write!(f, "{{sharding of type {number}}}"),
        }
    }
}

impl fmt::Display for Partitions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Partitions::List(ids) => f.write_str(&list(ids)),
            Partitions::Iota { dims, transpose } if transpose.is_sorted() => write!(f, "<=[{}]", list(dims)),
            Partitions::Iota { dims, transpose } => write!(f, "<=[{}]T({})", list(dims), list(transpose)),
        }
    }
}

fn list(items: &[impl fmt::Display]) -> String {
    items.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

/// The fields that are needed of XLA's `OpSharding`, under names of our own.
mod proto {
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
}
