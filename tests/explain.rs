//! What is said of the programs that XLA makes of the quickstart's decoders.

mod support;

use shardwright_mesh::{AbstractMesh, Mesh};
use shardwright_partition::explain::{
    Cause, Comparison, Explanation, Grade, MemoryClass, Purpose, Reduced, Subject, Traffic,
};
use shardwright_partition::{PlanOptions, Strategy};
use shardwright_train::{StepConfig, TrainStep};
use support::{oracle_model, oracle_step, runtime};

/// The explanation of the step of a model on a mesh.
fn explain(name: &str, mesh: &str, strategy: Strategy, remat: bool) -> Explanation {
    let model = oracle_model(name);
    let options = PlanOptions { strategy, ..PlanOptions::default() };
    let config = StepConfig { remat, ..oracle_step(&model, options) };
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
        let again = u64::from(parameter.unit.is_some());
        assert_eq!((parameter.forward_gathers, parameter.backward_gathers), (1, again), "{}", parameter.name);
        assert!(
            matches!(parameter.reduced, Reduced::ReduceScatter | Reduced::AllReduce),
            "{}",
            parameter.name
        );
    }
    assert_eq!(explanation.units.len(), 2);
    for unit in &explanation.units {
        assert_eq!(unit.gathered_bytes, (unit.parameter_bytes, unit.parameter_bytes), "{}", unit.path);
        assert_eq!((unit.reduced_bytes, unit.activation_bytes), (unit.parameter_bytes, 0), "{}", unit.path);
    }
    let causes =
        explanation.collectives.iter().flat_map(|collective| &collective.pieces).map(|piece| &piece.cause);
    assert!(!causes.into_iter().any(|cause| *cause == Cause::Unknown), "{text}");
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
fn a_table_split_by_columns_is_told_to_move_activations() {
    let explanation = explain("odd", "fsdp=8", Strategy::FullShard, false);
    assert_eq!(explanation.verdict.grade, Grade::Costly);
    let table = explanation.parameters.iter().find(|p| p.name == "model.embed_tokens.weight").unwrap();
    assert_eq!(
        table.verdict.summary,
        "gathered once; gradient made from activations that travel, and not summed"
    );
    assert_eq!(row(&explanation, Purpose::Batch, &["fsdp"]).actual.arrays, 1);
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
