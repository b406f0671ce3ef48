//! The `shardwright` command: train, shard programs of any framework, and look at devices and plugins.
//!
//! # Exit codes
//!
//! | code | meaning |
//! | --- | --- |
//! | 0 | done |
//! | 1 | the run failed |
//! | 2 | a flag, a setting or an input is wrong |
//! | 3 | no plugin, or its devices cannot be used |
//! | 130 | interrupted |
//!
//! Results go to stdout; progress, notices and errors go to stderr.

#![forbid(unsafe_code)]

mod cli;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main()
}
