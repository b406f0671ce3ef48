//! Patterns: which arrays of a program a rule is about.

use std::ops::Range;

use shardwright_tensor::{DType, TensorType};

use super::{KindWord, RuleParseProblem};
use crate::pattern::glob;

/// Which arrays are meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pattern {
    /// As it was written.
    pub(crate) text: String,
    pub(crate) target: Target,
    pub(crate) which: Which,
}

/// What a pattern is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    Argument,
    Output,
    Op,
}

/// How they are told apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Which {
    Name(Glob),
    Index(Range<usize>),
    /// No dtype and no size: any.
    Type {
        dtype: Option<DType>,
        dims: Vec<Option<usize>>,
    },
    Kind(KindWord),
}

/// A text in which `*` stands for any text, compared with dotted paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Glob {
    path: String,
}

impl Pattern {
    pub(crate) fn parse(text: &str) -> Result<Pattern, RuleParseProblem> {
        let text = text.trim();
        let (target, rest) = match text.split_once(':') {
            Some(("out", rest)) => (Target::Output, rest),
            Some(("op", rest)) => (Target::Op, rest),
            _ => (Target::Argument, text),
        };
        let which = Which::parse(rest.trim())?;
        let wrong_form = match (target, &which) {
            (Target::Output, Which::Kind(_)) => {
                Some(("outputs", "name, index or type: out:loss, out:#0, out:f32[]"))
            }
            (Target::Op, Which::Index(_) | Which::Type { .. } | Which::Kind(_)) => {
                Some(("ops", "op, source location or unit: op:dot_general, op:model.py:12"))
            }
            _ => None,
        };
        match wrong_form {
            Some((target, forms)) => Err(RuleParseProblem::Form { target, forms }),
            None => Ok(Pattern { text: text.to_owned(), target, which }),
        }
    }

    /// Whether this is one of those that are meant, as far as that does not depend on what it is.
    pub(crate) fn matches(&self, index: usize, name: &str, ty: &TensorType) -> bool {
        match &self.which {
            Which::Name(glob) => glob.matches(name),
            Which::Index(range) => range.contains(&index),
            Which::Type { dtype, dims } => {
                let fits = |(size, dim): (&Option<usize>, &usize)| size.is_none_or(|size| size == *dim);
                dtype.is_none_or(|dtype| dtype == ty.dtype)
                    && dims.len() == ty.rank()
                    && dims.iter().zip(ty.dims()).all(fits)
            }
            Which::Kind(_) => false,
        }
    }
}

impl Which {
    fn parse(text: &str) -> Result<Which, RuleParseProblem> {
        if text.is_empty() {
            return Err(RuleParseProblem::EmptyPattern);
        }
        if let Some(index) = text.strip_prefix('#') {
            let found = || RuleParseProblem::Index { found: index.to_owned() };
            return parse_range(index).map(Which::Index).ok_or_else(found);
        }
        if let Some(kind) = text.strip_prefix("kind:") {
            let found = || RuleParseProblem::Kind { found: kind.to_owned() };
            return KindWord::parse(kind.trim()).map(Which::Kind).ok_or_else(found);
        }
        if let Some(ty) = text.strip_prefix("type:") {
            let found = || RuleParseProblem::Type { found: ty.to_owned() };
            return parse_type(ty.trim()).ok_or_else(found);
        }
        // Names may have brackets too, but none is that of a dtype and the brackets its dims; `*[0]` is a name.
        match parse_type(text) {
            Some(ty @ Which::Type { dtype: Some(_), .. }) => Ok(ty),
            _ => Ok(Which::Name(Glob::new(text))),
        }
    }
}

fn parse_range(text: &str) -> Option<Range<usize>> {
    match text.split_once("..") {
        None => text.parse().ok().filter(|index: &usize| *index < usize::MAX).map(|index| index..index + 1),
        Some((start, end)) => {
            let range = start.trim().parse().ok()?..end.trim().parse().ok()?;
            (range.start < range.end).then_some(range)
        }
    }
}

fn parse_type(text: &str) -> Option<Which> {
    let (dtype, dims) = text.strip_suffix(']')?.split_once('[')?;
    let dtype = match dtype {
        "*" => None,
        name => Some(DType::ALL.into_iter().find(|d| d.name() == name || d.stablehlo_name() == name)?),
    };
    let size = |dim: &str| match dim.trim() {
        "*" => Some(None),
        size => size.parse().ok().map(Some),
    };
    let dims = if dims.trim().is_empty() { Some(Vec::new()) } else { dims.split(',').map(size).collect() };
    Some(Which::Type { dtype, dims: dims? })
}

impl Glob {
    fn new(text: &str) -> Glob {
        Glob { path: dotted(text) }
    }

    /// Whether the whole name is as this says.
    pub(crate) fn matches(&self, name: &str) -> bool {
        glob(&self.path, &dotted(name))
    }
}

/// `params['layers'][0]` as `params.layers.0`.
pub(crate) fn dotted(name: &str) -> String {
    let mut path = String::with_capacity(name.len());
    for c in name.chars() {
        match c {
            '[' if path.is_empty() => {}
            '[' => path.push('.'),
            ']' | '\'' | '"' => {}
            c => path.push(c),
        }
    }
    path
}

/// What an op can be called in a pattern: its name with and without the dialect.
pub(crate) fn op_names(op: &str) -> Vec<String> {
    let mut names = vec![op.to_owned(), op.rsplit('.').next().unwrap_or(op).to_owned()];
    names.dedup();
    names
}

/// What it can be called for its origin: of MLIR's `loc(…)` each name, and the innermost `file:line`, with and without
/// the folders.
pub(crate) fn source_names(source: &str) -> Vec<String> {
    let (mut names, mut has_line, mut rest) = (Vec::new(), false, source);
    while let Some((_, after)) = rest.split_once('"') {
        let Some((quoted, after)) = after.split_once('"') else { break };
        let line = after
            .strip_prefix(':')
            .map(|n| n.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default());
        match line.filter(|line| !line.is_empty()) {
            None => names.push(quoted.to_owned()),
            // The places that called it say nothing of the op.
            Some(_) if has_line => {}
            Some(line) => {
                has_line = true;
                let file = quoted.rsplit(['/', '\\']).next().unwrap_or(quoted);
                names.extend([format!("{quoted}:{line}"), format!("{file}:{line}")]);
            }
        }
        rest = after;
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, name: &str) -> bool {
        let ty = TensorType::new(DType::F32, [4, 128]).unwrap();
        Pattern::parse(pattern).unwrap().matches(3, name, &ty)
    }

    #[test]
    fn names_are_dotted_paths() {
        for (pattern, name, expect) in [
            ("params.*", "params['layers'][0]['wq']", true),
            ("params.*", "params", false),
            ("params['layers'][*]['wq']", "params['layers'][11]['wq']", true),
            ("*.wq", "params['layers'][0]['wq']", true),
            ("*wq*", "params['layers'][0]['wq']", true),
            ("params.layers.0.*", "params['layers'][1]['wq']", false),
            ("p0.*", "p0.1", true),
            ("*['b1']", "state[0]['b1']", true),
            ("['a']", "['a']", true),
            ("*", "", true),
            ("a*b*c", "a.b.b.c", true),
            ("a*b*c", "a.b.b.d", false),
            ("w", "W", false),
            ("é*", "é1", true),
        ] {
            assert_eq!(matches(pattern, name), expect, "{pattern} on {name}");
        }
        // Stars do not multiply the time.
        assert!(!matches(&format!("{}b", "a*".repeat(200)), &"a".repeat(5000)));
    }

    #[test]
    fn indices_and_types_are_no_names() {
        for (pattern, expect) in [
            ("#3", true),
            ("#0..3", false),
            ("#0..4", true),
            ("f32[*,128]", true),
            ("f32[*, 128]", true),
            ("f32[128]", false),
            ("bf16[*,128]", false),
            ("type:*[4,*]", true),
            ("*[4,*]", false),
        ] {
            assert_eq!(matches(pattern, "w"), expect, "{pattern}");
        }
    }

    #[test]
    fn ops_go_by_name_and_source() {
        let source = r#"("jit(step)/dot_general"(callsite("/src/me/model.py":26:24 to :35 at "/src/me/main.py":3:1)))"#;
        assert_eq!(op_names("stablehlo.dot_general"), ["stablehlo.dot_general", "dot_general"]);
        assert_eq!(source_names(source), ["jit(step)/dot_general", "/src/me/model.py:26", "model.py:26"]);
        assert_eq!(op_names("add"), ["add"]);
        assert_eq!(source_names("(\"unclosed"), [""; 0]);
    }
}
