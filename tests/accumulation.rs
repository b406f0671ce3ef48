//! Gradient accumulation: the numbers are those of the whole batch, however it is cut.

mod follow;
mod support;

use expect_test::{Expect, expect};
use follow::{Followed, Started};
use shardwright_hlo::compiled::CollectiveKind;
use shardwright_mesh::AbstractMesh;
use shardwright_partition::Lowering;
use shardwright_tensor::HostArray;
use shardwright_train::{StepConfig, StepReading};
use support::{BATCH, CompiledStep, oracle_batches};

const LOSS_TOLERANCE: f64 = 2e-5;
const NORM_TOLERANCE: f64 = 2e-5;

/// Follows the curve, on each mesh in as many micro-batches as are said there. The batch has eight examples, so eight
/// devices leave one for each in a batch that is not cut.
fn check(name: &str, layouts: &[(&str, usize, Lowering)]) {
    let mut report = String::new();
    for twin in ["", "@hf"] {
        let mut followed = Followed::new(&format!("{name}{twin}"));
        for &(mesh, micro_batches, lowering) in layouts {
            followed.step.gradient_accumulation_steps = micro_batches;
            followed.step.lowering = lowering;
            let (loss, norm) = followed.distance(&followed.readings(mesh));
            let fits = loss <= LOSS_TOLERANCE && norm <= NORM_TOLERANCE;
            let verdict = if fits { "ok" } else { "TOO FAR" };
            report += &format!(
                "{name}{twin} {mesh} × {micro_batches} {lowering:?}: loss {loss:.1e}, norm {norm:.1e} {verdict}\n"
            );
        }
    }
    println!("{report}");
    assert!(!report.contains("TOO FAR"), "\n{report}");
}

use Lowering::{Annotate, Explicit};

macro_rules! curves {
    ($($test:ident: $name:literal, $layouts:expr;)*) => {
        $(#[test] fn $test() { check($name, &$layouts); })*
    };
}

curves! {
    adamw: "adamw_accum4", [("fsdp=1", 4, Explicit), ("fsdp=2", 4, Explicit), ("fsdp=2", 4, Annotate)];
    adamw_with_labels_left_out: "adamw_accum4_masked", [("fsdp=1", 4, Explicit), ("data=2,fsdp=2", 2, Explicit)];
    adafactor: "adafactor_accum4", [("fsdp=2", 4, Explicit), ("data=2,fsdp=2", 2, Annotate)];
    adafactor_with_labels_left_out: "adafactor_accum4_masked", [("fsdp=4", 2, Explicit)];
}
