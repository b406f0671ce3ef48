//! Characters to tokens, on demand: what is next, and where.

use super::ParseError;
use super::error::ParseProblem;
use super::tree::Position;

pub(super) type Result<T> = std::result::Result<T, ParseError>;

/// How deep brackets may be nested. Arrays of the highest rank that compilers take, and the longest chains of
/// locations, stay well below; what reads the texts between brackets may then call itself for each.
const DEEPEST_BRACKETS: usize = 128;

/// A place in a text that is being read.
#[derive(Clone, Copy)]
pub(super) struct Cursor<'a> {
    text: &'a str,
    at: usize,
    mark: Mark,
}

/// A place whose line and column are known. It follows the cursor, so that all positions of a text are found in one
/// walk over it.
#[derive(Clone, Copy)]
struct Mark {
    at: usize,
    position: Position,
}

/// A stretch of the text.
#[derive(Clone, Copy)]
pub(super) struct Raw {
    pub(super) start: usize,
    pub(super) end: usize,
    /// Whether something in it stands for a text from elsewhere: an alias or a resource.
    pub(super) refers: bool,
}

/// Where a stretch ends.
enum Until<'a> {
    /// Where its first bracket is closed.
    Closed,
    /// Before one of these characters.
    OneOf(&'a str),
    /// Before a comma, and at the end of the line.
    Line,
}

/// What stands before the name of a constant whose values are written at the end of the text.
pub(super) const RESOURCE: &str = "dense_resource";

impl<'a> Cursor<'a> {
    pub(super) fn new(text: &'a str) -> Cursor<'a> {
        Cursor { text, at: 0, mark: Mark::START }
    }

    /// The whole text.
    pub(super) fn text(&self) -> &'a str {
        self.text
    }

    /// How many bytes lie before the cursor.
    pub(super) fn offset(&self) -> usize {
        self.at
    }

    /// Goes on to a place further on.
    pub(super) fn go_to(&mut self, offset: usize) {
        self.at = offset;
    }

    /// What is written in a stretch.
    pub(super) fn slice(&self, raw: Raw) -> &'a str {
        &self.text[raw.start..raw.end]
    }

    /// The line and column where the next token begins.
    pub(super) fn position(&mut self) -> Position {
        self.skip_space();
        self.mark.go_to(self.text.as_bytes(), self.at);
        self.mark.position
    }

    /// The first byte of the next token.
    pub(super) fn peek(&mut self) -> Option<u8> {
        self.skip_space();
        self.byte(self.at)
    }

    /// Takes `token` if it is next.
    pub(super) fn eat(&mut self, token: &str) -> bool {
        self.skip_space();
        let (rest, token) = (&self.text.as_bytes()[self.at..], token.as_bytes());
        // Most tokens are one byte, and most are not there.
        let next = rest.first() == token.first() && rest.starts_with(token);
        self.at += if next { token.len() } else { 0 };
        next
    }

    /// Takes `token`, which has to be next.
    pub(super) fn expect(&mut self, token: &str) -> Result<()> {
        if self.eat(token) { Ok(()) } else { Err(self.unexpected(&format!("`{token}`"))) }
    }

    /// Takes `word` if that and no longer word is next.
    pub(super) fn eat_word(&mut self, word: &str) -> bool {
        let before = *self;
        if self.eat(word) && !self.byte(self.at).is_some_and(is_word) {
            return true;
        }
        *self = before;
        false
    }

    /// Takes a word: letters, digits, `_`, `$` and `.`, as in `stablehlo.add` and `f32`.
    pub(super) fn word(&mut self, what: &str) -> Result<&'a str> {
        match self.peek() {
            Some(first) if first.is_ascii_alphanumeric() || first == b'_' => Ok(self.take_while(is_word)),
            _ => Err(self.unexpected(what)),
        }
    }

    /// Takes the name that follows a sigil: `0` of `%0`, `"a b"` of `@"a b"`.
    pub(super) fn name(&mut self, sigil: &str, what: &str) -> Result<&'a str> {
        if !self.eat(sigil) {
            return Err(self.unexpected(what));
        }
        if sigil == "@" && self.next_byte() == Some(b'"') {
            return self.string();
        }
        let name = self.take_while(|byte| is_word(byte) || byte == b'-');
        if name.is_empty() { Err(self.unexpected(what)) } else { Ok(name) }
    }

    /// Takes a number without sign.
    pub(super) fn number(&mut self) -> Result<usize> {
        self.skip_space();
        let before = *self;
        let digits = self.take_while(|byte| byte.is_ascii_digit());
        digits.parse().map_err(|_| before.unexpected("a number"))
    }

    /// Takes a string with its quotes, as it is written.
    pub(super) fn string(&mut self) -> Result<&'a str> {
        if self.peek() != Some(b'"') {
            return Err(self.unexpected("a string"));
        }
        let start = self.at;
        self.at = self.end_of_string(start)?;
        Ok(&self.text[start..self.at])
    }

    /// Takes a type: `f32`, `tensor<…>`, `!dialect.name<…>`, `(types) -> types` or an alias.
    pub(super) fn ty(&mut self) -> Result<Raw> {
        let start = self.next_offset();
        let mut refers = false;
        match self.peek() {
            Some(b'(') => {
                refers |= self.bracketed("(")?.refers;
                self.expect("->")?;
                refers |= match self.peek() {
                    Some(b'(') => self.bracketed("(")?.refers,
                    _ => self.until(",) \n", "a type")?.refers,
                };
            }
            Some(b'!') => {
                refers = alias_name(self.text, self.at).is_some();
                self.name("!", "a type")?;
            }
            _ => {
                self.word("a type")?;
            }
        }
        if self.next_byte() == Some(b'<') {
            refers |= self.bracketed("<")?.refers;
        }
        Ok(Raw { start, end: self.at, refers })
    }

    /// Takes what stands between a bracket and its counterpart, with both.
    pub(super) fn bracketed(&mut self, open: &str) -> Result<Raw> {
        let start = self.next_offset();
        self.expect(open)?;
        self.at = start;
        self.balanced(Until::Closed)
    }

    /// Takes everything up to one of `stops`, or to a bracket that was opened earlier. What lies in brackets or strings
    /// does not count.
    pub(super) fn until(&mut self, stops: &str, what: &str) -> Result<Raw> {
        self.skip_space();
        let raw = self.balanced(Until::OneOf(stops))?;
        if raw.start == raw.end { Err(self.unexpected(what)) } else { Ok(raw) }
    }

    /// Takes what is left of a line, up to a comma, and the lines after it that its brackets go on to.
    pub(super) fn line(&mut self, what: &str) -> Result<Raw> {
        self.skip_space();
        let raw = self.balanced(Until::Line)?;
        if raw.start == raw.end { Err(self.unexpected(what)) } else { Ok(raw) }
    }

    /// Takes a stretch in which all brackets are closed.
    fn balanced(&mut self, until: Until<'_>) -> Result<Raw> {
        let bytes = self.text.as_bytes();
        let start = self.at;
        // Where the brackets opened, counted from `start`; a text has fewer than 2^32 bytes.
        let mut open = [0u32; DEEPEST_BRACKETS];
        let (mut depth, mut refers) = (0, false);
        // Behind the last that is neither space nor comment.
        let mut end = start;
        while let Some(&byte) = bytes.get(self.at) {
            if depth == 0 && until.is_met(byte, self.at > start) {
                break;
            }
            let next = bytes.get(self.at + 1).copied();
            match byte {
                b'"' => {
                    self.at = self.end_of_string(self.at)?;
                    end = self.at;
                    continue;
                }
                b'/' if next == Some(b'/') => {
                    if depth == 0 && matches!(until, Until::Line) {
                        break;
                    }
                    self.skip_space();
                    continue;
                }
                b'-' if next == Some(b'>') => self.at += 1,
                b'<' | b'>' if next == Some(b'=') => self.at += 1,
                b'(' | b'[' | b'{' | b'<' => {
                    *open.get_mut(depth).ok_or_else(|| self.too_deep())? = (self.at - start) as u32;
                    depth += 1;
                    refers |= byte == b'<' && bytes[..self.at].ends_with(RESOURCE.as_bytes());
                }
                b')' | b']' | b'}' | b'>' => {
                    let Some(inner) = depth.checked_sub(1) else { break };
                    let expected = closing(bytes[start + open[inner] as usize]);
                    if byte != expected {
                        return Err(self.unexpected(&format!("`{}`", char::from(expected))));
                    }
                    depth = inner;
                }
                b'#' | b'!' => refers |= alias_name(self.text, self.at).is_some(),
                _ => {}
            }
            self.at += 1;
            if !byte.is_ascii_whitespace() {
                end = self.at;
            }
        }
        if let Some(last) = depth.checked_sub(1) {
            let at = start + open[last] as usize;
            return Err(self.unclosed(at, closing(bytes[at])));
        }
        Ok(Raw { start, end, refers })
    }

    /// Behind the string that begins at `start`.
    fn end_of_string(&self, start: usize) -> Result<usize> {
        end_of_string(self.text, start).ok_or_else(|| self.unclosed(start, b'"'))
    }

    /// Behind white space and comments.
    fn skip_space(&mut self) {
        let bytes = self.text.as_bytes();
        loop {
            match bytes.get(self.at) {
                Some(b' ' | b'\t' | b'\n' | b'\r') => self.at += 1,
                Some(b'/') if bytes.get(self.at + 1) == Some(&b'/') => {
                    self.take_while(|byte| byte != b'\n');
                }
                _ => return,
            }
        }
    }

    /// The byte at the cursor, which may be white space.
    pub(super) fn next_byte(&self) -> Option<u8> {
        self.byte(self.at)
    }

    /// Where the next token begins.
    pub(super) fn next_offset(&mut self) -> usize {
        self.skip_space();
        self.at
    }

    fn take_while(&mut self, take: impl Fn(u8) -> bool) -> &'a str {
        let start = self.at;
        let rest = &self.text.as_bytes()[start..];
        self.at += rest.iter().position(|&byte| !take(byte)).unwrap_or(rest.len());
        &self.text[start..self.at]
    }

    fn byte(&self, at: usize) -> Option<u8> {
        self.text.as_bytes().get(at).copied()
    }

    /// The next token is not what it should be.
    pub(super) fn unexpected(&self, expected: &str) -> ParseError {
        let expected = expected.to_owned();
        self.error(ParseProblem::Unexpected { found: self.found(), expected })
    }

    /// The next token, for a message.
    fn found(&self) -> String {
        let mut cursor = *self;
        let Some(first) = cursor.peek() else { return "the end of the text".into() };
        let sigil = usize::from(b"%@#!^\"".contains(&first));
        let rest = &self.text[cursor.at..];
        let word = rest.bytes().skip(sigil).take(40).take_while(|&byte| is_word(byte)).count();
        let length = rest.chars().next().map_or(0, char::len_utf8).max(sigil + word);
        // Whatever is no letter on a screen is shown by its code.
        format!("`{}`", rest[..length].escape_debug().to_string().replace("\\\"", "\""))
    }

    /// An error at the next token.
    pub(super) fn error(&self, problem: ParseProblem) -> ParseError {
        let mut cursor = *self;
        cursor.skip_space();
        self.error_at(cursor.at, problem)
    }

    /// An error at a place.
    pub(super) fn error_at(&self, at: usize, problem: ParseProblem) -> ParseError {
        let mut mark = if self.mark.at <= at { self.mark } else { Mark::START };
        mark.go_to(self.text.as_bytes(), at);
        ParseError::new(self.text, mark.position, problem)
    }

    fn too_deep(&self) -> ParseError {
        self.error(ParseProblem::TooDeep { what: "brackets", limit: DEEPEST_BRACKETS })
    }

    fn unclosed(&self, at: usize, closing: u8) -> ParseError {
        let expected = format!("a `{}` that closes what opens here", char::from(closing));
        self.error_at(at, ParseProblem::Unexpected { found: "none".into(), expected })
    }
}

impl Until<'_> {
    fn is_met(&self, byte: u8, begun: bool) -> bool {
        match self {
            // Only its last bracket brings a stretch back to where no bracket is open.
            Until::Closed => begun,
            Until::OneOf(stops) => stops.as_bytes().contains(&byte),
            Until::Line => byte == b'\n' || byte == b',',
        }
    }
}

impl Mark {
    const START: Mark = Mark { at: 0, position: Position { line: 1, column: 1 } };

    fn go_to(&mut self, text: &[u8], at: usize) {
        for &byte in &text[self.at..at] {
            if byte == b'\n' {
                self.position = Position { line: self.position.line.saturating_add(1), column: 1 };
            } else if byte & 0xC0 != 0x80 {
                // Bytes that continue a character are no columns of their own.
                self.position.column = self.position.column.saturating_add(1);
            }
        }
        self.at = at;
    }
}

/// Behind the string that begins at `start`, if it ends on its line.
pub(super) fn end_of_string(text: &str, start: usize) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut at = start + 1;
    loop {
        match bytes.get(at)? {
            b'"' => return Some(at + 1),
            b'\\' => at += 2,
            b'\n' => return None,
            _ => at += 1,
        }
    }
}

/// What stands between the quotes of a string, as it is written; what has none as it is.
pub(super) fn without_quotes(text: &str) -> &str {
    text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(text)
}

/// The name of the alias that begins at `at` with `#` or `!`. Attributes and types of a dialect begin alike, but
/// have a `.` in their names or a `<` after it.
pub(super) fn alias_name(text: &str, at: usize) -> Option<&str> {
    if at > 0 && b"#!@%".contains(&text.as_bytes()[at - 1]) {
        return None;
    }
    let rest = &text[at + 1..];
    let length = rest.bytes().position(|byte| !is_word(byte)).unwrap_or(rest.len());
    let name = &rest[..length];
    let is_alias = length > 0 && !name.contains('.') && rest.as_bytes().get(length) != Some(&b'<');
    is_alias.then_some(name)
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | b'.')
}

fn closing(open: u8) -> u8 {
    match open {
        b'(' => b')',
        b'[' => b']',
        b'{' => b'}',
        _ => b'>',
    }
}
