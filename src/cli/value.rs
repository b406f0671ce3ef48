//! The kinds of values that settings take, each read the same way from the command line and from a run file.

use std::ffi::OsString;
use std::path::PathBuf;

use serde_json::{Map, Value as Json};
use shardwright_train::IntervalStrategy;

/// A kind of value.
pub(super) trait Value: Sized {
    /// Stands for the value in the help.
    const PLACEHOLDER: &'static str;
    /// How often and how a flag takes it.
    const ARITY: Arity = Arity::One;

    /// What is wanted, in words.
    fn wanted() -> String;

    /// Reads one word.
    fn parse(text: &str) -> Option<Self>;

    /// Reads the words that followed a flag, of which there is at least one, or those of a list, which may be empty.
    fn from_words(words: &[OsString]) -> Option<Self> {
        Self::parse(words.last()?.to_str()?)
    }

    /// Reads a value of a run file. A text is read as a word, so `"1e-3"` is a number, as it is on the command line; a list
    /// as the words that it has.
    fn from_json(json: &Json) -> Option<Self> {
        match json {
            Json::Array(items) if Self::ARITY == Arity::Many => Self::from_words(&list(items)?),
            _ => Self::parse(json.as_str()?),
        }
    }

    /// Why a word that is not [wanted](Value::wanted) is none, where there is more to say.
    fn why_not(_word: &str) -> Option<String> {
        None
    }
}

/// How a flag takes its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arity {
    /// A value follows; of several such flags the last counts.
    One,
    /// A value may follow.
    Optional,
    /// Values follow, and each such flag adds to them.
    Many,
}

/// A whole number of at least `N`.
#[derive(Clone, Copy, Debug)]
pub(super) struct AtLeast<const N: usize>(pub(super) usize);

/// A number of steps, or -1 for none.
#[derive(Clone, Copy, Debug)]
pub(super) struct StepLimit(pub(super) Option<usize>);

/// A number of at least 0.
#[derive(Clone, Copy, Debug)]
pub(super) struct NonNegative(pub(super) f64);

/// A number above 0.
#[derive(Clone, Copy, Debug)]
pub(super) struct Positive(pub(super) f64);

/// A number from 0 up to 1, and 1 itself only where `CLOSED`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Share<const CLOSED: bool>(pub(super) f64);

/// The words of `--fsdp`, still to be read.
#[derive(Clone, Debug)]
pub(super) struct FsdpWords(pub(super) String);

/// A JSON value that is in a file of its own, or stands where it is wanted.
#[derive(Clone, Debug)]
pub(super) enum Source {
    /// In a file.
    File(PathBuf),
    /// Here; this is its text.
    Inline(String),
}

/// Names or patterns, each in a word of its own or between commas.
#[derive(Clone, Debug)]
pub(super) struct Names(pub(super) Vec<String>);

/// Options by name.
#[derive(Clone, Debug)]
pub(super) struct Options(pub(super) Map<String, Json>);

/// Steps between two events, or the part of all steps that lies between them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Every(pub(super) IntervalStrategy);

/// A whole number from 1 to 99.
#[derive(Clone, Copy, Debug)]
pub(super) struct Percent(pub(super) u8);

impl Value for bool {
    const PLACEHOLDER: &'static str = "yes|no";
    const ARITY: Arity = Arity::Optional;

    fn wanted() -> String {
        "yes, no, true, false, t, f, y, n, 1 or 0".into()
    }

    fn parse(text: &str) -> Option<bool> {
        match text.to_ascii_lowercase().as_str() {
            "yes" | "true" | "t" | "y" | "1" => Some(true),
            "no" | "false" | "f" | "n" | "0" => Some(false),
            _ => None,
        }
    }

    fn from_json(json: &Json) -> Option<bool> {
        json.as_bool().or_else(|| Self::parse(&word(json)?))
    }

    fn why_not(word: &str) -> Option<String> {
        // The flag takes the word that follows, also where that was meant as the run file.
        let is_file = word.ends_with(".json");
        is_file.then(|| format!("expected {}, found {word:?}; write RUN.json first", Self::wanted()))
    }
}

impl<const N: usize> Value for AtLeast<N> {
    const PLACEHOLDER: &'static str = "N";

    fn wanted() -> String {
        match N {
            0 => "a whole number".into(),
            _ => format!("a whole number of at least {N}"),
        }
    }

    fn parse(text: &str) -> Option<Self> {
        text.parse().ok().filter(|n| *n >= N).map(AtLeast)
    }

    fn from_json(json: &Json) -> Option<Self> {
        Self::parse(&word(json)?)
    }
}

impl Value for u64 {
    const PLACEHOLDER: &'static str = "N";

    fn wanted() -> String {
        AtLeast::<0>::wanted()
    }

    fn parse(text: &str) -> Option<u64> {
        text.parse().ok()
    }

    fn from_json(json: &Json) -> Option<u64> {
        Self::parse(&word(json)?)
    }
}

impl Value for StepLimit {
    const PLACEHOLDER: &'static str = "N";

    fn wanted() -> String {
        "a whole number of at least 1, or -1 for no limit".into()
    }

    fn parse(text: &str) -> Option<Self> {
        match text {
            "-1" => Some(StepLimit(None)),
            _ => AtLeast::<1>::parse(text).map(|AtLeast(n)| StepLimit(Some(n))),
        }
    }

    fn from_json(json: &Json) -> Option<Self> {
        Self::parse(&word(json)?)
    }
}

/// Numbers of which only some are possible.
macro_rules! numbers {
    ($($ty:ty: $wanted:expr, $holds:expr;)+) => {
        $(impl Value for $ty {
            const PLACEHOLDER: &'static str = "X";

            fn wanted() -> String {
                $wanted.into()
            }

            fn parse(text: &str) -> Option<Self> {
                let holds: fn(f64) -> bool = $holds;
                text.parse().ok().filter(|x: &f64| x.is_finite() && holds(*x)).map(Self)
            }

            fn from_json(json: &Json) -> Option<Self> {
                Self::parse(&word(json)?)
            }
        })+
    };
}

numbers! {
    NonNegative: "a number of at least 0", |x| x >= 0.0;
    Positive: "a number above 0", |x| x > 0.0;
    Share<true>: "a number from 0 to 1", |x| (0.0..=1.0).contains(&x);
    Share<false>: "a number of at least 0 and below 1", |x| (0.0..1.0).contains(&x);
}

impl Value for String {
    const PLACEHOLDER: &'static str = "TEXT";

    fn wanted() -> String {
        "a text".into()
    }

    fn parse(text: &str) -> Option<String> {
        Some(text.to_owned())
    }
}

impl Value for PathBuf {
    const PLACEHOLDER: &'static str = "PATH";

    fn wanted() -> String {
        "a path".into()
    }

    fn parse(text: &str) -> Option<PathBuf> {
        (!text.is_empty()).then(|| text.into())
    }

    fn from_words(words: &[OsString]) -> Option<PathBuf> {
        words.last().filter(|word| !word.is_empty()).map(PathBuf::from)
    }
}

impl Value for Vec<PathBuf> {
    const PLACEHOLDER: &'static str = "PATH";
    const ARITY: Arity = Arity::Many;

    fn wanted() -> String {
        "a path, or a list of paths".into()
    }

    fn parse(text: &str) -> Option<Self> {
        PathBuf::parse(text).map(|path| vec![path])
    }

    fn from_words(words: &[OsString]) -> Option<Self> {
        words.iter().map(|word| PathBuf::from_words(std::slice::from_ref(word))).collect()
    }
}

impl Value for FsdpWords {
    const PLACEHOLDER: &'static str = "WORDS";
    const ARITY: Arity = Arity::Many;

    fn wanted() -> String {
        "words, a list of words, true or false".into()
    }

    fn parse(text: &str) -> Option<Self> {
        Some(FsdpWords(text.to_owned()))
    }

    fn from_words(words: &[OsString]) -> Option<Self> {
        let words: Option<Vec<&str>> = words.iter().map(|word| word.to_str()).collect();
        Some(FsdpWords(words?.join(" ")))
    }

    fn from_json(json: &Json) -> Option<Self> {
        match json {
            Json::Array(items) => Self::from_words(&list(items)?),
            Json::Bool(_) => Self::parse(&json.to_string()),
            _ => Self::parse(json.as_str()?),
        }
    }
}

impl Value for Source {
    const PLACEHOLDER: &'static str = "JSON|FILE";

    fn wanted() -> String {
        "JSON, or the path of a JSON file".into()
    }

    fn parse(text: &str) -> Option<Self> {
        match text.trim_start().starts_with(['{', '[']) {
            true => Some(Source::Inline(text.to_owned())),
            false => PathBuf::parse(text).map(Source::File),
        }
    }

    fn from_words(words: &[OsString]) -> Option<Self> {
        match words.last()?.to_str() {
            Some(text) => Self::parse(text),
            None => PathBuf::from_words(words).map(Source::File),
        }
    }

    fn from_json(json: &Json) -> Option<Self> {
        match json {
            Json::Object(_) | Json::Array(_) => Some(Source::Inline(json.to_string())),
            _ => Self::parse(json.as_str()?),
        }
    }
}

impl Value for Names {
    const PLACEHOLDER: &'static str = "NAME";
    const ARITY: Arity = Arity::Many;

    fn wanted() -> String {
        "names, or a list of them".into()
    }

    fn parse(text: &str) -> Option<Self> {
        let names: Vec<String> = text.split(',').map(|name| name.trim().to_owned()).collect();
        (!names.iter().any(String::is_empty)).then_some(Names(names))
    }

    fn from_words(words: &[OsString]) -> Option<Self> {
        let lists: Option<Vec<Names>> = words.iter().map(|word| Self::parse(word.to_str()?)).collect();
        Some(Names(lists?.into_iter().flat_map(|list| list.0).collect()))
    }
}

impl Value for Options {
    const PLACEHOLDER: &'static str = "OPTIONS";

    fn wanted() -> String {
        "NAME=VALUE,... or a JSON object".into()
    }

    fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        if text.starts_with('{') {
            return serde_json::from_str(text).ok().map(Options);
        }
        let pair = |pair: &str| {
            let (name, value) = pair.split_once('=')?;
            let (name, value) = (name.trim(), value.trim());
            let value = serde_json::from_str(value).unwrap_or_else(|_| value.into());
            (!name.is_empty()).then(|| (name.to_owned(), value))
        };
        text.split(',').filter(|part| !part.trim().is_empty()).map(pair).collect::<Option<_>>().map(Options)
    }

    fn from_json(json: &Json) -> Option<Self> {
        match json {
            Json::Object(map) => Some(Options(map.clone())),
            _ => Self::parse(json.as_str()?),
        }
    }
}

impl Value for Every {
    const PLACEHOLDER: &'static str = "N";

    fn wanted() -> String {
        "a whole number of at least 1, or a part of all steps between 0 and 1".into()
    }

    fn parse(text: &str) -> Option<Self> {
        if let Some(AtLeast(steps)) = AtLeast::<1>::parse(text) {
            return Some(Every(IntervalStrategy::Steps(steps)));
        }
        let part: f64 = text.parse().ok()?;
        (part > 0.0 && part < 1.0).then_some(Every(IntervalStrategy::Part(part)))
    }

    fn from_json(json: &Json) -> Option<Self> {
        Self::parse(&word(json)?)
    }
}

impl Value for Percent {
    const PLACEHOLDER: &'static str = "N";

    fn wanted() -> String {
        "a whole number from 1 to 99".into()
    }

    fn parse(text: &str) -> Option<Self> {
        text.parse().ok().filter(|percent| (1..=99).contains(percent)).map(Percent)
    }

    fn from_json(json: &Json) -> Option<Self> {
        Self::parse(&word(json)?)
    }
}

/// A list of texts as the words they would be on the command line.
fn list(items: &[Json]) -> Option<Vec<OsString>> {
    items.iter().map(|item| Some(item.as_str()?.into())).collect()
}

/// A number or a text as the word it would be on the command line.
fn word(json: &Json) -> Option<String> {
    match json {
        Json::Number(number) => Some(number.to_string()),
        _ => json.as_str().map(str::to_owned),
    }
}
