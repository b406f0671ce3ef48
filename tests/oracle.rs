//! The numbers of training: losses and gradient norms equal those of plain PyTorch, on any mesh.

mod follow;
mod support;

use follow::{Followed, schedule};
use shardwright_partition::{DimRule, Lowering, PlanOptions, Strategy};
use support::Curve;

const LOSS_TOLERANCE: f64 = 2e-5;
const NORM_TOLERANCE: f64 = 2e-5;

#[test]
fn the_schedules_are_those_of_the_curves() {
    for curve in Curve::all().values() {
        let (Some(config), Some(rates)) = (&curve.config, &curve.lr) else { continue };
        let schedule = schedule(config, rates.len());
        for (step, rate) in rates.iter().enumerate() {
            let found = config.lr * schedule.factor(step);
            assert!((found - rate).abs() <= 1e-15 * config.lr.max(1.0), "step {step}: {found}, not {rate}");
        }
    }
}

/// Follows the curve and its `@hf` twin on every mesh: with and without rematerialisation on each. What is trained with
/// by default is explicit but for tensor axes.
fn check(name: &str, meshes: &[&str], plan: &PlanOptions) {
    check_lowered(name, meshes, plan, Lowering::default());
}

fn check_lowered(name: &str, meshes: &[&str], plan: &PlanOptions, lowering: Lowering) {
    let mut report = String::new();
    for (index, mesh) in meshes.iter().enumerate() {
        for twin in ["", "@hf"] {
            let mut followed = Followed::new(&format!("{name}{twin}"));
            let remat = twin.is_empty() == index.is_multiple_of(2);
            (followed.step.remat, followed.step.lowering) = (remat, lowering);
            followed.step.plan = plan.clone();
            let (loss, norm) = followed.distance(&followed.readings(mesh));
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
    adamw: "adamw_fp32", ["fsdp=1", "fsdp=2"];
    adamw_high_learning_rate: "adamw_fp32_lr2e-3", ONE_AXIS;
    adamw_labels_left_out: "adamw_masked", ["fsdp=8", "fsdp=2"];
    adamw_weight_decay: "adamw_wd", ["fsdp=4", "fsdp=8"];
    adamw_without_clipping: "adamw_noclip", ["fsdp=2", "fsdp=8"];
    adamw_gradient_checkpointing: "adamw_ckpt", ["fsdp=4"];
    adamw_warmup_and_cosine: "adamw_warmup_cosine", ["fsdp=4", "fsdp=1"];
    adamw_frozen_embedding: "adamw_frozen_embed", ["fsdp=8", "data=2,fsdp=4"];
    adamw_tied_embeddings: "adamw_tied", ["fsdp=2", "fsdp=8"];
    adamw_tied_embeddings_and_weight_decay: "adamw_tied_wd", ["fsdp=8"];
    adamw_biases: "adamw_bias_wd", ["fsdp=1", "fsdp=8"];
    adamw_scaled_rotation: "adamw_rope_llama3", ["fsdp=8"];
    adamw_sizes_that_do_not_divide: "adamw_odd", ONE_AXIS;
    adamw_with_a_data_axis: "adamw_fp32_lr2e-3", ["data=2,fsdp=4", "data=4,fsdp=2"];
    adamw_with_a_tensor_axis: "adamw_fp32_lr2e-3", ["fsdp=4,tensor=2", "fsdp=2,tensor=4", "data=2,fsdp=2,tensor=2"];
    adamw_tied_embeddings_with_a_tensor_axis: "adamw_tied", ["fsdp=4,tensor=2"];
    adamw_biases_with_a_tensor_axis: "adamw_bias_wd", ["fsdp=4,tensor=2"];
    adamw_sizes_that_do_not_divide_with_a_tensor_axis: "adamw_odd", ["fsdp=4,tensor=2"];

    adafactor: "adafactor_fp32", ["fsdp=1", "fsdp=8"];
    adafactor_high_learning_rate: "adafactor_fp32_lr2e-3", ONE_AXIS;
    adafactor_labels_left_out: "adafactor_masked", ["fsdp=4"];
    adafactor_weight_decay: "adafactor_wd", ["fsdp=8"];
    adafactor_without_clipping: "adafactor_noclip", ["fsdp=2"];
    adafactor_gradient_checkpointing: "adafactor_ckpt", ["fsdp=8"];
    adafactor_warmup_and_cosine: "adafactor_warmup_cosine", ["fsdp=8"];
    adafactor_frozen_embedding: "adafactor_frozen_embed", ["fsdp=8", "data=2,fsdp=4"];
    adafactor_tied_embeddings: "adafactor_tied", ["fsdp=4"];
    adafactor_tied_embeddings_and_weight_decay: "adafactor_tied_wd", ["fsdp=8"];
    adafactor_biases: "adafactor_bias_wd", ["fsdp=8"];
    adafactor_scaled_rotation: "adafactor_rope_llama3", ["fsdp=2"];
    adafactor_sizes_that_do_not_divide: "adafactor_odd", ["fsdp=8", "fsdp=2"];
    adafactor_with_a_data_axis: "adafactor_fp32_lr2e-3", ["data=2,fsdp=4"];
    adafactor_with_a_tensor_axis: "adafactor_odd", ["fsdp=4,tensor=2"];
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
    check("adafactor_odd", &["fsdp=8"], &rule(DimRule::StrictLargest));
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
    annotated_adafactor: "adafactor_fp32_lr2e-3", ["fsdp=8", "data=2,fsdp=4"], PlanOptions::default();
    annotated_adafactor_padded: "adafactor_odd", ["fsdp=8"],
        PlanOptions { dim_rule: DimRule::StrictLargest, ..PlanOptions::default() };
    annotated_frozen_embedding: "adamw_frozen_embed", ["fsdp=8"], PlanOptions::default();
    annotated_small_parameters_whole: "adamw_bias_wd", ["data=2,fsdp=4", "fsdp=8"],
        PlanOptions { min_shard_bytes: 1024, ..PlanOptions::default() };
}
