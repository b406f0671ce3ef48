//! Names of mesh axes.

use std::fmt;
use std::sync::Arc;

use crate::AbstractMesh;

/// The name of a mesh axis. Cloning it is cheap.
///
/// Any text converts to an `AxisName`; [`crate::AbstractMesh::new`] decides whether it may name an axis, and a
/// spec that names an axis no mesh has is refused by [`crate::NamedSharding::new`].
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AxisName(Arc<str>);

impl AxisName {
    /// The most bytes that the name of an axis has.
    pub(crate) const MAX_LEN: usize = 128;

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The axis number that the name is, if it is one: `0`, `1`, … as a decimal without sign or leading zeros.
    pub(crate) fn number(&self) -> Option<usize> {
        self.0.parse().ok().filter(|number: &usize| number.to_string() == *self.0)
    }

    /// Whether a mesh may have an axis of this name: all printed forms stay readable by their parsers.
    pub(crate) fn is_valid(&self) -> bool {
        if self.0.len() > Self::MAX_LEN {
            return false;
        }
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        self.0.starts_with(is_word) && self.0.chars().all(|c| is_word(c) || c == '-' || c == '.')
    }
}

impl fmt::Display for AxisName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// What to write instead of an axis that the mesh lacks, where axes have names only.
pub(crate) fn hint(axis: &AxisName, mesh: &AbstractMesh) -> String {
    let nearest = nearest(axis, mesh.axis_names());
    nearest.map(|name| format!("; did you mean {name}?")).unwrap_or_default()
}

/// What to write instead of an axis that the mesh lacks, where axes have numbers too.
pub(crate) fn hint_with_numbers(axis: &AxisName, mesh: &AbstractMesh) -> String {
    match mesh.axes().len().checked_sub(1) {
        Some(last) if axis.number().is_some() => format!("; its axes are numbered 0 to {last}"),
        _ => hint(axis, mesh),
    }
}

/// The name most like `given`, unless none is like it.
fn nearest<'a>(given: &AxisName, names: impl Iterator<Item = &'a AxisName>) -> Option<&'a AxisName> {
    // Names of axes are short: half of one has to be right.
    const ALIKE: f64 = 0.5;
    // To compare texts takes as long as the product of their lengths.
    if given.as_str().len() > AxisName::MAX_LEN {
        return None;
    }
    let given = given.as_str().to_lowercase();
    let likeness =
        |name: &AxisName| strsim::normalized_damerau_levenshtein(&given, &name.as_str().to_lowercase());
    let best = names.max_by(|a, b| likeness(a).total_cmp(&likeness(b)))?;
    (likeness(best) > ALIKE).then_some(best)
}

impl AsRef<str> for AxisName {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl From<&str> for AxisName {
    fn from(name: &str) -> Self {
        Self(name.into())
    }
}

impl From<String> for AxisName {
    fn from(name: String) -> Self {
        Self(name.into())
    }
}

impl From<&String> for AxisName {
    fn from(name: &String) -> Self {
        Self(name.as_str().into())
    }
}

/// The name of an axis that has none but its number.
impl From<usize> for AxisName {
    fn from(number: usize) -> Self {
        number.to_string().into()
    }
}

impl From<&AxisName> for AxisName {
    fn from(name: &AxisName) -> Self {
        name.clone()
    }
}

impl PartialEq<str> for AxisName {
    fn eq(&self, other: &str) -> bool {
        *self.0 == *other
    }
}

impl PartialEq<&str> for AxisName {
    fn eq(&self, other: &&str) -> bool {
        *self.0 == **other
    }
}
