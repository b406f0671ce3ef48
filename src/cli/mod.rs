//! The command line: what was written becomes a [`TrainConfig`](shardwright_train::TrainConfig), and what happens
//! becomes text.
//!
//! ```text
//! argv ─► args ──┐
//! run.json ─► run_file ─► settings (one table) ─► config ─► engine ─► report, metrics
//! ```
//!
//! [`settings`] is the only place that lists the settings of a run: flags, help and the keys of a run file all come
//! from its table. [`engine`] is the only place that calls the training and runtime crates.

mod args;
mod config;
mod console;
mod devices;
mod doctor;
mod engine;
mod failure;
mod fetch;
mod interrupt;
mod metrics;
mod names;
mod plugins;
mod quiet;
mod report;
mod run_file;
mod settings;
mod train;
mod value;

use std::process::ExitCode;

use args::{Command, Parsed};

/// Runs the command that the arguments of this process ask for.
pub(crate) fn main() -> ExitCode {
    let cli = match args::parse(std::env::args_os()) {
        Ok(Parsed::Run(cli)) => cli,
        Ok(Parsed::Told(code)) => return code,
        Err(failure) => return failure.tell(),
    };
    quiet::start_anew();
    console::init(&cli.global);
    let result = match &cli.command {
        Command::Train(arguments) => train::run(&cli.global, arguments),
        Command::Devices => devices::run(&cli.global),
        Command::Doctor(arguments) => doctor::run(&cli.global, arguments),
        Command::Plugins { action } => plugins::run(&cli.global, action.as_ref()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.tell(),
    }
}
