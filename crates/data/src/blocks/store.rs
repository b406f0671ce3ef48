use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::cache::{CacheError, Entry, EntryFile};

const ID_BYTES: u64 = 4;
const END_BYTES: u64 = 8;

/// The ids of blocks in a file: those of one block after the other, `i32`, and for blocks of different lengths, the number
/// of ids up to the end of each, `u64`.
#[derive(Debug)]
pub(crate) struct Store {
    file: EntryFile,
    pub(super) summary: Summary,
    /// Where blocks end, in ids. Without it all have `block_size` ids.
    ends: Option<Vec<u64>>,
}

/// What is counted while blocks are made.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Summary {
    pub(super) block_size: u64,
    /// How many blocks there are.
    pub(super) blocks: u64,
    /// Ids in all blocks.
    pub(super) stored_tokens: u64,
    /// Ids in the text.
    pub(super) total_tokens: u64,
    /// Rows of which only the beginning is stored.
    pub(super) truncated_rows: u64,
    /// Rows that are no block for lack of a second token.
    pub(super) skipped_rows: u64,
    pub(super) has_ends: bool,
}

impl Store {
    /// Nothing if the entry's parts do not fit each other.
    pub(crate) fn open(entry: Entry<Summary>) -> Result<Option<Store>, CacheError> {
        let Entry { file, summary, body_bytes } = entry;
        let ids = summary.stored_tokens.saturating_mul(ID_BYTES);
        let ends = if summary.has_ends { summary.blocks.saturating_mul(END_BYTES) } else { 0 };
        let whole =
            summary.has_ends || summary.blocks.checked_mul(summary.block_size) == Some(summary.stored_tokens);
        if ids.checked_add(ends) != Some(body_bytes) || !whole || summary.blocks == 0 {
            return Ok(None);
        }
        let mut bytes = vec![0; ends as usize];
        file.read_exact_at(&mut bytes, ids)?;
        let (ends, _) = bytes.as_chunks::<{ END_BYTES as usize }>();
        let ends: Vec<u64> = ends.iter().map(|end| u64::from_le_bytes(*end)).collect();
        if summary.has_ends && !(ends.is_sorted() && ends.last() == Some(&summary.stored_tokens)) {
            return Ok(None);
        }
        let ends = summary.has_ends.then_some(ends);
        Ok(Some(Store { file, summary, ends }))
    }

    /// How many ids the first blocks have.
    pub(super) fn tokens_in(&self, blocks: usize) -> u64 {
        match (&self.ends, blocks) {
            (None, _) => blocks as u64 * self.summary.block_size,
            (Some(_), 0) => 0,
            (Some(ends), _) => ends[blocks - 1],
        }
    }

    /// Appends the ids of a block.
    pub(super) fn read(&self, block: usize, ids: &mut Vec<i32>) -> Result<(), CacheError> {
        let Range { start, end } = self.tokens_in(block)..self.tokens_in(block + 1);
        let mut bytes = vec![0; ((end - start) * ID_BYTES) as usize];
        self.file.read_exact_at(&mut bytes, start * ID_BYTES)?;
        let (read, _) = bytes.as_chunks::<{ ID_BYTES as usize }>();
        ids.extend(read.iter().map(|id| i32::from_le_bytes(*id)));
        Ok(())
    }
}
