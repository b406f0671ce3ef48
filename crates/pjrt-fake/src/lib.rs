//! A small PJRT plugin for tests: it holds its callers to the rules of the C API, and does on request what plugins
//! seldom do.
//!
//! It is real as far as it goes. Clients have devices and memories, programs are compiled, arrays are copied and
//! computed with, on a thread of its own, and events come when that is done. What it knows of XLA is the few fields
//! of its protos that the safe layer writes and reads.
//!
//! # Two ways to use it
//!
//! - **Linked into a test.** A [`Session`] hands out function tables, which can be changed, tells what is alive, and
//!   at its end fails the test if an object was left, freed twice, or used after it was freed.
//! - **Loaded as a plugin.** [`path`] is the shared library, which Cargo builds for every package with this one
//!   among its dev-dependencies. There a broken rule ends the process, with a message on standard error.
//!
//! Objects are numbers and never addresses, and no number is given twice. So a call with one that was destroyed is
//! noticed always, whatever an allocator does.
//!
//! # Options of a client
//!
//! | option | value | meaning |
//! | --- | --- | --- |
//! | `devices` | integer | how many devices there are; 1 unless given, and 0 is allowed |
//! | `addressable` | integer | how many of them, the first ones, this process reaches; all unless given |
//! | `process_index` | integer | which process this one is |
//! | `events` | `now`, `thread`, `late` | when work is done: before the call comes back, soon by another thread, or by that thread once something waits for an event or [`Session::release`] is called |
//! | `fail` | integer | the client is not created; the number is the status code |
//! | `put` | `key=value` | calls the put callback of the key-value store |
//! | `put_later` | `key=value` | calls it once more when the client is there, when work is done as `events` says |
//! | `get` | key | calls its get callback; the platform's version is then what it gave |
//! | `try_get` | key | the same with its try-get callback |
//! | `timeout_ms` | integer | how long the get callback may wait; 1000 unless given |
//!
//! # Programs
//!
//! A program is one statement, alone or behind `// fake: ` on a line of another text, so that a StableHLO module
//! can carry it.
//!
//! | statement | meaning |
//! | --- | --- |
//! | `add f32[2,3]` | two parameters of this type (`f32` or `s32`), and their sum |
//! | `identity f32[2] s32[]` | parameters of these types, which are also the results |
//! | `sum f32[4]` | the sum of all elements, a scalar |
//! | `nothing` | neither parameters nor results |
//! | `donate` before one of these | the first parameter is given up, unless the call says that it is not |
//! | `fail 13 words` | compiling fails with this status code and message |
//! | `run-fail 13 words` | running fails: call and compilation succeed, the result `f32[]` and the event do not |
//! | `null` | compiling succeeds and gives null |
//! | `null-output` | running succeeds and gives null for the result `f32[]` |
//! | `abort words` | the compiler aborts with this message |
//! | `exit 3` | the compiler ends the process |
//! | `segfault` | the compiler touches memory that is not there |
//! | `hang` | the compiler never comes back |
//! | `allocate 1000000` | the compiler needs so many bytes, and then it is `nothing` |
//!
//! Programs are not cut. Of one that is compiled for several partitions, the Shardings extension says that the first dim
//! of each array is, one tile for each.
#![expect(unsafe_code, reason = "this crate is the other side of a C interface")]

mod buffer;
mod call;
mod client;
mod event;
mod executable;
mod execute;
mod failure;
mod manager;
mod options;
mod program;
mod proto;
mod registry;
mod session;
mod store;
mod topology;
mod work;

use std::path::PathBuf;

use shardwright_pjrt_sys as sys;

pub use session::Session;

/// What makes a library a PJRT plugin: gives its function table.
#[unsafe(no_mangle)]
pub extern "C" fn GetPjrtApi() -> *mut sys::PJRT_Api {
    session::loaded_table()
}

/// The shared library, built by Cargo beside the test that asks.
///
/// # Panics
///
/// If it is not there: the asking package does not have this one as a dev-dependency.
pub fn path() -> PathBuf {
    let test = std::env::current_exe().expect("a test knows where it is");
    let name =
        format!("{}shardwright_pjrt_fake{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
    // Examples lie beside the folder of tests and libraries, and not in it.
    let folders =
        test.ancestors().skip(1).take(2).flat_map(|folder| [folder.to_owned(), folder.join("deps")]);
    let mut places = folders.map(|folder| folder.join(&name));
    places.find(|place| place.is_file()).unwrap_or_else(|| panic!("{name} is not beside {}", test.display()))
}
