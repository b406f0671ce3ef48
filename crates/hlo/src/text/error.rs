use std::fmt;

use super::ProgramProblem;
use super::tree::Position;

/// Why a text is no program that can be read, and where that shows.
///
/// `Display` gives the place, what is wrong there, and the line with a mark under the place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError(Box<Details>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Details {
    at: Position,
    problem: ParseProblem,
    excerpt: String,
}

/// What is wrong with a text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseProblem {
    /// Something else is there.
    #[error("expected {expected}, found {found}")]
    Unexpected {
        /// What is there.
        found: String,
        /// What could be.
        expected: String,
    },
    /// An op's own way of being written is not known.
    #[error(
        "op `{op}` is written in a form that is not known here, with {found} at this place; print the module in the \
         generic form"
    )]
    UnknownForm {
        /// The op's name.
        op: String,
        /// What is there.
        found: String,
    },
    /// Regions, brackets or aliases inside each other, too many of them to follow.
    #[error("{what} are nested more than {limit} deep")]
    TooDeep {
        /// What is nested.
        what: &'static str,
        /// How deep it may be.
        limit: usize,
    },
    /// An alias is used that is defined nowhere in the text.
    #[error("`{name}` is defined nowhere")]
    UndefinedAlias {
        /// The alias, with its sigil.
        name: String,
    },
    /// The text has too many bytes, or its aliases stand for more than anyone would write.
    #[error("the text with its aliases written out has more than {limit} bytes")]
    TooLong {
        /// How many there may be.
        limit: usize,
    },
    /// A constant was left out when the module was printed.
    #[error(
        "the values of `dense_resource<{name}>` are not in the text; print the module without leaving out large \
         constants"
    )]
    MissingResource {
        /// The constant's name.
        name: String,
    },
    /// The text is well formed, and what it says is no program.
    #[error(transparent)]
    Program(#[from] ProgramProblem),
}

impl ParseProblem {
    /// Whether the text says something, but too much of it.
    pub(super) fn is_limit(&self) -> bool {
        matches!(self, ParseProblem::TooDeep { .. } | ParseProblem::TooLong { .. })
    }
}

/// How many characters of a line are shown on either side of the place.
const EXCERPT: usize = 36;

impl ParseError {
    /// An error at a place of `text`.
    pub(crate) fn new(text: &str, at: Position, problem: ParseProblem) -> ParseError {
        ParseError(Box::new(Details { at, problem, excerpt: excerpt(text, at) }))
    }

    /// Where it shows.
    pub fn position(&self) -> Position {
        self.0.at
    }

    /// What is wrong.
    pub fn problem(&self) -> &ParseProblem {
        &self.0.problem
    }

    /// The line, or the part of it around the place, and below that a line with `^` under the place.
    pub fn excerpt(&self) -> &str {
        &self.0.excerpt
    }
}

impl std::error::Error for ParseError {}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Details { at, problem, excerpt } = &*self.0;
        write!(f, "{at}: {problem}\n{excerpt}")
    }
}

fn excerpt(text: &str, at: Position) -> String {
    let line = text.split('\n').nth(at.line.saturating_sub(1) as usize).unwrap_or_default();
    let column = at.column.saturating_sub(1) as usize;
    let skipped = column.saturating_sub(EXCERPT);
    let shown: String = line.chars().skip(skipped).take(2 * EXCERPT).map(printable).collect();
    let shown = format!("  {shown}");
    format!("{}\n  {:column$}^", shown.trim_end(), "", column = column - skipped)
}

/// Tabs and the like as one column of space, so that the mark stands where it should.
fn printable(c: char) -> char {
    if c.is_control() { ' ' } else { c }
}
