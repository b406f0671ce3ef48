module @jit_step attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<16x8xf32> {tf.aliasing_output = 0 : i32}, %arg1: tensor<16x16xf32> {tf.aliasing_output = 1 : i32}, %arg2: tensor<16x16x16xf32> {tf.aliasing_output = 2 : i32}, %arg3: tensor<8x16xf32>) -> (tensor<16x8xf32> {jax.result_info = "result[0]['head']"}, tensor<16x16xf32> {jax.result_info = "result[0]['scale']"}, tensor<16x16x16xf32> {jax.result_info = "result[0]['w']"}, tensor<f32> {jax.result_info = "result[1]"}) {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<16x8x16xf32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %1:5 = stablehlo.while(%iterArg = %arg1, %iterArg_11 = %arg2, %iterArg_12 = %c, %iterArg_13 = %arg3, %iterArg_14 = %0) : tensor<16x16xf32>, tensor<16x16x16xf32>, tensor<i32>, tensor<8x16xf32>, tensor<16x8x16xf32>
    cond {
      %c_15 = stablehlo.constant dense<16> : tensor<i32>
      %26 = stablehlo.compare LT, %iterArg_12, %c_15, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %26 : tensor<i1>
    } do {
      %26 = func.call @dynamic_index_in_dim(%iterArg, %iterArg_12) : (tensor<16x16xf32>, tensor<i32>) -> tensor<16xf32>
      %27 = func.call @dynamic_index_in_dim_0(%iterArg_11, %iterArg_12) : (tensor<16x16x16xf32>, tensor<i32>) -> tensor<16x16xf32>
      %28:2 = func.call @closed_call(%iterArg_13, %26, %27) : (tensor<8x16xf32>, tensor<16xf32>, tensor<16x16xf32>) -> (tensor<8x16xf32>, tensor<8x16xf32>)
      %29 = func.call @dynamic_update_index_in_dim(%iterArg_14, %28#1, %iterArg_12) : (tensor<16x8x16xf32>, tensor<8x16xf32>, tensor<i32>) -> tensor<16x8x16xf32>
      %c_15 = stablehlo.constant dense<1> : tensor<i32>
      %30 = stablehlo.add %iterArg_12, %c_15 : tensor<i32>
      stablehlo.return %iterArg, %iterArg_11, %30, %28#0, %29 : tensor<16x16xf32>, tensor<16x16x16xf32>, tensor<i32>, tensor<8x16xf32>, tensor<16x8x16xf32>
    }
    %2 = stablehlo.dot_general %1#3, %arg0, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<8x16xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
    %3 = stablehlo.multiply %2, %2 : tensor<8x8xf32>
    %cst_0 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %4 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<8x8xf32>
    %5 = stablehlo.multiply %4, %2 : tensor<8x8xf32>
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %6 = stablehlo.reduce(%3 init: %cst_1) applies stablehlo.add across dimensions = [0, 1] : (tensor<8x8xf32>, tensor<f32>) -> tensor<f32>
    %cst_2 = stablehlo.constant dense<6.400000e+01> : tensor<f32>
    %7 = stablehlo.divide %6, %cst_2 : tensor<f32>
    %cst_3 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %cst_4 = stablehlo.constant dense<6.400000e+01> : tensor<f32>
    %8 = stablehlo.divide %cst_3, %cst_4 : tensor<f32>
    %9 = stablehlo.broadcast_in_dim %8, dims = [] : (tensor<f32>) -> tensor<8x8xf32>
    %10 = stablehlo.multiply %9, %5 : tensor<8x8xf32>
    %11 = stablehlo.dot_general %10, %1#3, contracting_dims = [0] x [0], precision = [DEFAULT, DEFAULT] : (tensor<8x8xf32>, tensor<8x16xf32>) -> tensor<8x16xf32>
    %12 = stablehlo.transpose %11, dims = [1, 0] : (tensor<8x16xf32>) -> tensor<16x8xf32>
    %13 = stablehlo.dot_general %10, %arg0, contracting_dims = [1] x [1], precision = [DEFAULT, DEFAULT] : (tensor<8x8xf32>, tensor<16x8xf32>) -> tensor<8x16xf32>
    %cst_5 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %14 = stablehlo.broadcast_in_dim %cst_5, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %cst_6 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %15 = stablehlo.broadcast_in_dim %cst_6, dims = [] : (tensor<f32>) -> tensor<16x16x16xf32>
    %c_7 = stablehlo.constant dense<0> : tensor<i32>
    %16:7 = stablehlo.while(%iterArg = %1#4, %iterArg_11 = %arg1, %iterArg_12 = %arg2, %iterArg_13 = %c_7, %iterArg_14 = %13, %iterArg_15 = %14, %iterArg_16 = %15) : tensor<16x8x16xf32>, tensor<16x16xf32>, tensor<16x16x16xf32>, tensor<i32>, tensor<8x16xf32>, tensor<16x16xf32>, tensor<16x16x16xf32>
    cond {
      %c_17 = stablehlo.constant dense<16> : tensor<i32>
      %26 = stablehlo.compare LT, %iterArg_13, %c_17, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %26 : tensor<i1>
    } do {
      %c_17 = stablehlo.constant dense<16> : tensor<i32>
      %26 = stablehlo.subtract %c_17, %iterArg_13 : tensor<i32>
      %c_18 = stablehlo.constant dense<1> : tensor<i32>
      %27 = stablehlo.subtract %26, %c_18 : tensor<i32>
      %28 = func.call @dynamic_index_in_dim_1(%iterArg, %27) : (tensor<16x8x16xf32>, tensor<i32>) -> tensor<8x16xf32>
      %29 = func.call @dynamic_index_in_dim(%iterArg_11, %27) : (tensor<16x16xf32>, tensor<i32>) -> tensor<16xf32>
      %30 = func.call @dynamic_index_in_dim_0(%iterArg_12, %27) : (tensor<16x16x16xf32>, tensor<i32>) -> tensor<16x16xf32>
      %31:3 = func.call @closed_call_2(%iterArg_14, %28, %29, %30) : (tensor<8x16xf32>, tensor<8x16xf32>, tensor<16xf32>, tensor<16x16xf32>) -> (tensor<8x16xf32>, tensor<16xf32>, tensor<16x16xf32>)
      %32 = func.call @dynamic_update_index_in_dim_3(%iterArg_15, %31#1, %27) : (tensor<16x16xf32>, tensor<16xf32>, tensor<i32>) -> tensor<16x16xf32>
      %33 = func.call @dynamic_update_index_in_dim_4(%iterArg_16, %31#2, %27) : (tensor<16x16x16xf32>, tensor<16x16xf32>, tensor<i32>) -> tensor<16x16x16xf32>
      %c_19 = stablehlo.constant dense<1> : tensor<i32>
      %34 = stablehlo.add %iterArg_13, %c_19 : tensor<i32>
      stablehlo.return %iterArg, %iterArg_11, %iterArg_12, %34, %31#0, %32, %33 : tensor<16x8x16xf32>, tensor<16x16xf32>, tensor<16x16x16xf32>, tensor<i32>, tensor<8x16xf32>, tensor<16x16xf32>, tensor<16x16x16xf32>
    }
    %cst_8 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %17 = stablehlo.broadcast_in_dim %cst_8, dims = [] : (tensor<f32>) -> tensor<16x8xf32>
    %18 = stablehlo.multiply %17, %12 : tensor<16x8xf32>
    %19 = stablehlo.subtract %arg0, %18 : tensor<16x8xf32>
    %cst_9 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %20 = stablehlo.broadcast_in_dim %cst_9, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %21 = stablehlo.multiply %20, %16#5 : tensor<16x16xf32>
    %22 = stablehlo.subtract %arg1, %21 : tensor<16x16xf32>
    %cst_10 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %23 = stablehlo.broadcast_in_dim %cst_10, dims = [] : (tensor<f32>) -> tensor<16x16x16xf32>
    %24 = stablehlo.multiply %23, %16#6 : tensor<16x16x16xf32>
    %25 = stablehlo.subtract %arg2, %24 : tensor<16x16x16xf32>
    return %19, %22, %25, %7 : tensor<16x8xf32>, tensor<16x16xf32>, tensor<16x16x16xf32>, tensor<f32>
  }
  func.func private @dynamic_index_in_dim(%arg0: tensor<16x16xf32>, %arg1: tensor<i32>) -> tensor<16xf32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.dynamic_slice %arg0, %arg1, %c, sizes = [1, 16] : (tensor<16x16xf32>, tensor<i32>, tensor<i32>) -> tensor<1x16xf32>
    %1 = stablehlo.reshape %0 : (tensor<1x16xf32>) -> tensor<16xf32>
    return %1 : tensor<16xf32>
  }
  func.func private @dynamic_index_in_dim_0(%arg0: tensor<16x16x16xf32>, %arg1: tensor<i32>) -> tensor<16x16xf32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.dynamic_slice %arg0, %arg1, %c, %c_0, sizes = [1, 16, 16] : (tensor<16x16x16xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x16x16xf32>
    %1 = stablehlo.reshape %0 : (tensor<1x16x16xf32>) -> tensor<16x16xf32>
    return %1 : tensor<16x16xf32>
  }
  func.func private @closed_call(%arg0: tensor<8x16xf32>, %arg1: tensor<16xf32>, %arg2: tensor<16x16xf32>) -> (tensor<8x16xf32>, tensor<8x16xf32>) {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [1] : (tensor<16xf32>) -> tensor<1x16xf32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [0, 1] : (tensor<1x16xf32>) -> tensor<8x16xf32>
    %2 = stablehlo.multiply %arg0, %1 : tensor<8x16xf32>
    %3 = stablehlo.dot_general %2, %arg2, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<8x16xf32>, tensor<16x16xf32>) -> tensor<8x16xf32>
    %4 = stablehlo.tanh %3 : tensor<8x16xf32>
    %5 = stablehlo.add %arg0, %4 : tensor<8x16xf32>
    return %5, %arg0 : tensor<8x16xf32>, tensor<8x16xf32>
  }
  func.func private @dynamic_update_index_in_dim(%arg0: tensor<16x8x16xf32>, %arg1: tensor<8x16xf32>, %arg2: tensor<i32>) -> tensor<16x8x16xf32> {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [1, 2] : (tensor<8x16xf32>) -> tensor<1x8x16xf32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.dynamic_update_slice %arg0, %0, %arg2, %c, %c_0 : (tensor<16x8x16xf32>, tensor<1x8x16xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<16x8x16xf32>
    return %1 : tensor<16x8x16xf32>
  }
  func.func private @dynamic_index_in_dim_1(%arg0: tensor<16x8x16xf32>, %arg1: tensor<i32>) -> tensor<8x16xf32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.dynamic_slice %arg0, %arg1, %c, %c_0, sizes = [1, 8, 16] : (tensor<16x8x16xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x8x16xf32>
    %1 = stablehlo.reshape %0 : (tensor<1x8x16xf32>) -> tensor<8x16xf32>
    return %1 : tensor<8x16xf32>
  }
  func.func private @closed_call_2(%arg0: tensor<8x16xf32>, %arg1: tensor<8x16xf32>, %arg2: tensor<16xf32>, %arg3: tensor<16x16xf32>) -> (tensor<8x16xf32>, tensor<16xf32>, tensor<16x16xf32>) {
    %0:4 = stablehlo.optimization_barrier %arg1, %arg2, %arg3, %arg0 : tensor<8x16xf32>, tensor<16xf32>, tensor<16x16xf32>, tensor<8x16xf32>
    %1 = stablehlo.broadcast_in_dim %0#1, dims = [1] : (tensor<16xf32>) -> tensor<1x16xf32>
    %2 = stablehlo.broadcast_in_dim %1, dims = [0, 1] : (tensor<1x16xf32>) -> tensor<8x16xf32>
    %3 = stablehlo.multiply %0#0, %2 : tensor<8x16xf32>
    %4 = stablehlo.dot_general %3, %0#2, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<8x16xf32>, tensor<16x16xf32>) -> tensor<8x16xf32>
    %5 = stablehlo.tanh %4 : tensor<8x16xf32>
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %6 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<8x16xf32>
    %7 = stablehlo.subtract %6, %5 : tensor<8x16xf32>
    %8 = stablehlo.multiply %0#3, %7 : tensor<8x16xf32>
    %9 = stablehlo.multiply %8, %5 : tensor<8x16xf32>
    %10 = stablehlo.add %8, %9 : tensor<8x16xf32>
    %11 = stablehlo.dot_general %10, %3, contracting_dims = [0] x [0], precision = [DEFAULT, DEFAULT] : (tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<16x16xf32>
    %12 = stablehlo.transpose %11, dims = [1, 0] : (tensor<16x16xf32>) -> tensor<16x16xf32>
    %13 = stablehlo.dot_general %10, %0#2, contracting_dims = [1] x [1], precision = [DEFAULT, DEFAULT] : (tensor<8x16xf32>, tensor<16x16xf32>) -> tensor<8x16xf32>
    %14 = stablehlo.multiply %0#0, %13 : tensor<8x16xf32>
    %cst_0 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %15 = stablehlo.reduce(%14 init: %cst_0) applies stablehlo.add across dimensions = [0] : (tensor<8x16xf32>, tensor<f32>) -> tensor<16xf32>
    %16 = stablehlo.reshape %15 : (tensor<16xf32>) -> tensor<1x16xf32>
    %17 = stablehlo.broadcast_in_dim %1, dims = [0, 1] : (tensor<1x16xf32>) -> tensor<8x16xf32>
    %18 = stablehlo.multiply %13, %17 : tensor<8x16xf32>
    %19 = stablehlo.add %0#3, %18 : tensor<8x16xf32>
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %20 = stablehlo.reduce(%16 init: %cst_1) applies stablehlo.add across dimensions = [0] : (tensor<1x16xf32>, tensor<f32>) -> tensor<16xf32>
    return %19, %20, %12 : tensor<8x16xf32>, tensor<16xf32>, tensor<16x16xf32>
  }
  func.func private @dynamic_update_index_in_dim_3(%arg0: tensor<16x16xf32>, %arg1: tensor<16xf32>, %arg2: tensor<i32>) -> tensor<16x16xf32> {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [1] : (tensor<16xf32>) -> tensor<1x16xf32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.dynamic_update_slice %arg0, %0, %arg2, %c : (tensor<16x16xf32>, tensor<1x16xf32>, tensor<i32>, tensor<i32>) -> tensor<16x16xf32>
    return %1 : tensor<16x16xf32>
  }
  func.func private @dynamic_update_index_in_dim_4(%arg0: tensor<16x16x16xf32>, %arg1: tensor<16x16xf32>, %arg2: tensor<i32>) -> tensor<16x16x16xf32> {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [1, 2] : (tensor<16x16xf32>) -> tensor<1x16x16xf32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.dynamic_update_slice %arg0, %0, %arg2, %c, %c_0 : (tensor<16x16x16xf32>, tensor<1x16x16xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<16x16x16xf32>
    return %1 : tensor<16x16x16xf32>
  }
}
