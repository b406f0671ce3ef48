//! What `shardwright doctor` tells of plugins that work, are missing, crash, hang or end the process.

mod command;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use expect_test::{Expect, expect};
use serde_json::Value;
use shardwright::runtime::plugins::{Environment, PinnedPlugins, PluginRequest, resolve};
use tempfile::TempDir;

/// A home folder, and a machine on which nothing is installed or set.
struct Home(TempDir);

impl Home {
    fn new() -> Home {
        Home(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> PathBuf {
        self.0.path().canonicalize().unwrap()
    }

    /// A shared library made by the C compiler, which a Rust toolchain needs as its linker.
    fn library(&self, name: &str, code: &str) -> PathBuf {
        let (source, library) = (self.path().join("plugin.c"), self.path().join(name));
        fs::write(&source, code).unwrap();
        let status = Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source).status();
        assert!(status.expect("a C compiler is there").success());
        library
    }

    fn doctor(&self, words: &[&str], variables: &[(&str, &str)]) -> Output {
        self.command(words, variables).output().unwrap()
    }

    fn command(&self, words: &[&str], variables: &[(&str, &str)]) -> Command {
        let mut command = command::command(&["doctor"]);
        // In the part of a Python that has pip.
        command.env_clear().env("HOME", self.path()).env("SHARDWRIGHT_PYTHON", "/bin/echo");
        command.envs(variables.iter().copied());
        command.args(words);
        command
    }

    /// What is said of plugin and devices, the last words, and the exit code.
    fn check(&self, words: &[&str], variables: &[(&str, &str)], expect: Expect) {
        let output = self.doctor(words, variables);
        let stdout = String::from_utf8(output.stdout).unwrap();
        let lines: Vec<&str> = stdout.lines().take_while(|line| *line != "cache").collect();
        let stderr = String::from_utf8(output.stderr).unwrap();
        let code = output.status.code().unwrap();
        let text = format!("{}\n{stderr}exit code {code}\n", lines.join("\n"));
        expect.assert_eq(&text.replace(self.path().to_str().unwrap(), "$"));
    }

    /// The same of a plugin whose entry point has this body.
    fn check_plugin(&self, body: &str, words: &[&str], expect: Expect) {
        let code = format!(
            "#include <stdio.h>\n#include <stdlib.h>\n#include <unistd.h>\nvoid *GetPjrtApi(void) {{ {body} }}\n"
        );
        let library = self.library("plugin.so", &code);
        self.check(&[&["--plugin", library.to_str().unwrap()], words].concat(), &[], expect);
    }
}

/// The folder of the pinned plugins that tests use; the default one is fetched on first use.
fn cache() -> PathBuf {
    let environment = Environment::from_process();
    let request = PluginRequest { plugin: Some("cpu".into()), ..PluginRequest::default() };
    resolve(&request, PinnedPlugins::embedded(), &environment, &mut |_| {}).unwrap();
    environment.cache_folder().unwrap()
}

#[test]
fn the_default_plugin_is_healthy() {
    let cache = cache();
    let variables = [("SHARDWRIGHT_CACHE_DIR", cache.to_str().unwrap()), ("CPU_NUM_DEVICES", "2")];
    let output = Home::new().doctor(&["--json"], &variables);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((output.status.code(), &report["healthy"]), (Some(0), &Value::Bool(true)), "{report:#}");

    let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>().join(" ");
    expect!["shardwright healthy plugin checks"].assert_eq(&keys(&report));
    expect!["name path chosen package pjrt_api stablehlo xla extensions missing_functions platform devices"]
        .assert_eq(&keys(&report["plugin"]));
    let pin = PinnedPlugins::embedded().default_plugin();
    assert_eq!(report["plugin"]["pjrt_api"], format!("{}.{}", pin.pjrt_api.0, pin.pjrt_api.1));
    assert_eq!(report["plugin"]["devices"], 2);
    for check in report["checks"].as_array().unwrap() {
        assert_eq!(keys(check), "section name status text next");
    }
    let named = |name: &str| {
        let checks = report["checks"].as_array().unwrap();
        checks.iter().find(|check| check["name"] == name).unwrap()["text"].as_str().unwrap().to_owned()
    };
    assert_eq!(named("0 to 1"), "cpu; memories: device (default), pinned_host, unpinned_host");
    assert_eq!(named("CPU_NUM_DEVICES"), "2");
    assert!(named("extensions").contains("Layouts"));
}

#[test]
fn a_plugin_that_is_not_fetched_yet_is_a_warning() {
    Home::new().check(&[], &[], expect![[r#"
        plugin
          warning  file  cpu, not fetched yet (cpu: lammps-jax-pjrt-cpu 0.11.2, by default), 59.8 MiB to download
                         next: the first run fetches it, and so does `shardwright plugins fetch cpu`
        exit code 0
    "#]]);
}

#[test]
fn what_stands_in_the_way_of_fetching_it_is_a_problem() {
    let home = Home::new();
    fs::write(home.path().join("file"), "").unwrap();
    let check = |variables: &[(&str, &str)], part: &str| {
        let output = home.doctor(&[], variables);
        let text = String::from_utf8(output.stdout).unwrap();
        assert_eq!(output.status.code(), Some(3), "{text}");
        assert!(text.contains(part), "{text}");
        assert!(text.ends_with("1 problem, 1 warning\n"), "{text}");
    };
    check(&[("HOME", "")], "problem  folder    there is none, for HOME is not set");
    let file = home.path().join("file");
    check(&[("SHARDWRIGHT_CACHE_DIR", file.to_str().unwrap())], "file is no folder");
    check(&[("SHARDWRIGHT_PYTHON", "/bin/false")], "/bin/false has none");
    check(&[("SHARDWRIGHT_PYTHON", "~/no/python")], "no/python: No such file or directory");
}

#[test]
fn what_is_wrong_with_the_request_is_a_problem() {
    let home = Home::new();
    home.check(&["--plugin", "cpuu"], &[], expect![[r#"
        plugin
          problem  file  unknown plugin "cpuu" (given by --plugin): did you mean cpu?; known are cpu, cpu-0.106, cpu-0.81, libtpu; for a file of your own pass --plugin PATH, with a separator or the ending of a shared library in it
        error: doctor found 1 problem
        exit code 3
    "#]]);
    home.check(&[], &[("PJRT_DEVICE", "QPU")], expect![[r#"
        plugin
          problem  file  there is no plugin for PJRT_DEVICE=QPU: did you mean TPU?; there are plugins for CPU, TPU; for another device name its plugin with --plugin PATH or PJRT_NAMES_AND_LIBRARY_PATHS=qpu:PATH
        error: doctor found 1 problem
        exit code 3
    "#]]);
    home.check(&["--plugin", "~/none.so"], &[], expect![[r#"
        plugin
          problem  file  plugin file "$/none.so" does not exist (given by --plugin as "~/none.so"); pass --plugin with an existing file or one of cpu, cpu-0.106, cpu-0.81, libtpu
        error: doctor found 1 problem
        exit code 3
    "#]]);
}

#[test]
fn plugins_that_are_not_used_are_listed_with_the_reason() {
    let home = Home::new();
    let packages = home.path().join(".local/lib/python3.12/site-packages");
    for file in ["libtpu/libtpu.so", "libtpu-0.0.40.dist-info/METADATA"] {
        fs::create_dir_all(packages.join(file).parent().unwrap()).unwrap();
        fs::write(packages.join(file), "").unwrap();
    }
    home.check(&[], &[], expect![[r#"
        plugin
          warning  file      cpu, not fetched yet (cpu: lammps-jax-pjrt-cpu 0.11.2, by default), 59.8 MiB to download
                             next: the first run fetches it, and so does `shardwright plugins fetch cpu`
          ok       not used  $/.local/lib/python3.12/site-packages/libtpu/libtpu.so (libtpu 0.0.40, as an installed Python package): this machine has no TPU
        exit code 0
    "#]]);
    let libtpu = packages.join("libtpu/libtpu.so");
    home.check(&["--plugin", libtpu.to_str().unwrap()], &[], expect![[r#"
        plugin
          ok       file     $/.local/lib/python3.12/site-packages/libtpu/libtpu.so (by --plugin)
          ok       digest   not a pinned plugin, so there is none to compare with
          problem  loading  plugin "$/.local/lib/python3.12/site-packages/libtpu/libtpu.so" is the TPU's, and this machine has no TPU: neither /dev/accel0 nor a TPU in /dev/vfio; loading it would hang, asking for its cloud's metadata; to run here use another plugin, such as --plugin cpu; to compile for TPUs that are elsewhere start this program with TPU_SKIP_MDS_QUERY=1
        error: doctor found 1 problem
        exit code 3
    "#]]);
}

#[test]
fn a_damaged_plugin_is_a_problem() {
    let home = Home::new();
    let pin = PinnedPlugins::embedded().default_plugin();
    let folder = home.path().join(format!(
        ".cache/shardwright/plugins/{}-{}/{}",
        pin.package,
        pin.version,
        &pin.file_sha256.to_string()[..16]
    ));
    fs::create_dir_all(&folder).unwrap();
    let file = fs::File::create(folder.join(Path::new(&pin.file).file_name().unwrap())).unwrap();
    file.set_len(pin.file_bytes).unwrap();
    let output = home.doctor(&[], &[]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(3), "{text}");
    assert!(text.contains("is not the pinned file"), "{text}");
    assert!(text.contains("the file does not begin as ELF files do"), "{text}");
    assert!(text.ends_with("2 problems, 0 warnings\n"), "{text}");
}

#[test]
fn a_plugin_that_crashes_does_not_take_doctor_with_it() {
    let home = Home::new();
    home.check_plugin(
        "fprintf(stderr, \"last words\\n\"); abort();",
        &[],
        expect![[r#"
        plugin
          ok       file     $/plugin.so (by --plugin)
          ok       digest   not a pinned plugin, so there is none to compare with
          problem  loading  the plugin ended the process: signal: 6 (SIGABRT)
                              last words
                            next: use another plugin with --plugin, or report this to those who made it
        error: doctor found 1 problem
        exit code 3
    "#]],
    );
    home.check_plugin(
        "*(volatile int *)0 = 1; return 0;",
        &[],
        expect![[r#"
        plugin
          ok       file     $/plugin.so (by --plugin)
          ok       digest   not a pinned plugin, so there is none to compare with
          problem  loading  the plugin ended the process: signal: 11 (SIGSEGV)
                            next: use another plugin with --plugin, or report this to those who made it
        error: doctor found 1 problem
        exit code 3
    "#]],
    );
}

#[test]
fn a_plugin_that_ends_the_process_is_a_problem() {
    let home = Home::new();
    home.check_plugin(
        "printf(\"unknown flag\\n\"); fflush(stdout); exit(1);",
        &[],
        expect![[r#"
            plugin
              ok       file     $/plugin.so (by --plugin)
              ok       digest   not a pinned plugin, so there is none to compare with
              problem  loading  the plugin ended the process: exit status: 1
                                  unknown flag
                                next: use another plugin with --plugin, or report this to those who made it
            error: doctor found 1 problem
            exit code 3
        "#]],
    );
    home.check_plugin(
        "_exit(0);",
        &[],
        expect![[r#"
            plugin
              ok       file     $/plugin.so (by --plugin)
              ok       digest   not a pinned plugin, so there is none to compare with
              problem  loading  the plugin ended the process: exit status: 0
                                next: use another plugin with --plugin, or report this to those who made it
            error: doctor found 1 problem
            exit code 3
        "#]],
    );
}

#[test]
fn a_plugin_that_hangs_is_given_up() {
    let home = Home::new();
    home.check_plugin(
        "for (;;) sleep(1);",
        &["--timeout", "1"],
        expect![[r#"
            plugin
              ok       file     $/plugin.so (by --plugin)
              ok       digest   not a pinned plugin, so there is none to compare with
              problem  loading  not done after 1 s
                                next: use another plugin, or give it more time with --timeout
            error: doctor found 1 problem
            exit code 3
        "#]],
    );
    // One that also closes its streams.
    home.check_plugin(
        "close(1); close(2); for (;;) sleep(1);",
        &["--timeout", "1"],
        expect![[r#"
            plugin
              ok       file     $/plugin.so (by --plugin)
              ok       digest   not a pinned plugin, so there is none to compare with
              problem  loading  not done after 1 s
                                next: use another plugin, or give it more time with --timeout
            error: doctor found 1 problem
            exit code 3
        "#]],
    );
}

#[test]
fn a_library_that_is_no_plugin_is_a_problem() {
    let home = Home::new();
    home.check_plugin(
        "printf(\"not done\"); fflush(stdout); return 0;",
        &[],
        expect![[r#"
            plugin
              ok       file     $/plugin.so (by --plugin)
              ok       digest   not a pinned plugin, so there is none to compare with
              problem  loading  plugin has no API: $/plugin.so: GetPjrtApi returned null
                                  not done
                                next: mend that, or use another plugin with --plugin
            error: doctor found 1 problem
            exit code 3
        "#]],
    );
    let library = home.library("other.so", "int f(void) { return 1; }");
    home.check(
        &["--plugin", library.to_str().unwrap()],
        &[],
        expect![[r#"
            plugin
              ok       file     $/other.so (by --plugin)
              ok       digest   not a pinned plugin, so there is none to compare with
              problem  loading  not a PJRT plugin: $/other.so: $/other.so: undefined symbol: GetPjrtApi
                                next: mend that, or use another plugin with --plugin
            error: doctor found 1 problem
            exit code 3
        "#]],
    );
}

#[test]
fn a_doctor_that_is_killed_takes_its_child_with_it() {
    let home = Home::new();
    let pid = home.path().join("pid");
    let code = format!(
        "#include <stdio.h>\n#include <unistd.h>\nvoid *GetPjrtApi(void) {{ \
         FILE *file = fopen({:?}, \"w\"); fprintf(file, \"%d.\", getpid()); fclose(file); for (;;) pause(); }}",
        pid.to_str().unwrap()
    );
    let library = home.library("plugin.so", &code);
    let mut doctor = home.command(&["--plugin", library.to_str().unwrap()], &[]);
    let mut doctor = doctor.stdout(Stdio::null()).spawn().unwrap();
    let written = || fs::read_to_string(&pid).ok().filter(|text| text.ends_with('.'));
    wait_until(|| written().is_some());
    let child = written().unwrap().trim_end_matches('.').to_owned();
    assert!(is_running(&child));
    doctor.kill().unwrap();
    doctor.wait().unwrap();
    wait_until(|| !is_running(&child));
}

fn is_running(pid: &str) -> bool {
    let status = fs::read_to_string(Path::new("/proc").join(pid).join("stat")).unwrap_or_default();
    // A process that has ended stays listed, as a zombie, until somebody asks for its status.
    !status.is_empty() && !status.contains(") Z ")
}

/// Waits for what is to happen soon, for as long as a busy machine may take.
#[track_caller]
fn wait_until(mut happened: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !happened() {
        assert!(Instant::now() < deadline, "it has not happened");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_plugin_that_writes_without_end_of_line_takes_no_memory() {
    let home = Home::new();
    let code = "#include <stdlib.h>\n#include <unistd.h>\n\
        void *GetPjrtApi(void) { static char text[1 << 20]; for (int i = 0; i < sizeof text; i++) text[i] = 'a'; \
        for (int i = 0; i < 1000; i++) write(2, text, sizeof text); _exit(9); }";
    let library = home.library("plugin.so", code);
    let doctor = home.command(&["--plugin", library.to_str().unwrap()], &[]);
    // A thousand MiB are written, and all of doctor has less.
    let mut limited = Command::new("/bin/sh");
    limited
        .args(["-c", "ulimit -v 700000; exec \"$0\" \"$@\""])
        .arg(doctor.get_program())
        .args(doctor.get_args());
    limited.env_clear().envs(doctor.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let output = limited.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    assert!(text.contains("the plugin ended the process: exit status: 9"), "{text}");
    let longest = text.lines().map(str::len).max().unwrap();
    assert!(longest < 1000, "{longest}");
}

#[test]
fn the_cache_of_a_run_with_the_same_flags_is_looked_at() {
    let home = Home::new();
    let shared = home.path().join("shared");
    fs::create_dir(&shared).unwrap();
    fs::set_permissions(&shared, PermissionsExt::from_mode(0o775)).unwrap();
    let compiled = |words: &[&str], variables: &[(&str, &str)]| {
        let output = home.doctor(words, variables);
        let text = String::from_utf8(output.stdout).unwrap();
        let line = text.lines().find(|line| line.contains("  compiled  "));
        let line = line.unwrap_or_else(|| panic!("{text}{}", String::from_utf8_lossy(&output.stderr)));
        format!("{}\n", line.trim_start().replace(home.path().to_str().unwrap(), "$"))
    };
    let (own, limit) = ("SHARDWRIGHT_COMPILE_CACHE", "SHARDWRIGHT_COMPILE_CACHE_LIMIT");
    let shared = shared.to_str().unwrap();
    expect![[r#"
          ok       compiled  $/.cache/shardwright/compiled: 0 programs, 0 B of at most 512.0 MiB
          ok       compiled  off
          problem  compiled  the compile cache is "no", expected on, off, ro, a folder with a separator in it, or such a folder and :ro; for a folder of that name write ./no
          warning  compiled  $/shared: others can write to it (mode 775); take that from them with chmod go-w
          warning  compiled  /dev/null/compiled: /dev/null cannot be written: it is not a folder
          problem  compiled  SHARDWRIGHT_COMPILE_CACHE_LIMIT is "much", expected a number of gibibytes above 0, such as 0.5
    "#]].assert_eq(
        &[
            compiled(&[], &[(limit, "0.5")]),
            compiled(&["--compile_cache=off"], &[(own, shared)]),
            compiled(&["--compile_cache=no"], &[]),
            compiled(&["--compile_cache", shared], &[]),
            compiled(&[], &[(own, "/dev/null/compiled")]),
            compiled(&[], &[(limit, "much")]),
        ]
        .concat(),
    );
    let output = home.doctor(&["--compile_in_process", "--compile_timeout=5"], &[]);
    assert_eq!(output.status.code(), Some(2), "as for a run");
}

#[test]
fn flags_for_the_compiler_are_tried_as_a_run_tries_them() {
    let cache = cache();
    let variables = [("SHARDWRIGHT_CACHE_DIR", cache.to_str().unwrap())];
    let output = Home::new().doctor(&["--xla_flags=--xla_no_such_flag=1"], &variables);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.contains("problem  opening  --xla_flags: the compiler has no flag xla_no_such_flag"),
        "{text}"
    );
}
