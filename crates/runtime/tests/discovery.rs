//! Which plugin is used on which machine. A machine is text: its files, its variables, and whether it has a TPU.

#![cfg(unix)]

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use expect_test::{Expect, expect};
use shardwright_runtime::plugins::{
    Environment, PinnedPlugins, PluginError, PluginErrorKind, PluginRequest, check_before_loading, discover,
};
use tempfile::TempDir;

/// What a file of a machine holds unless the text says otherwise: as many bytes as the CPU's pin has.
const CONTENT: &str = "plug";

/// The same of the pin for TPUs, so that a library of another size is another version.
const PINNED: &str = "pinned";

/// A pin for the CPU and one for TPUs.
fn pins() -> PinnedPlugins {
    let pin = |name: &str, device: &str, file: &str, bytes: usize| {
        let (os, arch, digest) = (std::env::consts::OS, std::env::consts::ARCH, "00".repeat(32));
        format!(
            r#"
                [[plugin]]
                name = "{name}"
                device = "{device}"
                package = "{name}"
                version = "1.0"
                os = "{os}"
                arch = "{arch}"
                wheel = "{name}-1.0-py3-none-any.whl"
                wheel_bytes = 1
                wheel_sha256 = "{digest}"
                file = "{file}"
                file_bytes = {bytes}
                file_sha256 = "{digest}"
                pjrt_api = "0.1"
                licence = "MIT"
                note = ""
            "#
        )
    };
    let cpu = pin("cpu", "cpu", "cpu_wheel/cpu.so", CONTENT.len());
    let tpu = pin("libtpu", "tpu", "libtpu/libtpu.so", PINNED.len());
    PinnedPlugins::parse(&format!("default = \"cpu\"\n{cpu}{tpu}")).unwrap()
}

struct Machine {
    root: TempDir,
    environment: Environment,
    request: PluginRequest,
}

impl Machine {
    /// Each line is a variable, `a TPU`, `--plugin X`, a link `a -> b`, or a file, with its lines after `: `, apart
    /// at `;`. `$` stands for the root folder.
    fn new(text: &str) -> Machine {
        let root = tempfile::tempdir().unwrap();
        let environment = Environment { home: Some(root.path().join("me").into()), ..Environment::default() };
        let mut machine = Machine { root, environment, request: PluginRequest::default() };
        text.lines().map(str::trim).filter(|line| !line.is_empty()).for_each(|line| machine.add(line));
        machine
    }

    fn add(&mut self, line: &str) {
        let line = line.replace('$', self.root.path().to_str().unwrap());
        if line == "a TPU" {
            self.environment.tpu_devices.push("/dev/accel0".into());
        } else if let Some(plugin) = line.strip_prefix("--plugin ") {
            self.request.plugin = Some(plugin.into());
        } else if let Some((name, value)) = line.split_once('=').filter(|(name, _)| is_variable(name)) {
            *self.variable(name) = Some(value.into());
        } else if let Some((link, target)) = line.split_once(" -> ") {
            symlink(target, self.file(link)).unwrap();
        } else {
            let (path, content) = line.split_once(": ").unwrap_or((&line, CONTENT));
            fs::write(self.file(path), content.replace(';', "\n")).unwrap();
        }
    }

    /// The path of a file, in a folder that exists.
    fn file(&self, path: &str) -> PathBuf {
        let path = self.root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        path
    }

    fn variable(&mut self, name: &str) -> &mut Option<OsString> {
        let environment = &mut self.environment;
        match name {
            "SHARDWRIGHT_PLUGIN" => &mut environment.plugin,
            "SHARDWRIGHT_PYTHON" => &mut environment.python,
            "HOME" => &mut environment.home,
            "PJRT_DEVICE" => &mut environment.pjrt_device,
            "TPU_LIBRARY_PATH" => &mut environment.tpu_library_path,
            "PJRT_NAMES_AND_LIBRARY_PATHS" => &mut environment.pjrt_names_and_library_paths,
            "PJRT_PLUGIN_LIBRARY_PATH" => &mut environment.pjrt_plugin_library_path,
            "VIRTUAL_ENV" => &mut environment.virtual_env,
            "CONDA_PREFIX" => &mut environment.conda_prefix,
            "PYTHONUSERBASE" => &mut environment.python_user_base,
            "PATH" => &mut environment.path,
            _ => panic!("no variable {name}"),
        }
    }

    /// The plugin that is used, and in further lines the others; or the error.
    fn found(&self) -> String {
        let text = match discover(&self.request, &pins(), &self.environment) {
            Ok(found) => {
                let others = found.others().iter().map(|other| format!("not {other}\n"));
                format!("{}\n{}", found.winner(), others.collect::<String>())
            }
            Err(error) => format!("error: {error}\n"),
        };
        let root = self.root.path().canonicalize().unwrap();
        text.replace(root.to_str().unwrap(), "$").replace(self.root.path().to_str().unwrap(), "$")
    }
}

fn is_variable(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_')
}

#[track_caller]
fn check(machine: &str, expect: Expect) {
    expect.assert_eq(&Machine::new(machine).found());
}

// Machines without a TPU.

#[test]
fn a_bare_machine_fetches_the_default() {
    check(
        "",
        expect![[r#"
        cpu, not fetched yet (cpu: cpu 1.0, by default)
    "#]],
    );
    check(
        ".cache: a file\nHOME=",
        expect![[r#"
        cpu, not fetched yet (cpu: cpu 1.0, by default)
    "#]],
    );
}

#[test]
fn a_cached_default_is_used() {
    let cached = "me/.cache/shardwright/plugins/cpu-1.0/0000000000000000/cpu.so";
    check(
        cached,
        expect![[r#"
        $/me/.cache/shardwright/plugins/cpu-1.0/0000000000000000/cpu.so (cpu: cpu 1.0, by default)
    "#]],
    );
    check(
        &format!("{cached}: truncated or longer"),
        expect![[r#"
        cpu, not fetched yet (cpu: cpu 1.0, by default)
    "#]],
    );
}

#[test]
fn a_laptop_with_the_tpu_library_runs_on_its_cpu() {
    check(
        "VIRTUAL_ENV=$/venv
         venv/lib/python3.11/site-packages/libtpu/libtpu.so
         venv/lib/python3.11/site-packages/libtpu-0.0.40.dist-info/METADATA
         TPU_LIBRARY_PATH=$/opt/libtpu.so",
        expect![[r#"
            cpu, not fetched yet (cpu: cpu 1.0, by default)
            not $/opt/libtpu.so (by TPU_LIBRARY_PATH): this machine has no TPU
            not $/venv/lib/python3.11/site-packages/libtpu/libtpu.so (libtpu 0.0.40, as an installed Python package): this machine has no TPU
        "#]],
    );
}

#[test]
fn an_installed_wheel_of_the_default_is_used_in_its_pinned_version_only() {
    let file = "VIRTUAL_ENV=$/venv\nvenv/lib/python3.11/site-packages/cpu_wheel/cpu.so";
    check(
        file,
        expect![[r#"
        $/venv/lib/python3.11/site-packages/cpu_wheel/cpu.so (cpu: cpu 1.0, as an installed Python package)
    "#]],
    );
    check(
        &format!("{file}: another version"),
        expect![[r#"
        cpu, not fetched yet (cpu: cpu 1.0, by default)
    "#]],
    );
    check(
        &format!("--plugin cpu\n{file}"),
        expect![[r#"
        $/venv/lib/python3.11/site-packages/cpu_wheel/cpu.so (cpu: cpu 1.0, by --plugin)
    "#]],
    );
}

#[test]
fn installed_plugins_for_other_devices_wait_to_be_asked_for() {
    let installed = "
        VIRTUAL_ENV=$/venv
        venv/lib/python3.12/site-packages/jax_plugins/xla_cuda12/xla_cuda_plugin.so
        venv/lib/python3.12/site-packages/jax_plugins/xla_cuda12/__init__.py
        venv/lib/python3.12/site-packages/jax_plugins/a/pjrt_cpu_plugin.so
        venv/lib/python3.12/site-packages/jax_plugins/pjrt_plugin_tt/pjrt_plugin_tt.so";
    check(
        installed,
        expect![[r#"
        cpu, not fetched yet (cpu: cpu 1.0, by default)
        not $/venv/lib/python3.12/site-packages/jax_plugins/pjrt_plugin_tt/pjrt_plugin_tt.so (as an installed Python package): used where PJRT_DEVICE asks for its device
        not $/venv/lib/python3.12/site-packages/jax_plugins/xla_cuda12/xla_cuda_plugin.so (as an installed Python package): used where PJRT_DEVICE asks for its device
    "#]],
    );
    check(
        &format!("PJRT_DEVICE=CUDA\n{installed}"),
        expect![[r#"
        $/venv/lib/python3.12/site-packages/jax_plugins/xla_cuda12/xla_cuda_plugin.so (as an installed Python package)
        not $/venv/lib/python3.12/site-packages/jax_plugins/pjrt_plugin_tt/pjrt_plugin_tt.so (as an installed Python package): PJRT_DEVICE asks for CUDA
    "#]],
    );
    check(
        &format!("PJRT_DEVICE=TT\n{installed}"),
        expect![[r#"
        $/venv/lib/python3.12/site-packages/jax_plugins/pjrt_plugin_tt/pjrt_plugin_tt.so (as an installed Python package)
        not $/venv/lib/python3.12/site-packages/jax_plugins/xla_cuda12/xla_cuda_plugin.so (as an installed Python package): PJRT_DEVICE asks for TT
    "#]],
    );
}

// Machines with a TPU.

#[test]
fn a_tpu_vm_runs_on_its_tpu() {
    check(
        "a TPU",
        expect![[r#"
        libtpu, not fetched yet (libtpu: libtpu 1.0, by default)
    "#]],
    );
    check(
        "a TPU
         PATH=$/usr/bin
         usr/bin/python3.11
         usr/bin/python3 -> python3.11
         usr/local/lib/python3.11/dist-packages/libtpu/libtpu.so
         usr/local/lib/python3.11/dist-packages/libtpu-0.0.40.dist-info/METADATA
         usr/local/lib/python3.11/dist-packages/cpu_wheel/cpu.so",
        expect![[r#"
            $/usr/local/lib/python3.11/dist-packages/libtpu/libtpu.so (libtpu 0.0.40, as an installed Python package)
            not $/usr/local/lib/python3.11/dist-packages/cpu_wheel/cpu.so (cpu: cpu 1.0, as an installed Python package): used where PJRT_DEVICE asks for its device
        "#]],
    );
    check(
        "a TPU\nTPU_LIBRARY_PATH=$/opt/my.so\nopt/my.so",
        expect![[r#"
        $/opt/my.so (by TPU_LIBRARY_PATH)
    "#]],
    );
    check(
        "a TPU\nTPU_LIBRARY_PATH=$/opt/my.so\nopt/my.so\nPJRT_DEVICE=cpu",
        expect![[r#"
        cpu, not fetched yet (cpu: cpu 1.0, by default)
        not $/opt/my.so (by TPU_LIBRARY_PATH): PJRT_DEVICE asks for CPU
    "#]],
    );
}

// Variables.

#[test]
fn pjrt_device_asks_for_a_device_that_need_not_be_here() {
    check(
        "PJRT_DEVICE=TPU",
        expect![[r#"
        libtpu, not fetched yet (libtpu: libtpu 1.0, by default)
    "#]],
    );
    check(
        "PJRT_DEVICE=Cpu\na TPU",
        expect![[r#"
        cpu, not fetched yet (cpu: cpu 1.0, by default)
    "#]],
    );
    check(
        "PJRT_DEVICE=",
        expect![[r#"
        cpu, not fetched yet (cpu: cpu 1.0, by default)
    "#]],
    );
}

#[test]
fn a_device_without_a_plugin_is_an_error_that_lists_those_with_one() {
    check(
        "PJRT_DEVICE=CUDA",
        expect![[r#"
        error: there is no plugin for PJRT_DEVICE=CUDA; there are plugins for CPU, TPU; for another device name its plugin with --plugin PATH or PJRT_NAMES_AND_LIBRARY_PATHS=cuda:PATH
    "#]],
    );
    check(
        "PJRT_DEVICE=tpuu\nPJRT_NAMES_AND_LIBRARY_PATHS=mine:/m.so",
        expect![[r#"
            error: there is no plugin for PJRT_DEVICE=TPUU: did you mean TPU?; there are plugins for CPU, MINE, TPU; for another device name its plugin with --plugin PATH or PJRT_NAMES_AND_LIBRARY_PATHS=tpuu:PATH
        "#]],
    );
}

#[test]
fn names_and_paths_are_taken_in_order_or_by_device() {
    let names = "
        a.so
        b.so
        opt/libtpu.so
        PJRT_NAMES_AND_LIBRARY_PATHS=tpu:$/opt/libtpu.so,first:$/a.so, CPU:$/b.so,";
    check(
        names,
        expect![[r#"
        $/a.so (by PJRT_NAMES_AND_LIBRARY_PATHS)
        not $/opt/libtpu.so (by PJRT_NAMES_AND_LIBRARY_PATHS): this machine has no TPU
        not $/b.so (by PJRT_NAMES_AND_LIBRARY_PATHS): another comes first
    "#]],
    );
    check(
        &format!("{names}\nPJRT_DEVICE=cpu"),
        expect![[r#"
        $/b.so (by PJRT_NAMES_AND_LIBRARY_PATHS)
        not $/opt/libtpu.so (by PJRT_NAMES_AND_LIBRARY_PATHS): PJRT_DEVICE asks for CPU
        not $/a.so (by PJRT_NAMES_AND_LIBRARY_PATHS): PJRT_DEVICE asks for CPU
    "#]],
    );
    check(
        &format!("{names}\nPJRT_DEVICE=TPU"),
        expect![[r#"
        $/opt/libtpu.so (by PJRT_NAMES_AND_LIBRARY_PATHS)
        not $/a.so (by PJRT_NAMES_AND_LIBRARY_PATHS): PJRT_DEVICE asks for TPU
        not $/b.so (by PJRT_NAMES_AND_LIBRARY_PATHS): PJRT_DEVICE asks for TPU
    "#]],
    );
    check(
        &format!("{names}\na TPU"),
        expect![[r#"
        $/opt/libtpu.so (by PJRT_NAMES_AND_LIBRARY_PATHS)
        not $/a.so (by PJRT_NAMES_AND_LIBRARY_PATHS): another comes first
        not $/b.so (by PJRT_NAMES_AND_LIBRARY_PATHS): another comes first
    "#]],
    );
}

#[test]
fn the_device_is_read_as_it_is_meant() {
    check(
        "PJRT_DEVICE= cpu\t",
        expect![[r#"
        cpu, not fetched yet (cpu: cpu 1.0, by default)
    "#]],
    );
    check(
        "PJRT_DEVICE=  ",
        expect![[r#"
        cpu, not fetched yet (cpu: cpu 1.0, by default)
    "#]],
    );
    check(
        "PJRT_DEVICE=gpu\nPJRT_NAMES_AND_LIBRARY_PATHS=GPU:$/a.so\na.so",
        expect![[r#"
        $/a.so (by PJRT_NAMES_AND_LIBRARY_PATHS)
    "#]],
    );
    // What is known is not taken for a misspelled other one.
    check(
        "PJRT_DEVICE=GPU",
        expect![[r#"
        error: there is no plugin for PJRT_DEVICE=GPU; there are plugins for CPU, TPU; for another device name its plugin with --plugin PATH or PJRT_NAMES_AND_LIBRARY_PATHS=gpu:PATH
    "#]],
    );
    check(
        "PJRT_DEVICE=rocm",
        expect![[r#"
        error: there is no plugin for PJRT_DEVICE=ROCM; there are plugins for CPU, TPU; for another device name its plugin with --plugin PATH or PJRT_NAMES_AND_LIBRARY_PATHS=rocm:PATH
    "#]],
    );
    check(
        "PJRT_DEVICE=QPU",
        expect![[r#"
        error: there is no plugin for PJRT_DEVICE=QPU: did you mean TPU?; there are plugins for CPU, TPU; for another device name its plugin with --plugin PATH or PJRT_NAMES_AND_LIBRARY_PATHS=qpu:PATH
    "#]],
    );
}

#[test]
fn a_json_file_names_the_library_as_for_jax() {
    let variable = "PJRT_NAMES_AND_LIBRARY_PATHS=mine:$/etc/plugin.json";
    let check = |json: &str, expect: Expect| check(&format!("{variable}\netc/{json}\netc/a.so"), expect);
    check(
        "plugin.json: {\"library_path\": \"a.so\", \"create_option\": {}}",
        expect![[r#"
        $/etc/a.so (by PJRT_NAMES_AND_LIBRARY_PATHS)
    "#]],
    );
    check(
        "plugin.json: {\"library_path\": \"$/etc/a.so\", \"create_option\": {\"n\": 1}}",
        expect![[r#"
        $/etc/a.so (by PJRT_NAMES_AND_LIBRARY_PATHS)
    "#]],
    );
    check(
        "plugin.json: {\"path\": \"a.so\"}",
        expect![[r#"
        error: PJRT_NAMES_AND_LIBRARY_PATHS: entry "mine:$/etc/plugin.json": "$/etc/plugin.json" is not an object with the text library_path: missing field `library_path` at line 1 column 16; write name:path, or name:path.json with the path of a JSON file, and commas between entries
    "#]],
    );
    check(
        "plugin.json: {\"library_path\": \"lib/b.so\"}",
        expect![[r#"
            error: plugin file "$/etc/lib/b.so" does not exist (given by PJRT_NAMES_AND_LIBRARY_PATHS as library_path "lib/b.so" in "$/etc/plugin.json"); correct or unset PJRT_NAMES_AND_LIBRARY_PATHS, or pass --plugin with an existing file or one of cpu, libtpu
        "#]],
    );
    check(
        "other.json: {}",
        expect![[r#"
        error: PJRT_NAMES_AND_LIBRARY_PATHS: entry "mine:$/etc/plugin.json": cannot read "$/etc/plugin.json": No such file or directory (os error 2); write name:path, or name:path.json with the path of a JSON file, and commas between entries
    "#]],
    );
}

#[test]
fn names_and_paths_that_are_wrong_are_errors_where_they_count() {
    for text in ["/opt/a.so", "cpu:", ":/a.so"] {
        let machine = Machine::new(&format!("PJRT_NAMES_AND_LIBRARY_PATHS={text}"));
        let error = discover(&machine.request, &pins(), &machine.environment).unwrap_err();
        assert_eq!(error.kind(), PluginErrorKind::NamesAndPaths);
    }
    check(
        "PJRT_NAMES_AND_LIBRARY_PATHS=/opt/a.so",
        expect![[r#"
        error: PJRT_NAMES_AND_LIBRARY_PATHS: entry "/opt/a.so": expected name:path, such as tpu:/usr/lib/libtpu.so; write name:path, or name:path.json with the path of a JSON file, and commas between entries
    "#]],
    );
    check(
        "PJRT_NAMES_AND_LIBRARY_PATHS=/opt/a.so\nSHARDWRIGHT_PLUGIN=cpu",
        expect![[r#"
        cpu, not fetched yet (cpu: cpu 1.0, by SHARDWRIGHT_PLUGIN)
    "#]],
    );
    check(
        "PJRT_NAMES_AND_LIBRARY_PATHS=mine:/no/a.so",
        expect![[r#"
            error: plugin file "/no/a.so" does not exist (given by PJRT_NAMES_AND_LIBRARY_PATHS as "mine:/no/a.so"); correct or unset PJRT_NAMES_AND_LIBRARY_PATHS, or pass --plugin with an existing file or one of cpu, libtpu
        "#]],
    );
}

#[test]
fn the_plugin_library_path_is_files_and_folders() {
    check(
        "PJRT_PLUGIN_LIBRARY_PATH=~/my plugin.so\nme/my plugin.so",
        expect![[r#"
        $/me/my plugin.so (by PJRT_PLUGIN_LIBRARY_PATH)
    "#]],
    );
    let folders = "
        lib/README.so.txt
        lib/libm.so
        lib/pjrt_c_api_cuda_plugin.so
        lib/pjrt_c_api_cpu_plugin.so
        more/libtpu.so
        PJRT_PLUGIN_LIBRARY_PATH=$/lib:$/more";
    check(
        folders,
        expect![[r#"
        $/lib/pjrt_c_api_cpu_plugin.so (by PJRT_PLUGIN_LIBRARY_PATH)
        not $/lib/pjrt_c_api_cuda_plugin.so (by PJRT_PLUGIN_LIBRARY_PATH): another comes first
        not $/more/libtpu.so (by PJRT_PLUGIN_LIBRARY_PATH): this machine has no TPU
    "#]],
    );
    check(
        &format!("{folders}\nPJRT_DEVICE=TPU"),
        expect![[r#"
        $/more/libtpu.so (by PJRT_PLUGIN_LIBRARY_PATH)
        not $/lib/pjrt_c_api_cpu_plugin.so (by PJRT_PLUGIN_LIBRARY_PATH): PJRT_DEVICE asks for TPU
        not $/lib/pjrt_c_api_cuda_plugin.so (by PJRT_PLUGIN_LIBRARY_PATH): PJRT_DEVICE asks for TPU
    "#]],
    );
    check(
        "PJRT_PLUGIN_LIBRARY_PATH=$/lib\nlib/libm.so",
        expect![[r#"
            error: plugin "$/lib" is a folder, expected a shared library (given by PJRT_PLUGIN_LIBRARY_PATH); correct or unset PJRT_PLUGIN_LIBRARY_PATH, or pass --plugin with the file itself
        "#]],
    );
    check(
        "PJRT_PLUGIN_LIBRARY_PATH=$/no",
        expect![[r#"
            error: plugin file "$/no" does not exist (given by PJRT_PLUGIN_LIBRARY_PATH as "$/no"); correct or unset PJRT_PLUGIN_LIBRARY_PATH, or pass --plugin with an existing file or one of cpu, libtpu
        "#]],
    );
}

#[test]
fn each_rule_comes_before_those_below_it() {
    let rules = [
        "--plugin $/1.so\n1.so",
        "SHARDWRIGHT_PLUGIN=$/2.so\n2.so",
        "TPU_LIBRARY_PATH=$/3.so\n3.so",
        "PJRT_NAMES_AND_LIBRARY_PATHS=mine:$/4.so\n4.so",
        "PJRT_PLUGIN_LIBRARY_PATH=$/5.so\n5.so",
        "VIRTUAL_ENV=$/v\nv/lib/python3.11/site-packages/libtpu/libtpu.so",
        "me/.cache/shardwright/plugins/libtpu-1.0/0000000000000000/libtpu.so: pinned",
    ];
    let winner = |rules: &[&str]| {
        let found = Machine::new(&format!("a TPU\n{}", rules.join("\n"))).found();
        found.lines().next().unwrap().to_owned() + "\n"
    };
    expect![[r#"
        $/1.so (by --plugin)
        $/2.so (by SHARDWRIGHT_PLUGIN)
        $/3.so (by TPU_LIBRARY_PATH)
        $/4.so (by PJRT_NAMES_AND_LIBRARY_PATHS)
        $/5.so (by PJRT_PLUGIN_LIBRARY_PATH)
        $/v/lib/python3.11/site-packages/libtpu/libtpu.so (as an installed Python package)
        $/me/.cache/shardwright/plugins/libtpu-1.0/0000000000000000/libtpu.so (libtpu: libtpu 1.0, by default)
    "#]]
    .assert_eq(&(0..rules.len()).map(|first| winner(&rules[first..])).collect::<String>());
    expect![[r#"
        $/1.so (by --plugin)
        not $/3.so (by TPU_LIBRARY_PATH): another comes first
        not $/4.so (by PJRT_NAMES_AND_LIBRARY_PATHS): another comes first
        not $/5.so (by PJRT_PLUGIN_LIBRARY_PATH): another comes first
        not $/v/lib/python3.11/site-packages/libtpu/libtpu.so (as an installed Python package): another comes first
        not $/me/.cache/shardwright/plugins/libtpu-1.0/0000000000000000/libtpu.so (libtpu: libtpu 1.0, by default): another comes first
    "#]].assert_eq(&Machine::new(&format!("a TPU\n{}", rules.join("\n"))).found());
}

// Where installed packages are.

#[test]
fn packages_are_found_by_environment_user_and_path() {
    let packages = |folder: &str| format!("a TPU\n{folder}/libtpu/libtpu.so\n");
    let check = |folder: &str, more: &str| {
        let found = Machine::new(&format!("{}{more}", packages(folder))).found();
        let expect = format!("$/{folder}/libtpu/libtpu.so (as an installed Python package)");
        assert_eq!(found.lines().next(), Some(expect.as_str()), "{more}");
    };
    check("v/lib/python3.11/site-packages", "VIRTUAL_ENV=$/v");
    check("v/lib64/python3.13/site-packages", "VIRTUAL_ENV=$/v");
    check("c/lib/python3.12/site-packages", "CONDA_PREFIX=$/c");
    check("me/.local/lib/python3.11/site-packages", "");
    check("u/lib/python3.11/site-packages", "PYTHONUSERBASE=$/u");
    check("p/lib/python3.11/site-packages", "SHARDWRIGHT_PYTHON=$/p/bin/python3\np/bin/python3");
    // Debian's, of a Python behind a link.
    check(
        "usr/lib/python3/dist-packages",
        "PATH=/none:$/bin\nbin/python -> ../usr/bin/python3.11\nusr/bin/python3.11",
    );
    // A virtual environment in PATH, whose program is a link to another Python's.
    let venv = "PATH=$/v/bin\nv/bin/python3 -> ../../usr/bin/python3\nusr/bin/python3";
    check("v/lib/python3.11/site-packages", &format!("{venv}\nv/pyvenv.cfg: home = /usr/bin"));
    let config = "v/pyvenv.cfg: home = $/usr/bin;include-system-site-packages = true";
    check("usr/lib/python3.11/site-packages", &format!("{venv}\n{config}"));
}

// Loading.

#[test]
fn the_tpu_library_is_not_loaded_where_it_would_hang() {
    let machine = Machine::new("opt/libtpu.so\nmine.so -> opt/libtpu.so\nopt/cpu.so");
    let path = |name: &str| machine.root.path().join(name);
    let check = |name: &str, environment: &Environment| check_before_loading(&path(name), environment);
    let bare = &machine.environment;
    for name in ["opt/libtpu.so", "mine.so"] {
        let error: PluginError = check(name, bare).unwrap_err();
        assert_eq!((error.kind(), error.path()), (PluginErrorKind::NoTpu, Some(path(name).as_path())));
        assert!(error.to_string().contains("TPU_SKIP_MDS_QUERY=1"), "{error}");
        let with = |tpu_devices, skip: &str| Environment {
            tpu_devices,
            tpu_skip_mds_query: Some(skip.into()),
            ..Environment::default()
        };
        check(name, &with(vec![], "1")).unwrap();
        check(name, &with(vec!["/dev/accel0".into()], "")).unwrap();
        // The library takes an empty value for none.
        check(name, &with(vec![], "")).unwrap_err();
    }
    check("opt/cpu.so", bare).unwrap();
    check_before_loading(Path::new("/no/such/file.so"), bare).unwrap();
}
