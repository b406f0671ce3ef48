//! The families of decoders, as a table: how each differs from the others, and what its configurations leave out.

use crate::activation::Activation;

/// A family, by its `model_type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    Llama,
    Mistral,
    Qwen2,
    Qwen3,
    Gemma,
    Gemma2,
    Gemma3,
}

/// What is the same for all models of a family.
pub(crate) struct Traits {
    pub(crate) model_type: &'static str,
    pub(crate) classes: Classes,
    /// The members of a configuration that other families have too, but not all.
    pub(crate) settings: &'static [&'static str],
    /// Whether queries, keys and values have biases, whatever the configuration says.
    pub(crate) always_biased: bool,
    /// Whether queries and keys are normed, head by head.
    pub(crate) query_key_norms: bool,
    pub(crate) norm: NormForm,
    /// Whether attention and MLP are normed behind as well as before.
    pub(crate) norms_outputs: bool,
    /// Whether what was looked up is multiplied by the square root of the hidden size.
    pub(crate) scales_embeddings: bool,
    pub(crate) windows: Windows,
    /// The member that names the activation.
    pub(crate) activation_field: &'static str,
    pub(crate) defaults: Defaults,
}

/// How the weight of a norm is stored and applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NormForm {
    /// As a factor, which is applied in the dtype of the activations.
    Factor,
    /// As what the factor has over 1; it is applied in f32.
    OffsetFromOne,
}

/// Which layers look at a window only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Windows {
    /// None do.
    Never,
    /// All, if there is a window.
    Always,
    /// Those from `max_window_layers` on, where `use_sliding_window` holds.
    Later,
    /// All but every `n`th; `sliding_window_pattern` is another `n` where the family has that setting.
    AllButEvery(usize),
}

/// The classes of the original implementation.
#[derive(Debug)]
pub(crate) struct Classes {
    pub(crate) causal_lm: &'static str,
    pub(crate) model: &'static str,
    pub(crate) embedding: &'static str,
    pub(crate) rotary: &'static str,
    pub(crate) decoder_layer: &'static str,
    pub(crate) attention: &'static str,
    pub(crate) mlp: &'static str,
    pub(crate) norm: &'static str,
}

/// What a member means that is left out. Defaults that all families share are where the member is read.
pub(crate) struct Defaults {
    pub(crate) vocab_size: usize,
    pub(crate) hidden_size: usize,
    pub(crate) intermediate_size: usize,
    pub(crate) num_hidden_layers: usize,
    pub(crate) num_attention_heads: usize,
    /// As many as query heads if `None`.
    pub(crate) num_key_value_heads: Option<usize>,
    /// The hidden size divided by the query heads if `None`.
    pub(crate) head_dim: Option<usize>,
    pub(crate) max_position_embeddings: usize,
    pub(crate) rope_theta: f64,
    pub(crate) activation: Activation,
    pub(crate) tie_word_embeddings: bool,
    pub(crate) bos_token_id: Option<u32>,
    pub(crate) eos_token_id: Option<u32>,
    pub(crate) pad_token_id: Option<i64>,
    pub(crate) attn_logit_softcapping: Option<f64>,
    pub(crate) final_logit_softcapping: Option<f64>,
}

/// Where a family has this setting at all, and nothing is said.
pub(crate) const DEFAULT_SLIDING_WINDOW: usize = 4096;
pub(crate) const DEFAULT_MAX_WINDOW_LAYERS: usize = 28;
pub(crate) const DEFAULT_QUERY_PRE_ATTN_SCALAR: f64 = 256.0;
pub(crate) const DEFAULT_ROPE_LOCAL_BASE_FREQ: f64 = 10_000.0;

impl Family {
    pub(crate) const ALL: [Family; 7] = [
        Family::Llama,
        Family::Mistral,
        Family::Qwen2,
        Family::Qwen3,
        Family::Gemma,
        Family::Gemma2,
        Family::Gemma3,
    ];

    pub(crate) fn traits(self) -> &'static Traits {
        match self {
            Family::Llama => &LLAMA,
            Family::Mistral => &MISTRAL,
            Family::Qwen2 => &QWEN2,
            Family::Qwen3 => &QWEN3,
            Family::Gemma => &GEMMA,
            Family::Gemma2 => &GEMMA2,
            Family::Gemma3 => &GEMMA3,
        }
    }

    /// Whether layers that look at a window turn positions by angles of their own.
    pub(crate) fn has_local_rotary(self) -> bool {
        self.traits().has("rope_local_base_freq")
    }
}

impl Traits {
    /// Whether the family has a setting that not all have.
    pub(crate) fn has(&self, setting: &str) -> bool {
        self.settings.contains(&setting)
    }
}

/// The classes with this prefix; the model and its table are not always called as they are elsewhere.
macro_rules! classes {
    ($prefix:literal, $model:literal, $embedding:literal) => {
        Classes {
            causal_lm: concat!($prefix, "ForCausalLM"),
            model: $model,
            embedding: $embedding,
            rotary: concat!($prefix, "RotaryEmbedding"),
            decoder_layer: concat!($prefix, "DecoderLayer"),
            attention: concat!($prefix, "Attention"),
            mlp: concat!($prefix, "MLP"),
            norm: concat!($prefix, "RMSNorm"),
        }
    };
}

const LLAMA: Traits = Traits {
    model_type: "llama",
    classes: classes!("Llama", "LlamaModel", "Embedding"),
    settings: &["attention_bias", "mlp_bias"],
    always_biased: false,
    query_key_norms: false,
    norm: NormForm::Factor,
    norms_outputs: false,
    scales_embeddings: false,
    windows: Windows::Never,
    activation_field: "hidden_act",
    defaults: Defaults {
        vocab_size: 32_000,
        hidden_size: 4096,
        intermediate_size: 11_008,
        num_hidden_layers: 32,
        num_attention_heads: 32,
        num_key_value_heads: None,
        head_dim: None,
        max_position_embeddings: 2048,
        rope_theta: 10_000.0,
        activation: Activation::Silu,
        tie_word_embeddings: false,
        bos_token_id: Some(1),
        eos_token_id: Some(2),
        pad_token_id: None,
        attn_logit_softcapping: None,
        final_logit_softcapping: None,
    },
};

const MISTRAL: Traits = Traits {
    model_type: "mistral",
    classes: classes!("Mistral", "MistralModel", "Embedding"),
    settings: &["sliding_window"],
    windows: Windows::Always,
    defaults: Defaults {
        intermediate_size: 14_336,
        num_key_value_heads: Some(8),
        max_position_embeddings: 131_072,
        ..LLAMA.defaults
    },
    ..LLAMA
};

const QWEN2: Traits = Traits {
    model_type: "qwen2",
    classes: classes!("Qwen2", "Qwen2Model", "Embedding"),
    settings: &["sliding_window"],
    always_biased: true,
    windows: Windows::Later,
    defaults: Defaults {
        vocab_size: 151_936,
        intermediate_size: 22_016,
        num_key_value_heads: Some(32),
        max_position_embeddings: 32_768,
        bos_token_id: None,
        eos_token_id: None,
        ..LLAMA.defaults
    },
    ..LLAMA
};

const QWEN3: Traits = Traits {
    model_type: "qwen3",
    classes: classes!("Qwen3", "Qwen3Model", "Embedding"),
    settings: &["attention_bias", "sliding_window"],
    always_biased: false,
    query_key_norms: true,
    defaults: Defaults { head_dim: Some(128), ..QWEN2.defaults },
    ..QWEN2
};

const GEMMA: Traits = Traits {
    model_type: "gemma",
    classes: classes!("Gemma", "GemmaModel", "GemmaTextScaledWordEmbedding"),
    settings: &["attention_bias"],
    norm: NormForm::OffsetFromOne,
    scales_embeddings: true,
    defaults: Defaults {
        vocab_size: 256_000,
        hidden_size: 3072,
        intermediate_size: 24_576,
        num_hidden_layers: 28,
        num_attention_heads: 16,
        num_key_value_heads: Some(16),
        head_dim: Some(256),
        max_position_embeddings: 8192,
        activation: Activation::GeluTanh,
        tie_word_embeddings: true,
        bos_token_id: Some(2),
        eos_token_id: Some(1),
        pad_token_id: Some(0),
        ..LLAMA.defaults
    },
    ..LLAMA
};

const GEMMA2: Traits = Traits {
    model_type: "gemma2",
    classes: classes!("Gemma2", "Gemma2Model", "Gemma2TextScaledWordEmbedding"),
    settings: &[
        "attention_bias",
        "attn_logit_softcapping",
        "final_logit_softcapping",
        "query_pre_attn_scalar",
        "sliding_window",
    ],
    norms_outputs: true,
    windows: Windows::AllButEvery(2),
    activation_field: "hidden_activation",
    defaults: Defaults {
        hidden_size: 2304,
        intermediate_size: 9216,
        num_hidden_layers: 26,
        num_attention_heads: 8,
        num_key_value_heads: Some(4),
        attn_logit_softcapping: Some(50.0),
        final_logit_softcapping: Some(30.0),
        ..GEMMA.defaults
    },
    ..GEMMA
};

const GEMMA3: Traits = Traits {
    model_type: "gemma3_text",
    classes: classes!("Gemma3", "Gemma3TextModel", "Gemma3TextScaledWordEmbedding"),
    settings: &[
        "attention_bias",
        "final_logit_softcapping",
        "query_pre_attn_scalar",
        "rope_local_base_freq",
        "sliding_window",
        "sliding_window_pattern",
    ],
    query_key_norms: true,
    windows: Windows::AllButEvery(6),
    defaults: Defaults {
        vocab_size: 262_208,
        max_position_embeddings: 131_072,
        rope_theta: 1_000_000.0,
        attn_logit_softcapping: None,
        final_logit_softcapping: None,
        ..GEMMA2.defaults
    },
    ..GEMMA2
};
