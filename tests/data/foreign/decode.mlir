module @jit_step attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<16x16xf32>, %arg1: tensor<16x16xf32>, %arg2: tensor<16x16xf32>, %arg3: tensor<16x16xf32>, %arg4: tensor<2x4x8x16xf32> {tf.aliasing_output = 0 : i32}, %arg5: tensor<4x16xf32>, %arg6: tensor<i32>) -> (tensor<2x4x8x16xf32> {jax.result_info = "result[0]"}, tensor<4x4xf32> {jax.result_info = "result[1]"}, tensor<4x4xi32> {jax.result_info = "result[2]"}, tensor<4x4xf32> {jax.result_info = "result[3]"}) {
    %0 = stablehlo.dot_general %arg5, %arg2, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x16xf32>, tensor<16x16xf32>) -> tensor<4x16xf32>
    %1 = stablehlo.dot_general %arg5, %arg0, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x16xf32>, tensor<16x16xf32>) -> tensor<4x16xf32>
    %2 = stablehlo.dot_general %arg5, %arg3, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x16xf32>, tensor<16x16xf32>) -> tensor<4x16xf32>
    %3 = stablehlo.broadcast_in_dim %1, dims = [1, 2] : (tensor<4x16xf32>) -> tensor<1x4x16xf32>
    %4 = stablehlo.broadcast_in_dim %2, dims = [1, 2] : (tensor<4x16xf32>) -> tensor<1x4x16xf32>
    %5 = stablehlo.concatenate %3, %4, dim = 0 : (tensor<1x4x16xf32>, tensor<1x4x16xf32>) -> tensor<2x4x16xf32>
    %6 = stablehlo.broadcast_in_dim %5, dims = [0, 1, 3] : (tensor<2x4x16xf32>) -> tensor<2x4x1x16xf32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %7 = stablehlo.compare LT, %arg6, %c, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %c_0 = stablehlo.constant dense<8> : tensor<i32>
    %8 = stablehlo.add %arg6, %c_0 : tensor<i32>
    %9 = stablehlo.select %7, %8, %arg6 : tensor<i1>, tensor<i32>
    %c_1 = stablehlo.constant dense<0> : tensor<i32>
    %c_2 = stablehlo.constant dense<0> : tensor<i32>
    %c_3 = stablehlo.constant dense<0> : tensor<i32>
    %10 = stablehlo.dynamic_update_slice %arg4, %6, %c_1, %c_2, %9, %c_3 : (tensor<2x4x8x16xf32>, tensor<2x4x1x16xf32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<2x4x8x16xf32>
    %11 = stablehlo.slice %10 [0:1, 0:4, 0:8, 0:16] : (tensor<2x4x8x16xf32>) -> tensor<1x4x8x16xf32>
    %12 = stablehlo.reshape %11 : (tensor<1x4x8x16xf32>) -> tensor<4x8x16xf32>
    %13 = stablehlo.slice %10 [1:2, 0:4, 0:8, 0:16] : (tensor<2x4x8x16xf32>) -> tensor<1x4x8x16xf32>
    %14 = stablehlo.reshape %13 : (tensor<1x4x8x16xf32>) -> tensor<4x8x16xf32>
    %15 = stablehlo.iota dim = 0 : tensor<8xi32>
    %16 = stablehlo.broadcast_in_dim %arg6, dims = [] : (tensor<i32>) -> tensor<8xi32>
    %17 = stablehlo.compare LE, %15, %16, SIGNED : (tensor<8xi32>, tensor<8xi32>) -> tensor<8xi1>
    %18 = stablehlo.dot_general %0, %12, batching_dims = [0] x [0], contracting_dims = [1] x [2], precision = [DEFAULT, DEFAULT] : (tensor<4x16xf32>, tensor<4x8x16xf32>) -> tensor<4x8xf32>
    %cst = stablehlo.constant dense<4.000000e+00> : tensor<f32>
    %19 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<4x8xf32>
    %20 = stablehlo.divide %18, %19 : tensor<4x8xf32>
    %cst_4 = stablehlo.constant dense<-1.000000e+09> : tensor<f32>
    %21 = call @_where(%17, %20, %cst_4) : (tensor<8xi1>, tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
    %cst_5 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %22 = stablehlo.reduce(%21 init: %cst_5) applies stablehlo.maximum across dimensions = [1] : (tensor<4x8xf32>, tensor<f32>) -> tensor<4xf32>
    %cst_6 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %23 = stablehlo.broadcast_in_dim %cst_6, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %24 = stablehlo.maximum %23, %22 : tensor<4xf32>
    %25 = stablehlo.broadcast_in_dim %24, dims = [0] : (tensor<4xf32>) -> tensor<4x1xf32>
    %26 = stablehlo.broadcast_in_dim %25, dims = [0, 1] : (tensor<4x1xf32>) -> tensor<4x8xf32>
    %27 = stablehlo.subtract %21, %26 : tensor<4x8xf32>
    %28 = stablehlo.exponential %27 : tensor<4x8xf32>
    %cst_7 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %29 = stablehlo.reduce(%28 init: %cst_7) applies stablehlo.add across dimensions = [1] : (tensor<4x8xf32>, tensor<f32>) -> tensor<4xf32>
    %30 = stablehlo.broadcast_in_dim %29, dims = [0] : (tensor<4xf32>) -> tensor<4x1xf32>
    %31 = stablehlo.broadcast_in_dim %30, dims = [0, 1] : (tensor<4x1xf32>) -> tensor<4x8xf32>
    %32 = stablehlo.divide %28, %31 : tensor<4x8xf32>
    %33 = stablehlo.dot_general %32, %14, batching_dims = [0] x [0], contracting_dims = [1] x [1], precision = [DEFAULT, DEFAULT] : (tensor<4x8xf32>, tensor<4x8x16xf32>) -> tensor<4x16xf32>
    %c_8 = stablehlo.constant dense<2> : tensor<i32>
    %34 = stablehlo.subtract %arg6, %c_8 : tensor<i32>
    %c_9 = stablehlo.constant dense<0> : tensor<i32>
    %35 = stablehlo.maximum %34, %c_9 : tensor<i32>
    %c_10 = stablehlo.constant dense<0> : tensor<i32>
    %36 = stablehlo.compare LT, %35, %c_10, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %c_11 = stablehlo.constant dense<8> : tensor<i32>
    %37 = stablehlo.add %35, %c_11 : tensor<i32>
    %38 = stablehlo.select %36, %37, %35 : tensor<i1>, tensor<i32>
    %c_12 = stablehlo.constant dense<0> : tensor<i32>
    %c_13 = stablehlo.constant dense<0> : tensor<i32>
    %39 = stablehlo.dynamic_slice %14, %c_12, %38, %c_13, sizes = [4, 2, 16] : (tensor<4x8x16xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<4x2x16xf32>
    %cst_14 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %40 = stablehlo.reduce(%39 init: %cst_14) applies stablehlo.add across dimensions = [1] : (tensor<4x2x16xf32>, tensor<f32>) -> tensor<4x16xf32>
    %cst_15 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %41 = stablehlo.broadcast_in_dim %cst_15, dims = [] : (tensor<f32>) -> tensor<4x16xf32>
    %42 = stablehlo.divide %40, %41 : tensor<4x16xf32>
    %43 = stablehlo.add %33, %42 : tensor<4x16xf32>
    %44 = stablehlo.dot_general %43, %arg1, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x16xf32>, tensor<16x16xf32>) -> tensor<4x16xf32>
    %values, %indices = chlo.top_k(%44, k = 4) : tensor<4x16xf32> -> (tensor<4x4xf32>, tensor<4x4xi32>)
    %45 = call @sort(%values) : (tensor<4x4xf32>) -> tensor<4x4xf32>
    return %10, %values, %indices, %45 : tensor<2x4x8x16xf32>, tensor<4x4xf32>, tensor<4x4xi32>, tensor<4x4xf32>
  }
  func.func private @_where(%arg0: tensor<8xi1>, %arg1: tensor<4x8xf32>, %arg2: tensor<f32>) -> tensor<4x8xf32> {
    %0 = stablehlo.convert %arg2 : tensor<f32>
    %1 = stablehlo.broadcast_in_dim %arg0, dims = [1] : (tensor<8xi1>) -> tensor<4x8xi1>
    %2 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f32>) -> tensor<4x8xf32>
    %3 = stablehlo.select %1, %arg1, %2 : tensor<4x8xi1>, tensor<4x8xf32>
    return %3 : tensor<4x8xf32>
  }
  func.func private @sort(%arg0: tensor<4x4xf32>) -> tensor<4x4xf32> {
    %0 = "stablehlo.sort"(%arg0) <{dimension = 1 : i64, is_stable = true}> ({
    ^bb0(%arg1: tensor<f32>, %arg2: tensor<f32>):
      %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
      %1 = stablehlo.compare EQ, %arg1, %cst, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %cst_0 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
      %2 = stablehlo.select %1, %cst_0, %arg1 : tensor<i1>, tensor<f32>
      %3 = stablehlo.compare NE, %arg1, %arg1, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %cst_1 = stablehlo.constant dense<0x7FC00000> : tensor<f32>
      %4 = stablehlo.select %3, %cst_1, %2 : tensor<i1>, tensor<f32>
      %cst_2 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
      %5 = stablehlo.compare EQ, %arg2, %cst_2, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %cst_3 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
      %6 = stablehlo.select %5, %cst_3, %arg2 : tensor<i1>, tensor<f32>
      %7 = stablehlo.compare NE, %arg2, %arg2, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %cst_4 = stablehlo.constant dense<0x7FC00000> : tensor<f32>
      %8 = stablehlo.select %7, %cst_4, %6 : tensor<i1>, tensor<f32>
      %9 = stablehlo.compare LT, %4, %8, TOTALORDER : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %9 : tensor<i1>
    }) : (tensor<4x4xf32>) -> tensor<4x4xf32>
    return %0 : tensor<4x4xf32>
  }
}
