//! Which files make up a corpus, and the stream of their rows.
//!
//! A row is what the tokenizer sees at a time:
//!
//! - in a plain text file one line *with* its line break, byte for byte, so that the rows of a file joined are the
//!   file; a last line without a line break is a row too;
//! - in a `.jsonl` or `.json` file the text column of one line, which holds one object; blank lines are skipped.
//!   Inside folders `.json` files are left out.
//!
//! Rows of several files follow one another as if the files were one.

mod files;
mod rows;

use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::DataError;
use files::TextFile;
pub use rows::Documents;

/// How files are read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CorpusOptions {
    /// The column that holds the text in files of JSON lines. By default `text` where the first row of a file has
    /// it, else the first column of that row.
    pub text_column: Option<String>,
}

/// Text files in a fixed order, or a range of their rows.
///
/// It holds names, not text: [`Corpus::documents`] reads the files each time it is called.
#[derive(Clone, Debug)]
pub struct Corpus {
    files: Vec<TextFile>,
    skipped: Skipped,
    options: CorpusOptions,
    rows: Range<u64>,
}

/// What was found in folders and is not part of the corpus.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Skipped {
    /// Files and folders whose names begin with a dot.
    pub hidden: usize,
    /// Files whose first bytes are not UTF-8 text.
    pub not_text: usize,
    /// Files that end in `.json`. They hold rows only where they are named themselves.
    pub json: usize,
    /// Symbolic links to folders, which could lead in circles, and links to nothing.
    pub links: usize,
}

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
    /// Text in another encoding, or no text at all.
    #[error("{path}: byte {byte:#04x} at offset {offset} is not UTF-8: convert the file or leave it out")]
    NotUtf8 {
        /// The file.
        path: PathBuf,
        /// Where, from the start of the file.
        offset: u64,
        /// The first byte that does not belong.
        byte: u8,
    },
    /// A line that is not JSON.
    #[error("{path}: line {line}, column {column} is not JSON: {reason}; expected one JSON object per line")]
    Json {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// The column, from 1.
        column: usize,
        /// What the parser says.
        reason: String,
    },
    /// A line that is JSON but holds no row.
    #[error("{path}: line {line} holds {found}, expected one object per line")]
    NotAnObject {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// The JSON type found.
        found: &'static str,
    },
    /// A row without the text column.
    #[error("{path}: line {line} has no column `{column}`, its columns are: {}", .found.join(", "))]
    NoColumn {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// The column that was looked for.
        column: String,
        /// The columns of this row.
        found: Vec<String>,
    },
    /// A row whose text column is not text.
    #[error("{path}: line {line}, column `{column}` holds {found}, expected a string")]
    NotAString {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// The column.
        column: String,
        /// The JSON type found.
        found: &'static str,
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

impl Corpus {
    /// The corpus of these files and folders, in the order given.
    ///
    /// Folders are walked recursively in the order of their names. What is hidden, not text, or a `.json` file is
    /// skipped there and counted in [`Corpus::skipped`]; a file that is named itself is never skipped.
    pub fn open(paths: &[PathBuf], options: CorpusOptions) -> Result<Corpus, DataError> {
        let (files, skipped) = files::find(paths)?;
        let corpus = Corpus { files, skipped, options, rows: 0..u64::MAX };
        if corpus.byte_count() == 0 {
            return Err(CorpusError::Empty { corpus: corpus.to_string() }.into());
        }
        tracing::debug!(files = corpus.files.len(), bytes = corpus.byte_count(), %skipped, "opened a corpus");
        Ok(corpus)
    }

    /// The files, in the order they are read.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        self.files.iter().map(|file| file.path.as_path())
    }

    /// What was found in folders and left out.
    pub fn skipped(&self) -> Skipped {
        self.skipped
    }

    /// The size of the files when they were opened.
    pub fn byte_count(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }

    /// The rows, read from the files one at a time. The first error ends the stream.
    pub fn documents(&self) -> Documents<'_> {
        Documents::new(self)
    }

    /// The first `percent` of the rows, for validation, and the rest, for training.
    ///
    /// The cut is rounded to the closest row. All files are read once, to count.
    pub fn split(&self, percent: u8) -> Result<(Corpus, Corpus), DataError> {
        let mut rows = 0u64;
        for row in self.documents() {
            row?;
            rows += 1;
        }
        let cut = (rows * u64::from(percent) + 50) / 100;
        if cut == 0 || cut >= rows {
            return Err(CorpusError::Split { corpus: self.to_string(), rows, percent }.into());
        }
        let start = self.rows.start;
        let part = |rows: Range<u64>| Corpus { rows, ..self.clone() };
        Ok((part(start..start + cut), part(start + cut..start + rows)))
    }
}

/// The first file, and how many more there are.
impl fmt::Display for Corpus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(first) = self.files.first() {
            write!(f, "{}", first.path.display())?;
        }
        match self.files.len() {
            0 | 1 => Ok(()),
            n => write!(f, " and {} more", n - 1),
        }
    }
}

impl fmt::Display for Skipped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Skipped { hidden, not_text, json, links } = self;
        write!(f, "{hidden} hidden, {not_text} not text, {json} .json, {links} links")
    }
}
