//! Programs written in Rust, and their gradients.
