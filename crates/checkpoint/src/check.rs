//! Whether the tensors of a file are those of a model.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use shardwright_tensor::TensorType;
use thiserror::Error;

use crate::WeightInfo;
use crate::names::Few;

/// A tensor that a model may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expected<'a> {
    name: &'a str,
    dims: &'a [usize],
    required: bool,
}

/// Everything in which the tensors of a file differ from those of a model.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub struct Mismatch {
    /// How many tensors the model needs.
    pub needed: usize,
    /// How many tensors there are.
    pub found: usize,
    /// Tensors of the model that are not there.
    pub missing: Vec<String>,
    /// Tensors that are there and that the model does not have.
    pub unexpected: Vec<String>,
    /// Tensors of the model that are there with another shape or without being floats.
    pub misfits: Vec<Misfit>,
}

/// A tensor that does not have the type that the model needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Misfit {
    /// The tensor.
    pub name: String,
    /// Its type in the file.
    pub found: TensorType,
    /// Its dims by the configuration of the model.
    pub expected: Vec<usize>,
}

impl<'a> Expected<'a> {
    /// A tensor that the model needs.
    pub fn required(name: &'a str, dims: &'a [usize]) -> Expected<'a> {
        Expected { name, dims, required: true }
    }

    /// A tensor that the model can do without, such as the output table of a model that ties it to the input table.
    pub fn optional(name: &'a str, dims: &'a [usize]) -> Expected<'a> {
        Expected { name, dims, required: false }
    }
}

pub(crate) fn compare<'a, 'b>(
    found: impl ExactSizeIterator<Item = WeightInfo<'a>>,
    expected: impl IntoIterator<Item = Expected<'b>>,
) -> Result<(), Mismatch> {
    let count = found.len();
    let mut left: BTreeMap<&str, &TensorType> =
        found.filter(|info| !is_buffer(info.name)).map(|info| (info.name, info.ty)).collect();
    let mut mismatch = Mismatch {
        needed: 0,
        found: count,
        missing: Vec::new(),
        unexpected: Vec::new(),
        misfits: Vec::new(),
    };
    for Expected { name, dims, required } in expected {
        mismatch.needed += usize::from(required);
        match left.remove(name) {
            Some(ty) if ty.dims() == dims && ty.dtype.is_float() => {}
            Some(ty) => mismatch.misfits.push(Misfit {
                name: name.to_owned(),
                found: ty.clone(),
                expected: dims.to_vec(),
            }),
            None if required => mismatch.missing.push(name.to_owned()),
            None => {}
        }
    }
    mismatch.unexpected = left.into_keys().map(str::to_owned).collect();
    let fits = mismatch.missing.is_empty() && mismatch.unexpected.is_empty() && mismatch.misfits.is_empty();
    if fits { Ok(()) } else { Err(mismatch) }
}

/// Whether old versions of `transformers` saved this among the weights although it is computed.
fn is_buffer(name: &str) -> bool {
    name.ends_with("rotary_emb.inv_freq")
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Mismatch { needed, found, missing, unexpected, misfits } = self;
        write!(f, "the weights are not those of the model ({needed} tensors needed, {found} found)")?;
        if !missing.is_empty() {
            write!(f, "\n  {} missing: {}", missing.len(), Few(missing))?;
        }
        if !unexpected.is_empty() {
            write!(f, "\n  {} unexpected: {}", unexpected.len(), Few(unexpected))?;
        }
        if !misfits.is_empty() {
            write!(f, "\n  {} of another type: {}", misfits.len(), Few(misfits))?;
        }
        self.hints().iter().try_for_each(|hint| write!(f, "\n  {hint}"))
    }
}

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Misfit { name, found, expected } = self;
        if found.dtype.is_float() {
            let expected: Vec<String> = expected.iter().map(usize::to_string).collect();
            let expected = expected.join(",");
            write!(f, "{name} ({} in the file, [{expected}] by the configuration)", found.shape)
        } else {
            write!(f, "{name} ({found} in the file, not a float)")
        }
    }
}

impl Mismatch {
    /// Settings of the configuration that would explain the difference.
    fn hints(&self) -> Vec<String> {
        let mut hints = Vec::new();
        for (block, flag) in [(".mlp.", "mlp_bias"), (".self_attn.", "attention_bias")] {
            let is_bias = |name: &String| name.contains(block) && name.ends_with(".bias");
            if self.unexpected.iter().any(is_bias) {
                hints.push(format!("the file has biases: does \"{flag}\": true belong into config.json?"));
            }
            if self.missing.iter().any(is_bias) {
                hints.push(format!("the file has no biases: config.json says \"{flag}\": true"));
            }
        }
        if self.missing == ["lm_head.weight"] {
            hints.push("does \"tie_word_embeddings\": true belong into config.json?".to_owned());
        }
        let vocabulary_sizes: BTreeSet<_> = self.misfits.iter().filter_map(vocabulary_sizes).collect();
        for (rows, vocab_size) in vocabulary_sizes {
            hints.push(format!("the tables have {rows} rows: config.json says \"vocab_size\": {vocab_size}"));
        }
        hints
    }
}

/// The rows in the file and by the configuration, where only those of a token table differ.
fn vocabulary_sizes(misfit: &Misfit) -> Option<(usize, usize)> {
    let is_table = misfit.name.ends_with("embed_tokens.weight") || misfit.name.ends_with("lm_head.weight");
    match (misfit.found.dims(), misfit.expected.as_slice()) {
        (&[rows, width], &[vocab_size, hidden]) if is_table && width == hidden && rows != vocab_size => {
            Some((rows, vocab_size))
        }
        _ => None,
    }
}
