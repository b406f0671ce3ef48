//! Learning rates over time.

use std::f64::consts::PI;

use crate::{Curve, ScheduleConfig, ScheduleKind, StableDecay, Warmup};

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
        if let ScheduleKind::WarmupStableDecay(parts) = self.kind {
            return self.stable_decay(step, &parts);
        }
        if step < self.warmup {
            return step as f64 / self.warmup as f64;
        }
        let falling = self.steps.saturating_sub(self.warmup).max(1) as f64;
        let left = self.steps.saturating_sub(step) as f64 / falling;
        let progress = (step - self.warmup) as f64 / falling;
        match self.kind {
            ScheduleKind::Constant => 1.0,
            ScheduleKind::Linear => left,
            ScheduleKind::Cosine { cycles, floor } => {
                let wave = 0.5 * (1.0 + (PI * cycles * 2.0 * progress).cos());
                (wave * (1.0 - floor) + floor).max(0.0)
            }
            ScheduleKind::CosineWithRestarts { .. } if progress >= 1.0 => 0.0,
            ScheduleKind::CosineWithRestarts { cycles } => {
                0.5 * (1.0 + (PI * (cycles as f64 * progress).fract()).cos())
            }
            ScheduleKind::Polynomial { power, end } => (1.0 - end) * left.powf(power) + end,
            ScheduleKind::InverseSqrt { timescale } => {
                let usual = if self.warmup == 0 { 10_000 } else { self.warmup };
                let timescale = timescale.unwrap_or(usual).max(1) as f64;
                ((step as f64 + timescale - self.warmup as f64) / timescale).sqrt().recip()
            }
            ScheduleKind::WarmupStableDecay(_) => unreachable!("has a warm-up of its own"),
        }
    }

    fn stable_decay(&self, step: usize, parts: &StableDecay) -> f64 {
        let rest = self.steps.saturating_sub(self.warmup).saturating_sub(parts.decay_steps);
        let stable = parts.stable_steps.unwrap_or(rest);
        let scaled = |part: f64| (part * (1.0 - parts.floor) + parts.floor).max(0.0);
        let wave = |progress: f64| (PI * parts.cycles * 2.0 * progress).cos();
        if step < self.warmup {
            let progress = step as f64 / self.warmup as f64;
            return scaled(match parts.warmup {
                Curve::Linear => progress,
                Curve::Cosine => 0.5 * (1.0 - (PI * progress).cos()),
                Curve::OneMinusSqrt => 1.0 - (1.0 - progress).sqrt(),
            });
        }
        let falling = (step - self.warmup).saturating_sub(stable);
        if falling == 0 {
            return 1.0;
        }
        if falling >= parts.decay_steps {
            return parts.floor;
        }
        let progress = falling as f64 / parts.decay_steps as f64;
        scaled(match parts.decay {
            Curve::Linear => 1.0 - progress,
            Curve::Cosine => 0.5 * (1.0 + wave(progress)),
            Curve::OneMinusSqrt => 1.0 - progress.sqrt(),
        })
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
        let cosine = ScheduleKind::Cosine { cycles: 0.5, floor: 0.0 };
        check(cosine, Warmup::Steps(0), [8.0, 4.0 + half, 4.0, 4.0 - half, 0.0]);
    }

    #[test]
    fn a_timescale_of_0_is_one_of_1() {
        let inverse_sqrt = |timescale| ScheduleKind::InverseSqrt { timescale: Some(timescale) };
        let expected = [8.0, 8.0 / 2.0_f64.sqrt(), 8.0 / 3.0_f64.sqrt(), 4.0, 8.0 / 5.0_f64.sqrt()];
        check(inverse_sqrt(0), Warmup::Steps(0), expected);
        check(inverse_sqrt(1), Warmup::Steps(0), expected);
    }

    #[test]
    fn a_part_may_be_longer_than_any_run() {
        let parts = StableDecay {
            warmup: Curve::Linear,
            stable_steps: None,
            decay_steps: 2,
            decay: Curve::Linear,
            floor: 0.0,
            cycles: 0.5,
        };
        let kind = |stable_steps, decay_steps| {
            ScheduleKind::WarmupStableDecay(StableDecay { stable_steps, decay_steps, ..parts })
        };
        check(kind(None, 2), Warmup::Steps(1), [0.0, 8.0, 8.0, 4.0, 0.0]);
        check(kind(Some(usize::MAX), 2), Warmup::Steps(1), [0.0, 8.0, 8.0, 8.0, 8.0]);
        check(kind(None, usize::MAX), Warmup::Steps(1), [0.0, 8.0, 8.0, 8.0, 8.0]);
        check(kind(None, 2), Warmup::Steps(usize::MAX), [0.0; 5]);
    }
}
