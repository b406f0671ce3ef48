//! Files that are read to their end.

use std::fs::{self, File};
use std::io;
use std::path::Path;

/// Opens a file for reading. Opening a pipe need not end, nor reading a device.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    match fs::metadata(path)?.is_file() {
        true => File::open(path),
        false => Err(io::Error::other("it is no ordinary file")),
    }
}
