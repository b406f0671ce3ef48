use std::fmt;

use sha2::{Digest, Sha256};

use crate::error::Error;

/// A compiled program as bytes, in a form that the build of the plugin that made it knows, and no other.
///
/// The bytes are native code in a wrapping, and plugins believe them: from damaged bytes they crash or run
/// nonsense. So there are two ways to have one only. [`Executable::serialize`](crate::Executable::serialize) gives
/// one, and [`SerializedExecutable::from_trusted`] takes bytes back whose digest was noted down when they were
/// made. Taking them is a decision of trust, as [`Plugin::load`](crate::Plugin::load) is: take back what this user
/// has written, where nobody else could have.
///
/// ```
/// use shardwright_pjrt::SerializedExecutable;
///
/// let error = SerializedExecutable::from_trusted(b"damaged".to_vec(), [0; 32]).unwrap_err();
/// assert!(error.to_string().starts_with("refused: serialized executable: its sha256 is "));
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct SerializedExecutable {
    bytes: Vec<u8>,
    digest: [u8; 32],
}

impl SerializedExecutable {
    pub(crate) fn new(bytes: Vec<u8>) -> SerializedExecutable {
        let digest = Sha256::digest(&bytes).into();
        SerializedExecutable { bytes, digest }
    }

    /// Takes bytes back that [`SerializedExecutable::bytes`] gave, provided that they have the digest which
    /// [`SerializedExecutable::digest`] gave then.
    pub fn from_trusted(bytes: Vec<u8>, digest: [u8; 32]) -> Result<SerializedExecutable, Error> {
        let this = SerializedExecutable::new(bytes);
        if this.digest == digest {
            return Ok(this);
        }
        let message = format!(
            "its sha256 is {}, expected {}: the bytes were changed since they were written",
            hex(&this.digest),
            hex(&digest)
        );
        Err(Error::refused("serialized executable", message))
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The SHA-256 digest of the bytes.
    pub fn digest(&self) -> [u8; 32] {
        self.digest
    }
}

impl fmt::Debug for SerializedExecutable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SerializedExecutable({} bytes, sha256 {})", self.bytes.len(), hex(&self.digest))
    }
}

fn hex(digest: &[u8]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}
