//! The environment variables that have an effect on a run, as they are set.

use std::ffi::OsString;

use super::check::Check;

const ENVIRONMENT: &str = "environment";

/// The beginnings of the names of variables that this program, a plugin or XLA reads.
const PREFIXES: [&str; 5] = ["SHARDWRIGHT_", "PJRT_", "XLA_", "TPU_", "LIBTPU_"];

/// Other such variables.
const NAMES: [&str; 7] = [
    "ALLOW_MULTIPLE_LIBTPU_LOAD",
    "CPU_NUM_DEVICES",
    "CUDA_VISIBLE_DEVICES",
    "LD_LIBRARY_PATH",
    "LD_PRELOAD",
    "NPROC",
    "TF_XLA_FLAGS",
];

/// Those that are set, by name.
pub(super) fn checks() -> Vec<Check> {
    of(std::env::vars_os())
}

fn of(variables: impl Iterator<Item = (OsString, OsString)>) -> Vec<Check> {
    let mut set: Vec<(String, String)> = variables
        .map(|(name, value)| (name.to_string_lossy().into_owned(), value.to_string_lossy().into_owned()))
        .filter(|(name, value)| matters(name) && !value.is_empty())
        .collect();
    set.sort();
    if set.is_empty() {
        return vec![Check::ok(ENVIRONMENT, "variables", "none is set that has an effect")];
    }
    set.into_iter().map(|(name, value)| Check::ok(ENVIRONMENT, name, value)).collect()
}

fn matters(name: &str) -> bool {
    NAMES.contains(&name) || PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_that_are_set_and_matter_are_listed_by_name() {
        let list = |text: &str| -> Vec<String> {
            let pairs = text.split(' ').filter_map(|word| word.split_once('='));
            let checks = of(pairs.map(|(name, value)| (name.into(), value.into())));
            checks.into_iter().map(|check| format!("{}={}", check.name, check.text)).collect()
        };
        let text = "XLA_FLAGS=--a PATH=/bin CPU_NUM_DEVICES=2 PJRT_DEVICE= TPU_LIBRARY_PATH=/t.so";
        assert_eq!(list(text), ["CPU_NUM_DEVICES=2", "TPU_LIBRARY_PATH=/t.so", "XLA_FLAGS=--a"]);
        assert_eq!(list("PATH=/bin"), ["variables=none is set that has an effect"]);
    }
}
