//! The dtypes of cotangents. They are those of the values that they belong to, but for weights.
//!
//! A weight in bf16 is gathered in bf16, and its gradient may still be summed over the devices in f32: from the use of the
//! weight on, all the way back to the shard that it was gathered from, cotangents are of the dtype of the
//! [reduction](Graph::reducing_in). At the shard itself they are f32, as updates are.
//!
//! ```text
//! shard f32 ── convert ── bf16 ── gather ── bf16 ── weight ── bf16 ── use
//!       f32 ◄────────────  f32 ◄─ scatter ─  f32 ◄──────────   f32 ◄── a product that gives f32, or a conversion
//! ```

use shardwright_hlo::ValueId;
use shardwright_tensor::{DType, TensorType};

use crate::Graph;

impl Graph {
    /// The type of what arrives at a value in the reverse pass.
    pub(crate) fn cotangent_ty(&self, x: ValueId) -> TensorType {
        let ty = self.ty(x);
        let dtype = self.cotangent_dtypes.borrow().get(&x).copied().unwrap_or(ty.dtype);
        TensorType { dtype, ..ty }
    }

    /// A value on the way from what is stored to its use as a weight.
    pub(crate) fn reduces(&self, x: ValueId) {
        if let Some(dtype) = self.reduction {
            self.cotangent_dtypes.borrow_mut().insert(x, dtype);
        }
    }

    /// A value that may be used as a weight, before anything is made of it for that.
    pub(crate) fn is_stored(&self, x: ValueId) {
        if self.reduction.is_some() {
            self.cotangent_dtypes.borrow_mut().entry(x).or_insert(DType::F32);
        }
    }

    /// `copy` stands for `original`.
    pub(crate) fn same_cotangent_dtype(&self, original: ValueId, copy: ValueId) {
        let mut dtypes = self.cotangent_dtypes.borrow_mut();
        if let Some(&dtype) = dtypes.get(&original) {
            dtypes.insert(copy, dtype);
        }
    }
}
