//! JSON as users write it: errors with their place, and objects as lists.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, DeserializeOwned, Deserializer, MapAccess, Visitor};

/// What is wrong with a text, and where: line and column are counted from 1.
pub(crate) struct JsonError {
    pub(crate) line: usize,
    pub(crate) column: usize,
    pub(crate) message: String,
}

/// Reads a text that may begin with a byte order mark, which some editors write and JSON does not allow.
pub(crate) fn from_json<T: DeserializeOwned>(text: &str) -> Result<T, JsonError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    serde_json::from_str(text).map_err(|error| {
        let message = error.to_string();
        let position = format!(" at line {} column {}", error.line(), error.column());
        JsonError {
            // The JSON reader calls the start of the text column 0.
            line: error.line().max(1),
            column: error.column().max(1),
            message: message.strip_suffix(&position).unwrap_or(&message).to_owned(),
        }
    })
}

/// A JSON object as a list. A map would drop repeated keys, which may contradict each other, and lose their order.
pub(crate) struct Entries<V>(pub(crate) Vec<(String, V)>);

impl<'de, V: Deserialize<'de>> Deserialize<'de> for Entries<V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(EntriesVisitor(PhantomData))
    }
}

struct EntriesVisitor<V>(PhantomData<V>);

impl<'de, V: Deserialize<'de>> Visitor<'de> for EntriesVisitor<V> {
    type Value = Entries<V>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entries<V>, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = map.next_entry()? {
            entries.push(entry);
        }
        Ok(Entries(entries))
    }
}
