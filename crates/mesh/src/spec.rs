//! Partition specs: which mesh axes split which dims of an array.
//!
//! The text form, printed by `Display` and read by `FromStr`, has one entry per dim:
//!
//! ```text
//! spec  = "(" [ entry { "," entry } ] ")"
//! entry = "-"                              the dim is not split
//!       | axis                             split over one axis
//!       | "(" axis { "," axis } ")"        split over several, major to minor
//! ```
//!
//! An axis is given by its name or, where the mesh has no axis of that name, by its number: `(0, -)` on the mesh
//! `data=2, fsdp=4` is `(data, -)`. Numbers count from 0, never from the end.
//!
//! So `(fsdp, -)` splits the rows of a matrix, `((data,fsdp), -)` splits them further, `(-, -)` leaves the
//! matrix whole and `()` is the spec of a scalar.

use std::fmt;
use std::str::FromStr;

use crate::AxisName;
use crate::text::clip;

/// How an array is split: for each of its dims, in order, the axes that split it.
///
/// A spec by itself may name any axes; [`crate::NamedSharding`] is a spec that fits a mesh.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PartitionSpec {
    dims: Vec<DimSharding>,
}

/// The axes that split one dim, major to minor: the first one cuts first. No axes: the dim is not split.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct DimSharding {
    /// The axes, major to minor.
    pub axes: Vec<AxisName>,
}

/// Text that is not a partition spec.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SpecParseError {
    /// The parentheses around the whole or around an entry do not close.
    #[error(
        "spec {:?} has unbalanced parentheses; a spec is written like (fsdp, -) or ((data,fsdp), -)",
        clip(text)
    )]
    Unbalanced {
        /// The whole text.
        text: String,
    },
    /// An entry is neither `-`, an axis nor a group of axes.
    #[error(
        "spec {:?}: the entry for dim {dim} is {:?}, which is not -, an axis, an axis number or (axis,axis)",
        clip(text),
        clip(entry)
    )]
    InvalidEntry {
        /// The whole text.
        text: String,
        /// The dim the entry is for, from 0.
        dim: usize,
        /// The entry.
        entry: String,
    },
}

impl PartitionSpec {
    /// A spec with these entries, one per dim.
    ///
    /// ```
    /// # use shardwright_mesh::PartitionSpec;
    /// let spec = PartitionSpec::new([vec!["data", "fsdp"], vec![]]);
    /// assert_eq!(spec.to_string(), "((data,fsdp), -)");
    /// ```
    pub fn new<D: Into<DimSharding>>(entries: impl IntoIterator<Item = D>) -> Self {
        Self { dims: entries.into_iter().map(Into::into).collect() }
    }

    /// A spec for `rank` dims, none of them split.
    pub fn replicated(rank: usize) -> Self {
        Self { dims: vec![DimSharding::default(); rank] }
    }

    /// A spec for `rank` dims, with `dim` split over one axis.
    ///
    /// # Panics
    ///
    /// If `dim` is not less than `rank`.
    pub fn split(rank: usize, dim: usize, axis: impl Into<AxisName>) -> Self {
        let mut spec = Self::replicated(rank);
        spec.dims[dim].axes.push(axis.into());
        spec
    }

    /// The number of dims the spec is for.
    pub fn rank(&self) -> usize {
        self.dims.len()
    }

    /// The entries, one per dim.
    pub fn dims(&self) -> &[DimSharding] {
        &self.dims
    }

    /// All axes the spec names, dim by dim, major to minor.
    pub fn axes(&self) -> impl Iterator<Item = &AxisName> {
        self.dims.iter().flat_map(|dim| &dim.axes)
    }
}

impl<A: Into<AxisName>> From<Vec<A>> for DimSharding {
    fn from(axes: Vec<A>) -> Self {
        Self { axes: axes.into_iter().map(Into::into).collect() }
    }
}

impl fmt::Display for DimSharding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.axes.as_slice() {
            [] => f.write_str("-"),
            [axis] => write!(f, "{axis}"),
            axes => write!(f, "({})", axes.iter().map(AxisName::as_str).collect::<Vec<_>>().join(",")),
        }
    }
}

impl fmt::Display for PartitionSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dims: Vec<_> = self.dims.iter().map(DimSharding::to_string).collect();
        write!(f, "({})", dims.join(", "))
    }
}

impl FromStr for PartitionSpec {
    type Err = SpecParseError;

    /// Reads the text form; blanks around the parts are ignored. An empty group `()` is no entry: a dim that
    /// is not split is written `-`.
    fn from_str(text: &str) -> Result<Self, SpecParseError> {
        let unbalanced = || SpecParseError::Unbalanced { text: text.into() };
        let entries = parenthesized(text).ok_or_else(unbalanced)?;
        let entries = split_entries(entries).ok_or_else(unbalanced)?;
        let parse_dim = |(dim, entry): (usize, &str)| {
            parse_entry(entry).ok_or_else(|| SpecParseError::InvalidEntry {
                text: text.into(),
                dim,
                entry: entry.trim().into(),
            })
        };
        Ok(Self { dims: entries.into_iter().enumerate().map(parse_dim).collect::<Result<_, _>>()? })
    }
}

/// What stands between an opening and a closing parenthesis.
fn parenthesized(text: &str) -> Option<&str> {
    text.trim().strip_prefix('(')?.strip_suffix(')')
}

/// Splits at the commas outside parentheses; `None` if these are unbalanced.
fn split_entries(text: &str) -> Option<Vec<&str>> {
    let mut depth = 0_usize;
    let mut start = 0;
    let mut entries = Vec::new();
    for (idx, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.checked_sub(1)?,
            ',' if depth == 0 => {
                entries.push(&text[start..idx]);
                start = idx + 1;
            }
            _ => {}
        }
    }
    if !text.trim().is_empty() {
        entries.push(&text[start..]);
    }
    (depth == 0).then_some(entries)
}

fn parse_entry(entry: &str) -> Option<DimSharding> {
    if entry.trim() == "-" {
        return Some(DimSharding::default());
    }
    let axes = parenthesized(entry).unwrap_or(entry).split(',').map(|axis| AxisName::from(axis.trim()));
    let axes: Vec<_> = axes.collect();
    axes.iter().all(AxisName::is_valid).then_some(DimSharding { axes })
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    fn check(texts: &[&str], expect: Expect) {
        let show = |text: &&str| match text.parse::<PartitionSpec>() {
            Ok(spec) => format!("{text:?}: {spec}  rank {}\n", spec.rank()),
            Err(error) => format!("error: {error}\n"),
        };
        expect.assert_eq(&texts.iter().map(show).collect::<String>());
    }

    #[test]
    fn spec_text_is_read_and_printed() {
        check(
            &["()", "(fsdp)", " ( fsdp , - ) ", "((data, fsdp), -)", "((fsdp), -)", "(-,-,-)", "((a,b))"],
            expect![[r#"
                "()": ()  rank 0
                "(fsdp)": (fsdp)  rank 1
                " ( fsdp , - ) ": (fsdp, -)  rank 2
                "((data, fsdp), -)": ((data,fsdp), -)  rank 2
                "((fsdp), -)": (fsdp, -)  rank 2
                "(-,-,-)": (-, -, -)  rank 3
                "((a,b))": ((a,b))  rank 1
            "#]],
        );
    }

    #[test]
    fn bad_spec_text_names_the_dim() {
        check(
            &[
                "",
                "fsdp, -",
                "(fsdp",
                "((a,b)",
                "(a)(b)",
                "(a))",
                "((a,(b)), -)",
                "(-, ())",
                "(a,)",
                "(a b)",
                "(-1, -)",
            ],
            expect![[r#"
                error: spec "" has unbalanced parentheses; a spec is written like (fsdp, -) or ((data,fsdp), -)
                error: spec "fsdp, -" has unbalanced parentheses; a spec is written like (fsdp, -) or ((data,fsdp), -)
                error: spec "(fsdp" has unbalanced parentheses; a spec is written like (fsdp, -) or ((data,fsdp), -)
                error: spec "((a,b)" has unbalanced parentheses; a spec is written like (fsdp, -) or ((data,fsdp), -)
                error: spec "(a)(b)" has unbalanced parentheses; a spec is written like (fsdp, -) or ((data,fsdp), -)
                error: spec "(a))" has unbalanced parentheses; a spec is written like (fsdp, -) or ((data,fsdp), -)
                error: spec "((a,(b)), -)": the entry for dim 0 is "(a,(b))", which is not -, an axis, an axis number or (axis,axis)
                error: spec "(-, ())": the entry for dim 1 is "()", which is not -, an axis, an axis number or (axis,axis)
                error: spec "(a,)": the entry for dim 1 is "", which is not -, an axis, an axis number or (axis,axis)
                error: spec "(a b)": the entry for dim 0 is "a b", which is not -, an axis, an axis number or (axis,axis)
                error: spec "(-1, -)": the entry for dim 0 is "-1", which is not -, an axis, an axis number or (axis,axis)
            "#]],
        );
    }

    #[test]
    fn specs_are_built() {
        assert_eq!(PartitionSpec::replicated(2).to_string(), "(-, -)");
        assert_eq!(PartitionSpec::split(3, 1, "fsdp").to_string(), "(-, fsdp, -)");
        let spec = PartitionSpec::new([vec!["data", "fsdp"], vec![], vec!["tensor"]]);
        assert_eq!(spec.axes().map(AxisName::as_str).collect::<Vec<_>>(), ["data", "fsdp", "tensor"]);
    }
}
