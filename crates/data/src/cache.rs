//! What was made of text, kept in a folder: token ids in blocks, and tokenizers that were trained.
//!
//! An entry is found by all that it depends on: the contents of the files, how they are read, the tokenizer, how ids
//! are cut, and the versions of what did it. Contents are read each time, at a small part of what tokenizing costs;
//! sizes and times of files alone would take one text for another. Names of files do not count.
//!
//! An entry has its name once it is whole and on the disk. It ends in a digest of itself, and one that does not agree
//! with it is made again. Several processes can use a folder at once; two that need the same entry both make it.

mod entry;
mod positioned;

use std::fmt::Write;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use thiserror::Error;

use crate::blocks::{Packer, Store};
use crate::{BlockOptions, Blocks, Corpus, DataError, Tokenizer, pipeline};
pub(crate) use entry::{Entry, EntryFile, EntryWriter};

/// Raised whenever the same text and settings give other entries.
const FORMAT: u32 = 1;
/// The version of the library that tokenizes, as another one may give other ids.
const TOKENIZERS: &str = "0.23.2";

/// Where ids and trained tokenizers are kept from one run to the next, if anywhere.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TokenCache {
    folder: Option<PathBuf>,
}

/// How far the reading of a corpus has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Bytes of the files up to the rows that are done.
    pub bytes: u64,
    /// Bytes of all files.
    pub total: u64,
}

/// What can go wrong with files that are written here, in a cache or for the time of a run.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CacheError {
    /// A folder that cannot be made.
    #[error("cannot make the folder {path} for token ids")]
    Folder {
        /// The folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// An entry that cannot be written, such as on a full disk.
    #[error("cannot write token ids to {path}")]
    Write {
        /// The file, or the folder for files without a name.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// An entry that cannot be read.
    #[error("cannot read token ids from {path}")]
    Read {
        /// The file; empty for one without a name.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl TokenCache {
    /// A cache in this folder, which is made when the first entry is kept.
    pub fn in_folder(folder: impl Into<PathBuf>) -> TokenCache {
        TokenCache { folder: Some(folder.into()) }
    }

    /// No cache: ids lie in a file without a name, which goes with the last of its [`Blocks`].
    pub fn none() -> TokenCache {
        TokenCache::default()
    }

    /// The folder, if there is one.
    pub fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }

    /// Reads, tokenizes and cuts a corpus, unless that was done before. Errors name its files.
    ///
    /// Memory does not grow with the text, apart from 8 bytes for each example of
    /// [`PadToBlock`](crate::Packing::PadToBlock). `progress` is called on this thread, after each part of the text that
    /// is done.
    pub fn blocks(
        &self,
        corpus: &Corpus,
        tokenizer: &Tokenizer,
        options: &BlockOptions,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Blocks, DataError> {
        options.check_for(tokenizer).map_err(|error| named(corpus, error.into()))?;
        let settings = [tokenizer.json(), &options.block_size.to_string(), options.packing.name()];
        let path = self.path("blocks", corpus, &settings)?;
        if let Some(path) = &path
            && let Some(entry) = Entry::open(path)?
            && let Some(store) = Store::open(entry)?
        {
            tracing::debug!(path = %path.display(), "took token ids from the cache");
            return Ok(Blocks::new(store, options.packing, true));
        }
        let mut packer = Packer::new(options, EntryWriter::create(path.clone())?);
        let total = corpus.byte_count();
        for encoded in pipeline::encode(corpus, tokenizer)? {
            let encoded = encoded?;
            encoded.rows.iter().try_for_each(|ids| packer.row(ids))?;
            progress(Progress { bytes: encoded.bytes_read.min(total), total });
        }
        if path.is_some() {
            corpus.check_unchanged()?;
        }
        let store = packer.finish().map_err(|error| named(corpus, error))?;
        Ok(Blocks::new(store, options.packing, false))
    }

    /// What [`Tokenizer::train_byte_level_bpe`] makes, unless that was done before.
    pub fn byte_level_bpe(
        &self,
        corpus: &Corpus,
        vocab_size: usize,
        special_tokens: &[&str],
    ) -> Result<Tokenizer, DataError> {
        let vocab = vocab_size.to_string();
        let settings = [&[vocab.as_str()], special_tokens].concat();
        let Some(path) = self.path("tokenizer", corpus, &settings)? else {
            return Tokenizer::train_byte_level_bpe(corpus, vocab_size, special_tokens);
        };
        if let Some(entry) = Entry::<NoSummary>::open(&path)?
            && let Some(tokenizer) = read_tokenizer(&entry)?
        {
            return Ok(tokenizer);
        }
        let tokenizer = Tokenizer::train_byte_level_bpe(corpus, vocab_size, special_tokens)?;
        corpus.check_unchanged()?;
        let mut writer = EntryWriter::create(Some(path))?;
        writer.write(tokenizer.json().as_bytes())?;
        writer.finish(NoSummary {})?;
        Ok(tokenizer)
    }

    /// The file of what is made of the corpus with these settings.
    fn path(&self, kind: &str, corpus: &Corpus, settings: &[&str]) -> Result<Option<PathBuf>, DataError> {
        let Some(folder) = &self.folder else { return Ok(None) };
        let mut key = Sha256::new_with_prefix(corpus.digest()?);
        corpus.check_unchanged()?;
        let versions = [&FORMAT.to_string(), env!("CARGO_PKG_VERSION"), TOKENIZERS, kind];
        for part in versions.iter().chain(settings) {
            // With their lengths, so that no two lists of parts are the same bytes.
            key.update((part.len() as u64).to_le_bytes());
            key.update(part);
        }
        let mut name = String::new();
        for byte in key.finalize() {
            write!(name, "{byte:02x}").expect("a string takes all");
        }
        Ok(Some(folder.join(format!("{name}.{kind}"))))
    }
}

#[derive(Serialize, Deserialize)]
struct NoSummary {}

fn read_tokenizer(entry: &Entry<NoSummary>) -> Result<Option<Tokenizer>, DataError> {
    let mut json = vec![0; entry.body_bytes as usize];
    entry.file.read_exact_at(&mut json, 0)?;
    let Ok(json) = String::from_utf8(json) else { return Ok(None) };
    Ok(Some(Tokenizer::from_json(json, None)?))
}

fn named(corpus: &Corpus, error: DataError) -> DataError {
    match error {
        DataError::Blocks(error) => DataError::CorpusBlocks { corpus: corpus.to_string(), error },
        other => other,
    }
}

/// Adds all that can be read to a digest.
pub(crate) fn hash(input: &mut impl Read, digest: &mut Sha256) -> io::Result<()> {
    let mut buffer = vec![0; 1 << 18];
    loop {
        match input.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(read) => digest.update(&buffer[..read]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Else entries of another version's ids would be taken for this one's.
    #[test]
    fn the_version_of_the_library_is_that_which_is_built_in() {
        let lock = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../Cargo.lock");
        let lock = std::fs::read_to_string(lock).unwrap();
        let (_, behind) = lock.split_once("name = \"tokenizers\"\nversion = \"").unwrap();
        assert_eq!(behind.split_once('"').unwrap().0, TOKENIZERS);
    }
}
