use std::fmt;

use thiserror::Error;

use crate::rotary::RotaryError;

/// A `config.json` that describes no model that can be run: which one, and why.
///
/// The message is complete; no cause stands behind it in a chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    source_name: String,
    problem: ConfigProblem,
}

/// What is wrong with a configuration.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ConfigProblem {
    /// The text is not JSON, or a member has another type than it must have.
    #[error("line {line}, column {column}: {message}{}",
        if text.is_empty() { String::new() } else { format!(", after `{text}`") })]
    Json {
        /// Counted from 1.
        line: usize,
        /// Counted from 1.
        column: usize,
        /// What is wrong.
        message: String,
        /// The end of the line up to there.
        text: String,
    },
    /// A setting that would give another model than the one that can be run.
    #[error("{field} is {found}; supported: {supported}")]
    Unsupported {
        /// The member.
        field: &'static str,
        /// Its value.
        found: String,
        /// What it may be.
        supported: String,
    },
    /// A size that is zero or beyond reason.
    #[error("{field} is {found}, but must lie between 1 and {most}")]
    Size {
        /// The member.
        field: &'static str,
        /// Its value.
        found: usize,
        /// The largest possible value.
        most: usize,
    },
    /// Two sizes that do not go together.
    #[error("{field} {found} does not divide by {divisor_field} {divisor}{}", hint(field))]
    NotDivisible {
        /// The member.
        field: &'static str,
        /// Its value.
        found: usize,
        /// What it must divide by.
        divisor_field: &'static str,
        /// The value of that.
        divisor: usize,
    },
    /// A rotary setting that cannot be followed.
    #[error(transparent)]
    Rotary(#[from] RotaryError),
}

fn hint(field: &str) -> &'static str {
    if field == "hidden_size" { "; give head_dim if the head size is another" } else { "" }
}

/// What stands before a position, on the same line.
fn excerpt(text: &str, line: usize, column: usize) -> String {
    const SHOWN: usize = 60;
    let line = text.lines().nth(line.saturating_sub(1)).unwrap_or_default();
    let before = &line.as_bytes()[..column.min(line.len())];
    let shown = &before[before.len().saturating_sub(SHOWN)..];
    String::from_utf8_lossy(shown).trim().to_owned()
}

impl ConfigProblem {
    pub(super) fn unsupported(
        field: &'static str,
        found: impl fmt::Display,
        supported: impl Into<String>,
    ) -> ConfigProblem {
        ConfigProblem::Unsupported { field, found: found.to_string(), supported: supported.into() }
    }

    pub(crate) fn json(error: &serde_json::Error, text: &str) -> ConfigProblem {
        let (line, column) = (error.line(), error.column());
        let message = error.to_string();
        let position = format!(" at line {line} column {column}");
        let message = message.strip_suffix(&position).unwrap_or(&message).to_owned();
        ConfigProblem::Json { line, column, message, text: excerpt(text, line, column) }
    }
}

impl ConfigError {
    pub(crate) fn new(source_name: &str, problem: ConfigProblem) -> ConfigError {
        ConfigError { source_name: source_name.to_owned(), problem }
    }

    /// The name that the text was parsed under.
    pub fn source_name(&self) -> &str {
        &self.source_name
    }

    /// What is wrong.
    pub fn problem(&self) -> &ConfigProblem {
        &self.problem
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.source_name, self.problem)
    }
}

impl std::error::Error for ConfigError {}
