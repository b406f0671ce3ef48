//! Why a command ends without success, and with which exit code.

use std::process::ExitCode;

use shardwright_runtime::plugins::{PluginError, PluginErrorKind};

use super::console;

/// A command's end without success: printed once, as `error:` and perhaps `hint:`.
#[derive(Debug)]
pub(super) struct Failure {
    cause: Cause,
    error: anyhow::Error,
    hint: Option<String>,
}

/// What an exit code tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// The run failed.
    Run = 1,
    /// A flag, a setting or an input is wrong.
    Input = 2,
    /// There is no plugin, or its devices cannot be used.
    Plugin = 3,
    /// Somebody asked the run to stop.
    Interrupted = INTERRUPTED as isize,
}

/// The exit code after an interruption: 128 and the number of SIGINT, as shells count.
pub(super) const INTERRUPTED: u8 = 130;

impl Failure {
    pub(super) fn new(cause: Cause, error: impl Into<anyhow::Error>) -> Failure {
        Failure { cause, error: error.into(), hint: None }
    }

    /// A flag, a setting or an input is wrong.
    pub(super) fn input(message: impl Into<String>) -> Failure {
        Failure::new(Cause::Input, anyhow::Error::msg(message.into()))
    }

    /// Somebody asked the run to stop.
    pub(super) fn interrupted() -> Failure {
        Failure::new(Cause::Interrupted, anyhow::Error::msg("interrupted"))
    }

    /// The same with advice, in a line of its own.
    pub(super) fn with_hint(mut self, hint: impl Into<String>) -> Failure {
        self.hint = Some(hint.into());
        self
    }

    /// The same with advice for a run that failed, where there is none yet.
    pub(super) fn or_hint(self, hint: &str) -> Failure {
        match (self.cause, &self.hint) {
            (Cause::Run, None) => self.with_hint(hint),
            _ => self,
        }
    }

    /// The same with what it is about before it.
    pub(super) fn about(self, what: &str) -> Failure {
        Failure { error: self.error.context(what.to_owned()), ..self }
    }

    /// Prints it and gives the exit code.
    pub(super) fn tell(&self) -> ExitCode {
        console::note(self.text());
        ExitCode::from(self.cause as u8)
    }

    fn text(&self) -> String {
        let mut text = String::from("error");
        for link in self.error.chain().map(ToString::to_string) {
            // Some errors repeat their source in their own text.
            let link = link.trim_end();
            if !text.ends_with(link) {
                text += &format!(": {link}");
            }
        }
        match &self.hint {
            Some(hint) => format!("{text}\nhint: {hint}"),
            None => text,
        }
    }
}

impl From<PluginError> for Failure {
    fn from(error: PluginError) -> Failure {
        let hint = match error.kind() {
            PluginErrorKind::UnknownName | PluginErrorKind::NotFound => {
                Some("`shardwright plugins` lists the plugins that are known by a name")
            }
            PluginErrorKind::NoPluginForDevice | PluginErrorKind::NamesAndPaths => {
                Some("`shardwright doctor` lists the variables that have an effect")
            }
            PluginErrorKind::DigestMismatch => {
                Some("`shardwright plugins verify` checks all plugins in the cache")
            }
            _ => None,
        };
        let failure = Failure::new(Cause::Plugin, error);
        match hint {
            Some(hint) => failure.with_hint(hint),
            None => failure,
        }
    }
}
