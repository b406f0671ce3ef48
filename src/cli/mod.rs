//! The command line: what was written becomes a [`TrainConfig`](shardwright_train::TrainConfig), and what happens
//! becomes text.
//!
//! ```text
//! argv ─► args ──┐
//! run.json ─► run_file ─► settings (tables) ─► config ─► engine ─► report, metrics
//! variables ─► environment ─┘
//!
//! argv ─► program (with its mesh and rules) ─► session ─► engine ─► run_program, explain
//! ```
//!
//! [`settings`] is the only place that lists the settings of a run: flags, help and the keys of a run file all come
//! from its tables. [`foreign`] lists those that Hugging Face's scripts have besides. [`engine`] is where plugins are opened and programs compiled.

mod args;
mod arrays;
mod choice;
mod compile;
mod compiler;
mod config;
mod console;
mod devices;
mod doctor;
mod dry_run;
mod effective;
mod engine;
mod environment;
mod explain;
mod failure;
mod fetch;
mod foreign;
mod interrupt;
mod metrics;
mod names;
mod plugins;
mod program;
mod quiet;
mod record;
mod report;
mod run_file;
mod run_program;
mod session;
mod settings;
mod shard;
mod trace;
mod train;
mod value;

use std::process::ExitCode;

use args::{Command, Parsed};
use failure::{Cause, Failure};
use shardwright_runtime::compile::serve_if_asked;

/// Runs the command that the arguments of this process ask for.
pub(crate) fn main() -> ExitCode {
    // A process that was started to compile does so here and ends.
    let compiler = match serve_if_asked() {
        Ok(compiler) => compiler,
        Err(error) => return Failure::new(Cause::Run, error).tell(),
    };
    let cli = match args::parse(std::env::args_os()) {
        Ok(Parsed::Run(cli)) => cli,
        Ok(Parsed::Told(code)) => return code,
        Err(failure) => return failure.tell(),
    };
    quiet::start_anew();
    let trace = match trace::open(&cli.global.records) {
        Ok(trace) => trace,
        Err(failure) => return failure.tell(),
    };
    console::init(&cli.global, trace.as_ref());
    let result = match &cli.command {
        Command::Train(arguments) => train::run(&cli.global, arguments, &compiler),
        Command::Run(arguments) => run_program::run(&cli.global, arguments, &compiler),
        Command::Shard(arguments) => shard::run(arguments, cli.global.verbosity()),
        Command::Explain(arguments) => explain::run(&cli.global, arguments, &compiler),
        Command::Devices => devices::run(&cli.global),
        Command::Doctor(arguments) => doctor::run(&cli.global, arguments, &compiler),
        Command::Plugins { action } => plugins::run(&cli.global, action.as_ref()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.tell(),
    }
}
