//! Flags of the command line that ask for records of a run, and what is told of them at its end.

use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};

use clap::Args;
use shardwright_pjrt::Counters;
use shardwright_runtime::RuntimeOptions;

use super::console::{self, Verbosity};
use super::failure::{Cause, Failure};

/// What is written down of a run beside its results.
#[derive(Debug, Args)]
#[command(next_help_heading = "Records")]
pub(super) struct RecordArgs {
    /// Write a timeline of the host's work to this file, for ui.perfetto.dev or chrome://tracing
    #[arg(long, global = true, value_name = "FILE")]
    pub(super) trace: Option<PathBuf>,
    /// Write how often and how long programs were compiled and run and arrays copied to this file, as JSON
    #[arg(long = "metrics_file", global = true, value_name = "FILE")]
    metrics_file: Option<PathBuf>,
}

impl RecordArgs {
    /// Finds out before a run whether its record can be written after it.
    pub(super) fn check(&self) -> Result<(), Failure> {
        let Some(path) = &self.metrics_file else { return Ok(()) };
        let opened = OpenOptions::new().append(true).create(true).open(path);
        opened.map(drop).map_err(|error| cannot_write("--metrics_file", path, &error, Cause::Input))
    }

    /// Tells and writes what was counted, and where dumps are.
    pub(super) fn finish(
        &self,
        counters: &Counters,
        verbosity: Verbosity,
        options: &RuntimeOptions,
    ) -> Result<(), Failure> {
        let snapshot = counters.snapshot();
        if verbosity >= Verbosity::Verbose {
            console::note(&snapshot);
        }
        if let (Some(dump), true) = (&options.compiler.dump, verbosity > Verbosity::Quiet) {
            console::note(format!("dumps: {} files in {}", files_in(&dump.folder), dump.folder.display()));
        }
        let Some(path) = &self.metrics_file else { return Ok(()) };
        fs::write(path, snapshot.to_json())
            .map_err(|error| cannot_write("--metrics_file", path, &error, Cause::Run))
    }
}

/// A file of records that cannot be written.
pub(super) fn cannot_write(flag: &str, path: &Path, error: &std::io::Error, cause: Cause) -> Failure {
    let message = format!("{flag}: cannot write {}: {error}", path.display());
    Failure::new(cause, anyhow::Error::msg(message))
}

fn files_in(folder: &Path) -> usize {
    fs::read_dir(folder).map_or(0, |entries| entries.filter_map(Result::ok).count())
}
