//! The numbers of training: losses and gradient norms equal those of plain PyTorch, on any mesh.

mod support;

use std::sync::Arc;

use shardwright_checkpoint::HfWeights;
use shardwright_partition::{DimRule, Lowering, PlanOptions, Strategy};
use shardwright_train::{
    Adafactor, AdamW, CausalLm, Clipping, GroupConfig, GroupRule, LossDenominator, Optimizer, Schedule,
    ScheduleConfig, ScheduleKind, StepConfig, StepReading, TrainState, TrainStep, Warmup, WeightSource,
};
use support::{Curve, CurveConfig, oracle_batches, oracle_masked_labels, oracle_model, oracle_step, runtime};

const LOSS_TOLERANCE: f64 = 2e-5;
const NORM_TOLERANCE: f64 = 2e-5;

/// How far a run may stand from its curve: the largest distance of a loss, and of a norm, relative.
struct Distance {
    loss: f64,
    norm: f64,
}

fn optimizer(config: &CurveConfig) -> Arc<dyn Optimizer> {
    match &*config.opt {
        "adamw" => Arc::new(AdamW::default()),
        "adafactor" => Arc::new(Adafactor::default()),
        other => panic!("no optimizer {other}"),
    }
}

fn groups(config: &CurveConfig) -> GroupConfig {
    let frozen = |pattern: &String| GroupRule {
        pattern: pattern.parse().unwrap(),
        learning_rate: None,
        weight_decay: None,
        trained: false,
    };
    GroupConfig {
        learning_rate: config.lr,
        weight_decay: config.weight_decay,
        rules: config.freeze.iter().map(frozen).collect(),
    }
}

fn schedule(config: &CurveConfig, steps: usize) -> Schedule {
    let kind = match &*config.schedule {
        "linear" => ScheduleKind::Linear,
        "cosine" => ScheduleKind::Cosine { cycles: 0.5, floor: 0.0 },
        other => panic!("no schedule {other}"),
    };
    Schedule::new(&ScheduleConfig { kind, warmup: Warmup::Steps(config.warmup) }, steps)
}

fn follow(
    curve: &Curve,
    config: &CurveConfig,
    denominator: LossDenominator,
    mesh: &str,
    remat: bool,
    plan: &PlanOptions,
    lowering: Lowering,
) -> Distance {
    let devices = shardwright_mesh::AbstractMesh::parse(mesh).unwrap().size();
    let runtime = runtime(devices);
    let mesh = runtime.mesh(mesh).unwrap();
    let model = CausalLm { denominator, ..oracle_model(config.model_name()) };
    let weights = HfWeights::open(config.weights()).unwrap();
    let step_config = StepConfig {
        optimizer: optimizer(config),
        groups: groups(config),
        clipping: Clipping { norm: Some(config.max_norm), ..Clipping::default() },
        remat,
        lowering,
        ..oracle_step(&model, plan.clone())
    };
    let step = TrainStep::compile(&runtime, &mesh, &model, &step_config).unwrap();
    let mut state = TrainState::new(&runtime, &step, WeightSource::Files(&weights)).unwrap();

    let schedule = schedule(config, curve.loss.len());
    let batches = oracle_batches();
    let labels = if config.masked { oracle_masked_labels() } else { oracle_batches() };
    let mut distance = Distance { loss: 0.0, norm: 0.0 };
    for (index, (batch, labels)) in batches.iter().zip(&labels).enumerate() {
        let factor = schedule.factor(index);
        let (next, metrics) = step.run(&runtime, state, &[batch, labels], factor).unwrap();
        state = next;
        let StepReading { loss, grad_norm: norm } = metrics.read().unwrap();
        // A NaN is as near to everything as it gets.
        assert!(loss.is_finite() && norm.is_finite(), "step {index}: loss {loss}, norm {norm}");
        distance.loss = distance.loss.max((loss - curve.loss[index]).abs());
        distance.norm = distance.norm.max((norm / curve.grad_norm[index] - 1.0).abs());
    }
    assert_eq!(state.step, curve.loss.len());
    distance
}

#[test]
fn the_schedule_is_that_of_the_curves() {
    for curve in Curve::all().values() {
        let (Some(config), Some(rates)) = (&curve.config, &curve.lr) else { continue };
        let schedule = schedule(config, rates.len());
        for (step, rate) in rates.iter().enumerate() {
            assert!(
                (config.lr * schedule.factor(step) - rate).abs() <= 1e-15 * config.lr.max(1.0),
                "step {step}"
            );
        }
    }
}

/// Follows the curve and its `@hf` twin on every mesh: with and without rematerialisation on each. What is trained with
/// by default is explicit but for tensor axes.
fn check(name: &str, meshes: &[&str], plan: &PlanOptions) {
    check_lowered(name, meshes, plan, Lowering::default());
}

fn check_lowered(name: &str, meshes: &[&str], plan: &PlanOptions, lowering: Lowering) {
    let curves = Curve::all();
    let config = curves[name].config.clone().unwrap();
    let mut report = String::new();
    for (index, mesh) in meshes.iter().enumerate() {
        for (twin, denominator) in [("", LossDenominator::Targets), ("@hf", LossDenominator::Labels)] {
            let curve = &curves[&format!("{name}{twin}")];
            let remat = (denominator == LossDenominator::Targets) == index.is_multiple_of(2);
            let Distance { loss, norm } = follow(curve, &config, denominator, mesh, remat, plan, lowering);
            let fits = loss <= LOSS_TOLERANCE && norm <= NORM_TOLERANCE;
            let verdict = if fits { "ok" } else { "TOO FAR" };
            report +=
                &format!("{name}{twin} {mesh} remat={remat}: loss {loss:.1e}, norm {norm:.1e} {verdict}\n");
        }
    }
    assert!(!report.contains("TOO FAR"), "\n{report}");
}

macro_rules! curves {
    ($($test:ident: $name:literal, $meshes:expr;)*) => {
        $(#[test] fn $test() { check($name, &$meshes, &PlanOptions::default()); })*
    };
}

curves! {
    adamw: "adamw_fp32", ["fsdp=1", "fsdp=8"];
    adamw_high_learning_rate: "adamw_fp32_lr2e-3", ["fsdp=1", "fsdp=2", "fsdp=4", "fsdp=8"];
    adamw_masked_labels: "adamw_masked", ["data=2,fsdp=4"];
    adamw_weight_decay: "adamw_wd", ["fsdp=2", "fsdp=8"];
    adamw_biases: "adamw_bias_wd", ["fsdp=4", "fsdp=8"];
    adamw_frozen_embeddings: "adamw_frozen_embed", ["fsdp=8"];
    adamw_tied_embeddings: "adamw_tied", ["fsdp=1", "fsdp=2", "fsdp=8"];
    adamw_tied_embeddings_weight_decay: "adamw_tied_wd", ["data=2,fsdp=4"];
    adamw_scaled_positions: "adamw_rope_llama3", ["fsdp=4"];
    adamw_sizes_that_do_not_divide: "adamw_odd", ["fsdp=1", "fsdp=4", "fsdp=8"];
    adamw_warmup_and_cosine: "adamw_warmup_cosine", ["fsdp=2"];
    adamw_without_clipping: "adamw_noclip", ["fsdp=4", "fsdp=8"];
    adamw_gradient_checkpointing: "adamw_ckpt", ["fsdp=1", "fsdp=4"];
    adamw_with_a_data_axis: "adamw_fp32_lr2e-3", ["data=2,fsdp=4", "data=4,fsdp=2"];
    adamw_with_a_tensor_axis: "adamw_fp32_lr2e-3", ["fsdp=4,tensor=2", "fsdp=2,tensor=4", "data=2,fsdp=2,tensor=2"];
    adamw_tied_embeddings_with_a_tensor_axis: "adamw_tied", ["fsdp=4,tensor=2"];
    adamw_biases_with_a_tensor_axis: "adamw_bias_wd", ["fsdp=4,tensor=2"];
    adamw_sizes_that_do_not_divide_with_a_tensor_axis: "adamw_odd", ["fsdp=4,tensor=2"];
    adafactor: "adafactor_fp32", ["fsdp=8"];
    adafactor_high_learning_rate: "adafactor_fp32_lr2e-3", ["fsdp=1", "fsdp=4", "data=2,fsdp=4"];
    adafactor_masked_labels: "adafactor_masked", ["fsdp=2"];
    adafactor_weight_decay: "adafactor_wd", ["fsdp=8"];
    adafactor_biases: "adafactor_bias_wd", ["data=2,fsdp=4"];
    adafactor_frozen_embeddings: "adafactor_frozen_embed", ["data=2,fsdp=4"];
    adafactor_tied_embeddings: "adafactor_tied", ["fsdp=4"];
    adafactor_tied_embeddings_weight_decay: "adafactor_tied_wd", ["fsdp=2"];
    adafactor_scaled_positions: "adafactor_rope_llama3", ["fsdp=8"];
    adafactor_sizes_that_do_not_divide: "adafactor_odd", ["fsdp=8", "data=2,fsdp=4"];
    adafactor_warmup_and_cosine: "adafactor_warmup_cosine", ["fsdp=4"];
    adafactor_without_clipping: "adafactor_noclip", ["fsdp=2"];
    adafactor_gradient_checkpointing: "adafactor_ckpt", ["fsdp=8"];
    adafactor_with_a_tensor_axis: "adafactor_fp32_lr2e-3", ["fsdp=4,tensor=2"];
}

#[test]
fn strategies_and_dim_rules_do_not_change_the_numbers() {
    let strategy = |strategy| PlanOptions { strategy, ..Default::default() };
    let rule = |dim_rule| PlanOptions { dim_rule, ..Default::default() };
    check("adamw_fp32_lr2e-3", &["data=8"], &strategy(Strategy::NoShard));
    check("adamw_fp32_lr2e-3", &["fsdp=8"], &strategy(Strategy::ShardGradOp));
    check("adamw_fp32_lr2e-3", &["data=2,fsdp=4"], &strategy(Strategy::HybridShard));
    // Padded: no dim of this model divides by 8.
    check("adamw_odd", &["fsdp=8"], &rule(DimRule::StrictLargest));
    check("adamw_odd", &["fsdp=8"], &rule(DimRule::Dim0));
    check("adafactor_odd", &["data=2,fsdp=4"], &rule(DimRule::StrictLargest));
    check("adafactor_odd", &["fsdp=8"], &rule(DimRule::Dim0));
}

macro_rules! annotated_curves {
    ($($test:ident: $name:literal, $meshes:expr, $plan:expr;)*) => {
        $(#[test] fn $test() { check_lowered($name, &$meshes, &$plan, Lowering::Annotate); })*
    };
}

/// A plan by this strategy.
fn by(strategy: Strategy) -> PlanOptions {
    PlanOptions { strategy, ..PlanOptions::default() }
}

annotated_curves! {
    annotated: "adamw_fp32_lr2e-3", ["fsdp=8", "data=2,fsdp=4", "data=4,fsdp=2", "fsdp=1"], PlanOptions::default();
    annotated_adafactor: "adafactor_fp32_lr2e-3", ["fsdp=8"], PlanOptions::default();
    annotated_adafactor_padded: "adafactor_odd", ["fsdp=8"],
        PlanOptions { dim_rule: DimRule::StrictLargest, ..PlanOptions::default() };
    annotated_weight_decay: "adamw_wd", ["fsdp=8"], PlanOptions::default();
    annotated_without_clipping: "adamw_noclip", ["fsdp=4"], PlanOptions::default();
    annotated_tied_embeddings: "adamw_tied", ["fsdp=8", "data=2,fsdp=4"], PlanOptions::default();
    annotated_biases: "adamw_bias_wd", ["fsdp=8", "data=2,fsdp=4"], PlanOptions::default();
    annotated_sizes_that_do_not_divide: "adamw_odd", ["fsdp=8", "data=2,fsdp=4"], PlanOptions::default();
    annotated_without_sharding: "adamw_fp32_lr2e-3", ["fsdp=8"], by(Strategy::NoShard);
    annotated_gathered_once: "adamw_fp32_lr2e-3", ["fsdp=8", "data=2,fsdp=4"], by(Strategy::ShardGradOp);
    annotated_replicas_of_shards: "adamw_fp32_lr2e-3", ["data=2,fsdp=4"], by(Strategy::HybridShard);
    annotated_padded: "adamw_odd", ["fsdp=8", "data=2,fsdp=4"],
        PlanOptions { dim_rule: DimRule::StrictLargest, ..PlanOptions::default() };
    annotated_small_parameters_whole: "adamw_bias_wd", ["data=2,fsdp=4", "fsdp=8"],
        PlanOptions { min_shard_bytes: 1024, ..PlanOptions::default() };
}
