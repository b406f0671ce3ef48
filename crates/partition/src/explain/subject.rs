//! What is known of a program before it is compiled: what an explanation holds the compiled one against.

use shardwright_hlo::{ArgumentInfo, OutputInfo};
use shardwright_mesh::{AbstractMesh, NamedSharding};

use crate::Strategy;

/// A program as it was given to the compiler, and what was planned for it.
#[derive(Clone, Debug, PartialEq)]
pub struct Subject {
    /// The mesh that it was compiled for.
    pub mesh: AbstractMesh,
    /// What it takes, in order.
    pub arguments: Vec<ArgumentInfo>,
    /// Where that lies; one for each argument.
    pub shardings: Vec<NamedSharding>,
    /// What it gives, in order.
    pub outputs: Vec<OutputInfo>,
    /// The units that are gathered one by one; none where units are not known.
    pub units: Vec<SubjectUnit>,
    /// What FSDP should make of it; none for a program that is just sharded.
    pub strategy: Option<Strategy>,
}

/// A wrapped unit of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubjectUnit {
    /// Where in the model: `model.layers.3`.
    pub path: String,
    /// What it is an instance of.
    pub class: String,
    /// Whether the program computes it again in the backward pass.
    pub is_recomputed: bool,
}
