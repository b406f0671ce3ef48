//! The command as tests run it: the same whatever is set where they are run.

use std::process::Command;

/// The beginnings of the names of variables that the command, a plugin or XLA reads.
const PREFIXES: [&str; 8] =
    ["SHARDWRIGHT_", "PJRT_", "XLA_", "TPU_", "LIBTPU_", "TF_", "ACCELERATE_", "FSDP_"];
/// Other such variables.
const NAMES: [&str; 5] =
    ["ALLOW_MULTIPLE_LIBTPU_LOAD", "CPU_NUM_DEVICES", "CUDA_VISIBLE_DEVICES", "NO_COLOR", "NPROC"];
/// Where plugins lie, and what fetches them: that has to be the same for all tests, so that one fetches for all.
const KEPT: [&str; 2] = ["SHARDWRIGHT_CACHE_DIR", "SHARDWRIGHT_PYTHON"];

/// The command with these words, no variable of the caller's that matters to it, and no cache of compiled programs
/// unless the words name one.
pub(crate) fn command(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_shardwright"));
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    let matters = |name: &String| {
        let name = name.as_str();
        !KEPT.contains(&name)
            && (NAMES.contains(&name) || PREFIXES.iter().any(|start| name.starts_with(start)))
    };
    for name in names.filter(matters) {
        command.env_remove(name);
    }
    command.env("SHARDWRIGHT_COMPILE_CACHE", "off").args(words);
    command
}
