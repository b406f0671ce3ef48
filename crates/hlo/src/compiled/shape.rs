//! What instructions of an optimized program give, on one device.

use std::fmt;

use super::proto;

/// The result of an instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CompiledShape {
    /// One array; anything that holds no data, such as a token, is an array without bytes.
    Array(CompiledArray),
    /// Several results.
    Tuple(Vec<CompiledShape>),
}

/// An array on one device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompiledArray {
    /// What its elements are.
    pub element_type: ElementType,
    /// Its sizes.
    pub dims: Vec<u64>,
    /// In which of a device's memories it is; 0 is the one that arguments and results are in.
    pub memory_space: i64,
}

/// A `PrimitiveType` of `xla_data.proto`, which has more of them than there are dtypes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ElementType(pub i32);

impl CompiledShape {
    pub(super) fn read(shape: &proto::Shape) -> CompiledShape {
        const TUPLE: i32 = 13;
        if shape.element_type == TUPLE || !shape.tuple_shapes.is_empty() {
            return CompiledShape::Tuple(shape.tuple_shapes.iter().map(CompiledShape::read).collect());
        }
        CompiledShape::Array(CompiledArray {
            element_type: ElementType(shape.element_type),
            dims: shape.dimensions.iter().map(|&size| u64::try_from(size).unwrap_or(0)).collect(),
            memory_space: shape.layout.as_ref().map_or(0, |layout| layout.memory_space),
        })
    }

    /// Its arrays, those inside tuples too, in order.
    pub fn arrays(&self) -> Vec<&CompiledArray> {
        let mut arrays = Vec::new();
        self.collect_arrays(&mut arrays);
        arrays
    }

    fn collect_arrays<'a>(&'a self, arrays: &mut Vec<&'a CompiledArray>) {
        match self {
            CompiledShape::Array(array) => arrays.push(array),
            CompiledShape::Tuple(parts) => parts.iter().for_each(|part| part.collect_arrays(arrays)),
        }
    }

    /// The array that it is, if it is one.
    pub fn array(&self) -> Option<&CompiledArray> {
        match self {
            CompiledShape::Array(array) => Some(array),
            CompiledShape::Tuple(_) => None,
        }
    }

    /// Part `index` of a tuple.
    pub fn part(&self, index: usize) -> Option<&CompiledShape> {
        match self {
            CompiledShape::Array(_) => None,
            CompiledShape::Tuple(parts) => parts.get(index),
        }
    }

    /// Bytes of all arrays, those of unknown element types left out; at most `u64::MAX`.
    pub fn bytes(&self) -> u64 {
        match self {
            CompiledShape::Array(array) => array.bytes(),
            CompiledShape::Tuple(parts) => parts.iter().fold(0, |sum, part| sum.saturating_add(part.bytes())),
        }
    }
}

impl CompiledArray {
    /// How many elements it has; at most `u64::MAX`.
    pub fn elements(&self) -> u64 {
        self.dims.iter().copied().fold(1, u64::saturating_mul)
    }

    /// How many bytes it has, elements of less than a byte packed; 0 if the element type is not known.
    pub fn bytes(&self) -> u64 {
        let bits = u128::from(self.element_type.bits().unwrap_or(0));
        u64::try_from((u128::from(self.elements()) * bits).div_ceil(8)).unwrap_or(u64::MAX)
    }
}

impl ElementType {
    /// The size of an element, if the type is known.
    pub fn bits(self) -> Option<u64> {
        Some(match self.0 {
            // A shape that is left out, tuples, opaque values and tokens.
            0 | 13 | 14 | 17 => 0,
            // s1, u1
            30 | 31 => 1,
            // s2, u2
            26 | 27 => 2,
            // s4, u4, f4e2m1fn
            21 | 22 | 32 => 4,
            // pred, s8, u8, and floats of 8 bits
            1 | 2 | 6 | 19 | 20 | 23..=25 | 28 | 29 | 33 => 8,
            // s16, u16, f16, bf16
            3 | 7 | 10 | 16 => 16,
            // s32, u32, f32
            4 | 8 | 11 => 32,
            // s64, u64, f64, c64
            5 | 9 | 12 | 15 => 64,
            // c128
            18 => 128,
            _ => return None,
        })
    }

    /// HLO's name, for the types in common use.
    fn name(self) -> Option<&'static str> {
        Some(match self.0 {
            1 => "pred",
            2 => "s8",
            3 => "s16",
            4 => "s32",
            5 => "s64",
            6 => "u8",
            7 => "u16",
            8 => "u32",
            9 => "u64",
            10 => "f16",
            11 => "f32",
            12 => "f64",
            14 => "opaque",
            15 => "c64",
            16 => "bf16",
            17 => "token",
            18 => "c128",
            19 => "f8e5m2",
            20 => "f8e4m3fn",
            21 => "s4",
            22 => "u4",
            _ => return None,
        })
    }
}

/// As HLO spells it: `f32[2,3]`.
impl fmt::Display for CompiledArray {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dims: Vec<String> = self.dims.iter().map(u64::to_string).collect();
        write!(f, "{}[{}]", self.element_type, dims.join(","))
    }
}

/// HLO's name, or the number of a type that is not in common use.
impl fmt::Display for ElementType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "type {}", self.0),
        }
    }
}
