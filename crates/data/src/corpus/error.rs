use std::fmt;
use std::path::PathBuf;

use thiserror::Error;

use super::Skipped;

/// What can be wrong with the files of a corpus.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CorpusError {
    /// Nothing to open.
    #[error("no text was given: name at least one file or folder")]
    NoPaths,
    /// A file or folder that cannot be opened or read.
    #[error("cannot read {path}")]
    Read {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A device, a socket or a pipe: rows are read more than once.
    #[error("{path} is neither a file nor a folder: save the text to a file first")]
    NotAFile {
        /// What was given.
        path: PathBuf,
    },
    /// A pattern that means nothing.
    #[error("{pattern} is neither a file nor a pattern of files: {reason}")]
    Pattern {
        /// What was given.
        pattern: PathBuf,
        /// What is wrong with it as a pattern.
        reason: &'static str,
    },
    /// A pattern that fits no file.
    #[error(
        "no file is called {pattern}, and none fits it as a pattern{}",
        match .folders {
            0 => String::new(),
            n => format!("; {n} folders do: for the files in them, end it with /* or, at any depth, with /**/*"),
        }
    )]
    NoMatch {
        /// What was given.
        pattern: PathBuf,
        /// The folders that it fits.
        folders: usize,
    },
    /// A folder without a file to read.
    #[error(
        "folder {path} holds no text files (skipped: {skipped}){}",
        if .skipped.json > 0 { "; to read a .json file as rows, name the file itself" } else { "" }
    )]
    NoTextFiles {
        /// The folder.
        path: PathBuf,
        /// What it holds instead.
        skipped: Skipped,
    },
    /// Files of zero bytes only.
    #[error("{corpus}: file is empty, expected text")]
    Empty {
        /// The corpus, by its files.
        corpus: String,
    },
    /// A file that was written to between two times that it was read.
    #[error("{path} was changed while it was read: start again once nothing writes to it")]
    Changed {
        /// The file.
        path: PathBuf,
    },
    /// Text in another encoding, or no text at all.
    #[error("{path}: byte {byte:#04x} at offset {offset} is not UTF-8: convert the file or leave it out")]
    NotUtf8 {
        /// The file.
        path: PathBuf,
        /// Where, from the start of the file, of a compressed one from the start of what is in it.
        offset: u64,
        /// The first byte that does not belong.
        byte: u8,
    },
    /// A field in another encoding.
    #[error(
        "{path}: {place}, column `{column}` holds the byte {byte:#04x}, which is not UTF-8: convert the file or leave it out"
    )]
    FieldNotUtf8 {
        /// The file.
        path: PathBuf,
        /// The row.
        place: Place,
        /// The column.
        column: String,
        /// The first byte that does not belong.
        byte: u8,
    },
    /// Text that is not JSON.
    #[error("{path}: line {line}, column {column} is not JSON: {reason}; expected {expected}")]
    Json {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// The column, from 1.
        column: u64,
        /// What the parser says.
        reason: String,
        /// What the file should hold.
        expected: &'static str,
    },
    /// A row of CSV with more or fewer fields than the header.
    #[error("{path}: {place} has {found} fields, expected {expected}, as in the header")]
    Fields {
        /// The file.
        path: PathBuf,
        /// Where the row begins.
        place: Place,
        /// Fields of the row.
        found: u64,
        /// Fields of the header.
        expected: u64,
    },
    /// A quote in CSV behind which all is one field, up to the end of the file.
    #[error(
        "{path}: {place} begins a record with a quote that is never closed: close it, or write a quote that is part of \
         the text twice, inside of quotes"
    )]
    OpenQuote {
        /// The file.
        path: PathBuf,
        /// Where the record begins.
        place: Place,
    },
    /// A file that is damaged, or no Parquet.
    #[error("{path} cannot be read as Parquet: {reason}; the file may be cut off, fetch it again")]
    Parquet {
        /// The file.
        path: PathBuf,
        /// What the reader says.
        reason: String,
    },
    /// A column in a compression that was not built in.
    #[error(
        "{path}: column `{column}` is compressed with {codec}, expected snappy, gzip or nothing: \
         write the file again with one of them"
    )]
    Codec {
        /// The file.
        path: PathBuf,
        /// The text column.
        column: String,
        /// The compression.
        codec: String,
    },
    /// A line that is JSON but holds no row.
    #[error("{path}: {place} holds {found}, expected an object")]
    NotAnObject {
        /// The file.
        path: PathBuf,
        /// Where.
        place: Place,
        /// The JSON type found.
        found: &'static str,
    },
    /// A row, or a file, without the text column.
    #[error("{path}: {place} has no column `{column}`{}", listed(.found))]
    NoColumn {
        /// The file.
        path: PathBuf,
        /// The row, or where columns are declared.
        place: Place,
        /// The column that was looked for.
        column: String,
        /// The columns that are there.
        found: Vec<String>,
    },
    /// A file none of whose columns holds text.
    #[error("{path}: no column holds text{}", listed(.found))]
    NoTextColumn {
        /// The file.
        path: PathBuf,
        /// The columns, with their types.
        found: Vec<String>,
    },
    /// A text column that does not hold text.
    #[error("{path}: {place}, column `{column}` holds {found}, expected a string")]
    NotAString {
        /// The file.
        path: PathBuf,
        /// The row, or where columns are declared.
        place: Place,
        /// The column.
        column: String,
        /// The type found.
        found: String,
    },
    /// A split that leaves one of its parts empty.
    #[error(
        "{percent} percent of the {rows} rows of {corpus} cannot be split off: one part would be empty; \
         name a validation file, or choose another percentage"
    )]
    Split {
        /// The corpus, by its files.
        corpus: String,
        /// Its rows.
        rows: u64,
        /// The part that was asked for.
        percent: u8,
    },
}

/// A place in a file, as the format counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Place {
    /// A line, from 1.
    Line(u64),
    /// A row, from 1: lines say nothing in this format.
    Row(u64),
    /// Where columns are declared.
    Header,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Line(line) => write!(f, "line {line}"),
            Place::Row(row) => write!(f, "row {row}"),
            Place::Header => f.write_str("the header"),
        }
    }
}

fn listed(columns: &[String]) -> String {
    if columns.is_empty() {
        ", nor any other".to_owned()
    } else {
        format!(", its columns are: {}", columns.join(", "))
    }
}
