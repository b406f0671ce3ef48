//! What a reader of the log should know about a configuration that is fine.

use std::fmt;

use crate::ModulePattern;

/// Something about a configuration that took effect otherwise than its author may think.
/// Keys are spelled as the file does.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Notice {
    /// A key is missing whose default here is not that of the original.
    Defaulted {
        /// The key.
        key: &'static str,
        /// The value taken.
        value: bool,
    },
    /// A key that the file has not, and a variable has.
    FromVariable {
        /// The key.
        key: &'static str,
        /// The variable.
        variable: String,
    },
    /// A key that is understood and changes nothing.
    NoEffect {
        /// The key.
        key: String,
        /// Why it changes nothing.
        why: String,
    },
    /// A key that no table lists; the caller allows these.
    UnknownKey {
        /// The key.
        key: String,
        /// The known key that looks most like it.
        nearest: Option<&'static str>,
    },
    /// A key that looks like a wrap policy and wraps nothing.
    NothingWrapped {
        /// The key.
        key: String,
        /// How to get units.
        instead: &'static str,
    },
    /// A pattern that fits no module of the model.
    NothingMatched {
        /// The key.
        key: &'static str,
        /// The pattern.
        pattern: ModulePattern,
    },
    /// Recomputation is asked for, and no layers are wrapped that could be computed again.
    NothingToRecompute,
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Defaulted { key, value } => {
                write!(f, "key {key} is not given and taken as {value}, the only mode there is")
            }
            Self::FromVariable { key, variable } => write!(f, "key {key} is taken from {variable}"),
            Self::NoEffect { key, why } => write!(f, "key {key} has no effect: {why}"),
            Self::UnknownKey { key, nearest: None } => write!(f, "unknown key {key} is ignored"),
            Self::UnknownKey { key, nearest: Some(nearest) } => {
                write!(f, "unknown key {key} is ignored; the nearest known key is {nearest}")
            }
            Self::NothingWrapped { key, instead } => write!(f, "key {key} wraps nothing; {instead}"),
            Self::NothingMatched { key, pattern } => {
                write!(f, "key {key}: {pattern} fits no module of the model")
            }
            Self::NothingToRecompute => f.write_str(
                "gradient checkpointing does nothing: only wrapped layers are computed again, and none is wrapped",
            ),
        }
    }
}
