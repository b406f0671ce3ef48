//! What configurations of each family mean, and what of other families they may not say.

use expect_test::{Expect, expect};
use serde_json::{Value, json};
use shardwright_graph::Graph;
use shardwright_hlo::ArgumentKind;
use shardwright_model::{LayerKind, ModelConfig, RotaryScaling, Weights, logits, modules, parameters};
use shardwright_tensor::{DType, TensorType};

fn parse(members: &Value) -> Result<ModelConfig, String> {
    ModelConfig::parse(&members.to_string(), "config.json").map_err(|e| e.to_string())
}

/// A small model of a family, with more members.
fn tiny(model_type: &str, members: &Value) -> Value {
    let mut tiny = json!({"model_type": model_type, "hidden_size": 32, "num_attention_heads": 4,
        "num_key_value_heads": 2, "head_dim": 8, "num_hidden_layers": 4, "vocab_size": 64});
    for (key, value) in members.as_object().unwrap() {
        tiny[key] = value.clone();
    }
    tiny
}

fn check_error(model_type: &str, members: Value, expect: Expect) {
    expect.assert_eq(&parse(&tiny(model_type, &members)).unwrap_err());
}

/// A letter for each layer, and the window.
fn layers(model_type: &str, members: Value) -> String {
    let config = parse(&tiny(model_type, &members)).unwrap();
    let letter = |kind: &LayerKind| if *kind == LayerKind::Full { 'F' } else { 'S' };
    let letters: String = config.layer_kinds().iter().map(letter).collect();
    format!("{letters} {:?}", config.sliding_window())
}

#[test]
fn a_family_is_named_by_its_type_or_by_its_architecture() {
    for (model_type, class, layer) in [
        ("llama", "LlamaForCausalLM", "LlamaDecoderLayer"),
        ("mistral", "MistralForCausalLM", "MistralDecoderLayer"),
        ("qwen2", "Qwen2ForCausalLM", "Qwen2DecoderLayer"),
        ("qwen3", "Qwen3ForCausalLM", "Qwen3DecoderLayer"),
        ("gemma", "GemmaForCausalLM", "GemmaDecoderLayer"),
        ("gemma2", "Gemma2ForCausalLM", "Gemma2DecoderLayer"),
        ("gemma3_text", "Gemma3ForCausalLM", "Gemma3DecoderLayer"),
    ] {
        for members in [json!({"model_type": model_type}), json!({"architectures": [class]})] {
            let config = parse(&members).unwrap();
            assert_eq!(config.model_type(), model_type);
            assert_eq!((config.model_class(), config.decoder_layer_class()), (class, layer));
            let is_there = |class| modules(&config).iter().any(|module| module.class == class);
            assert!(is_there(class) && is_there(layer));
        }
    }
    check_error(
        "gemma3",
        json!({}),
        expect![
            "config.json: model_type is gemma3; supported: llama, mistral, qwen2, qwen3, gemma, gemma2, gemma3_text"
        ],
    );
    check_error(
        "qwen2",
        json!({"architectures": ["Qwen3ForCausalLM"]}),
        expect![[r#"config.json: architectures is ["Qwen3ForCausalLM"]; supported: Qwen2ForCausalLM"#]],
    );
    check_error(
        "qwen2",
        json!({"model_type": null, "architectures": ["GPT2LMHeadModel"]}),
        expect![[
            r#"config.json: architectures is ["GPT2LMHeadModel"]; supported: LlamaForCausalLM, MistralForCausalLM, Qwen2ForCausalLM, Qwen3ForCausalLM, GemmaForCausalLM, Gemma2ForCausalLM, Gemma3ForCausalLM"#
        ]],
    );
}

#[test]
fn layers_look_at_a_window_where_the_family_has_them_do_so() {
    assert_eq!(layers("llama", json!({})), "FFFF None");
    assert_eq!(layers("mistral", json!({})), "SSSS Some(4096)");
    assert_eq!(layers("mistral", json!({"sliding_window": 9})), "SSSS Some(9)");
    assert_eq!(layers("mistral", json!({"sliding_window": null})), "FFFF None");
    for family in ["qwen2", "qwen3"] {
        let used = json!({"use_sliding_window": true, "sliding_window": 9, "max_window_layers": 3});
        assert_eq!(layers(family, json!({"sliding_window": 9})), "FFFF None");
        assert_eq!(layers(family, used), "FFFS Some(9)");
        assert_eq!(layers(family, json!({"use_sliding_window": true})), "FFFF Some(4096)");
        assert_eq!(layers(family, json!({"use_sliding_window": true, "sliding_window": null})), "FFFF None");
    }
    assert_eq!(layers("gemma", json!({})), "FFFF None");
    assert_eq!(layers("gemma2", json!({"sliding_window": 9})), "SFSF Some(9)");
    assert_eq!(layers("gemma3_text", json!({"num_hidden_layers": 7})), "SSSSSFS Some(4096)");
    assert_eq!(layers("gemma3_text", json!({"sliding_window_pattern": 2})), "SFSF Some(4096)");
}

#[test]
fn layer_types_say_it_layer_by_layer() {
    let (full, sliding) = ("full_attention", "sliding_attention");
    let types = json!([full, sliding, sliding, full]);
    assert_eq!(layers("gemma2", json!({"layer_types": types})), "FSSF Some(4096)");
    let used = json!({"layer_types": types, "use_sliding_window": true});
    assert_eq!(layers("qwen3", used), "FSSF Some(4096)");
    assert_eq!(layers("llama", json!({"layer_types": [full, full, full, full]})), "FFFF None");

    check_error(
        "qwen3",
        json!({"layer_types": types}),
        expect![
            "config.json: use_sliding_window is false; supported: true, since there are layers of sliding_attention"
        ],
    );
    check_error(
        "gemma2",
        json!({"layer_types": types, "sliding_window": null}),
        expect![
            "config.json: sliding_window is null; supported: a number of positions, since there are layers of sliding_attention"
        ],
    );
    check_error(
        "gemma2",
        json!({"layer_types": [full, sliding]}),
        expect![
            "config.json: layer_types is a list of 2; supported: as many as num_hidden_layers, which is 4"
        ],
    );
    check_error(
        "gemma2",
        json!({"layer_types": [full, "chunked_attention", full, full]}),
        expect![[
            r#"config.json: layer_types is "chunked_attention" for a layer; supported: full_attention, sliding_attention"#
        ]],
    );
    check_error(
        "llama",
        json!({"layer_types": types}),
        expect![[
            r#"config.json: layer_types is ["full_attention", "sliding_attention", "sliding_attention", "full_attention"]; supported: full_attention for all layers in a model of type llama"#
        ]],
    );
    check_error(
        "mistral",
        json!({"layer_types": types}),
        expect![[
            r#"config.json: layer_types is ["full_attention", "sliding_attention", "sliding_attention", "full_attention"]; supported: sliding_attention for all layers in a model of type mistral"#
        ]],
    );
}

#[test]
fn what_only_other_families_have_is_refused() {
    check_error(
        "llama",
        json!({"sliding_window": 4096}),
        expect!["config.json: sliding_window is 4096; supported: null in a model of type llama"],
    );
    check_error(
        "llama",
        json!({"use_sliding_window": true}),
        expect!["config.json: use_sliding_window is true; supported: false in a model of type llama"],
    );
    check_error(
        "llama",
        json!({"final_logit_softcapping": 30.0}),
        expect!["config.json: final_logit_softcapping is 30; supported: null in a model of type llama"],
    );
    check_error(
        "mistral",
        json!({"attention_bias": true}),
        expect!["config.json: attention_bias is true; supported: false in a model of type mistral"],
    );
    check_error(
        "mistral",
        json!({"mlp_bias": true}),
        expect!["config.json: mlp_bias is true; supported: false in a model of type mistral"],
    );
    check_error(
        "qwen2",
        json!({"attention_bias": false}),
        expect!["config.json: attention_bias is false; supported: true in a model of type qwen2"],
    );
    check_error(
        "qwen3",
        json!({"query_pre_attn_scalar": 64}),
        expect!["config.json: query_pre_attn_scalar is 64; supported: null in a model of type qwen3"],
    );
    check_error(
        "gemma",
        json!({"attn_logit_softcapping": 50.0}),
        expect!["config.json: attn_logit_softcapping is 50; supported: null in a model of type gemma"],
    );
    check_error(
        "gemma2",
        json!({"rope_local_base_freq": 10_000.0}),
        expect!["config.json: rope_local_base_freq is 10000; supported: null in a model of type gemma2"],
    );
    check_error(
        "gemma2",
        json!({"sliding_window_pattern": 6}),
        expect!["config.json: sliding_window_pattern is 6; supported: null in a model of type gemma2"],
    );
    check_error(
        "gemma3_text",
        json!({"attn_logit_softcapping": 50.0}),
        expect!["config.json: attn_logit_softcapping is 50; supported: null in a model of type gemma3_text"],
    );
    check_error(
        "gemma3_text",
        json!({"use_bidirectional_attention": true}),
        expect!["config.json: use_bidirectional_attention is true; supported: false"],
    );
    // What says that there is nothing of the kind changes nothing.
    let nothing = json!({"sliding_window": null, "final_logit_softcapping": null, "attn_logit_softcapping": null,
        "query_pre_attn_scalar": null, "attention_bias": false, "mlp_bias": false, "use_bidirectional_attention": false});
    let with = parse(&tiny("llama", &nothing)).unwrap();
    assert_eq!(parameters(&with), parameters(&parse(&tiny("llama", &json!({}))).unwrap()));
    assert_eq!((with.sliding_window(), with.attention_bias(), with.mlp_bias()), (None, false, false));
}

#[test]
fn numbers_without_a_meaning_are_refused() {
    check_error(
        "gemma2",
        json!({"final_logit_softcapping": 0.0}),
        expect!["config.json: final_logit_softcapping is 0; supported: numbers above 0"],
    );
    check_error(
        "gemma2",
        json!({"attn_logit_softcapping": -50.0}),
        expect!["config.json: attn_logit_softcapping is -50; supported: numbers above 0"],
    );
    check_error(
        "gemma3_text",
        json!({"query_pre_attn_scalar": 0}),
        expect!["config.json: query_pre_attn_scalar is 0; supported: numbers above 0"],
    );
    check_error(
        "gemma3_text",
        json!({"sliding_window": 0}),
        expect!["config.json: sliding_window is 0, but must lie between 1 and 2147483648"],
    );
    check_error(
        "gemma3_text",
        json!({"sliding_window_pattern": 0}),
        expect!["config.json: sliding_window_pattern is 0, but must lie between 1 and 2147483648"],
    );
    check_error(
        "gemma3_text",
        json!({"rope_local_base_freq": 0.5}),
        expect!["config.json: rope_local_base_freq is 0.5, but must be more than 1"],
    );
}

#[test]
fn the_first_gemma_calls_its_activation_by_another_name() {
    let parsed = |act: Value| parse(&tiny("gemma", &act)).map(drop);
    for act in [
        json!({"hidden_act": "gelu"}),
        json!({"hidden_act": "gelu", "hidden_activation": "gelu_pytorch_tanh"}),
        json!({"hidden_activation": "gelu_pytorch_tanh"}),
    ] {
        assert_eq!(parsed(act), Ok(()));
    }
    check_error(
        "gemma",
        json!({"hidden_activation": "silu"}),
        expect![
            "config.json: hidden_activation is silu; supported: the activation of hidden_act in a model of type gemma"
        ],
    );
    check_error(
        "gemma2",
        json!({"hidden_act": "silu"}),
        expect![
            "config.json: hidden_act is silu; supported: the activation of hidden_activation in a model of type gemma2"
        ],
    );
}

#[test]
fn gemma3_turns_positions_by_the_kind_of_layer() {
    let older = json!({"rope_theta": 1e6, "rope_local_base_freq": 1e4, "rope_scaling": {"rope_type": "linear", "factor": 8.0}});
    let newer = json!({"rope_parameters": {
        "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6},
        "sliding_attention": {"rope_type": "default", "rope_theta": 1e4}}});
    for members in [older, newer] {
        let config = parse(&tiny("gemma3_text", &members)).unwrap();
        let [full, sliding] = [LayerKind::Full, LayerKind::Sliding].map(|kind| config.rotary(kind));
        assert_eq!((full.theta(), full.scaling()), (1e6, RotaryScaling::Linear { factor: 8.0 }));
        assert_eq!((sliding.theta(), sliding.scaling()), (1e4, RotaryScaling::Default));
    }
    check_error(
        "gemma3_text",
        json!({"rope_parameters": {"rope_type": "default"}}),
        expect![
            "config.json: rope_parameters has rope_type, but must have full_attention and sliding_attention, each with settings"
        ],
    );
    let contrary = json!({"rope_local_base_freq": 1e5, "rope_parameters": {
        "full_attention": {"rope_theta": 1e6}, "sliding_attention": {"rope_theta": 1e4}}});
    check_error(
        "gemma3_text",
        contrary,
        expect![
            "config.json: rope_local_base_freq and rope_parameters.sliding_attention.rope_theta say different things; keep one of them"
        ],
    );
}

#[test]
fn the_original_context_may_stand_beside_the_settings() {
    let scaling =
        |members: Value| parse(&tiny("qwen2", &members)).map(|c| c.rotary(LayerKind::Full).scaling());
    let yarn = json!({"rope_type": "yarn", "factor": 4.0});
    let original = |scaling: RotaryScaling| match scaling {
        RotaryScaling::Yarn { original_max_position_embeddings, .. } => original_max_position_embeddings,
        _ => unreachable!("the type is yarn"),
    };
    assert_eq!(scaling(json!({"rope_scaling": yarn})).map(original), Ok(32_768));
    let beside = json!({"rope_scaling": yarn, "original_max_position_embeddings": 4096});
    assert_eq!(scaling(beside).map(original), Ok(4096));
    let mut inside = yarn;
    inside["original_max_position_embeddings"] = json!(8192);
    let both = json!({"rope_scaling": inside, "original_max_position_embeddings": 4096});
    check_error(
        "qwen2",
        both,
        expect![
            "config.json: rope_scaling.original_max_position_embeddings and original_max_position_embeddings say different things; keep one of them"
        ],
    );
}

#[test]
fn whatever_a_member_says_is_a_model_or_an_error() {
    let values = json!([null, true, false, -1, 0, 1, 2, 3, 7, 0.5, -0.5, 1e-300, 1e300, u64::MAX, "", "relu", [], ["x"],
        ["full_attention", "sliding_attention"], {}, {"type": "yarn", "factor": 1e300}, {"rope_type": "dynamic", "factor": 1e300},
        {"full_attention": {}, "sliding_attention": {"rope_theta": 1}}, {"rope_type": "linear", "factor": 1}]);
    let members = [
        "vocab_size",
        "hidden_size",
        "intermediate_size",
        "num_hidden_layers",
        "num_attention_heads",
        "num_key_value_heads",
        "head_dim",
        "max_position_embeddings",
        "rms_norm_eps",
        "initializer_range",
        "rope_theta",
        "rope_local_base_freq",
        "rope_scaling",
        "rope_parameters",
        "original_max_position_embeddings",
        "attention_bias",
        "tie_word_embeddings",
        "hidden_act",
        "hidden_activation",
        "query_pre_attn_scalar",
        "attn_logit_softcapping",
        "final_logit_softcapping",
        "sliding_window",
        "use_sliding_window",
        "max_window_layers",
        "sliding_window_pattern",
        "layer_types",
        "pad_token_id",
        "eos_token_id",
        "dtype",
    ];
    let mut models = 0;
    for family in ["llama", "mistral", "qwen2", "qwen3", "gemma", "gemma2", "gemma3_text"] {
        for member in members {
            for value in values.as_array().unwrap() {
                let mut changed = json!({"num_hidden_layers": 2});
                changed[member] = value.clone();
                let Ok(config) = parse(&tiny(family, &changed)) else { continue };
                models += 1;
                assert!(parameters(&config).iter().all(|p| p.element_count() > 0), "{family} {changed}");
                let g = Graph::new("logits");
                let ty = |dims: &[usize]| TensorType::new(DType::F32, dims).unwrap();
                let weights =
                    Weights::new(&config, |p| g.argument(&p.name, ty(&p.shape), ArgumentKind::Parameter));
                let tokens = TensorType::new(DType::S32, [2, 3]).unwrap();
                let tokens = g.argument("tokens", tokens, ArgumentKind::Batch);
                logits(&g, &weights, tokens).unwrap_or_else(|e| panic!("{family} {changed}: {e}"));
            }
        }
    }
    assert!(models > 500, "only {models} models");
}
