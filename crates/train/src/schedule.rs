use crate::{ScheduleConfig, ScheduleKind, Warmup};

/// What learning rates are multiplied by at each step, by the formulas of Hugging Face's `get_scheduler`.
///
/// With `w` warm-up steps of `n`, step `k` (from 0) has the factor `k / w` while `k < w`; then `(n − k) / (n − w)` if
/// linear, `(1 + cos(π (k − w) / (n − w))) / 2` if cosine, 1 if constant.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Schedule {
    kind: ScheduleKind,
    warmup: usize,
    steps: usize,
}

impl Schedule {
    /// The schedule of a run of this many steps.
    pub fn new(config: &ScheduleConfig, steps: usize) -> Schedule {
        let warmup = match config.warmup {
            Warmup::Steps(steps) => steps,
            Warmup::Ratio(ratio) => (ratio * steps as f64).ceil() as usize,
        };
        Schedule { kind: config.kind, warmup, steps }
    }

    /// What learning rates are multiplied by at the step with this number, counted from 0.
    pub fn factor(&self, step: usize) -> f64 {
        if step < self.warmup {
            return step as f64 / self.warmup as f64;
        }
        let falling = self.steps.saturating_sub(self.warmup).max(1) as f64;
        match self.kind {
            ScheduleKind::Constant => 1.0,
            ScheduleKind::Linear => self.steps.saturating_sub(step) as f64 / falling,
            ScheduleKind::Cosine => {
                let progress = (step - self.warmup) as f64 / falling;
                0.5 * (1.0 + (std::f64::consts::PI * progress.min(1.0)).cos())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(kind: ScheduleKind, warmup: Warmup, expected: [f64; 5]) {
        let schedule = Schedule::new(&ScheduleConfig { kind, warmup }, 4);
        for (step, expected) in expected.into_iter().enumerate() {
            let rate = 8.0 * schedule.factor(step);
            assert!((rate - expected).abs() < 1e-12, "step {step}: {rate}, not {expected}");
        }
    }

    #[test]
    fn rates_follow_the_formulas() {
        check(ScheduleKind::Linear, Warmup::Steps(0), [8.0, 6.0, 4.0, 2.0, 0.0]);
        check(ScheduleKind::Linear, Warmup::Steps(2), [0.0, 4.0, 8.0, 4.0, 0.0]);
        check(ScheduleKind::Linear, Warmup::Ratio(0.3), [0.0, 4.0, 8.0, 4.0, 0.0]);
        check(ScheduleKind::Constant, Warmup::Steps(1), [0.0, 8.0, 8.0, 8.0, 8.0]);
        let half = 4.0 * std::f64::consts::SQRT_2 / 2.0;
        check(ScheduleKind::Cosine, Warmup::Steps(0), [8.0, 4.0 + half, 4.0, 4.0 - half, 0.0]);
    }
}
