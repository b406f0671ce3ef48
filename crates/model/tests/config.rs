//! What configurations mean, what is refused, and what is written back.

use expect_test::{Expect, expect};
use serde_json::{Value, json};
use shardwright_model::{LayerKind, ModelConfig, RotaryScaling};
use shardwright_tensor::DType;

fn parse(members: &Value) -> Result<ModelConfig, String> {
    ModelConfig::parse(&members.to_string(), "config.json").map_err(|e| e.to_string())
}

/// A small model with some members replaced, or removed by `null`.
fn tiny(changes: &Value) -> Value {
    let mut members = json!({
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64,
        "intermediate_size": 176, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 2, "vocab_size": 260, "max_position_embeddings": 256,
        "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "hidden_act": "silu",
        "tie_word_embeddings": false, "torch_dtype": "float32",
    });
    for (key, value) in changes.as_object().unwrap() {
        members[key] = value.clone();
    }
    members
}

fn check_error(changes: &Value, expect: Expect) {
    expect.assert_eq(&parse(&tiny(changes)).unwrap_err());
}

#[test]
fn absent_members_have_the_defaults_of_the_original_and_null_is_absent() {
    assert_eq!(parse(&json!({"model_type": "llama"})).unwrap().num_hidden_layers(), 32);
    let bare = parse(&json!({"model_type": "llama", "num_hidden_layers": 2})).unwrap();
    expect![[r#"
        ModelConfig {
            written: {
                "model_type": String("llama"),
                "num_hidden_layers": Number(2),
            },
            family: Llama,
            vocab_size: 32000,
            hidden_size: 4096,
            intermediate_size: 11008,
            num_attention_heads: 32,
            num_key_value_heads: 32,
            head_dim: 128,
            max_position_embeddings: 2048,
            rms_norm_eps: 1e-6,
            initializer_range: 0.02,
            rotary: [
                RotaryConfig {
                    theta: 10000.0,
                    head_dim: 128,
                    scaling: Default,
                },
                RotaryConfig {
                    theta: 10000.0,
                    head_dim: 128,
                    scaling: Default,
                },
            ],
            choices: Choices {
                qkv_bias: false,
                o_bias: false,
                mlp_bias: false,
                query_key_norms: false,
                norm: Factor,
                norms_outputs: false,
                activation: Silu,
                embedding_scale: None,
                query_scale: 0.08838834764831843,
                score_cap: None,
                logit_cap: None,
            },
            layers: [
                Full,
                Full,
            ],
            sliding_window: None,
            tie_word_embeddings: false,
            dtype: None,
            bos_token_id: Some(
                1,
            ),
            eos_token_ids: [
                2,
            ],
            padding_row: None,
        }
    "#]]
    .assert_debug_eq(&bare);
    let nulls = parse(&tiny(&json!({"num_key_value_heads": null, "head_dim": null, "rope_scaling": null,
        "torch_dtype": null, "bos_token_id": null, "eos_token_id": null, "quantization_config": null})))
    .unwrap();
    assert_eq!((nulls.num_key_value_heads(), nulls.head_dim(), nulls.dtype()), (4, 16, None));
    assert_eq!((nulls.bos_token_id(), nulls.eos_token_ids()), (None, &[][..]));
}

#[test]
fn token_ids_and_dtypes_in_every_spelling() {
    let several = parse(&tiny(&json!({"eos_token_id": [128001, 128008]}))).unwrap();
    assert_eq!(several.eos_token_ids(), [128001, 128008]);
    let newer = parse(&tiny(&json!({"dtype": "bfloat16"}))).unwrap();
    assert_eq!(newer.dtype(), Some(DType::Bf16));
    let prefixed = parse(&tiny(&json!({"torch_dtype": "torch.float16"}))).unwrap();
    assert_eq!(prefixed.dtype(), Some(DType::F16));
    check_error(
        &json!({"torch_dtype": "float8_e4m3fn"}),
        expect!["config.json: torch_dtype is float8_e4m3fn; supported: float32, bfloat16, float16, float64"],
    );
    check_error(
        &json!({"eos_token_id": "</s>"}),
        expect![[
            r#"config.json: line 1, column 355: expected a token id, several in a list, or null, after `ddings":false,"torch_dtype":"float32","eos_token_id":"</s>"}`"#
        ]],
    );
}

#[test]
fn head_size_may_differ_from_what_the_hidden_size_gives() {
    let heads = json!({"num_attention_heads": 3, "num_key_value_heads": 1, "head_dim": 24});
    assert_eq!(parse(&tiny(&heads)).unwrap().head_dim(), 24);
    check_error(
        &json!({"num_attention_heads": 3, "num_key_value_heads": 1}),
        expect![
            "config.json: hidden_size 64 does not divide by num_attention_heads 3; give head_dim if the head size is another"
        ],
    );
    check_error(
        &json!({"num_key_value_heads": 3}),
        expect!["config.json: num_attention_heads 4 does not divide by num_key_value_heads 3"],
    );
    check_error(
        &json!({"head_dim": 15}),
        expect!["config.json: head_dim is 15; supported: even numbers, since rotary embeddings turn pairs"],
    );
}

#[test]
fn sizes_that_no_model_has_are_refused() {
    check_error(
        &json!({"hidden_size": 0}),
        expect!["config.json: hidden_size is 0, but must lie between 1 and 16777216"],
    );
    check_error(
        &json!({"num_key_value_heads": 0}),
        expect!["config.json: num_key_value_heads is 0, but must lie between 1 and 16777216"],
    );
    check_error(
        &json!({"num_hidden_layers": 1_000_000}),
        expect!["config.json: num_hidden_layers is 1000000, but must lie between 1 and 4096"],
    );
    check_error(
        &json!({"vocab_size": u64::MAX}),
        expect!["config.json: vocab_size is 18446744073709551615, but must lie between 1 and 16777216"],
    );
    check_error(
        &json!({"num_attention_heads": 16_777_216, "num_key_value_heads": 1, "head_dim": 16_777_216}),
        expect![
            "config.json: num_attention_heads x head_dim is 281474976710656, but must lie between 1 and 16777216"
        ],
    );
    check_error(
        &json!({"initializer_range": -0.1}),
        expect!["config.json: initializer_range is -0.1; supported: numbers from 0 to 1"],
    );
    check_error(
        &json!({"rope_theta": 1.0}),
        expect!["config.json: rope_theta is 1, but must be more than 1"],
    );
}

#[test]
fn settings_that_would_be_another_model_are_refused() {
    check_error(
        &json!({"model_type": "gpt2"}),
        expect![
            "config.json: model_type is gpt2; supported: llama, mistral, qwen2, qwen3, gemma, gemma2, gemma3_text"
        ],
    );
    check_error(
        &json!({"model_type": "mistral"}),
        expect![[r#"config.json: architectures is ["LlamaForCausalLM"]; supported: MistralForCausalLM"#]],
    );
    check_error(
        &json!({"model_type": null, "architectures": null}),
        expect![
            "config.json: model_type is missing; supported: llama, mistral, qwen2, qwen3, gemma, gemma2, gemma3_text"
        ],
    );
    check_error(
        &json!({"architectures": ["LlamaForSequenceClassification"]}),
        expect![[
            r#"config.json: architectures is ["LlamaForSequenceClassification"]; supported: LlamaForCausalLM"#
        ]],
    );
    check_error(
        &json!({"hidden_act": "quick_gelu"}),
        expect![
            "config.json: hidden_act is quick_gelu; supported: silu, swish, gelu, gelu_pytorch_tanh, gelu_new, gelu_fast, relu"
        ],
    );
    check_error(
        &json!({"hidden_activation": "relu"}),
        expect![
            "config.json: hidden_activation is relu; supported: the activation of hidden_act in a model of type llama"
        ],
    );
    check_error(
        &json!({"attention_dropout": 0.1}),
        expect!["config.json: attention_dropout is 0.1; supported: 0"],
    );
    check_error(&json!({"pretraining_tp": 2}), expect!["config.json: pretraining_tp is 2; supported: 1"]);
    check_error(
        &json!({"partial_rotary_factor": 0.5}),
        expect!["config.json: partial_rotary_factor is 0.5; supported: 1"],
    );
    check_error(
        &json!({"quantization_config": {"quant_method": "gptq"}}),
        expect!["config.json: quantization_config is given; supported: weights that are not quantized"],
    );
}

#[test]
fn faults_in_the_text_are_located() {
    let check = |text: &str, expect: Expect| {
        expect.assert_eq(&ModelConfig::parse(text, "tiny/config.json").unwrap_err().to_string());
    };
    check(
        "{\n  \"model_type\": \"llama\",\n  \"hidden_size\": -64\n}",
        expect![[
            r#"tiny/config.json: line 3, column 20: invalid value: integer `-64`, expected usize, after `"hidden_size": -64`"#
        ]],
    );
    check(
        "{\n  \"model_type\": \"llama\",\n  \"hidden_size\": 64,\n}",
        expect!["tiny/config.json: line 4, column 1: trailing comma, after `}`"],
    );
    check(
        "{\"hidden_size\": 64, \"hidden_size\": 128}",
        expect![[
            r#"tiny/config.json: line 1, column 33: duplicate field `hidden_size`, after `{"hidden_size": 64, "hidden_size"`"#
        ]],
    );
    check("", expect!["tiny/config.json: line 1, column 0: EOF while parsing a value"]);
    check("[]", expect!["tiny/config.json: line 1, column 0: invalid type: sequence, expected a map"]);
}

fn frequencies(changes: &Value) -> Vec<f64> {
    parse(&tiny(changes)).unwrap().rotary(LayerKind::Full).inverse_frequencies(256)
}

#[track_caller]
fn assert_close(found: &[f64], expected: &[f64]) {
    assert_eq!(found.len(), expected.len());
    for (f, e) in found.iter().zip(expected) {
        assert!(((f - e) / e).abs() < 1e-6, "{found:?} is not {expected:?}");
    }
}

fn llama3() -> Value {
    json!({"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192})
}

#[test]
fn rotary_frequencies_are_stretched_as_the_type_says() {
    // Worked out by hand for head size 16: four stay, one is blended, three are divided by 8.
    let expected =
        [1.0, 1.939227e-1, 3.760603e-2, 7.292665e-3, 5.248462e-4, 3.428102e-5, 6.647870e-6, 1.289173e-6];
    assert_close(&frequencies(&json!({"rope_theta": 500_000.0, "rope_scaling": llama3()})), &expected);

    let unscaled = frequencies(&json!({}));
    assert_close(&unscaled[..2], &[1.0, 0.316_227_77]);
    assert_eq!(frequencies(&json!({"rope_scaling": {"rope_type": "default"}})), unscaled);
    let halved: Vec<f64> = unscaled.iter().map(|f| f / 2.0).collect();
    assert_close(&frequencies(&json!({"rope_scaling": {"type": "linear", "factor": 2.0}})), &halved);
}

#[test]
fn the_newer_spelling_of_rotary_settings_means_the_same() {
    let mut parameters = llama3();
    parameters["rope_theta"] = json!(500_000.0);
    let older = parse(&tiny(&json!({"rope_theta": 500_000.0, "rope_scaling": llama3()}))).unwrap();
    let newer = parse(&tiny(&json!({"rope_theta": null, "rope_parameters": parameters}))).unwrap();
    assert_eq!(older.rotary(LayerKind::Full), newer.rotary(LayerKind::Full));
    assert!(matches!(newer.rotary(LayerKind::Full).scaling(), RotaryScaling::Llama3 { factor: 8.0, .. }));

    let theta =
        json!({"rope_theta": null, "rope_parameters": {"rope_theta": 500_000.0, "rope_type": "default"}});
    assert_eq!(parse(&tiny(&theta)).unwrap().rotary(LayerKind::Full).theta(), 500_000.0);
    check_error(
        &json!({"rope_parameters": {"rope_theta": 500_000.0}}),
        expect![
            "config.json: rope_theta and rope_parameters.rope_theta say different things; keep one of them"
        ],
    );
    check_error(
        &json!({"rope_scaling": {"type": "linear", "factor": 2.0}, "rope_parameters": {"rope_type": "default"}}),
        expect!["config.json: rope_scaling and rope_parameters say different things; keep one of them"],
    );
}

#[test]
fn rotary_settings_that_cannot_be_followed_are_never_ignored() {
    let check = |scaling: Value, expect: Expect| check_error(&json!({"rope_scaling": scaling}), expect);
    let changed = |member: &str, value: Value| {
        let mut scaling = llama3();
        scaling[member] = value;
        scaling
    };
    check(
        json!({"rope_type": "longrope", "factor": 4.0}),
        expect![[
            r#"config.json: rope_scaling: type "longrope" is not supported; supported are default, linear, dynamic, llama3, yarn"#
        ]],
    );
    check(json!({"type": "dynamic"}), expect!["config.json: rope_scaling of type dynamic needs factor"]);
    check(
        json!({"type": "yarn", "factor": 4.0, "beta_fast": 0.5}),
        expect!["config.json: rope_scaling.beta_fast is 0.5, but must be at least beta_slow, which is 1"],
    );
    check(
        json!({"type": "yarn", "factor": 4.0, "attention_factor": 0.0}),
        expect!["config.json: rope_scaling.attention_factor is 0.0, but must be more than 0"],
    );
    check(
        json!({"type": "yarn", "factor": 4.0, "truncate": 1}),
        expect!["config.json: rope_scaling.truncate is 1, but must be true or false"],
    );
    check(
        json!({"type": "yarn", "factor": 4.0, "low_freq_factor": 1.0}),
        expect![
            "config.json: rope_scaling of type yarn has no use for low_freq_factor; supported are default, linear, dynamic, llama3, yarn"
        ],
    );
    check(
        json!({"type": "linear", "factor": 4.0, "partial_rotary_factor": 0.5}),
        expect![
            "config.json: rope_scaling.partial_rotary_factor is 0.5, but must be 1, since whole heads are turned"
        ],
    );
    check(
        json!({"factor": 8.0}),
        expect![
            "config.json: rope_scaling names no rope_type; supported are default, linear, dynamic, llama3, yarn"
        ],
    );
    check(json!({"type": "linear"}), expect!["config.json: rope_scaling of type linear needs factor"]);
    check(
        json!({"type": "linear", "rope_type": "llama3", "factor": 2.0}),
        expect!["config.json: rope_type and type say different things; keep one of them"],
    );
    check(
        json!({"rope_type": "default", "factor": 2.0}),
        expect![
            "config.json: rope_scaling of type default has no use for factor; supported are default, linear, dynamic, llama3, yarn"
        ],
    );
    check(
        json!({"type": "linear", "factor": "2"}),
        expect![[r#"config.json: rope_scaling.factor is "2", but must be at least 1"#]],
    );
    check(
        json!({"type": "linear", "factor": 0.5}),
        expect!["config.json: rope_scaling.factor is 0.5, but must be at least 1"],
    );
    check(
        changed("low_freq_factor", json!(4.0)),
        expect![
            "config.json: rope_scaling.high_freq_factor is 4.0, but must be more than low_freq_factor, which is 4"
        ],
    );
    check(
        changed("low_freq_factor", json!(null)),
        expect!["config.json: rope_scaling of type llama3 needs low_freq_factor"],
    );
    check(
        changed("original_max_position_embeddings", json!(0.5)),
        expect!["config.json: rope_scaling.original_max_position_embeddings is 0.5, but must be at least 1"],
    );
    check(
        json!("linear"),
        expect![[
            r#"config.json: line 1, column 356: invalid type: string "linear", expected a map, after `dings":false,"torch_dtype":"float32","rope_scaling":"linear"`"#
        ]],
    );
}

#[test]
fn what_was_read_is_written_back() {
    for text in [
        include_str!("data/base.json"),
        include_str!("data/bias.json"),
        include_str!("data/odd.json"),
        include_str!("data/rope_llama3.json"),
        include_str!("data/tied.json"),
    ] {
        let config = ModelConfig::parse(text, "config.json").unwrap();
        // The same text, up to the spelling of one number.
        assert_eq!(config.to_json().trim_end(), text.replace("1e-06", "1e-6").trim_end());
        assert_eq!(ModelConfig::parse(&config.to_json(), "config.json").unwrap(), config);
    }
}

#[test]
fn changes_are_written_and_nothing_else_is() {
    let before = tiny(&json!({"pad_token_id": 259, "my_note": {"a": [1, null]}}));
    let config = parse(&before).unwrap().with_vocab_size(264).unwrap().with_dtype(DType::Bf16).unwrap();
    assert_eq!((config.vocab_size(), config.dtype()), (264, Some(DType::Bf16)));
    let mut expected = before;
    expected["vocab_size"] = json!(264);
    expected["torch_dtype"] = json!("bfloat16");
    assert_eq!(serde_json::from_str::<Value>(&config.to_json()).unwrap(), expected);

    assert!(config.clone().with_vocab_size(0).is_err());
    // A padding row is one of the table's, and stays what was written.
    expect!["config.json: pad_token_id is 259 with a vocab_size of 259; supported: ids of the vocabulary, or from its end if negative"]
        .assert_eq(&config.clone().with_vocab_size(259).unwrap_err().to_string());
    let last = parse(&tiny(&json!({"pad_token_id": -1}))).unwrap().with_vocab_size(264).unwrap();
    assert_eq!(last.padding_row(), Some(263));
    assert_eq!(ModelConfig::parse(&last.to_json(), "config.json").unwrap(), last);
    expect!["config.json: dtype is s8; supported: float32, bfloat16, float16, float64"]
        .assert_eq(&config.with_dtype(DType::S8).unwrap_err().to_string());
}

#[test]
fn the_padding_row_is_counted_from_the_end_if_negative() {
    let row = |id: Value| parse(&tiny(&json!({ "pad_token_id": id }))).map(|config| config.padding_row());
    assert_eq!(row(json!(null)), Ok(None));
    assert_eq!(row(json!(3)), Ok(Some(3)));
    assert_eq!(row(json!(-1)), Ok(Some(259)));
    assert_eq!(
        row(json!(260)).unwrap_err(),
        "config.json: pad_token_id is 260 with a vocab_size of 260; supported: ids of the vocabulary, or from its end if \
         negative"
    );
    assert!(row(json!(-261)).is_err());
}
