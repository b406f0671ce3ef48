//! MLIR text as a tree of operations, all in the generic form, whatever form they were written in.
//!
//! This is syntax alone: names are not looked up, and types and attributes are text. What an operation means is worked
//! out by whoever lifts the tree into a [`Module`](crate::Module).

use std::fmt;

use super::shared::Text;

/// A place in a text; both numbers count from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Position {
    /// The line.
    pub line: u32,
    /// The character in it.
    pub column: u32,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}", self.line, self.column)
    }
}

/// One operation with everything that was written of it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Operation {
    /// Its name, with the dialect: `stablehlo.add`, `func.func`, `sdy.mesh`.
    pub(crate) name: Text,
    /// What its results are called; nothing where they have no names, as those that nobody uses may.
    pub(crate) results: Vec<ResultName>,
    /// What it is given.
    pub(crate) operands: Vec<Use>,
    /// What stands between `<{` and `}>`, or would in the generic form.
    pub(crate) properties: Vec<Named>,
    /// Its other attributes.
    pub(crate) attributes: Vec<Named>,
    /// The operations inside it.
    pub(crate) regions: Vec<TreeRegion>,
    /// One type for each operand, as text.
    pub(crate) operand_types: Vec<Text>,
    /// One type for each result, as text.
    pub(crate) result_types: Vec<Text>,
    /// What follows `loc`, with its parentheses and with aliases written out.
    pub(crate) location: Option<Text>,
    /// Where it begins.
    pub(crate) at: Position,
}

/// `%name` or `%name:count` on the left of `=`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ResultName {
    /// The name, without `%`.
    pub(crate) name: Text,
    /// How many results it stands for.
    pub(crate) count: usize,
}

/// `%name` or `%name#index` where a value is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Use {
    /// The name, without `%`.
    pub(crate) name: Text,
    /// Which of the results that go by this name.
    pub(crate) index: usize,
    /// Where it stands.
    pub(crate) at: Position,
}

/// `name = value` of a dictionary; a unit attribute's value is `unit`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Named {
    /// The name.
    pub(crate) name: Text,
    /// The value as text in the generic form, with aliases written out.
    pub(crate) value: Text,
    /// Where it stands.
    pub(crate) at: Position,
}

/// A region of one block.
#[derive(Clone, Debug, Default)]
pub(crate) struct TreeRegion {
    /// The block's arguments.
    pub(crate) arguments: Vec<TreeArgument>,
    /// Its operations, the terminator last.
    pub(crate) operations: Vec<Operation>,
}

/// `%name: type {attributes} loc(…)` of a block or a function.
#[derive(Clone, Debug)]
pub(crate) struct TreeArgument {
    /// The name, without `%`.
    pub(crate) name: Text,
    /// The type as text.
    pub(crate) ty: Text,
    /// Its attributes, for a function's.
    pub(crate) attributes: Vec<Named>,
    /// What follows `loc`, with its parentheses.
    pub(crate) location: Option<Text>,
    /// Where it stands.
    pub(crate) at: Position,
}
