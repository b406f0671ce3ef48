//! Which files of a folder are the weights.
//!
//! An index wins: with a `model.safetensors.index.json`, exactly the files that it names are read, and another
//! safetensors file beside them is left alone. Without one, `model.safetensors` is the weights.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use thiserror::Error;

use crate::error::{CheckpointError, Problem};
use crate::format::other_format;
use crate::members::Members;
use crate::names::Few;

pub(crate) const SINGLE: &str = "model.safetensors";
pub(crate) const INDEX: &str = "model.safetensors.index.json";
const INDEX_SUFFIX: &str = ".safetensors.index.json";
const PICKLES: [&str; 2] = [".bin", ".pth"];

/// Why a folder does not hold one complete set of weights.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum FolderError {
    /// No weights at all.
    #[error("there is neither {SINGLE} nor {INDEX} in this folder")]
    NoWeights,
    /// Weights of the old format only.
    #[error(
        "only {file} is here, a PyTorch pickle, which is not read: convert it with `save_pretrained(..., safe_serialization=True)`"
    )]
    OnlyPickle {
        /// The pickle.
        file: String,
    },
    /// Safetensors files under other names only.
    #[error("there is neither {SINGLE} nor {INDEX} in this folder, but {}: incomplete download?", Few(files))]
    NoIndex {
        /// The files that are there.
        files: Vec<String>,
    },
    /// The index is not the JSON that it should be.
    #[error("the index is not valid: {message}")]
    Index {
        /// What is wrong, and where.
        message: String,
    },
    /// The index names one tensor twice.
    #[error("the index names tensor {name} twice")]
    RepeatedName {
        /// The tensor.
        name: String,
    },
    /// The index names a file outside its folder.
    #[error("the index puts tensor {name} into {file:?}, which is not the plain name of a file beside it")]
    FileName {
        /// The tensor.
        name: String,
        /// The name of the file.
        file: String,
    },
    /// Files that the index names are not there.
    #[error("{} of the {total} files that the index names are not there: {} (incomplete download?)", missing.len(), Few(missing))]
    MissingFiles {
        /// Their names.
        missing: Vec<String>,
        /// How many files the index names.
        total: usize,
    },
    /// The index and the files hold different tensors.
    #[error(
        "the index and its files disagree{}{}",
        disagreement(absent, "of the index are not in the file it names"),
        disagreement(unlisted, "of the files are not listed there by the index")
    )]
    Disagreement {
        /// Tensors that the index puts into a file that does not hold them, each with the file.
        absent: Vec<String>,
        /// Tensors that a file holds and the index does not put there, each with the file.
        unlisted: Vec<String>,
    },
    /// Two tensors have one name, once the prefixes of wrappers are removed.
    #[error("tensors {first} and {second} are both {name} without the prefixes of wrappers")]
    NameClash {
        /// The common name.
        name: String,
        /// One of the names in the file.
        first: String,
        /// The other one.
        second: String,
    },
}

fn disagreement(tensors: &[String], what: &str) -> String {
    match tensors {
        [] => String::new(),
        _ => format!("; {} tensors {what}: {}", tensors.len(), Few(tensors)),
    }
}

/// The files to read, and what an index says about them.
pub(crate) struct Selection {
    pub(crate) files: Vec<PathBuf>,
    pub(crate) index: Option<Index>,
    /// Safetensors files of the folder that are not read.
    pub(crate) passed_over: Vec<String>,
}

/// The file that holds each tensor.
pub(crate) struct Index {
    pub(crate) path: PathBuf,
    pub(crate) file_of: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct RawIndex {
    weight_map: Members<String>,
}

/// Finds the weights at `path`: a folder, an index or one safetensors file.
pub(crate) fn select(path: &Path) -> Result<Selection, CheckpointError> {
    let is_folder = fs::metadata(path).map_err(|e| Problem::io("open it")(e).at(path))?.is_dir();
    if !is_folder {
        return match file_name(path).ends_with(INDEX_SUFFIX) {
            true => select_by_index(path, Vec::new()),
            false => Ok(Selection { files: vec![path.to_owned()], index: None, passed_over: Vec::new() }),
        };
    }
    let names = list(path)?;
    let safetensors: Vec<String> = names.iter().filter(|n| n.ends_with(".safetensors")).cloned().collect();
    if names.iter().any(|n| n == INDEX) {
        return select_by_index(&path.join(INDEX), safetensors);
    }
    if names.iter().any(|n| n == SINGLE) {
        let passed_over = safetensors.into_iter().filter(|n| n != SINGLE).collect();
        return Ok(Selection { files: vec![path.join(SINGLE)], index: None, passed_over });
    }
    let pickle = names.iter().find(|n| is_pickle(n));
    let error = match (safetensors.is_empty(), pickle) {
        (false, _) => FolderError::NoIndex { files: safetensors },
        (true, Some(file)) => FolderError::OnlyPickle { file: file.clone() },
        (true, None) => FolderError::NoWeights,
    };
    Err(Problem::from(error).at(path))
}

fn is_pickle(name: &str) -> bool {
    let is_weights = name.starts_with("pytorch_model") || name.starts_with("consolidated");
    is_weights && PICKLES.iter().any(|suffix| name.ends_with(suffix))
}

/// The names in a folder, sorted.
fn list(folder: &Path) -> Result<Vec<String>, CheckpointError> {
    let names = fs::read_dir(folder)
        .and_then(|entries| {
            entries.map(|e| Ok(e?.file_name().to_string_lossy().into_owned())).collect::<Result<Vec<_>, _>>()
        })
        .map_err(|e| Problem::io("list the folder")(e).at(folder))?;
    let mut names: Vec<String> = names;
    names.sort_unstable();
    Ok(names)
}

fn select_by_index(path: &Path, beside: Vec<String>) -> Result<Selection, CheckpointError> {
    let index = Index::read(path).map_err(|problem| problem.at(path))?;
    let folder = path.parent().unwrap_or(Path::new(""));
    let mut names: Vec<&String> = index.file_of.values().collect();
    names.sort_unstable();
    names.dedup();
    let missing: Vec<String> =
        names.iter().filter(|n| !folder.join(n).exists()).map(|n| (*n).clone()).collect();
    if !missing.is_empty() {
        return Err(Problem::from(FolderError::MissingFiles { missing, total: names.len() }).at(path));
    }
    let files = names.iter().map(|n| folder.join(n)).collect();
    let passed_over = beside.into_iter().filter(|n| !names.contains(&n)).collect();
    Ok(Selection { files, index: Some(index), passed_over })
}

impl Index {
    fn read(path: &Path) -> Result<Index, Problem> {
        let text = fs::read(path).map_err(Problem::io("read the index"))?;
        if let Some(error) = other_format(&text[..text.len().min(512)]) {
            return Err(error.into());
        }
        let raw: RawIndex =
            serde_json::from_slice(&text).map_err(|e| FolderError::Index { message: e.to_string() })?;
        if let Some(name) = raw.weight_map.repeated() {
            return Err(FolderError::RepeatedName { name: name.to_owned() }.into());
        }
        for (name, file) in &raw.weight_map.0 {
            let plain = Path::new(file).file_name().is_some_and(|n| n == file.as_str());
            if !plain || file.contains('\\') {
                return Err(FolderError::FileName { name: name.clone(), file: file.clone() }.into());
            }
        }
        Ok(Index { path: path.to_owned(), file_of: raw.weight_map.0.into_iter().collect() })
    }

    /// Compares with what the files hold: pairs of tensor and file.
    pub(crate) fn check<'a>(
        &self,
        held: impl Iterator<Item = (&'a str, &'a Path)>,
    ) -> Result<(), CheckpointError> {
        let mut absent: BTreeMap<&str, &str> =
            self.file_of.iter().map(|(name, file)| (name.as_str(), file.as_str())).collect();
        let mut unlisted = Vec::new();
        for (name, path) in held {
            let file = file_name(path);
            if self.file_of.get(name) == Some(&file) {
                absent.remove(name);
            } else {
                unlisted.push(format!("{name} ({file})"));
            }
        }
        if absent.is_empty() && unlisted.is_empty() {
            return Ok(());
        }
        let absent = absent.into_iter().map(|(name, file)| format!("{name} ({file})")).collect();
        Err(Problem::from(FolderError::Disagreement { absent, unlisted }).at(&self.path))
    }
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}
