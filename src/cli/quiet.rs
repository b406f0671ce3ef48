//! Keeps plugins from logging to stderr.
//!
//! XLA reads the level of its log from the environment when it is loaded, and warns of things that no user of ours can
//! do anything about. A process cannot safely change its own environment, so it starts itself anew, in the same
//! process and before anything was done. Whoever sets the variable sees the log.

use std::process::Command;

const LEVEL: &str = "TF_CPP_MIN_LOG_LEVEL";
/// What ends the process. Errors come back through the plugin's interface and are told by us; what is logged as one
/// besides is of no use, such as the long lines about processor features when an older CPU plugin loads a program.
const FATAL: &str = "3";

/// Starts this process anew with the log turned down, unless the level was chosen. Where that does not work, the log
/// is seen.
pub(super) fn start_anew() {
    if std::env::var_os(LEVEL).is_some() {
        return;
    }
    let Ok(program) = std::env::current_exe() else { return };
    let mut command = Command::new(program);
    command.args(std::env::args_os().skip(1)).env(LEVEL, FATAL);
    #[cfg(unix)]
    {
        use std::os::unix::process::CommandExt;
        if let Some(name) = std::env::args_os().next() {
            command.arg0(name);
        }
        let error = command.exec();
        tracing::debug!(%error, "cannot start anew");
    }
}
