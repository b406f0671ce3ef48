//! Reads ops in their own forms, and makes the generic form of them.

use super::ParseError;
use super::error::ParseProblem;
use super::forms::{COMMON, Piece, Types};
use super::own::{array, quoted};
use super::parse::Parser;
use super::scan::Result;
use super::shared::Text;
use super::tree::{Named, Operation};

impl Parser<'_> {
    /// Reads what follows an op's name.
    pub(super) fn pretty(&mut self, op: &mut Operation) -> Result<()> {
        match self.form(op).filter(|form| !form.pieces.is_empty()) {
            Some(form) => form.pieces.iter().try_for_each(|piece| self.piece(piece, op))?,
            None => COMMON
                .iter()
                .try_for_each(|piece| self.piece(piece, op))
                .map_err(|_| self.unknown_form(op))?,
        }
        self.sort_properties(op)
    }

    fn unknown_form(&self, op: &Operation) -> ParseError {
        let problem = ParseProblem::UnknownForm { op: op.name.to_string(), found: self.cursor.found() };
        self.cursor.error(problem)
    }

    fn piece(&mut self, piece: &Piece, op: &mut Operation) -> Result<()> {
        match *piece {
            Piece::Operands => op.operands = self.uses()?,
            Piece::Called => self.called(op)?,
            Piece::Token(token) => self.cursor.expect(token)?,
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
                let value = self.attribute()?;
                self.set(op, name, &value);
            }
            Piece::Name(name) => {
                let symbol = self.symbol()?;
                self.set(op, name, &quoted(symbol));
            }
            Piece::Angled(name, before) => self.wrapped(op, name, before, "<", "")?,
            Piece::Listed(name, before, after) => self.wrapped(op, name, before, "[", after)?,
            Piece::Braced(name, before, after) => self.wrapped(op, name, before, "{", after)?,
            Piece::Attributes => self.attributes(op)?,
            Piece::Types(types) => self.types_of(op, types)?,
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

    fn wrapped(
        &mut self,
        op: &mut Operation,
        name: &str,
        before: &str,
        open: &str,
        after: &str,
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

    pub(super) fn types_of(&mut self, op: &mut Operation, types: Types) -> Result<()> {
        let may_be_none = matches!(types, Types::Each | Types::OperandsOnly) && op.operands.is_empty();
        if may_be_none && self.cursor.peek() != Some(b':') {
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
        }
        Ok(())
    }
}
