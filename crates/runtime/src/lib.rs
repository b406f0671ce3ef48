//! Programs on devices: plugins found and fetched, sharded programs compiled, sharded arrays kept and passed through
//! them.
//!
//! | to do | use |
//! | --- | --- |
//! | find a plugin, or fetch the pinned one | [`plugins::resolve`] |
//! | open it, with its devices | [`Runtime::new`], or both at once: [`Runtime::open`] |
//! | name a grid of devices | [`Runtime::mesh`] |
//! | compile a [`ShardedModule`](shardwright_partition::ShardedModule) | [`Runtime::compile`] |
//! | compile an HLO proto with shardings, a [`ShardedHlo`](shardwright_partition::ShardedHlo) | [`Runtime::compile_hlo`] |
//! | compile a program of another framework as it is | [`Runtime::compile_foreign`] |
//! | keep compiled programs, or compile in a child process | [`compile`] |
//! | put an array on the devices, or back | [`ShardedArray`] |
//! | put there what each process has of it | [`ShardedArray::from_local`] |
//! | change its sharding, devices, memory or dtype | [`ShardedArray::reshard`], [`to_memory`](ShardedArray::to_memory), [`cast`](ShardedArray::cast) |
//! | run | [`Executable::execute`], [`ForeignExecutable::execute`] |
//! | give the compiler flags, or have it dump programs | [`CompilerOptions`] |
//! | see what was compiled, run and copied, and how long that took | [`Runtime::counters`] |
//! | compile for TPUs that are not there | [`topology`] |
//!
//! A mesh may reach over the devices of several processes, each of which runs the same program text. Then a
//! [`ShardedArray`] has the shards of its own process, and all processes compile and run the same things in the same
//! order. This has been tried with clients that stand for processes, and not yet with a plugin that joins real ones.
//!
//! This crate knows no training and no model. Everything that a plugin would take in silence or abort on (a wrong
//! dtype, another sharding, a mesh of devices that do not exist) is checked before the plugin sees it.
//!
//! Opening, compiling, running and copying are `tracing` spans at the level DEBUG.
#![forbid(unsafe_code)]

mod array;
pub mod compile;
mod compiler_options;
mod dump;
mod error;
mod executable;
mod flags;
mod foreign;
mod ordinary_file;
pub mod plugins;
mod runtime;
pub mod topology;

pub use array::{LocalPart, ShardedArray, Shards};
pub use compiler_options::CompilerOptions;
pub use dump::DumpOptions;
pub use error::{RuntimeError, RuntimeErrorKind};
pub use executable::{Argument, Executable, ExecutableValue, Execution};
pub use flags::CompilerFlags;
pub use foreign::ForeignExecutable;
pub use runtime::{Runtime, RuntimeOptions};
