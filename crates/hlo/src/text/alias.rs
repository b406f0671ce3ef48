//! What stands for text from elsewhere: `#loc3` and `!t` for what they are defined as, anywhere at the top of the
//! text, and `dense_resource<name>` for the bytes of a constant, which are at its end.

use std::collections::HashMap;

use super::error::ParseProblem;
use super::scan::{self, Cursor, RESOURCE, Raw, Result, alias_name};
use super::shared::{Text, Texts};

/// How many aliases may be defined by each other. Chains of locations are shorter, and writing them out calls itself
/// for each.
const DEEPEST_ALIASES: usize = 128;

/// How much longer than the text all attributes may be together with their aliases written out, and all locations,
/// beyond a fixed allowance for small texts. Locations with the call stacks of a framework take about as much as the text.
const LONGEST: usize = 16;
const ALLOWANCE: usize = 1 << 16;

/// A location that is not known, or would be longer than [`LONGEST`] allows.
const UNKNOWN: &str = "loc(unknown)";

/// The definitions of a text.
pub(super) struct Aliases<'a> {
    cursor: Cursor<'a>,
    /// By name with sigil.
    defined: HashMap<&'a str, Alias>,
    /// The bytes of constants in hex, by name.
    resources: HashMap<&'a str, &'a str>,
    /// How many bytes of attributes and types, and of locations, were written out.
    written: [usize; 2],
}

/// One definition.
enum Alias {
    /// As written.
    Raw(Raw),
    /// With all aliases in it written out.
    Whole(Text),
}

/// Why a text cannot be written out. It becomes an error, which says the line, only if it is not about a location: there
/// may be very many of those.
struct Failure {
    at: usize,
    problem: ParseProblem,
}

type Written<T> = std::result::Result<T, Failure>;

impl<'a> Aliases<'a> {
    /// Collects the definitions of a text.
    pub(super) fn read(text: &'a str) -> Result<Aliases<'a>> {
        let cursor = Cursor::new(text);
        let mut aliases =
            Aliases { cursor, defined: HashMap::new(), resources: HashMap::new(), written: [0; 2] };
        let mut offset = 0;
        while let Some(line) = text[offset..].lines().next() {
            let content = line.trim_ascii_start();
            let start = offset + line.len() - content.len();
            let mut cursor = cursor;
            cursor.go_to(start);
            if let Some((name, definition)) = definition(&mut cursor, content)? {
                if aliases.defined.insert(name, Alias::Raw(definition)).is_some() {
                    let (found, expected) = (format!("`{name}` a second time"), "each alias once".into());
                    return Err(cursor.error_at(start, ParseProblem::Unexpected { found, expected }));
                }
                offset = cursor.offset();
            } else if content.starts_with("{-#") {
                aliases.read_resources(&mut cursor)?;
                offset = cursor.offset();
            } else {
                offset += line.len();
            }
            // Behind the end of the line.
            offset += text[offset..].find('\n').map_or(text.len() - offset, |length| length + 1);
        }
        Ok(aliases)
    }

    /// Reads `{-# dialect_resources: { builtin: { name: "0x…", … } } #-}`.
    fn read_resources(&mut self, cursor: &mut Cursor<'a>) -> Result<()> {
        cursor.expect("{-#")?;
        let mut depth = 0usize;
        while !cursor.eat("#-}") {
            if depth > 0 && cursor.eat("}") {
                depth -= 1;
            } else if !cursor.eat(",") {
                let name =
                    if cursor.peek() == Some(b'"') { cursor.string()? } else { cursor.word("`#-}`")? };
                cursor.expect(":")?;
                if cursor.eat("{") {
                    depth += 1;
                } else if cursor.peek() == Some(b'"') {
                    self.resources.insert(name, cursor.string()?);
                } else {
                    cursor.until(",}", "a value")?;
                }
            }
        }
        if depth == 0 { Ok(()) } else { Err(cursor.unexpected("as many `}` as `{` before `#-}`")) }
    }

    /// What a stretch of the text says.
    pub(super) fn write_out(&mut self, raw: Raw, texts: &mut Texts) -> Result<Text> {
        if !raw.refers {
            return Ok(texts.get(self.cursor.slice(raw)));
        }
        self.expand(raw, 0).map_err(|Failure { at, problem }| self.cursor.error_at(at, problem))
    }

    /// Replaces the aliases in a stretch. A location that gets too long is given up: nothing depends on it.
    fn expand(&mut self, raw: Raw, depth: usize) -> Written<Text> {
        let is_location = self.cursor.slice(raw).starts_with("loc(");
        match self.try_expand(raw, is_location, depth) {
            Err(failure) if is_location && failure.problem.is_limit() => Ok(UNKNOWN.into()),
            result => result,
        }
    }

    fn try_expand(&mut self, raw: Raw, is_location: bool, depth: usize) -> Written<Text> {
        if depth == DEEPEST_ALIASES {
            let problem = ParseProblem::TooDeep { what: "aliases", limit: DEEPEST_ALIASES };
            return Err(Failure { at: raw.start, problem });
        }
        let text = self.cursor.slice(raw);
        let mut whole = String::new();
        let mut copied = 0;
        for (start, token) in references(text) {
            whole.push_str(&text[copied..start]);
            copied = start + token.len();
            let at = raw.start + start;
            if let Some(name) = token.strip_prefix(RESOURCE) {
                whole.push_str(&self.resource(at, name.trim_matches(['<', '>']))?);
                continue;
            }
            let value = self.alias(at, token, depth)?;
            let location = value.strip_prefix("loc(").and_then(|inner| inner.strip_suffix(')'));
            let all = match (is_location, location) {
                // Inside `loc( )` locations are written without it.
                (true, Some(_)) => whole == "loc(" && &text[copied..] == ")",
                _ => whole.is_empty() && copied == text.len(),
            };
            if all {
                return Ok(value);
            }
            whole.push_str(location.filter(|_| is_location).unwrap_or(&value));
            self.check_length(at, is_location, whole.len())?;
        }
        whole.push_str(&text[copied..]);
        self.check_length(raw.start, is_location, whole.len())?;
        self.written[usize::from(is_location)] += whole.len();
        Ok(whole.into())
    }

    /// What an alias stands for. Each is written out once, and shared from then on.
    fn alias(&mut self, at: usize, name: &'a str, depth: usize) -> Written<Text> {
        let raw = match self.defined.get(name) {
            Some(Alias::Whole(whole)) => return Ok(whole.clone()),
            Some(Alias::Raw(raw)) => *raw,
            None => return Err(Failure { at, problem: ParseProblem::UndefinedAlias { name: name.into() } }),
        };
        let whole = self.expand(raw, depth + 1)?;
        self.defined.insert(name, Alias::Whole(whole.clone()));
        Ok(whole)
    }

    /// `dense<"0x…">` with the bytes of a resource, whose first four are an alignment.
    fn resource(&self, at: usize, name: &str) -> Written<String> {
        let hex = self.resources.get(name).and_then(|quoted| quoted.get("\"0x00000000".len()..));
        match hex {
            Some(hex) => Ok(format!("dense<\"0x{hex}>")),
            None => Err(Failure { at, problem: ParseProblem::MissingResource { name: name.into() } }),
        }
    }

    fn check_length(&mut self, at: usize, is_location: bool, more: usize) -> Written<()> {
        let written = &mut self.written[usize::from(is_location)];
        let limit = self.cursor.text().len() * LONGEST + ALLOWANCE;
        if *written + more <= limit {
            return Ok(());
        }
        // From now on nothing fits, so that trying over and over takes no time.
        *written = limit;
        Err(Failure { at, problem: ParseProblem::TooLong { limit } })
    }
}

/// `#name = …` or `!name = …`, if that is what a line begins with.
fn definition<'a>(cursor: &mut Cursor<'a>, line: &'a str) -> Result<Option<(&'a str, Raw)>> {
    if !line.starts_with(['#', '!']) {
        return Ok(None);
    }
    let Some(name) = alias_name(line, 0) else { return Ok(None) };
    let Some(value) = line[1 + name.len()..].trim_ascii_start().strip_prefix('=') else { return Ok(None) };
    cursor.go_to(cursor.offset() + line.len() - value.len());
    let value = cursor.line("what the alias stands for")?;
    // A location is put into others without its parentheses, so nothing may follow it.
    let mut whole = *cursor;
    whole.go_to(value.start);
    let text = cursor.slice(value);
    let end = if line.starts_with('!') {
        whole.ty()?.end
    } else if text.starts_with("loc(") {
        whole.expect("loc")?;
        whole.bracketed("(")?.end
    } else if text.starts_with('#') {
        alias_name(text, 0).map_or(value.end, |name| value.start + 1 + name.len())
    } else {
        value.end
    };
    if end != value.end {
        whole.go_to(end);
        return Err(whole.unexpected("the end of the definition"));
    }
    Ok(Some((&line[..1 + name.len()], value)))
}

/// The aliases and resources in a text, with the places where they begin.
fn references(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        loop {
            match text.as_bytes().get(at)? {
                b'"' => at = scan::end_of_string(text, at).unwrap_or(text.len()),
                b'/' if text.as_bytes().get(at + 1) == Some(&b'/') => {
                    at += text[at..].find('\n').unwrap_or(text.len() - at);
                }
                b'#' | b'!' => {
                    let start = at;
                    at += 1;
                    if let Some(name) = alias_name(text, start) {
                        at += name.len();
                        return Some((start, &text[start..at]));
                    }
                }
                b'<' if text[..at].ends_with(RESOURCE) => {
                    let start = at - RESOURCE.len();
                    at += text[at..].find('>').map_or(1, |length| length + 1);
                    return Some((start, &text[start..at]));
                }
                _ => at += 1,
            }
        }
    })
}
