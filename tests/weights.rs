//! Fresh weights are the same on any mesh, and the state of training takes the memory that the plan says.

mod support;

use std::collections::BTreeSet;

use shardwright_hlo::ArgumentKind;
use shardwright_mesh::{AbstractMesh, Mesh};
use shardwright_model::{Init, ParameterInfo, parameters};
use shardwright_partition::{DimRule, PlanOptions};
use shardwright_tensor::HostArray;
use shardwright_train::{CausalLm, TrainState, TrainStep, WeightSource};
use support::{BATCH, oracle_batches, oracle_model, oracle_step, runtime};

/// The train step with all parameters that can be split on a dim chosen by `dim_rule`.
fn step(model: &CausalLm, mesh: &str, dim_rule: DimRule) -> TrainStep {
    let config = oracle_step(model, PlanOptions { dim_rule, ..PlanOptions::default() });
    let mesh = Mesh::iota(AbstractMesh::parse(mesh).unwrap());
    TrainStep::compile(&runtime(8), &mesh, model, &config).unwrap()
}

fn fresh(step: &TrainStep, seed: u64) -> TrainState {
    TrainState::new(&runtime(8), step, WeightSource::Random { seed }).unwrap()
}

fn weights(state: &TrainState) -> Vec<HostArray> {
    state.parameters.iter().map(|p| p.to_host().unwrap()).collect()
}

#[test]
fn weights_depend_on_the_seed_and_not_on_the_mesh() {
    let model = oracle_model("odd");
    let infos = parameters(&model.config);
    let whole = step(&model, "fsdp=1", DimRule::StrictLargest);
    let expected = weights(&fresh(&whole, 7));
    for mesh in ["fsdp=2", "fsdp=4", "fsdp=8", "data=2,fsdp=4"] {
        let step = step(&model, mesh, DimRule::StrictLargest);
        let padding: usize = step.plan().arguments().iter().map(|a| a.padding_bytes).sum();
        assert!(padding > 0, "{mesh} divides all sizes, and shows nothing about those it does not");
        for ((info, weights), expected) in infos.iter().zip(weights(&fresh(&step, 7))).zip(&expected) {
            assert!(weights == *expected, "{} on {mesh}: {weights:?}, on one device {expected:?}", info.name);
        }
    }

    assert!(weights(&fresh(&whole, 7)) == expected, "the same seed a second time");
    // Seeds are 64 bits, all of which count.
    for seed in [8, 7 | 1 << 32] {
        let others = weights(&fresh(&whole, seed));
        for (info, (other, first)) in infos.iter().zip(others.iter().zip(&expected)) {
            let is_drawn = matches!(info.init, Init::Normal { .. });
            assert_eq!(other != first, is_drawn, "{} with seed {seed}", info.name);
        }
    }
}

#[test]
fn weights_are_normal_and_those_of_norms_one() {
    let model = oracle_model("base");
    let step = step(&model, "fsdp=8", DimRule::LargestDivisible);
    let weights = weights(&fresh(&step, 42));
    let infos = parameters(&model.config);
    let mut pool = Vec::new();
    for (info, weights) in infos.iter().zip(&weights) {
        let values = weights.to_f64();
        match info.init {
            Init::Normal { std, .. } => {
                assert_eq!(std, model.config.initializer_range());
                let units: Vec<f64> = values.iter().map(|v| v / std).collect();
                check_normal(&info.name, &units);
                pool.extend(units);
            }
            Init::Ones => assert!(values.iter().all(|&v| v == 1.0), "{}", info.name),
            Init::Zeros => assert!(values.iter().all(|&v| v == 0.0), "{}", info.name),
            Init::Uniform { .. } => panic!("{} is of no decoder", info.name),
        }
    }
    check_normal("all weights", &pool);
    check_distinct(&infos, &weights);
}

/// Checks moments and tails of numbers that are to be normal, each to five standard errors.
fn check_normal(name: &str, values: &[f64]) {
    let n = values.len() as f64;
    let mean_of = |f: &dyn Fn(f64) -> f64| values.iter().map(|&v| f(v)).sum::<f64>() / n;
    let share = |limit: f64| mean_of(&|v| f64::from(u8::from(v.abs() < limit)));
    for (what, found, expected, variance) in [
        ("mean", mean_of(&|v| v), 0.0, 1.0),
        ("mean square", mean_of(&|v| v * v), 1.0, 2.0),
        ("mean cube", mean_of(&|v| v * v * v), 0.0, 15.0),
        ("mean fourth power", mean_of(&|v| v.powi(4)), 3.0, 96.0),
        ("share within 1", share(1.0), 0.682_689_5, 0.216_6),
        ("share within 2", share(2.0), 0.954_499_7, 0.043_4),
        ("correlation of neighbours", values.windows(2).map(|w| w[0] * w[1]).sum::<f64>() / n, 0.0, 1.0),
    ] {
        let error = 5.0 * (variance / n).sqrt();
        assert!((found - expected).abs() < error, "{name}: {what} is {found}, not {expected} ± {error}");
    }
}

/// Checks that arrays of one shape have no row in common.
fn check_distinct(infos: &[ParameterInfo], weights: &[HostArray]) {
    let mut rows = BTreeSet::new();
    for (info, weights) in infos.iter().zip(weights) {
        if let Init::Normal { .. } = info.init {
            let row_bytes = info.shape[1] * 4;
            for (index, row) in weights.bytes().chunks_exact(row_bytes).enumerate() {
                assert!(rows.insert(row), "{}: row {index} was drawn before", info.name);
            }
        }
    }
}

/// Checks the bytes of the state on each device, before and after a step; gives those of all padding.
fn check_bytes(name: &str, dim_rule: DimRule) -> usize {
    const DEVICES: usize = 8;
    let model = oracle_model(name);
    let step = step(&model, "fsdp=8", dim_rule);
    let kept = |kind| matches!(kind, ArgumentKind::Parameter | ArgumentKind::State { .. });
    let planned: Vec<_> = step.plan().arguments().iter().filter(|a| kept(a.kind)).collect();
    assert_eq!(planned.len(), 3 * parameters(&model.config).len());
    for argument in &planned {
        let all = argument.ty.byte_count() + argument.padding_bytes;
        assert_eq!(argument.bytes_per_device * DEVICES, all, "{} is not split", argument.name);
    }
    let elements: usize = parameters(&model.config).iter().map(ParameterInfo::element_count).sum();
    let padding: usize = planned.iter().map(|a| a.padding_bytes).sum();
    let each = (3 * 4 * elements + padding) / DEVICES;
    assert_eq!(step.plan().state_bytes(), (3 * 4 * elements, each));

    let state = fresh(&step, 1);
    assert_eq!(state.bytes_on_devices().unwrap(), [each; DEVICES], "{name} before a step");
    let batch = &oracle_batches()[0];
    let ids: Vec<i32> =
        batch.to_f64().iter().map(|&id| id as i32 % model.config.vocab_size() as i32).collect();
    let batch = HostArray::from_slice(&BATCH, &ids).unwrap();
    let (state, metrics) = step.run(&runtime(8), state, &[&batch, &batch], 20.0).unwrap();
    assert!(metrics.read().unwrap().loss.is_finite());
    assert_eq!(state.bytes_on_devices().unwrap(), [each; DEVICES], "{name} after a step");
    padding
}

#[test]
fn each_device_holds_its_share_of_the_state() {
    assert_eq!(check_bytes("base", DimRule::LargestDivisible), 0);
    assert_eq!(check_bytes("odd", DimRule::LargestDivisible), 0);
    assert!(check_bytes("odd", DimRule::StrictLargest) > 0);
}
