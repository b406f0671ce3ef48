//! The bytes of a file, decompressed and counted.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use flate2::read::MultiGzDecoder;

use super::CorpusError;
use super::files::{TextFile, read_error};

/// A file's bytes as its format means them.
pub(super) type Input = BufReader<Decoded>;

/// How many bytes of all files were read, compressed ones as they are on the disk.
#[derive(Clone, Debug, Default)]
pub(super) struct ReadBytes(Arc<AtomicU64>);

impl ReadBytes {
    pub(super) fn add(&self, bytes: u64) {
        self.0.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

pub(super) fn open(file: &TextFile, read: &ReadBytes) -> Result<Input, CorpusError> {
    const BUFFER: usize = 1 << 18;
    let opened = File::open(&file.path).map_err(read_error(&file.path))?;
    let counted = Counted { file: opened, read: read.clone() };
    let decoded = match file.format.gzip {
        true => Decoded::Gzip(Box::new(MultiGzDecoder::new(counted))),
        false => Decoded::Plain(counted),
    };
    Ok(BufReader::with_capacity(BUFFER, decoded))
}

#[derive(Debug)]
pub(super) struct Counted {
    file: File,
    read: ReadBytes,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read(buffer)?;
        self.read.add(read as u64);
        Ok(read)
    }
}

#[derive(Debug)]
pub(super) enum Decoded {
    Plain(Counted),
    Gzip(Box<MultiGzDecoder<Counted>>),
}

impl Read for Decoded {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Decoded::Plain(input) => input.read(buffer),
            Decoded::Gzip(input) => input.read(buffer),
        }
    }
}
