//! The program: a module of StableHLO ops, what their types must be, and the text that a plugin compiles.
//!
//! A [`Module`] is a function in static single assignment form, with those that it calls. Its instructions are a closed
//! enum, [`Op`], in which ops of programs from elsewhere that have no rules here are kept as they were written, and each
//! concern about ops is one table with one rule per op:
//!
//! | concern | where |
//! | --- | --- |
//! | result types | [`infer()`](infer()) |
//! | StableHLO text | [`print()`](print()), and back: [`parse()`](parse()) |
//!
//! A module is plain data that anyone may build or change; [`verify`] checks it whole, reports every problem at
//! once and gives a [`VerifiedModule`], which is what everything downstream takes and what a text that is read well
//! holds. Shardings are not part of a
//! module: they lie beside it, in [`Shardings`], keyed by value, so the same module serves every mesh.
//!
//! A program of another framework that is an HLO proto stays one: [`proto`] reads what it takes and gives, and writes
//! shardings into it.
//!
//! What comes back from a compiler is read by [`compiled`]: the optimized program as an HLO proto, reduced to the
//! facts that matter for a sharded program, its collectives.
//!
//! This crate knows no FSDP, no model and no device.
//!
//! ```
//! use shardwright_hlo::{Binary, Module, Op, print, verify};
//! use shardwright_tensor::{DType, TensorType};
//!
//! let mut module = Module::new("double");
//! let x = module.add_argument("x", TensorType::new(DType::F32, [4])?);
//! let y = module.push(Op::Binary(Binary::Add), &[x, x])?;
//! module.add_output("y", y[0]);
//! let module = verify(module)?;
//! assert!(print(&module, None).contains("stablehlo.add %arg0, %arg0 : tensor<4xf32>"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod collective;
pub mod compiled;
mod infer;
mod module;
mod op;
mod op_sharding;
mod print;
pub mod proto;
mod signature;
mod stated;
mod text;
mod uses;
mod varying;
mod verify;

pub use collective::{AxisGroup, ManualComputation};
pub use infer::{InferError, infer};
pub use module::{
    Argument, ArgumentKind, Function, FunctionId, Instruction, Location, Module, Output, Phase, Region,
    SourceId, Unit, UnitId, ValueId, ValueType,
};
pub use op::{
    Binary, Comparison, DotDims, GatherDims, Op, OtherOp, Precision, Reduction, Role, ScatterDims,
    SliceBounds, Unary,
};
pub use op_sharding::{OpShardingError, read_op_sharding};
pub use print::{Shardings, print};
pub use proto::HloProgram;
pub use signature::{ArgumentInfo, OutputInfo, Signature, StatedSharding};
pub use stated::{Parsed, Positions, Stated};
pub use text::{ParseError, ParseProblem, Position, ProgramProblem, parse};
pub use verify::{Problem, VerifiedModule, VerifyErrors, verify};
