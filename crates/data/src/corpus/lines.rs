use std::io::BufRead;

use super::CorpusError;
use super::documents::Rows;
use super::files::{TextFile, read_error};
use super::input::{self, Input, ReadBytes};

/// The lines of one file with their line breaks, as UTF-8. These are the rows of plain text.
#[derive(Debug)]
pub(super) struct Lines {
    file: TextFile,
    input: Input,
    offset: u64,
    /// The number of the last line, from 1.
    pub(super) number: u64,
}

impl Lines {
    pub(super) fn open(file: TextFile, read: &ReadBytes) -> Result<Lines, CorpusError> {
        let input = input::open(&file, read)?;
        Ok(Lines::new(file, input))
    }

    pub(super) fn new(file: TextFile, input: Input) -> Lines {
        Lines { file, input, offset: 0, number: 0 }
    }

    pub(super) fn file(&self) -> &TextFile {
        &self.file
    }
}

impl Rows for Lines {
    fn next(&mut self) -> Result<Option<String>, CorpusError> {
        let path = &self.file.path;
        let mut line = Vec::new();
        let read = self.input.read_until(b'\n', &mut line).map_err(read_error(path))?;
        if read == 0 {
            return Ok(None);
        }
        let start = self.offset;
        self.offset += read as u64;
        self.number += 1;
        // A line break is never part of a longer UTF-8 character, so lines can be checked one by one.
        String::from_utf8(line).map(Some).map_err(|error| {
            let valid = error.utf8_error().valid_up_to();
            let byte = error.as_bytes()[valid];
            CorpusError::NotUtf8 { path: path.clone(), offset: start + valid as u64, byte }
        })
    }
}
