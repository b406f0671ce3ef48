//! Safe PJRT: plugins, clients, executables, buffers and events.
//!
//! PJRT is the C interface through which a program hands work to an XLA compiler and runtime that was loaded as a
//! plugin: for CPUs, TPUs or other devices. This crate is its safe form, as far as compiling and running sharded
//! programs and describing devices that are not there take it:
//!
//! - [`Plugin`] is a loaded library, [`Client`] its runtime with [`Device`]s, [`Topology`] devices that are not
//!   there, to compile for;
//! - [`LoadedExecutable`] is a program on its devices, [`Executable`] what can be known of it without running it;
//! - [`Buffer`] is an array on one device, in one of the [`Memory`]s that it reaches, [`Upload`] one that comes in
//!   pieces, [`Event`] something that is under way.
//!
//! It knows neither meshes nor shardings. To it, an array over several devices is a list of buffers, and a program
//! is bytes. Nothing here looks for plugins either: what is loaded is what the caller names.
//!
//! # What makes it safe
//!
//! - **One call path.** A plugin may be older or newer than the bindings: a function that its table does not hold
//!   is an [`Error`] of kind [`ErrorKind::MissingFunction`] or [`ErrorKind::NullFunction`], and never a call into
//!   nowhere.
//! - **Children hold their parents.** A buffer, an event or an executable keeps its client alive, a client its
//!   plugin, and plugins are never unloaded.
//! - **Donation is a move.** See [`Arg`].
//! - **Host memory outlives the transfers that use it**, whatever is dropped first.
//! - **Callbacks end here.** No panic in one gets into the plugin, and a client whose last handle goes in one is
//!   destroyed on another thread, as the plugin would wait for its own.
//! - **What plugins are known to take badly is refused**: absurd numbers of devices, compiling for no device at all,
//!   arguments of other types than the program's, damaged executables and those of another plugin. See
//!   [`ClientOptions`], [`CompileOptions`], [`LoadedExecutable::execute`] and [`Client::load`].
//!
//! Two calls of safe code decide what native code this process runs, and whoever makes them answers for it:
//! [`Plugin::load`] for the library at a path, [`SerializedExecutable::from_trusted`] for the bytes of a compiled
//! program. All the rest builds on these two having been right.
//!
//! What it cannot mend: a plugin is native code in this process, and some programs and flags make it abort. Whoever
//! compiles what others wrote does so in a child process. And a plugin that is lent memory to copy to, and gives no
//! event by which to know when it has, leaves no sound way on: there this crate ends the process, with a message.
//!
//! # Threads
//!
//! Everything is [`Send`] and [`Sync`], as PJRT requires of plugins that their functions can be called from any
//! thread, and on one object from several at once. What frees an object is called when nobody else has it.
//!
//! # Example
//!
//! ```no_run
//! use shardwright_pjrt::{Arg, Client, ClientOptions, CompileOptions, Plugin, ProgramFormat};
//! use shardwright_tensor::HostArray;
//!
//! let plugin = Plugin::load("plugin.so".as_ref())?;
//! let client = Client::new(&plugin, &ClientOptions::default())?;
//! let program = "
//!     func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
//!       %y = stablehlo.add %x, %x : tensor<2xf32>
//!       return %y : tensor<2xf32>
//!     }";
//! let executable = client.compile(program.as_bytes(), ProgramFormat::Mlir, &CompileOptions::default())?;
//!
//! let device = executable.addressable_devices().next().expect("every program has a device");
//! let x = client.buffer_from_host(&HostArray::from_slice(&[2], &[1f32, 2.])?, device)?;
//! let execution = executable.execute([Arg::Donate(vec![x])])?;
//! assert_eq!(execution.outputs[0][0].to_host()?.as_slice::<f32>()?, &[2., 4.]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![expect(unsafe_code, reason = "this crate is the safe side of a C interface")]

mod api;
mod buffer;
mod callback;
mod client;
mod counters;
mod device;
mod elf;
mod error;
mod event;
mod executable;
mod execute;
mod exit;
mod extension;
mod kv_store;
mod loaded;
mod memory;
mod named_value;
mod options;
mod plugin;
mod program;
mod serialized;
mod shardings;
mod signature;
#[cfg(test)]
mod tests;
mod topology;
mod transfer;
mod types;

pub use buffer::{Buffer, PendingHostCopy};
pub use client::Client;
pub use counters::{CounterSnapshot, Counters, Operation, OperationCount, OperationTimer, Tally};
pub use device::{Device, DeviceDescription, DeviceMemoryStats};
pub use error::{Error, ErrorKind, StatusCode};
pub use event::{Event, EventFuture};
pub use executable::{CompiledMemoryStats, Executable, OptimizedProgram};
pub use execute::{Arg, Execution};
pub use exit::exit_now;
pub use extension::Extension;
pub use kv_store::{KeyValueError, KeyValueStore, MemoryStore};
pub use loaded::LoadedExecutable;
pub use memory::{Memory, Place};
pub use named_value::{Attributes, NamedValue};
pub use options::{ClientOptions, CompileOptions, Effort, EffortLevel, OptionValue};
pub use plugin::Plugin;
pub use program::ProgramFormat;
pub use serialized::SerializedExecutable;
pub use topology::Topology;
pub use transfer::Upload;
