//! Programs as text: MLIR, as frameworks and this crate's printer write it.
//!
//! | step | where |
//! | --- | --- |
//! | characters to tokens and bracketed stretches | `scan` |
//! | aliases and resources written out | `alias` |
//! | operations, in the generic form or their own, to a `tree` | `parse` |
//! | each op's own form, as a table | `forms`, of the pieces in `form` that `pretty` reads; what only one op has, `own` and `regions` |
//! | a tree to a module, with its shardings beside it | `lift` |
//! | a dictionary back to text | `write` |
//!
//! Nesting is limited, so no text makes what walks over a tree run out of stack, and a tree takes memory in proportion
//! to its text.

mod alias;
mod error;
mod form;
mod forms;
mod lift;
mod own;
mod parse;
mod pretty;
mod regions;
mod scan;
mod shared;
#[cfg(test)]
mod tests;
mod tree;
mod write;

pub use error::{ParseError, ParseProblem};
pub use lift::ProgramProblem;
pub use tree::Position;

use crate::Parsed;
use parse::read;

/// Reads a program in MLIR's text: StableHLO as JAX, torch_xla and [`print`](crate::print()) write it, in the generic
/// form or the ops' own.
///
/// Each op that [`Op`](crate::Op) can say exactly becomes one; any other becomes an [`OtherOp`](crate::OtherOp) and
/// is kept as it was written.
///
/// ```
/// use shardwright_hlo::parse;
///
/// let program = parse(r#"
///     func.func @main(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
///       %sum = stablehlo.add %x, %y : tensor<4xf32>
///       return %sum : tensor<4xf32>
///     }
/// "#)?;
/// assert_eq!(program.module.signature().outputs[0].ty.to_string(), "f32[4]");
///
/// let error = parse("func.func @main() { return %x : tensor<4xf32> }").unwrap_err();
/// assert!(error.to_string().contains("column 28: `%x` is not defined"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Text that is not MLIR, or that is no program, with the place where that shows.
pub fn parse(text: &str) -> Result<Parsed, ParseError> {
    lift::lift(text, &read(text)?)
}
