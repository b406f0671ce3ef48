use expect_test::{Expect, expect};

use crate::{StatedSharding, parse};

/// A program of one function, given without its braces.
fn main(body: &str) -> String {
    format!("func.func @main{body}")
}

#[track_caller]
fn check_errors(texts: &[String], expect: Expect) {
    let show = |text: &String| format!("{}\n", parse(text).map_or_else(|e| e.to_string(), |p| p.to_string()));
    expect.assert_eq(&texts.iter().map(show).collect::<String>());
}

/// What is printed of a program that was read.
#[track_caller]
fn check(text: &str, expect: Expect) {
    expect.assert_eq(&parse(text).unwrap_or_else(|error| panic!("{error}")).to_string());
}

/// Names, donors and places of what a program takes and gives.
#[track_caller]
fn check_signature(text: &str, expect: Expect) {
    let program = parse(text).unwrap_or_else(|error| panic!("{error}"));
    let stated = |stated: &Option<StatedSharding>| match stated {
        None => String::new(),
        Some(StatedSharding::Sdy { mesh, sharding }) => format!(" {sharding} on {mesh}"),
        Some(StatedSharding::Hlo(sharding)) => format!(" {sharding}"),
    };
    let signature = program.signature();
    let mut shown = String::new();
    for (info, argument) in signature.arguments.iter().zip(&program.module.arguments) {
        let donated = if info.donated { " donated" } else { "" };
        shown += &format!(
            "takes {} {}{}{donated} {}\n",
            info.name,
            info.ty,
            stated(&info.stated),
            argument.attributes
        );
    }
    for info in &signature.outputs {
        shown += &format!("gives {} {}{} {:?}\n", info.name, info.ty, stated(&info.stated), info.donor);
    }
    expect.assert_eq(&shown);
}

#[test]
fn arguments_are_called_as_where_they_were_traced() {
    check_signature(
        &main(
            r#"(%a: tensor<f32> loc("p['w']"), %b: tensor<f32> {jax.arg_info = "x"} loc("f.py":1:2),
               %c: tensor<f32> loc("x"), %d: tensor<f32> {a.b = 1 : i32}, %e: tensor<f32> loc("x_1"))
               -> (tensor<f32> {jax.result_info = "result[0]"}, tensor<f32> {jax.result_info = ""}, tensor<f32>) {
                 return %a, %b, %c : tensor<f32>, tensor<f32>, tensor<f32>
               }"#,
        ),
        expect![[r#"
            takes p['w'] f32[] 
            takes x f32[] 
            takes x_1 f32[] 
            takes arg3 f32[] a.b = 1 : i32
            takes x_1_1 f32[] 
            gives result[0] f32[] None
            gives out1 f32[] None
            gives out2 f32[] None
        "#]],
    );
}

#[test]
fn donors_go_to_outputs_where_there_is_no_doubt() {
    let program = |donors: [&str; 3], outputs: &str| {
        let [a, b, c] = donors;
        main(&format!(
            "(%a: tensor<2xf32> {a}, %b: tensor<2xf32> {b}, %c: tensor<3xf32> {c}) -> ({outputs}) {{
               return %b, %a, %c : tensor<2xf32>, tensor<2xf32>, tensor<3xf32>
             }}"
        ))
    };
    let plain = "tensor<2xf32>, tensor<2xf32>, tensor<3xf32>";
    let donated = "{jax.buffer_donor = true}";
    check_signature(
        &program(["{tf.aliasing_output = 1 : i32}", "", ""], plain),
        expect![[r#"
        takes arg0 f32[2] 
        takes arg1 f32[2] 
        takes arg2 f32[3] 
        gives out0 f32[2] None
        gives out1 f32[2] Some(0)
        gives out2 f32[3] None
    "#]],
    );
    // What gives its memory to one output has none for another.
    check_signature(
        &program(["{tf.aliasing_output = 1 : i32, jax.buffer_donor = true}", "", ""], plain),
        expect![[r#"
            takes arg0 f32[2] 
            takes arg1 f32[2] 
            takes arg2 f32[3] 
            gives out0 f32[2] None
            gives out1 f32[2] Some(0)
            gives out2 f32[3] None
        "#]],
    );
    check_signature(
        &program([donated, donated, ""], plain),
        expect![[r#"
        takes arg0 f32[2] 
        takes arg1 f32[2] 
        takes arg2 f32[3] 
        gives out0 f32[2] Some(0)
        gives out1 f32[2] Some(1)
        gives out2 f32[3] None
    "#]],
    );
    check_signature(
        &program([donated, "", donated], plain),
        expect![[r#"
        takes arg0 f32[2] donated 
        takes arg1 f32[2] 
        takes arg2 f32[3] 
        gives out0 f32[2] None
        gives out1 f32[2] None
        gives out2 f32[3] Some(2)
    "#]],
    );
    check_signature(
        &program([donated, "{tf.aliasing_output = 0 : i32}", ""], plain),
        expect![[r#"
        takes arg0 f32[2] 
        takes arg1 f32[2] 
        takes arg2 f32[3] 
        gives out0 f32[2] Some(1)
        gives out1 f32[2] Some(0)
        gives out2 f32[3] None
    "#]],
    );
}

#[test]
fn shardings_lie_beside_the_program() {
    let text = r#"
        module @m attributes {mhlo.num_partitions = 8 : i32, a.b} {
          sdy.mesh @"my mesh" = <["x"=2, "y"=4], device_ids=[7, 6, 5, 4, 3, 2, 1, 0]>
          sdy.mesh @one = <[]>
          func.func @main(%a: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@"my mesh", [{"x", ?}p1, {"y":(2)2}]>})
              -> (tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@one, [{}, {}]>}) {
            %0 = stablehlo.sine %a {sdy.sharding = #sdy.sharding_per_value<[<@"my mesh", [{?}, {}]>]>} : tensor<8x4xf32>
            %1 = sdy.sharding_constraint %0 <@"my mesh", [{}, {"x"}], replicated={"y"}> : tensor<8x4xf32>
            %2 = call @f(%1) : (tensor<8x4xf32>) -> tensor<8x4xf32>
            return %2 : tensor<8x4xf32>
          }
          func.func private @f(%a: tensor<8x4xf32> {mhlo.sharding = "{replicated}"})
              -> (tensor<8x4xf32> {mhlo.sharding = "{devices=[8,1]<=[8]}"}) {
            %0 = stablehlo.custom_call @Sharding(%a) {mhlo.sharding = "{devices=[2,1,4]<=[8] last_tile_dim_replicate}"} : (tensor<8x4xf32>) -> tensor<8x4xf32>
            return %0 : tensor<8x4xf32>
          }
        }"#;
    check(
        text,
        expect![[r#"
            module @m attributes {mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32, a.b} {
              sdy.mesh @"my mesh" = <["x"=2, "y"=4], device_ids=[7, 6, 5, 4, 3, 2, 1, 0]>
              sdy.mesh @one = <[]>
              func.func public @main(%arg0: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@"my mesh", [{"x", ?}p1, {"y":(2)2}]>} loc("arg0")) -> (tensor<8x4xf32> {jax.result_info = "out0", sdy.sharding = #sdy.sharding<@one, [{}, {}]>}) {
                %0 = stablehlo.sine %arg0 {sdy.sharding = #sdy.sharding_per_value<[<@"my mesh", [{?}, {}]>]>} : tensor<8x4xf32>
                %1 = sdy.sharding_constraint %0 <@"my mesh", [{}, {"x"}], replicated={"y"}> : tensor<8x4xf32>
                %2 = func.call @f(%1) : (tensor<8x4xf32>) -> (tensor<8x4xf32>)
                return %2 : tensor<8x4xf32>
              }
              func.func private @f(%arg0: tensor<8x4xf32> {mhlo.sharding = "{replicated}"}) -> (tensor<8x4xf32>) {
                %3 = stablehlo.custom_call @Sharding(%arg0) {backend_config = "", mhlo.sharding = "{devices=[2,1,4]<=[8] last_tile_dim_replicate}"} : (tensor<8x4xf32>) -> tensor<8x4xf32>
                %4 = stablehlo.custom_call @Sharding(%3) {backend_config = "", mhlo.sharding = "{devices=[8,1]<=[8]}"} : (tensor<8x4xf32>) -> tensor<8x4xf32>
                return %4 : tensor<8x4xf32>
              }
            }
        "#]],
    );
    check_signature(
        text,
        expect![[r#"
        takes arg0 f32[8,4] <@"my mesh", [{"x", ?}p1, {"y":(2)2}]> on x=2, y=4 
        gives out0 f32[8,4] <@one, [{}, {}]> on [] None
    "#]],
    );
}

#[test]
fn ops_are_typed_where_they_say_no_more_than_that() {
    check(
        &main(
            r#"(%a: tensor<4xf32>, %b: tensor<4xi32>) -> tensor<4xi1> {
                 %0 = stablehlo.compare LT, %a, %a, FLOAT : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
                 %1 = stablehlo.compare LT, %a, %a, TOTALORDER : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
                 %2 = stablehlo.add %a, %a {mhlo.frontend_attributes = {k = "v"}} : tensor<4xf32>
                 %3 = stablehlo.dot_general %a, %a, contracting_dims = [0] x [0], precision = [DEFAULT, HIGHEST] : (tensor<4xf32>, tensor<4xf32>) -> tensor<f32>
                 %4 = "stablehlo.dot_general"(%a, %a) {dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [0], rhs_contracting_dimensions = [0]>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<f32>
                 %5 = stablehlo.exponential %a {result_accuracy = #stablehlo.result_accuracy<mode = #stablehlo.result_accuracy_mode<HIGHEST>>} : tensor<4xf32>
                 %one = stablehlo.constant dense<1> : tensor<i32>
                 %6 = stablehlo.reduce(%b init: %one) applies stablehlo.add across dimensions = [0] : (tensor<4xi32>, tensor<i32>) -> tensor<i32>
                 %7 = stablehlo.reduce(%b init: %one) applies stablehlo.multiply across dimensions = [0] : (tensor<4xi32>, tensor<i32>) -> tensor<i32>
                 %zero = stablehlo.constant dense<0> : tensor<i32>
                 %8 = stablehlo.reduce(%b init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<4xi32>, tensor<i32>) -> tensor<i32>
                 %9 = my.op %a {k = 1 : i32} : tensor<4xf32>
                 return %0 : tensor<4xi1>
               }"#,
        ),
        expect![[r#"
            module @main attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
              func.func public @main(%arg0: tensor<4xf32> loc("arg0"), %arg1: tensor<4xi32> loc("arg1")) -> (tensor<4xi1> {jax.result_info = "out0"}) {
                %0 = stablehlo.compare LT, %arg0, %arg0 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
                %1 = "stablehlo.compare"(%arg0, %arg0) <{compare_type = #stablehlo<comparison_type TOTALORDER>, comparison_direction = #stablehlo<comparison_direction LT>}> : (tensor<4xf32>, tensor<4xf32>) -> (tensor<4xi1>)
                %2 = "stablehlo.add"(%arg0, %arg0) {mhlo.frontend_attributes = {k = "v"}} : (tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>)
                %3 = "stablehlo.dot_general"(%arg0, %arg0) <{dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [0], rhs_contracting_dimensions = [0]>, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision HIGHEST>]}> : (tensor<4xf32>, tensor<4xf32>) -> (tensor<f32>)
                %4 = stablehlo.dot_general %arg0, %arg0, contracting_dims = [0] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4xf32>, tensor<4xf32>) -> tensor<f32>
                %5 = "stablehlo.exponential"(%arg0) <{result_accuracy = #stablehlo.result_accuracy<mode = #stablehlo.result_accuracy_mode<HIGHEST>>}> : (tensor<4xf32>) -> (tensor<4xf32>)
                %6 = stablehlo.constant dense<1> : tensor<i32>
                %7 = "stablehlo.reduce"(%arg1, %6) <{dimensions = array<i64: 0>}> ({
                ^bb0(%8: tensor<i32>, %9: tensor<i32>):
                  %10 = stablehlo.add %8, %9 : tensor<i32>
                  stablehlo.return %10 : tensor<i32>
                }) : (tensor<4xi32>, tensor<i32>) -> (tensor<i32>)
                %11 = stablehlo.constant dense<1> : tensor<i32>
                %12 = stablehlo.reduce(%arg1 init: %11) applies stablehlo.multiply across dimensions = [0] : (tensor<4xi32>, tensor<i32>) -> tensor<i32>
                %13 = stablehlo.constant dense<0> : tensor<i32>
                %14 = stablehlo.reduce(%arg1 init: %13) applies stablehlo.add across dimensions = [0] : (tensor<4xi32>, tensor<i32>) -> tensor<i32>
                %15 = "my.op"(%arg0) {k = 1 : i32} : (tensor<4xf32>) -> (tensor<4xf32>)
                return %0 : tensor<4xi1>
              }
            }
        "#]],
    );
}

#[test]
fn what_is_joined_in_a_wider_dtype_stays_as_it_is_written() {
    check(
        &main(
            r#"(%x: tensor<4xbf16>, %i: tensor<2x1xi32>, %u: tensor<2xbf16>) -> (tensor<f32>, tensor<4xbf16>) {
                 %z = stablehlo.constant dense<0.0> : tensor<f32>
                 %0 = "stablehlo.reduce"(%x, %z) <{dimensions = array<i64: 0>}> ({
                 ^bb0(%a: tensor<f32>, %b: tensor<f32>):
                   %c = stablehlo.add %a, %b : tensor<f32>
                   stablehlo.return %c : tensor<f32>
                 }) : (tensor<4xbf16>, tensor<f32>) -> tensor<f32>
                 %1 = "stablehlo.scatter"(%x, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
                 ^bb0(%a: tensor<f32>, %b: tensor<f32>):
                   %c = stablehlo.add %a, %b : tensor<f32>
                   stablehlo.return %c : tensor<f32>
                 }) : (tensor<4xbf16>, tensor<2x1xi32>, tensor<2xbf16>) -> tensor<4xbf16>
                 return %0, %1 : tensor<f32>, tensor<4xbf16>
               }"#,
        ),
        expect![[r#"
            module @main attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
              func.func public @main(%arg0: tensor<4xbf16> loc("arg0"), %arg1: tensor<2x1xi32> loc("arg1"), %arg2: tensor<2xbf16> loc("arg2")) -> (tensor<f32> {jax.result_info = "out0"}, tensor<4xbf16> {jax.result_info = "out1"}) {
                %0 = stablehlo.constant dense<0.0e0> : tensor<f32>
                %1 = "stablehlo.reduce"(%arg0, %0) <{dimensions = array<i64: 0>}> ({
                ^bb0(%2: tensor<f32>, %3: tensor<f32>):
                  %4 = stablehlo.add %2, %3 : tensor<f32>
                  stablehlo.return %4 : tensor<f32>
                }) : (tensor<4xbf16>, tensor<f32>) -> (tensor<f32>)
                %5 = "stablehlo.scatter"(%arg0, %arg1, %arg2) <{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
                ^bb0(%6: tensor<f32>, %7: tensor<f32>):
                  %8 = stablehlo.add %6, %7 : tensor<f32>
                  stablehlo.return %8 : tensor<f32>
                }) : (tensor<4xbf16>, tensor<2x1xi32>, tensor<2xbf16>) -> (tensor<4xbf16>)
                return %1, %5 : tensor<f32>, tensor<4xbf16>
              }
            }
        "#]],
    );
}

#[test]
fn what_is_no_program_is_an_error_with_its_place() {
    let array = |body: &str| {
        main(&format!("(%a: tensor<4xf32>) -> tensor<4xf32> {{\n  {body}\n  return %a : tensor<4xf32>\n}}"))
    };
    check_errors(
        &[
            main("(%a: tensor<4xf32>) -> tensor<4xf32> { return %b : tensor<4xf32> }"),
            array("%a = stablehlo.sine %a : tensor<4xf32>"),
            array("%0 = stablehlo.sine %a#1 : tensor<4xf32>"),
            array("%0 = stablehlo.sine %a : tensor<5xf32>"),
            array("%0 = stablehlo.popcnt %a : tensor<4xf32>"),
            array("%0 = stablehlo.reshape %a : (tensor<4xf32>) -> tensor<5xf32>"),
            array("%0 = stablehlo.transpose %a, dims = [0] : (tensor<4xf32>) -> tensor<5xf32>"),
            array("%0 = stablehlo.constant dense<[1.0, 2.0]> : tensor<4xf32>"),
            array("%0 = stablehlo.constant dense<0.0> : tensor<?xf32>"),
            array("%0 = stablehlo.constant dense<0.0> : tensor<4611686018427387904x2xf32>"),
            array("%0 = call @f(%a) : (tensor<4xf32>) -> tensor<4xf32>"),
            array("%0 = sdy.sharding_constraint %a <@mesh, [{}]> : tensor<4xf32>"),
            array(
                "%0 = stablehlo.sine %a {sdy.sharding = #sdy.sharding_per_value<[<@m, [{]>]>} : tensor<4xf32>",
            ),
            main("(%a: tensor<4xcomplex<f32>> loc(\"p.x\")) { return }"),
            main(
                "(%a: tensor<f32> {tf.aliasing_output = 3 : i32}) -> tensor<f32> { return %a : tensor<f32> }",
            ),
            main("(%a: tensor<f32>) -> tensor<f32> { stablehlo.return %a : tensor<f32> }"),
            "func.func private @f() { return }\nfunc.func private @g() { return }".into(),
            "func.func @main() { return }\nfunc.func @main() { return }".into(),
            "func.func @main()".into(),
            "module @m attributes {mhlo.num_replicas = 2 : i32} {}".into(),
            "module @m attributes {mhlo.num_partitions = 4 : i32} { sdy.mesh @mesh = <[\"x\"=8]> }".into(),
            "module { sdy.mesh @mesh = <[\"x\"=0]> }".into(),
            "module { sdy.mesh @mesh = <[], device_ids=[0]> }".into(),
            "module { ml_program.global @x : tensor<f32> }".into(),
        ],
        expect![[r#"
            line 1, column 62: `%b` is not defined before it is used here
              r<4xf32>) -> tensor<4xf32> { return %b : tensor<4xf32> }
                                                  ^
            line 2, column 3: `%a` is defined already
                %a = stablehlo.sine %a : tensor<4xf32>
                ^
            line 2, column 23: `%a` stands for 1 result, and there is no `#1`
                %0 = stablehlo.sine %a#1 : tensor<4xf32>
                                    ^
            line 2, column 23: `%a` is a tensor<4xf32>, and is used here as a tensor<5xf32>
                %0 = stablehlo.sine %a : tensor<5xf32>
                                    ^
            line 2, column 3: popcnt of [f32[4]]: the op is defined on the dtype
                %0 = stablehlo.popcnt %a : tensor<4xf32>
                ^
            line 2, column 3: reshape of [f32[4]]: element counts are equal
                %0 = stablehlo.reshape %a : (tensor<4xf32>) -> tensor<5xf32>
                ^
            line 2, column 3: stablehlo.transpose gives tensor<4xf32>, and is said to give tensor<5xf32>
                %0 = stablehlo.transpose %a, dims = [0] : (tensor<4xf32>) -> tensor<5x
                ^
            line 2, column 3: a constant of type tensor<4xf32>: its lists are not those of the shape [4]
                %0 = stablehlo.constant dense<[1.0, 2.0]> : tensor<4xf32>
                ^
            line 2, column 3: tensor<?xf32>: its size is known at run time only; trace the program with sizes that are known
                %0 = stablehlo.constant dense<0.0> : tensor<?xf32>
                ^
            line 2, column 3: tensor<4611686018427387904x2xf32>: shape [4611686018427387904, 2] has more elements than can be addressed
                %0 = stablehlo.constant dense<0.0> : tensor<4611686018427387904x2xf32>
                ^
            line 2, column 3: there is no function @f to be called
                %0 = call @f(%a) : (tensor<4xf32>) -> tensor<4xf32>
                ^
            line 2, column 3: there is no mesh @mesh
                %0 = sdy.sharding_constraint %a <@mesh, [{}]> : tensor<4xf32>
                ^
            line 2, column 74: expected `}`, found `]`
              g = #sdy.sharding_per_value<[<@m, [{]>]>} : tensor<4xf32>
                                                  ^
            line 1, column 17: argument p.x of @main is a tensor<4xcomplex<f32>>, and a program takes and gives arrays of bool, integer, f16, bf16, f32 or f64 elements; convert it inside the program
              func.func @main(%a: tensor<4xcomplex<f32>> loc("p.x")) { return }
                              ^
            line 1, column 17: tf.aliasing_output = 3: expected the index of an output
              func.func @main(%a: tensor<f32> {tf.aliasing_output = 3 : i32}) -> tenso
                              ^
            line 1, column 51: a region of func.func ends with func.return, and here it ends with stablehlo.return
              n(%a: tensor<f32>) -> tensor<f32> { stablehlo.return %a : tensor<f32> }
                                                  ^
            line 1, column 1: there is no function @main; there are @f, @g
              func.func private @f() { return }
              ^
            line 2, column 1: @main is defined already
              func.func @main() { return }
              ^
            line 1, column 1: @main has no body, and a program has nothing but itself
              func.func @main()
              ^
            line 1, column 1: the program is for 2 replicas; programs here have one, and any number of partitions
              module @m attributes {mhlo.num_replicas = 2 : i32} {}
              ^
            line 1, column 1: mesh @mesh has 8 devices, and the program is for 4 partitions
              module @m attributes {mhlo.num_partitions = 4 : i32} { sdy.mesh @mesh =
              ^
            line 1, column 10: axis x has size 0; a size is at least 1
              module { sdy.mesh @mesh = <["x"=0]> }
                       ^
            line 1, column 10: mesh @mesh is one device by itself; programs here run on all devices of a mesh
              module { sdy.mesh @mesh = <[], device_ids=[0]> }
                       ^
            line 1, column 28: op `ml_program.global` is written in a form that is not known here, with `@x` at this place; print the module in the generic form
              module { ml_program.global @x : tensor<f32> }
                                         ^
        "#]],
    );
}

#[test]
fn what_is_wrong_with_functions_shows_at_their_lines() {
    let caller = |call: &str, callee: &str| {
        format!(
            "func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> {{\n  {call}\n  return %0 : tensor<2xf32>\n}}\n\
             func.func private @f({callee}\n}}"
        )
    };
    let once = "%0 = call @f(%a) : (tensor<2xf32>) -> tensor<2xf32>";
    check_errors(
        &[
            main("(%a: tensor<2xf32>) -> tensor<f32> { return %a : tensor<2xf32> }"),
            main("(%a: tensor<2xf32>) { return %a : tensor<2xf32> }"),
            r#""func.func"() <{function_type = (i32) -> (), sym_name = "main"}> ({
               ^bb0(%a: tensor<f32>): "func.return"() : () -> ()
            }) : () -> ()"#
                .into(),
            r#""func.func"() <{sym_name = "main"}> ({ "func.return"() : () -> () }) : () -> ()"#.into(),
            main(
                "(%a: tensor<2xf32> {tf.aliasing_output = 0 : i32}) -> tensor<f32> {\n  %0 = stablehlo.constant dense<0.0> : tensor<f32>\n  return %0 : tensor<f32>\n}",
            ),
            caller(once, "%a: tensor<f32>) -> tensor<f32> {\n  return %a : tensor<f32>"),
            caller(once, "%a: tensor<2xf32>) {\n  return"),
            caller(
                once,
                &format!("%a: tensor<2xf32>) -> tensor<2xf32> {{\n  {once}\n  return %0 : tensor<2xf32>"),
            ),
            caller("%0 = \"stablehlo.case\"(%a) ({}) : (tensor<2xf32>) -> tensor<2xf32>", ") { return"),
        ],
        expect![[r#"
            line 1, column 1: @main is of type tensor<2xf32> -> tensor<2xf32>, and is said to be of type tensor<2xf32> -> tensor<f32>
              func.func @main(%a: tensor<2xf32>) -> tensor<f32> { return %a : tensor<2
              ^
            line 1, column 1: @main is of type tensor<2xf32> -> tensor<2xf32>, and is said to be of type tensor<2xf32> -> ()
              func.func @main(%a: tensor<2xf32>) { return %a : tensor<2xf32> }
              ^
            line 1, column 1: @main is of type tensor<f32> -> (), and is said to be of type i32 -> ()
              "func.func"() <{function_type = (i32) -> (), sym_name = "main"}> ({
              ^
            line 1, column 1: function_type = nothing: expected a type of function
              "func.func"() <{sym_name = "main"}> ({ "func.return"() : () -> () }) : (
              ^
            line 1, column 17: tf.aliasing_output = 0: expected the index of an output of the argument's type
              func.func @main(%a: tensor<2xf32> {tf.aliasing_output = 0 : i32}) -> ten
                              ^
            line 2, column 3: call: what @f is given has types [f32[2]], and must have [f32[]]
                %0 = call @f(%a) : (tensor<2xf32>) -> tensor<2xf32>
                ^
            line 2, column 3: func.call gives (), and is said to give tensor<2xf32>
                %0 = call @f(%a) : (tensor<2xf32>) -> tensor<2xf32>
                ^
            line 5, column 1: module main has 1 problem
              @f calls itself, which no compiler makes a program of
              func.func private @f(%a: tensor<2xf32>) -> tensor<2xf32> {
              ^
            line 2, column 3: a region of stablehlo.case ends with stablehlo.return, and here it ends with nothing
                %0 = "stablehlo.case"(%a) ({}) : (tensor<2xf32>) -> tensor<2xf32>
                ^
        "#]],
    );
}

#[test]
fn positions_are_those_of_the_values_that_are_left() {
    let program = parse(&main(
        "(%a: tensor<2xf32>) -> tensor<f32> {
           %z = stablehlo.constant dense<0.0> : tensor<f32>
           %0 = stablehlo.reduce(%a init: %z) applies stablehlo.add across dimensions = [0] : (tensor<2xf32>, tensor<f32>) -> tensor<f32>
           return %0 : tensor<f32>
         }",
    ))
    .unwrap();
    let positions = |value| program.positions.of(value).map(|at| at.to_string());
    assert_eq!(positions(program.module.arguments[0].value).as_deref(), Some("line 1, column 17"));
    assert_eq!(positions(program.module.outputs[0].value).as_deref(), Some("line 3, column 12"));
    assert_eq!(positions(crate::ValueId(2)), None);
}

#[test]
fn regions_inside_regions_stay_within_the_stack() {
    let nested = |depth: usize| {
        let open = "%0 = \"stablehlo.if\"(%a) ({\n".repeat(depth);
        let close = "stablehlo.return %a : tensor<i1>\n}, {\nstablehlo.return %a : tensor<i1>\n}) : (tensor<i1>) -> tensor<i1>\n";
        main(&format!(
            "(%a: tensor<i1>) -> tensor<i1> {{\n{open}{}return %a : tensor<i1>\n}}",
            close.repeat(depth)
        ))
    };
    let deep = parse(&nested(60)).unwrap();
    assert_eq!(parse(&deep.to_string()).unwrap(), deep);
    assert!(
        parse(&nested(100_000)).unwrap_err().to_string().contains("regions are nested more than 64 deep")
    );
}

#[test]
fn quotes_in_names_of_attributes_stay() {
    check(
        &main(
            r#"(%a: tensor<4xf32> {"\"a\"" = 1 : i32}) -> (tensor<4xf32> {"b\"" = 2 : i32}) {
                 %0 = "x.y"(%a) {"\"" = 3 : i32, "c d\"" = 4 : i32} : (tensor<4xf32>) -> tensor<4xf32>
                 return %0 : tensor<4xf32>
               }"#,
        ),
        expect![[r#"
            module @main attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
              func.func public @main(%arg0: tensor<4xf32> {"\"a\"" = 1 : i32} loc("arg0")) -> (tensor<4xf32> {jax.result_info = "out0", "b\"" = 2 : i32}) {
                %0 = "x.y"(%arg0) {"\"" = 3 : i32, "c d\"" = 4 : i32} : (tensor<4xf32>) -> (tensor<4xf32>)
                return %0 : tensor<4xf32>
              }
            }
        "#]],
    );
}

#[test]
fn a_long_location_that_many_ops_share_is_written_once() {
    const OPS: usize = 1_000;
    let location = format!(r#"loc(fused["{}"])"#, "long/".repeat(2_000));
    let ops: String = (0..OPS)
        .map(|index| format!("%v{index} = stablehlo.negate %a : tensor<4xf32> loc(#far)\n"))
        .collect();
    let text = format!(
        "  #far = {location}\nmodule @m {{\nfunc.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {{\n{ops}\
         %b = stablehlo.negate %a : tensor<4xf32> loc(\"near\")\nreturn %b : tensor<4xf32>\n}}\n}}\n"
    );
    let program = parse(&text).unwrap();
    let printed = program.to_string();
    assert!(printed.len() < 2 * text.len(), "{} bytes of {}", printed.len(), text.len());
    assert!(printed.ends_with(&format!("\n}}\n#loc0 = {location}\n")));
    assert_eq!(parse(&printed).unwrap(), program);
}
