//! Why a `tokenizer.json` does not load, by part. The library's own message is often that of an untagged enum.

use std::path::Path;

use serde_json::{Map, Value, json};

use super::TokenizerError;

/// The first part of `file` that is wrong; `error` is what the library said about the whole.
pub(super) fn diagnose(path: &Path, file: &Value, error: &dyn std::error::Error) -> TokenizerError {
    let Some(model) = file.get("model").and_then(Value::as_object) else {
        return part_error(path, "model", &file["model"], "expected a tokenizer.json with an object here");
    };
    let bad = bad_vocab(model).or_else(|| bad_merge(model)).or_else(|| bad_component(file));
    let Bad { part, value, problem } =
        bad.unwrap_or_else(|| Bad::new("model", &file["model"]["type"], error.to_string()));
    part_error(path, &part, &value, &problem)
}

/// An error about `part`, whose value is shortened to a readable length.
pub(super) fn part_error(path: &Path, part: &str, value: &Value, problem: &str) -> TokenizerError {
    const SHOWN: usize = 80;
    let mut text = value.to_string();
    if let Some((cut, _)) = text.char_indices().nth(SHOWN) {
        text.truncate(cut);
        text.push('…');
    }
    TokenizerError::Part {
        path: path.to_path_buf(),
        part: part.to_owned(),
        value: text,
        problem: problem.to_owned(),
    }
}

struct Bad {
    part: String,
    value: Value,
    problem: String,
}

impl Bad {
    fn new(part: impl Into<String>, value: &Value, problem: impl Into<String>) -> Bad {
        Bad { part: part.into(), value: value.clone(), problem: problem.into() }
    }
}

/// A token without a proper id. Vocabularies that are lists (Unigram) are left to the library.
fn bad_vocab(model: &Map<String, Value>) -> Option<Bad> {
    let (token, id) = model.get("vocab")?.as_object()?.iter().find(|(_, id)| {
        let id = id.as_u64().and_then(|id| i32::try_from(id).ok());
        id.is_none()
    })?;
    let problem = format!("expected an id from 0 to {}", i32::MAX);
    Some(Bad::new(format!("model.vocab[{token:?}]"), id, problem))
}

/// A merge that does not join two tokens of the vocabulary to a third.
fn bad_merge(model: &Map<String, Value>) -> Option<Bad> {
    let merges = model.get("merges")?;
    let Some(list) = merges.as_array() else {
        return Some(Bad::new("model.merges", merges, "expected a list"));
    };
    let vocab = model.get("vocab")?.as_object()?;
    let prefix = model.get("continuing_subword_prefix").and_then(Value::as_str).unwrap_or("");
    let spelling = list.first()?.is_string();
    list.iter().enumerate().find_map(|(index, merge)| {
        let is_version = index == 0 && merge.as_str().is_some_and(|text| text.starts_with("#version"));
        let problem = if is_version { None } else { merge_problem(merge, spelling, prefix, vocab) };
        problem.map(|problem| Bad::new(format!("model.merges[{index}]"), merge, problem))
    })
}

fn merge_problem(
    merge: &Value,
    first_is_string: bool,
    prefix: &str,
    vocab: &Map<String, Value>,
) -> Option<String> {
    const SPELLINGS: &str = r#"expected two tokens, as "a b" or ["a", "b"]"#;
    if merge.is_string() != first_is_string {
        return Some("expected all merges to be strings, or all to be pairs".to_owned());
    }
    let parts: Vec<&str> = match merge {
        Value::String(text) => text.split(' ').collect(),
        Value::Array(parts) => parts.iter().map(Value::as_str).collect::<Option<_>>().unwrap_or_default(),
        _ => Vec::new(),
    };
    let [left, right] = parts[..] else {
        let hint = if parts.len() > 2 { "; tokens that contain spaces need the second spelling" } else { "" };
        return Some(format!("{SPELLINGS}, found {} parts{hint}", parts.len()));
    };
    let merged = format!("{left}{}", right.strip_prefix(prefix).unwrap_or(right));
    let missing = [left, right, &merged].into_iter().find(|token| !vocab.contains_key(*token))?;
    Some(format!("token {missing:?} is not in model.vocab, expected both parts and their union to be"))
}

/// A component that does not load on its own, beside an empty model.
fn bad_component(file: &Value) -> Option<Bad> {
    [
        "normalizer",
        "pre_tokenizer",
        "post_processor",
        "decoder",
        "added_tokens",
        "truncation",
        "padding",
        "version",
    ]
    .into_iter()
    .find_map(|part| {
        let value = file.get(part)?;
        let mut alone = json!({ "model": { "type": "BPE", "vocab": {}, "merges": [] } });
        alone[part] = value.clone();
        let error = tokenizers::Tokenizer::from_bytes(alone.to_string()).err()?;
        Some(Bad::new(part, value, error.to_string()))
    })
}
