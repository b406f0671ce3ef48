//! Flags as the compiler takes them beside a program.

use std::path::Path;

use shardwright_pjrt::{CompileOptions, Error, ErrorKind, OptionValue, StatusCode};

use super::names::FlagNames;
use super::{CompilerFlags, Flag, HOST_DEVICES};
use crate::RuntimeError;
use crate::error::Problem;

/// A program that does nothing; the fastest to compile.
pub(crate) const EMPTY_PROGRAM: &str =
    "func.func @main(%x: tensor<f32>) -> tensor<f32> { return %x : tensor<f32> }";

/// No module has this for a name, so nothing is dumped of what is compiled to try flags.
const DUMP_NOTHING: (&str, &str) = ("xla_dump_hlo_module_re", "^$");

const NOT_WITH_A_PROGRAM: &str = "the compiler knows it for a whole process only, not for a program";

/// A flag with the forms of its value that are left to try. The first is the one in use.
struct Candidate<'a> {
    /// Where it stands among the flags.
    index: usize,
    flag: &'a Flag,
    forms: Vec<OptionValue>,
}

impl CompilerFlags {
    /// The flags as overrides of the options of a compilation. `compile` compiles [`EMPTY_PROGRAM`], which tells what
    /// the compiler thinks of names and values; `plugin` is the file that names are looked up in when one is wrong.
    ///
    /// # Errors
    /// When the compiler does not know a flag, cannot read its value, or does not take it beside a program. The last is
    /// no error of a flag from a variable, which may be meant for other programs: it is left out with a warning.
    pub(crate) fn resolve(
        &self,
        plugin: &Path,
        compile: impl Fn(&CompileOptions) -> Result<(), Error>,
    ) -> Result<Vec<(String, OptionValue)>, RuntimeError> {
        let flags = self.flags.iter().enumerate().filter(|(_, flag)| flag.name != HOST_DEVICES);
        let candidate = |(index, flag)| Candidate { index, flag, forms: forms(flag) };
        let mut candidates: Vec<Candidate<'_>> = flags.map(candidate).collect();
        let mut problems = Vec::new();
        // Each round takes a form or a flag away.
        while !candidates.is_empty() {
            let Err(error) = compile(&trial(&candidates)) else { break };
            let Some(at) = blamed(&candidates, &error) else {
                let flags = candidates.iter().map(|candidate| candidate.flag.to_string()).collect::<Vec<_>>();
                return Err(Problem::Flags { flags: flags.join(" "), error }.into());
            };
            if candidates[at].forms.len() > 1 && !is_unknown(&error) {
                candidates[at].forms.remove(0);
                continue;
            }
            let Candidate { index, flag, .. } = candidates.remove(at);
            match if is_unknown(&error) { unknown(flag, plugin) } else { Some(wrong_value(flag, &error)) } {
                Some(problem) => problems.push((index, problem)),
                None => tracing::warn!("{}: {flag} has no effect: {NOT_WITH_A_PROGRAM}", flag.source),
            }
        }
        // Which one the compiler sees first is its own matter.
        problems.sort_by_key(|(index, _)| *index);
        match Problem::all(problems.into_iter().map(|(_, problem)| problem).collect()) {
            Some(problem) => Err(problem.into()),
            None => Ok(candidates.iter().map(Candidate::option).collect()),
        }
    }
}

impl Candidate<'_> {
    fn option(&self) -> (String, OptionValue) {
        (self.flag.name.clone(), self.forms[0].clone())
    }
}

/// The values that a flag may mean, the likeliest first. A flag that stands alone is true. Compilers read truth values
/// as text in spellings of their own, and which flags have truth values only they know.
fn forms(flag: &Flag) -> Vec<OptionValue> {
    let Some(value) = &flag.value else { return vec![OptionValue::Bool(true)] };
    let text = OptionValue::String(value.clone());
    match value.to_lowercase().as_str() {
        "true" => vec![OptionValue::Bool(true), text],
        "false" => vec![OptionValue::Bool(false), text],
        "1" => vec![text, OptionValue::Bool(true)],
        "0" => vec![text, OptionValue::Bool(false)],
        _ => vec![text],
    }
}

fn trial(candidates: &[Candidate<'_>]) -> CompileOptions {
    let mut overrides: Vec<_> = candidates.iter().map(Candidate::option).collect();
    let (name, value) = DUMP_NOTHING;
    if !overrides.iter().any(|(given, _)| given == name) {
        overrides.push((name.to_owned(), OptionValue::String(value.to_owned())));
    }
    CompileOptions { env_option_overrides: overrides, ..CompileOptions::default() }
}

/// The flag that an error is about; nothing if it is about something else.
fn blamed(candidates: &[Candidate<'_>], error: &Error) -> Option<usize> {
    let is_refusal = error.kind() == ErrorKind::Status(StatusCode::InvalidArgument);
    let words = error.message().split(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '-'));
    let words: Vec<&str> = words.filter(|_| is_refusal).collect();
    candidates.iter().position(|candidate| words.contains(&candidate.flag.name.as_str()))
}

/// Whether the compiler has no such option, or one that only a whole process can set.
fn is_unknown(error: &Error) -> bool {
    ["No such compile option", "is not a valid message value"].iter().any(|w| error.message().contains(w))
}

fn wrong_value(flag: &Flag, error: &Error) -> Problem {
    let message = error.message();
    let reason = message.strip_prefix(&format!("While setting option {}, ", flag.name)).unwrap_or(message);
    let reason = match flag.value {
        Some(_) => reason.trim_end_matches(['.', ':', ' ']).to_owned(),
        None => {
            format!("it takes no truth value, which a flag without a value is; write --{}=VALUE", flag.name)
        }
    };
    Problem::FlagValue { origin: flag.source.clone(), flag: flag.to_string(), reason }
}

/// Why the compiler has no such flag; nothing if that is of no importance.
fn unknown(flag: &Flag, plugin: &Path) -> Option<Problem> {
    let origin = flag.source.clone();
    match FlagNames::read(plugin, &[&flag.name]) {
        Ok(names) if !names.contains(&flag.name) => Some(names.unknown(&flag.name, &origin)),
        Ok(_) if !origin.starts_with('-') => None,
        Ok(_) => {
            let reason = NOT_WITH_A_PROGRAM.to_owned();
            Some(Problem::FlagValue { origin, flag: flag.to_string(), reason })
        }
        Err(_) => Some(Problem::UnknownFlag { name: flag.name.clone(), origin, nearest: vec![] }),
    }
}
