//! Reading options that stand in one setting.

use std::fmt::Display;

use serde_json::{Map, Value as Json};

use super::super::failure::Failure;
use super::super::settings::Setting;
use super::super::value::Options;

/// Options that are not read yet. Reading takes one away, and what is left is unknown.
pub(super) struct Reader<'a> {
    left: Map<String, Json>,
    setting: Option<&'a Setting<Options>>,
    /// The name of the setting.
    name: &'static str,
    /// Whose options they are.
    of: &'static str,
}

impl<'a> Reader<'a> {
    pub(super) fn new(
        setting: Option<&'a Setting<Options>>,
        name: &'static str,
        of: &'static str,
    ) -> Reader<'a> {
        let left = setting.map(|setting| setting.value.0.clone()).unwrap_or_default();
        Reader { left, setting, name, of }
    }

    /// A failure about them.
    pub(super) fn wrong(&self, why: impl Display) -> Failure {
        match self.setting {
            Some(setting) => setting.wrong(why),
            None => Failure::input(format!("--{}: {why}", self.name)),
        }
    }

    pub(super) fn number(&mut self, name: &str) -> Result<Option<f64>, Failure> {
        self.take(name, "a number of at least 0", |value| value.as_f64().filter(|x| *x >= 0.0))
    }

    /// A number from 0 up to and without 1.
    pub(super) fn share(&mut self, name: &str) -> Result<Option<f64>, Failure> {
        let read = |value: &Json| value.as_f64().filter(|x| (0.0..1.0).contains(x));
        self.take(name, "a number of at least 0 and below 1", read)
    }

    pub(super) fn count(&mut self, name: &str) -> Result<Option<usize>, Failure> {
        self.take(name, "a whole number", |value| usize::try_from(value.as_u64()?).ok())
    }

    pub(super) fn flag(&mut self, name: &str) -> Result<Option<bool>, Failure> {
        self.take(name, "true or false", |value| match value {
            Json::String(text) if text.eq_ignore_ascii_case("true") => Some(true),
            Json::String(text) if text.eq_ignore_ascii_case("false") => Some(false),
            _ => value.as_bool(),
        })
    }

    pub(super) fn take<T>(
        &mut self,
        name: &str,
        wanted: &str,
        read: impl Fn(&Json) -> Option<T>,
    ) -> Result<Option<T>, Failure> {
        match self.left.remove(name) {
            None | Some(Json::Null) => Ok(None),
            Some(value) => match read(&value) {
                Some(read) => Ok(Some(read)),
                None => Err(self.wrong(format!("{name}: expected {wanted}, found {value}"))),
            },
        }
    }

    /// Refuses what is left.
    pub(super) fn finish(self) -> Result<(), Failure> {
        match self.left.keys().next() {
            Some(name) => Err(self.wrong(format!("{name} is no option of {}", self.of))),
            None => Ok(()),
        }
    }
}
