//! What the keys that interact mean together.

use shardwright_tensor::DType;

use super::error::KeyProblem;
use super::notice::Notice;
use super::raw::{Given, RawConfig};
use super::strategy::{ShardingRequest, Strategy};
use super::value::Setting;
use crate::ModulePattern;

use super::{Findings, FsdpConfig, MixedPrecision, StateDictType, WrapConfig, keys};

/// The size policy's minimum when only the policy is named.
const DEFAULT_MIN_NUM_PARAMS: u64 = 100_000_000;

/// The meaning of a configuration. After a problem the result is only a stand-in.
pub(super) fn of(raw: &RawConfig, findings: &mut Findings) -> FsdpConfig {
    let wrap = wrap(raw, findings);
    let grad_ckpt = [keys::XLA_FSDP_GRAD_CKPT, keys::ACTIVATION_CHECKPOINTING]
        .into_iter()
        .any(|key| raw.get(key).is_some_and(|given| given.setting == Setting::Flag(true)));
    if grad_ckpt && wrap.wraps_nothing() {
        findings.notices.push(Notice::NothingToRecompute);
    }
    let sharding = sharding(raw, findings);
    let state_dict_type = state_dict_type(raw, findings);
    let tensor = match raw.get(keys::TENSOR_PLAN).map(|given| &given.setting) {
        Some(Setting::TensorPlan(plan)) => Some(plan.clone()),
        _ => None,
    };
    FsdpConfig {
        wrap,
        grad_ckpt,
        sharding,
        state_dict_type,
        ignored: patterns(raw, keys::IGNORED_MODULES).unwrap_or_default(),
        keep_gathered: patterns(raw, keys::KEEP_GATHERED_MODULES),
        tensor,
        mixed_precision: mixed_precision(raw, findings),
    }
}

fn mixed_precision(raw: &RawConfig, findings: &mut Findings) -> Option<MixedPrecision> {
    let given = raw.get(keys::MIXED_PRECISION_POLICY)?;
    let Setting::MixedPrecision(policy) = given.setting else { return None };
    if policy.output.is_some_and(|dtype| dtype != DType::F32) {
        let key = format!("{}.output_dtype", given.spelling);
        let why = "logits, losses and tables of angles are f32".to_owned();
        findings.notices.push(Notice::NoEffect { key, why });
    }
    Some(MixedPrecision { output: None, ..policy })
}

fn patterns(raw: &RawConfig, key: &str) -> Option<Vec<ModulePattern>> {
    match &raw.get(key)?.setting {
        Setting::Patterns(patterns) => Some(patterns.clone()),
        _ => None,
    }
}

/// A named policy decides between classes and size; without one, the key that is given does.
fn wrap(raw: &RawConfig, findings: &mut Findings) -> WrapConfig {
    let classes = raw.get(keys::CLASSES);
    let size = raw.get(keys::MIN_NUM_PARAMS);
    let asked = |given: &&Given| !matches!(&given.setting, Setting::Count(0)) && !is_empty_list(given);
    let mut overrule = |given: Option<&Given>, policy: &str| {
        let given = given.filter(asked);
        findings.notices.extend(given.map(|given| given.no_effect(&format!("auto_wrap_policy is {policy}"))));
    };
    match raw.get(keys::AUTO_WRAP_POLICY).and_then(name) {
        Some(keys::NO_WRAP) => {
            overrule(classes, keys::NO_WRAP);
            overrule(size, keys::NO_WRAP);
            WrapConfig::None
        }
        Some(keys::SIZE_WRAP) => {
            overrule(classes, keys::SIZE_WRAP);
            by_size(size, findings)
        }
        Some(_) => {
            overrule(size, keys::TRANSFORMER_WRAP);
            by_classes(classes, findings)
        }
        None => match (classes.filter(asked), size.filter(asked)) {
            (Some(classes), Some(size)) => {
                findings.problems.push(KeyProblem::TwoWrapPolicies {
                    classes: classes.spelling.clone(),
                    size: size.spelling.clone(),
                });
                WrapConfig::ModelDefault
            }
            (None, size @ Some(_)) => by_size(size, findings),
            (_, None) => by_classes(classes, findings),
        },
    }
}

fn by_classes(classes: Option<&Given>, findings: &mut Findings) -> WrapConfig {
    match classes.map(|given| (&given.setting, &given.spelling)) {
        Some((Setting::Classes(names), spelling)) if names.is_empty() => {
            let instead = "leave it out for the classes which the model names itself";
            findings.notices.push(Notice::NothingWrapped { key: spelling.clone(), instead });
            WrapConfig::None
        }
        Some((Setting::Classes(names), _)) => WrapConfig::Classes(names.clone()),
        _ => WrapConfig::ModelDefault,
    }
}

fn by_size(size: Option<&Given>, findings: &mut Findings) -> WrapConfig {
    match size.map(|given| (&given.setting, &given.spelling)) {
        Some((Setting::Count(0), spelling)) => {
            let instead = "set it to 1 or more, or leave it out for 100000000";
            findings.notices.push(Notice::NothingWrapped { key: spelling.clone(), instead });
            WrapConfig::None
        }
        Some((Setting::Count(min_num_params), _)) => WrapConfig::Size(*min_num_params),
        _ => WrapConfig::Size(DEFAULT_MIN_NUM_PARAMS),
    }
}

/// `reshard_after_forward` once took the name of a strategy, and takes a boolean now.
fn sharding(raw: &RawConfig, findings: &mut Findings) -> Option<ShardingRequest> {
    let strategy = raw.get(keys::SHARDING_STRATEGY);
    let reshard = raw.get(keys::RESHARD_AFTER_FORWARD);
    let asked_strategy = strategy.and_then(request);
    let asked_reshard = reshard.and_then(request);
    if let (Some(strategy), Some(reshard)) = (strategy, reshard)
        && let (Some(asked), Some(other)) = (asked_strategy, asked_reshard)
        && !other.allows(asked.strategy())
    {
        findings.problems.push(strategy.disagrees_with(reshard));
    }
    asked_strategy.or(asked_reshard)
}

/// Only whole tensors are written so far; another form is kept as what was asked for.
fn state_dict_type(raw: &RawConfig, findings: &mut Findings) -> StateDictType {
    let given = raw.get(keys::STATE_DICT_TYPE);
    let asked = given.and_then(name).and_then(StateDictType::from_name).unwrap_or_default();
    if asked != StateDictType::Full {
        findings.notices.extend(given.map(|given| given.no_effect(keys::SAVING)));
    }
    asked
}

fn request(given: &Given) -> Option<ShardingRequest> {
    match given.setting {
        Setting::Flag(reshard) => Some(ShardingRequest::ReshardAfterForward(reshard)),
        Setting::Choice(word) => Strategy::from_word(word).map(ShardingRequest::Strategy),
        _ => None,
    }
}

fn name(given: &Given) -> Option<&'static str> {
    match given.setting {
        Setting::Choice(name) => Some(name),
        _ => None,
    }
}

fn is_empty_list(given: &Given) -> bool {
    matches!(&given.setting, Setting::Classes(names) if names.is_empty())
}
