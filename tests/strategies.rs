//! What each strategy means in the compiled step, and what a second axis and a tensor axis make of it.

mod support;

use shardwright_hlo::compiled::CollectiveKind::{self, AllGather, AllReduce, AllToAll, CollectivePermute};
use shardwright_model::ParameterInfo;
use shardwright_partition::{PlanOptions, Strategy};
use shardwright_train::{StepConfig, TrainError};
use support::{BATCH, CompiledStep, oracle_model, oracle_step};

const F32: usize = 4;
const LAYERS: usize = 2;

/// A step of the base model.
fn step_of(mesh: &str, strategy: Strategy, remat: bool) -> CompiledStep {
    let model = oracle_model("base");
    let config =
        StepConfig { remat, ..oracle_step(&model, PlanOptions { strategy, ..PlanOptions::default() }) };
    CompiledStep::new(&model, mesh, &config)
}

/// Parameters of the first of the two layers, which are gathered again in backward.
fn in_first_layer(p: &ParameterInfo) -> bool {
    p.name.starts_with("model.layers.0.")
}

#[track_caller]
fn check_none(step: &CompiledStep, kinds: &[CollectiveKind]) {
    for &kind in kinds {
        assert_eq!(step.of_kind(kind), [], "{kind}");
    }
}

/// Bytes that are summed along axes among which is `axis`.
fn summed_over(step: &CompiledStep, axis: &str) -> usize {
    let along = |axes: &String| axes.split('+').any(|a| a == axis);
    let sums = step.of_kind(AllReduce).into_iter().filter(|(_, axes)| along(axes));
    sums.map(|(c, _)| usize::try_from(c.bytes()).unwrap()).sum()
}

#[test]
fn shard_grad_op_gathers_parameters_once() {
    let step = step_of("fsdp=8", Strategy::ShardGradOp, true);
    step.check_same("all-gather", step.bytes(AllGather, "fsdp"), step.parameter_bytes(|_| true));
}

#[test]
fn no_shard_only_sums_gradients() {
    // The mesh needs no axis to shard over.
    let step = step_of("data=8", Strategy::NoShard, false);
    check_none(&step, &[AllGather, AllToAll, CollectivePermute]);
    let gradients: usize = step.parameter_bytes(|_| true).iter().sum();
    let numbers = step.parameter_bytes(|_| true).len() * F32;
    assert!((gradients..=gradients + numbers).contains(&summed_over(&step, "data")));
}

/// Checks that parameters are gathered within groups of the axis `fsdp`, and gradients summed over `data` too.
#[track_caller]
fn check_hybrid(mesh: &str, strategy: Strategy, gathered_again: bool) {
    let step = step_of(mesh, strategy, false);
    let again = step.parameter_bytes(|p| gathered_again && in_first_layer(p));
    let expected = [step.parameter_bytes(|_| true), again].concat();
    step.check_same("all-gather", step.bytes(AllGather, "fsdp"), expected.clone());
    assert_eq!(step.count(AllGather), expected.len(), "gathers along other axes");
    check_none(&step, &[AllToAll, CollectivePermute]);
    let gradients: usize = step.parameter_bytes(|_| true).iter().sum();
    let shards = gradients / step.mesh.axis_size("fsdp").unwrap();
    assert!(summed_over(&step, "data") >= shards, "each shard is summed over data");
    assert!(summed_over(&step, "fsdp") >= gradients, "each gradient is summed over fsdp");
}

#[test]
fn hybrid_shard_gathers_inside_and_sums_outside() {
    check_hybrid("data=2,fsdp=4", Strategy::HybridShard, true);
    check_hybrid("data=4,fsdp=2", Strategy::HybridShard, true);
    check_hybrid("data=2,fsdp=4", Strategy::HybridShardZero2, false);
}

#[test]
fn units_that_keep_their_parameters_are_chosen() {
    let model = oracle_model("base");
    let config = oracle_step(&model, PlanOptions::default());
    let gathers = |kept: &str| {
        let kept = [kept.parse().unwrap()];
        let config = StepConfig { wrap: config.wrap.clone().keeping_gathered(&kept), ..config.clone() };
        CompiledStep::new(&model, "fsdp=8", &config).count(AllGather)
    };
    let parameters = shardwright_model::parameters(&model.config).len();
    assert_eq!(gathers("layers.*"), parameters);
    assert_eq!(gathers("none"), parameters + 9 * LAYERS);
}

/// Checks that with a tensor axis weights are gathered over `fsdp` only, and activations are summed over `tensor`
/// where Megatron does so.
#[track_caller]
fn check_tensor(mesh: &str, remat: bool, strategy: Strategy) {
    let step = step_of(mesh, strategy, remat);
    let size = |axis| step.mesh.axis_size(axis).unwrap_or(1);
    let (tensor, shards) = (size("tensor"), size("fsdp") * size("data"));
    let examples = BATCH[0] / shards;
    let activation = examples * BATCH[1] * step.model.config.hidden_size() * F32;

    // What was looked up in the columns of the token table is put together; nothing else is gathered but weights.
    step.check_same("gathers over tensor", step.bytes(AllGather, "tensor"), vec![activation]);
    let is_kv = |name: &str| name.contains("k_proj") || name.contains("v_proj");
    let kv_is_whole = !step.model.config.num_key_value_heads().is_multiple_of(tensor);
    let of = |p: &ParameterInfo| {
        let whole = p.shape.len() == 1 || kv_is_whole && is_kv(&p.name);
        p.element_count() * F32 / if whole { 1 } else { tensor }
    };
    let infos = shardwright_model::parameters(&step.model.config);
    let again = infos.iter().filter(|p| in_first_layer(p));
    let gathered = if size("fsdp") > 1 { infos.iter().chain(again).map(of).collect() } else { vec![] };
    step.check_same("gathers over fsdp", step.bytes(AllGather, "fsdp"), gathered.clone());
    // Gradients of key and value heads that several devices share go to all of these.
    let is_shared = |name: &str| kv_is_whole && name.contains("self_attn") && name.ends_with("/backward");
    let others = [AllGather, CollectivePermute].map(|kind| step.of_kind(kind)).concat();
    let others = others.into_iter().filter(|(c, axes)| axes == "?" && !is_shared(&c.op_name));
    assert_eq!(others.collect::<Vec<_>>(), []);
    check_none(&step, &[AllToAll]);

    // Forward, one sum after each attention and one after each MLP.
    let forward = |layer: &str| {
        let is_sum = |name: &str| name.contains(layer) && !name.contains('/');
        let sums =
            step.of_kind(AllReduce).into_iter().filter(|(c, axes)| axes == "tensor" && is_sum(&c.op_name));
        sums.map(|(c, _)| usize::try_from(c.bytes()).unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(forward("self_attn.o_proj"), [activation; LAYERS]);
    assert_eq!(forward("mlp.down_proj"), [activation; LAYERS]);
    // All together: those, the same backward for each projection that begins a block, that of the output table,
    // and what is computed again, which is attention up to its output.
    let backward = LAYERS * (2 + if kv_is_whole { 1 } else { 3 }) + 1;
    let recomputed = if remat { LAYERS } else { 0 };
    let activations = (2 * LAYERS + backward + recomputed) * activation;
    // The loss needs three numbers for each token (maximum, sum, target), gradient norms one for each parameter.
    let numbers = 3 * examples * BATCH[1] * F32 + (infos.len() + 1) * F32;
    let summed = summed_over(&step, "tensor");
    assert!((activations..=activations + numbers).contains(&summed), "{summed} of {activations}");

    // Gradients, of what each device holds of them, and no activations. Those of shared heads are summed in parts first.
    let gradients: usize = infos.iter().map(of).sum();
    let sums = if size("data") > 1 && size("fsdp") > 1 { 2 * gradients } else { gradients };
    let shared = infos.iter().filter(|p| kv_is_whole && is_kv(&p.name)).map(of).sum::<usize>();
    let most = sums + shared + (2 * infos.len() + 2) * F32;
    let summed = step.of_kind(AllReduce).into_iter().filter(|(_, axes)| axes != "tensor");
    let summed: usize = summed.map(|(c, _)| usize::try_from(c.bytes()).unwrap()).sum();
    assert!((gradients..=most).contains(&summed), "{summed} of {gradients} to {most}");
}

#[test]
fn a_tensor_axis_splits_attention_and_mlp() {
    check_tensor("fsdp=4,tensor=2", false, Strategy::FullShard);
    check_tensor("fsdp=4,tensor=2", true, Strategy::FullShard);
    check_tensor("data=2,fsdp=2,tensor=2", false, Strategy::HybridShard);
    check_tensor("data=4,tensor=2", false, Strategy::NoShard);
}

#[test]
fn fewer_key_and_value_heads_than_devices_are_shared() {
    check_tensor("fsdp=2,tensor=4", false, Strategy::FullShard);
}

#[test]
fn a_tensor_axis_that_does_not_fit_the_model_is_an_error() {
    let model = oracle_model("base");
    let config = oracle_step(&model, PlanOptions::default());
    let mesh = shardwright_mesh::AbstractMesh::parse("fsdp=1,tensor=8").unwrap();
    let module = config.module(&model).unwrap();
    let error = config.sharding_plan(&model, &module, &mesh).unwrap_err();
    assert!(matches!(error, TrainError::Tensor(_)));
    expect_test::expect!["model.layers.*.self_attn: 4 attention heads do not divide over 8 devices (mesh axis tensor); sizes that fit are 1, 2, 4"].assert_eq(&error.to_string());
}
