//! Programs as text: MLIR, as frameworks and this crate's printer write it.
//!
//! | step | where |
//! | --- | --- |
//! | characters to tokens and bracketed stretches | `scan` |
//! | aliases and resources written out | `alias` |
//! | operations, in the generic form or their own, to a `tree` | `parse` |
//! | each op's own form, as a table | `forms`, of the pieces in `form` that `pretty` reads; what only one op has, `own` |
//! | a tree back to text in the generic form | `write` |
//!
//! Nesting is limited, so no text makes what walks over a tree run out of stack, and a tree takes memory in proportion
//! to its text.

mod alias;
mod error;
mod form;
mod forms;
mod own;
mod parse;
mod pretty;
mod scan;
mod shared;
pub(crate) mod tree;
pub(crate) mod write;

pub use error::{ParseError, ParseProblem};
pub(crate) use parse::read;
pub(crate) use shared::Text;
pub use tree::Position;

#[cfg(test)]
mod tests;
