//! The members of an `adapter_config.json` beside those that are read: which may stand there with what values.

use serde_json::{Map, Value};

use super::LoraProblem;

/// What a member may be.
#[derive(Clone, Copy)]
enum Allowed {
    /// Anything: it does not change the adapters, and is kept.
    Anything,
    /// What leaves the feature out: `null`, `false`, 0, or nothing in it.
    Off,
    /// Off, or this text.
    Text(&'static str),
}

use Allowed::{Anything, Off, Text};

/// All members that PEFT has beside those that [`LoraConfig`](super::LoraConfig) reads; those that have to be off with
/// what they would do.
const MEMBERS: [(&str, Allowed, &str); 33] = [
    ("auto_mapping", Anything, ""),
    ("inference_mode", Anything, ""),
    ("megatron_core", Anything, ""),
    ("peft_version", Anything, ""),
    ("qalora_group_size", Anything, ""),
    ("revision", Anything, ""),
    ("runtime_config", Anything, ""),
    ("peft_type", Text("LORA"), "\"LORA\""),
    ("task_type", Text("CAUSAL_LM"), "\"CAUSAL_LM\""),
    ("bias", Text("none"), "\"none\" (biases are not trained)"),
    ("fan_in_fan_out", Off, "false (weights are [out, in])"),
    ("lora_dropout", Off, "0 (nothing is dropped out)"),
    ("lora_bias", Off, "false (adapters have no biases)"),
    ("use_dora", Off, "false (weights are not decomposed into magnitude and direction)"),
    ("use_qalora", Off, "false (weights are not quantized)"),
    ("use_bdlora", Off, "null (adapters are not cut into blocks)"),
    ("ensure_weight_tying", Off, "false (adapters of tied tables are refused)"),
    ("alora_invocation_tokens", Off, "null (adapters act at all positions)"),
    ("layer_replication", Off, "null (each layer is there once)"),
    ("target_parameters", Off, "null (adapters stand beside modules: target_modules)"),
    ("trainable_token_indices", Off, "null (tables are trained in full: modules_to_save)"),
    ("megatron_config", Off, "null"),
    ("arrow_config", Off, "null"),
    ("corda_config", Off, "null"),
    ("eva_config", Off, "null"),
    ("kasa_config", Off, "null"),
    ("loftq_config", Off, "null"),
    ("lora_ga_config", Off, "null"),
    ("monteclora_config", Off, "null"),
    ("velora_config", Off, "null"),
    ("modules_to_tie", Off, "null"),
    ("target_modules_to_tie", Off, "null"),
    ("exclude_parameters", Off, "null"),
];

/// Checks all members that are not read.
pub(super) fn check(members: &Map<String, Value>) -> Result<(), LoraProblem> {
    members.iter().try_for_each(|(field, value)| {
        let Some((_, allowed, supported)) = MEMBERS.iter().find(|(name, ..)| name == field) else {
            let unknown = || LoraProblem::Unknown { field: field.clone(), found: value.to_string() };
            return if is_off(value) { Ok(()) } else { Err(unknown()) };
        };
        let is_allowed = match allowed {
            Anything => true,
            Off => is_off(value),
            Text(text) => value.is_null() || value.as_str() == Some(text),
        };
        let unsupported =
            || LoraProblem::Unsupported { field: field.clone(), found: value.to_string(), supported };
        if is_allowed { Ok(()) } else { Err(unsupported()) }
    })
}

/// Whether a value says that something is not there.
fn is_off(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(on) => !on,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
    }
}
