//! Plugins fetched, programs compiled, sharded arrays kept and executed.
