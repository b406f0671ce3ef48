//! How far two arrays are apart that should be the same.

use serde::Serialize;
use shardwright_tensor::{DType, HostArray};

/// How far the elements of an output may be apart, as a part of the largest magnitude in it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in super::super) enum Tolerance {
    /// By the precision of the dtype: integers must be equal.
    OfDtype,
    /// This much, whatever the dtype.
    Given(f64),
}

/// The largest difference between the elements of two arrays.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(in super::super) struct Difference {
    /// The largest absolute difference; infinite where only one of the two elements is a number.
    pub(in super::super) absolute: f64,
    /// That as a part of the largest magnitude in the expected array.
    pub(in super::super) relative: f64,
    /// The index of the elements that differ most, if any do.
    pub(in super::super) at: Option<Vec<usize>>,
    /// What was found there, and what was expected.
    pub(in super::super) values: Option<[f64; 2]>,
    /// Whether that is more than is tolerated.
    pub(in super::super) is_too_large: bool,
}

impl Tolerance {
    /// The part of the largest magnitude by which elements of this dtype may differ.
    ///
    /// Sums in another order differ in the last digits; the bounds leave room for a few hundred of those.
    fn of(self, dtype: DType) -> f64 {
        match (self, dtype) {
            (Tolerance::Given(tolerance), _) => tolerance,
            (Tolerance::OfDtype, DType::F64) => 1e-12,
            (Tolerance::OfDtype, DType::F32) => 1e-5,
            (Tolerance::OfDtype, DType::F16) => 1e-2,
            (Tolerance::OfDtype, DType::Bf16) => 5e-2,
            (Tolerance::OfDtype, _) => 0.0,
        }
    }
}

/// Compares an array with one of the same type.
pub(in super::super) fn compare(found: &HostArray, expected: &HostArray, tolerance: Tolerance) -> Difference {
    let (found_values, expected_values) = (found.to_f64(), expected.to_f64());
    let wide = wide_integers(found).zip(wide_integers(expected));
    let mut difference =
        Difference { absolute: 0.0, relative: 0.0, at: None, values: None, is_too_large: false };
    for (place, (&found_value, &expected_value)) in found_values.iter().zip(&expected_values).enumerate() {
        let absolute = match &wide {
            Some((found, expected)) => found[place].abs_diff(expected[place]) as f64,
            None => apart(found_value, expected_value),
        };
        if absolute > difference.absolute {
            difference.absolute = absolute;
            difference.at = Some(index(place, found.dims()));
            difference.values = Some([found_value, expected_value]);
        }
    }
    let finite = expected_values.iter().map(|value| value.abs()).filter(|value| value.is_finite());
    let largest = finite.fold(0.0, f64::max);
    if difference.absolute > 0.0 {
        difference.relative = difference.absolute / largest;
        difference.is_too_large = difference.absolute > tolerance.of(found.dtype()) * largest;
    }
    difference
}

/// The elements, if they are integers that `f64` cannot tell apart.
fn wide_integers(array: &HostArray) -> Option<Vec<i128>> {
    match array.dtype() {
        DType::S64 => Some(array.as_slice::<i64>().ok()?.iter().copied().map(i128::from).collect()),
        DType::U64 => Some(array.as_slice::<u64>().ok()?.iter().copied().map(i128::from).collect()),
        _ => None,
    }
}

fn apart(found: f64, expected: f64) -> f64 {
    if found == expected || found.is_nan() && expected.is_nan() {
        return 0.0;
    }
    let apart = (found - expected).abs();
    if apart.is_nan() { f64::INFINITY } else { apart }
}

/// The index, one number for each dim, of an element in row-major order.
fn index(mut place: usize, dims: &[usize]) -> Vec<usize> {
    let mut index: Vec<usize> = dims
        .iter()
        .rev()
        .map(|&dim| {
            let here = place % dim;
            place /= dim;
            here
        })
        .collect();
    index.reverse();
    index
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(
        found: &[f32],
        expected: &[f32],
        tolerance: Tolerance,
        is_too_large: bool,
        at: Option<[usize; 2]>,
    ) {
        let array = |values| HostArray::from_slice(&[2, 2], values).unwrap();
        let difference = compare(&array(found), &array(expected), tolerance);
        assert_eq!(difference.is_too_large, is_too_large, "{difference:?}");
        assert_eq!(difference.at, at.map(Vec::from), "{difference:?}");
    }

    #[test]
    fn differences_are_measured_by_the_largest_element() {
        let expected = [1000.0, 0.0, 1.0, f32::NAN];
        check(&expected, &expected, Tolerance::Given(0.0), false, None);
        check(&[1000.0, 0.005, 1.0, f32::NAN], &expected, Tolerance::OfDtype, false, Some([0, 1]));
        check(&[1000.0, 0.0, 1.5, f32::NAN], &expected, Tolerance::OfDtype, true, Some([1, 0]));
        check(&[1000.0, 0.0, 1.5, f32::NAN], &expected, Tolerance::Given(1e-3), false, Some([1, 0]));
    }

    #[test]
    fn integers_are_compared_as_such() {
        const LARGE: i64 = 1 << 53;
        let array = |values: &[i64]| HostArray::from_slice(&[2], values).unwrap();
        let difference = compare(&array(&[1, LARGE + 1]), &array(&[1, LARGE]), Tolerance::OfDtype);
        assert!(difference.is_too_large, "{difference:?}");
        assert_eq!((difference.absolute, difference.at), (1.0, Some(vec![1])));
        let array = |values: &[u64]| HostArray::from_slice(&[2], values).unwrap();
        let difference = compare(&array(&[0, u64::MAX - 1]), &array(&[0, u64::MAX]), Tolerance::OfDtype);
        assert_eq!((difference.is_too_large, difference.absolute), (true, 1.0));
    }

    #[test]
    fn a_number_in_place_of_none_is_never_tolerated() {
        let tolerance = Tolerance::Given(1e9);
        check(&[f32::NAN, 0.0, 0.0, 0.0], &[1.0, 0.0, 0.0, 0.0], tolerance, true, Some([0, 0]));
        check(&[0.0, 0.0, 0.0, f32::INFINITY], &[0.0, 0.0, 0.0, 1.0], tolerance, true, Some([1, 1]));
        check(&[f32::INFINITY; 4], &[f32::INFINITY; 4], tolerance, false, None);
        check(&[0.0, 0.0, 0.0, 1e-30], &[0.0; 4], tolerance, true, Some([1, 1]));
    }
}
