//! Files that appear under their name only when they are whole.
//!
//! The bytes go to a temporary file in the same folder. It is flushed to the disk and then renamed, and the
//! folder is flushed, so that a crash leaves the old file or the new one and never half of one. Without the
//! rename, dropping removes the temporary file.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;
use tempfile::NamedTempFile;

use crate::error::{CheckpointError, Problem};

/// Writes a file, replacing what was there in one step.
pub fn write_bytes_atomic(path: impl AsRef<Path>, bytes: &[u8]) -> Result<(), CheckpointError> {
    write_atomic(path, |mut file| file.write_all(bytes))
}

/// Has a file written by `write`, and gives it its name after that, replacing what was there in one step.
pub fn write_atomic(
    path: impl AsRef<Path>,
    write: impl FnOnce(&File) -> io::Result<()>,
) -> Result<(), CheckpointError> {
    let path = path.as_ref();
    let write = || {
        let file = AtomicFile::create(path)?;
        write(file.file()).map_err(Problem::io("write it"))?;
        file.commit()
    };
    write().map_err(|problem: Problem| problem.at(path))
}

/// Sees to it that a folder exists and that files can be written in it, and leaves nothing there.
pub fn make_writable_folder(folder: impl AsRef<Path>) -> Result<(), CheckpointError> {
    let folder = folder.as_ref();
    std::fs::create_dir_all(folder).map_err(|e| Problem::io("make the folder")(e).at(folder))?;
    let probe =
        tempfile::tempfile_in(folder).map_err(|e| Problem::io("write in the folder")(e).at(folder))?;
    drop(probe);
    Ok(())
}

/// Writes a value as indented JSON with a final newline, replacing what was there in one step.
pub fn write_json_atomic(
    path: impl AsRef<Path>,
    value: &(impl Serialize + ?Sized),
) -> Result<(), CheckpointError> {
    let path = path.as_ref();
    let mut text =
        serde_json::to_vec_pretty(value).map_err(|e| Problem::Json { message: e.to_string() }.at(path))?;
    text.push(b'\n');
    write_bytes_atomic(path, &text)
}

/// A file under a temporary name.
#[derive(Debug)]
pub(crate) struct AtomicFile {
    temporary: NamedTempFile,
    target: PathBuf,
}

impl AtomicFile {
    pub(crate) fn create(target: &Path) -> Result<AtomicFile, Problem> {
        let name = target.file_name().unwrap_or_default().to_string_lossy();
        let prefix = format!(".{name}.");
        let mut builder = tempfile::Builder::new();
        builder.prefix(&prefix).suffix(".tmp");
        // Private by default, which is not what a saved model should be; the umask still applies.
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
        let temporary = builder
            .tempfile_in(folder_of(target))
            .map_err(Problem::io("create a temporary file beside it"))?;
        Ok(AtomicFile { temporary, target: target.to_owned() })
    }

    pub(crate) fn file(&self) -> &File {
        self.temporary.as_file()
    }

    /// Gives the file its name.
    pub(crate) fn commit(self) -> Result<(), Problem> {
        self.file().sync_all().map_err(Problem::io("flush it to the disk"))?;
        self.temporary.persist(&self.target).map_err(|e| Problem::io("give it its name")(e.error))?;
        sync_folder(folder_of(&self.target))
    }
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    }
}

/// Makes a rename in the folder durable. Folders cannot be opened as files outside Unix.
fn sync_folder(folder: &Path) -> Result<(), Problem> {
    if cfg!(unix) {
        File::open(folder).and_then(|f| f.sync_all()).map_err(Problem::io("flush its folder to the disk"))?;
    }
    Ok(())
}
