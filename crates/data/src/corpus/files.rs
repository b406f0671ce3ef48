use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use glob::MatchOptions;

use super::format::{Format, RowFormat};
use super::{CorpusError, Skipped};

/// A file of a corpus.
#[derive(Clone, Debug)]
pub(super) struct TextFile {
    pub(super) path: PathBuf,
    pub(super) format: Format,
    pub(super) bytes: u64,
    modified: Option<SystemTime>,
}

/// The files that `paths` name, and what was skipped inside folders.
pub(super) fn find(paths: &[PathBuf]) -> Result<(Vec<TextFile>, Skipped), CorpusError> {
    if paths.is_empty() {
        return Err(CorpusError::NoPaths);
    }
    let mut files = Vec::new();
    let mut skipped = Skipped::default();
    for path in paths {
        match fs::metadata(path) {
            Ok(metadata) if metadata.is_file() => files.push(TextFile::new(path.clone(), &metadata)),
            Ok(metadata) if metadata.is_dir() => {
                let mut found = Walk::default();
                found.folder(path)?;
                if found.files.is_empty() {
                    return Err(CorpusError::NoTextFiles { path: path.clone(), skipped: found.skipped });
                }
                files.append(&mut found.files);
                skipped = skipped + found.skipped;
            }
            Ok(_) => return Err(CorpusError::NotAFile { path: path.clone() }),
            // What is there is never a pattern, whatever its name.
            Err(_) if is_pattern(path) => files.append(&mut matches(path)?),
            Err(error) => return Err(read_error(path)(error)),
        }
    }
    Ok((files, skipped))
}

pub(super) fn read_error(path: &Path) -> impl FnOnce(io::Error) -> CorpusError {
    move |source| CorpusError::Read { path: path.to_path_buf(), source }
}

impl TextFile {
    fn new(path: PathBuf, metadata: &fs::Metadata) -> TextFile {
        let format = Format::of(&path);
        TextFile { path, format, bytes: metadata.len(), modified: metadata.modified().ok() }
    }

    /// An error if the file is not what it was when it was found, by size and time.
    pub(super) fn check_unchanged(&self) -> Result<(), CorpusError> {
        let now = fs::metadata(&self.path).map_err(read_error(&self.path))?;
        if now.len() == self.bytes && now.modified().ok() == self.modified {
            return Ok(());
        }
        Err(CorpusError::Changed { path: self.path.clone() })
    }
}

fn is_pattern(path: &Path) -> bool {
    path.to_str().is_some_and(|path| path.contains(['*', '?', '[']))
}

/// The files that a pattern fits, in the order of their names. They count as named: none is skipped.
fn matches(pattern: &Path) -> Result<Vec<TextFile>, CorpusError> {
    let options = MatchOptions { require_literal_leading_dot: true, ..MatchOptions::new() };
    let text = pattern.to_str().expect("only what is UTF-8 is a pattern");
    let found = glob::glob_with(text, options)
        .map_err(|error| CorpusError::Pattern { pattern: pattern.to_path_buf(), reason: error.msg })?;
    let (mut files, mut folders) = (Vec::new(), 0);
    for path in found {
        let path = path.map_err(|error| {
            let path = error.path().to_path_buf();
            CorpusError::Read { path, source: error.into() }
        })?;
        match fs::metadata(&path).map_err(read_error(&path))? {
            metadata if metadata.is_file() => files.push(TextFile::new(path, &metadata)),
            metadata if metadata.is_dir() => folders += 1,
            _ => return Err(CorpusError::NotAFile { path }),
        }
    }
    if files.is_empty() {
        return Err(CorpusError::NoMatch { pattern: pattern.to_path_buf(), folders });
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}

impl std::ops::Add for Skipped {
    type Output = Skipped;

    fn add(self, other: Skipped) -> Skipped {
        Skipped {
            hidden: self.hidden + other.hidden,
            not_text: self.not_text + other.not_text,
            json: self.json + other.json,
            links: self.links + other.links,
        }
    }
}

#[derive(Default)]
struct Walk {
    files: Vec<TextFile>,
    skipped: Skipped,
}

impl Walk {
    fn folder(&mut self, folder: &Path) -> Result<(), CorpusError> {
        let entries = fs::read_dir(folder).and_then(|entries| entries.collect::<io::Result<Vec<_>>>());
        let mut entries = entries.map_err(read_error(folder))?;
        entries.sort_by_key(|entry| entry.file_name());
        for entry in entries {
            self.entry(&entry)?;
        }
        Ok(())
    }

    fn entry(&mut self, entry: &fs::DirEntry) -> Result<(), CorpusError> {
        let path = entry.path();
        if entry.file_name().as_encoded_bytes().starts_with(b".") {
            self.skipped.hidden += 1;
            return Ok(());
        }
        let kind = entry.file_type().map_err(read_error(&path))?;
        if kind.is_dir() {
            return self.folder(&path);
        }
        match fs::metadata(&path) {
            Ok(target) if target.is_file() => self.file(TextFile::new(path, &target))?,
            _ if kind.is_symlink() => self.skipped.links += 1,
            Ok(_) => self.skipped.not_text += 1,
            Err(error) => return Err(read_error(&path)(error)),
        }
        Ok(())
    }

    fn file(&mut self, file: TextFile) -> Result<(), CorpusError> {
        if file.format.rows == RowFormat::Json {
            // Between texts these are the settings of something: a package, a model, an earlier run.
            self.skipped.json += 1;
        } else if looks_readable(&file).map_err(read_error(&file.path))? {
            self.files.push(file);
        } else {
            self.skipped.not_text += 1;
        }
        Ok(())
    }
}

/// Whether the first bytes are what the name says: Parquet's or gzip's mark, else UTF-8 without a NUL. A character that
/// the limit cuts in two is fine.
fn looks_readable(file: &TextFile) -> io::Result<bool> {
    const LIMIT: u64 = 8192;
    let mut head = Vec::new();
    File::open(&file.path)?.take(LIMIT).read_to_end(&mut head)?;
    if file.format.gzip {
        return Ok(head.starts_with(&[0x1f, 0x8b]));
    }
    if file.format.rows == RowFormat::Parquet {
        return Ok(head.starts_with(b"PAR1"));
    }
    let utf8 = match std::str::from_utf8(&head) {
        Ok(_) => true,
        Err(error) => error.error_len().is_none() && head.len() as u64 == LIMIT,
    };
    Ok(utf8 && !head.contains(&0))
}
