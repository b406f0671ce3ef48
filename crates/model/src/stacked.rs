//! Models whose layers are stacked: what all layers have is one array, with a dim for the layers before its own dims.
//!
//! The program of such a model has one loop over its layers, and does not grow with them. The names of the rows are
//! the original ones, so what is saved is the same.

use thiserror::Error;

use crate::{LayerKind, ModelConfig, ModuleInfo, ParameterInfo, modules, parameters};

/// The path of all layers together.
pub(crate) const LAYERS: &str = "model.layers.*";

/// A parameter of a model whose layers are stacked.
#[derive(Clone, Debug, PartialEq)]
pub struct StackedParameter {
    /// Its name: that of the rows, with `*` in place of the layer's number, or that of a parameter outside the layers.
    pub name: String,
    /// Sizes, outermost dim first; if it is stacked, the number of layers comes first.
    pub shape: Vec<usize>,
    /// For each layer, the parameter that is the row; empty for one that is not stacked.
    pub rows: Vec<ParameterInfo>,
}

/// Layers that one loop cannot run over.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "model.layers.{layer} looks at {}, and model.layers.0 at {}; layers that are stacked have to be of one kind",
    looks_at(.kind),
    looks_at(.first)
)]
pub struct StackError {
    /// The first layer that is not as the ones before it.
    pub layer: usize,
    /// Its kind.
    pub kind: LayerKind,
    /// Theirs.
    pub first: LayerKind,
}

fn looks_at(kind: &LayerKind) -> &'static str {
    match kind {
        LayerKind::Full => "all positions before",
        LayerKind::Sliding => "a window of them",
    }
}

/// The parameters of a model with its layers stacked, in the order of the first layer's.
///
/// ```
/// use shardwright_model::{ModelConfig, stacked_parameters};
///
/// let text = r#"{"model_type": "llama", "hidden_size": 64, "intermediate_size": 176, "num_hidden_layers": 12,
///                "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 260}"#;
/// let config = ModelConfig::parse(text, "config.json")?;
/// let k_proj = &stacked_parameters(&config)?[2];
/// assert_eq!(k_proj.name, "model.layers.*.self_attn.k_proj.weight");
/// assert_eq!(k_proj.shape, [12, 32, 64]);
/// assert_eq!(k_proj.rows[7].name, "model.layers.7.self_attn.k_proj.weight");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// When layers are of several kinds.
pub fn stacked_parameters(config: &ModelConfig) -> Result<Vec<StackedParameter>, StackError> {
    check_kinds(config.layer_kinds())?;
    let mut stacked: Vec<StackedParameter> = Vec::new();
    for parameter in parameters(config) {
        let Some(name) = in_all_layers(&parameter.name) else {
            let ParameterInfo { name, shape, .. } = parameter;
            stacked.push(StackedParameter { name, shape, rows: Vec::new() });
            continue;
        };
        match stacked.iter_mut().find(|known| known.name == name) {
            Some(known) => known.rows.push(parameter),
            None => {
                let layers = std::iter::once(config.num_hidden_layers());
                let shape = layers.chain(parameter.shape.iter().copied()).collect();
                stacked.push(StackedParameter { name, shape, rows: vec![parameter] });
            }
        }
    }
    Ok(stacked)
}

/// The modules of a model with its layers stacked; those of the first layer stand for those of all.
pub fn stacked_modules(config: &ModelConfig) -> Vec<ModuleInfo> {
    let mut stacked: Vec<ModuleInfo> = Vec::new();
    for module in modules(config) {
        let path = in_all_layers(&module.path).unwrap_or(module.path);
        if stacked.iter().all(|known| known.path != path) {
            stacked.push(ModuleInfo { path, ..module });
        }
    }
    stacked
}

fn check_kinds(kinds: &[LayerKind]) -> Result<(), StackError> {
    let Some(&first) = kinds.first() else { return Ok(()) };
    match kinds.iter().enumerate().find(|(_, kind)| **kind != first) {
        Some((layer, &kind)) => Err(StackError { layer, kind, first }),
        None => Ok(()),
    }
}

/// The name of something in a layer, with `*` in place of the layer's number.
fn in_all_layers(name: &str) -> Option<String> {
    let behind = name.strip_prefix("model.layers.")?;
    let number = behind.find('.').unwrap_or(behind.len());
    Some(format!("{LAYERS}{}", &behind[number..]))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    fn config(family: &str) -> ModelConfig {
        let text = format!(
            r#"{{"model_type": "{family}", "hidden_size": 64, "intermediate_size": 176, "num_hidden_layers": 4,
                "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "vocab_size": 260}}"#
        );
        ModelConfig::parse(&text, "config.json").unwrap()
    }

    #[test]
    fn each_parameter_is_a_row_or_stands_alone() {
        let config = config("qwen3");
        let stacked = stacked_parameters(&config).unwrap();
        let rows: Vec<&str> = stacked.iter().flat_map(|p| &p.rows).map(|row| row.name.as_str()).collect();
        let all = parameters(&config);
        let in_layers = all.iter().filter(|p| p.name.starts_with("model.layers."));
        assert_eq!(rows.len(), in_layers.count());
        let names = || all.iter().map(|p| p.name.as_str());
        assert!(rows.iter().all(|row| names().any(|name| name == *row)));
        for parameter in stacked.iter().filter(|p| !p.rows.is_empty()) {
            let fits = |row: &ParameterInfo| parameter.shape.split_first() == Some((&4, &row.shape));
            assert!(parameter.rows.iter().all(fits), "{parameter:?}");
        }
        let alone = stacked.iter().filter(|p| p.rows.is_empty());
        let alone: Vec<&str> = alone.map(|p| p.name.as_str()).collect();
        assert_eq!(alone, ["model.embed_tokens.weight", "model.norm.weight", "lm_head.weight"]);
        let modules = stacked_modules(&config);
        assert_eq!(modules.iter().filter(|m| m.class == "Qwen3DecoderLayer").count(), 1);
        assert!(modules.iter().any(|m| m.path == "model.layers.*.self_attn.q_norm"));
    }

    #[test]
    fn layers_of_two_kinds_are_not_stacked() {
        let error = stacked_parameters(&config("gemma2")).unwrap_err();
        expect!["model.layers.1 looks at all positions before, and model.layers.0 at a window of them; layers that are stacked have to be of one kind"].assert_eq(&error.to_string());
    }
}
