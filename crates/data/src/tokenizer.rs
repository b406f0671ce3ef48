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

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use thiserror::Error;
use tokenizers::utils::parallelism::MaybeParallelIterator;

use crate::DataError;

/// A tokenizer that was loaded from a `tokenizer.json` or trained. Cloning shares it.
#[derive(Clone, Debug)]
pub struct Tokenizer {
    inner: Arc<tokenizers::Tokenizer>,
    /// What was read, or the trained tokenizer as text.
    json: Arc<str>,
    path: Option<PathBuf>,
    max_token: MaxToken,
    beside: Beside,
}

/// What is taken from the `tokenizer_config.json` beside a tokenizer.
#[derive(Clone, Debug, Default)]
struct Beside {
    model_max_length: Option<usize>,
    pad_id: Option<i32>,
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
        self.beside.model_max_length
    }

    /// The id that fills up short examples: of the `pad_token` in the `tokenizer_config.json` beside the file, else of its
    /// `eos_token`.
    pub fn pad_id(&self) -> Option<i32> {
        self.beside.pad_id
    }

    /// The id of a token of the vocabulary or of an added one.
    pub fn token_id(&self, token: &str) -> Option<i32> {
        self.inner.token_to_id(token).map(|id| i32::try_from(id).expect("the largest id was checked"))
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

    /// The ids of one row, with the special tokens that the post-processor adds.
    pub fn encode(&self, text: &str) -> Result<Vec<i32>, DataError> {
        let encoding =
            self.inner.encode_fast(text, true).map_err(|source| self.encode_error(0..=0, source))?;
        Ok(signed(encoding.get_ids()))
    }

    /// The ids of rows, in parallel. Of the rows, the first is number `first_row` of all.
    pub(crate) fn encode_rows(&self, rows: Vec<String>, first_row: u64) -> Result<Vec<Vec<i32>>, DataError> {
        let last_row = first_row + (rows.len() as u64).saturating_sub(1);
        // The library's own way for many rows, without keeping all that it knows of each token.
        let encode = |row: String| self.inner.encode_fast(row, true).map(|e| signed(e.get_ids()));
        let encoded = rows.into_maybe_par_iter().map(encode).collect::<tokenizers::Result<Vec<Vec<i32>>>>();
        encoded.map_err(|source| self.encode_error(first_row..=last_row, source))
    }

    fn encode_error(&self, rows: RangeInclusive<u64>, source: tokenizers::Error) -> DataError {
        let (first_row, last_row) = rows.into_inner();
        TokenizerError::Encode { tokenizer: self.name(), first_row, last_row, source }.into()
    }

    pub(crate) fn name(&self) -> String {
        self.path.as_ref().map_or("the trained tokenizer".to_owned(), |path| path.display().to_string())
    }
}

fn signed(ids: &[u32]) -> Vec<i32> {
    ids.iter().map(|&id| i32::try_from(id).expect("the largest id was checked")).collect()
}
