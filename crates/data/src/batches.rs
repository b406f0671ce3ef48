//! Which blocks make up the batch of any step, and the arrays of it.

mod plan;

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use shardwright_tensor::HostArray;

use crate::shuffle::shuffled;
use crate::{Blocks, DataError, Packing, Prefetcher};
pub use plan::{BatchError, BatchPlan, Position};

/// The label of a position that does not count in the loss.
pub const IGNORED_LABEL: i32 = -100;

/// The batches of every epoch, by random access. Cloning shares the blocks.
///
/// The order of an epoch is a Fisher–Yates shuffle of all blocks, drawn from SplitMix64 that starts from the seed
/// and the number of the epoch. The batch at a [`Position`] is the part of the order that begins there.
///
/// The micro-batches of an update follow one another in that part, and so in the rows of a [`Batch`]: a step that
/// accumulates gradients takes them as `[accumulation, micro-batch, block]`. Where the blocks of an epoch end, rows
/// without a label follow, down to whole micro-batches of them. A mean over all labels of the update, not over the means
/// of micro-batches, is therefore right for every batch.
#[derive(Clone, Debug)]
pub struct Batches {
    blocks: Blocks,
    plan: BatchPlan,
    /// Where the first batch begins.
    start: Position,
    /// The rows of each micro-batch that this process feeds.
    rows: Range<usize>,
    latest: Arc<Mutex<Option<EpochOrder>>>,
}

/// One batch, or the part of it that a process feeds. All batches of a run have the same shape.
#[derive(Clone, Debug, PartialEq)]
pub struct Batch {
    /// Where it begins in the order of blocks.
    pub position: Position,
    /// Token ids, `s32[batch, block]`, the rows of the first micro-batch first. Rows behind the real ones are zeros.
    pub input_ids: HostArray,
    /// A copy of the ids, not shifted: the model shifts. What only fills up, rows behind the real ones and the ends of
    /// short rows, is [`IGNORED_LABEL`].
    pub labels: HostArray,
    /// The block in each real row; others follow only in the last batch of an epoch.
    pub block_indices: Vec<usize>,
    /// The real rows of the whole batch, of all processes.
    pub global_rows: usize,
}

/// Batches one after the other, through the epochs; see [`Batches::steps`].
#[derive(Clone, Debug)]
pub struct Steps {
    batches: Batches,
    steps: Range<u64>,
}

impl Batches {
    /// Arranges `blocks`. There is at least one step in an epoch, else an error says what is missing.
    pub fn new(blocks: &Blocks, plan: BatchPlan) -> Result<Batches, DataError> {
        plan.check(blocks.num_blocks(), blocks.block_size())?;
        let (blocks, rows) = (blocks.clone(), 0..plan.micro_batch_size());
        Ok(Batches { blocks, plan, start: Position::default(), rows, latest: Arc::default() })
    }

    /// The part of the same batches that one process of several feeds, and no other blocks are read.
    ///
    /// Of each micro-batch, process 0 has the first rows, and all have as many.
    pub fn for_process(&self, process: usize, processes: usize) -> Result<Batches, DataError> {
        if process >= processes {
            return Err(BatchError::NoSuchProcess { process, processes }.into());
        }
        let micro_batch_size = self.plan.micro_batch_size();
        if !micro_batch_size.is_multiple_of(processes) {
            return Err(BatchError::Processes { micro_batch_size, processes }.into());
        }
        let each = micro_batch_size / processes;
        Ok(Batches { rows: process * each..(process + 1) * each, ..self.clone() })
    }

    /// The batches from a position on, such as that where a run with another batch size stopped. What is left of that
    /// epoch is cut into batches from there.
    #[must_use]
    pub fn starting_at(&self, position: Position) -> Batches {
        Batches { start: self.normal(position), ..self.clone() }
    }

    /// The plan the batches follow.
    pub fn plan(&self) -> &BatchPlan {
        &self.plan
    }

    /// The blocks that are arranged.
    pub fn blocks(&self) -> &Blocks {
        &self.blocks
    }

    /// Batches in one epoch, at least one.
    pub fn steps_per_epoch(&self) -> u64 {
        self.steps_from(0)
    }

    /// Blocks that an epoch leaves out. Which ones differs from epoch to epoch when the order does.
    pub fn dropped_blocks(&self) -> usize {
        self.blocks.num_blocks() - self.used_from(0)
    }

    /// Where the batch of `step` begins; steps are counted from the start of these batches through all epochs. It is
    /// where a run stands that has taken this many.
    pub fn position(&self, step: u64) -> Position {
        let batch = self.plan.global_batch_size;
        let Position { epoch, blocks } = self.start;
        let first = self.steps_from(blocks);
        if step < first {
            return Position { epoch, blocks: blocks + step as usize * batch };
        }
        let (later, per_epoch) = (step - first, self.steps_per_epoch());
        Position {
            epoch: epoch.saturating_add(1).saturating_add(later / per_epoch),
            blocks: (later % per_epoch) as usize * batch,
        }
    }

    /// The blocks in the batch at a position, of all processes, without reading them.
    ///
    /// A position behind the last batch of an epoch is the beginning of the next one.
    pub fn block_indices(&self, position: Position) -> Vec<usize> {
        let Position { epoch, blocks } = self.normal(position);
        let end = blocks + self.used_from(blocks).min(self.plan.global_batch_size);
        self.order(epoch)[blocks..end].to_vec()
    }

    /// The batch at a position.
    ///
    /// # Errors
    /// When the file with the ids cannot be read.
    pub fn batch(&self, position: Position) -> Result<Batch, DataError> {
        let position = self.normal(position);
        let _span = tracing::debug_span!("make batch", position.epoch, position.blocks).entered();
        let all = self.block_indices(position);
        let micro_batches = (0..self.plan.accumulation).map(|k| k * self.plan.micro_batch_size());
        let rows = micro_batches.flat_map(|first| self.rows.clone().map(move |row| first + row));
        let block_indices: Vec<usize> = rows.map_while(|row| all.get(row).copied()).collect();
        let (input_ids, labels) = self.arrays(&block_indices)?;
        Ok(Batch { position, input_ids, labels, block_indices, global_rows: all.len() })
    }

    /// The batches of these steps, counted as in [`Batches::position`].
    ///
    /// A run that stopped after `n` steps goes on with `steps(n..end)`; nothing before `n` is read.
    pub fn steps(&self, steps: Range<u64>) -> Steps {
        Steps { batches: self.clone(), steps }
    }

    /// The batches of these steps, prepared ahead on a thread of its own.
    pub fn prefetch(&self, steps: Range<u64>) -> Result<Prefetcher<Batch>, DataError> {
        Prefetcher::spawn(self.steps(steps))
    }

    /// The ids and labels of rows, in arrays of the full shape.
    fn arrays(&self, block_indices: &[usize]) -> Result<(HostArray, HostArray), DataError> {
        let dims = [self.plan.accumulation * self.rows.len(), self.blocks.block_size()];
        let pad_id = match self.blocks.packing() {
            Packing::PadToBlock { pad_id } => pad_id,
            Packing::DropPerGroup | Packing::Carry => 0,
        };
        let mut ids = Vec::with_capacity(dims[0] * dims[1]);
        let mut labels = Vec::with_capacity(dims[0] * dims[1]);
        for (row, &block) in block_indices.iter().enumerate() {
            self.blocks.read(block, &mut ids)?;
            labels.extend_from_slice(&ids[row * dims[1]..]);
            ids.resize((row + 1) * dims[1], pad_id);
            labels.resize(ids.len(), IGNORED_LABEL);
        }
        ids.resize(dims[0] * dims[1], 0);
        labels.resize(ids.len(), IGNORED_LABEL);
        let array = |values: &[i32]| {
            HostArray::from_slice(&dims, values).expect("the shape was checked and the rows fill it")
        };
        Ok((array(&ids), array(&labels)))
    }

    /// The same place, before a block that is in a batch.
    fn normal(&self, position: Position) -> Position {
        if self.used_from(position.blocks) > 0 {
            return position;
        }
        Position { epoch: position.epoch.saturating_add(1), blocks: 0 }
    }

    /// How many blocks of an epoch are in batches, if batches begin behind this many of them.
    fn used_from(&self, blocks: usize) -> usize {
        self.plan.used(self.blocks.num_blocks().saturating_sub(blocks))
    }

    fn steps_from(&self, blocks: usize) -> u64 {
        self.used_from(blocks).div_ceil(self.plan.global_batch_size) as u64
    }

    fn order(&self, epoch: u64) -> Arc<[usize]> {
        // Nothing is left half done when a holder panics: the value is replaced in one assignment.
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        match &*latest {
            Some(known) if known.epoch == epoch => known.order.clone(),
            _ => {
                let order: Arc<[usize]> = self.new_order(epoch).into();
                *latest = Some(EpochOrder { epoch, order: order.clone() });
                order
            }
        }
    }

    fn new_order(&self, epoch: u64) -> Vec<usize> {
        let len = self.blocks.num_blocks();
        if self.plan.shuffle { shuffled(len, self.plan.seed, epoch) } else { (0..len).collect() }
    }
}

/// The order of the epoch that was asked for last: batches are mostly asked for one after the other.
#[derive(Clone, Debug)]
struct EpochOrder {
    epoch: u64,
    order: Arc<[usize]>,
}

impl Iterator for Steps {
    type Item = Result<Batch, DataError>;

    fn next(&mut self) -> Option<Self::Item> {
        let step = self.steps.next()?;
        Some(self.batches.batch(self.batches.position(step)))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.steps.size_hint()
    }
}
