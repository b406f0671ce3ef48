//! What was written: entries, looked up in the table of keys and read as their kind.

use serde_json::Value;

use super::error::{FsdpConfigError, KeyProblem};
use super::keys::{self, KEYS, KeySpec, Role};
use super::notice::Notice;
use super::value::{Kind, Setting, describe};
use super::{Findings, UnknownKeys};
use crate::json::{Entries, JsonError, from_json};

/// The known keys of a configuration with their values, each once, in file order.
#[derive(Default)]
pub(super) struct RawConfig {
    given: Vec<Given>,
}

/// One key that has a value.
pub(super) struct Given {
    spec: &'static KeySpec,
    /// The key as the file spells it, after the object it is in, if any.
    pub(super) spelling: String,
    pub(super) setting: Setting,
    /// The value as it was written, for messages.
    pub(super) got: String,
}

/// The entries of a JSON object as written, repeated keys included.
pub(super) fn parse_entries(text: &str, origin: &str) -> Result<Vec<(String, Value)>, FsdpConfigError> {
    let syntax_error = |JsonError { line, column, message }| FsdpConfigError::Syntax {
        origin: origin.to_owned(),
        line,
        column,
        message,
    };
    from_json(text).map(|Entries(entries)| entries).map_err(syntax_error)
}

impl RawConfig {
    /// Reads the entries of a file and the variables that stand for others, and settles all keys whose consequence the
    /// table states.
    pub(super) fn read(
        file: Option<Vec<(String, Value)>>,
        variables: &[(String, String)],
        unknown: UnknownKeys,
        findings: &mut Findings,
    ) -> Self {
        let mut raw = Self::default();
        let is_file = file.is_some();
        raw.read_object(KEYS, "", file.unwrap_or_default(), unknown, findings);
        raw.read_variables(variables, findings);
        for given in &raw.given {
            given.settle(findings);
        }
        if is_file {
            raw.note_missing(findings);
        }
        raw
    }

    /// Variables stand for keys that have no value yet.
    fn read_variables(&mut self, variables: &[(String, String)], findings: &mut Findings) {
        let has = |raw: &Self, spec: &KeySpec| raw.given.iter().any(|given| std::ptr::eq(given.spec, spec));
        let rows = variables.iter().filter_map(|(name, value)| Some((name, value, keys::of_variable(name)?)));
        let missing: Vec<_> = rows.filter(|(_, _, spec)| !has(self, spec)).collect();
        for (name, value, spec) in missing {
            self.read_value(spec, name.clone(), &Value::from(value.as_str()), findings);
            if has(self, spec) {
                findings.notices.push(Notice::FromVariable { key: spec.name, variable: name.clone() });
            }
        }
    }

    /// The key with this name in the table, if it has a value.
    pub(super) fn get(&self, name: &str) -> Option<&Given> {
        // A key inside an object may have the name of one outside, and has another role.
        self.given.iter().find(|given| matches!(given.spec.role, Role::Means) && given.spec.name == name)
    }

    fn read_object(
        &mut self,
        table: &'static [KeySpec],
        path: &str,
        entries: Vec<(String, Value)>,
        unknown: UnknownKeys,
        findings: &mut Findings,
    ) {
        for (key, value) in entries {
            let spelling = format!("{path}{key}");
            match (keys::find(table, &key), value) {
                (None, _) => {
                    let nearest = keys::nearest(table, &key);
                    match unknown {
                        UnknownKeys::Refuse => {
                            findings.problems.push(KeyProblem::Unknown { key: spelling, nearest });
                        }
                        UnknownKeys::Allow => {
                            findings.notices.push(Notice::UnknownKey { key: spelling, nearest });
                        }
                    }
                }
                (Some(_), Value::Null) => {}
                (Some(KeySpec { kind: Kind::Object(inner), .. }), Value::Object(map)) => {
                    let path = format!("{spelling}.");
                    self.read_object(inner, &path, map.into_iter().collect(), unknown, findings);
                }
                (Some(spec), value) => self.read_value(spec, spelling, &value, findings),
            }
        }
    }

    fn read_value(
        &mut self,
        spec: &'static KeySpec,
        spelling: String,
        value: &Value,
        findings: &mut Findings,
    ) {
        let got = describe(value);
        let Some(setting) = spec.kind.read(value) else {
            findings.problems.push(KeyProblem::WrongValue { key: spelling, wanted: spec.kind.wanted(), got });
            return;
        };
        let given = Given { spec, spelling, setting, got };
        match self.given.iter().find(|known| std::ptr::eq(known.spec, spec)) {
            None => self.given.push(given),
            Some(known) if known.setting == given.setting => {}
            Some(known) => findings.problems.push(known.disagrees_with(&given)),
        }
    }

    /// Notes the keys whose only value is not the default that other readers of the file have, which is
    /// false for all of them.
    fn note_missing(&self, findings: &mut Findings) {
        for spec in KEYS {
            let is_given = self.given.iter().any(|given| std::ptr::eq(given.spec, spec));
            if let (Role::Only { value: true, .. }, false) = (&spec.role, is_given) {
                findings.notices.push(Notice::Defaulted { key: spec.name, value: true });
            }
        }
    }
}

impl Given {
    /// The problem of two keys that contradict each other.
    pub(super) fn disagrees_with(&self, other: &Self) -> KeyProblem {
        KeyProblem::Disagree {
            first: self.spelling.clone(),
            first_value: self.got.clone(),
            second: other.spelling.clone(),
            second_value: other.got.clone(),
        }
    }

    /// The notice that this key changes nothing.
    pub(super) fn no_effect(&self, why: &str) -> Notice {
        Notice::NoEffect { key: self.spelling.clone(), why: why.to_owned() }
    }

    fn settle(&self, findings: &mut Findings) {
        match &self.spec.role {
            Role::Only { value, works } if self.setting != Setting::Flag(*value) => {
                findings.problems.push(self.unsupported(works));
            }
            Role::Always { value, why } if self.setting != *value => {
                findings.notices.push(self.no_effect(why));
            }
            Role::Hint(why) => findings.notices.push(self.no_effect(why)),
            Role::Means | Role::Only { .. } | Role::Always { .. } => {}
        }
    }

    fn unsupported(&self, works: &'static str) -> KeyProblem {
        KeyProblem::Unsupported { key: self.spelling.clone(), got: self.got.clone(), works }
    }
}
