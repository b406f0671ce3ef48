//! Programs written in Rust, and their gradients.
//!
//! A [`Graph`] records what is done to [`Value`]s as instructions of an [`hlo`](shardwright_hlo) module. Model code is
//! a plain function that takes the graph first:
//!
//! ```
//! use shardwright_graph::{Graph, GraphError, Recompute, Value};
//! use shardwright_hlo::ArgumentKind;
//! use shardwright_tensor::{DType, TensorType};
//!
//! fn mean_square(g: &Graph, x: Value) -> Result<Value, GraphError> {
//!     let sum = g.sum(g.mul(x, x)?, &[0, 1])?;
//!     g.scale(sum, 1.0 / 6.0)
//! }
//!
//! let g = Graph::new("step");
//! let w = g.argument("w", TensorType::new(DType::F32, [2, 3])?, ArgumentKind::Parameter);
//! let loss = mean_square(&g, w)?;
//! let gradient = g.gradients(loss, &[w], &|_| Recompute::Nothing)?[0];
//! g.output("loss", loss);
//! g.output("gradient", gradient);
//! let module = g.finish();
//! assert_eq!(module.ty(gradient).to_string(), "f32[2,3]");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Nothing is computed while a graph is built, and nothing is broadcast silently: operands have equal types, and an
//! op that is not defined on its operands is an error naming the [unit](Graph::unit) that it stands in.
//!
//! [`Graph::gradients`] appends the reverse pass to the same graph, with one rule per op (`rules.rs`). A unit can be
//! rematerialised: its values, or [a part](Recompute) of them, are then computed a second time in the reverse pass,
//! behind an `optimization_barrier`, instead of being kept.
//!
//! A body that runs for each layer, or for each micro-batch, is written once with [`Graph::scan`]. Gradients can be
//! taken through such a loop, which adds one that runs backwards, and in it.
#![forbid(unsafe_code)]

mod collective;
mod copy;
mod cotangent;
mod counted;
mod depends;
mod gradient;
mod graph;
mod inline;
pub mod random;
mod region;
mod rules;
mod scan;
mod scan_gradient;

pub use gradient::Recompute;
pub use graph::{Graph, GraphError};
pub use inline::InlineProblem;
pub use scan::ScanProblem;
/// A value of the program that is being written.
pub use shardwright_hlo::ValueId as Value;
