//! `shardwright explain`: what it tells of programs of other frameworks and of train steps, and what it leaves behind.

mod command;

use std::fs;
use std::path::Path;
use std::process::Output;

use serde_json::Value;

const MATMUL: &str = "module @step {
  func.func @main(%w: tensor<64x32xf32> {tf.aliasing_output = 0 : i32} loc(\"w\"), %x: tensor<16x64xf32> loc(\"x\")) -> (tensor<64x32xf32> {jax.result_info = \"new_w\"}, tensor<16x32xf32> {jax.result_info = \"<b>y</b>\"}) {
    %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<16x64xf32>, tensor<64x32xf32>) -> tensor<16x32xf32>
    %v = stablehlo.add %w, %w : tensor<64x32xf32>
    return %v, %y : tensor<64x32xf32>, tensor<16x32xf32>
  }
}
";

const CONFIG: &str = r#"{
  "model_type": "llama", "architectures": ["LlamaForCausalLM"],
  "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1,
  "num_attention_heads": 2, "num_key_value_heads": 2, "vocab_size": 272,
  "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
  "hidden_act": "silu", "tie_word_embeddings": false
}"#;

const RUN: &str = r#"{
  "config_name": "config.json", "train_file": "text.txt", "block_size": 8, "output_dir": "out",
  "fsdp": "full_shard", "fsdp_config": {"fsdp_transformer_layer_cls_to_wrap": ["LlamaDecoderLayer"], "xla": true, "xla_fsdp_v2": true}
}"#;

fn explain(folder: &Path, words: &str) -> Output {
    let words: Vec<&str> = ["explain"].into_iter().chain(words.split_whitespace()).collect();
    command::command(&words).current_dir(folder).output().unwrap()
}

#[track_caller]
fn stdout(output: &Output) -> &str {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    std::str::from_utf8(&output.stdout).unwrap()
}

#[test]
fn a_program_is_explained_as_a_table_as_json_and_on_a_page() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("step.mlir"), MATMUL).unwrap();
    let words = "step.mlir --mesh fsdp=4 --shard w=fsdp --shard x=batch -q";
    let table = explain(folder.path(), words);
    assert!(stdout(&table).starts_with("step on fsdp=4 (4 devices)\n"), "{}", stdout(&table));

    let json = explain(folder.path(), &format!("{words} --json --html page.html"));
    let json: Value = serde_json::from_str(stdout(&json)).unwrap();
    assert_eq!(json["parameters"][0]["name"], "w");
    assert_eq!(json["parameters"][0]["forward_gathers"], 1);
    let page = fs::read_to_string(folder.path().join("page.html")).unwrap();
    assert!(page.starts_with("<!DOCTYPE html>") && page.ends_with("</html>\n"));
    assert!(page.contains("<h1>step</h1>") && !page.contains("<b>y</b>"));
}

#[test]
fn a_train_step_is_explained_in_both_lowerings_and_nothing_is_trained() {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in [("config.json", CONFIG), ("run.json", RUN)] {
        fs::write(folder.path().join(name), text).unwrap();
    }
    fs::write(folder.path().join("text.txt"), "to be or not to be\n".repeat(40)).unwrap();
    let words = "train run.json --mesh fsdp=2 --cpu_devices 2 -q --lowering both --json --html page.html";
    let json: Value = serde_json::from_str(stdout(&explain(folder.path(), words))).unwrap();
    assert_eq!(json["comparison"]["names"], serde_json::json!(["annotate", "explicit"]));
    let count = |program: &str, kind: &str| {
        let collectives = json[program]["collectives"].as_array().unwrap();
        collectives.iter().filter(|collective| collective["kind"] == kind).count()
    };
    for program in ["annotate", "explicit"] {
        assert_eq!(json[program]["program"], "train_step");
        assert_eq!(json[program]["units"][0]["path"], "model.layers.0");
        assert_ne!(count(program, "all-gather"), 0);
    }
    assert_ne!(count("explicit", "reduce-scatter"), 0);
    let page = fs::read_to_string(folder.path().join("page.html")).unwrap();
    assert!(page.contains("<h2>Two lowerings</h2>"));
    assert!(!folder.path().join("out").exists());
}

#[test]
fn a_train_step_gathers_weights_and_never_activations() {
    let folder = tempfile::tempdir().unwrap();
    let config = CONFIG
        .replace(
            r#""hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1"#,
            r#""hidden_size": 64, "intermediate_size": 176, "num_hidden_layers": 2"#,
        )
        .replace(r#""num_attention_heads": 2"#, r#""num_attention_heads": 4"#)
        .replace(r#""max_position_embeddings": 64"#, r#""max_position_embeddings": 256"#);
    let run = RUN.replace(r#""block_size": 8"#, r#""block_size": 128, "per_device_train_batch_size": 8"#);
    let run = run.replace(r#""xla_fsdp_v2": true"#, r#""xla_fsdp_v2": true, "xla_fsdp_grad_ckpt": true"#);
    for (name, text) in [("config.json", config), ("run.json", run)] {
        fs::write(folder.path().join(name), text).unwrap();
    }
    fs::write(folder.path().join("text.txt"), "to be or not to be\n".repeat(600)).unwrap();
    let json: Value =
        serde_json::from_str(stdout(&explain(folder.path(), "train run.json --mesh fsdp=8 -q --json")))
            .unwrap();
    let parameters: Vec<&str> =
        json["parameters"].as_array().unwrap().iter().map(|p| p["type"].as_str().unwrap()).collect();
    assert!(parameters.contains(&"f32[176,64]"));
    let collectives = json["collectives"].as_array().unwrap();
    let pieces: Vec<&Value> = collectives.iter().flat_map(|c| c["pieces"].as_array().unwrap()).collect();
    let of = |purpose: &str| pieces.iter().filter(|piece| piece["purpose"] == purpose).count();
    assert_eq!(of("activation"), 0, "{collectives:#?}");
    assert!(of("weight") >= parameters.len() && of("gradient") >= parameters.len(), "{collectives:#?}");
}

#[test]
fn what_cannot_be_explained_is_refused_before_a_plugin_is_looked_for() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("step.bc"), b"ML\xefR\x0dStableHLO_v1.0.0\0").unwrap();
    let check = |words: &str, expected: &str| {
        let output = explain(folder.path(), &format!("{words} --plugin no-plugin"));
        assert_eq!(String::from_utf8_lossy(&output.stderr), expected);
        assert_eq!(output.status.code(), Some(2));
    };
    check(
        "step.bc",
        "error: the program is MLIR bytecode, of which nothing is known that could be explained\n\
         hint: export it as StableHLO text (`lowered.as_text()` in JAX) or as an HLO proto\n",
    );
    check(
        "step.bc --lowering both",
        "error: --lowering both: a program that is given can be annotated only; explicit collectives take its source, \
         which is traced anew over the shards of a device\n\
         hint: `shardwright explain train RUN.json --lowering both` compares the lowerings of a step of our own\n",
    );
    check("--json", "error: <IN> is missing\nhint: --help tells what it is\n");
    check(
        "train --block_size 0",
        "error: --block_size: expected a whole number of at least 2, found \"0\"\n",
    );
}
