//! Files that are written once and then only read.
//!
//! ```text
//! body | summary, as JSON | length of the summary, u32 | SHA-256 of all that, 32 bytes | mark, 8 bytes
//! ```
//!
//! What is known only at the end is at the end, so the body is written as it comes. Numbers are little-endian.

use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};
use tempfile::TempPath;

use super::{CacheError, positioned};

const MARK: &[u8; 8] = b"SWENTRY1";
const DIGEST_BYTES: u64 = 32;
const TAIL_BYTES: u64 = 4 + DIGEST_BYTES + MARK.len() as u64;

/// The ends of names that entries have until they are whole.
const PARTIAL: &str = ".partial";

/// A whole entry, open for reading.
#[derive(Debug)]
pub(crate) struct Entry<S> {
    pub(crate) file: EntryFile,
    pub(crate) summary: S,
    /// The length of the body.
    pub(crate) body_bytes: u64,
}

/// The file of an entry. It stays open, so that removing its name does no harm.
#[derive(Debug)]
pub(crate) struct EntryFile {
    file: File,
    path: Option<PathBuf>,
}

/// An entry that is being written.
pub(crate) struct EntryWriter {
    out: BufWriter<File>,
    digest: Sha256,
    bytes: u64,
    /// The name it has now and the one it will have; without, the file has no name at all.
    names: Option<(TempPath, PathBuf)>,
}

impl EntryFile {
    pub(crate) fn read_exact_at(&self, bytes: &mut [u8], offset: u64) -> Result<(), CacheError> {
        let read = positioned::read_exact_at(&self.file, bytes, offset);
        read.map_err(|source| CacheError::Read { path: self.path.clone().unwrap_or_default(), source })
    }
}

impl<S: Serialize + DeserializeOwned> Entry<S> {
    /// The entry of this name, if there is one and it is whole.
    pub(crate) fn open(path: &Path) -> Result<Option<Entry<S>>, CacheError> {
        let read_error = |source| CacheError::Read { path: path.to_path_buf(), source };
        let mut file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(read_error(source)),
        };
        let checked = check(&mut file).map_err(read_error)?;
        let Some((summary, body_bytes)) =
            checked.and_then(|(summary, body)| Some((serde_json::from_slice(&summary).ok()?, body)))
        else {
            tracing::warn!(path = %path.display(), "an entry of the cache is damaged and is made again");
            return Ok(None);
        };
        let file = EntryFile { file, path: Some(path.to_path_buf()) };
        Ok(Some(Entry { file, summary, body_bytes }))
    }
}

/// The summary of an entry and the length of its body, unless it is damaged.
fn check(file: &mut File) -> io::Result<Option<(Vec<u8>, u64)>> {
    let Some(length) = file.metadata()?.len().checked_sub(TAIL_BYTES) else { return Ok(None) };
    let mut tail = [0; TAIL_BYTES as usize];
    positioned::read_exact_at(file, &mut tail, length)?;
    let (summary_bytes, rest) = tail.split_first_chunk::<4>().expect("the tail begins with them");
    let Some(body) = length.checked_sub(u64::from(u32::from_le_bytes(*summary_bytes))) else {
        return Ok(None);
    };
    if !rest.ends_with(MARK) || rest[..DIGEST_BYTES as usize] != digest(file, length + 4)? {
        return Ok(None);
    }
    let mut summary = vec![0; (length - body) as usize];
    positioned::read_exact_at(file, &mut summary, body)?;
    Ok(Some((summary, body)))
}

/// The digest of the first bytes of a file.
fn digest(file: &mut File, bytes: u64) -> io::Result<[u8; 32]> {
    let mut digest = Sha256::new();
    file.seek(SeekFrom::Start(0))?;
    super::hash(&mut file.take(bytes), &mut digest)?;
    Ok(digest.finalize().into())
}

impl EntryWriter {
    /// An entry that gets this name, or one that lasts as long as it is open.
    pub(crate) fn create(target: Option<PathBuf>) -> Result<EntryWriter, CacheError> {
        let (file, names) = match target {
            None => {
                let error = |source| CacheError::Write { path: std::env::temp_dir(), source };
                (tempfile::tempfile().map_err(error)?, None)
            }
            Some(target) => {
                let (file, temporary) = named(&target)?;
                (file, Some((temporary, target)))
            }
        };
        let out = BufWriter::with_capacity(1 << 18, file);
        Ok(EntryWriter { out, digest: Sha256::new(), bytes: 0, names })
    }

    /// Adds to the body.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<(), CacheError> {
        self.digest.update(bytes);
        self.bytes += bytes.len() as u64;
        self.out.write_all(bytes).map_err(|source| self.error(source))
    }

    /// Ends the entry, which gets its name once it is whole and on the disk.
    pub(crate) fn finish<S: Serialize>(mut self, summary: S) -> Result<Entry<S>, CacheError> {
        let body_bytes = self.bytes;
        let text = serde_json::to_vec(&summary).expect("a summary is numbers and strings");
        self.write(&text)?;
        self.write(&(text.len() as u32).to_le_bytes())?;
        let digest = self.digest.clone().finalize();
        self.out.write_all(&digest).and_then(|()| self.out.write_all(MARK)).map_err(|e| self.error(e))?;
        let EntryWriter { out, names, .. } = self;
        let path = || names.as_ref().map_or_else(std::env::temp_dir, |(_, target)| target.clone());
        let file = out.into_inner().map_err(|error| error.into_error());
        let file = file.map_err(|source| CacheError::Write { path: path(), source })?;
        let path = match names {
            None => None,
            Some((temporary, target)) => Some(publish(&file, temporary, target)?),
        };
        Ok(Entry { file: EntryFile { file, path }, summary, body_bytes })
    }

    fn error(&self, source: io::Error) -> CacheError {
        let path = self.names.as_ref().map_or_else(std::env::temp_dir, |(_, target)| target.clone());
        CacheError::Write { path, source }
    }
}

/// A new file beside the target. It is locked for as long as it is open: see [`sweep`].
fn named(target: &Path) -> Result<(File, TempPath), CacheError> {
    let write_error = |source| CacheError::Write { path: target.to_path_buf(), source };
    let folder = target.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder).map_err(|source| CacheError::Folder { path: folder.into(), source })?;
    sweep(folder);
    let mut builder = tempfile::Builder::new();
    // Private by default, which is not what a shared cache should be; the umask still applies.
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    builder.prefix(".").suffix(PARTIAL);
    loop {
        let (file, temporary) = builder.tempfile_in(folder).map_err(write_error)?.into_parts();
        // Where files cannot be locked, what is left of a killed process stays.
        let _ = file.lock();
        // Until it was locked, another process could take it for such a file.
        if temporary.exists() {
            return Ok((file, temporary));
        }
    }
}

/// Removes what processes left that were killed: only theirs are not locked.
fn sweep(folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let is_partial = name.as_encoded_bytes().ends_with(PARTIAL.as_bytes());
        if is_partial
            && let Ok(file) = File::open(entry.path())
            && file.try_lock().is_ok()
        {
            let _ = fs::remove_file(entry.path());
        }
    }
}

fn publish(file: &File, temporary: TempPath, target: PathBuf) -> Result<PathBuf, CacheError> {
    let write_error = |source| CacheError::Write { path: target.clone(), source };
    file.sync_all().map_err(write_error)?;
    temporary.persist(&target).map_err(|error| write_error(error.error))?;
    // The lock stood for the name that it had.
    let _ = file.unlock();
    if cfg!(unix)
        && let Some(folder) = target.parent()
    {
        File::open(folder).and_then(|folder| folder.sync_all()).map_err(write_error)?;
    }
    Ok(target)
}
