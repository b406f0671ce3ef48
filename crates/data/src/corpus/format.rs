use std::path::Path;

/// What the rows of a file are, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Format {
    pub(super) rows: RowFormat,
    /// Whether all of it is compressed with gzip: the name ends in `.gz` too.
    pub(super) gzip: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RowFormat {
    /// Each line, with its line break.
    Text,
    /// Each line, which holds one object.
    JsonLines,
    /// The elements of a list, or else as JSON lines: both are called `.json`.
    Json,
    /// Each record behind the header.
    Csv,
    /// Each row.
    Parquet,
}

/// Endings of names, and what they mean. Any other file is text.
const ENDINGS: [(&str, RowFormat); 4] = [
    ("jsonl", RowFormat::JsonLines),
    ("json", RowFormat::Json),
    ("csv", RowFormat::Csv),
    ("parquet", RowFormat::Parquet),
];

impl Format {
    pub(super) fn of(path: &Path) -> Format {
        let gzip = ending(path).is_some_and(|ending| ending == "gz");
        let stem = path.with_extension("");
        let ending = ending(if gzip { &stem } else { path });
        let known = ENDINGS.iter().find(|(known, _)| ending.as_deref() == Some(known));
        Format { rows: known.map_or(RowFormat::Text, |(_, rows)| *rows), gzip }
    }

    /// A name for the format, of which the rows of a file depend.
    pub(super) fn name(self) -> &'static str {
        match (self.rows, self.gzip) {
            (RowFormat::Text, false) => "text",
            (RowFormat::JsonLines, false) => "jsonl",
            (RowFormat::Json, false) => "json",
            (RowFormat::Csv, false) => "csv",
            // Parquet compresses inside. A whole file in gzip is refused where it is opened.
            (RowFormat::Parquet, _) => "parquet",
            (RowFormat::Text, true) => "text.gz",
            (RowFormat::JsonLines, true) => "jsonl.gz",
            (RowFormat::Json, true) => "json.gz",
            (RowFormat::Csv, true) => "csv.gz",
        }
    }
}

fn ending(path: &Path) -> Option<String> {
    Some(path.extension()?.to_str()?.to_ascii_lowercase())
}
