//! Axes as Shardy and HLO's named form refer to them: whole, or a part of one.
//!
//! A *part*, or sub-axis, `"x":(m)k` is what lies between: an axis of size `s` is read as the axes `m`, `k` and
//! `s/(m·k)`, major to minor, and the middle one is meant.

use std::collections::HashSet;
use std::fmt;
use std::ops::Range;

use crate::device_order::DeviceOrder;
use crate::text::{SDY_QUOTE, Scanner, TextError};
use crate::{AbstractMesh, AxisName, Mesh};

/// An axis, or a part of one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct AxisRef {
    pub(crate) axis: AxisName,
    pub(crate) part: Option<AxisPart>,
}

/// Which part of an axis: between its major `pre_size` and its minor rest, `size` positions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct AxisPart {
    pub(crate) pre_size: usize,
    pub(crate) size: usize,
}

/// The axes that split one dim, major to minor.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct DimAxes {
    pub(crate) axes: Vec<AxisRef>,
    /// Whether the compiler may split the dim further.
    pub(crate) is_open: bool,
}

/// How the grammars differ: sdy has `"`, HLO has `'`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Quoted<'a, T: ?Sized>(pub(crate) char, pub(crate) &'a T);

impl AxisRef {
    /// Reads `"x"` or `"x":(1)2`.
    pub(crate) fn scan(scanner: &mut Scanner<'_>) -> Result<Self, TextError> {
        let axis = scanner.axis_name()?;
        if !scanner.eats(":") {
            return Ok(Self { axis, part: None });
        }
        scanner.expect("(", "'('")?;
        let pre_size = scanner.number()?;
        scanner.expect(")", "')'")?;
        let size = scanner.number()?;
        Self::part(axis, AxisPart { pre_size, size })
    }

    /// A part of an axis.
    pub(crate) fn part(axis: AxisName, part: AxisPart) -> Result<Self, TextError> {
        let this = Self { axis, part: Some(part) };
        match part {
            AxisPart { pre_size: 1.., size: 2.. } => Ok(this),
            _ => Err(TextError::SubAxis { sub_axis: Quoted(SDY_QUOTE, &this).to_string() }),
        }
    }

    /// Reads `{"x", "y"}`.
    pub(crate) fn scan_list(scanner: &mut Scanner<'_>) -> Result<Vec<Self>, TextError> {
        scanner.expect("{", "'{'")?;
        scanner.list("}", Self::scan)
    }
}

impl DimAxes {
    /// Reads `{"x", "y"}`, or `{"x", ?}` for a dim that is open.
    pub(crate) fn scan(scanner: &mut Scanner<'_>) -> Result<Self, TextError> {
        scanner.expect("{", "'{'")?;
        let mut is_open = false;
        let item = |scanner: &mut Scanner<'_>| {
            if is_open {
                return Err(scanner.unexpected("nothing after '?'"));
            }
            is_open = scanner.eats("?");
            if is_open { Ok(None) } else { AxisRef::scan(scanner).map(Some) }
        };
        let axes = scanner.list("}", item)?.into_iter().flatten().collect();
        Ok(Self { axes, is_open })
    }
}

/// Reads lists like `, replicated={"x"}`, each at most once, as long as a comma comes. They are returned in the
/// order of `words`, which an error calls `expected`.
pub(crate) fn scan_lists<const N: usize>(
    scanner: &mut Scanner<'_>,
    words: [&str; N],
    expected: &'static str,
) -> Result<[Vec<AxisRef>; N], TextError> {
    let mut lists = [const { None }; N];
    while scanner.eats(",") {
        let word = words.iter().position(|word| scanner.eats(word)).filter(|&word| lists[word].is_none());
        let word = word.ok_or_else(|| scanner.unexpected(expected))?;
        scanner.expect("=", "'='")?;
        lists[word] = Some(AxisRef::scan_list(scanner)?);
    }
    Ok(lists.map(Option::unwrap_or_default))
}

/// A mesh whose axes are cut such that each of some references is a run of whole parts.
pub(crate) struct Parts {
    /// The sizes of the parts, major to minor; none is 1.
    pub(crate) sizes: Vec<usize>,
    /// The parts that each reference means.
    pub(crate) of_refs: Vec<Range<usize>>,
}

impl Parts {
    /// The parts that these references ask for.
    pub(crate) fn new(mesh: &AbstractMesh, refs: &[&AxisRef]) -> Result<Self, TextError> {
        // For each axis, where its references lie on it and which ones they are.
        let mut on_axis = vec![Vec::new(); mesh.axes().len()];
        for (ref_idx, reference) in refs.iter().enumerate() {
            let (axis_idx, bounds) = locate(mesh, reference)?;
            on_axis[axis_idx].push((bounds, ref_idx));
        }
        let mut parts = Self { sizes: Vec::new(), of_refs: vec![0..0; refs.len()] };
        for ((axis, size), mut refs) in mesh.axes().iter().zip(on_axis) {
            refs.sort_by_key(|(bounds, _)| bounds.start);
            parts.cut(*size, &refs).ok_or_else(|| TextError::Overlap { axis: axis.clone() })?;
        }
        Ok(parts)
    }

    /// Adds the parts of one axis, unless its references overlap or do not fit side by side.
    fn cut(&mut self, axis_size: usize, refs: &[(Range<usize>, usize)]) -> Option<()> {
        // A whole axis of size 1 has no parts that could overlap.
        if refs.len() > 1 && axis_size == 1 {
            return None;
        }
        let ends = refs.iter().flat_map(|(bounds, _)| [bounds.start, bounds.end]);
        let mut cuts: Vec<_> = ends.chain([1, axis_size]).collect();
        cuts.sort_unstable();
        cuts.dedup();
        if cuts.windows(2).any(|pair| !pair[1].is_multiple_of(pair[0])) {
            return None;
        }
        let first = self.sizes.len();
        self.sizes.extend(cuts.windows(2).map(|pair| pair[1] / pair[0]));
        let part_at = |position: usize| first + cuts.partition_point(|&cut| cut < position);
        let mut next = first;
        for (bounds, ref_idx) in refs {
            let parts = part_at(bounds.start)..part_at(bounds.end);
            if parts.start < next {
                return None;
            }
            next = parts.end;
            self.of_refs[*ref_idx] = parts;
        }
        Some(())
    }

    /// The parts of these references, one after the other.
    pub(crate) fn used(&self) -> Vec<usize> {
        self.of_refs.iter().cloned().flatten().collect()
    }

    /// The parts that no reference means.
    pub(crate) fn free(&self) -> Vec<usize> {
        let used: HashSet<_> = self.used().into_iter().collect();
        (0..self.sizes.len()).filter(|part| !used.contains(part)).collect()
    }

    /// How many positions these parts have together.
    pub(crate) fn extent(&self, parts: impl IntoIterator<Item = usize>) -> usize {
        parts.into_iter().map(|part| self.sizes[part]).product()
    }

    /// The devices of `mesh` in the order that counts these parts, the last one fastest. They are all parts.
    pub(crate) fn devices(&self, mesh: &Mesh, parts: &[usize]) -> DeviceOrder {
        let order = DeviceOrder::iota(&self.sizes, parts);
        if mesh.is_iota() {
            return order;
        }
        DeviceOrder::List(order.devices().map(|partition| mesh.device_id(partition)).collect())
    }
}

/// The axis of a reference, and where on it the reference begins and ends: from `m` to `m·k` for `(m)k`.
fn locate(mesh: &AbstractMesh, reference: &AxisRef) -> Result<(usize, Range<usize>), TextError> {
    let unknown = || TextError::UnknownAxis { axis: reference.axis.clone(), mesh: mesh.clone() };
    let axis_idx = mesh.axis_index(reference.axis.as_str()).ok_or_else(unknown)?;
    let axis_size = mesh.axes()[axis_idx].1;
    let Some(AxisPart { pre_size, size }) = reference.part else {
        return Ok((axis_idx, 1..axis_size));
    };
    let end = pre_size.checked_mul(size).filter(|&end| axis_size.is_multiple_of(end));
    let invalid = || TextError::SubAxis { sub_axis: Quoted(SDY_QUOTE, reference).to_string() };
    Ok((axis_idx, pre_size..end.ok_or_else(invalid)?))
}

impl fmt::Display for Quoted<'_, AxisRef> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Quoted(quote, AxisRef { axis, part }) = self;
        write!(f, "{quote}{axis}{quote}")?;
        match part {
            Some(AxisPart { pre_size, size }) => write!(f, ":({pre_size}){size}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Quoted<'_, [AxisRef]> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let axes: Vec<_> = self.1.iter().map(|axis| Quoted(self.0, axis).to_string()).collect();
        f.write_str(&axes.join(", "))
    }
}

impl fmt::Display for Quoted<'_, DimAxes> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Quoted(quote, DimAxes { axes, is_open }) = *self;
        let open = match (is_open, axes.is_empty()) {
            (true, true) => "?",
            (true, false) => ", ?",
            (false, _) => "",
        };
        write!(f, "{{{}{open}}}", Quoted(quote, axes.as_slice()))
    }
}
