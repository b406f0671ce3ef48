//! The learning rate over time, with the options that Hugging Face's schedulers have.

use shardwright_train::{Curve, ScheduleConfig, ScheduleKind, StableDecay, Warmup};

use super::super::choice::{Choice, Scheduler};
use super::super::failure::Failure;
use super::super::settings::OptimizationSettings;
use super::Notices;
use super::options::Reader;

pub(super) fn schedule(
    settings: &OptimizationSettings,
    notices: &mut Notices,
) -> Result<ScheduleConfig, Failure> {
    let scheduler = settings.lr_scheduler_type.value;
    let mut kwargs =
        Reader::new(settings.lr_scheduler_kwargs.as_ref(), "lr_scheduler_kwargs", scheduler.word());
    let kind = kind(scheduler, settings.learning_rate.value.0, &mut kwargs)?;
    kwargs.finish()?;
    Ok(ScheduleConfig { kind, warmup: warmup(settings, notices) })
}

fn kind(scheduler: Scheduler, highest: f64, kwargs: &mut Reader<'_>) -> Result<ScheduleKind, Failure> {
    Ok(match scheduler {
        Scheduler::Linear => ScheduleKind::Linear,
        Scheduler::Constant | Scheduler::ConstantWithWarmup => ScheduleKind::Constant,
        Scheduler::Cosine => {
            ScheduleKind::Cosine { cycles: kwargs.number("num_cycles")?.unwrap_or(0.5), floor: 0.0 }
        }
        Scheduler::CosineWithMinLr => {
            let cycles = kwargs.number("num_cycles")?.unwrap_or(0.5);
            let floor = match (rate(kwargs, "min_lr", highest)?, kwargs.number("min_lr_rate")?) {
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
            let end = match rate(kwargs, "lr_end", highest)? {
                Some(end) => end,
                None => part(kwargs, "lr_end", 1e-7, highest)?,
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

fn stable_decay(kwargs: &mut Reader<'_>) -> Result<StableDecay, Failure> {
    let Some(decay_steps) = kwargs.count("num_decay_steps")? else {
        return Err(kwargs.wrong("warmup_stable_decay takes num_decay_steps"));
    };
    Ok(StableDecay {
        warmup: curve(kwargs, "warmup_type")?.unwrap_or(Curve::Linear),
        stable_steps: kwargs.count("num_stable_steps")?,
        decay_steps,
        decay: curve(kwargs, "decay_type")?.unwrap_or(Curve::Cosine),
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

/// A learning rate, as a part of the highest.
fn rate(kwargs: &mut Reader<'_>, name: &str, highest: f64) -> Result<Option<f64>, Failure> {
    kwargs.number(name)?.map(|rate| part(kwargs, name, rate, highest)).transpose()
}

fn part(kwargs: &Reader<'_>, name: &str, rate: f64, highest: f64) -> Result<f64, Failure> {
    match highest {
        0.0 => Err(kwargs.wrong(format!("{name} is a part of learning_rate, which is 0"))),
        highest => Ok(rate / highest),
    }
}

fn curve(kwargs: &mut Reader<'_>, name: &str) -> Result<Option<Curve>, Failure> {
    kwargs.take(name, "linear, cosine or 1-sqrt", |value| match value.as_str()? {
        "linear" => Some(Curve::Linear),
        "cosine" => Some(Curve::Cosine),
        "1-sqrt" => Some(Curve::OneMinusSqrt),
        _ => None,
    })
}
