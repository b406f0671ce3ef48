//! Texts that are read, and texts that are refused, held against MLIR's own generic form.

use std::collections::BTreeSet;

use expect_test::{Expect, expect, expect_file};

use super::form::Types;
use super::forms::FORMS;
use super::tree::{Operation, Position};
use super::{ParseProblem, read};

mod generic;

/// A module that MLIR printed, in which each op stands in its own form.
const ALL: &str = include_str!("../../../tests/data/forms.mlir");

fn in_generic_form(text: &str) -> String {
    let mut out = String::new();
    generic::operation(&mut out, &read(text).unwrap_or_else(|error| panic!("{error}")), 0);
    out + "\n"
}

#[track_caller]
fn check(text: &str, expect: Expect) {
    expect.assert_eq(&in_generic_form(text));
}

#[track_caller]
fn check_error(text: &str, expect: Expect) {
    expect.assert_eq(&read(text).unwrap_err().to_string());
}

fn walk(op: &Operation, visit: &mut impl FnMut(&Operation)) {
    visit(op);
    for inner in op.regions.iter().flat_map(|region| &region.operations) {
        walk(inner, visit);
    }
}

#[test]
fn each_op_has_its_generic_form() {
    expect_file!["../../../tests/data/forms.generic.mlir"].assert_eq(&in_generic_form(ALL));
}

#[test]
fn the_generic_form_is_read_as_it_is_written() {
    let once = in_generic_form(ALL);
    assert_eq!(in_generic_form(&once), once);
}

/// Ops whose forms the module above cannot have: MLIR prints it without the dialect of quantized types, and refuses the
/// last outside of what Shardy itself makes.
const RARE: &str = r#"
    %0 = stablehlo.uniform_quantize %x : (tensor<8xf32>) -> tensor<8x!quant.uniform<i8:f32, 1.0:0>>
    %1 = stablehlo.uniform_dequantize %0 : (tensor<8x!quant.uniform<i8:f32, 1.0:0>>) -> tensor<8xf32>
    %2 = sdy.replicated_to_unreduced {"x"} %1 out_sharding=<@mesh, [{}], unreduced={"x"}> : tensor<8xf32>
"#;

#[test]
fn forms_of_rare_ops() {
    check(
        RARE,
        expect![[r#"
            "builtin.module"() ({
              %0 = "stablehlo.uniform_quantize"(%x) : (tensor<8xf32>) -> tensor<8x!quant.uniform<i8:f32, 1.0:0>>
              %1 = "stablehlo.uniform_dequantize"(%0) : (tensor<8x!quant.uniform<i8:f32, 1.0:0>>) -> tensor<8xf32>
              %2 = "sdy.replicated_to_unreduced"(%1) <{axes = #sdy<axis_ref_list{"x"}>, out_sharding = #sdy.sharding<@mesh, [{}], unreduced={"x"}>}> : (tensor<8xf32>) -> tensor<8xf32>
            }) : () -> ()
        "#]],
    );
}

#[test]
fn every_form_is_tried() {
    let mut tried = BTreeSet::new();
    for text in [ALL, RARE] {
        walk(&read(text).unwrap(), &mut |op| {
            tried.insert(op.name.to_string());
        });
    }
    for form in FORMS.iter().filter(|form| form.types != Types::Generic) {
        assert!(tried.contains(form.name), "{}", form.name);
    }
    let names: BTreeSet<&str> = FORMS.iter().map(|form| form.name).collect();
    assert_eq!(names.len(), FORMS.len(), "an op has two rows");
}

#[test]
fn properties_among_the_attributes_are_put_where_they_belong() {
    check(
        r#""stablehlo.sort"(%a) ({ ^bb0: "stablehlo.return"() : () -> () }) {is_stable = true, x.y, dimension = 0 : i64} : (tensor<f32>) -> tensor<f32>
           "func.func"() ({ ^bb0(%x: i32, %y: i32): func.return }) {sym_name = "f", arg_attrs = [{x.y = [1, 2]}, {}], function_type = (i32, i32) -> ()} : () -> ()
           %1 = stablehlo.tanh %a {xla_shape = "f32[]", result_accuracy = #stablehlo.result_accuracy<>} : tensor<f32>"#,
        expect![[r#"
            "builtin.module"() ({
              "stablehlo.sort"(%a) <{dimension = 0 : i64, is_stable = true}> ({
                "stablehlo.return"() : () -> ()
              }) {x.y} : (tensor<f32>) -> tensor<f32>
              "func.func"() <{arg_attrs = [{x.y = [1, 2]}, {}], function_type = (i32, i32) -> (), sym_name = "f"}> ({
              ^bb0(%x: i32, %y: i32):
                "func.return"() : () -> ()
              }) : () -> ()
              %1 = "stablehlo.tanh"(%a) <{result_accuracy = #stablehlo.result_accuracy<>}> {xla_shape = "f32[]"} : (tensor<f32>) -> tensor<f32>
            }) : () -> ()
        "#]],
    );
}

#[test]
fn aliases_and_resources_are_written_out() {
    check(
        r##"
!t = tensor<4xf32> // A comment.
#m = affine_map<(d0) -> (d0)>
#loc = loc(unknown)
#loc1 = loc("a.py":1:2)
module @m attributes {a.maps = [#m, #m], a.ty = !t, a.x = #x.y<1>, a.text = "#m !t"} {
  func.func @main(%a: !t loc("p"), %b: tensor<4x!t>) -> (!t {jax.result_info = "x"}) {
    // #m stands for nothing here.
    %0 = stablehlo.add %a, %a : !t loc(#loc3)
    %1 = stablehlo.constant dense_resource<blob> : tensor<2xf32> loc(#loc)
    return %0 : !t loc(fused<"x">[#loc1, "f"(#loc2)])
  } loc(#loc)
} loc(#loc2)
#loc2 = loc("f"(#loc1))
#loc3 = loc(callsite(#loc2 at #loc1))
{-#
  dialect_resources: {
    builtin: {
      blob: "0x040000000000803F00000040"
    }
  },
  external_resources: { other: { version: 1, name: true } }
#-}
"##,
        expect![[r##"
            "builtin.module"() <{sym_name = "m"}> ({
              "func.func"() <{function_type = (tensor<4xf32>, tensor<4xtensor<4xf32>>) -> tensor<4xf32>, res_attrs = [{jax.result_info = "x"}], sym_name = "main"}> ({
              ^bb0(%a: tensor<4xf32> loc("p"), %b: tensor<4xtensor<4xf32>>):
                %0 = "stablehlo.add"(%a, %a) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> loc(callsite("f"("a.py":1:2) at "a.py":1:2))
                %1 = "stablehlo.constant"() <{value = dense<"0x0000803F00000040"> : tensor<2xf32>}> : () -> tensor<2xf32> loc(unknown)
                "func.return"(%0) : (tensor<4xf32>) -> () loc(fused<"x">["a.py":1:2, "f"("f"("a.py":1:2))])
              }) : () -> () loc(unknown)
            }) {a.maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], a.text = "#m !t", a.ty = tensor<4xf32>, a.x = #x.y<1>} : () -> () loc("f"("a.py":1:2))
        "##]],
    );
}

/// As torch_xla exports: no locations, shardings as GSPMD writes them, attributes of frameworks anywhere.
#[test]
fn a_module_of_torch_xla() {
    check(
        r#"module @IrToHlo.12 attributes {mhlo.cross_program_prefetches = [], mhlo.is_dynamic = false, mhlo.use_auto_spmd_partitioning = false} {
  func.func @main(%arg0: tensor<16xf32> {mhlo.sharding = "{devices=[8]<=[8]}"}, %arg1: tensor<8x16xf32>) -> tensor<8x16xf32> {
    %0 = stablehlo.broadcast_in_dim %arg0, dims = [1] : (tensor<16xf32>) -> tensor<8x16xf32>
    %1 = stablehlo.custom_call @Sharding(%0) {backend_config = "", mhlo.sharding = "{devices=[8,1]<=[8]}"} : (tensor<8x16xf32>) -> tensor<8x16xf32>
    %2 = stablehlo.add %arg1, %1 {mhlo.frontend_attributes = {_xla_buffer_placement = "arg"}} : tensor<8x16xf32>
    return %2 : tensor<8x16xf32>
  }
}
"#,
        expect![[r#"
            "builtin.module"() <{sym_name = "IrToHlo.12"}> ({
              "func.func"() <{arg_attrs = [{mhlo.sharding = "{devices=[8]<=[8]}"}, {}], function_type = (tensor<16xf32>, tensor<8x16xf32>) -> tensor<8x16xf32>, sym_name = "main"}> ({
              ^bb0(%arg0: tensor<16xf32>, %arg1: tensor<8x16xf32>):
                %0 = "stablehlo.broadcast_in_dim"(%arg0) <{broadcast_dimensions = array<i64: 1>}> : (tensor<16xf32>) -> tensor<8x16xf32>
                %1 = "stablehlo.custom_call"(%0) <{backend_config = "", call_target_name = "Sharding"}> {mhlo.sharding = "{devices=[8,1]<=[8]}"} : (tensor<8x16xf32>) -> tensor<8x16xf32>
                %2 = "stablehlo.add"(%arg1, %1) {mhlo.frontend_attributes = {_xla_buffer_placement = "arg"}} : (tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<8x16xf32>
                "func.return"(%2) : (tensor<8x16xf32>) -> ()
              }) : () -> ()
            }) {mhlo.cross_program_prefetches = [], mhlo.is_dynamic = false, mhlo.use_auto_spmd_partitioning = false} : () -> ()
        "#]],
    );
}

#[test]
fn attributes_may_stand_before_the_operands() {
    check(
        r#"%0 = stablehlo.optimization_barrier {x.y} %a : i32
           %1 = stablehlo.constant {x.y} dense<1> : tensor<i32>
           %2 = sdy.all_reduce {"x"} %0 out_sharding=<@mesh, []> {x.y} : i32
           return {x.y = 1 : i32} %0 : i32"#,
        expect![[r#"
            "builtin.module"() ({
              %0 = "stablehlo.optimization_barrier"(%a) {x.y} : (i32) -> i32
              %1 = "stablehlo.constant"() <{value = dense<1> : tensor<i32>}> {x.y} : () -> tensor<i32>
              %2 = "sdy.all_reduce"(%0) <{out_sharding = #sdy.sharding<@mesh, []>, reduction_axes = #sdy<axis_ref_list{"x"}>}> {x.y} : (i32) -> i32
              "func.return"(%0) {x.y = 1 : i32} : (i32) -> ()
            }) : () -> ()
        "#]],
    );
}

#[test]
fn functions_that_are_only_declared() {
    check(
        "func.func private @f(%a: i32 {x.y}, i32) -> i32\nfunc.func private @g() -> ()\nfunc.func @h() -> (i32, f32 {x.z})",
        expect![[r#"
            "builtin.module"() ({
              "func.func"() <{arg_attrs = [{x.y}, {}], function_type = (i32, i32) -> i32, sym_name = "f", sym_visibility = "private"}> ({
              }) : () -> ()
              "func.func"() <{function_type = () -> (), sym_name = "g", sym_visibility = "private"}> ({
              }) : () -> ()
              "func.func"() <{function_type = () -> (i32, f32), res_attrs = [{}, {x.z}], sym_name = "h"}> ({
              }) : () -> ()
            }) : () -> ()
        "#]],
    );
}

#[test]
fn forms_of_other_dialects_are_read_if_they_are_common() {
    check(
        "%0 = arith.addi %a, %b : i32\n%1 = other.op %0 {x = 1 : i32} : (i32) -> f32\nother.none : index",
        expect![[r#"
            "builtin.module"() ({
              %0 = "arith.addi"(%a, %b) : (i32, i32) -> i32
              %1 = "other.op"(%0) {x = 1 : i32} : (i32) -> f32
              "other.none"() : () -> index
            }) : () -> ()
        "#]],
    );
}

#[test]
fn errors_say_where_what_was_and_what_should_be() {
    check_error(
        "",
        expect![[r#"
            line 1, column 1: expected `module`, found the end of the text
  
              ^"#]],
    );
    check_error(
        "module {\n  func.func @f() {\n    return\n  }\n",
        expect![[r#"
            line 5, column 1: expected `}` at the end of a region, found the end of the text
  
              ^"#]],
    );
    check_error(
        "module {\n  %0 = stablehlo.add %a %b : tensor<f32>\n}",
        expect![[r#"
        line 2, column 25: expected `:`, found `%b`
            %0 = stablehlo.add %a %b : tensor<f32>
                                  ^"#]],
    );
    check_error(
        "%0 = stablehlo.transpose %a : tensor<2x3xf32>",
        expect![[r#"
        line 1, column 29: expected `, dims =`, found `:`
          %0 = stablehlo.transpose %a : tensor<2x3xf32>
                                      ^"#]],
    );
    check_error(
        "%0 = stablehlo.add %a, %b : tensor<2x3xf32",
        expect![[r#"
            line 1, column 35: expected a `>` that closes what opens here, found none
              %0 = stablehlo.add %a, %b : tensor<2x3xf32
                                                ^"#]],
    );
    check_error(
        "%0 = stablehlo.add %a, %b : tensor<2x3xf32]",
        expect![[r#"
        line 1, column 43: expected `>`, found `]`
          tablehlo.add %a, %b : tensor<2x3xf32]
                                              ^"#]],
    );
    check_error(
        "%0:2 = stablehlo.add %a, %b : tensor<f32>",
        expect![[r#"
            line 1, column 1: expected as many names as `stablehlo.add` has results, 1, found 2
              %0:2 = stablehlo.add %a, %b : tensor<f32>
              ^"#]],
    );
    check_error(
        "%0 = \"a.b\"(%a) : () -> i32",
        expect![[r#"
            line 1, column 1: expected as many types as `a.b` has operands, 1, found 0
              %0 = "a.b"(%a) : () -> i32
              ^"#]],
    );
    check_error(
        "%0 = scf.for %i = %a to %b step %c { }",
        expect![[r#"
        line 1, column 17: op `scf.for` is written in a form that is not known here, with `=` at this place; print the module in the generic form
          %0 = scf.for %i = %a to %b step %c { }
                          ^"#]],
    );
    check_error(
        "%0 = \"a.b\"() ({ ^a: cf.br ^b\n ^b: }) : () -> i32",
        expect![[r#"
        line 1, column 27: op `cf.br` is written in a form that is not known here, with `^b` at this place; print the module in the generic form
          %0 = "a.b"() ({ ^a: cf.br ^b
                                    ^"#]],
    );
    check_error(
        "\"a.b\"() {x = 1, y = 2, x = 3} : () -> ()",
        expect![[r#"
        line 1, column 24: expected each name once, found `x` a second time
          "a.b"() {x = 1, y = 2, x = 3} : () -> ()
                                 ^"#]],
    );
    check_error(
        "#a = 1\n#a = 2\n\"a.b\"() {x = #a} : () -> ()",
        expect![[r#"
        line 2, column 1: expected each alias once, found `#a` a second time
          #a = 2
          ^"#]],
    );
    check_error(
        "#a = loc(\"x\") loc(\"y\")",
        expect![[r#"
        line 1, column 15: expected the end of the definition, found `loc`
          #a = loc("x") loc("y")
                        ^"#]],
    );
    check_error(
        "!t = i32 f32",
        expect![[r#"
        line 1, column 10: expected the end of the definition, found `f32`
          !t = i32 f32
                   ^"#]],
    );
    check_error(
        "func.func @f(i32) { return }",
        expect![[r#"
        line 1, column 13: expected names for the arguments of a function that has a body, found `(`
          func.func @f(i32) { return }
                      ^"#]],
    );
    check_error(
        "\"a.b\"() {x = #nowhere} : () -> ()",
        expect![[r#"
        line 1, column 14: `#nowhere` is defined nowhere
          "a.b"() {x = #nowhere} : () -> ()
                       ^"#]],
    );
    check_error(
        "%0 = stablehlo.constant dense_resource<__elided__> : tensor<9xf32>",
        expect![[r#"
        line 1, column 25: the values of `dense_resource<__elided__>` are not in the text; print the module without leaving out large constants
          %0 = stablehlo.constant dense_resource<__elided__> : tensor<9xf32>
                                  ^"#]],
    );
    check_error(
        "%0 = stablehlo.reduce_precision %a, format = f32 : tensor<f32>",
        expect![[r#"
        line 1, column 46: expected a format, such as `e8m7`, found `f32`
          lehlo.reduce_precision %a, format = f32 : tensor<f32>
                                              ^"#]],
    );
    check_error(
        "\"a.b\"() {x = \"no end} : () -> ()",
        expect![[r#"
            line 1, column 14: expected a `"` that closes what opens here, found none
              "a.b"() {x = "no end} : () -> ()
                           ^"#]],
    );
    check_error(
        "ü",
        expect![[r#"
        line 1, column 1: expected an operation, found `ü`
          ü
          ^"#]],
    );
    check_error(
        "\u{1}\u{2}",
        expect![[r#"
            line 1, column 1: expected an operation, found `\u{1}`
    
              ^"#]],
    );
    let long = format!("{}%0 = stablehlo.add %a, {}: f32", " ".repeat(300), "x".repeat(300));
    check_error(
        &long,
        expect![[r#"
        line 1, column 322: expected `:`, found `,`
                         %0 = stablehlo.add %a, xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx
                                              ^"#]],
    );
}

#[test]
fn columns_count_characters() {
    let error = read("\"ä\"() {ö = \"ü\", x = ]} : () -> ()").unwrap_err();
    assert_eq!(error.position(), Position { line: 1, column: 8 });
}

#[track_caller]
fn check_limit(text: &str, what: &str) {
    let problem = read(text).unwrap_err();
    let ParseProblem::TooDeep { what: found, .. } = problem.problem() else { panic!("{problem}") };
    assert_eq!(*found, what);
}

#[test]
fn nesting_has_limits() {
    check_limit(&"\"a.b\"() ({ ".repeat(100_000), "regions");
    check_limit(&"module { ".repeat(100_000), "regions");
    check_limit(&format!("\"a.b\"() {{x = {}", "[".repeat(100_000)), "brackets");
    check_limit(&format!("func.func @f(%a: {}", "tensor<".repeat(100_000)), "brackets");
    check_limit(&format!("%0 = stablehlo.constant dense<{}", "[".repeat(100_000)), "brackets");
    let chain: String = (1..100_000).map(|i| format!("#a{i} = [#a{}]\n", i - 1)).collect();
    check_limit(&format!("{chain}\"a.b\"() {{x = #a99999}} : () -> ()"), "aliases");
    check_limit("#a = [#b]\n#b = [#a]\n\"a.b\"() {x = #a} : () -> ()", "aliases");
}

#[test]
fn the_deepest_nesting_needs_little_stack() {
    let depth = super::parse::DEEPEST_REGIONS;
    let nested = |open: &str, close: &str| format!("{}{}", open.repeat(depth), close.repeat(depth));
    let texts = [
        nested("module {", "}"),
        nested("\"a.b\"() ({", "}) : () -> ()"),
        nested("stablehlo.while() cond {} do {", "}"),
        nested(
            "sdy.manual_computation() in_shardings=[] out_shardings=[] manual_axes={} () {",
            "} : () -> ()",
        ),
    ];
    let read_all = move || texts.map(|text| read(&text).map(|tree| tree.name.to_string()));
    let thread = std::thread::Builder::new().stack_size(1 << 19).spawn(read_all).unwrap();
    for result in thread.join().unwrap() {
        result.unwrap();
    }
}

#[test]
fn aliases_cannot_make_a_text_huge() {
    let bomb: String = (1..100).map(|i| format!("#a{i} = [#a{0}, #a{0}]\n", i - 1)).collect();
    let error = read(&format!("#a0 = 1\n{bomb}\"a.b\"() {{x = #a99}} : () -> ()")).unwrap_err();
    assert!(matches!(error.problem(), ParseProblem::TooLong { .. }), "{error}");
}

#[test]
fn locations_that_get_too_long_are_given_up() {
    let bomb: String = (1..100).map(|i| format!("#a{i} = loc(fused[#a{0}, #a{0}])\n", i - 1)).collect();
    let tree = read(&format!(
        "#a0 = loc(\"x\")\n{bomb}\"a.b\"() : () -> () loc(#a99)\n\"a.b\"() : () -> () loc(#a1)"
    ));
    let operations = &tree.unwrap().regions[0].operations;
    let length = operations[0].location.as_ref().unwrap().len();
    assert!(length < 1 << 17, "{length}");
    assert_eq!(operations[1].location.as_ref().unwrap(), &r#"loc(fused["x", "x"])"#);
    let circle = read("#a = loc(#b)\n#b = loc(#a)\n\"a.b\"() : () -> () loc(#a)").unwrap();
    assert_eq!(circle.regions[0].operations[0].location.as_ref().unwrap(), &"loc(unknown)");
}

const SMALL: &str = r##"#loc = loc("ä.py":1:2)
!t = tensor<4xf32>
module @m attributes {mhlo.num_partitions = 8 : i32} { // ü
  sdy.mesh @mesh = <["x"=8]>
  func.func public @main(%arg0: !t {tf.aliasing_output = 0 : i32} loc("w")) -> (!t {jax.result_info = "x"}) {
    %0 = stablehlo.constant dense<"0x0000803F"> : !t
    %1:2 = stablehlo.while(%i = %0, %j = %arg0) : !t, !t cond {
      %2 = "a.b"(%i) <{x = #stablehlo<y Z>}> ({ ^bb0(%k: !t): stablehlo.return %k : !t }) {z} : (!t) -> tensor<i1>
      stablehlo.return %2 : tensor<i1>
    } do { stablehlo.return %i, %j : !t, !t } loc(callsite("f" at #loc))
    %3 = stablehlo.reduce(%1#1 init: %c) applies stablehlo.add across dimensions = [0] : (!t, tensor<f32>) -> tensor<f32>
    return %1#0 : !t
  }
}
"##;

#[test]
fn a_text_cut_off_anywhere_is_an_error_inside_it() {
    read(SMALL).unwrap();
    let end = SMALL.trim_end().len();
    let lines = SMALL.lines().count() as u32;
    for (cut, _) in SMALL.char_indices().filter(|&(cut, _)| cut < end) {
        match read(&SMALL[..cut]) {
            Ok(tree) => panic!("the first {cut} bytes are a whole {}", tree.name),
            Err(error) => assert!((1..=lines).contains(&error.position().line), "{error}"),
        }
    }
}

mod mutations {
    use proptest::prelude::*;
    use proptest::sample::{Index, select};

    use super::{ALL, SMALL, in_generic_form, read};

    const TOKENS: &[&str] = &[
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        "<",
        ">",
        "\"",
        "%",
        "@",
        "#",
        "!",
        "^bb0",
        "->",
        ":",
        ",",
        "=",
        "//",
        "\\",
        "loc(",
        "dense_resource<",
        "#loc",
        "ü",
        "\n",
        "\u{0}",
        "module",
        "%0#9",
        "99999999999999999999",
        "{-#",
        "#-}",
        "<{",
        "}>",
    ];

    fn cut(text: &str, at: usize) -> usize {
        (0..=at.min(text.len())).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]

        #[test]
        fn no_text_makes_the_parser_panic(
            text in select(vec![ALL, SMALL]),
            edits in proptest::collection::vec((any::<Index>(), 0..20usize, select(TOKENS)), 1..4),
        ) {
            let mut text = text.to_owned();
            for (place, removed, token) in edits {
                let start = cut(&text, place.index(text.len() + 1));
                let end = cut(&text, start + removed).max(start);
                text.replace_range(start..end, token);
            }
            // What is read is written so that it is read as the same.
            if read(&text).is_ok() {
                let once = in_generic_form(&text);
                prop_assert_eq!(in_generic_form(&once), once);
            }
        }

        #[test]
        fn nor_do_any_characters(text in "\\PC*") {
            let _ = read(&text);
        }
    }
}
