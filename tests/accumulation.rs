//! Gradient accumulation: the numbers are those of the whole batch, however it is cut.

mod follow;
mod support;

use expect_test::{Expect, expect};
use follow::{Followed, Started};
use shardwright_hlo::compiled::CollectiveKind;
use shardwright_mesh::AbstractMesh;
use shardwright_partition::Lowering;
use shardwright_partition::Lowering::{Annotate, Explicit};
use shardwright_tensor::HostArray;
use shardwright_train::{EvalStep, StepConfig};
use support::{BATCH, CompiledStep, oracle_batches, oracle_masked_labels};

const LOSS_TOLERANCE: f64 = 2e-5;
const NORM_TOLERANCE: f64 = 2e-5;

/// Follows the curve, on each mesh in as many micro-batches as are said there. Where there are more parts than examples,
/// the others have no labels.
fn check(name: &str, layouts: &[(&str, usize, Lowering)]) {
    let mut report = String::new();
    for twin in ["", "@hf"] {
        let mut followed = Followed::new(&format!("{name}{twin}"));
        for &(mesh, micro_batches, lowering) in layouts {
            let parts = micro_batches * AbstractMesh::parse(mesh).unwrap().size();
            followed.step.gradient_accumulation_steps = micro_batches;
            followed.step.global_batch_size = parts.max(BATCH[0]);
            followed.step.lowering = lowering;
            let (loss, norm) = followed.distance(&followed.readings(mesh));
            let fits = loss <= LOSS_TOLERANCE && norm <= NORM_TOLERANCE;
            let verdict = if fits { "ok" } else { "TOO FAR" };
            report += &format!(
                "{name}{twin} {mesh} × {micro_batches} {lowering:?}: loss {loss:.1e}, norm {norm:.1e} {verdict}\n"
            );
        }
    }
    assert!(!report.contains("TOO FAR"), "\n{report}");
}

macro_rules! curves {
    ($($test:ident: $name:literal, $layouts:expr;)*) => {
        $(#[test] fn $test() { check($name, &$layouts); })*
    };
}

curves! {
    adamw: "adamw_accum4", [("fsdp=1", 4, Explicit), ("fsdp=8", 4, Explicit), ("fsdp=2", 4, Annotate)];
    adamw_with_labels_left_out: "adamw_accum4_masked", [("data=2,fsdp=4", 4, Explicit)];
    adafactor: "adafactor_accum4", [("fsdp=8", 4, Explicit), ("data=2,fsdp=2", 2, Annotate)];
    adafactor_with_labels_left_out: "adafactor_accum4_masked", [("data=2,fsdp=4", 4, Explicit)];
}

#[test]
fn all_layouts_of_a_batch_give_the_same_numbers_and_weights() {
    let ids = &oracle_batches()[0];
    // Of the last example, ten labels count.
    let mut labels = ids.as_slice::<i32>().unwrap().to_vec();
    labels[7 * BATCH[1] + 10..].fill(-100);
    let labels = HostArray::from_slice(&BATCH, &labels).unwrap();
    let Followed { config: curve, model, step, .. } = Followed::new("adamw_fp32_lr2e-3");
    let run = |mesh: &str, micro_batches| {
        let config = StepConfig { gradient_accumulation_steps: micro_batches, ..step.clone() };
        let mut started = Started::new(&model, &config, mesh, &curve);
        (started.run(&[ids, &labels], 1.0), started.parameters())
    };
    let (expected, weights) = run("fsdp=1", 1);
    for (mesh, micro_batches) in [("fsdp=1", 2), ("fsdp=1", 8), ("fsdp=4", 1), ("fsdp=4", 2)] {
        let (reading, found) = run(mesh, micro_batches);
        let what = format!("{mesh} × {micro_batches}");
        assert!((reading.loss / expected.loss - 1.0).abs() <= 1e-5, "{what}: {reading:?}, {expected:?}");
        assert!((reading.grad_norm / expected.grad_norm - 1.0).abs() <= 1e-5, "{what}: {reading:?}");
        let squares = |values: &mut dyn Iterator<Item = f64>| values.map(|x| x * x).sum::<f64>().sqrt();
        let distance = squares(&mut found.iter().zip(&weights).map(|(x, y)| x - y));
        let length = squares(&mut weights.iter().copied());
        assert!(distance <= 1e-5 * length, "{what}: weights differ by {distance} of {length}");
    }
}

#[test]
fn each_micro_batch_gathers_weights_and_scatters_gradients_in_one_loop() {
    let Followed { model, step, .. } = Followed::new("adamw_accum4");
    let config =
        StepConfig { global_batch_size: 32, gradient_accumulation_steps: 4, lowering: Explicit, ..step };
    let compiled = CompiledStep::new(&model, "fsdp=8", &config);
    for kind in [CollectiveKind::AllGather, CollectiveKind::ReduceScatter] {
        let found = compiled.of_kind(kind);
        assert!(!found.is_empty(), "{kind}");
        assert!(found.iter().all(|(collective, _)| collective.runs.count == 4), "{kind}: {found:#?}");
    }
    assert_eq!(compiled.count(CollectiveKind::AllToAll), 0);
    assert_eq!(compiled.count(CollectiveKind::CollectivePermute), 0);
}

#[track_caller]
fn check_error(examples: usize, micro_batches: usize, mesh: &str, expect: Expect) {
    let Followed { model, step, .. } = Followed::new("adamw_accum4");
    let config =
        StepConfig { global_batch_size: examples, gradient_accumulation_steps: micro_batches, ..step };
    let mesh = AbstractMesh::parse(mesh).unwrap();
    let planned =
        config.module(&model).and_then(|module| config.sharding_plan(&model, &module, &mesh).map(drop));
    expect.assert_eq(&planned.unwrap_err().to_string());
}

#[test]
fn batches_that_cannot_be_cut_are_errors() {
    check_error(
        8,
        0,
        "fsdp=1",
        expect![
            "a step of 8 examples is not 0 micro-batches of equal parts for 1 data shards: at least 1 micro-batch, and examples that divide by both numbers together"
        ],
    );
    check_error(
        8,
        3,
        "fsdp=1",
        expect![
            "a step of 8 examples is not 3 micro-batches of equal parts for 1 data shards: at least 1 micro-batch, and examples that divide by both numbers together"
        ],
    );
    check_error(
        8,
        4,
        "fsdp=4",
        expect![
            "a step of 8 examples is not 4 micro-batches of equal parts for 4 data shards: at least 1 micro-batch, and examples that divide by both numbers together"
        ],
    );
    check_error(
        12,
        1,
        "data=2,fsdp=4",
        expect!["input_ids: a batch of 12 does not divide over 8 data shards (mesh data=2, fsdp=4)"],
    );
}

#[test]
fn an_evaluation_has_the_parameters_of_the_step_and_its_loss() {
    let Followed { config: curve, model, step, .. } = Followed::new("adamw_fp32");
    let (ids, labels) = (&oracle_batches()[0], &oracle_masked_labels()[0]);
    for (mesh, lowering) in
        [("fsdp=1", Explicit), ("fsdp=4", Explicit), ("fsdp=4", Annotate), ("data=2,fsdp=2", Explicit)]
    {
        let config = StepConfig { lowering, ..step.clone() };
        let mut started = Started::new(&model, &config, mesh, &curve);
        let (runtime, plan) = (&started.runtime, started.step.plan());
        let on = started.step.executable().mesh();
        let eval = EvalStep::compile(runtime, on, &model, &config, plan, 2 * BATCH[0]).unwrap();
        let state = started.state.as_ref().unwrap();
        let [ids2, labels2] =
            [(ids, 0), (labels, -100)].map(|(array, fill)| follow::filled(array, 2 * BATCH[0], fill));
        let (sum, count) = eval.run(runtime, &state.parameters, &[&ids2, &labels2]).unwrap().read().unwrap();
        let targets = labels.as_slice::<i32>().unwrap().chunks(BATCH[1]);
        let targets: usize = targets.map(|row| row[1..].iter().filter(|&&label| label != -100).count()).sum();
        assert_eq!(count, targets as u64, "{mesh} {lowering:?}");
        let loss = started.run(&[ids, labels], 1.0).loss;
        assert!(
            (sum / count as f64 / loss - 1.0).abs() <= 1e-6,
            "{mesh} {lowering:?}: {sum} / {count}, {loss}"
        );
    }
}
