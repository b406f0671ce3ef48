//! Decoder models, as Hugging Face configures and names them: Llama, Mistral, Qwen2, Qwen3, Gemma, Gemma 2 and the text
//! models of Gemma 3.
//!
//! [`ModelConfig`] is what a `config.json` means. Parsing it decides whether the model can be run as it was
//! meant: a setting that would change the numbers and is not supported (an unknown rotary scaling, attention
//! dropout, a window in a family that has none) is an error that names the field, and never ignored. Everything else
//! that the file says is kept, and [`ModelConfig::to_json`] writes it back.
//!
//! There is one decoder. What a family does differently is a table (`family.rs`), what one model does a few choices
//! that its configuration holds. Layers of one [`LayerKind`] are the same function of their weights.
//!
//! [`parameters`] and [`modules`] list what such a model consists of under the names and classes of the original
//! implementation, because those names are what users meet in checkpoints, wrap policies and error messages.
//! Both are plain data: planning a 405-billion-parameter model needs nothing else.
//!
//! [`logits`] writes the model into a program, and [`causal_loss`] its training loss. [`Lora`] are low-rank adapters beside
//! its projections, which are trained in its place.
//!
//! Nothing here reads files, holds weights or knows devices.
//!
//! ```
//! use shardwright_model::{ModelConfig, parameter_count, parameters};
//!
//! let text = r#"{"model_type": "llama", "hidden_size": 64, "intermediate_size": 176, "num_hidden_layers": 2,
//!                "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 260}"#;
//! let config = ModelConfig::parse(text, "tiny/config.json")?;
//! assert_eq!(config.head_dim(), 16);
//! assert_eq!(parameter_count(&config), 125_760);
//!
//! let k_proj = &parameters(&config)[2];
//! assert_eq!(k_proj.name, "model.layers.0.self_attn.k_proj.weight");
//! assert_eq!(k_proj.shape, [32, 64]);
//! # Ok::<(), shardwright_model::ConfigError>(())
//! ```
#![forbid(unsafe_code)]

mod activation;
mod attention;
mod config;
mod decoder;
mod family;
mod layer;
mod lora;
mod loss;
mod parameters;
mod rotary;
mod stacked;
mod tensor;

pub use config::{ConfigError, ConfigProblem, LayerKind, ModelConfig};
pub use decoder::{Weights, logits};
pub use lora::{Adapter, Lora, LoraConfig, LoraError, LoraInit, LoraModules, LoraProblem};
pub use loss::{CausalLoss, IGNORED_LABEL, causal_loss};
pub use parameters::{Init, ModuleInfo, ParameterInfo, ParameterKind, modules, parameter_count, parameters};
pub use rotary::{RotaryConfig, RotaryError, RotaryScaling, Rotation, rotation};
pub use stacked::{StackError, StackedParameter, stacked_modules, stacked_parameters};
pub use tensor::{TensorError, TensorStyle, tensor_plan};
