//! What a run leaves behind: a model folder in Hugging Face format, and the figures of the run. Every file is written
//! beside its place and renamed.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use shardwright_checkpoint::{HfWriter, write_bytes_atomic, write_json_atomic};
use shardwright_data::Tokenizer;
use shardwright_model::{ModelConfig, ParameterInfo};
use shardwright_partition::FsdpConfig;
use shardwright_tensor::DType;

use crate::lora::remove_adapter;
use crate::results::TrainerState;
use crate::{TrainError, TrainResults, TrainState};

/// What the special tokens of a tokenizer that is trained here are called.
pub(crate) const UNKNOWN_TOKEN: &str = "<unk>";
pub(crate) const BEGIN_TOKEN: &str = "<s>";
pub(crate) const END_TOKEN: &str = "</s>";

/// Sees to it that the folder is empty, not there, or may be written over.
pub(crate) fn check_empty(path: &Path, overwrite: bool) -> Result<(), TrainError> {
    match fs::read_dir(path).map(|mut entries| entries.next().is_none()) {
        Ok(empty) if empty || overwrite => Ok(()),
        Ok(_) => Err(TrainError::OutputNotEmpty { path: path.to_owned() }),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(()),
        Err(source) => {
            Err(TrainError::Io { action: "read the output folder", path: path.to_owned(), source })
        }
    }
}

/// Writes the model: `config.json`, the tokenizer, and `model.safetensors`, tensor by tensor. What an earlier run left
/// that would be read in place of these goes.
pub(crate) fn save_model(
    folder: &Path,
    model: &ModelConfig,
    tokenizer: &Tokenizer,
    parameters: &[ParameterInfo],
    state: &TrainState,
) -> Result<(), TrainError> {
    let saved = model.clone().with_dtype(DType::F32)?;
    write_bytes_atomic(folder.join("config.json"), saved.to_json().as_bytes())?;
    save_tokenizer(folder, model, tokenizer)?;
    let tensors = || parameters.iter().zip(&state.parameters);
    let header = tensors().map(|(p, array)| (p.name.clone(), array.ty().clone()));
    let mut writer = HfWriter::create(folder.join("model.safetensors"), header)?;
    for (parameter, array) in tensors() {
        writer.write(&parameter.name, &array.to_host()?)?;
    }
    writer.finish()?;
    remove(&folder.join("model.safetensors.index.json"))?;
    remove_adapter(folder)
}

/// Writes `tokenizer.json`, and beside it what `transformers` wants to know of a tokenizer: the settings that came with
/// the one that was given, or, with one that was trained here, that there are none.
pub(crate) fn save_tokenizer(
    folder: &Path,
    model: &ModelConfig,
    tokenizer: &Tokenizer,
) -> Result<(), TrainError> {
    const SETTINGS: &str = "tokenizer_config.json";
    write_bytes_atomic(folder.join("tokenizer.json"), tokenizer.json().as_bytes())?;
    let Some(given) = tokenizer.path() else {
        let settings = serde_json::json!({
            "tokenizer_class": "PreTrainedTokenizerFast",
            "model_max_length": model.max_position_embeddings(),
            "unk_token": UNKNOWN_TOKEN,
            "bos_token": BEGIN_TOKEN,
            "eos_token": END_TOKEN,
        });
        return Ok(write_json_atomic(folder.join(SETTINGS), &settings)?);
    };
    let given = given.with_file_name(SETTINGS);
    match fs::read(&given) {
        Ok(settings) => Ok(write_bytes_atomic(folder.join(SETTINGS), &settings)?),
        Err(e) if e.kind() == ErrorKind::NotFound => remove(&folder.join(SETTINGS)),
        Err(source) => Err(TrainError::Io { action: "read", path: given, source }),
    }
}

/// Writes `train_results.json`, `all_results.json` and `trainer_state.json`.
pub(crate) fn save_results(
    folder: &Path,
    results: &TrainResults,
    state: &TrainerState,
) -> Result<(), TrainError> {
    write_json_atomic(folder.join("train_results.json"), results)?;
    write_json_atomic(folder.join("all_results.json"), results)?;
    Ok(write_json_atomic(folder.join("trainer_state.json"), state)?)
}

/// Writes the FSDP configuration that was in effect.
pub(crate) fn save_fsdp_config(folder: &Path, fsdp: &FsdpConfig) -> Result<(), TrainError> {
    Ok(write_json_atomic(folder.join("fsdp_config.json"), &fsdp.to_json())?)
}

/// Removes a file that may not be there.
pub(crate) fn remove(path: &Path) -> Result<(), TrainError> {
    match fs::remove_file(path) {
        Err(e) if e.kind() != ErrorKind::NotFound => {
            Err(TrainError::Io { action: "remove", path: path.to_owned(), source: e })
        }
        _ => Ok(()),
    }
}
