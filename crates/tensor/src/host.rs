use std::cmp::Ordering;
use std::fmt;
use std::ops::Range;

use half::{bf16, f16};
use ndarray::{ArrayViewD, ArrayViewMutD, IxDyn};
use thiserror::Error;

use crate::{DType, Element, Shape, ShapeError, TensorType};

/// A dense row-major array in host memory, which begins at a multiple of 64 bytes: a view of any element type is
/// aligned, and plugins that compute on the host can use the memory as it is.
pub struct HostArray {
    ty: TensorType,
    // With a few words more than it takes, so that the array can begin at a boundary.
    words: Vec<u64>,
    start: usize,
}

const WORD: usize = size_of::<u64>();
const ALIGNMENT: usize = 64;

/// What can be wrong with the contents or the use of a [`HostArray`].
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TensorError {
    /// The dims cannot be allocated.
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// Values or bytes that do not fill the shape exactly.
    #[error("{ty} needs {expected} {unit}, got {found}")]
    Length {
        /// The type that was to be filled.
        ty: TensorType,
        /// What is counted: elements or bytes.
        unit: &'static str,
        /// How many fill it.
        expected: usize,
        /// How many were given.
        found: usize,
    },
    /// A typed view of another dtype.
    #[error("an array of {ty} was read as {asked}")]
    DType {
        /// The type of the array.
        ty: TensorType,
        /// The dtype that was asked for.
        asked: DType,
    },
    /// Index ranges that do not lie inside the array, or values whose shape is not that of the ranges.
    #[error("the index range {ranges:?} does not fit {ty}")]
    Range {
        /// The type that was indexed, or of the values to be written.
        ty: TensorType,
        /// One half-open range per dim.
        ranges: Vec<Range<usize>>,
    },
}

impl HostArray {
    /// An array of zeros.
    pub fn zeros(ty: TensorType) -> HostArray {
        let len = ty.byte_count().div_ceil(WORD);
        let spare = if len == 0 { 0 } else { ALIGNMENT / WORD - 1 };
        let words = vec![0; len + spare];
        let start = spare.min(words.as_ptr().addr().wrapping_neg() % ALIGNMENT / WORD);
        HostArray { ty, words, start }
    }

    /// The array with these dims and values, in row-major order.
    pub fn from_slice<T: Element>(dims: &[usize], values: &[T]) -> Result<HostArray, TensorError> {
        let ty = TensorType::new(T::DTYPE, dims)?;
        let expected = ty.shape.element_count();
        if values.len() != expected {
            return Err(TensorError::Length { ty, unit: "elements", expected, found: values.len() });
        }
        HostArray::from_bytes(ty, bytemuck::cast_slice(values))
    }

    /// The array whose memory, row-major and in the byte order of this machine, holds `bytes`.
    pub fn from_bytes(ty: TensorType, bytes: &[u8]) -> Result<HostArray, TensorError> {
        let expected = ty.byte_count();
        if bytes.len() != expected {
            return Err(TensorError::Length { ty, unit: "bytes", expected, found: bytes.len() });
        }
        let mut array = HostArray::zeros(ty);
        array.bytes_mut().copy_from_slice(bytes);
        Ok(array)
    }

    /// The array without dims that holds `value`.
    pub fn scalar<T: Element>(value: T) -> HostArray {
        let mut array = HostArray::zeros(TensorType::scalar(T::DTYPE));
        array.bytes_mut().copy_from_slice(bytemuck::bytes_of(&value));
        array
    }

    /// Dtype and shape.
    pub fn ty(&self) -> &TensorType {
        &self.ty
    }

    /// The element type.
    pub fn dtype(&self) -> DType {
        self.ty.dtype
    }

    /// Sizes, outermost dim first.
    pub fn dims(&self) -> &[usize] {
        self.ty.dims()
    }

    /// The memory, row-major, in the byte order of this machine.
    pub fn bytes(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.words[self.start..])[..self.ty.byte_count()]
    }

    /// The memory, to be written.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        let len = self.ty.byte_count();
        &mut bytemuck::cast_slice_mut(&mut self.words[self.start..])[..len]
    }

    /// The elements in row-major order.
    pub fn as_slice<T: Element>(&self) -> Result<&[T], TensorError> {
        self.check_dtype(T::DTYPE)?;
        Ok(bytemuck::cast_slice(self.bytes()))
    }

    /// The elements in row-major order, to be written.
    pub fn as_mut_slice<T: Element>(&mut self) -> Result<&mut [T], TensorError> {
        self.check_dtype(T::DTYPE)?;
        Ok(bytemuck::cast_slice_mut(self.bytes_mut()))
    }

    /// The array as an `ndarray` view.
    pub fn view<T: Element>(&self) -> Result<ArrayViewD<'_, T>, TensorError> {
        let elements = self.as_slice()?;
        Ok(ArrayViewD::from_shape(IxDyn(self.dims()), elements).expect("the slice fills the shape"))
    }

    /// The array as an `ndarray` view that can be written.
    pub fn view_mut<T: Element>(&mut self) -> Result<ArrayViewMutD<'_, T>, TensorError> {
        let dims = IxDyn(self.dims());
        let elements = self.as_mut_slice()?;
        Ok(ArrayViewMutD::from_shape(dims, elements).expect("the slice fills the shape"))
    }

    /// A copy of the block at `ranges`, one half-open range per dim.
    pub fn slice(&self, ranges: &[Range<usize>]) -> Result<HostArray, TensorError> {
        self.check_ranges(ranges)?;
        let dims: Vec<usize> = ranges.iter().map(|r| r.len()).collect();
        let mut block = HostArray::zeros(TensorType { dtype: self.dtype(), shape: Shape::new(dims)? });
        let rows = Rows::new(&self.ty, ranges);
        let row_bytes = rows.bytes;
        if row_bytes > 0 {
            let source = self.bytes();
            for (target, offset) in block.bytes_mut().chunks_exact_mut(row_bytes).zip(rows) {
                target.copy_from_slice(&source[offset..offset + row_bytes]);
            }
        }
        Ok(block)
    }

    /// Copies `block` to the place that `ranges` name.
    pub fn write_slice(&mut self, ranges: &[Range<usize>], block: &HostArray) -> Result<(), TensorError> {
        self.check_ranges(ranges)?;
        if !block.dims().iter().copied().eq(ranges.iter().map(|r| r.len())) {
            return Err(TensorError::Range { ty: block.ty.clone(), ranges: ranges.to_vec() });
        }
        block.check_dtype(self.dtype())?;
        let rows = Rows::new(&self.ty, ranges);
        let row_bytes = rows.bytes;
        if row_bytes > 0 {
            let target = self.bytes_mut();
            for (source, offset) in block.bytes().chunks_exact(row_bytes).zip(rows) {
                target[offset..offset + row_bytes].copy_from_slice(source);
            }
        }
        Ok(())
    }

    /// The same values in another dtype.
    ///
    /// Every value goes through `f64`, rounded to nearest even into floats, saturated and truncated into
    /// integers, and compared with zero into [`DType::Pred`]. 64-bit integers beyond 2^53 lose their low digits.
    pub fn cast(&self, dtype: DType) -> HostArray {
        if dtype == self.dtype() {
            return self.clone();
        }
        let values = self.to_f64();
        let mut out = HostArray::zeros(TensorType { dtype, shape: self.ty.shape.clone() });
        macro_rules! store {
            ($ty:ty, $convert:expr) => {
                for (slot, value) in
                    bytemuck::cast_slice_mut::<u8, $ty>(out.bytes_mut()).iter_mut().zip(values)
                {
                    *slot = $convert(value);
                }
            };
        }
        match dtype {
            DType::Pred => store!(u8, |v: f64| u8::from(v != 0.0)),
            DType::S8 => store!(i8, |v: f64| v as i8),
            DType::S16 => store!(i16, |v: f64| v as i16),
            DType::S32 => store!(i32, |v: f64| v as i32),
            DType::S64 => store!(i64, |v: f64| v as i64),
            DType::U8 => store!(u8, |v: f64| v as u8),
            DType::U16 => store!(u16, |v: f64| v as u16),
            DType::U32 => store!(u32, |v: f64| v as u32),
            DType::U64 => store!(u64, |v: f64| v as u64),
            // What `half` makes of an `f64` directly is off by one just above the middle between two values.
            DType::F16 => store!(f16, |v| f16::from_f32(round_to_odd(v))),
            DType::Bf16 => store!(bf16, |v| bf16::from_f32(round_to_odd(v))),
            DType::F32 => store!(f32, |v: f64| v as f32),
            DType::F64 => store!(f64, |v: f64| v),
        }
        out
    }

    /// Every element as `f64`, in row-major order.
    pub fn to_f64(&self) -> Vec<f64> {
        macro_rules! load {
            ($ty:ty, $convert:expr) => {
                bytemuck::cast_slice::<u8, $ty>(self.bytes()).iter().map($convert).collect()
            };
        }
        match self.dtype() {
            DType::Pred | DType::U8 => load!(u8, |&v| f64::from(v)),
            DType::S8 => load!(i8, |&v| f64::from(v)),
            DType::S16 => load!(i16, |&v| f64::from(v)),
            DType::S32 => load!(i32, |&v| f64::from(v)),
            DType::S64 => load!(i64, |&v| v as f64),
            DType::U16 => load!(u16, |&v| f64::from(v)),
            DType::U32 => load!(u32, |&v| f64::from(v)),
            DType::U64 => load!(u64, |&v| v as f64),
            DType::F16 => load!(f16, |v| v.to_f64()),
            DType::Bf16 => load!(bf16, |v| v.to_f64()),
            DType::F32 => load!(f32, |&v| f64::from(v)),
            DType::F64 => load!(f64, |&v| v),
        }
    }

    fn check_dtype(&self, asked: DType) -> Result<(), TensorError> {
        if self.dtype() == asked {
            return Ok(());
        }
        Err(TensorError::DType { ty: self.ty.clone(), asked })
    }

    fn check_ranges(&self, ranges: &[Range<usize>]) -> Result<(), TensorError> {
        let fits = ranges.len() == self.dims().len()
            && ranges.iter().zip(self.dims()).all(|(r, &dim)| r.start <= r.end && r.end <= dim);
        if fits {
            return Ok(());
        }
        Err(TensorError::Range { ty: self.ty.clone(), ranges: ranges.to_vec() })
    }
}

impl Clone for HostArray {
    fn clone(&self) -> HostArray {
        let mut copy = HostArray::zeros(self.ty.clone());
        copy.bytes_mut().copy_from_slice(self.bytes());
        copy
    }
}

impl PartialEq for HostArray {
    /// Whether type and memory are the same, so that a NaN is equal to itself.
    fn eq(&self, other: &HostArray) -> bool {
        self.ty == other.ty && self.bytes() == other.bytes()
    }
}

impl fmt::Debug for HostArray {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 8;
        let values = self.to_f64();
        write!(f, "{} {:?}", self.ty, &values[..values.len().min(SHOWN)])?;
        if values.len() > SHOWN { write!(f, " and {} more", values.len() - SHOWN) } else { Ok(()) }
    }
}

/// The `f32` next to a value, the odd one of the two that it lies between: so that rounding once more, to at least two
/// bits less, is rounding once.
fn round_to_odd(value: f64) -> f32 {
    let nearest = value as f32;
    let (bits, error) = (nearest.to_bits(), value.abs() - f64::from(nearest).abs());
    // No error is a NaN's, too.
    match error.partial_cmp(&0.0) {
        Some(Ordering::Greater) if bits % 2 == 0 => f32::from_bits(bits + 1),
        Some(Ordering::Less) if bits % 2 == 0 => f32::from_bits(bits - 1),
        _ => nearest,
    }
}

/// Byte offsets, in an array, of the contiguous runs that make up a block of it, in row-major order.
struct Rows {
    bytes: usize,
    strides: Vec<usize>,
    ranges: Vec<Range<usize>>,
    next: Option<Vec<usize>>,
}

impl Rows {
    fn new(ty: &TensorType, ranges: &[Range<usize>]) -> Rows {
        let dims = ty.dims();
        // The dims behind the last one that is cut are contiguous in both arrays.
        let cut = (0..dims.len()).rev().find(|&d| ranges[d].len() != dims[d]).unwrap_or(0);
        let mut strides = vec![ty.dtype.size(); dims.len()];
        for d in (1..dims.len()).rev() {
            strides[d - 1] = strides[d] * dims[d];
        }
        let bytes = ranges.iter().skip(cut).map(|r| r.len()).product::<usize>() * ty.dtype.size();
        let empty = ranges.iter().any(|r| r.is_empty());
        let next = (!empty).then(|| ranges.iter().map(|r| r.start).collect());
        let outer = ranges[..cut].to_vec();
        Rows { bytes, strides, ranges: outer, next }
    }
}

impl Iterator for Rows {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        let index = self.next.as_mut()?;
        let offset = index.iter().zip(&self.strides).map(|(i, s)| i * s).sum();
        let mut more = false;
        for (i, range) in index.iter_mut().zip(&self.ranges).rev() {
            *i += 1;
            if *i < range.end {
                more = true;
                break;
            }
            *i = range.start;
        }
        if !more {
            self.next = None;
        }
        Some(offset)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn iota(dims: &[usize]) -> HostArray {
        let n: usize = dims.iter().product();
        let values: Vec<i32> = (0..n as i32).collect();
        HostArray::from_slice(dims, &values).unwrap()
    }

    #[test]
    fn wrong_lengths_dtypes_and_ranges_are_errors() {
        let message = |e: TensorError| e.to_string();
        let short = HostArray::from_slice(&[2, 3], &[0f32; 5]).unwrap_err();
        assert_eq!(message(short), "f32[2,3] needs 6 elements, got 5");
        assert_eq!(message(iota(&[2]).as_slice::<f32>().unwrap_err()), "an array of s32[2] was read as f32");
        assert_eq!(
            message(iota(&[2]).slice(&[1..3]).unwrap_err()),
            "the index range [1..3] does not fit s32[2]"
        );
        let mut target = iota(&[4]);
        assert!(target.write_slice(&[0..2], &iota(&[3])).is_err());
        assert!(target.write_slice(&[0..3], &iota(&[3]).cast(DType::F32)).is_err());
    }

    #[test]
    fn cast_rounds_floats_and_saturates_integers() {
        let a = HostArray::from_slice(&[4], &[1.001f32, -2.5, 300.0, f32::NAN]).unwrap();
        assert_eq!(a.cast(DType::U8).as_slice::<u8>().unwrap(), &[1, 0, 255, 0]);
        assert_eq!(a.cast(DType::Bf16).to_f64()[0], 1.0);
        assert_eq!(a.cast(DType::Pred).bytes(), &[1, 1, 1, 1]);
        assert_eq!(HostArray::scalar(7i64).cast(DType::F64).to_f64(), [7.0]);
    }

    #[test]
    fn casts_to_narrow_floats_round_once_and_to_even() {
        let check = |value: f64, to_bf16: u16, to_f16: u16| {
            let array = HostArray::scalar(value);
            let bits = |dtype| u16::from_ne_bytes(array.cast(dtype).bytes().try_into().unwrap());
            assert_eq!((bits(DType::Bf16), bits(DType::F16)), (to_bf16, to_f16), "{value:e}");
        };
        // The middle between 1 and the next bf16, and what is nearest to it in f32 and f64.
        let middle = 1.0 + f64::powi(2.0, -8);
        check(middle, 0x3f80, 0x3c04);
        check(1.0 + f64::powi(2.0, -8) + f64::powi(2.0, -23), 0x3f81, 0x3c04);
        check(middle.next_up(), 0x3f81, 0x3c04);
        check(-middle.next_up(), 0xbf81, 0xbc04);
        check(middle.next_down(), 0x3f80, 0x3c04);
        // The same for f16.
        let middle = 1.0 + f64::powi(2.0, -11);
        check(middle, 0x3f80, 0x3c00);
        check(middle.next_up(), 0x3f80, 0x3c01);
        // The ends of the ranges.
        check(0.0, 0, 0);
        check(f64::MIN_POSITIVE, 0, 0);
        check(65520.0, 0x4780, 0x7c00);
        check(65520f64.next_down(), 0x4780, 0x7bff);
        check(f64::MAX, 0x7f80, 0x7c00);
        check(f64::NEG_INFINITY, 0xff80, 0xfc00);
        assert!(HostArray::scalar(f64::NAN).cast(DType::Bf16).to_f64()[0].is_nan());
    }

    #[test]
    fn memory_begins_at_a_boundary_also_in_copies() {
        for len in [0, 1, 7, 64, 1000] {
            let array = iota(&[len]);
            let copy = array.clone();
            assert_eq!(copy, array);
            let aligned = |a: &HostArray| a.bytes().as_ptr().addr().is_multiple_of(ALIGNMENT);
            assert!(len == 0 || aligned(&array) && aligned(&copy), "{len}");
        }
    }

    fn block() -> impl Strategy<Value = (Vec<usize>, Vec<Range<usize>>)> {
        let dim =
            (0usize..5).prop_flat_map(|n| (Just(n), 0..=n)).prop_flat_map(|(n, a)| (Just(n), Just(a), a..=n));
        proptest::collection::vec(dim, 0..5)
            .prop_map(|dims| dims.into_iter().map(|(n, start, end)| (n, start..end)).unzip())
    }

    proptest! {
        #[test]
        fn blocks_hold_what_ndarray_says((dims, ranges) in block()) {
            let array = iota(&dims);
            let got = array.slice(&ranges).unwrap();
            let mut view = array.view::<i32>().unwrap();
            for (axis, r) in ranges.iter().enumerate() {
                view.slice_axis_inplace(ndarray::Axis(axis), ndarray::Slice::from(r.clone()));
            }
            prop_assert_eq!(got.view::<i32>().unwrap(), view);

            let mut copy = HostArray::zeros(array.ty().clone());
            copy.write_slice(&ranges, &got).unwrap();
            prop_assert_eq!(copy.slice(&ranges).unwrap(), got);
        }
    }
}
