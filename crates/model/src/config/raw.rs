use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};
use shardwright_tensor::DType;

use super::error::ConfigProblem;

/// The names that configurations have for dtypes of weights.
pub(super) const DTYPES: [(&str, DType); 4] =
    [("float32", DType::F32), ("bfloat16", DType::Bf16), ("float16", DType::F16), ("float64", DType::F64)];

const DTYPES_SUPPORTED: &str = "float32, bfloat16, float16, float64";

/// The name that configurations have for a dtype of weights.
pub(super) fn dtype_name(dtype: DType) -> Result<&'static str, ConfigProblem> {
    let unsupported = || ConfigProblem::unsupported("dtype", dtype, DTYPES_SUPPORTED);
    DTYPES.iter().find(|(_, known)| *known == dtype).map(|(name, _)| *name).ok_or_else(unsupported)
}

/// The members of a `config.json` that matter to us, as they are written. `null` is the same as absent, but for those
/// that say which it is.
#[derive(Deserialize)]
pub(super) struct RawConfig {
    pub(super) model_type: Option<String>,
    pub(super) architectures: Option<Vec<String>>,
    pub(super) vocab_size: Option<usize>,
    pub(super) hidden_size: Option<usize>,
    pub(super) intermediate_size: Option<usize>,
    pub(super) num_hidden_layers: Option<usize>,
    pub(super) num_attention_heads: Option<usize>,
    #[serde(default)]
    pub(super) num_key_value_heads: Setting<usize>,
    #[serde(default)]
    pub(super) head_dim: Setting<usize>,
    pub(super) max_position_embeddings: Option<usize>,
    pub(super) rms_norm_eps: Option<f64>,
    pub(super) initializer_range: Option<f64>,
    pub(super) rope_theta: Option<f64>,
    pub(super) rope_local_base_freq: Option<f64>,
    pub(super) rope_scaling: Option<Map<String, Value>>,
    pub(super) rope_parameters: Option<Map<String, Value>>,
    pub(super) original_max_position_embeddings: Option<usize>,
    pub(super) partial_rotary_factor: Option<f64>,
    pub(super) attention_bias: Option<bool>,
    pub(super) mlp_bias: Option<bool>,
    pub(super) tie_word_embeddings: Option<bool>,
    pub(super) hidden_act: Option<String>,
    pub(super) hidden_activation: Option<String>,
    pub(super) query_pre_attn_scalar: Option<f64>,
    #[serde(default)]
    pub(super) attn_logit_softcapping: Setting<f64>,
    #[serde(default)]
    pub(super) final_logit_softcapping: Setting<f64>,
    #[serde(default)]
    pub(super) sliding_window: Setting<usize>,
    pub(super) use_sliding_window: Option<bool>,
    pub(super) max_window_layers: Option<usize>,
    pub(super) sliding_window_pattern: Option<usize>,
    pub(super) layer_types: Option<Vec<String>>,
    pub(super) use_bidirectional_attention: Option<bool>,
    pub(super) attention_dropout: Option<f64>,
    pub(super) pretraining_tp: Option<usize>,
    pub(super) quantization_config: Option<Value>,
    dtype: Option<String>,
    torch_dtype: Option<String>,
    #[serde(default)]
    pub(super) pad_token_id: Setting<i64>,
    #[serde(default)]
    pub(super) bos_token_id: Setting<u32>,
    #[serde(default)]
    pub(super) eos_token_id: Setting<TokenIds>,
}

/// A member for which `null` is not the same as absent: it says that there is none, where absence leaves the default.
#[derive(Clone, Copy, Default)]
pub(super) enum Setting<T> {
    #[default]
    Absent,
    Null,
    Given(T),
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Setting<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Setting<T>, D::Error> {
        Ok(Option::deserialize(deserializer)?.map_or(Setting::Null, Setting::Given))
    }
}

impl<T> Setting<T> {
    pub(super) fn or(self, default: Option<T>) -> Option<T> {
        match self {
            Setting::Absent => default,
            Setting::Null => None,
            Setting::Given(value) => Some(value),
        }
    }
}

/// One token, or several.
#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a token id, several in a list, or null")]
pub(super) enum TokenIds {
    One(u32),
    Several(Vec<u32>),
}

impl From<TokenIds> for Vec<u32> {
    fn from(ids: TokenIds) -> Vec<u32> {
        match ids {
            TokenIds::One(id) => vec![id],
            TokenIds::Several(ids) => ids,
        }
    }
}

impl RawConfig {
    /// The dtype; `dtype` is the newer name of `torch_dtype` and wins.
    pub(super) fn dtype(&self) -> Result<Option<DType>, ConfigProblem> {
        let (field, name) = match (&self.dtype, &self.torch_dtype) {
            (Some(name), _) => ("dtype", name),
            (None, Some(name)) => ("torch_dtype", name),
            (None, None) => return Ok(None),
        };
        let plain = name.strip_prefix("torch.").unwrap_or(name);
        if plain == "auto" {
            return Ok(None);
        }
        match DTYPES.iter().find(|(known, _)| *known == plain) {
            Some((_, dtype)) => Ok(Some(*dtype)),
            None => Err(ConfigProblem::unsupported(field, name, DTYPES_SUPPORTED)),
        }
    }
}
