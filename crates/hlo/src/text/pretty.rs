//! Reads ops in their own forms, and makes the generic form of them.

use super::ParseError;
use super::error::ParseProblem;
use super::form::{COMMON, Form, Piece, Types};
use super::own::{array, quoted};
use super::parse::Parser;
use super::scan::Result;
use super::shared::Text;
use super::tree::{Named, Operation};

impl Parser<'_> {
    /// Reads what follows an op's name.
    pub(super) fn pretty(&mut self, op: &mut Operation) -> Result<()> {
        match self.form(op).filter(|form| form.types != Types::Generic) {
            Some(form) => self.form_of(form, op),
            None => self.form_of(COMMON, op).map_err(|error| self.unknown_form(op, error)),
        }
    }

    fn form_of(&mut self, form: &Form, op: &mut Operation) -> Result<()> {
        form.pieces.iter().try_for_each(|piece| self.piece(piece, op))?;
        if form.types == Types::InPieces {
            return Ok(());
        }
        self.attributes(op)?;
        self.types_of(form.types, op)
    }

    fn unknown_form(&self, op: &Operation, error: ParseError) -> ParseError {
        let ParseProblem::Unexpected { found, .. } = error.problem() else { return error };
        let problem = ParseProblem::UnknownForm { op: op.name.to_string(), found: found.clone() };
        ParseError::new(self.cursor.text(), error.position(), problem)
    }

    fn piece(&mut self, piece: &Piece, op: &mut Operation) -> Result<()> {
        match *piece {
            Piece::Operands => op.operands = self.uses()?,
            Piece::Called => self.called(op)?,
            Piece::Token(token) => self.cursor.expect(token)?,
            Piece::Field(name) => {
                self.cursor.expect(name)?;
                self.cursor.expect("=")?;
            }
            Piece::Key(key) => {
                if !self.key(key) {
                    return Err(self.cursor.unexpected(&format!("`, {key} =`")));
                }
            }
            Piece::Maybe(key, pieces) => {
                if self.key(key) {
                    pieces.iter().try_for_each(|piece| self.piece(piece, op))?;
                }
            }
            Piece::Array(name) => {
                let items = self.bracketed_text("[")?;
                self.set(op, name, &array("i64", &items));
            }
            Piece::Integer(name, ty) => {
                let value = self.cursor.number()?;
                self.set(op, name, &format!("{value} : {ty}"));
            }
            Piece::Word(name, kind) => {
                let word = self.cursor.word("one of the op's names for what it does")?;
                self.set(op, name, &format!("#stablehlo<{kind} {word}>"));
            }
            Piece::Attribute(name) => {
                let value = self.plain_attribute()?;
                let value = self.text(value)?;
                self.set(op, name, &value);
            }
            Piece::Name(name) => {
                let symbol = self.symbol()?;
                self.set(op, name, &quoted(symbol));
            }
            Piece::Angled(name, before) => self.wrapped(op, name, "<", (before, ""))?,
            Piece::Listed(name, around) => self.wrapped(op, name, "[", around)?,
            Piece::Braced(name, around) => self.wrapped(op, name, "{", around)?,
            Piece::Own(read) => read(self, op)?,
        }
        Ok(())
    }

    /// `, key =`, if that is next.
    pub(super) fn key(&mut self, key: &str) -> bool {
        let before = self.cursor;
        let found = self.cursor.eat(",") && self.cursor.eat_word(key) && self.cursor.eat("=");
        if !found {
            self.cursor = before;
        }
        found
    }

    /// `(%a, %b, …)`.
    pub(super) fn called(&mut self, op: &mut Operation) -> Result<()> {
        self.cursor.expect("(")?;
        op.operands = self.uses()?;
        self.cursor.expect(")")
    }

    pub(super) fn bracketed_text(&mut self, open: &str) -> Result<Text> {
        let raw = self.cursor.bracketed(open)?;
        self.text(raw)
    }

    /// A property that is what stands in brackets, with something around it.
    pub(super) fn wrapped(
        &mut self,
        op: &mut Operation,
        name: &str,
        open: &str,
        (before, after): (&str, &str),
    ) -> Result<()> {
        let inner = self.bracketed_text(open)?;
        self.set(op, name, &format!("{before}{inner}{after}"));
        Ok(())
    }

    /// Adds a property.
    pub(super) fn set(&mut self, op: &mut Operation, name: &str, value: &str) {
        let (name, value) = (self.made(name), self.made(value));
        op.properties.push(Named { name, value, at: op.at });
    }

    /// `: types`, for all operands and results.
    pub(super) fn types_of(&mut self, types: Types, op: &mut Operation) -> Result<()> {
        let may_be_none = matches!(types, Types::Each | Types::OperandsOnly) && op.operands.is_empty();
        if types == Types::None || may_be_none && self.cursor.peek() != Some(b':') {
            return Ok(());
        }
        self.cursor.expect(":")?;
        if types != Types::Arrow && self.cursor.peek() == Some(b'(') {
            return self.function_type(op);
        }
        match types {
            Types::Same => {
                let ty = self.ty()?;
                op.operand_types = vec![ty.clone(); op.operands.len()];
                op.result_types = vec![ty];
            }
            Types::Each => {
                op.operand_types = self.bare_types()?;
                op.result_types.clone_from(&op.operand_types);
            }
            Types::OperandsOnly => op.operand_types = self.bare_types()?,
            Types::Select => {
                let condition = self.ty()?;
                self.cursor.expect(",")?;
                let ty = self.ty()?;
                op.operand_types = vec![ty.clone(); op.operands.len()];
                op.operand_types.splice(..1.min(op.operands.len()), [condition]);
                op.result_types = vec![ty];
            }
            Types::Complex => {
                let before = self.cursor;
                let ty = self.ty()?;
                let part = complex_part(&ty);
                let part = part.ok_or_else(|| before.unexpected("an array of complex numbers"))?;
                op.operand_types = vec![self.made(&part); op.operands.len()];
                op.result_types = vec![ty];
            }
            Types::Tuple => {
                let before = self.cursor;
                op.result_types = vec![self.ty()?];
                let behind = std::mem::replace(&mut self.cursor, before);
                self.cursor.expect("tuple")?;
                op.operand_types = self.type_list("<", ">")?;
                self.cursor = behind;
            }
            Types::Arrow => {
                op.operand_types = self.bare_types()?;
                self.cursor.expect("->")?;
                op.result_types = self.types()?;
            }
            Types::None | Types::InPieces | Types::Generic => {}
        }
        Ok(())
    }

    /// Types without parentheses around them.
    fn bare_types(&mut self) -> Result<Vec<Text>> {
        let mut list = vec![self.ty()?];
        while self.cursor.eat(",") {
            list.push(self.ty()?);
        }
        Ok(list)
    }
}

/// The type of the real parts of an array of complex numbers: `tensor<4xf32>` for `tensor<4xcomplex<f32>>`.
fn complex_part(ty: &str) -> Option<String> {
    let (before, rest) = ty.split_once("complex<")?;
    let (part, after) = rest.split_once('>')?;
    (!part.contains('<')).then(|| format!("{before}{part}{after}"))
}
