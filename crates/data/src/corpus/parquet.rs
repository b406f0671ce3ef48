//! The text column of a Parquet file, read page by page.

use std::collections::VecDeque;
use std::fmt;
use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};

use parquet::basic::{Compression, ConvertedType, LogicalType, Type};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{ByteArray, ByteArrayType};
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::schema::types::ColumnDescriptor;

use super::documents::Rows;
use super::files::{TextFile, read_error};
use super::input::ReadBytes;
use super::{CorpusError, Place};

/// Rows that are decoded at a time. Rows can be long documents.
const DECODED: usize = 64;

/// The rows of one file.
pub(super) struct ParquetRows {
    file: TextFile,
    reader: SerializedFileReader<File>,
    /// The number and the name of the text column.
    column: (usize, String),
    next_group: usize,
    group: Option<ColumnReaderImpl<ByteArrayType>>,
    decoded: VecDeque<Option<ByteArray>>,
    row: u64,
    progress: Progress,
}

/// What was read of the file, as a part of its bytes: what the columns hold says nothing of that.
struct Progress {
    read: ReadBytes,
    counted: u64,
    rows: u64,
}

impl fmt::Debug for ParquetRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ParquetRows")
            .field("file", &self.file)
            .field("row", &self.row)
            .finish_non_exhaustive()
    }
}

impl ParquetRows {
    pub(super) fn open(
        file: TextFile,
        read: &ReadBytes,
        text_column: Option<String>,
    ) -> Result<ParquetRows, CorpusError> {
        let opened = File::open(&file.path).map_err(read_error(&file.path))?;
        let reader = guarded(&file, || SerializedFileReader::new(opened))?;
        let schema = reader.metadata().file_metadata().schema_descr();
        let column = text_column_of(&file, schema.columns().iter().map(AsRef::as_ref), text_column)?;
        let rows = reader.metadata().file_metadata().num_rows().max(1).unsigned_abs();
        let progress = Progress { read: read.clone(), counted: 0, rows };
        let (next_group, group, decoded, row) = (0, None, VecDeque::new(), 0);
        Ok(ParquetRows { file, reader, column, next_group, group, decoded, row, progress })
    }

    /// Opens the text column of the next group of rows; whether there is one.
    fn next_group(&mut self) -> Result<bool, CorpusError> {
        let (index, column) = &self.column;
        let Some(group) = self.reader.metadata().row_groups().get(self.next_group) else {
            return Ok(false);
        };
        let codec = group.columns().get(*index).map(|column| column.compression());
        if let Some(codec) = codec
            && !matches!(codec, Compression::UNCOMPRESSED | Compression::SNAPPY | Compression::GZIP(_))
        {
            let (path, codec) = (self.file.path.clone(), codec_name(codec));
            return Err(CorpusError::Codec { path, column: column.clone(), codec });
        }
        let opened =
            guarded(&self.file, || self.reader.get_row_group(self.next_group)?.get_column_reader(*index))?;
        self.next_group += 1;
        let ColumnReader::ByteArrayColumnReader(values) = opened else {
            return Err(damaged(&self.file, "a column has another type than the header says"));
        };
        self.group = Some(values);
        Ok(true)
    }

    /// Decodes more rows of the open group; none are left if none come.
    fn decode(&mut self) -> Result<(), CorpusError> {
        let Some(group) = &mut self.group else { return Ok(()) };
        let (mut values, mut levels) = (Vec::new(), Vec::new());
        let (rows, _, _) =
            guarded(&self.file, || group.read_records(DECODED, Some(&mut levels), None, &mut values))?;
        if rows == 0 {
            self.group = None;
        }
        let mut values = values.into_iter();
        if levels.is_empty() {
            self.decoded.extend(values.map(Some));
        } else {
            self.decoded.extend(levels.into_iter().map(|level| if level > 0 { values.next() } else { None }));
        }
        Ok(())
    }

    fn text(&mut self, value: Option<ByteArray>) -> Result<String, CorpusError> {
        self.row += 1;
        self.progress.advance(self.row, self.file.bytes);
        let (path, place) = (|| self.file.path.clone(), Place::Row(self.row));
        let column = || self.column.1.clone();
        let Some(value) = value else {
            let found = "null".to_owned();
            return Err(CorpusError::NotAString { path: path(), place, column: column(), found });
        };
        let text = str::from_utf8(value.data()).map_err(|error| {
            let byte = value.data()[error.valid_up_to()];
            CorpusError::FieldNotUtf8 { path: path(), place, column: column(), byte }
        })?;
        Ok(text.to_owned())
    }
}

impl Rows for ParquetRows {
    fn next(&mut self) -> Result<Option<String>, CorpusError> {
        loop {
            if let Some(value) = self.decoded.pop_front() {
                return self.text(value).map(Some);
            }
            if self.group.is_some() {
                self.decode()?;
            } else if !self.next_group()? {
                return Ok(None);
            }
        }
    }
}

impl Progress {
    fn advance(&mut self, row: u64, bytes: u64) {
        let share = row.min(self.rows) as f64 / self.rows as f64;
        let read = (bytes as f64 * share) as u64;
        self.read.add(read - self.counted);
        self.counted = read;
    }
}

/// The number and the name of the column of this name; without one, of `text`, else of the first that is declared to be
/// text. Only columns count that have one value in each row.
fn text_column_of<'a>(
    file: &TextFile,
    columns: impl Iterator<Item = &'a ColumnDescriptor> + Clone,
    name: Option<String>,
) -> Result<(usize, String), CorpusError> {
    let path = || file.path.clone();
    let plain = |column: &ColumnDescriptor| column.path().parts().len() == 1 && column.max_rep_level() == 0;
    let columns = columns.enumerate().filter(|(_, column)| plain(column));
    let described = || columns.clone().map(|(_, c)| format!("{} ({})", c.name(), type_name(c))).collect();
    let named = |wanted: &str| columns.clone().find(|(_, column)| column.name() == wanted);
    let chosen = match &name {
        Some(name) => named(name),
        None => named("text").or_else(|| columns.clone().find(|(_, column)| is_text(column))),
    };
    match (chosen, name) {
        (Some((index, column)), _) if column.physical_type() == Type::BYTE_ARRAY => {
            Ok((index, column.name().to_owned()))
        }
        (Some((_, column)), _) => {
            let (name, found) = (column.name().to_owned(), type_name(column));
            Err(CorpusError::NotAString { path: path(), place: Place::Header, column: name, found })
        }
        (None, Some(column)) => {
            Err(CorpusError::NoColumn { path: path(), place: Place::Header, column, found: described() })
        }
        (None, None) => Err(CorpusError::NoTextColumn { path: path(), found: described() }),
    }
}

fn is_text(column: &ColumnDescriptor) -> bool {
    let text = matches!(column.logical_type_ref(), Some(LogicalType::String));
    column.physical_type() == Type::BYTE_ARRAY && (text || column.converted_type() == ConvertedType::UTF8)
}

fn type_name(column: &ColumnDescriptor) -> String {
    let name = if is_text(column) { "STRING".to_owned() } else { column.physical_type().to_string() };
    name.to_lowercase().replace('_', " ")
}

/// The name without its level.
fn codec_name(codec: Compression) -> String {
    let name = codec.to_string();
    name.split('(').next().unwrap_or_default().to_lowercase()
}

/// Runs the library on a file that may be damaged: where it does not expect that, it panics.
fn guarded<T>(file: &TextFile, read: impl FnOnce() -> Result<T, ParquetError>) -> Result<T, CorpusError> {
    match catch_unwind(AssertUnwindSafe(read)) {
        Ok(read) => read.map_err(|error| {
            let text = error.to_string();
            damaged(file, text.trim_start_matches("Parquet error: "))
        }),
        Err(_) => Err(damaged(file, "its parts contradict each other")),
    }
}

fn damaged(file: &TextFile, reason: &str) -> CorpusError {
    CorpusError::Parquet { path: file.path.clone(), reason: reason.to_owned() }
}
