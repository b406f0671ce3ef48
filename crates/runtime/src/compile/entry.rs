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

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use shardwright_pjrt::SerializedExecutable;
use thiserror::Error;

use super::key::{CacheKey, Part};
use crate::plugins::Sha256Digest;

const MAGIC: &[u8; 8] = b"SWEXEC1\n";
const DIGEST_SIZE: usize = 32;

/// More than any head has.
const MOST_HEAD_BYTES: usize = 1 << 20;

/// How much of a file says how large its head is.
pub(super) const HEAD_START: u64 = MAGIC.len() as u64 + 4;

/// What an entry says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Head {
    /// The program's name.
    pub(super) name: String,
    /// What the executable depends on.
    pub(super) parts: Vec<Part>,
    bytes: u64,
    sha256: String,
}

/// Why a file is no entry that may be used.
#[derive(Debug, Error)]
pub(super) enum Damage {
    #[error("it does not begin as entries do")]
    Magic,
    #[error("it ends too early")]
    Truncated,
    #[error("its head is not what was written")]
    Head,
    #[error("it has {found} bytes of an executable, and says {stated}")]
    Size { stated: u64, found: usize },
    #[error("it was made for another program, plugin or machine than its name says")]
    OtherKey,
    #[error("its executable is not what was written")]
    Executable,
}

/// The file's content up to the executable, which follows.
pub(super) fn encode_head(name: &str, key: &CacheKey, executable: &SerializedExecutable) -> Vec<u8> {
    let head = Head {
        name: name.to_owned(),
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

/// How many bytes of the head follow after the first [`HEAD_START`].
pub(super) fn rest_of_head(start: &[u8]) -> Result<u64, Damage> {
    Ok((head_size(start)? + DIGEST_SIZE) as u64)
}

fn head_size(bytes: &[u8]) -> Result<usize, Damage> {
    let rest = bytes.strip_prefix(MAGIC).ok_or(Damage::Magic)?;
    let (size, _) = rest.split_first_chunk().ok_or(Damage::Truncated)?;
    match u32::from_le_bytes(*size) as usize {
        size if size > MOST_HEAD_BYTES => Err(Damage::Head),
        size => Ok(size),
    }
}

/// The head at the beginning of a file, and where the executable begins.
pub(super) fn decode_head(bytes: &[u8]) -> Result<(Head, usize), Damage> {
    let json = MAGIC.len() + 4;
    let end = json + head_size(bytes)?;
    let digest = bytes.get(end..end + DIGEST_SIZE).ok_or(Damage::Truncated)?;
    if Sha256::digest(&bytes[..end]).as_slice() != digest {
        return Err(Damage::Head);
    }
    let head = serde_json::from_slice(&bytes[json..end]).map_err(|_| Damage::Head)?;
    Ok((head, end + DIGEST_SIZE))
}

/// The executable in a file that is the entry of this key.
pub(super) fn decode(mut bytes: Vec<u8>, key: &CacheKey) -> Result<SerializedExecutable, Damage> {
    let (head, start) = decode_head(&bytes)?;
    if head.parts != key.parts {
        return Err(Damage::OtherKey);
    }
    let executable = bytes.split_off(start);
    if executable.len() as u64 != head.bytes {
        return Err(Damage::Size { stated: head.bytes, found: executable.len() });
    }
    let digest: Sha256Digest = head.sha256.parse().map_err(|_| Damage::Head)?;
    SerializedExecutable::from_trusted(executable, digest.bytes()).map_err(|_| Damage::Executable)
}
