//! `shardwright train`.

use std::path::Path;

use shardwright_runtime::RuntimeOptions;
use shardwright_runtime::compile::ChildCompiler;
use shardwright_train::{StopFlag, TrainConfig};

use super::args::{GlobalArgs, TrainArgs};
use super::choice::Lowerings;
use super::compile;
use super::config;
use super::console::{self, Verbosity};
use super::effective::Effective;
use super::engine::{self, Engine};
use super::environment::Variables;
use super::failure::Failure;
use super::fetch;
use super::foreign;
use super::interrupt;
use super::report::Report;
use super::run_file;
use super::settings::{Layer, Setting, Settings};

/// Trains a model.
pub(super) fn run(
    global: &GlobalArgs,
    arguments: &TrainArgs,
    compiler: &ChildCompiler,
) -> Result<(), Failure> {
    let stop = StopFlag::new();
    interrupt::listen(&stop)?;
    let result = train(global, arguments, compiler, &stop);
    stop.finish();
    result
}

fn train(
    global: &GlobalArgs,
    arguments: &TrainArgs,
    compiler: &ChildCompiler,
    stop: &StopFlag,
) -> Result<(), Failure> {
    let Prepared { config, lowering, is_dry, options, mut report } = prepare(global, arguments, compiler)?;
    if let Lowerings::Both = lowering.value {
        let why = "both is to be compared by `shardwright explain train`; a run has one: auto, annotate or explicit";
        return Err(lowering.wrong(why));
    }
    let prepared = match is_dry {
        false => engine::prepare(&config, &mut report),
        true => engine::prepare_unsaved(&config, &mut report),
    };
    report.end();
    let job = prepared?;
    // A signal also ends a download, which is no fault of the plugin. Nothing else fails because of one.
    let plugin = fetch::plugin(global)
        .map_err(|failure| if stop.is_requested() { Failure::interrupted() } else { failure })?;
    let engine = Engine::start(&plugin, &options)?;
    report.open(&engine.opening());
    compile::notice(&global.compile, engine.platform()).iter().for_each(|notice| report.notice(notice));
    let result = match is_dry {
        false => engine.train(&job, &mut report, stop),
        true => engine.dry_run(&job, &mut report).map(|found| report.found(&found)),
    };
    report.end();
    result.and(global.records.finish(engine.counters(), global.verbosity(), &options))
}

/// What the words and the run file come to.
pub(super) struct Prepared {
    pub(super) config: TrainConfig,
    /// How sharding is to be written into the step.
    pub(super) lowering: Setting<Lowerings>,
    /// Whether the run is only looked at.
    pub(super) is_dry: bool,
    pub(super) options: RuntimeOptions,
    /// Which has told what was to be noticed so far.
    pub(super) report: Report,
}

/// Reads the settings of a run.
pub(super) fn prepare(
    global: &GlobalArgs,
    arguments: &TrainArgs,
    compiler: &ChildCompiler,
) -> Result<Prepared, Failure> {
    let file = match &arguments.run_file {
        Some(path) => run_file::read(Path::new(path))?,
        None => Layer::new(),
    };
    let mut options = global.runtime_options()?;
    global.records.check()?;
    options.compile = compile::setup(&global.compile, compiler)?;
    let variables = Variables::of_process(&[&arguments.flags, &file])?;
    let layers = [&arguments.flags, &file, &variables.layer];
    let mut notices = foreign::check(&layers)?;
    let settings = Settings::read(&layers)?;
    let effective = Effective::of(&layers);
    let (config, told) = config::train_config(&settings, &variables, &effective)?;
    let report = Report::new(global.verbosity(), &config);
    if global.verbosity() > Verbosity::Quiet {
        effective.lines(global.verbosity() >= Verbosity::Verbose).iter().for_each(console::note);
    }
    notices.extend(variables.notices.iter().cloned().chain(told));
    notices.iter().for_each(|notice| report.notice(notice));
    let (lowering, is_dry) = (settings.sharding.lowering, settings.training.dry_run.value);
    Ok(Prepared { config, lowering, is_dry, options, report })
}
