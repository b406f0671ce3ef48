//! Lines on stdout and stderr, and what may be said there.

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};

use super::args::GlobalArgs;

/// How much is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Verbosity {
    /// Results and errors.
    Quiet,
    /// Also what a run works with, and its progress.
    Normal,
    /// Also the sharding plan and the log.
    Verbose,
}

/// Sends the log of the libraries to stderr: warnings, and more of it with each `-v`.
pub(super) fn init(global: &GlobalArgs) {
    let level = match (global.verbosity(), global.verbose) {
        (Verbosity::Quiet, _) => tracing::Level::ERROR,
        (Verbosity::Normal, _) => tracing::Level::WARN,
        (Verbosity::Verbose, 1) => tracing::Level::INFO,
        (Verbosity::Verbose, 2) => tracing::Level::DEBUG,
        (Verbosity::Verbose, _) => tracing::Level::TRACE,
    };
    tracing_subscriber::fmt()
        .with_max_level(level)
        .with_writer(io::stderr)
        .with_ansi(false)
        .without_time()
        .with_target(false)
        .init();
}

/// Whether somebody watches stderr, so that progress may be drawn there.
pub(super) fn is_watched() -> bool {
    io::stderr().is_terminal()
}

/// Whether results may be coloured: somebody looks at them, and has not asked for none.
pub(super) fn may_colour() -> bool {
    io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// A line of results, on stdout.
///
/// A reader that has closed the pipe has seen enough, and the run's files do not depend on it; so a line that cannot
/// be written is dropped.
pub(super) fn result(line: impl Display) {
    let _ = writeln!(io::stdout(), "{line}");
}

/// A line about what goes on, on stderr; dropped like [`result`]'s.
pub(super) fn note(line: impl Display) {
    let _ = writeln!(io::stderr(), "{line}");
}
