use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};

use safetensors::tensor::{Metadata, TensorInfo};
use shardwright_tensor::{HostArray, TensorType};
use thiserror::Error;

use crate::atomic::AtomicFile;
use crate::error::{CheckpointError, Problem};
use crate::format::{HEADER_LIMIT, Header, METADATA, PREFIX, dtype_in_file};
use crate::names::Few;
use crate::positioned::write_all_at;

/// Writes one safetensors file, tensor by tensor as they arrive.
///
/// The types are given first, so that the header and the place of every tensor are known and no more than one
/// tensor is in memory. The order of the data is the one of the reference implementation, wide dtypes first and
/// then by name, so the same tensors always give the same bytes.
///
/// The file gets its name in [`finish`](HfWriter::finish). Dropped before that, nothing is left.
#[derive(Debug)]
pub struct HfWriter {
    file: AtomicFile,
    path: PathBuf,
    tensors: BTreeMap<String, Planned>,
}

/// What keeps a file from being what its header says.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum WriteError {
    /// One name was announced twice.
    #[error("tensor {name} is announced twice")]
    AnnouncedTwice {
        /// The name.
        name: String,
    },
    /// A name that the format keeps for itself, or more data than any file holds.
    #[error("tensor {name} of type {ty} has no place in the format")]
    Unwritable {
        /// The name.
        name: String,
        /// The type.
        ty: TensorType,
    },
    /// The header would be larger than others read.
    #[error("the header would have {size} bytes, more than the limit of {HEADER_LIMIT}")]
    HeaderTooLarge {
        /// Its size.
        size: u64,
    },
    /// A tensor that the header does not have.
    #[error("tensor {name} was not announced")]
    NotAnnounced {
        /// The name.
        name: String,
    },
    /// A tensor of another type than the header says.
    #[error("tensor {name} was announced as {announced} and came as {given}")]
    OtherType {
        /// The name.
        name: String,
        /// The type in the header.
        announced: TensorType,
        /// The type that came.
        given: TensorType,
    },
    /// A tensor that came a second time.
    #[error("tensor {name} was written twice")]
    WrittenTwice {
        /// The name.
        name: String,
    },
    /// Tensors that never came.
    #[error("{} of {total} tensors were not written: {}", missing.len(), Few(missing))]
    NotWritten {
        /// Their names.
        missing: Vec<String>,
        /// How many were announced.
        total: usize,
    },
    /// The finished file, read again, does not say what was written.
    #[error("the file reads back with other tensors than were written: {}", Few(tensors))]
    ReadsBackOtherwise {
        /// The tensors that differ.
        tensors: Vec<String>,
    },
}

#[derive(Debug)]
struct Planned {
    ty: TensorType,
    /// From the beginning of the file.
    offset: u64,
    written: bool,
}

impl HfWriter {
    /// Starts the file `path`, which will hold exactly these tensors.
    pub fn create<N: Into<String>>(
        path: impl AsRef<Path>,
        tensors: impl IntoIterator<Item = (N, TensorType)>,
    ) -> Result<HfWriter, CheckpointError> {
        let path = path.as_ref();
        let start = || {
            let mut tensors: Vec<_> = tensors.into_iter().map(|(name, ty)| (name.into(), ty)).collect();
            tensors.sort_by_cached_key(|(name, ty)| (Reverse(dtype_in_file(ty.dtype)), name.clone()));
            let header = header(&tensors)?;
            let tensors = plan(tensors, header.len() as u64);
            let file = AtomicFile::create(path)?;
            write_all_at(file.file(), &header, 0).map_err(Problem::io("write the header"))?;
            Ok(HfWriter { file, path: path.to_owned(), tensors })
        };
        start().map_err(|problem: Problem| problem.at(path))
    }

    /// Writes one of the announced tensors, in any order.
    pub fn write(&mut self, name: &str, array: &HostArray) -> Result<(), CheckpointError> {
        self.write_planned(name, array).map_err(|problem| problem.at(&self.path))
    }

    /// Checks that every tensor was written, reads the header again, and gives the file its name.
    pub fn finish(self) -> Result<(), CheckpointError> {
        let HfWriter { file, path, tensors } = self;
        let finish = || {
            let missing: Vec<String> = tensors
                .iter()
                .filter(|(_, planned)| !planned.written)
                .map(|(name, _)| name.clone())
                .collect();
            if !missing.is_empty() {
                return Err(WriteError::NotWritten { missing, total: tensors.len() }.into());
            }
            check_header(&Header::read(file.file())?, &tensors)?;
            file.commit()
        };
        finish().map_err(|problem: Problem| problem.at(&path))
    }

    fn write_planned(&mut self, name: &str, array: &HostArray) -> Result<(), Problem> {
        let planned =
            self.tensors.get_mut(name).ok_or_else(|| WriteError::NotAnnounced { name: name.to_owned() })?;
        if planned.ty != *array.ty() {
            let (announced, given) = (planned.ty.clone(), array.ty().clone());
            return Err(WriteError::OtherType { name: name.to_owned(), announced, given }.into());
        }
        if planned.written {
            return Err(WriteError::WrittenTwice { name: name.to_owned() }.into());
        }
        write_all_at(self.file.file(), array.bytes(), planned.offset).map_err(Problem::io("write data"))?;
        planned.written = true;
        Ok(())
    }
}

/// The file up to its data: header size, header, and blanks up to a multiple of 8.
fn header(tensors: &[(String, TensorType)]) -> Result<Vec<u8>, WriteError> {
    let mut infos = Vec::with_capacity(tensors.len());
    let mut end = 0;
    let mut names = HashSet::new();
    for (name, ty) in tensors {
        if !names.insert(name) {
            return Err(WriteError::AnnouncedTwice { name: name.clone() });
        }
        let start = end;
        let after = ty.byte_count().checked_add(start).filter(|_| name != METADATA);
        end = after.ok_or_else(|| WriteError::Unwritable { name: name.clone(), ty: ty.clone() })?;
        let dtype = dtype_in_file(ty.dtype);
        infos.push((
            name.clone(),
            TensorInfo { dtype, shape: ty.dims().to_vec(), data_offsets: (start, end) },
        ));
    }
    // Readers in Python refuse files that do not say which framework's conventions they follow.
    let metadata = HashMap::from([("format".to_owned(), "pt".to_owned())]);
    let metadata =
        Metadata::new(Some(metadata), infos).expect("the ranges follow one another and fit the types");
    let mut text = serde_json::to_vec(&metadata).expect("a header has string keys and plain values");
    text.resize(text.len().next_multiple_of(PREFIX as usize), b' ');
    let size = text.len() as u64;
    if size > HEADER_LIMIT {
        return Err(WriteError::HeaderTooLarge { size });
    }
    Ok([&size.to_le_bytes()[..], &text].concat())
}

/// Where each tensor goes, in a file whose data starts at `data_start`.
fn plan(tensors: Vec<(String, TensorType)>, data_start: u64) -> BTreeMap<String, Planned> {
    let mut end = data_start;
    let place = |(name, ty): (String, TensorType)| {
        let offset = end;
        end += ty.byte_count() as u64;
        (name, Planned { ty, offset, written: false })
    };
    tensors.into_iter().map(place).collect()
}

/// Holds the header of the finished file against what was written.
fn check_header(header: &Header, planned: &BTreeMap<String, Planned>) -> Result<(), WriteError> {
    let mut left: BTreeMap<&str, &Planned> = planned.iter().map(|(name, p)| (name.as_str(), p)).collect();
    let mut differing: Vec<String> = Vec::new();
    for entry in &header.entries {
        match left.remove(entry.name.as_str()) {
            Some(planned) if planned.ty == entry.ty && planned.offset == entry.offset => {}
            _ => differing.push(entry.name.clone()),
        }
    }
    differing.extend(left.into_keys().map(str::to_owned));
    if differing.is_empty() { Ok(()) } else { Err(WriteError::ReadsBackOtherwise { tensors: differing }) }
}
