use expect_test::{Expect, expect};
use serde_json::{Value, json};

use super::*;
use crate::parameters;

fn model(tied: bool) -> ModelConfig {
    let text = json!({
        "model_type": "llama", "vocab_size": 32, "hidden_size": 8, "intermediate_size": 16, "num_hidden_layers": 3,
        "num_attention_heads": 2, "num_key_value_heads": 1, "tie_word_embeddings": tied,
    });
    ModelConfig::parse(&text.to_string(), "config.json").unwrap()
}

fn lora(members: &Value, tied: bool) -> Result<Lora, LoraError> {
    Lora::new(&LoraConfig::parse(&members.to_string(), "adapter_config.json")?, &model(tied))
}

/// The adapters that a configuration means, a line for each, or what is wrong with it.
#[track_caller]
fn check(members: Value, expect: Expect) {
    let text = match lora(&members, false) {
        Err(e) => e.to_string(),
        Ok(lora) => {
            let line = |a: &Adapter| {
                format!("{} r={} scale={:.4}\n", a.path.replace("model.layers.", ""), a.rank, a.scale)
            };
            let mut text: String = lora.adapters().iter().map(line).collect();
            text.extend(lora.unmatched().iter().map(|name| format!("no {name}\n")));
            let full = parameters(&model(false)).into_iter().filter(|p| lora.trains(&p.name));
            text.extend(full.map(|p| format!("{} in full\n", p.name)));
            text
        }
    };
    expect.assert_eq(&text);
}

#[test]
fn targets_are_found_as_peft_finds_them() {
    check(
        json!({"layers_to_transform": 1}),
        expect![[r#"
        1.self_attn.q_proj r=8 scale=1.0000
        1.self_attn.v_proj r=8 scale=1.0000
    "#]],
    );
    check(
        json!({"target_modules": ["model.layers.0.mlp.up_proj", "qkv_proj"], "layers_to_transform": [2]}),
        expect![[r#"
        0.mlp.up_proj r=8 scale=1.0000
        no qkv_proj
    "#]],
    );
    check(
        json!({"target_modules": ["k_proj"], "layers_to_transform": [0, 2], "layers_pattern": "layers"}),
        expect![[r#"
        0.self_attn.k_proj r=8 scale=1.0000
        2.self_attn.k_proj r=8 scale=1.0000
    "#]],
    );
    check(
        json!({"target_modules": r".*layers\.[02]\..*(?<!o)_proj", "exclude_modules": r".*\.mlp\..*"}),
        expect![[r#"
        0.self_attn.q_proj r=8 scale=1.0000
        0.self_attn.k_proj r=8 scale=1.0000
        0.self_attn.v_proj r=8 scale=1.0000
        2.self_attn.q_proj r=8 scale=1.0000
        2.self_attn.k_proj r=8 scale=1.0000
        2.self_attn.v_proj r=8 scale=1.0000
    "#]],
    );
    check(
        json!({"target_modules": "ALL-linear", "exclude_modules": ["mlp.gate_proj", "self_attn.q_proj", "layers.0.mlp.up_proj"]}),
        expect![[r#"
        0.self_attn.k_proj r=8 scale=1.0000
        0.self_attn.v_proj r=8 scale=1.0000
        0.self_attn.o_proj r=8 scale=1.0000
        0.mlp.down_proj r=8 scale=1.0000
        1.self_attn.k_proj r=8 scale=1.0000
        1.self_attn.v_proj r=8 scale=1.0000
        1.self_attn.o_proj r=8 scale=1.0000
        1.mlp.up_proj r=8 scale=1.0000
        1.mlp.down_proj r=8 scale=1.0000
        2.self_attn.k_proj r=8 scale=1.0000
        2.self_attn.v_proj r=8 scale=1.0000
        2.self_attn.o_proj r=8 scale=1.0000
        2.mlp.up_proj r=8 scale=1.0000
        2.mlp.down_proj r=8 scale=1.0000
    "#]],
    );
    check(
        json!({"target_modules": ["lm_head"], "r": 2, "lora_alpha": 3}),
        expect![[r#"
        lm_head r=2 scale=1.5000
    "#]],
    );
}

#[test]
fn ranks_and_scales_are_of_the_first_pattern() {
    check(
        json!({
            "target_modules": ["v_proj"], "r": 4, "lora_alpha": 6.5, "use_rslora": true,
            "rank_pattern": {"1.self_attn.v_proj": 16, "v_proj": 9}, "alpha_pattern": {"layers.2.*": 3},
        }),
        expect![[r#"
            0.self_attn.v_proj r=9 scale=2.1667
            1.self_attn.v_proj r=16 scale=1.6250
            2.self_attn.v_proj r=9 scale=1.0000
        "#]],
    );
}

#[test]
fn modules_in_full_have_no_adapters() {
    check(
        json!({"target_modules": ["q_proj"], "layers_to_transform": [0], "modules_to_save": ["lm_head", "model.norm"]}),
        expect![[r#"
        0.self_attn.q_proj r=8 scale=1.0000
        model.norm.weight in full
        lm_head.weight in full
    "#]],
    );
    check(
        json!({"target_modules": ["q_proj", "k_proj"], "modules_to_save": ["q_proj"]}),
        expect![[r#"
        0.self_attn.k_proj r=8 scale=1.0000
        1.self_attn.k_proj r=8 scale=1.0000
        2.self_attn.k_proj r=8 scale=1.0000
        model.layers.0.self_attn.q_proj.weight in full
        model.layers.1.self_attn.q_proj.weight in full
        model.layers.2.self_attn.q_proj.weight in full
    "#]],
    );
}

#[test]
fn what_cannot_be_followed_is_named() {
    check(
        json!({"r": 0}),
        expect![
            "adapter_config.json: the rank r of model.layers.0.self_attn.q_proj is 0; supported: 1 to 1048576"
        ],
    );
    check(
        json!({"r": -1}),
        expect![[
            r#"adapter_config.json: line 1, column 7: invalid value: integer `-1`, expected usize, after `{"r":-1`"#
        ]],
    );
    check(
        json!({"peft_type": "LOHA"}),
        expect![[r#"adapter_config.json: peft_type is "LOHA"; supported: "LORA""#]],
    );
    check(
        json!({"task_type": "SEQ_CLS"}),
        expect![[r#"adapter_config.json: task_type is "SEQ_CLS"; supported: "CAUSAL_LM""#]],
    );
    check(
        json!({"bias": "all"}),
        expect![[r#"adapter_config.json: bias is "all"; supported: "none" (biases are not trained)"#]],
    );
    check(
        json!({"lora_dropout": 0.05}),
        expect!["adapter_config.json: lora_dropout is 0.05; supported: 0 (nothing is dropped out)"],
    );
    check(
        json!({"use_dora": true}),
        expect![
            "adapter_config.json: use_dora is true; supported: false (weights are not decomposed into magnitude and direction)"
        ],
    );
    check(
        json!({"init_lora_weights": "pissa"}),
        expect![[r#"adapter_config.json: init_lora_weights is "pissa"; supported: true, false, "gaussian""#]],
    );
    check(
        json!({"new_feature": {"on": 1}}),
        expect![[
            r#"adapter_config.json: new_feature is {"on":1}, and its meaning is not known; remove it if the adapter does not need it"#
        ]],
    );
    check(
        json!({"new_feature": null, "r": 1, "target_modules": ["lm_head"]}),
        expect![[r#"
        lm_head r=1 scale=8.0000
    "#]],
    );
    check(
        json!({"target_modules": 3}),
        expect![[
            r#"adapter_config.json: line 1, column 20: expected names in a list, a regular expression, or "all-linear", after `{"target_modules":3}`"#
        ]],
    );
    check(
        json!({"target_modules": ["c_attn"]}),
        expect![[
            r#"adapter_config.json: target_modules ["c_attn"] name no module of the model; its projections are q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj, down_proj, lm_head"#
        ]],
    );
    check(
        json!({"target_modules": []}),
        expect![
            "adapter_config.json: target_modules [] name no module of the model; its projections are q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj, down_proj, lm_head"
        ],
    );
    check(
        json!({"target_modules": ["self_attn"]}),
        expect![
            "adapter_config.json: target_modules name model.layers.0.self_attn, a module of class LlamaAttention: adapters stand beside projections (q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj, down_proj, lm_head)"
        ],
    );
    check(
        json!({"target_modules": ["embed_tokens"]}),
        expect![
            "adapter_config.json: target_modules name model.embed_tokens, a module of class Embedding: adapters stand beside projections (q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj, down_proj, lm_head)"
        ],
    );
    check(
        json!({"target_modules": "(q_proj"}),
        expect![[
            r#"adapter_config.json: target_modules "(q_proj" is not a regular expression that can be followed: Parsing error at position 15: Opening parenthesis without closing parenthesis"#
        ]],
    );
    check(
        json!({"target_modules": "(.*.*)*(.*.*)*x(?=y)"}),
        expect![[
            r#"adapter_config.json: target_modules "(.*.*)*(.*.*)*x(?=y)" is not a regular expression that can be followed: Error executing regex: Max limit for backtracking count exceeded"#
        ]],
    );
    check(
        json!({"target_modules": "(?:(?=m)(?=m)){4000000000}model.*"}),
        expect![[
            r#"adapter_config.json: target_modules "(?:(?=m)(?=m)){4000000000}model.*" is not a regular expression that can be followed: a part of it has to be there more than 1000 times"#
        ]],
    );
    check(
        json!({"rank_pattern": {r"(?:(?:(?=v)v?){2000}){3,18446744073709551615}_proj": 4}}),
        expect![[
            r#"adapter_config.json: rank_pattern "(?:(?:(?=v)v?){2000}){3,18446744073709551615}_proj" is not a regular expression that can be followed: a part of it has to be there more than 1000 times"#
        ]],
    );
    check(
        json!({"target_modules": "all-linear", "layers_to_transform": [1]}),
        expect![
            "adapter_config.json: layers_to_transform is given, but target_modules is a text, which has to say the layers itself"
        ],
    );
    check(
        json!({"layers_pattern": ["layers"]}),
        expect!["adapter_config.json: layers_pattern is given, but layers_to_transform is not"],
    );
    check(
        json!({"rank_pattern": {"q_proj": 1.5}}),
        expect![[
            r#"adapter_config.json: rank_pattern["q_proj"] is 1.5; supported: numbers as r and lora_alpha are"#
        ]],
    );
    check(
        json!({"modules_to_save": ["score"]}),
        expect!["adapter_config.json: modules_to_save names score, which no module of the model ends with"],
    );
    check(
        json!({"modules_to_save": ["mlp"]}),
        expect![
            "adapter_config.json: modules_to_save names model.layers.0.mlp, a module of class LlamaMLP that holds others; name those"
        ],
    );
}

#[test]
fn tied_tables_are_not_adapted_apart() {
    for (members, expect) in [
        (
            json!({"target_modules": ["lm_head"]}),
            expect![
                "adapter_config.json: target_modules names lm_head, whose weight is that of both tables (tie_word_embeddings): the adapter would be read as one of them only"
            ],
        ),
        (
            json!({"modules_to_save": ["embed_tokens"]}),
            expect![
                "adapter_config.json: modules_to_save names model.embed_tokens, whose weight is that of both tables (tie_word_embeddings): the adapter would be read as one of them only"
            ],
        ),
    ] {
        expect.assert_eq(&lora(&members, true).unwrap_err().to_string());
    }
}

#[test]
fn what_is_written_is_read_as_the_same() {
    let members = json!({
        "peft_type": "LORA", "r": 4, "lora_alpha": 2.5, "target_modules": ["q_proj", "down_proj"], "use_rslora": true,
        "rank_pattern": {"b": 3, "a": 2}, "layers_to_transform": [1], "init_lora_weights": "gaussian",
        "modules_to_save": ["lm_head"], "revision": "main",
    });
    let read = LoraConfig::parse(&members.to_string(), "adapter_config.json").unwrap();
    let written = read.to_json(Some("a/base"));
    let again = LoraConfig::parse(&written, "adapter_config.json").unwrap();
    assert_eq!(LoraConfig::parse(&again.to_json(None), "adapter_config.json").unwrap(), again);
    assert_eq!(again.rank_pattern, [("b".to_owned(), 3), ("a".to_owned(), 2)]);
    assert_eq!(again.base_model_name_or_path.as_deref(), Some("a/base"));
    assert_eq!(
        Lora::new(&again, &model(false)).unwrap().parameters(),
        Lora::new(&read, &model(false)).unwrap().parameters()
    );
    assert!(written.contains("\"revision\": \"main\""));
}
