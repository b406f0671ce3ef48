//! Arrays that go into a program and come out of it: read from files, drawn from a seed, written to files, described
//! and compared.
//!
//! | file | what is in it |
//! | --- | --- |
//! | `.npy` | one array, called as the file is |
//! | `.npz` | arrays with names |
//! | `.safetensors` | arrays with names |
//! | a folder | an `.npy` file for each array |

mod assign;
mod compare;
mod draw;
mod npz;
mod read;
mod summary;
mod write;

pub(super) use assign::assign;
pub(super) use compare::{Difference, Tolerance, compare};
pub(super) use draw::{Draw, Range};
pub(super) use read::StoredArrays;
pub(super) use summary::Summary;
pub(super) use write::OutputFile;
