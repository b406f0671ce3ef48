use std::fmt;

use serde::{Deserialize, Serialize};
use shardwright_pjrt_sys::{self as sys, Struct};

use crate::api::{slice, string};

/// A value that goes by a name: an option that a plugin takes, or an attribute that it reports.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum NamedValue {
    /// A text.
    String(String),
    /// An integer.
    I64(i64),
    /// A list of integers.
    I64List(Vec<i64>),
    /// A number.
    F32(f32),
    /// A truth value.
    Bool(bool),
}

/// Names and values, sorted by name: plugins report them in an order that differs from call to call.
pub type Attributes = Vec<(String, NamedValue)>;

macro_rules! from {
    ($($ty:ty => $variant:ident),*) => {
        $(impl From<$ty> for NamedValue {
            fn from(value: $ty) -> NamedValue {
                NamedValue::$variant(value.into())
            }
        })*
    };
}

from! { &str => String, String => String, i64 => I64, Vec<i64> => I64List, f32 => F32, bool => Bool }

impl fmt::Display for NamedValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NamedValue::String(value) => f.write_str(value),
            NamedValue::I64(value) => value.fmt(f),
            NamedValue::I64List(values) => write!(f, "{values:?}"),
            NamedValue::F32(value) => value.fmt(f),
            NamedValue::Bool(value) => value.fmt(f),
        }
    }
}

/// The C form of `values`, which borrows from them.
pub(crate) fn to_raw(values: &[(String, NamedValue)]) -> Vec<sys::PJRT_NamedValue> {
    type Value = sys::PJRT_NamedValue__bindgen_ty_1;
    let raw = |(name, value): &(String, NamedValue)| {
        let (type_, value, value_size) = match value {
            NamedValue::String(text) => {
                (sys::PJRT_NamedValue_kString, Value { string_value: text.as_ptr().cast() }, text.len())
            }
            NamedValue::I64List(list) => {
                (sys::PJRT_NamedValue_kInt64List, Value { int64_array_value: list.as_ptr() }, list.len())
            }
            NamedValue::I64(value) => (sys::PJRT_NamedValue_kInt64, Value { int64_value: *value }, 1),
            NamedValue::F32(value) => (sys::PJRT_NamedValue_kFloat, Value { float_value: *value }, 1),
            NamedValue::Bool(value) => (sys::PJRT_NamedValue_kBool, Value { bool_value: *value }, 1),
        };
        sys::PJRT_NamedValue {
            name: name.as_ptr().cast(),
            name_size: name.len(),
            type_,
            __bindgen_anon_1: value,
            value_size,
            ..Struct::new()
        }
    };
    values.iter().map(raw).collect()
}

/// Copies what a plugin reports; values of a type that this library does not know are left out.
///
/// # Safety
///
/// `values` is null or points to `len` well-formed named values.
pub(crate) unsafe fn from_raw(values: *const sys::PJRT_NamedValue, len: usize) -> Attributes {
    let copy = |raw: &sys::PJRT_NamedValue| {
        let value = &raw.__bindgen_anon_1;
        // SAFETY: the type says which field of the union is filled in, and the size how much a pointer points to.
        let (name, value) = unsafe {
            let value = match raw.type_ {
                sys::PJRT_NamedValue_kString => {
                    NamedValue::String(string(value.string_value, raw.value_size))
                }
                sys::PJRT_NamedValue_kInt64List => {
                    NamedValue::I64List(slice(value.int64_array_value, raw.value_size).to_vec())
                }
                sys::PJRT_NamedValue_kInt64 => NamedValue::I64(value.int64_value),
                sys::PJRT_NamedValue_kFloat => NamedValue::F32(value.float_value),
                sys::PJRT_NamedValue_kBool => NamedValue::Bool(value.bool_value),
                _ => return None,
            };
            (string(raw.name, raw.name_size), value)
        };
        Some((name, value))
    };
    // SAFETY: the caller's contract.
    let mut values: Attributes = unsafe { slice(values, len) }.iter().filter_map(copy).collect();
    values.sort_by(|(a, _), (b, _)| a.cmp(b));
    values
}
