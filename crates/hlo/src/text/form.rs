//! What a form is made of.

use super::parse::Parser;
use super::scan::Result;
use super::tree::Operation;

/// The form of one op: its name, pieces, the dictionary of attributes if there is one, types.
pub(super) struct Form {
    /// Its name.
    pub(super) name: &'static str,
    /// What follows the name, piece by piece.
    pub(super) pieces: &'static [Piece],
    /// What is said of types.
    pub(super) types: Types,
    /// Properties that no piece names: those in the dictionary, or of pieces that only this op has.
    properties: &'static [&'static str],
}

/// A piece of a form. Each takes a stretch of the text, and makes of it what the generic form has in its place: operands,
/// or the property that is named first.
pub(super) enum Piece {
    /// `%a, %b, …`
    Operands,
    /// `(%a, %b, …)`
    Called,
    /// Exactly this.
    Token(&'static str),
    /// A name and `=`.
    Field(&'static str),
    /// A comma, a name and `=`.
    Key(&'static str),
    /// `Key` and the pieces after it, or nothing.
    Maybe(&'static str, &'static [Piece]),
    /// `[1, 2]`, in the generic form `array<i64: 1, 2>`.
    Array(&'static str),
    /// `1`, in the generic form with its type: `1 : i64`.
    Integer(&'static str, &'static str),
    /// `LT`, in the generic form with what kind of word it is: `#stablehlo<comparison_direction LT>`.
    Word(&'static str, &'static str),
    /// An attribute that is the same in both forms.
    Attribute(&'static str),
    /// `@name`, in the generic form a string.
    Name(&'static str),
    /// `<…>`, in the generic form with this before it.
    Angled(&'static str, &'static str),
    /// `[…]`, in the generic form between these two.
    Listed(&'static str, (&'static str, &'static str)),
    /// `{…}`, in the generic form between these two.
    Braced(&'static str, (&'static str, &'static str)),
    /// What only this op has.
    Own(fn(&mut Parser<'_>, &mut Operation) -> Result<()>),
}

/// What a form says of types, after `:`. Instead of one or a list, `(types) -> types` may stand there too.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Types {
    /// One type for all operands and the only result.
    Same,
    /// One type for each operand, and the results are of the same; nothing if there are none.
    Each,
    /// One type for each operand, no results; nothing if there are none.
    OperandsOnly,
    /// The type of the first operand, and one for the others and the result.
    Select,
    /// The type of the result, an array of complex numbers whose parts are the operands.
    Complex,
    /// The type of the result, a tuple of the operands.
    Tuple,
    /// The types of the operands without parentheses, `->`, those of the results.
    Arrow,
    /// Nothing: there are neither operands nor results.
    None,
    /// The pieces read them, and the attributes.
    InPieces,
    /// The op is written in the generic form only.
    Generic,
}

/// What is tried with an op that is in no table: the commonest of all forms.
pub(super) const COMMON: &Form = &Form::new("", &[Piece::Operands]);

impl Form {
    pub(super) const fn new(name: &'static str, pieces: &'static [Piece]) -> Form {
        Form { name, pieces, types: Types::Same, properties: &[] }
    }

    /// An op that is written in the generic form only.
    pub(super) const fn generic(name: &'static str, properties: &'static [&'static str]) -> Form {
        Form { name, pieces: &[], types: Types::Generic, properties }
    }

    pub(super) const fn typed(mut self, types: Types) -> Form {
        self.types = types;
        self
    }

    pub(super) const fn with(mut self, properties: &'static [&'static str]) -> Form {
        self.properties = properties;
        self
    }

    /// Whether an attribute of this name is a property of the op.
    pub(super) fn owns(&self, name: &str) -> bool {
        self.properties.contains(&name) || self.pieces.iter().any(|piece| piece.gives(name))
    }
}

impl Piece {
    fn gives(&self, name: &str) -> bool {
        match self {
            Piece::Array(given)
            | Piece::Integer(given, _)
            | Piece::Word(given, _)
            | Piece::Attribute(given)
            | Piece::Name(given)
            | Piece::Angled(given, _)
            | Piece::Listed(given, _)
            | Piece::Braced(given, _) => *given == name,
            Piece::Maybe(_, pieces) => pieces.iter().any(|piece| piece.gives(name)),
            Piece::Operands
            | Piece::Called
            | Piece::Token(_)
            | Piece::Field(_)
            | Piece::Key(_)
            | Piece::Own(_) => false,
        }
    }
}
