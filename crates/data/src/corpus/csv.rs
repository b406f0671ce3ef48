use std::io::{self, Chain, Read};

use csv::{ByteRecord, ErrorKind, Reader, ReaderBuilder};

use super::documents::Rows;
use super::files::TextFile;
use super::input::{self, Input, ReadBytes};
use super::{CorpusError, Place};

/// The records of comma-separated values behind the header, quoted as in RFC 4180.
#[derive(Debug)]
pub(super) struct CsvRows {
    file: TextFile,
    reader: Reader<Ended>,
    record: ByteRecord,
    /// The number and the name of the text column.
    column: (usize, String),
}

/// A file's bytes and a line break more. No record reaches beyond that but one with an open quote.
#[derive(Debug)]
struct Ended {
    input: Chain<Input, &'static [u8]>,
    /// Whether somebody read on nevertheless.
    is_over: bool,
}

impl CsvRows {
    /// Reads the header. Without a name given, the text column is `text`, else the first.
    pub(super) fn open(
        file: TextFile,
        read: &ReadBytes,
        column: Option<String>,
    ) -> Result<CsvRows, CorpusError> {
        let mut reader = ReaderBuilder::new().from_reader(Ended::new(input::open(&file, read)?));
        let header = reader.byte_headers().map_err(|error| csv_error(&file, error))?;
        let names: Vec<String> = header.iter().map(|name| String::from_utf8_lossy(name).into()).collect();
        if !names.is_empty() && reader.get_ref().is_over {
            return Err(CorpusError::OpenQuote { path: file.path, place: Place::Header });
        }
        let position = |wanted: &str| names.iter().position(|name| name == wanted);
        let index = match column {
            // An empty file has no header, and no rows either.
            Some(column) if !names.is_empty() => position(&column).ok_or_else(|| {
                let (path, place, found) = (file.path.clone(), Place::Header, names.clone());
                CorpusError::NoColumn { path, place, column, found }
            })?,
            _ => position("text").unwrap_or(0),
        };
        let name = names.into_iter().nth(index).unwrap_or_default();
        Ok(CsvRows { file, reader, record: ByteRecord::new(), column: (index, name) })
    }
}

impl Rows for CsvRows {
    fn next(&mut self) -> Result<Option<String>, CorpusError> {
        let read = self.reader.read_byte_record(&mut self.record);
        let place = Place::Line(self.record.position().map_or(0, |position| position.line()));
        if self.reader.get_ref().is_over && !matches!(read, Ok(false)) {
            return Err(CorpusError::OpenQuote { path: self.file.path.clone(), place });
        }
        if !read.map_err(|error| csv_error(&self.file, error))? {
            return Ok(None);
        }
        let (index, column) = &self.column;
        let field = self.record.get(*index).expect("all records have as many fields as the header");
        let text = str::from_utf8(field).map_err(|error| CorpusError::FieldNotUtf8 {
            path: self.file.path.clone(),
            place,
            column: column.clone(),
            byte: field[error.valid_up_to()],
        })?;
        Ok(Some(text.to_owned()))
    }
}

impl Ended {
    fn new(input: Input) -> Ended {
        Ended { input: input.chain(b"\n"), is_over: false }
    }
}

impl Read for Ended {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.input.read(buffer)?;
        self.is_over |= read == 0 && !buffer.is_empty();
        Ok(read)
    }
}

fn csv_error(file: &TextFile, error: csv::Error) -> CorpusError {
    let path = file.path.clone();
    match error.into_kind() {
        ErrorKind::UnequalLengths { pos, expected_len: expected, len: found } => {
            let place = Place::Line(pos.map_or(0, |position| position.line()));
            CorpusError::Fields { path, place, found, expected }
        }
        ErrorKind::Io(source) => CorpusError::Read { path, source },
        other => CorpusError::Read { path, source: io::Error::other(format!("{other:?}")) },
    }
}
