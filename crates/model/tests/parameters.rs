//! Parameters and modules of the models that stored checkpoints were made from.

use std::fmt::Write;

use expect_test::{Expect, expect};
use shardwright_model::{ModelConfig, modules, parameter_count, parameters};

/// The parameters of the model with one layer, and the number of elements of the whole model.
fn check(text: &str, expect: Expect) {
    let config = ModelConfig::parse(text, "config.json").unwrap();
    let mut list = String::new();
    for p in parameters(&config).iter().filter(|p| !p.name.contains("layers.1")) {
        writeln!(list, "{} {:?} {:?} {:?}", p.name, p.shape, p.init, p.kind).unwrap();
    }
    writeln!(list, "{} elements in {}", parameter_count(&config), parameters(&config).len()).unwrap();
    expect.assert_eq(&list);
}

#[test]
fn names_and_shapes_are_those_of_checkpoints() {
    check(
        include_str!("data/base.json"),
        expect![[r#"
            model.embed_tokens.weight [512, 128] Normal { std: 0.02, zero_row: None } Embedding
            model.layers.0.self_attn.q_proj.weight [128, 128] Normal { std: 0.02, zero_row: None } Matrix
            model.layers.0.self_attn.k_proj.weight [64, 128] Normal { std: 0.02, zero_row: None } Matrix
            model.layers.0.self_attn.v_proj.weight [64, 128] Normal { std: 0.02, zero_row: None } Matrix
            model.layers.0.self_attn.o_proj.weight [128, 128] Normal { std: 0.02, zero_row: None } Matrix
            model.layers.0.mlp.gate_proj.weight [352, 128] Normal { std: 0.02, zero_row: None } Matrix
            model.layers.0.mlp.up_proj.weight [352, 128] Normal { std: 0.02, zero_row: None } Matrix
            model.layers.0.mlp.down_proj.weight [128, 352] Normal { std: 0.02, zero_row: None } Matrix
            model.layers.0.input_layernorm.weight [128] Ones Norm
            model.layers.0.post_attention_layernorm.weight [128] Ones Norm
            model.norm.weight [128] Ones Norm
            lm_head.weight [512, 128] Normal { std: 0.02, zero_row: None } Matrix
            500352 elements in 21
        "#]],
    );
}

#[test]
fn biases_are_as_long_as_the_first_dim_and_start_at_zero() {
    check(
        include_str!("data/bias.json"),
        expect![[r#"
            model.embed_tokens.weight [512, 128] Normal { std: 0.02, zero_row: None } Embedding
            model.layers.0.self_attn.q_proj.weight [128, 128] Normal { std: 0.02, zero_row: None } Matrix
            model.layers.0.self_attn.q_proj.bias [128] Zeros Bias
            model.layers.0.self_attn.k_proj.weight [64, 128] Normal { std: 0.02, zero_row: None } Matrix
            model.layers.0.self_attn.k_proj.bias [64] Zeros Bias
            model.layers.0.self_attn.v_proj.weight [64, 128] Normal { std: 0.02, zero_row: None } Matrix
            model.layers.0.self_attn.v_proj.bias [64] Zeros Bias
            model.layers.0.self_attn.o_proj.weight [128, 128] Normal { std: 0.02, zero_row: None } Matrix
            model.layers.0.self_attn.o_proj.bias [128] Zeros Bias
            model.layers.0.mlp.gate_proj.weight [352, 128] Normal { std: 0.02, zero_row: None } Matrix
            model.layers.0.mlp.gate_proj.bias [352] Zeros Bias
            model.layers.0.mlp.up_proj.weight [352, 128] Normal { std: 0.02, zero_row: None } Matrix
            model.layers.0.mlp.up_proj.bias [352] Zeros Bias
            model.layers.0.mlp.down_proj.weight [128, 352] Normal { std: 0.02, zero_row: None } Matrix
            model.layers.0.mlp.down_proj.bias [128] Zeros Bias
            model.layers.0.input_layernorm.weight [128] Ones Norm
            model.layers.0.post_attention_layernorm.weight [128] Ones Norm
            model.norm.weight [128] Ones Norm
            lm_head.weight [512, 128] Normal { std: 0.02, zero_row: None } Matrix
            502784 elements in 35
        "#]],
    );
}

#[test]
fn a_tied_table_is_there_once() {
    let untied = ModelConfig::parse(include_str!("data/base.json"), "config.json").unwrap();
    let tied = ModelConfig::parse(include_str!("data/tied.json"), "config.json").unwrap();
    assert!(parameters(&tied).iter().all(|p| p.name != "lm_head.weight"));
    assert_eq!(parameter_count(&untied) - parameter_count(&tied), 512 * 128);
}

#[test]
fn an_explicit_head_size_shapes_the_attention() {
    let text = r#"{"model_type": "llama", "hidden_size": 64, "num_attention_heads": 3, "num_key_value_heads": 1,
        "head_dim": 24, "num_hidden_layers": 1, "intermediate_size": 176}"#;
    let config = ModelConfig::parse(text, "config.json").unwrap();
    let attention: Vec<Vec<usize>> =
        parameters(&config).into_iter().filter(|p| p.name.contains("self_attn")).map(|p| p.shape).collect();
    assert_eq!(attention, [[72, 64], [24, 64], [24, 64], [64, 72]]);
}

#[test]
fn weight_decay_leaves_out_norms_and_biases() {
    let config = ModelConfig::parse(include_str!("data/bias.json"), "config.json").unwrap();
    for p in parameters(&config) {
        let is_spared = p.name.ends_with(".bias") || p.name.contains("norm");
        assert_eq!(p.kind.decays(), !is_spared, "{}", p.name);
    }
}

/// The parameters of one layer.
fn check_layer(text: &str, expect: Expect) {
    let config = ModelConfig::parse(text, "config.json").unwrap();
    let of_layer = parameters(&config);
    let of_layer = of_layer.iter().filter_map(|p| Some((p.name.strip_prefix("model.layers.0.")?, p)));
    let list: String = of_layer.map(|(name, p)| format!("{name} {:?} {:?}\n", p.shape, p.kind)).collect();
    expect.assert_eq(&list.replace(".weight", ""));
}

#[test]
fn families_have_parameters_of_their_own() {
    let sizes = r#""hidden_size": 16, "intermediate_size": 24, "num_attention_heads": 4, "num_key_value_heads": 2,
        "head_dim": 8, "num_hidden_layers": 1, "vocab_size": 32"#;
    check_layer(
        &format!(r#"{{"model_type": "qwen2", {sizes}}}"#),
        expect![[r#"
        self_attn.q_proj [32, 16] Matrix
        self_attn.q_proj.bias [32] Bias
        self_attn.k_proj [16, 16] Matrix
        self_attn.k_proj.bias [16] Bias
        self_attn.v_proj [16, 16] Matrix
        self_attn.v_proj.bias [16] Bias
        self_attn.o_proj [16, 32] Matrix
        mlp.gate_proj [24, 16] Matrix
        mlp.up_proj [24, 16] Matrix
        mlp.down_proj [16, 24] Matrix
        input_layernorm [16] Norm
        post_attention_layernorm [16] Norm
    "#]],
    );
    check_layer(
        &format!(r#"{{"model_type": "gemma3_text", {sizes}}}"#),
        expect![[r#"
        self_attn.q_proj [32, 16] Matrix
        self_attn.k_proj [16, 16] Matrix
        self_attn.v_proj [16, 16] Matrix
        self_attn.o_proj [16, 32] Matrix
        self_attn.q_norm [8] Norm
        self_attn.k_norm [8] Norm
        mlp.gate_proj [24, 16] Matrix
        mlp.up_proj [24, 16] Matrix
        mlp.down_proj [16, 24] Matrix
        input_layernorm [16] Norm
        post_attention_layernorm [16] Norm
        pre_feedforward_layernorm [16] Norm
        post_feedforward_layernorm [16] Norm
    "#]],
    );
}

#[test]
fn sizes_of_well_known_models() {
    let check = |text: &str, expected: usize| {
        let config = ModelConfig::parse(text, "config.json").unwrap();
        assert_eq!(parameter_count(&config), expected, "{text}");
    };
    check(r#"{"model_type": "llama"}"#, 6_738_415_616);
    check(
        r#"{"model_type": "llama", "vocab_size": 128256, "hidden_size": 4096, "intermediate_size": 14336,
            "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8}"#,
        8_030_261_248,
    );
    check(r#"{"model_type": "mistral"}"#, 7_241_732_096);
    check(
        r#"{"model_type": "qwen2", "hidden_size": 896, "intermediate_size": 4864, "num_hidden_layers": 24,
            "num_attention_heads": 14, "num_key_value_heads": 2, "tie_word_embeddings": true}"#,
        494_032_768,
    );
    check(
        r#"{"model_type": "qwen3", "hidden_size": 1024, "intermediate_size": 3072, "num_hidden_layers": 28,
            "num_attention_heads": 16, "num_key_value_heads": 8, "tie_word_embeddings": true}"#,
        596_049_920,
    );
    check(
        r#"{"model_type": "gemma", "hidden_size": 2048, "intermediate_size": 16384, "num_hidden_layers": 18,
            "num_attention_heads": 8, "num_key_value_heads": 1}"#,
        2_506_172_416,
    );
    check(r#"{"model_type": "gemma2"}"#, 2_614_341_888);
    check(
        r#"{"model_type": "gemma3_text", "vocab_size": 262144, "hidden_size": 1152, "intermediate_size": 6912,
            "num_attention_heads": 4, "num_key_value_heads": 1}"#,
        999_885_952,
    );
}

#[test]
fn modules_have_their_original_paths_and_classes() {
    let text = r#"{"model_type": "llama", "num_hidden_layers": 1}"#;
    let config = ModelConfig::parse(text, "config.json").unwrap();
    let list: String = modules(&config).iter().map(|m| format!("{:40} {}\n", m.path, m.class)).collect();
    expect![[r#"
                                                 LlamaForCausalLM
        model                                    LlamaModel
        model.embed_tokens                       Embedding
        model.layers.0                           LlamaDecoderLayer
        model.layers.0.self_attn                 LlamaAttention
        model.layers.0.self_attn.q_proj          Linear
        model.layers.0.self_attn.k_proj          Linear
        model.layers.0.self_attn.v_proj          Linear
        model.layers.0.self_attn.o_proj          Linear
        model.layers.0.mlp                       LlamaMLP
        model.layers.0.mlp.gate_proj             Linear
        model.layers.0.mlp.up_proj               Linear
        model.layers.0.mlp.down_proj             Linear
        model.layers.0.input_layernorm           LlamaRMSNorm
        model.layers.0.post_attention_layernorm  LlamaRMSNorm
        model.norm                               LlamaRMSNorm
        lm_head                                  Linear
    "#]]
    .assert_eq(&list);
    for p in parameters(&config) {
        let (owner, _) = p.name.rsplit_once('.').unwrap();
        assert!(modules(&config).iter().any(|m| m.path == owner), "{owner}");
    }
}
