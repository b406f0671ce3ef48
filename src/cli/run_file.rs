//! A run file: one JSON object whose keys are settings.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::path::Path;
use std::rc::Rc;

use anyhow::Context;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::failure::{Cause, Failure};
use super::foreign;
use super::names::explain_unknown;
use super::settings::{self, Given, Layer, Origin, Written};

/// The members of an object as they were written, repeated keys included.
struct Members<'a>(Vec<(String, &'a RawValue)>);

/// Reads the settings that a run file gives. `null` is the same as leaving a key out.
pub(super) fn read(path: &Path) -> Result<Layer, Failure> {
    let bytes = fs::read(path).with_context(|| format!("cannot read {}", path.display()));
    let bytes = bytes.map_err(|error| Failure::new(Cause::Input, error).with_hint(
        "the argument without a flag is a JSON file of settings; settings are also flags, see `shardwright train --help`",
    ))?;
    let text = String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        Failure::input(format!("{}: not UTF-8 text: the byte at offset {at} does not belong", path.display()))
    })?;
    // Some editors put a byte order mark before the text, which JSON does not allow.
    parse(text.strip_prefix('\u{feff}').unwrap_or(&text), path)
}

fn parse(text: &str, path: &Path) -> Result<Layer, Failure> {
    let Members(members) = serde_json::from_str(text).map_err(|error| syntax(path, &error, (0, 0)))?;
    let path: Rc<Path> = path.into();
    let mut layer = Layer::new();
    for (key, raw) in members {
        let (line, column) = position(text, raw);
        let at = || format!("{}:{line}:{column}", path.display());
        let Some(name) = settings::find(&key).map(|spec| spec.name).or_else(|| foreign::find(&key)) else {
            let why = explain_unknown(&key.replace('-', "_"), "", &settings::names(), "train");
            return Err(Failure::input(format!("{}: key {key} {why}", at())));
        };
        let json = serde_json::from_str(raw.get()).map_err(|error| syntax(&path, &error, (line, column)))?;
        if let Ok(Members(inner)) = serde_json::from_str(raw.get()) {
            no_repeats(&inner).map_err(|why| Failure::input(format!("{}: key {key}: {why}", at())))?;
        }
        let origin = Origin::File { path: path.clone(), line, column };
        if let Some(Given { origin: Origin::File { line, .. }, .. }) =
            layer.insert(name, Given { written: Written::Json(json), origin })
        {
            return Err(Failure::input(format!("{}: key {key} is there twice, first in line {line}", at())));
        }
    }
    layer.retain(|_, given| !matches!(&given.written, Written::Json(json) if json.is_null()));
    Ok(layer)
}

/// Checks that each key of an object inside the file is there once.
fn no_repeats(members: &[(String, &RawValue)]) -> Result<(), String> {
    let mut keys = BTreeSet::new();
    match members.iter().find(|(key, _)| !keys.insert(key)) {
        Some((key, _)) => Err(format!("key {key} is there twice")),
        None => Ok(()),
    }
}

/// The line and column, from 1, at which a value begins that is borrowed from `text`.
fn position(text: &str, raw: &RawValue) -> (usize, usize) {
    let offset = raw.get().as_ptr() as usize - text.as_ptr() as usize;
    let before = &text[..offset];
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
}

/// A complaint of the JSON reader about a text that begins at a position of a file.
fn syntax(path: &Path, error: &serde_json::Error, (line, column): (usize, usize)) -> Failure {
    let message = error.to_string();
    let position = format!(" at line {} column {}", error.line(), error.column());
    let message = message.strip_suffix(&position).unwrap_or(&message);
    // Values that stand for themselves are on one line; the file itself begins at 0. The JSON reader calls the start of
    // a line column 0.
    let (line, column) = if line == 0 { (error.line(), error.column().max(1)) } else { (line, column) };
    Failure::input(format!("{}:{line}:{column}: {message}", path.display()))
}

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;

        impl<'de> Visitor<'de> for InOrder {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of settings")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }

        deserializer.deserialize_map(InOrder)
    }
}
