//! Compiled programs on the disk.

use std::fmt::{self, Display};
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use shardwright_partition::Bytes;
use shardwright_pjrt::SerializedExecutable;

use super::entry::{Entry, Fault, Head, MOST_HEAD_BYTES, encode_head};
use super::folder::{DAMAGED, ENTRY, Files};
use super::key::{CacheKey, Source};
use super::private;

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
    /// The size of all entries together, of damaged ones too.
    pub bytes: u64,
    /// Damaged entries that were put aside. They go first when room is needed.
    pub damaged: usize,
}

/// Why a program was not taken from the cache.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CacheMiss {
    /// No program of this name that takes and gives the same is kept.
    New,
    /// The one that was used last depends on other things: these, such as `compile options` or `plugin`.
    Changed(Vec<String>),
    /// Its entry is not what was written, and was put aside where that may be done.
    Damaged(String),
    /// Its entry, or the folder, may not or cannot be used.
    Refused(String),
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
    /// When the folder is one that no program is taken from, or none is kept in though it is not only read.
    pub fn summary(&self) -> io::Result<CacheSummary> {
        if !self.read_only {
            private::check_writable(&self.folder)?;
        }
        self.check_folder()?;
        let files = Files::list(&self.folder)?;
        Ok(CacheSummary {
            folder: self.folder.clone(),
            read_only: self.read_only,
            limit: self.limit,
            entries: files.with_ending(ENTRY).count(),
            bytes: files.all().map(|file| file.size).sum(),
            damaged: files.with_ending(DAMAGED).count(),
        })
    }

    /// Refuses a folder in which others could have written. None at all is fine.
    ///
    /// # Errors
    /// When it cannot be used.
    pub(super) fn check_folder(&self) -> io::Result<()> {
        private::check_folder(&self.folder).or_else(|error| match error.kind() {
            io::ErrorKind::NotFound => Ok(()),
            _ => Err(error),
        })
    }

    /// The executable of this key, from a folder that was checked. What is wrong with an entry is logged, and is a
    /// miss.
    pub(super) fn get(&self, key: &CacheKey, source: &Source<'_>) -> Result<SerializedExecutable, CacheMiss> {
        let path = self.path(key);
        let found = Entry::open(&path).and_then(|entry| {
            let executable = entry.executable(key, self.limit)?;
            if !self.read_only {
                entry.touch();
            }
            Ok(executable)
        });
        found.map_err(|fault| match fault {
            Fault::Absent => self.explain(key, source),
            Fault::Damaged(damage) => self.put_aside(key, source.name, &damage),
            Fault::Unreadable(_) | Fault::TooLarge { .. } => self.pass_over(key, source.name, &fault),
        })
    }

    /// Takes an entry out of use that cannot be right, whoever found that out.
    pub(super) fn put_aside(&self, key: &CacheKey, name: &str, reason: &dyn Display) -> CacheMiss {
        let path = self.path(key);
        let entry = path.display();
        tracing::warn!("compiled program {entry} is damaged: {reason}; program {name} is compiled again");
        if !self.read_only
            && let Err(error) = fs::rename(&path, path.with_extension(DAMAGED))
        {
            tracing::debug!("cannot put {entry} aside: {error}");
        }
        CacheMiss::Damaged(reason.to_string())
    }

    /// Leaves an entry as it is.
    pub(super) fn pass_over(&self, key: &CacheKey, name: &str, reason: &dyn Display) -> CacheMiss {
        let path = self.path(key);
        let entry = path.display();
        tracing::warn!("compiled program {entry} is not used: {reason}; program {name} is compiled again");
        CacheMiss::Refused(reason.to_string())
    }

    /// Keeps an executable.
    ///
    /// # Errors
    /// When it cannot be written. Nothing is left of it then.
    pub(super) fn put(
        &self,
        key: &CacheKey,
        source: &Source<'_>,
        executable: &SerializedExecutable,
    ) -> io::Result<()> {
        let name = source.name;
        let head = encode_head(source, key, executable);
        let size = (head.len() + executable.bytes().len()) as u64;
        if self.read_only || size > self.limit || head.len() > MOST_HEAD_BYTES {
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

    /// How the key differs from that of the entry of the same program that was used last.
    fn explain(&self, key: &CacheKey, source: &Source<'_>) -> CacheMiss {
        let signature = source.signature();
        let files = Files::list(&self.folder).unwrap_or_default();
        let mut heads = files.with_ending(ENTRY).rev().take(MOST_COMPARED).filter_map(|file| {
            let entry = Entry::open(&file.path).ok()?;
            Some(entry.head).filter(|head| head.name == source.name && head.signature == signature)
        });
        let youngest = heads.next().map(|head| changed(key, &head));
        youngest.map_or(CacheMiss::New, CacheMiss::Changed)
    }

    fn path(&self, key: &CacheKey) -> PathBuf {
        self.folder.join(format!("{}.{ENTRY}", key.digest))
    }
}

/// The names of the parts in which an entry is another than the key.
fn changed(key: &CacheKey, head: &Head) -> Vec<String> {
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

impl Display for CacheMiss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CacheMiss::New => f.write_str("nothing like it was kept"),
            CacheMiss::Changed(parts) => {
                write!(f, "since the one that was used last, {} changed", parts.join(", "))
            }
            CacheMiss::Damaged(reason) => write!(f, "what was kept is damaged: {reason}"),
            CacheMiss::Refused(reason) => write!(f, "what was kept is not used: {reason}"),
        }
    }
}
