//! Type-checks the façade's feature `xla`, without the C++ library that programs with it link.

use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::{codegen, root};

/// Lints what the feature adds.
///
/// The build script of the `xla` crate makes bindings, for which it needs libclang, and then stops where it is told
/// that documentation is all that is built.
pub(crate) fn check() -> Result<()> {
    codegen::with_libclang(|| {
        let mut clippy = Command::new(env!("CARGO"));
        clippy.current_dir(root()).args(["clippy", "--package", "shardwright", "--lib", "--features", "xla"]);
        clippy.args(["--", "-D", "warnings"]).env("DOCS_RS", "1");
        clippy.env("BINDGEN_EXTRA_CLANG_ARGS", format!("-I{}", codegen::compiler_headers()?));
        let status = clippy.status().context("cargo does not start")?;
        ensure!(status.success(), "the feature xla does not pass");
        Ok(())
    })
}
