use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use shardwright_tensor::HostArray;
use thiserror::Error;

use crate::shuffle::shuffled;
use crate::{Blocks, DataError, Prefetcher};

/// The label of a position that does not count in the loss.
pub const IGNORED_LABEL: i32 = -100;

/// How blocks are arranged in batches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchPlan {
    /// Blocks in the batch of all devices and hosts together.
    pub global_batch_size: usize,
    /// Whether an epoch leaves out the blocks behind its last full batch. Otherwise one more batch has them.
    pub drop_last: bool,
    /// Whether every epoch has an order of its own; otherwise all have the order of the text.
    pub shuffle: bool,
    /// What the orders depend on, besides the number of the epoch.
    pub seed: u64,
}

impl BatchPlan {
    /// Shuffled batches of this size with the seed 42; the last one of an epoch is kept.
    pub fn new(global_batch_size: usize) -> BatchPlan {
        BatchPlan { global_batch_size, drop_last: false, shuffle: true, seed: 42 }
    }
}

/// The batches of every epoch, by random access. Cloning shares the blocks.
///
/// The order of an epoch is a Fisher–Yates shuffle of all blocks, drawn from SplitMix64 that starts from the seed
/// and the number of the epoch. Batch `step` is the part of the order from `step * global_batch_size` on.
#[derive(Clone, Debug)]
pub struct Batches {
    blocks: Blocks,
    plan: BatchPlan,
    latest: Arc<Mutex<Option<EpochOrder>>>,
}

/// One global batch. All batches of a run have the same shape `[global_batch_size, block_size]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Batch {
    /// The epoch, from 0.
    pub epoch: u64,
    /// The step within the epoch, from 0.
    pub step: u64,
    /// Token ids, `s32[batch, block]`. Rows behind the real ones are zeros.
    pub input_ids: HostArray,
    /// A copy of the ids, not shifted: the model shifts. Rows behind the real ones are [`IGNORED_LABEL`].
    pub labels: HostArray,
    /// The block in each real row. There are fewer than rows only in the last batch of an epoch.
    pub block_indices: Vec<usize>,
}

/// Batches one after the other, through the epochs; see [`Batches::steps`].
#[derive(Clone, Debug)]
pub struct Steps {
    batches: Batches,
    steps: Range<u64>,
}

/// Why blocks make no batches.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum BatchError {
    /// A batch of nothing.
    #[error("global batch size 0: it must be at least 1")]
    BatchSize,
    /// Every batch would be dropped.
    #[error(
        "{blocks} blocks are fewer than one global batch of {global_batch_size}, and the last ragged batch is dropped: \
         add text, lower the global batch to {blocks} or less, or keep the last batch (drop_last false)"
    )]
    NoFullBatch {
        /// Blocks found.
        blocks: usize,
        /// Blocks per batch.
        global_batch_size: usize,
    },
    /// A batch that no memory can hold.
    #[error(
        "a global batch of {global_batch_size} blocks of {block_size} tokens is more than can be addressed"
    )]
    TooLarge {
        /// Blocks per batch.
        global_batch_size: usize,
        /// Tokens per block.
        block_size: usize,
    },
}

impl Batches {
    /// Arranges `blocks`. There is at least one step in an epoch, else an error says what is missing.
    pub fn new(blocks: &Blocks, plan: BatchPlan) -> Result<Batches, DataError> {
        let (n_blocks, global_batch_size) = (blocks.num_blocks(), plan.global_batch_size);
        if global_batch_size == 0 {
            return Err(BatchError::BatchSize.into());
        }
        if plan.drop_last && n_blocks < global_batch_size {
            return Err(BatchError::NoFullBatch { blocks: n_blocks, global_batch_size }.into());
        }
        let block_size = blocks.block_size();
        let dims = [global_batch_size, block_size];
        if shardwright_tensor::Shape::new(dims).is_err() {
            return Err(BatchError::TooLarge { global_batch_size, block_size }.into());
        }
        Ok(Batches { blocks: blocks.clone(), plan, latest: Arc::default() })
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
        let (blocks, batch) = (self.blocks.num_blocks(), self.plan.global_batch_size);
        let steps = if self.plan.drop_last { blocks / batch } else { blocks.div_ceil(batch) };
        steps as u64
    }

    /// Blocks that an epoch leaves out. Which ones differs from epoch to epoch when the order does.
    pub fn dropped_blocks(&self) -> usize {
        if self.plan.drop_last { self.blocks.num_blocks() % self.plan.global_batch_size } else { 0 }
    }

    /// The blocks in the batch of `step` in `epoch`, without making it.
    ///
    /// # Panics
    ///
    /// If `step` is not below [`Batches::steps_per_epoch`].
    pub fn block_indices(&self, epoch: u64, step: u64) -> Vec<usize> {
        let steps = self.steps_per_epoch();
        assert!(step < steps, "step {step} of an epoch of {steps} steps");
        let start = step as usize * self.plan.global_batch_size;
        let end = self.blocks.num_blocks().min(start + self.plan.global_batch_size);
        self.order(epoch)[start..end].to_vec()
    }

    /// The batch of `step` in `epoch`, both from 0.
    ///
    /// # Panics
    ///
    /// If `step` is not below [`Batches::steps_per_epoch`].
    pub fn batch(&self, epoch: u64, step: u64) -> Batch {
        let _span = tracing::debug_span!("make batch", epoch, step).entered();
        let block_indices = self.block_indices(epoch, step);
        let rows: Vec<&[i32]> = block_indices.iter().map(|&index| self.blocks.block(index)).collect();
        let (input_ids, labels) = (self.stacked(&rows, 0), self.stacked(&rows, IGNORED_LABEL));
        Batch { epoch, step, input_ids, labels, block_indices }
    }

    /// The batches of these steps, counted through all epochs from the start of the run.
    ///
    /// A run that stopped after `n` steps goes on with `steps(n..end)`; nothing before `n` is read.
    pub fn steps(&self, steps: Range<u64>) -> Steps {
        Steps { batches: self.clone(), steps }
    }

    /// The batches of these steps, prepared ahead on a thread of its own.
    pub fn prefetch(&self, steps: Range<u64>) -> Result<Prefetcher<Batch>, DataError> {
        Prefetcher::spawn(self.steps(steps).map(Ok))
    }

    /// The rows in an array of the full batch, with `filler` behind them.
    fn stacked(&self, rows: &[&[i32]], filler: i32) -> HostArray {
        let dims = [self.plan.global_batch_size, self.blocks.block_size()];
        let mut values = rows.concat();
        values.resize(dims[0] * dims[1], filler);
        HostArray::from_slice(&dims, &values).expect("the shape was checked and the rows fill it")
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
    type Item = Batch;

    fn next(&mut self) -> Option<Batch> {
        let step = self.steps.next()?;
        let per_epoch = self.batches.steps_per_epoch();
        Some(self.batches.batch(step / per_epoch, step % per_epoch))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.steps.size_hint()
    }
}
