//! When a model is evaluated, and what is noted down.

use std::ffi::OsStr;
use std::path::{Component, Path};

use shardwright_train::{EvaluationConfig, IntervalStrategy, LoggingConfig};

use super::super::choice::When;
use super::super::failure::Failure;
use super::super::settings::{EvaluationSettings, Settings};
use super::super::value::Every;
use super::Notices;

/// Whether the model is trained, and whether and when it is evaluated.
pub(super) fn evaluation(
    settings: &Settings,
    notices: &mut Notices,
) -> Result<(bool, EvaluationConfig), Failure> {
    let evaluation = &settings.evaluation;
    let every = evaluation.eval_steps.as_ref().unwrap_or(&evaluation.logging_steps);
    let strategy = interval(evaluation.eval_strategy.value, every.value);
    let on_start = evaluation.eval_on_start.value;
    let is_amid_training = strategy != IntervalStrategy::No || on_start;
    let do_eval = evaluation.do_eval.value || is_amid_training;
    let do_train = match &settings.training.do_train {
        Some(asked) if !asked.value && !do_eval => {
            return Err(asked.wrong("this leaves nothing to do; leave it out to train"));
        }
        Some(asked) => asked.value,
        // As with Trainer, who asks for evaluation and for nothing else wants nothing else.
        None => !evaluation.do_eval.value || is_amid_training,
    };
    if let (false, Some(_)) = (do_eval, &settings.data.validation_file) {
        notices.push("validation_file is not read: do_eval is off".into());
    }
    if let (When::No | When::Epoch, Some(_)) = (evaluation.eval_strategy.value, &evaluation.eval_steps) {
        notices.push("eval_steps has no effect: eval_strategy is not steps".into());
    }
    Ok((do_train, EvaluationConfig { do_eval, strategy, on_start }))
}

/// What is noted down in the course of training.
pub(super) fn logging(settings: &EvaluationSettings, notices: &mut Notices) -> LoggingConfig {
    if settings.logging_strategy.value == When::No {
        let unread = [
            ("logging_dir", settings.logging_dir.is_some()),
            ("run_name", settings.run_name.is_some()),
            ("report_to", !settings.report_to.value.0.is_empty()),
        ];
        for (name, _) in unread.into_iter().filter(|(_, is_given)| *is_given) {
            notices.push(format!("{name} has no effect: logging_strategy is no"));
        }
    }
    LoggingConfig {
        strategy: interval(settings.logging_strategy.value, settings.logging_steps.value),
        first_step: settings.logging_first_step.value,
        nan_inf_filter: settings.logging_nan_inf_filter.value,
        dir: settings.logging_dir.as_ref().map(|folder| folder.resolve(&folder.value)),
        report_to: settings.report_to.value.0.clone(),
    }
}

/// What the run is called in the folder of its log: a name, and no path that leads elsewhere.
pub(super) fn run_name(settings: &EvaluationSettings) -> Result<Option<String>, Failure> {
    let Some(name) = &settings.run_name else { return Ok(None) };
    let mut parts = Path::new(&name.value).components();
    match (parts.next(), parts.next()) {
        (Some(Component::Normal(part)), None) if part == OsStr::new(&name.value) => {
            Ok(Some(name.value.clone()))
        }
        _ => Err(name.wrong(format!("expected a name for a folder, found {:?}", name.value))),
    }
}

fn interval(when: When, Every(every): Every) -> IntervalStrategy {
    match when {
        When::No => IntervalStrategy::No,
        When::Steps => every,
        When::Epoch => IntervalStrategy::Epoch,
    }
}
