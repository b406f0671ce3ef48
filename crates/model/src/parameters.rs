//! What a model consists of: its parameters and its modules, under their original names.

use crate::ModelConfig;
use crate::family::NormForm;

/// One trainable array.
#[derive(Clone, Debug, PartialEq)]
pub struct ParameterInfo {
    /// The name in Hugging Face checkpoints.
    pub name: String,
    /// Sizes, outermost dim first; matrices are `[out, in]`.
    pub shape: Vec<usize>,
    /// What it holds before training.
    pub init: Init,
    /// What it is, by which optimizers group parameters.
    pub kind: ParameterKind,
}

/// The values of a fresh parameter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Init {
    /// Independent, normally distributed with mean 0.
    Normal {
        /// The standard deviation.
        std: f64,
        /// A row that is zero all the same.
        zero_row: Option<usize>,
    },
    /// Independent, uniformly distributed between `-bound` and `bound`.
    Uniform {
        /// The largest value.
        bound: f64,
    },
    /// All 1.
    Ones,
    /// All 0.
    Zeros,
}

/// What a parameter is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ParameterKind {
    /// The weight of a projection, the output table among them.
    Matrix,
    /// The table of the input tokens.
    Embedding,
    /// The weight of a norm.
    Norm,
    /// The bias of a projection.
    Bias,
}

/// One module of the original implementation, as wrap policies name them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModuleInfo {
    /// Its path; empty for the model itself. A parameter belongs to the module whose path its name extends.
    pub path: String,
    /// Its class.
    pub class: &'static str,
}

impl ParameterKind {
    /// Whether weight decay applies, by the rule of the Hugging Face `Trainer`: not to norms and biases.
    pub fn decays(self) -> bool {
        match self {
            ParameterKind::Matrix | ParameterKind::Embedding => true,
            ParameterKind::Norm | ParameterKind::Bias => false,
        }
    }
}

impl ParameterInfo {
    /// Number of elements.
    pub fn element_count(&self) -> usize {
        self.shape.iter().product()
    }
}

/// The parameters of a model in the order of the original implementation. A tied output table is not among them.
pub fn parameters(config: &ModelConfig) -> Vec<ParameterInfo> {
    let is_tied = config.tie_word_embeddings();
    let untied = parts(config).filter(|part| !(is_tied && part.path == "lm_head"));
    untied.flat_map(|part| part.parameters(config)).collect()
}

/// The number of trainable elements; a tied table counts once.
pub fn parameter_count(config: &ModelConfig) -> usize {
    parameters(config).iter().map(ParameterInfo::element_count).sum()
}

/// The modules that hold parameters, directly or further down, each after the one that contains it.
pub fn modules(config: &ModelConfig) -> Vec<ModuleInfo> {
    parts(config).map(|part| ModuleInfo { path: part.path, class: part.class }).collect()
}

/// A module, and what it holds itself.
struct Part {
    path: String,
    class: &'static str,
    holds: Holds,
}

/// What parameters a module has, besides those of the modules in it.
#[derive(Clone, Copy)]
enum Holds {
    Nothing,
    Table,
    Norm { size: usize },
    Linear { shape: [usize; 2], has_bias: bool },
}

/// All modules, in the order of the original implementation.
fn parts(config: &ModelConfig) -> impl Iterator<Item = Part> {
    let classes = config.classes();
    let part = |path: &str, class, holds| Part { path: path.to_owned(), class, holds };
    let head = Holds::Linear { shape: [config.vocab_size(), config.hidden_size()], has_bias: false };
    let before = [
        part("", classes.causal_lm, Holds::Nothing),
        part("model", classes.model, Holds::Nothing),
        part("model.embed_tokens", classes.embedding, Holds::Table),
    ];
    let behind = [
        part("model.norm", classes.norm, Holds::Norm { size: config.hidden_size() }),
        part("lm_head", "Linear", head),
    ];
    let layer = layer_parts(config);
    let layers = (0..config.num_hidden_layers()).flat_map(move |index| {
        let within = |part: &(&str, _, _)| Part {
            path: format!("model.layers.{index}{}", part.0),
            class: part.1,
            holds: part.2,
        };
        layer.iter().map(within).collect::<Vec<_>>()
    });
    before.into_iter().chain(layers).chain(behind)
}

/// The modules of a layer, with their paths behind its own. All layers have the same.
fn layer_parts(config: &ModelConfig) -> Vec<(&'static str, &'static str, Holds)> {
    let (classes, choices) = (config.classes(), config.choices());
    let (hidden, inner, head_dim) = (config.hidden_size(), config.intermediate_size(), config.head_dim());
    let q_dim = config.num_attention_heads() * head_dim;
    let kv_dim = config.num_key_value_heads() * head_dim;
    let linear = |path, shape, has_bias| (path, "Linear", Holds::Linear { shape, has_bias });
    let norm = |path, size| (path, classes.norm, Holds::Norm { size });
    let norm_if = |wanted: bool, path, size| wanted.then(|| norm(path, size));

    let mut parts = vec![
        ("", classes.decoder_layer, Holds::Nothing),
        (".self_attn", classes.attention, Holds::Nothing),
        linear(".self_attn.q_proj", [q_dim, hidden], choices.qkv_bias),
        linear(".self_attn.k_proj", [kv_dim, hidden], choices.qkv_bias),
        linear(".self_attn.v_proj", [kv_dim, hidden], choices.qkv_bias),
        linear(".self_attn.o_proj", [hidden, q_dim], choices.o_bias),
    ];
    parts.extend(norm_if(choices.query_key_norms, ".self_attn.q_norm", head_dim));
    parts.extend(norm_if(choices.query_key_norms, ".self_attn.k_norm", head_dim));
    parts.extend([
        (".mlp", classes.mlp, Holds::Nothing),
        linear(".mlp.gate_proj", [inner, hidden], choices.mlp_bias),
        linear(".mlp.up_proj", [inner, hidden], choices.mlp_bias),
        linear(".mlp.down_proj", [hidden, inner], choices.mlp_bias),
        norm(".input_layernorm", hidden),
        norm(".post_attention_layernorm", hidden),
    ]);
    parts.extend(norm_if(choices.norms_outputs, ".pre_feedforward_layernorm", hidden));
    parts.extend(norm_if(choices.norms_outputs, ".post_feedforward_layernorm", hidden));
    parts
}

impl Part {
    /// The parameters that the module itself holds.
    fn parameters(&self, config: &ModelConfig) -> Vec<ParameterInfo> {
        let parameter = |part: &str, shape: &[usize], init, kind| ParameterInfo {
            name: format!("{}.{part}", self.path),
            shape: shape.to_vec(),
            init,
            kind,
        };
        let normal = |zero_row| Init::Normal { std: config.initializer_range(), zero_row };
        match self.holds {
            Holds::Nothing => Vec::new(),
            Holds::Table => {
                let shape = [config.vocab_size(), config.hidden_size()];
                vec![parameter("weight", &shape, normal(config.padding_row()), ParameterKind::Embedding)]
            }
            Holds::Norm { size } => {
                let init = match config.choices().norm {
                    NormForm::Factor => Init::Ones,
                    NormForm::OffsetFromOne => Init::Zeros,
                };
                vec![parameter("weight", &[size], init, ParameterKind::Norm)]
            }
            Holds::Linear { shape, has_bias } => {
                let mut own = vec![parameter("weight", &shape, normal(None), ParameterKind::Matrix)];
                let bias = || parameter("bias", &shape[..1], Init::Zeros, ParameterKind::Bias);
                own.extend(has_bias.then(bias));
                own
            }
        }
    }
}
