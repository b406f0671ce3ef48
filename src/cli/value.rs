//! The kinds of values that settings take, each read the same way from the command line and from a run file.

use std::ffi::OsString;
use std::path::PathBuf;

use serde_json::Value as Json;
use shardwright_partition::{DimRule, Lowering};
use shardwright_train::{LossDenominator, ScheduleKind};

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

    /// Reads the words that followed a flag; there is at least one.
    fn from_words(words: &[OsString]) -> Option<Self> {
        Self::parse(words.last()?.to_str()?)
    }

    /// Reads a value of a run file. A text is read as a word, so `"1e-3"` is a number, as it is on the command line.
    fn from_json(json: &Json) -> Option<Self> {
        Self::parse(json.as_str()?)
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
    /// A value follows, and each such flag adds one.
    Many,
}

/// A whole number of at least `N`.
#[derive(Clone, Copy, Debug)]
pub(super) struct AtLeast<const N: usize>(pub(super) usize);

/// How sharding is written into a program.
#[derive(Clone, Copy, Debug)]
pub(super) enum Lowerings {
    /// So.
    One(Lowering),
    /// In each way, for a comparison.
    Both,
}

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

/// Where the FSDP configuration is.
#[derive(Clone, Debug)]
pub(super) enum FsdpSource {
    /// In a file of its own.
    File(PathBuf),
    /// In the run file; this is its text.
    Inline(String),
}

/// Values with names.
pub(super) trait Choice: Copy + 'static {
    /// Stands for the value in the help.
    const PLACEHOLDER: &'static str;
    /// What can be chosen; several names may mean the same.
    const CHOICES: &'static [(&'static str, Self)];
    /// Names that have a meaning elsewhere and none here yet.
    const ELSEWHERE: &'static [&'static str] = &[];
    /// Names that have a meaning elsewhere which could be taken for one of the choices, how it differs, and what to
    /// choose.
    const OTHERWISE: &'static [(&'static str, &'static str)] = &[];
}

/// Optimizers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Optimizer {
    AdamW,
}

/// Types of the weights and of the computation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Precision {
    Float32,
}

/// When something is done that can be done at steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LoggingStrategy {
    No,
    Steps,
}

/// When checkpoints are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SaveStrategy {
    No,
}

/// A [`ScheduleKind`] with the part of its name that says whether there is a warm-up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Scheduler {
    pub(super) kind: ScheduleKind,
    pub(super) warms_up: bool,
}

impl Choice for Optimizer {
    const PLACEHOLDER: &'static str = "NAME";
    const CHOICES: &'static [(&'static str, Self)] = &[
        ("adamw_torch", Optimizer::AdamW),
        ("adamw_torch_fused", Optimizer::AdamW),
        ("adamw_torch_xla", Optimizer::AdamW),
    ];
    const OTHERWISE: &'static [(&'static str, &'static str)] = &[(
        "adamw_hf",
        "adds epsilon before the bias correction and decays weights after the update; use adamw_torch",
    )];
    const ELSEWHERE: &'static [&'static str] = &[
        "adafactor",
        "adagrad",
        "adalomo",
        "adamw_8bit",
        "adamw_anyprecision",
        "adamw_apex_fused",
        "adamw_bnb_8bit",
        "adamw_torch_4bit",
        "adamw_torch_8bit",
        "adamw_torch_npu_fused",
        "ademamix",
        "galore_adamw",
        "lion_32bit",
        "lion_8bit",
        "lomo",
        "paged_adamw_32bit",
        "paged_adamw_8bit",
        "rmsprop",
        "schedule_free_adamw",
        "sgd",
    ];
}

impl Choice for Precision {
    const PLACEHOLDER: &'static str = "TYPE";
    const CHOICES: &'static [(&'static str, Self)] = &[("float32", Precision::Float32)];
    const ELSEWHERE: &'static [&'static str] = &["auto", "bfloat16", "float16", "float64"];
}

impl Choice for LoggingStrategy {
    const PLACEHOLDER: &'static str = "WHEN";
    const CHOICES: &'static [(&'static str, Self)] =
        &[("steps", LoggingStrategy::Steps), ("no", LoggingStrategy::No)];
    const ELSEWHERE: &'static [&'static str] = &["epoch"];
}

impl Choice for SaveStrategy {
    const PLACEHOLDER: &'static str = "WHEN";
    const CHOICES: &'static [(&'static str, Self)] = &[("no", SaveStrategy::No)];
    const ELSEWHERE: &'static [&'static str] = &["steps", "epoch", "best"];
}

impl Choice for Scheduler {
    const PLACEHOLDER: &'static str = "NAME";
    const CHOICES: &'static [(&'static str, Self)] = &[
        ("linear", Scheduler { kind: ScheduleKind::Linear, warms_up: true }),
        ("cosine", Scheduler { kind: ScheduleKind::Cosine { cycles: 0.5, floor: 0.0 }, warms_up: true }),
        ("constant", Scheduler { kind: ScheduleKind::Constant, warms_up: false }),
        ("constant_with_warmup", Scheduler { kind: ScheduleKind::Constant, warms_up: true }),
    ];
    const ELSEWHERE: &'static [&'static str] = &[
        "cosine_with_min_lr",
        "cosine_with_restarts",
        "greedy",
        "inverse_sqrt",
        "polynomial",
        "reduce_lr_on_plateau",
        "warmup_stable_decay",
    ];
}

impl Choice for LossDenominator {
    const PLACEHOLDER: &'static str = "COUNT";
    const CHOICES: &'static [(&'static str, Self)] =
        &[("labels", LossDenominator::Labels), ("targets", LossDenominator::Targets)];
}

impl Choice for DimRule {
    const PLACEHOLDER: &'static str = "RULE";
    const CHOICES: &'static [(&'static str, Self)] = &[
        ("largest_divisible", DimRule::LargestDivisible),
        ("strict_largest", DimRule::StrictLargest),
        ("dim0", DimRule::Dim0),
    ];
}

impl Choice for Lowerings {
    const PLACEHOLDER: &'static str = "LOWERING";
    const CHOICES: &'static [(&'static str, Self)] = &[
        ("auto", Lowerings::One(Lowering::Auto)),
        ("annotate", Lowerings::One(Lowering::Annotate)),
        ("explicit", Lowerings::One(Lowering::Explicit)),
        ("both", Lowerings::Both),
    ];
}

impl<T: Choice> Value for T {
    const PLACEHOLDER: &'static str = T::PLACEHOLDER;

    fn wanted() -> String {
        let names: Vec<&str> = T::CHOICES.iter().map(|(name, _)| *name).collect();
        match names.split_last() {
            Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
            _ => names.join(""),
        }
    }

    fn parse(text: &str) -> Option<Self> {
        T::CHOICES.iter().find(|(name, _)| *name == text).map(|(_, value)| *value)
    }

    fn why_not(word: &str) -> Option<String> {
        if let Some((_, why)) = T::OTHERWISE.iter().find(|(name, _)| *name == word) {
            return Some(format!("{word} is not supported: it {why}"));
        }
        let elsewhere = T::ELSEWHERE.contains(&word);
        elsewhere.then(|| format!("{word} is not supported yet; use {}", Self::wanted()))
    }
}

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

    fn from_json(json: &Json) -> Option<Self> {
        match json {
            Json::Array(items) => items.iter().map(PathBuf::from_json).collect(),
            _ => Self::parse(json.as_str()?),
        }
    }
}

impl Value for FsdpWords {
    const PLACEHOLDER: &'static str = "WORDS";

    fn wanted() -> String {
        "words, a list of words, true or false".into()
    }

    fn parse(text: &str) -> Option<Self> {
        Some(FsdpWords(text.to_owned()))
    }

    fn from_json(json: &Json) -> Option<Self> {
        match json {
            Json::Array(items) => {
                let words: Option<Vec<&str>> = items.iter().map(Json::as_str).collect();
                Some(FsdpWords(words?.join(" ")))
            }
            Json::Bool(_) => Self::parse(&json.to_string()),
            _ => Self::parse(json.as_str()?),
        }
    }
}

impl Value for FsdpSource {
    const PLACEHOLDER: &'static str = "FILE";

    fn wanted() -> String {
        "the path of a JSON file, or in a run file the object itself".into()
    }

    fn parse(text: &str) -> Option<Self> {
        PathBuf::parse(text).map(FsdpSource::File)
    }

    fn from_words(words: &[OsString]) -> Option<Self> {
        PathBuf::from_words(words).map(FsdpSource::File)
    }

    fn from_json(json: &Json) -> Option<Self> {
        match json {
            Json::Object(_) => Some(FsdpSource::Inline(json.to_string())),
            _ => Self::parse(json.as_str()?),
        }
    }
}

/// A number or a text as the word it would be on the command line.
fn word(json: &Json) -> Option<String> {
    match json {
        Json::Number(number) => Some(number.to_string()),
        _ => json.as_str().map(str::to_owned),
    }
}
