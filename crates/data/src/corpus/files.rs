use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::{CorpusError, Skipped};

/// A file of a corpus.
#[derive(Clone, Debug)]
pub(super) struct TextFile {
    pub(super) path: PathBuf,
    pub(super) format: Format,
    pub(super) bytes: u64,
}

/// What the rows of a file are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Text,
    JsonLines,
}

/// The files that `paths` name, and what was skipped inside folders.
pub(super) fn find(paths: &[PathBuf]) -> Result<(Vec<TextFile>, Skipped), CorpusError> {
    if paths.is_empty() {
        return Err(CorpusError::NoPaths);
    }
    let mut files = Vec::new();
    let mut skipped = Skipped::default();
    for path in paths {
        let metadata = fs::metadata(path).map_err(read_error(path))?;
        if metadata.is_file() {
            files.push(TextFile::new(path.clone(), metadata.len()));
        } else if metadata.is_dir() {
            let mut found = Walk::default();
            found.folder(path)?;
            if found.files.is_empty() {
                return Err(CorpusError::NoTextFiles { path: path.clone(), skipped: found.skipped });
            }
            files.append(&mut found.files);
            skipped = skipped + found.skipped;
        } else {
            return Err(CorpusError::NotAFile { path: path.clone() });
        }
    }
    Ok((files, skipped))
}

pub(super) fn read_error(path: &Path) -> impl FnOnce(io::Error) -> CorpusError {
    move |source| CorpusError::Read { path: path.to_path_buf(), source }
}

impl TextFile {
    fn new(path: PathBuf, bytes: u64) -> TextFile {
        let json = has_extension(&path, "jsonl") || has_extension(&path, "json");
        TextFile { path, format: if json { Format::JsonLines } else { Format::Text }, bytes }
    }
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
            // Between texts these are the settings of something: a package, a model, an earlier run.
            Ok(target) if target.is_file() && has_extension(&path, "json") => self.skipped.json += 1,
            Ok(target) if target.is_file() => {
                if looks_like_text(&path).map_err(read_error(&path))? {
                    self.files.push(TextFile::new(path, target.len()));
                } else {
                    self.skipped.not_text += 1;
                }
            }
            _ if kind.is_symlink() => self.skipped.links += 1,
            Ok(_) => self.skipped.not_text += 1,
            Err(error) => return Err(read_error(&path)(error)),
        }
        Ok(())
    }
}

fn has_extension(path: &Path, wanted: &str) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case(wanted))
}

/// Whether the first bytes are UTF-8 without a NUL. A character that the limit cuts in two is fine.
fn looks_like_text(path: &Path) -> io::Result<bool> {
    const LIMIT: u64 = 8192;
    let mut head = Vec::new();
    File::open(path)?.take(LIMIT).read_to_end(&mut head)?;
    let utf8 = match std::str::from_utf8(&head) {
        Ok(_) => true,
        Err(error) => error.error_len().is_none() && head.len() as u64 == LIMIT,
    };
    Ok(utf8 && !head.contains(&0))
}
