use thiserror::Error;

/// How blocks are arranged in batches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchPlan {
    /// Blocks of one update, on all devices and hosts together: those of one device and one micro-batch, times the
    /// devices that the batch is split over, times the micro-batches.
    pub global_batch_size: usize,
    /// Micro-batches of one update: gradients are accumulated over them.
    pub accumulation: usize,
    /// Whether an epoch leaves out the blocks behind its last full micro-batch. Otherwise one more has them.
    ///
    /// Either way the last update of an epoch can have fewer micro-batches than others, as with Hugging Face.
    pub drop_last: bool,
    /// Whether every epoch has an order of its own; otherwise all have the order of the text.
    pub shuffle: bool,
    /// What the orders depend on, besides the number of the epoch.
    pub seed: u64,
}

/// A place in the order of blocks, between two of them. It says nothing of batches, so a run can go on from there with
/// another batch size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// The epoch, from 0.
    pub epoch: u64,
    /// The blocks of the epoch that lie before.
    pub blocks: usize,
}

/// Why blocks make no batches.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum BatchError {
    /// A batch of nothing.
    #[error("global batch size 0: it must be at least 1")]
    BatchSize,
    /// Micro-batches of different sizes, or none.
    #[error(
        "a global batch of {global_batch_size} blocks does not divide into {accumulation} micro-batches: \
         expected a multiple of the number of accumulation steps, which is at least 1"
    )]
    Accumulation {
        /// Blocks per update.
        global_batch_size: usize,
        /// Micro-batches per update.
        accumulation: usize,
    },
    /// Processes that would feed different numbers of rows.
    #[error(
        "a batch of {micro_batch_size} blocks does not divide over {processes} processes: \
         expected a multiple of {processes}"
    )]
    Processes {
        /// Blocks of one micro-batch, of all processes.
        micro_batch_size: usize,
        /// Processes that feed it.
        processes: usize,
    },
    /// A process that is none of them.
    #[error("there is no process {process} of {processes}: they are counted from 0")]
    NoSuchProcess {
        /// The process.
        process: usize,
        /// How many there are.
        processes: usize,
    },
    /// Every batch would be dropped.
    #[error(
        "{blocks} blocks are fewer than one global batch of {batch_size}, and the last ragged batch is dropped: \
         add text, lower the global batch to {blocks} or less, or keep the last batch (drop_last false)"
    )]
    NoFullBatch {
        /// Blocks found.
        blocks: usize,
        /// Blocks of one micro-batch, of all devices and hosts.
        batch_size: usize,
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

impl BatchPlan {
    /// Shuffled batches of this size with the seed 42, without accumulation; the last one of an epoch is kept.
    pub fn new(global_batch_size: usize) -> BatchPlan {
        BatchPlan { global_batch_size, accumulation: 1, drop_last: false, shuffle: true, seed: 42 }
    }

    /// For evaluation: each block once, in the order of the text.
    pub fn evaluation(global_batch_size: usize) -> BatchPlan {
        BatchPlan { shuffle: false, ..BatchPlan::new(global_batch_size) }
    }

    /// Blocks of one micro-batch, on all devices and hosts together.
    pub fn micro_batch_size(&self) -> usize {
        self.global_batch_size / self.accumulation.max(1)
    }

    pub(super) fn check(&self, blocks: usize, block_size: usize) -> Result<(), BatchError> {
        let BatchPlan { global_batch_size, accumulation, .. } = *self;
        if global_batch_size == 0 {
            return Err(BatchError::BatchSize);
        }
        if accumulation == 0 || !global_batch_size.is_multiple_of(accumulation) {
            return Err(BatchError::Accumulation { global_batch_size, accumulation });
        }
        if self.used(blocks) == 0 {
            return Err(BatchError::NoFullBatch { blocks, batch_size: self.micro_batch_size() });
        }
        if shardwright_tensor::Shape::new([global_batch_size, block_size]).is_err() {
            return Err(BatchError::TooLarge { global_batch_size, block_size });
        }
        Ok(())
    }

    /// Of blocks that are left of an epoch, how many are in a batch.
    pub(super) fn used(&self, left: usize) -> usize {
        if self.drop_last { left - left % self.micro_batch_size() } else { left }
    }
}
