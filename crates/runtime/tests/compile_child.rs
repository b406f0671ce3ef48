//! Compiling in a child process, and all the ways in which the child can die.
//!
//! The child is this very program, so its `main` is its own: what is asked to compile does so, and otherwise the cases
//! run one after the other.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use shardwright_pjrt::{ClientOptions, CompileOptions};
use shardwright_runtime::compile::{
    ChildCompiler, CompileCache, CompiledBy, CompilerDeath, Ending, ForeignProgram, serve_if_asked,
};
use shardwright_runtime::{Runtime, RuntimeError, RuntimeErrorKind, RuntimeOptions};
use tempfile::TempDir;

const NEGATE: &str = "module @negate {
    func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
        %y = stablehlo.negate %x : tensor<2xf32>
        return %y : tensor<2xf32>
    }
}";

fn main() {
    let compiler = serve_if_asked().unwrap();
    let stage = Stage { compiler, folder: tempfile::tempdir().unwrap() };
    stage.a_program_is_compiled_in_a_child_and_kept();
    stage.an_error_of_the_plugin_is_the_same_error();
    stage.exits_and_signals_are_told_with_what_was_said();
    stage.a_crash_of_the_compiler_is_an_error();
    stage.a_flag_that_ends_the_compiler_is_an_error();
    stage.a_compiler_that_hangs_is_stopped_with_what_it_started();
    stage.other_programs_are_seen_to_be_others();
    stage.memory_is_limited();
    stage.a_plugin_that_was_replaced_is_compiled_with_in_this_process();
    stage.a_child_ends_with_its_parent();
}

struct Stage {
    /// This program.
    compiler: ChildCompiler,
    folder: TempDir,
}

impl Stage {
    fn runtime(child: ChildCompiler) -> Runtime {
        let mut options = RuntimeOptions::cpu_devices(2);
        options.compile.child = Some(child);
        Runtime::open(&options).unwrap()
    }

    fn compile(child: ChildCompiler, code: &str) -> Result<CompiledBy, RuntimeError> {
        let program = ForeignProgram::recognise(code.as_bytes()).unwrap();
        let compiled = Stage::runtime(child).compile_foreign(&program, &CompileOptions::default());
        compiled.map(|executable| executable.compilation().by)
    }

    /// A program that is a shell script; `$self` is this program.
    fn script(&self, text: &str) -> ChildCompiler {
        let path = self.folder.path().join("script");
        let this = std::env::current_exe().unwrap();
        fs::write(&path, format!("#!/bin/sh\nself='{}'\n{text}\n", this.display())).unwrap();
        fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
        ChildCompiler::command(path)
    }

    #[track_caller]
    fn death(child: ChildCompiler, code: &str) -> CompilerDeath {
        let error = Stage::compile(child, code).unwrap_err();
        assert_eq!(error.kind(), RuntimeErrorKind::CompilerDied, "{error}");
        let death = error.compiler_death().unwrap().clone();
        assert_eq!(death.to_string(), error.to_string());
        death
    }

    fn a_program_is_compiled_in_a_child_and_kept(&self) {
        let mut options = RuntimeOptions::cpu_devices(2);
        options.compile.child = Some(self.compiler.clone());
        options.compile.cache = Some(CompileCache::new(self.folder.path().join("compiled")));
        let program = ForeignProgram::recognise(NEGATE.as_bytes()).unwrap();
        for expected in [CompiledBy::Child, CompiledBy::Cache] {
            let runtime = Runtime::open(&options).unwrap();
            let executable = runtime.compile_foreign(&program, &CompileOptions::default()).unwrap();
            assert_eq!(executable.compilation().by, expected);
            assert_eq!(executable.argument_types()[0].to_string(), "f32[2]");
        }
    }

    fn an_error_of_the_plugin_is_the_same_error(&self) {
        let wrong = NEGATE.replace("negate %x", "no_such_op %x");
        let program = ForeignProgram::recognise(wrong.as_bytes()).unwrap();
        let here = Runtime::open(&RuntimeOptions::cpu_devices(2)).unwrap();
        let expected = here.compile_foreign(&program, &CompileOptions::default()).unwrap_err();
        let found = Stage::compile(self.compiler.clone(), &wrong).unwrap_err();
        assert_eq!(found.to_string(), expected.to_string());
        assert_eq!(found.kind(), RuntimeErrorKind::Plugin);
    }

    fn exits_and_signals_are_told_with_what_was_said(&self) {
        for (act, expected) in [
            ("exit 3", Ending::Exited(3)),
            ("kill -ABRT $$", Ending::Signal(6)),
            ("kill -KILL $$", Ending::Signal(9)),
            ("kill -SEGV $$", Ending::Signal(11)),
        ] {
            let death = Stage::death(self.script(&format!("echo 'last words' >&2; {act}")), NEGATE);
            assert_eq!(*death.ending(), expected);
            assert_eq!(death.output(), "last words\n");
            assert!(death.to_string().starts_with("program negate: the compiler, in a process of its own, "));
            assert!(death.to_string().ends_with("\n  compiler: last words"), "{death}");
        }
    }

    fn a_crash_of_the_compiler_is_an_error(&self) {
        // Nested so deeply that the plugin's parser runs out of stack.
        let deep = 200_000;
        let code = format!("module {{\n{}{}}}", "module {\n".repeat(deep), "}\n".repeat(deep));
        let death = Stage::death(self.compiler.clone(), &code);
        assert!(matches!(death.ending(), Ending::Signal(6 | 11)), "{death}");
    }

    fn a_flag_that_ends_the_compiler_is_an_error(&self) {
        let script = self.script("XLA_FLAGS=--xla_no_such_flag=1 exec \"$self\" \"$@\"");
        let death = Stage::death(script, NEGATE);
        assert!(death.output().contains("--xla_no_such_flag=1"), "{death}");
    }

    fn a_compiler_that_hangs_is_stopped_with_what_it_started(&self) {
        let pid = self.folder.path().join("pid");
        let text = format!("echo working >&2; sleep 1000 & echo $! > {}; wait", pid.display());
        let limit = Duration::from_millis(500);
        let death = Stage::death(self.script(&text).with_time_limit(limit), NEGATE);
        assert_eq!(*death.ending(), Ending::TimedOut(limit));
        assert_eq!(death.output(), "working\n");
        let started = fs::read_to_string(pid).unwrap();
        wait_until(|| !is_running(started.trim()));
    }

    fn other_programs_are_seen_to_be_others(&self) {
        let absent = ChildCompiler::command(self.folder.path().join("absent"));
        let death = Stage::death(absent, NEGATE);
        assert!(matches!(death.ending(), Ending::NotStarted { .. }), "{death}");

        for (act, reason) in [
            ("echo usage: this and that", "it began with \"usage: this and that\\n\""),
            ("exit 0", "it ended without a word"),
            ("exec >&-; sleep 1000", "it closed its output and went on"),
            (
                "printf 'shardwright-compile-1\\nX\\377\\377\\377\\377\\377\\377\\377\\377'",
                "a frame of 18446744073709551615 bytes",
            ),
            ("printf 'shardwright-compile-1\\nYxxxxxxxxxxxxxxxxx'", "a frame of 8680820740569200760 bytes"),
        ] {
            let death = Stage::death(self.script(act), NEGATE);
            let Ending::Garbage { reason: found, .. } = death.ending() else { panic!("{death}") };
            assert_eq!(found, reason);
            assert!(death.to_string().contains("has to call shardwright_runtime::compile::serve_if_asked"));
        }
    }

    fn memory_is_limited(&self) {
        // A plugin does not fit into that.
        let error = Stage::compile(self.compiler.clone().with_memory_limit(200 << 20), NEGATE).unwrap_err();
        assert_eq!(error.kind(), RuntimeErrorKind::Plugin, "{error}");
        assert_eq!(error.compiler_memory_limit(), Some(200 << 20));
        assert!(error.to_string().ends_with(" (its memory was limited to 200.0 MiB)"), "{error}");
        let killed = self.script("kill -KILL $$").with_memory_limit(1 << 30);
        let error = Stage::compile(killed, NEGATE).unwrap_err();
        assert_eq!(error.kind(), RuntimeErrorKind::CompilerDied, "{error}");
        assert_eq!(error.compiler_memory_limit(), Some(1 << 30));
        let enough = Stage::compile(self.compiler.clone().with_memory_limit(64 << 30), NEGATE);
        assert_eq!(enough.unwrap(), CompiledBy::Child);
    }

    /// An upgrade of a package while a program runs.
    fn a_plugin_that_was_replaced_is_compiled_with_in_this_process(&self) {
        let real = Runtime::open(&RuntimeOptions::default()).unwrap().client().plugin().path().to_owned();
        let code = format!(
            "#include <dlfcn.h>\nvoid *GetPjrtApi(void) {{\n\
             void *plugin = dlopen(\"{}\", RTLD_NOW | RTLD_LOCAL);\n\
             return ((void *(*)(void))dlsym(plugin, \"GetPjrtApi\"))(); }}",
            real.display()
        );
        let plugin = self.library("upgraded", &code);
        let mut options = RuntimeOptions::cpu_devices(2);
        options.compile.child = Some(self.compiler.clone());
        options.compile.cache = Some(CompileCache::new(self.folder.path().join("upgraded.cache")));
        let runtime = Runtime::new(&plugin, &options).unwrap();
        let compile = |op: &str| {
            let program = ForeignProgram::recognise(NEGATE.replace("negate %x", op).as_bytes()).unwrap();
            runtime.compile_foreign(&program, &CompileOptions::default()).unwrap().compilation().by
        };
        assert_eq!(compile("negate %x"), CompiledBy::Child);
        assert_eq!(compile("negate %x"), CompiledBy::Cache);
        fs::rename(self.hanging_plugin(), &plugin).unwrap();
        assert_eq!(compile("abs %x"), CompiledBy::Process, "a child would load the other one, which hangs");
        assert_eq!(compile("abs %x"), CompiledBy::Process, "and nothing is kept");
        assert_eq!(compile("negate %x"), CompiledBy::Cache, "that is of the plugin which is loaded");
    }

    fn a_child_ends_with_its_parent(&self) {
        let plugin = self.hanging_plugin();
        let mut child = start_child();
        let mut hello = [0; 22];
        child.stdout.as_mut().unwrap().read_exact(&mut hello).unwrap();
        assert_eq!(&hello, b"shardwright-compile-1\n");
        let request = serde_json::json!({
            "plugin": plugin,
            "client_options": ClientOptions::default(),
            "format": "Mlir",
            "options": CompileOptions::default(),
            "memory_limit": null,
        });
        let mut stdin = child.stdin.take().unwrap();
        for (kind, content) in [(b'Q', request.to_string()), (b'C', NEGATE.to_owned())] {
            stdin.write_all(&[kind]).unwrap();
            stdin.write_all(&(content.len() as u64).to_le_bytes()).unwrap();
            stdin.write_all(content.as_bytes()).unwrap();
        }
        // The plugin says that it hangs now.
        let mut word = [0; 7];
        child.stderr.as_mut().unwrap().read_exact(&mut word).unwrap();
        assert_eq!(&word, b"hanging");
        assert!(child.try_wait().unwrap().is_none());

        drop(stdin);
        wait_until(|| child.try_wait().unwrap().is_some());
        assert_eq!(child.wait().unwrap().code(), Some(70));
    }

    /// A library that never comes back from being asked for its functions. It prints that, on stdout, which a child
    /// has for replies only.
    fn hanging_plugin(&self) -> PathBuf {
        let code = "#include <stdio.h>\n#include <unistd.h>\n\
            void *GetPjrtApi(void) { printf(\"hanging\"); fflush(stdout); for (;;) pause(); }";
        self.library("hang", code)
    }

    fn library(&self, name: &str, code: &str) -> PathBuf {
        let (source, library) = (self.folder.path().join("source.c"), self.folder.path().join(name));
        let library = library.with_extension("so");
        fs::write(&source, code).unwrap();
        let mut cc = Command::new("cc");
        cc.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source);
        assert!(cc.status().expect("a C compiler is there").success());
        library
    }
}

/// This program as a child, with pipes.
fn start_child() -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.arg("shardwright-compile").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

fn is_running(pid: &str) -> bool {
    let status = fs::read_to_string(Path::new("/proc").join(pid).join("stat")).unwrap_or_default();
    // A process that has ended stays listed, as a zombie, until somebody asks for its status.
    !status.is_empty() && !status.contains(") Z ")
}

/// Waits for what is to happen soon, for as long as a busy machine may take.
#[track_caller]
fn wait_until(mut happened: impl FnMut() -> bool) {
    for _ in 0..3000 {
        if happened() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("it has not happened");
}
