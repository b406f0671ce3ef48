//! Text to tokens to deterministic global batches, for causal language models.
//!
//! The way is one line: [`Corpus`] finds the files and streams their rows, [`Tokenizer`] turns rows into ids in
//! parallel, [`TokenCache`] keeps the ids cut into [`Blocks`] of one size, [`Batches`] says which blocks make up the
//! global batch of any step, and [`Prefetcher`] prepares the next ones on a thread of its own.
//!
//! Three decisions carry the rest:
//!
//! - **A batch is a function of the blocks, the plan and the position.** The order of an epoch comes from the seed and
//!   the number of the epoch alone, and [`Batches::batch`] is random access. Resuming therefore reads on where the run
//!   stopped, without replaying what came before, and the number of devices or hosts, and the batch size, have no say.
//! - **Every batch of a run has one shape.** The ragged last batch of an epoch is either dropped or filled up with rows
//!   whose labels are all [`IGNORED_LABEL`], so a program is compiled once.
//! - **Ids lie in a file.** Text is read, tokenized and written in small parts at the same time, and a batch reads its
//!   blocks at their positions, so memory does not grow with the text.
//!
//! What this is not: it does not know devices (splitting a batch over a mesh is the caller's), it never downloads,
//! and it prints nothing: counts of what was dropped or skipped are returned.
//!
//! ```
//! use shardwright_data::{BatchPlan, Batches, BlockOptions, Blocks, Corpus, CorpusOptions, Tokenizer};
//!
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("corpus.txt");
//! std::fs::write(&path, "the cat sat on the mat\n".repeat(100))?;
//! let corpus = Corpus::open(&[path], CorpusOptions::default())?;
//! let tokenizer = Tokenizer::train_byte_level_bpe(&corpus, 270, &["<s>", "</s>"])?;
//! let blocks = Blocks::from_corpus(&corpus, &tokenizer, &BlockOptions::new(32))?;
//!
//! let batches = Batches::new(&blocks, BatchPlan::new(4))?;
//! let batch = batches.batch(batches.position(0))?;
//! assert_eq!(batch.input_ids.ty().to_string(), "s32[4,32]");
//! assert_eq!(batch.block_indices.len(), 4);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod batches;
mod block_size;
mod blocks;
mod cache;
mod corpus;
mod error;
mod pipeline;
mod prefetch;
mod shuffle;
mod tokenizer;

pub use batches::{Batch, BatchError, BatchPlan, Batches, IGNORED_LABEL, Position, Steps};
pub use block_size::{BlockSize, effective_block_size};
pub use blocks::{BlockError, BlockOptions, Blocks, Packing, ROWS_PER_GROUP};
pub use cache::{CacheError, Progress, TokenCache};
pub use corpus::{Corpus, CorpusError, CorpusOptions, DEFAULT_VALIDATION_PERCENT, Documents, Place, Skipped};
pub use error::DataError;
pub use prefetch::{PrefetchError, Prefetcher};
pub use tokenizer::{Tokenizer, TokenizerError};
