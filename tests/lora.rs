//! Adapters against PEFT: losses and gradient norms of training them, on one device and on eight, and what is left alone.
//! `tests/data/lora/make.py` made what is expected.

mod support;

use std::collections::BTreeMap;

use serde::Deserialize;
use shardwright_checkpoint::HfWeights;
use shardwright_hlo::compiled::CollectiveKind;
use shardwright_mesh::AbstractMesh;
use shardwright_model::{Init, Lora, LoraConfig, parameter_count};
use shardwright_partition::{Lowering, PlanOptions};
use shardwright_tensor::DType;
use shardwright_train::{
    CausalLm, GroupConfig, Model, PrecisionConfig, StepConfig, TrainState, TrainStep, WeightSource,
};
use support::{CompiledStep, data, oracle_batches, oracle_model, oracle_step, runtime};

const TOLERANCE: f64 = 2e-5;

/// What `make.py` wrote.
#[derive(Deserialize)]
struct Expected {
    learning_rate: f64,
    cases: BTreeMap<String, Case>,
}

#[derive(Deserialize)]
struct Case {
    trained: usize,
    total: usize,
    loss: Vec<f64>,
    grad_norm: Vec<f64>,
}

impl Expected {
    fn read() -> Expected {
        serde_json::from_slice(&std::fs::read(data("lora/curves.json")).unwrap()).unwrap()
    }
}

/// The base model with the adapters of a case.
fn adapted(case: &str) -> CausalLm {
    let text = std::fs::read_to_string(data("lora").join(case).join("adapter_config.json")).unwrap();
    let model = oracle_model("base");
    let lora = Lora::new(&LoraConfig::parse(&text, "adapter_config.json").unwrap(), &model.config).unwrap();
    CausalLm { lora: Some(lora), ..model }
}

fn step_config(model: &CausalLm, lowering: Lowering) -> StepConfig {
    StepConfig {
        groups: GroupConfig { learning_rate: Expected::read().learning_rate, ..GroupConfig::default() },
        lowering,
        ..oracle_step(model, PlanOptions::default())
    }
}

fn base() -> HfWeights {
    HfWeights::open(data("oracle/models/base")).unwrap()
}

fn adapter(case: &str) -> HfWeights {
    HfWeights::open(data("lora").join(case).join("adapter_model.safetensors")).unwrap()
}

/// The losses and gradient norms of the steps of a case.
fn follow(case: &str, mesh: &str, change: impl FnOnce(&mut StepConfig), steps: usize) -> Vec<(f64, f64)> {
    let runtime = runtime(AbstractMesh::parse(mesh).unwrap().size());
    let mesh = runtime.mesh(mesh).unwrap();
    let model = adapted(case);
    let mut config = step_config(&model, Lowering::default());
    change(&mut config);
    let step = TrainStep::compile(&runtime, &mesh, &model, &config).unwrap();
    let (base, adapter) = (base(), adapter(case));
    let source = WeightSource::Adapted { base: &base, adapter: Some(&adapter), seed: 0 };
    let mut state = TrainState::new(&runtime, &step, source).unwrap();
    let mut readings = Vec::new();
    for batch in &oracle_batches()[..steps] {
        let (next, metrics) = step.run(&runtime, state, &[batch, batch], 1.0).unwrap();
        state = next;
        let reading = metrics.read().unwrap();
        readings.push((reading.loss, reading.grad_norm));
    }
    readings
}

#[track_caller]
fn check(case: &str, mesh: &str, change: impl FnOnce(&mut StepConfig)) {
    let expected = &Expected::read().cases[case];
    let readings = follow(case, mesh, change, expected.loss.len());
    for (step, (loss, norm)) in readings.into_iter().enumerate() {
        let far = ((loss - expected.loss[step]).abs(), (norm / expected.grad_norm[step] - 1.0).abs());
        // A NaN is not near.
        let is_near = far.0 <= TOLERANCE && far.1 <= TOLERANCE;
        assert!(is_near, "{case} {mesh}, step {step}: loss {loss}, norm {norm}, apart {far:?}");
    }
}

#[test]
fn adapters_of_named_projections_follow_peft() {
    check("projections", "fsdp=1", |_| {});
    check("projections", "fsdp=8", |step| step.remat = true);
}

#[test]
fn adapters_by_patterns_and_modules_in_full_follow_peft() {
    check("patterns", "fsdp=1", |step| step.remat = true);
    check("patterns", "fsdp=8", |_| {});
}

#[test]
fn adapters_of_all_projections_follow_peft() {
    check("all", "data=2,fsdp=4", |step| step.remat = true);
    check("all", "fsdp=8", |step| step.lowering = Lowering::Annotate);
    check("all", "fsdp=2,tensor=4", |step| step.lowering = Lowering::Annotate);
}

#[test]
fn micro_batches_make_the_same_steps() {
    check("projections", "fsdp=4", |step| step.gradient_accumulation_steps = 2);
}

#[test]
fn as_much_is_trained_as_peft_counts() {
    for (name, case) in Expected::read().cases {
        let model = adapted(&name);
        let size = |trained: bool| -> usize {
            let of_kind = model.parameters().into_iter().filter(|p| !trained || model.trains(p));
            of_kind.map(|p| p.element_count()).sum()
        };
        // PEFT counts what is trained in full a second time, as it keeps a copy.
        let lora = model.lora.as_ref().unwrap();
        let copied = size(true) - lora.parameters().iter().map(|p| p.element_count()).sum::<usize>();
        assert_eq!((size(true), size(false) + copied), (case.trained, case.total), "{name}");
        assert_eq!(size(false) - size(true) + copied, parameter_count(&model.config), "{name}");
    }
}

#[test]
fn nothing_is_kept_or_reduced_for_what_is_frozen() {
    for lowering in [Lowering::default(), Lowering::Annotate] {
        let model = adapted("projections");
        let config = step_config(&model, lowering);
        let step = CompiledStep::new(&model, "fsdp=8", &config);
        let bytes = |kind| step.bytes(kind, "fsdp").iter().sum::<usize>();
        let reduced = bytes(CollectiveKind::AllReduce) + bytes(CollectiveKind::ReduceScatter);
        let trained: usize =
            model.lora.iter().flat_map(Lora::parameters).map(|p| p.element_count() * 4).sum();
        // Beside the gradients: loss, count, and their norms.
        assert!(reduced <= trained + 1024, "{reduced} of {trained}: {:#?}", step.program.collectives);
        assert!(step.count(CollectiveKind::AllGather) > 0);
    }
}

#[test]
fn a_base_in_bf16_has_adapters_in_f32() {
    let runtime = runtime(8);
    let mesh = runtime.mesh("fsdp=8").unwrap();
    let model = adapted("patterns");
    let precision =
        PrecisionConfig { weights: DType::Bf16, compute: DType::Bf16, reduce: DType::F32, masters: true };
    let config = StepConfig { precision, remat: true, ..step_config(&model, Lowering::default()) };
    let step = TrainStep::compile(&runtime, &mesh, &model, &config).unwrap();
    let (base, adapter) = (base(), adapter("patterns"));
    let source = WeightSource::Adapted { base: &base, adapter: Some(&adapter), seed: 0 };
    let state = TrainState::new(&runtime, &step, source).unwrap();
    for (info, array) in step.parameters().iter().zip(&state.parameters) {
        let expected = if model.trains(info) { DType::F32 } else { DType::Bf16 };
        assert_eq!(array.ty().dtype, expected, "{}", info.name);
    }
    assert!(state.state.iter().all(|kept| kept.ty().dtype == DType::F32));
    let expected = &Expected::read().cases["all"];
    let readings = follow("all", "fsdp=8", |step| step.precision = precision, expected.loss.len());
    for (step, (loss, _)) in readings.into_iter().enumerate() {
        assert!(
            (loss - expected.loss[step]).abs() <= 5e-3,
            "step {step}: {loss} for {}",
            expected.loss[step]
        );
    }
}

#[test]
fn fresh_adapters_are_the_same_on_any_mesh_and_begin_without_effect() {
    let model = adapted("projections");
    let drawn = |mesh: &str| {
        let runtime = runtime(AbstractMesh::parse(mesh).unwrap().size());
        let mesh = runtime.mesh(mesh).unwrap();
        let step =
            TrainStep::compile(&runtime, &mesh, &model, &step_config(&model, Lowering::default())).unwrap();
        let base = base();
        let source = WeightSource::Adapted { base: &base, adapter: None, seed: 3 };
        let state = TrainState::new(&runtime, &step, source).unwrap();
        let arrays = step.parameters().iter().zip(&state.parameters);
        let adapters = arrays.filter(|(info, _)| model.trains(info));
        adapters.map(|(info, array)| (info.clone(), array.to_host().unwrap().to_f64())).collect::<Vec<_>>()
    };
    let one = drawn("fsdp=1");
    assert_eq!(one, drawn("fsdp=8"));
    for (info, values) in one {
        let Init::Uniform { bound } = info.init else {
            assert!(values.iter().all(|&v| v == 0.0), "{}", info.name);
            continue;
        };
        assert!((bound - 1.0 / 128f64.sqrt()).abs() < 1e-12);
        assert!(values.iter().all(|v| v.abs() <= bound));
        // The variance of a uniform distribution is a third of its bound's square.
        let variance = values.iter().map(|v| v * v).sum::<f64>() / values.len() as f64;
        assert!((variance / (bound * bound / 3.0) - 1.0).abs() < 0.2, "{}: {variance}", info.name);
    }
}
