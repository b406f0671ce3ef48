use serde::Deserialize;
use serde_json::{Map, Value};
use shardwright_tensor::DType;

use super::error::ConfigProblem;
use crate::rotary::RotaryConfig;

/// The names that configurations have for dtypes of weights.
pub(super) const DTYPES: [(&str, DType); 4] =
    [("float32", DType::F32), ("bfloat16", DType::Bf16), ("float16", DType::F16), ("float64", DType::F64)];

const DTYPES_SUPPORTED: &str = "float32, bfloat16, float16, float64";

/// The name that configurations have for a dtype of weights.
pub(super) fn dtype_name(dtype: DType) -> Result<&'static str, ConfigProblem> {
    let unsupported =
        ConfigProblem::Unsupported { field: "dtype", found: dtype.to_string(), supported: DTYPES_SUPPORTED };
    DTYPES.iter().find(|(_, known)| *known == dtype).map(|(name, _)| *name).ok_or(unsupported)
}

/// The members of a Llama `config.json` that matter to us, as they are written. `null` is the same as absent.
#[derive(Deserialize)]
pub(super) struct RawConfig {
    model_type: Option<String>,
    architectures: Option<Vec<String>>,
    pub(super) vocab_size: Option<usize>,
    pub(super) hidden_size: Option<usize>,
    pub(super) intermediate_size: Option<usize>,
    pub(super) num_hidden_layers: Option<usize>,
    pub(super) num_attention_heads: Option<usize>,
    pub(super) num_key_value_heads: Option<usize>,
    pub(super) head_dim: Option<usize>,
    pub(super) max_position_embeddings: Option<usize>,
    pub(super) rms_norm_eps: Option<f64>,
    pub(super) initializer_range: Option<f64>,
    rope_theta: Option<f64>,
    rope_scaling: Option<Map<String, Value>>,
    rope_parameters: Option<Map<String, Value>>,
    partial_rotary_factor: Option<f64>,
    pub(super) attention_bias: Option<bool>,
    pub(super) mlp_bias: Option<bool>,
    pub(super) tie_word_embeddings: Option<bool>,
    hidden_act: Option<String>,
    attention_dropout: Option<f64>,
    pretraining_tp: Option<usize>,
    quantization_config: Option<Value>,
    dtype: Option<String>,
    torch_dtype: Option<String>,
    pub(super) pad_token_id: Option<i64>,
    // Here `null` is not the same as absent: it says that there is none.
    #[serde(default = "default_bos")]
    pub(super) bos_token_id: Option<u32>,
    #[serde(default = "default_eos")]
    pub(super) eos_token_id: TokenIds,
}

fn default_bos() -> Option<u32> {
    Some(1)
}

fn default_eos() -> TokenIds {
    TokenIds::One(Some(2))
}

/// One token, several, or `null`.
#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a token id, several in a list, or null")]
pub(super) enum TokenIds {
    One(Option<u32>),
    Several(Vec<u32>),
}

impl From<TokenIds> for Vec<u32> {
    fn from(ids: TokenIds) -> Vec<u32> {
        match ids {
            TokenIds::One(id) => id.into_iter().collect(),
            TokenIds::Several(ids) => ids,
        }
    }
}

impl RawConfig {
    /// Settings that make it another model than the one we run.
    pub(super) fn refuse_unsupported(&self) -> Result<(), ConfigProblem> {
        let text = |value: &Option<String>| value.clone().unwrap_or_else(|| "missing".to_owned());
        let is_causal_lm =
            |names: &Vec<String>| names.is_empty() || names.iter().any(|n| n == "LlamaForCausalLM");
        let architectures = self.architectures.clone().unwrap_or_default();
        let refused = [
            ("model_type", self.model_type.as_deref() == Some("llama"), text(&self.model_type), "llama"),
            ("architectures", is_causal_lm(&architectures), format!("{architectures:?}"), "LlamaForCausalLM"),
            (
                "hidden_act",
                self.hidden_act.as_deref().unwrap_or("silu") == "silu",
                text(&self.hidden_act),
                "silu",
            ),
            number("attention_dropout", self.attention_dropout, 0.0, "0"),
            number("partial_rotary_factor", self.partial_rotary_factor, 1.0, "1"),
            number("pretraining_tp", self.pretraining_tp.map(|n| n as f64), 1.0, "1"),
            (
                "quantization_config",
                self.quantization_config.is_none(),
                "given".to_owned(),
                "weights that are not quantized",
            ),
        ];
        match refused.into_iter().find(|(_, is_supported, ..)| !is_supported) {
            Some((field, _, found, supported)) => Err(ConfigProblem::Unsupported { field, found, supported }),
            None => Ok(()),
        }
    }

    pub(super) fn rotary(&self, head_dim: usize) -> Result<RotaryConfig, ConfigProblem> {
        let (scaling, parameters) = (self.rope_scaling.as_ref(), self.rope_parameters.as_ref());
        Ok(RotaryConfig::from_fields(self.rope_theta, scaling, parameters, head_dim)?)
    }

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
            None => {
                let supported = DTYPES_SUPPORTED;
                Err(ConfigProblem::Unsupported { field, found: name.clone(), supported })
            }
        }
    }
}

/// A check of a number that may only have its neutral value.
fn number(
    field: &'static str,
    value: Option<f64>,
    neutral: f64,
    supported: &'static str,
) -> (&'static str, bool, String, &'static str) {
    let value = value.unwrap_or(neutral);
    (field, value == neutral, value.to_string(), supported)
}
