//! The variables that plugins read by themselves.

use std::env;
use std::path::Path;

use super::CompilerFlags;
use super::names::FlagNames;
use crate::RuntimeError;
use crate::error::Problem;

/// Where flags for every XLA compiler of the process are.
const XLA_FLAGS: &str = "XLA_FLAGS";
/// Where flags for TPU plugins are, which are more than the compiler's.
const LIBTPU_INIT_ARGS: &str = "LIBTPU_INIT_ARGS";

/// Reads the variables that the plugin in this file will read, and refuses flags that would make it end the process.
/// Gives those of `XLA_FLAGS`.
///
/// # Errors
/// When a variable has anything else in it than flags, or a flag whose name is not in the plugin's file.
pub(crate) fn check_environment(plugin: &Path) -> Result<CompilerFlags, RuntimeError> {
    let value = |name| env::var_os(name).unwrap_or_default().to_string_lossy().into_owned();
    let xla = CompilerFlags::parse(XLA_FLAGS, &value(XLA_FLAGS))?;
    let tpu = value(LIBTPU_INIT_ARGS);
    let tpu = tpu_names(&tpu);
    if xla.is_empty() && tpu.is_empty() {
        return Ok(xla);
    }
    let asked = xla.flags.iter().map(|flag| flag.name.as_str());
    let positive = tpu.iter().filter_map(|name| name.strip_prefix("no"));
    let asked: Vec<&str> =
        asked.chain(tpu.iter().copied()).chain(positive).chain([LIBTPU_INIT_ARGS]).collect();

    // What cannot be read is the loader's to complain about, and what has none of XLA's names reads no such variable.
    let Ok(names) = FlagNames::read(plugin, &asked) else { return Ok(xla) };
    if names.is_empty() {
        return Ok(xla);
    }
    let mut unknown: Vec<Problem> = Vec::new();
    for flag in xla.flags.iter().filter(|flag| !names.contains(&flag.name)) {
        unknown.push(names.unknown(&flag.name, XLA_FLAGS));
    }
    let is_tpu = names.contains(LIBTPU_INIT_ARGS);
    for name in tpu.iter().filter(|_| is_tpu) {
        if !names.contains(name) && !name.strip_prefix("no").is_some_and(|name| names.contains(name)) {
            unknown.push(names.unknown(name, LIBTPU_INIT_ARGS));
        }
    }
    Problem::all(unknown).map_or(Ok(xla), |problem| Err(problem.into()))
}

/// The names of flags as TPU plugins read them: also after one dash, `no` before it for false, with what is no flag
/// passed over.
fn tpu_names(text: &str) -> Vec<&str> {
    let flags = text.split_whitespace().filter(|word| word.starts_with('-'));
    let names = flags.map(|word| word.trim_start_matches('-').split('=').next().unwrap_or_default());
    names.filter(|name| !name.is_empty()).collect()
}
