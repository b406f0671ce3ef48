//! What can be wrong with a configuration file or the `--fsdp` flag.

use thiserror::Error;

use super::strategy::{ShardingRequest, Strategy};

/// Why an FSDP configuration cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum FsdpConfigError {
    /// The text is not a JSON object.
    #[error("{origin}:{line}:{column}: not a JSON object of FSDP keys: {message}")]
    Syntax {
        /// The name the caller gave to the text.
        origin: String,
        /// The line, from 1.
        line: usize,
        /// The column, from 1.
        column: usize,
        /// What the JSON reader says.
        message: String,
    },
    /// Keys that are unknown, malformed, contradictory or cannot be met.
    #[error("{origin}: {}", in_lines(problems))]
    Keys {
        /// The name the caller gave to the text.
        origin: String,
        /// At least one problem.
        problems: Vec<KeyProblem>,
    },
}

/// One thing that is wrong with the keys of a configuration. Keys are spelled as the file does.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum KeyProblem {
    /// A key that no table lists.
    #[error("unknown key {key}; {}", suggestion(*nearest))]
    Unknown {
        /// The key.
        key: String,
        /// The known key that looks most like it.
        nearest: Option<&'static str>,
    },
    /// A value of another type, or outside the choices.
    #[error("key {key}: wanted {wanted}, got {got}")]
    WrongValue {
        /// The key.
        key: String,
        /// The values it takes.
        wanted: String,
        /// The value and its JSON type.
        got: String,
    },
    /// Two keys, or two spellings of one key, that contradict each other.
    #[error("keys {first} ({first_value}) and {second} ({second_value}) disagree; keep one of them")]
    Disagree {
        /// The key that comes first.
        first: String,
        /// Its value.
        first_value: String,
        /// The other key.
        second: String,
        /// Its value.
        second_value: String,
    },
    /// A request that is understood and cannot be met.
    #[error("key {key}: {got} is not supported; {works}")]
    Unsupported {
        /// The key.
        key: String,
        /// The value and its JSON type.
        got: String,
        /// What to write in its place.
        works: &'static str,
    },
    /// A list of classes and a size, without a policy to choose between them.
    #[error(
        "keys {classes} and {size} ask for two wrap policies; keep one of them, \
         or set auto_wrap_policy to TRANSFORMER_BASED_WRAP or SIZE_BASED_WRAP"
    )]
    TwoWrapPolicies {
        /// The key with the class names.
        classes: String,
        /// The key with the size.
        size: String,
    },
}

/// Why the words of `--fsdp` cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum StrategyError {
    /// A word that is none of the choices.
    #[error("--fsdp: unknown word {word}; choose one of {}, and auto_wrap beside it", Strategy::WORDS.join(", "))]
    UnknownWord {
        /// The word.
        word: String,
    },
    /// Two strategies at once.
    #[error("--fsdp: {first} and {second} exclude each other; keep one of them")]
    TwoStrategies {
        /// The strategy that comes first.
        first: Strategy,
        /// The other one.
        second: Strategy,
    },
    /// Parameters in host memory, which this version does not offer.
    #[error(
        "--fsdp: offload is not supported, parameters stay on the devices; \
         leave it out and choose one of {}", Strategy::WORDS.join(", ")
    )]
    Offload,
    /// The flag and the configuration file name different strategies.
    #[error("--fsdp {strategy} disagrees with {origin}, where {request}; change one of them")]
    FileDisagrees {
        /// What the flag says.
        strategy: Strategy,
        /// The name of the file.
        origin: String,
        /// What the file says.
        request: ShardingRequest,
    },
}

/// One problem on the line itself, several on indented lines of their own.
fn in_lines(problems: &[KeyProblem]) -> String {
    match problems {
        [only] => only.to_string(),
        _ => problems.iter().fold(format!("{} problems", problems.len()), |text, problem| {
            text + "\n  " + &problem.to_string()
        }),
    }
}

fn suggestion(nearest: Option<&str>) -> String {
    match nearest {
        Some(key) => format!("did you mean {key}? Otherwise remove it, or allow unknown keys"),
        None => "remove it, or allow unknown keys".to_owned(),
    }
}
