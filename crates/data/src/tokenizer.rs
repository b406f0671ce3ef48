//! Text to ids, by Hugging Face's `tokenizers`.
//!
//! A [`Tokenizer`] has passed these checks, so that ids can be used without further ones:
//!
//! - every id it can produce is known, those that only its post-processor adds included, and fits in an `i32`;
//! - added tokens have the ids that the file states;
//! - the same text always gives the same ids: merges are never left out at random.
//!
//! Truncation and padding in the file are ignored, as in causal-LM training with Hugging Face: rows are joined and
//! cut later.

mod diagnose;
mod load;
mod train;

use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::DataError;

/// Rows that are tokenized at a time, and that [`Remainder::DropPerGroup`](crate::Remainder) joins.
pub const ROWS_PER_GROUP: usize = 1000;

/// A tokenizer that was loaded from a `tokenizer.json` or trained.
#[derive(Clone, Debug)]
pub struct Tokenizer {
    inner: tokenizers::Tokenizer,
    /// What was read, or the trained tokenizer as text.
    json: String,
    path: Option<PathBuf>,
    max_token: MaxToken,
    model_max_length: Option<usize>,
}

/// The largest id a tokenizer can produce.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct MaxToken {
    id: u32,
    token: String,
}

/// What can be wrong with a tokenizer, its file or its use.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TokenizerError {
    /// A file that cannot be read.
    #[error("cannot read {path}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file that ends too early or holds something else.
    #[error("{path} is not JSON: {reason}; the file may be cut off, fetch it again")]
    Json {
        /// The file.
        path: PathBuf,
        /// What the parser says, with line and column.
        reason: serde_json::Error,
    },
    /// A part of a file that means nothing.
    #[error("{path}: {part} is {value}: {problem}")]
    Part {
        /// The file.
        path: PathBuf,
        /// The part, such as `model.merges[0]`.
        part: String,
        /// What it holds, shortened.
        value: String,
        /// What is wrong with it and what was expected.
        problem: String,
    },
    /// An id that labels cannot hold.
    #[error("{tokenizer}: token {token:?} has the id {id}, expected at most {}", i32::MAX)]
    IdTooLarge {
        /// The tokenizer, by its file.
        tokenizer: String,
        /// The token.
        token: String,
        /// Its id.
        id: u32,
    },
    /// Ids outside the embedding table.
    #[error(
        "{tokenizer} can produce the id {id} (token {token:?}), but vocab_size in {config} is {vocab_size}: \
         expected ids below that; use the tokenizer the model was made with, or a vocab_size of at least {}",
        u64::from(*.id) + 1
    )]
    LargerThanModel {
        /// The tokenizer, by its file.
        tokenizer: String,
        /// Its largest id.
        id: u32,
        /// The token with this id.
        token: String,
        /// Rows of the embedding table.
        vocab_size: usize,
        /// Where the size is written.
        config: PathBuf,
    },
    /// Text that the tokenizer cannot take.
    #[error("{tokenizer} cannot tokenize rows {first_row} to {last_row}")]
    Encode {
        /// The tokenizer, by its file.
        tokenizer: String,
        /// The first of the rows tokenized together, from 0.
        first_row: u64,
        /// The last of them.
        last_row: u64,
        /// What the tokenizer says.
        source: tokenizers::Error,
    },
    /// A vocabulary without room for the bytes.
    #[error(
        "a vocabulary of {vocab_size} is too small: the 256 bytes and {special} special tokens need at least {}",
        256 + .special
    )]
    VocabTooSmall {
        /// The size asked for.
        vocab_size: usize,
        /// Special tokens asked for.
        special: usize,
    },
    /// A special token that cannot be told from others.
    #[error("special token {token:?} {problem}")]
    SpecialToken {
        /// The token.
        token: String,
        /// Why it is of no use.
        problem: &'static str,
    },
    /// Training failed.
    #[error("cannot train a tokenizer on {corpus}")]
    Train {
        /// The corpus, by its files.
        corpus: String,
        /// What the trainer says.
        source: tokenizers::Error,
    },
}

impl Tokenizer {
    /// The text of its `tokenizer.json`. Of one that was loaded, exactly what was read.
    pub fn json(&self) -> &str {
        &self.json
    }

    /// Tokens in the vocabulary, added ones included. Ids may have gaps: see [`Tokenizer::max_token_id`].
    pub fn vocab_size(&self) -> usize {
        self.inner.get_vocab_size(true)
    }

    /// The largest id that can be produced, and its token.
    ///
    /// The vocabulary, added tokens and what the post-processor adds to each row all count.
    pub fn max_token_id(&self) -> (u32, &str) {
        (self.max_token.id, &self.max_token.token)
    }

    /// The longest sequence the tokenizer is meant for, from the `tokenizer_config.json` beside its file.
    pub fn model_max_length(&self) -> Option<usize> {
        self.model_max_length
    }

    /// The file it was loaded from.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Checks that every id is a row of an embedding table of `vocab_size` rows, as `config` states.
    ///
    /// A token that the text never uses counts too: whether it appears is known only after all text was read.
    pub fn check_fits(&self, vocab_size: usize, config: &Path) -> Result<(), DataError> {
        let MaxToken { id, token } = &self.max_token;
        if (*id as usize) < vocab_size {
            return Ok(());
        }
        let (id, token, config) = (*id, token.clone(), config.to_path_buf());
        Err(TokenizerError::LargerThanModel { tokenizer: self.name(), id, token, vocab_size, config }.into())
    }

    /// The ids of the rows, one list for each [`ROWS_PER_GROUP`] of them, tokenized in parallel.
    ///
    /// The post-processor adds its special tokens to each row. The first error ends the iterator.
    pub fn encode<I>(&self, rows: I) -> Encode<'_, I::IntoIter>
    where
        I: IntoIterator<Item = Result<String, DataError>>,
    {
        Encode { tokenizer: self, rows: rows.into_iter(), next_row: 0, failed: false }
    }

    fn name(&self) -> String {
        self.path.as_ref().map_or("the trained tokenizer".to_owned(), |path| path.display().to_string())
    }
}

/// Ids of rows, a group at a time; see [`Tokenizer::encode`].
#[derive(Debug)]
pub struct Encode<'t, I> {
    tokenizer: &'t Tokenizer,
    rows: I,
    next_row: u64,
    failed: bool,
}

impl<I: Iterator<Item = Result<String, DataError>>> Encode<'_, I> {
    fn next_group(&mut self) -> Result<Option<Vec<i32>>, DataError> {
        let rows = self.rows.by_ref().take(ROWS_PER_GROUP).collect::<Result<Vec<String>, DataError>>()?;
        if rows.is_empty() {
            return Ok(None);
        }
        let first_row = self.next_row;
        self.next_row += rows.len() as u64;
        let encodings = self.tokenizer.inner.encode_batch_fast(rows, true).map_err(|source| {
            let (tokenizer, last_row) = (self.tokenizer.name(), self.next_row - 1);
            TokenizerError::Encode { tokenizer, first_row, last_row, source }
        })?;
        let mut ids = Vec::with_capacity(encodings.iter().map(|encoding| encoding.len()).sum());
        for encoding in &encodings {
            ids.extend(
                encoding.get_ids().iter().map(|&id| i32::try_from(id).expect("the largest id was checked")),
            );
        }
        Ok(Some(ids))
    }
}

impl<I: Iterator<Item = Result<String, DataError>>> Iterator for Encode<'_, I> {
    type Item = Result<Vec<i32>, DataError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let group = self.next_group().transpose();
        self.failed = matches!(group, Some(Err(_)));
        group
    }
}
