//! Rows that are objects of JSON: one on each line, or the elements of a list.

use std::io::{self, BufRead, Read};
use std::path::PathBuf;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::documents::Rows;
use super::files::{TextFile, read_error};
use super::input::{self, Input, ReadBytes};
use super::lines::Lines;
use super::{CorpusError, Place};

const BYTE_ORDER_MARK: &str = "\u{feff}";

/// What a `.json` file holds, by its first character.
pub(super) fn open(
    file: TextFile,
    read: &ReadBytes,
    column: Option<String>,
) -> Result<Box<dyn Rows>, CorpusError> {
    let mut input = input::open(&file, read)?;
    let start = input.fill_buf().map_err(read_error(&file.path))?;
    let start = start.strip_prefix(BYTE_ORDER_MARK.as_bytes()).unwrap_or(start);
    match start.trim_ascii_start().first() {
        Some(b'[') => Ok(Box::new(JsonArray::new(file, input, column))),
        _ => Ok(Box::new(JsonLines::new(Lines::new(file, input), column))),
    }
}

/// One object per line. Blank lines are skipped.
#[derive(Debug)]
pub(super) struct JsonLines {
    lines: Lines,
    column: TextColumn,
}

impl JsonLines {
    pub(super) fn new(lines: Lines, column: Option<String>) -> JsonLines {
        let path = lines.file().path.clone();
        JsonLines { lines, column: TextColumn { path, name: column } }
    }
}

impl Rows for JsonLines {
    fn next(&mut self) -> Result<Option<String>, CorpusError> {
        while let Some(line) = self.lines.next()? {
            let number = self.lines.number;
            let json = if number == 1 { line.trim_start_matches(BYTE_ORDER_MARK) } else { &line };
            if json.trim().is_empty() {
                continue;
            }
            // Behind the line break the parser would count from the start of a line that does not exist.
            let value = serde_json::from_str(json.trim_end_matches(['\r', '\n'])).map_err(|error| {
                let (path, column) = (self.column.path.clone(), (error.column() as u64).max(1));
                let (line, reason) = (number, reason(&error));
                CorpusError::Json { path, line, column, reason, expected: "one JSON object per line" }
            })?;
            return self.column.text(value, Place::Line(number)).map(Some);
        }
        Ok(None)
    }
}

/// The objects of one list, read one at a time.
#[derive(Debug)]
struct JsonArray {
    input: Located,
    column: TextColumn,
    state: State,
    row: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Start,
    First,
    Later,
    End,
}

impl JsonArray {
    fn new(file: TextFile, input: Input, column: Option<String>) -> JsonArray {
        let column = TextColumn { path: file.path, name: column };
        JsonArray { input: Located { input, line: 1, column: 0 }, column, state: State::Start, row: 0 }
    }

    /// Reads up to the next element; whether there is one.
    fn seek(&mut self) -> Result<bool, CorpusError> {
        if self.state == State::Start {
            self.skip_mark()?;
            self.expect(b"[", "a list")?;
            self.state = State::First;
        }
        if self.state == State::End {
            return Ok(false);
        }
        let ended = match self.state {
            State::First => self.peek()? == Some(b']'),
            _ => self.expect(b",]", "`,` or `]`")? == b']',
        };
        if !ended {
            self.state = State::Later;
            return Ok(true);
        }
        if self.state == State::First {
            self.expect(b"]", "`]`")?;
        }
        self.state = State::End;
        match self.peek()? {
            None => Ok(false),
            Some(byte) => Err(self.unexpected(Some(byte), "nothing behind the list")),
        }
    }

    fn skip_mark(&mut self) -> Result<(), CorpusError> {
        let path = &self.column.path;
        let start = self.input.input.fill_buf().map_err(read_error(path))?;
        if start.starts_with(BYTE_ORDER_MARK.as_bytes()) {
            self.input.input.consume(BYTE_ORDER_MARK.len());
        }
        Ok(())
    }

    /// The next byte that is not white space. It stays unread.
    fn peek(&mut self) -> Result<Option<u8>, CorpusError> {
        loop {
            let path = &self.column.path;
            match self.input.input.fill_buf().map_err(read_error(path))?.first() {
                Some(b' ' | b'\t' | b'\r' | b'\n') => self.input.advance().map_err(read_error(path))?,
                other => return Ok(other.copied()),
            }
        }
    }

    /// Reads the next byte that is not white space, which has to be one of these.
    fn expect(&mut self, bytes: &[u8], what: &'static str) -> Result<u8, CorpusError> {
        match self.peek()? {
            Some(byte) if bytes.contains(&byte) => {
                self.input.advance().map_err(read_error(&self.column.path))?;
                Ok(byte)
            }
            other => Err(self.unexpected(other, what)),
        }
    }

    fn unexpected(&self, found: Option<u8>, expected: &'static str) -> CorpusError {
        let reason = match found {
            None => "the file ends".to_owned(),
            Some(byte) => format!("found `{}`", byte.escape_ascii()),
        };
        let (path, line, column) = (self.column.path.clone(), self.input.line, self.input.column + 1);
        CorpusError::Json { path, line, column, reason, expected }
    }

    fn element(&mut self) -> Result<Value, CorpusError> {
        self.peek()?;
        let (line, column) = (self.input.line, self.input.column);
        // An object ends with its own last byte, so that no byte behind it is read. Others are refused anyway.
        let read = Value::deserialize(&mut serde_json::Deserializer::from_reader(&mut self.input));
        read.map_err(|error| {
            let path = self.column.path.clone();
            if error.is_io() {
                return CorpusError::Read { path, source: error.into() };
            }
            // The parser counts from where the element begins.
            let (lines, reason) = ((error.line() as u64).max(1), reason(&error));
            let column = if lines == 1 { column } else { 0 } + (error.column() as u64).max(1);
            CorpusError::Json { path, line: line + lines - 1, column, reason, expected: "a list of objects" }
        })
    }
}

impl Rows for JsonArray {
    fn next(&mut self) -> Result<Option<String>, CorpusError> {
        if !self.seek()? {
            return Ok(None);
        }
        self.row += 1;
        let value = self.element()?;
        self.column.text(value, Place::Row(self.row)).map(Some)
    }
}

/// An input that knows where it stands.
#[derive(Debug)]
struct Located {
    input: Input,
    /// The line of the next byte, from 1.
    line: u64,
    /// Bytes of that line that were read.
    column: u64,
}

impl Located {
    fn advance(&mut self) -> io::Result<()> {
        self.read(&mut [0]).map(drop)
    }
}

impl Read for Located {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.input.read(buffer)?;
        for &byte in &buffer[..read] {
            (self.line, self.column) =
                if byte == b'\n' { (self.line + 1, 0) } else { (self.line, self.column + 1) };
        }
        Ok(read)
    }
}

/// The text column of a file, known after its first row at the latest.
#[derive(Debug)]
struct TextColumn {
    path: PathBuf,
    name: Option<String>,
}

impl TextColumn {
    fn text(&mut self, row: Value, place: Place) -> Result<String, CorpusError> {
        let path = || self.path.clone();
        let Value::Object(mut row) = row else {
            return Err(CorpusError::NotAnObject { path: path(), place, found: json_type(&row) });
        };
        let column = self.name.get_or_insert_with(|| default_column(&row)).clone();
        match row.remove(column.as_str()) {
            Some(Value::String(text)) => Ok(text),
            Some(other) => {
                let found = json_type(&other).to_owned();
                Err(CorpusError::NotAString { path: self.path.clone(), place, column, found })
            }
            None => {
                let found = row.keys().cloned().collect();
                Err(CorpusError::NoColumn { path: self.path.clone(), place, column, found })
            }
        }
    }
}

/// `text`, else the first column that holds a string, else the first one.
fn default_column(row: &Map<String, Value>) -> String {
    let mut columns = row.iter();
    let string = columns.clone().find(|(_, value)| value.is_string());
    let name = match string.or_else(|| columns.next()) {
        Some((name, _)) if !row.contains_key("text") => name,
        _ => "text",
    };
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

/// What a parser error says, without its position: that would count from the start of the row as line 1.
fn reason(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.rsplit_once(" at line ").map_or(text.clone(), |(reason, _)| reason.to_owned())
}
