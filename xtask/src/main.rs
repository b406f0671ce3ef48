//! Chores of this repository: `cargo xtask <task>`.
#![forbid(unsafe_code)]

mod codegen;
mod wheel;

use anyhow::{Result, bail};

const USAGE: &str = "\
usage: cargo xtask <task>

tasks:
  codegen          write crates/pjrt-sys/src/bindings.rs anew from the pinned PJRT header
  codegen --check  fail if that would change the file";

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["codegen"] => codegen::write(),
        ["codegen", "--check"] => codegen::check(),
        _ => bail!("{USAGE}"),
    }
}
