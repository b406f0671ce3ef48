//! Settings that are understood, and that nothing carries out yet: each row goes when something does.

use super::choice::When;
use super::failure::Failure;
use super::settings::{Layer, Setting, Settings};

/// A setting that is refused.
struct Row {
    name: &'static str,
    /// Whether its value asks for what cannot be done.
    asks: fn(&Settings) -> bool,
    /// What happens instead.
    instead: &'static str,
}

const TABLE: &[Row] = &[
    row("dry_run", |s| s.training.dry_run.value, "`shardwright explain train` compiles and trains nothing"),
    row("do_eval", |s| s.evaluation.do_eval.value, "nothing is evaluated"),
    row("eval_strategy", |s| s.evaluation.eval_strategy.value != When::No, "nothing is evaluated"),
    row("eval_on_start", |s| s.evaluation.eval_on_start.value, "nothing is evaluated"),
    row("validation_file", |s| s.data.validation_file.is_some(), "nothing is evaluated"),
    row("text_column", |s| s.data.text_column.is_some(), "the column text is read"),
    row("packing", |s| !s.data.packing.value, "rows are joined"),
    row("cache_dir", |s| s.data.cache_dir.is_some(), "tokens are not kept"),
    row("report_to", |s| !s.evaluation.report_to.value.0.is_empty(), "the log is in trainer_state.json"),
    row(
        "logging_first_step",
        |s| s.evaluation.logging_first_step.value,
        "logging_steps 1 notes down each step",
    ),
    row(
        "logging_nan_inf_filter",
        |s| !s.evaluation.logging_nan_inf_filter.value,
        "nothing is left out of means",
    ),
];

const fn row(name: &'static str, asks: fn(&Settings) -> bool, instead: &'static str) -> Row {
    Row { name, asks, instead }
}

/// Refuses what nothing carries out yet.
pub(super) fn check(settings: &Settings, layers: &[&Layer]) -> Result<(), Failure> {
    for Row { name, asks, instead } in TABLE {
        let given = layers.iter().find_map(|layer| layer.get(name)).filter(|_| asks(settings));
        if let Some(given) = given {
            return Err(Setting::of(name, given).wrong(format!("not supported yet: {instead}; leave it out")));
        }
    }
    Ok(())
}
