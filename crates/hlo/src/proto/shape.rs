//! `ShapeProto`: what an instruction gives, as far as it has to be known here.

use std::fmt;

use shardwright_tensor::{DType, TensorType};
use thiserror::Error;

use super::wire::{Fields, WireError};
use crate::compiled::ElementType;

/// More nesting of tuples than any program has, and less than could be too much for a stack.
const MOST_NESTING: usize = 32;

const TUPLE: u64 = 13;

/// The type of a value of HLO.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    Array(ArrayShape),
    Tuple(Vec<Shape>),
}

/// An array, or a token or an opaque value, which has no dims.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ArrayShape {
    /// A number of `PrimitiveType` in `xla_data.proto`.
    element: u64,
    dims: Vec<usize>,
    /// Whether the size of a dim is only known when the program runs.
    is_dynamic: bool,
}

/// A shape that cannot be.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ShapeProblem {
    /// The message cannot be read.
    #[error("the shape cannot be read: {0}")]
    Wire(#[from] WireError),
    /// There is none.
    #[error("it has no shape")]
    Missing,
    /// A negative size, which is how dims without a bound are written.
    #[error("dim {dim} has the size {size}; dims have to be of a fixed size of at least 0")]
    Size {
        /// Which.
        dim: usize,
        /// Its size.
        size: i64,
    },
    /// More elements than can be counted.
    #[error("dims {dims:?} make more elements than can be addressed")]
    Overflow {
        /// The dims.
        dims: Vec<usize>,
    },
    /// Tuples in tuples in tuples.
    #[error("tuples are nested more than {MOST_NESTING} deep")]
    Nesting,
}

impl Shape {
    /// Reads a `ShapeProto`.
    pub(super) fn read(bytes: &[u8]) -> Result<Shape, ShapeProblem> {
        Shape::read_nested(bytes, MOST_NESTING)
    }

    fn read_nested(bytes: &[u8], levels: usize) -> Result<Shape, ShapeProblem> {
        let mut element = 0;
        let (mut sizes, mut dynamic, mut parts) = (Vec::new(), Vec::new(), Vec::new());
        for field in Fields::of(bytes) {
            let field = field?;
            match field.number {
                2 => element = field.number()?,
                3 => field.numbers(&mut sizes)?,
                4 => {
                    let levels = levels.checked_sub(1).ok_or(ShapeProblem::Nesting)?;
                    parts.push(Shape::read_nested(field.bytes()?, levels)?);
                }
                6 => field.numbers(&mut dynamic)?,
                _ => {}
            }
        }
        if element == TUPLE {
            return Ok(Shape::Tuple(parts));
        }
        let dims = dims(&sizes)?;
        Ok(Shape::Array(ArrayShape { element, dims, is_dynamic: dynamic.contains(&1) }))
    }

    /// What a program gives with a result of this shape.
    pub(super) fn leaves(&self) -> &[Shape] {
        match self {
            Shape::Tuple(parts) => parts,
            array => std::slice::from_ref(array),
        }
    }

    /// The dims of an array.
    pub(super) fn dims(&self) -> Option<&[usize]> {
        match self {
            Shape::Array(array) => Some(&array.dims),
            Shape::Tuple(_) => None,
        }
    }

    /// The type of an array of fixed dims, if the shape is one whose elements can be passed to programs.
    pub(super) fn tensor(&self) -> Option<TensorType> {
        match self {
            Shape::Array(array) if !array.is_dynamic => {
                TensorType::new(array.dtype()?, array.dims.clone()).ok()
            }
            _ => None,
        }
    }
}

/// Sizes of dims whose product, with elements of at most 16 bytes, can be counted.
fn dims(sizes: &[u64]) -> Result<Vec<usize>, ShapeProblem> {
    const WIDEST_ELEMENT: usize = 16;
    let size = |(dim, &size): (usize, &u64)| {
        let size = size.cast_signed();
        usize::try_from(size).map_err(|_| ShapeProblem::Size { dim, size })
    };
    let dims: Vec<usize> = sizes.iter().enumerate().map(size).collect::<Result<_, _>>()?;
    // A dim of size 0 must not hide an overflow of the others: compilers multiply in any order.
    let product = dims.iter().try_fold(WIDEST_ELEMENT, |bytes, &dim| bytes.checked_mul(dim.max(1)));
    match product.map(isize::try_from) {
        Some(Ok(_)) => Ok(dims),
        _ => Err(ShapeProblem::Overflow { dims }),
    }
}

impl ArrayShape {
    fn dtype(&self) -> Option<DType> {
        Some(match self.element {
            1 => DType::Pred,
            2 => DType::S8,
            3 => DType::S16,
            4 => DType::S32,
            5 => DType::S64,
            6 => DType::U8,
            7 => DType::U16,
            8 => DType::U32,
            9 => DType::U64,
            10 => DType::F16,
            11 => DType::F32,
            12 => DType::F64,
            16 => DType::Bf16,
            _ => return None,
        })
    }
}

/// As HLO text has it: `f32[2,3]`, `(f32[2], s32[])`, and `<=` before dynamic dims.
impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Shape::Array(array) => array.fmt(f),
            Shape::Tuple(parts) => {
                f.write_str("(")?;
                for (index, part) in parts.iter().enumerate() {
                    write!(f, "{}{part}", if index == 0 { "" } else { ", " })?;
                }
                f.write_str(")")
            }
        }
    }
}

impl fmt::Display for ArrayShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Numbers of an enum have 32 bits.
        ElementType(self.element as i32).fmt(f)?;
        let bound = if self.is_dynamic { "<=" } else { "" };
        let dims: Vec<String> = self.dims.iter().map(ToString::to_string).collect();
        write!(f, "[{bound}{}]", dims.join(","))
    }
}
