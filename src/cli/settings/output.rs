//! Settings of what a run leaves behind.

use std::path::PathBuf;

use super::super::choice::SaveStrategy;
use super::super::failure::Failure;
use super::super::value::Value;
use super::{Layer, Setting, Spec, default, optional, settings};

settings! {
    /// Where a run writes.
    OutputSettings "Output" {
        /// The folder for the model, the tokenizer and the results; required
        output_dir: PathBuf;
        /// Write there although the folder is not empty
        overwrite_output_dir: bool = "no";
        /// Only no: checkpoints are not written yet, the final model always is
        save_strategy: SaveStrategy = "no";
    }
}
