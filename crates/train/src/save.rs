//! What a run leaves behind: a model folder in Hugging Face format, and the figures of the run. Every file is written
//! beside its place and renamed.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use serde_json::{Map, Value};
use shardwright_checkpoint::{HfWriter, write_bytes_atomic, write_json_atomic};
use shardwright_data::Tokenizer;
use shardwright_model::{ModelConfig, ParameterInfo};
use shardwright_partition::{FsdpConfig, Strategy};
use shardwright_runtime::ShardedArray;
use shardwright_tensor::{DType, TensorType};

use crate::card::model_card;
use crate::lora::{remove_adapter, save_adapter};
use crate::results::TrainerState;
use crate::{EvaluationResults, Job, Model, ModelSource, TrainError, TrainResults};

/// What the special tokens of a tokenizer that is trained here are called.
pub(crate) const UNKNOWN_TOKEN: &str = "<unk>";
pub(crate) const BEGIN_TOKEN: &str = "<s>";
pub(crate) const END_TOKEN: &str = "</s>";

/// What `transformers` reads of a tokenizer beside `tokenizer.json`.
const TOKENIZER_SETTINGS: &str = "tokenizer_config.json";
const BESIDE_TOKENIZER: [&str; 4] =
    [TOKENIZER_SETTINGS, "special_tokens_map.json", "added_tokens.json", "chat_template.jinja"];

const EVAL_RESULTS: &str = "eval_results.json";
const ALL_RESULTS: &str = "all_results.json";

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

/// The output folder of a run.
pub(crate) struct Output<'a> {
    job: &'a Job,
    folder: &'a Path,
}

impl<'a> Output<'a> {
    pub(crate) fn of(job: &'a Job) -> Output<'a> {
        Output { job, folder: &job.config.output_dir }
    }

    /// Writes the model: `config.json`, the tokenizer, and `model.safetensors`, tensor by tensor; or its adapters and the
    /// tokenizer. What an earlier run left that would be read in place of these goes.
    pub(crate) fn save_model(&self, parameters: &[ShardedArray]) -> Result<(), TrainError> {
        let _span = tracing::debug_span!("save").entered();
        let model = &self.job.model;
        save_tokenizer(self.folder, &model.config, &self.job.texts.tokenizer)?;
        if let (Some(lora), ModelSource::Pretrained(base)) = (&model.lora, &self.job.config.model) {
            return save_adapter(self.folder, lora, base, model.parameters().iter().zip(parameters));
        }
        remove_adapter(self.folder)?;
        let dtype = self.job.config.precision.weights;
        let saved = model.config.clone().with_dtype(dtype)?;
        write_bytes_atomic(self.folder.join("config.json"), saved.to_json().as_bytes())?;
        self.save_generation_config()?;
        save_weights(self.folder, &model.parameters(), parameters, dtype)
    }

    /// Writes the figures of training, and what it was told to do.
    pub(crate) fn save_training(
        &self,
        results: &TrainResults,
        state: &TrainerState,
    ) -> Result<(), TrainError> {
        let config = &self.job.config;
        write_json_atomic(self.folder.join("train_results.json"), results)?;
        write_json_atomic(self.folder.join(ALL_RESULTS), results)?;
        remove(&self.folder.join(EVAL_RESULTS))?;
        self.save_trainer_state(state)?;
        write_json_atomic(self.folder.join("training_args.json"), &config.arguments)?;
        self.save_card(results, None)?;
        if config.sharding.strategy != Strategy::NoShard {
            let fsdp = FsdpConfig { grad_ckpt: self.job.remat, ..config.sharding.fsdp.clone() };
            write_json_atomic(self.folder.join("fsdp_config.json"), &fsdp.to_json())?;
        }
        Ok(())
    }

    /// Writes where the run stands, and its log.
    pub(crate) fn save_trainer_state(&self, state: &TrainerState) -> Result<(), TrainError> {
        Ok(write_json_atomic(self.folder.join("trainer_state.json"), state)?)
    }

    /// Writes the figures of the last evaluation, and adds them to those of training: of this run or, if it did not
    /// train, of the one that the folder is of.
    pub(crate) fn save_evaluation(
        &self,
        training: Option<&TrainResults>,
        results: &EvaluationResults,
    ) -> Result<(), TrainError> {
        write_json_atomic(self.folder.join(EVAL_RESULTS), results)?;
        let path = self.folder.join(ALL_RESULTS);
        let mut all = match training {
            Some(training) => fields(training),
            None => {
                fs::read(&path).ok().and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default()
            }
        };
        all.extend(fields(results));
        write_json_atomic(path, &all)?;
        training.map_or(Ok(()), |training| self.save_card(training, Some(results)))
    }

    fn save_card(
        &self,
        training: &TrainResults,
        evaluation: Option<&EvaluationResults>,
    ) -> Result<(), TrainError> {
        let card = model_card(self.job, training, evaluation);
        Ok(write_bytes_atomic(self.folder.join("README.md"), card.as_bytes())?)
    }

    /// Writes the settings of generation that came with the model, if there were any.
    fn save_generation_config(&self) -> Result<(), TrainError> {
        const NAME: &str = "generation_config.json";
        match &self.job.config.model {
            ModelSource::Pretrained(folder) => copy(&folder.join(NAME), &self.folder.join(NAME)),
            ModelSource::Config(_) => remove(&self.folder.join(NAME)),
        }
    }
}

/// Writes parameters to `model.safetensors`, tensor by tensor, in one dtype. An index that was there, which would be read
/// in place of it, goes, and its shards with it.
pub(crate) fn save_weights(
    folder: &Path,
    infos: &[ParameterInfo],
    parameters: &[ShardedArray],
    dtype: DType,
) -> Result<(), TrainError> {
    let tensors = || infos.iter().zip(parameters);
    let header = tensors().map(|(p, array)| (p.name.clone(), TensorType { dtype, ..array.ty().clone() }));
    let mut writer = HfWriter::create(folder.join("model.safetensors"), header)?;
    for (parameter, array) in tensors() {
        writer.write(&parameter.name, &array.to_host()?.cast(dtype))?;
    }
    writer.finish()?;
    remove(&folder.join("model.safetensors.index.json"))?;
    remove_shards(folder)
}

/// Removes the files that a model in several parts lies in.
fn remove_shards(folder: &Path) -> Result<(), TrainError> {
    let error = |source| TrainError::Io { action: "read the output folder", path: folder.to_owned(), source };
    for entry in fs::read_dir(folder).map_err(error)? {
        let entry = entry.map_err(error)?;
        if entry.file_name().to_str().is_some_and(is_shard) {
            remove(&entry.path())?;
        }
    }
    Ok(())
}

/// Whether a file is called as a shard is: `model-00001-of-00002.safetensors`.
fn is_shard(name: &str) -> bool {
    let numbers = name.strip_prefix("model-").and_then(|rest| rest.strip_suffix(".safetensors"));
    let is_number = |text: &str| text.len() == 5 && text.bytes().all(|byte| byte.is_ascii_digit());
    numbers
        .and_then(|numbers| numbers.split_once("-of-"))
        .is_some_and(|(part, parts)| is_number(part) && is_number(parts))
}

/// Writes `tokenizer.json`, and beside it what `transformers` wants to know of a tokenizer: the settings that came with
/// the one that was given, or, with one that was trained here, its special tokens.
fn save_tokenizer(folder: &Path, model: &ModelConfig, tokenizer: &Tokenizer) -> Result<(), TrainError> {
    write_bytes_atomic(folder.join("tokenizer.json"), tokenizer.json().as_bytes())?;
    if let Some(given) = tokenizer.path() {
        let mut names = BESIDE_TOKENIZER.iter();
        return names.try_for_each(|name| copy(&given.with_file_name(name), &folder.join(name)));
    }
    let settings = serde_json::json!({
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": model.max_position_embeddings(),
        "unk_token": UNKNOWN_TOKEN,
        "bos_token": BEGIN_TOKEN,
        "eos_token": END_TOKEN,
    });
    BESIDE_TOKENIZER.iter().try_for_each(|name| remove(&folder.join(name)))?;
    Ok(write_json_atomic(folder.join(TOKENIZER_SETTINGS), &settings)?)
}

/// The figures as a JSON object.
fn fields(figures: &impl serde::Serialize) -> Map<String, Value> {
    match serde_json::to_value(figures) {
        Ok(Value::Object(fields)) => fields,
        _ => Map::new(),
    }
}

/// Copies a small file, or removes the target if there is none.
fn copy(source: &Path, target: &Path) -> Result<(), TrainError> {
    match fs::read(source) {
        Ok(bytes) => Ok(write_bytes_atomic(target, &bytes)?),
        Err(e) if e.kind() == ErrorKind::NotFound => remove(target),
        Err(e) => Err(TrainError::Io { action: "read", path: source.to_owned(), source: e }),
    }
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
