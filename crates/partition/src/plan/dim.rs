//! Which dim of a parameter is split.
//!
//! The rules are FSDPv2's, with one difference. A parameter is split on its largest dim, the first among equals; but
//! FSDPv2 pads a dim that does not divide, where [`DimRule::LargestDivisible`] prefers a smaller one that does.

/// Which dim of a parameter is split over `n` devices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DimRule {
    /// The largest dim that `n` divides; the largest of all, padded, if `n` divides none.
    #[default]
    LargestDivisible,
    /// The largest dim, padded if `n` does not divide it: FSDPv2's rule.
    StrictLargest,
    /// Dim 0, padded if `n` does not divide it: the rule of FSDPv2's first months.
    Dim0,
}

/// The dim that is split over `n` devices, if splitting saves memory.
///
/// One that is cut already, into so many parts, is cut further only if it is the only one, and the parts divide.
pub(crate) fn split_dim(
    dims: &[usize],
    n: usize,
    rule: DimRule,
    cut: Option<(usize, usize)>,
) -> Option<usize> {
    if let (Some((dim, parts)), 1) = (cut, dims.len()) {
        return (n > 1 && dims[dim].is_multiple_of(parts * n)).then_some(dim);
    }
    let is_free = |d: &usize| cut.is_none_or(|(dim, _)| dim != *d);
    // The first of the largest: `max_by_key` alone gives the last.
    let largest =
        |candidates: &mut dyn DoubleEndedIterator<Item = usize>| candidates.rev().max_by_key(|&d| dims[d]);
    let all = || (0..dims.len()).filter(is_free);
    let dim = match rule {
        DimRule::Dim0 => all().next(),
        DimRule::StrictLargest => largest(&mut all()),
        DimRule::LargestDivisible => {
            let divides = |d: &usize| dims[*d] > 0 && dims[*d].is_multiple_of(n);
            largest(&mut all().filter(divides)).or_else(|| largest(&mut all()))
        }
    }?;
    (dims[dim].div_ceil(n) < dims[dim]).then_some(dim)
}
