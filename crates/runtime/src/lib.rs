//! Plugins fetched, programs compiled, sharded arrays kept and executed.

#![forbid(unsafe_code)]

pub mod plugins;
