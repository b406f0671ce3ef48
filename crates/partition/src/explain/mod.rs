//! What the compiler made of a sharded program: facts, causes and verdicts.
//!
//! ```text
//! CompiledProgram (what there is) ─┐
//! Subject (what was asked for) ────┼──► Explanation ──► a table (Display), JSON (serde)
//! CompiledMemory (the compiler's) ─┘
//! ```
//!
//! Every collective of the optimized program is named with its axes, its bytes, how often it runs and what caused it;
//! the traffic is held against what FSDP needs; each parameter and unit gets a verdict; and the memory of a device is
//! divided into classes over the course of the program.
//!
//! # Names in JSON
//!
//! Field names are those of the structs here, variants of enums are in `snake_case`, and collectives have HLO's names
//! (`all-gather`). All bytes are of one device. Names that are there stay; new ones may come.

mod subject;
mod types;

pub use subject::{Subject, SubjectUnit};
pub use types::{
    Cause, ClassBytes, CompiledMemory, ExplainedCollective, Explanation, Grade, MemoryClass, MemoryPoint,
    MemoryReport, MeshAxis, ParameterReport, Pass, Piece, Purpose, Reduced, Runs, Traffic, UnitReport,
    Verdict, Volume,
};
