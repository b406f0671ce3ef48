//! Which files make up a corpus, and the stream of their rows.
//!
//! What a row is, which is what the tokenizer sees at a time, follows from the file's name:
//!
//! | name | a row is |
//! | --- | --- |
//! | `.jsonl` | the text column of one line, which holds one object; blank lines are skipped |
//! | `.json` | the text column of one element where the file is a list; else as in `.jsonl` |
//! | `.csv` | the text column of one record; the first record is the header |
//! | `.parquet` | the text column of one row |
//! | any other | one line *with* its line break, byte for byte, so that the rows of a file joined are the file; a last line without a line break is a row too |
//!
//! With a further `.gz` at the end of the name, the file is decompressed first; Parquet compresses inside. Inside folders
//! `.json` files are left out. Rows of several files follow one another as if the files were one.

mod csv;
mod documents;
mod error;
mod files;
mod format;
mod input;
mod json;
mod lines;
mod parquet;

use std::fmt;
use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use sha2::{Digest, Sha256};

use crate::DataError;
use crate::cache::hash;
pub use documents::Documents;
pub use error::{CorpusError, Place};
use files::{TextFile, read_error};

/// The part of a corpus that is for validation where no other is asked for, in percent.
pub const DEFAULT_VALIDATION_PERCENT: u8 = 5;

/// How files are read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CorpusOptions {
    /// The column that holds the text, in files that have columns. By default it is `text` where a file has that, else
    /// the first column that holds text: in its first row, or as a Parquet file declares.
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
    digest: Arc<OnceLock<[u8; 32]>>,
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

impl Corpus {
    /// The corpus of these files, folders and patterns, in the order given.
    ///
    /// Folders are walked recursively in the order of their names. What is hidden, not text, or a `.json` file is
    /// skipped there and counted in [`Corpus::skipped`]; a file that is named itself is never skipped.
    ///
    /// A path that does not exist and has `*`, `?` or `[` in it is a pattern, in which `**` stands for folders at any
    /// depth. The files that it fits count as named, in the order of their names; it fits no hidden ones.
    pub fn open(paths: &[PathBuf], options: CorpusOptions) -> Result<Corpus, DataError> {
        let (files, skipped) = files::find(paths)?;
        let corpus = Corpus { files, skipped, options, rows: 0..u64::MAX, digest: Arc::default() };
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
    pub fn documents(&self) -> Documents {
        Documents::new(self)
    }

    /// A digest of all that rows depend on: contents and formats of the files, column, and range. The names of files do
    /// not count. All files are read once, and a digest of them is kept.
    pub(crate) fn digest(&self) -> Result<[u8; 32], DataError> {
        let contents = match self.digest.get() {
            Some(known) => *known,
            None => {
                let contents = self.content_digest()?;
                *self.digest.get_or_init(|| contents)
            }
        };
        let options = (&self.options.text_column, &self.rows);
        let mut digest = Sha256::new_with_prefix(contents);
        digest.update(format!("{options:?}"));
        Ok(digest.finalize().into())
    }

    fn content_digest(&self) -> Result<[u8; 32], CorpusError> {
        let mut all = Sha256::new();
        for file in &self.files {
            let mut digest = Sha256::new();
            let read = File::open(&file.path).and_then(|mut file| hash(&mut file, &mut digest));
            read.map_err(read_error(&file.path))?;
            all.update(format!("{} {}", file.format.name(), file.bytes));
            all.update(digest.finalize());
        }
        Ok(all.finalize().into())
    }

    /// An error if a file is not what it was when the corpus was opened.
    pub(crate) fn check_unchanged(&self) -> Result<(), DataError> {
        Ok(self.files.iter().try_for_each(TextFile::check_unchanged)?)
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
