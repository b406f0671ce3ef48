//! Runs a fuzz target, with the coverage feedback that a stable compiler can give.
//!
//! The instrumentation is LLVM's and is asked for by flags that `rustc` passes on, so neither a nightly toolchain nor
//! another tool is needed. What was found to reach new code stays in `target/fuzz/corpus`, and an input that fails in
//! `target/fuzz/failures`.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::root;

const INSTRUMENTATION: [&str; 8] = [
    "--cfg=fuzzing",
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "-Ccodegen-units=1",
    "-Coverflow-checks=yes",
];

/// An input may take this much memory and time; more is a failure.
const LIMITS: [&str; 3] = ["-rss_limit_mb=1024", "-timeout=10", "-max_len=65536"];

/// Prints the names of the targets.
#[expect(clippy::print_stdout, reason = "it is what was asked for")]
pub(crate) fn list() -> Result<()> {
    for target in targets()? {
        println!("{target}");
    }
    Ok(())
}

/// Runs a target on `runs` inputs, which begin with those that are kept for it in `fuzz/seeds`.
pub(crate) fn run(target: &str, runs: &str) -> Result<()> {
    let targets = targets()?;
    ensure!(targets.iter().any(|t| t == target), "no fuzz target {target}; there are {}", targets.join(", "));
    let runs: u64 = runs.parse().with_context(|| format!("{runs} is no number of inputs"))?;
    let folder = root().join("target/fuzz");
    let (corpus, failures) = (folder.join("corpus").join(target), folder.join("failures"));
    fs::create_dir_all(&corpus)?;
    fs::create_dir_all(&failures)?;
    let seeds = root().join("fuzz/seeds").join(target);

    let mut command = Command::new(env!("CARGO"));
    command.args(["run", "--release", "--features", "run", "--bin", target]);
    command.arg("--manifest-path").arg(root().join("fuzz/Cargo.toml"));
    // With a target named, the flags do not reach build scripts, which would not link.
    command.args(["--target", &host()?]).arg("--target-dir").arg(&folder);
    command.env("RUSTFLAGS", INSTRUMENTATION.join(" "));
    command.args(["--", &format!("-runs={runs}"), "-print_final_stats=1"]).args(LIMITS);
    command.arg(format!("-artifact_prefix={}/", failures.display())).arg(&corpus);
    if seeds.is_dir() {
        command.arg(seeds);
    }
    let status = command.status().context("cargo does not start")?;
    if !status.success() {
        bail!("{target} failed; the input lies in {}", failures.display());
    }
    Ok(())
}

fn targets() -> Result<Vec<String>> {
    let stem = |path: PathBuf| Some(path.file_stem()?.to_str()?.to_owned());
    let files = fs::read_dir(root().join("fuzz/fuzz_targets"))?;
    let mut targets = files.map(|f| Ok(f?.path())).collect::<Result<Vec<_>>>()?;
    targets.sort();
    Ok(targets.into_iter().filter_map(stem).collect())
}

/// The platform that this runs on, by the compiler's name for it.
fn host() -> Result<String> {
    let output = Command::new("rustc").arg("-vV").output().context("rustc does not start")?;
    let text = String::from_utf8(output.stdout)?;
    let line = text.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(line.context("rustc names no host")?.to_owned())
}
