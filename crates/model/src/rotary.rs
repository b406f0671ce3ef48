//! Rotary position embeddings: the angle by which each pair of a head's elements turns per position.
//!
//! Angles are worked out in f32 whatever the dtype of a model is, and only their cosines and sines are rounded: at
//! position 8191, an angle from numbers rounded to bf16 would be wrong by whole turns.

mod error;
mod written;

use std::f64::consts::TAU;

use shardwright_graph::{Graph, GraphError, Value};
use shardwright_hlo::Unary;
use shardwright_tensor::{DType, HostArray};

pub use error::RotaryError;
pub(crate) use written::{RotaryFields, by_kind};

/// How positions turn into angles.
#[derive(Clone, Debug, PartialEq)]
pub struct RotaryConfig {
    theta: f64,
    head_dim: usize,
    scaling: RotaryScaling,
}

/// How the angles are stretched for contexts longer than those of the first training.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum RotaryScaling {
    /// Not at all.
    Default,
    /// All alike.
    Linear {
        /// Every frequency is divided by this.
        factor: f64,
    },
    /// By the length of the sequence: up to the longest that the model is made for, not at all; beyond, the base grows.
    Dynamic {
        /// How much the base grows.
        factor: f64,
        /// The longest sequence that the model is made for.
        max_position_embeddings: usize,
    },
    /// By wavelength, as Llama 3.1 does: short ones stay, long ones are divided, those between are blended.
    Llama3 {
        /// What the low frequencies are divided by.
        factor: f64,
        /// Below this many turns within the original context, a frequency is low.
        low_freq_factor: f64,
        /// Above this many turns within the original context, a frequency is high and stays.
        high_freq_factor: f64,
        /// The context of the first training.
        original_max_position_embeddings: usize,
    },
    /// YaRN: by the index of the pair, blended between those of two wavelengths; queries and keys grow as well.
    Yarn {
        /// What the low frequencies are divided by.
        factor: f64,
        /// What cosines and sines are multiplied by.
        attention_factor: f64,
        /// From this many turns within the original context on, frequencies stay.
        beta_fast: f64,
        /// Up to this many turns within the original context, frequencies are divided.
        beta_slow: f64,
        /// Whether the blending starts and ends at whole pairs.
        truncate: bool,
        /// The context of the first training.
        original_max_position_embeddings: usize,
    },
}

/// Cosines and sines of the angles, `f32[position, head_dim / 2]`, times [`RotaryConfig::attention_factor`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rotation {
    /// The cosines.
    pub cos: Value,
    /// The sines.
    pub sin: Value,
}

impl RotaryConfig {
    /// The base of the frequencies, `rope_theta`.
    pub fn theta(&self) -> f64 {
        self.theta
    }

    /// How the frequencies are stretched.
    pub fn scaling(&self) -> RotaryScaling {
        self.scaling
    }

    /// What cosines and sines are multiplied by; 1 for all scalings but YaRN's.
    pub fn attention_factor(&self) -> f64 {
        match self.scaling {
            RotaryScaling::Yarn { attention_factor, .. } => attention_factor,
            _ => 1.0,
        }
    }

    /// The angle per position, in radians, of each pair of elements of a head, in sequences of so many positions;
    /// `head_dim / 2` of them.
    ///
    /// Pair `i` consists of elements `i` and `i + head_dim / 2`. Only [`RotaryScaling::Dynamic`] looks at the length.
    pub fn inverse_frequencies(&self, positions: usize) -> Vec<f64> {
        let theta = self.base(positions);
        let unscaled = (0..self.head_dim / 2).map(|i| theta.powf(-(2.0 * i as f64) / self.head_dim as f64));
        unscaled.enumerate().map(|(pair, frequency)| self.stretched(pair, frequency)).collect()
    }

    /// The base for sequences of so many positions.
    fn base(&self, positions: usize) -> f64 {
        let RotaryScaling::Dynamic { factor, max_position_embeddings } = self.scaling else {
            return self.theta;
        };
        let times = positions.max(max_position_embeddings) as f64 / max_position_embeddings as f64;
        let dim = self.head_dim as f64;
        self.theta * (factor * times - (factor - 1.0)).powf(dim / (dim - 2.0))
    }

    fn stretched(&self, pair: usize, frequency: f64) -> f64 {
        let blended = |factor: f64, kept: f64| frequency * (kept + (1.0 - kept) / factor);
        match self.scaling {
            RotaryScaling::Default | RotaryScaling::Dynamic { .. } => frequency,
            RotaryScaling::Linear { factor } => frequency / factor,
            RotaryScaling::Llama3 {
                factor,
                low_freq_factor,
                high_freq_factor,
                original_max_position_embeddings,
            } => {
                let turns = original_max_position_embeddings as f64 * frequency / TAU;
                let kept = (turns - low_freq_factor) / (high_freq_factor - low_freq_factor);
                blended(factor, kept.clamp(0.0, 1.0))
            }
            RotaryScaling::Yarn {
                factor,
                beta_fast,
                beta_slow,
                truncate,
                original_max_position_embeddings,
                ..
            } => {
                let [first, last] =
                    [beta_fast, beta_slow].map(|turns| self.pair_of(turns, original_max_position_embeddings));
                let [first, last] = if truncate { [first.floor(), last.ceil()] } else { [first, last] };
                let (first, last) = (first.max(0.0), last.min(self.head_dim as f64 - 1.0));
                // Where both are the same pair, the next one is the first to be divided in full.
                let width = if first == last { 0.001 } else { last - first };
                blended(factor, 1.0 - ((pair as f64 - first) / width).clamp(0.0, 1.0))
            }
        }
    }

    /// The pair, as a fraction, that turns so often within a context of so many positions.
    fn pair_of(&self, turns: f64, positions: usize) -> f64 {
        self.head_dim as f64 * (positions as f64 / (turns * TAU)).ln() / (2.0 * self.theta.ln())
    }
}

/// Writes the rotation of each position of sequences of so many.
///
/// # Errors
/// When there are more than can be addressed.
pub fn rotation(g: &Graph, config: &RotaryConfig, positions: usize) -> Result<Rotation, GraphError> {
    let frequencies = config.inverse_frequencies(positions);
    let frequencies: Vec<f32> = frequencies.into_iter().map(|f| f as f32).collect();
    let dims = [positions, frequencies.len()];
    let frequencies = HostArray::from_slice(&[frequencies.len()], &frequencies).expect("as long as it is");
    let frequencies = g.broadcast_in_dim(g.constant(frequencies)?, &dims, &[1])?;
    let angle = g.mul(g.iota(DType::F32, &dims, 0)?, frequencies)?;
    let factor = config.attention_factor();
    let table = |function| {
        let table = g.unary(function, angle)?;
        if factor == 1.0 { Ok(table) } else { g.scale(table, factor) }
    };
    Ok(Rotation { cos: table(Unary::Cosine)?, sin: table(Unary::Sine)? })
}
