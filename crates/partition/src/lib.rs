//! FSDP as sharding specs on a program.
