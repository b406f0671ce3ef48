//! What an array holds, in a few numbers.

use serde::Serialize;
use shardwright_tensor::HostArray;

/// Smallest, largest and mean element, and how many are no numbers; those are left out of the others.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(in super::super) struct Summary {
    /// `None` where there is no number.
    pub(in super::super) min: Option<f64>,
    pub(in super::super) max: Option<f64>,
    pub(in super::super) mean: Option<f64>,
    pub(in super::super) nan: usize,
}

impl Summary {
    pub(in super::super) fn of(array: &HostArray) -> Summary {
        let values = array.to_f64();
        let numbers = || values.iter().copied().filter(|value| !value.is_nan());
        let count = numbers().count();
        Summary {
            min: numbers().reduce(f64::min),
            max: numbers().reduce(f64::max),
            mean: (count > 0).then(|| numbers().sum::<f64>() / count as f64),
            nan: values.len() - count,
        }
    }
}
