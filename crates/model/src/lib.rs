//! Decoder models as functions, with Hugging Face configurations and parameter names.
