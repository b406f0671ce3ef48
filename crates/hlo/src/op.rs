//! The ops, with StableHLO's names and meaning. Operands are not part of an [`Op`]: see
//! [`Instruction`](crate::Instruction).

use shardwright_tensor::{DType, HostArray, Shape, TensorType};

use crate::ValueType;

/// What an instruction computes.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// `constant`: a value known when the program is written.
    Constant(HostArray),
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
    /// `select`: operand 1 where operand 0 is true, else operand 2.
    Select,
    /// `convert`: the same values in another dtype.
    Convert(DType),
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
    /// Its other attributes: what stands between the `{` and `}` before its type.
    pub attributes: String,
    /// What it gives.
    pub results: Vec<ValueType>,
}

/// Elementwise ops with one operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are StableHLO's op names")]
pub enum Unary {
    Abs,
    Cosine,
    Exponential,
    Log,
    Logistic,
    Negate,
    Not,
    Rsqrt,
    Sine,
    Sqrt,
    Tanh,
}

/// Elementwise ops with two operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are StableHLO's op names")]
pub enum Binary {
    Add,
    And,
    Divide,
    Maximum,
    Minimum,
    Multiply,
    Or,
    Power,
    ShiftLeft,
    ShiftRightLogical,
    Subtract,
    Xor,
}

/// Directions of `compare`. Floats compare as IEEE 754 says: a NaN is unequal to all, itself included.
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

/// Dimension numbers of a `gather`, as StableHLO defines them (without batching dims).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GatherDims {
    /// Dims of the result that come from within a slice.
    pub offset: Vec<usize>,
    /// Dims of the operand that a slice leaves out; its size there is 1.
    pub collapsed: Vec<usize>,
    /// For each component of a start index, the operand dim that it indexes.
    pub start_index_map: Vec<usize>,
    /// The dim of the indices that holds a start index's components; their rank if each is a scalar.
    pub index_vector: usize,
    /// Size of a slice in each operand dim.
    pub slice_sizes: Vec<usize>,
}

/// Dimension numbers of a `scatter`, as StableHLO defines them (without batching dims).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScatterDims {
    /// Dims of the updates that lie within a window.
    pub update_window: Vec<usize>,
    /// Dims of the operand that a window leaves out.
    pub inserted_window: Vec<usize>,
    /// For each component of an index, the operand dim that it indexes.
    pub index_map: Vec<usize>,
    /// The dim of the indices that holds an index's components; their rank if each is a scalar.
    pub index_vector: usize,
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
    /// What looking up rows of a table adds to the table's gradient.
    TableGradient,
    /// An argument or output, next to the form in which it is stored.
    Stored,
}

impl Op {
    /// StableHLO's name, without the dialect; that of another op with its dialect.
    pub fn name(&self) -> &str {
        match self {
            Op::Constant(_) => "constant",
            Op::Iota { .. } => "iota",
            Op::Unary(op) => op.name(),
            Op::Binary(op) => op.name(),
            Op::Compare(_) => "compare",
            Op::Select => "select",
            Op::Convert(_) => "convert",
            Op::BroadcastInDim { .. } => "broadcast_in_dim",
            Op::Reshape(_) => "reshape",
            Op::Transpose(_) => "transpose",
            Op::Slice(_) => "slice",
            Op::Pad { .. } => "pad",
            Op::Concatenate { .. } => "concatenate",
            Op::DotGeneral(_) => "dot_general",
            Op::Reduce { .. } => "reduce",
            Op::Gather(_) => "gather",
            Op::Scatter { .. } => "scatter",
            Op::OptimizationBarrier => "optimization_barrier",
            Op::Boundary(_) => "boundary",
            Op::Other(other) => &other.name,
        }
    }
}

impl Unary {
    /// StableHLO's name, without the dialect.
    pub fn name(self) -> &'static str {
        match self {
            Unary::Abs => "abs",
            Unary::Cosine => "cosine",
            Unary::Exponential => "exponential",
            Unary::Log => "log",
            Unary::Logistic => "logistic",
            Unary::Negate => "negate",
            Unary::Not => "not",
            Unary::Rsqrt => "rsqrt",
            Unary::Sine => "sine",
            Unary::Sqrt => "sqrt",
            Unary::Tanh => "tanh",
        }
    }

    /// Whether the op is defined on elements of `dtype`.
    pub(crate) fn takes(self, dtype: DType) -> bool {
        match self {
            Unary::Not => !dtype.is_float(),
            Unary::Abs => {
                dtype.is_float() || matches!(dtype, DType::S8 | DType::S16 | DType::S32 | DType::S64)
            }
            Unary::Negate => dtype != DType::Pred,
            _ => dtype.is_float(),
        }
    }
}

impl Binary {
    /// StableHLO's name, without the dialect.
    pub fn name(self) -> &'static str {
        match self {
            Binary::Add => "add",
            Binary::And => "and",
            Binary::Divide => "divide",
            Binary::Maximum => "maximum",
            Binary::Minimum => "minimum",
            Binary::Multiply => "multiply",
            Binary::Or => "or",
            Binary::Power => "power",
            Binary::ShiftLeft => "shift_left",
            Binary::ShiftRightLogical => "shift_right_logical",
            Binary::Subtract => "subtract",
            Binary::Xor => "xor",
        }
    }

    /// Whether the op is defined on elements of `dtype`.
    pub(crate) fn takes(self, dtype: DType) -> bool {
        match self {
            Binary::And | Binary::Or | Binary::Xor => !dtype.is_float(),
            Binary::ShiftLeft | Binary::ShiftRightLogical => dtype.is_integer(),
            _ => dtype != DType::Pred,
        }
    }
}

impl Comparison {
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
    /// The elementwise op that joins two elements.
    pub fn op(self) -> Binary {
        match self {
            Reduction::Add => Binary::Add,
            Reduction::Maximum => Binary::Maximum,
        }
    }
}

impl Precision {
    /// StableHLO's spelling.
    pub fn name(self) -> &'static str {
        match self {
            Precision::Default => "DEFAULT",
            Precision::High => "HIGH",
            Precision::Highest => "HIGHEST",
        }
    }
}
