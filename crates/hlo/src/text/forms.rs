//! How ops are written outside the generic form, one row for each.

use super::own;
use super::parse::Parser;
use super::scan::Result;
use super::tree::Operation;

/// The form of one op.
pub(super) struct Form {
    /// Its name.
    pub(super) name: &'static str,
    /// What follows the name, piece by piece; nothing for an op that is written in the generic form only.
    pub(super) pieces: &'static [Piece],
    /// Properties that stand in the dictionary of attributes. The others are in `pieces`.
    pub(super) properties: &'static [&'static str],
}

/// A piece of a form. Each takes a stretch of the text, and makes of it what the generic form has in its place.
pub(super) enum Piece {
    /// `%a, %b, …`
    Operands,
    /// `(%a, %b, …)`
    Called,
    /// Exactly this.
    Token(&'static str),
    /// A comma, a name and `=`.
    Key(&'static str),
    /// `Key` and the pieces after it, or nothing.
    Maybe(&'static str, &'static [Piece]),
    /// `[1, 2]`, in the generic form `array<i64: 1, 2>`.
    Array(&'static str),
    /// `1`, in the generic form with its type: `1 : i64`.
    Integer(&'static str, &'static str),
    /// `LT`, in the generic form `#stablehlo<comparison_direction LT>`: a property, and what its values are.
    Word(&'static str, &'static str),
    /// An attribute that is the same in both forms.
    Attribute(&'static str),
    /// `@name`, in the generic form a string.
    Name(&'static str),
    /// `<…>`, in the generic form with this before it.
    Angled(&'static str, &'static str),
    /// `[…]`, in the generic form between these.
    Listed(&'static str, &'static str, &'static str),
    /// `{…}`, in the generic form between these.
    Braced(&'static str, &'static str, &'static str),
    /// The dictionary of attributes, if it is there.
    Attributes,
    /// The types of operands and results.
    Types(Types),
    /// What only this op has.
    Own(fn(&mut Parser<'_>, &mut Operation) -> Result<()>),
}

/// What a form says of types, after `:`. Where nothing else is said, `(types) -> types` may stand there too.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Types {
    /// One type for all operands and the only result.
    Same,
    /// One type for each operand, and the results are of the same; nothing if there are none.
    Each,
    /// One type for each operand, no results; nothing if there are none.
    OperandsOnly,
    /// The type of the first operand, and one for the others and the result.
    Select,
    /// The type of the result, an array of complex numbers whose parts are the operands.
    Complex,
    /// The type of the result, a tuple of the operands.
    Tuple,
    /// The types of the operands without parentheses, `->`, those of the results.
    Arrow,
}

/// Names that MLIR writes without their dialect.
pub(super) const SHORT_NAMES: &[(&str, &str)] = &[
    ("call", "func.call"),
    ("func", "func.func"),
    ("module", "builtin.module"),
    ("return", "func.return"),
    ("unrealized_conversion_cast", "builtin.unrealized_conversion_cast"),
];

use Piece::{
    Angled, Array, Attribute, Attributes, Braced, Called, Integer, Key, Listed, Maybe, Name, Operands, Own,
    Token, Types as T, Word,
};

/// The form of ops that have none in the table, as far as the text fits it: the commonest.
pub(super) const COMMON: &[Piece] = ELEMENTWISE;

const ELEMENTWISE: &[Piece] = &[Operands, Attributes, T(Types::Same)];
const RETURN: &[Piece] = &[Operands, Attributes, T(Types::OperandsOnly)];
const ARROW: &[Piece] = &[Operands, Attributes, T(Types::Arrow)];
const RESHARDED: &[Piece] = &[Operands, Angled("sharding", "#sdy.sharding"), Attributes, T(Types::Same)];
const OUT_SHARDING: Piece = Angled("out_sharding", "#sdy.sharding");

impl Form {
    const fn new(name: &'static str, pieces: &'static [Piece]) -> Form {
        Form { name, pieces, properties: &[] }
    }

    /// An op that is written in the generic form only.
    const fn generic(name: &'static str, properties: &'static [&'static str]) -> Form {
        Form { name, pieces: &[], properties }
    }

    const fn with(mut self, properties: &'static [&'static str]) -> Form {
        self.properties = properties;
        self
    }

    /// Whether an attribute of this name is a property of the op.
    pub(super) fn owns(&self, name: &str) -> bool {
        self.properties.contains(&name) || self.pieces.iter().any(|piece| piece.gives(name))
    }
}

impl Piece {
    fn gives(&self, name: &str) -> bool {
        match self {
            Array(given)
            | Integer(given, _)
            | Word(given, _)
            | Attribute(given)
            | Name(given)
            | Angled(given, _)
            | Listed(given, _, _)
            | Braced(given, _, _) => *given == name,
            Maybe(_, pieces) => pieces.iter().any(|piece| piece.gives(name)),
            Operands | Called | Token(_) | Key(_) | Attributes | T(_) | Own(_) => false,
        }
    }
}

/// An elementwise op whose result may be as inaccurate as it says.
const fn inexact(name: &'static str) -> Form {
    Form::new(name, ELEMENTWISE).with(&["result_accuracy"])
}

const fn elementwise(name: &'static str) -> Form {
    Form::new(name, ELEMENTWISE)
}

/// An op that matches the shapes of its operands first.
const fn broadcasting(name: &'static str) -> Form {
    Form::new(name, ELEMENTWISE).with(&["broadcast_dimensions"])
}

const fn arrow(name: &'static str) -> Form {
    Form::new(name, ARROW)
}

/// All ops that have a form of their own, and those that have properties.
pub(super) const FORMS: &[Form] = &[
    // Structure.
    Form::new("builtin.module", &[Own(own::module)]).with(&["sym_name", "sym_visibility"]),
    Form::new("func.func", &[Own(own::function)]).with(&[
        "arg_attrs",
        "function_type",
        "no_inline",
        "res_attrs",
        "sym_name",
        "sym_visibility",
    ]),
    Form::new("func.call", &[Own(own::callee), Called, Attributes, T(Types::Same)]).with(&[
        "arg_attrs",
        "callee",
        "no_inline",
        "res_attrs",
    ]),
    Form::new("func.return", RETURN),
    Form::new("stablehlo.return", RETURN),
    Form::new("sdy.return", RETURN),
    // Elementwise.
    elementwise("stablehlo.abs"),
    elementwise("stablehlo.add"),
    elementwise("stablehlo.and"),
    elementwise("stablehlo.atan2"),
    elementwise("stablehlo.bitcast_convert"),
    inexact("stablehlo.cbrt"),
    elementwise("stablehlo.ceil"),
    elementwise("stablehlo.clamp"),
    Form::new("stablehlo.compare", &[Own(own::compare), Attributes, T(Types::Same)])
        .with(&["compare_type", "comparison_direction"]),
    Form::new("stablehlo.complex", &[Operands, Attributes, T(Types::Complex)]),
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
    Form::new(
        "stablehlo.reduce_precision",
        &[Operands, Key("format"), Own(own::float_format), Attributes, T(Types::Same)],
    )
    .with(&["exponent_bits", "mantissa_bits"]),
    elementwise("stablehlo.remainder"),
    elementwise("stablehlo.round_nearest_afz"),
    elementwise("stablehlo.round_nearest_even"),
    inexact("stablehlo.rsqrt"),
    Form::new("stablehlo.select", &[Operands, Attributes, T(Types::Select)]),
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
    Form::new("stablehlo.constant", &[Attributes, Own(own::constant)]).with(&["value"]),
    Form::new("stablehlo.create_token", &[Attributes, T(Types::Same)]),
    Form::new(
        "stablehlo.iota",
        &[Token("dim"), Token("="), Integer("iota_dimension", "i64"), Attributes, T(Types::Same)],
    ),
    Form::new("stablehlo.partition_id", &[Attributes, T(Types::Same)]),
    Form::new("stablehlo.replica_id", &[Attributes, T(Types::Same)]),
    // Shapes.
    Form::new(
        "stablehlo.broadcast",
        &[Operands, Key("sizes"), Array("broadcast_sizes"), Attributes, T(Types::Same)],
    ),
    Form::new(
        "stablehlo.broadcast_in_dim",
        &[Operands, Key("dims"), Array("broadcast_dimensions"), Attributes, T(Types::Same)],
    ),
    Form::new(
        "stablehlo.concatenate",
        &[Operands, Key("dim"), Integer("dimension", "i64"), Attributes, T(Types::Same)],
    ),
    Form::new(
        "stablehlo.dynamic_broadcast_in_dim",
        &[Operands, Key("dims"), Array("broadcast_dimensions"), Attributes, T(Types::Same)],
    )
    .with(&["known_expanding_dimensions", "known_nonexpanding_dimensions"]),
    Form::new(
        "stablehlo.dynamic_iota",
        &[Operands, Key("dim"), Integer("iota_dimension", "i64"), Attributes, T(Types::Same)],
    ),
    elementwise("stablehlo.dynamic_pad"),
    elementwise("stablehlo.dynamic_reshape"),
    Form::new(
        "stablehlo.dynamic_slice",
        &[Operands, Key("sizes"), Array("slice_sizes"), Attributes, T(Types::Same)],
    ),
    elementwise("stablehlo.dynamic_update_slice"),
    Form::new(
        "stablehlo.get_dimension_size",
        &[Operands, Key("dim"), Integer("dimension", "i64"), Attributes, T(Types::Same)],
    ),
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
            Attributes,
            T(Types::Same),
        ],
    ),
    elementwise("stablehlo.real_dynamic_slice"),
    elementwise("stablehlo.reshape"),
    Form::new("stablehlo.reverse", &[Operands, Key("dims"), Array("dimensions"), Attributes, T(Types::Same)]),
    Form::new(
        "stablehlo.set_dimension_size",
        &[Operands, Key("dim"), Integer("dimension", "i64"), Attributes, T(Types::Same)],
    ),
    Form::new("stablehlo.slice", &[Operands, Own(own::slice_bounds), Attributes, T(Types::Same)]).with(&[
        "limit_indices",
        "start_indices",
        "strides",
    ]),
    Form::new(
        "stablehlo.transpose",
        &[Operands, Key("dims"), Array("permutation"), Attributes, T(Types::Same)],
    ),
    // Contractions and the like.
    Form::new(
        "stablehlo.cholesky",
        &[Operands, Key("lower"), Attribute("lower"), Attributes, T(Types::Same)],
    ),
    Form::new("stablehlo.convolution", &[Called, Own(own::convolution), Attributes, T(Types::Same)]).with(&[
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
    Form::new("stablehlo.dot", &[Operands, Own(own::precision), Attributes, T(Types::Same)])
        .with(&["precision_config"]),
    Form::new(
        "stablehlo.dot_general",
        &[
            Operands,
            Own(own::dot_dims),
            Own(own::precision),
            Maybe("algorithm", &[Angled("algorithm", "#stablehlo.dot_algorithm")]),
            Attributes,
            T(Types::Same),
        ],
    )
    .with(&["dot_dimension_numbers", "precision_config"]),
    Form::new(
        "stablehlo.einsum",
        &[Operands, Key("config"), Attribute("einsum_config"), Attributes, T(Types::Same)],
    ),
    Form::new(
        "stablehlo.fft",
        &[
            Operands,
            Key("type"),
            Word("fft_type", "fft_type"),
            Key("length"),
            Array("fft_length"),
            Attributes,
            T(Types::Same),
        ],
    ),
    Form::new(
        "stablehlo.unary_einsum",
        &[Operands, Key("config"), Attribute("einsum_config"), Attributes, T(Types::Same)],
    ),
    // Random numbers.
    Form::new(
        "stablehlo.rng",
        &[
            Operands,
            Key("distribution"),
            Word("rng_distribution", "rng_distribution"),
            Attributes,
            T(Types::Same),
        ],
    ),
    Form::new(
        "stablehlo.rng_bit_generator",
        &[Operands, Key("algorithm"), Word("rng_algorithm", "rng_algorithm"), Attributes, T(Types::Same)],
    ),
    // Control, calls and values that are no arrays.
    Form::new("stablehlo.after_all", ELEMENTWISE),
    Form::new("stablehlo.composite", &[Attribute("name"), Operands, Attributes, T(Types::Same)]).with(&[
        "composite_attributes",
        "decomposition",
        "version",
    ]),
    Form::new("stablehlo.custom_call", &[Name("call_target_name"), Called, Attributes, T(Types::Same)]).with(
        &[
            "api_version",
            "backend_config",
            "called_computations",
            "has_side_effect",
            "operand_layouts",
            "output_operand_aliases",
            "result_layouts",
        ],
    ),
    Form::new("stablehlo.get_tuple_element", &[Operands, Own(own::tuple_index), Attributes, T(Types::Same)])
        .with(&["index"]),
    Form::new("stablehlo.optimization_barrier", &[Own(own::barrier), Attributes, T(Types::Each)]),
    Form::new("stablehlo.reduce", &[Own(own::reduce)]).with(&["dimensions"]),
    Form::new("stablehlo.tuple", &[Operands, Attributes, T(Types::Tuple)]),
    Form::new("stablehlo.while", &[Own(own::while_loop)]),
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
    Form::new("chlo.broadcast_compare", ELEMENTWISE).with(&[
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
    Form::new("chlo.constant", &[Own(own::constant), Attributes]).with(&["value"]),
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
    arrow("chlo.next_after"),
    arrow("chlo.polygamma"),
    Form::generic("chlo.ragged_dot", &["precision_config", "ragged_dot_dimension_numbers"]),
    arrow("chlo.sinh"),
    arrow("chlo.square"),
    arrow("chlo.tan"),
    Form::new(
        "chlo.top_k",
        &[Token("("), Operands, Key("k"), Integer("k", "i64"), Token(")"), Attributes, T(Types::Arrow)],
    ),
    arrow("chlo.zeta"),
    // Shardy.
    Form::new(
        "sdy.all_gather",
        &[
            Listed("gathering_axes", "#sdy<list_of_axis_ref_lists", ">"),
            Operands,
            Token("out_sharding"),
            Token("="),
            OUT_SHARDING,
            Attributes,
            T(Types::Same),
        ],
    ),
    Form::new(
        "sdy.all_reduce",
        &[
            Braced("reduction_axes", "#sdy<axis_ref_list", ">"),
            Operands,
            Token("out_sharding"),
            Token("="),
            OUT_SHARDING,
            Attributes,
            T(Types::Same),
        ],
    ),
    Form::new(
        "sdy.all_slice",
        &[
            Listed("slicing_axes", "#sdy<list_of_axis_ref_lists", ">"),
            Operands,
            Token("out_sharding"),
            Token("="),
            OUT_SHARDING,
            Attributes,
            T(Types::Same),
        ],
    ),
    Form::new(
        "sdy.collective_permute",
        &[Operands, Token("out_sharding"), Token("="), OUT_SHARDING, Attributes, T(Types::Same)],
    ),
    Form::new(
        "sdy.manual_computation",
        &[
            Called,
            Token("in_shardings"),
            Token("="),
            Listed("in_shardings", "#sdy.sharding_per_value<", ">"),
            Token("out_shardings"),
            Token("="),
            Listed("out_shardings", "#sdy.sharding_per_value<", ">"),
            Token("manual_axes"),
            Token("="),
            Braced("manual_axes", "#sdy<manual_axes", ">"),
            Own(own::body_with_arguments),
            Attributes,
            T(Types::Same),
        ],
    ),
    Form::new("sdy.mesh", &[Name("sym_name"), Token("="), Angled("mesh", "#sdy.mesh"), Attributes]),
    Form::new(
        "sdy.reduce_scatter",
        &[
            Listed("reduce_scatter_axes", "#sdy<list_of_axis_ref_lists", ">"),
            Operands,
            Token("out_sharding"),
            Token("="),
            OUT_SHARDING,
            Attributes,
            T(Types::Same),
        ],
    ),
    Form::new("sdy.reshard", RESHARDED),
    Form::new("sdy.sharding_constraint", RESHARDED),
    Form::new(
        "sdy.sharding_group",
        &[
            Operands,
            Token("group_id"),
            Token("="),
            Integer("group_id", "i64"),
            Attributes,
            T(Types::OperandsOnly),
        ],
    ),
];
