//! What a Hugging Face `config.json` means.

mod error;
mod layers;
mod meaning;
mod raw;
mod refused;

use serde_json::{Map, Value};
use shardwright_tensor::DType;

use crate::activation::Activation;
use crate::family::{Classes, Family, NormForm};
use crate::rotary::RotaryConfig;

pub use error::{ConfigError, ConfigProblem};

/// The model that a `config.json` describes, with everything else the file says.
///
/// Members that the file leaves out have the defaults of the original implementation. The values are known to go
/// together: sizes are positive, query heads divide into the key and value heads, head sizes are even.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelConfig {
    /// The file, member by member, as it was written.
    written: Map<String, Value>,
    family: Family,
    vocab_size: usize,
    hidden_size: usize,
    intermediate_size: usize,
    num_attention_heads: usize,
    num_key_value_heads: usize,
    head_dim: usize,
    max_position_embeddings: usize,
    rms_norm_eps: f64,
    initializer_range: f64,
    /// In layers that see everything, and in those that see a window.
    rotary: [RotaryConfig; 2],
    choices: Choices,
    layers: Vec<LayerKind>,
    sliding_window: Option<usize>,
    tie_word_embeddings: bool,
    dtype: Option<DType>,
    bos_token_id: Option<u32>,
    eos_token_ids: Vec<u32>,
    padding_row: Option<usize>,
}

/// What the attention of a layer looks at. Layers of one kind are the same function of their weights, so they can be
/// run as one loop over stacked weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LayerKind {
    /// A position sees itself and all before it.
    Full,
    /// A position sees itself and what comes before, [`ModelConfig::sliding_window`] positions in all.
    Sliding,
}

/// What decoders do differently, besides their sizes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Choices {
    pub(crate) qkv_bias: bool,
    pub(crate) o_bias: bool,
    pub(crate) mlp_bias: bool,
    /// Whether queries and keys are normed, head by head.
    pub(crate) query_key_norms: bool,
    pub(crate) norm: NormForm,
    /// Whether attention and MLP are normed behind as well as before.
    pub(crate) norms_outputs: bool,
    pub(crate) activation: Activation,
    /// What rows of the token table are multiplied by.
    pub(crate) embedding_scale: Option<f64>,
    /// What queries are multiplied by.
    pub(crate) query_scale: f64,
    /// Bound of attention scores.
    pub(crate) score_cap: Option<f64>,
    /// Bound of logits.
    pub(crate) logit_cap: Option<f64>,
}

impl LayerKind {
    pub(crate) const ALL: [LayerKind; 2] = [LayerKind::Full, LayerKind::Sliding];

    /// The name in `layer_types`.
    pub fn name(self) -> &'static str {
        match self {
            LayerKind::Full => "full_attention",
            LayerKind::Sliding => "sliding_attention",
        }
    }
}

impl ModelConfig {
    /// Reads the text of a `config.json`. `source_name` stands for it in errors.
    pub fn parse(text: &str, source_name: &str) -> Result<ModelConfig, ConfigError> {
        let parse = || {
            let written = serde_json::from_str(text).map_err(|e| ConfigProblem::json(&e, text))?;
            let raw = serde_json::from_str(text).map_err(|e| ConfigProblem::json(&e, text))?;
            meaning::meaning(raw, written)
        };
        parse().map_err(|problem| ConfigError::new(source_name, problem))
    }

    /// The text of a `config.json` that says the same: every member of the file this came from, in its order.
    pub fn to_json(&self) -> String {
        let mut text = serde_json::to_string_pretty(&self.written).expect("the members came from JSON");
        text.push('\n');
        text
    }

    /// The same model with another number of tokens. A padding row that is counted from the end moves with it.
    pub fn with_vocab_size(mut self, vocab_size: usize) -> Result<ModelConfig, ConfigError> {
        self.written.insert("vocab_size".to_owned(), vocab_size.into());
        let raw =
            serde_json::from_value(self.written.clone().into()).expect("these members were read before");
        meaning::meaning(raw, self.written).map_err(|problem| ConfigError::new("config.json", problem))
    }

    /// The same model with weights saved as `dtype`, one of the floating-point types.
    pub fn with_dtype(mut self, dtype: DType) -> Result<ModelConfig, ConfigError> {
        let name = raw::dtype_name(dtype).map_err(|problem| ConfigError::new("config.json", problem))?;
        // Both names where both are written, and the one that every version of `transformers` reads where none is.
        let mut keys = vec!["dtype", "torch_dtype"];
        keys.retain(|key| self.written.contains_key(*key));
        for key in if keys.is_empty() { vec!["torch_dtype"] } else { keys } {
            self.written.insert(key.to_owned(), name.into());
        }
        self.dtype = Some(dtype);
        Ok(self)
    }

    /// The family, as `model_type` names it.
    pub fn model_type(&self) -> &'static str {
        self.family.traits().model_type
    }

    /// The class of the whole model: `LlamaForCausalLM`.
    pub fn model_class(&self) -> &'static str {
        self.classes().causal_lm
    }

    /// The class of its layers, which FSDP wraps if nothing else is said: `LlamaDecoderLayer`.
    pub fn decoder_layer_class(&self) -> &'static str {
        self.classes().decoder_layer
    }

    /// Rows of the token tables.
    pub fn vocab_size(&self) -> usize {
        self.vocab_size
    }

    /// Width of the residual stream.
    pub fn hidden_size(&self) -> usize {
        self.hidden_size
    }

    /// Width inside the MLP.
    pub fn intermediate_size(&self) -> usize {
        self.intermediate_size
    }

    /// Number of decoder layers.
    pub fn num_hidden_layers(&self) -> usize {
        self.layers.len()
    }

    /// The kind of each layer, first to last.
    pub fn layer_kinds(&self) -> &[LayerKind] {
        &self.layers
    }

    /// How many positions a layer of kind [`LayerKind::Sliding`] looks at, its own among them.
    pub fn sliding_window(&self) -> Option<usize> {
        self.sliding_window
    }

    /// Query heads per layer.
    pub fn num_attention_heads(&self) -> usize {
        self.num_attention_heads
    }

    /// Key and value heads per layer; they divide the query heads.
    pub fn num_key_value_heads(&self) -> usize {
        self.num_key_value_heads
    }

    /// Elements per head. Heads times this need not be the hidden size.
    pub fn head_dim(&self) -> usize {
        self.head_dim
    }

    /// The longest sequence the model is made for.
    pub fn max_position_embeddings(&self) -> usize {
        self.max_position_embeddings
    }

    /// What is added to the mean square in norms.
    pub fn rms_norm_eps(&self) -> f64 {
        self.rms_norm_eps
    }

    /// Standard deviation of fresh weights.
    pub fn initializer_range(&self) -> f64 {
        self.initializer_range
    }

    /// How positions turn into angles in layers of this kind.
    pub fn rotary(&self, kind: LayerKind) -> &RotaryConfig {
        let [full, sliding] = &self.rotary;
        match kind {
            LayerKind::Full => full,
            LayerKind::Sliding => sliding,
        }
    }

    /// Whether the projections to queries, keys and values have biases.
    pub fn attention_bias(&self) -> bool {
        self.choices.qkv_bias
    }

    /// Whether the MLP projections have biases.
    pub fn mlp_bias(&self) -> bool {
        self.choices.mlp_bias
    }

    /// Whether the output table is the input table.
    pub fn tie_word_embeddings(&self) -> bool {
        self.tie_word_embeddings
    }

    /// The dtype of the saved weights, where the file says it (`dtype`, once `torch_dtype`).
    pub fn dtype(&self) -> Option<DType> {
        self.dtype
    }

    /// The row of the embedding that stands for padding: it begins as zeros, and looking it up does not train it. A
    /// negative `pad_token_id` counts from the end, as it does in PyTorch.
    pub fn padding_row(&self) -> Option<usize> {
        self.padding_row
    }

    /// The token at the start of a text.
    pub fn bos_token_id(&self) -> Option<u32> {
        self.bos_token_id
    }

    /// The tokens that end a text.
    pub fn eos_token_ids(&self) -> &[u32] {
        &self.eos_token_ids
    }

    pub(crate) fn choices(&self) -> &Choices {
        &self.choices
    }

    pub(crate) fn classes(&self) -> &'static Classes {
        &self.family.traits().classes
    }
}
