//! Optimizers, parameter groups and clipping.

use std::sync::Arc;

use serde_json::{Map, Value as Json};
use shardwright_partition::ModulePattern;
use shardwright_train::{AdamW, Clipping, GroupConfig, GroupRule, Optimizer};

use super::super::choice::OptimizerName;
use super::super::failure::Failure;
use super::super::settings::OptimizationSettings;
use super::json_of;

/// The keys of an entry of `parameter_groups`; the second name of a learning rate is PyTorch's.
const GROUP_KEYS: [&str; 5] = ["pattern", "learning_rate", "lr", "weight_decay", "trained"];

pub(super) fn optimizer(settings: &OptimizationSettings) -> Result<Arc<dyn Optimizer>, Failure> {
    match settings.optim.value {
        OptimizerName::AdamW => {
            if let Some((args, name)) =
                settings.optim_args.as_ref().and_then(|a| Some((a, a.value.0.keys().next()?)))
            {
                return Err(args.wrong(format!(
                    "{name} is no option of AdamW; adam_beta1, adam_beta2, adam_epsilon and weight_decay are settings"
                )));
            }
            Ok(Arc::new(AdamW {
                beta1: settings.adam_beta1.value.0,
                beta2: settings.adam_beta2.value.0,
                epsilon: settings.adam_epsilon.value.0,
            }))
        }
        OptimizerName::Adafactor | OptimizerName::Sgd | OptimizerName::Lion => {
            Err(settings.optim.wrong("not supported yet; use adamw_torch"))
        }
    }
}

pub(super) fn clipping(settings: &OptimizationSettings) -> Clipping {
    Clipping {
        norm: Some(settings.max_grad_norm.value.0).filter(|norm| *norm > 0.0),
        value: settings.max_grad_value.as_ref().map(|most| most.value.0),
    }
}

/// The constants of all parameters, the rules of `parameter_groups`, and then those of `freeze`.
pub(super) fn groups(settings: &OptimizationSettings) -> Result<GroupConfig, Failure> {
    let mut rules = Vec::new();
    if let Some(setting) = &settings.parameter_groups {
        let (json, origin) = json_of(setting)?;
        let wrong = |why: String| Failure::input(format!("{origin}: {why}"));
        let Json::Array(entries) = &json else {
            return Err(wrong(
                "expected a list of groups, such as [{\"pattern\": \"lm_head\", \"lr\": 1e-4}]".into(),
            ));
        };
        for (idx, entry) in entries.iter().enumerate() {
            rules.push(rule(entry).map_err(|why| wrong(format!("group {}: {why}", idx + 1)))?);
        }
    }
    if let Some(freeze) = &settings.freeze {
        for text in &freeze.value.0 {
            let pattern = text.parse().map_err(|error| freeze.wrong(error))?;
            rules.push(GroupRule { pattern, learning_rate: None, weight_decay: None, trained: false });
        }
    }
    Ok(GroupConfig {
        learning_rate: settings.learning_rate.value.0,
        weight_decay: settings.weight_decay.value.0,
        rules,
    })
}

fn rule(entry: &Json) -> Result<GroupRule, String> {
    let Json::Object(entry) = entry else { return Err(format!("expected an object, found {entry}")) };
    if let Some(unknown) = entry.keys().find(|key| !GROUP_KEYS.contains(&key.as_str())) {
        return Err(format!("key {unknown} is unknown; the keys are {}", GROUP_KEYS.join(", ")));
    }
    let pattern: ModulePattern = match entry.get("pattern") {
        Some(Json::String(text)) => text.parse().map_err(|error| format!("key pattern: {error}"))?,
        Some(other) => {
            return Err(format!("key pattern: expected a text such as layers.*.mlp, found {other}"));
        }
        None => return Err("key pattern is missing".into()),
    };
    let learning_rate = match (number(entry, "learning_rate")?, number(entry, "lr")?) {
        (Some(_), Some(_)) => return Err("keys learning_rate and lr are the same; keep one of them".into()),
        (one, other) => one.or(other),
    };
    let trained = match entry.get("trained") {
        None => true,
        Some(Json::Bool(trained)) => *trained,
        Some(other) => return Err(format!("key trained: expected true or false, found {other}")),
    };
    Ok(GroupRule { pattern, learning_rate, weight_decay: number(entry, "weight_decay")?, trained })
}

fn number(entry: &Map<String, Json>, key: &str) -> Result<Option<f64>, String> {
    match entry.get(key) {
        None | Some(Json::Null) => Ok(None),
        Some(value) => match value.as_f64().filter(|x| x.is_finite() && *x >= 0.0) {
            Some(x) => Ok(Some(x)),
            None => Err(format!("key {key}: expected a number of at least 0, found {value}")),
        },
    }
}
