//! The settings of a run: what each is called, how it is read, and where it was written.
//!
//! Each subject has a table in a file of its own. Flags, help and the keys of a run file all come from these tables.

mod adapters;
mod data;
mod evaluation;
mod model;
mod optimization;
mod output;
mod sharding;
mod training;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use serde_json::Value as Json;

use super::failure::Failure;
use super::value::{Arity, Value};

pub(super) use adapters::AdapterSettings;
pub(super) use data::DataSettings;
pub(super) use evaluation::EvaluationSettings;
pub(super) use model::ModelSettings;
pub(super) use optimization::OptimizationSettings;
pub(super) use output::OutputSettings;
pub(super) use sharding::ShardingSettings;
pub(super) use training::TrainingSettings;

/// What was written for a setting, and where.
#[derive(Clone, Debug)]
pub(super) struct Given {
    pub(super) written: Written,
    pub(super) origin: Origin,
}

/// A value as it was written.
#[derive(Clone, Debug)]
pub(super) enum Written {
    /// The words after a flag, or each of several such flags.
    Words(Vec<OsString>),
    /// The value of a key.
    Json(Json),
}

/// Where a setting was written.
#[derive(Clone, Debug)]
pub(super) enum Origin {
    /// On the command line.
    Flag,
    /// In a run file, at a line and column that count from 1.
    File { path: Rc<Path>, line: usize, column: usize },
    /// In this variable of the environment.
    Variable(&'static str),
    /// In the table of settings.
    Default,
}

impl Written {
    /// The words that it is or has.
    fn words(&self) -> Vec<Cow<'_, str>> {
        match self {
            Written::Words(words) => words.iter().map(|word| word.to_string_lossy()).collect(),
            Written::Json(Json::Array(items)) => {
                items.iter().filter_map(Json::as_str).map(Cow::from).collect()
            }
            Written::Json(json) => json.as_str().map(Cow::from).into_iter().collect(),
        }
    }
}

impl fmt::Display for Written {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Written::Words(_) => write!(f, "{:?}", self.words().join(" ")),
            Written::Json(json) => json.fmt(f),
        }
    }
}

/// Settings by name, as one place gives them.
pub(super) type Layer = BTreeMap<&'static str, Given>;

/// A setting that was read.
#[derive(Clone, Debug)]
pub(super) struct Setting<T> {
    pub(super) value: T,
    name: &'static str,
    origin: Origin,
}

/// A row of the table.
#[derive(Debug)]
pub(super) struct Spec {
    pub(super) name: &'static str,
    /// Other names for the same.
    pub(super) aliases: &'static [&'static str],
    pub(super) heading: &'static str,
    pub(super) help: &'static str,
    pub(super) placeholder: &'static str,
    pub(super) arity: Arity,
    /// The value where none is given, as it would be written.
    pub(super) default: Option<&'static str>,
}

/// Writes the settings of one subject as a struct, the rows that describe them, and the reading of one from the other.
macro_rules! settings {
    ($(#[$doc:meta])* $subject:ident $heading:literal {
        $($(#[doc = $help:literal])+ $name:ident $(| $alias:ident)*: $ty:ty $(= $default:literal)?;)+
    }) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub(in crate::cli) struct $subject {
            $($(#[doc = $help])+ pub(in crate::cli) $name: settings!(@field $ty $(, $default)?),)+
        }

        impl $subject {
            /// The rows of the table, in the order of the help.
            pub(super) const SPECS: &'static [Spec] = &[$(Spec {
                name: stringify!($name),
                aliases: &[$(stringify!($alias)),*],
                heading: $heading,
                help: concat!($($help,)+),
                placeholder: <$ty as Value>::PLACEHOLDER,
                arity: <$ty as Value>::ARITY,
                default: settings!(@default $($default)?),
            },)+];

            pub(super) fn read(layers: &[&Layer]) -> Result<Self, Failure> {
                Ok($subject { $($name: settings!(@read layers, $name $(, $default)?),)+ })
            }
        }
    };
    (@field $ty:ty) => { Option<Setting<$ty>> };
    (@field $ty:ty, $default:literal) => { Setting<$ty> };
    (@default) => { None };
    (@default $default:literal) => { Some($default) };
    (@read $layers:ident, $name:ident) => { optional($layers, stringify!($name))? };
    (@read $layers:ident, $name:ident, $default:literal) => {
        match optional($layers, stringify!($name))? {
            Some(setting) => setting,
            None => default(stringify!($name), $default),
        }
    };
}
use settings;

/// All settings of a run.
#[derive(Debug)]
pub(super) struct Settings {
    pub(super) model: ModelSettings,
    pub(super) data: DataSettings,
    pub(super) adapters: AdapterSettings,
    pub(super) training: TrainingSettings,
    pub(super) optimization: OptimizationSettings,
    pub(super) evaluation: EvaluationSettings,
    pub(super) sharding: ShardingSettings,
    pub(super) output: OutputSettings,
}

impl Settings {
    /// Reads all settings; `layers` are in order of precedence.
    pub(super) fn read(layers: &[&Layer]) -> Result<Settings, Failure> {
        Ok(Settings {
            model: ModelSettings::read(layers)?,
            data: DataSettings::read(layers)?,
            adapters: AdapterSettings::read(layers)?,
            training: TrainingSettings::read(layers)?,
            optimization: OptimizationSettings::read(layers)?,
            evaluation: EvaluationSettings::read(layers)?,
            sharding: ShardingSettings::read(layers)?,
            output: OutputSettings::read(layers)?,
        })
    }
}

/// The rows of all tables, in the order of the help.
pub(super) fn specs() -> impl Iterator<Item = &'static Spec> {
    [
        ModelSettings::SPECS,
        DataSettings::SPECS,
        AdapterSettings::SPECS,
        TrainingSettings::SPECS,
        OptimizationSettings::SPECS,
        EvaluationSettings::SPECS,
        ShardingSettings::SPECS,
        OutputSettings::SPECS,
    ]
    .into_iter()
    .flatten()
}

/// The names of all settings, each with one.
pub(super) fn names() -> Vec<&'static str> {
    specs().map(|spec| spec.name).collect()
}

/// The setting called `name`, whose words may be joined by dashes instead of underscores.
pub(super) fn find(name: &str) -> Option<&'static Spec> {
    let name = name.replace('-', "_");
    specs().find(|spec| spec.names().any(|known| known == name))
}

impl Spec {
    /// Whether its value is a number.
    pub(super) fn is_number(&self) -> bool {
        matches!(self.placeholder, "N" | "X")
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &'static str> {
        std::iter::once(self.name).chain(self.aliases.iter().copied())
    }
}

fn optional<T: Value>(layers: &[&Layer], name: &'static str) -> Result<Option<Setting<T>>, Failure> {
    let Some(given) = layers.iter().find_map(|layer| layer.get(name)) else { return Ok(None) };
    let value = match &given.written {
        Written::Words(words) => T::from_words(words),
        Written::Json(json) => T::from_json(json),
    };
    match value {
        Some(value) => Ok(Some(Setting { value, name, origin: given.origin.clone() })),
        None => {
            let why = given.written.words().iter().find_map(|word| T::why_not(word));
            let expected = || format!("expected {}, found {}", T::wanted(), given.written);
            Err(Setting::of(name, given).wrong(why.unwrap_or_else(expected)))
        }
    }
}

fn default<T: Value>(name: &'static str, text: &str) -> Setting<T> {
    let value = T::parse(text).expect("defaults in the table are values, as a test sees to");
    Setting { value, name, origin: Origin::Default }
}

impl Setting<()> {
    /// A setting whose value nobody reads.
    pub(super) fn of(name: &'static str, given: &Given) -> Setting<()> {
        Setting { value: (), name, origin: given.origin.clone() }
    }
}

impl<T> Setting<T> {
    /// A failure about this setting.
    pub(super) fn wrong(&self, why: impl fmt::Display) -> Failure {
        Failure::input(match &self.origin {
            Origin::File { path, line, column } => {
                format!("{}:{line}:{column}: {}: {why}", path.display(), self.name)
            }
            Origin::Variable(variable) => format!("{variable}: {why}"),
            Origin::Flag | Origin::Default => format!("--{}: {why}", self.name),
        })
    }

    /// What errors of this setting's text call it.
    pub(super) fn source_name(&self) -> String {
        match &self.origin {
            Origin::File { path, .. } => format!("{}: {}", path.display(), self.name),
            Origin::Variable(variable) => (*variable).to_owned(),
            Origin::Flag | Origin::Default => format!("--{}", self.name),
        }
    }

    /// A path of this setting as seen from the working directory: those in a run file begin at its folder.
    pub(super) fn resolve(&self, path: &Path) -> PathBuf {
        match &self.origin {
            Origin::File { path: file, .. } => file.parent().unwrap_or(Path::new("")).join(path),
            Origin::Flag | Origin::Variable(_) | Origin::Default => path.to_owned(),
        }
    }

    /// Whether somebody has written it.
    pub(super) fn is_given(&self) -> bool {
        !matches!(self.origin, Origin::Default)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_values() {
        Settings::read(&[]).unwrap();
    }
}
