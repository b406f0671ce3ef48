//! Rotary position embeddings: the angle by which each pair of a head's elements turns per position.

use std::f64::consts::TAU;

use serde_json::{Map, Value};
use thiserror::Error;

/// The default of `rope_theta`.
const DEFAULT_THETA: f64 = 10_000.0;
const SUPPORTED: &str = "default, linear, llama3";

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
}

/// Why a rotary setting cannot be followed. The field is `rope_scaling` or `rope_parameters`.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RotaryError {
    /// A type that is not implemented.
    #[error("{field}: type {found:?} is not supported; supported are {SUPPORTED}")]
    Type {
        /// The field of the configuration.
        field: &'static str,
        /// The type it names.
        found: String,
    },
    /// No type where one is needed.
    #[error("{field} names no rope_type; supported are {SUPPORTED}")]
    NoType {
        /// The field of the configuration.
        field: &'static str,
    },
    /// A member that the type needs is missing.
    #[error("{field} of type {ty} needs {member}")]
    Missing {
        /// The field of the configuration.
        field: &'static str,
        /// The type it names.
        ty: String,
        /// What is missing.
        member: &'static str,
    },
    /// A member that has no meaning for the type.
    #[error("{field} of type {ty} has no use for {member}; supported are {SUPPORTED}")]
    Unused {
        /// The field of the configuration.
        field: &'static str,
        /// The type it names.
        ty: String,
        /// The member.
        member: String,
    },
    /// A number outside its range.
    #[error("{field}.{member} is {found}, but must be {needed}")]
    Value {
        /// The field of the configuration.
        field: &'static str,
        /// The member.
        member: &'static str,
        /// Its value.
        found: String,
        /// What is possible.
        needed: String,
    },
    /// A base from which no frequencies follow.
    #[error("rope_theta is {found}, but must be at least 1")]
    Theta {
        /// Its value.
        found: String,
    },
    /// Two settings for one thing.
    #[error("{first} and {second} say different things; keep one of them")]
    Conflict {
        /// One of the fields.
        first: &'static str,
        /// The other one.
        second: &'static str,
    },
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

    /// The angle per position, in radians, of each pair of elements of a head; `head_dim / 2` of them.
    ///
    /// Pair `i` consists of elements `i` and `i + head_dim / 2`.
    pub fn inverse_frequencies(&self) -> Vec<f64> {
        let unscaled =
            (0..self.head_dim / 2).map(|i| self.theta.powf(-(2.0 * i as f64) / self.head_dim as f64));
        unscaled.map(|frequency| self.scaling.apply(frequency)).collect()
    }

    /// What the fields of a configuration mean together. `rope_parameters` is the newer name of `rope_scaling`, and
    /// holds the base too.
    pub(crate) fn from_fields(
        theta: Option<f64>,
        rope_scaling: Option<&Map<String, Value>>,
        rope_parameters: Option<&Map<String, Value>>,
        head_dim: usize,
    ) -> Result<RotaryConfig, RotaryError> {
        let read = |field, map: Option<&Map<String, Value>>| map.map(|map| Written { field, map }.meaning());
        let scaling = read("rope_scaling", rope_scaling).transpose()?;
        let parameters = read("rope_parameters", rope_parameters).transpose()?;
        let inner_theta = one_of(
            ("rope_scaling.rope_theta", scaling.and_then(|(theta, _)| theta)),
            ("rope_parameters.rope_theta", parameters.and_then(|(theta, _)| theta)),
        )?;
        let theta = one_of(("rope_theta", theta), ("rope_parameters.rope_theta", inner_theta))?;
        let scaling = one_of(
            ("rope_scaling", scaling.map(|(_, scaling)| scaling)),
            ("rope_parameters", parameters.map(|(_, scaling)| scaling)),
        )?;
        let theta = theta.unwrap_or(DEFAULT_THETA);
        if !(theta.is_finite() && theta >= 1.0) {
            return Err(RotaryError::Theta { found: theta.to_string() });
        }
        Ok(RotaryConfig { theta, head_dim, scaling: scaling.unwrap_or(RotaryScaling::Default) })
    }
}

impl RotaryScaling {
    fn apply(self, frequency: f64) -> f64 {
        match self {
            RotaryScaling::Default => frequency,
            RotaryScaling::Linear { factor } => frequency / factor,
            RotaryScaling::Llama3 {
                factor,
                low_freq_factor,
                high_freq_factor,
                original_max_position_embeddings,
            } => {
                let turns = original_max_position_embeddings as f64 * frequency / TAU;
                // 0 for low frequencies, 1 for high ones.
                let kept = ((turns - low_freq_factor) / (high_freq_factor - low_freq_factor)).clamp(0.0, 1.0);
                frequency * (kept + (1.0 - kept) / factor)
            }
        }
    }
}

/// The value of one setting that has two names.
fn one_of<T: PartialEq + Copy>(
    (first, a): (&'static str, Option<T>),
    (second, b): (&'static str, Option<T>),
) -> Result<Option<T>, RotaryError> {
    match (a, b) {
        (Some(a), Some(b)) if a != b => Err(RotaryError::Conflict { first, second }),
        (a, b) => Ok(a.or(b)),
    }
}

/// A rotary setting as it is written.
struct Written<'a> {
    field: &'static str,
    map: &'a Map<String, Value>,
}

impl Written<'_> {
    /// The base, where it is given here, and the scaling.
    fn meaning(&self) -> Result<(Option<f64>, RotaryScaling), RotaryError> {
        let theta = self.get("rope_theta").map(|_| self.number("default", "rope_theta", 1.0)).transpose()?;
        let ty = self.ty()?;
        let scaling = match ty.as_str() {
            "default" => RotaryScaling::Default,
            "linear" => RotaryScaling::Linear { factor: self.number(&ty, "factor", 1.0)? },
            "llama3" => self.llama3(&ty)?,
            _ => return Err(RotaryError::Type { field: self.field, found: ty }),
        };
        let used: &[&str] = match scaling {
            RotaryScaling::Default => &[],
            RotaryScaling::Linear { .. } => &["factor"],
            RotaryScaling::Llama3 { .. } => {
                &["factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"]
            }
        };
        let common = ["type", "rope_type", "rope_theta"];
        let is_used = |key: &str| common.contains(&key) || used.contains(&key);
        // The whole head turns here; a fraction of 1 says just that.
        let is_neutral = |key: &str, value: &Value| {
            value.is_null() || key == "partial_rotary_factor" && value.as_f64() == Some(1.0)
        };
        match self.map.iter().find(|(key, value)| !is_used(key) && !is_neutral(key, value)) {
            Some((member, _)) => Err(RotaryError::Unused { field: self.field, ty, member: member.clone() }),
            None => Ok((theta, scaling)),
        }
    }

    /// The type. A setting that gives nothing but the base is of the default type.
    fn ty(&self) -> Result<String, RotaryError> {
        let (new, old) = (self.get("rope_type"), self.get("type"));
        if new.is_some() && old.is_some() && new != old {
            return Err(RotaryError::Conflict { first: "rope_type", second: "type" });
        }
        match new.or(old) {
            Some(Value::String(ty)) => Ok(ty.clone()),
            Some(other) => Err(RotaryError::Type { field: self.field, found: other.to_string() }),
            None if self.map.iter().all(|(key, value)| key == "rope_theta" || value.is_null()) => {
                Ok("default".to_owned())
            }
            None => Err(RotaryError::NoType { field: self.field }),
        }
    }

    fn llama3(&self, ty: &str) -> Result<RotaryScaling, RotaryError> {
        let member = "original_max_position_embeddings";
        let original = self.number(ty, member, 1.0)?;
        let low_freq_factor = self.number(ty, "low_freq_factor", f64::MIN_POSITIVE)?;
        let high_freq_factor = self.number(ty, "high_freq_factor", f64::MIN_POSITIVE)?;
        if low_freq_factor >= high_freq_factor {
            let needed = format!("more than low_freq_factor, which is {low_freq_factor}");
            return Err(self.value("high_freq_factor", needed));
        }
        if original.fract() != 0.0 || original > u32::MAX.into() {
            return Err(self.value(member, "a number of positions".to_owned()));
        }
        Ok(RotaryScaling::Llama3 {
            factor: self.number(ty, "factor", 1.0)?,
            low_freq_factor,
            high_freq_factor,
            original_max_position_embeddings: original as usize,
        })
    }

    fn number(&self, ty: &str, member: &'static str, least: f64) -> Result<f64, RotaryError> {
        let missing = || RotaryError::Missing { field: self.field, ty: ty.to_owned(), member };
        let number = self.get(member).ok_or_else(missing)?.as_f64();
        let needed = || if least < 1.0 { "more than 0".to_owned() } else { format!("at least {least}") };
        number.filter(|n| *n >= least).ok_or_else(|| self.value(member, needed()))
    }

    fn value(&self, member: &'static str, needed: String) -> RotaryError {
        let found = self.get(member).map(Value::to_string).unwrap_or_default();
        RotaryError::Value { field: self.field, member, found, needed }
    }

    fn get(&self, member: &str) -> Option<&Value> {
        self.map.get(member).filter(|value| !value.is_null())
    }
}
