//! The variables that plugins read by themselves.

use std::env;
use std::fmt::{self, Display};
use std::path::Path;

use super::CompilerFlags;
use super::names::FlagNames;
use crate::RuntimeError;
use crate::error::Problem;

/// Where flags for every XLA compiler of the process are.
const XLA_FLAGS: &str = "XLA_FLAGS";
/// Where flags for TPU plugins are, which are more than the compiler's.
const LIBTPU_INIT_ARGS: &str = "LIBTPU_INIT_ARGS";

/// The flags that plugins read by themselves when they are loaded and opened.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct EnvironmentFlags {
    xla: CompilerFlags,
    /// What `xla` was read from: the variable, or the file that it names.
    xla_text: String,
    tpu_text: String,
}

impl EnvironmentFlags {
    /// # Errors
    /// When `XLA_FLAGS` has anything else in it than flags.
    fn read() -> Result<EnvironmentFlags, RuntimeError> {
        let value = |name| env::var_os(name).unwrap_or_default().to_string_lossy().into_owned();
        let (xla, xla_text) = CompilerFlags::parse_and_keep(XLA_FLAGS, &value(XLA_FLAGS))?;
        Ok(EnvironmentFlags { xla, xla_text, tpu_text: value(LIBTPU_INIT_ARGS) })
    }

    /// Those of `XLA_FLAGS`.
    pub(crate) fn xla(&self) -> &CompilerFlags {
        &self.xla
    }

    /// The names of all flags.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        let xla = self.xla.flags.iter().map(|flag| flag.name.as_str());
        xla.chain(tpu_names(&self.tpu_text))
    }

    /// Whether they would be read as the same again: a file of flags can be written meanwhile.
    pub(crate) fn are_unchanged(&self) -> bool {
        EnvironmentFlags::read().is_ok_and(|now| now == *self)
    }
}

/// The variables with what they mean in full; nothing where there are none.
impl Display for EnvironmentFlags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let texts = [(XLA_FLAGS, &self.xla_text), (LIBTPU_INIT_ARGS, &self.tpu_text)];
        texts
            .iter()
            .filter(|(_, text)| !text.is_empty())
            .try_for_each(|(name, text)| writeln!(f, "{name}={text}"))
    }
}

/// Reads the variables that the plugin in this file will read, and refuses flags that would make it end the process.
///
/// # Errors
/// When a variable has anything else in it than flags, or a flag whose name is not in the plugin's file.
pub(crate) fn check_environment(plugin: &Path) -> Result<EnvironmentFlags, RuntimeError> {
    let flags = EnvironmentFlags::read()?;
    match unknown_flags(plugin, &flags) {
        Some(problem) => Err(problem.into()),
        None => Ok(flags),
    }
}

fn unknown_flags(plugin: &Path, flags: &EnvironmentFlags) -> Option<Problem> {
    let (xla, tpu) = (&flags.xla, tpu_names(&flags.tpu_text));
    if xla.is_empty() && tpu.is_empty() {
        return None;
    }
    let asked = xla.flags.iter().map(|flag| flag.name.as_str());
    let positive = tpu.iter().filter_map(|name| name.strip_prefix("no"));
    let asked: Vec<&str> =
        asked.chain(tpu.iter().copied()).chain(positive).chain([LIBTPU_INIT_ARGS]).collect();

    // What cannot be read is the loader's to complain about, and what has none of XLA's names reads no such variable.
    let Ok(names) = FlagNames::read(plugin, &asked) else { return None };
    if names.is_empty() {
        return None;
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
    Problem::all(unknown)
}

/// The names of flags as TPU plugins read them: also after one dash, `no` before it for false, with what is no flag
/// passed over.
fn tpu_names(text: &str) -> Vec<&str> {
    let flags = text.split_whitespace().filter(|word| word.starts_with('-'));
    let names = flags.map(|word| word.trim_start_matches('-').split('=').next().unwrap_or_default());
    names.filter(|name| !name.is_empty()).collect()
}
