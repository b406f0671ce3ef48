//! From settings to the meaning of a run, checked as far as that needs no device.

mod adapters;
mod data;
mod evaluation;
mod model;
mod optimization;
mod options;
mod schedule;
mod sharding;

#[cfg(test)]
mod tests;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde_json::Value as Json;
use shardwright_train::{ModelSource, TrainConfig};

use super::choice::SaveStrategy;
use super::effective::Effective;
use super::environment::Variables;
use super::failure::{Cause, Failure};
use super::settings::{Setting, Settings};
use super::value::Source;

/// Things that a user may want to know about settings that are fine.
pub(super) type Notices = Vec<String>;

/// What the settings of a run mean.
pub(super) fn train_config(
    settings: &Settings,
    variables: &Variables,
    effective: &Effective,
) -> Result<(TrainConfig, Notices), Failure> {
    let mut notices = Notices::new();
    // It has one value so far; with a second one, this no longer compiles and somebody has to decide.
    let SaveStrategy::No = settings.output.save_strategy.value;
    let source = model::source(&settings.model)?;
    let files = data::train_files(&settings.data)?;
    let output_dir = output_dir(settings)?;
    let (training, data) = (&settings.training, &settings.data);
    let (do_train, evaluation) = evaluation::evaluation(settings, &mut notices)?;
    let sharding = sharding::sharding(settings, variables, &mut notices)?;
    let optimization = &settings.optimization;
    let config = TrainConfig {
        lora: adapters::lora(&settings.adapters, &source)?,
        tokenizer: model::tokenizer(&settings.model, &source)?,
        block_size: data.block_size.as_ref().map(|s| s.value.0),
        max_train_samples: data.max_train_samples.as_ref().map(|s| s.value.0),
        validation_files: data::validation_files(data)?,
        validation_split_percentage: data.validation_split_percentage.value.0,
        text_column: data.text_column.as_ref().map(|s| s.value.clone()),
        max_eval_samples: data.max_eval_samples.as_ref().map(|s| s.value.0),
        packing: data.packing.value,
        cache_dir: data::cache_dir(data),
        overwrite_cache: data.overwrite_cache.value,
        overwrite_output_dir: settings.output.overwrite_output_dir.value,
        per_device_train_batch_size: training.per_device_train_batch_size.value.0,
        global_batch_size: global_batch_size(settings)?,
        per_device_eval_batch_size: settings.evaluation.per_device_eval_batch_size.value.0,
        gradient_accumulation_steps: training.gradient_accumulation_steps.value.0,
        num_train_epochs: training.num_train_epochs.value.0,
        max_steps: training.max_steps.value.0,
        dataloader_drop_last: data.dataloader_drop_last.value,
        seed: training.seed.value,
        data_seed: training.data_seed.as_ref().map(|s| s.value),
        optimizer: optimization::optimizer(optimization)?,
        groups: optimization::groups(optimization)?,
        schedule: schedule::schedule(optimization, &mut notices)?,
        clipping: optimization::clipping(optimization)?,
        loss_denominator: training.loss_denominator.value,
        precision: model::precision(&settings.model, &source, &sharding.fsdp, &mut notices)?,
        dot_precision: settings.model.dot_precision.value.0,
        sharding,
        do_train,
        evaluation,
        logging: evaluation::logging(&settings.evaluation, &mut notices),
        nan_stop: training.nan_stop.value,
        run_name: evaluation::run_name(&settings.evaluation)?,
        arguments: effective.to_json(),
        ..TrainConfig::new(source, files, output_dir)
    };
    Ok((config, notices))
}

fn output_dir(settings: &Settings) -> Result<PathBuf, Failure> {
    match &settings.output.output_dir {
        Some(folder) => Ok(folder.resolve(&folder.value)),
        None => Err(Failure::input("there is no place for the results: give a folder with --output_dir")),
    }
}

fn global_batch_size(settings: &Settings) -> Result<Option<usize>, Failure> {
    let training = &settings.training;
    match &training.global_batch_size {
        Some(global) if training.per_device_train_batch_size.is_given() => {
            Err(global.wrong("per_device_train_batch_size is given too; keep one of them"))
        }
        global => Ok(global.as_ref().map(|setting| setting.value.0)),
    }
}

/// A path of a setting as seen from the working directory, where something is.
fn existing<T>(setting: &Setting<T>, path: &Path) -> Result<PathBuf, Failure> {
    let resolved = setting.resolve(path);
    match fs::metadata(&resolved) {
        Ok(_) => Ok(resolved),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let failure = setting.wrong(format!("{} does not exist", resolved.display()));
            if is_hub_name(path) {
                return Err(failure.with_hint(
                    "names of the Hugging Face Hub are not looked up; download the files and give their folder",
                ));
            }
            Err(failure)
        }
        Err(error) => Err(setting.wrong(format!("cannot read {}: {error}", resolved.display()))),
    }
}

/// Whether a path could be meant as `owner/name` on the Hub.
fn is_hub_name(path: &Path) -> bool {
    let text = path.to_string_lossy();
    let is_file =
        [".json", ".jsonl", ".txt", ".csv", ".parquet", "/"].iter().any(|ending| text.ends_with(ending));
    text.matches('/').count() == 1 && !text.starts_with(['.', '/', '~']) && !is_file
}

/// The text of a source, and what errors call it.
fn text_of(setting: &Setting<Source>) -> Result<(String, String), Failure> {
    match &setting.value {
        Source::Inline(text) => Ok((text.clone(), setting.source_name())),
        Source::File(path) => {
            let path = existing(setting, path)?;
            let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()));
            Ok((text.map_err(|error| Failure::new(Cause::Input, error))?, path.display().to_string()))
        }
    }
}

/// The JSON of a source, and what errors call it.
fn json_of(setting: &Setting<Source>) -> Result<(Json, String), Failure> {
    let (text, origin) = text_of(setting)?;
    let wrong = |error| Failure::input(format!("{origin}: {error}"));
    Ok((serde_json::from_str(text.strip_prefix('\u{feff}').unwrap_or(&text)).map_err(wrong)?, origin))
}
