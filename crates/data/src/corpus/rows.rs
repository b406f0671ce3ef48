use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::slice;

use serde_json::{Map, Value};

use super::files::{Format, TextFile, read_error};
use super::{Corpus, CorpusError};
use crate::DataError;

/// The rows of a [`Corpus`], in order.
#[derive(Debug)]
pub struct Documents<'a> {
    files: slice::Iter<'a, TextFile>,
    current: Option<Rows<'a>>,
    text_column: Option<&'a str>,
    skip: u64,
    remaining: u64,
}

impl<'a> Documents<'a> {
    pub(super) fn new(corpus: &'a Corpus) -> Documents<'a> {
        Documents {
            files: corpus.files.iter(),
            current: None,
            text_column: corpus.options.text_column.as_deref(),
            skip: corpus.rows.start,
            remaining: corpus.rows.end - corpus.rows.start,
        }
    }

    /// The next row of the files, whether or not it lies in the range of the corpus.
    fn next_in_files(&mut self) -> Result<Option<String>, CorpusError> {
        loop {
            if let Some(rows) = &mut self.current
                && let Some(row) = rows.next()?
            {
                return Ok(Some(row));
            }
            match self.files.next() {
                Some(file) => self.current = Some(Rows::open(file, self.text_column)?),
                None => return Ok(None),
            }
        }
    }

    fn next_in_range(&mut self) -> Result<Option<String>, CorpusError> {
        while self.skip > 0 {
            self.skip -= 1;
            self.next_in_files()?;
        }
        self.next_in_files()
    }
}

impl Iterator for Documents<'_> {
    type Item = Result<String, DataError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.remaining == 0 {
            return None;
        }
        self.remaining -= 1;
        let row = self.next_in_range().map_err(DataError::from).transpose();
        if !matches!(row, Some(Ok(_))) {
            self.remaining = 0;
        }
        row
    }
}

/// The rows of one file.
#[derive(Debug)]
struct Rows<'a> {
    lines: Lines<'a>,
    format: Format,
    /// The text column of JSON lines, known after the first row at the latest.
    column: Option<String>,
}

impl<'a> Rows<'a> {
    fn open(file: &'a TextFile, text_column: Option<&str>) -> Result<Rows<'a>, CorpusError> {
        let lines = Lines::open(&file.path)?;
        Ok(Rows { lines, format: file.format, column: text_column.map(str::to_owned) })
    }

    fn next(&mut self) -> Result<Option<String>, CorpusError> {
        while let Some(line) = self.lines.next()? {
            match self.format {
                Format::Text => return Ok(Some(line)),
                Format::JsonLines => {
                    let json =
                        if self.lines.number == 1 { line.trim_start_matches('\u{feff}') } else { &line };
                    if !json.trim().is_empty() {
                        return self.text_of(json).map(Some);
                    }
                }
            }
        }
        Ok(None)
    }

    fn text_of(&mut self, json: &str) -> Result<String, CorpusError> {
        let path = self.lines.path.to_path_buf();
        let line = self.lines.number;
        // Behind the line break the parser would count from the start of a line that does not exist.
        let mut row = match serde_json::from_str(json.trim_end_matches(['\r', '\n'])) {
            Ok(Value::Object(row)) => row,
            Ok(other) => return Err(CorpusError::NotAnObject { path, line, found: json_type(&other) }),
            Err(error) => {
                let (column, reason) = (error.column().max(1), reason(&error));
                return Err(CorpusError::Json { path, line, column, reason });
            }
        };
        let column = self.column.get_or_insert_with(|| default_column(&row));
        match row.remove(column.as_str()) {
            Some(Value::String(text)) => Ok(text),
            Some(other) => {
                let (column, found) = (column.clone(), json_type(&other));
                Err(CorpusError::NotAString { path, line, column, found })
            }
            None => {
                let (column, found) = (column.clone(), row.keys().cloned().collect());
                Err(CorpusError::NoColumn { path, line, column, found })
            }
        }
    }
}

/// The lines of one file with their line breaks, as UTF-8.
#[derive(Debug)]
struct Lines<'a> {
    path: &'a Path,
    reader: BufReader<File>,
    offset: u64,
    number: u64,
}

impl<'a> Lines<'a> {
    fn open(path: &'a Path) -> Result<Lines<'a>, CorpusError> {
        const BUFFER: usize = 1 << 18;
        let file = File::open(path).map_err(read_error(path))?;
        Ok(Lines { path, reader: BufReader::with_capacity(BUFFER, file), offset: 0, number: 0 })
    }

    fn next(&mut self) -> Result<Option<String>, CorpusError> {
        let mut line = Vec::new();
        let read = self.reader.read_until(b'\n', &mut line).map_err(read_error(self.path))?;
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
            CorpusError::NotUtf8 { path: self.path.to_path_buf(), offset: start + valid as u64, byte }
        })
    }
}

fn default_column(row: &Map<String, Value>) -> String {
    let name =
        if row.contains_key("text") { "text" } else { row.keys().next().map_or("text", String::as_str) };
    name.to_owned()
}

fn json_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

/// What a parser error says, without its position: that would count from the start of the line as line 1.
fn reason(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.rsplit_once(" at line ").map_or(text.clone(), |(reason, _)| reason.to_owned())
}
