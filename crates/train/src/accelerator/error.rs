use shardwright_tensor::TensorType;
use thiserror::Error;

/// Why parts that were prepared make no step, or a batch does not fit it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PrepareError {
    /// A part that was not prepared.
    #[error("{method} needs {part}, and none was prepared: give it to prepare first")]
    Missing {
        /// The part.
        part: &'static str,
        /// What needs it.
        method: &'static str,
    },
    /// A second part of a kind.
    #[error(
        "another {part} was prepared before: an accelerator has one, so make a second accelerator for this one"
    )]
    Another {
        /// The kind.
        part: &'static str,
    },
    /// A loader of other micro-batches than the step has.
    #[error(
        "the loader's batches are of {given} micro-batches, and gradient_accumulation_steps is {expected}: give both the same number"
    )]
    Accumulation {
        /// Micro-batches of the loader's batches.
        given: usize,
        /// Those of the step.
        expected: usize,
    },
    /// A batch of other arrays than the model takes.
    #[error("arrays in the batch: {given}; the model takes {}: {}", .expected.len(), .expected.join(", "))]
    BatchCount {
        /// Arrays of the batch.
        given: usize,
        /// The names of those that the model takes.
        expected: Vec<&'static str>,
    },
    /// An array of a batch that is not what the model takes.
    #[error(
        "{name} of the batch is {given}, and the model takes {expected} in a batch of {examples} examples"
    )]
    BatchArray {
        /// The array.
        name: &'static str,
        /// Its type.
        given: TensorType,
        /// The type that it should have.
        expected: TensorType,
        /// Examples of the batch, by its first array.
        examples: usize,
    },
    /// A batch of another size than the program is for.
    #[error(
        "{name} of the batch is {given}, and the program was compiled for {expected} with the first batch: fill short batches up with examples that count nothing, or leave them out"
    )]
    BatchSize {
        /// The array.
        name: &'static str,
        /// Its type.
        given: TensorType,
        /// The type that the program takes.
        expected: TensorType,
    },
    /// Batches in which nothing counts.
    #[error("there is nothing to evaluate: no batches were given, or nothing in them counts")]
    NothingEvaluated,
    /// Parameters that are not there yet.
    #[error("there is nothing to save: weights are made with the first batch of step or evaluate")]
    NothingToSave,
    /// Parameters that are not there any more.
    #[error("the parameters were given to a step that failed, and are gone: make a new accelerator")]
    StateLost,
}
