//! The kinds of values that keys take, and reading one from JSON.

use serde_json::Value;

use super::MixedPrecision;
use super::keys::KeySpec;
use crate::{ModulePattern, TensorPlan, TensorRule, TensorSplit};

/// What a key's value may look like.
pub(super) enum Kind {
    /// A boolean, in one of its spellings.
    Flag,
    /// A whole number, not negative.
    Count,
    /// Class names.
    Classes,
    /// Patterns of module paths.
    Patterns,
    /// An object from patterns of module paths to how they are split.
    TensorPlan,
    /// Dtypes of computation and reduction.
    MixedPrecision,
    /// One of these names.
    Choice(&'static [&'static str]),
    /// One of these names, or its number counted from 1.
    Numbered(&'static [&'static str]),
    /// A boolean, or one of these names.
    FlagOrChoice(&'static [&'static str]),
    /// An object with keys of its own.
    Object(&'static [KeySpec]),
    /// Anything; the value is not looked at.
    Any,
}

/// A value that has been read as its key's kind.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Setting {
    Flag(bool),
    Count(u64),
    Classes(Vec<String>),
    Patterns(Vec<ModulePattern>),
    TensorPlan(TensorPlan),
    MixedPrecision(MixedPrecision),
    Choice(&'static str),
    Unread(Value),
}

impl Kind {
    /// The value as this kind, unless it is of another one.
    pub(super) fn read(&self, value: &Value) -> Option<Setting> {
        match self {
            Self::Flag => flag(value).map(Setting::Flag),
            Self::Count => count(value).map(Setting::Count),
            Self::Classes => classes(value).map(Setting::Classes),
            Self::Patterns => patterns(value).map(Setting::Patterns),
            Self::TensorPlan => tensor_plan(value).map(Setting::TensorPlan),
            Self::MixedPrecision => MixedPrecision::read(value).map(Setting::MixedPrecision),
            Self::Choice(names) => choice(names, value).map(Setting::Choice),
            Self::Numbered(names) => {
                choice(names, value).or_else(|| numbered(names, value)).map(Setting::Choice)
            }
            Self::FlagOrChoice(names) => {
                flag(value).map(Setting::Flag).or_else(|| choice(names, value).map(Setting::Choice))
            }
            Self::Object(_) => None,
            Self::Any => Some(Setting::Unread(value.clone())),
        }
    }

    /// The values of this kind, in words.
    pub(super) fn wanted(&self) -> String {
        match self {
            Self::Flag => "true or false".to_owned(),
            Self::Count => "a whole number, 0 or more".to_owned(),
            Self::Classes => "a class name or a list of them".to_owned(),
            Self::Patterns => {
                "a pattern such as layers.*.mlp, which is no regular expression, or a list of them".to_owned()
            }
            Self::TensorPlan => {
                format!("an object from patterns such as layers.*.mlp to one of {}", TensorSplit::words())
            }
            Self::MixedPrecision => MixedPrecision::wanted().to_owned(),
            Self::Choice(names) => format!("one of {}", names.join(", ")),
            Self::Numbered(names) => format!("one of {}, or 1 to {}", names.join(", "), names.len()),
            Self::FlagOrChoice(names) => format!("true, false, or one of {}", names.join(", ")),
            Self::Object(_) => "an object".to_owned(),
            Self::Any => "any value".to_owned(),
        }
    }
}

/// The boolean a text spells.
pub(super) fn flag_word(text: &str) -> Option<bool> {
    match text.trim().to_ascii_lowercase().as_str() {
        "true" | "yes" | "1" => Some(true),
        "false" | "no" | "0" => Some(false),
        _ => None,
    }
}

/// A value with its JSON type, short enough for a message.
pub(super) fn describe(value: &Value) -> String {
    const MAX_CHARS: usize = 60;
    let kind = match value {
        Value::Null | Value::Bool(_) => "",
        Value::Number(_) => "number ",
        Value::String(_) => "text ",
        Value::Array(_) => "list ",
        Value::Object(_) => "object ",
    };
    let mut json = value.to_string();
    if let Some((end, _)) = json.char_indices().nth(MAX_CHARS) {
        json.truncate(end);
        json.push('…');
    }
    format!("{kind}{json}")
}

fn flag(value: &Value) -> Option<bool> {
    match value {
        Value::Bool(flag) => Some(*flag),
        Value::String(text) => flag_word(text),
        Value::Number(number) => match number.as_u64()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        },
        _ => None,
    }
}

fn count(value: &Value) -> Option<u64> {
    match value {
        Value::Number(number) => number.as_u64().or_else(|| whole(number.as_f64()?)),
        Value::String(text) => text.trim().parse().ok().or_else(|| whole(text.trim().parse().ok()?)),
        _ => None,
    }
}

/// Sizes are often written as `1e8`, which JSON reads as a float.
fn whole(number: f64) -> Option<u64> {
    const EXACT: f64 = (1_u64 << f64::MANTISSA_DIGITS) as f64;
    ((0.0..=EXACT).contains(&number) && number.fract() == 0.0).then_some(number as u64)
}

fn classes(value: &Value) -> Option<Vec<String>> {
    let texts: Vec<&str> = match value {
        Value::String(text) => vec![text],
        Value::Array(items) => items.iter().map(Value::as_str).collect::<Option<_>>()?,
        _ => return None,
    };
    let mut classes = Vec::new();
    for name in texts.into_iter().flat_map(|text| text.split(',')).map(str::trim) {
        if !name.is_empty() && !classes.iter().any(|known| known == name) {
            classes.push(name.to_owned());
        }
    }
    Some(classes)
}

fn patterns(value: &Value) -> Option<Vec<ModulePattern>> {
    classes(value)?.iter().map(|text| text.parse().ok()).collect()
}

fn tensor_plan(value: &Value) -> Option<TensorPlan> {
    let rule = |(modules, split): (&String, &Value)| {
        let split = TensorSplit::from_word(split.as_str()?)?;
        Some(TensorRule { modules: modules.parse().ok()?, split })
    };
    Some(TensorPlan { rules: value.as_object()?.iter().map(rule).collect::<Option<_>>()? })
}

fn choice(names: &[&'static str], value: &Value) -> Option<&'static str> {
    let text = scalar_text(value)?;
    names.iter().copied().find(|name| name.eq_ignore_ascii_case(text.trim()))
}

fn numbered(names: &[&'static str], value: &Value) -> Option<&'static str> {
    let number: usize = scalar_text(value)?.trim().parse().ok()?;
    names.get(number.checked_sub(1)?).copied()
}

/// Numbers reach a file as text too, when a launcher has passed them through the environment.
fn scalar_text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}
