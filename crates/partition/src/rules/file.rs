//! The rules file: JSON with the words of the flags.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};
use shardwright_mesh::PartitionSpec;
use thiserror::Error;

use super::placement::{Placement, Says};
use super::{RuleParseError, ShardRules};
use crate::Pins;
use crate::json::{Entries, JsonError, from_json};

const KEYS: [&str; 5] = ["mesh", "axis", "shard", "donate", "pin"];

/// What a rules file says. Every key may be left out:
///
/// ```json
/// {
///   "mesh": "data=2, fsdp=4",
///   "axis": "fsdp",
///   "shard": {
///     "params.*": "fsdp",
///     "*.bias": "replicated",
///     "w1": ["fsdp", null],
///     "x": "batch"
///   },
///   "donate": ["params.*"],
///   "pin": "fsdp"
/// }
/// ```
///
/// `shard` has patterns and placements, of which the last one that matches counts; a list is a spec. `axis` is the one
/// that parameters are split over. `pin` is what is pinned inside the program, one of the words of [`Pins`].
///
/// ```
/// use shardwright_partition::RulesFile;
///
/// let file = RulesFile::parse(r#"{"mesh": "fsdp=8", "shard": {"x": "batch"}}"#, "rules.json")?;
/// assert_eq!(file.mesh.as_deref(), Some("fsdp=8"));
/// let error = RulesFile::parse(r#"{"shards": {}}"#, "rules.json").unwrap_err();
/// assert_eq!(error.to_string(), "rules.json:1:9: unknown key shards; did you mean shard?");
/// # Ok::<(), shardwright_partition::RulesFileError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RulesFile {
    /// The mesh, as `--mesh` has it.
    pub mesh: Option<String>,
    /// The axis that parameters are split over.
    pub axis: Option<String>,
    /// The rules.
    pub rules: ShardRules,
}

/// A text that is no rules file.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RulesFileError {
    /// The text is not a JSON object of the keys of a rules file.
    #[error("{origin}:{line}:{column}: {message}")]
    Syntax {
        /// The name the caller gave to the text.
        origin: String,
        /// The line, from 1.
        line: usize,
        /// The column, from 1.
        column: usize,
        /// What is wrong there.
        message: String,
    },
    /// One of the rules is none.
    #[error("{origin}: {problem}")]
    Rule {
        /// The name the caller gave to the text.
        origin: String,
        /// What is wrong.
        problem: RuleParseError,
    },
}

impl RulesFile {
    /// Reads the text of a rules file. `origin` names it in errors.
    ///
    /// # Errors
    /// When the text is not a JSON object, a key is unknown or there twice, or a rule is none.
    pub fn parse(text: &str, origin: &str) -> Result<RulesFile, RulesFileError> {
        let raw: Raw = from_json(text).map_err(|JsonError { line, column, message }| {
            RulesFileError::Syntax { origin: origin.to_owned(), line, column, message }
        })?;
        let wrong = |problem| RulesFileError::Rule { origin: origin.to_owned(), problem };
        let mut rules = ShardRules::default();
        for (pattern, placement) in raw.shard.map(|Entries(entries)| entries).unwrap_or_default() {
            rules.push_entry(&pattern, placement).map_err(wrong)?;
        }
        for pattern in raw.donate.unwrap_or_default() {
            rules.donate(&pattern).map_err(wrong)?;
        }
        raw.pin.into_iter().for_each(|Pin(pins)| rules.pin(pins));
        Ok(RulesFile { mesh: raw.mesh, axis: raw.axis, rules })
    }
}

impl ShardRules {
    fn push_entry(&mut self, pattern: &str, placement: Written) -> Result<(), RuleParseError> {
        let (text, says) = match placement {
            Written::Text(placement) => (format!("{pattern}={placement}"), Says::parse(&placement)),
            Written::Spec(spec) => (format!("{pattern}={spec}"), Ok(Says::Lies(Placement::Spec(spec)))),
        };
        let added = says.and_then(|says| self.add(pattern, says, text.trim()));
        added.map_err(|problem| RuleParseError { rule: text.trim().to_owned(), problem })
    }
}

/// What was written, before any of it is looked at.
#[derive(Default)]
struct Raw {
    mesh: Option<String>,
    axis: Option<String>,
    shard: Option<Entries<Written>>,
    donate: Option<Vec<String>>,
    pin: Option<Pin>,
}

struct Pin(Pins);

impl<'de> Deserialize<'de> for Pin {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let word = String::deserialize(deserializer)?;
        let wanted = || format!("pin: expected {}, found {word:?}", Pins::wanted());
        Pins::parse(&word).map(Pin).ok_or_else(|| D::Error::custom(wanted()))
    }
}

/// A placement: as in flags, or a list with an entry for each dim.
#[derive(serde::Deserialize)]
#[serde(untagged, expecting = "a placement is a text such as \"fsdp\", or a list with an entry for each dim")]
enum Written {
    Text(String),
    Spec(PartitionSpec),
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct RawVisitor;

        impl<'de> Visitor<'de> for RawVisitor {
            type Value = Raw;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "an object with some of the keys {}", KEYS.join(", "))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Raw, A::Error> {
                let mut raw = Raw::default();
                while let Some(key) = map.next_key::<String>()? {
                    match key.as_str() {
                        "mesh" => once(&mut raw.mesh, &key, || map.next_value())?,
                        "axis" => once(&mut raw.axis, &key, || map.next_value())?,
                        "shard" => once(&mut raw.shard, &key, || map.next_value())?,
                        "donate" => once(&mut raw.donate, &key, || map.next_value())?,
                        "pin" => once(&mut raw.pin, &key, || map.next_value())?,
                        _ => return Err(A::Error::custom(unknown_key(&key))),
                    }
                }
                Ok(raw)
            }
        }

        deserializer.deserialize_map(RawVisitor)
    }
}

fn once<T, E: Error>(slot: &mut Option<T>, key: &str, read: impl FnOnce() -> Result<T, E>) -> Result<(), E> {
    match slot.replace(read()?) {
        None => Ok(()),
        Some(_) => Err(E::custom(format_args!("key {key} is there twice"))),
    }
}

fn unknown_key(key: &str) -> String {
    let likeness = |known: &&&str| strsim::jaro_winkler(&key.to_lowercase(), known);
    let nearest =
        KEYS.iter().max_by(|a, b| likeness(a).total_cmp(&likeness(b))).filter(|k| likeness(k) > 0.8);
    match nearest {
        Some(nearest) => format!("unknown key {key}; did you mean {nearest}?"),
        None => format!("unknown key {key}; the keys are {}", KEYS.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn check(texts: &[&str], expect: Expect) {
        let read = |text: &&str| match RulesFile::parse(text, "rules.json") {
            Ok(file) => {
                let rules: Vec<&str> = file.rules.rules.iter().map(|r| r.text.as_str()).collect();
                let donated: Vec<&str> = file.rules.donated.iter().map(|p| p.text.as_str()).collect();
                let pins = file.rules.pins().word();
                format!("{:?} {:?} {rules:?} {donated:?} {pins}\n", file.mesh, file.axis)
            }
            Err(error) => format!("error: {error}\n"),
        };
        expect.assert_eq(&texts.iter().map(read).collect::<String>());
    }

    #[test]
    fn files_are_read_in_order() {
        check(
            &[
                "{}",
                r#"{"mesh": "fsdp=8", "axis": "x", "donate": ["params.*"], "pin": "arguments"}"#,
                r#"{"shard": {"b": "fsdp", "a": ["fsdp", null], "b": "(-, fsdp)", "c": [["data", "fsdp"], null]}}"#,
            ],
            expect![[r#"
                None None [] [] fsdp
                Some("fsdp=8") Some("x") [] ["params.*"] arguments
                None None ["b=fsdp", "a=(fsdp, -)", "b=(-, fsdp)", "c=((data,fsdp), -)"] [] fsdp
            "#]],
        );
    }

    #[test]
    fn files_that_are_wrong_say_where() {
        check(
            &[
                "",
                "[]",
                r#"{"Shards": {}}"#,
                r#"{"hello": 1}"#,
                r#"{"mesh": "a=1", "mesh": "a=2"}"#,
                r#"{"mesh": 8}"#,
                r#"{"shard": ["a=fsdp"]}"#,
                r#"{"shard": {"a": 1}}"#,
                r#"{"shard": {"a": "(fsdp"}}"#,
                r#"{"shard": {"kind:foo": "fsdp"}}"#,
                r#"{"donate": ["op:add"]}"#,
                r#"{"donate": ["a"]} x"#,
                r#"{"pin": "none"}"#,
                r#"{"shard": {"w": "x=fsdp"}}"#,
            ],
            expect![[r#"
                error: rules.json:1:1: EOF while parsing a value
                error: rules.json:1:1: invalid type: sequence, expected an object with some of the keys mesh, axis, shard, donate, pin
                error: rules.json:1:9: unknown key Shards; did you mean shard?
                error: rules.json:1:8: unknown key hello; the keys are mesh, axis, shard, donate, pin
                error: rules.json:1:30: key mesh is there twice
                error: rules.json:1:10: invalid type: integer `8`, expected a string
                error: rules.json:1:10: invalid type: sequence, expected an object
                error: rules.json:1:18: a placement is a text such as "fsdp", or a list with an entry for each dim
                error: rules.json: rule a=(fsdp: "(fsdp" is no placement; expected an axis, replicated, axes for dim 0 such as (data,fsdp), a spec with an entry for each dim such as (-, fsdp), or one of parameter, state, batch and other
                error: rules.json: rule kind:foo=fsdp: "foo" is no kind; the kinds are parameter, state, batch and other
                error: rules.json: rule op:add: arguments go by name, index and type where they are donated
                error: rules.json:1:19: trailing characters
                error: rules.json:1:15: pin: expected arguments or fsdp, found "none"
                error: rules.json: rule w=x=fsdp: "x=fsdp" is no placement; expected an axis, replicated, axes for dim 0 such as (data,fsdp), a spec with an entry for each dim such as (-, fsdp), or one of parameter, state, batch and other
            "#]],
        );
    }
}
