//! The numbers of training: losses and gradient norms equal those of plain PyTorch, on any mesh.

mod support;

use shardwright_checkpoint::HfWeights;
use shardwright_partition::{DimRule, Lowering, PlanOptions, Strategy};
use shardwright_train::{
    CausalLm, GroupConfig, LossDenominator, Schedule, ScheduleConfig, StepConfig, TrainState, TrainStep,
    WeightSource,
};
use support::{Curve, CurveConfig, data, oracle_batches, oracle_model, oracle_step, runtime};

const LOSS_TOLERANCE: f64 = 2e-5;
const NORM_TOLERANCE: f64 = 2e-5;

/// How far a run may stand from its curve: the largest distance of a loss, and of a norm, relative.
struct Distance {
    loss: f64,
    norm: f64,
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
    let weights = HfWeights::open(data("oracle/models").join(config.model_name())).unwrap();
    let step_config = StepConfig {
        groups: GroupConfig {
            learning_rate: config.lr,
            weight_decay: config.weight_decay,
            ..GroupConfig::default()
        },
        max_grad_norm: Some(config.max_norm),
        remat,
        lowering,
        ..oracle_step(&model, plan.clone())
    };
    let step = TrainStep::compile(&runtime, &mesh, &model, &step_config).unwrap();
    let mut state = TrainState::new(&runtime, &step, WeightSource::Files(&weights)).unwrap();

    let schedule = Schedule::new(&ScheduleConfig::default(), curve.loss.len());
    let mut distance = Distance { loss: 0.0, norm: 0.0 };
    for (index, batch) in oracle_batches().iter().enumerate() {
        let factor = schedule.factor(index);
        let (next, metrics) = step.run(&runtime, state, &[batch, batch], factor).unwrap();
        state = next;
        let (loss, norm) = metrics.read().unwrap();
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
        let schedule = Schedule::new(&ScheduleConfig::default(), rates.len());
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

const ONE_AXIS: [&str; 4] = ["fsdp=1", "fsdp=2", "fsdp=4", "fsdp=8"];

macro_rules! curves {
    ($($test:ident: $name:literal, $meshes:expr;)*) => {
        $(#[test] fn $test() { check($name, &$meshes, &PlanOptions::default()); })*
    };
}

curves! {
    adamw: "adamw_fp32", ONE_AXIS;
    adamw_high_learning_rate: "adamw_fp32_lr2e-3", ONE_AXIS;
    adamw_weight_decay: "adamw_wd", ONE_AXIS;
    adamw_without_clipping: "adamw_noclip", ONE_AXIS;
    adamw_gradient_checkpointing: "adamw_ckpt", ONE_AXIS;
    adamw_tied_embeddings: "adamw_tied", ONE_AXIS;
    adamw_biases: "adamw_bias_wd", ONE_AXIS;
    adamw_sizes_that_do_not_divide: "adamw_odd", ONE_AXIS;
    adamw_with_a_data_axis: "adamw_fp32_lr2e-3", ["data=2,fsdp=4", "data=4,fsdp=2"];
    adamw_with_a_tensor_axis: "adamw_fp32_lr2e-3", ["fsdp=4,tensor=2", "fsdp=2,tensor=4", "data=2,fsdp=2,tensor=2"];
    adamw_tied_embeddings_with_a_tensor_axis: "adamw_tied", ["fsdp=4,tensor=2"];
    adamw_biases_with_a_tensor_axis: "adamw_bias_wd", ["fsdp=4,tensor=2"];
    adamw_sizes_that_do_not_divide_with_a_tensor_axis: "adamw_odd", ["fsdp=4,tensor=2"];
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
