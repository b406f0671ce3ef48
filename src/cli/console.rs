//! Lines on stdout and stderr, and what may be said there.

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};

use tracing::level_filters::LevelFilter;
use tracing_subscriber::Layer;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use super::args::GlobalArgs;
use super::trace::Trace;

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

/// Sends the log of the libraries to stderr: warnings, and more of it with each `-v`. What happens also goes into the
/// timeline, if there is one.
pub(super) fn init(global: &GlobalArgs, trace: Option<&Trace>) {
    let level = match (global.verbosity(), global.verbose) {
        (Verbosity::Quiet, _) => LevelFilter::ERROR,
        (Verbosity::Normal, _) => LevelFilter::WARN,
        (Verbosity::Verbose, 1) => LevelFilter::INFO,
        (Verbosity::Verbose, 2) => LevelFilter::DEBUG,
        (Verbosity::Verbose, _) => LevelFilter::TRACE,
    };
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(io::stderr)
        .with_ansi(false)
        .without_time()
        .with_target(false)
        .with_filter(level);
    tracing_subscriber::registry().with(lines).with(trace.map(Trace::layer)).init();
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

/// A line about what goes on, on stderr; dropped like [`result`]'s. Names in it may come from files of others, so what
/// would be a command to a terminal is left out.
pub(super) fn note(line: impl Display) {
    let is_command = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
    let line = line.to_string().replace(is_command, "\u{FFFD}");
    let _ = writeln!(io::stderr(), "{line}");
}
