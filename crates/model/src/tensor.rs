//! How a decoder is split over a tensor axis, Megatron's way: attention by heads, the MLP by its inner width, the
//! input table by features and the output table by tokens.

use thiserror::Error;

use crate::ModelConfig;

/// How a module is split over the devices of a tensor axis; by Hugging Face's words. Weights are stored `[out, in]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TensorStyle {
    /// By dim 0, its outputs; what it hands on stays split.
    Colwise,
    /// By dim 0, a table's tokens; what it hands on is whole.
    ColwiseGathered,
    /// By dim 1, its inputs, or the features of a table; what it hands on is whole.
    Rowwise,
    /// Not at all, and neither is what it hands on.
    Replicated,
}

/// A model that a tensor axis does not cut into equal parts.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{module}: {size} {what} do not divide over {devices} devices (mesh axis tensor); {advice}")]
pub struct TensorError {
    /// Pattern of the modules.
    pub module: &'static str,
    /// What there is too few of, or not a multiple.
    pub what: &'static str,
    /// How many of it.
    pub size: usize,
    /// The size of the axis.
    pub devices: usize,
    advice: String,
}

/// How the modules of a model are split over a tensor axis of so many devices: patterns of their paths, where `*` is
/// any layer. Modules that are not named, norms among them, are whole on each device.
///
/// Where there are fewer key and value heads than devices, their projections are whole, and each device uses those
/// heads that its queries look at. An input table is split by features, which costs one gather of what was looked up;
/// one that is the output table too is split by tokens, as output tables are, so that no device holds all logits.
/// Tables that do not divide are whole.
///
/// ```
/// use shardwright_model::{ModelConfig, TensorStyle, tensor_plan};
///
/// let config = ModelConfig::parse(r#"{"model_type": "llama", "num_attention_heads": 32}"#, "config.json")?;
/// let plan = tensor_plan(&config, 4)?;
/// assert!(plan.contains(&("layers.*.mlp.down_proj", TensorStyle::Rowwise)));
/// let error = tensor_plan(&config, 64).unwrap_err().to_string();
/// assert!(error.starts_with("model.layers.*.self_attn: 32 attention heads do not divide over 64 devices"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// When query heads, key and value heads or the inner width cannot be shared out evenly.
pub fn tensor_plan(
    config: &ModelConfig,
    devices: usize,
) -> Result<Vec<(&'static str, TensorStyle)>, TensorError> {
    let attention = "model.layers.*.self_attn";
    let divides = |module, what, size: usize| match size.is_multiple_of(devices) {
        true => Ok(()),
        false => Err(TensorError { module, what, size, devices, advice: advice(size) }),
    };
    divides(attention, "attention heads", config.num_attention_heads())?;
    divides("model.layers.*.mlp", "intermediate features", config.intermediate_size())?;
    let kv_heads = config.num_key_value_heads();
    let shares_kv_heads = devices.is_multiple_of(kv_heads);
    if !shares_kv_heads {
        divides(attention, "key and value heads", kv_heads)?;
    }
    Ok(rules(config, devices))
}

fn rules(config: &ModelConfig, devices: usize) -> Vec<(&'static str, TensorStyle)> {
    use TensorStyle::{Colwise, ColwiseGathered, Replicated, Rowwise};
    let when = |divides: bool, style| if divides { style } else { Replicated };
    let kv = when(config.num_key_value_heads().is_multiple_of(devices), Colwise);
    let tokens = config.vocab_size().is_multiple_of(devices);
    let table = match config.tie_word_embeddings() {
        true => when(tokens, ColwiseGathered),
        false => when(config.hidden_size().is_multiple_of(devices), Rowwise),
    };
    vec![
        ("embed_tokens", table),
        ("layers.*.self_attn.q_proj", Colwise),
        ("layers.*.self_attn.k_proj", kv),
        ("layers.*.self_attn.v_proj", kv),
        ("layers.*.self_attn.o_proj", Rowwise),
        ("layers.*.mlp.gate_proj", Colwise),
        ("layers.*.mlp.up_proj", Colwise),
        ("layers.*.mlp.down_proj", Rowwise),
        ("lm_head", when(tokens, Colwise)),
    ]
}

fn advice(size: usize) -> String {
    let fit: Vec<String> =
        (1..=size.min(1024)).filter(|n| size.is_multiple_of(*n)).map(|n| n.to_string()).collect();
    format!("sizes that fit are {}", fit.join(", "))
}
