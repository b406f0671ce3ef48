//! What the command keeps of a run's programs, and how it compiles them.

mod command;

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use expect_test::{Expect, expect};
use shardwright::runtime::plugins::{Environment, PinnedPlugins, PluginRequest, resolve};
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
        let words = [
            "train",
            "--config_name",
            "config.json",
            "--train_file",
            "text.txt",
            "--output_dir",
            "out",
            "--block_size",
            "16",
            "--max_steps",
            "2",
            "--cpu_devices",
            "2",
            "--overwrite_output_dir",
        ];
        let mut command = command::command(&[&words, flags].concat());
        command.current_dir(self.path());
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
    let cache = ["--compile_cache", "./compiled"];
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

    let (is_kept, without) = told(&folder.train(&["--compile_in_process"]));
    assert!(!is_kept);
    assert_eq!(first, without);
}

/// A plugin that is the default one in processes that train, and that does this in those that compile.
fn plugin_for_children(folder: &Folder, body: &str) -> String {
    let request = PluginRequest { plugin: Some("cpu".into()), ..PluginRequest::default() };
    let real =
        resolve(&request, PinnedPlugins::embedded(), &Environment::from_process(), &mut |_| {}).unwrap();
    let code = format!(
        r#"#include <dlfcn.h>
        #include <signal.h>
        #include <stdio.h>
        #include <string.h>
        #include <unistd.h>
        void *GetPjrtApi(void) {{
            char words[4096] = "";
            FILE *file = fopen("/proc/self/cmdline", "r");
            size_t size = fread(words, 1, sizeof words - 1, file);
            for (size_t i = 0; i < size; i++) if (!words[i]) words[i] = ' ';
            if (strstr(words, "shardwright-compile")) {{ {body} }}
            void *plugin = dlopen({:?}, RTLD_NOW | RTLD_LOCAL);
            return ((void *(*)(void))dlsym(plugin, "GetPjrtApi"))();
        }}"#,
        real.path.to_str().unwrap()
    );
    let (source, library) = (folder.path().join("plugin.c"), folder.path().join("plugin.so"));
    fs::write(&source, code).unwrap();
    let cc = Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source).status();
    assert!(cc.expect("a C compiler is there").success());
    library.to_str().unwrap().to_owned()
}

#[test]
fn a_compiler_that_gives_no_answer_is_an_error_with_a_hint() {
    let check = |body: &str, flags: &[&str], expect: Expect| {
        let folder = Folder::new();
        let plugin = plugin_for_children(&folder, body);
        let output = folder.train(&[&["--plugin", &plugin, "-q"], flags].concat());
        assert_eq!(output.status.code(), Some(1));
        // Programs are compiled side by side, and which of them ends first is not said.
        let said = text(&output.stderr)
            .replace("program normal", "program …")
            .replace("program train_step", "program …");
        expect.assert_eq(&said);
    };
    check(
        "for (;;) pause();",
        &["--compile_timeout", "1"],
        expect![[r#"
        error: program …: the compiler, in a process of its own, was stopped after 1 s
        hint: --compile_timeout sets how many seconds a compiler may take
    "#]],
    );
    check(
        "raise(SIGKILL);",
        &[],
        expect![[r#"
        error: program …: the compiler, in a process of its own, was ended by signal 9 (SIGKILL)
        hint: the system ends processes so when it runs out of memory, which its log then tells
    "#]],
    );
    check(
        "raise(SIGKILL);",
        &["--compile_memory", "100"],
        expect![[r#"
        error: program …: the compiler, in a process of its own, was ended by signal 9 (SIGKILL) (its memory was limited to 100.0 GiB)
        hint: --compile_memory sets how many gibibytes of address space a compiler may use
    "#]],
    );
}

#[test]
fn wrong_flags_are_refused() {
    let folder = Folder::new();
    let said = |flags: &&[&str]| {
        let output = folder.train(flags);
        assert_eq!(output.status.code(), Some(2));
        text(&output.stderr)
    };
    let wrong: [&[&str]; 7] = [
        &["--compile_cache", ""],
        &["--compile_cache=no"],
        &["--compile_cache=~joe/compiled"],
        &["--compile_timeout", "soon"],
        &["--compile_memory", "0"],
        &["--compile_in_process", "--compile_timeout", "5"],
        &["--compile_memory=5", "--compile_in_process"],
    ];
    expect![[r#"
        error: the compile cache is "", expected on, off, ro, a folder with a separator in it, or such a folder and :ro
        error: the compile cache is "no", expected on, off, ro, a folder with a separator in it, or such a folder and :ro; for a folder of that name write ./no
        error: the compile cache is "~joe/compiled", and which folder ~name is only a shell knows; write the folder in full, or ./~joe/compiled for one of that name
        error: --compile_timeout: expected a whole number of at least 1, found "soon"
        error: --compile_memory: expected a whole number of at least 1, found "0"
        error: --compile_timeout: with --compile_in_process nothing can stop a compiler; leave one of the two out
        error: --compile_memory: with --compile_in_process nothing can stop a compiler; leave one of the two out
    "#]].assert_eq(&wrong.iter().map(said).collect::<String>());
}

#[test]
fn the_log_says_how_each_program_was_compiled() {
    let folder = Folder::new();
    for (by, count) in [(" was compiled in a child process in ", 2), (" was kept, and loaded in ", 2)] {
        let output = folder.train(&["--compile_cache", "./compiled", "-v"]);
        let said = text(&output.stderr);
        let lines: Vec<&str> = said.lines().filter(|line| line.starts_with(" INFO program ")).collect();
        assert!(lines.len() >= count && lines.iter().all(|line| line.contains(by)), "{said}");
    }
}
