//! What XLA makes of a sharded train step: which collectives, of what, and what rematerialisation changes.

mod support;

use shardwright_hlo::compiled::{Collective, CollectiveKind, CompiledProgram};
use shardwright_mesh::{AbstractMesh, Mesh};
use shardwright_model::{ModelConfig, ParameterInfo, parameters};
use shardwright_partition::{CollectiveSummary, PlanOptions, Strategy};
use shardwright_train::{StepConfig, TrainStep};
use support::{BATCH, oracle_model, oracle_step, runtime};

const F32: usize = 4;

struct Step {
    model: ModelConfig,
    compiled: CompiledProgram,
    temporary_bytes: i64,
}

#[derive(Clone, Copy, PartialEq)]
enum Layers {
    Kept,
    Rematerialised,
}

impl Step {
    fn new(name: &str, mesh: &str, strategy: Strategy, layers: Layers) -> Step {
        let model = oracle_model(name);
        let config = StepConfig {
            remat: layers == Layers::Rematerialised,
            ..oracle_step(&model, PlanOptions { strategy, ..PlanOptions::default() })
        };
        let mesh = Mesh::iota(AbstractMesh::parse(mesh).unwrap());
        let step = TrainStep::compile(&runtime(8), &mesh, &model, &config).unwrap();
        let compiled = step.executable().compiled().unwrap().unwrap();
        Step { model, compiled, temporary_bytes: step.executable().memory_stats().unwrap().temp }
    }

    fn of_kind(&self, kind: CollectiveKind) -> impl Iterator<Item = &Collective> {
        self.compiled.collectives.iter().filter(move |c| c.kind == kind)
    }

    fn bytes(&self, kind: CollectiveKind) -> Vec<usize> {
        self.of_kind(kind).map(|c| c.bytes as usize).collect()
    }

    fn summary(&self) -> CollectiveSummary {
        CollectiveSummary::new(&self.compiled)
    }

    /// Bytes of the parameters for which `wanted` holds.
    fn parameter_bytes(&self, wanted: impl Fn(&ParameterInfo) -> bool) -> Vec<usize> {
        parameters(&self.model).iter().filter(|p| wanted(p)).map(|p| p.element_count() * F32).collect()
    }
}

/// Checks that `found` holds the same numbers as `expected`, in any order.
#[track_caller]
fn check_same(mut found: Vec<usize>, mut expected: Vec<usize>, step: &Step) {
    found.sort_unstable();
    expected.sort_unstable();
    assert_eq!(found, expected, "{:#?}", step.compiled.collectives);
}

fn in_layers(parameter: &ParameterInfo) -> bool {
    parameter.name.starts_with("model.layers.")
}

#[test]
fn each_parameter_is_gathered_once_and_its_gradient_summed_once() {
    let step = Step::new("base", "fsdp=8", Strategy::FullShard, Layers::Kept);
    check_same(step.bytes(CollectiveKind::AllGather), step.parameter_bytes(|_| true), &step);
    check_gradients(&step);
}

/// Checks that gradients are summed over the devices, each once, and nothing else of their size is.
fn check_gradients(step: &Step) {
    // XLA joins sums that do not depend on each other, so what can be said is how many bytes they are of together:
    // those of all gradients, and a number each for the parts of the norm, the loss and its denominator.
    let gradients: usize = step.parameter_bytes(|_| true).iter().sum();
    let count = parameters(&step.model).len();
    let reduced: usize = step.bytes(CollectiveKind::AllReduce).iter().sum();
    let scattered: usize = step.bytes(CollectiveKind::ReduceScatter).iter().sum();
    let summed = reduced + 8 * scattered;
    let numbers = F32 * (count + 2);
    assert!((gradients..=gradients + numbers).contains(&summed), "{:#?}", step.compiled.collectives);
    for kind in [CollectiveKind::AllToAll, CollectiveKind::CollectivePermute] {
        assert_eq!(step.summary().count(kind), 0, "{:#?}", step.compiled.collectives);
    }
}

#[test]
fn rematerialised_layers_gather_their_parameters_again() {
    let kept = Step::new("base", "fsdp=8", Strategy::FullShard, Layers::Kept);
    let again = Step::new("base", "fsdp=8", Strategy::FullShard, Layers::Rematerialised);
    let expected = [again.parameter_bytes(|_| true), again.parameter_bytes(in_layers)].concat();
    check_same(again.bytes(CollectiveKind::AllGather), expected, &again);
    check_gradients(&again);
    let recomputed = again.of_kind(CollectiveKind::AllGather).filter(|c| c.op_name.contains("/recompute"));
    assert_eq!(recomputed.count(), again.parameter_bytes(in_layers).len());
    let (less, more) = (again.temporary_bytes, kept.temporary_bytes);
    assert!(less * 5 < more * 4, "{less} bytes with recomputation, {more} without");
}

#[test]
fn without_resharding_parameters_are_gathered_once() {
    let step = Step::new("base", "fsdp=8", Strategy::ShardGradOp, Layers::Rematerialised);
    check_same(step.bytes(CollectiveKind::AllGather), step.parameter_bytes(|_| true), &step);
    check_gradients(&step);
}

#[test]
fn without_sharding_only_gradients_travel() {
    let step = Step::new("base", "fsdp=8", Strategy::NoShard, Layers::Kept);
    assert_eq!(step.summary().count(CollectiveKind::AllGather), 0);
    check_gradients(&step);
}

#[test]
fn one_device_needs_no_collectives() {
    let step = Step::new("base", "fsdp=1", Strategy::FullShard, Layers::Rematerialised);
    assert_eq!(step.summary().to_string(), "no collectives");
}

#[test]
fn replicas_of_shards_gather_among_themselves() {
    let step = Step::new("base", "data=2,fsdp=4", Strategy::FullShard, Layers::Kept);
    check_same(step.bytes(CollectiveKind::AllGather), step.parameter_bytes(|_| true), &step);
}

#[test]
fn tables_split_by_columns_move_token_ids_instead_of_their_gradient() {
    // 509 rows do not divide, so the token table is split by columns. Its gradient is then worked out by columns: each
    // device gets all token ids, and its columns of the gradients of their rows.
    let step = Step::new("odd", "fsdp=8", Strategy::FullShard, Layers::Kept);
    let ids = BATCH[0] * BATCH[1] * 4;
    let expected = [step.parameter_bytes(|_| true), vec![ids]].concat();
    check_same(step.bytes(CollectiveKind::AllGather), expected, &step);
    let columns = BATCH[0] * BATCH[1] * step.model.hidden_size() * F32 / 8;
    check_same(step.bytes(CollectiveKind::AllToAll), vec![columns], &step);
    assert_eq!(step.summary().count(CollectiveKind::CollectivePermute), 0);
}
