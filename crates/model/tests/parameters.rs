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

#[test]
fn sizes_of_well_known_models() {
    let count = |text: &str| parameter_count(&ModelConfig::parse(text, "config.json").unwrap());
    let llama3_8b = r#"{"model_type": "llama", "vocab_size": 128256, "hidden_size": 4096, "intermediate_size": 14336,
        "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8}"#;
    assert_eq!(count(r#"{"model_type": "llama"}"#), 6_738_415_616);
    assert_eq!(count(llama3_8b), 8_030_261_248);
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
