//! The order of the blocks in an epoch.
//!
//! A Fisher–Yates shuffle over a counter-based generator, SplitMix64: draw `k` is `mix(key + (k + 1) * GOLDEN)`,
//! where `key` mixes the seed and the epoch. A draw is brought into `0..n` by Lemire's multiplication with
//! rejection, so every permutation is equally likely and the result is the same on every platform.

/// The increment of SplitMix64: 2^64 divided by the golden ratio.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// The numbers `0..len` in the order that `seed` gives to `epoch`.
pub(crate) fn shuffled(len: usize, seed: u64, epoch: u64) -> Vec<usize> {
    let mut order: Vec<usize> = (0..len).collect();
    let mut draws = Draws::new(seed, epoch);
    for last in (1..len).rev() {
        let chosen = draws.below(last as u64 + 1) as usize;
        order.swap(last, chosen);
    }
    order
}

struct Draws {
    state: u64,
}

impl Draws {
    /// The stream of one epoch. Mixing between the two keeps epoch `e + 1` of one seed apart from epoch `e` of the
    /// next.
    fn new(seed: u64, epoch: u64) -> Draws {
        let seed = mix(seed.wrapping_add(GOLDEN));
        Draws { state: mix(seed ^ mix(epoch)) }
    }

    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(GOLDEN);
        mix(self.state)
    }

    /// A number in `0..bound`, each as likely as the others.
    fn below(&mut self, bound: u64) -> u64 {
        let rejected = bound.wrapping_neg() % bound;
        loop {
            let product = u128::from(self.next()) * u128::from(bound);
            if product as u64 >= rejected {
                return (product >> 64) as u64;
            }
        }
    }
}

/// The finalizer of SplitMix64, a bijection.
fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generator_is_splitmix64() {
        // The first outputs of the reference implementation for the seed 1234567.
        let mut draws = Draws { state: 1234567 };
        assert_eq!(draws.next(), 6457827717110365317);
        assert_eq!(draws.next(), 3203168211198807973);
        assert_eq!(draws.next(), 9817491932198370423);
    }

    #[test]
    fn every_order_is_a_permutation() {
        for len in (0..70).chain([1000, 4097]) {
            for epoch in 0..4 {
                let mut order = shuffled(len, 42, epoch);
                order.sort_unstable();
                assert!(order.into_iter().eq(0..len), "length {len}, epoch {epoch}");
            }
        }
    }

    #[test]
    fn seeds_and_epochs_give_different_orders() {
        let orders: std::collections::HashSet<Vec<usize>> =
            (0..20).flat_map(|seed| (0..20).map(move |epoch| shuffled(50, seed, epoch))).collect();
        assert_eq!(orders.len(), 400);
    }

    #[test]
    fn the_orders_of_three_are_equally_likely() {
        let mut counts = std::collections::BTreeMap::new();
        for epoch in 0..6000 {
            *counts.entry(shuffled(3, 7, epoch)).or_insert(0) += 1;
        }
        assert_eq!(counts.len(), 6);
        assert!(counts.values().all(|&n| (900..1100).contains(&n)), "{counts:?}");
    }

    /// Checkpoints name a step; the blocks behind it must not change from one version to the next.
    #[test]
    fn orders_stay_what_they_are() {
        assert_eq!(shuffled(10, 42, 0), [8, 1, 9, 2, 6, 0, 4, 5, 3, 7]);
        assert_eq!(shuffled(10, 42, 1), [5, 9, 4, 7, 6, 3, 2, 0, 1, 8]);
    }
}
