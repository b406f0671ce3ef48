use thiserror::Error;

use crate::{BatchError, BlockError, CacheError, CorpusError, PrefetchError, TokenizerError};

/// What can go wrong between text files and batches; each stage has an enum of its own.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum DataError {
    /// Finding or reading text.
    #[error(transparent)]
    Corpus(#[from] CorpusError),
    /// Loading, training or applying a tokenizer.
    #[error(transparent)]
    Tokenizer(#[from] TokenizerError),
    /// Cutting ids into blocks.
    #[error(transparent)]
    Blocks(#[from] BlockError),
    /// Cutting ids into blocks, where the files they came from are known.
    #[error("{corpus}: {error}")]
    CorpusBlocks {
        /// The corpus, by its files.
        corpus: String,
        /// What is wrong with its ids.
        error: BlockError,
    },
    /// Writing and reading files of ids.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// Arranging blocks in batches.
    #[error(transparent)]
    Batches(#[from] BatchError),
    /// Preparing batches in the background.
    #[error(transparent)]
    Prefetch(#[from] PrefetchError),
}
