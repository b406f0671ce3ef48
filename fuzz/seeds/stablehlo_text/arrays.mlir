module {
  sdy.mesh @mesh = <["x"=2, "y"=4]>
  func.func @main(%arg0: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x", ?}, {"y":(1)2}]>, tf.aliasing_output = 0 : i32}, %arg1: tensor<3x1xi32> {mhlo.sharding = "{devices=[1,1,8]<=[8] last_tile_dim_replicate}"}) -> (tensor<8x4xf32>, tensor<4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}) {
    %0 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %1 = "stablehlo.gather"(%arg0, %arg1) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 4>}> : (tensor<8x4xf32>, tensor<3x1xi32>) -> tensor<3x4xf32>
    %2 = "stablehlo.scatter"(%arg0, %arg1, %1) <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, unique_indices = false}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %9 = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %9 : tensor<f32>
    }) : (tensor<8x4xf32>, tensor<3x1xi32>, tensor<3x4xf32>) -> tensor<8x4xf32>
    %3 = sdy.sharding_constraint %2 <@mesh, [{"x"}, {?}]> : tensor<8x4xf32>
    %4 = stablehlo.dot_general %3, %arg0, batching_dims = [1] x [1], contracting_dims = [0] x [0], precision = [HIGHEST, HIGHEST] : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4xf32>
    %5 = stablehlo.reduce(%3 init: %0) applies stablehlo.add across dimensions = [0] : (tensor<8x4xf32>, tensor<f32>) -> tensor<4xf32>
    %6 = stablehlo.pad %4, %0, low = [1], high = [-2], interior = [0] : (tensor<4xf32>, tensor<f32>) -> tensor<3xf32>
    %7 = stablehlo.concatenate %6, %6, dim = 0 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}]>]>} : (tensor<3xf32>, tensor<3xf32>) -> tensor<6xf32>
    %8 = stablehlo.convert %5 : (tensor<4xf32>) -> tensor<4xbf16>
    %10 = "stablehlo.transpose"(%3) {permutation = array<i64: 1, 0>} : (tensor<8x4xf32>) -> tensor<4x8xf32>
    return %3, %5 : tensor<8x4xf32>, tensor<4xf32>
  }
}
