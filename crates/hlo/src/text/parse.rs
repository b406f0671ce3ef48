//! Operations in MLIR's generic form, and everything that all forms have in common.

use std::collections::HashMap;

use super::ParseError;
use super::alias::Aliases;
use super::error::ParseProblem;
use super::form::Form;
use super::forms::{FORMS, SHORT_NAMES};
use super::scan::{Cursor, Raw, Result, without_quotes};
use super::shared::{Text, Texts};
use super::tree::{Named, Operation, Position, ResultName, TreeArgument, TreeRegion, Use};

/// How deep operations may lie in each other. Programs have a few loops and branches inside each other; at this depth
/// whatever calls itself for each region still fits into the stack of a thread, in a debug build too.
pub(super) const DEEPEST_REGIONS: usize = 64;

/// Reads a text with one `module`, or with functions alone, which then are the body of an unnamed one.
pub(crate) fn read(text: &str) -> Result<Operation> {
    if u32::try_from(text.len()).is_err() {
        let problem = ParseProblem::TooLong { limit: u32::MAX as usize };
        return Err(ParseError::new(text, Position { line: 1, column: 1 }, problem));
    }
    let mut parser = Parser {
        cursor: Cursor::new(text),
        aliases: Aliases::read(text)?,
        texts: Texts::default(),
        forms: FORMS.iter().map(|form| (form.name, form)).collect(),
        depth: 0,
    };
    parser.top()
}

/// A text on its way to a tree.
pub(super) struct Parser<'a> {
    pub(super) cursor: Cursor<'a>,
    aliases: Aliases<'a>,
    texts: Texts,
    forms: HashMap<&'static str, &'static Form>,
    depth: usize,
}

impl<'a> Parser<'a> {
    fn top(&mut self) -> Result<Operation> {
        let at = self.cursor.position();
        let mut operations = Vec::new();
        loop {
            match self.cursor.peek() {
                None => break,
                Some(b'#' | b'!') => {
                    self.cursor.line("a definition")?;
                }
                Some(b'{') => self.skip_resources()?,
                Some(_) => operations.push(self.operation()?),
            }
        }
        match operations.pop() {
            Some(module) if operations.is_empty() && module.name == "builtin.module" => Ok(module),
            None => Err(self.cursor.unexpected("`module`")),
            Some(last) => {
                operations.push(last);
                let body = TreeRegion { arguments: Vec::new(), operations };
                Ok(Operation {
                    name: "builtin.module".into(),
                    regions: vec![body],
                    at,
                    ..Operation::default()
                })
            }
        }
    }

    fn skip_resources(&mut self) -> Result<()> {
        let rest = &self.cursor.text()[self.cursor.offset()..];
        match rest.find("#-}") {
            Some(length) if rest.starts_with("{-#") => {
                self.cursor.go_to(self.cursor.offset() + length + "#-}".len());
                Ok(())
            }
            _ => Err(self.cursor.unexpected("an operation")),
        }
    }

    /// Reads one operation with its results and location.
    pub(super) fn operation(&mut self) -> Result<Operation> {
        let mut op = Operation { at: self.cursor.position(), ..Operation::default() };
        if self.cursor.peek() == Some(b'%') {
            op.results = self.result_names()?;
        }
        if self.cursor.peek() == Some(b'"') {
            let quoted = self.cursor.string()?;
            op.name = self.texts.get(&quoted[1..quoted.len() - 1]);
            self.generic(&mut op)?;
        } else {
            let word = self.cursor.word("an operation")?;
            let name = SHORT_NAMES.iter().find(|(short, _)| *short == word).map_or(word, |(_, name)| name);
            op.name = self.texts.get(name);
            self.pretty(&mut op)?;
        }
        op.properties = self.in_order(std::mem::take(&mut op.properties))?;
        if op.location.is_none() {
            op.location = self.location()?;
        }
        self.check_counts(&op)?;
        Ok(op)
    }

    /// The form of an op, if it is one that has rules.
    pub(super) fn form(&self, op: &Operation) -> Option<&'static Form> {
        self.forms.get(op.name.as_str()).copied()
    }

    /// `%a, %b:2 =`.
    fn result_names(&mut self) -> Result<Vec<ResultName>> {
        let mut results = Vec::with_capacity(1);
        loop {
            let name = self.cursor.name("%", "the name of a value")?;
            let count = if self.cursor.eat(":") { self.cursor.number()? } else { 1 };
            results.push(ResultName { name: self.texts.get(name), count });
            if !self.cursor.eat(",") {
                break;
            }
        }
        self.cursor.expect("=")?;
        Ok(results)
    }

    /// `(operands) <{properties}> ({regions}) {attributes} : (types) -> types`.
    fn generic(&mut self, op: &mut Operation) -> Result<()> {
        self.cursor.expect("(")?;
        op.operands = self.uses()?;
        self.cursor.expect(")")?;
        let mut properties = None;
        if self.cursor.eat("<") {
            properties = Some(self.cursor);
            op.properties = self.dictionary()?;
            self.cursor.expect(">")?;
        }
        if self.cursor.eat("(") {
            loop {
                let region = self.region(Vec::new())?;
                op.regions.push(region);
                if !self.cursor.eat(",") {
                    break;
                }
            }
            self.cursor.expect(")")?;
        }
        // Older texts have all properties among the attributes.
        let dictionary = properties.unwrap_or(self.cursor);
        self.attributes(op)?;
        self.cursor.expect(":")?;
        self.function_type(op)?;
        if op.name == "func.func" { self.give_arguments_attributes(op, dictionary) } else { Ok(()) }
    }

    /// `%a, %b#1, …`, or none.
    pub(super) fn uses(&mut self) -> Result<Vec<Use>> {
        // Most ops have no more.
        let mut uses = Vec::with_capacity(if self.cursor.peek() == Some(b'%') { 2 } else { 0 });
        while self.cursor.peek() == Some(b'%') {
            uses.push(self.value()?);
            let before = self.cursor;
            if !self.cursor.eat(",") || self.cursor.peek() != Some(b'%') {
                self.cursor = before;
                break;
            }
        }
        Ok(uses)
    }

    /// `%a` or `%a#1`.
    pub(super) fn value(&mut self) -> Result<Use> {
        let at = self.cursor.position();
        let name = self.cursor.name("%", "a value")?;
        let index = if self.cursor.eat("#") { self.cursor.number()? } else { 0 };
        Ok(Use { name: self.texts.get(name), index, at })
    }

    /// `{name = value, name, …}`.
    pub(super) fn dictionary(&mut self) -> Result<Vec<Named>> {
        self.cursor.expect("{")?;
        let mut entries = Vec::with_capacity(1);
        while self.cursor.peek() != Some(b'}') {
            let at = self.cursor.position();
            let name = self.entry_name()?;
            let value = match self.cursor.eat("=") {
                true => {
                    let value = self.cursor.until(",", "an attribute")?;
                    self.text(value)?
                }
                false => self.texts.get("unit"),
            };
            entries.push(Named { name: self.texts.get(name), value, at });
            if !self.cursor.eat(",") {
                break;
            }
        }
        self.cursor.expect("}")?;
        self.in_order(entries)
    }

    fn entry_name(&mut self) -> Result<&'a str> {
        match self.cursor.peek() {
            Some(b'"') => self.cursor.string().map(without_quotes),
            _ => self.cursor.word("the name of an attribute"),
        }
    }

    /// The dictionary of attributes, if there is one: those that belong to the op become properties.
    pub(super) fn attributes(&mut self, op: &mut Operation) -> Result<()> {
        if self.cursor.peek() != Some(b'{') {
            return Ok(());
        }
        let form = self.form(op);
        for entry in self.dictionary()? {
            let own = form.is_some_and(|form| form.owns(&entry.name));
            if own { op.properties.push(entry) } else { op.attributes.push(entry) }
        }
        Ok(())
    }

    /// Puts the entries of a dictionary, which has no order, into MLIR's: by name.
    pub(super) fn in_order(&self, mut entries: Vec<Named>) -> Result<Vec<Named>> {
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        match entries.windows(2).find(|pair| pair[0].name == pair[1].name) {
            Some([first, second]) => {
                let found = format!("`{}` a second time", first.name);
                Err(self.error_at(first.at.max(second.at), found, "each name once"))
            }
            _ => Ok(entries),
        }
    }

    /// `{ operations }`, with `^name(arguments):` first unless the arguments stand elsewhere.
    pub(super) fn region(&mut self, arguments: Vec<TreeArgument>) -> Result<TreeRegion> {
        let mut region = TreeRegion { arguments, operations: Vec::new() };
        self.cursor.expect("{")?;
        self.depth += 1;
        if self.depth > DEEPEST_REGIONS {
            let problem = ParseProblem::TooDeep { what: "regions", limit: DEEPEST_REGIONS };
            return Err(self.cursor.error(problem));
        }
        if self.cursor.peek() == Some(b'^') {
            self.cursor.name("^", "a block")?;
            if self.cursor.eat("(") {
                region.arguments = self.arguments()?;
                self.cursor.expect(")")?;
            }
            self.cursor.expect(":")?;
        }
        while !self.cursor.eat("}") {
            if self.cursor.peek() == Some(b'^') {
                return Err(self.cursor.unexpected("a region of one block, and `}` at its end"));
            }
            if self.cursor.peek().is_none() {
                return Err(self.cursor.unexpected("`}` at the end of a region"));
            }
            region.operations.push(self.operation()?);
        }
        region.operations.shrink_to_fit();
        self.depth -= 1;
        Ok(region)
    }

    /// `%a: type {attributes} loc(…), …`, or none.
    pub(super) fn arguments(&mut self) -> Result<Vec<TreeArgument>> {
        let mut arguments = Vec::new();
        while self.cursor.peek() == Some(b'%') {
            arguments.push(self.argument()?);
            if !self.cursor.eat(",") {
                break;
            }
        }
        Ok(arguments)
    }

    /// `%a: type {attributes} loc(…)`.
    pub(super) fn argument(&mut self) -> Result<TreeArgument> {
        let at = self.cursor.position();
        let name = self.cursor.name("%", "an argument")?;
        let name = self.texts.get(name);
        self.cursor.expect(":")?;
        self.argument_called(name, at)
    }

    /// `type {attributes} loc(…)` of an argument whose name is known.
    pub(super) fn argument_called(&mut self, name: Text, at: Position) -> Result<TreeArgument> {
        let ty = self.ty()?;
        let attributes = if self.cursor.peek() == Some(b'{') { self.dictionary()? } else { Vec::new() };
        Ok(TreeArgument { name, ty, attributes, location: self.location()?, at })
    }

    /// `loc(…)`, if it is next.
    pub(super) fn location(&mut self) -> Result<Option<Text>> {
        let start = self.cursor.next_offset();
        if !self.cursor.eat_word("loc") {
            return Ok(None);
        }
        let inside = self.cursor.bracketed("(")?;
        self.text(Raw { start, ..inside }).map(Some)
    }

    /// `(types) -> type` or `(types) -> (types)`.
    pub(super) fn function_type(&mut self, op: &mut Operation) -> Result<()> {
        op.operand_types = self.type_list("(", ")")?;
        self.cursor.expect("->")?;
        op.result_types = self.types()?;
        Ok(())
    }

    /// `type` or `(types)`.
    pub(super) fn types(&mut self) -> Result<Vec<Text>> {
        if self.cursor.peek() == Some(b'(') { self.type_list("(", ")") } else { Ok(vec![self.ty()?]) }
    }

    /// Types between two brackets.
    pub(super) fn type_list(&mut self, open: &str, close: &str) -> Result<Vec<Text>> {
        self.cursor.expect(open)?;
        let mut types = Vec::with_capacity(2);
        while !self.cursor.eat(close) {
            if !types.is_empty() {
                self.cursor.expect(",")?;
            }
            types.push(self.ty()?);
        }
        Ok(types)
    }

    /// One type: `f32`, `tensor<…>`, `!dialect.name<…>`, `(types) -> types` or an alias.
    pub(super) fn ty(&mut self) -> Result<Text> {
        let raw = self.cursor.ty()?;
        self.text(raw)
    }

    /// One attribute without the type that may follow it: `dense<0>`, `"text"`, `true`.
    pub(super) fn plain_attribute(&mut self) -> Result<Raw> {
        self.cursor.until(" \t\r\n:,", "an attribute")
    }

    /// `@name` or `@"name"`, without `@`.
    pub(super) fn symbol(&mut self) -> Result<&'a str> {
        self.cursor.name("@", "`@` and a name")
    }

    /// A stretch of the text with its aliases written out.
    pub(super) fn text(&mut self, raw: Raw) -> Result<Text> {
        self.aliases.write_out(raw, &mut self.texts)
    }

    /// A text that was put together.
    pub(super) fn made(&mut self, text: &str) -> Text {
        self.texts.get(text)
    }

    /// Moves the attributes of a function's arguments from the property that holds them, which is in the dictionary at
    /// `dictionary`, to the arguments.
    fn give_arguments_attributes(&mut self, op: &mut Operation, dictionary: Cursor<'a>) -> Result<()> {
        let Some(place) = op.properties.iter().position(|property| property.name == "arg_attrs") else {
            return Ok(());
        };
        let Some(region) = op.regions.first_mut().filter(|region| !region.arguments.is_empty()) else {
            return Ok(());
        };
        op.properties.remove(place);
        let behind = std::mem::replace(&mut self.cursor, dictionary);
        self.cursor.expect("{")?;
        while self.entry_name()? != "arg_attrs" {
            if self.cursor.eat("=") {
                self.cursor.until(",", "an attribute")?;
            }
            self.cursor.expect(",")?;
        }
        self.cursor.expect("=")?;
        self.cursor.expect("[")?;
        for (i, argument) in region.arguments.iter_mut().enumerate() {
            if i > 0 {
                self.cursor.expect(",")?;
            }
            argument.attributes = self.dictionary()?;
        }
        self.cursor.expect("]")?;
        self.cursor = behind;
        Ok(())
    }

    fn check_counts(&self, op: &Operation) -> Result<()> {
        let named = op.results.iter().fold(0usize, |sum, result| sum.saturating_add(result.count));
        if !op.results.is_empty() && named != op.result_types.len() {
            let expected = format!("as many names as `{}` has results, {}", op.name, op.result_types.len());
            return Err(self.error_at(op.at, named.to_string(), &expected));
        }
        if op.operands.len() != op.operand_types.len() {
            let expected = format!("as many types as `{}` has operands, {}", op.name, op.operands.len());
            return Err(self.error_at(op.at, op.operand_types.len().to_string(), &expected));
        }
        Ok(())
    }

    /// An error at a place that lies behind.
    pub(super) fn error_at(&self, at: Position, found: String, expected: &str) -> ParseError {
        let problem = ParseProblem::Unexpected { found, expected: expected.into() };
        ParseError::new(self.cursor.text(), at, problem)
    }
}
