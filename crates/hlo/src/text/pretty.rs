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

    pub(super) fn types_of(&mut self, types: Types, op: &mut Operation) -> Result<()> {
        let may_be_none = matches!(types, Types::Each | Types::OperandsOnly) && op.operands.is_empty();
        if types == Types::None || may_be_none && self.cursor.peek() != Some(b':') {
            return Ok(());
        }
        self.cursor.expect(":")?;
        if types != Types::Arrow && self.cursor.peek() == Some(b'(') {
            return self.function_type(op);
        }
        let before = self.cursor;
        let mut list = vec![self.ty()?];
        while self.cursor.eat(",") {
            list.push(self.ty()?);
        }
        let one = |list: &[Text]| (list.len() == 1).then(|| list[0].clone());
        let count = op.operands.len();
        match types {
            Types::Same => {
                let ty = one(&list).ok_or_else(|| self.cursor.unexpected("one type for everything"))?;
                op.operand_types = vec![ty.clone(); count];
                op.result_types = vec![ty];
            }
            Types::Each => {
                op.result_types.clone_from(&list);
                op.operand_types = list;
            }
            Types::OperandsOnly => op.operand_types = list,
            Types::Select => {
                let [_, ty] = &list[..] else {
                    return Err(self.cursor.unexpected("two types, those of the condition and the values"));
                };
                op.result_types = vec![ty.clone()];
                list.resize(count.max(1), list[1].clone());
                op.operand_types = list;
            }
            Types::Complex => {
                let ty = one(&list).ok_or_else(|| self.cursor.unexpected("one type"))?;
                let part = ty.replacen("complex<", "", 1).replacen(">>", ">", 1);
                op.operand_types = vec![self.made(&part); count];
                op.result_types = vec![ty];
            }
            Types::Tuple => {
                self.cursor = before;
                if !self.cursor.eat_word("tuple") {
                    return Err(self.cursor.unexpected("a tuple"));
                }
                op.operand_types = self.type_list("<", ">")?;
                op.result_types = list;
            }
            Types::Arrow => {
                self.cursor.expect("->")?;
                op.operand_types = list;
                op.result_types = self.types()?;
            }
            Types::None | Types::InPieces | Types::Generic => {}
        }
        Ok(())
    }
}
