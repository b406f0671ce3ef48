//! Compiling: from a cache on the disk, in a child process, or in this one.
//!
//! ```text
//!            ┌── in the cache ──────────────────────────────┐
//! program ──►│                                              ├─► loaded ─► Executable
//!            └── not there ──► child process ──► its bytes ─┘
//!                         └──► this process ────► loaded
//! ```
//!
//! Both are off unless asked for, in [`RuntimeOptions::compile`](crate::RuntimeOptions::compile); the `shardwright`
//! command asks for both.
//!
//! **The cache.** A program is found again by everything that it depends on: its text without locations, its compile
//! options, the digest of the plugin's file, versions, devices, processor, and the flags that the environment gives to
//! compilers. See [`CompileCache`] for what it promises, and [`CompileCache::find`] for where it lies. A program whose
//! options ask for the compiler's dumps is compiled each time, because the dumps are what is wanted. A program that is
//! compiled although there is a cache says why: [`CacheMiss`].
//!
//! **The child process.** A compiler is native code, and some programs and flags make it abort, crash, or run for
//! ever. In a child ([`ChildCompiler`]) it takes its own process with it, and the parent has an error with what it
//! said: [`CompilerDeath`]. The child loads the plugin once more, inherits the environment, compiles, and sends back
//! the executable, which is then loaded here; starting it costs about a tenth of a second. It ends with the parent.
//!
//! A child is used on the `cpu` platform only. Elsewhere devices have one owner, which is this process, so a second
//! client could not be made. A plugin that cannot give executables away, or take them, compiles in this process, and so
//! does one whose file was replaced since it was loaded: a child would load another.
//!
//! Programs that are compiled ahead of time, for a [`topology`](crate::topology), have neither: what they are compiled for
//! cannot be loaded here, and what they are asked (memory, cost, the optimized program) is read from the live executable.
//!
//! **Foreign programs.** [`ForeignProgram`] says what bytes from elsewhere are before a plugin sees them.

mod cache;
mod child;
mod compiler;
mod death;
mod entry;
mod folder;
mod foreign;
mod key;
mod locations;
mod place;
mod plugin_digest;
mod private;
mod protocol;
mod serve;

pub use cache::{CacheMiss, CacheSummary, CompileCache};
pub use child::ChildCompiler;
pub use compiler::{Compilation, CompileSetup, CompiledBy};
pub(crate) use compiler::{Compiler, LoadedFrom};
pub(crate) use death::Limit;
pub use death::{CompilerDeath, Ending};
pub use foreign::{ForeignProgram, ProgramError, StablehloVersion};
pub(crate) use key::Source;
pub use place::{CachePlaceError, CacheVariables};
pub(crate) use plugin_digest::PluginFile;
pub use serve::serve_if_asked;
