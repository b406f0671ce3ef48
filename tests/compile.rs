//! What the command keeps of a run's programs, and how it compiles them.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use expect_test::expect;
use tempfile::TempDir;

const MODEL: &str = r#"{"model_type": "llama", "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1,
    "num_attention_heads": 2, "num_key_value_heads": 2, "vocab_size": 300, "max_position_embeddings": 32}"#;

struct Folder(TempDir);

impl Folder {
    fn new() -> Folder {
        let folder = Folder(tempfile::tempdir().unwrap());
        fs::write(folder.path().join("config.json"), MODEL).unwrap();
        fs::write(folder.path().join("text.txt"), "to be or not to be\n".repeat(20)).unwrap();
        folder
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    /// Trains for two steps on two devices.
    fn train(&self, flags: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_shardwright"));
        command.args([
            "train",
            "--config_name",
            "config.json",
            "--train_file",
            "text.txt",
            "--output_dir",
            "out",
        ]);
        command.args([
            "--block_size",
            "16",
            "--max_steps",
            "2",
            "--cpu_devices",
            "2",
            "--overwrite_output_dir",
        ]);
        command.args(flags).current_dir(self.path()).env_remove("SHARDWRIGHT_COMPILE_CACHE");
        command.output().unwrap()
    }
}

/// What a run that comes to its end says of the compiler, and its last loss.
#[track_caller]
fn told(output: &Output) -> (bool, String) {
    assert!(output.status.success(), "{}", text(&output.stderr));
    let told = text(&output.stdout);
    let line =
        |beginning| told.lines().find(|line| line.starts_with(beginning)).unwrap_or_else(|| panic!("{told}"));
    let (compiled, loss) = (line("compiled "), line("loss "));
    (compiled.contains("before, and loaded"), loss.to_owned())
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_second_start_compiles_nothing_and_gives_the_same() {
    let folder = Folder::new();
    let cache = ["--compile_cache", "compiled"];
    let (is_kept, first) = told(&folder.train(&cache));
    assert!(!is_kept);
    let entries = || {
        let names = fs::read_dir(folder.path().join("compiled")).unwrap().map(|e| e.unwrap().file_name());
        names.collect::<std::collections::BTreeSet<_>>()
    };
    let before = entries();
    let (is_kept, second) = told(&folder.train(&cache));
    assert!(is_kept);
    assert_eq!(first, second);
    assert_eq!(entries(), before, "every program was there");

    let (is_kept, without) = told(&folder.train(&["--compile_cache", "off", "--compile_in_process"]));
    assert!(!is_kept);
    assert_eq!(first, without);
}

#[test]
fn a_compiler_that_is_given_up_is_an_error_with_a_hint() {
    let folder = Folder::new();
    // More work for the compiler than a second suffices for, on any machine.
    let deep = MODEL.replace("\"num_hidden_layers\": 1", "\"num_hidden_layers\": 60");
    fs::write(folder.path().join("config.json"), deep).unwrap();
    let output = folder.train(&["--compile_cache", "off", "--compile_timeout", "1", "-q"]);
    assert_eq!(output.status.code(), Some(1));
    expect![[r#"
        error: program train_step: the compiler, in a process of its own, was stopped after 1 s
        hint: --compile_timeout sets how many seconds a compiler may take
    "#]]
    .assert_eq(&text(&output.stderr));
}

#[test]
fn wrong_flags_are_refused() {
    let folder = Folder::new();
    let said = |flags: &[&str]| {
        let output = folder.train(flags);
        assert_eq!(output.status.code(), Some(2));
        text(&output.stderr)
    };
    expect![[r#"
        error: the compile cache is "", expected on, off, ro, a folder, or a folder and :ro
        error: --compile_timeout: expected a whole number of at least 1, found "soon"
        error: --compile_memory: expected a whole number of at least 1, found "0"
    "#]]
    .assert_eq(
        &[["--compile_cache", ""], ["--compile_timeout", "soon"], ["--compile_memory", "0"]]
            .map(|f| said(&f))
            .concat(),
    );
}
