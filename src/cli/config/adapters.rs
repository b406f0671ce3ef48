//! Adapters: whether there are any, and which.

use std::path::PathBuf;

use shardwright_model::{LoraConfig, LoraModules};
use shardwright_train::{LoraSource, ModelSource};

use super::super::failure::{Cause, Failure};
use super::super::settings::{AdapterSettings, Setting};
use super::super::value::Names;
use super::{existing, text_of};

/// What the settings of adapters ask for; they are for weights that are there.
pub(super) fn lora(settings: &AdapterSettings, model: &ModelSource) -> Result<Option<LoraSource>, Failure> {
    let peft = &settings.use_peft;
    let asked = match first_given(settings) {
        Some(name) if peft.is_given() && !peft.value => {
            return Err(peft.wrong(format!("{name} is given too; remove one of them")));
        }
        Some(name) => name,
        None if peft.value => "use_peft",
        None => return Ok(None),
    };
    if matches!(model, ModelSource::Config(_)) {
        return Err(Failure::input(format!(
            "--{asked}: adapters are for weights that are there, and those of config_name are new; give the folder of a \
             model with --model_name_or_path"
        )));
    }
    match &settings.adapter_name_or_path {
        Some(folder) => saved(folder, settings),
        None => Ok(Some(LoraSource::New(config(settings)?.into()))),
    }
}

fn saved(folder: &Setting<PathBuf>, settings: &AdapterSettings) -> Result<Option<LoraSource>, Failure> {
    match first_of(settings) {
        Some(name) => {
            Err(folder.wrong(format!("its adapter_config.json says what {name} says; remove {name}")))
        }
        None => Ok(Some(LoraSource::Saved(existing(folder, &folder.value)?))),
    }
}

fn config(settings: &AdapterSettings) -> Result<LoraConfig, Failure> {
    let mut config = match &settings.lora_config {
        None => LoraConfig::default(),
        Some(source) => {
            let (text, origin) = text_of(source)?;
            LoraConfig::parse(&text, &origin).map_err(|error| Failure::new(Cause::Input, error))?
        }
    };
    if let Some(r) = &settings.lora_r {
        config.r = r.value.0;
    }
    if let Some(alpha) = &settings.lora_alpha {
        config.lora_alpha = alpha.value.0;
    }
    if let Some(modules) = &settings.lora_target_modules {
        config.target_modules = target_modules(&modules.value);
    }
    if let Some(modules) = &settings.lora_modules_to_save {
        config.modules_to_save = modules.value.0.clone();
    }
    if let Some(rslora) = &settings.use_rslora {
        config.use_rslora = rslora.value;
    }
    Ok(config)
}

/// Names; a single word that is none is a regular expression, or `all-linear`.
fn target_modules(Names(words): &Names) -> LoraModules {
    let is_name = |word: &str| word.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '.');
    match &words[..] {
        [word] if !is_name(word) => LoraModules::Pattern(word.clone()),
        words => LoraModules::Names(words.to_vec()),
    }
}

/// The first setting of adapters that is given, apart from `use_peft`.
fn first_given(settings: &AdapterSettings) -> Option<&'static str> {
    first_of(settings).or(settings.adapter_name_or_path.as_ref().map(|_| "adapter_name_or_path"))
}

/// The first that says which adapters there are.
fn first_of(settings: &AdapterSettings) -> Option<&'static str> {
    let given = [
        ("lora_config", settings.lora_config.is_some()),
        ("lora_r", settings.lora_r.is_some()),
        ("lora_alpha", settings.lora_alpha.is_some()),
        ("lora_target_modules", settings.lora_target_modules.is_some()),
        ("lora_modules_to_save", settings.lora_modules_to_save.is_some()),
        ("use_rslora", settings.use_rslora.is_some()),
    ];
    given.into_iter().find(|(_, is_given)| *is_given).map(|(name, _)| name)
}
