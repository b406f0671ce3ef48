//! Which part of which physical axis each logical axis gets.
//!
//! An assignment gives each logical axis a factor of the size of each physical axis, such that the factors of a
//! logical axis multiply to its size. Logical axes are served from the last one, which communicates most, to
//! the first. For each, factors are preferred by these rules, in this order:
//!
//! 1. a larger share of it on physical axes that it gets whole, with nobody else on their links;
//! 2. more such axes: their links carry data at the same time;
//! 3. a smaller share on axes that an earlier served logical axis has a part of;
//! 4. more axes among those it gets whole that wrap around: only these are rings, the others are lines;
//! 5. the earlier physical axes.
//!
//! Where several logical axes split one physical axis, the last of them is the minor one, so the one that
//! communicates most has direct neighbours.
//!
//! The choice for one logical axis never makes the next impossible: the factors that are left always multiply
//! to the sizes that are left, prime by prime.

use std::cmp::Reverse;

/// For each logical axis its factor of each physical axis.
pub(crate) type Assignment = Vec<Vec<usize>>;

/// Every assignment of logical axes of sizes `logical` to physical axes of sizes `physical`, best first. The
/// products of the two must be equal. `wraps` says which physical axes wrap around.
///
/// They are worked out one at a time, since there may be very many.
pub(crate) fn assignments(
    logical: Vec<usize>,
    physical: Vec<usize>,
    wraps: Vec<bool>,
) -> impl Iterator<Item = Assignment> {
    // Assignments of the last axes only, the one to go on with at the end.
    let mut partial: Vec<Assignment> = vec![Vec::new()];
    std::iter::from_fn(move || {
        while let Some(mut assigned) = partial.pop() {
            if assigned.len() == logical.len() {
                assigned.reverse();
                return Some(assigned);
            }
            let size = logical[logical.len() - 1 - assigned.len()];
            let taken: Vec<usize> = (0..physical.len())
                .map(|axis| assigned.iter().map(|factors| factors[axis]).product())
                .collect();
            let mut choices = splits(size, &physical, &taken);
            choices.sort_by_cached_key(|factors| preference(factors, &physical, &wraps, &taken));
            partial
                .extend(choices.into_iter().rev().map(|factors| [assigned.clone(), vec![factors]].concat()));
        }
        None
    })
}

/// All ways to write `size` as a product of factors of what is left of each physical axis.
fn splits(size: usize, physical: &[usize], taken: &[usize]) -> Vec<Vec<usize>> {
    let Some(((&axis_size, physical), (&axis_taken, taken))) =
        physical.split_first().zip(taken.split_first())
    else {
        return if size == 1 { vec![Vec::new()] } else { Vec::new() };
    };
    let left = axis_size / axis_taken;
    let divides = |factor: &usize| left.is_multiple_of(*factor) && size.is_multiple_of(*factor);
    let mut all = Vec::new();
    for factor in (1..=left.min(size)).filter(divides) {
        let rest = splits(size / factor, physical, taken);
        all.extend(rest.into_iter().map(|rest| [vec![factor], rest].concat()));
    }
    all
}

/// The rules of this module as a key to sort by, best first.
fn preference(factors: &[usize], physical: &[usize], wraps: &[bool], taken: &[usize]) -> impl Ord + use<> {
    let product_where = |wanted: &dyn Fn(usize) -> bool| -> usize {
        (0..factors.len()).filter(|&axis| wanted(axis)).map(|axis| factors[axis]).product()
    };
    let is_whole = |axis: usize| factors[axis] == physical[axis] && factors[axis] > 1;
    let whole = || (0..factors.len()).filter(|&axis| is_whole(axis));
    let n_rings = whole().filter(|&axis| wraps[axis]).count();
    let shared = product_where(&|axis| taken[axis] > 1);
    (
        Reverse(product_where(&is_whole)),
        Reverse(whole().count()),
        shared,
        Reverse(n_rings),
        Reverse(factors.to_vec()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    fn check(logical: &[usize], physical: &[usize], expect: Expect) {
        check_wrapped(logical, physical, &vec![false; physical.len()], expect);
    }

    fn check_wrapped(logical: &[usize], physical: &[usize], wraps: &[bool], expect: Expect) {
        let all: Vec<_> = assignments(logical.to_vec(), physical.to_vec(), wraps.to_vec()).collect();
        let lines: String = all.iter().take(4).map(|one| format!("{one:?}\n")).collect();
        expect.assert_eq(&format!("{lines}{} in all\n", all.len()));
    }

    #[test]
    fn the_last_axis_gets_whole_physical_axes_first() {
        check(
            &[2, 2, 4],
            &[4, 4],
            expect![[r#"
                [[1, 2], [1, 2], [4, 1]]
                [[2, 1], [2, 1], [1, 4]]
                [[1, 2], [2, 1], [2, 2]]
                [[2, 1], [1, 2], [2, 2]]
                4 in all
            "#]],
        );
        check(
            &[16, 4],
            &[4, 4, 4],
            expect![[r#"
                [[1, 4, 4], [4, 1, 1]]
                [[4, 1, 4], [1, 4, 1]]
                [[4, 4, 1], [1, 1, 4]]
                [[2, 2, 4], [2, 2, 1]]
                6 in all
            "#]],
        );
    }

    #[test]
    fn more_whole_axes_are_better_than_one() {
        check(
            &[4, 4],
            &[2, 2, 4],
            expect![[r#"
                [[1, 1, 4], [2, 2, 1]]
                [[2, 2, 1], [1, 1, 4]]
                [[1, 2, 2], [2, 1, 2]]
                [[2, 1, 2], [1, 2, 2]]
                4 in all
            "#]],
        );
    }

    #[test]
    fn axes_that_nobody_uses_are_better_than_shared_ones() {
        // The last axis takes a half of x; the next would rather have a half of y than the rest of x.
        check(
            &[4, 2, 2],
            &[4, 4],
            expect![[r#"
                [[2, 2], [1, 2], [2, 1]]
                [[1, 4], [2, 1], [2, 1]]
                [[2, 2], [2, 1], [1, 2]]
                [[4, 1], [1, 2], [1, 2]]
                4 in all
            "#]],
        );
    }

    #[test]
    fn rings_are_better_than_lines_where_all_else_is_equal() {
        check_wrapped(
            &[4, 4, 4],
            &[4, 4, 4],
            &[false, true, false],
            expect![[r#"
                [[1, 1, 4], [4, 1, 1], [1, 4, 1]]
                [[4, 1, 1], [1, 1, 4], [1, 4, 1]]
                [[2, 1, 2], [2, 1, 2], [1, 4, 1]]
                [[1, 1, 4], [1, 4, 1], [4, 1, 1]]
                21 in all
            "#]],
        );
        // Two lines are better than one ring.
        check_wrapped(
            &[4, 4],
            &[2, 4, 2],
            &[false, true, false],
            expect![[r#"
                [[1, 4, 1], [2, 1, 2]]
                [[2, 1, 2], [1, 4, 1]]
                [[1, 2, 2], [2, 2, 1]]
                [[2, 2, 1], [1, 2, 2]]
                4 in all
            "#]],
        );
    }

    #[test]
    fn a_flat_axis_gets_everything_and_a_size_of_one_nothing() {
        check(
            &[64, 1],
            &[4, 4, 4],
            expect![[r#"
                [[4, 4, 4], [1, 1, 1]]
                1 in all
            "#]],
        );
        check(
            &[],
            &[1, 1],
            expect![[r#"
                []
                1 in all
            "#]],
        );
    }

    #[test]
    fn the_best_of_very_many_comes_at_once() {
        let first = assignments(vec![2; 15], vec![32; 3], vec![true; 3]).next().unwrap();
        assert_eq!(first[13..], [[1, 2, 1], [2, 1, 1]]);
    }
}
