//! Keeps plugins from logging to stderr, and from ending the process over a flag that they do not know.
//!
//! XLA reads the level of its log and its flags from the environment. It warns of things that no user of ours can do
//! anything about, and exits when a flag is wrong. A process cannot safely change its own environment, so it starts
//! itself anew, in the same process and before anything was done: with the log turned down, unless somebody chose its
//! level, and with the flags in a variable that only this program reads, which hands them to the compiler itself.

use std::env;
use std::ffi::OsString;
use std::process::Command;

use shardwright_runtime::CompilerFlags;

use super::failure::Failure;

const LEVEL: &str = "TF_CPP_MIN_LOG_LEVEL";
/// What ends the process. Errors come back through the plugin's interface and are told by us; what is logged as one
/// besides is of no use, such as the long lines about processor features when an older CPU plugin loads a program.
const FATAL: &str = "3";
const FLAGS: &str = "XLA_FLAGS";
/// Where the flags are after the new start.
const TAKEN_FLAGS: &str = "SHARDWRIGHT_XLA_FLAGS";

/// Starts this process anew, if the environment has to change. Where that does not work, the log is seen, and plugins
/// read their flags themselves.
pub(super) fn start_anew() {
    let is_level_chosen = env::var_os(LEVEL).is_some();
    let flags = env::var_os(FLAGS).filter(|flags| !flags.is_empty());
    if is_level_chosen && flags.is_none() {
        return;
    }
    let Ok(program) = env::current_exe() else { return };
    let mut command = Command::new(program);
    command.args(env::args_os().skip(1));
    if !is_level_chosen {
        command.env(LEVEL, FATAL);
    }
    if let Some(flags) = flags {
        command.env(TAKEN_FLAGS, flags).env_remove(FLAGS);
    }
    #[cfg(unix)]
    {
        use std::os::unix::process::CommandExt;
        if let Some(name) = env::args_os().next() {
            command.arg0(name);
        }
        let error = command.exec();
        tracing::debug!(%error, "cannot start anew");
    }
}

/// The name that a variable had before the new start.
pub(super) fn given_name(name: OsString) -> OsString {
    if name == TAKEN_FLAGS { FLAGS.into() } else { name }
}

/// The flags for the compiler that were in the environment.
pub(super) fn xla_flags() -> Result<CompilerFlags, Failure> {
    let text = env::var_os(TAKEN_FLAGS).unwrap_or_default();
    Ok(CompilerFlags::parse(FLAGS, &text.to_string_lossy())?)
}
