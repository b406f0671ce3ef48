//! Files that only this user can have written: what is read from them is executed.

use std::fs::{self, DirBuilder, File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::Path;

use rustix::fs::{Access, Mode, OFlags, access};
use tempfile::NamedTempFile;

/// Begins the names of files that are not whole yet.
pub(super) const UNFINISHED: &str = ".unfinished-";

/// A file that was opened and found to be this user's, or the system's, and writable by nobody else.
#[derive(Debug)]
pub(super) struct PrivateFile {
    file: File,
    size: u64,
}

impl PrivateFile {
    pub(super) fn open(path: &Path) -> io::Result<PrivateFile> {
        let file = open_at_once(path)?;
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
        }
        check(&metadata)?;
        Ok(PrivateFile { size: metadata.len(), file })
    }

    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// The next `most` bytes, or as many as there are.
    pub(super) fn read(&self, most: u64) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        (&self.file).take(most).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// Notes that the file was used. Failing here makes it look older than it is, and nothing else.
    pub(super) fn touch(&self) {
        let _ = self.file.set_modified(std::time::SystemTime::now());
    }
}

/// Opens a file of any kind for reading. Opening a pipe would wait for somebody to write into it.
fn open_at_once(path: &Path) -> io::Result<File> {
    Ok(rustix::fs::open(path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty())?.into())
}

/// Refuses a folder in which another user could have written.
pub(super) fn check_folder(folder: &Path) -> io::Result<()> {
    let metadata = fs::metadata(folder)?;
    if !metadata.is_dir() {
        return Err(io::Error::new(io::ErrorKind::NotADirectory, "it is not a folder"));
    }
    check(&metadata)
}

/// Refuses what another user could have written.
fn check(found: &Metadata) -> io::Result<()> {
    let (owner, me) = (found.uid(), rustix::process::geteuid().as_raw());
    let refuse = |why: String| Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    if owner != me && owner != 0 {
        return refuse(format!("it belongs to user {owner}, who is not the one that runs this ({me})"));
    }
    if found.mode() & 0o022 != 0 {
        let mode = found.mode() & 0o777;
        return refuse(format!(
            "others can write to it (mode {mode:03o}); take that from them with chmod go-w"
        ));
    }
    Ok(())
}

/// Sees to it that the folder is there and that nobody else can write in it.
pub(super) fn create_folder(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    check_folder(folder)
}

/// Refuses a folder that cannot be written, or that could not be made; changes nothing.
pub(super) fn check_writable(folder: &Path) -> io::Result<()> {
    let existing = folder.ancestors().find(|path| path.symlink_metadata().is_ok()).unwrap_or(folder);
    let refuse = |error: io::Error| {
        Err(io::Error::new(error.kind(), format!("{} cannot be written: {error}", existing.display())))
    };
    if !existing.is_dir() {
        return refuse(io::Error::new(io::ErrorKind::NotADirectory, "it is not a folder"));
    }
    access(existing, Access::WRITE_OK | Access::EXEC_OK).or_else(|error| refuse(error.into()))
}

/// Writes a file that has its name only when it is whole and on the disk. It is readable by this user only.
pub(super) fn write_atomic(
    folder: &Path,
    name: &str,
    write: impl FnOnce(&mut File) -> io::Result<()>,
) -> io::Result<()> {
    let mut file: NamedTempFile = tempfile::Builder::new().prefix(UNFINISHED).tempfile_in(folder)?;
    write(file.as_file_mut())?;
    file.as_file().sync_all()?;
    file.persist(folder.join(name))?;
    File::open(folder)?.sync_all()
}
