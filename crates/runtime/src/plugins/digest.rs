//! SHA-256 digests: a type for the value, and reading or copying while computing one.

use std::fmt;
use std::io::{self, Read};
use std::str::FromStr;

use sha2::{Digest, Sha256};

/// A SHA-256 digest, written as 64 lower-case hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Sha256Digest([u8; 32]);

/// The text is not 64 hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a sha256 digest: expected 64 hexadecimal digits")]
pub struct InvalidDigest(String);

impl Sha256Digest {
    pub(crate) fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    pub(crate) fn bytes(self) -> [u8; 32] {
        self.0
    }

    /// The first 16 digits: enough to name a folder.
    pub(super) fn short(&self) -> String {
        self.to_string()[..16].to_owned()
    }
}

impl fmt::Display for Sha256Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Sha256Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sha256Digest({self})")
    }
}

impl FromStr for Sha256Digest {
    type Err = InvalidDigest;

    fn from_str(text: &str) -> Result<Self, InvalidDigest> {
        let invalid = || InvalidDigest(text.to_owned());
        // `from_str_radix` would also take a sign.
        if text.len() != 64 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(invalid());
        }
        let mut bytes = [0; 32];
        for (byte, at) in bytes.iter_mut().zip((0..64).step_by(2)) {
            *byte = u8::from_str_radix(&text[at..at + 2], 16).map_err(|_| invalid())?;
        }
        Ok(Self(bytes))
    }
}

/// Hand everything `reader` yields to `each`, chunk by chunk, and return its digest.
///
/// `read_failed` turns a failed read into the caller's error, so that it can be told from a failed
/// write in `each`.
pub(crate) fn digest_while<E>(
    reader: &mut dyn Read,
    read_failed: impl Fn(io::Error) -> E,
    mut each: impl FnMut(&[u8]) -> Result<(), E>,
) -> Result<Sha256Digest, E> {
    let mut hasher = Sha256::new();
    let mut chunk = vec![0; 1 << 18];
    loop {
        match reader.read(&mut chunk) {
            Ok(0) => return Ok(Sha256Digest(hasher.finalize().into())),
            Ok(n) => {
                hasher.update(&chunk[..n]);
                each(&chunk[..n])?;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(read_failed(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    #[test]
    fn digest_is_the_published_one_and_covers_what_was_handed_on() {
        let mut copied = Vec::new();
        let digest = digest_while(
            &mut &b"abc"[..],
            |error| error,
            |chunk| {
                copied.extend_from_slice(chunk);
                Ok(())
            },
        );
        assert_eq!(digest.unwrap().to_string(), ABC);
        assert_eq!(copied, b"abc");
    }

    #[test]
    fn digest_text_round_trips_and_other_text_is_refused() {
        assert_eq!(ABC.parse::<Sha256Digest>().unwrap().to_string(), ABC);
        assert_eq!(ABC.to_uppercase().parse::<Sha256Digest>(), ABC.parse::<Sha256Digest>());
        for text in [
            "",
            "ba78",
            &ABC.replace('b', "g"),
            &format!("{ABC}00"),
            &ABC.replace("ba", "+a"),
            &"é".repeat(32),
        ] {
            assert_eq!(text.parse::<Sha256Digest>(), Err(InvalidDigest(text.to_owned())));
        }
    }
}
