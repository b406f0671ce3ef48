//! Low-rank adapters beside projections, as PEFT configures and names them.
//!
//! A projection with an adapter of rank `r` computes `x·Wᵀ + scale·(x·Aᵀ)·Bᵀ`, where `A` is `[r, in]`, `B` is `[out, r]`,
//! and the scale is `alpha / r` (or `alpha / √r`). The model's own weights stay as they are, but for those of modules
//! that are trained in full beside the adapters.
//!
//! [`LoraConfig`] is what an `adapter_config.json` means; [`Lora`] is that for one model: which of its projections have
//! adapters, and of what rank.

mod config;
mod error;
mod members;
mod resolve;
mod targets;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use shardwright_graph::{Graph, GraphError, Value};

use crate::{Init, ModelConfig, ParameterInfo, ParameterKind};

pub use config::{LoraConfig, LoraInit, LoraModules};
pub use error::{LoraError, LoraProblem};

/// What PEFT puts before a model's own names in the files that it saves.
const SAVED_PREFIX: &str = "base_model.model.";

/// The adapters of one model.
///
/// ```
/// use shardwright_model::{Lora, LoraConfig, ModelConfig};
///
/// let model = ModelConfig::parse(r#"{"model_type": "llama", "num_hidden_layers": 2}"#, "config.json")?;
/// let text = r#"{"peft_type": "LORA", "r": 4, "lora_alpha": 8, "target_modules": ["q_proj"]}"#;
/// let lora = Lora::new(&LoraConfig::parse(text, "adapter_config.json")?, &model)?;
///
/// let names: Vec<String> = lora.parameters().into_iter().map(|p| p.name).collect();
/// assert_eq!(names[..2], [
///     "model.layers.0.self_attn.q_proj.lora_A.weight",
///     "model.layers.0.self_attn.q_proj.lora_B.weight",
/// ]);
/// assert!(lora.trains(&names[0]) && !lora.trains("model.layers.0.self_attn.q_proj.weight"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Lora {
    config: LoraConfig,
    adapters: Vec<Adapter>,
    scales: BTreeMap<String, f64>,
    /// The modules that are trained in full.
    saved_modules: BTreeSet<String>,
    unmatched: Vec<String>,
}

/// The adapter of one projection.
#[derive(Clone, Debug, PartialEq)]
pub struct Adapter {
    /// The path of the projection.
    pub path: String,
    /// The sizes of the projection's weight, `[out, in]`.
    pub shape: [usize; 2],
    /// The features between `A` and `B`.
    pub rank: usize,
    /// What its output is multiplied by.
    pub scale: f64,
}

impl Lora {
    /// The adapters that a configuration means for a model.
    ///
    /// # Errors
    /// When it names no module of the model, or one that can have no adapter or cannot be trained alone.
    pub fn new(config: &LoraConfig, model: &ModelConfig) -> Result<Lora, LoraError> {
        resolve::resolve(config, model).map_err(|problem| LoraError::new(config.source_name(), problem))
    }

    /// What they were made of.
    pub fn config(&self) -> &LoraConfig {
        &self.config
    }

    /// The adapters, in the order of the model's modules.
    pub fn adapters(&self) -> &[Adapter] {
        &self.adapters
    }

    /// Their arrays: for each adapter `PATH.lora_A.weight`, `[r, in]`, and `PATH.lora_B.weight`, `[out, r]`.
    pub fn parameters(&self) -> Vec<ParameterInfo> {
        self.adapters.iter().flat_map(|adapter| adapter.parameters(self.config.init)).collect()
    }

    /// Whether the parameter of this name is trained: one of an adapter, or of a module that is trained in full.
    pub fn trains(&self, parameter: &str) -> bool {
        let Some((module, _)) = parameter.rsplit_once('.') else { return false };
        let projection = module.strip_suffix(".lora_A").or_else(|| module.strip_suffix(".lora_B"));
        match projection {
            Some(path) => self.scales.contains_key(path),
            None => self.saved_modules.contains(module),
        }
    }

    /// The name of a parameter in the file of an adapter.
    pub fn saved_name(parameter: &str) -> String {
        format!("{SAVED_PREFIX}{parameter}")
    }

    /// The words of the configuration that name no module of the model.
    pub fn unmatched(&self) -> &[String] {
        &self.unmatched
    }

    /// What the adapter of a projection is multiplied by, if it has one.
    pub(crate) fn scale(&self, path: &str) -> Option<f64> {
        self.scales.get(path).copied()
    }
}

impl Adapter {
    fn parameters(&self, init: LoraInit) -> [ParameterInfo; 2] {
        let [output, input] = self.shape;
        // PyTorch's default for projections.
        let uniform = |fan_in: usize| Init::Uniform { bound: 1.0 / (fan_in as f64).sqrt() };
        let a = match init {
            LoraInit::Default | LoraInit::NotZero => uniform(input),
            LoraInit::Gaussian => Init::Normal { std: 1.0 / self.rank as f64, zero_row: None },
        };
        let b = match init {
            LoraInit::Default | LoraInit::Gaussian => Init::Zeros,
            LoraInit::NotZero => uniform(self.rank),
        };
        let parameter = |letter, shape: [usize; 2], init| ParameterInfo {
            name: adapter_name(&self.path, letter),
            shape: shape.to_vec(),
            init,
            kind: ParameterKind::Matrix,
        };
        [parameter('A', [self.rank, input], a), parameter('B', [output, self.rank], b)]
    }
}

/// The name of `A` or `B` beside the projection at `path`.
pub(crate) fn adapter_name(path: &str, letter: char) -> String {
    format!("{path}.lora_{letter}.weight")
}

/// What an adapter adds to its projection: `scale · (x·aᵀ)·bᵀ` over the last dim.
pub(crate) fn low_rank(g: &Graph, x: Value, [a, b]: [Value; 2], scale: f64) -> Result<Value, GraphError> {
    let last = g.dims(x).len() - 1;
    let as_x = |weight| g.convert(g.weight(weight)?, g.dtype(x));
    let narrow = g.scale(g.dot(x, as_x(a)?, &[], &[(last, 1)])?, scale)?;
    g.dot(narrow, as_x(b)?, &[], &[(last, 1)])
}
