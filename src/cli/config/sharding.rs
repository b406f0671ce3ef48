//! How the model is spread over devices.

use shardwright_mesh::{AbstractMesh, MeshError};
use shardwright_partition::{
    FsdpConfig, FsdpConfigError, FsdpFlag, KeyProblem, Lowering, PlanError, ShardingRequest, StateDictType,
    Strategy, TENSOR_AXIS, UnknownKeys, WrapConfig,
};
use shardwright_train::ShardingConfig;

use super::super::choice::Lowerings;
use super::super::environment::{ENVIRONMENT, Variables};
use super::super::failure::{Cause, Failure};
use super::super::settings::{Setting, Settings, ShardingSettings};
use super::{Notices, text_of};

const OTHER_POLICY: &str = "fsdp_config asks for another wrap policy; keep one of them";

pub(super) fn sharding(
    settings: &Settings,
    variables: &Variables,
    notices: &mut Notices,
) -> Result<ShardingConfig, Failure> {
    let gradient_checkpointing = settings.training.gradient_checkpointing.value;
    let settings = &settings.sharding;
    let flag = match &settings.fsdp {
        Some(words) => Strategy::parse_fsdp_words(&words.value.0)
            .map_err(|error| words.wrong(error.to_string().trim_start_matches("--fsdp: ")))?,
        None => FsdpFlag::Off,
    };
    let (strategy, fsdp) = match flag {
        FsdpFlag::On(named) => fsdp(settings, named, variables, notices)?,
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
        gradient_checkpointing,
    })
}

/// The strategy and the configuration of FSDP that is on, as they take effect.
fn fsdp(
    settings: &ShardingSettings,
    named: Option<Strategy>,
    variables: &Variables,
    notices: &mut Notices,
) -> Result<(Strategy, FsdpConfig), Failure> {
    let unknown = match settings.allow_unknown_fsdp_keys.value {
        true => UnknownKeys::Allow,
        false => UnknownKeys::Refuse,
    };
    let variables = variables.fsdp();
    let (mut config, told, origin) = match &settings.fsdp_config {
        None => {
            let (config, told) = FsdpConfig::from_variables(variables).map_err(wrong_keys)?;
            (config, told, ENVIRONMENT.to_owned())
        }
        Some(setting) => {
            let (text, origin) = text_of(setting)?;
            let (config, told) =
                FsdpConfig::parse_over(&text, &origin, unknown, variables).map_err(wrong_keys)?;
            (config, told, origin)
        }
    };
    notices.extend(told.iter().map(|notice| format!("{origin}: {notice}")));
    add_flags(settings, &mut config.wrap, notices)?;
    let strategy =
        config.resolve_strategy(named, &origin).map_err(|error| Failure::new(Cause::Input, error))?;
    config.sharding = Some(ShardingRequest::Strategy(strategy));
    // A notice has said so where the file asks for another form.
    config.state_dict_type = StateDictType::Full;
    Ok((strategy, config))
}

/// What is wrapped besides, by the two flags that are older than `fsdp_config`: classes are added to those of the file,
/// and of two sizes the larger counts.
fn add_flags(
    settings: &ShardingSettings,
    wrap: &mut WrapConfig,
    notices: &mut Notices,
) -> Result<(), Failure> {
    if let Some(setting) = &settings.fsdp_transformer_layer_cls_to_wrap {
        notices.push("fsdp_transformer_layer_cls_to_wrap is better written in fsdp_config".into());
        match wrap {
            WrapConfig::Classes(classes) => {
                let new = setting.value.0.iter().filter(|class| !classes.contains(class)).cloned();
                classes.extend(new.collect::<Vec<_>>());
            }
            WrapConfig::ModelDefault => *wrap = WrapConfig::Classes(setting.value.0.clone()),
            WrapConfig::Size(_) | WrapConfig::None => return Err(setting.wrong(OTHER_POLICY)),
        }
    }
    let Some(setting) = settings.fsdp_min_num_params.as_ref().filter(|setting| setting.value.0 > 0) else {
        return Ok(());
    };
    notices.push("fsdp_min_num_params is better written in fsdp_config".into());
    let asked = setting.value.0 as u64;
    match wrap {
        WrapConfig::Size(size) => *size = asked.max(*size),
        WrapConfig::ModelDefault => *wrap = WrapConfig::Size(asked),
        WrapConfig::Classes(_) | WrapConfig::None => return Err(setting.wrong(OTHER_POLICY)),
    }
    Ok(())
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

    use super::super::super::settings::{Given, Layer, Origin, Written};
    use super::*;

    #[test]
    fn the_fsdp_configuration_is_the_one_that_takes_effect() {
        let check = |fsdp: &str, file: serde_json::Value, expect: &str| {
            let given = |json| Given { written: Written::Json(json), origin: Origin::Default };
            let layer = Layer::from([("fsdp", given(json!(fsdp))), ("fsdp_config", given(file))]);
            let settings = Settings::read(&[&layer]).unwrap();
            let sharding = sharding(&settings, &Variables::default(), &mut Notices::new()).unwrap();
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
