//! What a model consists of: its parameters and its modules, under their original names.

use crate::ModelConfig;

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
    let list = List { std: config.initializer_range(), parameters: Vec::new() };
    list.model(config)
}

/// The number of trainable elements; a tied table counts once.
pub fn parameter_count(config: &ModelConfig) -> usize {
    parameters(config).iter().map(ParameterInfo::element_count).sum()
}

/// The modules that hold parameters, directly or further down, each after the one that contains it.
pub fn modules(config: &ModelConfig) -> Vec<ModuleInfo> {
    const LAYER: [(&str, &str); 12] = [
        ("", "LlamaDecoderLayer"),
        (".self_attn", "LlamaAttention"),
        (".self_attn.q_proj", "Linear"),
        (".self_attn.k_proj", "Linear"),
        (".self_attn.v_proj", "Linear"),
        (".self_attn.o_proj", "Linear"),
        (".mlp", "LlamaMLP"),
        (".mlp.gate_proj", "Linear"),
        (".mlp.up_proj", "Linear"),
        (".mlp.down_proj", "Linear"),
        (".input_layernorm", "LlamaRMSNorm"),
        (".post_attention_layernorm", "LlamaRMSNorm"),
    ];
    let module = |path: &str, class| ModuleInfo { path: path.to_owned(), class };
    let mut modules = vec![
        module("", "LlamaForCausalLM"),
        module("model", "LlamaModel"),
        module("model.embed_tokens", "Embedding"),
    ];
    for layer in 0..config.num_hidden_layers() {
        modules.extend(LAYER.map(|(path, class)| module(&format!("model.layers.{layer}{path}"), class)));
    }
    modules.push(module("model.norm", "LlamaRMSNorm"));
    modules.push(module("lm_head", "Linear"));
    modules
}

/// The parameters so far.
struct List {
    std: f64,
    parameters: Vec<ParameterInfo>,
}

impl List {
    fn model(mut self, config: &ModelConfig) -> Vec<ParameterInfo> {
        let table = [config.vocab_size(), config.hidden_size()];
        let init = Init::Normal { std: self.std, zero_row: config.padding_row() };
        self.push("model.embed_tokens.weight".to_owned(), table.to_vec(), init, ParameterKind::Embedding);
        for layer in 0..config.num_hidden_layers() {
            self.layer(&format!("model.layers.{layer}"), config);
        }
        self.norm("model.norm", config);
        if !config.tie_word_embeddings() {
            self.weight("lm_head", table);
        }
        self.parameters
    }

    fn layer(&mut self, path: &str, config: &ModelConfig) {
        let (hidden, inner) = (config.hidden_size(), config.intermediate_size());
        let q_dim = config.num_attention_heads() * config.head_dim();
        let kv_dim = config.num_key_value_heads() * config.head_dim();
        for (name, shape) in [
            ("q_proj", [q_dim, hidden]),
            ("k_proj", [kv_dim, hidden]),
            ("v_proj", [kv_dim, hidden]),
            ("o_proj", [hidden, q_dim]),
        ] {
            self.linear(&format!("{path}.self_attn.{name}"), shape, config.attention_bias());
        }
        for (name, shape) in
            [("gate_proj", [inner, hidden]), ("up_proj", [inner, hidden]), ("down_proj", [hidden, inner])]
        {
            self.linear(&format!("{path}.mlp.{name}"), shape, config.mlp_bias());
        }
        self.norm(&format!("{path}.input_layernorm"), config);
        self.norm(&format!("{path}.post_attention_layernorm"), config);
    }

    fn linear(&mut self, path: &str, shape: [usize; 2], has_bias: bool) {
        self.weight(path, shape);
        if has_bias {
            self.push(format!("{path}.bias"), vec![shape[0]], Init::Zeros, ParameterKind::Bias);
        }
    }

    fn weight(&mut self, path: &str, shape: [usize; 2]) {
        let init = Init::Normal { std: self.std, zero_row: None };
        self.push(format!("{path}.weight"), shape.to_vec(), init, ParameterKind::Matrix);
    }

    fn norm(&mut self, path: &str, config: &ModelConfig) {
        let shape = vec![config.hidden_size()];
        self.push(format!("{path}.weight"), shape, Init::Ones, ParameterKind::Norm);
    }

    fn push(&mut self, name: String, shape: Vec<usize>, init: Init, kind: ParameterKind) {
        self.parameters.push(ParameterInfo { name, shape, init, kind });
    }
}
