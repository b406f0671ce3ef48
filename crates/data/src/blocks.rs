use std::sync::Arc;

use thiserror::Error;

use crate::{Corpus, DataError, Tokenizer};

/// Token ids cut into blocks of one size. Cloning shares them.
#[derive(Clone, Debug)]
pub struct Blocks {
    block_size: usize,
    ids: Arc<Vec<i32>>,
    total_tokens: usize,
}

/// What becomes of the tokens behind the last full block of a group of rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Remainder {
    /// They are dropped, as Hugging Face's causal-LM script does: with [`ROWS_PER_GROUP`](crate::ROWS_PER_GROUP)
    /// rows to a group, up to `block_size - 1` tokens of every 1000 rows. The same blocks as there.
    #[default]
    DropPerGroup,
    /// The next group goes on with them. Only the last block of the corpus can be dropped.
    Carry,
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

impl Blocks {
    /// Cuts the ids of each group into blocks of `block_size`, in order.
    ///
    /// Only full blocks are made; there is at least one, else an error says how many tokens there are.
    pub fn group(
        groups: impl IntoIterator<Item = Result<Vec<i32>, DataError>>,
        block_size: usize,
        remainder: Remainder,
    ) -> Result<Blocks, DataError> {
        if block_size < 2 {
            return Err(BlockError::BlockSize { block_size }.into());
        }
        let mut ids = Vec::new();
        let (mut total, mut longest, mut n_groups) = (0, 0, 0);
        for group in groups {
            let group = group?;
            total += group.len();
            longest = longest.max(group.len());
            n_groups += 1;
            ids.extend_from_slice(match remainder {
                Remainder::DropPerGroup => &group[..full(group.len(), block_size)],
                Remainder::Carry => &group,
            });
        }
        ids.truncate(full(ids.len(), block_size));
        if ids.is_empty() {
            return Err(no_blocks(total, block_size, n_groups, longest).into());
        }
        ids.shrink_to_fit();
        Ok(Blocks { block_size, ids: Arc::new(ids), total_tokens: total })
    }

    /// Reads, tokenizes and cuts a corpus. Errors name its files.
    pub fn from_corpus(
        corpus: &Corpus,
        tokenizer: &Tokenizer,
        block_size: usize,
        remainder: Remainder,
    ) -> Result<Blocks, DataError> {
        let blocks = Blocks::group(tokenizer.encode(corpus.documents()), block_size, remainder);
        let blocks = blocks.map_err(|error| match error {
            DataError::Blocks(error) => DataError::CorpusBlocks { corpus: corpus.to_string(), error },
            other => other,
        })?;
        tracing::debug!(
            blocks = blocks.num_blocks(),
            block_size,
            tokens = blocks.total_tokens(),
            dropped = blocks.dropped_tokens(),
            "grouped a corpus"
        );
        Ok(blocks)
    }

    /// The first blocks, at most this many but at least one. The tokens of the others count no more.
    #[must_use]
    pub fn take(self, most: usize) -> Blocks {
        let kept = most.clamp(1, self.num_blocks()) * self.block_size;
        if kept == self.ids.len() {
            return self;
        }
        let total_tokens = self.total_tokens - (self.ids.len() - kept);
        Blocks { ids: Arc::new(self.ids[..kept].to_vec()), total_tokens, ..self }
    }

    /// How many blocks there are, at least one.
    pub fn num_blocks(&self) -> usize {
        self.ids.len() / self.block_size
    }

    /// Tokens per block.
    pub fn block_size(&self) -> usize {
        self.block_size
    }

    /// The ids of block `index`.
    ///
    /// # Panics
    ///
    /// If `index` is not below [`Blocks::num_blocks`].
    pub fn block(&self, index: usize) -> &[i32] {
        &self.ids[index * self.block_size..][..self.block_size]
    }

    /// Tokens in the text, including those that are in no block but without those of blocks that
    /// [`Blocks::take`] left out.
    pub fn total_tokens(&self) -> usize {
        self.total_tokens
    }

    /// Tokens that did not fill a block.
    pub fn dropped_tokens(&self) -> usize {
        self.total_tokens - self.ids.len()
    }
}

/// The largest multiple of `block_size` up to `len`.
fn full(len: usize, block_size: usize) -> usize {
    len - len % block_size
}

fn no_blocks(tokens: usize, block_size: usize, groups: usize, longest: usize) -> BlockError {
    if tokens == 0 {
        BlockError::NoTokens { block_size }
    } else if tokens < block_size {
        BlockError::TooShort { tokens, block_size }
    } else {
        BlockError::GroupsTooShort { tokens, block_size, groups, longest }
    }
}
