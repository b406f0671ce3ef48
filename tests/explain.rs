//! What is said of the programs that XLA makes of the quickstart's decoders.

mod support;

use std::collections::BTreeSet;

use shardwright_mesh::{AbstractMesh, Mesh, PhysicalDevice, PhysicalTopology, Placement, TorusPosition};
use shardwright_partition::explain::{
    Cause, Comparison, Explanation, Grade, MemoryClass, Pass, Purpose, Reduced, Subject, Traffic,
};
use shardwright_partition::{Lowering, PlanOptions, Strategy};
use shardwright_train::{StepConfig, TrainStep};
use support::{oracle_model, oracle_step, runtime};

/// The explanation of the annotated step of a model on a mesh.
fn explain(name: &str, mesh: &str, strategy: Strategy, remat: bool) -> Explanation {
    explain_lowered(name, mesh, strategy, remat, Lowering::Annotate)
}

fn explain_lowered(
    name: &str,
    mesh: &str,
    strategy: Strategy,
    remat: bool,
    lowering: Lowering,
) -> Explanation {
    let model = oracle_model(name);
    let options = PlanOptions { strategy, ..PlanOptions::default() };
    let config = StepConfig { remat, lowering, ..oracle_step(&model, options) };
    let mesh = Mesh::iota(AbstractMesh::parse(mesh).unwrap());
    let step = TrainStep::compile(&runtime(8), &mesh, &model, &config).unwrap();
    let subject = Subject::of_module(&config.module(&model).unwrap(), step.plan(), &config.wrap);
    let program = step.executable().compiled().unwrap().unwrap();
    Explanation::new(&program, &subject, Some(step.executable().compiled_memory().unwrap()))
}

/// The one row of the traffic for a purpose over these axes.
fn row<'a>(explanation: &'a Explanation, purpose: Purpose, axes: &[&str]) -> &'a Traffic {
    let is_row =
        |row: &&Traffic| row.purpose == purpose && row.axes.as_deref().is_some_and(|found| found == axes);
    explanation.traffic.iter().find(is_row).unwrap()
}

#[test]
fn the_quickstarts_decoder_is_fsdp() {
    let explanation = explain("base", "fsdp=8", Strategy::FullShard, true);
    let text = explanation.to_string();
    assert_ne!(explanation.verdict.grade, Grade::Lost, "{text}");

    let weights = row(&explanation, Purpose::Weight, &["fsdp"]);
    assert_eq!(weights.predicted, Some(weights.actual), "{text}");
    let gradients = row(&explanation, Purpose::Gradient, &["fsdp"]);
    let predicted = gradients.predicted.unwrap();
    assert_eq!(gradients.actual.arrays, predicted.arrays, "{text}");
    assert_eq!(gradients.actual.array_bytes, predicted.array_bytes, "{text}");
    let unwanted = [Purpose::Activation, Purpose::State, Purpose::Batch, Purpose::Other];
    assert!(!explanation.traffic.iter().any(|row| unwanted.contains(&row.purpose)), "{text}");

    for parameter in &explanation.parameters {
        assert_eq!(parameter.forward_gathers, 1, "{}", parameter.name);
        assert!(
            matches!(parameter.reduced, Reduced::ReduceScatter | Reduced::AllReduce),
            "{}",
            parameter.name
        );
    }
    assert_eq!(explanation.units.len(), 2);
    for unit in &explanation.units {
        assert_eq!(unit.gathered_bytes.0, unit.parameter_bytes, "{}", unit.path);
        assert_eq!((unit.reduced_bytes, unit.activation_bytes), (unit.parameter_bytes, 0), "{}", unit.path);
    }
    // The reverse pass comes to the first unit last, when that has long been freed.
    assert_eq!(explanation.units[0].gathered_bytes.1, explanation.units[0].parameter_bytes);
    let causes =
        explanation.collectives.iter().flat_map(|collective| &collective.pieces).map(|piece| &piece.cause);
    assert!(!causes.into_iter().any(|cause| *cause == Cause::Unknown), "{text}");
}

/// Written by hand, the exchanges run over one axis of the torus after the other, and are held to that.
#[test]
fn over_the_axes_of_a_torus_all_is_as_planned() {
    let device = |id| {
        let position = Some(TorusPosition { coords: [id % 4, id / 4, 0], core: 0 });
        PhysicalDevice { id, process: 0, slice: 0, position }
    };
    let topology = PhysicalTopology::new((0..8).map(device), [false; 3]).unwrap();
    let placement = Placement::new(&AbstractMesh::parse("fsdp=8").unwrap(), &topology).unwrap();
    let model = oracle_model("base");
    let config = StepConfig {
        lowering: Lowering::Explicit,
        remat: false,
        ..oracle_step(&model, PlanOptions::default())
    };
    let module = config.module(&model).unwrap();
    let plan = config.sharding_plan(&model, &module, placement.mesh().shape()).unwrap();
    let plan = plan.placed(&placement).unwrap();
    let subject = Subject::of_module(&module, &plan, &config.wrap);
    let sharded = config.lower(&model, module, &plan).unwrap();
    let program = runtime(8).compile(&sharded, placement.physical_mesh()).unwrap().compiled().unwrap();

    let explanation = Explanation::new(&program.unwrap(), &subject, None);
    assert_eq!(explanation.verdict.grade, Grade::AsPlanned, "{explanation}");
    for purpose in [Purpose::Weight, Purpose::Gradient] {
        for axis in plan.sub_axes() {
            let row = row(&explanation, purpose, &[axis.as_str()]);
            assert_eq!(row.predicted, Some(row.actual), "{axis}: {explanation}");
        }
    }
    let weights = explanation.collectives.iter().flat_map(|collective| &collective.pieces);
    let passes = weights.filter(|piece| piece.purpose == Purpose::Weight).map(|piece| piece.pass);
    assert_eq!(passes.collect::<BTreeSet<_>>(), [Some(Pass::Forward), Some(Pass::Recompute)].into());
}

/// Biases that nobody needs again are not gathered again, and shards of gradients are summed over replicas.
#[test]
fn explicit_collectives_are_as_planned() {
    let mesh = "data=2,fsdp=4";
    let explanation = explain_lowered("bias", mesh, Strategy::FullShard, true, Lowering::Explicit);
    assert_eq!(explanation.verdict.grade, Grade::AsPlanned, "{explanation}");
    for row in &explanation.traffic {
        match row.purpose {
            Purpose::Weight | Purpose::Gradient => {
                assert_eq!(row.predicted, Some(row.actual), "{explanation}");
            }
            other => assert_eq!(other, Purpose::Scalar, "{explanation}"),
        }
    }
    let [first, last] = &explanation.units[..] else { panic!("{explanation}") };
    for unit in [first, last] {
        assert_eq!(unit.verdict.grade, Grade::AsPlanned, "{explanation}");
        assert_eq!((unit.gathered_bytes.0, unit.activation_bytes), (unit.parameter_bytes, 0));
    }
    assert_ne!(first.gathered_bytes.1, 0);
    assert_eq!(last.gathered_bytes.1, 0);
}

#[test]
fn memory_is_near_what_the_compiler_says() {
    let explanation = explain("base", "fsdp=8", Strategy::FullShard, true);
    let memory = &explanation.memory;
    let ratio = memory.ratio.unwrap();
    assert!((0.8..1.2).contains(&ratio), "{ratio}");
    let bytes = |class| memory.at_peak.iter().find(|found| found.class == class).unwrap().bytes;
    let shards: u64 = explanation.parameters.iter().map(|parameter| parameter.bytes_per_device).sum();
    assert_eq!(bytes(MemoryClass::Parameters), shards);
    assert_eq!(bytes(MemoryClass::OptimizerState), 2 * shards);
    assert!(bytes(MemoryClass::GatheredWeights) > 0);
}

#[test]
fn replicas_sum_over_both_axes() {
    let explanation = explain("base", "data=2,fsdp=4", Strategy::FullShard, true);
    let weights = row(&explanation, Purpose::Weight, &["fsdp"]);
    assert_eq!(weights.predicted, Some(weights.actual), "{explanation}");
    assert!(explanation.parameters.iter().all(|parameter| parameter.reduced != Reduced::Nowhere));
}

#[test]
fn what_is_not_split_is_not_called_fsdp() {
    let whole = explain("base", "fsdp=8", Strategy::NoShard, false);
    assert_eq!(whole.verdict.grade, Grade::NotSharded);
    let gradients = row(&whole, Purpose::Gradient, &["fsdp"]);
    assert_eq!(gradients.predicted, Some(gradients.actual), "{whole}");
    let alone = explain("base", "fsdp=1", Strategy::FullShard, true);
    assert_eq!(alone.verdict.summary, "one device: nothing is split");
    let comparison = Comparison::new(("eight", &whole), ("one", &alone)).to_string();
    assert!(comparison.contains("one device: nothing is split"), "{comparison}");
}
