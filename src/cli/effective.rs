//! The settings as they take effect, each with where it was written.

use std::ffi::OsString;
use std::fmt::Write as _;

use serde_json::{Map, Value as Json};

use super::settings::{Given, Layer, Origin, Spec, Written, specs};
use super::value::{Arity, Value};

/// What a setting of nobody comes from.
const DEFAULT: &str = "default";

/// All settings that have a value, in the order of the help.
pub(super) struct Effective(Vec<Entry>);

struct Entry {
    name: &'static str,
    value: Json,
    /// `flag`, the name of the run file, that of a variable, or [`DEFAULT`].
    from: String,
}

impl Effective {
    /// The settings of layers in order of precedence.
    pub(super) fn of(layers: &[&Layer]) -> Effective {
        let entry = |spec: &'static Spec| match layers.iter().find_map(|layer| layer.get(spec.name)) {
            Some(given) => Some(Entry::given(spec, given)),
            None => spec.default.map(|text| Entry {
                name: spec.name,
                value: read(spec, text),
                from: DEFAULT.to_owned(),
            }),
        };
        Effective(specs().filter_map(entry).collect())
    }

    /// `settings` has each value by its name, `from` where it was written.
    pub(super) fn to_json(&self) -> Json {
        let values: Map<String, Json> =
            self.0.iter().map(|entry| (entry.name.to_owned(), entry.value.clone())).collect();
        let from: Map<String, Json> =
            self.0.iter().map(|entry| (entry.name.to_owned(), entry.from.as_str().into())).collect();
        Json::Object(Map::from_iter([
            ("settings".to_owned(), values.into()),
            ("from".to_owned(), from.into()),
        ]))
    }

    /// One line for each place where settings were written; the defaults only if `all` is asked for.
    pub(super) fn lines(&self, all: bool) -> Vec<String> {
        let mut places: Vec<&str> = Vec::new();
        for entry in &self.0 {
            if !places.contains(&entry.from.as_str()) && (all || entry.from != DEFAULT) {
                places.push(&entry.from);
            }
        }
        places.sort_by_key(|place| *place == DEFAULT);
        places.into_iter().map(|place| self.line(place)).collect()
    }

    fn line(&self, place: &str) -> String {
        let mut line = format!("settings ({place}):");
        for entry in self.0.iter().filter(|entry| entry.from == place) {
            let value = entry.value.as_str().map_or_else(|| entry.value.to_string(), str::to_owned);
            let _ = write!(line, " {}={value}", entry.name);
        }
        line
    }
}

impl Entry {
    fn given(spec: &'static Spec, given: &Given) -> Entry {
        let value = match &given.written {
            Written::Json(Json::String(text)) => read(spec, text),
            Written::Json(json) => json.clone(),
            Written::Words(words) => {
                let text = |word: &OsString| read(spec, &word.to_string_lossy());
                match (spec.arity, words.as_slice()) {
                    (Arity::Many, [_, _, ..]) => words.iter().map(text).collect(),
                    (_, words) => words.last().map(text).unwrap_or_default(),
                }
            }
        };
        let from = match &given.origin {
            Origin::Flag => "flag".to_owned(),
            Origin::File { path, .. } => path.display().to_string(),
            Origin::Variable(variable) => (*variable).to_owned(),
            Origin::Default => DEFAULT.to_owned(),
        };
        Entry { name: spec.name, value, from }
    }
}

/// A word as the value that it stands for.
fn read(spec: &Spec, word: &str) -> Json {
    match spec.arity {
        Arity::Optional => bool::parse(word).map_or_else(|| word.into(), Json::Bool),
        Arity::One if spec.is_number() => serde_json::from_str(word).unwrap_or_else(|_| word.into()),
        Arity::One | Arity::Many => word.into(),
    }
}
