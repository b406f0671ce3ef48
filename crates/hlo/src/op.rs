//! The ops, with StableHLO's names and meaning. Operands are not part of an [`Op`]: see
//! [`Instruction`](crate::Instruction).

use shardwright_tensor::{DType, HostArray, Shape, TensorType};

use crate::{AxisGroup, FunctionId, ManualComputation, ValueType};

/// What an instruction computes.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// `constant`: a value known when the program is written.
    Constant(HostArray),
    /// `constant` of one element at every index, which takes no memory but its own. Texts may name large ones.
    Splat {
        /// The element: a scalar.
        element: HostArray,
        /// Shape of the result.
        shape: Shape,
    },
    /// `iota`: the index along `dim`, at every element of an array of type `ty`.
    Iota {
        /// Type of the result.
        ty: TensorType,
        /// The dim whose index is counted.
        dim: usize,
    },
    /// An elementwise op with one operand.
    Unary(Unary),
    /// An elementwise op with two operands of one type.
    Binary(Binary),
    /// `compare`: elementwise, of two operands of one type, to `pred`.
    Compare(Comparison),
    /// `select`: operand 1 where operand 0 is true, else operand 2. Operand 0 may be a scalar.
    Select,
    /// `clamp`: operand 1, but at least operand 0 and at most operand 2, each of which may be a scalar.
    Clamp,
    /// `convert`: the same values in another dtype.
    Convert(DType),
    /// `bitcast_convert`: the same bits in another dtype. Where the widths differ, the last dim holds the parts of an
    /// element, and comes or goes.
    BitcastConvert(DType),
    /// `broadcast_in_dim`: operand dim `i` becomes result dim `dims[i]`; size 1 and new dims are repeated.
    BroadcastInDim {
        /// Shape of the result.
        shape: Shape,
        /// For each operand dim, its place in the result.
        dims: Vec<usize>,
    },
    /// `reshape`: the same elements in row-major order under other dims.
    Reshape(Shape),
    /// `transpose`: result dim `i` is operand dim `permutation[i]`.
    Transpose(Vec<usize>),
    /// `slice`: a strided block.
    Slice(SliceBounds),
    /// `dynamic_slice`: a block of operand 0, whose first index is in the other operands, one scalar per dim. It is
    /// moved to lie within the operand.
    DynamicSlice {
        /// Size of the block in each dim.
        sizes: Vec<usize>,
    },
    /// `dynamic_update_slice`: operand 0 with operand 1 in place of a block, whose first index is in the other
    /// operands, one scalar per dim. It is moved to lie within the operand.
    DynamicUpdateSlice,
    /// `reverse`: the order of the elements turned round in these dims.
    Reverse(Vec<usize>),
    /// `pad`: operand 0 surrounded by the scalar operand 1. A negative amount cuts off.
    Pad {
        /// Elements put before each dim.
        low: Vec<i64>,
        /// Elements put after each dim.
        high: Vec<i64>,
        /// Elements put between neighbours in each dim; not negative.
        interior: Vec<i64>,
    },
    /// `concatenate`: the operands one after the other along `dim`.
    Concatenate {
        /// The dim that grows.
        dim: usize,
    },
    /// `dot_general`: products summed over the contracting dims, for each index of the batch dims.
    DotGeneral(DotDims),
    /// `reduce` over `dims`, from the reduction's own neutral element.
    Reduce {
        /// How two elements are joined.
        kind: Reduction,
        /// The dims that disappear, in ascending order.
        dims: Vec<usize>,
    },
    /// `gather`: slices of operand 0 at the start indices in operand 1.
    Gather(GatherDims),
    /// `scatter`: operand 0 with the updates of operand 2 joined in at the indices of operand 1.
    Scatter {
        /// How an update joins the element that is there.
        kind: Reduction,
        /// Which dims of the operands correspond.
        dims: ScatterDims,
    },
    /// `optimization_barrier`: the identity on all operands, which the compiler moves nothing across.
    OptimizationBarrier,
    /// The identity, at a place where a sharding may be pinned. Without one it prints nothing.
    Boundary(Role),
    /// `all_gather`: the operands of the devices of a group, one after the other along `dim`.
    AllGather {
        /// The dim that grows.
        dim: usize,
        /// Who takes part.
        axes: AxisGroup,
    },
    /// `reduce_scatter`: the operands of the devices of a group joined; each device keeps its part along `dim`.
    ReduceScatter {
        /// How two elements are joined.
        kind: Reduction,
        /// The dim that is cut.
        dim: usize,
        /// Who takes part.
        axes: AxisGroup,
    },
    /// `all_reduce`: the operands of the devices of a group joined.
    AllReduce {
        /// How two elements are joined.
        kind: Reduction,
        /// Who takes part.
        axes: AxisGroup,
    },
    /// The identity, where what is the same on all devices of a group begins to be used in ways that differ. It prints
    /// nothing; its transpose is the sum over the group.
    Vary(AxisGroup),
    /// `sdy.manual_computation`: its one region is the program of one device.
    ManualComputation(Box<ManualComputation>),
    /// `call`: what a function of the module gives, given the operands.
    Call(FunctionId),
    /// `while`: the operands, put through the second region for as long as the first one says so. Both regions take
    /// what the operands are; the first gives a scalar pred, the second what it takes.
    While,
    /// `if`: what the first region gives if the operand, a scalar pred, is true, else what the second gives. Regions
    /// take nothing; they use the values around them.
    If,
    /// `case`: what the region gives whose index the operand is, a scalar `s32`; the last one, if there is no such.
    Case,
    /// An op of a program from elsewhere that there are no rules for here. It is kept as it was written.
    Other(Box<OtherOp>),
}

/// An op that is only known by what was written of it, in MLIR's generic form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtherOp {
    /// Its name, with the dialect: `stablehlo.sort`.
    pub name: String,
    /// Its properties: what stands between `<{` and `}>`.
    pub properties: String,
    /// Its other attributes: what stands between the `{` and `}` before its type. Shardings are not among them: they
    /// lie beside the module.
    pub attributes: String,
    /// What it gives.
    pub results: Vec<ValueType>,
}

/// Elementwise ops with one operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are StableHLO's op names")]
pub enum Unary {
    Abs,
    Cbrt,
    Ceil,
    Cosine,
    CountLeadingZeros,
    Exponential,
    ExponentialMinusOne,
    Floor,
    IsFinite,
    Log,
    LogPlusOne,
    Logistic,
    Negate,
    Not,
    Popcnt,
    RoundNearestAfz,
    RoundNearestEven,
    Rsqrt,
    Sign,
    Sine,
    Sqrt,
    Tan,
    Tanh,
}

/// Elementwise ops with two operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are StableHLO's op names")]
pub enum Binary {
    Add,
    And,
    Atan2,
    Divide,
    Maximum,
    Minimum,
    Multiply,
    Or,
    Power,
    Remainder,
    ShiftLeft,
    ShiftRightArithmetic,
    ShiftRightLogical,
    Subtract,
    Xor,
}

/// Directions of `compare`. Integers compare as their dtype says, floats as IEEE 754 does: a NaN is unequal to all,
/// itself included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are StableHLO's directions, written out")]
pub enum Comparison {
    Equal,
    NotEqual,
    GreaterEqual,
    Greater,
    LessEqual,
    Less,
}

/// How `reduce` and `scatter` join two elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduction {
    /// Sum, from 0.
    Add,
    /// Maximum, from the lowest value (−∞ for floats).
    Maximum,
    /// Minimum, from the highest value (∞ for floats).
    Minimum,
    /// Product, from 1.
    Multiply,
    /// Conjunction, from all bits set; not of floats.
    And,
    /// Disjunction, from no bit set; not of floats.
    Or,
}

/// Bounds of a `slice`, one entry per dim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SliceBounds {
    /// First index.
    pub starts: Vec<usize>,
    /// Index after the last.
    pub limits: Vec<usize>,
    /// Step; at least 1.
    pub strides: Vec<usize>,
}

/// Dimension numbers of a `dot_general`. The result has the batch dims, then what is left of the left operand,
/// then what is left of the right one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DotDims {
    /// Batch dims of the left operand.
    pub lhs_batch: Vec<usize>,
    /// Batch dims of the right operand, in the same order.
    pub rhs_batch: Vec<usize>,
    /// Dims of the left operand that are summed over.
    pub lhs_contracting: Vec<usize>,
    /// Dims of the right operand that are summed over, in the same order.
    pub rhs_contracting: Vec<usize>,
    /// Dtype of the result, and of the sums.
    pub result: DType,
    /// How exactly platforms with several ways to multiply do it.
    pub precision: Precision,
}

/// Precision of a `dot_general` on platforms that have a choice; a CPU always takes the highest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Precision {
    /// The fastest: single bf16 passes on a TPU, TF32 on a GPU.
    #[default]
    Default,
    /// Between the two: three bf16 passes on a TPU.
    High,
    /// That of the operands' dtype.
    Highest,
}

/// Dimension numbers of a `gather`, as StableHLO defines them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GatherDims {
    /// Dims of the result that come from within a slice.
    pub offset: Vec<usize>,
    /// Dims of the operand that a slice leaves out; its size there is 1.
    pub collapsed: Vec<usize>,
    /// Dims of the operand whose index is that in a dim of the indices; a slice leaves them out too.
    pub operand_batch: Vec<usize>,
    /// These dims of the indices, in the same order.
    pub indices_batch: Vec<usize>,
    /// For each component of a start index, the operand dim that it indexes.
    pub start_index_map: Vec<usize>,
    /// The dim of the indices that holds a start index's components; their rank if each is a scalar.
    pub index_vector: usize,
    /// Size of a slice in each operand dim.
    pub slice_sizes: Vec<usize>,
    /// Whether start indices are promised to be in ascending order.
    pub indices_are_sorted: bool,
}

/// Dimension numbers of a `scatter`, as StableHLO defines them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScatterDims {
    /// Dims of the updates that lie within a window.
    pub update_window: Vec<usize>,
    /// Dims of the operand that a window leaves out.
    pub inserted_window: Vec<usize>,
    /// Dims of the operand whose index is that in a dim of the indices; a window leaves them out too.
    pub operand_batch: Vec<usize>,
    /// These dims of the indices, in the same order.
    pub indices_batch: Vec<usize>,
    /// For each component of an index, the operand dim that it indexes.
    pub index_map: Vec<usize>,
    /// The dim of the indices that holds an index's components; their rank if each is a scalar.
    pub index_vector: usize,
    /// Whether indices are promised to be in ascending order.
    pub indices_are_sorted: bool,
    /// Whether no two indices are promised to be equal.
    pub unique_indices: bool,
}

/// What stands at a [`Op::Boundary`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// A parameter on its way into an op that uses it.
    Weight,
    /// What a unit hands on, batch first; backward, the gradient of that.
    Activation,
    /// The gradient of the parameter that is this argument of the module.
    Gradient {
        /// Index into [`Module::arguments`](crate::Module::arguments).
        parameter: usize,
    },
    /// The gradient of what the parameter that is this argument of the module holds at one index of its dim 0.
    RowGradient {
        /// Index into [`Module::arguments`](crate::Module::arguments).
        parameter: usize,
    },
    /// What looking up rows of a table adds to the table's gradient.
    TableGradient,
    /// An argument or output, next to the form in which it is stored.
    Stored,
    /// A place at which a program from elsewhere says where an array lies.
    Constraint,
}

impl Op {
    /// StableHLO's name, without the dialect; that of another op with its dialect.
    pub fn name(&self) -> &str {
        match self {
            Op::Constant(_) | Op::Splat { .. } => "constant",
            Op::Iota { .. } => "iota",
            Op::Unary(op) => op.name(),
            Op::Binary(op) => op.name(),
            Op::Compare(_) => "compare",
            Op::Select => "select",
            Op::Clamp => "clamp",
            Op::Convert(_) => "convert",
            Op::BitcastConvert(_) => "bitcast_convert",
            Op::BroadcastInDim { .. } => "broadcast_in_dim",
            Op::Reshape(_) => "reshape",
            Op::Transpose(_) => "transpose",
            Op::Slice(_) => "slice",
            Op::DynamicSlice { .. } => "dynamic_slice",
            Op::DynamicUpdateSlice => "dynamic_update_slice",
            Op::Reverse(_) => "reverse",
            Op::Pad { .. } => "pad",
            Op::Concatenate { .. } => "concatenate",
            Op::DotGeneral(_) => "dot_general",
            Op::Reduce { .. } => "reduce",
            Op::Gather(_) => "gather",
            Op::Scatter { .. } => "scatter",
            Op::OptimizationBarrier => "optimization_barrier",
            Op::Boundary(_) => "boundary",
            Op::AllGather { .. } => "all_gather",
            Op::ReduceScatter { .. } => "reduce_scatter",
            Op::AllReduce { .. } => "all_reduce",
            Op::Vary(_) => "vary",
            Op::ManualComputation(_) => "sdy.manual_computation",
            Op::Call(_) => "call",
            Op::While => "while",
            Op::If => "if",
            Op::Case => "case",
            Op::Other(other) => &other.name,
        }
    }
}

impl Unary {
    /// All of them.
    pub const ALL: [Unary; 23] = [
        Unary::Abs,
        Unary::Cbrt,
        Unary::Ceil,
        Unary::Cosine,
        Unary::CountLeadingZeros,
        Unary::Exponential,
        Unary::ExponentialMinusOne,
        Unary::Floor,
        Unary::IsFinite,
        Unary::Log,
        Unary::LogPlusOne,
        Unary::Logistic,
        Unary::Negate,
        Unary::Not,
        Unary::Popcnt,
        Unary::RoundNearestAfz,
        Unary::RoundNearestEven,
        Unary::Rsqrt,
        Unary::Sign,
        Unary::Sine,
        Unary::Sqrt,
        Unary::Tan,
        Unary::Tanh,
    ];

    /// StableHLO's name, without the dialect.
    pub fn name(self) -> &'static str {
        match self {
            Unary::Abs => "abs",
            Unary::Cbrt => "cbrt",
            Unary::Ceil => "ceil",
            Unary::Cosine => "cosine",
            Unary::CountLeadingZeros => "count_leading_zeros",
            Unary::Exponential => "exponential",
            Unary::ExponentialMinusOne => "exponential_minus_one",
            Unary::Floor => "floor",
            Unary::IsFinite => "is_finite",
            Unary::Log => "log",
            Unary::LogPlusOne => "log_plus_one",
            Unary::Logistic => "logistic",
            Unary::Negate => "negate",
            Unary::Not => "not",
            Unary::Popcnt => "popcnt",
            Unary::RoundNearestAfz => "round_nearest_afz",
            Unary::RoundNearestEven => "round_nearest_even",
            Unary::Rsqrt => "rsqrt",
            Unary::Sign => "sign",
            Unary::Sine => "sine",
            Unary::Sqrt => "sqrt",
            Unary::Tan => "tan",
            Unary::Tanh => "tanh",
        }
    }

    /// Whether the op is defined on elements of `dtype`.
    pub(crate) fn takes(self, dtype: DType) -> bool {
        match self {
            Unary::Not => !dtype.is_float(),
            Unary::Abs | Unary::Sign => {
                dtype.is_float() || matches!(dtype, DType::S8 | DType::S16 | DType::S32 | DType::S64)
            }
            Unary::Negate => dtype != DType::Pred,
            Unary::CountLeadingZeros | Unary::Popcnt => dtype.is_integer(),
            _ => dtype.is_float(),
        }
    }

    /// The dtype of the result.
    pub(crate) fn gives(self, dtype: DType) -> DType {
        if self == Unary::IsFinite { DType::Pred } else { dtype }
    }
}

impl Binary {
    /// All of them.
    pub const ALL: [Binary; 15] = [
        Binary::Add,
        Binary::And,
        Binary::Atan2,
        Binary::Divide,
        Binary::Maximum,
        Binary::Minimum,
        Binary::Multiply,
        Binary::Or,
        Binary::Power,
        Binary::Remainder,
        Binary::ShiftLeft,
        Binary::ShiftRightArithmetic,
        Binary::ShiftRightLogical,
        Binary::Subtract,
        Binary::Xor,
    ];

    /// StableHLO's name, without the dialect.
    pub fn name(self) -> &'static str {
        match self {
            Binary::Add => "add",
            Binary::And => "and",
            Binary::Atan2 => "atan2",
            Binary::Divide => "divide",
            Binary::Maximum => "maximum",
            Binary::Minimum => "minimum",
            Binary::Multiply => "multiply",
            Binary::Or => "or",
            Binary::Power => "power",
            Binary::Remainder => "remainder",
            Binary::ShiftLeft => "shift_left",
            Binary::ShiftRightArithmetic => "shift_right_arithmetic",
            Binary::ShiftRightLogical => "shift_right_logical",
            Binary::Subtract => "subtract",
            Binary::Xor => "xor",
        }
    }

    /// Whether the op is defined on elements of `dtype`.
    pub(crate) fn takes(self, dtype: DType) -> bool {
        match self {
            // Of truth values, these are conjunction and disjunction.
            Binary::Add | Binary::Maximum | Binary::Minimum | Binary::Multiply => true,
            Binary::And | Binary::Or | Binary::Xor => !dtype.is_float(),
            Binary::ShiftLeft | Binary::ShiftRightArithmetic | Binary::ShiftRightLogical => {
                dtype.is_integer()
            }
            Binary::Atan2 => dtype.is_float(),
            Binary::Divide | Binary::Power | Binary::Remainder | Binary::Subtract => dtype != DType::Pred,
        }
    }
}

impl Comparison {
    /// All of them.
    pub const ALL: [Comparison; 6] = [
        Comparison::Equal,
        Comparison::NotEqual,
        Comparison::GreaterEqual,
        Comparison::Greater,
        Comparison::LessEqual,
        Comparison::Less,
    ];

    /// StableHLO's spelling: `EQ`, `NE`, `GE`, `GT`, `LE`, `LT`.
    pub fn name(self) -> &'static str {
        match self {
            Comparison::Equal => "EQ",
            Comparison::NotEqual => "NE",
            Comparison::GreaterEqual => "GE",
            Comparison::Greater => "GT",
            Comparison::LessEqual => "LE",
            Comparison::Less => "LT",
        }
    }
}

impl Reduction {
    /// All of them.
    pub const ALL: [Reduction; 6] = [
        Reduction::Add,
        Reduction::Maximum,
        Reduction::Minimum,
        Reduction::Multiply,
        Reduction::And,
        Reduction::Or,
    ];

    /// The elementwise op that joins two elements.
    pub fn op(self) -> Binary {
        match self {
            Reduction::Add => Binary::Add,
            Reduction::Maximum => Binary::Maximum,
            Reduction::Minimum => Binary::Minimum,
            Reduction::Multiply => Binary::Multiply,
            Reduction::And => Binary::And,
            Reduction::Or => Binary::Or,
        }
    }

    /// What a reduction of elements of `dtype` starts from: joined with it, each element stays as it is. A scalar.
    pub fn neutral(self, dtype: DType) -> HostArray {
        let of = |value: f64| HostArray::scalar(value).cast(dtype);
        let is_pred = dtype == DType::Pred;
        match self {
            Reduction::Add | Reduction::Or => of(0.0),
            Reduction::Maximum if is_pred => of(0.0),
            Reduction::Maximum => of(f64::NEG_INFINITY),
            Reduction::Minimum => of(f64::INFINITY),
            Reduction::Multiply => of(1.0),
            Reduction::And => {
                let mut ones = HostArray::zeros(TensorType::scalar(dtype));
                ones.bytes_mut().fill(if is_pred { 1 } else { 0xFF });
                ones
            }
        }
    }
}

impl Precision {
    /// All of them.
    pub const ALL: [Precision; 3] = [Precision::Default, Precision::High, Precision::Highest];

    /// StableHLO's spelling.
    pub fn name(self) -> &'static str {
        match self {
            Precision::Default => "DEFAULT",
            Precision::High => "HIGH",
            Precision::Highest => "HIGHEST",
        }
    }
}
