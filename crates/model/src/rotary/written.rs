//! Rotary settings as configurations write them.

use serde_json::{Map, Value};

use super::{RotaryConfig, RotaryError, RotaryScaling};

/// Type names, and the base, which stand in settings of any type.
const COMMON: [&str; 3] = ["type", "rope_type", "rope_theta"];

/// The fields of a configuration that say how positions turn into angles.
pub(crate) struct RotaryFields<'a> {
    /// The field that holds the base, and its value.
    pub(crate) theta: (&'static str, Option<f64>),
    /// The base if none is given.
    pub(crate) default_theta: f64,
    /// `rope_scaling`.
    pub(crate) scaling: Option<&'a Map<String, Value>>,
    /// `rope_parameters` or a part of it: the newer form of `rope_scaling`, which holds the base too.
    pub(crate) parameters: (&'static str, Option<&'a Map<String, Value>>),
    pub(crate) head_dim: usize,
    pub(crate) max_position_embeddings: usize,
    /// Beside the settings; inside them, the same name says the same.
    pub(crate) original_max_position_embeddings: Option<usize>,
}

/// The settings of each kind of layer in `rope_parameters`: of those that see everything, and of those that see a window.
pub(crate) fn by_kind(
    parameters: Option<&Map<String, Value>>,
) -> Result<[Option<&Map<String, Value>>; 2], RotaryError> {
    let Some(parameters) = parameters else { return Ok([None, None]) };
    let kinds = ["full_attention", "sliding_attention"].map(|kind| parameters.get(kind)?.as_object());
    match kinds {
        [Some(_), Some(_)] if parameters.len() == 2 => Ok(kinds),
        _ => {
            let members: Vec<&str> = parameters.keys().map(String::as_str).collect();
            let found = if members.is_empty() { "no members".to_owned() } else { members.join(", ") };
            Err(RotaryError::Kinds { field: "rope_parameters", found })
        }
    }
}

impl RotaryFields<'_> {
    /// What the fields mean together.
    pub(crate) fn meaning(&self) -> Result<RotaryConfig, RotaryError> {
        let (theta_field, theta) = self.theta;
        let (parameters_field, parameters) = self.parameters;
        let read = |field, map: Option<&Map<String, Value>>| {
            map.map(|map| Written { field, map, fields: self }.meaning()).transpose()
        };
        let scaling = read("rope_scaling", self.scaling)?;
        let parameters = read(parameters_field, parameters)?;
        let inner = |field: &str| format!("{field}.rope_theta");
        let inner_theta = one_of(
            (&inner("rope_scaling"), scaling.and_then(|(theta, _)| theta)),
            (&inner(parameters_field), parameters.and_then(|(theta, _)| theta)),
        )?;
        let theta = one_of((theta_field, theta), (&inner(parameters_field), inner_theta))?;
        let scaling = one_of(
            ("rope_scaling", scaling.map(|(_, scaling)| scaling)),
            (parameters_field, parameters.map(|(_, scaling)| scaling)),
        )?;
        let theta = theta.unwrap_or(self.default_theta);
        if !(theta.is_finite() && theta > 1.0) {
            return Err(RotaryError::Theta { field: theta_field, found: theta.to_string() });
        }
        let scaling = scaling.unwrap_or(RotaryScaling::Default);
        Ok(RotaryConfig { theta, head_dim: self.head_dim, scaling })
    }
}

/// The value of one setting that has two names.
fn one_of<T: PartialEq + Copy>(
    (first, a): (&str, Option<T>),
    (second, b): (&str, Option<T>),
) -> Result<Option<T>, RotaryError> {
    match (a, b) {
        (Some(a), Some(b)) if a != b => {
            Err(RotaryError::Conflict { first: first.to_owned(), second: second.to_owned() })
        }
        (a, b) => Ok(a.or(b)),
    }
}

/// A rotary setting as it is written.
struct Written<'a> {
    field: &'static str,
    map: &'a Map<String, Value>,
    fields: &'a RotaryFields<'a>,
}

impl Written<'_> {
    /// The base, where it is given here, and the scaling.
    fn meaning(&self) -> Result<(Option<f64>, RotaryScaling), RotaryError> {
        let theta = self.optional("rope_theta", 1.0)?;
        let ty = self.ty()?;
        let (scaling, used): (_, &[&str]) = match ty.as_str() {
            "default" => (RotaryScaling::Default, &[]),
            "linear" => (RotaryScaling::Linear { factor: self.factor(&ty)? }, &["factor"]),
            "dynamic" => (self.dynamic(&ty)?, &["factor"]),
            "llama3" => (
                self.llama3(&ty)?,
                &["factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"],
            ),
            "yarn" => (
                self.yarn(&ty)?,
                &[
                    "factor",
                    "attention_factor",
                    "beta_fast",
                    "beta_slow",
                    "mscale",
                    "mscale_all_dim",
                    "truncate",
                    "original_max_position_embeddings",
                ],
            ),
            _ => return Err(RotaryError::Type { field: self.field, found: ty }),
        };
        self.refuse_unused(&ty, used)?;
        Ok((theta, scaling))
    }

    /// The type. A setting that gives nothing but the base is of the default type.
    fn ty(&self) -> Result<String, RotaryError> {
        let (new, old) = (self.get("rope_type"), self.get("type"));
        if new.is_some() && old.is_some() && new != old {
            return Err(RotaryError::Conflict { first: "rope_type".to_owned(), second: "type".to_owned() });
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

    fn refuse_unused(&self, ty: &str, used: &[&str]) -> Result<(), RotaryError> {
        let partial = "partial_rotary_factor";
        if self.get(partial).is_some_and(|fraction| fraction.as_f64() != Some(1.0)) {
            return Err(self.value(partial, "1, since whole heads are turned".to_owned()));
        }
        let is_used = |key: &str| COMMON.contains(&key) || used.contains(&key) || key == partial;
        match self.map.iter().find(|(key, value)| !is_used(key) && !value.is_null()) {
            Some((member, _)) => {
                Err(RotaryError::Unused { field: self.field, ty: ty.to_owned(), member: member.clone() })
            }
            None => Ok(()),
        }
    }

    fn dynamic(&self, ty: &str) -> Result<RotaryScaling, RotaryError> {
        let max_position_embeddings = self.fields.max_position_embeddings;
        Ok(RotaryScaling::Dynamic { factor: self.factor(ty)?, max_position_embeddings })
    }

    fn llama3(&self, ty: &str) -> Result<RotaryScaling, RotaryError> {
        let original = self.original_positions()?;
        let member = "original_max_position_embeddings";
        let original_max_position_embeddings = original.ok_or_else(|| self.missing(ty, member))?;
        let needed =
            |member| self.optional(member, f64::MIN_POSITIVE)?.ok_or_else(|| self.missing(ty, member));
        let low_freq_factor = needed("low_freq_factor")?;
        let high_freq_factor = needed("high_freq_factor")?;
        if low_freq_factor >= high_freq_factor {
            let needed = format!("more than low_freq_factor, which is {low_freq_factor}");
            return Err(self.value("high_freq_factor", needed));
        }
        let factor = self.factor(ty)?;
        Ok(RotaryScaling::Llama3 {
            factor,
            low_freq_factor,
            high_freq_factor,
            original_max_position_embeddings,
        })
    }

    fn yarn(&self, ty: &str) -> Result<RotaryScaling, RotaryError> {
        let factor = self.factor(ty)?;
        let positive = |member| self.optional(member, f64::MIN_POSITIVE);
        let beta_fast = positive("beta_fast")?.unwrap_or(32.0);
        let beta_slow = positive("beta_slow")?.unwrap_or(1.0);
        if beta_fast < beta_slow {
            return Err(self.value("beta_fast", format!("at least beta_slow, which is {beta_slow}")));
        }
        let magnitudes = [self.optional("mscale", 0.0)?, self.optional("mscale_all_dim", 0.0)?];
        let magnitude = |scale: f64| 0.1 * scale * factor.ln() + 1.0;
        let attention_factor = match (positive("attention_factor")?, magnitudes) {
            (Some(given), _) => given,
            // One without the other, or none, is as good as nothing.
            (None, [Some(some), Some(all)]) if some > 0.0 && all > 0.0 => magnitude(some) / magnitude(all),
            (None, _) => magnitude(1.0),
        };
        let truncate = match self.get("truncate") {
            None => true,
            Some(value) => {
                value.as_bool().ok_or_else(|| self.value("truncate", "true or false".to_owned()))?
            }
        };
        let original = self.original_positions()?.unwrap_or(self.fields.max_position_embeddings);
        Ok(RotaryScaling::Yarn {
            factor,
            attention_factor,
            beta_fast,
            beta_slow,
            truncate,
            original_max_position_embeddings: original,
        })
    }

    fn factor(&self, ty: &str) -> Result<f64, RotaryError> {
        self.optional("factor", 1.0)?.ok_or_else(|| self.missing(ty, "factor"))
    }

    /// The context of the first training, which may stand here or beside the settings.
    fn original_positions(&self) -> Result<Option<usize>, RotaryError> {
        let member = "original_max_position_embeddings";
        let inside = self.optional(member, 1.0)?;
        if inside.is_some_and(|n| n.fract() != 0.0 || n > u32::MAX.into()) {
            return Err(self.value(member, "a number of positions".to_owned()));
        }
        let beside = self.fields.original_max_position_embeddings;
        one_of((&format!("{}.{member}", self.field), inside.map(|n| n as usize)), (member, beside))
    }

    /// A number that may be left out.
    fn optional(&self, member: &'static str, least: f64) -> Result<Option<f64>, RotaryError> {
        let Some(value) = self.get(member) else { return Ok(None) };
        let needed = || {
            if least == f64::MIN_POSITIVE { "more than 0".to_owned() } else { format!("at least {least}") }
        };
        let number = value.as_f64().filter(|n| *n >= least);
        number.map(Some).ok_or_else(|| self.value(member, needed()))
    }

    fn missing(&self, ty: &str, member: &'static str) -> RotaryError {
        RotaryError::Missing { field: self.field, ty: ty.to_owned(), member }
    }

    fn value(&self, member: &'static str, needed: String) -> RotaryError {
        let found = self.get(member).map(Value::to_string).unwrap_or_default();
        RotaryError::Value { field: self.field, member, found, needed }
    }

    fn get(&self, member: &str) -> Option<&Value> {
        self.map.get(member).filter(|value| !value.is_null())
    }
}
