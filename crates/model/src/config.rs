//! What a Hugging Face `config.json` means.

mod error;
mod raw;

use serde_json::{Map, Value};
use shardwright_tensor::DType;

use crate::rotary::RotaryConfig;
use raw::RawConfig;

pub use error::{ConfigError, ConfigProblem};

/// Sizes up to this are possible, so that no parameter is too large to be addressed.
const LARGEST_SIZE: usize = 1 << 24;
const MOST_LAYERS: usize = 1 << 12;
const MOST_POSITIONS: usize = 1 << 31;

/// The model that a `config.json` describes, with everything else the file says.
///
/// Members that the file leaves out have the defaults of the original implementation. The values are known to go
/// together: sizes are positive, query heads divide into the key and value heads, head sizes are even.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelConfig {
    /// The file, member by member, as it was written.
    written: Map<String, Value>,
    vocab_size: usize,
    hidden_size: usize,
    intermediate_size: usize,
    num_hidden_layers: usize,
    num_attention_heads: usize,
    num_key_value_heads: usize,
    head_dim: usize,
    max_position_embeddings: usize,
    rms_norm_eps: f64,
    initializer_range: f64,
    rotary: RotaryConfig,
    attention_bias: bool,
    mlp_bias: bool,
    tie_word_embeddings: bool,
    dtype: Option<DType>,
    bos_token_id: Option<u32>,
    eos_token_ids: Vec<u32>,
    padding_row: Option<usize>,
}

impl ModelConfig {
    /// Reads the text of a `config.json`. `source_name` stands for it in errors.
    pub fn parse(text: &str, source_name: &str) -> Result<ModelConfig, ConfigError> {
        let parse = || {
            let written = serde_json::from_str(text).map_err(|e| ConfigProblem::json(&e, text))?;
            let raw = serde_json::from_str(text).map_err(|e| ConfigProblem::json(&e, text))?;
            meaning(raw, written)
        };
        parse().map_err(|problem| ConfigError::new(source_name, problem))
    }

    /// The text of a `config.json` that says the same: every member of the file this came from, in its order.
    pub fn to_json(&self) -> String {
        let mut text = serde_json::to_string_pretty(&self.written).expect("the members came from JSON");
        text.push('\n');
        text
    }

    /// The same model with another number of tokens.
    pub fn with_vocab_size(mut self, vocab_size: usize) -> Result<ModelConfig, ConfigError> {
        size("vocab_size", vocab_size, LARGEST_SIZE)
            .map_err(|problem| ConfigError::new("config.json", problem))?;
        self.vocab_size = vocab_size;
        self.written.insert("vocab_size".to_owned(), vocab_size.into());
        Ok(self)
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
        self.num_hidden_layers
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

    /// How positions turn into angles.
    pub fn rotary(&self) -> &RotaryConfig {
        &self.rotary
    }

    /// Whether the attention projections have biases.
    pub fn attention_bias(&self) -> bool {
        self.attention_bias
    }

    /// Whether the MLP projections have biases.
    pub fn mlp_bias(&self) -> bool {
        self.mlp_bias
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
}

/// What was written, with defaults in place, once it is known to be a model that is supported.
fn meaning(raw: RawConfig, written: Map<String, Value>) -> Result<ModelConfig, ConfigProblem> {
    raw.refuse_unsupported()?;
    let hidden_size = size("hidden_size", raw.hidden_size.unwrap_or(4096), LARGEST_SIZE)?;
    let num_attention_heads =
        size("num_attention_heads", raw.num_attention_heads.unwrap_or(32), LARGEST_SIZE)?;
    let num_key_value_heads =
        size("num_key_value_heads", raw.num_key_value_heads.unwrap_or(num_attention_heads), LARGEST_SIZE)?;
    divisible(("num_attention_heads", num_attention_heads), ("num_key_value_heads", num_key_value_heads))?;
    let head_dim = match raw.head_dim {
        Some(head_dim) => size("head_dim", head_dim, LARGEST_SIZE)?,
        None => divisible(("hidden_size", hidden_size), ("num_attention_heads", num_attention_heads))?,
    };
    if !head_dim.is_multiple_of(2) {
        let supported = "even numbers, since rotary embeddings turn pairs";
        return Err(ConfigProblem::Unsupported { field: "head_dim", found: head_dim.to_string(), supported });
    }
    size("num_attention_heads x head_dim", num_attention_heads.saturating_mul(head_dim), LARGEST_SIZE)?;
    let vocab_size = size("vocab_size", raw.vocab_size.unwrap_or(32_000), LARGEST_SIZE)?;
    Ok(ModelConfig {
        vocab_size,
        hidden_size,
        intermediate_size: size("intermediate_size", raw.intermediate_size.unwrap_or(11_008), LARGEST_SIZE)?,
        num_hidden_layers: size("num_hidden_layers", raw.num_hidden_layers.unwrap_or(32), MOST_LAYERS)?,
        num_attention_heads,
        num_key_value_heads,
        head_dim,
        max_position_embeddings: size(
            "max_position_embeddings",
            raw.max_position_embeddings.unwrap_or(2048),
            MOST_POSITIONS,
        )?,
        rms_norm_eps: small("rms_norm_eps", raw.rms_norm_eps.unwrap_or(1e-6))?,
        initializer_range: small("initializer_range", raw.initializer_range.unwrap_or(0.02))?,
        rotary: raw.rotary(head_dim)?,
        attention_bias: raw.attention_bias.unwrap_or(false),
        mlp_bias: raw.mlp_bias.unwrap_or(false),
        tie_word_embeddings: raw.tie_word_embeddings.unwrap_or(false),
        dtype: raw.dtype()?,
        bos_token_id: raw.bos_token_id,
        eos_token_ids: raw.eos_token_id.into(),
        padding_row: raw.pad_token_id.map(|id| padding_row(id, vocab_size)).transpose()?,
        written,
    })
}

/// A size that is positive and within reason.
fn size(field: &'static str, found: usize, most: usize) -> Result<usize, ConfigProblem> {
    if (1..=most).contains(&found) { Ok(found) } else { Err(ConfigProblem::Size { field, found, most }) }
}

fn padding_row(id: i64, vocab_size: usize) -> Result<usize, ConfigProblem> {
    let row = match usize::try_from(id) {
        Ok(row) => Some(row),
        Err(_) => usize::try_from(id.unsigned_abs()).ok().and_then(|back| vocab_size.checked_sub(back)),
    };
    row.filter(|row| *row < vocab_size).ok_or_else(|| ConfigProblem::Unsupported {
        field: "pad_token_id",
        found: format!("{id} with a vocab_size of {vocab_size}"),
        supported: "ids of the vocabulary, or from its end if negative",
    })
}

/// The quotient of two fields.
fn divisible(
    (field, found): (&'static str, usize),
    (divisor_field, divisor): (&'static str, usize),
) -> Result<usize, ConfigProblem> {
    if found.is_multiple_of(divisor) {
        return Ok(found / divisor);
    }
    Err(ConfigProblem::NotDivisible { field, found, divisor_field, divisor })
}

/// A number from 0 up to 1.
fn small(field: &'static str, found: f64) -> Result<f64, ConfigProblem> {
    let supported = "numbers from 0 to 1";
    if (0.0..=1.0).contains(&found) {
        return Ok(found);
    }
    Err(ConfigProblem::Unsupported { field, found: found.to_string(), supported })
}
