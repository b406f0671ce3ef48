use std::collections::BTreeMap;
use std::collections::btree_map::Entry as Slot;
use std::fmt;
use std::fs::File;
use std::num::NonZeroUsize;
use std::ops::{Bound, Range};
use std::path::{Path, PathBuf};

use safetensors::slice::{TensorIndexer, slice_byte_ranges};
use shardwright_tensor::{HostArray, Shape, TensorError, TensorType};

use crate::check::{self, Expected};
use crate::error::{CheckpointError, Problem};
use crate::folder::{self, FolderError};
use crate::format::{Header, dtype_in_file};
use crate::names::{Few, unwrapped};
use crate::positioned::read_exact_at;

/// The tensors of one or several safetensors files, opened and validated, and not yet read.
///
/// Reading needs only a shared reference, so that several threads can read different tensors at once.
#[derive(Debug)]
pub struct HfWeights {
    path: PathBuf,
    files: Vec<OpenFile>,
    tensors: BTreeMap<String, Stored>,
    notices: Vec<Notice>,
}

/// One tensor, as [`HfWeights::tensors`] lists it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WeightInfo<'a> {
    /// Its name, without the prefixes of wrappers.
    pub name: &'a str,
    /// Dtype and shape.
    pub ty: &'a TensorType,
    /// The file that holds it.
    pub file: &'a Path,
}

/// Something that does not stand in the way of loading, but that a user may want to hear about.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Notice {
    /// Safetensors files beside the weights that are no part of them.
    PassedOver {
        /// The folder.
        folder: PathBuf,
        /// Their names.
        files: Vec<String>,
    },
    /// Names that carried the prefixes of wrappers.
    PrefixesRemoved {
        /// How many.
        count: usize,
        /// The first of them, as it stands in the file.
        first: String,
    },
}

#[derive(Debug)]
struct OpenFile {
    path: PathBuf,
    file: File,
}

#[derive(Debug)]
struct Stored {
    name_in_file: String,
    ty: TensorType,
    file: usize,
    offset: u64,
}

impl HfWeights {
    /// Opens a folder, an index or one safetensors file, and validates every header.
    ///
    /// In a folder, `model.safetensors.index.json` is taken before `model.safetensors`.
    pub fn open(path: impl AsRef<Path>) -> Result<HfWeights, CheckpointError> {
        let path = path.as_ref();
        let selection = folder::select(path)?;
        let mut files = Vec::new();
        let mut stored = Vec::new();
        for file_path in selection.files {
            let (file, header) = open_file(&file_path).map_err(|problem| problem.at(&file_path))?;
            stored.extend(header.entries.into_iter().map(|entry| Stored {
                name_in_file: entry.name,
                ty: entry.ty,
                file: files.len(),
                offset: entry.offset,
            }));
            files.push(OpenFile { path: file_path, file });
        }
        if let Some(index) = selection.index {
            index.check(stored.iter().map(|s| (s.name_in_file.as_str(), files[s.file].path.as_path())))?;
        }
        let mut notices = Vec::new();
        if !selection.passed_over.is_empty() {
            notices.push(Notice::PassedOver { folder: path.to_owned(), files: selection.passed_over });
        }
        let tensors = by_name(stored, &mut notices).map_err(|error| Problem::from(error).at(path))?;
        Ok(HfWeights { path: path.to_owned(), files, tensors, notices })
    }

    /// What was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What was noticed on opening.
    pub fn notices(&self) -> &[Notice] {
        &self.notices
    }

    /// Every tensor, in the order of names.
    pub fn tensors(&self) -> impl ExactSizeIterator<Item = WeightInfo<'_>> {
        self.tensors.iter().map(|(name, stored)| WeightInfo {
            name,
            ty: &stored.ty,
            file: &self.files[stored.file].path,
        })
    }

    /// The type of one tensor.
    pub fn ty(&self, name: &str) -> Option<&TensorType> {
        self.tensors.get(name).map(|stored| &stored.ty)
    }

    /// Checks that these are the tensors of a model, and reports everything that is not at once.
    ///
    /// The dtypes may differ, as long as they are floats. Buffers that old versions of `transformers` saved
    /// among the weights (`rotary_emb.inv_freq`) are passed over.
    pub fn check<'a>(&self, expected: impl IntoIterator<Item = Expected<'a>>) -> Result<(), CheckpointError> {
        check::compare(self.tensors(), expected).map_err(|mismatch| Problem::from(mismatch).at(&self.path))
    }

    /// Reads a whole tensor.
    pub fn read(&self, name: &str) -> Result<HostArray, CheckpointError> {
        let (stored, source) = self.find(name)?;
        let mut array = HostArray::zeros(stored.ty.clone());
        source.read(array.bytes_mut(), stored.offset)?;
        Ok(array)
    }

    /// Reads the block at `ranges`, one half-open range per dim, and nothing else of the tensor.
    pub fn read_slice(&self, name: &str, ranges: &[Range<usize>]) -> Result<HostArray, CheckpointError> {
        let (stored, source) = self.find(name)?;
        let fits = ranges.len() == stored.ty.rank()
            && ranges.iter().zip(stored.ty.dims()).all(|(r, &dim)| r.start <= r.end && r.end <= dim);
        if !fits {
            let error = TensorError::Range { ty: stored.ty.clone(), ranges: ranges.to_vec() };
            return Err(Problem::Slice { name: name.to_owned(), error }.at(&source.path));
        }
        let dims: Vec<usize> = ranges.iter().map(|r| r.len()).collect();
        let shape = Shape::new(dims).expect("a block is no larger than its tensor");
        let mut block = HostArray::zeros(TensorType { dtype: stored.ty.dtype, shape });
        let mut rest = block.bytes_mut();
        for run in runs(&stored.ty, ranges) {
            let (target, behind) = rest.split_at_mut(run.end - run.start);
            source.read(target, stored.offset + run.start as u64)?;
            rest = behind;
        }
        Ok(block)
    }

    fn find(&self, name: &str) -> Result<(&Stored, &OpenFile), CheckpointError> {
        match self.tensors.get(name) {
            Some(stored) => Ok((stored, &self.files[stored.file])),
            None => {
                let count = self.tensors.len();
                Err(Problem::NoSuchTensor { name: name.to_owned(), count }.at(&self.path))
            }
        }
    }
}

impl OpenFile {
    fn read(&self, bytes: &mut [u8], offset: u64) -> Result<(), CheckpointError> {
        read_exact_at(&self.file, bytes, offset)
            .map_err(|e| Problem::io("read its data, which was there when it was opened")(e).at(&self.path))
    }
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Notice::PassedOver { folder, files } => {
                let folder = folder.display();
                write!(f, "{folder}: not part of the weights and not read: {}", Few(files))
            }
            Notice::PrefixesRemoved { count, first } => {
                write!(
                    f,
                    "{count} tensor names carry the prefix of a wrapper, which was removed (first: {first})"
                )
            }
        }
    }
}

fn open_file(path: &Path) -> Result<(File, Header), Problem> {
    let file = File::open(path).map_err(Problem::io("open it"))?;
    let header = Header::read(&file)?;
    Ok((file, header))
}

/// Tensors by the names they have without wrappers.
fn by_name(stored: Vec<Stored>, notices: &mut Vec<Notice>) -> Result<BTreeMap<String, Stored>, FolderError> {
    let mut tensors = BTreeMap::new();
    let mut removed: Vec<String> = Vec::new();
    for tensor in stored {
        let name = match unwrapped(&tensor.name_in_file) {
            Some(name) => {
                removed.push(tensor.name_in_file.clone());
                name
            }
            None => tensor.name_in_file.clone(),
        };
        match tensors.entry(name) {
            Slot::Vacant(slot) => slot.insert(tensor),
            Slot::Occupied(slot) => {
                let (name, first) = (slot.key().clone(), slot.get().name_in_file.clone());
                return Err(FolderError::NameClash { name, first, second: tensor.name_in_file });
            }
        };
    }
    if let Some(first) = removed.first() {
        notices.push(Notice::PrefixesRemoved { count: removed.len(), first: first.clone() });
    }
    Ok(tensors)
}

/// The contiguous runs of bytes, within a tensor, that make up a block that lies inside it.
fn runs(ty: &TensorType, ranges: &[Range<usize>]) -> Vec<Range<usize>> {
    if ranges.iter().any(|r| r.is_empty()) {
        return Vec::new();
    }
    let narrow = |r: &Range<usize>| {
        TensorIndexer::Narrow(Bound::Included(r.start), Bound::Excluded(r.end), NonZeroUsize::MIN)
    };
    let indexers: Vec<TensorIndexer> = ranges.iter().map(narrow).collect();
    let dtype = dtype_in_file(ty.dtype);
    let (runs, _) = slice_byte_ranges(dtype, ty.dims(), &indexers).expect("the ranges lie inside the shape");
    runs.into_iter().map(|(start, end)| start..end).collect()
}
