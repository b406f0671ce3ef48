//! From what was written to the model that it means.

use serde_json::{Map, Value};

use super::layers::layers;
use super::raw::{RawConfig, Setting};
use super::refused::refuse_unsupported;
use super::{Choices, ConfigProblem, ModelConfig};
use crate::activation::Activation;
use crate::family::{DEFAULT_QUERY_PRE_ATTN_SCALAR, DEFAULT_ROPE_LOCAL_BASE_FREQ, Family, Traits};
use crate::rotary::{RotaryConfig, RotaryFields, by_kind};

/// Sizes up to this are possible, so that no parameter is too large to be addressed.
const LARGEST_SIZE: usize = 1 << 24;
const MOST_LAYERS: usize = 1 << 12;
const MOST_POSITIONS: usize = 1 << 31;

/// What was written, with defaults in place, once it is known to be a model that is supported.
pub(super) fn meaning(raw: RawConfig, written: Map<String, Value>) -> Result<ModelConfig, ConfigProblem> {
    let family = family(&raw)?;
    let traits = family.traits();
    refuse_unsupported(&raw, traits)?;
    let defaults = &traits.defaults;
    let large = |field, found: Option<usize>, default| size(field, found.unwrap_or(default), LARGEST_SIZE);
    let hidden_size = large("hidden_size", raw.hidden_size, defaults.hidden_size)?;
    let [num_attention_heads, num_key_value_heads, head_dim] = heads(&raw, traits, hidden_size)?;
    let vocab_size = large("vocab_size", raw.vocab_size, defaults.vocab_size)?;
    let num_hidden_layers = raw.num_hidden_layers.unwrap_or(defaults.num_hidden_layers);
    let num_hidden_layers = size("num_hidden_layers", num_hidden_layers, MOST_LAYERS)?;
    let max_position_embeddings = raw.max_position_embeddings.unwrap_or(defaults.max_position_embeddings);
    let max_position_embeddings = size("max_position_embeddings", max_position_embeddings, MOST_POSITIONS)?;
    let (layers, sliding_window) = layers(&raw, traits, num_hidden_layers)?;
    let pad_token_id = raw.pad_token_id.or(defaults.pad_token_id);
    Ok(ModelConfig {
        family,
        vocab_size,
        hidden_size,
        intermediate_size: large("intermediate_size", raw.intermediate_size, defaults.intermediate_size)?,
        num_attention_heads,
        num_key_value_heads,
        head_dim,
        max_position_embeddings,
        rms_norm_eps: small("rms_norm_eps", raw.rms_norm_eps.unwrap_or(1e-6))?,
        initializer_range: small("initializer_range", raw.initializer_range.unwrap_or(0.02))?,
        rotary: rotary(&raw, family, head_dim, max_position_embeddings)?,
        choices: choices(&raw, traits, hidden_size, head_dim)?,
        layers,
        sliding_window,
        tie_word_embeddings: raw.tie_word_embeddings.unwrap_or(defaults.tie_word_embeddings),
        dtype: raw.dtype()?,
        bos_token_id: raw.bos_token_id.or(defaults.bos_token_id),
        eos_token_ids: match raw.eos_token_id {
            Setting::Absent => defaults.eos_token_id.into_iter().collect(),
            Setting::Null => Vec::new(),
            Setting::Given(ids) => ids.into(),
        },
        padding_row: pad_token_id.map(|id| padding_row(id, vocab_size)).transpose()?,
        written,
    })
}

/// The family of the `model_type`, or else of the `architectures`, which have to agree with it.
fn family(raw: &RawConfig) -> Result<Family, ConfigProblem> {
    let all = |name: fn(&Traits) -> &'static str| Family::ALL.map(|f| name(f.traits())).join(", ");
    let architectures = raw.architectures.as_deref().unwrap_or_default();
    let is_named = |f: &Family| architectures.iter().any(|name| name == f.traits().classes.causal_lm);
    let unsupported = |supported: String| {
        Err(ConfigProblem::unsupported("architectures", format!("{architectures:?}"), supported))
    };
    match &raw.model_type {
        Some(ty) => match Family::ALL.into_iter().find(|f| f.traits().model_type == ty) {
            None => Err(ConfigProblem::unsupported("model_type", ty, all(|t| t.model_type))),
            Some(f) if architectures.is_empty() || is_named(&f) => Ok(f),
            Some(f) => unsupported(f.traits().classes.causal_lm.to_owned()),
        },
        None if architectures.is_empty() => {
            Err(ConfigProblem::unsupported("model_type", "missing", all(|t| t.model_type)))
        }
        None => match Family::ALL.into_iter().find(is_named) {
            Some(f) => Ok(f),
            None => unsupported(all(|t| t.classes.causal_lm)),
        },
    }
}

/// How many heads queries have, how many keys and values, and the elements of each.
fn heads(raw: &RawConfig, traits: &Traits, hidden_size: usize) -> Result<[usize; 3], ConfigProblem> {
    let defaults = &traits.defaults;
    let queries = raw.num_attention_heads.unwrap_or(defaults.num_attention_heads);
    let queries = size("num_attention_heads", queries, LARGEST_SIZE)?;
    let keys = raw.num_key_value_heads.or(defaults.num_key_value_heads).unwrap_or(queries);
    let keys = size("num_key_value_heads", keys, LARGEST_SIZE)?;
    divisible(("num_attention_heads", queries), ("num_key_value_heads", keys))?;
    let head_dim = match raw.head_dim.or(defaults.head_dim) {
        Some(head_dim) => size("head_dim", head_dim, LARGEST_SIZE)?,
        None => divisible(("hidden_size", hidden_size), ("num_attention_heads", queries))?,
    };
    if !head_dim.is_multiple_of(2) {
        let supported = "even numbers, since rotary embeddings turn pairs";
        return Err(ConfigProblem::unsupported("head_dim", head_dim, supported));
    }
    size("num_attention_heads x head_dim", queries.saturating_mul(head_dim), LARGEST_SIZE)?;
    Ok([queries, keys, head_dim])
}

fn choices(
    raw: &RawConfig,
    traits: &Traits,
    hidden_size: usize,
    head_dim: usize,
) -> Result<Choices, ConfigProblem> {
    let defaults = &traits.defaults;
    let attention_bias = raw.attention_bias.unwrap_or(false);
    let squared_scale = match traits.has("query_pre_attn_scalar") {
        true => raw.query_pre_attn_scalar.unwrap_or(DEFAULT_QUERY_PRE_ATTN_SCALAR),
        false => head_dim as f64,
    };
    let cap = |field, cap: Setting<f64>, default| cap.or(default).map(|cap| positive(field, cap)).transpose();
    Ok(Choices {
        qkv_bias: traits.always_biased || attention_bias,
        o_bias: !traits.always_biased && attention_bias,
        mlp_bias: raw.mlp_bias.unwrap_or(false),
        query_key_norms: traits.query_key_norms,
        norm: traits.norm,
        norms_outputs: traits.norms_outputs,
        activation: activation(raw, traits)?,
        embedding_scale: traits.scales_embeddings.then(|| (hidden_size as f64).sqrt()),
        query_scale: positive("query_pre_attn_scalar", squared_scale)?.sqrt().recip(),
        score_cap: cap(
            "attn_logit_softcapping",
            raw.attn_logit_softcapping,
            defaults.attn_logit_softcapping,
        )?,
        logit_cap: cap(
            "final_logit_softcapping",
            raw.final_logit_softcapping,
            defaults.final_logit_softcapping,
        )?,
    })
}

/// The activation that one of two members names. Another name in the other one is a contradiction.
fn activation(raw: &RawConfig, traits: &Traits) -> Result<Activation, ConfigProblem> {
    let [act, activation] = [("hidden_act", &raw.hidden_act), ("hidden_activation", &raw.hidden_activation)];
    let is_own = |(field, _): (&str, _)| field == traits.activation_field;
    let [own, other] = if is_own(act) { [act, activation] } else { [activation, act] };
    let read = |(field, name): (&'static str, &Option<String>)| {
        let Some(name) = name else { return Ok(None) };
        // The first Gemma's configurations say so of models that were trained with the other.
        let is_legacy = traits.model_type == Family::Gemma.traits().model_type && name == "gelu";
        let plain = if is_legacy { "gelu_pytorch_tanh" } else { name };
        let unsupported = || ConfigProblem::unsupported(field, name, Activation::names());
        Activation::from_name(plain).map(Some).ok_or_else(unsupported)
    };
    let meant = read(own)?.unwrap_or(traits.defaults.activation);
    match (other, read(other)?) {
        ((field, Some(name)), Some(contrary)) if contrary != meant => {
            let supported = format!("the activation of {} in a model of type {}", own.0, traits.model_type);
            Err(ConfigProblem::unsupported(field, name, supported))
        }
        _ => Ok(meant),
    }
}

/// How positions turn into angles, in layers that see everything and in those that see a window.
fn rotary(
    raw: &RawConfig,
    family: Family,
    head_dim: usize,
    max_position_embeddings: usize,
) -> Result<[RotaryConfig; 2], ConfigProblem> {
    let fields = RotaryFields {
        theta: ("rope_theta", raw.rope_theta),
        default_theta: family.traits().defaults.rope_theta,
        scaling: raw.rope_scaling.as_ref(),
        parameters: ("rope_parameters", raw.rope_parameters.as_ref()),
        head_dim,
        max_position_embeddings,
        original_max_position_embeddings: raw.original_max_position_embeddings,
    };
    if !family.has_local_rotary() {
        let all = fields.meaning()?;
        return Ok([all.clone(), all]);
    }
    let [full, sliding] = by_kind(raw.rope_parameters.as_ref())?;
    let local = RotaryFields {
        theta: ("rope_local_base_freq", raw.rope_local_base_freq),
        default_theta: DEFAULT_ROPE_LOCAL_BASE_FREQ,
        scaling: None,
        parameters: ("rope_parameters.sliding_attention", sliding),
        ..fields
    };
    let global = RotaryFields { parameters: ("rope_parameters.full_attention", full), ..fields };
    Ok([global.meaning()?, local.meaning()?])
}

/// A size that is positive and within reason.
pub(super) fn size(field: &'static str, found: usize, most: usize) -> Result<usize, ConfigProblem> {
    if (1..=most).contains(&found) { Ok(found) } else { Err(ConfigProblem::Size { field, found, most }) }
}

fn padding_row(id: i64, vocab_size: usize) -> Result<usize, ConfigProblem> {
    let row = match usize::try_from(id) {
        Ok(row) => Some(row),
        Err(_) => usize::try_from(id.unsigned_abs()).ok().and_then(|back| vocab_size.checked_sub(back)),
    };
    let found = || format!("{id} with a vocab_size of {vocab_size}");
    let supported = "ids of the vocabulary, or from its end if negative";
    row.filter(|row| *row < vocab_size)
        .ok_or_else(|| ConfigProblem::unsupported("pad_token_id", found(), supported))
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
    let is_small = (0.0..=1.0).contains(&found);
    if is_small { Ok(found) } else { Err(ConfigProblem::unsupported(field, found, "numbers from 0 to 1")) }
}

/// A number above 0 that f32 can hold, and its inverse too.
fn positive(field: &'static str, found: f64) -> Result<f64, ConfigProblem> {
    let is_positive = (1e-30..=1e30).contains(&found);
    if is_positive { Ok(found) } else { Err(ConfigProblem::unsupported(field, found, "numbers above 0")) }
}
