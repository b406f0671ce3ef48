use std::fmt;

use sha2::{Digest, Sha256};

use crate::Plugin;
use crate::error::Error;

/// A compiled program as bytes, in a form that the build of the plugin that made it knows, and no other.
///
/// The bytes are native code in a wrapping, and plugins believe them: from damaged bytes, or those of another build,
/// they crash or run nonsense. So there are two ways to have one only. [`Executable::serialize`] gives one, and
/// [`SerializedExecutable::from_trusted`] takes bytes back whose digest was noted down when they were made. The bytes
/// begin with what the plugin says of itself, and [`Client::load`](crate::Client::load) refuses those of another.
///
/// [`Executable::serialize`]: crate::Executable::serialize
///
/// ```
/// use shardwright_pjrt::SerializedExecutable;
///
/// let error = SerializedExecutable::from_trusted(b"damaged".to_vec(), [0; 32]).unwrap_err();
/// assert!(error.to_string().starts_with("refused: serialized executable: its sha256 is "));
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct SerializedExecutable {
    /// Two lines, the mark and the plugin's, and then the plugin's own bytes.
    bytes: Vec<u8>,
    digest: [u8; 32],
    maker: String,
    /// Where the plugin's own bytes begin.
    start: usize,
}

/// The first line: no plugin's own bytes begin like this.
const MARK: &[u8] = b"shardwright-pjrt-executable-1\n";

impl SerializedExecutable {
    /// What this plugin has serialized.
    pub(crate) fn new(bytes: &[u8], plugin: &Plugin) -> SerializedExecutable {
        let maker = plugin.build();
        let head = [MARK, maker.as_bytes(), b"\n"].concat();
        let start = head.len();
        let bytes = [head.as_slice(), bytes].concat();
        SerializedExecutable { digest: Sha256::digest(&bytes).into(), bytes, maker, start }
    }

    /// Takes bytes back that [`SerializedExecutable::bytes`] gave, provided that they have the digest which
    /// [`SerializedExecutable::digest`] gave then.
    ///
    /// Calling this is a decision of trust, as [`Plugin::load`] is: the bytes will be executed. Take back what this
    /// user has written, where nobody else could have written bytes and digest since. What the plugin says of itself
    /// tells versions apart; that the same version is also the same build is for the caller to know.
    pub fn from_trusted(bytes: Vec<u8>, digest: [u8; 32]) -> Result<SerializedExecutable, Error> {
        let refused = |message: String| Error::refused("serialized executable", message);
        let found: [u8; 32] = Sha256::digest(&bytes).into();
        if found != digest {
            return Err(refused(format!(
                "its sha256 is {}, expected {}: the bytes were changed since they were written",
                hex(&found),
                hex(&digest)
            )));
        }
        let maker = bytes.strip_prefix(MARK).and_then(|rest| rest.split(|&byte| byte == b'\n').next());
        let maker = maker.map(|maker| String::from_utf8_lossy(maker).into_owned()).ok_or_else(|| {
            refused("it does not begin as what this version of the library has serialized".to_owned())
        })?;
        let start = (MARK.len() + maker.len() + 1).min(bytes.len());
        Ok(SerializedExecutable { bytes, digest, maker, start })
    }

    /// The bytes, to be kept and taken back.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The SHA-256 digest of the bytes.
    pub fn digest(&self) -> [u8; 32] {
        self.digest
    }

    /// The bytes that the plugin gave, provided that it is this one.
    pub(crate) fn made_by(&self, plugin: &Plugin) -> Result<&[u8], Error> {
        let (expected, found) = (plugin.build(), &self.maker);
        if *found != expected {
            let message = format!("a plugin with {found} has made it, this one has {expected}");
            return Err(Error::refused("serialized executable", message));
        }
        Ok(&self.bytes[self.start..])
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
