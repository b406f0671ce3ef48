//! What loading says of files that are no plugins, or plugins that do not fit.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use shardwright_pjrt::{Arg, Client, ClientOptions, CompileOptions, ErrorKind, Plugin, ProgramFormat};
use shardwright_tensor::HostArray;
use tempfile::TempDir;

/// A function table with nothing in it but a version and a function that initializes; the plugin states the table
/// as shorter or longer than it is.
const STUB: &str = "
    #include <stddef.h>
    static void *initialize(void *args) { return 0; }
    static struct {
        size_t struct_size; void *extensions;
        struct { size_t struct_size; void *extensions; int major, minor; } version;
        void *functions[256];
    } table = { STRUCT_SIZE, 0, { 24, 0, MAJOR, MINOR }, { [3] = initialize } };
    void *GetPjrtApi(void) { return MAJOR < 0 ? 0 : &table; }
";

struct Folder(TempDir);

impl Folder {
    fn new() -> Folder {
        Folder(TempDir::new().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        // The loader and this library name files with symbolic links resolved.
        self.0.path().canonicalize().unwrap().join(name)
    }

    /// A shared library made by the C compiler, which a Rust toolchain needs as its linker.
    fn library(&self, name: &str, code: &str, flags: &[&str]) -> PathBuf {
        let source = self.path("stub.c");
        fs::write(&source, code).unwrap();
        let library = self.path(name);
        let mut cc = Command::new("cc");
        cc.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source).args(flags);
        assert!(cc.status().expect("a C compiler is there").success());
        library
    }

    fn stub(&self, struct_size: usize, major: i32, minor: i32) -> PathBuf {
        let flags =
            [format!("-DSTRUCT_SIZE={struct_size}"), format!("-DMAJOR={major}"), format!("-DMINOR={minor}")];
        self.library("libstub.so", STUB, &flags.each_ref().map(String::as_str))
    }
}

#[track_caller]
fn check(path: &Path, kind: ErrorKind, message: &str) {
    let error = Plugin::load(path).unwrap_err();
    assert_eq!(error.kind(), kind, "{error}");
    assert_eq!(error.context(), path.display().to_string());
    assert!(error.message().contains(message), "{error}");
}

#[test]
fn no_file() {
    check(&Folder::new().path("none.so"), ErrorKind::PluginNotFound, "No such file");
}

#[test]
fn a_folder() {
    check(&Folder::new().path("."), ErrorKind::PluginIsFolder, "the path of the library in it is needed");
}

#[test]
fn a_dependency_that_is_missing() {
    let folder = Folder::new();
    let dependency = folder.library("libabsent.so", "int f(void) { return 1; }", &[]);
    let code = "int f(void); int g(void) { return f(); }";
    let plugin = folder.library("libplugin.so", code, &[dependency.to_str().unwrap()]);
    fs::remove_file(dependency).unwrap();
    check(&plugin, ErrorKind::MissingDependency, "libabsent.so: cannot open");
}

#[test]
fn an_undefined_symbol() {
    let folder = Folder::new();
    let code = "int absent_function(void); int g(void) { return absent_function(); }";
    let plugin = folder.library("libplugin.so", code, &[]);
    check(&plugin, ErrorKind::LoaderRefused, "absent_function");
}

#[cfg(target_os = "linux")]
#[test]
fn a_text_file() {
    let folder = Folder::new();
    for text in ["", "INPUT(libm.so)\n", "twenty and more bytes of prose\n"] {
        let path = folder.path("text.so");
        fs::write(&path, text).unwrap();
        check(&path, ErrorKind::NotALibrary, "does not begin as ELF files do");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_library_for_another_processor() {
    let folder = Folder::new();
    let path = folder.stub(0, 0, 81);
    let mut bytes = fs::read(&path).unwrap();
    let (other, name) = if cfg!(target_arch = "x86_64") { (183, "aarch64") } else { (62, "x86-64") };
    bytes[18] = other;
    fs::write(&path, bytes).unwrap();
    check(&path, ErrorKind::OtherArchitecture, &format!("the file is for {name}, this program for "));
}

#[cfg(target_os = "linux")]
#[test]
fn a_library_that_was_copied_in_part() {
    let folder = Folder::new();
    let whole = fs::read(folder.stub(2000, 0, 81)).unwrap();
    let path = folder.path("part.so");
    for size in [20, 63, 64, 500, 5000, whole.len() / 2] {
        fs::write(&path, &whole[..size]).unwrap();
        check(&path, ErrorKind::TruncatedLibrary, &format!("the file has {size} bytes and needs "));
    }
    let mut damaged = whole;
    damaged[32..40].fill(0xff);
    fs::write(&path, damaged).unwrap();
    check(&path, ErrorKind::TruncatedLibrary, "and needs 18446744073709551615 or more");
}

#[test]
fn a_library_without_the_entry_point() {
    let folder = Folder::new();
    let path = folder.library("libother.so", "int f(void) { return 1; }", &[]);
    check(&path, ErrorKind::NoEntryPoint, "GetPjrtApi");
}

#[test]
fn no_table() {
    let folder = Folder::new();
    check(&folder.stub(2000, -1, 0), ErrorKind::NoApi, "null");
}

#[test]
fn a_table_too_short_for_a_version() {
    let folder = Folder::new();
    check(&folder.stub(39, 0, 81), ErrorKind::TruncatedTable, "39 bytes");
}

#[test]
fn another_major_version() {
    let folder = Folder::new();
    check(
        &folder.stub(2000, 1, 2),
        ErrorKind::IncompatibleApi,
        "1.2, this program's is 0.81; a plugin with API 0.x is needed",
    );
}

#[test]
fn a_newer_plugin_with_a_longer_table() {
    let folder = Folder::new();
    let path = folder.stub(2000, 0, 111);
    let plugin = Plugin::load(&path).unwrap();
    assert_eq!((plugin.path(), plugin.api_version()), (path.as_path(), (0, 111)));
    let error = Client::new(&plugin, &ClientOptions::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NullFunction);
    assert!(error.message().contains(path.to_str().unwrap()), "{error}");
    assert!(error.message().contains("0.111 (this program's is 0.81)"), "{error}");
}

#[test]
fn an_older_plugin_with_a_shorter_table() {
    let folder = Folder::new();
    let path = folder.stub(80, 0, 51);
    let error = Client::new(&Plugin::load(&path).unwrap(), &ClientOptions::default()).unwrap_err();
    assert_eq!((error.kind(), error.context()), (ErrorKind::MissingFunction, "PJRT_Client_Create"));
    assert!(
        error.message().contains("0.51 (this program's is 0.81), has a table that ends before it"),
        "{error}"
    );

    let folder = Folder::new();
    let error = Plugin::load(&folder.stub(40, 0, 51)).unwrap_err();
    assert_eq!((error.kind(), error.context()), (ErrorKind::MissingFunction, "PJRT_Plugin_Initialize"));
}

#[test]
fn a_plugin_as_it_is_loaded() {
    let plugin = Plugin::load(&shardwright_pjrt_fake::path()).unwrap();
    let client =
        Client::new(&plugin, &ClientOptions::default().with("devices", 2).with("events", "thread")).unwrap();
    let executable = client.compile(b"sum f32[3]", ProgramFormat::Mlir, &CompileOptions::default()).unwrap();
    let array = HostArray::from_slice(&[3], &[1f32, 2., 3.]).unwrap();
    let buffer = client.buffer_from_host(&array, &client.devices()[0]).unwrap();
    let execution = executable.execute(vec![Arg::Donate(vec![buffer])]).unwrap();
    assert_eq!(execution.outputs[0][0].to_host().unwrap(), HostArray::scalar(6f32));
}

/// Ways in which compiling ends the process: whoever compiles in a child has to tell them from each other.
#[test]
fn programs_that_end_the_process() {
    const PROGRAM: &str = "SHARDWRIGHT_TEST_PROGRAM";
    if let Some(program) = std::env::var_os(PROGRAM) {
        let plugin = Plugin::load(&shardwright_pjrt_fake::path()).unwrap();
        let client = Client::new(&plugin, &ClientOptions::default()).unwrap();
        let program = program.into_encoded_bytes();
        let error = client.compile(&program, ProgramFormat::Mlir, &CompileOptions::default()).map(drop);
        unreachable!("compiling came back with {error:?}");
    }
    for (program, expected, words) in [
        ("abort no such op", (None, Some(6)), "no such op"),
        ("segfault", (None, Some(11)), ""),
        ("exit 7", (Some(7), None), ""),
    ] {
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["programs_that_end_the_process", "--exact", "--nocapture"])
            .env(PROGRAM, program)
            .output()
            .unwrap();
        let stderr = String::from_utf8_lossy(&child.stderr);
        assert_eq!((child.status.code(), child.status.signal()), expected, "{program}: {stderr}");
        assert!(stderr.contains(words), "{program}: {stderr}");
    }
}
