//! The model, its tokenizer and its dtypes.

use std::fs;
use std::path::PathBuf;

use shardwright_model::ModelConfig;
use shardwright_partition::FsdpConfig;
use shardwright_tensor::DType;
use shardwright_train::PrecisionConfig;

use super::super::choice::{ComputeType, WeightType};
use super::super::failure::{Cause, Failure};
use super::super::settings::ModelSettings;
use super::{ModelSource, Notices, existing};

pub(super) fn source(settings: &ModelSettings) -> Result<ModelSource, Failure> {
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

pub(super) fn tokenizer(settings: &ModelSettings, model: &ModelSource) -> Result<Option<PathBuf>, Failure> {
    match (&settings.tokenizer_name, model) {
        (Some(tokenizer), _) => existing(tokenizer, &tokenizer.value).map(Some),
        (None, ModelSource::Pretrained(folder)) => Ok(Some(folder.clone())),
        (None, ModelSource::Config(_)) => Ok(None),
    }
}

/// The dtypes of the run: `torch_dtype` is that of the saved weights and, if nothing else is said, of the computation.
pub(super) fn precision(
    settings: &ModelSettings,
    source: &ModelSource,
    fsdp: &FsdpConfig,
    notices: &mut Notices,
) -> Result<PrecisionConfig, Failure> {
    let weights = match settings.torch_dtype.value {
        WeightType::Is(dtype) => dtype,
        WeightType::Auto => configured_dtype(source)?,
    };
    let policy = fsdp.mixed_precision.unwrap_or_default();
    let compute = match (policy.param, settings.bf16.value) {
        (Some(param), true) if param != DType::Bf16 => {
            return Err(settings.bf16.wrong(disagrees("param_dtype", param)));
        }
        (Some(param), _) => param,
        (None, true) => DType::Bf16,
        (None, false) => weights,
    };
    let ComputeType(reduce) = settings.reduce_dtype.value;
    let reduce = match policy.reduce {
        Some(asked) if settings.reduce_dtype.is_given() && asked != reduce => {
            return Err(settings.reduce_dtype.wrong(disagrees("reduce_dtype", asked)));
        }
        asked => asked.unwrap_or(reduce),
    };
    let masters = settings.master_weights.value;
    if weights != DType::F32 && masters && settings.torch_dtype.is_given() {
        notices.push(format!(
            "torch_dtype: the model is saved in {weights}; while it is trained, weights are kept in f32, which \
             --master_weights no spares"
        ));
    }
    Ok(PrecisionConfig { weights, compute, reduce, masters })
}

fn disagrees(key: &str, dtype: DType) -> String {
    format!(
        "disagrees with mixed_precision_policy of fsdp_config, whose {key} is {dtype}; change one of them"
    )
}

/// What the model's configuration says its weights are, or f32 if it says nothing.
fn configured_dtype(source: &ModelSource) -> Result<DType, Failure> {
    let (ModelSource::Config(path) | ModelSource::Pretrained(path)) = source;
    let path = if path.is_dir() { path.join("config.json") } else { path.clone() };
    let text = fs::read_to_string(&path)
        .map_err(|error| Failure::input(format!("cannot read {}: {error}", path.display())))?;
    let config = ModelConfig::parse(&text, &path.display().to_string())
        .map_err(|error| Failure::new(Cause::Input, error))?;
    match config.dtype() {
        None => Ok(DType::F32),
        Some(dtype @ (DType::F32 | DType::Bf16)) => Ok(dtype),
        Some(dtype) => Err(Failure::input(format!(
            "--torch_dtype auto: {} says {dtype}, in which nothing is trained; use bfloat16 or float32",
            path.display()
        ))),
    }
}
