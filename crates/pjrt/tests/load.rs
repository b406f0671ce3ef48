//! What loading says of files that are no plugins, or plugins that do not fit.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use shardwright_pjrt::{ErrorKind, Plugin};
use tempfile::TempDir;

/// A function table with nothing in it but a version; the plugin states it as shorter or longer than it is.
const STUB: &str = "
    #include <stddef.h>
    static struct {
        size_t struct_size; void *extensions;
        struct { size_t struct_size; void *extensions; int major, minor; } version;
        void *functions[256];
    } table = { STRUCT_SIZE, 0, { 24, 0, MAJOR, MINOR }, { 0 } };
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
    check(&plugin, ErrorKind::MissingDependency, "libabsent.so");
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
    let other = if cfg!(target_arch = "x86_64") { 183 } else { 62 };
    bytes[18] = other;
    fs::write(&path, bytes).unwrap();
    check(&path, ErrorKind::OtherArchitecture, &format!("ELF machine {other}"));
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
fn another_major_version() {
    let folder = Folder::new();
    check(&folder.stub(2000, 1, 2), ErrorKind::IncompatibleApi, "1.2, this program's is 0.81");
}

#[test]
fn a_table_without_functions() {
    let folder = Folder::new();
    for (struct_size, minor) in [(40, 51), (2000, 111)] {
        let error = Plugin::load(&folder.stub(struct_size, 0, minor)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::MissingFunction, "{error}");
        assert_eq!(error.context(), "PJRT_Plugin_Initialize");
    }
}
