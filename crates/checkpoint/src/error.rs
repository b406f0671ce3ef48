use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use shardwright_tensor::TensorError;
use thiserror::Error;

use crate::{FolderError, FormatError, Mismatch, WriteError};

/// Weights that cannot be read, do not fit, or cannot be written: where, and what is wrong there.
///
/// The message is complete: it names the file or folder, and no cause stands behind it in a chain.
#[derive(Debug)]
pub struct CheckpointError {
    path: PathBuf,
    problem: Box<Problem>,
}

/// What is wrong with the file or folder that a [`CheckpointError`] names.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Problem {
    /// The operating system refused.
    #[error("cannot {action}: {error}")]
    Io {
        /// What was being done.
        action: &'static str,
        /// What the operating system said.
        error: io::Error,
    },
    /// The file is not a valid safetensors file.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// The folder does not hold one complete set of weights.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The tensors are not those of the model.
    #[error(transparent)]
    Mismatch(#[from] Mismatch),
    /// The file that was to be written would not be what was announced.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// There is no tensor with the name that was asked for.
    #[error("there is no tensor {name} among the {count} here")]
    NoSuchTensor {
        /// The name that was asked for.
        name: String,
        /// How many tensors there are.
        count: usize,
    },
    /// A tensor was sliced outside its shape.
    #[error("tensor {name}: {error}")]
    Slice {
        /// The tensor.
        name: String,
        /// The ranges and the type they do not fit.
        error: TensorError,
    },
    /// A value could not be written as JSON.
    #[error("cannot write this value as JSON: {message}")]
    Json {
        /// What the serializer said.
        message: String,
    },
}

impl Problem {
    pub(crate) fn io(action: &'static str) -> impl FnOnce(io::Error) -> Problem {
        move |error| Problem::Io { action, error }
    }

    pub(crate) fn at(self, path: &Path) -> CheckpointError {
        CheckpointError { path: path.to_owned(), problem: Box::new(self) }
    }
}

impl CheckpointError {
    /// The file or folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What is wrong with it.
    pub fn problem(&self) -> &Problem {
        &self.problem
    }
}

impl fmt::Display for CheckpointError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.problem)
    }
}

impl std::error::Error for CheckpointError {}
