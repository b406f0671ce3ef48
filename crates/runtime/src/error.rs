use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use shardwright_hlo::compiled::CompiledError;
use shardwright_mesh::{MeshError, NamedSharding, PlacementError, ShardingError, TopologyError};
use shardwright_pjrt::CompiledMemoryStats;
use shardwright_tensor::{TensorError, TensorType};
use thiserror::Error;

use crate::LocalPart;
use crate::compile::{CompilerDeath, Limit, ProgramError};
use crate::plugins::PluginError;
use crate::topology::{OutOfMemory, TopologyNameError};

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
    /// A flag for the compiler that it does not know, or with a value that it cannot take.
    CompilerFlag,
    /// A folder or a file for dumps that cannot be written.
    Dump,
    /// The compiler, in a process of its own, ended without an answer: see [`RuntimeError::compiler_death`].
    CompilerDied,
    /// Bytes that are no program which this plugin can compile.
    NotAProgram,
    /// A mesh that the devices cannot form, or that is not the program's.
    Mesh,
    /// A sharding that does not fit an array.
    Sharding,
    /// A program that failed while it ran.
    Program,
    /// An argument that is not what the program takes.
    Argument,
    /// Host data that is not what was to be placed.
    Data,
    /// Shards that only other processes have.
    NotAddressable,
    /// A name that is none of a topology, or devices that make none.
    Topology,
    /// The process was started without what a plugin needs in its environment.
    Environment,
    /// A program that needs more memory than its devices have.
    OutOfMemory,
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
    #[error("the mesh names device {id}, which is not among those of the platform: {known:?}")]
    NoSuchDevice { id: usize, known: Vec<i64> },
    #[error(
        "this process, {process}, drives the devices {addressable:?}, and the mesh has none of them: {ids:?}"
    )]
    NoAddressableDevice { ids: Vec<usize>, process: i64, addressable: Vec<i64> },
    #[error(transparent)]
    Elsewhere(Box<Elsewhere>),
    #[error(transparent)]
    Sharding(ShardingError),
    #[error("program {program} takes {expected} arguments, got {found}")]
    ArgumentCount { program: String, expected: usize, found: usize },
    #[error("program {program}: {}", misfits_text(.misfits))]
    Arguments { program: String, misfits: Vec<Misfit> },
    #[error("program {program} failed on device {device}: {reason}")]
    Failed { program: String, device: usize, reason: shardwright_pjrt::Error },
    #[error(
        "program {program}: the compiler made {what} {name} {found} on each device, where its sharding says {expected}"
    )]
    StoredType { program: String, what: &'static str, name: String, expected: String, found: String },
    #[error("program {program}: the plugin says that it needs {bytes} bytes on each device ({stats:?})")]
    MemoryStats { program: String, bytes: i128, stats: Box<CompiledMemoryStats> },
    #[error("{origin}: {reason}")]
    FlagSyntax { origin: String, reason: String },
    #[error("{origin}: the compiler has no flag {name}{}", did_you_mean(nearest))]
    UnknownFlag { origin: String, name: String, nearest: Vec<String> },
    #[error("{origin}: {flag}: {reason}")]
    FlagValue { origin: String, flag: String, reason: String },
    #[error("the compiler cannot work with the flags {flags}: {error}")]
    Flags { flags: String, error: shardwright_pjrt::Error },
    #[error("cannot write the dump {}: {error}", path.display())]
    Dump { path: PathBuf, error: Arc<io::Error> },
    #[error("{}", .0.iter().map(Problem::to_string).collect::<Vec<_>>().join("; "))]
    Several(Vec<Problem>),
    #[error(transparent)]
    CompilerDied(Box<CompilerDeath>),
    #[error("{error}{}", Limit(Some(*limit)))]
    MemoryLimit { error: shardwright_pjrt::Error, limit: u64 },
    #[error(transparent)]
    NotAProgram(ProgramError),
    #[error(transparent)]
    Data(TensorError),
    #[error("the block at {ranges:?} of {ty} was given as {found}")]
    Block { ty: TensorType, ranges: Vec<Range<usize>>, found: TensorType },
    #[error(transparent)]
    TopologyName(TopologyNameError),
    #[error("the plugin's devices: {0}")]
    Topology(TopologyError),
    #[error("{device}: its {what} is {value}, and no such number is below 0")]
    DeviceNumber { device: String, what: &'static str, value: i64 },
    #[error("{reason} (topology {topology})")]
    Placement { topology: String, reason: PlacementError },
    #[error(
        "to compile for TPUs without one, set {} in the environment that the process is started with; \
         a running process cannot change its own safely",
        assignments(missing)
    )]
    TopologyEnvironment { missing: Vec<(&'static str, &'static str)> },
    #[error("{shortage} (topology {topology})")]
    OutOfMemory { topology: String, shortage: OutOfMemory },
    #[error(transparent)]
    Unreadable(CompiledError),
    #[error("there is no partition {partition} of {sharding}, which has {}", sharding.mesh().size())]
    NoSuchPartition { partition: usize, sharding: NamedSharding },
    #[error(
        "the blocks that partitions {partitions:?} hold of {ty} {sharding} do not make up a rectangle, so they are not \
         one local array; give them one by one"
    )]
    NoRectangle { ty: TensorType, sharding: NamedSharding, partitions: Vec<usize> },
    #[error("the local part is {part}, but the data are {found}")]
    LocalData { part: Box<LocalPart>, found: TensorType },
    #[error("the block at {ranges:?} is not inside the local part, {part}")]
    NotInPart { part: Box<LocalPart>, ranges: Vec<Range<usize>> },
}

/// Shards that only other processes have.
#[derive(Clone, Debug, Error)]
#[error(
    "partitions {partitions:?} of {array} are on devices {devices:?} of processes {processes:?}; this process, \
     {process}, has partitions {addressable:?}"
)]
pub(crate) struct Elsewhere {
    pub(crate) array: String,
    pub(crate) partitions: Vec<usize>,
    pub(crate) devices: Vec<usize>,
    pub(crate) processes: Vec<i64>,
    pub(crate) process: i64,
    pub(crate) addressable: Arc<[usize]>,
}

/// An argument that is not what a program takes.
#[derive(Clone, Debug, Error)]
#[error("argument {argument} is {expected}, got {found}")]
pub(crate) struct Misfit {
    pub(crate) argument: String,
    pub(crate) expected: String,
    pub(crate) found: String,
}

fn misfits_text(misfits: &[Misfit]) -> String {
    if let [misfit] = misfits {
        return misfit.to_string();
    }
    let lines: String = misfits.iter().map(|misfit| format!("\n  {misfit}")).collect();
    format!("{} arguments do not fit{lines}", misfits.len())
}

impl RuntimeError {
    /// What kind of thing went wrong.
    pub fn kind(&self) -> RuntimeErrorKind {
        match &self.problem {
            Problem::Plugin(_) | Problem::PluginFile(_) | Problem::MemoryLimit { .. } => {
                RuntimeErrorKind::Plugin
            }
            Problem::CpuDevices { .. } => RuntimeErrorKind::Devices,
            Problem::Mesh { .. }
            | Problem::ProgramMesh { .. }
            | Problem::NoSuchDevice { .. }
            | Problem::NoAddressableDevice { .. }
            | Problem::Placement { .. } => RuntimeErrorKind::Mesh,
            Problem::StoredType { .. } | Problem::MemoryStats { .. } | Problem::Unreadable(_) => {
                RuntimeErrorKind::Compiler
            }
            Problem::FlagSyntax { .. }
            | Problem::UnknownFlag { .. }
            | Problem::FlagValue { .. }
            | Problem::Flags { .. }
            | Problem::Several(_) => RuntimeErrorKind::CompilerFlag,
            Problem::Dump { .. } => RuntimeErrorKind::Dump,
            Problem::Failed { .. } => RuntimeErrorKind::Program,
            Problem::Sharding(_) | Problem::NoSuchPartition { .. } | Problem::NoRectangle { .. } => {
                RuntimeErrorKind::Sharding
            }
            Problem::CompilerDied(_) => RuntimeErrorKind::CompilerDied,
            Problem::NotAProgram(_) => RuntimeErrorKind::NotAProgram,
            Problem::ArgumentCount { .. } | Problem::Arguments { .. } => RuntimeErrorKind::Argument,
            Problem::Data(_)
            | Problem::Block { .. }
            | Problem::LocalData { .. }
            | Problem::NotInPart { .. } => RuntimeErrorKind::Data,
            Problem::TopologyName(_) | Problem::Topology(_) | Problem::DeviceNumber { .. } => {
                RuntimeErrorKind::Topology
            }
            Problem::Elsewhere(_) => RuntimeErrorKind::NotAddressable,
            Problem::TopologyEnvironment { .. } => RuntimeErrorKind::Environment,
            Problem::OutOfMemory { .. } => RuntimeErrorKind::OutOfMemory,
        }
    }

    /// How much memory a program lacks, where the compiler found that its devices have too little.
    pub fn out_of_memory(&self) -> Option<&OutOfMemory> {
        match &self.problem {
            Problem::OutOfMemory { shortage, .. } => Some(shortage),
            _ => None,
        }
    }

    /// The most memory that the compiler, in a process of its own, was allowed, in bytes; `None` where it had no limit,
    /// or the error is none of the compiler.
    pub fn compiler_memory_limit(&self) -> Option<u64> {
        match &self.problem {
            Problem::CompilerDied(death) => death.memory_limit,
            Problem::MemoryLimit { limit, .. } => Some(*limit),
            _ => None,
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

impl Problem {
    /// An error of a plugin that may be one of the memory that it had.
    pub(crate) fn refused_in_child(error: shardwright_pjrt::Error, memory_limit: Option<u64>) -> Problem {
        match memory_limit {
            Some(limit) => Problem::MemoryLimit { error, limit },
            None => Problem::Plugin(error),
        }
    }

    /// One problem with flags that stands for all of them.
    pub(crate) fn all(mut problems: Vec<Problem>) -> Option<Problem> {
        if problems.len() > 1 { Some(Problem::Several(problems)) } else { problems.pop() }
    }
}

fn did_you_mean(names: &[String]) -> String {
    if names.is_empty() { String::new() } else { format!(" (did you mean {}?)", names.join(" or ")) }
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
        Problem::NotAProgram(error).into()
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

/// Variables as a shell sets them.
fn assignments(variables: &[(&str, &str)]) -> String {
    variables.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
}
