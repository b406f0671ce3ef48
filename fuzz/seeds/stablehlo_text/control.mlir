#loc1 = loc("step.py":3:4)
#loc2 = loc(callsite("f"(#loc1) at #loc1))
module @step attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32, a.b = [1, "c"]} {
  func.func public @main(%arg0: tensor<4x6xf32> {jax.buffer_donor = true} loc("w"), %arg1: tensor<i32>) -> (tensor<4x6xf32> {jax.result_info = "w"}, tensor<i1>) {
    %c = stablehlo.constant dense<[[true, false], [false, true]]> : tensor<2x2xi1>
    %c_0 = stablehlo.constant dense<3> : tensor<i32>
    %cst = stablehlo.constant dense<"0x0000803F00000040"> : tensor<2xf32>
    %0:2 = stablehlo.while(%i = %arg1, %x = %arg0) : tensor<i32>, tensor<4x6xf32> cond {
      %4 = stablehlo.compare LT, %i, %c_0, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %4 : tensor<i1>
    } do {
      %4 = func.call @twice(%x) : (tensor<4x6xf32>) -> tensor<4x6xf32> loc(#loc2)
      %5 = stablehlo.add %i, %c_0 : tensor<i32> loc(#loc1)
      stablehlo.return %5, %4 : tensor<i32>, tensor<4x6xf32>
    }
    %1 = "stablehlo.case"(%0#0) ({
      stablehlo.return %0#1 : tensor<4x6xf32>
    }, {
      %4 = stablehlo.negate %0#1 : tensor<4x6xf32>
      stablehlo.return %4 : tensor<4x6xf32>
    }) : (tensor<i32>) -> tensor<4x6xf32>
    %2:2 = "stablehlo.sort"(%1, %arg0) <{dimension = 1 : i64, is_stable = true}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>, %d: tensor<f32>, %e: tensor<f32>):
      %4 = stablehlo.compare LT, %a, %b, TOTALORDER : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %4 : tensor<i1>
    }) : (tensor<4x6xf32>, tensor<4x6xf32>) -> (tensor<4x6xf32>, tensor<4x6xf32>)
    %3 = stablehlo.slice %c [0:1, 1:2:1] : (tensor<2x2xi1>) -> tensor<1x1xi1>
    %6 = stablehlo.reshape %3 : (tensor<1x1xi1>) -> tensor<i1>
    return %2#0, %6 : tensor<4x6xf32>, tensor<i1>
  }
  func.func private @twice(%arg0: tensor<4x6xf32>) -> tensor<4x6xf32> attributes {no_inline} {
    %0 = stablehlo.optimization_barrier %arg0 : tensor<4x6xf32>
    %1 = stablehlo.custom_call @f(%0) {backend_config = "{\22a\22: 1}", has_side_effect = true} : (tensor<4x6xf32>) -> tensor<4x6xf32>
    return %1 : tensor<4x6xf32>
  }
}
