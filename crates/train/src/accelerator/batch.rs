//! Batches as a step takes them.

use shardwright_data::Batch;
use shardwright_tensor::HostArray;

use super::PrepareError;
use crate::{Model, TrainError};

/// A batch as the arrays of it, in the order in which the [model](Model::batch) takes them.
pub trait BatchArrays {
    /// The arrays.
    fn arrays(&self) -> Vec<&HostArray>;
}

/// `input_ids` and `labels`.
impl BatchArrays for Batch {
    fn arrays(&self) -> Vec<&HostArray> {
        vec![&self.input_ids, &self.labels]
    }
}

impl BatchArrays for Vec<HostArray> {
    fn arrays(&self) -> Vec<&HostArray> {
        self.iter().collect()
    }
}

impl<const N: usize> BatchArrays for [HostArray; N] {
    fn arrays(&self) -> Vec<&HostArray> {
        self.iter().collect()
    }
}

/// Checks that arrays are what a model takes, and gives the number of examples; `compiled` is that of the program if
/// there is one.
pub(super) fn check(
    model: &dyn Model,
    arrays: &[&HostArray],
    compiled: Option<usize>,
) -> Result<usize, TrainError> {
    let first = arrays.first().and_then(|array| array.dims().first().copied());
    let examples = first.unwrap_or(1);
    let inputs = model.batch(examples)?;
    if inputs.len() != arrays.len() {
        let expected = inputs.iter().map(|input| input.name).collect();
        return Err(PrepareError::BatchCount { given: arrays.len(), expected }.into());
    }
    for (input, array) in inputs.iter().zip(arrays) {
        if input.ty != *array.ty() {
            let (name, given, expected) = (input.name, array.ty().clone(), input.ty.clone());
            return Err(PrepareError::BatchArray { name, given, expected, examples }.into());
        }
    }
    if let Some(compiled) = compiled.filter(|compiled| *compiled != examples)
        && let Some(expected) = model.batch(compiled)?.into_iter().next()
    {
        let (name, given) = (expected.name, arrays[0].ty().clone());
        return Err(PrepareError::BatchSize { name, given, expected: expected.ty }.into());
    }
    Ok(examples)
}
