//! The raw PJRT bindings, made by bindgen from the C header inside a pinned wheel.
//!
//! Behind what bindgen writes come two tables that the header holds only as macros and naming conventions:
//! which struct carries its own size, and which function of `PJRT_Api` takes which argument struct.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::{root, wheel};

const HEADER_WHEEL: &str = "xla-cpu-pjrt==0.0.1";
const HEADER: &str = "include/pjrt_c_api.h";
const HEADER_SHA256: &str = "c85bb95cb1743c2a353a555b3ab35f065e5f17007c7f182ad68d23754950235c";

const LIBCLANG_WHEEL: &str = "libclang==18.1.1";
const LIBCLANG: &str = "native/libclang.so";
/// That of the wheel for Linux on x86-64.
const LIBCLANG_SHA256: &str = "a8612b1c9a7125701277f63e5616f1d1eb9c91410c4bf195878067868c927f94";

/// Writes the bindings.
pub(crate) fn write() -> Result<()> {
    with_libclang(|| Ok(fs::write(bindings_path(), generate()?)?))
}

/// Fails where the committed bindings are not what [`write()`] would write.
pub(crate) fn check() -> Result<()> {
    with_libclang(|| {
        let path = bindings_path();
        let (committed, generated) = (fs::read_to_string(&path)?, generate()?);
        if committed == generated {
            return Ok(());
        }
        let same = committed.lines().zip(generated.lines()).take_while(|(old, new)| old == new).count();
        bail!(
            "{} is not what the pinned header gives; run `cargo xtask codegen`\n\
             first difference, in line {}:\n- {}\n+ {}",
            path.display(),
            same + 1,
            committed.lines().nth(same).unwrap_or_default(),
            generated.lines().nth(same).unwrap_or_default(),
        )
    })
}

fn bindings_path() -> PathBuf {
    root().join("crates/pjrt-sys/src/bindings.rs")
}

/// Runs `task` where libclang is known, which otherwise is fetched first.
///
/// bindgen learns the place from the environment, and a process cannot safely change its own: with a
/// fetched library this program runs itself once more.
pub(crate) fn with_libclang(task: impl FnOnce() -> Result<()>) -> Result<()> {
    const PLACE: &str = "LIBCLANG_PATH";
    if std::env::var_os(PLACE).is_some() {
        return task();
    }
    let is_pinned = cfg!(all(target_os = "linux", target_arch = "x86_64"));
    ensure!(is_pinned, "only libclang for Linux on x86-64 is pinned; set {PLACE} to the folder of another");
    let temp = tempfile::tempdir()?;
    wheel::fetch_file(LIBCLANG_WHEEL, LIBCLANG, LIBCLANG_SHA256, temp.path())?;
    let status = Command::new(std::env::current_exe()?)
        .args(std::env::args_os().skip(1))
        .env(PLACE, temp.path())
        .status()?;
    drop(temp);
    // The second run has said what went wrong.
    if status.success() { Ok(()) } else { std::process::exit(1) }
}

fn generate() -> Result<String> {
    let temp = tempfile::tempdir()?;
    let path = wheel::fetch_file(HEADER_WHEEL, HEADER, HEADER_SHA256, temp.path())?;
    let header = fs::read_to_string(&path)?;

    let bindings = bindgen::Builder::default()
        .header(path.display().to_string())
        .clang_arg(format!("-I{}", compiler_headers()?))
        .allowlist_item("PJRT_.*")
        .generate_comments(false)
        .layout_tests(false)
        .prepend_enum_name(false)
        .disable_header_comment()
        .rustfmt_configuration_file(Some(root().join("rustfmt.toml")))
        .generate()?
        .to_string();
    let tables = tables(&header, &bindings)?;
    Ok(format!(
        "// Written by `cargo xtask codegen` from {HEADER} of {HEADER_WHEEL}; edits are lost.\n\n\
         {bindings}\n{tables}"
    ))
}

/// Where the C compiler keeps `stddef.h` and its like, which the libclang wheel does not bring.
pub(crate) fn compiler_headers() -> Result<String> {
    let output = Command::new("cc").arg("-print-file-name=include").output().context("cc did not start")?;
    ensure!(output.status.success(), "cc does not tell where its headers are: {}", output.status);
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

/// Invocations of the macros `structs!` and `functions!` of `pjrt-sys`.
fn tables(header: &str, bindings: &str) -> Result<String> {
    const SIZED: &str = " {\n    pub struct_size: usize,";
    let structs = between(header, "PJRT_DEFINE_STRUCT_TRAITS(", ",")
        .filter(|name| bindings.contains(&format!("pub struct {name}{SIZED}")));

    // What returns nothing (the functions that read and free an error) is called by other means.
    let fallible: HashSet<&str> = between(header, "typedef PJRT_Error* ", "(").collect();
    let functions = between(header, "_PJRT_API_STRUCT_FIELD(", ")").filter(|name| fallible.contains(name));

    let mut text = String::new();
    writeln!(text, "structs! {{")?;
    structs.for_each(|name| text += &format!("    {name}: {name}_STRUCT_SIZE,\n"));
    writeln!(text, "}}\n\nfunctions! {{")?;
    functions.for_each(|name| text += &format!("    {name}({name}_Args),\n"));
    writeln!(text, "}}")?;
    Ok(text)
}

/// Every text between `open` and the next `close` that is a name of the C API.
fn between<'a>(text: &'a str, open: &'a str, close: &'a str) -> impl Iterator<Item = &'a str> {
    text.split(open)
        .skip(1)
        .filter_map(move |rest| Some(rest.split_once(close)?.0.trim()))
        .filter(|name| name.starts_with("PJRT_"))
}
