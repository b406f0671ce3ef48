use shardwright_mesh::{MeshError, ShardingError};
use shardwright_tensor::TensorError;
use thiserror::Error;

use crate::plugins::PluginError;

/// What went wrong between a program and its devices.
#[derive(Clone, Debug, Error)]
#[error("{problem}")]
pub struct RuntimeError {
    problem: Problem,
}

/// The kinds of [`RuntimeError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RuntimeErrorKind {
    /// The plugin cannot be had, failed, or refused.
    Plugin,
    /// A mesh that the devices cannot form.
    Mesh,
    /// A sharding that does not fit an array.
    Sharding,
    /// An argument that is not what the program takes.
    Argument,
    /// Host data that is not what was to be placed.
    Data,
}

#[derive(Clone, Debug, Error)]
pub(crate) enum Problem {
    #[error(transparent)]
    PluginFile(std::sync::Arc<PluginError>),
    #[error(transparent)]
    Plugin(shardwright_pjrt::Error),
    #[error("{source} (platform {platform}{})", if platform == "cpu" { "; --cpu_devices sets how many there are" } else { "" })]
    Mesh { platform: String, source: MeshError },
    #[error("the mesh names device {id}, which is not among the {count} devices that this process drives")]
    NoSuchDevice { id: usize, count: usize },
    #[error(transparent)]
    Sharding(ShardingError),
    #[error("program {program} takes {expected} arguments, got {found}")]
    ArgumentCount { program: String, expected: usize, found: usize },
    #[error("program {program}: argument {argument} is {expected}, got {found}")]
    Argument { program: String, argument: String, expected: String, found: String },
    #[error(transparent)]
    Data(TensorError),
    #[error("the array is {expected}, and its data {found}")]
    DataType { expected: String, found: String },
}

impl RuntimeError {
    /// What kind of thing went wrong.
    pub fn kind(&self) -> RuntimeErrorKind {
        match &self.problem {
            Problem::Plugin(_) | Problem::PluginFile(_) => RuntimeErrorKind::Plugin,
            Problem::Mesh { .. } | Problem::NoSuchDevice { .. } => RuntimeErrorKind::Mesh,
            Problem::Sharding(_) => RuntimeErrorKind::Sharding,
            Problem::ArgumentCount { .. } | Problem::Argument { .. } => RuntimeErrorKind::Argument,
            Problem::Data(_) | Problem::DataType { .. } => RuntimeErrorKind::Data,
        }
    }

    /// The plugin's own error, if it is one.
    pub fn plugin_error(&self) -> Option<&shardwright_pjrt::Error> {
        match &self.problem {
            Problem::Plugin(error) => Some(error),
            _ => None,
        }
    }
}

impl From<Problem> for RuntimeError {
    fn from(problem: Problem) -> Self {
        RuntimeError { problem }
    }
}

impl From<PluginError> for RuntimeError {
    fn from(error: PluginError) -> Self {
        Problem::PluginFile(error.into()).into()
    }
}

impl From<shardwright_pjrt::Error> for RuntimeError {
    fn from(error: shardwright_pjrt::Error) -> Self {
        Problem::Plugin(error).into()
    }
}

impl From<ShardingError> for RuntimeError {
    fn from(error: ShardingError) -> Self {
        Problem::Sharding(error).into()
    }
}

impl From<TensorError> for RuntimeError {
    fn from(error: TensorError) -> Self {
        Problem::Data(error).into()
    }
}
