//! The dtypes of a run, and the precision of its products.

mod follow;
mod support;

use std::collections::BTreeSet;

use follow::Followed;
use shardwright_hlo::compiled::CollectiveKind;
use shardwright_hlo::{ArgumentKind, Module, Op, Precision};
use shardwright_mesh::AbstractMesh;
use shardwright_model::ModelConfig;
use shardwright_partition::{Lowering, PlanOptions};
use shardwright_runtime::topology::{Topology, TopologyOptions};
use shardwright_tensor::DType;
use shardwright_train::{PrecisionConfig, StepConfig, TrainError, TrainState, TrainStep, WeightSource};
use support::{
    BATCH, causal_lm, in_a_tpu_child, model_of_whole_tiles, oracle_batches, oracle_model, oracle_step,
    runtime,
};

const BF16: PrecisionConfig =
    PrecisionConfig { weights: DType::Bf16, compute: DType::Bf16, reduce: DType::F32, masters: true };

/// How near losses in bf16 come to each other; those of bf16 and of f32 weights are up to 0.04 apart.
const LOSS_TOLERANCE: f64 = 5e-3;

/// Follows the curve with these dtypes.
#[track_caller]
fn check(name: &str, mesh: &str, precision: PrecisionConfig) {
    let mut followed = Followed::new(name);
    followed.step.precision = precision;
    let (loss, norm) = followed.distance(&followed.readings(mesh));
    assert!(loss <= LOSS_TOLERANCE, "{name} on {mesh}: loss {loss:.1e}, norm {norm:.1e}");
}

#[test]
fn with_masters_bf16_is_as_good_as_f32() {
    check("adamw_fp32_lr2e-3", "fsdp=2", BF16);
    check("adafactor_fp32_lr2e-3", "data=2,fsdp=2", PrecisionConfig { reduce: DType::Bf16, ..BF16 });
}

#[test]
fn without_masters_losses_are_those_of_bf16_weights() {
    let rounded = PrecisionConfig { masters: false, ..BF16 };
    check("adamw_bf16_lr2e-3", "fsdp=2", rounded);
    check("adamw_bf16", "fsdp=1", rounded);
    check("adafactor_bf16_lr2e-3", "data=2,fsdp=2", PrecisionConfig { reduce: DType::Bf16, ..rounded });
}

/// Losses of so many steps of a small decoder at a low learning rate, and each parameter before and after them.
fn at_a_low_rate(precision: PrecisionConfig, steps: usize) -> (Vec<f64>, Vec<MovedParameter>) {
    let text = r#"{"model_type": "llama", "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1,
        "num_attention_heads": 2, "vocab_size": 512}"#;
    let model = causal_lm(ModelConfig::parse(text, "config.json").unwrap(), BATCH[1]);
    let mut config =
        StepConfig { precision, lowering: Lowering::Explicit, ..oracle_step(&model, PlanOptions::default()) };
    config.groups.learning_rate = 1e-5;
    let runtime = runtime(4);
    let step = TrainStep::compile(&runtime, &runtime.mesh("fsdp=4").unwrap(), &model, &config).unwrap();
    let mut state = TrainState::new(&runtime, &step, WeightSource::Random { seed: 1 }).unwrap();
    let values = |state: &TrainState| -> Vec<Vec<f64>> {
        state.parameters.iter().map(|p| p.to_host().unwrap().to_f64()).collect()
    };
    let before = values(&state);
    let mut losses = Vec::with_capacity(steps);
    for ids in oracle_batches().iter().cycle().take(steps) {
        let (next, metrics) = step.run(&runtime, state, &[ids, ids], 1.0).unwrap();
        state = next;
        losses.push(metrics.read().unwrap().loss);
    }
    let moved = step.parameters().iter().zip(before.into_iter().zip(values(&state)));
    (losses, moved.map(|(info, (before, after))| (info.name.clone(), before, after)).collect())
}

/// A parameter's name, and its values before and after training.
type MovedParameter = (String, Vec<f64>, Vec<f64>);

/// How many values training has changed.
fn changed(before: &[f64], after: &[f64]) -> usize {
    before.iter().zip(after).filter(|(before, after)| before != after).count()
}

#[test]
fn masters_keep_updates_that_bf16_would_round_away() {
    let (expected, _) = at_a_low_rate(PrecisionConfig::default(), 200);
    let (losses, parameters) = at_a_low_rate(BF16, 200);
    for (step, (loss, expected)) in losses.iter().zip(&expected).enumerate() {
        assert!((loss / expected - 1.0).abs() <= 0.01, "step {step}: {loss}, with f32 {expected}");
    }
    assert!(losses[199] < losses[0], "{losses:?}");
    // Of a table of tokens, only rows that a batch asks for have a gradient.
    let ids = oracle_batches();
    let seen: BTreeSet<i32> = ids.iter().flat_map(|ids| ids.as_slice::<i32>().unwrap()).copied().collect();
    for (name, before, after) in &parameters {
        let is_table = name.contains("embed_tokens");
        let row = before.len() / 512;
        let has_gradient = |index: &usize| !is_table || seen.contains(&i32::try_from(index / row).unwrap());
        let with_gradient = (0..before.len()).filter(has_gradient).count();
        assert!(with_gradient > 0, "{name}");
        assert!(changed(before, after) * 100 >= with_gradient * 99, "{name}: {}", changed(before, after));
    }

    let (_, rounded) = at_a_low_rate(PrecisionConfig { masters: false, ..BF16 }, 10);
    let norms: Vec<_> = rounded.iter().filter(|(name, ..)| name.contains("norm")).collect();
    assert_eq!(norms.len(), 3);
    for (name, before, after) in norms {
        assert_eq!(changed(before, after), 0, "{name}");
    }
}

/// The step as it is given to the compiler for eight devices.
fn lowered(lowering: Lowering, change: impl FnOnce(&mut StepConfig)) -> Module {
    let followed = Followed::new("adamw_fp32");
    let mut config = StepConfig { lowering, ..followed.step };
    change(&mut config);
    let module = config.module(&followed.model).unwrap();
    let mesh = AbstractMesh::parse("fsdp=8").unwrap();
    let plan = config.sharding_plan(&followed.model, &module, &mesh).unwrap();
    config.lower(&followed.model, module, &plan).unwrap().module().clone().into_inner()
}

/// The dtypes that arrays have in the collectives of this name; scalars left out.
fn dtypes(module: &Module, name: &str) -> Vec<DType> {
    let of_name = module.all_instructions().into_iter().filter(|i| i.op.name() == name);
    let mut dtypes: Vec<DType> =
        of_name.map(|i| module.ty(i.results[0])).filter(|ty| ty.rank() > 0).map(|ty| ty.dtype).collect();
    assert!(!dtypes.is_empty(), "no {name}");
    dtypes.dedup();
    dtypes
}

#[test]
fn weights_travel_in_what_is_computed_and_gradients_in_what_they_are_reduced_in() {
    for steps in [1, 2] {
        for reduce in [DType::F32, DType::Bf16] {
            let module = lowered(Lowering::Explicit, |config| {
                config.global_batch_size = 16;
                config.gradient_accumulation_steps = steps;
                config.precision = PrecisionConfig { reduce, ..BF16 };
            });
            assert_eq!(dtypes(&module, "all_gather"), [DType::Bf16]);
            assert_eq!(dtypes(&module, "reduce_scatter"), [reduce]);
        }
    }
}

#[test]
fn what_is_kept_is_f32_but_for_weights_without_masters() {
    let kept = |masters: bool| {
        let module = lowered(Lowering::Annotate, |config| {
            config.precision = PrecisionConfig { masters, ..BF16 };
        });
        let arguments = module.arguments.iter();
        let kept =
            arguments.filter(|a| matches!(a.kind, ArgumentKind::Parameter | ArgumentKind::State { .. }));
        let mut dtypes: Vec<DType> = kept.map(|a| module.ty(a.value).dtype).collect();
        dtypes.dedup();
        dtypes
    };
    assert_eq!(kept(true), [DType::F32]);
    assert_eq!(kept(false), [DType::Bf16, DType::F32]);
}

#[test]
fn every_product_has_the_precision_that_was_asked_for() {
    for lowering in [Lowering::Explicit, Lowering::Annotate] {
        for precision in [Precision::Default, Precision::High, Precision::Highest] {
            let module = lowered(lowering, |config| {
                config.dot_precision = precision;
                config.remat = true;
            });
            let products = module.all_instructions().into_iter().filter_map(|i| match &i.op {
                Op::DotGeneral(dims) => Some(dims.precision),
                _ => None,
            });
            let products: Vec<Precision> = products.collect();
            assert!(products.len() > 30, "{}", products.len());
            assert!(products.iter().all(|found| *found == precision), "{lowering:?} {precision:?}");
        }
    }
}

#[test]
fn f16_is_refused() {
    let mut config = Followed::new("adamw_fp32").step;
    config.precision.compute = DType::F16;
    let error = config.module(&oracle_model("base")).unwrap_err();
    assert!(matches!(error, TrainError::Precision(_)), "{error}");
}

/// A TPU's compiler keeps collectives in the dtype that they are written in, where that of CPUs makes all of them f32.
#[test]
fn a_tpu_gathers_weights_in_bf16_and_scatters_gradients_in_f32() {
    if !in_a_tpu_child("a_tpu_gathers_weights_in_bf16_and_scatters_gradients_in_f32") {
        return;
    }
    let model = model_of_whole_tiles();
    let config = StepConfig {
        global_batch_size: 16,
        precision: BF16,
        lowering: Lowering::Explicit,
        ..oracle_step(&model, PlanOptions { min_shard_bytes: 4096, ..PlanOptions::default() })
    };
    let topology = Topology::open("v5e:4x4", &TopologyOptions::default()).unwrap();
    let placement = topology.place("fsdp=-1").unwrap();
    let module = config.module(&model).unwrap();
    let plan = config.sharding_plan(&model, &module, placement.mesh().shape()).unwrap();
    let plan = plan.placed(&placement).unwrap();
    let sharded = config.lower(&model, module, &plan).unwrap();
    let compiled = topology.compile(&sharded, placement.physical_mesh()).unwrap().compiled().unwrap();
    for (kind, dtype) in [(CollectiveKind::AllGather, "bf16"), (CollectiveKind::ReduceScatter, "f32")] {
        let of_kind = compiled.collectives.iter().filter(|c| c.kind == kind);
        let types: Vec<String> =
            of_kind.flat_map(|c| &c.pieces).map(|piece| piece.array.element_type.to_string()).collect();
        assert!(!types.is_empty() && types.iter().all(|ty| ty == dtype), "{kind}: {types:?}");
    }
}
