use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;

use super::diagnose::{diagnose, part_error};
use super::{Beside, MaxToken, Tokenizer, TokenizerError};
use crate::DataError;

impl Tokenizer {
    /// Loads a `tokenizer.json`; the length limit and the pad token from a `tokenizer_config.json` beside it.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Tokenizer, DataError> {
        let path = path.as_ref();
        let json = fs::read_to_string(path)
            .map_err(|source| TokenizerError::Read { path: path.to_path_buf(), source })?;
        let mut tokenizer = Tokenizer::from_json(json, Some(path.to_path_buf()))?;
        tokenizer.beside = read_beside(&path.with_file_name("tokenizer_config.json"), &tokenizer)?;
        Ok(tokenizer)
    }

    /// The tokenizer that `json` describes, with all checks made. Errors name `path`.
    pub(crate) fn from_json(json: String, path: Option<PathBuf>) -> Result<Tokenizer, TokenizerError> {
        let named = path.clone().unwrap_or_else(|| "the trained tokenizer".into());
        let file: Value = serde_json::from_str(&json)
            .map_err(|reason| TokenizerError::Json { path: named.clone(), reason })?;
        let mut inner = tokenizers::Tokenizer::from_bytes(&json)
            .map_err(|error| diagnose(&named, &file, error.as_ref()))?;
        check_dropout(&named, &file)?;
        check_added_tokens(&named, &file, &inner)?;
        inner.with_truncation(None).expect("only parameters can be refused");
        inner.with_padding(None);
        let max_token = max_token(&named, &file, &inner)?;
        let (inner, json, beside) = (Arc::new(inner), json.into(), Beside::default());
        let tokenizer = Tokenizer { inner, json, path, max_token, beside };
        match &tokenizer.max_token {
            MaxToken { id, token } if i32::try_from(*id).is_err() => {
                let (id, token) = (*id, token.clone());
                Err(TokenizerError::IdTooLarge { tokenizer: tokenizer.name(), token, id })
            }
            _ => Ok(tokenizer),
        }
    }
}

/// Refuses a model that leaves out merges at random: a resumed run would see other tokens.
fn check_dropout(path: &Path, file: &Value) -> Result<(), TokenizerError> {
    match &file["model"]["dropout"] {
        dropout if dropout.as_f64().is_some_and(|share| share > 0.0) => {
            let problem = "the same text would give other ids each time, set it to null";
            Err(part_error(path, "model.dropout", dropout, problem))
        }
        _ => Ok(()),
    }
}

/// Refuses added tokens whose ids the library changes: it counts on from the vocabulary, whatever the file says.
fn check_added_tokens(
    path: &Path,
    file: &Value,
    inner: &tokenizers::Tokenizer,
) -> Result<(), TokenizerError> {
    let added = file["added_tokens"].as_array().map_or(&[][..], Vec::as_slice);
    for (index, token) in added.iter().enumerate() {
        let (Some(content), Some(stated)) = (token["content"].as_str(), token["id"].as_u64()) else {
            continue;
        };
        let given = inner.token_to_id(content).map(u64::from);
        if let Some(given) = given.filter(|&given| given != stated) {
            let part = format!("added_tokens[{index}].id");
            let problem = format!(
                "token {content:?} would get the id {given}: tokens of the vocabulary keep their ids, and others go \
                 on from there without gaps; expected the file to say so too"
            );
            return Err(part_error(path, &part, &token["id"], &problem));
        }
    }
    Ok(())
}

fn max_token(path: &Path, file: &Value, inner: &tokenizers::Tokenizer) -> Result<MaxToken, TokenizerError> {
    let vocab = inner.get_vocab(true).into_iter().map(|(token, id)| MaxToken { id, token });
    let largest = vocab.chain(added_by_processor(&file["post_processor"])).max();
    largest.ok_or_else(|| {
        part_error(path, "model.vocab", &file["model"]["vocab"], "expected at least one token")
    })
}

/// The tokens that a post-processor can add, whether or not the vocabulary has them.
fn added_by_processor(processor: &Value) -> Vec<MaxToken> {
    let token = |id: &Value, token: &str| {
        let id = u32::try_from(id.as_u64()?).ok()?;
        Some(MaxToken { id, token: token.to_owned() })
    };
    match processor["type"].as_str() {
        Some("Sequence") => {
            processor["processors"].as_array().into_iter().flatten().flat_map(added_by_processor).collect()
        }
        Some("TemplateProcessing") => {
            let special = processor["special_tokens"].as_object();
            let ids = |(name, special): (&String, &Value)| -> Vec<MaxToken> {
                let ids = special["ids"].as_array().into_iter().flatten();
                ids.filter_map(|id| token(id, name)).collect()
            };
            special.into_iter().flatten().flat_map(ids).collect()
        }
        Some("BertProcessing" | "RobertaProcessing") => ["sep", "cls"]
            .iter()
            .filter_map(|end| token(&processor[end][1], processor[end][0].as_str()?))
            .collect(),
        _ => Vec::new(),
    }
}

/// What a `tokenizer_config.json` says. No file, no entry and a limit past all use mean no limit: "no limit" is written
/// as 10^30.
fn read_beside(path: &Path, tokenizer: &Tokenizer) -> Result<Beside, TokenizerError> {
    let config = match fs::read(path) {
        Ok(config) => config,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Beside::default()),
        Err(source) => return Err(TokenizerError::Read { path: path.to_path_buf(), source }),
    };
    let config: Value = serde_json::from_slice(&config)
        .map_err(|reason| TokenizerError::Json { path: path.to_path_buf(), reason })?;
    let model_max_length = match &config["model_max_length"] {
        Value::Null => None,
        limit => match limit.as_f64() {
            Some(number) if number >= 1.0 => limit.as_u64().and_then(|limit| usize::try_from(limit).ok()),
            _ => {
                return Err(part_error(
                    path,
                    "model_max_length",
                    limit,
                    "expected a positive number of tokens",
                ));
            }
        },
    };
    let pad_id = ["pad_token", "eos_token"].into_iter().find_map(|part| {
        // A token is written as its text, or as an object that says more of it.
        let token = config[part].as_str().or_else(|| config[part]["content"].as_str())?;
        tokenizer.token_id(token)
    });
    Ok(Beside { model_max_length, pad_id })
}
