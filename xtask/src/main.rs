//! Chores of this repository: `cargo xtask <task>`.
#![forbid(unsafe_code)]

mod codegen;
mod fuzz;
mod tidy;
mod wheel;
mod xla;

use std::path::Path;

use anyhow::{Result, bail};

const USAGE: &str = "\
usage: cargo xtask <task>

tasks:
  codegen          write crates/pjrt-sys/src/bindings.rs anew from the pinned PJRT header
  codegen --check  fail if that would change the file
  fuzz             list the fuzz targets
  fuzz TARGET [N]  run one on N inputs (1000000 unless said); takes a C++ compiler
  tidy             check what no compiler checks: the code map, module docs, digests, paths and hosts
  xla              type-check the feature `xla`, without the library that it links";

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["codegen"] => codegen::write(),
        ["codegen", "--check"] => codegen::check(),
        ["fuzz"] => fuzz::list(),
        ["fuzz", target] => fuzz::run(target, "1000000"),
        ["fuzz", target, runs] => fuzz::run(target, runs),
        ["tidy"] => tidy::check(),
        ["xla"] => xla::check(),
        _ => bail!("{USAGE}"),
    }
}

/// The folder of the workspace.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("this package lies in a folder of the workspace")
}
