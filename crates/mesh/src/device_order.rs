//! The order in which HLO text lists devices.
//!
//! - *Iota*, `[2,4]T(1,0)`: count from 0 in an array of these sizes, transpose it, and read it row-major. Without
//!   a transpose, `[8]`, the devices simply count up.
//! - *A list*, `0,4,1,5,2,6,3,7`, for devices in an order of their own.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::fmt;
use std::mem;
use std::ops::Range;

use crate::text::{Scanner, TextError, device_count, join};

/// So many positions, and how far apart neighbours among them are.
type Step = (usize, usize);

/// Devices in some order, each at most once.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum DeviceOrder {
    /// The transpose of a counted array. No size is 1 and no two dims are neighbours before and after, save
    /// that a single device is `[1]`.
    Iota { dims: Vec<usize>, permutation: Vec<usize> },
    /// Any other order.
    List(Vec<usize>),
}

impl DeviceOrder {
    /// The transpose of the array of these sizes that counts from 0, in its shortest spelling. The permutation
    /// names each dim once.
    pub(crate) fn iota(dims: &[usize], permutation: &[usize]) -> Self {
        // What each dim is numbered as once those of size 1 are gone.
        let mut numbers = Vec::with_capacity(dims.len());
        let mut sizes = Vec::new();
        for &size in dims {
            numbers.push(sizes.len());
            sizes.extend((size > 1).then_some(size));
        }
        let visible = permutation.iter().filter(|&&dim| dims[dim] > 1).map(|&dim| numbers[dim]);
        Self::of_runs(&sizes, runs_of_neighbours(visible))
    }

    /// [`DeviceOrder::iota`] of numbers that somebody wrote.
    pub(crate) fn checked_iota(dims: &[usize], permutation: &[usize]) -> Result<Self, TextError> {
        device_count(dims)?;
        let mut is_named = vec![false; dims.len()];
        let is_new = |&dim: &usize| is_named.get_mut(dim).is_some_and(|named| !mem::replace(named, true));
        if permutation.len() != dims.len() || !permutation.iter().all(is_new) {
            return Err(TextError::Permutation { permutation: permutation.to_vec(), n_dims: dims.len() });
        }
        Ok(Self::iota(dims, permutation))
    }

    /// Dims that stay neighbours are counted as one.
    fn of_runs(sizes: &[usize], runs: Vec<Range<usize>>) -> Self {
        if runs.is_empty() {
            return Self::Iota { dims: vec![1], permutation: vec![0] };
        }
        let mut by_position = runs.clone();
        by_position.sort_by_key(|run| run.start);
        let dims = by_position.iter().map(|run| sizes[run.clone()].iter().product()).collect();
        let rank = |run| by_position.iter().position(|other| other == run).expect("the same runs, sorted");
        Self::Iota { dims, permutation: runs.iter().map(rank).collect() }
    }

    /// These devices in this order.
    pub(crate) fn list(devices: Vec<usize>) -> Result<Self, TextError> {
        let mut seen = HashSet::with_capacity(devices.len());
        match devices.iter().find(|device| !seen.insert(**device)) {
            Some(&device) => Err(TextError::DuplicateDevice { device }),
            None => Ok(Self::List(devices)),
        }
    }

    /// How many devices there are.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Iota { dims, .. } => dims.iter().product(),
            Self::List(devices) => devices.len(),
        }
    }

    /// Whether the devices are 0, 1, 2, … in order. A list of such devices is not told from others.
    pub(crate) fn counts_up(&self) -> bool {
        matches!(self, Self::Iota { dims, .. } if dims.len() == 1)
    }

    /// The device at a place, which is less than [`DeviceOrder::len`].
    pub(crate) fn device(&self, place: usize) -> usize {
        match self {
            Self::Iota { .. } => device_at(&self.steps(), place),
            Self::List(devices) => devices[place],
        }
    }

    /// The devices, which are not kept: a few characters can count more than memory holds.
    pub(crate) fn devices(&self) -> impl ExactSizeIterator<Item = usize> + Clone + '_ {
        let steps = self.steps();
        (0..self.len()).map(move |place| match self {
            Self::Iota { .. } => device_at(&steps, place),
            Self::List(devices) => devices[place],
        })
    }

    /// What a counted array is made of in the order in which it is read, the fastest last; nothing for a list.
    fn steps(&self) -> Vec<Step> {
        let Self::Iota { dims, permutation } = self else { return Vec::new() };
        let stride = |dim: usize| dims[dim + 1..].iter().product();
        permutation.iter().map(|&dim| (dims[dim], stride(dim))).collect()
    }

    /// The order in which each `n` devices that follow each other are ascending. `None` where these are in a counted
    /// array no counted arrays themselves.
    pub(crate) fn with_sorted_groups(&self, n: usize) -> Option<Self> {
        match self {
            Self::List(devices) => {
                let mut devices = devices.clone();
                devices.chunks_mut(n).for_each(<[_]>::sort_unstable);
                Some(Self::List(devices))
            }
            Self::Iota { .. } => {
                let (mut steps, mut group) = cut(&self.steps(), n)?;
                group.sort_unstable_by_key(|&(_, stride)| Reverse(stride));
                steps.append(&mut group);
                Some(Self::of_steps(&steps))
            }
        }
    }

    /// The counted array that is read by these steps, which are those of one in some order.
    fn of_steps(steps: &[Step]) -> Self {
        let mut by_stride = steps.to_vec();
        by_stride.sort_unstable_by_key(|&(_, stride)| Reverse(stride));
        let dims: Vec<_> = by_stride.iter().map(|(size, _)| *size).collect();
        let rank = |step| by_stride.iter().position(|other| other == step).expect("the same steps, sorted");
        Self::iota(&dims, &steps.iter().map(rank).collect::<Vec<_>>())
    }

    /// Reads the iota form, `[2,4]T(1,0)`.
    pub(crate) fn scan_iota(scanner: &mut Scanner<'_>) -> Result<Self, TextError> {
        scanner.expect("[", "'['")?;
        let dims = scanner.list("]", Scanner::number)?;
        let permutation = match scanner.eats("T(") {
            true => scanner.list(")", Scanner::number)?,
            false => (0..dims.len()).collect(),
        };
        Self::checked_iota(&dims, &permutation)
    }
}

impl fmt::Display for DeviceOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Iota { dims, .. } if dims.len() == 1 => write!(f, "[{}]", join(dims)),
            Self::Iota { dims, permutation } => write!(f, "[{}]T({})", join(dims), join(permutation)),
            Self::List(devices) => f.write_str(&join(devices)),
        }
    }
}

/// The device at a place of a counted array.
fn device_at(steps: &[Step], place: usize) -> usize {
    let along = |(place, device), &(size, stride): &Step| (place / size, device + place % size * stride);
    steps.iter().rev().fold((place, 0), along).1
}

/// Cuts off the last steps, of `n` places together, if `n` places are some steps and perhaps a part of one.
fn cut(steps: &[Step], n: usize) -> Option<(Vec<Step>, Vec<Step>)> {
    let (mut outer, mut inner, mut left) = (Vec::new(), Vec::new(), n);
    for &(size, stride) in steps.iter().rev() {
        // How many of the positions are within the `n`.
        let within = if left.is_multiple_of(size) { size } else { left };
        if !size.is_multiple_of(within) {
            return None;
        }
        left /= within;
        inner.extend((within > 1).then_some((within, stride)));
        outer.extend((size > within).then_some((size / within, stride * within)));
    }
    outer.reverse();
    inner.reverse();
    Some((outer, inner))
}

/// Cuts a permutation into the longest runs `i, i + 1, i + 2, …`.
fn runs_of_neighbours(permutation: impl Iterator<Item = usize>) -> Vec<Range<usize>> {
    let mut runs: Vec<Range<usize>> = Vec::new();
    for dim in permutation {
        match runs.last_mut() {
            Some(run) if run.end == dim => run.end += 1,
            _ => runs.push(dim..dim + 1),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::HLO_QUOTE;
    use expect_test::{Expect, expect};

    fn check(texts: &[&str], expect: Expect) {
        let read = |text: &str| {
            let mut scanner = Scanner::new("device order", HLO_QUOTE, text);
            let order = DeviceOrder::scan_iota(&mut scanner)?;
            scanner.end().map(|()| order)
        };
        let show = |text: &&str| match read(text) {
            Ok(order) if order.len() > 8 => format!("{text}: {order}, {} devices\n", order.len()),
            Ok(order) => format!("{text}: {order} is {:?}\n", order.devices().collect::<Vec<_>>()),
            Err(error) => format!("{text}: error: {error}\n"),
        };
        expect.assert_eq(&texts.iter().map(show).collect::<String>());
    }

    #[test]
    fn counted_arrays_have_one_spelling() {
        check(
            &[
                "[8]",
                "[2,4]T(1,0)",
                "[2,2,2]T(2,0,1)",
                "[2,4]T(0,1)",
                "[1,8,1]T(2,1,0)",
                "[1,1]",
                "[]",
                "[64,64]",
            ],
            expect![[r#"
                [8]: [8] is [0, 1, 2, 3, 4, 5, 6, 7]
                [2,4]T(1,0): [2,4]T(1,0) is [0, 4, 1, 5, 2, 6, 3, 7]
                [2,2,2]T(2,0,1): [4,2]T(1,0) is [0, 2, 4, 6, 1, 3, 5, 7]
                [2,4]T(0,1): [8] is [0, 1, 2, 3, 4, 5, 6, 7]
                [1,8,1]T(2,1,0): [8] is [0, 1, 2, 3, 4, 5, 6, 7]
                [1,1]: [1] is [0]
                []: [1] is [0]
                [64,64]: [4096], 4096 devices
            "#]],
        );
    }

    #[test]
    fn groups_are_sorted_without_listing_them() {
        let sorted = |text: &str, n: usize| {
            let order = DeviceOrder::scan_iota(&mut Scanner::new("device order", HLO_QUOTE, text)).unwrap();
            let listed = DeviceOrder::List(order.devices().collect()).with_sorted_groups(n).unwrap();
            match order.with_sorted_groups(n) {
                Some(sorted) => {
                    assert!(sorted.devices().eq(listed.devices()), "{text} in groups of {n}");
                    format!("{text} in groups of {n}: {sorted}\n")
                }
                None => format!("{text} in groups of {n}: {listed}\n"),
            }
        };
        let cases = [
            ("[8]", 4),
            ("[2,4]T(1,0)", 8),
            ("[2,4]T(1,0)", 4),
            ("[2,2,2]T(2,1,0)", 4),
            ("[4,3]T(1,0)", 2),
            ("[2,3]T(1,0)", 3),
        ];
        expect![[r#"
            [8] in groups of 4: [8]
            [2,4]T(1,0) in groups of 8: [8]
            [2,4]T(1,0) in groups of 4: [2,2,2]T(1,0,2)
            [2,2,2]T(2,1,0) in groups of 4: [4,2]T(1,0)
            [4,3]T(1,0) in groups of 2: [4,3]T(1,0)
            [2,3]T(1,0) in groups of 3: 0,1,3,2,4,5
        "#]]
        .assert_eq(&cases.map(|(text, n)| sorted(text, n)).concat());
    }

    #[test]
    fn what_is_no_counted_array_is_refused() {
        check(
            &["8", "[2,4", "[2,4]T(1)", "[2,4]T(1,1)", "[2,4]T(0,2)", "[0,4]", "[2,4]T(1,0) x", "[a]"],
            expect![[r#"
                8: error: device order "8": expected '[' at byte 0, found '8'
                [2,4: error: device order "[2,4": expected ',' or ']' at byte 4, found the end
                [2,4]T(1): error: T(1) does not name each of the 2 dims before it once
                [2,4]T(1,1): error: T(1,1) does not name each of the 2 dims before it once
                [2,4]T(0,2): error: T(0,2) does not name each of the 2 dims before it once
                [0,4]: error: sizes [0,4]: a size is at least 1
                [2,4]T(1,0) x: error: device order "[2,4]T(1,0) x": expected the end at byte 12, found 'x'
                [a]: error: device order "[a]": expected a number at byte 1, found 'a'
            "#]],
        );
        check(
            &["[1048577]", "[4294967296,4294967296]", "[18446744073709551616]"],
            expect![[r#"
                [1048577]: [1048577], 1048577 devices
                [4294967296,4294967296]: error: the text speaks of more than 18446744073709551615 devices
                [18446744073709551616]: error: device order "[18446744073709551616]": expected a number that is not so large at byte 1, found '1'
            "#]],
        );
    }
}
