"builtin.module"() <{sym_name = "forms"}> ({
  "sdy.mesh"() <{mesh = #sdy.mesh<["x"=2, "y"=4]>, sym_name = "mesh"}> : () -> ()
  "sdy.mesh"() <{mesh = #sdy.mesh<["x"=2, "y"=4], device_ids=[7, 6, 5, 4, 3, 2, 1, 0]>, sym_name = "mesh2"}> : () -> ()
  "sdy.mesh"() <{mesh = #sdy.mesh<[], device_ids=[3]>, sym_name = "max3"}> : () -> ()
  "func.func"() <{arg_attrs = [{my.attr}, {}], function_type = (tensor<f32>, tensor<2xf32>) -> tensor<f32>, res_attrs = [{my.res = 1 : i32}], sym_name = "ext", sym_visibility = "private"}> ({
  }) : () -> ()
  "func.func"() <{function_type = (tensor<f32>) -> tensor<f32>, no_inline, sym_name = "dec", sym_visibility = "private"}> ({
  ^bb0(%arg0: tensor<f32>):
    "func.return"(%arg0) : (tensor<f32>) -> ()
  }) {my.thing = "x"} : () -> ()
  "func.func"() <{arg_attrs = [{my.a = 1 : i32}], function_type = (tensor<f32>) -> tensor<f32>, res_attrs = [{my.b}], sym_name = "ext2", sym_visibility = "private"}> ({
  }) : () -> ()
  "func.func"() <{arg_attrs = [{my.a = [1, 2], my.c = "},"}, {}], function_type = (tensor<f32>, tensor<f32>) -> tensor<f32>, res_attrs = [{my.b}], sym_name = "d2", sym_visibility = "private"}> ({
  ^bb0(%arg0: tensor<f32>, %arg1: tensor<f32>):
    "func.return"(%arg0) : (tensor<f32>) -> ()
  }) {my.foo} : () -> ()
  "func.func"() <{function_type = (tensor<8x16xf32>, tensor<16x4xf32>, tensor<f32>, tensor<i32>, tensor<8x16xi1>, tensor<8xf32>, tensor<8xcomplex<f32>>, tensor<2x8x8x3xf32>, tensor<3x3x3x4xf32>, tensor<2xi32>, tensor<4x4xf32>, tensor<?x4xf32>, tensor<8x16xi32>, tensor<2x3x4xf32>, tensor<2x4x5xf32>, tensor<2xui64>, !stablehlo.token, tensor<i1>, tensor<1xi32>, tensor<3xi32>, tensor<11x5xf32>, tensor<3x5x7xf32>, tensor<2x2xi32>, tensor<8x16xcomplex<f32>>, tensor<16xf32>, tensor<i32>) -> (), sym_name = "main"}> ({
  ^bb0(%arg0: tensor<8x16xf32>, %arg1: tensor<16x4xf32>, %arg2: tensor<f32>, %arg3: tensor<i32>, %arg4: tensor<8x16xi1>, %arg5: tensor<8xf32>, %arg6: tensor<8xcomplex<f32>>, %arg7: tensor<2x8x8x3xf32>, %arg8: tensor<3x3x3x4xf32>, %arg9: tensor<2xi32>, %arg10: tensor<4x4xf32>, %arg11: tensor<?x4xf32>, %arg12: tensor<8x16xi32>, %arg13: tensor<2x3x4xf32>, %arg14: tensor<2x4x5xf32>, %arg15: tensor<2xui64>, %arg16: !stablehlo.token, %arg17: tensor<i1>, %arg18: tensor<1xi32>, %arg19: tensor<3xi32>, %arg20: tensor<11x5xf32>, %arg21: tensor<3x5x7xf32>, %arg22: tensor<2x2xi32>, %arg23: tensor<8x16xcomplex<f32>>, %arg24: tensor<16xf32>, %arg25: tensor<i32>):
    %0 = "stablehlo.abs"(%arg0) : (tensor<8x16xf32>) -> tensor<8x16xf32>
    %1 = "stablehlo.abs"(%arg6) : (tensor<8xcomplex<f32>>) -> tensor<8xf32>
    %2 = "stablehlo.exponential"(%arg0) <{result_accuracy = #stablehlo.result_accuracy<ulps = 10, mode = #stablehlo.result_accuracy_mode<TOLERANCE>>}> : (tensor<8x16xf32>) -> tensor<8x16xf32>
    %3 = "stablehlo.add"(%arg0, %arg0) {mhlo.frontend_attributes = {a = "b"}} : (tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<8x16xf32>
    %4 = "stablehlo.compare"(%arg0, %arg0) <{comparison_direction = #stablehlo<comparison_direction LT>}> : (tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<8x16xi1>
    %5 = "stablehlo.compare"(%arg0, %arg0) <{compare_type = #stablehlo<comparison_type TOTALORDER>, comparison_direction = #stablehlo<comparison_direction LT>}> : (tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<8x16xi1>
    %6 = "stablehlo.select"(%arg4, %arg0, %arg0) : (tensor<8x16xi1>, tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<8x16xf32>
    %7 = "stablehlo.select"(%arg17, %arg0, %arg0) : (tensor<i1>, tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<8x16xf32>
    %8 = "stablehlo.clamp"(%arg2, %arg0, %arg2) : (tensor<f32>, tensor<8x16xf32>, tensor<f32>) -> tensor<8x16xf32>
    %9 = "stablehlo.clamp"(%arg0, %arg0, %arg0) : (tensor<8x16xf32>, tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<8x16xf32>
    %c = "stablehlo.constant"() <{value = dense<1> : tensor<4xi32>}> {mhlo.x} : () -> tensor<4xi32>
    %10 = "stablehlo.iota"() <{iota_dimension = 1 : i64}> : () -> tensor<4x5xi32>
    %11 = "stablehlo.broadcast_in_dim"(%arg5) <{broadcast_dimensions = array<i64: 0>}> : (tensor<8xf32>) -> tensor<8x16xf32>
    %12 = "stablehlo.broadcast"(%arg5) <{broadcast_sizes = array<i64: 2>}> : (tensor<8xf32>) -> tensor<2x8xf32>
    %13 = "stablehlo.reshape"(%arg0) : (tensor<8x16xf32>) -> tensor<128xf32>
    %14 = "stablehlo.transpose"(%arg0) <{permutation = array<i64: 1, 0>}> : (tensor<8x16xf32>) -> tensor<16x8xf32>
    %15 = "stablehlo.slice"(%arg0) <{limit_indices = array<i64: 4, 16>, start_indices = array<i64: 0, 2>, strides = array<i64: 1, 2>}> : (tensor<8x16xf32>) -> tensor<4x7xf32>
    %16 = "stablehlo.dynamic_slice"(%arg0, %arg3, %arg3) <{slice_sizes = array<i64: 1, 16>}> : (tensor<8x16xf32>, tensor<i32>, tensor<i32>) -> tensor<1x16xf32>
    %17 = "stablehlo.dynamic_update_slice"(%arg0, %16, %arg3, %arg3) : (tensor<8x16xf32>, tensor<1x16xf32>, tensor<i32>, tensor<i32>) -> tensor<8x16xf32>
    %18 = "stablehlo.pad"(%arg0, %arg2) <{edge_padding_high = array<i64: 1, 1>, edge_padding_low = array<i64: 0, -1>, interior_padding = array<i64: 0, 0>}> : (tensor<8x16xf32>, tensor<f32>) -> tensor<9x16xf32>
    %19 = "stablehlo.concatenate"(%arg0, %arg0) <{dimension = 0 : i64}> : (tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<16x16xf32>
    %20 = "stablehlo.reverse"(%arg0) <{dimensions = array<i64: 0, 1>}> : (tensor<8x16xf32>) -> tensor<8x16xf32>
    %21 = "stablehlo.dot_general"(%arg13, %arg14) <{dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [0], rhs_batching_dimensions = [0], lhs_contracting_dimensions = [2], rhs_contracting_dimensions = [1]>, precision_config = [#stablehlo<precision HIGHEST>, #stablehlo<precision DEFAULT>]}> : (tensor<2x3x4xf32>, tensor<2x4x5xf32>) -> tensor<2x3x5xf32>
    %22 = "stablehlo.dot_general"(%arg0, %arg1) <{algorithm = #stablehlo.dot_algorithm<lhs_precision_type = tf32, rhs_precision_type = tf32, accumulation_type = f32, lhs_component_count = 1, rhs_component_count = 1, num_primitive_operations = 1, allow_imprecise_accumulation = false>, dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>}> : (tensor<8x16xf32>, tensor<16x4xf32>) -> tensor<8x4xf32>
    %23 = "stablehlo.dot_general"(%arg5, %arg5) <{dot_dimension_numbers = #stablehlo.dot<>}> : (tensor<8xf32>, tensor<8xf32>) -> tensor<8x8xf32>
    %24 = "stablehlo.dot"(%arg0, %arg1) <{precision_config = [#stablehlo<precision HIGH>, #stablehlo<precision DEFAULT>]}> : (tensor<8x16xf32>, tensor<16x4xf32>) -> tensor<8x4xf32>
    %25 = "stablehlo.dot"(%arg0, %arg1) : (tensor<8x16xf32>, tensor<16x4xf32>) -> tensor<8x4xf32>
    %26 = "stablehlo.convolution"(%arg7, %arg8) <{batch_group_count = 1 : i64, dimension_numbers = #stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>, feature_group_count = 1 : i64}> : (tensor<2x8x8x3xf32>, tensor<3x3x3x4xf32>) -> tensor<2x6x6x4xf32>
    %27 = "stablehlo.convolution"(%arg7, %arg8) <{batch_group_count = 1 : i64, dimension_numbers = #stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>, feature_group_count = 1 : i64, padding = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, window_reversal = array<i1: false, true>, window_strides = array<i64: 1, 2>}> : (tensor<2x8x8x3xf32>, tensor<3x3x3x4xf32>) -> tensor<2x7x6x4xf32>
    %28 = "stablehlo.reduce"(%arg0, %arg2) <{dimensions = array<i64: 0, 1>}> ({
    ^bb0(%lhs: tensor<f32>, %rhs: tensor<f32>):
      %joined = "stablehlo.maximum"(%lhs, %rhs) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%joined) : (tensor<f32>) -> ()
    }) : (tensor<8x16xf32>, tensor<f32>) -> tensor<f32>
    %29:2 = "stablehlo.reduce"(%arg0, %arg12, %arg2, %arg3) <{dimensions = array<i64: 1>}> ({
    ^bb0(%arg26: tensor<f32>, %arg27: tensor<i32>, %arg28: tensor<f32>, %arg29: tensor<i32>):
      %177 = "stablehlo.maximum"(%arg26, %arg28) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%177, %arg27) : (tensor<f32>, tensor<i32>) -> ()
    }) {my.attr = 1 : i32} : (tensor<8x16xf32>, tensor<8x16xi32>, tensor<f32>, tensor<i32>) -> (tensor<8xf32>, tensor<8xi32>)
    %30:2 = "stablehlo.while"(%arg3, %arg2) ({
    ^bb0(%iterArg: tensor<i32>, %iterArg_1: tensor<f32>):
      "stablehlo.return"(%arg17) : (tensor<i1>) -> ()
    }, {
    ^bb0(%iterArg: tensor<i32>, %iterArg_1: tensor<f32>):
      "stablehlo.return"(%iterArg, %iterArg_1) : (tensor<i32>, tensor<f32>) -> ()
    }) {my.attr} : (tensor<i32>, tensor<f32>) -> (tensor<i32>, tensor<f32>)
    "stablehlo.while"() ({
      "stablehlo.return"(%arg17) : (tensor<i1>) -> ()
    }, {
      "stablehlo.return"() : () -> ()
    }) : () -> ()
    %31 = "stablehlo.custom_call"(%arg0) <{api_version = 2 : i32, backend_config = "cfg", call_target_name = "foo", called_computations = [@dec], has_side_effect = true, operand_layouts = [dense<[1, 0]> : tensor<2xindex>], output_operand_aliases = [#stablehlo.output_operand_alias<output_tuple_indices = [], operand_index = 0, operand_tuple_indices = []>], result_layouts = [dense<[1, 0]> : tensor<2xindex>]}> {mhlo.backend_config = {a = 1 : i32}} : (tensor<8x16xf32>) -> tensor<8x16xf32>
    "stablehlo.custom_call"() <{call_target_name = "annotate@x y"}> : () -> ()
    %32:2 = "stablehlo.custom_call"(%arg0, %arg2) <{call_target_name = "Sharding"}> {mhlo.sharding = "{replicated}"} : (tensor<8x16xf32>, tensor<f32>) -> (tensor<f32>, tensor<f32>)
    %33 = "stablehlo.composite"(%arg2) <{composite_attributes = {k = 1 : i64}, decomposition = @dec, name = "my.op", version = 3 : i32}> : (tensor<f32>) -> tensor<f32>
    %34:2 = "stablehlo.optimization_barrier"(%arg2, %arg0) : (tensor<f32>, tensor<8x16xf32>) -> (tensor<f32>, tensor<8x16xf32>)
    "stablehlo.optimization_barrier"() : () -> ()
    %output_state, %output = "stablehlo.rng_bit_generator"(%arg15) <{rng_algorithm = #stablehlo<rng_algorithm THREE_FRY>}> : (tensor<2xui64>) -> (tensor<2xui64>, tensor<4xui32>)
    %35 = "stablehlo.reduce_precision"(%arg0) <{exponent_bits = 8 : i32, mantissa_bits = 7 : i32}> : (tensor<8x16xf32>) -> tensor<8x16xf32>
    %36 = "stablehlo.complex"(%arg0, %arg0) : (tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<8x16xcomplex<f32>>
    %37 = "stablehlo.real"(%36) : (tensor<8x16xcomplex<f32>>) -> tensor<8x16xf32>
    %38 = "stablehlo.imag"(%36) : (tensor<8x16xcomplex<f32>>) -> tensor<8x16xf32>
    %39 = "stablehlo.fft"(%arg6) <{fft_length = array<i64: 8>, fft_type = #stablehlo<fft_type FFT>}> : (tensor<8xcomplex<f32>>) -> tensor<8xcomplex<f32>>
    %40 = "stablehlo.cholesky"(%arg10) <{lower = true}> : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %41 = "stablehlo.triangular_solve"(%arg10, %arg10) <{left_side = true, lower = true, transpose_a = #stablehlo<transpose NO_TRANSPOSE>, unit_diagonal = false}> : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %42 = "stablehlo.tuple"(%arg2, %arg0) : (tensor<f32>, tensor<8x16xf32>) -> tuple<tensor<f32>, tensor<8x16xf32>>
    %43 = "stablehlo.get_tuple_element"(%42) <{index = 1 : i32}> : (tuple<tensor<f32>, tensor<8x16xf32>>) -> tensor<8x16xf32>
    %44 = "stablehlo.dynamic_reshape"(%arg0, %arg9) : (tensor<8x16xf32>, tensor<2xi32>) -> tensor<?x?xf32>
    %45 = "stablehlo.dynamic_broadcast_in_dim"(%arg5, %arg9) <{broadcast_dimensions = array<i64: 0>, known_expanding_dimensions = array<i64: 0>}> : (tensor<8xf32>, tensor<2xi32>) -> tensor<?x?xf32>
    %46 = "stablehlo.dynamic_iota"(%arg9) <{iota_dimension = 0 : i64}> : (tensor<2xi32>) -> tensor<?x?xf32>
    %47 = "stablehlo.dynamic_pad"(%arg0, %arg2, %arg9, %arg9, %arg9) : (tensor<8x16xf32>, tensor<f32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>) -> tensor<?x?xf32>
    %48 = "stablehlo.real_dynamic_slice"(%arg0, %arg9, %arg9, %arg9) : (tensor<8x16xf32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>) -> tensor<?x?xf32>
    %49 = "stablehlo.get_dimension_size"(%arg11) <{dimension = 0 : i64}> : (tensor<?x4xf32>) -> tensor<i32>
    %50 = "stablehlo.set_dimension_size"(%arg0, %arg3) <{dimension = 0 : i64}> : (tensor<8x16xf32>, tensor<i32>) -> tensor<?x16xf32, #stablehlo.bounds<8, ?>>
    %51 = "stablehlo.dynamic_gather"(%arg0, %arg9, %arg9) <{dimension_numbers = #stablehlo.gather<offset_dims = [0, 1], start_index_map = [0, 1]>, indices_are_sorted = false}> : (tensor<8x16xf32>, tensor<2xi32>, tensor<2xi32>) -> tensor<?x?xf32>
    %52 = "stablehlo.convert"(%arg0) : (tensor<8x16xf32>) -> tensor<8x16xbf16>
    %53 = "stablehlo.bitcast_convert"(%arg0) : (tensor<8x16xf32>) -> tensor<8x16xi32>
    %54 = "stablehlo.is_finite"(%arg0) : (tensor<8x16xf32>) -> tensor<8x16xi1>
    %55 = "stablehlo.after_all"(%arg16, %arg16) : (!stablehlo.token, !stablehlo.token) -> !stablehlo.token
    %56 = "stablehlo.create_token"() : () -> !stablehlo.token
    %57 = "stablehlo.partition_id"() : () -> tensor<ui32>
    %58 = "stablehlo.replica_id"() : () -> tensor<ui32>
    %59 = "stablehlo.rng"(%arg2, %arg2, %arg9) <{rng_distribution = #stablehlo<rng_distribution UNIFORM>}> : (tensor<f32>, tensor<f32>, tensor<2xi32>) -> tensor<2x2xf32>
    %60 = "stablehlo.einsum"(%arg0, %arg1) <{einsum_config = "ab,bc->ac"}> : (tensor<8x16xf32>, tensor<16x4xf32>) -> tensor<8x4xf32>
    %61 = "stablehlo.unary_einsum"(%arg0) <{einsum_config = "ab->a"}> : (tensor<8x16xf32>) -> tensor<8xf32>
    %output_0, %batch_mean, %batch_var = "stablehlo.batch_norm_training"(%arg7, %arg5, %arg5) <{epsilon = 1.000000e-03 : f32, feature_index = 1 : i64}> : (tensor<2x8x8x3xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<2x8x8x3xf32>, tensor<8xf32>, tensor<8xf32>)
    %62:2 = "stablehlo.infeed"(%arg16) <{infeed_config = "", layout = [[0, 1]]}> : (!stablehlo.token) -> (tensor<3x3xi32>, !stablehlo.token)
    %63 = "stablehlo.outfeed"(%arg0, %arg16) <{outfeed_config = ""}> : (tensor<8x16xf32>, !stablehlo.token) -> !stablehlo.token
    %64 = "stablehlo.send"(%arg0, %arg16) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 2>, is_host_transfer = true}> : (tensor<8x16xf32>, !stablehlo.token) -> !stablehlo.token
    %65:2 = "stablehlo.recv"(%arg16) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 3>, is_host_transfer = true}> : (!stablehlo.token) -> (tensor<3x3xi32>, !stablehlo.token)
    %66 = "stablehlo.all_gather"(%arg0) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 0>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> : (tensor<8x16xf32>) -> tensor<16x16xf32>
    %67 = "stablehlo.all_reduce"(%arg0) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> ({
    ^bb0(%arg26: tensor<f32>, %arg27: tensor<f32>):
      %177 = "stablehlo.add"(%arg26, %arg27) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%177) : (tensor<f32>) -> ()
    }) : (tensor<8x16xf32>) -> tensor<8x16xf32>
    %68 = "stablehlo.collective_permute"(%arg0) <{source_target_pairs = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<8x16xf32>) -> tensor<8x16xf32>
    %69 = "stablehlo.torch_index_select"(%arg0, %arg9) <{batch_dims = 0 : i64, dim = 0 : i64}> : (tensor<8x16xf32>, tensor<2xi32>) -> tensor<2x16xf32>
    %70 = "stablehlo.map"(%arg5, %arg5) <{dimensions = array<i64: 0>}> ({
    ^bb0(%arg26: tensor<f32>, %arg27: tensor<f32>):
      %177 = "stablehlo.add"(%arg26, %arg27) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%177) : (tensor<f32>) -> ()
    }) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %71 = "stablehlo.if"(%arg17) ({
      "stablehlo.return"(%arg2) : (tensor<f32>) -> ()
    }, {
      "stablehlo.return"(%arg2) : (tensor<f32>) -> ()
    }) : (tensor<i1>) -> tensor<f32>
    %72 = "chlo.erf_inv"(%arg0) : (tensor<8x16xf32>) -> tensor<8x16xf32>
    %values, %indices = "chlo.top_k"(%arg0) <{k = 4 : i64}> : (tensor<8x16xf32>) -> (tensor<8x4xf32>, tensor<8x4xi32>)
    %73 = "chlo.broadcast_add"(%arg0, %arg2) : (tensor<8x16xf32>, tensor<f32>) -> tensor<8x16xf32>
    %74 = "chlo.broadcast_compare"(%arg0, %arg2) <{comparison_direction = #chlo<comparison_direction LT>}> : (tensor<8x16xf32>, tensor<f32>) -> tensor<8x16xi1>
    %75 = "chlo.next_after"(%arg0, %arg0) : (tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<8x16xf32>
    %76 = "chlo.constant"() <{value = dense<1.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %77 = "chlo.is_inf"(%arg0) : (tensor<8x16xf32>) -> tensor<8x16xi1>
    %78 = "chlo.constant_like"(%arg0) <{value = 1.000000e+00 : f32}> : (tensor<8x16xf32>) -> tensor<8x16xf32>
    %79 = "chlo.broadcast_select"(%arg17, %arg0, %arg0) : (tensor<i1>, tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<8x16xf32>
    %80 = "chlo.square"(%arg0) : (tensor<8x16xf32>) -> tensor<8x16xf32>
    %81 = "sdy.sharding_constraint"(%arg0) <{sharding = #sdy.sharding<@mesh, [{"x"}, {"y", ?}]>}> : (tensor<8x16xf32>) -> tensor<8x16xf32>
    %82 = "sdy.manual_computation"(%arg0) <{in_shardings = #sdy.sharding_per_value<[<@mesh, [{"x"}, {}]>]>, manual_axes = #sdy<manual_axes{"x"}>, out_shardings = #sdy.sharding_per_value<[<@mesh, [{"x"}, {}]>]>}> ({
    ^bb0(%arg26: tensor<4x16xf32>):
      %177 = "stablehlo.add"(%arg26, %arg26) : (tensor<4x16xf32>, tensor<4x16xf32>) -> tensor<4x16xf32>
      "sdy.return"(%177) : (tensor<4x16xf32>) -> ()
    }) : (tensor<8x16xf32>) -> tensor<8x16xf32>
    %83 = "sdy.all_gather"(%81) <{gathering_axes = #sdy<list_of_axis_ref_lists[{"x"}, {}]>, out_sharding = #sdy.sharding<@mesh, [{}, {"y"}]>}> : (tensor<8x16xf32>) -> tensor<8x16xf32>
    %84 = "sdy.all_slice"(%83) <{out_sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>, slicing_axes = #sdy<list_of_axis_ref_lists[{"x"}, {}]>}> : (tensor<8x16xf32>) -> tensor<8x16xf32>
    %85 = "sdy.all_reduce"(%83) <{out_sharding = #sdy.sharding<@mesh, [{}, {"y"}]>, reduction_axes = #sdy<axis_ref_list{"x"}>}> : (tensor<8x16xf32>) -> tensor<8x16xf32>
    %86 = "sdy.reduce_scatter"(%83) <{out_sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>, reduce_scatter_axes = #sdy<list_of_axis_ref_lists[{"x"}, {}]>}> : (tensor<8x16xf32>) -> tensor<8x16xf32>
    %87 = "sdy.propagation_barrier"(%arg0) <{allowed_direction = 0 : i32}> : (tensor<8x16xf32>) -> tensor<8x16xf32>
    %88 = "sdy.named_computation"(%arg0) <{in_shardings = #sdy.sharding_per_value<[<@mesh, [{"x"}, {}]>]>, name = "foo"}> ({
    ^bb0(%arg26: tensor<8x16xf32>):
      "sdy.return"(%arg26) : (tensor<8x16xf32>) -> ()
    }) : (tensor<8x16xf32>) -> tensor<8x16xf32>
    "sdy.sharding_group"(%arg0) <{group_id = 21 : i64}> : (tensor<8x16xf32>) -> ()
    %89 = "func.call"(%arg2) <{callee = @dec}> {mhlo.x = "y"} : (tensor<f32>) -> tensor<f32>
    %90 = "chlo.ragged_dot"(%arg20, %arg21, %arg19) <{precision_config = [#chlo<precision DEFAULT>, #chlo<precision DEFAULT>], ragged_dot_dimension_numbers = #chlo.ragged_dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1], lhs_ragged_dimensions = [0], rhs_group_dimensions = [0]>}> : (tensor<11x5xf32>, tensor<3x5x7xf32>, tensor<3xi32>) -> tensor<11x7xf32>
    %91 = "chlo.mulhi"(%arg12, %arg12) : (tensor<8x16xi32>, tensor<8x16xi32>) -> tensor<8x16xi32>
    %92 = "chlo._asin_acos_kernel"(%arg23) : (tensor<8x16xcomplex<f32>>) -> tensor<8x16xcomplex<f32>>
    %93 = "chlo.conj"(%arg23) : (tensor<8x16xcomplex<f32>>) -> tensor<8x16xcomplex<f32>>
    %94 = "chlo.polygamma"(%arg0, %arg0) : (tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<8x16xf32>
    %95 = "sdy.sharding_constraint"(%arg0) <{sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}> : (tensor<8x16xf32>) -> tensor<8x16xf32>
    %96 = "sdy.all_to_all"(%95) <{out_sharding = #sdy.sharding<@mesh, [{}, {"x"}]>, params = #sdy<all_to_all_param_list[{"x"}: 0->1]>}> : (tensor<8x16xf32>) -> tensor<8x16xf32>
    %97 = "sdy.collective_permute"(%95) <{out_sharding = #sdy.sharding<@mesh, [{"y":(1)2}, {}]>}> : (tensor<8x16xf32>) -> tensor<8x16xf32>
    %98 = "sdy.reshard"(%arg0) <{sharding = #sdy.sharding<@mesh, [{"x", ?}p1, {}], replicated={"y"}>}> {my.a} : (tensor<8x16xf32>) -> tensor<8x16xf32>
    %99 = "sdy.constant"() <{value = dense<1.000000e+00> : tensor<4xf32>}> : () -> tensor<4xf32>
    %100 = "sdy.sharded_to_unreduced"(%95) <{axes = #sdy<list_of_axis_ref_lists[{"x"}, {}]>, out_sharding = #sdy.sharding<@mesh, [{}, {}], unreduced={"x"}>}> : (tensor<8x16xf32>) -> tensor<8x16xf32>
    %101 = "stablehlo.dynamic_conv"(%arg7, %arg8, %arg22) <{batch_group_count = 1 : i64, dimension_numbers = #stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>, feature_group_count = 1 : i64}> : (tensor<2x8x8x3xf32>, tensor<3x3x3x4xf32>, tensor<2x2xi32>) -> tensor<?x?x?x4xf32>
    %102 = "stablehlo.add"(%arg0, %arg0) {mhlo.sharding = "{replicated}", sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}, {}]>]>, xla_shape = "f32[8,16]"} : (tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<8x16xf32>
    %103 = "stablehlo.transpose"(%arg0) <{permutation = array<i64: 1, 0>}> {result_layout = dense<[0, 1]> : tensor<2xindex>, xla_shape = "x"} : (tensor<8x16xf32>) -> tensor<16x8xf32>
    %cst = "stablehlo.constant"() <{value = dense<[[1.000000e+00, 2.000000e+00], [3.000000e+00, 4.000000e+00]]> : tensor<2x2xf32>}> {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}, {}]>]>} : () -> tensor<2x2xf32>
    %104 = "stablehlo.clamp"(%arg0, %arg0, %arg0) {xla_shape = "x"} : (tensor<8x16xf32>, tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<8x16xf32>
    %105 = "stablehlo.slice"(%arg2) <{limit_indices = array<i64>, start_indices = array<i64>, strides = array<i64>}> : (tensor<f32>) -> tensor<f32>
    %106 = "stablehlo.pad"(%arg2, %arg2) <{edge_padding_high = array<i64>, edge_padding_low = array<i64>, interior_padding = array<i64>}> : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %107 = "stablehlo.dot_general"(%arg0, %arg1) <{algorithm = #stablehlo.dot_algorithm<lhs_precision_type = tf32, rhs_precision_type = tf32, accumulation_type = f32, lhs_component_count = 1, rhs_component_count = 1, num_primitive_operations = 1, allow_imprecise_accumulation = false>, dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]}> {my.x} : (tensor<8x16xf32>, tensor<16x4xf32>) -> tensor<8x4xf32>
    %108 = "stablehlo.cbrt"(%arg0) : (tensor<8x16xf32>) -> tensor<8x16xf32>
    %109 = "stablehlo.ceil"(%arg0) : (tensor<8x16xf32>) -> tensor<8x16xf32>
    %110 = "stablehlo.cosine"(%arg0) : (tensor<8x16xf32>) -> tensor<8x16xf32>
    %111 = "stablehlo.exponential_minus_one"(%arg0) : (tensor<8x16xf32>) -> tensor<8x16xf32>
    %112 = "stablehlo.floor"(%arg0) : (tensor<8x16xf32>) -> tensor<8x16xf32>
    %113 = "stablehlo.log"(%arg0) : (tensor<8x16xf32>) -> tensor<8x16xf32>
    %114 = "stablehlo.log_plus_one"(%arg0) : (tensor<8x16xf32>) -> tensor<8x16xf32>
    %115 = "stablehlo.logistic"(%arg0) : (tensor<8x16xf32>) -> tensor<8x16xf32>
    %116 = "stablehlo.negate"(%arg0) : (tensor<8x16xf32>) -> tensor<8x16xf32>
    %117 = "stablehlo.round_nearest_afz"(%arg0) : (tensor<8x16xf32>) -> tensor<8x16xf32>
    %118 = "stablehlo.round_nearest_even"(%arg0) : (tensor<8x16xf32>) -> tensor<8x16xf32>
    %119 = "stablehlo.rsqrt"(%arg0) : (tensor<8x16xf32>) -> tensor<8x16xf32>
    %120 = "stablehlo.sign"(%arg0) : (tensor<8x16xf32>) -> tensor<8x16xf32>
    %121 = "stablehlo.sine"(%arg0) : (tensor<8x16xf32>) -> tensor<8x16xf32>
    %122 = "stablehlo.sqrt"(%arg0) : (tensor<8x16xf32>) -> tensor<8x16xf32>
    %123 = "stablehlo.tan"(%arg0) : (tensor<8x16xf32>) -> tensor<8x16xf32>
    %124 = "stablehlo.tanh"(%arg0) : (tensor<8x16xf32>) -> tensor<8x16xf32>
    %125 = "stablehlo.count_leading_zeros"(%arg12) : (tensor<8x16xi32>) -> tensor<8x16xi32>
    %126 = "stablehlo.not"(%arg12) : (tensor<8x16xi32>) -> tensor<8x16xi32>
    %127 = "stablehlo.popcnt"(%arg12) : (tensor<8x16xi32>) -> tensor<8x16xi32>
    %128 = "stablehlo.atan2"(%arg0, %arg0) : (tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<8x16xf32>
    %129 = "stablehlo.divide"(%arg0, %arg0) : (tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<8x16xf32>
    %130 = "stablehlo.minimum"(%arg0, %arg0) : (tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<8x16xf32>
    %131 = "stablehlo.multiply"(%arg0, %arg0) : (tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<8x16xf32>
    %132 = "stablehlo.power"(%arg0, %arg0) : (tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<8x16xf32>
    %133 = "stablehlo.remainder"(%arg0, %arg0) : (tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<8x16xf32>
    %134 = "stablehlo.subtract"(%arg0, %arg0) : (tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<8x16xf32>
    %135 = "stablehlo.and"(%arg12, %arg12) : (tensor<8x16xi32>, tensor<8x16xi32>) -> tensor<8x16xi32>
    %136 = "stablehlo.or"(%arg12, %arg12) : (tensor<8x16xi32>, tensor<8x16xi32>) -> tensor<8x16xi32>
    %137 = "stablehlo.shift_left"(%arg12, %arg12) : (tensor<8x16xi32>, tensor<8x16xi32>) -> tensor<8x16xi32>
    %138 = "stablehlo.shift_right_arithmetic"(%arg12, %arg12) : (tensor<8x16xi32>, tensor<8x16xi32>) -> tensor<8x16xi32>
    %139 = "stablehlo.shift_right_logical"(%arg12, %arg12) : (tensor<8x16xi32>, tensor<8x16xi32>) -> tensor<8x16xi32>
    %140 = "stablehlo.xor"(%arg12, %arg12) : (tensor<8x16xi32>, tensor<8x16xi32>) -> tensor<8x16xi32>
    %141 = "chlo.acos"(%arg0) : (tensor<8x16xf32>) -> tensor<8x16xf32>
    %142 = "chlo.acosh"(%arg0) : (tensor<8x16xf32>) -> tensor<8x16xf32>
    %143 = "chlo.asin"(%arg0) : (tensor<8x16xf32>) -> tensor<8x16xf32>
    %144 = "chlo.asinh"(%arg0) : (tensor<8x16xf32>) -> tensor<8x16xf32>
    %145 = "chlo.atan"(%arg0) : (tensor<8x16xf32>) -> tensor<8x16xf32>
    %146 = "chlo.atanh"(%arg0) : (tensor<8x16xf32>) -> tensor<8x16xf32>
    %147 = "chlo.bessel_i1e"(%arg0) : (tensor<8x16xf32>) -> tensor<8x16xf32>
    %148 = "chlo.cosh"(%arg0) : (tensor<8x16xf32>) -> tensor<8x16xf32>
    %149 = "chlo.digamma"(%arg0) : (tensor<8x16xf32>) -> tensor<8x16xf32>
    %150 = "chlo.erf"(%arg0) : (tensor<8x16xf32>) -> tensor<8x16xf32>
    %151 = "chlo.erfc"(%arg0) : (tensor<8x16xf32>) -> tensor<8x16xf32>
    %152 = "chlo.lgamma"(%arg0) : (tensor<8x16xf32>) -> tensor<8x16xf32>
    %153 = "chlo.sinh"(%arg0) : (tensor<8x16xf32>) -> tensor<8x16xf32>
    %154 = "chlo.tan"(%arg0) : (tensor<8x16xf32>) -> tensor<8x16xf32>
    %155 = "chlo.is_neg_inf"(%arg0) : (tensor<8x16xf32>) -> tensor<8x16xi1>
    %156 = "chlo.is_pos_inf"(%arg0) : (tensor<8x16xf32>) -> tensor<8x16xi1>
    %157 = "chlo.zeta"(%arg0, %arg0) : (tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<8x16xf32>
    %158 = "chlo.broadcast_atan2"(%arg0, %arg24) <{broadcast_dimensions = array<i64: 1>}> : (tensor<8x16xf32>, tensor<16xf32>) -> tensor<8x16xf32>
    %159 = "chlo.broadcast_divide"(%arg0, %arg24) <{broadcast_dimensions = array<i64: 1>}> : (tensor<8x16xf32>, tensor<16xf32>) -> tensor<8x16xf32>
    %160 = "chlo.broadcast_maximum"(%arg0, %arg24) <{broadcast_dimensions = array<i64: 1>}> : (tensor<8x16xf32>, tensor<16xf32>) -> tensor<8x16xf32>
    %161 = "chlo.broadcast_minimum"(%arg0, %arg24) <{broadcast_dimensions = array<i64: 1>}> : (tensor<8x16xf32>, tensor<16xf32>) -> tensor<8x16xf32>
    %162 = "chlo.broadcast_multiply"(%arg0, %arg24) <{broadcast_dimensions = array<i64: 1>}> : (tensor<8x16xf32>, tensor<16xf32>) -> tensor<8x16xf32>
    %163 = "chlo.broadcast_next_after"(%arg0, %arg24) <{broadcast_dimensions = array<i64: 1>}> : (tensor<8x16xf32>, tensor<16xf32>) -> tensor<8x16xf32>
    %164 = "chlo.broadcast_polygamma"(%arg0, %arg24) <{broadcast_dimensions = array<i64: 1>}> : (tensor<8x16xf32>, tensor<16xf32>) -> tensor<8x16xf32>
    %165 = "chlo.broadcast_power"(%arg0, %arg24) <{broadcast_dimensions = array<i64: 1>}> : (tensor<8x16xf32>, tensor<16xf32>) -> tensor<8x16xf32>
    %166 = "chlo.broadcast_remainder"(%arg0, %arg24) <{broadcast_dimensions = array<i64: 1>}> : (tensor<8x16xf32>, tensor<16xf32>) -> tensor<8x16xf32>
    %167 = "chlo.broadcast_subtract"(%arg0, %arg24) <{broadcast_dimensions = array<i64: 1>}> : (tensor<8x16xf32>, tensor<16xf32>) -> tensor<8x16xf32>
    %168 = "chlo.broadcast_zeta"(%arg0, %arg24) <{broadcast_dimensions = array<i64: 1>}> : (tensor<8x16xf32>, tensor<16xf32>) -> tensor<8x16xf32>
    %169 = "chlo.broadcast_complex"(%arg0, %arg0) : (tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<8x16xcomplex<f32>>
    %170 = "chlo.broadcast_and"(%arg12, %arg12) : (tensor<8x16xi32>, tensor<8x16xi32>) -> tensor<8x16xi32>
    %171 = "chlo.broadcast_or"(%arg12, %arg12) : (tensor<8x16xi32>, tensor<8x16xi32>) -> tensor<8x16xi32>
    %172 = "chlo.broadcast_shift_left"(%arg12, %arg12) : (tensor<8x16xi32>, tensor<8x16xi32>) -> tensor<8x16xi32>
    %173 = "chlo.broadcast_shift_right_arithmetic"(%arg12, %arg12) : (tensor<8x16xi32>, tensor<8x16xi32>) -> tensor<8x16xi32>
    %174 = "chlo.broadcast_shift_right_logical"(%arg12, %arg12) : (tensor<8x16xi32>, tensor<8x16xi32>) -> tensor<8x16xi32>
    %175 = "chlo.broadcast_xor"(%arg12, %arg12) : (tensor<8x16xi32>, tensor<8x16xi32>) -> tensor<8x16xi32>
    %176:2 = "stablehlo.sort"(%arg0, %arg12) <{dimension = 0 : i64, is_stable = true}> ({
    ^bb0(%arg26: tensor<f32>, %arg27: tensor<f32>, %arg28: tensor<i32>, %arg29: tensor<i32>):
      %177 = "stablehlo.compare"(%arg26, %arg27) <{comparison_direction = #stablehlo<comparison_direction LT>}> : (tensor<f32>, tensor<f32>) -> tensor<i1>
      "stablehlo.return"(%177) : (tensor<i1>) -> ()
    }) : (tensor<8x16xf32>, tensor<8x16xi32>) -> (tensor<8x16xf32>, tensor<8x16xi32>)
    "stablehlo.custom_call"(%176, %176#1) <{call_target_name = "both"}> : (tensor<8x16xf32>, tensor<8x16xi32>) -> ()
    "func.return"() : () -> ()
  }) : () -> ()
}) {mhlo.num_partitions = 8 : i32} : () -> ()
