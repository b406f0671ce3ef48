//! The learning rate over time, with the options that Hugging Face's schedulers have.

use serde_json::{Map, Value as Json};
use shardwright_train::{Curve, ScheduleConfig, ScheduleKind, StableDecay, Warmup};

use super::super::choice::Scheduler;
use super::super::failure::Failure;
use super::super::settings::OptimizationSettings;
use super::Notices;

/// The options of a schedule that are not read yet. Reading takes one away, and what is left is unknown.
struct Kwargs<'a> {
    left: Map<String, Json>,
    scheduler: Scheduler,
    settings: &'a OptimizationSettings,
}

pub(super) fn schedule(
    settings: &OptimizationSettings,
    notices: &mut Notices,
) -> Result<ScheduleConfig, Failure> {
    let scheduler = settings.lr_scheduler_type.value;
    let left = settings.lr_scheduler_kwargs.as_ref().map(|kwargs| kwargs.value.0.clone()).unwrap_or_default();
    let mut kwargs = Kwargs { left, scheduler, settings };
    let kind = kind(&mut kwargs)?;
    kwargs.finish()?;
    Ok(ScheduleConfig { kind, warmup: warmup(settings, notices) })
}

fn kind(kwargs: &mut Kwargs<'_>) -> Result<ScheduleKind, Failure> {
    Ok(match kwargs.scheduler {
        Scheduler::Linear => ScheduleKind::Linear,
        Scheduler::Constant | Scheduler::ConstantWithWarmup => ScheduleKind::Constant,
        Scheduler::Cosine => {
            ScheduleKind::Cosine { cycles: kwargs.number("num_cycles")?.unwrap_or(0.5), floor: 0.0 }
        }
        Scheduler::CosineWithMinLr => {
            let cycles = kwargs.number("num_cycles")?.unwrap_or(0.5);
            let floor = match (kwargs.rate("min_lr")?, kwargs.number("min_lr_rate")?) {
                (Some(_), Some(_)) => {
                    return Err(kwargs.wrong("min_lr and min_lr_rate say the same; keep one of them"));
                }
                (None, None) => return Err(kwargs.wrong("cosine_with_min_lr takes min_lr or min_lr_rate")),
                (rate, part) => rate.or(part).unwrap_or(0.0),
            };
            if floor > 1.0 {
                return Err(kwargs.wrong("the lowest learning rate is above the highest"));
            }
            ScheduleKind::Cosine { cycles, floor }
        }
        Scheduler::CosineWithRestarts => {
            ScheduleKind::CosineWithRestarts { cycles: kwargs.count("num_cycles")?.unwrap_or(1) }
        }
        Scheduler::Polynomial => {
            let end = match kwargs.rate("lr_end")? {
                Some(end) => end,
                None => kwargs.part_of_rate("lr_end", 1e-7)?,
            };
            if end >= 1.0 {
                return Err(kwargs.wrong("lr_end is not below learning_rate"));
            }
            ScheduleKind::Polynomial { power: kwargs.number("power")?.unwrap_or(1.0), end }
        }
        Scheduler::InverseSqrt => {
            let timescale = kwargs.count("timescale")?;
            if timescale == Some(0) {
                return Err(kwargs.wrong("timescale: expected a whole number of at least 1, found 0"));
            }
            ScheduleKind::InverseSqrt { timescale }
        }
        Scheduler::WarmupStableDecay => ScheduleKind::WarmupStableDecay(stable_decay(kwargs)?),
    })
}

fn stable_decay(kwargs: &mut Kwargs<'_>) -> Result<StableDecay, Failure> {
    let Some(decay_steps) = kwargs.count("num_decay_steps")? else {
        return Err(kwargs.wrong("warmup_stable_decay takes num_decay_steps"));
    };
    Ok(StableDecay {
        warmup: kwargs.curve("warmup_type")?.unwrap_or(Curve::Linear),
        stable_steps: kwargs.count("num_stable_steps")?,
        decay_steps,
        decay: kwargs.curve("decay_type")?.unwrap_or(Curve::Cosine),
        floor: kwargs.number("min_lr_ratio")?.unwrap_or(0.0),
        cycles: kwargs.number("num_cycles")?.unwrap_or(0.5),
    })
}

fn warmup(settings: &OptimizationSettings, notices: &mut Notices) -> Warmup {
    let (steps, ratio) = (settings.warmup_steps.value.0, settings.warmup_ratio.value.0);
    if settings.lr_scheduler_type.value == Scheduler::Constant {
        if steps > 0 || ratio > 0.0 {
            notices
                .push("warmup has no effect: lr_scheduler_type is constant; use constant_with_warmup".into());
        }
        return Warmup::Steps(0);
    }
    if steps > 0 && ratio > 0.0 {
        notices.push("warmup_ratio has no effect: warmup_steps is given".into());
    }
    if steps > 0 || ratio == 0.0 { Warmup::Steps(steps) } else { Warmup::Ratio(ratio) }
}

impl Kwargs<'_> {
    fn wrong(&self, why: impl std::fmt::Display) -> Failure {
        match &self.settings.lr_scheduler_kwargs {
            Some(kwargs) => kwargs.wrong(why),
            None => self.settings.lr_scheduler_type.wrong(format!("{why}; give it in lr_scheduler_kwargs")),
        }
    }

    fn number(&mut self, name: &str) -> Result<Option<f64>, Failure> {
        self.take(name, "a number of at least 0", |value| value.as_f64().filter(|x| *x >= 0.0))
    }

    fn count(&mut self, name: &str) -> Result<Option<usize>, Failure> {
        self.take(name, "a whole number", |value| usize::try_from(value.as_u64()?).ok())
    }

    fn curve(&mut self, name: &str) -> Result<Option<Curve>, Failure> {
        self.take(name, "linear, cosine or 1-sqrt", |value| match value.as_str()? {
            "linear" => Some(Curve::Linear),
            "cosine" => Some(Curve::Cosine),
            "1-sqrt" => Some(Curve::OneMinusSqrt),
            _ => None,
        })
    }

    /// A learning rate, as a part of the highest.
    fn rate(&mut self, name: &str) -> Result<Option<f64>, Failure> {
        self.number(name)?.map(|rate| self.part_of_rate(name, rate)).transpose()
    }

    fn part_of_rate(&self, name: &str, rate: f64) -> Result<f64, Failure> {
        match self.settings.learning_rate.value.0 {
            0.0 => Err(self.wrong(format!("{name} is a part of learning_rate, which is 0"))),
            highest => Ok(rate / highest),
        }
    }

    fn take<T>(
        &mut self,
        name: &str,
        wanted: &str,
        read: impl Fn(&Json) -> Option<T>,
    ) -> Result<Option<T>, Failure> {
        match self.left.remove(name) {
            None | Some(Json::Null) => Ok(None),
            Some(value) => match read(&value) {
                Some(read) => Ok(Some(read)),
                None => Err(self.wrong(format!("{name}: expected {wanted}, found {value}"))),
            },
        }
    }

    fn finish(self) -> Result<(), Failure> {
        match self.left.keys().next() {
            Some(name) => Err(self.wrong(format!("{name} is no option of {}", self.scheduler.name()))),
            None => Ok(()),
        }
    }
}
