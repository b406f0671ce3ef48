//! Compiled programs on the disk.

use std::fmt::{self, Display};
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use shardwright_partition::Bytes;
use shardwright_pjrt::SerializedExecutable;

use super::entry::{self, HEAD_START, decode, decode_head, encode_head, rest_of_head};
use super::folder::{DAMAGED, ENTRY, Files};
use super::key::CacheKey;
use super::private::{self, PrivateFile};

/// With how many entries a program that was not found is compared.
const MOST_COMPARED: usize = 64;

/// Where compiled programs are kept between processes. It is a place and a few rules; nothing is opened before it is
/// used.
///
/// - **Only what this user has written is executed.** Folder and entries have to belong to this user, or to the
///   system's, and nobody else may be able to write there. New ones are private.
/// - **A damaged entry is never executed.** Each byte is covered by a digest. An entry that is not whole, or that the
///   plugin refuses, is put aside under another ending, and the program is compiled again.
/// - **It never fails a program.** A folder that cannot be read or written, or a full disk, is a line in the log.
/// - **Several processes can use it at once.** An entry has its name when it is whole and on the disk.
/// - **It stays small.** Beyond its limit the entries go that were not used for longest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompileCache {
    folder: PathBuf,
    read_only: bool,
    limit: u64,
}

/// What is in a cache.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CacheSummary {
    /// The folder.
    pub folder: PathBuf,
    /// Whether it is only read.
    pub read_only: bool,
    /// The most bytes that are kept.
    pub limit: u64,
    /// How many programs are kept.
    pub entries: usize,
    /// Their size together.
    pub bytes: u64,
    /// Damaged entries that were put aside. They go first when room is needed.
    pub damaged: usize,
}

/// Why a program was not in the cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheMiss {
    changed: Vec<String>,
}

/// What a look into the cache gives.
pub(super) enum Lookup {
    Hit(SerializedExecutable),
    Miss(CacheMiss),
}

impl CompileCache {
    /// Kept unless another limit is given: 4 GiB.
    const LIMIT: u64 = 4 << 30;

    /// A cache in this folder, which is made when the first program is kept.
    pub fn new(folder: impl Into<PathBuf>) -> CompileCache {
        CompileCache { folder: folder.into(), read_only: false, limit: CompileCache::LIMIT }
    }

    /// A cache that is read and never written to.
    pub fn read_only(folder: impl Into<PathBuf>) -> CompileCache {
        CompileCache { read_only: true, ..CompileCache::new(folder) }
    }

    /// The same with another limit, in bytes. Programs that are larger than that are not kept.
    #[must_use]
    pub fn with_limit(self, bytes: u64) -> CompileCache {
        CompileCache { limit: bytes, ..self }
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Whether it is only read.
    pub fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// What is in it; nothing, where there is no folder yet.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub fn summary(&self) -> io::Result<CacheSummary> {
        let files = Files::list(&self.folder)?;
        Ok(CacheSummary {
            folder: self.folder.clone(),
            read_only: self.read_only,
            limit: self.limit,
            entries: files.with_ending(ENTRY).count(),
            bytes: files.with_ending(ENTRY).map(|file| file.size).sum(),
            damaged: files.with_ending(DAMAGED).count(),
        })
    }

    /// The executable of this key. What is wrong with an entry is logged, and is a miss.
    ///
    /// # Errors
    /// When the folder cannot be used at all.
    pub(super) fn get(&self, key: &CacheKey, name: &str) -> io::Result<Lookup> {
        private::check_folder(&self.folder).or_else(unless_absent)?;
        let path = self.path(key);
        let executable = self.read(&path, key, name).unwrap_or_else(|error| {
            if let Err(error) = unless_absent(error) {
                let entry = path.display();
                tracing::warn!(
                    "compiled program {entry} is not used: {error}; program {name} is compiled again"
                );
            }
            None
        });
        Ok(executable.map_or_else(|| Lookup::Miss(self.explain(key, name)), Lookup::Hit))
    }

    /// `None` for an entry that was damaged.
    fn read(&self, path: &Path, key: &CacheKey, name: &str) -> io::Result<Option<SerializedExecutable>> {
        let file = PrivateFile::open(path)?;
        match decode(file.read(file.size())?, key) {
            Ok(executable) => {
                if !self.read_only {
                    file.touch();
                }
                Ok(Some(executable))
            }
            Err(damage) => {
                self.put_aside(key, name, &damage);
                Ok(None)
            }
        }
    }

    /// Takes an entry out of use that cannot be right, whoever found that out.
    pub(super) fn put_aside(&self, key: &CacheKey, name: &str, reason: &dyn Display) {
        let path = self.path(key);
        let entry = path.display();
        tracing::warn!("compiled program {entry} is damaged: {reason}; program {name} is compiled again");
        if self.read_only {
            return;
        }
        if let Err(error) = fs::rename(&path, path.with_extension(DAMAGED)) {
            tracing::debug!("cannot put {entry} aside: {error}");
        }
    }

    /// Keeps an executable.
    ///
    /// # Errors
    /// When it cannot be written. Nothing is left of it then.
    pub(super) fn put(
        &self,
        key: &CacheKey,
        name: &str,
        executable: &SerializedExecutable,
    ) -> io::Result<()> {
        let head = encode_head(name, key, executable);
        let size = (head.len() + executable.bytes().len()) as u64;
        if self.read_only || size > self.limit {
            tracing::debug!(program = name, bytes = size, "the compiled program is not kept");
            return Ok(());
        }
        private::create_folder(&self.folder)?;
        let path = self.path(key);
        let file_name = path.file_name().unwrap_or_default().to_string_lossy();
        private::write_atomic(&self.folder, &file_name, |file| {
            file.write_all(&head)?;
            file.write_all(executable.bytes())
        })?;
        Files::list(&self.folder)?.make_room(self.limit, &path);
        tracing::debug!(program = name, entry = %path.display(), bytes = size, "the compiled program is kept");
        Ok(())
    }

    /// How the key differs from that of the entry that is most like it.
    fn explain(&self, key: &CacheKey, name: &str) -> CacheMiss {
        let files = Files::list(&self.folder).unwrap_or_default();
        let youngest = files.with_ending(ENTRY).rev().take(MOST_COMPARED);
        let heads = youngest.filter_map(|file| head(&file.path));
        // An entry for the same program first, as far as its name tells.
        let likeness = |head: &entry::Head| (head.name == name, key.parts.len() - changed(key, head).len());
        let nearest = heads.max_by_key(likeness);
        CacheMiss { changed: nearest.map(|head| changed(key, &head)).unwrap_or_default() }
    }

    fn path(&self, key: &CacheKey) -> PathBuf {
        self.folder.join(format!("{}.{ENTRY}", key.digest))
    }
}

fn head(path: &Path) -> Option<entry::Head> {
    let file = PrivateFile::open(path).ok()?;
    let mut bytes = file.read(HEAD_START).ok()?;
    bytes.extend(file.read(rest_of_head(&bytes).ok()?).ok()?);
    Some(decode_head(&bytes).ok()?.0)
}

/// What does not exist yet is no problem.
fn unless_absent(error: io::Error) -> io::Result<()> {
    if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) }
}

/// The names of the parts in which an entry is another than the key.
fn changed(key: &CacheKey, head: &entry::Head) -> Vec<String> {
    let differs = |part: &&(String, String)| !head.parts.contains(part);
    key.parts.iter().filter(differs).map(|(name, _)| name.clone()).collect()
}

impl Display for CacheSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CacheSummary { folder, read_only, limit, entries, bytes, damaged } = self;
        let (bytes, limit) = (Bytes(*bytes), Bytes(*limit));
        let plural = if *entries == 1 { "" } else { "s" };
        write!(f, "{}: {entries} program{plural}, {bytes} of at most {limit}", folder.display())?;
        if *damaged > 0 {
            write!(f, ", {damaged} damaged")?;
        }
        f.write_str(if *read_only { ", only read" } else { "" })
    }
}

impl CacheMiss {
    /// What is another than in the entry that is most like it, such as `compile options` or `plugin`; nothing, if
    /// there is no entry to compare with.
    pub fn changed(&self) -> &[String] {
        &self.changed
    }
}

impl Display for CacheMiss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.changed.as_slice() {
            [] => f.write_str("nothing like it was kept"),
            changed => write!(f, "since the last one that was kept, {} changed", changed.join(", ")),
        }
    }
}
