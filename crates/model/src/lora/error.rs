use std::fmt;

use thiserror::Error;

use crate::ConfigProblem;

/// An `adapter_config.json` that cannot be followed: which one, and why.
///
/// The message is complete; no cause stands behind it in a chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoraError {
    source_name: String,
    problem: LoraProblem,
}

/// What is wrong with the configuration of adapters.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum LoraProblem {
    /// The text is not JSON, or a member has another type than it must have.
    #[error(transparent)]
    Json(ConfigProblem),
    /// A member that would give other adapters than those that can be trained.
    #[error("{field} is {found}; supported: {supported}")]
    Unsupported {
        /// The member.
        field: String,
        /// Its value.
        found: String,
        /// What it may be.
        supported: &'static str,
    },
    /// A member that nobody knows, with a value that may mean something.
    #[error("{field} is {found}, and its meaning is not known; remove it if the adapter does not need it")]
    Unknown {
        /// The member.
        field: String,
        /// Its value.
        found: String,
    },
    /// A member that goes together with another one only.
    #[error("{field} is given, but {reason}")]
    Conflict {
        /// The member.
        field: &'static str,
        /// Why it cannot be.
        reason: &'static str,
    },
    /// A text that is no regular expression, or one that takes too long.
    #[error("{field} {pattern:?} is not a regular expression that can be followed: {message}")]
    Pattern {
        /// The member.
        field: &'static str,
        /// The text.
        pattern: String,
        /// Why not.
        message: String,
    },
    /// Targets that the model does not have.
    #[error("target_modules {targets} name no module of the model; its projections are {projections}")]
    NoTarget {
        /// What was asked for.
        targets: String,
        /// The names of the model's projections.
        projections: String,
    },
    /// A target that is no projection.
    #[error(
        "target_modules name {path}, a module of class {class}: adapters stand beside projections ({projections})"
    )]
    NotProjection {
        /// The module.
        path: String,
        /// Its class.
        class: &'static str,
        /// The names of the model's projections.
        projections: String,
    },
    /// A module to be trained in full that the model does not have.
    #[error("modules_to_save names {name}, which no module of the model ends with")]
    NoSavedModule {
        /// The name.
        name: String,
    },
    /// A module to be trained in full that has its parameters in modules of its own.
    #[error("modules_to_save names {path}, a module of class {class} that holds others; name those")]
    HoldsOthers {
        /// The module.
        path: String,
        /// Its class.
        class: &'static str,
    },
    /// One of the two tables of a model that has one for both.
    #[error(
        "{field} names {path}, whose weight is that of both tables (tie_word_embeddings): the adapter would be read as one of them only"
    )]
    Tied {
        /// The member.
        field: &'static str,
        /// The module.
        path: String,
    },
}

impl LoraError {
    pub(super) fn new(source_name: &str, problem: LoraProblem) -> LoraError {
        LoraError { source_name: source_name.to_owned(), problem }
    }

    /// The name that the text was parsed under.
    pub fn source_name(&self) -> &str {
        &self.source_name
    }

    /// What is wrong.
    pub fn problem(&self) -> &LoraProblem {
        &self.problem
    }
}

impl fmt::Display for LoraError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.source_name, self.problem)
    }
}

impl std::error::Error for LoraError {}
