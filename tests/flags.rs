//! Flags for the compiler and records of a run, as the command takes and writes them, with the real CPU plugin.

mod command;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use expect_test::{Expect, expect};
use serde_json::Value;
use tempfile::TempDir;

const MODEL: &str = r#"{"model_type": "llama", "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1,
    "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 300, "max_position_embeddings": 32}"#;

/// The command with this value of `XLA_FLAGS`, otherwise untouched by the environment of the test.
fn command(xla_flags: &str, words: &[&str]) -> Command {
    let mut command = command::command(words);
    command.env("XLA_FLAGS", xla_flags);
    command
}

/// Exit code and stderr.
fn show(output: &Output) -> String {
    let stderr = String::from_utf8_lossy(&output.stderr);
    format!("{stderr}exit code {}\n", output.status.code().unwrap())
}

/// What comes of `devices` with each of these values of `XLA_FLAGS`.
#[track_caller]
fn check_variable(values: &[&str], expect: Expect) {
    let show = |value: &&str| {
        let output = command(value, &["devices"]).output().unwrap();
        let platform = String::from_utf8_lossy(&output.stdout);
        let platform = platform.lines().find(|line| line.starts_with("platform"));
        let platform = platform.map(|line| format!("{line}\n")).unwrap_or_default();
        format!("XLA_FLAGS={value}\n{platform}{}", show(&output))
    };
    expect.assert_eq(&values.iter().map(show).collect::<String>());
}

/// What comes of `devices` with each of these flags.
#[track_caller]
fn check_flags(flags: &[&[&str]], expect: Expect) {
    let show = |flags: &&[&str]| {
        let words = [&["devices"], *flags].concat();
        format!("> {}\n{}", flags.join(" "), show(&command("", &words).output().unwrap()))
    };
    expect.assert_eq(&flags.iter().map(show).collect::<String>());
}

#[test]
fn wrong_flags_in_the_environment_are_named_and_end_nothing() {
    check_variable(
        &[
            "--dump_hlo_as_text",
            "--xla_gpu_enable_triton_gemm=false --xla_no_such_flag=1",
            "--xla_cpu_multi_thread_eigen=abc",
            "--xla_backend_optimization_level",
            "no-such-file",
            "--xla_dump_to='a b",
            "--xla_force_host_platform_device_count=0",
            "--xla_force_host_platform_device_count=many",
        ],
        expect![[r#"
            XLA_FLAGS=--dump_hlo_as_text
            error: XLA_FLAGS: the compiler has no flag dump_hlo_as_text (did you mean xla_dump_hlo_as_text or xla_dump_hlo_as_long_text?)
            exit code 2
            XLA_FLAGS=--xla_gpu_enable_triton_gemm=false --xla_no_such_flag=1
            error: XLA_FLAGS: the compiler has no flag xla_no_such_flag
            exit code 2
            XLA_FLAGS=--xla_cpu_multi_thread_eigen=abc
            error: XLA_FLAGS: --xla_cpu_multi_thread_eigen=abc: 'abc' is not a valid bool value
            exit code 2
            XLA_FLAGS=--xla_backend_optimization_level
            error: XLA_FLAGS: --xla_backend_optimization_level: it takes no truth value, which a flag without a value is; write --xla_backend_optimization_level=VALUE
            exit code 2
            XLA_FLAGS=no-such-file
            error: XLA_FLAGS: cannot read "no-such-file": No such file or directory (os error 2); a text without a leading -- names a file
            exit code 2
            XLA_FLAGS=--xla_dump_to='a b
            error: XLA_FLAGS: the quote in "--xla_dump_to='a" does not end
            exit code 2
            XLA_FLAGS=--xla_force_host_platform_device_count=0
            error: --xla_force_host_platform_device_count: expected a whole number from 1 to 1024, found "0"
            exit code 2
            XLA_FLAGS=--xla_force_host_platform_device_count=many
            error: XLA_FLAGS: --xla_force_host_platform_device_count=many is not followed by a number of devices
            exit code 2
        "#]],
    );
}

#[test]
fn right_flags_in_the_environment_go_to_the_compiler() {
    check_variable(
        &[
            "--xla_cpu_multi_thread_eigen=false --xla_cpu_enable_fast_math",
            "--xla_force_host_platform_device_count=3",
            "--xla_cpu_use_thunk_runtime=false",
        ],
        expect![[r#"
            XLA_FLAGS=--xla_cpu_multi_thread_eigen=false --xla_cpu_enable_fast_math
            platform  cpu, 8 devices
            exit code 0
            XLA_FLAGS=--xla_force_host_platform_device_count=3
            platform  cpu, 3 devices
            exit code 0
            XLA_FLAGS=--xla_cpu_use_thunk_runtime=false
            platform  cpu, 8 devices
             WARN XLA_FLAGS: --xla_cpu_use_thunk_runtime=false has no effect: the compiler knows it for a whole process only, not for a program
            exit code 0
        "#]],
    );
}

#[test]
fn flags_of_the_command_are_checked_in_the_same_way() {
    check_flags(
        &[
            &["--xla_flags", "--xla_cpu_enable_fast_math --xla-dump-too"],
            &["--xla_flags=--xla_cpu_enable_fast_math=x"],
            &["--xla_flags", "--xla_cpu_enable_fast_math", "--xla-flags", "--xla_cpu_enable_fast_math=false"],
            &["--xla_flags"],
            &["--xla_flags=xla_dump_to=x"],
            &["--optimization_level", "5"],
            &["--dump_passes", "spmd"],
            &["--dump_to", "/proc/no"],
            &["--trace", "no/such/folder"],
            &["--metrics_file", "no/such/folder"],
        ],
        expect![[r#"
            > --xla_flags --xla_cpu_enable_fast_math --xla-dump-too
            error: --xla_flags: the compiler has no flag xla-dump-too (did you mean xla_dump_to or xla_dump?)
            exit code 2
            > --xla_flags=--xla_cpu_enable_fast_math=x
            error: --xla_flags: --xla_cpu_enable_fast_math=x: 'x' is not a valid bool value
            exit code 2
            > --xla_flags --xla_cpu_enable_fast_math --xla-flags --xla_cpu_enable_fast_math=false
            exit code 0
            > --xla_flags
            error: --xla_flags: a value must follow
            exit code 2
            > --xla_flags=xla_dump_to=x
            error: --xla_flags: cannot read "xla_dump_to=x": No such file or directory (os error 2); a text without a leading -- names a file
            exit code 2
            > --optimization_level 5
            error: --optimization_level: expected O0, O1, O2 or O3, found "5"
            exit code 2
            > --dump_passes spmd
            error: --dump_passes: --dump_to must say where
            exit code 2
            > --dump_to /proc/no
            error: cannot write the dump /proc/no: No such file or directory (os error 2)
            exit code 2
            > --trace no/such/folder
            error: --trace: cannot write no/such/folder: No such file or directory (os error 2)
            exit code 2
            > --metrics_file no/such/folder
            error: --metrics_file: cannot write no/such/folder: No such file or directory (os error 2)
            exit code 2
        "#]],
    );
}

#[test]
fn flags_win_over_the_variable() {
    let words = ["devices", "--xla_flags=--xla_force_host_platform_device_count=2"];
    let output = command("--xla_force_host_platform_device_count=3", &words).output().unwrap();
    assert!(String::from_utf8_lossy(&output.stdout).contains("cpu, 2 devices"), "{output:?}");
}

/// A tiny run with its records in a folder.
fn train(folder: &Path, steps: u32, more: &[&str]) -> Output {
    let steps = steps.to_string();
    let words = [
        "train",
        "--config_name",
        "config.json",
        "--train_file",
        "text.txt",
        "--output_dir",
        "out",
        "--overwrite_output_dir",
        "--block_size",
        "16",
        "--per_device_train_batch_size",
        "1",
        "--cpu_devices",
        "4",
        "--fsdp",
        "full_shard",
        "--metrics_file",
        "metrics.json",
        "--max_steps",
        &steps,
    ];
    let output = command("", &[&words, more].concat()).current_dir(folder).output().unwrap();
    assert!(output.status.success(), "{}", show(&output));
    output
}

fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("config.json"), MODEL).unwrap();
    let text: String = (0..90).map(|i| format!("line {i} of {} words, more or less\n", i * 7 % 11)).collect();
    fs::write(folder.path().join("text.txt"), text).unwrap();
    folder
}

#[test]
fn more_steps_compile_nothing_and_copy_batches_only() {
    let folder = folder();
    let metrics = |steps, more: &[&str]| {
        train(folder.path(), steps, more);
        let text = fs::read_to_string(folder.path().join("metrics.json")).unwrap();
        serde_json::from_str::<Value>(&text).unwrap()
    };
    let more = |few: &Value, many: &Value, what: &str, count: &str| {
        many[what][count].as_u64().unwrap() - few[what][count].as_u64().unwrap()
    };
    let silent = ["--logging_strategy", "no"];
    let (few, many) = (metrics(2, &silent), metrics(5, &silent));
    assert_eq!(more(&few, &many, "compile", "count"), 0);
    assert_eq!(more(&few, &many, "execute", "count"), 3);
    // Tokens and labels are split over the four devices, and each has the three numbers of the step.
    assert_eq!(more(&few, &many, "to_device", "count"), 3 * 3 * 4);
    let (rows, numbers) = (4 * 16 * 4, 4 * 3 * 4);
    assert_eq!(more(&few, &many, "to_device", "bytes"), 3 * (2 * rows + numbers));
    // All losses come in one copy at the end.
    assert_eq!(more(&few, &many, "from_device", "count"), 0);
    // One that logs reads at each record.
    let each = ["--logging_steps", "1"];
    let (few, many) = (metrics(2, &each), metrics(5, &each));
    assert_eq!(more(&few, &many, "from_device", "count"), 3);
}

#[test]
fn a_run_leaves_a_timeline_and_dumps_when_asked_to() {
    let folder = folder();
    let output = train(folder.path(), 3, &["--trace", "trace.json", "--dump_to", "dump", "-v"]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("\ncompile "), "{stderr}");
    assert!(stderr.contains(" files in dump\n"), "{stderr}");
    let dumped: Vec<String> = fs::read_dir(folder.path().join("dump"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert!(dumped.iter().any(|name| name == "program_0001.train_step.stablehlo.mlir"), "{dumped:?}");
    assert!(dumped.iter().any(|name| name.ends_with("train_step.cpu_after_optimizations.txt")), "{dumped:?}");

    let trace = fs::read_to_string(folder.path().join("trace.json")).unwrap();
    let slices = slices(&serde_json::from_str::<Vec<Value>>(&trace).unwrap());
    let count = |name: &str| slices.iter().filter(|slice| *slice == name).count();
    assert_eq!(["prepare", "open plugin", "make parameters", "step", "save"].map(count), [1, 1, 1, 3, 1]);
    assert_eq!(["next batch", "read metrics", "make batch"].map(count), [3, 1, 3]);
    assert_eq!(count("on device"), 4 * count("execute"));
    assert!(count("compile") > 1 && count("execute") > 3 && count("to devices") > 9 && count("to host") > 3);
}

/// The names of all slices of a timeline; that they are whole, nested, and in order of time is checked.
fn slices(entries: &[Value]) -> Vec<String> {
    let mut open: BTreeMap<u64, Vec<&str>> = BTreeMap::new();
    let mut last: BTreeMap<u64, f64> = BTreeMap::new();
    let mut named: Vec<u64> = Vec::new();
    let mut slices = Vec::new();
    let mut flights = BTreeSet::new();
    for entry in entries {
        let (tid, ts) = (entry["tid"].as_u64().unwrap(), entry["ts"].as_f64().unwrap());
        let name = entry["name"].as_str().unwrap();
        let before = last.insert(tid, ts).unwrap_or(0.0);
        assert!(before <= ts, "thread {tid} goes back from {before} to {ts}");
        match entry["ph"].as_str().unwrap() {
            "M" if name == "thread_name" => named.push(tid),
            "M" => {}
            "B" => open.entry(tid).or_default().push(name),
            "E" => {
                assert_eq!(open.get_mut(&tid).and_then(Vec::pop), Some(name), "in thread {tid}");
                slices.push(name.to_owned());
            }
            "b" => {
                assert!(flights.insert(entry["id"].as_u64().unwrap()), "{entry}");
                slices.push(name.to_owned());
            }
            // The last ones may end behind the timeline.
            "e" => assert!(flights.remove(&entry["id"].as_u64().unwrap()), "{entry}"),
            "i" => assert!(named.contains(&tid)),
            other => panic!("phase {other}"),
        }
    }
    assert!(open.values().all(Vec::is_empty), "{open:?} do not end");
    assert!(open.keys().all(|tid| named.contains(tid)), "{named:?}");
    slices
}
