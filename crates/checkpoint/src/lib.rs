//! Hugging Face weights: saved, loaded, checked.
