//! What the command says to wrong arguments and files, and with which exit code.
//!
//! Every case runs the real binary with a plugin that does not exist: a complaint about anything else proves that it
//! came before a plugin was looked for.

mod command;

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use expect_test::{Expect, expect};
use tempfile::TempDir;

/// A run file that is right.
const RUN: &str = r#"{
  "config_name": "config.json",
  "train_file": "text.txt",
  "block_size": 8,
  "output_dir": "out"
}
"#;

/// The configuration of a model that is right.
const QUICKSTART: &str = include_str!("../examples/quickstart/config.json");

/// A folder with the files that a run needs, as far as the command line looks at them.
struct Folder(TempDir);

impl Folder {
    fn new() -> Folder {
        let folder = Folder(tempfile::tempdir().unwrap());
        folder
            .with("run.json", RUN)
            .with("config.json", QUICKSTART)
            .with("text.txt", &"to be or not to be\n".repeat(20))
    }

    fn with(self, name: &str, text: &str) -> Folder {
        let path = self.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        self
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    /// The command in this folder, untouched by the environment of the test.
    fn command(&self, words: &[&str]) -> Command {
        let mut command = command::command(words);
        command.current_dir(self.path()).env("SHARDWRIGHT_CACHE_DIR", self.path().join("cache"));
        command
    }

    /// Runs `train` with the arguments and a plugin that does not exist.
    fn train(&self, arguments: &str) -> Output {
        let words = ["--plugin", "no-plugin", "train"];
        self.command(&words).args(split(arguments)).output().unwrap()
    }
}

/// The words of a line, apart at blanks that are not between single quotes.
fn split(line: &str) -> Vec<String> {
    let quoted = line.split('\'').enumerate().flat_map(|(idx, part)| match idx % 2 {
        0 => part.split_whitespace().map(str::to_owned).collect(),
        _ => vec![part.to_owned()],
    });
    quoted.collect()
}

/// Exit code and stderr.
fn show(output: &Output) -> String {
    let stderr = String::from_utf8(output.stderr.clone()).unwrap();
    format!("{stderr}exit code {}\n", output.status.code().unwrap())
}

/// Each line of arguments after the run file, and what comes of it.
#[track_caller]
fn check_flags(lines: &[&str], expect: Expect) {
    let folder = Folder::new();
    let show = |line: &&str| format!("> {line}\n{}", show(&folder.train(&format!("run.json {line}"))));
    expect.assert_eq(&lines.iter().map(show).collect::<String>());
}

/// What comes of a run file with these members beside those of [`RUN`].
#[track_caller]
fn check_file(members: &[&str], expect: Expect) {
    let show = |members: &&str| {
        let text = RUN.replacen("{\n", &format!("{{\n  {members},\n"), 1);
        format!("> {members}\n{}", show(&Folder::new().with("run.json", &text).train("run.json")))
    };
    expect.assert_eq(&members.iter().map(show).collect::<String>());
}

/// What comes of a run file of this text.
#[track_caller]
fn check_text(text: &str, expect: Expect) {
    expect.assert_eq(&show(&Folder::new().with("run.json", text).train("run.json")));
}

/// These arguments and this run file are fine: the run gets as far as looking for its plugin. Gives what it notes.
#[track_caller]
fn check_fine(run: &str, arguments: &str, expect: Expect) {
    let output = Folder::new().with("run.json", run).train(arguments);
    let text = show(&output);
    assert!(text.contains("\nerror: unknown plugin \"no-plugin\""), "{text}");
    assert_eq!(output.status.code(), Some(3), "{text}");
    let notes = text.lines().filter(|line| line.starts_with("note: "));
    expect.assert_eq(&notes.map(|line| format!("{line}\n")).collect::<String>());
}

#[test]
fn flags_that_do_not_exist_are_named_with_the_nearest_one() {
    check_flags(
        &[
            "--learning-rat 1",
            "--batch_size 8",
            "--quux",
            "--push_to_hub",
            "--use_fast_tokenizer no",
            "--dataset_name wikitext",
            "--deepspeed=ds.json",
            "--offlin",
            "-x",
            "other.json",
            "--learning_rate",
        ],
        expect![[r#"
            > --learning-rat 1
            error: flag --learning_rat is unknown; did you mean --learning_rate?
            exit code 2
            > --batch_size 8
            error: flag --batch_size is unknown; did you mean --per_device_train_batch_size?
            exit code 2
            > --quux
            error: flag --quux is unknown; `shardwright train --help` lists the settings
            exit code 2
            > --push_to_hub
            error: --push_to_hub: not supported: nothing is sent anywhere; upload output_dir after the run
            exit code 2
            > --use_fast_tokenizer no
            error: --use_fast_tokenizer: not supported: a tokenizer is a tokenizer.json
            exit code 2
            > --dataset_name wikitext
            error: --dataset_name: not supported: nothing is looked up on the Hugging Face Hub; give files or folders of text with train_file
            exit code 2
            > --deepspeed=ds.json
            error: --deepspeed: not supported: another sharding engine; use fsdp
            exit code 2
            > --offlin
            error: flag --offlin is unknown; did you mean --offline?
            exit code 2
            > -x
            error: flag -x is unknown
            exit code 2
            > other.json
            error: argument other.json is one too many
            hint: commands take one file; all other settings are flags
            exit code 2
            > --learning_rate
            error: --learning_rate: a value must follow
            exit code 2
        "#]],
    );
}

#[test]
fn commands_that_do_not_exist_are_named_with_the_nearest_one() {
    let folder = Folder::new();
    let show =
        |words: &[&str]| format!("> {}\n{}", words.join(" "), show(&folder.command(words).output().unwrap()));
    expect![[r#"
        > trian
        error: command trian is unknown; did you mean train?
        hint: `shardwright --help` lists the commands
        exit code 2
        > plugins fetsh
        error: command fetsh is unknown; did you mean fetch?
        hint: `shardwright --help` lists the commands
        exit code 2
        > explain train --learning_rat 1
        error: flag --learning_rat is unknown; did you mean --learning_rate?
        exit code 2
        > explain train --quux
        error: flag --quux is unknown; `shardwright explain train --help` lists the settings
        exit code 2
        > devices --max_steps 3
        error: flag --max_steps is a flag of `shardwright train`
        exit code 2
        > --cpu_devices 0 devices
        error: --cpu_devices: expected a whole number from 1 to 1024, found "0"
        exit code 2
        > devices --cpu-devices=many
        error: --cpu_devices: expected a whole number from 1 to 1024, found "many"
        exit code 2
        > --cpu_devices 1025 plugins
        error: --cpu_devices: expected a whole number from 1 to 1024, found "1025"
        exit code 2
    "#]]
    .assert_eq(
        &[
            show(&["trian"]),
            show(&["plugins", "fetsh"]),
            show(&["explain", "train", "--learning_rat", "1"]),
            show(&["explain", "train", "--quux"]),
            show(&["devices", "--max_steps", "3"]),
            show(&["--cpu_devices", "0", "devices"]),
            show(&["devices", "--cpu-devices=many"]),
            show(&["--cpu_devices", "1025", "plugins"]),
        ]
        .concat(),
    );
}

#[test]
fn the_number_of_devices_in_the_environment_counts_where_a_plugin_is_opened() {
    let folder = Folder::new();
    let show = |words: &[&str]| {
        let output = folder.command(words).env("CPU_NUM_DEVICES", "100000000").output().unwrap();
        format!("> {}\n{}", words.join(" "), show(&output))
    };
    expect![[r#"
        > devices
        error: CPU_NUM_DEVICES: expected a whole number from 1 to 1024, found "100000000"
        exit code 2
        > train run.json
        error: CPU_NUM_DEVICES: expected a whole number from 1 to 1024, found "100000000"
        exit code 2
        > plugins list
        exit code 0
        > --cpu_devices 1024 plugins list
        exit code 0
    "#]]
    .assert_eq(
        &[
            show(&["devices"]),
            show(&["train", "run.json"]),
            show(&["plugins", "list"]),
            show(&["--cpu_devices", "1024", "plugins", "list"]),
        ]
        .concat(),
    );
}

#[test]
fn values_out_of_range_are_named_with_what_is_wanted() {
    check_flags(
        &[
            "--per_device_train_batch_size 0",
            "--per-device-train-batch-size=-1",
            "--block_size 1",
            "--max_train_samples 0",
            "--num_train_epochs 0",
            "--max_steps 0",
            "--learning_rate -1e-3",
            "--learning_rate nan",
            "--learning_rate fast",
            "--weight_decay -0.1",
            "--adam_beta1 1",
            "--max_grad_norm inf",
            "--warmup_ratio 1.5",
            "--seed 1.5",
            "--logging_steps 0",
            "--min_shard_bytes -1",
            "--output_dir ''",
        ],
        expect![[r#"
            > --per_device_train_batch_size 0
            error: --per_device_train_batch_size: expected a whole number of at least 1, found "0"
            exit code 2
            > --per-device-train-batch-size=-1
            error: --per_device_train_batch_size: expected a whole number of at least 1, found "-1"
            exit code 2
            > --block_size 1
            error: --block_size: expected a whole number of at least 2, found "1"
            exit code 2
            > --max_train_samples 0
            error: --max_train_samples: expected a whole number of at least 1, found "0"
            exit code 2
            > --num_train_epochs 0
            error: --num_train_epochs: expected a number above 0, found "0"
            exit code 2
            > --max_steps 0
            error: --max_steps: expected a whole number of at least 1, or -1 for no limit, found "0"
            exit code 2
            > --learning_rate -1e-3
            error: --learning_rate: expected a number of at least 0, found "-1e-3"
            exit code 2
            > --learning_rate nan
            error: --learning_rate: expected a number of at least 0, found "nan"
            exit code 2
            > --learning_rate fast
            error: --learning_rate: expected a number of at least 0, found "fast"
            exit code 2
            > --weight_decay -0.1
            error: --weight_decay: expected a number of at least 0, found "-0.1"
            exit code 2
            > --adam_beta1 1
            error: --adam_beta1: expected a number of at least 0 and below 1, found "1"
            exit code 2
            > --max_grad_norm inf
            error: --max_grad_norm: expected a number of at least 0, found "inf"
            exit code 2
            > --warmup_ratio 1.5
            error: --warmup_ratio: expected a number from 0 to 1, found "1.5"
            exit code 2
            > --seed 1.5
            error: --seed: expected a whole number, found "1.5"
            exit code 2
            > --logging_steps 0
            error: --logging_steps: expected a whole number of at least 1, or a part of all steps between 0 and 1, found "0"
            exit code 2
            > --min_shard_bytes -1
            error: --min_shard_bytes: expected a whole number, found "-1"
            exit code 2
            > --output_dir ''
            error: --output_dir: expected a path, found ""
            exit code 2
        "#]],
    );
}

#[test]
fn truth_values_have_ten_spellings() {
    check_flags(
        &["--dataloader_drop_last maybe", "--overwrite_output_dir=", "--do_train 2"],
        expect![[r#"
            > --dataloader_drop_last maybe
            error: --dataloader_drop_last: expected yes, no, true, false, t, f, y, n, 1 or 0, found "maybe"
            exit code 2
            > --overwrite_output_dir=
            error: --overwrite_output_dir: expected yes, no, true, false, t, f, y, n, 1 or 0, found ""
            exit code 2
            > --do_train 2
            error: --do_train: expected yes, no, true, false, t, f, y, n, 1 or 0, found "2"
            exit code 2
        "#]],
    );
    expect![[r#"
        error: --overwrite_output_dir: expected yes, no, true, false, t, f, y, n, 1 or 0, found "run.json"; write RUN.json first
        exit code 2
    "#]]
    .assert_eq(&show(&Folder::new().train("--overwrite_output_dir run.json")));
    for word in ["yes", "no", "true", "false", "t", "f", "y", "n", "1", "0", "True", "NO"] {
        check_fine(RUN, &format!("run.json --dataloader_drop_last {word}"), expect![""]);
        check_fine(RUN, &format!("run.json --overwrite-output-dir={word}"), expect![""]);
    }
    check_fine(RUN, "run.json --overwrite_output_dir --dataloader-drop-last --seed 1", expect![""]);
}

#[test]
fn what_is_known_and_not_supported_says_what_is() {
    check_flags(
        &[
            "--optim galore_adamw",
            "--optim adamw",
            "--optim adamw_hf",
            "--lr_scheduler_type reduce_lr_on_plateau",
            "--lr_scheduler_type linaer",
            "--save_strategy steps",
            "--logging_strategy never",
            "--torch_dtype float16",
            "--dtype float17",
            "--reduce_dtype f8",
            "--report_to wandb",
            "--report_to wandb tensorboard",
            "--report_to none tensorboard",
            "--freeze lm_head,, embed_tokens",
            "--fp16 yes",
            "--do_train no",
            "--loss_denominator mean",
            "--fsdp_dim_rule largest",
            "--lowering manual",
            "--load_best_model_at_end",
            "--label_smoothing_factor 0.1",
            "--no_cuda",
            "--no_keep_linebreaks",
            "--keep_linebreaks no",
            "--dataset_name wikitext --dataset_config_name wikitext-2-raw-v1",
        ],
        expect![[r#"
            > --optim galore_adamw
            error: --optim: galore_adamw is not supported yet; use adamw_torch, adamw_torch_fused, adamw_torch_xla, adafactor, sgd, lion_32bit or lion
            exit code 2
            > --optim adamw
            error: --optim: expected adamw_torch, adamw_torch_fused, adamw_torch_xla, adafactor, sgd, lion_32bit or lion, found "adamw"
            exit code 2
            > --optim adamw_hf
            error: --optim: adamw_hf is not supported: it adds epsilon before the bias correction and decays weights after the update; use adamw_torch
            exit code 2
            > --lr_scheduler_type reduce_lr_on_plateau
            error: --lr_scheduler_type: reduce_lr_on_plateau is not supported: it waits for evaluations while it runs; use cosine
            exit code 2
            > --lr_scheduler_type linaer
            error: --lr_scheduler_type: expected linear, cosine, cosine_with_restarts, cosine_with_min_lr, polynomial, constant, constant_with_warmup, inverse_sqrt or warmup_stable_decay, found "linaer"
            exit code 2
            > --save_strategy steps
            error: --save_strategy: steps is not supported: it writes checkpoints, and only the final model is written yet; use no
            exit code 2
            > --logging_strategy never
            error: --logging_strategy: expected no, steps or epoch, found "never"
            exit code 2
            > --torch_dtype float16
            error: --torch_dtype: float16 is not supported: it takes loss scaling, which is not there; use bfloat16
            exit code 2
            > --dtype float17
            error: --torch_dtype: expected float32, bfloat16, auto, fp32 or bf16, found "float17"
            exit code 2
            > --reduce_dtype f8
            error: --reduce_dtype: expected float32, bfloat16, fp32 or bf16, found "f8"
            exit code 2
            > --report_to wandb
            error: --report_to: wandb is not supported; use none, tensorboard or all
            exit code 2
            > --report_to wandb tensorboard
            error: --report_to: wandb is not supported; use none, tensorboard or all
            exit code 2
            > --report_to none tensorboard
            error: --report_to: expected none, tensorboard or all, found "none tensorboard"
            exit code 2
            > --freeze lm_head,, embed_tokens
            error: --freeze: expected names, or a list of them, found "lm_head,, embed_tokens"
            exit code 2
            > --fp16 yes
            error: --fp16: not supported: float16 takes loss scaling, which is not there; use bf16
            exit code 2
            > --do_train no
            error: --do_train: this leaves nothing to do; leave it out to train
            exit code 2
            > --loss_denominator mean
            error: --loss_denominator: expected labels or targets, found "mean"
            exit code 2
            > --fsdp_dim_rule largest
            error: --fsdp_dim_rule: expected largest_divisible, strict_largest or dim0, found "largest"
            exit code 2
            > --lowering manual
            error: --lowering: expected auto, annotate, explicit or both, found "manual"
            exit code 2
            > --load_best_model_at_end
            error: --load_best_model_at_end: not supported: checkpoints are not written yet
            exit code 2
            > --label_smoothing_factor 0.1
            error: --label_smoothing_factor: not supported: losses are plain cross entropies
            exit code 2
            > --no_cuda
            error: --no_cuda: not supported: --plugin names the devices
            exit code 2
            > --no_keep_linebreaks
            error: --keep_linebreaks: not supported: line breaks are part of the text
            exit code 2
            > --keep_linebreaks no
            error: --keep_linebreaks: not supported: line breaks are part of the text
            exit code 2
            > --dataset_name wikitext --dataset_config_name wikitext-2-raw-v1
            error: --dataset_name: not supported: nothing is looked up on the Hugging Face Hub; give files or folders of text with train_file
            exit code 2
        "#]],
    );
}

#[test]
fn a_run_needs_a_model_text_and_a_place() {
    let folder = Folder::new();
    let lines = [
        "",
        "--config_name config.json",
        "--config_name config.json --train_file text.txt",
        "--config_name config.json --model_name_or_path . --train_file text.txt --output_dir out",
    ];
    let show = |line: &&str| format!("> {line}\n{}", show(&folder.train(line)));
    expect![[r#"
        > 
        error: there is no model: give --config_name with a config.json, or --model_name_or_path with a folder of weights
        exit code 2
        > --config_name config.json
        error: there is no text: give files or folders with --train_file
        exit code 2
        > --config_name config.json --train_file text.txt
        error: there is no place for the results: give a folder with --output_dir
        exit code 2
        > --config_name config.json --model_name_or_path . --train_file text.txt --output_dir out
        error: --model_name_or_path: config_name is given too; keep config_name for new weights, or this for the weights of the folder
        exit code 2
    "#]].assert_eq(&lines.iter().map(show).collect::<String>());
}

#[test]
fn files_that_do_not_exist_are_named() {
    check_flags(
        &[
            "--config_name absent/config.json",
            "--tokenizer_name absent.json",
            "--train_file text.txt --train_file absent.txt",
            "--fsdp full_shard --fsdp_config absent.json",
        ],
        expect![[r#"
            > --config_name absent/config.json
            error: --config_name: absent/config.json does not exist
            exit code 2
            > --tokenizer_name absent.json
            error: --tokenizer_name: absent.json does not exist
            exit code 2
            > --train_file text.txt --train_file absent.txt
            error: --train_file: absent.txt does not exist
            exit code 2
            > --fsdp full_shard --fsdp_config absent.json
            error: --fsdp_config: absent.json does not exist
            exit code 2
        "#]],
    );
    let folder = Folder::new();
    let lines = [
        "absent.json",
        "meta-llama/Llama-3.2-1B",
        ".",
        "--model_name_or_path meta-llama/Llama-3.2-1B --train_file text.txt --output_dir out",
    ];
    let show = |line: &&str| format!("> {line}\n{}", show(&folder.train(line)));
    expect![[r#"
        > absent.json
        error: cannot read absent.json: No such file or directory (os error 2)
        hint: the argument without a flag is a JSON file of settings; settings are also flags, see `shardwright train --help`
        exit code 2
        > meta-llama/Llama-3.2-1B
        error: cannot read meta-llama/Llama-3.2-1B: No such file or directory (os error 2)
        hint: the argument without a flag is a JSON file of settings; settings are also flags, see `shardwright train --help`
        exit code 2
        > .
        error: cannot read .: Is a directory (os error 21)
        hint: the argument without a flag is a JSON file of settings; settings are also flags, see `shardwright train --help`
        exit code 2
        > --model_name_or_path meta-llama/Llama-3.2-1B --train_file text.txt --output_dir out
        error: --model_name_or_path: meta-llama/Llama-3.2-1B does not exist
        hint: names of the Hugging Face Hub are not looked up; download the files and give their folder
        exit code 2
    "#]].assert_eq(&lines.iter().map(show).collect::<String>());
}

#[test]
fn run_files_that_are_not_json_are_named_with_line_and_column() {
    check_text(
        "{\n  \"seed\": 1,\n  \"max_steps\" 3\n}\n",
        expect![[r#"
        error: run.json:3:15: expected `:`
        exit code 2
    "#]],
    );
    check_text(
        "{\n  \"seed\": 1,\n}\n",
        expect![[r#"
        error: run.json:3:1: trailing comma
        exit code 2
    "#]],
    );
    check_text(
        "{\"seed\": 1",
        expect![[r#"
        error: run.json:1:10: EOF while parsing an object
        exit code 2
    "#]],
    );
    check_text(
        "",
        expect![[r#"
        error: run.json:1:1: EOF while parsing a value
        exit code 2
    "#]],
    );
    check_text(
        "[1, 2]",
        expect![[r#"
        error: run.json:1:1: invalid type: sequence, expected an object of settings
        exit code 2
    "#]],
    );
    check_text(
        "{\"seed\": 1} {}",
        expect![[r#"
        error: run.json:1:13: trailing characters
        exit code 2
    "#]],
    );
    check_text(
        "{\"learning_rate\": 1e999}",
        expect![[r#"
        error: run.json:1:19: number out of range
        exit code 2
    "#]],
    );
}

#[test]
fn options_and_lists_are_checked() {
    check_flags(
        &[
            "--optim_args momentum=0.9",
            "--optim adafactor --optim_args relative_step=true",
            "--optim adafactor --optim_args warmup_init=True",
            "--optim adafactor --optim_args eps=1",
            "--optim sgd --optim_args nesterov=true",
            "--optim sgd --optim_args momentum",
            "--lr_scheduler_kwargs '{\"num_cycles\": 2}'",
            "--lr_scheduler_type cosine --lr_scheduler_kwargs num_cycles=many",
            "--lr_scheduler_type cosine_with_min_lr",
            "--lr_scheduler_type cosine_with_min_lr --lr_scheduler_kwargs min_lr=1,min_lr_rate=0.1",
            "--lr_scheduler_type cosine_with_min_lr --lr_scheduler_kwargs min_lr=1",
            "--lr_scheduler_type polynomial --lr_scheduler_kwargs lr_end=1",
            "--lr_scheduler_type polynomial --learning_rate 0",
            "--lr_scheduler_type inverse_sqrt --lr_scheduler_kwargs timescale=0",
            "--lr_scheduler_type warmup_stable_decay",
            "--lr_scheduler_type warmup_stable_decay --lr_scheduler_kwargs num_decay_steps=2,decay_type=steep",
            "--parameter_groups groups.json",
            "--parameter_groups '{}'",
            "--parameter_groups '[3]'",
            "--parameter_groups '[{\"lr\": 1}]'",
            "--parameter_groups '[{\"pattern\": \"a..b\"}]'",
            "--parameter_groups '[{\"pattern\": \"a\", \"lr\": -1}]'",
            "--parameter_groups '[{\"pattern\": \"a\", \"lr\": 1, \"learning_rate\": 1}]'",
            "--parameter_groups '[{\"pattern\": \"a\", \"trained\": 0}]'",
            "--parameter_groups '[}'",
            "--freeze a..b",
            "--freeze a,,b",
            "--max_grad_value 0",
            "--validation_split_percentage 100",
            "--logging_steps 1.5",
            "--global_batch_size 8 --per_device_train_batch_size 1",
            "--fsdp true --fsdp_config '{\"mixed_precision_policy\": \"fp32\"}' --bf16",
            "--fsdp true --fsdp_config '{\"mixed_precision_policy\": \"bf16\"}' --reduce_dtype float32",
            "--fsdp true --fsdp_config '{\"auto_wrap_policy\": \"NO_WRAP\"}' --fsdp_transformer_layer_cls_to_wrap X",
            "--fsdp true --fsdp_transformer_layer_cls_to_wrap X --fsdp_min_num_params 5",
        ],
        expect![[r#"
            > --optim_args momentum=0.9
            error: --optim_args: momentum is no option of adamw_torch
            exit code 2
            > --optim adafactor --optim_args relative_step=true
            error: --optim_args: relative_step: true is not supported, as steps follow learning_rate; leave it out
            exit code 2
            > --optim adafactor --optim_args warmup_init=True
            error: --optim_args: warmup_init: true takes relative_step, which is not supported; use warmup_steps
            exit code 2
            > --optim adafactor --optim_args eps=1
            error: --optim_args: eps: expected two numbers of at least 0, found 1
            exit code 2
            > --optim sgd --optim_args nesterov=true
            error: --optim_args: nesterov takes momentum above 0, and no dampening
            exit code 2
            > --optim sgd --optim_args momentum
            error: --optim_args: expected NAME=VALUE,... or a JSON object, found "momentum"
            exit code 2
            > --lr_scheduler_kwargs '{"num_cycles": 2}'
            error: --lr_scheduler_kwargs: num_cycles is no option of linear
            exit code 2
            > --lr_scheduler_type cosine --lr_scheduler_kwargs num_cycles=many
            error: --lr_scheduler_kwargs: num_cycles: expected a number of at least 0, found "many"
            exit code 2
            > --lr_scheduler_type cosine_with_min_lr
            error: --lr_scheduler_kwargs: cosine_with_min_lr takes min_lr or min_lr_rate
            exit code 2
            > --lr_scheduler_type cosine_with_min_lr --lr_scheduler_kwargs min_lr=1,min_lr_rate=0.1
            error: --lr_scheduler_kwargs: min_lr and min_lr_rate say the same; keep one of them
            exit code 2
            > --lr_scheduler_type cosine_with_min_lr --lr_scheduler_kwargs min_lr=1
            error: --lr_scheduler_kwargs: the lowest learning rate is above the highest
            exit code 2
            > --lr_scheduler_type polynomial --lr_scheduler_kwargs lr_end=1
            error: --lr_scheduler_kwargs: lr_end is not below learning_rate
            exit code 2
            > --lr_scheduler_type polynomial --learning_rate 0
            error: --lr_scheduler_kwargs: lr_end is a part of learning_rate, which is 0
            exit code 2
            > --lr_scheduler_type inverse_sqrt --lr_scheduler_kwargs timescale=0
            error: --lr_scheduler_kwargs: timescale: expected a whole number of at least 1, found 0
            exit code 2
            > --lr_scheduler_type warmup_stable_decay
            error: --lr_scheduler_kwargs: warmup_stable_decay takes num_decay_steps
            exit code 2
            > --lr_scheduler_type warmup_stable_decay --lr_scheduler_kwargs num_decay_steps=2,decay_type=steep
            error: --lr_scheduler_kwargs: decay_type: expected linear, cosine or 1-sqrt, found "steep"
            exit code 2
            > --parameter_groups groups.json
            error: --parameter_groups: groups.json does not exist
            exit code 2
            > --parameter_groups '{}'
            error: --parameter_groups: expected a list of groups, such as [{"pattern": "lm_head", "lr": 1e-4}]
            exit code 2
            > --parameter_groups '[3]'
            error: --parameter_groups: group 1: expected an object, found 3
            exit code 2
            > --parameter_groups '[{"lr": 1}]'
            error: --parameter_groups: group 1: key pattern is missing
            exit code 2
            > --parameter_groups '[{"pattern": "a..b"}]'
            error: --parameter_groups: group 1: key pattern: pattern "a..b" has an empty word; a pattern is words between dots, such as layers.*.mlp
            exit code 2
            > --parameter_groups '[{"pattern": "a", "lr": -1}]'
            error: --parameter_groups: group 1: key lr: expected a number of at least 0, found -1
            exit code 2
            > --parameter_groups '[{"pattern": "a", "lr": 1, "learning_rate": 1}]'
            error: --parameter_groups: group 1: keys learning_rate and lr are the same; keep one of them
            exit code 2
            > --parameter_groups '[{"pattern": "a", "trained": 0}]'
            error: --parameter_groups: group 1: key trained: expected true or false, found 0
            exit code 2
            > --parameter_groups '[}'
            error: --parameter_groups: expected value at line 1 column 2
            exit code 2
            > --freeze a..b
            error: --freeze: pattern "a..b" has an empty word; a pattern is words between dots, such as layers.*.mlp
            exit code 2
            > --freeze a,,b
            error: --freeze: expected names, or a list of them, found "a,,b"
            exit code 2
            > --max_grad_value 0
            error: --max_grad_value: expected a number above 0, found "0"
            exit code 2
            > --validation_split_percentage 100
            error: --validation_split_percentage: expected a whole number from 1 to 99, found "100"
            exit code 2
            > --logging_steps 1.5
            error: --logging_steps: expected a whole number of at least 1, or a part of all steps between 0 and 1, found "1.5"
            exit code 2
            > --global_batch_size 8 --per_device_train_batch_size 1
            error: --global_batch_size: per_device_train_batch_size is given too; keep one of them
            exit code 2
            > --fsdp true --fsdp_config '{"mixed_precision_policy": "fp32"}' --bf16
            error: --bf16: disagrees with mixed_precision_policy of fsdp_config, whose param_dtype is f32; change one of them
            exit code 2
            > --fsdp true --fsdp_config '{"mixed_precision_policy": "bf16"}' --reduce_dtype float32
            error: --reduce_dtype: disagrees with mixed_precision_policy of fsdp_config, whose reduce_dtype is bf16; change one of them
            exit code 2
            > --fsdp true --fsdp_config '{"auto_wrap_policy": "NO_WRAP"}' --fsdp_transformer_layer_cls_to_wrap X
            error: --fsdp_transformer_layer_cls_to_wrap: fsdp_config asks for another wrap policy; keep one of them
            exit code 2
            > --fsdp true --fsdp_transformer_layer_cls_to_wrap X --fsdp_min_num_params 5
            error: --fsdp_min_num_params: fsdp_config asks for another wrap policy; keep one of them
            exit code 2
        "#]],
    );
}

#[test]
fn variables_of_other_launchers_are_checked() {
    let show = |variable: &str, value: &str, arguments: &str| {
        let folder = Folder::new();
        let words = ["--plugin", "no-plugin", "train", "run.json"];
        let output = folder.command(&words).args(split(arguments)).env(variable, value).output().unwrap();
        format!("> {variable}={value} {arguments}\n{}", show(&output))
    };
    expect![[r#"
        > ACCELERATE_MIXED_PRECISION=fp8 
        error: ACCELERATE_MIXED_PRECISION: expected bf16 or no, found "fp8"
        exit code 2
        > XLA_USE_BF16=maybe 
        error: XLA_USE_BF16: expected 1 or 0, found "maybe"
        exit code 2
        > ACCELERATE_USE_FSDP=perhaps 
        error: ACCELERATE_USE_FSDP: expected 1 or 0, found "perhaps"
        exit code 2
        > FSDP_MIN_NUM_PARAMS=many --fsdp full_shard
        error: environment: key FSDP_MIN_NUM_PARAMS: wanted a whole number, 0 or more, got text "many"
        exit code 2
        > FSDP_OFFLOAD_PARAMS=true --fsdp full_shard
        error: environment: key FSDP_OFFLOAD_PARAMS: text "true" is not supported; set it to false, or leave it out: parameters stay on the devices
        exit code 2
    "#]].assert_eq(
        &[
            show("ACCELERATE_MIXED_PRECISION", "fp8", ""),
            show("XLA_USE_BF16", "maybe", ""),
            show("ACCELERATE_USE_FSDP", "perhaps", ""),
            show("FSDP_MIN_NUM_PARAMS", "many", "--fsdp full_shard"),
            show("FSDP_OFFLOAD_PARAMS", "true", "--fsdp full_shard"),
        ]
        .concat(),
    );
}

#[test]
fn the_settings_are_told_with_where_they_were_written() {
    let told = |variables: &[(&str, &str)], arguments: &str| {
        let folder = Folder::new();
        let words = ["--plugin", "no-plugin", "train", "run.json"];
        let mut command = folder.command(&words);
        command.args(split(arguments)).envs(variables.iter().copied());
        let text = show(&command.output().unwrap());
        let lines = text.lines().filter(|line| line.starts_with("settings") || line.starts_with("note"));
        lines.map(|line| format!("{line}\n")).collect::<String>()
    };
    expect![[r#"
        settings (run.json): config_name=config.json train_file=text.txt block_size=8 output_dir=out
        settings (XLA_USE_BF16): bf16=true
        settings (flag): num_train_epochs=1 max_steps=3 seed=7
        settings (ACCELERATE_USE_FSDP): fsdp=true
        note: XLA_USE_SPMD=1: it is always so here, one process drives all devices
        note: XLA_USE_BF16=1: layers compute in bfloat16, as --bf16 says; sums, losses and updates stay float32
        note: ACCELERATE_USE_FSDP=true: parameters are sharded, as --fsdp true says
        note: environment: key version is taken from FSDP_VERSION
    "#]].assert_eq(&told(
        &[
            ("XLA_USE_SPMD", "1"),
            ("XLA_USE_BF16", "1"),
            ("ACCELERATE_USE_FSDP", "true"),
            ("FSDP_VERSION", "2"),
        ],
        "--max_steps 3 --seed 7 --num_train_epochs=1",
    ));
    expect![[r#"
        settings (run.json): config_name=config.json train_file=text.txt block_size=8 output_dir=out
        settings (flag): torch_dtype=bfloat16 bf16=false fsdp=["full_shard","auto_wrap"] overwrite_output_dir=false
        note: dataloader_num_workers has no effect: batches are made in the background, on one thread
        note: XLA_USE_BF16 has no effect: bf16 is given
        note: ACCELERATE_USE_FSDP has no effect: fsdp is given
        note: torch_dtype: the model is saved in bf16; while it is trained, weights are kept in f32, which --master_weights no spares
    "#]].assert_eq(&told(
        &[("XLA_USE_BF16", "1"), ("ACCELERATE_USE_FSDP", "false")],
        "--torch_dtype bfloat16 --bf16 no --fsdp full_shard auto_wrap --dataloader_num_workers 4 --no_overwrite_output_dir",
    ));
    let all = told(&[], "-v --seed 7");
    let defaults = all.lines().find_map(|line| line.strip_prefix("settings (default): ")).unwrap();
    assert!(defaults.split(' ').any(|setting| setting == "learning_rate=0.00005"), "{defaults}");
    assert!(!defaults.contains("seed=42"), "{defaults}");
    expect![[""]].assert_eq(&told(&[], "-q --seed 7"));
}

#[test]
fn files_with_all_arguments_of_hugging_face_pass() {
    let file = RUN.replacen(
        '{',
        r#"{"push_to_hub": false, "deepspeed": null, "fp16": false, "load_best_model_at_end": false, "debug": "",
            "resume_from_checkpoint": null, "label_smoothing_factor": 0.0, "save_safetensors": true, "no_cuda": false,
            "torch_compile": false, "local_rank": 0, "optim_args": null, "lr_scheduler_kwargs": {}, "do_predict": false,
            "logging_nan_inf_filter": true, "report_to": [], "fsdp": [], "accelerator_config": null, "#,
        1,
    );
    check_fine(&file, "run.json", expect![""]);
}

#[test]
fn keys_of_run_files_are_checked_with_their_position() {
    check_file(
        &[
            r#""learning_rat": 1"#,
            r#""quux": 1"#,
            r#""gradient_accumulation_steps": 0"#,
            r#""push_to_hub": true"#,
            r#""parameter_groups": [{"pattern": "lm_head", "rate": 1}]"#,
            r#""seed": 1, "seed": 2"#,
            r#""max-steps": 1, "max_steps": 2"#,
            r#""per_device_train_batch_size": 0"#,
            r#""per_device_train_batch_size": 8.0"#,
            r#""per_device_train_batch_size": [8]"#,
            r#""learning_rate": true"#,
            r#""learning_rate": "fast""#,
            r#""dataloader_drop_last": "maybe""#,
            r#""dataloader_drop_last": 2"#,
            r#""mesh": 8"#,
            r#""tokenizer_name": ["a", "b"]"#,
            r#""tokenizer_name": "absent.json""#,
            r#""optim": "adafactor""#,
            r#""optim": 3"#,
            r#""report_to": ["wandb", "tensorboard"]"#,
            r#""report_to": ["none", "tensorboard"]"#,
            r#""freeze": ["lm_head", 3]"#,
            r#""fsdp": "fulshard""#,
            r#""fsdp": {"full_shard": true}"#,
            r#""fsdp": "full_shard", "fsdp_config": {"xla": "perhaps"}"#,
            r#""fsdp": "full_shard", "fsdp_config": {"xla": true, "xla": false}"#,
            r#""fsdp": "full_shard", "fsdp_config": 3"#,
        ],
        expect![[r#"
            > "learning_rat": 1
            error: run.json:2:19: key learning_rat is unknown; did you mean learning_rate?
            exit code 2
            > "quux": 1
            error: run.json:2:11: key quux is unknown; `shardwright train --help` lists the settings
            exit code 2
            > "gradient_accumulation_steps": 0
            error: run.json:2:34: gradient_accumulation_steps: expected a whole number of at least 1, found 0
            exit code 2
            > "push_to_hub": true
            error: run.json:2:18: push_to_hub: not supported: nothing is sent anywhere; upload output_dir after the run
            exit code 2
            > "parameter_groups": [{"pattern": "lm_head", "rate": 1}]
            error: run.json: parameter_groups: group 1: key rate is unknown; the keys are pattern, learning_rate, lr, weight_decay, trained
            exit code 2
            > "seed": 1, "seed": 2
            error: run.json:2:22: key seed is there twice, first in line 2
            exit code 2
            > "max-steps": 1, "max_steps": 2
            error: run.json:2:32: key max_steps is there twice, first in line 2
            exit code 2
            > "per_device_train_batch_size": 0
            error: run.json:2:34: per_device_train_batch_size: expected a whole number of at least 1, found 0
            exit code 2
            > "per_device_train_batch_size": 8.0
            error: run.json:2:34: per_device_train_batch_size: expected a whole number of at least 1, found 8.0
            exit code 2
            > "per_device_train_batch_size": [8]
            error: run.json:2:34: per_device_train_batch_size: expected a whole number of at least 1, found [8]
            exit code 2
            > "learning_rate": true
            error: run.json:2:20: learning_rate: expected a number of at least 0, found true
            exit code 2
            > "learning_rate": "fast"
            error: run.json:2:20: learning_rate: expected a number of at least 0, found "fast"
            exit code 2
            > "dataloader_drop_last": "maybe"
            error: run.json:2:27: dataloader_drop_last: expected yes, no, true, false, t, f, y, n, 1 or 0, found "maybe"
            exit code 2
            > "dataloader_drop_last": 2
            error: run.json:2:27: dataloader_drop_last: expected yes, no, true, false, t, f, y, n, 1 or 0, found 2
            exit code 2
            > "mesh": 8
            error: run.json:2:11: mesh: expected a text, found 8
            exit code 2
            > "tokenizer_name": ["a", "b"]
            error: run.json:2:21: tokenizer_name: expected a path, found ["a","b"]
            exit code 2
            > "tokenizer_name": "absent.json"
            error: run.json:2:21: tokenizer_name: absent.json does not exist
            exit code 2
            > "optim": "adafactor"
            settings (run.json): config_name=config.json train_file=text.txt block_size=8 optim=adafactor output_dir=out
            reading the text
            tokenizing
            error: unknown plugin "no-plugin" (given by --plugin); known are cpu, cpu-0.106, cpu-0.81, libtpu; for a file of your own pass --plugin PATH, with a separator or the ending of a shared library in it
            hint: `shardwright plugins` lists the plugins that are known by a name
            exit code 3
            > "optim": 3
            error: run.json:2:12: optim: expected adamw_torch, adamw_torch_fused, adamw_torch_xla, adafactor, sgd, lion_32bit or lion, found 3
            exit code 2
            > "report_to": ["wandb", "tensorboard"]
            error: run.json:2:16: report_to: wandb is not supported; use none, tensorboard or all
            exit code 2
            > "report_to": ["none", "tensorboard"]
            error: run.json:2:16: report_to: expected none, tensorboard or all, found ["none","tensorboard"]
            exit code 2
            > "freeze": ["lm_head", 3]
            error: run.json:2:13: freeze: expected names, or a list of them, found ["lm_head",3]
            exit code 2
            > "fsdp": "fulshard"
            error: run.json:2:11: fsdp: unknown word fulshard; choose one of full_shard, shard_grad_op, no_shard, hybrid_shard, hybrid_shard_zero2, and auto_wrap beside it
            exit code 2
            > "fsdp": {"full_shard": true}
            error: run.json:2:11: fsdp: expected words, a list of words, true or false, found {"full_shard":true}
            exit code 2
            > "fsdp": "full_shard", "fsdp_config": {"xla": "perhaps"}
            error: run.json: fsdp_config: key xla: wanted true or false, got text "perhaps"
            exit code 2
            > "fsdp": "full_shard", "fsdp_config": {"xla": true, "xla": false}
            error: run.json:2:40: key fsdp_config: key xla is there twice
            exit code 2
            > "fsdp": "full_shard", "fsdp_config": 3
            error: run.json:2:40: fsdp_config: expected JSON, or the path of a JSON file, found 3
            exit code 2
        "#]],
    );
}

#[test]
fn fsdp_words_and_files_are_checked() {
    check_flags(
        &[
            "--fsdp full",
            "--fsdp offload",
            "--fsdp 'full_shard shard_grad_op'",
            "--mesh 1x8",
            "--mesh fsdp=0",
            "--mesh data=8",
            "--mesh fsdp=8 --fsdp_axis model",
            "--fsdp_axis tensor",
        ],
        expect![[r#"
            > --fsdp full
            error: --fsdp: unknown word full; choose one of full_shard, shard_grad_op, no_shard, hybrid_shard, hybrid_shard_zero2, and auto_wrap beside it
            exit code 2
            > --fsdp offload
            error: --fsdp: offload is not supported, parameters stay on the devices; leave it out and choose one of full_shard, shard_grad_op, no_shard, hybrid_shard, hybrid_shard_zero2
            exit code 2
            > --fsdp 'full_shard shard_grad_op'
            error: --fsdp: full_shard and shard_grad_op exclude each other; keep one of them
            exit code 2
            > --mesh 1x8
            error: --mesh: "1x8" in mesh "1x8" is not axis=size; a mesh is written like data=2,fsdp=4
            exit code 2
            > --mesh fsdp=0
            error: --mesh: axis fsdp has size 0; a size is at least 1, or -1 for the one axis that takes the rest
            exit code 2
            > --mesh data=8
            settings (run.json): config_name=config.json train_file=text.txt block_size=8 output_dir=out
            settings (flag): mesh=data=8
            reading the text
            tokenizing
            error: unknown plugin "no-plugin" (given by --plugin); known are cpu, cpu-0.106, cpu-0.81, libtpu; for a file of your own pass --plugin PATH, with a separator or the ending of a shared library in it
            hint: `shardwright plugins` lists the plugins that are known by a name
            exit code 3
            > --mesh fsdp=8 --fsdp_axis model
            settings (run.json): config_name=config.json train_file=text.txt block_size=8 output_dir=out
            settings (flag): mesh=fsdp=8 fsdp_axis=model
            reading the text
            tokenizing
            error: unknown plugin "no-plugin" (given by --plugin); known are cpu, cpu-0.106, cpu-0.81, libtpu; for a file of your own pass --plugin PATH, with a separator or the ending of a shared library in it
            hint: `shardwright plugins` lists the plugins that are known by a name
            exit code 3
            > --fsdp_axis tensor
            error: --fsdp_axis: parameters cannot be sharded over the axis tensor, over which all devices see the same examples; choose another axis
            exit code 2
        "#]],
    );
    let check = |text: &str, expect: Expect| {
        let folder = Folder::new().with("fsdp.json", text);
        expect.assert_eq(&show(&folder.train("run.json --fsdp full_shard --fsdp_config fsdp.json")));
    };
    check(
        "{\n  \"xla\": true,,\n}",
        expect![[r#"
        error: fsdp.json:2:15: not a JSON object of FSDP keys: key must be a string
        exit code 2
    "#]],
    );
    check(
        r#"{"xla": true, "xla_fsdp_v3": true}"#,
        expect![[r#"
        error: fsdp.json: unknown key xla_fsdp_v3; did you mean xla_fsdp_v2? Otherwise remove it, or allow unknown keys
        hint: --allow_unknown_fsdp_keys notes unknown keys and goes on
        exit code 2
    "#]],
    );
    let unknown =
        Folder::new().with("fsdp.json", r#"{"xla": true, "xla_fsdp_v2": true, "xla_fsdp_v3": true}"#);
    let output = unknown.train("run.json --fsdp true --fsdp_config fsdp.json --allow_unknown_fsdp_keys");
    assert!(
        show(&output).contains("\nnote: fsdp.json: unknown key xla_fsdp_v3 is ignored"),
        "{}",
        show(&output)
    );
    check(
        r#"{"xla": true, "xla_fsdp_v2": false}"#,
        expect![[r#"
        error: fsdp.json: key xla_fsdp_v2: false is not supported; set it to true, or leave it out: FSDP v1 does not exist here
        exit code 2
    "#]],
    );
}

#[test]
fn models_that_cannot_be_are_refused() {
    let check = |from: &str, to: &str, expect: Expect| {
        let config = QUICKSTART.replace(from, to);
        expect.assert_eq(&show(&Folder::new().with("config.json", &config).train("run.json -q")));
    };
    check(
        "\"num_attention_heads\": 4",
        "\"num_attention_heads\": 6",
        expect![[r#"
        error: config.json: hidden_size 128 does not divide by num_attention_heads 6; give head_dim if the head size is another
        exit code 2
    "#]],
    );
    check(
        "\"num_key_value_heads\": 2",
        "\"num_key_value_heads\": 3",
        expect![[r#"
        error: config.json: num_attention_heads 4 does not divide by num_key_value_heads 3
        exit code 2
    "#]],
    );
    check(
        "\"model_type\": \"llama\"",
        "\"model_type\": \"gpt2\"",
        expect![[r#"
        error: config.json: model_type is gpt2; supported: llama, mistral, qwen2, qwen3, gemma, gemma2, gemma3_text
        exit code 2
    "#]],
    );
    check(
        "\"vocab_size\": 1024,",
        "\"vocab_size\": 1024",
        expect![[r#"
        error: config.json: line 5, column 3: expected `,` or `}`, after `"`
        exit code 2
    "#]],
    );
    check(
        "\"vocab_size\": 1024",
        "\"vocab_size\": 100",
        expect![[r#"
        error: a vocabulary of 100 is too small: the 256 bytes and 3 special tokens need at least 259
        exit code 2
    "#]],
    );
}

#[test]
fn text_that_cannot_be_trained_on_is_refused() {
    let check = |folder: Folder, arguments: &str, expect: Expect| {
        expect.assert_eq(&show(&folder.train(&format!("run.json -q {arguments}"))));
    };
    check(
        Folder::new().with("text.txt", ""),
        "",
        expect![[r#"
        error: text.txt: file is empty, expected text
        exit code 2
    "#]],
    );
    check(
        Folder::new(),
        "--block_size 200",
        expect![[r#"
        error: text.txt: 140 tokens are fewer than one block of 200: add text, or lower the block size to 140 or less
        exit code 2
    "#]],
    );
    check(
        Folder::new().with("rows.jsonl", "{\"text\": \"a\"}\n{\"tex\": \"b\"}\n"),
        "--train_file rows.jsonl",
        expect![[r#"
        error: rows.jsonl: line 2 has no column `text`, its columns are: tex
        exit code 2
    "#]],
    );
    check(
        Folder::new().with("rows.jsonl", "{\"text\": \"a\"\n"),
        "--train_file rows.jsonl",
        expect![[r#"
        error: rows.jsonl: line 1, column 12 is not JSON: EOF while parsing an object; expected one JSON object per line
        exit code 2
    "#]],
    );
    check(
        Folder::new().with("tokenizer.json", "{}"),
        "--tokenizer_name tokenizer.json",
        expect![[r#"
        error: tokenizer.json: model is null: expected a tokenizer.json with an object here
        exit code 2
    "#]],
    );
    check(
        Folder::new().with("tokenizer.json", &large_tokenizer()),
        "--tokenizer_name tokenizer.json",
        expect![[r#"
        error: tokenizer.json can produce the id 1024 (token "w1024"), but vocab_size in config.json is 1024: expected ids below that; use the tokenizer the model was made with, or a vocab_size of at least 1025
        exit code 2
    "#]],
    );
}

/// A tokenizer of words, with one more than the model's vocabulary has.
fn large_tokenizer() -> String {
    let words: Vec<String> = (0..1025).map(|id| format!("\"w{id}\": {id}")).collect();
    let words = words.join(", ");
    format!(
        r#"{{"version": "1.0", "added_tokens": [], "normalizer": null, "pre_tokenizer": {{"type": "Whitespace"}},
        "post_processor": null, "decoder": null,
        "model": {{"type": "WordLevel", "vocab": {{{words}}}, "unk_token": "w0"}}}}"#
    )
}

#[test]
fn classes_and_weights_that_are_not_there_are_named() {
    let config = QUICKSTART;
    let folder = || Folder::new().with("model/config.json", config);
    let check = |folder: Folder, arguments: &str, expect: Expect| {
        expect.assert_eq(&show(&folder.train(&format!("{arguments} -q"))));
    };
    let fsdp = r#"{"xla": true, "xla_fsdp_v2": true, "transformer_layer_cls_to_wrap": "LLaMADecoderLayer"}"#;
    let folder_with_class = Folder::new().with("fsdp.json", fsdp);
    check(
        folder_with_class,
        "run.json --fsdp true --fsdp_config fsdp.json",
        expect![[r#"
        error: the model has no module of class LLaMADecoderLayer to wrap; it has LlamaForCausalLM, LlamaModel, Embedding, LlamaDecoderLayer, LlamaAttention, Linear, LlamaMLP, LlamaRMSNorm; did you mean LlamaDecoderLayer?
        exit code 2
    "#]],
    );
    let arguments = "--model_name_or_path model --train_file text.txt --output_dir out";
    check(
        folder(),
        arguments,
        expect![[r#"
        error: model: there is neither model.safetensors nor model.safetensors.index.json in this folder
        exit code 2
    "#]],
    );
    check(
        folder().with("model/model.safetensors", "broken"),
        arguments,
        expect![[r#"
        error: model/model.safetensors: the file ends after 6 of at least 8 bytes, before its header: incomplete download?
        exit code 2
    "#]],
    );
}

#[test]
fn an_output_folder_is_not_overwritten_unasked() {
    let folder = Folder::new().with("out/precious.txt", "keep me");
    expect![[r#"
        error: the output folder out is not empty; choose another --output_dir, or pass --overwrite_output_dir
        exit code 2
    "#]]
    .assert_eq(&show(&folder.train("run.json -q")));
    let overwritten = folder.train("run.json --overwrite_output_dir");
    assert_eq!(overwritten.status.code(), Some(3), "{}", show(&overwritten));
    assert_eq!(fs::read_to_string(folder.path().join("out/precious.txt")).unwrap(), "keep me");
}

#[test]
fn settings_that_are_fine_get_as_far_as_the_plugin() {
    check_fine(RUN, "run.json", expect![""]);
    check_fine(RUN, "run.json --max-steps -1 --max_grad_norm 0 --learning-rate=1E-3", expect![""]);
    // Of several the last counts, and a flag before a key.
    check_fine(RUN, "run.json --seed x --seed 1", expect![""]);
    let file = RUN.replace("{\n", "{\n  \"per_device_train_batch_size\": 0,\n");
    check_fine(&file, "run.json --per-device-train-batch-size 1", expect![""]);
    // Words of run files are words of the command line, `null` is nothing, and some editors write a mark.
    let file =
        RUN.replace("{\n", "\u{feff}{ \"learning-rate\": \"1e-3\", \"bf16\": \"False\", \"mesh\": null,\n");
    check_fine(&file, "run.json", expect![""]);
    let file = RUN.replace("{\n", "{ \"fsdp\": [\"full_shard\", \"auto_wrap\"], \"fsdp_config\": {\"xla\": true, \"xla_fsdp_v2\": true},\n");
    check_fine(&file, "run.json", expect![""]);
}

#[test]
fn settings_without_effect_are_noted() {
    check_fine(
        RUN,
        "run.json --fsdp_config fsdp.json",
        expect![[r#"
        note: fsdp_config is not used: fsdp is off; --fsdp full_shard turns it on
    "#]],
    );
    check_fine(
        RUN,
        "run.json --warmup_steps 5 --warmup_ratio 0.1",
        expect![[r#"
        note: warmup_ratio has no effect: warmup_steps is given
    "#]],
    );
    check_fine(
        RUN,
        "run.json --lr_scheduler_type constant --warmup_steps 5",
        expect![[r#"
            note: warmup has no effect: lr_scheduler_type is constant; use constant_with_warmup
        "#]],
    );
    check_fine(RUN, "run.json --fsdp full_shard", expect![""]);
}

#[test]
fn folders_of_text_may_hold_settings() {
    let run = RUN.replace("text.txt", "text");
    let folder = Folder::new().with("run.json", &run);
    let folder = folder.with("text/a.txt", &"to be or not to be\n".repeat(20));
    let folder = folder.with("text/package.json", "{\n  \"name\": \"x\"\n}\n");
    let output = folder.train("run.json");
    assert_eq!(output.status.code(), Some(3), "{}", show(&output));
}

#[test]
fn paths_in_run_files_begin_at_their_folder() {
    let folder = Folder::new()
        .with("runs/run.json", &RUN.replace("config.json", "../config.json").replace("text.txt", "here.txt"))
        .with("runs/here.txt", &"to be or not to be\n".repeat(20));
    assert_eq!(folder.train("runs/run.json").status.code(), Some(3));
    expect![[r#"
        error: --train_file: here.txt does not exist
        exit code 2
    "#]]
    .assert_eq(&show(&folder.train("runs/run.json --train_file here.txt")));
}

#[test]
fn help_lists_settings_and_exit_codes() {
    let folder = Folder::new();
    let help = folder.command(&["train", "--help"]).output().unwrap();
    assert_eq!(help.status.code(), Some(0));
    let help = String::from_utf8(help.stdout).unwrap();
    for text in ["--per_device_train_batch_size", "Sharding:", "Examples:", "Exit codes:", "CPU_NUM_DEVICES"]
    {
        assert!(help.contains(text), "{text}");
    }
    let nothing = folder.command(&[]).output().unwrap();
    assert_eq!((nothing.status.code(), nothing.stdout.as_slice()), (Some(2), &b""[..]));
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let folder = Folder::new();
    let mut child =
        folder.command(&["plugins", "list"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    assert_eq!(show(&child.wait_with_output().unwrap()), "exit code 0\n");
}

/// What `train` says after so many signals that reach it while it waits for its model, where it is then given this.
#[cfg(unix)]
fn interrupt(signals: usize, config: &str) -> String {
    use std::io::{BufRead, BufReader, Read, Write};

    let folder = Folder::new();
    let path = folder.path().join("config.json");
    fs::remove_file(&path).unwrap();
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    let words = ["-q", "--plugin", "no-plugin", "train", "run.json"];
    let mut child = folder.command(&words).stderr(Stdio::piped()).spawn().unwrap();
    // Opening it takes until the other side reads it.
    let mut pipe = fs::File::options().write(true).open(&path).unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut text = String::new();
    for signal in 0..signals {
        assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
        if signal == 0 {
            stderr.read_line(&mut text).unwrap();
        }
    }
    pipe.write_all(config.as_bytes()).unwrap();
    if signals < 2 {
        drop(pipe);
    }
    stderr.read_to_string(&mut text).unwrap();
    format!("{text}exit code {}\n", child.wait().unwrap().code().unwrap())
}

#[test]
#[cfg(unix)]
fn an_error_after_a_signal_is_told_and_a_second_signal_is_not_waited_for() {
    expect![[r#"
        stopping…
        error: config.json: model_type is gpt2; supported: llama, mistral, qwen2, qwen3, gemma, gemma2, gemma3_text
        exit code 2
    "#]]
    .assert_eq(&interrupt(1, &QUICKSTART.replace("\"llama\"", "\"gpt2\"")));
    // Looking for a plugin may mean a download, which the signal ends.
    let interrupted = expect![[r#"
        stopping…
        error: interrupted
        exit code 130
    "#]];
    interrupted.assert_eq(&interrupt(1, QUICKSTART));
    interrupted.assert_eq(&interrupt(2, ""));
}

#[test]
fn names_of_runs_are_no_paths() {
    check_flags(
        &["--run_name ../elsewhere", "--run_name /elsewhere", "--run_name ."],
        expect![[r#"
        > --run_name ../elsewhere
        error: --run_name: expected a name for a folder, found "../elsewhere"
        exit code 2
        > --run_name /elsewhere
        error: --run_name: expected a name for a folder, found "/elsewhere"
        exit code 2
        > --run_name .
        error: --run_name: expected a name for a folder, found "."
        exit code 2
    "#]],
    );
}

#[test]
fn a_log_that_is_not_kept_is_told_to_nobody() {
    check_fine(
        RUN,
        "run.json --logging_strategy no --report_to tensorboard",
        expect![[r#"
        note: report_to has no effect: logging_strategy is no
    "#]],
    );
}
