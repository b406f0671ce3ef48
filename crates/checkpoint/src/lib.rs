//! Hugging Face weights: opened, checked against a model, read in parts, and written.
//!
//! [`HfWeights`] is a `model.safetensors`, alone or cut into shards behind a `model.safetensors.index.json`.
//! Opening reads and validates headers only. Data is read when asked for, by position, so that
//! [`HfWeights::read_slice`] touches no more of the file than one device's shard needs.
//! [`HfWriter`] streams the same format, and a file appears under its name only once it is whole.
//!
//! It is not a converter: PyTorch pickles are refused, and nothing here knows what the tensors mean. The names
//! are the ones that the model was saved under; prefixes left behind by wrappers (`_orig_module.`,
//! `_fsdp_wrapped_module.`, `module.`) are removed on reading and never written.
//!
//! The rule is that **no weight is ever left out silently**. A cut download, a shard that is not there, an index
//! that disagrees with its files and tensors that do not fit the model are each an error that says which it is.
//! What can be passed over, such as a stray file beside an index, comes back as a [`Notice`]; nothing is printed.
//!
//! ```
//! use shardwright_checkpoint::{Expected, HfWeights, HfWriter};
//! use shardwright_tensor::HostArray;
//!
//! let folder = tempfile::tempdir()?;
//! let norm = HostArray::from_slice(&[4], &[1f32, 2., 3., 4.])?;
//!
//! let mut writer =
//!     HfWriter::create(folder.path().join("model.safetensors"), [("model.norm.weight", norm.ty().clone())])?;
//! writer.write("model.norm.weight", &norm)?;
//! writer.finish()?;
//!
//! let weights = HfWeights::open(folder.path())?;
//! weights.check([Expected::required("model.norm.weight", &[4])])?;
//! assert_eq!(weights.read("model.norm.weight")?, norm);
//! assert_eq!(weights.read_slice("model.norm.weight", &[2..4])?.as_slice::<f32>()?, &[3., 4.]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod atomic;
mod check;
mod error;
mod folder;
mod format;
mod members;
mod names;
mod positioned;
mod weights;
mod writer;

pub use atomic::{make_writable_folder, write_atomic, write_bytes_atomic, write_json_atomic};
pub use check::{Expected, Misfit, Mismatch};
pub use error::{CheckpointError, Problem};
pub use folder::FolderError;
pub use format::FormatError;
pub use weights::{HfWeights, Notice, WeightInfo};
pub use writer::{HfWriter, WriteError};
