//! From files to batches, through the public interface.

mod batches;
mod blocks;
mod cache;
mod corpus;
mod fixture;
mod formats;
mod tokenizer;
