//! The dtypes of a run: what weights are kept in, computed in and saved in.
//!
//! | what | dtype |
//! | --- | --- |
//! | a weight that is trained, between steps | f32; with `masters` off, `weights` |
//! | a weight that is not | `weights` |
//! | what is gathered, activations and their gradients | `compute` |
//! | the gradient of a weight, where devices sum it | `reduce` |
//! | loss, norms, softmax, long sums, gradient norm, update, optimizer state | f32 |
//! | the saved model | `weights` |

use shardwright_tensor::DType;
use thiserror::Error;

/// The dtypes of a run. Loss, norms, sums and optimizer state are f32 in all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrecisionConfig {
    /// What weights are saved in and, without `masters`, kept in.
    pub weights: DType,
    /// What they are converted to before they are gathered, and layers compute in.
    pub compute: DType,
    /// What gradients are summed over devices in.
    pub reduce: DType,
    /// Whether weights are kept in f32 while training.
    pub masters: bool,
}

/// A dtype that models are not trained in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PrecisionError {
    /// It needs what is not done here.
    #[error(
        "{what} in f16: its numbers end at 65504 and gradients vanish in it unless the loss is scaled, which is not done here; use bf16, which has the range of f32"
    )]
    Float16 {
        /// What was to be in it.
        what: &'static str,
    },
    /// It is no dtype for that.
    #[error("{what} in {dtype}: models are trained in f32 and bf16")]
    NotTrained {
        /// What was to be in it.
        what: &'static str,
        /// The dtype.
        dtype: DType,
    },
}

impl Default for PrecisionConfig {
    /// All f32.
    fn default() -> Self {
        PrecisionConfig { weights: DType::F32, compute: DType::F32, reduce: DType::F32, masters: true }
    }
}

impl PrecisionConfig {
    /// Whether models are trained in these dtypes.
    ///
    /// # Errors
    /// When one of them is neither f32 nor bf16.
    pub fn check(&self) -> Result<(), PrecisionError> {
        let dtypes = [("weights", self.weights), ("computing", self.compute), ("reductions", self.reduce)];
        for (what, dtype) in dtypes {
            match dtype {
                DType::F32 | DType::Bf16 => {}
                DType::F16 => return Err(PrecisionError::Float16 { what }),
                dtype => return Err(PrecisionError::NotTrained { what, dtype }),
            }
        }
        Ok(())
    }

    /// What a weight is kept in between steps. One that is not trained loses nothing in what it is saved in.
    pub fn kept(&self, trained: bool) -> DType {
        if trained && self.masters { DType::F32 } else { self.weights }
    }

    /// What is to be known before training so.
    pub fn warning(&self) -> Option<String> {
        let kept = self.kept(true);
        (kept != DType::F32).then(|| {
            format!(
                "weights are kept in {kept} and rounded after each update: an update below 1/512 of its weight may change nothing; master weights in f32 keep it"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    #[track_caller]
    fn check(precision: PrecisionConfig, expect: Expect) {
        let text = match precision.check() {
            Ok(()) => precision.warning().unwrap_or_else(|| "nothing to say".into()),
            Err(e) => e.to_string(),
        };
        expect.assert_eq(&text);
    }

    #[test]
    fn what_is_said_of_dtypes() {
        let f32 = PrecisionConfig::default();
        check(f32, expect!["nothing to say"]);
        let bf16 = DType::Bf16;
        check(
            PrecisionConfig { weights: bf16, compute: bf16, reduce: bf16, masters: true },
            expect!["nothing to say"],
        );
        check(PrecisionConfig { masters: false, ..f32 }, expect!["nothing to say"]);
        check(
            PrecisionConfig { weights: bf16, masters: false, ..f32 },
            expect![
                "weights are kept in bf16 and rounded after each update: an update below 1/512 of its weight may change nothing; master weights in f32 keep it"
            ],
        );
        check(
            PrecisionConfig { compute: DType::F16, ..f32 },
            expect![
                "computing in f16: its numbers end at 65504 and gradients vanish in it unless the loss is scaled, which is not done here; use bf16, which has the range of f32"
            ],
        );
        check(
            PrecisionConfig { reduce: DType::S32, ..f32 },
            expect!["reductions in s32: models are trained in f32 and bf16"],
        );
    }

    #[test]
    fn what_is_not_trained_is_kept_as_it_is_saved() {
        let mixed = PrecisionConfig { weights: DType::Bf16, ..PrecisionConfig::default() };
        assert_eq!([true, false].map(|trained| mixed.kept(trained)), [DType::F32, DType::Bf16]);
    }
}
