use std::ops::Range;
use std::sync::Arc;

use shardwright_mesh::{MeshError, ShardingError};
use shardwright_tensor::{TensorError, TensorType};
use thiserror::Error;

use crate::compile::{CompilerDeath, ProgramError};
use crate::plugins::PluginError;

/// What went wrong between a program and its devices.
#[derive(Clone, Debug, Error)]
#[error(transparent)]
pub struct RuntimeError {
    problem: Problem,
}

/// The kinds of [`RuntimeError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RuntimeErrorKind {
    /// The plugin cannot be had, failed, or refused.
    Plugin,
    /// A number of virtual devices that no client can have.
    Devices,
    /// The compiler made another program than it was asked for.
    Compiler,
    /// The compiler, in a process of its own, ended without an answer: see [`RuntimeError::compiler_death`].
    CompilerDied,
    /// Bytes that are no program which this plugin can compile.
    Program,
    /// A mesh that the devices cannot form, or that is not the program's.
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
    PluginFile(Arc<PluginError>),
    #[error(transparent)]
    Plugin(shardwright_pjrt::Error),
    #[error("a {platform} client can have 1 to {most} virtual devices, not {found}", platform = "CPU")]
    CpuDevices { found: usize, most: usize },
    #[error("{reason} (platform {platform})")]
    Mesh { platform: String, reason: MeshError },
    #[error("program {program} was sharded over the mesh {expected}, and is compiled for {found}")]
    ProgramMesh { program: String, expected: String, found: String },
    #[error("the mesh names device {id}, which is not among those that this process drives: {known:?}")]
    NoSuchDevice { id: usize, known: Vec<i64> },
    #[error(transparent)]
    Sharding(ShardingError),
    #[error("program {program} takes {expected} arguments, got {found}")]
    ArgumentCount { program: String, expected: usize, found: usize },
    #[error("program {program}: argument {argument} is {expected}, got {found}")]
    Argument { program: String, argument: String, expected: String, found: String },
    #[error(
        "program {program}: the compiler made {what} {name} {found} on each device, where its sharding says {expected}"
    )]
    StoredType { program: String, what: &'static str, name: String, expected: String, found: String },
    #[error(transparent)]
    CompilerDied(Box<CompilerDeath>),
    #[error(transparent)]
    Program(ProgramError),
    #[error(transparent)]
    Data(TensorError),
    #[error("the block at {ranges:?} of {ty} was given as {found}")]
    Block { ty: TensorType, ranges: Vec<Range<usize>>, found: TensorType },
}

impl RuntimeError {
    /// What kind of thing went wrong.
    pub fn kind(&self) -> RuntimeErrorKind {
        match &self.problem {
            Problem::Plugin(_) | Problem::PluginFile(_) => RuntimeErrorKind::Plugin,
            Problem::CpuDevices { .. } => RuntimeErrorKind::Devices,
            Problem::Mesh { .. } | Problem::ProgramMesh { .. } | Problem::NoSuchDevice { .. } => {
                RuntimeErrorKind::Mesh
            }
            Problem::StoredType { .. } => RuntimeErrorKind::Compiler,
            Problem::CompilerDied(_) => RuntimeErrorKind::CompilerDied,
            Problem::Program(_) => RuntimeErrorKind::Program,
            Problem::Sharding(_) => RuntimeErrorKind::Sharding,
            Problem::ArgumentCount { .. } | Problem::Argument { .. } => RuntimeErrorKind::Argument,
            Problem::Data(_) | Problem::Block { .. } => RuntimeErrorKind::Data,
        }
    }

    /// How the compiler ended and what it said, if that is the error.
    pub fn compiler_death(&self) -> Option<&CompilerDeath> {
        match &self.problem {
            Problem::CompilerDied(death) => Some(death),
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

impl From<ProgramError> for RuntimeError {
    fn from(error: ProgramError) -> Self {
        Problem::Program(error).into()
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
