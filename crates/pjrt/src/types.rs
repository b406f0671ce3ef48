//! Element types and dims as PJRT writes them.

use shardwright_pjrt_sys as sys;
use shardwright_tensor::{DType, TensorType};

use crate::error::{Error, ErrorKind};

pub(crate) fn to_raw(dtype: DType) -> sys::PJRT_Buffer_Type {
    match dtype {
        DType::Pred => sys::PJRT_Buffer_Type_PRED,
        DType::S8 => sys::PJRT_Buffer_Type_S8,
        DType::S16 => sys::PJRT_Buffer_Type_S16,
        DType::S32 => sys::PJRT_Buffer_Type_S32,
        DType::S64 => sys::PJRT_Buffer_Type_S64,
        DType::U8 => sys::PJRT_Buffer_Type_U8,
        DType::U16 => sys::PJRT_Buffer_Type_U16,
        DType::U32 => sys::PJRT_Buffer_Type_U32,
        DType::U64 => sys::PJRT_Buffer_Type_U64,
        DType::F16 => sys::PJRT_Buffer_Type_F16,
        DType::Bf16 => sys::PJRT_Buffer_Type_BF16,
        DType::F32 => sys::PJRT_Buffer_Type_F32,
        DType::F64 => sys::PJRT_Buffer_Type_F64,
    }
}

/// The type with PJRT's element type and dims; `what` names it in the error.
pub(crate) fn from_raw(what: &str, ty: sys::PJRT_Buffer_Type, dims: &[i64]) -> Result<TensorType, Error> {
    let dtype = DType::ALL.into_iter().find(|&dtype| to_raw(dtype) == ty);
    let dtype = dtype.ok_or_else(|| {
        Error::new(
            ErrorKind::Unsupported,
            what,
            format!("its element type, number {ty} of PJRT, has no dtype"),
        )
    })?;
    tensor_type(what, dtype, dims)
}

/// The type with dims that come from a plugin, where they are signed and unchecked.
pub(crate) fn tensor_type(what: &str, dtype: DType, dims: &[i64]) -> Result<TensorType, Error> {
    let unsigned: Option<Vec<usize>> = dims.iter().map(|&dim| dim.try_into().ok()).collect();
    unsigned
        .and_then(|dims| TensorType::new(dtype, dims).ok())
        .ok_or_else(|| Error::new(ErrorKind::Unsupported, what, format!("its dims are {dims:?}")))
}

/// Dims for a call. They fit: a shape can be addressed.
pub(crate) fn raw_dims(ty: &TensorType) -> Vec<i64> {
    ty.dims().iter().map(|&dim| dim as i64).collect()
}
