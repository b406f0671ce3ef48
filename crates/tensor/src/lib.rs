//! Dtypes, shapes and host arrays that carry their dtype as a value.
//!
//! A [`HostArray`] is a dense row-major array in host memory whose dtype is known at run time, as XLA's
//! literals are: it is what programs hold as constants, what buffers are filled from and read back into,
//! and what files are written from. Typed access goes through [`HostArray::view`], an `ndarray` view, and
//! [`HostArray::as_slice`]; both check the dtype.
//!
//! It is not an array library: nothing here computes, apart from [`HostArray::cast`]. Computation is
//! `ndarray`'s on the host and XLA's everywhere else.
//!
//! ```
//! use shardwright_tensor::{DType, HostArray};
//!
//! let a = HostArray::from_slice(&[2, 3], &[0f32, 1., 2., 3., 4., 5.])?;
//! assert_eq!(a.ty().to_string(), "f32[2,3]");
//! let right = a.slice(&[0..2, 1..3])?;
//! assert_eq!(right.as_slice::<f32>()?, &[1., 2., 4., 5.]);
//! assert_eq!(right.view::<f32>()?[[1, 0]], 4.);
//! assert_eq!(right.cast(DType::Bf16).bytes().len(), 8);
//! # Ok::<(), shardwright_tensor::TensorError>(())
//! ```
#![forbid(unsafe_code)]

mod dtype;
mod host;
mod npy;
mod shape;

pub use dtype::{DType, Element};
pub use host::{HostArray, TensorError};
pub use npy::{NpyError, NpyHeader};
pub use shape::{Shape, ShapeError, TensorType};

/// The 16-bit float types that [`Element`] is implemented for.
pub use half::{bf16, f16};
