//! How ops are written outside the generic form: the table of all ops that have a form of their own or properties, one
//! row for each.

use super::form::Piece::{
    Angled, Array, Attribute, Braced, Called, Field, Integer, Key, Listed, Maybe, Name, Operands, Own, Token,
    Word,
};
use super::form::{Form, Piece, Types};
use super::own;

/// Names that MLIR writes without their dialect.
pub(super) const SHORT_NAMES: &[(&str, &str)] =
    &[("call", "func.call"), ("func", "func.func"), ("module", "builtin.module"), ("return", "func.return")];

const OUT_SHARDING: Piece = Angled("out_sharding", "#sdy.sharding");
const SHARDINGS: (&str, &str) = ("#sdy.sharding_per_value<", ">");
const AXES: (&str, &str) = ("#sdy<axis_ref_list", ">");
const AXES_OF_DIMS: (&str, &str) = ("#sdy<list_of_axis_ref_lists", ">");

/// Operands, and one type for all unless they differ.
const fn elementwise(name: &'static str) -> Form {
    Form::new(name, &[Operands])
}

/// An elementwise op whose result may be as inaccurate as it says.
const fn inexact(name: &'static str) -> Form {
    elementwise(name).with(&["result_accuracy"])
}

/// An op that matches the shapes of its operands first.
const fn broadcasting(name: &'static str) -> Form {
    elementwise(name).with(&["broadcast_dimensions"])
}

const fn arrow(name: &'static str) -> Form {
    elementwise(name).typed(Types::Arrow)
}

const fn returns(name: &'static str) -> Form {
    elementwise(name).typed(Types::OperandsOnly)
}

const fn resharded(name: &'static str) -> Form {
    Form::new(name, &[Operands, Angled("sharding", "#sdy.sharding")])
}

/// All ops that have a form of their own, and those that have properties.
pub(super) const FORMS: &[Form] = &[
    // Structure.
    Form::new("builtin.module", &[Own(own::module)])
        .typed(Types::InPieces)
        .with(&["sym_name", "sym_visibility"]),
    Form::new("func.func", &[Own(own::function)]).typed(Types::InPieces).with(&[
        "arg_attrs",
        "function_type",
        "no_inline",
        "res_attrs",
        "sym_name",
        "sym_visibility",
    ]),
    Form::new("func.call", &[Own(own::callee), Called]).with(&[
        "arg_attrs",
        "callee",
        "no_inline",
        "res_attrs",
    ]),
    returns("func.return"),
    returns("stablehlo.return"),
    returns("sdy.return"),
    // Elementwise.
    elementwise("stablehlo.abs"),
    elementwise("stablehlo.add"),
    elementwise("stablehlo.and"),
    elementwise("stablehlo.atan2"),
    elementwise("stablehlo.bitcast_convert"),
    inexact("stablehlo.cbrt"),
    elementwise("stablehlo.ceil"),
    elementwise("stablehlo.clamp"),
    Form::new("stablehlo.compare", &[Own(own::compare)]).with(&["compare_type", "comparison_direction"]),
    Form::new("stablehlo.complex", &[Operands]).typed(Types::Complex),
    elementwise("stablehlo.convert"),
    inexact("stablehlo.cosine"),
    elementwise("stablehlo.count_leading_zeros"),
    elementwise("stablehlo.divide"),
    inexact("stablehlo.exponential"),
    inexact("stablehlo.exponential_minus_one"),
    elementwise("stablehlo.floor"),
    elementwise("stablehlo.imag"),
    elementwise("stablehlo.is_finite"),
    inexact("stablehlo.log"),
    inexact("stablehlo.log_plus_one"),
    inexact("stablehlo.logistic"),
    elementwise("stablehlo.maximum"),
    elementwise("stablehlo.minimum"),
    elementwise("stablehlo.multiply"),
    elementwise("stablehlo.negate"),
    elementwise("stablehlo.not"),
    elementwise("stablehlo.or"),
    elementwise("stablehlo.popcnt"),
    elementwise("stablehlo.power"),
    elementwise("stablehlo.real"),
    Form::new("stablehlo.reduce_precision", &[Operands, Key("format"), Own(own::float_format)])
        .with(&["exponent_bits", "mantissa_bits"]),
    elementwise("stablehlo.remainder"),
    elementwise("stablehlo.round_nearest_afz"),
    elementwise("stablehlo.round_nearest_even"),
    inexact("stablehlo.rsqrt"),
    Form::new("stablehlo.select", &[Operands]).typed(Types::Select),
    elementwise("stablehlo.shift_left"),
    elementwise("stablehlo.shift_right_arithmetic"),
    elementwise("stablehlo.shift_right_logical"),
    elementwise("stablehlo.sign"),
    inexact("stablehlo.sine"),
    inexact("stablehlo.sqrt"),
    elementwise("stablehlo.subtract"),
    inexact("stablehlo.tan"),
    inexact("stablehlo.tanh"),
    elementwise("stablehlo.uniform_dequantize"),
    elementwise("stablehlo.uniform_quantize"),
    elementwise("stablehlo.xor"),
    // Values without operands.
    Form::new("stablehlo.constant", &[Own(own::constant)]).typed(Types::InPieces).with(&["value"]),
    Form::new("stablehlo.create_token", &[]),
    Form::new("stablehlo.iota", &[Field("dim"), Integer("iota_dimension", "i64")]),
    Form::new("stablehlo.partition_id", &[]),
    Form::new("stablehlo.replica_id", &[]),
    // Shapes.
    Form::new("stablehlo.broadcast", &[Operands, Key("sizes"), Array("broadcast_sizes")]),
    Form::new("stablehlo.broadcast_in_dim", &[Operands, Key("dims"), Array("broadcast_dimensions")]),
    Form::new("stablehlo.concatenate", &[Operands, Key("dim"), Integer("dimension", "i64")]),
    Form::new("stablehlo.dynamic_broadcast_in_dim", &[Operands, Key("dims"), Array("broadcast_dimensions")])
        .with(&["known_expanding_dimensions", "known_nonexpanding_dimensions"]),
    Form::new("stablehlo.dynamic_iota", &[Operands, Key("dim"), Integer("iota_dimension", "i64")]),
    elementwise("stablehlo.dynamic_pad"),
    elementwise("stablehlo.dynamic_reshape"),
    Form::new("stablehlo.dynamic_slice", &[Operands, Key("sizes"), Array("slice_sizes")]),
    elementwise("stablehlo.dynamic_update_slice"),
    Form::new("stablehlo.get_dimension_size", &[Operands, Key("dim"), Integer("dimension", "i64")]),
    Form::new(
        "stablehlo.pad",
        &[
            Operands,
            Key("low"),
            Array("edge_padding_low"),
            Key("high"),
            Array("edge_padding_high"),
            Key("interior"),
            Array("interior_padding"),
        ],
    ),
    elementwise("stablehlo.real_dynamic_slice"),
    elementwise("stablehlo.reshape"),
    Form::new("stablehlo.reverse", &[Operands, Key("dims"), Array("dimensions")]),
    Form::new("stablehlo.set_dimension_size", &[Operands, Key("dim"), Integer("dimension", "i64")]),
    Form::new("stablehlo.slice", &[Operands, Own(own::slice_bounds)]).with(&[
        "limit_indices",
        "start_indices",
        "strides",
    ]),
    Form::new("stablehlo.transpose", &[Operands, Key("dims"), Array("permutation")]),
    // Contractions and the like.
    Form::new("stablehlo.cholesky", &[Operands, Key("lower"), Attribute("lower")]),
    Form::new("stablehlo.convolution", &[Called, Own(own::convolution)]).with(&[
        "batch_group_count",
        "dimension_numbers",
        "feature_group_count",
        "lhs_dilation",
        "padding",
        "precision_config",
        "rhs_dilation",
        "window_reversal",
        "window_strides",
    ]),
    Form::new("stablehlo.dot", &[Operands, Own(own::precision)]).with(&["precision_config"]),
    Form::new(
        "stablehlo.dot_general",
        &[
            Operands,
            Own(own::dot_dims),
            Own(own::precision),
            Maybe("algorithm", &[Angled("algorithm", "#stablehlo.dot_algorithm")]),
        ],
    )
    .with(&["dot_dimension_numbers", "precision_config"]),
    Form::new("stablehlo.einsum", &[Operands, Key("config"), Attribute("einsum_config")]),
    Form::new(
        "stablehlo.fft",
        &[Operands, Key("type"), Word("fft_type", "fft_type"), Key("length"), Array("fft_length")],
    ),
    Form::new("stablehlo.unary_einsum", &[Operands, Key("config"), Attribute("einsum_config")]),
    // Random numbers.
    Form::new(
        "stablehlo.rng",
        &[Operands, Key("distribution"), Word("rng_distribution", "rng_distribution")],
    ),
    Form::new(
        "stablehlo.rng_bit_generator",
        &[Operands, Key("algorithm"), Word("rng_algorithm", "rng_algorithm")],
    ),
    // Control, calls and values that are no arrays.
    elementwise("stablehlo.after_all"),
    Form::new("stablehlo.composite", &[Attribute("name"), Operands]).with(&[
        "composite_attributes",
        "decomposition",
        "version",
    ]),
    Form::new("stablehlo.custom_call", &[Name("call_target_name"), Called]).with(&[
        "api_version",
        "backend_config",
        "called_computations",
        "has_side_effect",
        "operand_layouts",
        "output_operand_aliases",
        "result_layouts",
    ]),
    Form::new("stablehlo.get_tuple_element", &[Operands, Own(own::tuple_index)]).with(&["index"]),
    Form::new("stablehlo.optimization_barrier", &[Own(own::barrier)]).typed(Types::Each),
    Form::new("stablehlo.reduce", &[Own(own::reduce)]).typed(Types::InPieces).with(&["dimensions"]),
    Form::new("stablehlo.tuple", &[Operands]).typed(Types::Tuple),
    Form::new("stablehlo.while", &[Own(own::while_loop)]).typed(Types::InPieces),
    // Ops without a form of their own.
    Form::generic(
        "stablehlo.all_gather",
        &["all_gather_dim", "channel_handle", "replica_groups", "use_global_device_ids"],
    ),
    Form::generic("stablehlo.all_reduce", &["channel_handle", "replica_groups", "use_global_device_ids"]),
    Form::generic(
        "stablehlo.all_to_all",
        &["channel_handle", "concat_dimension", "replica_groups", "split_count", "split_dimension"],
    ),
    Form::generic("stablehlo.batch_norm_grad", &["epsilon", "feature_index"]),
    Form::generic("stablehlo.batch_norm_inference", &["epsilon", "feature_index"]),
    Form::generic("stablehlo.batch_norm_training", &["epsilon", "feature_index"]),
    Form::generic("stablehlo.collective_broadcast", &["channel_handle", "replica_groups"]),
    Form::generic("stablehlo.collective_permute", &["channel_handle", "source_target_pairs"]),
    Form::generic("stablehlo.dynamic_gather", &["dimension_numbers", "indices_are_sorted"]),
    Form::generic("stablehlo.gather", &["dimension_numbers", "indices_are_sorted", "slice_sizes"]),
    Form::generic("stablehlo.infeed", &["infeed_config", "layout"]),
    Form::generic("stablehlo.map", &["dimensions"]),
    Form::generic("stablehlo.outfeed", &["outfeed_config"]),
    Form::generic("stablehlo.recv", &["channel_handle", "is_host_transfer", "source_target_pairs"]),
    Form::generic(
        "stablehlo.reduce_scatter",
        &["channel_handle", "replica_groups", "scatter_dimension", "use_global_device_ids"],
    ),
    Form::generic(
        "stablehlo.reduce_window",
        &["base_dilations", "padding", "window_dilations", "window_dimensions", "window_strides"],
    ),
    Form::generic(
        "stablehlo.scatter",
        &["indices_are_sorted", "scatter_dimension_numbers", "unique_indices"],
    ),
    Form::generic("stablehlo.select_and_scatter", &["padding", "window_dimensions", "window_strides"]),
    Form::generic("stablehlo.send", &["channel_handle", "is_host_transfer", "source_target_pairs"]),
    Form::generic("stablehlo.sort", &["dimension", "is_stable"]),
    Form::generic("stablehlo.torch_index_select", &["batch_dims", "dim"]),
    Form::generic("stablehlo.triangular_solve", &["left_side", "lower", "transpose_a", "unit_diagonal"]),
    // CHLO.
    arrow("chlo._asin_acos_kernel"),
    arrow("chlo.acos"),
    arrow("chlo.acosh"),
    arrow("chlo.asin"),
    arrow("chlo.asinh"),
    arrow("chlo.atan"),
    arrow("chlo.atanh"),
    arrow("chlo.bessel_i1e"),
    broadcasting("chlo.broadcast_add"),
    broadcasting("chlo.broadcast_and"),
    broadcasting("chlo.broadcast_atan2"),
    elementwise("chlo.broadcast_compare").with(&[
        "broadcast_dimensions",
        "compare_type",
        "comparison_direction",
    ]),
    broadcasting("chlo.broadcast_complex"),
    broadcasting("chlo.broadcast_divide"),
    broadcasting("chlo.broadcast_maximum"),
    broadcasting("chlo.broadcast_minimum"),
    broadcasting("chlo.broadcast_multiply"),
    broadcasting("chlo.broadcast_next_after"),
    broadcasting("chlo.broadcast_or"),
    broadcasting("chlo.broadcast_polygamma"),
    broadcasting("chlo.broadcast_power"),
    broadcasting("chlo.broadcast_remainder"),
    elementwise("chlo.broadcast_select"),
    broadcasting("chlo.broadcast_shift_left"),
    broadcasting("chlo.broadcast_shift_right_arithmetic"),
    broadcasting("chlo.broadcast_shift_right_logical"),
    broadcasting("chlo.broadcast_subtract"),
    broadcasting("chlo.broadcast_xor"),
    broadcasting("chlo.broadcast_zeta"),
    arrow("chlo.conj"),
    Form::new("chlo.constant", &[Own(own::constant)]).typed(Types::InPieces).with(&["value"]),
    Form::generic("chlo.constant_like", &["value"]),
    arrow("chlo.cosh"),
    arrow("chlo.digamma"),
    arrow("chlo.erf"),
    arrow("chlo.erf_inv"),
    arrow("chlo.erfc"),
    arrow("chlo.is_inf"),
    arrow("chlo.is_neg_inf"),
    arrow("chlo.is_pos_inf"),
    arrow("chlo.lgamma"),
    arrow("chlo.mulhi"),
    arrow("chlo.next_after"),
    arrow("chlo.polygamma"),
    Form::generic("chlo.ragged_dot", &["precision_config", "ragged_dot_dimension_numbers"]),
    arrow("chlo.sinh"),
    arrow("chlo.square"),
    arrow("chlo.tan"),
    Form::new("chlo.top_k", &[Token("("), Operands, Key("k"), Integer("k", "i64"), Token(")")])
        .typed(Types::Arrow),
    arrow("chlo.zeta"),
    // Shardy.
    Form::new(
        "sdy.all_gather",
        &[Listed("gathering_axes", AXES_OF_DIMS), Operands, Field("out_sharding"), OUT_SHARDING],
    ),
    Form::new(
        "sdy.all_reduce",
        &[Braced("reduction_axes", AXES), Operands, Field("out_sharding"), OUT_SHARDING],
    ),
    Form::new(
        "sdy.all_to_all",
        &[
            Listed("params", ("#sdy<all_to_all_param_list", ">")),
            Operands,
            Field("out_sharding"),
            OUT_SHARDING,
        ],
    ),
    Form::new(
        "sdy.all_slice",
        &[Listed("slicing_axes", AXES_OF_DIMS), Operands, Field("out_sharding"), OUT_SHARDING],
    ),
    Form::new("sdy.collective_permute", &[Operands, Field("out_sharding"), OUT_SHARDING]),
    Form::new("sdy.constant", &[Own(own::constant)]).typed(Types::InPieces).with(&["value"]),
    Form::new(
        "sdy.manual_computation",
        &[
            Called,
            Field("in_shardings"),
            Listed("in_shardings", SHARDINGS),
            Field("out_shardings"),
            Listed("out_shardings", SHARDINGS),
            Field("manual_axes"),
            Braced("manual_axes", ("#sdy<manual_axes", ">")),
            Own(own::body_with_arguments),
        ],
    ),
    Form::new("sdy.mesh", &[Name("sym_name"), Token("="), Angled("mesh", "#sdy.mesh")]).typed(Types::None),
    Form::new(
        "sdy.named_computation",
        &[
            Token("<"),
            Attribute("name"),
            Token(">"),
            Called,
            Own(own::maybe_shardings),
            Own(own::body_with_arguments),
        ],
    )
    .with(&["in_shardings", "out_shardings"]),
    Form::new("sdy.propagation_barrier", &[Operands, Field("allowed_direction"), Own(own::direction)])
        .with(&["allowed_direction"]),
    Form::new(
        "sdy.reduce_scatter",
        &[Listed("reduce_scatter_axes", AXES_OF_DIMS), Operands, Field("out_sharding"), OUT_SHARDING],
    ),
    resharded("sdy.reshard"),
    Form::new(
        "sdy.replicated_to_unreduced",
        &[Braced("axes", AXES), Operands, Field("out_sharding"), OUT_SHARDING],
    ),
    Form::new(
        "sdy.sharded_to_unreduced",
        &[Listed("axes", AXES_OF_DIMS), Operands, Field("out_sharding"), OUT_SHARDING],
    ),
    resharded("sdy.sharding_constraint"),
    Form::new("sdy.sharding_group", &[Operands, Field("group_id"), Integer("group_id", "i64")])
        .typed(Types::OperandsOnly),
];
