use thiserror::Error;

pub(super) const SUPPORTED: &str = "default, linear, dynamic, llama3, yarn";

/// Why a rotary setting cannot be followed. The field is `rope_scaling` or `rope_parameters`.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RotaryError {
    /// A type that is not implemented.
    #[error("{field}: type {found:?} is not supported; supported are {SUPPORTED}")]
    Type {
        /// The field of the configuration.
        field: &'static str,
        /// The type it names.
        found: String,
    },
    /// No type where one is needed.
    #[error("{field} names no rope_type; supported are {SUPPORTED}")]
    NoType {
        /// The field of the configuration.
        field: &'static str,
    },
    /// A member that the type needs is missing.
    #[error("{field} of type {ty} needs {member}")]
    Missing {
        /// The field of the configuration.
        field: &'static str,
        /// The type it names.
        ty: String,
        /// What is missing.
        member: &'static str,
    },
    /// A member that has no meaning for the type.
    #[error("{field} of type {ty} has no use for {member}; supported are {SUPPORTED}")]
    Unused {
        /// The field of the configuration.
        field: &'static str,
        /// The type it names.
        ty: String,
        /// The member.
        member: String,
    },
    /// Settings by kind of layer, of which one is missing or no such kind.
    #[error("{field} has {found}, but must have full_attention and sliding_attention, each with settings")]
    Kinds {
        /// The field of the configuration.
        field: &'static str,
        /// The members it has.
        found: String,
    },
    /// A number outside its range.
    #[error("{field}.{member} is {found}, but must be {needed}")]
    Value {
        /// The field of the configuration.
        field: &'static str,
        /// The member.
        member: &'static str,
        /// Its value.
        found: String,
        /// What is possible.
        needed: String,
    },
    /// A base from which no frequencies follow.
    #[error("{field} is {found}, but must be more than 1")]
    Theta {
        /// The field of the configuration.
        field: &'static str,
        /// Its value.
        found: String,
    },
    /// Two settings for one thing.
    #[error("{first} and {second} say different things; keep one of them")]
    Conflict {
        /// One of the fields.
        first: String,
        /// The other one.
        second: String,
    },
}
