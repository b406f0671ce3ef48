use super::store::{Store, Summary};
use super::{BlockError, BlockOptions, Packing, ROWS_PER_GROUP};
use crate::DataError;
use crate::cache::{CacheError, EntryWriter};

/// Makes blocks of rows, as they come.
pub(crate) struct Packer {
    block_size: usize,
    packing: Packing,
    out: EntryWriter,
    /// Ids of rows that do not fill a block yet, fewer than a block has between two rows.
    pending: Vec<i32>,
    ends: Vec<u64>,
    summary: Summary,
    groups: Groups,
    bytes: Vec<u8>,
}

/// What an error tells of groups.
#[derive(Default)]
struct Groups {
    count: usize,
    longest: usize,
    /// Rows and ids of the group that is not done.
    rows: usize,
    tokens: usize,
}

impl Packer {
    /// `options` are in order.
    pub(crate) fn new(options: &BlockOptions, out: EntryWriter) -> Packer {
        let BlockOptions { block_size, packing } = *options;
        let has_ends = matches!(packing, Packing::PadToBlock { .. });
        let summary = Summary { block_size: block_size as u64, has_ends, ..Summary::default() };
        let (pending, ends, bytes) = (Vec::new(), Vec::new(), Vec::new());
        Packer { block_size, packing, out, pending, ends, summary, groups: Groups::default(), bytes }
    }

    pub(crate) fn row(&mut self, ids: &[i32]) -> Result<(), CacheError> {
        self.summary.total_tokens += ids.len() as u64;
        match self.packing {
            Packing::PadToBlock { .. } => self.example(ids),
            Packing::DropPerGroup | Packing::Carry => self.part(ids),
        }
    }

    /// The whole file.
    pub(crate) fn finish(mut self) -> Result<Store, DataError> {
        if self.groups.rows > 0 {
            self.end_group();
        }
        if self.summary.blocks == 0 {
            return Err(self.no_blocks().into());
        }
        for end in std::mem::take(&mut self.ends) {
            self.out.write(&end.to_le_bytes())?;
        }
        let store = Store::open(self.out.finish(self.summary)?)?;
        Ok(store.expect("what was written is read back"))
    }

    /// A row that is an example of its own.
    fn example(&mut self, ids: &[i32]) -> Result<(), CacheError> {
        if ids.len() < 2 {
            self.summary.skipped_rows += 1;
            return Ok(());
        }
        self.summary.truncated_rows += u64::from(ids.len() > self.block_size);
        self.write(&ids[..ids.len().min(self.block_size)])?;
        self.summary.blocks += 1;
        self.ends.push(self.summary.stored_tokens);
        Ok(())
    }

    /// A row that is joined with those around it.
    fn part(&mut self, ids: &[i32]) -> Result<(), CacheError> {
        self.pending.extend_from_slice(ids);
        if self.pending.len() >= self.block_size {
            let mut pending = std::mem::take(&mut self.pending);
            let blocks = pending.len() / self.block_size;
            self.write(&pending[..blocks * self.block_size])?;
            self.summary.blocks += blocks as u64;
            pending.drain(..blocks * self.block_size);
            self.pending = pending;
        }
        self.groups.rows += 1;
        self.groups.tokens += ids.len();
        if self.groups.rows == ROWS_PER_GROUP {
            self.end_group();
        }
        Ok(())
    }

    fn end_group(&mut self) {
        if self.packing == Packing::DropPerGroup {
            self.pending.clear();
        }
        let Groups { count, longest, tokens, .. } = self.groups;
        self.groups = Groups { count: count + 1, longest: longest.max(tokens), rows: 0, tokens: 0 };
    }

    fn write(&mut self, ids: &[i32]) -> Result<(), CacheError> {
        self.summary.stored_tokens += ids.len() as u64;
        self.bytes.clear();
        self.bytes.extend(ids.iter().flat_map(|id| id.to_le_bytes()));
        self.out.write(&self.bytes)
    }

    fn no_blocks(&self) -> BlockError {
        let (tokens, block_size) = (self.summary.total_tokens as usize, self.block_size);
        if tokens == 0 {
            BlockError::NoTokens { block_size }
        } else if let Packing::PadToBlock { .. } = self.packing {
            BlockError::RowsTooShort { rows: self.summary.skipped_rows }
        } else if tokens < block_size {
            BlockError::TooShort { tokens, block_size }
        } else {
            let Groups { count: groups, longest, .. } = self.groups;
            BlockError::GroupsTooShort { tokens, block_size, groups, longest }
        }
    }
}
