//! Text to tokens to deterministic global batches.
