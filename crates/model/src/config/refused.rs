//! Settings that make another model than one that can be run.

use std::fmt::Display;

use super::ConfigProblem;
use super::raw::RawConfig;
use crate::family::{Traits, Windows};

/// One member: its name, whether it is as it has to be, what it says, and what it may say.
struct Check {
    field: &'static str,
    is_supported: bool,
    found: String,
    supported: String,
}

/// The first setting that would be ignored, though it means something.
pub(super) fn refuse_unsupported(raw: &RawConfig, traits: &Traits) -> Result<(), ConfigProblem> {
    let checks = of_all_families(raw).into_iter().chain(of_others(raw, traits));
    match checks.into_iter().find(|check| !check.is_supported) {
        Some(Check { field, found, supported, .. }) => {
            Err(ConfigProblem::unsupported(field, found, supported))
        }
        None => Ok(()),
    }
}

/// What no family can do.
fn of_all_families(raw: &RawConfig) -> [Check; 5] {
    let has_quantization = raw.quantization_config.is_some();
    [
        only("attention_dropout", raw.attention_dropout, 0.0),
        only("partial_rotary_factor", raw.partial_rotary_factor, 1.0),
        only("pretraining_tp", raw.pretraining_tp, 1),
        only("use_bidirectional_attention", raw.use_bidirectional_attention, false),
        Check {
            field: "quantization_config",
            is_supported: !has_quantization,
            found: "given".to_owned(),
            supported: "weights that are not quantized".to_owned(),
        },
    ]
}

/// What families lack that others have.
fn of_others(raw: &RawConfig, traits: &Traits) -> Vec<Check> {
    let nothing = |field, found: Option<String>| Check {
        field,
        is_supported: found.is_none(),
        found: found.unwrap_or_default(),
        supported: "null".to_owned(),
    };
    let text = |value: f64| value.to_string();
    let pattern = match traits.windows {
        Windows::AllButEvery(n) => raw.sliding_window_pattern.filter(|pattern| *pattern != n),
        _ => None,
    };
    let uses_window = raw.use_sliding_window.filter(|_| traits.windows == Windows::Never);
    let checks = [
        only("attention_bias", raw.attention_bias, traits.always_biased),
        only("mlp_bias", raw.mlp_bias, false),
        nothing("attn_logit_softcapping", raw.attn_logit_softcapping.or(None).map(text)),
        nothing("final_logit_softcapping", raw.final_logit_softcapping.or(None).map(text)),
        nothing("query_pre_attn_scalar", raw.query_pre_attn_scalar.map(text)),
        nothing("rope_local_base_freq", raw.rope_local_base_freq.map(text)),
        nothing("sliding_window", raw.sliding_window.or(None).map(|window| window.to_string())),
        only("use_sliding_window", uses_window, false),
        nothing("sliding_window_pattern", pattern.map(|pattern| pattern.to_string())),
    ];
    let lacking = checks.into_iter().filter(|check| !traits.has(check.field));
    let of_family = |check: Check| Check {
        supported: format!("{} in a model of type {}", check.supported, traits.model_type),
        ..check
    };
    lacking.map(of_family).collect()
}

/// A member that may have one value only.
fn only<T: PartialEq + Display>(field: &'static str, value: Option<T>, neutral: T) -> Check {
    let supported = neutral.to_string();
    let found = value.as_ref().map(ToString::to_string).unwrap_or_default();
    Check { field, is_supported: value.is_none_or(|value| value == neutral), found, supported }
}
