//! The explicit lowering: which collectives are in a compiled step. Each was written by hand, and is there as written.

mod support;

use std::collections::BTreeSet;

use shardwright_hlo::compiled::{Collective, CollectiveKind, CompiledProgram};
use shardwright_mesh::{AbstractMesh, Mesh};
use shardwright_model::{ParameterInfo, parameters};
use shardwright_partition::explain::{Explanation, Grade, Subject};
use shardwright_partition::{DimRule, Lowering, PlanOptions, ShardingPlan, Strategy};
use shardwright_runtime::topology::{Topology, TopologyOptions};
use shardwright_train::{CausalLm, StepConfig, TrainStep};
use support::{in_a_tpu_child, model_of_whole_tiles, oracle_model, oracle_step, runtime};

const F32: usize = 4;

struct Step {
    model: CausalLm,
    plan: ShardingPlan,
    compiled: CompiledProgram,
}

impl Step {
    fn new(name: &str, mesh: &str, plan: PlanOptions, remat: bool) -> Step {
        let model = oracle_model(name);
        let config = StepConfig { remat, lowering: Lowering::Explicit, ..oracle_step(&model, plan) };
        let mesh = Mesh::iota(AbstractMesh::parse(mesh).unwrap());
        let step = TrainStep::compile(&runtime(8), &mesh, &model, &config).unwrap();
        let compiled = step.executable().compiled().unwrap().unwrap();
        Step { model, plan: step.plan().clone(), compiled }
    }

    fn of_kind(&self, kind: CollectiveKind) -> impl Iterator<Item = &Collective> {
        self.compiled.collectives.iter().filter(move |c| c.kind == kind)
    }

    /// The axes of the mesh along which a collective runs.
    fn axes(&self, collective: &Collective) -> Vec<String> {
        let axes = collective.groups.as_ref().unwrap().axes_of(self.plan.mesh()).unwrap();
        axes.iter().map(ToString::to_string).collect()
    }

    /// Bytes of each parameter for which `wanted` holds: whole, and on one device; padding included.
    fn parameter_bytes(&self, wanted: impl Fn(&ParameterInfo) -> bool) -> (Vec<usize>, Vec<usize>) {
        let infos = parameters(&self.model.config);
        let planned = infos.iter().zip(self.plan.arguments()).filter(|(info, _)| wanted(info));
        let bytes = planned.map(|(info, place)| {
            assert_eq!(info.name, place.name);
            (place.ty.byte_count() + place.padding_bytes, place.bytes_per_device)
        });
        bytes.unzip()
    }

    /// Checks that there are collectives of these bytes, in any order, and no other ones of the kind.
    #[track_caller]
    fn check(&self, kind: CollectiveKind, mut expected: Vec<usize>) {
        let mut found: Vec<usize> = self.of_kind(kind).map(|c| c.bytes() as usize).collect();
        found.sort_unstable();
        expected.sort_unstable();
        assert_eq!(found, expected, "{kind}: {:#?}", self.compiled.collectives);
    }

    /// Checks that the all-reduces are of these bytes together. XLA joins those that do not depend on each other.
    #[track_caller]
    fn check_sums(&self, expected: usize) {
        let found: u64 = self.of_kind(CollectiveKind::AllReduce).map(|c| c.bytes()).sum();
        assert_eq!(found as usize, expected, "{:#?}", self.compiled.collectives);
        for kind in [CollectiveKind::AllToAll, CollectiveKind::CollectivePermute] {
            self.check(kind, vec![]);
        }
    }
}

/// Bytes of the loss, its denominator, and the square of the norm of each gradient that is scattered.
fn numbers(scattered: &[usize]) -> usize {
    (2 + scattered.len()) * F32
}

fn any(_: &ParameterInfo) -> bool {
    true
}

/// Whether the parameter is in a layer that does not keep it from forward to backward: all but the last of two.
fn in_first_layer(parameter: &ParameterInfo) -> bool {
    parameter.name.starts_with("model.layers.0.")
}

/// Whether the parameter is one of them that backward needs where activations are kept. Biases are not.
fn needed_again(parameter: &ParameterInfo) -> bool {
    in_first_layer(parameter) && !parameter.name.ends_with(".bias")
}

#[test]
fn each_parameter_is_gathered_once_a_pass_and_its_gradient_scattered_once() {
    let step = Step::new("base", "fsdp=8", PlanOptions::default(), false);
    let (whole, shards) = step.parameter_bytes(any);
    let again = step.parameter_bytes(needed_again).0;
    step.check(CollectiveKind::AllGather, [whole, again].concat());
    step.check_sums(numbers(&shards));
    step.check(CollectiveKind::ReduceScatter, shards);
}

#[test]
fn rematerialised_layers_gather_again_behind_their_barrier() {
    let step = Step::new("base", "fsdp=8", PlanOptions::default(), true);
    let (whole, shards) = step.parameter_bytes(any);
    let again = step.parameter_bytes(in_first_layer).0;
    step.check(CollectiveKind::AllGather, [whole, again].concat());
    step.check(CollectiveKind::ReduceScatter, shards);
    let recomputed = step.of_kind(CollectiveKind::AllGather).filter(|c| c.op_name.contains("/recompute"));
    assert_eq!(recomputed.count(), step.parameter_bytes(in_first_layer).0.len());
}

#[test]
fn without_resharding_parameters_are_gathered_once() {
    let plan = PlanOptions { strategy: Strategy::ShardGradOp, ..PlanOptions::default() };
    let step = Step::new("base", "fsdp=8", plan, true);
    let (whole, shards) = step.parameter_bytes(any);
    step.check(CollectiveKind::AllGather, whole);
    step.check_sums(numbers(&shards));
    step.check(CollectiveKind::ReduceScatter, shards);
}

#[test]
fn without_sharding_gradients_are_summed() {
    let plan = PlanOptions { strategy: Strategy::NoShard, ..PlanOptions::default() };
    let step = Step::new("base", "fsdp=8", plan, false);
    let (whole, _) = step.parameter_bytes(any);
    // The norm is of what every device has.
    step.check_sums(whole.iter().sum::<usize>() + 2 * F32);
    step.check(CollectiveKind::AllGather, vec![]);
    step.check(CollectiveKind::ReduceScatter, vec![]);
}

#[test]
fn replicas_sum_their_shards_of_the_gradient() {
    // The token table is used twice, and gathered and scattered once.
    let step = Step::new("tied", "data=2,fsdp=4", PlanOptions::default(), false);
    let (whole, shards) = step.parameter_bytes(any);
    let again = step.parameter_bytes(needed_again).0;
    step.check(CollectiveKind::AllGather, [whole, again].concat());
    let scattered = shards.iter().sum::<usize>();
    step.check_sums(scattered + numbers(&shards));
    step.check(CollectiveKind::ReduceScatter, shards);
    // Whole gradients travel over the one axis only. Over the other, what was scattered is summed.
    let along = |axis: &str, kind| {
        let bytes = step.of_kind(kind).filter(|c| step.axes(c) == [axis]).map(|c| c.bytes() as usize);
        bytes.sum::<usize>()
    };
    assert_eq!(along("fsdp", CollectiveKind::ReduceScatter), scattered);
    assert_eq!(along("data", CollectiveKind::AllReduce), scattered);
}

#[test]
fn uneven_parameters_travel_padded_and_nothing_else_does() {
    let plan = PlanOptions { dim_rule: DimRule::StrictLargest, ..PlanOptions::default() };
    let step = Step::new("odd", "fsdp=8", plan, false);
    let (whole, shards) = step.parameter_bytes(any);
    let again = step.parameter_bytes(needed_again).0;
    assert!(step.plan.arguments().iter().any(|a| a.padding_bytes > 0));
    step.check(CollectiveKind::AllGather, [whole, again].concat());
    step.check_sums(numbers(&shards));
    step.check(CollectiveKind::ReduceScatter, shards);
}

#[test]
fn small_parameters_stay_whole_and_their_gradients_are_summed() {
    let plan = PlanOptions { min_shard_bytes: 1024, ..PlanOptions::default() };
    let step = Step::new("base", "fsdp=8", plan, false);
    let is_norm = |p: &ParameterInfo| p.shape.len() == 1;
    let (whole, shards) = step.parameter_bytes(|p| !is_norm(p));
    let again = step.parameter_bytes(|p| needed_again(p) && !is_norm(p)).0;
    let norms: usize = step.parameter_bytes(is_norm).0.iter().sum();
    step.check(CollectiveKind::AllGather, [whole, again].concat());
    step.check_sums(norms + numbers(&shards));
    step.check(CollectiveKind::ReduceScatter, shards);
}

#[test]
fn on_a_torus_gathers_and_scatters_run_over_its_axes() {
    if !in_a_tpu_child("on_a_torus_gathers_and_scatters_run_over_its_axes") {
        return;
    }
    let model = model_of_whole_tiles();
    let config = StepConfig {
        global_batch_size: 16,
        lowering: Lowering::Explicit,
        ..oracle_step(&model, PlanOptions { min_shard_bytes: 4096, ..PlanOptions::default() })
    };
    let topology = Topology::open("v5e:4x4", &TopologyOptions::default()).unwrap();
    let placement = topology.place("fsdp=-1").unwrap();
    let module = config.module(&model).unwrap();
    let plan = config.sharding_plan(&model, &module, placement.mesh().shape()).unwrap();
    let plan = plan.placed(&placement).unwrap();
    assert_eq!(plan.mesh().to_string(), "fsdp.x=4, fsdp.y=4");
    let subject = Subject::of_module(&module, &plan, &config.wrap);
    let sharded = config.lower(&model, module, &plan).unwrap();
    let compiled = topology.compile(&sharded, placement.physical_mesh()).unwrap().compiled().unwrap();
    let explanation = Explanation::new(&compiled, &subject, None);
    assert_eq!(explanation.verdict.grade, Grade::AsPlanned, "{explanation}");
    let step = Step { model, plan, compiled };

    let is_norm = |p: &ParameterInfo| p.shape.len() == 1;
    for parameter in parameters(&step.model.config).iter().filter(|p| !is_norm(p)) {
        let unit = parameter.name.trim_end_matches(".weight");
        let gathers = step.of_kind(CollectiveKind::AllGather).filter(|c| c.op_name.ends_with(unit));
        // What a gather is overlapped with has its name too.
        let bytes: BTreeSet<u64> = gathers.map(|c| c.bytes()).collect();
        let bytes: Vec<u64> = bytes.into_iter().collect();
        assert!(matches!(bytes[..], [once, twice] if twice == 4 * once), "{unit}: {bytes:?}");
    }
    let (split, _) = step.plan.split_parameters();
    assert_eq!(step.of_kind(CollectiveKind::ReduceScatter).count(), 2 * split, "{:#?}", step.compiled);
    let norms: usize = step.parameter_bytes(is_norm).0.iter().sum();
    step.check_sums(norms + numbers(&step.parameter_bytes(|p| !is_norm(p)).1));
}
