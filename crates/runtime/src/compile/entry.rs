//! The form of an entry: a head that says what the executable is and what it was made of, and the executable.
//!
//! ```text
//! magic   8 bytes
//! size    of the head, 4 bytes, little-endian
//! head    JSON
//! digest  SHA-256 of all that stands before, 32 bytes
//! executable, whose size and SHA-256 the head states
//! ```
//!
//! So no byte can change without notice, and a head can be read without the rest.

use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use shardwright_partition::Bytes;
use shardwright_pjrt::SerializedExecutable;
use thiserror::Error;

use super::key::{CacheKey, Part, Source};
use super::private::PrivateFile;
use crate::plugins::Sha256Digest;

const MAGIC: &[u8; 8] = b"SWEXEC2\n";
const DIGEST_SIZE: usize = 32;

/// A file that says that its head has more is not read.
pub(super) const MOST_HEAD_BYTES: usize = 1 << 20;

/// How much of a file says how large its head is.
const HEAD_START: usize = MAGIC.len() + 4;

/// What an entry says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Head {
    /// The program's name.
    pub(super) name: String,
    /// What the program takes and gives, as a digest.
    pub(super) signature: String,
    /// What the executable depends on.
    pub(super) parts: Vec<Part>,
    bytes: u64,
    sha256: String,
}

/// A file whose head is right.
#[derive(Debug)]
pub(super) struct Entry {
    file: PrivateFile,
    pub(super) head: Head,
    /// Where the executable begins.
    start: u64,
}

/// Why there is no entry, or none that may be used.
#[derive(Debug, Error)]
pub(super) enum Fault {
    #[error("there is none")]
    Absent,
    #[error(transparent)]
    Damaged(#[from] Damage),
    #[error(transparent)]
    Unreadable(io::Error),
    #[error("it has {}, more than the limit of {}", Bytes(*size), Bytes(*limit))]
    TooLarge { size: u64, limit: u64 },
}

/// Why a file is no entry, or that of something else.
#[derive(Debug, Error)]
pub(super) enum Damage {
    #[error("it does not begin as entries do")]
    Magic,
    #[error("it ends too early")]
    Truncated,
    #[error("its head is not what was written")]
    Head,
    #[error("it has {found} bytes of an executable, and says {stated}")]
    Size { stated: u64, found: u64 },
    #[error("it was made for another program, plugin or machine than its name says")]
    OtherKey,
    #[error("its executable is not what was written")]
    Executable,
}

impl Entry {
    /// Reads the head and no more, and that only of a file that nobody else could have written.
    pub(super) fn open(path: &Path) -> Result<Entry, Fault> {
        let file = PrivateFile::open(path)?;
        let mut bytes = file.read(HEAD_START as u64)?;
        let rest = head_size(&bytes)? + DIGEST_SIZE;
        bytes.extend(file.read(rest as u64)?);
        Ok(Entry { head: decode_head(&bytes)?, start: bytes.len() as u64, file })
    }

    /// The executable, if this is the entry of that key and has at most `limit` bytes. Memory is taken only for what
    /// the head, which has a digest, says that there is.
    pub(super) fn executable(&self, key: &CacheKey, limit: u64) -> Result<SerializedExecutable, Fault> {
        if self.head.parts != key.parts {
            return Err(Damage::OtherKey.into());
        }
        let (stated, found) = (self.head.bytes, self.file.size().saturating_sub(self.start));
        if found != stated {
            return Err(Damage::Size { stated, found }.into());
        }
        if self.file.size() > limit {
            return Err(Fault::TooLarge { size: self.file.size(), limit });
        }
        let digest: Sha256Digest = self.head.sha256.parse().map_err(|_| Damage::Head)?;
        let bytes = self.file.read(stated)?;
        Ok(SerializedExecutable::from_trusted(bytes, digest.bytes()).map_err(|_| Damage::Executable)?)
    }

    /// Notes that it was used.
    pub(super) fn touch(&self) {
        self.file.touch();
    }
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Fault {
        match error.kind() {
            io::ErrorKind::NotFound => Fault::Absent,
            _ => Fault::Unreadable(error),
        }
    }
}

/// The file's content up to the executable, which follows.
pub(super) fn encode_head(source: &Source<'_>, key: &CacheKey, executable: &SerializedExecutable) -> Vec<u8> {
    let head = Head {
        name: source.name.to_owned(),
        signature: source.signature(),
        parts: key.parts.clone(),
        bytes: executable.bytes().len() as u64,
        sha256: Sha256Digest::from_bytes(executable.digest()).to_string(),
    };
    let json = serde_json::to_vec(&head).expect("texts and numbers are JSON");
    let mut bytes = MAGIC.to_vec();
    bytes.extend((json.len() as u32).to_le_bytes());
    bytes.extend(json);
    let digest = Sha256::digest(&bytes);
    bytes.extend(digest);
    bytes
}

fn head_size(bytes: &[u8]) -> Result<usize, Damage> {
    let rest = bytes.strip_prefix(MAGIC).ok_or(Damage::Magic)?;
    let (size, _) = rest.split_first_chunk().ok_or(Damage::Truncated)?;
    match u32::from_le_bytes(*size) as usize {
        size if size > MOST_HEAD_BYTES => Err(Damage::Head),
        size => Ok(size),
    }
}

/// The head in all that stands before the executable.
fn decode_head(bytes: &[u8]) -> Result<Head, Damage> {
    let end = HEAD_START + head_size(bytes)?;
    let digest = bytes.get(end..end + DIGEST_SIZE).ok_or(Damage::Truncated)?;
    if Sha256::digest(&bytes[..end]).as_slice() != digest {
        return Err(Damage::Head);
    }
    serde_json::from_slice(&bytes[HEAD_START..end]).map_err(|_| Damage::Head)
}
