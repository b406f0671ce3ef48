use expect_test::{Expect, expect};
use shardwright_hlo::parse;
use shardwright_mesh::AbstractMesh;

use super::*;
use crate::{LintOptions, RuleOptions, ShardedModule, lint, needed_by_results, uses_of_arguments};

/// The lines of a program that are about places, behind how much was pinned, or what its lints are.
#[track_caller]
fn check(program: &str, rules: &[&str], expect: Expect) {
    let parsed = parse(program).unwrap();
    let mut parsed_rules = ShardRules::default();
    for rule in rules {
        match rule.strip_prefix("--pin ") {
            Some(word) => parsed_rules.pin(Pins::parse(word).unwrap()),
            None => parsed_rules.push(rule).unwrap(),
        }
    }
    let options = RuleOptions {
        needed: Some(needed_by_results(&parsed.module)),
        uses: Some(uses_of_arguments(&parsed.module)),
        ..RuleOptions::default()
    };
    let mesh = AbstractMesh::parse("fsdp=2").unwrap();
    let plan = ShardingPlan::by_rules(&parsed.signature(), &mesh, &parsed_rules, &options).unwrap();
    let lints = lint(&plan, &LintOptions::default());
    let lints = lints.iter().filter(|lint| lint.severity == crate::Severity::Warning);
    let lints: Vec<String> = lints.map(|lint| format!("{lint}\n")).collect();
    let sharded = ShardedModule::from_parsed(parsed, &plan, &parsed_rules).unwrap();
    let text = sharded.stablehlo_text();
    parse(&text).unwrap();
    let is_shown = |line: &&str| line.contains("sharding_constraint") || line.contains("private");
    let lines = text.lines().filter(is_shown).map(|line| {
        let line = line.trim_start().replace("sdy.sharding_constraint", "pin");
        line.split(" -> ").next().unwrap_or_default().to_owned() + "\n"
    });
    let text = format!("{}\n{}{}", sharded.pins(), lints.concat(), lines.collect::<String>());
    expect.assert_eq(&text);
}

/// A step whose table is looked up in, multiplied with and trained.
const TIED: &str = r#"
module @step {
  func.func @main(%w: tensor<8x4xf32> {tf.aliasing_output = 0 : i32} loc("w"), %m: tensor<8x4xf32> {tf.aliasing_output = 1 : i32} loc("m"), %x: tensor<2x1xi32> loc("x")) -> (tensor<8x4xf32>, tensor<8x4xf32>, tensor<f32>) {
    %0 = "stablehlo.gather"(%w, %x) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 4>}> : (tensor<8x4xf32>, tensor<2x1xi32>) -> tensor<2x4xf32>
    %half = stablehlo.convert %w : (tensor<8x4xf32>) -> tensor<8x4xbf16>
    %up = stablehlo.convert %half : (tensor<8x4xbf16>) -> tensor<8x4xf32>
    %1 = stablehlo.dot_general %0, %up, contracting_dims = [1] x [1] : (tensor<2x4xf32>, tensor<8x4xf32>) -> tensor<2x8xf32>
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %loss = stablehlo.reduce(%1 init: %zero) applies stablehlo.add across dimensions = [0, 1] : (tensor<2x8xf32>, tensor<f32>) -> tensor<f32>
    %2 = stablehlo.dot_general %1, %0, contracting_dims = [0] x [0] : (tensor<2x8xf32>, tensor<2x4xf32>) -> tensor<8x4xf32>
    %zeros = stablehlo.broadcast_in_dim %zero, dims = [] : (tensor<f32>) -> tensor<8x4xf32>
    %3 = "stablehlo.scatter"(%zeros, %x, %0) <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, unique_indices = false}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<8x4xf32>, tensor<2x1xi32>, tensor<2x4xf32>) -> tensor<8x4xf32>
    %g = stablehlo.add %2, %3 : tensor<8x4xf32>
    %m1 = stablehlo.add %m, %g : tensor<8x4xf32>
    %w1 = stablehlo.subtract %w, %m1 : tensor<8x4xf32>
    return %w1, %m1, %loss : tensor<8x4xf32>, tensor<8x4xf32>, tensor<f32>
  }
}
"#;

#[test]
fn a_weight_is_gathered_where_it_is_used_and_not_where_it_is_updated() {
    check(
        TIED,
        &["x=batch"],
        expect![[r#"
        pinned inside: 2 weights where they are used, 2 gradients
        %0 = pin %arg0 <@mesh, [{}, {}]> : tensor<8x4xf32>
        %4 = pin %3 <@mesh, [{}, {}]> : tensor<8x4xf32>
        %10 = pin %9 <@mesh, [{"fsdp"}, {}]> : tensor<8x4xf32>
        %13 = pin %12 <@mesh, [{}, {}]> : tensor<8x4xf32>
        %14 = pin %13 <@mesh, [{"fsdp"}, {}]> : tensor<8x4xf32>
    "#]],
    );
    check(
        TIED,
        &["x=batch", "w=fsdp"],
        expect![[r#"
        pinned inside: 2 weights where they are used, 2 gradients
        %0 = pin %arg0 <@mesh, [{}, {}]> : tensor<8x4xf32>
        %4 = pin %3 <@mesh, [{}, {}]> : tensor<8x4xf32>
        %10 = pin %9 <@mesh, [{"fsdp"}, {}]> : tensor<8x4xf32>
        %13 = pin %12 <@mesh, [{}, {}]> : tensor<8x4xf32>
        %14 = pin %13 <@mesh, [{"fsdp"}, {}]> : tensor<8x4xf32>
    "#]],
    );
}

#[test]
fn what_others_say_is_theirs() {
    check(
        TIED,
        &["x=batch", "--pin arguments"],
        expect![[r#"
        pinned inside: 0 weights where they are used, 0 gradients
    "#]],
    );
    check(
        TIED,
        &["x=batch", "w=(fsdp, -)"],
        expect![[r#"
        pinned inside: 0 weights where they are used, 0 gradients
    "#]],
    );
    check(
        TIED,
        &["x=batch", "w=replicated"],
        expect![[r#"
        pinned inside: 0 weights where they are used, 0 gradients
    "#]],
    );
    check(
        TIED,
        &["x=batch", "op:convert=(-, fsdp)", "op:scatter=replicated"],
        expect![[r#"
        pinned inside: 1 weight where it is used, 1 gradient
        %0 = pin %arg0 <@mesh, [{}, {}]> : tensor<8x4xf32>
        %3 = pin %2 <@mesh, [{}, {"fsdp"}]> : tensor<8x4xbf16>
        %5 = pin %4 <@mesh, [{}, {"fsdp"}]> : tensor<8x4xf32>
        %11 = pin %10 <@mesh, [{"fsdp"}, {}]> : tensor<8x4xf32>
        %14 = pin %13 <@mesh, [{}, {}]> : tensor<8x4xf32>
    "#]],
    );
}

#[test]
fn without_a_new_value_there_is_no_gradient() {
    let kept =
        TIED.replace("{tf.aliasing_output = 0 : i32} ", "").replace("{tf.aliasing_output = 1 : i32} ", "");
    check(
        &kept,
        &["x=batch", "w=fsdp"],
        expect![[r#"
        pinned inside: 2 weights where they are used, 0 gradients
        %0 = pin %arg0 <@mesh, [{}, {}]> : tensor<8x4xf32>
        %4 = pin %3 <@mesh, [{}, {}]> : tensor<8x4xf32>
    "#]],
    );
}

/// A loop over two layers and one back, whose gradients are put into a stack by a function.
const LAYERS: &str = r#"
module @step {
  func.func @main(%w: tensor<4x4x4xf32> {tf.aliasing_output = 0 : i32} loc("w"), %x: tensor<2x4xf32> loc("x")) -> (tensor<4x4x4xf32>, tensor<2x4xf32>) {
    %i = stablehlo.constant dense<0> : tensor<i32>
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %zeros = stablehlo.broadcast_in_dim %zero, dims = [] : (tensor<f32>) -> tensor<4x4x4xf32>
    %r:4 = stablehlo.while(%j = %i, %ws = %w, %h = %x, %gs = %zeros) : tensor<i32>, tensor<4x4x4xf32>, tensor<2x4xf32>, tensor<4x4x4xf32>
    cond {
      %n = stablehlo.constant dense<4> : tensor<i32>
      %c = stablehlo.compare LT, %j, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %layer = func.call @index(%ws, %j) : (tensor<4x4x4xf32>, tensor<i32>) -> tensor<4x4xf32>
      %h1 = func.call @dot(%h, %layer) : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
      %g = stablehlo.dot_general %h, %h1, contracting_dims = [0] x [0] : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<4x4xf32>
      %gs1 = func.call @update(%gs, %g, %j) : (tensor<4x4x4xf32>, tensor<4x4xf32>, tensor<i32>) -> tensor<4x4x4xf32>
      %j1 = stablehlo.add %j, %one : tensor<i32>
      stablehlo.return %j1, %ws, %h1, %gs1 : tensor<i32>, tensor<4x4x4xf32>, tensor<2x4xf32>, tensor<4x4x4xf32>
    }
    %w1 = stablehlo.subtract %w, %r#3 : tensor<4x4x4xf32>
    return %w1, %r#2 : tensor<4x4x4xf32>, tensor<2x4xf32>
  }
  func.func private @index(%ws: tensor<4x4x4xf32>, %j: tensor<i32>) -> tensor<4x4xf32> {
    %z = stablehlo.constant dense<0> : tensor<i32>
    %s = stablehlo.dynamic_slice %ws, %j, %z, %z, sizes = [1, 4, 4] : (tensor<4x4x4xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x4x4xf32>
    %r = stablehlo.reshape %s : (tensor<1x4x4xf32>) -> tensor<4x4xf32>
    return %r : tensor<4x4xf32>
  }
  func.func private @dot(%h: tensor<2x4xf32>, %layer: tensor<4x4xf32>) -> tensor<2x4xf32> {
    %r = stablehlo.dot_general %h, %layer, contracting_dims = [1] x [0] : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    return %r : tensor<2x4xf32>
  }
  func.func private @update(%gs: tensor<4x4x4xf32>, %g: tensor<4x4xf32>, %j: tensor<i32>) -> tensor<4x4x4xf32> {
    %z = stablehlo.constant dense<0> : tensor<i32>
    %b = stablehlo.broadcast_in_dim %g, dims = [1, 2] : (tensor<4x4xf32>) -> tensor<1x4x4xf32>
    %r = stablehlo.dynamic_update_slice %gs, %b, %j, %z, %z : (tensor<4x4x4xf32>, tensor<1x4x4xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<4x4x4xf32>
    return %r : tensor<4x4x4xf32>
  }
}
"#;

#[test]
fn layers_are_gathered_one_by_one_and_so_are_their_gradients_scattered() {
    check(
        LAYERS,
        &["x=batch"],
        expect![[r#"
        pinned inside: 1 weight where it is used, 2 gradients
        %20 = pin %3#3 <@mesh, [{}, {"fsdp"}, {}]> : tensor<4x4x4xf32>
        func.func private @index(%arg0: tensor<4x4x4xf32>, %arg1: tensor<i32>)
        func.func private @dot(%arg0: tensor<2x4xf32>, %arg1: tensor<4x4xf32>)
        %25 = pin %arg1 <@mesh, [{}, {}]> : tensor<4x4xf32>
        func.func private @update(%arg0: tensor<4x4x4xf32>, %arg1: tensor<4x4xf32>, %arg2: tensor<i32>)
        %29 = pin %28 <@mesh, [{}, {"fsdp"}, {}]> : tensor<1x4x4xf32>
    "#]],
    );
    // A rule may split the stack: then no part of a gradient lies as the whole does.
    check(
        LAYERS,
        &["x=batch", "w=(fsdp, -, -)"],
        expect![[r#"
        pinned inside: 0 weights where they are used, 0 gradients
        w: dim 0 of f32[4,4,4] is split over fsdp, and the program takes one index of it at a time: each is on some devices only, and the others have to get it from there; split another dim, or none [sliced-dim]
        func.func private @index(%arg0: tensor<4x4x4xf32>, %arg1: tensor<i32>)
        func.func private @dot(%arg0: tensor<2x4xf32>, %arg1: tensor<4x4xf32>)
        func.func private @update(%arg0: tensor<4x4x4xf32>, %arg1: tensor<4x4xf32>, %arg2: tensor<i32>)
    "#]],
    );
}

#[test]
fn a_function_that_others_call_too_is_given_what_it_needs() {
    let shared = LAYERS.replace(
        "    %w1 = stablehlo",
        "    %sq = stablehlo.constant dense<1.0> : tensor<4x4xf32>\n    \
         %y = func.call @dot(%x, %sq) : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>\n    \
         %other = func.call @update(%zeros, %sq, %i) : (tensor<4x4x4xf32>, tensor<4x4xf32>, tensor<i32>) -> tensor<4x4x4xf32>\n    \
         %w1 = stablehlo",
    );
    check(
        &shared,
        &["x=batch"],
        expect![[r#"
        pinned inside: 1 weight where it is used, 2 gradients
        %16 = pin %15 <@mesh, [{}, {}]> : tensor<4x4xf32>
        %20 = pin %19 <@mesh, [{}, {"fsdp"}, {}]> : tensor<4x4x4xf32>
        %22 = pin %3#3 <@mesh, [{}, {"fsdp"}, {}]> : tensor<4x4x4xf32>
        func.func private @index(%arg0: tensor<4x4x4xf32>, %arg1: tensor<i32>)
        func.func private @dot(%arg0: tensor<2x4xf32>, %arg1: tensor<4x4xf32>)
        func.func private @update(%arg0: tensor<4x4x4xf32>, %arg1: tensor<4x4xf32>, %arg2: tensor<i32>)
    "#]],
    );
}

/// Several steps of training in one program.
const STEPS: &str = r#"
module @steps {
  func.func @main(%w: tensor<4x4xf32> {tf.aliasing_output = 0 : i32} loc("w"), %x: tensor<2x4xf32> loc("x")) -> (tensor<4x4xf32>, tensor<2x4xf32>) {
    %i = stablehlo.constant dense<0> : tensor<i32>
    %r:3 = stablehlo.while(%j = %i, %v = %w, %h = %x) : tensor<i32>, tensor<4x4xf32>, tensor<2x4xf32>
    cond {
      %n = stablehlo.constant dense<4> : tensor<i32>
      %c = stablehlo.compare LT, %j, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %y = stablehlo.dot_general %x, %v, contracting_dims = [1] x [0] : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
      %g = stablehlo.dot_general %x, %y, contracting_dims = [0] x [0] : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<4x4xf32>
      %v1 = stablehlo.subtract %v, %g : tensor<4x4xf32>
      %j1 = stablehlo.add %j, %one : tensor<i32>
      stablehlo.return %j1, %v1, %y : tensor<i32>, tensor<4x4xf32>, tensor<2x4xf32>
    }
    return %r#1, %r#2 : tensor<4x4xf32>, tensor<2x4xf32>
  }
}
"#;

#[test]
fn a_loop_over_steps_carries_shards() {
    check(
        STEPS,
        &["x=batch"],
        expect![[r#"
        pinned inside: 1 weight where it is used, 1 gradient
        %11 = pin %8 <@mesh, [{}, {}]> : tensor<4x4xf32>
        %14 = pin %13 <@mesh, [{"fsdp"}, {}]> : tensor<4x4xf32>
    "#]],
    );
}

/// Decoding: a cache that is written into.
const CACHE: &str = r#"
module @decode {
  func.func @main(%c: tensor<4x8xf32> {tf.aliasing_output = 0 : i32} loc("c"), %x: tensor<4x1xf32> loc("x"), %i: tensor<i32> loc("i")) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
    %z = stablehlo.constant dense<0> : tensor<i32>
    %r = stablehlo.dynamic_update_slice %c, %x, %z, %i : (tensor<4x8xf32>, tensor<4x1xf32>, tensor<i32>, tensor<i32>) -> tensor<4x8xf32>
    %y = stablehlo.add %r, %r : tensor<4x8xf32>
    return %r, %y : tensor<4x8xf32>, tensor<4x8xf32>
  }
}
"#;

#[test]
fn a_cache_is_no_parameter() {
    check(
        CACHE,
        &[],
        expect![[r#"
        pinned inside: 0 weights where they are used, 0 gradients
    "#]],
    );
    let parsed = parse(CACHE).unwrap();
    assert!(uses_of_arguments(&parsed.module)[0].is_overwritten);
}

#[test]
fn a_cache_may_be_written_in_functions_that_are_called_many_times_over() {
    const FUNCTIONS: usize = 60;
    let argument = |name: &str| format!("%{name}: tensor<4xf32>");
    let mut program = format!("func.func private @f0({}) -> tensor<4xf32> {{\n", argument("c"));
    program += "%i = stablehlo.constant dense<0> : tensor<i32>\n%x = stablehlo.constant dense<0.0> : tensor<1xf32>\n";
    program += "%r = stablehlo.dynamic_update_slice %c, %x, %i : (tensor<4xf32>, tensor<1xf32>, tensor<i32>) -> tensor<4xf32>\n";
    program += "return %r : tensor<4xf32>\n}\n";
    for index in 1..FUNCTIONS {
        let callee = index - 1;
        program += &format!(
            "func.func private @f{index}({}) -> tensor<4xf32> {{\n\
             %a = call @f{callee}(%c) : (tensor<4xf32>) -> tensor<4xf32>\n\
             %b = call @f{callee}(%a) : (tensor<4xf32>) -> tensor<4xf32>\n\
             return %b : tensor<4xf32>\n}}\n",
            argument("c")
        );
    }
    program += &format!(
        "func.func @main({}, {}) -> (tensor<4xf32>, tensor<4xf32>) {{\n\
         %r = call @f{}(%c) : (tensor<4xf32>) -> tensor<4xf32>\n\
         return %r, %y : tensor<4xf32>, tensor<4xf32>\n}}\n",
        argument("c"),
        argument("y"),
        FUNCTIONS - 1
    );
    let parsed = parse(&program).unwrap();
    let uses = uses_of_arguments(&parsed.module);
    assert_eq!([true, false], [uses[0].is_overwritten, uses[1].is_overwritten]);
}

#[test]
fn each_step_of_a_long_way_may_be_an_output() {
    const STEPS: usize = 50_000;
    let types = vec!["tensor<4xf32>"; STEPS].join(", ");
    let values: Vec<String> = (0..STEPS).map(|step| format!("%r{step}")).collect();
    let mut program =
        format!("func.func @main(%c: tensor<4xf32>, %x: tensor<1xf32>, %i: tensor<i32>) -> ({types}) {{\n");
    for (step, value) in values.iter().enumerate() {
        let before = step.checked_sub(1).map_or("%c", |before| &values[before]);
        program += &format!(
            "{value} = stablehlo.dynamic_update_slice {before}, %x, %i : (tensor<4xf32>, tensor<1xf32>, tensor<i32>) -> tensor<4xf32>\n"
        );
    }
    program += &format!("return {} : {types}\n}}\n", values.join(", "));
    let parsed = parse(&program).unwrap();
    assert!(uses_of_arguments(&parsed.module)[0].is_overwritten);
}

#[test]
fn an_update_may_call_a_function_many_times() {
    const CALLS: usize = 20_000;
    let mut program = "func.func private @f(%a: tensor<8xf32>) -> tensor<8xf32> {\n\
         %r = stablehlo.negate %a : tensor<8xf32>\nreturn %r : tensor<8xf32>\n}\n\
         func.func @main(%w: tensor<8xf32> {tf.aliasing_output = 0 : i32}, %x: tensor<8x8xf32>) -> tensor<8xf32> {\n\
         %zero = stablehlo.constant dense<0.0> : tensor<f32>\n\
         %v0 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<8x8xf32>, tensor<f32>) -> tensor<8xf32>\n"
        .to_owned();
    for call in 0..CALLS {
        program += &format!("%v{} = call @f(%v{call}) : (tensor<8xf32>) -> tensor<8xf32>\n", call + 1);
    }
    program +=
        &format!("%w1 = stablehlo.add %w, %v{CALLS} : tensor<8xf32>\nreturn %w1 : tensor<8xf32>\n}}\n");
    check(
        &program,
        &["#0=fsdp", "#1=batch"],
        expect![[r#"
        pinned inside: 0 weights where they are used, 1 gradient
        %2 = pin %1 <@mesh, [{"fsdp"}]> : tensor<8xf32>
        func.func private @f(%arg0: tensor<8xf32>)
    "#]],
    );
}
