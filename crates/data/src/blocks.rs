//! Token ids cut into blocks, which lie in a file and are read one at a time.

mod pack;
mod store;

use std::sync::Arc;

use thiserror::Error;

use crate::cache::EntryWriter;
use crate::{Corpus, DataError, TokenCache, Tokenizer};
pub(crate) use pack::Packer;
pub(crate) use store::Store;

/// Rows in a group of [`Packing::DropPerGroup`].
pub const ROWS_PER_GROUP: usize = 1000;

/// Token ids cut into blocks of one size. Cloning shares them.
///
/// The ids lie in a file, and [`Blocks::block`] reads from it at the block's position. So memory does not grow with the
/// text, and what is read often stays in the system's memory for files.
#[derive(Clone, Debug)]
pub struct Blocks {
    store: Arc<Store>,
    /// How many of the blocks count.
    len: usize,
    packing: Packing,
    from_cache: bool,
}

/// How ids are cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockOptions {
    /// Tokens per block.
    pub block_size: usize,
    /// How rows become blocks.
    pub packing: Packing,
}

/// How rows become blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Packing {
    /// Each [`ROWS_PER_GROUP`] rows are joined and cut into full blocks, and the rest is dropped, as Hugging Face's
    /// causal-LM script does: up to `block_size - 1` tokens of every 1000 rows. The same blocks as there.
    #[default]
    DropPerGroup,
    /// All rows are joined and cut into full blocks. Only the rest of the corpus is dropped.
    Carry,
    /// Each row is a block of its own, cut to the block size where it is longer and filled up where it is shorter. What
    /// fills up comes last and is no label, so a causal model needs no mask for it. Rows of fewer than two tokens have
    /// nothing to predict and are skipped.
    PadToBlock {
        /// The id that fills up, such as [`Tokenizer::pad_id`].
        pad_id: i32,
    },
}

/// Why ids make no blocks.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum BlockError {
    /// A block in which no token follows another.
    #[error("block size {block_size} leaves nothing to predict: it must be at least 2")]
    BlockSize {
        /// The size asked for.
        block_size: usize,
    },
    /// Text of which the tokenizer makes nothing.
    #[error("the text has no tokens, expected at least one block of {block_size}")]
    NoTokens {
        /// Tokens per block.
        block_size: usize,
    },
    /// Less text than one block.
    #[error(
        "{tokens} tokens are fewer than one block of {block_size}: add text, or lower the block size to {tokens} or less"
    )]
    TooShort {
        /// Tokens found.
        tokens: usize,
        /// Tokens per block.
        block_size: usize,
    },
    /// Rows that are examples of their own, none of which has a token to predict.
    #[error(
        "none of the {rows} rows has two tokens, so that one follows another: expected longer rows, or packing, \
         which joins them"
    )]
    RowsTooShort {
        /// Rows found.
        rows: u64,
    },
    /// A filler that is no token.
    #[error("pad id {pad_id} is no token of {tokenizer}: expected an id from 0 to {largest}")]
    PadId {
        /// The id asked for.
        pad_id: i32,
        /// The tokenizer, by its file.
        tokenizer: String,
        /// Its largest id.
        largest: u32,
    },
    /// Enough text for a block, but in groups that are each too short.
    #[error(
        "{tokens} tokens, but none of the {groups} groups of rows fills one block of {block_size}: \
         lower the block size to {longest} or less, or make the rows longer, so that a group holds more text"
    )]
    GroupsTooShort {
        /// Tokens found.
        tokens: usize,
        /// Tokens per block.
        block_size: usize,
        /// Groups found.
        groups: usize,
        /// Tokens of the longest group.
        longest: usize,
    },
}

impl BlockOptions {
    /// Blocks of this many tokens, packed as Hugging Face's causal-LM script does.
    pub fn new(block_size: usize) -> BlockOptions {
        BlockOptions { block_size, packing: Packing::default() }
    }

    fn check(&self) -> Result<(), BlockError> {
        match self.block_size {
            0 | 1 => Err(BlockError::BlockSize { block_size: self.block_size }),
            _ => Ok(()),
        }
    }

    pub(crate) fn check_for(&self, tokenizer: &Tokenizer) -> Result<(), BlockError> {
        self.check()?;
        let (largest, _) = tokenizer.max_token_id();
        match self.packing {
            Packing::PadToBlock { pad_id } if u32::try_from(pad_id).is_ok_and(|id| id <= largest) => Ok(()),
            Packing::PadToBlock { pad_id } => {
                Err(BlockError::PadId { pad_id, tokenizer: tokenizer.name(), largest })
            }
            Packing::DropPerGroup | Packing::Carry => Ok(()),
        }
    }
}

impl Packing {
    /// A name for what is stored, of which the id that fills up is no part.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Packing::DropPerGroup => "drop per group",
            Packing::Carry => "carry",
            Packing::PadToBlock { .. } => "pad to block",
        }
    }
}

impl Blocks {
    /// Cuts rows of ids. There is at least one block, else an error says how many tokens there are.
    pub fn from_rows(
        rows: impl IntoIterator<Item = Result<Vec<i32>, DataError>>,
        options: &BlockOptions,
    ) -> Result<Blocks, DataError> {
        options.check()?;
        let mut packer = Packer::new(options, EntryWriter::create(None)?);
        for row in rows {
            packer.row(&row?)?;
        }
        Ok(Blocks::new(packer.finish()?, options.packing, false))
    }

    /// Reads, tokenizes and cuts a corpus. [`TokenCache::blocks`] does the same and keeps it.
    pub fn from_corpus(
        corpus: &Corpus,
        tokenizer: &Tokenizer,
        options: &BlockOptions,
    ) -> Result<Blocks, DataError> {
        TokenCache::none().blocks(corpus, tokenizer, options, &mut |_| ())
    }

    pub(crate) fn new(store: Store, packing: Packing, from_cache: bool) -> Blocks {
        let len = store.summary.blocks as usize;
        let blocks = Blocks { store: Arc::new(store), len, packing, from_cache };
        tracing::debug!(
            blocks = blocks.num_blocks(),
            block_size = blocks.block_size(),
            tokens = blocks.total_tokens(),
            dropped = blocks.dropped_tokens(),
            from_cache,
            "have blocks"
        );
        blocks
    }

    /// The first blocks, at most this many but at least one. The tokens of the others count no more.
    #[must_use]
    pub fn take(self, most: usize) -> Blocks {
        Blocks { len: most.clamp(1, self.len), ..self }
    }

    /// How many blocks there are, at least one.
    pub fn num_blocks(&self) -> usize {
        self.len
    }

    /// Tokens per block.
    pub fn block_size(&self) -> usize {
        self.store.summary.block_size as usize
    }

    /// How rows became blocks.
    pub fn packing(&self) -> Packing {
        self.packing
    }

    /// The ids of block `index`: as many as the block size, or fewer in [`Packing::PadToBlock`].
    ///
    /// # Errors
    /// When the file with the ids cannot be read.
    ///
    /// # Panics
    ///
    /// If `index` is not below [`Blocks::num_blocks`].
    pub fn block(&self, index: usize) -> Result<Vec<i32>, DataError> {
        let mut ids = Vec::new();
        self.read(index, &mut ids)?;
        Ok(ids)
    }

    /// Appends the ids of block `index`.
    pub(crate) fn read(&self, index: usize, ids: &mut Vec<i32>) -> Result<(), DataError> {
        assert!(index < self.len, "block {index} of {}", self.len);
        Ok(self.store.read(index, ids)?)
    }

    /// Tokens in the text, including those that are in no block but without those of blocks that
    /// [`Blocks::take`] left out.
    pub fn total_tokens(&self) -> usize {
        let summary = &self.store.summary;
        let left_out = summary.stored_tokens - self.store.tokens_in(self.len);
        (summary.total_tokens - left_out) as usize
    }

    /// Tokens of the text that are in no block.
    pub fn dropped_tokens(&self) -> usize {
        (self.store.summary.total_tokens - self.store.summary.stored_tokens) as usize
    }

    /// Rows of the text that were cut to the block size, in [`Packing::PadToBlock`].
    pub fn truncated_rows(&self) -> usize {
        self.store.summary.truncated_rows as usize
    }

    /// Rows of the text that have fewer than two tokens and are no block, in [`Packing::PadToBlock`].
    pub fn skipped_rows(&self) -> usize {
        self.store.summary.skipped_rows as usize
    }

    /// Whether they were there already, and no text was tokenized.
    pub fn from_cache(&self) -> bool {
        self.from_cache
    }
}
