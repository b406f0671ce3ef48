//! Attributes in the generic form, as far as ops that have rules here use them. What is spelt otherwise is `None`, and
//! leaves its op as it was written.

use super::super::scan::without_quotes;
use super::super::tree::{Named, Operation};

/// The properties and other attributes of an op, or the fields of one of them, by name: each must be taken once before
/// the op is fully understood.
pub(super) struct Entries<'t> {
    entries: Vec<(&'t str, &'t str)>,
}

impl<'t> Entries<'t> {
    /// Those of an operation but for some. Older texts have properties among the attributes.
    pub(super) fn without(op: &'t Operation, is_left_out: impl Fn(&Named) -> bool) -> Self {
        let entries = op.properties.iter().chain(&op.attributes).filter(|entry| !is_left_out(entry));
        Entries { entries: entries.map(|entry| (&*entry.name, &*entry.value)).collect() }
    }

    /// The fields `a = [0]` and `b = 1` of `#stablehlo.scatter<a = [0], b = 1>`.
    pub(super) fn of_fields(text: &'t str, kind: &str) -> Option<Self> {
        let inner = text.strip_prefix(kind)?.strip_prefix('<')?.strip_suffix('>')?;
        let field = |item: &'t str| item.split_once('=').map(|(name, value)| (name.trim(), value.trim()));
        Some(Entries { entries: items(inner).into_iter().map(field).collect::<Option<_>>()? })
    }

    /// The value that goes by this name.
    pub(super) fn take(&mut self, name: &str) -> Option<&'t str> {
        let place = self.entries.iter().position(|(entry, _)| *entry == name)?;
        Some(self.entries.swap_remove(place).1)
    }

    /// A list, empty where it is not written.
    pub(super) fn sizes(&mut self, name: &str) -> Option<Vec<usize>> {
        self.take(name).map_or(Some(Vec::new()), sizes)
    }

    /// A number, 0 where it is not written.
    pub(super) fn size(&mut self, name: &str) -> Option<usize> {
        self.take(name).map_or(Some(0), size)
    }

    /// Whether nothing is left.
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

/// `1 : i64` or `1`.
pub(super) fn integer(text: &str) -> Option<i64> {
    text.split(':').next()?.trim().parse().ok()
}

/// The same, of what is not negative.
pub(super) fn size(text: &str) -> Option<usize> {
    usize::try_from(integer(text)?).ok()
}

/// `true` or `false`.
pub(super) fn boolean(text: &str) -> Option<bool> {
    text.parse().ok()
}

/// `array<i64: 1, 2>` or `[1, 2]`.
pub(super) fn integers(text: &str) -> Option<Vec<i64>> {
    let inner = match text.strip_prefix("array<i64") {
        Some(rest) => rest.strip_suffix('>')?.trim_start_matches(':'),
        None => text.strip_prefix('[')?.strip_suffix(']')?,
    };
    if inner.trim().is_empty() {
        return Some(Vec::new());
    }
    inner.split(',').map(|item| item.trim().parse().ok()).collect()
}

/// The same, of what is not negative.
pub(super) fn sizes(text: &str) -> Option<Vec<usize>> {
    integers(text)?.into_iter().map(|item| usize::try_from(item).ok()).collect()
}

/// `LT` of `#stablehlo<comparison_direction LT>`.
pub(super) fn word<'t>(text: &'t str, kind: &str) -> Option<&'t str> {
    let inner = text.strip_prefix("#stablehlo<")?.strip_suffix('>')?;
    inner.strip_prefix(kind)?.strip_prefix(' ').map(str::trim)
}

/// The items of `[a, b]`.
pub(super) fn list(text: &str) -> Option<Vec<&str>> {
    Some(items(text.strip_prefix('[')?.strip_suffix(']')?))
}

/// The entries of `{a = b, c}`; a name without a value has the value `unit`.
pub(super) fn dictionary(text: &str) -> Option<Vec<(&str, &str)>> {
    let inner = text.strip_prefix('{')?.strip_suffix('}')?;
    let entry = |item: &'_ str| -> (usize, usize) {
        let bytes = item.as_bytes();
        let end = if bytes.first() == Some(&b'"') { string_end(bytes, 0) } else { 0 };
        let equals = item[end..].find('=').map(|place| place + end);
        equals.map_or((item.len(), item.len()), |place| (place, place + 1))
    };
    let split = |item| {
        let (name, value) = entry(item);
        let value = if value == item.len() { "unit" } else { item[value..].trim() };
        (without_quotes(item[..name].trim()), value)
    };
    Some(items(inner).into_iter().map(split).collect())
}

/// The types before and behind the arrow of `(a, b) -> (c, d)` or `(a, b) -> c`.
pub(super) fn function_type(text: &str) -> Option<(Vec<&str>, Vec<&str>)> {
    let (takes, behind) = text.split_at(group_end(text)?);
    let gives = behind.trim_start().strip_prefix("->")?.trim();
    let gives = match group_end(gives) {
        Some(end) if end == gives.len() => items(&gives[1..end - 1]),
        _ => vec![gives],
    };
    Some((items(&takes[1..takes.len() - 1]), gives))
}

/// The index behind the parenthesis that closes the one that a text begins with.
fn group_end(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let (mut depth, mut at) = (0usize, 0);
    while at < bytes.len() {
        match bytes[at] {
            b'"' => at = string_end(bytes, at) - 1,
            b'(' => depth += 1,
            b')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        at += 1;
        if depth == 0 {
            return text.starts_with('(').then_some(at);
        }
    }
    None
}

/// What stands between the commas of a list that are in no bracket and no string.
fn items(text: &str) -> Vec<&str> {
    let bytes = text.as_bytes();
    let (mut out, mut start, mut depth, mut at) = (Vec::new(), 0, 0usize, 0);
    while at < bytes.len() {
        match bytes[at] {
            b'"' => at = string_end(bytes, at) - 1,
            b'(' | b'[' | b'{' | b'<' => depth += 1,
            b'>' if at > 0 && bytes[at - 1] == b'-' => {}
            b')' | b']' | b'}' | b'>' => depth = depth.saturating_sub(1),
            b',' if depth == 0 => {
                out.push(text[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
        at += 1;
    }
    let last = text[start..].trim();
    if !last.is_empty() {
        out.push(last);
    }
    out
}

/// The index behind a string that begins at `start`.
fn string_end(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while at < bytes.len() && bytes[at] != b'"' {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    (at + 1).min(bytes.len())
}

/// `"text"` with MLIR's escapes; bytes that are no UTF-8 are replaced.
pub(super) fn string(text: &str) -> Option<String> {
    unescaped(text.strip_prefix('"')?.strip_suffix('"')?)
}

fn unescaped(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'\\' => match rest.next()? {
                b'n' => b'\n',
                b't' => b'\t',
                literal @ (b'"' | b'\\') => literal,
                high => hex(high)? << 4 | hex(rest.next()?)?,
            },
            _ => byte,
        });
    }
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// The value of a hex digit.
pub(super) fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
}

/// `@name` or `@"name"`.
pub(super) fn symbol(text: &str) -> Option<String> {
    let name = text.strip_prefix('@')?;
    if name.starts_with('"') { string(name) } else { Some(name.to_owned()) }
}

/// The name in `loc("name")` or `loc("name"(…))`; a place in a file is none.
pub(super) fn location_name(location: &str) -> Option<String> {
    let inner = location.strip_prefix("loc").unwrap_or(location).strip_prefix('(')?.trim_start();
    if !inner.starts_with('"') {
        return None;
    }
    let end = string_end(inner.as_bytes(), 0);
    let is_name = inner[end..].trim_start().starts_with([')', '(']);
    string(&inner[..end]).filter(|name| is_name && !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_and_dictionaries_are_cut_at_their_own_commas() {
        assert_eq!(list("[{a = [1, 2]}, {}]").unwrap(), ["{a = [1, 2]}", "{}"]);
        assert_eq!(list("[]").unwrap(), Vec::<&str>::new());
        let entries = dictionary(r#"{a = "x, }\"", "b.c" = (i1) -> i2, d}"#).unwrap();
        assert_eq!(entries, [("a", r#""x, }\"""#), ("b.c", "(i1) -> i2"), ("d", "unit")]);
        let quoted = dictionary(r#"{"a\"" = 1, "\"" = 2}"#).unwrap();
        assert_eq!(quoted, [(r#"a\""#, "1"), (r#"\""#, "2")]);
        let mut fields = Entries::of_fields("#s.dot<a = [0, 1], b = 2>", "#s.dot").unwrap();
        assert_eq!(
            (fields.size("b"), fields.sizes("a"), fields.is_empty()),
            (Some(2), Some(vec![0, 1]), true)
        );
        assert_eq!((fields.size("b"), fields.sizes("a")), (Some(0), Some(vec![])));
        assert_eq!(dictionary("{").map(|d| d.len()), None);
    }

    #[test]
    fn numbers_words_and_names() {
        assert_eq!(integers("array<i64: -1, 2>"), Some(vec![-1, 2]));
        assert_eq!(integers("array<i64>"), Some(vec![]));
        assert_eq!(sizes("[-1]"), None);
        assert_eq!(integers("array<i32: 1>"), None);
        assert_eq!(size("7 : i64"), Some(7));
        assert_eq!(word("#stablehlo<precision HIGH>", "precision"), Some("HIGH"));
        assert_eq!(string(r#""a\0A\C3\A9\"""#).as_deref(), Some("a\né\""));
        assert_eq!(string(r#""\"#), None);
        assert_eq!(symbol("@\"a b\"").as_deref(), Some("a b"));
        let names = [r#"loc("p['w']")"#, r#"loc("f"("x.py":1:2))"#, r#"loc("x.py":1:2)"#, "loc(unknown)"];
        let names = names.map(location_name);
        assert_eq!(names, [Some("p['w']".to_owned()), Some("f".to_owned()), None, None]);
    }
}
