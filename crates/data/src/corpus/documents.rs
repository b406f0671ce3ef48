use std::fmt;
use std::vec;

use super::csv::CsvRows;
use super::files::TextFile;
use super::format::RowFormat;
use super::input::ReadBytes;
use super::json::{self, JsonLines};
use super::lines::Lines;
use super::parquet::ParquetRows;
use super::{Corpus, CorpusError};
use crate::DataError;

/// The rows of one file, in order. The first error ends them.
pub(super) trait Rows: fmt::Debug + Send {
    fn next(&mut self) -> Result<Option<String>, CorpusError>;
}

/// The rows of a [`Corpus`], in order.
#[derive(Debug)]
pub struct Documents {
    files: vec::IntoIter<TextFile>,
    current: Option<Box<dyn Rows>>,
    text_column: Option<String>,
    skip: u64,
    remaining: u64,
    read: ReadBytes,
}

impl Documents {
    pub(super) fn new(corpus: &Corpus) -> Documents {
        Documents {
            files: corpus.files.clone().into_iter(),
            current: None,
            text_column: corpus.options.text_column.clone(),
            skip: corpus.rows.start,
            remaining: corpus.rows.end - corpus.rows.start,
            read: ReadBytes::default(),
        }
    }

    /// How many bytes of the files were read, of [`Corpus::byte_count`]. Files are read ahead of the rows.
    pub fn bytes_read(&self) -> u64 {
        self.read.get()
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
                Some(file) => self.current = Some(self.open(file)?),
                None => return Ok(None),
            }
        }
    }

    fn open(&self, file: TextFile) -> Result<Box<dyn Rows>, CorpusError> {
        let (column, read) = (self.text_column.clone(), &self.read);
        Ok(match file.format.rows {
            RowFormat::Text => Box::new(Lines::open(file, read)?),
            RowFormat::JsonLines => Box::new(JsonLines::new(Lines::open(file, read)?, column)),
            RowFormat::Json => json::open(file, read, column)?,
            RowFormat::Csv => Box::new(CsvRows::open(file, read, column)?),
            RowFormat::Parquet => Box::new(ParquetRows::open(file, read, column)?),
        })
    }

    fn next_in_range(&mut self) -> Result<Option<String>, CorpusError> {
        while self.skip > 0 {
            self.skip -= 1;
            self.next_in_files()?;
        }
        self.next_in_files()
    }
}

impl Iterator for Documents {
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
