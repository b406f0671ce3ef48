//! Updates and learning rates are those of PyTorch and transformers, however parameters are split; clipping, and
//! parameters that are not trained.

mod support;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;
use shardwright_checkpoint::HfWeights;
use shardwright_graph::{Graph, GraphError, Value};
use shardwright_hlo::compiled::CollectiveKind;
use shardwright_hlo::{ArgumentKind, Precision};
use shardwright_model::{Init, ModuleInfo, ParameterInfo, ParameterKind};
use shardwright_partition::explain::{Explanation, Grade, Purpose, Reduced, Subject};
use shardwright_partition::{DimRule, Lowering, PlanOptions, WrapConfig, WrapPolicy};
use shardwright_tensor::{DType, HostArray, TensorType};
use shardwright_train::{
    Adafactor, AdamW, BatchInput, CausalLm, Clipping, Curve, GroupConfig, GroupRule, Lion, Model, ModelLoss,
    Momentum, Optimizer, PendingMetrics, PrecisionConfig, Schedule, ScheduleConfig, ScheduleKind, Sgd,
    StableDecay, StepConfig, TrainState, TrainStep, Warmup, WeightSource,
};
use support::{CompiledStep, data, oracle_model, oracle_step, runtime};

const EXAMPLES: usize = 8;
const TOLERANCE: f64 = 1e-6;

/// The gradients of each parameter, step by step.
type Gradients = BTreeMap<String, Vec<Vec<f32>>>;

/// What a script made of the real optimizers.
#[derive(Deserialize)]
struct Updates {
    shapes: BTreeMap<String, Vec<usize>>,
    /// The gradient of each parameter at each step.
    gradients: Gradients,
    /// By optimizer, the parameters after each step.
    updates: BTreeMap<String, Vec<BTreeMap<String, Vec<f64>>>>,
}

impl Updates {
    fn read() -> Updates {
        let text = std::fs::read_to_string(data("optimizers/updates.json")).unwrap();
        serde_json::from_str(&text).unwrap()
    }
}

/// A model whose batch says what its gradients are: the loss is the sum of products of both, and each of the examples
/// has the whole of the gradients.
struct Given {
    shapes: BTreeMap<String, Vec<usize>>,
}

impl Given {
    /// A batch of these gradients, in the order of the parameters.
    fn examples<'a>(&self, gradients: impl Iterator<Item = &'a [f32]>) -> Vec<HostArray> {
        let ones = HostArray::from_slice(&[EXAMPLES], &[1i32; EXAMPLES]).unwrap();
        let example = |(shape, gradient): (&Vec<usize>, &[f32])| {
            let dims = [&[EXAMPLES], &shape[..]].concat();
            HostArray::from_slice(&dims, &gradient.repeat(EXAMPLES)).unwrap()
        };
        [ones].into_iter().chain(self.shapes.values().zip(gradients).map(example)).collect()
    }
}

impl Model for Given {
    fn parameters(&self) -> Vec<ParameterInfo> {
        let info = |(name, shape): (&String, &Vec<usize>)| {
            let (name, shape) = (name.clone(), shape.clone());
            ParameterInfo { name, shape, init: Init::Zeros, kind: ParameterKind::Matrix }
        };
        self.shapes.iter().map(info).collect()
    }

    fn modules(&self) -> Vec<ModuleInfo> {
        vec![ModuleInfo { path: String::new(), class: "Given" }]
    }

    fn batch(&self, examples: usize) -> Result<Vec<BatchInput>, GraphError> {
        let input = |name, dtype, dims: &[usize]| {
            let dims = [&[examples], dims].concat();
            Ok(BatchInput { name, ty: TensorType::new(dtype, dims)? })
        };
        let names = ["a", "b", "c", "d", "e", "f"].into_iter();
        let gradients = names.zip(self.shapes.values()).map(|(name, shape)| input(name, DType::F32, shape));
        [input("ones", DType::S32, &[])].into_iter().chain(gradients).collect()
    }

    fn loss(&self, g: &Graph, parameters: &[Value], batch: &[Value]) -> Result<ModelLoss, GraphError> {
        let mut sum = g.full(DType::F32, &[], 0.0)?;
        for (&parameter, &gradient) in parameters.iter().zip(&batch[1..]) {
            let dims = g.dims(gradient);
            let within: Vec<usize> = (1..dims.len()).collect();
            let weight = g.broadcast_in_dim(g.weight(parameter)?, &dims, &within)?;
            let all: Vec<usize> = (0..dims.len()).collect();
            sum = g.add(sum, g.sum(g.mul(weight, gradient)?, &all)?)?;
        }
        Ok(ModelLoss { sum, count: g.sum(batch[0], &[0])? })
    }
}

fn given_step(optimizer: Arc<dyn Optimizer>, dim_rule: DimRule, lowering: Lowering) -> StepConfig {
    StepConfig {
        global_batch_size: EXAMPLES,
        gradient_accumulation_steps: 1,
        precision: PrecisionConfig::default(),
        dot_precision: Precision::Default,
        optimizer,
        groups: GroupConfig { learning_rate: 0.1, ..GroupConfig::default() },
        clipping: Clipping::default(),
        wrap: WrapPolicy::resolve(&WrapConfig::None, &[], &[]).unwrap(),
        remat: false,
        plan: PlanOptions { dim_rule, ..PlanOptions::default() },
        lowering,
    }
}

/// Takes steps with the stored gradients, and gives the last one's metrics.
fn run(
    config: &StepConfig,
    mesh: &str,
    gradients: &Gradients,
    mut each: impl FnMut(usize, &str, Vec<f64>),
) -> (TrainStep, PendingMetrics) {
    let model = Given { shapes: Updates::read().shapes };
    let runtime = runtime(shardwright_mesh::AbstractMesh::parse(mesh).unwrap().size());
    let step = TrainStep::compile(&runtime, &runtime.mesh(mesh).unwrap(), &model, config).unwrap();
    let weights = HfWeights::open(data("optimizers")).unwrap();
    let mut state = TrainState::new(&runtime, &step, WeightSource::Files(&weights)).unwrap();
    let mut last = None;
    for index in 0..gradients["matrix"].len() {
        let batch = model.examples(gradients.values().map(|steps| &steps[index][..]));
        let batch: Vec<&HostArray> = batch.iter().collect();
        let (next, metrics) = step.run(&runtime, state, &batch, 1.0).unwrap();
        state = next;
        for (name, parameter) in model.shapes.keys().zip(&state.parameters) {
            each(index, name, parameter.to_host().unwrap().to_f64());
        }
        last = Some(metrics);
    }
    (step, last.unwrap())
}

/// Follows the stored updates on one device and on several, split evenly and with padding, in both lowerings.
#[track_caller]
fn check(name: &str, weight_decay: f64, optimizer: impl Optimizer + 'static) {
    let stored = Updates::read();
    let expected = &stored.updates[name];
    let optimizer: Arc<dyn Optimizer> = Arc::new(optimizer);
    let places = [
        ("fsdp=1", DimRule::default(), Lowering::Auto),
        ("fsdp=8", DimRule::StrictLargest, Lowering::Explicit),
        ("data=2,fsdp=4", DimRule::Dim0, Lowering::Explicit),
        ("fsdp=8", DimRule::Dim0, Lowering::Annotate),
    ];
    for (mesh, dim_rule, lowering) in places {
        let mut config = given_step(optimizer.clone(), dim_rule, lowering);
        config.groups.weight_decay = weight_decay;
        run(&config, mesh, &stored.gradients, |step, parameter, found| {
            let expected = &expected[step][parameter];
            assert_eq!(found.len(), expected.len(), "{parameter}");
            for (found, expected) in found.iter().zip(expected) {
                let distance = (found - expected).abs();
                assert!(
                    distance <= TOLERANCE * expected.abs().max(1.0),
                    "{name} on {mesh}, {lowering:?}, {dim_rule:?}: {parameter} at step {step}: {found}, not {expected}"
                );
            }
        });
    }
}

#[test]
fn adafactor_is_transformers() {
    check("adafactor", 0.0, Adafactor::default());
}

#[test]
fn adafactor_with_all_options_is_transformers() {
    let adafactor = Adafactor {
        beta1: Some(0.9),
        parameter_scale: Some(1e-3),
        clip_threshold: 0.5,
        ..Adafactor::default()
    };
    check("adafactor_all", 0.1, adafactor);
}

#[test]
fn adamw_is_pytorchs() {
    check("adamw", 0.1, AdamW::default());
}

#[test]
fn sgd_is_pytorchs() {
    check("sgd", 0.1, Sgd::default());
    let momentum = Some(Momentum::Classic { momentum: 0.9, dampening: 0.3 });
    check("sgd_momentum", 0.1, Sgd { momentum });
    check("sgd_nesterov", 0.1, Sgd { momentum: Some(Momentum::Nesterov { momentum: 0.9 }) });
}

#[test]
fn lion_is_its_papers() {
    check("lion", 0.1, Lion { beta1: 0.9, beta2: 0.99 });
}

/// Numbers that can be worked out by hand: what is subtracted at a learning rate of 1.
#[test]
fn first_updates_of_adafactor_are_known() {
    let mut config = given_step(Arc::new(Adafactor::default()), DimRule::StrictLargest, Lowering::Explicit);
    config.groups.learning_rate = 1.0;
    let stored = Updates::read();
    let weights = HfWeights::open(data("optimizers")).unwrap();
    let read = |name: &str| weights.read(name).unwrap().to_f64();
    let mut before = BTreeMap::from(["square", "pair"].map(|name| (name.to_owned(), read(name))));
    let expected = [
        ("square", 0, vec![0.774597, 1.095445, 1.039230, 0.979796]),
        ("pair", 0, vec![1.0, 1.0]),
        ("square", 1, vec![1.359877, 1.071778, 0.751042, 0.394619]),
    ];
    run(&config, "fsdp=8", &stored.gradients, |step, parameter, after| {
        let Some(before) = before.get_mut(parameter) else { return };
        let is_known = |(name, at, _): &&(&str, usize, Vec<f64>)| *name == parameter && *at == step;
        if let Some((_, _, expected)) = expected.iter().find(is_known) {
            for ((before, after), expected) in before.iter().zip(&after).zip(expected) {
                assert!((before - after - expected).abs() <= 1e-6, "{parameter} at step {step}: {after}");
            }
        }
        *before = after;
    });
}

#[test]
fn learning_rates_are_transformers() {
    let text = std::fs::read_to_string(data("optimizers/schedules.json")).unwrap();
    let stored: BTreeMap<String, Vec<f64>> = serde_json::from_str(&text).unwrap();
    let decay = StableDecay {
        warmup: Curve::Linear,
        stable_steps: None,
        decay_steps: 6,
        decay: Curve::Cosine,
        floor: 0.0,
        cycles: 0.5,
    };
    let all = StableDecay {
        warmup: Curve::Cosine,
        stable_steps: Some(5),
        decay: Curve::OneMinusSqrt,
        floor: 0.1,
        ..decay
    };
    let waves = StableDecay { warmup: Curve::OneMinusSqrt, cycles: 1.0, ..decay };
    let schedules = [
        ("linear", 4, ScheduleKind::Linear),
        ("constant", 0, ScheduleKind::Constant),
        ("constant_with_warmup", 4, ScheduleKind::Constant),
        ("cosine", 4, ScheduleKind::Cosine { cycles: 0.5, floor: 0.0 }),
        ("cosine_waves", 0, ScheduleKind::Cosine { cycles: 1.5, floor: 0.0 }),
        ("cosine_with_restarts", 4, ScheduleKind::CosineWithRestarts { cycles: 3 }),
        ("polynomial", 4, ScheduleKind::Polynomial { power: 2.0, end: 0.1 }),
        ("inverse_sqrt", 4, ScheduleKind::InverseSqrt { timescale: None }),
        ("inverse_sqrt_timescale", 4, ScheduleKind::InverseSqrt { timescale: Some(9) }),
        ("cosine_with_min_lr", 4, ScheduleKind::Cosine { cycles: 0.5, floor: 0.2 }),
        ("warmup_stable_decay", 4, ScheduleKind::WarmupStableDecay(decay)),
        ("warmup_stable_decay_all", 4, ScheduleKind::WarmupStableDecay(all)),
        ("warmup_stable_decay_waves", 4, ScheduleKind::WarmupStableDecay(waves)),
    ];
    assert_eq!(stored.len(), schedules.len());
    for (name, warmup, kind) in schedules {
        let schedule = Schedule::new(&ScheduleConfig { kind, warmup: Warmup::Steps(warmup) }, 20);
        for (step, expected) in stored[name].iter().enumerate() {
            let found = schedule.factor(step);
            assert!((found - expected).abs() <= 1e-12, "{name} at step {step}: {found}, not {expected}");
        }
    }
}

/// The gradients as descent with a learning rate of 1 shows them.
fn clipped(clipping: Clipping, mesh: &str, lowering: Lowering) -> BTreeMap<String, Vec<f64>> {
    let mut config = given_step(Arc::new(Sgd::default()), DimRule::StrictLargest, lowering);
    config.groups.learning_rate = 1.0;
    config.clipping = clipping;
    let weights = HfWeights::open(data("optimizers")).unwrap();
    let mut gradients = Updates::read().gradients;
    gradients.values_mut().for_each(|steps| steps.truncate(1));
    let mut found = BTreeMap::new();
    let (_, metrics) = run(&config, mesh, &gradients, |_, name, after| {
        let before = weights.read(name).unwrap().to_f64();
        found.insert(name.to_owned(), before.iter().zip(after).map(|(b, a)| b - a).collect());
    });
    // Whatever is clipped, the norm that is told is of all, and of before.
    let norm =
        gradients.values().flat_map(|steps| &steps[0]).map(|g| f64::from(*g).powi(2)).sum::<f64>().sqrt();
    let told = metrics.read().unwrap().grad_norm;
    assert!((told / norm - 1.0).abs() <= 1e-6, "{mesh}: {told}, not {norm}");
    found
}

#[test]
fn what_is_clipped_is_what_was_named() {
    let stored = Updates::read();
    let first = |name: &str| stored.gradients[name][0].iter().map(|g| f64::from(*g));
    let norm = first("cube").chain(first("vector")).map(|g| g * g).sum::<f64>().sqrt();
    let within = || ["cube", "vector"].map(|name| name.parse().unwrap()).into();
    for (mesh, lowering) in
        [("fsdp=1", Lowering::Auto), ("fsdp=8", Lowering::Explicit), ("data=2,fsdp=4", Lowering::Annotate)]
    {
        let by_norm = clipped(Clipping { norm: Some(0.5), value: None, within: within() }, mesh, lowering);
        let by_value = clipped(Clipping { norm: None, value: Some(0.25), within: within() }, mesh, lowering);
        let above = clipped(Clipping { norm: Some(1e6), ..Clipping::default() }, mesh, lowering);
        for name in stored.shapes.keys() {
            let is_clipped = ["cube", "vector"].contains(&name.as_str());
            for (index, gradient) in first(name).enumerate() {
                let scaled = if is_clipped { gradient * 0.5 / (norm + 1e-6) } else { gradient };
                let cut = if is_clipped { gradient.clamp(-0.25, 0.25) } else { gradient };
                for (found, expected) in [(&by_norm, scaled), (&by_value, cut), (&above, gradient)] {
                    let found = found[name][index];
                    assert!((found - expected).abs() <= 1e-6, "{name} on {mesh}: {found}, not {expected}");
                }
            }
        }
    }
}

#[test]
fn what_is_not_finite_is_named() {
    let first_bad = |spoil: fn(&mut Gradients)| {
        let mut gradients = Updates::read().gradients;
        gradients.values_mut().for_each(|steps| steps.truncate(1));
        spoil(&mut gradients);
        let config = given_step(Arc::new(Sgd::default()), DimRule::StrictLargest, Lowering::Explicit);
        let (step, metrics) = run(&config, "fsdp=8", &gradients, |_, _, _| {});
        metrics.first_bad(&step).unwrap()
    };
    assert_eq!(first_bad(|_| {}), None);
    assert_eq!(first_bad(|g| g.get_mut("few").unwrap()[0][3] = f32::NAN).as_deref(), Some("the loss"));
    // Its product with a weight is finite, and its square is not.
    let large = first_bad(|g| {
        g.get_mut("matrix").unwrap()[0][7] = 1e30;
        g.get_mut("square").unwrap()[0][1] = 1e30;
    });
    assert_eq!(large.as_deref(), Some("the gradient of matrix"));
    // No square overflows, and their sum does.
    let many = first_bad(|g| g.get_mut("few").unwrap()[0].fill(1.8e19));
    assert_eq!(many.as_deref(), Some("the gradient of few"));
}

#[test]
fn norms_of_gradients_are_those_of_the_whole() {
    let stored = Updates::read();
    let last = |name: &str| stored.gradients[name].last().unwrap().iter().map(|g| f64::from(*g));
    for (mesh, lowering) in [("fsdp=8", Lowering::Explicit), ("data=2,fsdp=4", Lowering::Annotate)] {
        let config = given_step(Arc::new(Sgd::default()), DimRule::StrictLargest, lowering);
        let (step, metrics) = run(&config, mesh, &stored.gradients, |_, _, _| {});
        let norms = metrics.norms(&step).unwrap();
        assert_eq!(norms.len(), stored.shapes.len());
        let mut global = 0.0;
        for (name, norm) in norms {
            let square: f64 = last(name).map(|g| g * g).sum();
            assert!((norm / square.sqrt() - 1.0).abs() <= 1e-6, "{name} on {mesh}: {norm}");
            global += square;
        }
        let found = metrics.read().unwrap().grad_norm;
        assert!((found / global.sqrt() - 1.0).abs() <= 1e-6, "{mesh}: {found}");
    }
}

/// Modules that are not trained.
const FROZEN: [&str; 3] = ["embed_tokens", "layers.0", "layers.1.mlp"];

fn is_frozen(name: &str) -> bool {
    ["embed_tokens.", "layers.0.", "layers.1.mlp."].iter().any(|frozen| name.contains(frozen))
}

/// A step of the quickstart's decoder that trains the other modules.
fn frozen_step(lowering: Lowering) -> StepConfig {
    let rule = |pattern: &str| GroupRule {
        pattern: pattern.parse().unwrap(),
        learning_rate: None,
        weight_decay: None,
        trained: false,
    };
    let groups = GroupConfig { rules: FROZEN.map(rule).into(), ..GroupConfig::default() };
    StepConfig { groups, lowering, ..oracle_step(&oracle_model("base"), PlanOptions::default()) }
}

#[test]
fn nothing_is_reduced_for_what_is_not_trained() {
    check_not_reduced(|_| {});
}

#[test]
fn nothing_is_reduced_for_what_is_not_trained_in_micro_batches_and_bf16() {
    check_not_reduced(|config| {
        (config.global_batch_size, config.gradient_accumulation_steps) = (16, 2);
        (config.precision.weights, config.precision.compute) = (DType::Bf16, DType::Bf16);
    });
}

#[track_caller]
fn check_not_reduced(change: impl Fn(&mut StepConfig)) {
    for lowering in [Lowering::Explicit, Lowering::Annotate] {
        let model = oracle_model("base");
        let mut config = frozen_step(lowering);
        change(&mut config);
        let explanation = explain(&model, &config);
        for parameter in &explanation.parameters {
            let is_reduced = parameter.reduced != Reduced::Nowhere;
            assert_eq!(is_reduced, !is_frozen(&parameter.name), "{}\n{explanation}", parameter.name);
            if is_frozen(&parameter.name) {
                assert_eq!(parameter.verdict.grade, Grade::AsPlanned, "{explanation}");
            }
        }
        // As far as bytes go: beside gradients, the loss, its count and the norms are summed.
        let trained = model.parameters().into_iter().filter(|p| !is_frozen(&p.name));
        let trained: usize = trained.map(|p| p.element_count() * 4).sum();
        let compiled = CompiledStep::new(&model, "fsdp=8", &config);
        let summed = compiled.bytes(CollectiveKind::AllReduce, "fsdp").iter().sum::<usize>()
            + 8 * compiled.bytes(CollectiveKind::ReduceScatter, "fsdp").iter().sum::<usize>();
        assert!(summed <= trained + 1024, "{summed} bytes of {trained}");
    }
}

#[test]
fn nothing_is_kept_for_what_is_not_trained() {
    let model = oracle_model("base");
    let module = frozen_step(Lowering::Explicit).module(&model).unwrap();
    let kept = module.arguments.iter().filter(|a| matches!(a.kind, ArgumentKind::State { .. }));
    let kept: Vec<&str> = kept.map(|a| a.name.as_str()).collect();
    assert!(kept.contains(&"model.layers.1.self_attn.q_proj.weight.exp_avg"), "{kept:?}");
    assert!(!kept.iter().any(|name| is_frozen(name)), "{kept:?}");
}

#[test]
fn what_adafactor_sums_is_no_gradient() {
    let model = oracle_model("base");
    let optimizer = Arc::new(Adafactor::default());
    let lowering = Lowering::Explicit;
    let config = StepConfig { optimizer, lowering, ..oracle_step(&model, PlanOptions::default()) };
    let explanation = explain(&model, &config);
    assert_eq!(explanation.verdict.grade, Grade::AsPlanned, "{explanation}");
    let gradients = explanation.traffic.iter().find(|row| row.purpose == Purpose::Gradient).unwrap();
    assert_eq!(Some(gradients.actual), gradients.predicted, "{explanation}");
}

/// What is said of a step on eight devices.
fn explain(model: &CausalLm, config: &StepConfig) -> Explanation {
    let step = TrainStep::compile(&runtime(8), &runtime(8).mesh("fsdp=8").unwrap(), model, config).unwrap();
    let subject = Subject::of_module(&config.module(model).unwrap(), step.plan(), &config.wrap);
    Explanation::new(&step.executable().compiled().unwrap().unwrap(), &subject, None)
}
