use std::fmt;

use thiserror::Error;

use crate::DType;

/// The dims of an array, outermost first.
///
/// A shape can be allocated: its element count, times the widest element, fits in `isize`. That is checked once,
/// in [`Shape::new`], so that [`Shape::element_count`] and byte counts cannot overflow anywhere else.
#[derive(Clone, PartialEq, Eq, Hash, Default)]
pub struct Shape {
    dims: Vec<usize>,
}

/// Dims whose product is too large for any memory.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("shape {dims:?} has more elements than can be addressed")]
pub struct ShapeError {
    dims: Vec<usize>,
}

impl Shape {
    /// The shape with these dims, none for a scalar.
    pub fn new(dims: impl Into<Vec<usize>>) -> Result<Shape, ShapeError> {
        const WIDEST_ELEMENT: usize = 8;
        let dims = dims.into();
        // Zero-sized dims must not hide an overflow of the others: strides are computed from them.
        let product = dims.iter().try_fold(WIDEST_ELEMENT, |n, &d| n.checked_mul(d.max(1)));
        match product {
            Some(bytes) if isize::try_from(bytes).is_ok() => Ok(Shape { dims }),
            _ => Err(ShapeError { dims }),
        }
    }

    /// The shape without dims.
    pub fn scalar() -> Shape {
        Shape::default()
    }

    /// Sizes, outermost dim first.
    pub fn dims(&self) -> &[usize] {
        &self.dims
    }

    /// Number of dims.
    pub fn rank(&self) -> usize {
        self.dims.len()
    }

    /// Number of elements; 1 for a scalar.
    pub fn element_count(&self) -> usize {
        self.dims.iter().product()
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[")?;
        for (i, dim) in self.dims.iter().enumerate() {
            let comma = if i == 0 { "" } else { "," };
            write!(f, "{comma}{dim}")?;
        }
        f.write_str("]")
    }
}

impl fmt::Debug for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A dtype and a shape; printed as HLO does: `f32[2,3]`.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct TensorType {
    /// The element type.
    pub dtype: DType,
    /// The dims.
    pub shape: Shape,
}

impl TensorType {
    /// The type with this dtype and these dims.
    pub fn new(dtype: DType, dims: impl Into<Vec<usize>>) -> Result<TensorType, ShapeError> {
        Ok(TensorType { dtype, shape: Shape::new(dims)? })
    }

    /// The type of one element.
    pub fn scalar(dtype: DType) -> TensorType {
        TensorType { dtype, shape: Shape::scalar() }
    }

    /// Sizes, outermost dim first.
    pub fn dims(&self) -> &[usize] {
        self.shape.dims()
    }

    /// Number of dims.
    pub fn rank(&self) -> usize {
        self.shape.rank()
    }

    /// Bytes of the dense row-major array.
    pub fn byte_count(&self) -> usize {
        self.shape.element_count() * self.dtype.size()
    }
}

impl fmt::Display for TensorType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.dtype, self.shape)
    }
}

impl fmt::Debug for TensorType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_as_hlo_does() {
        assert_eq!(TensorType::new(DType::S32, [4, 1, 8]).unwrap().to_string(), "s32[4,1,8]");
        assert_eq!(TensorType::scalar(DType::Bf16).to_string(), "bf16[]");
    }

    #[test]
    fn refuses_what_no_memory_holds() {
        for dims in [vec![usize::MAX], vec![1 << 31, 1 << 31], vec![0, usize::MAX, 2]] {
            assert!(Shape::new(dims).is_err());
        }
        assert_eq!(Shape::new([0, 5]).unwrap().element_count(), 0);
    }
}
