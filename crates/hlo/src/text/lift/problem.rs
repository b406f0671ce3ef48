use shardwright_mesh::TextError;

use crate::{InferError, VerifyErrors};

/// What a text that is read well says, but what no program is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProgramProblem {
    /// A value that is not defined where it is used.
    #[error("`%{name}` is not defined before it is used here")]
    Undefined {
        /// Its name.
        name: String,
    },
    /// A value that is defined again where it is visible.
    #[error("`%{name}` is defined already")]
    Redefined {
        /// Its name.
        name: String,
    },
    /// One of several results, of which there are not so many.
    #[error("`%{name}` stands for {count} result{}, and there is no `#{index}`", if *count == 1 { "" } else { "s" })]
    NoSuchResult {
        /// Their name.
        name: String,
        /// How many there are.
        count: usize,
        /// Which one is used.
        index: usize,
    },
    /// A value that is said to be of a type that it is not.
    #[error("`%{name}` is a {expected}, and is used here as a {found}")]
    OperandType {
        /// Its name.
        name: String,
        /// The type that it is of.
        expected: String,
        /// The type that it is said to be of.
        found: String,
    },
    /// A type that no program may have.
    #[error("{ty}: {reason}")]
    Type {
        /// The type.
        ty: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Operands that an op is not defined on.
    #[error(transparent)]
    Infer(#[from] InferError),
    /// Results that an op does not give.
    #[error("{op} gives {expected}, and is said to give {found}")]
    ResultTypes {
        /// Name of the op.
        op: String,
        /// The types that it gives.
        expected: String,
        /// The types that it is said to give.
        found: String,
    },
    /// A function that takes or gives what its type does not say.
    #[error("@{name} is of type {found}, and is said to be of type {stated}")]
    FunctionType {
        /// Its name.
        name: String,
        /// The type that its arguments and results make.
        found: String,
        /// The type that it is said to be of.
        stated: String,
    },
    /// A constant whose value is not of its type.
    #[error("a constant of type {ty}: {reason}")]
    Constant {
        /// Its type.
        ty: String,
        /// What is wrong with the value.
        reason: String,
    },
    /// A region that does not end as those of its op do.
    #[error("a region of {op} ends with {expected}, and here it ends with {found}")]
    Terminator {
        /// Name of the op.
        op: String,
        /// Name of the op that ends its regions.
        expected: &'static str,
        /// What stands at the end.
        found: String,
    },
    /// A program without a beginning.
    #[error("there is no function @main{}", Others(functions))]
    NoMain {
        /// The functions that there are.
        functions: Vec<String>,
    },
    /// Two functions or meshes with one name.
    #[error("@{name} is defined already")]
    DuplicateSymbol {
        /// The name.
        name: String,
    },
    /// A call of a function that there is not.
    #[error("there is no function @{name} to be called")]
    UnknownFunction {
        /// Its name.
        name: String,
    },
    /// A function that is declared elsewhere.
    #[error("@{name} has no body, and a program has nothing but itself")]
    NoBody {
        /// Its name.
        name: String,
    },
    /// Something beside functions and meshes.
    #[error("{op} beside the functions of a program is nothing that is known here")]
    TopLevel {
        /// Name of the op.
        op: String,
    },
    /// An argument or output that cannot be passed.
    #[error(
        "{what} of @main is a {ty}, and a program takes and gives arrays of bool, integer, f16, bf16, f32 or f64 \
         elements; convert it inside the program"
    )]
    NotPassable {
        /// Which one.
        what: String,
        /// Its type.
        ty: String,
    },
    /// An attribute with a value that it cannot have.
    #[error("{name} = {found}: expected {expected}")]
    Attribute {
        /// Its name.
        name: String,
        /// Its value.
        found: String,
        /// What it can be.
        expected: &'static str,
    },
    /// A program for several replicas.
    #[error("the program is for {replicas} replicas; programs here have one, and any number of partitions")]
    Replicas {
        /// How many.
        replicas: usize,
    },
    /// A mesh or sharding that cannot be read.
    #[error(transparent)]
    Sharding(#[from] TextError),
    /// A sharding over a mesh that the program does not define.
    #[error("there is no mesh @{name}{}", Others(meshes))]
    UnknownMesh {
        /// The mesh's name.
        name: String,
        /// The meshes that there are.
        meshes: Vec<String>,
    },
    /// A mesh that stands for one device of several.
    #[error("mesh @{name} is one device by itself; programs here run on all devices of a mesh")]
    MaximalMesh {
        /// The mesh's name.
        name: String,
    },
    /// A mesh of another size than the program.
    #[error("mesh @{name} has {size} devices, and the program is for {partitions} partitions")]
    MeshSize {
        /// The mesh's name.
        name: String,
        /// Its size.
        size: usize,
        /// How many partitions the program says it is for.
        partitions: usize,
    },
    /// What is wrong with the program as a whole.
    #[error(transparent)]
    Unsound(#[from] VerifyErrors),
    /// More values than can be counted.
    #[error("the program has more than 2^32 values")]
    TooManyValues,
}

/// `; there are @a, @b`, or nothing.
struct Others<'a>(&'a [String]);

impl std::fmt::Display for Others<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        const SHOWN: usize = 8;
        for (index, name) in self.0.iter().take(SHOWN).enumerate() {
            write!(f, "{}@{name}", if index == 0 { "; there are " } else { ", " })?;
        }
        f.write_str(if self.0.len() > SHOWN { ", …" } else { "" })
    }
}
