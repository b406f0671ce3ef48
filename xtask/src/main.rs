//! Chores of this repository: `cargo xtask <task>`.
#![forbid(unsafe_code)]

mod codegen;
mod tidy;
mod wheel;

use std::path::Path;

use anyhow::{Result, bail};

const USAGE: &str = "\
usage: cargo xtask <task>

tasks:
  codegen          write crates/pjrt-sys/src/bindings.rs anew from the pinned PJRT header
  codegen --check  fail if that would change the file
  tidy             check what no compiler checks: the code map, module docs, digests, paths and hosts";

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["codegen"] => codegen::write(),
        ["codegen", "--check"] => codegen::check(),
        ["tidy"] => tidy::check(),
        _ => bail!("{USAGE}"),
    }
}

/// The folder of the workspace.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("this package lies in a folder of the workspace")
}
