//! Optimizers, parameter groups and clipping.

use std::sync::Arc;

use serde_json::{Map, Value as Json};
use shardwright_partition::ModulePattern;
use shardwright_train::{Adafactor, AdamW, Clipping, GroupConfig, GroupRule, Lion, Momentum, Optimizer, Sgd};

use super::super::choice::{Choice, OptimizerName};
use super::super::failure::Failure;
use super::super::settings::{OptimizationSettings, Setting};
use super::super::value::Names;
use super::json_of;
use super::options::Reader;

/// The keys of an entry of `parameter_groups`; the second name of a learning rate is PyTorch's.
const GROUP_KEYS: [&str; 5] = ["pattern", "learning_rate", "lr", "weight_decay", "trained"];

pub(super) fn optimizer(settings: &OptimizationSettings) -> Result<Arc<dyn Optimizer>, Failure> {
    let name = settings.optim.value;
    let mut args = Reader::new(settings.optim_args.as_ref(), "optim_args", name.word());
    let (beta1, beta2) = (settings.adam_beta1.value.0, settings.adam_beta2.value.0);
    let optimizer: Arc<dyn Optimizer> = match name {
        OptimizerName::AdamW => Arc::new(AdamW { beta1, beta2, epsilon: settings.adam_epsilon.value.0 }),
        // Trainer gives it the constants of Adam.
        OptimizerName::Lion => Arc::new(Lion { beta1, beta2 }),
        OptimizerName::Sgd => Arc::new(Sgd { momentum: momentum(&mut args)? }),
        OptimizerName::Adafactor => Arc::new(adafactor(&mut args)?),
    };
    args.finish()?;
    Ok(optimizer)
}

fn momentum(args: &mut Reader<'_>) -> Result<Option<Momentum>, Failure> {
    let momentum = args.number("momentum")?.filter(|momentum| *momentum > 0.0);
    let dampening = args.number("dampening")?.unwrap_or(0.0);
    match (momentum, args.flag("nesterov")?.unwrap_or(false)) {
        (Some(momentum), false) => Ok(Some(Momentum::Classic { momentum, dampening })),
        (Some(momentum), true) if dampening == 0.0 => Ok(Some(Momentum::Nesterov { momentum })),
        (None, false) => Ok(None),
        (_, true) => Err(args.wrong("nesterov takes momentum above 0, and no dampening")),
    }
}

/// Adafactor as Trainer sets it, but for what is said otherwise.
fn adafactor(args: &mut Reader<'_>) -> Result<Adafactor, Failure> {
    let usual = Adafactor::default();
    if args.flag("relative_step")?.unwrap_or(false) {
        return Err(
            args.wrong("relative_step: true is not supported, as steps follow learning_rate; leave it out")
        );
    }
    if args.flag("warmup_init")?.unwrap_or(false) {
        return Err(
            args.wrong("warmup_init: true takes relative_step, which is not supported; use warmup_steps")
        );
    }
    let pair = |value: &Json| {
        let numbers: Option<Vec<f64>> = value.as_array()?.iter().map(Json::as_f64).collect();
        <[f64; 2]>::try_from(numbers?).ok().filter(|pair| pair.iter().all(|x| *x >= 0.0))
    };
    let [epsilon, smallest] =
        args.take("eps", "two numbers of at least 0", pair)?.unwrap_or([usual.epsilon, 1e-3]);
    Ok(Adafactor {
        epsilon,
        clip_threshold: args.number("clip_threshold")?.unwrap_or(usual.clip_threshold),
        decay_rate: args
            .take("decay_rate", "a number of at most 0", |value| value.as_f64().filter(|x| *x <= 0.0))?
            .unwrap_or(usual.decay_rate),
        beta1: args.share("beta1")?,
        parameter_scale: args.flag("scale_parameter")?.unwrap_or(false).then_some(smallest),
    })
}

/// What gradients are limited to, and which of them.
pub(super) fn clipping(settings: &OptimizationSettings) -> Result<Clipping, Failure> {
    Ok(Clipping {
        norm: Some(settings.max_grad_norm.value.0).filter(|norm| *norm > 0.0),
        value: settings.max_grad_value.as_ref().map(|most| most.value.0),
        within: match &settings.max_grad_within {
            Some(setting) => patterns(setting)?,
            None => Vec::new(),
        },
    })
}

fn patterns(setting: &Setting<Names>) -> Result<Vec<ModulePattern>, Failure> {
    setting.value.0.iter().map(|text| text.parse().map_err(|error| setting.wrong(error))).collect()
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
        let frozen = |pattern| GroupRule { pattern, learning_rate: None, weight_decay: None, trained: false };
        rules.extend(patterns(freeze)?.into_iter().map(frozen));
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
