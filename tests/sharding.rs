//! What XLA makes of a fully sharded train step, for each kind of decoder: weights are gathered and never activations,
//! each gradient is summed once, and rematerialisation recomputes what it should.

mod support;

use shardwright_hlo::compiled::CollectiveKind;
use shardwright_model::{Init, ModelConfig, ParameterInfo, ParameterKind};
use shardwright_partition::PlanOptions;
use shardwright_train::{CausalLm, StepConfig};
use support::{BATCH, CompiledStep, causal_lm, oracle_model, oracle_step, quickstart_config};

const F32: usize = 4;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Layers {
    Kept,
    Rematerialised,
}

fn step_of(model: &CausalLm, layers: Layers) -> CompiledStep {
    let remat = layers == Layers::Rematerialised;
    let config = StepConfig { remat, ..oracle_step(model, PlanOptions::default()) };
    CompiledStep::new(model, "fsdp=8", &config)
}

/// Whether a parameter is gathered a second time, in backward. Those of all layers but the last are; biases only of what
/// is computed again, since backward does not need them otherwise, and nor does it need offsets from 1: what they are
/// offsets of is kept.
fn is_gathered_again(step: &CompiledStep, parameter: &ParameterInfo, layers: Layers) -> bool {
    let last = format!("model.layers.{}.", step.model.config.num_hidden_layers() - 1);
    let in_layers = parameter.name.starts_with("model.layers.") && !parameter.name.starts_with(&last);
    let unused = parameter.name.ends_with("mlp.down_proj.bias");
    let is_offset = parameter.kind == ParameterKind::Norm && parameter.init == Init::Zeros;
    let is_used_once = parameter.name.ends_with(".bias") || is_offset;
    in_layers && (!is_used_once || layers == Layers::Rematerialised && !unused)
}

/// Checks that the step gathers its parameters, some of them again, and `besides`.
#[track_caller]
fn check_gathers(step: &CompiledStep, layers: Layers, besides: &[usize]) {
    let again = step.parameter_bytes(|p| is_gathered_again(step, p, layers));
    let expected = [step.parameter_bytes(|_| true), again, besides.to_vec()].concat();
    step.check_same("all-gather", step.bytes(CollectiveKind::AllGather, "fsdp"), expected);
    assert_eq!(step.bytes(CollectiveKind::AllGather, "?"), [0_usize; 0]);
}

/// Checks that gradients, which are of so many bytes, are summed over the devices, and nothing else of their size is.
#[track_caller]
fn check_gradients(step: &CompiledStep, gradients: usize) {
    // XLA joins sums that do not depend on each other, so what can be said is how many bytes they are of together:
    // those of all gradients, and a number each for the parts of the norm, the loss and its denominator.
    let parameters = step.parameter_bytes(|_| true);
    let reduced: usize = step.bytes(CollectiveKind::AllReduce, "fsdp").iter().sum();
    let scattered: usize = step.bytes(CollectiveKind::ReduceScatter, "fsdp").iter().sum();
    let summed = reduced + 8 * scattered;
    let numbers = F32 * (parameters.len() + 2);
    assert!(
        (gradients..=gradients + numbers).contains(&summed),
        "{summed} bytes are summed, of {gradients} of gradients: {:#?}",
        step.program.collectives
    );
    assert_eq!(step.count(CollectiveKind::CollectivePermute), 0, "{:#?}", step.program.collectives);
}

/// Checks a decoder with layers kept and rematerialised, and gives both steps.
#[track_caller]
fn check(model: &CausalLm) -> [CompiledStep; 2] {
    [Layers::Kept, Layers::Rematerialised].map(|layers| {
        let step = step_of(model, layers);
        check_gathers(&step, layers, &[]);
        // A table that is used twice has two gradients, which XLA sums over the devices one by one.
        let twice = if model.config.tie_word_embeddings() { table_bytes(model) } else { 0 };
        check_gradients(&step, step.parameter_bytes(|_| true).iter().sum::<usize>() + twice);
        assert_eq!(step.count(CollectiveKind::AllToAll), 0, "{:#?}", step.program.collectives);
        step
    })
}

fn table_bytes(model: &CausalLm) -> usize {
    model.config.vocab_size() * model.config.hidden_size() * F32
}

#[test]
fn weights_are_gathered_in_forward_and_backward_and_gradients_summed_once() {
    check(&oracle_model("base"));
}

#[test]
fn so_are_biases() {
    check(&oracle_model("bias"));
}

#[test]
fn a_tied_table_is_gathered_once() {
    check(&oracle_model("tied"));
}

/// The decoder of the curves as another family has it.
fn of_family(model_type: &str, members: &str) -> CausalLm {
    let text = format!(
        r#"{{"model_type": "{model_type}", "vocab_size": 512, "hidden_size": 128, "intermediate_size": 352,
            "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32,
            "sliding_window": 16{members}}}"#
    );
    causal_lm(ModelConfig::parse(&text, "config.json").unwrap(), BATCH[1])
}

#[test]
fn so_are_those_of_a_family_with_biases_of_queries_keys_and_values() {
    check(&of_family("qwen2", ""));
}

#[test]
fn so_are_the_norms_of_queries_keys_and_outputs() {
    check(&of_family("gemma3_text", r#", "sliding_window_pattern": 2"#));
}

#[test]
fn the_quickstart_does_so_and_recomputation_saves_memory() {
    let [kept, again] = check(&causal_lm(quickstart_config(), BATCH[1]));
    let (less, more) = (again.temporary_bytes, kept.temporary_bytes);
    assert!(less * 6 < more * 5, "{less} bytes with recomputation, {more} without");
}

#[test]
fn few_tokens_do_not_change_that() {
    // Activations are smaller than weights here, by far.
    let model = CausalLm { block_size: 4, ..oracle_model("base") };
    for layers in [Layers::Kept, Layers::Rematerialised] {
        let remat = layers == Layers::Rematerialised;
        let config = StepConfig { remat, ..oracle_step(&model, PlanOptions::default()) };
        let step = CompiledStep::new(&model, "fsdp=8", &config);
        check_gathers(&step, layers, &[]);
        check_gradients(&step, step.parameter_bytes(|_| true).iter().sum());
    }
}

#[test]
fn tables_split_by_columns_move_token_ids_instead_of_their_gradient() {
    // 509 rows do not divide, so the token table is split by columns. Its gradient is then worked out by columns: each
    // device gets all token ids, 2 KiB, and its columns of the gradients of their rows, 30 KiB, where a sum over the
    // devices would be of the whole table, 239 KiB.
    let model = oracle_model("odd");
    for layers in [Layers::Kept, Layers::Rematerialised] {
        let step = step_of(&model, layers);
        check_gathers(&step, layers, &[BATCH[0] * BATCH[1] * 4]);
        check_gradients(&step, step.parameter_bytes(|_| true).iter().sum::<usize>() - table_bytes(&model));
        let columns = BATCH[0] * BATCH[1] * model.config.hidden_size() * F32 / 8;
        step.check_same("all-to-all", step.bytes(CollectiveKind::AllToAll, "fsdp"), vec![columns]);
    }
}

#[test]
fn one_device_needs_no_collectives() {
    let model = oracle_model("base");
    let config = StepConfig { remat: true, ..oracle_step(&model, PlanOptions::default()) };
    assert_eq!(CompiledStep::new(&model, "fsdp=1", &config).program.collectives, []);
}
