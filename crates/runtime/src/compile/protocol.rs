//! What goes through the pipes between a process and the child that compiles for it.
//!
//! The child says hello, the parent sends a request, the child sends a reply, each in frames: a letter, a length of 8
//! bytes (little-endian), and that many bytes. The parent then keeps the pipe open until it has what it wants: its end
//! tells the child that nobody waits any more.

use std::io::{self, Read, Write};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use shardwright_pjrt::{ClientOptions, CompileOptions, Error, ProgramFormat, SerializedExecutable};

/// What the child says first, so that another program is not taken for one.
pub(super) const HELLO: &[u8] = b"shardwright-compile-1\n";

/// More bytes than any frame may have: a length is believed only up to here.
const MOST_BYTES: u64 = 16 << 30;

const REQUEST: u8 = b'Q';
const CODE: u8 = b'C';
const EXECUTABLE: u8 = b'X';
const DIGEST: u8 = b'D';
const REFUSED: u8 = b'E';
const NOT_SERIALIZED: u8 = b'N';

/// What is to be compiled, and by what; the code follows in a frame of its own.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Request {
    pub(super) plugin: PathBuf,
    pub(super) client_options: ClientOptions,
    pub(super) format: ProgramFormat,
    pub(super) options: CompileOptions,
    /// The most memory that the child may have, in bytes.
    pub(super) memory_limit: Option<u64>,
}

/// What became of it.
#[derive(Debug)]
pub(super) enum Reply {
    /// Compiled.
    Executable(SerializedExecutable),
    /// The plugin, or the safe layer above it, reported an error.
    Refused(Error),
    /// Compiled, and the plugin cannot give the result away.
    NotSerialized(Error),
}

pub(super) fn write_request(out: &mut dyn Write, request: &[u8], code: &[u8]) -> io::Result<()> {
    write_frame(out, REQUEST, request)?;
    write_frame(out, CODE, code)?;
    out.flush()
}

pub(super) fn read_request(input: &mut dyn Read) -> io::Result<(Request, Vec<u8>)> {
    let request = expect_frame(input, REQUEST)?;
    let request =
        serde_json::from_slice(&request).map_err(|e| broken(format!("the request is unclear: {e}")))?;
    Ok((request, expect_frame(input, CODE)?))
}

pub(super) fn write_reply(out: &mut dyn Write, reply: &Reply) -> io::Result<()> {
    match reply {
        Reply::Executable(executable) => {
            write_frame(out, DIGEST, &executable.digest())?;
            write_frame(out, EXECUTABLE, executable.bytes())?;
        }
        Reply::Refused(error) => write_frame(out, REFUSED, &serde_json::to_vec(error)?)?,
        Reply::NotSerialized(error) => write_frame(out, NOT_SERIALIZED, &serde_json::to_vec(error)?)?,
    }
    out.flush()
}

pub(super) fn read_reply(input: &mut dyn Read) -> io::Result<Reply> {
    let (kind, bytes) = read_frame(input)?;
    let error = || serde_json::from_slice(&bytes).map_err(|e| broken(format!("its error is unclear: {e}")));
    match kind {
        REFUSED => Ok(Reply::Refused(error()?)),
        NOT_SERIALIZED => Ok(Reply::NotSerialized(error()?)),
        DIGEST => {
            let digest = bytes.try_into().map_err(|_| broken("its digest has another length".to_owned()))?;
            let executable = SerializedExecutable::from_trusted(expect_frame(input, EXECUTABLE)?, digest);
            Ok(Reply::Executable(executable.map_err(|e| broken(e.to_string()))?))
        }
        kind => Err(broken(format!("a reply of kind {:?}", char::from(kind)))),
    }
}

/// Reads what the child says first; the error shows what came instead.
pub(super) fn read_hello(input: &mut dyn Read) -> io::Result<()> {
    let mut found = Vec::new();
    input.take(HELLO.len() as u64).read_to_end(&mut found)?;
    match found {
        found if found == HELLO => Ok(()),
        found if HELLO.starts_with(&found) => Err(io::ErrorKind::UnexpectedEof.into()),
        found => Err(broken(format!("it began with {:?}", String::from_utf8_lossy(&found)))),
    }
}

fn write_frame(out: &mut dyn Write, kind: u8, bytes: &[u8]) -> io::Result<()> {
    out.write_all(&[kind])?;
    out.write_all(&(bytes.len() as u64).to_le_bytes())?;
    out.write_all(bytes)
}

fn read_frame(input: &mut dyn Read) -> io::Result<(u8, Vec<u8>)> {
    let mut head = [0; 9];
    input.read_exact(&mut head)?;
    let [kind, length @ ..] = head;
    let length = u64::from_le_bytes(length);
    if length > MOST_BYTES {
        return Err(broken(format!("a frame of {length} bytes")));
    }
    // Memory grows with what has come, and not with what was announced.
    let mut bytes = Vec::new();
    input.take(length).read_to_end(&mut bytes)?;
    if (bytes.len() as u64) < length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok((kind, bytes))
}

fn expect_frame(input: &mut dyn Read, expected: u8) -> io::Result<Vec<u8>> {
    match read_frame(input)? {
        (kind, bytes) if kind == expected => Ok(bytes),
        (kind, _) => Err(broken(format!("a frame of kind {:?}", char::from(kind)))),
    }
}

fn broken(message: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request() -> Request {
        Request {
            plugin: "plugin.so".into(),
            client_options: ClientOptions::default().with("cpu_device_count", 8),
            format: ProgramFormat::Mlir,
            options: CompileOptions::default(),
            memory_limit: Some(1),
        }
    }

    #[test]
    fn a_request_comes_as_it_was_sent() {
        let mut bytes = Vec::new();
        write_request(&mut bytes, &serde_json::to_vec(&request()).unwrap(), b"module {}").unwrap();
        let (found, code) = read_request(&mut bytes.as_slice()).unwrap();
        assert_eq!((found, code), (request(), b"module {}".to_vec()));
        for cut in 0..bytes.len() {
            assert!(read_request(&mut &bytes[..cut]).is_err());
        }
    }

    #[test]
    fn replies_that_are_none_are_errors() {
        let check = |bytes: &[u8], expected: &str| {
            assert_eq!(read_reply(&mut &bytes[..]).unwrap_err().to_string(), expected);
        };
        check(b"Z\0\0\0\0\0\0\0\0", "a reply of kind 'Z'");
        check(b"X\xff\xff\xff\xff\xff\xff\xff\xff", "a frame of 18446744073709551615 bytes");
        check(b"D\x01\0\0\0\0\0\0\0d", "its digest has another length");
        check(b"E\x02\0\0\0\0\0\0\0{}", "its error is unclear: missing field `kind` at line 1 column 2");
        assert_eq!(read_reply(&mut &b"E\x10"[..]).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);

        let mut damaged = b"D\x20\0\0\0\0\0\0\0".to_vec();
        damaged.extend([0; 32]);
        damaged.extend(b"X\x01\0\0\0\0\0\0\0x");
        let error = read_reply(&mut damaged.as_slice()).unwrap_err();
        assert!(error.to_string().starts_with("refused: serialized executable: its sha256 is"), "{error}");
    }

    #[test]
    fn another_program_is_seen_by_its_first_words() {
        assert!(read_hello(&mut &HELLO[..]).is_ok());
        assert_eq!(read_hello(&mut &b"shard"[..]).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        let error = read_hello(&mut &b"usage: ls"[..]).unwrap_err();
        assert_eq!(error.to_string(), "it began with \"usage: ls\"");
    }
}
