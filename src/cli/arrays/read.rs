//! Files with arrays, opened and not read: names and types are known at once, and data is read when it is asked for.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use shardwright_checkpoint::HfWeights;
use shardwright_tensor::{HostArray, NpyHeader, TensorType};

use super::npz::Npz;
use super::write::name_in_folder;

/// The arrays of several files, in the order of the files and, but for safetensors, in their order there.
#[derive(Default)]
pub(in super::super) struct StoredArrays {
    arrays: Vec<StoredArray>,
    archives: Vec<Npz>,
    weights: Vec<HfWeights>,
}

/// One array that is in a file.
pub(in super::super) struct StoredArray {
    /// What the file calls it.
    pub(in super::super) name: String,
    /// Its type.
    pub(in super::super) ty: TensorType,
    /// The file.
    pub(in super::super) path: PathBuf,
    place: Place,
}

enum Place {
    Npy(NpyHeader),
    Npz { archive: usize, entry: usize, header: NpyHeader },
    Safetensors { file: usize },
}

impl StoredArrays {
    /// Opens these files and folders.
    pub(in super::super) fn open(paths: &[PathBuf]) -> Result<StoredArrays> {
        let mut all = StoredArrays::default();
        for path in paths {
            all.add(path).with_context(|| path.display().to_string())?;
        }
        Ok(all)
    }

    /// What is there.
    pub(in super::super) fn arrays(&self) -> &[StoredArray] {
        &self.arrays
    }

    /// Reads the array with this index.
    pub(in super::super) fn read(&mut self, index: usize) -> Result<HostArray> {
        let array = &self.arrays[index];
        let read = match &array.place {
            Place::Npy(header) => read_npy(&array.path, header),
            Place::Npz { archive, entry, header } => self.archives[*archive].read(*entry, header),
            Place::Safetensors { file } => return Ok(self.weights[*file].read(&array.name)?),
        };
        read.with_context(|| format!("{}: array {}", array.path.display(), array.name))
    }

    fn add(&mut self, path: &Path) -> Result<()> {
        if path.is_dir() {
            return self.add_folder(path);
        }
        let mut start = Vec::new();
        File::open(path)?.take(NpyHeader::MOST_BYTES as u64).read_to_end(&mut start)?;
        if start.starts_with(b"\x93NUMPY") {
            return self.add_npy(path, &start);
        }
        if start.starts_with(b"PK") {
            return self.add_npz(path);
        }
        if path.extension().is_some_and(|extension| extension == "safetensors") {
            return self.add_safetensors(path);
        }
        bail!("expected .npy, .npz, .safetensors or a folder of .npy files, and this is none of them")
    }

    fn add_folder(&mut self, folder: &Path) -> Result<()> {
        let entries: Vec<PathBuf> =
            fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
        let is_npy = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "npy");
        let mut files: Vec<PathBuf> = entries.into_iter().filter(is_npy).collect();
        if files.is_empty() {
            bail!("the folder has no .npy files in it");
        }
        files.sort();
        for file in files {
            self.add(&file).with_context(|| file.display().to_string())?;
        }
        Ok(())
    }

    fn add_npy(&mut self, path: &Path, start: &[u8]) -> Result<()> {
        let header = NpyHeader::parse(start)?;
        let name = name_in_folder(&path.file_stem().unwrap_or_default().to_string_lossy());
        self.push(name, header.ty().clone(), path, Place::Npy(header));
        Ok(())
    }

    fn add_npz(&mut self, path: &Path) -> Result<()> {
        let archive = self.archives.len();
        let mut npz = Npz::open(path)?;
        for entry in 0..npz.len() {
            let (name, header) = npz.header(entry)?;
            let ty = header.ty().clone();
            self.push(name, ty, path, Place::Npz { archive, entry, header });
        }
        self.archives.push(npz);
        Ok(())
    }

    fn add_safetensors(&mut self, path: &Path) -> Result<()> {
        let file = self.weights.len();
        let weights = HfWeights::open(path)?;
        for info in weights.tensors() {
            self.push(info.name.to_owned(), info.ty.clone(), path, Place::Safetensors { file });
        }
        self.weights.push(weights);
        Ok(())
    }

    fn push(&mut self, name: String, ty: TensorType, path: &Path, place: Place) {
        self.arrays.push(StoredArray { name, ty, path: path.to_owned(), place });
    }
}

fn read_npy(path: &Path, header: &NpyHeader) -> Result<HostArray> {
    let mut file = File::open(path)?;
    file.seek(SeekFrom::Start(header.len() as u64))?;
    read_data(file, header)
}

/// The array whose elements come next. Of data that is too long, no more is read than shows it to be.
pub(super) fn read_data(source: impl Read, header: &NpyHeader) -> Result<HostArray> {
    let mut data = Vec::new();
    source.take(header.ty().byte_count() as u64 + 1).read_to_end(&mut data)?;
    Ok(header.array(&data)?)
}
