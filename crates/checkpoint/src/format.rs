//! One safetensors file: 8 bytes of header length, the header as JSON, then the tensors one behind the other.
//!
//! The `safetensors` crate gives the types of a header; the checks are our own, because its errors do not say
//! which of the many things that go wrong with a download went wrong, and because it reads from memory.
//! Every number is compared with the length of the file before anything is allocated or read by it.

use std::collections::HashMap;
use std::fs::File;

use safetensors::Dtype;
use safetensors::tensor::TensorInfo;
use serde::de::MapAccess;
use shardwright_tensor::{DType, ShapeError, TensorType};
use thiserror::Error;

use crate::error::Problem;
use crate::members::{Member, Members};
use crate::positioned::read_exact_at;

/// The header size up to which every implementation of the format reads.
pub(crate) const HEADER_LIMIT: u64 = 100_000_000;
/// The bytes before the header, which hold its size.
pub(crate) const PREFIX: u64 = 8;
/// The key in a header that does not name a tensor.
pub(crate) const METADATA: &str = "__metadata__";

/// Data is little-endian in files, and memory is copied to and from them as it is.
const _: () = assert!(cfg!(target_endian = "little"));

/// What makes a file not a valid safetensors file.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum FormatError {
    /// The text that Git LFS leaves in place of a large file.
    #[error("this is a Git LFS pointer file, not the weights{}: download it again, for example with `git lfs pull`",
        size.as_ref().map(|n| format!(" (which have {n} bytes)")).unwrap_or_default())]
    LfsPointer {
        /// How many bytes the pointer says that the real file has.
        size: Option<String>,
    },
    /// A web page, as a failed download leaves it.
    #[error(
        "this is an HTML page, not the weights: the download failed (log-in needed, or a wrong address); download it again"
    )]
    HtmlPage,
    /// A file of another well-known format.
    #[error("this is {what}, not a safetensors file")]
    OtherFormat {
        /// The format.
        what: &'static str,
    },
    /// The file ends before its data.
    #[error(
        "the file ends after {found} of at least {needed} bytes, {place} its header: incomplete download?"
    )]
    Truncated {
        /// How many bytes there are.
        found: u64,
        /// How many there must be.
        needed: u64,
        /// `before` or `inside`.
        place: &'static str,
    },
    /// The first 8 bytes are no header size.
    #[error(
        "the first 8 bytes announce a header of {header} bytes in a file of {file}: this is not a safetensors file"
    )]
    NoHeader {
        /// The header size they spell.
        header: u64,
        /// The size of the file.
        file: u64,
    },
    /// A header that is there, but larger than implementations of the format accept.
    #[error(
        "the header has {header} bytes, more than the limit of {HEADER_LIMIT}: save the weights in several files"
    )]
    HeaderTooLarge {
        /// Its size.
        header: u64,
    },
    /// The header is not the JSON that it should be.
    #[error("the header is not valid: {message}")]
    Header {
        /// The key, what is wrong, and where.
        message: String,
    },
    /// The same key twice in the header.
    #[error("the header holds the key {name} twice")]
    RepeatedKey {
        /// The key.
        name: String,
    },
    /// An element type that programs here have no counterpart of.
    #[error("tensor {name}: dtype {dtype} is not supported; supported are {}", dtype_names())]
    UnsupportedDtype {
        /// The tensor.
        name: String,
        /// Its dtype, as files spell it.
        dtype: String,
    },
    /// A shape beyond any memory.
    #[error("tensor {name}: {error}")]
    Shape {
        /// The tensor.
        name: String,
        /// Its shape.
        error: ShapeError,
    },
    /// A byte range that ends before it starts.
    #[error("tensor {name}: its data ends at byte {end}, before its start at byte {start}")]
    Backwards {
        /// The tensor.
        name: String,
        /// First byte.
        start: u64,
        /// Byte behind the last.
        end: u64,
    },
    /// A byte range that does not hold the type.
    #[error("tensor {name}: data range {start}..{end} has {} bytes, but {ty} needs {}", end - start, ty.byte_count())]
    Size {
        /// The tensor.
        name: String,
        /// Its type.
        ty: TensorType,
        /// First byte.
        start: u64,
        /// Byte behind the last.
        end: u64,
    },
    /// Two tensors on the same bytes.
    #[error(
        "tensors {first} and {second} share the data bytes {start}..{end}, which the format forbids (tied weights are saved once)"
    )]
    Overlap {
        /// The tensor that starts first.
        first: String,
        /// The other one.
        second: String,
        /// First shared byte.
        start: u64,
        /// Byte behind the last shared one.
        end: u64,
    },
    /// Bytes before a tensor that belong to none.
    #[error("data bytes {start}..{end}, before tensor {name}, belong to no tensor")]
    Gap {
        /// The tensor behind the gap.
        name: String,
        /// First byte.
        start: u64,
        /// Byte behind the last.
        end: u64,
    },
    /// A byte range that leaves the file.
    #[error(
        "tensor {name}: its data ends at byte {end}, but the file holds {available} bytes of data (it ends after {found} of {needed} bytes: incomplete download?)"
    )]
    BeyondFile {
        /// The first tensor that is not whole.
        name: String,
        /// Byte behind its last.
        end: u64,
        /// How many bytes of data there are.
        available: u64,
        /// The size of the file.
        found: u64,
        /// The size of the file that the header describes.
        needed: u64,
    },
    /// Bytes behind the last tensor.
    #[error("{bytes} bytes follow the last tensor, which belong to none")]
    Trailing {
        /// How many.
        bytes: u64,
    },
}

/// The tensors of one file, in the order of their data, each known to lie inside the file.
#[derive(Debug)]
pub(crate) struct Header {
    pub(crate) entries: Vec<Entry>,
}

/// One tensor of a file.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) ty: TensorType,
    /// Where its data starts, from the beginning of the file.
    pub(crate) offset: u64,
}

impl Header {
    /// Reads and validates the header of an open file.
    pub(crate) fn read(file: &File) -> Result<Header, Problem> {
        let len = file.metadata().map_err(Problem::io("ask for the size"))?.len();
        let header_len = header_len(file, len)?;
        let mut text = vec![0; usize::try_from(header_len).expect("the header size is within its limit")];
        read_exact_at(file, &mut text, PREFIX).map_err(Problem::io("read the header"))?;
        let tensors = parse(&text)?;
        let entries = place(tensors, PREFIX + header_len, len)?;
        Ok(Header { entries })
    }
}

/// The element type that files spell `dtype`, where programs have it.
fn dtype_from_file(dtype: Dtype) -> Option<DType> {
    DType::ALL.into_iter().find(|&d| dtype_in_file(d) == dtype)
}

/// The spelling in files.
pub(crate) fn dtype_in_file(dtype: DType) -> Dtype {
    match dtype {
        DType::Pred => Dtype::BOOL,
        DType::S8 => Dtype::I8,
        DType::S16 => Dtype::I16,
        DType::S32 => Dtype::I32,
        DType::S64 => Dtype::I64,
        DType::U8 => Dtype::U8,
        DType::U16 => Dtype::U16,
        DType::U32 => Dtype::U32,
        DType::U64 => Dtype::U64,
        DType::F16 => Dtype::F16,
        DType::Bf16 => Dtype::BF16,
        DType::F32 => Dtype::F32,
        DType::F64 => Dtype::F64,
    }
}

fn dtype_names() -> String {
    let names: Vec<String> = DType::ALL.into_iter().map(|d| dtype_in_file(d).to_string()).collect();
    names.join(", ")
}

/// What the first bytes of a file show it to be, where that is not weights.
pub(crate) fn other_format(start: &[u8]) -> Option<FormatError> {
    const MAGIC: [(&[u8], &str); 4] = [
        (b"PK\x03\x04", "a zip archive (a PyTorch pickle?)"),
        (b"GGUF", "a GGUF file"),
        (b"\x89HDF", "an HDF5 file"),
        (b"\x1f\x8b", "a gzip archive"),
    ];
    let text = String::from_utf8_lossy(start);
    if text.starts_with("version https://git-lfs") {
        let size = text.lines().find_map(|line| line.strip_prefix("size ")).map(|n| n.trim().to_owned());
        return Some(FormatError::LfsPointer { size });
    }
    let text = text.trim_start_matches('\u{feff}').trim_start().to_ascii_lowercase();
    if ["<!doctype", "<html", "<?xml", "<head"].iter().any(|tag| text.starts_with(tag)) {
        return Some(FormatError::HtmlPage);
    }
    let (_, what) = MAGIC.into_iter().find(|(magic, _)| start.starts_with(magic))?;
    Some(FormatError::OtherFormat { what })
}

/// The size of the header, which is known to lie inside the file and the limit.
fn header_len(file: &File, len: u64) -> Result<u64, Problem> {
    const SNIFFED: u64 = 512;
    let mut start = vec![0; len.min(SNIFFED) as usize];
    read_exact_at(file, &mut start, 0).map_err(Problem::io("read the first bytes"))?;
    let fault = match start.first_chunk().map(|size| u64::from_le_bytes(*size)) {
        None => FormatError::Truncated { found: len, needed: PREFIX, place: "before" },
        Some(header) => match (header <= len - PREFIX, header <= HEADER_LIMIT) {
            (true, true) => return Ok(header),
            (true, false) => FormatError::HeaderTooLarge { header },
            (false, true) => FormatError::Truncated { found: len, needed: PREFIX + header, place: "inside" },
            (false, false) => FormatError::NoHeader { header, file: len },
        },
    };
    Err(other_format(&start).unwrap_or(fault).into())
}

/// A value in a header.
enum HeaderMember {
    Tensor(TensorInfo),
    Metadata,
}

impl<'de> Member<'de> for HeaderMember {
    fn read<A: MapAccess<'de>>(key: &str, map: &mut A) -> Result<HeaderMember, A::Error> {
        if key == METADATA {
            map.next_value::<HashMap<String, String>>()?;
            return Ok(HeaderMember::Metadata);
        }
        map.next_value().map(HeaderMember::Tensor)
    }
}

fn parse(text: &[u8]) -> Result<Vec<(String, TensorInfo)>, FormatError> {
    let members: Members<HeaderMember> =
        serde_json::from_slice(text).map_err(|e| FormatError::Header { message: e.to_string() })?;
    if let Some(name) = members.repeated() {
        return Err(FormatError::RepeatedKey { name: name.to_owned() });
    }
    let tensors = members.0.into_iter().filter_map(|(name, member)| match member {
        HeaderMember::Tensor(info) => Some((name, info)),
        HeaderMember::Metadata => None,
    });
    Ok(tensors.collect())
}

/// Checks that the tensors fill the data of the file without gaps and overlaps, each with what its type needs.
fn place(
    tensors: Vec<(String, TensorInfo)>,
    data_start: u64,
    file_len: u64,
) -> Result<Vec<Entry>, FormatError> {
    let types = tensors.iter().map(|(name, info)| checked_type(name, info)).collect::<Result<Vec<_>, _>>()?;
    let mut tensors: Vec<_> = tensors.into_iter().zip(types).collect();
    // The keys may stand in any order; empty tensors go before the one that starts at the same byte.
    tensors.sort_by_key(|((_, info), _)| info.data_offsets);

    let available = file_len - data_start;
    let data_len = tensors.last().map_or(0, |((_, info), _)| info.data_offsets.1 as u64);
    let mut entries: Vec<Entry> = Vec::with_capacity(tensors.len());
    let mut filled = 0;
    for ((name, info), ty) in tensors {
        let (start, end) = (info.data_offsets.0 as u64, info.data_offsets.1 as u64);
        if start < filled {
            let first = entries.last().expect("something was filled").name.clone();
            return Err(FormatError::Overlap { first, second: name, start, end: end.min(filled) });
        }
        if start > filled {
            return Err(FormatError::Gap { name, start: filled, end: start });
        }
        if end > available {
            let needed = data_start.saturating_add(data_len);
            return Err(FormatError::BeyondFile { name, end, available, found: file_len, needed });
        }
        filled = end;
        entries.push(Entry { name, ty, offset: data_start + start });
    }
    if filled < available {
        return Err(FormatError::Trailing { bytes: available - filled });
    }
    Ok(entries)
}

/// The type of a tensor whose byte range has the size of it.
fn checked_type(name: &str, info: &TensorInfo) -> Result<TensorType, FormatError> {
    let name = || name.to_owned();
    let dtype = dtype_from_file(info.dtype)
        .ok_or_else(|| FormatError::UnsupportedDtype { name: name(), dtype: info.dtype.to_string() })?;
    let (start, end) = (info.data_offsets.0 as u64, info.data_offsets.1 as u64);
    if end < start {
        return Err(FormatError::Backwards { name: name(), start, end });
    }
    let ty = TensorType::new(dtype, info.shape.as_slice())
        .map_err(|error| FormatError::Shape { name: name(), error })?;
    if end - start != ty.byte_count() as u64 {
        return Err(FormatError::Size { name: name(), ty, start, end });
    }
    Ok(ty)
}
