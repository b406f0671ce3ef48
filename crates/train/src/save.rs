//! What a run leaves behind: a model folder in Hugging Face format, and the figures of the run. Every file is written
//! beside its place and renamed.

use std::fs;
use std::path::Path;

use shardwright_checkpoint::{HfWriter, write_bytes_atomic, write_json_atomic};
use shardwright_data::Tokenizer;
use shardwright_model::{ModelConfig, ParameterInfo};
use shardwright_partition::FsdpConfig;

use crate::results::TrainerState;
use crate::{TrainError, TrainResults, TrainState};

/// Makes the folder, and sees to it that it is empty or may be written over.
pub(crate) fn prepare_folder(path: &Path, overwrite: bool) -> Result<(), TrainError> {
    let wrong = |action| move |source| TrainError::Io { action, path: path.to_owned(), source };
    match fs::read_dir(path).map(|mut entries| entries.next().is_none()) {
        Ok(empty) if empty || overwrite => {}
        Ok(_) => return Err(TrainError::OutputNotEmpty { path: path.to_owned() }),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
        Err(e) => return Err(wrong("read the output folder")(e)),
    }
    fs::create_dir_all(path).map_err(wrong("make the output folder"))
}

/// Writes the model: `config.json`, `tokenizer.json`, and `model.safetensors`, tensor by tensor.
pub(crate) fn save_model(
    folder: &Path,
    model: &ModelConfig,
    tokenizer: &Tokenizer,
    parameters: &[ParameterInfo],
    state: &TrainState,
) -> Result<(), TrainError> {
    write_bytes_atomic(folder.join("config.json"), model.to_json().as_bytes())?;
    save_tokenizer(folder, model, tokenizer)?;
    let tensors = || parameters.iter().zip(&state.parameters);
    let header = tensors().map(|(p, array)| (p.name.clone(), array.ty().clone()));
    let mut writer = HfWriter::create(folder.join("model.safetensors"), header)?;
    for (parameter, array) in tensors() {
        writer.write(&parameter.name, &array.to_host()?)?;
    }
    Ok(writer.finish()?)
}

/// Writes `tokenizer.json`, and beside it what `transformers` wants to know of a tokenizer: the settings that came with
/// the one that was given, or, with one that was trained here, that there are none.
fn save_tokenizer(folder: &Path, model: &ModelConfig, tokenizer: &Tokenizer) -> Result<(), TrainError> {
    const SETTINGS: &str = "tokenizer_config.json";
    tokenizer.save(folder.join("tokenizer.json"))?;
    let Some(given) = tokenizer.path() else {
        let settings = serde_json::json!({
            "tokenizer_class": "PreTrainedTokenizerFast",
            "model_max_length": model.max_position_embeddings(),
        });
        return Ok(write_json_atomic(folder.join(SETTINGS), &settings)?);
    };
    let given = given.with_file_name(SETTINGS);
    match fs::read(&given) {
        Ok(settings) => Ok(write_bytes_atomic(folder.join(SETTINGS), &settings)?),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(source) => Err(TrainError::Io { action: "read", path: given, source }),
    }
}

/// Writes `train_results.json`, `all_results.json`, `trainer_state.json` and the FSDP configuration that was in effect.
pub(crate) fn save_results(
    folder: &Path,
    results: &TrainResults,
    state: &TrainerState,
    fsdp: &FsdpConfig,
) -> Result<(), TrainError> {
    write_json_atomic(folder.join("train_results.json"), results)?;
    write_json_atomic(folder.join("all_results.json"), results)?;
    write_json_atomic(folder.join("trainer_state.json"), state)?;
    Ok(write_json_atomic(folder.join("fsdp_config.json"), &fsdp.to_json())?)
}
