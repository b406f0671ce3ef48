use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::{Tokenizer, TokenizerError};
use crate::DataError;

impl Tokenizer {
    /// Writes a `tokenizer.json`. One that was loaded is written back byte for byte.
    ///
    /// The file appears whole or not at all: it is written beside its place under another name, brought to disk,
    /// and renamed.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), DataError> {
        let path = path.as_ref();
        let written = write_whole(path, &self.json);
        written.map_err(|source| TokenizerError::Write { path: path.to_path_buf(), source }.into())
    }
}

fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let unfinished = unfinished(path)?;
    let written = write_synced(&unfinished, bytes).and_then(|()| fs::rename(&unfinished, path));
    if written.is_err() {
        // The first error is the one to report.
        let _ = fs::remove_file(&unfinished);
    }
    written
}

fn write_synced(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// A name in the same folder, so that renaming stays within one file system, and of this process alone.
fn unfinished(path: &Path) -> io::Result<PathBuf> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidFilename)?;
    let mut hidden = std::ffi::OsString::from(".");
    hidden.push(name);
    hidden.push(format!(".{}.tmp", std::process::id()));
    Ok(path.with_file_name(hidden))
}
