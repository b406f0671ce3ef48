//! What is wrong with a program that is an HLO proto.

use std::fmt;

use shardwright_mesh::TextError;
use shardwright_tensor::TensorType;
use thiserror::Error;

use super::shape::ShapeProblem;
use super::wire::WireError;
use crate::OpShardingError;

/// Where in a module something is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The module itself.
    Module,
    /// A computation, by its position in the module.
    Computation(usize),
    /// An instruction, by its position in a computation.
    Instruction {
        /// The computation's position in the module.
        computation: usize,
        /// The instruction's position in the computation.
        instruction: usize,
    },
}

/// Bytes that are no HLO program, or one that a compiler would refuse, misread or abort on.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum HloError {
    /// The bytes are no protocol buffer.
    #[error("{error}")]
    NoMessage {
        /// What is wrong with them.
        error: WireError,
    },
    /// A message of another type.
    #[error("it is a protocol buffer of something else")]
    OtherMessage,
    /// A message inside the module is broken.
    #[error("{place} cannot be read: {error}")]
    Wire {
        /// Which.
        place: Place,
        /// What is wrong with it.
        error: WireError,
    },
    /// Two computations of one id.
    #[error("computations {first} and {second} have the same id, {id}")]
    DuplicateComputation {
        /// The id.
        id: u64,
        /// The name of one.
        first: String,
        /// The name of the other.
        second: String,
    },
    /// Two instructions of one id.
    #[error("computation {computation}: instructions {first} and {second} have the same id, {id}")]
    DuplicateInstruction {
        /// The computation's name.
        computation: String,
        /// The id.
        id: u64,
        /// The name of one.
        first: String,
        /// The name of the other.
        second: String,
    },
    /// An instruction that uses what is not there.
    #[error(
        "computation {computation}: instruction {instruction} uses the instruction with the id {id}, which is not \
         defined before it in its computation"
    )]
    Undefined {
        /// The computation's name.
        computation: String,
        /// The instruction's name.
        instruction: String,
        /// The id.
        id: u64,
    },
    /// An instruction that calls what is not there.
    #[error(
        "computation {computation}: instruction {instruction} calls the computation with the id {id}, which is not \
         defined before its own"
    )]
    UndefinedCall {
        /// The computation's name.
        computation: String,
        /// The instruction's name.
        instruction: String,
        /// The id.
        id: u64,
    },
    /// A computation without a result.
    #[error("computation {computation}: its root has the id {id}, and it has no such instruction")]
    Root {
        /// The computation's name.
        computation: String,
        /// The id.
        id: u64,
    },
    /// A module without a beginning.
    #[error("the entry computation is {name:?} with the id {id}, and the module has no such computation")]
    Entry {
        /// The name that the module states.
        name: String,
        /// The id that it states.
        id: u64,
    },
    /// Parameters that are not numbered from 0 on, each once.
    #[error(
        "computation {computation}: its {count} parameters are to be numbered from 0, each once; {instruction} has \
         the number {number}"
    )]
    ParameterNumber {
        /// The computation's name.
        computation: String,
        /// The name of the parameter.
        instruction: String,
        /// Its number.
        number: i64,
        /// How many parameters there are.
        count: usize,
    },
    /// A shape that cannot be.
    #[error("computation {computation}: instruction {instruction}: {problem}")]
    Shape {
        /// The computation's name.
        computation: String,
        /// The instruction's name.
        instruction: String,
        /// What is wrong.
        problem: ShapeProblem,
    },
    /// A module that does not say what it takes and gives, or says it in a form that cannot be read.
    #[error("the module's program shape: {problem}")]
    ProgramShape {
        /// What is wrong.
        problem: ShapeProblem,
    },
    /// A module that says of itself what is not so.
    #[error("the module says that {what} is {stated}, and it is {found}")]
    Contradiction {
        /// What.
        what: String,
        /// What the module says of it.
        stated: String,
        /// What it is.
        found: String,
    },
    /// Arguments in a tuple.
    #[error(
        "argument {argument} is the tuple {shape}, which cannot be sharded part by part; export the program with one \
         parameter for each array"
    )]
    TupleArgument {
        /// Its name.
        argument: String,
        /// Its shape.
        shape: String,
    },
    /// An argument or an output that is no array of fixed size whose elements are known here.
    #[error(
        "{what} is {shape}; expected an array of fixed size, of pred, s8 to s64, u8 to u64, f16, bf16, f32 or f64"
    )]
    NotAnArray {
        /// Which.
        what: String,
        /// Its shape.
        shape: String,
    },
    /// An output is to take over memory in a way that cannot be.
    #[error("output {output} cannot take over the memory of argument {argument}: {problem}")]
    Donation {
        /// Position of the output.
        output: u64,
        /// Position of the argument.
        argument: u64,
        /// Why not.
        problem: DonationProblem,
    },
    /// A sharding that the module states and that cannot be read.
    #[error("the sharding that the module states for {what}: {problem}")]
    Stated {
        /// An argument, an output, or the mesh.
        what: String,
        /// What is wrong.
        problem: StatedProblem,
    },
}

/// Why an output cannot take over the memory of an argument.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DonationProblem {
    /// One of the two is not there.
    #[error("there are {arguments} arguments and {outputs} outputs")]
    Missing {
        /// How many arguments there are.
        arguments: usize,
        /// How many outputs there are.
        outputs: usize,
    },
    /// One of them is said to be inside a tuple.
    #[error("one of them is said to be a part of an array")]
    Inside,
    /// They are of different types.
    #[error("the one is {output}, the other {argument}")]
    Type {
        /// The type of the output.
        output: TensorType,
        /// The type of the argument.
        argument: TensorType,
    },
    /// The memory is given away twice, or the output has two.
    #[error("one of them is a part of another such pair")]
    Taken,
}

/// Why a stated sharding cannot be read.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum StatedProblem {
    /// The message.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// The sharding in HLO's form.
    #[error(transparent)]
    OpSharding(#[from] OpShardingError),
    /// The sharding in Shardy's form.
    #[error(transparent)]
    Text(#[from] TextError),
    /// A mesh that is stated and cannot be spoken of.
    #[error("a mesh has no name")]
    Unnamed,
    /// A mesh that the module does not have.
    #[error("it is over the mesh @{name}, and the module has {known}")]
    Mesh {
        /// The name of the mesh.
        name: String,
        /// The meshes that there are.
        known: String,
    },
    /// A tuple of another number of shardings.
    #[error("there are {found} shardings for {expected} arrays")]
    Count {
        /// How many arrays there are.
        expected: usize,
        /// How many shardings there are.
        found: usize,
    },
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Module => f.write_str("the module"),
            Place::Computation(index) => write!(f, "computation {index} of the module"),
            Place::Instruction { computation, instruction } => {
                write!(f, "instruction {instruction} of computation {computation} of the module")
            }
        }
    }
}
