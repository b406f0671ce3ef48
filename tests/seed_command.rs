//! The command that FSDPv2 came with in Hugging Face's Trainer, word for word but for the text, which is a file here, and
//! a model small enough for a test.

mod command;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use expect_test::{Expect, expect};
use serde_json::Value;
use shardwright_checkpoint::HfWeights;
use shardwright_tensor::DType;
use tempfile::TempDir;

const MODEL: &str = r#"{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64,
    "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 4,
    "vocab_size": 320, "max_position_embeddings": 64}"#;

const FSDP: &str = r#"{"fsdp_transformer_layer_cls_to_wrap": ["LlamaDecoderLayer"],
    "xla": true, "xla_fsdp_v2": true, "xla_fsdp_grad_ckpt": true}"#;

/// Its flags. The batch size is that of one device.
const WORDS: &[&str] = &[
    "train",
    "--num_train_epochs",
    "1",
    "--dataset",
    "texts/*.txt",
    "--per_device_train_batch_size",
    "2",
    "--do_train",
    "--output_dir",
    "out",
    "--overwrite_output_dir",
    "--config_name",
    "2B.config",
    "--cache_dir",
    "cache",
    "--tokenizer_name",
    "tokenizer",
    "--block_size",
    "64",
    "--optim",
    "adafactor",
    "--save_strategy",
    "no",
    "--logging_strategy",
    "no",
    "--fsdp",
    "full_shard",
    "--fsdp_config",
    "fsdp_config.json",
    "--torch_dtype",
    "bfloat16",
    "--dataloader_drop_last",
    "yes",
];

/// A folder with a model, a tokenizer and texts that make some 60 blocks.
fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    write("2B.config", MODEL);
    write("fsdp_config.json", FSDP);
    write("tokenizer/tokenizer.json", &tokenizer());
    for part in 0..2 {
        let lines = (0..80).map(|i| format!("part {part}, line {i}: some {} words\n", i * 7 % 11));
        write(&format!("texts/{part}.txt"), &lines.collect::<String>());
    }
    folder
}

/// A tokenizer that knows bytes and nothing more, as Hugging Face writes one.
fn tokenizer() -> String {
    let vocab: serde_json::Map<String, Value> =
        byte_letters().enumerate().map(|(id, letter)| (letter.to_string(), id.into())).collect();
    serde_json::json!({
        "version": "1.0",
        "added_tokens": [],
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
        "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true},
        "model": {"type": "BPE", "vocab": vocab, "merges": []},
    })
    .to_string()
}

/// The letters that stand for the 256 bytes: those that can be seen for themselves, others from 256 on.
fn byte_letters() -> impl Iterator<Item = char> {
    let is_seen = |byte: &u32| matches!(byte, 0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff);
    let unseen = (0..256).filter(move |byte| !is_seen(byte)).count() as u32;
    let seen = (0..256).filter(is_seen);
    seen.chain(256..256 + unseen).filter_map(char::from_u32)
}

fn run(folder: &Path, words: &[&str]) -> Output {
    let mut command: Command = command::command(words);
    command.current_dir(folder).envs([("XLA_USE_SPMD", "1"), ("XLA_USE_BF16", "1")]);
    // Runs of the same step compile it once.
    command.env("SHARDWRIGHT_COMPILE_CACHE", folder.join("compiled"));
    command.output().unwrap()
}

/// The lines that explain the settings.
fn notes(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{text}");
    text.lines().filter(|line| line.starts_with("note: ")).map(|line| format!("{line}\n")).collect()
}

fn files(folder: &Path) -> BTreeSet<String> {
    let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
    names.map(|name| name.into_string().unwrap()).collect()
}

fn json(path: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

#[test]
fn it_runs_and_leaves_the_files_of_a_trained_model() {
    let folder = folder();
    let out = folder.path().join("out");
    let check_notes = |output: &Output, expect: Expect| expect.assert_eq(&notes(output));
    check_notes(
        &run(folder.path(), WORDS),
        expect![[r#"
        note: XLA_USE_SPMD=1: it is always so here, one process drives all devices
        note: XLA_USE_BF16=1: layers compute in bfloat16, as --bf16 says; sums, losses and updates stay float32
        note: torch_dtype: the model is saved in bf16; while it is trained, weights are kept in f32, which --master_weights no spares
        note: 10 blocks of each epoch do not fill a batch and are dropped
    "#]],
    );
    let listed: Vec<String> = files(&out).into_iter().collect();
    expect![[r#"
        README.md
        all_results.json
        config.json
        fsdp_config.json
        model.safetensors
        tokenizer.json
        train_results.json
        trainer_state.json
        training_args.json"#]]
    .assert_eq(&listed.join("\n"));

    let results = json(&out.join("train_results.json"));
    assert!(results["train_loss"].as_f64().is_some_and(f64::is_finite), "{results}");
    let state = json(&out.join("trainer_state.json"));
    let history = state["log_history"].as_array().unwrap();
    assert_eq!(history.len(), 1, "only the figures of the whole run: {history:?}");
    assert_eq!(state["train_batch_size"], 2);
    assert_eq!(state["global_step"], state["max_steps"]);

    let weights = HfWeights::open(&out).unwrap();
    assert!(weights.tensors().all(|tensor| tensor.ty.dtype == DType::Bf16));
    let bytes = fs::read(out.join("model.safetensors")).unwrap();
    assert!(!String::from_utf8_lossy(&bytes).contains("_orig_module"), "names are those of the model");

    let arguments = json(&out.join("training_args.json"));
    assert_eq!(arguments["settings"]["optim"], "adafactor");
    assert_eq!(arguments["from"]["optim"], "flag");
    assert_eq!(arguments["from"]["bf16"], "XLA_USE_BF16");
    assert_eq!(arguments["from"]["learning_rate"], "default");

    // What is there is replaced if that is asked for, and only then.
    assert_eq!(run(folder.path(), WORDS).status.code(), Some(0));
    let careful: Vec<&str> = WORDS.iter().copied().filter(|word| *word != "--overwrite_output_dir").collect();
    let refused = run(folder.path(), &careful);
    assert_eq!(refused.status.code(), Some(2));
    let text = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        text.contains("is not empty; choose another --output_dir, or pass --overwrite_output_dir"),
        "{text}"
    );
}

#[test]
fn its_batch_size_can_be_that_of_all_devices() {
    let folder = folder();
    let words: Vec<&str> = WORDS
        .iter()
        .map(|word| match *word {
            "--per_device_train_batch_size" => "--global_batch_size",
            "2" => "16",
            other => other,
        })
        .collect();
    assert_eq!(run(folder.path(), &words).status.code(), Some(0));
    let state = json(&folder.path().join("out/trainer_state.json"));
    assert_eq!(state["train_batch_size"], 2, "of each of 8 devices");

    let odd: Vec<&str> = words.iter().map(|word| if *word == "16" { "12" } else { word }).collect();
    let refused = run(folder.path(), &odd);
    let text = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(2), "{text}");
    assert!(text.contains("global_batch_size 12 does not divide into 8 devices"), "{text}");
}
