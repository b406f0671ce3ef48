//! When something is done in the course of training.

use crate::IntervalStrategy;

/// Whether it is done after so many steps, of which an epoch has `per_epoch` and the run `total`. What is done after each
/// epoch is done after the last, incomplete one too.
pub(crate) fn is_due(strategy: IntervalStrategy, step: usize, per_epoch: u64, total: usize) -> bool {
    match strategy {
        IntervalStrategy::Epoch => (step as u64).is_multiple_of(per_epoch) || step == total,
        _ => steps_between(strategy, total).is_some_and(|steps| step.is_multiple_of(steps)),
    }
}

/// The steps from one time to the next, where that is a number of its own.
pub(crate) fn steps_between(strategy: IntervalStrategy, total: usize) -> Option<usize> {
    match strategy {
        IntervalStrategy::No | IntervalStrategy::Epoch => None,
        IntervalStrategy::Steps(steps) => Some(steps.max(1)),
        IntervalStrategy::Part(part) => Some(((part * total as f64).ceil() as usize).max(1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn things_are_done_after_steps_or_epochs() {
        let due = |strategy| (1..=8).filter(|step| is_due(strategy, *step, 3, 8)).collect::<Vec<_>>();
        assert!(due(IntervalStrategy::No).is_empty());
        assert_eq!(due(IntervalStrategy::Steps(3)), [3, 6]);
        assert_eq!(due(IntervalStrategy::Part(0.4)), [4, 8]);
        assert_eq!(due(IntervalStrategy::Epoch), [3, 6, 8]);
    }
}
