//! From settings to the meaning of a run, checked as far as that needs no device.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use shardwright_mesh::{AbstractMesh, MeshError};
use shardwright_partition::{
    FsdpConfig, FsdpConfigError, FsdpFlag, KeyProblem, Lowering, PlanError, ShardingRequest, StateDictType,
    Strategy, TENSOR_AXIS, UnknownKeys,
};
use shardwright_train::{
    AdamW, Clipping, EvaluationConfig, GroupConfig, IntervalStrategy, LoggingConfig, ModelSource,
    PrecisionConfig, ScheduleConfig, ScheduleKind, ShardingConfig, TrainConfig, Warmup,
};

use super::failure::{Cause, Failure};
use super::settings::{Setting, Settings};
use super::value::{FsdpSource, LoggingStrategy, Lowerings, Optimizer, Precision, SaveStrategy};

/// Things that a user may want to know about settings that are fine.
pub(super) type Notices = Vec<String>;

/// What the settings of a run mean.
pub(super) fn train_config(settings: &Settings) -> Result<(TrainConfig, Notices), Failure> {
    let mut notices = Notices::new();
    unsupported(settings, &mut notices)?;
    let model = model(settings)?;
    let config = TrainConfig {
        tokenizer: tokenizer(settings, &model)?,
        model,
        train_files: train_files(settings)?,
        block_size: settings.block_size.as_ref().map(|s| s.value.0),
        max_train_samples: settings.max_train_samples.as_ref().map(|s| s.value.0),
        output_dir: output_dir(settings)?,
        overwrite_output_dir: settings.overwrite_output_dir.value,
        per_device_train_batch_size: settings.per_device_train_batch_size.value.0,
        num_train_epochs: settings.num_train_epochs.value.0,
        max_steps: settings.max_steps.value.0,
        dataloader_drop_last: settings.dataloader_drop_last.value,
        seed: settings.seed.value,
        data_seed: settings.data_seed.as_ref().map(|s| s.value),
        optimizer: Arc::new(AdamW {
            beta1: settings.adam_beta1.value.0,
            beta2: settings.adam_beta2.value.0,
            epsilon: settings.adam_epsilon.value.0,
        }),
        groups: GroupConfig {
            learning_rate: settings.learning_rate.value.0,
            weight_decay: settings.weight_decay.value.0,
            rules: Vec::new(),
        },
        schedule: schedule(settings, &mut notices),
        clipping: Clipping {
            norm: Some(settings.max_grad_norm.value.0).filter(|norm| *norm > 0.0),
            ..Clipping::default()
        },
        precision: PrecisionConfig::default(),
        dot_precision: shardwright_hlo::Precision::Default,
        validation_files: Vec::new(),
        validation_split_percentage: 5,
        text_column: None,
        max_eval_samples: None,
        packing: true,
        cache_dir: None,
        overwrite_cache: false,
        per_device_eval_batch_size: 8,
        gradient_accumulation_steps: 1,
        do_train: true,
        evaluation: EvaluationConfig::default(),
        nan_stop: true,
        run_name: None,
        arguments: serde_json::Value::Null,
        loss_denominator: settings.loss_denominator.value,
        sharding: sharding(settings, &mut notices)?,
        logging: LoggingConfig {
            strategy: match settings.logging_strategy.value {
                LoggingStrategy::Steps => IntervalStrategy::Steps(settings.logging_steps.value.0),
                LoggingStrategy::No => IntervalStrategy::No,
            },
            first_step: false,
            nan_inf_filter: true,
            dir: None,
            report_to: Vec::new(),
        },
    };
    Ok((config, notices))
}

/// Settings that are known and cannot be met, or do nothing.
fn unsupported(settings: &Settings, notices: &mut Notices) -> Result<(), Failure> {
    // Each has one value so far; with a second one, this no longer compiles and somebody has to decide.
    let (Optimizer::AdamW, SaveStrategy::No) = (settings.optim.value, settings.save_strategy.value);
    let (Precision::Float32, Precision::Float32) = (settings.torch_dtype.value, settings.dtype.value);
    if let Some(narrow) = [&settings.bf16, &settings.fp16].into_iter().find(|setting| setting.value) {
        return Err(narrow.wrong("not supported yet; leave it out to train in float32"));
    }
    if !settings.do_train.value {
        return Err(settings.do_train.wrong("this leaves nothing to do; leave it out to train"));
    }
    if settings.cache_dir.is_some() {
        notices.push("cache_dir has no effect: see SHARDWRIGHT_CACHE_DIR for what is cached".into());
    }
    if std::env::var_os("XLA_USE_BF16").is_some_and(|value| value == "1") {
        notices.push("XLA_USE_BF16 has no effect: training is in float32".into());
    }
    Ok(())
}

fn model(settings: &Settings) -> Result<ModelSource, Failure> {
    match (&settings.config_name, &settings.model_name_or_path) {
        (Some(config), None) => Ok(ModelSource::Config(existing(config, &config.value)?)),
        (None, Some(folder)) => Ok(ModelSource::Pretrained(existing(folder, &folder.value)?)),
        (Some(_), Some(folder)) => Err(folder.wrong(
            "config_name is given too; keep config_name for new weights, or this for the weights of the folder",
        )),
        (None, None) => Err(Failure::input(
            "there is no model: give --config_name with a config.json, or --model_name_or_path with a folder of weights",
        )),
    }
}

fn tokenizer(settings: &Settings, model: &ModelSource) -> Result<Option<PathBuf>, Failure> {
    match (&settings.tokenizer_name, model) {
        (Some(tokenizer), _) => existing(tokenizer, &tokenizer.value).map(Some),
        (None, ModelSource::Pretrained(folder)) => Ok(Some(folder.clone())),
        (None, ModelSource::Config(_)) => Ok(None),
    }
}

fn train_files(settings: &Settings) -> Result<Vec<PathBuf>, Failure> {
    let Some(files) = settings.train_file.as_ref().filter(|files| !files.value.is_empty()) else {
        return Err(Failure::input("there is no text: give files or folders with --train_file"));
    };
    files.value.iter().map(|path| existing(files, path)).collect()
}

fn output_dir(settings: &Settings) -> Result<PathBuf, Failure> {
    match &settings.output_dir {
        Some(folder) => Ok(folder.resolve(&folder.value)),
        None => Err(Failure::input("there is no place for the results: give a folder with --output_dir")),
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
    let is_file = [".json", ".jsonl", ".txt", "/"].iter().any(|ending| text.ends_with(ending));
    text.matches('/').count() == 1 && !text.starts_with(['.', '/', '~']) && !is_file
}

fn schedule(settings: &Settings, notices: &mut Notices) -> ScheduleConfig {
    let scheduler = settings.lr_scheduler_type.value;
    let (steps, ratio) = (settings.warmup_steps.value.0, settings.warmup_ratio.value.0);
    if !scheduler.warms_up {
        if steps > 0 || ratio > 0.0 {
            notices
                .push("warmup has no effect: lr_scheduler_type is constant; use constant_with_warmup".into());
        }
        return ScheduleConfig { kind: ScheduleKind::Constant, warmup: Warmup::Steps(0) };
    }
    if steps > 0 && ratio > 0.0 {
        notices.push("warmup_ratio has no effect: warmup_steps is given".into());
    }
    let warmup = if steps > 0 || ratio == 0.0 { Warmup::Steps(steps) } else { Warmup::Ratio(ratio) };
    ScheduleConfig { kind: scheduler.kind, warmup }
}

fn sharding(settings: &Settings, notices: &mut Notices) -> Result<ShardingConfig, Failure> {
    let flag = match &settings.fsdp {
        Some(words) => Strategy::parse_fsdp_words(&words.value.0)
            .map_err(|error| words.wrong(error.to_string().trim_start_matches("--fsdp: ")))?,
        None => FsdpFlag::Off,
    };
    let (strategy, fsdp) = match flag {
        FsdpFlag::On(named) => fsdp(settings, named, notices)?,
        FsdpFlag::Off => {
            if settings.fsdp_config.is_some() {
                notices.push("fsdp_config is not used: fsdp is off; --fsdp full_shard turns it on".into());
            }
            (Strategy::NoShard, FsdpConfig::default())
        }
    };
    let axis = settings.fsdp_axis.value.clone();
    if axis == TENSOR_AXIS {
        return Err(settings.fsdp_axis.wrong(PlanError::TensorAxis));
    }
    if let Some(mesh) = &settings.mesh {
        check_mesh(mesh, &axis, strategy)?;
    }
    Ok(ShardingConfig {
        mesh: settings.mesh.as_ref().map(|mesh| mesh.value.clone()),
        axis,
        strategy,
        dim_rule: settings.fsdp_dim_rule.value,
        min_shard_bytes: settings.min_shard_bytes.value.0,
        lowering: match settings.lowering.value {
            Lowerings::One(lowering) => lowering,
            // Whoever compares lowerings names each.
            Lowerings::Both => Lowering::Auto,
        },
        fsdp,
        gradient_checkpointing: settings.gradient_checkpointing.value,
    })
}

/// The strategy and the configuration of FSDP that is on, as they take effect.
fn fsdp(
    settings: &Settings,
    named: Option<Strategy>,
    notices: &mut Notices,
) -> Result<(Strategy, FsdpConfig), Failure> {
    let unknown = match settings.allow_unknown_fsdp_keys.value {
        true => UnknownKeys::Allow,
        false => UnknownKeys::Refuse,
    };
    let (mut config, origin) = match &settings.fsdp_config {
        None => (FsdpConfig::default(), String::new()),
        Some(setting) => {
            let (text, origin) = match &setting.value {
                FsdpSource::Inline(text) => (text.clone(), setting.source_name()),
                FsdpSource::File(path) => {
                    let path = existing(setting, path)?;
                    let text =
                        fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()));
                    (text.map_err(|error| Failure::new(Cause::Input, error))?, path.display().to_string())
                }
            };
            let (config, told) = FsdpConfig::parse_with(&text, &origin, unknown).map_err(wrong_keys)?;
            notices.extend(told.iter().map(|notice| format!("{origin}: {notice}")));
            (config, origin)
        }
    };
    let strategy =
        config.resolve_strategy(named, &origin).map_err(|error| Failure::new(Cause::Input, error))?;
    config.sharding = Some(ShardingRequest::Strategy(strategy));
    // A notice has said so where the file asks for another form.
    config.state_dict_type = StateDictType::Full;
    Ok((strategy, config))
}

fn wrong_keys(error: FsdpConfigError) -> Failure {
    let is_unknown = |problem: &KeyProblem| matches!(problem, KeyProblem::Unknown { .. });
    let any_unknown =
        matches!(&error, FsdpConfigError::Keys { problems, .. } if problems.iter().any(is_unknown));
    let failure = Failure::new(Cause::Input, error);
    match any_unknown {
        true => failure.with_hint("--allow_unknown_fsdp_keys notes unknown keys and goes on"),
        false => failure,
    }
}

/// Whether the mesh could be right for some number of devices.
fn check_mesh(mesh: &Setting<String>, axis: &str, strategy: Strategy) -> Result<(), Failure> {
    match AbstractMesh::parse(&mesh.value) {
        Ok(parsed) if parsed.axis_size(axis).is_none() && strategy != Strategy::NoShard => {
            Err(mesh.wrong(PlanError::NoAxis { mesh: parsed, axis: axis.to_owned() }))
        }
        // How large an open axis is depends on the devices.
        Ok(_) | Err(MeshError::OpenAxis { .. }) => Ok(()),
        // Here a size may be left open.
        Err(MeshError::InvalidSize { axis, size, .. }) => {
            Err(mesh.wrong(MeshError::InvalidSize { axis, size, can_be_open: true }))
        }
        Err(error) => Err(mesh.wrong(error)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::settings::{Given, Layer, Origin, Written};
    use super::*;

    #[test]
    fn the_fsdp_configuration_is_the_one_that_takes_effect() {
        let check = |fsdp: &str, file: serde_json::Value, expect: &str| {
            let given = |json| Given { written: Written::Json(json), origin: Origin::Default };
            let layer = Layer::from([("fsdp", given(json!(fsdp))), ("fsdp_config", given(file))]);
            let settings = Settings::read(&[&layer]).unwrap();
            let sharding = sharding(&settings, &mut Notices::new()).unwrap();
            assert_eq!(sharding.strategy.word().to_uppercase(), expect);
            let printed = sharding.fsdp.to_json();
            assert_eq!(
                (&printed["sharding_strategy"], &printed["state_dict_type"]),
                (&json!(expect), &json!("FULL_STATE_DICT"))
            );
        };
        check("true", json!({}), "FULL_SHARD");
        check("shard_grad_op", json!({}), "SHARD_GRAD_OP");
        check("hybrid_shard_zero2", json!({"reshard_after_forward": false}), "HYBRID_SHARD_ZERO2");
        check("true", json!({"reshard_after_forward": false}), "SHARD_GRAD_OP");
        check("true", json!({"sharding_strategy": 5, "state_dict_type": 3}), "HYBRID_SHARD_ZERO2");
    }
}
