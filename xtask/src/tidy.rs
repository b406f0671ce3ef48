//! What no compiler checks. All findings are reported at once, each with its file.
//!
//! - Each crate has a row in the map of `ARCHITECTURE.md`, and each path in the pages of the project exists.
//! - Crate roots, and modules with modules inside them, say what they are.
//! - No file names a package registry or a place on somebody's machine.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::root;

/// The pages that people read.
const PAGES: [&str; 4] = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"];
const MAP: &str = "ARCHITECTURE.md";

/// Written by tools, with what they put in them.
const GENERATED: [&str; 2] = ["Cargo.lock", "fuzz/Cargo.lock"];

/// Registries and places, in two halves so that this file is not one of the findings.
const FOREIGN: [[&str; 2]; 8] = [
    ["pypi", ".org"],
    ["pythonhosted", ".org"],
    ["crates", ".io"],
    ["/home", "/"],
    ["/root", "/"],
    ["/Users", "/"],
    ["/tmp", "/"],
    ["/work", "/"],
];

/// A file that belongs to the repository, with its text.
struct File {
    path: String,
    text: String,
}

/// Fails with all findings.
pub(crate) fn check() -> Result<()> {
    let paths = paths()?;
    let files: Vec<File> = paths.iter().filter_map(|path| read(path)).collect();
    let mut findings = Vec::new();
    code_map(&paths, &files, &mut findings);
    module_docs(&paths, &files, &mut findings);
    foreign(&files, &mut findings);
    if findings.is_empty() {
        return Ok(());
    }
    bail!("not tidy:\n  {}", findings.join("\n  "))
}

/// The files that git tracks or would track.
fn paths() -> Result<BTreeSet<String>> {
    let output = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root())
        .output()
        .context("git did not start")?;
    ensure!(output.status.success(), "git ls-files: {}", String::from_utf8_lossy(&output.stderr).trim());
    let text = String::from_utf8(output.stdout).context("a path is not UTF-8")?;
    Ok(text.split('\0').filter(|path| root().join(path).is_file()).map(str::to_owned).collect())
}

/// A file of text; what is none is passed over.
fn read(path: &str) -> Option<File> {
    let text = fs::read_to_string(root().join(path)).ok()?;
    Some(File { path: path.to_owned(), text })
}

fn text<'f>(files: &'f [File], path: &str) -> Option<&'f str> {
    files.iter().find(|file| file.path == path).map(|file| file.text.as_str())
}

fn code_map(paths: &BTreeSet<String>, files: &[File], findings: &mut Vec<String>) {
    let map = text(files, MAP).unwrap_or_default();
    for name in paths.iter().filter_map(|path| path.strip_prefix("crates/")?.strip_suffix("/Cargo.toml")) {
        if !map.lines().any(|line| line.starts_with(&format!("| `{name}` |"))) {
            findings.push(format!("{MAP}: crate {name} has no row"));
        }
    }
    for page in PAGES {
        let Some(text) = text(files, page) else {
            findings.push(format!("{page} is missing"));
            continue;
        };
        let missing = mentioned_paths(text).filter(|path| !root().join(path).exists());
        findings.extend(missing.map(|path| format!("{page}: {path} does not exist")));
    }
}

/// The paths between backticks that begin in a folder of this repository.
fn mentioned_paths(text: &str) -> impl Iterator<Item = &str> {
    const FOLDERS: [&str; 9] =
        [".ci/", "benchmarks/", "crates/", "examples/", "fuzz/", "src/", "tests/", "third_party/", "xtask/"];
    let spans = text.split("```").step_by(2).flat_map(|prose| prose.split('`').skip(1).step_by(2));
    spans.filter(|span| FOLDERS.iter().any(|folder| span.starts_with(folder)) && !span.contains(' '))
}

fn module_docs(paths: &BTreeSet<String>, files: &[File], findings: &mut Vec<String>) {
    for File { path, text } in files {
        if is_module_of_modules(path, paths) && !text.starts_with("//! ") {
            findings.push(format!("{path}: does not begin by saying what it is (//!)"));
        }
    }
}

/// Whether a file is the root of a crate, a test or an example, or of a folder of modules.
fn is_module_of_modules(path: &str, paths: &BTreeSet<String>) -> bool {
    let Some(stem) = path.strip_suffix(".rs") else { return false };
    let (folder, name) = stem.rsplit_once('/').unwrap_or(("", stem));
    let is_target = folder == "tests" || folder.ends_with("/tests") || folder == "examples";
    let has_modules = paths.range(format!("{stem}/")..).next().is_some_and(|next| {
        next.strip_prefix(stem).is_some_and(|rest| rest.starts_with('/') && rest.ends_with(".rs"))
    });
    ["lib", "main", "mod"].contains(&name) || is_target || has_modules
}

fn foreign(files: &[File], findings: &mut Vec<String>) {
    let words = FOREIGN.map(|halves| halves.concat());
    for File { path, text } in files.iter().filter(|file| !GENERATED.contains(&file.path.as_str())) {
        for (index, line) in text.lines().enumerate() {
            findings.extend(
                words
                    .iter()
                    .filter(|word| line.contains(*word))
                    .map(|word| format!("{path}:{}: names {word}", index + 1)),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_found_in_prose_and_not_in_blocks() {
        let text =
            "See `src/cli` and `config.rs`.\n```sh\ncat `tests/x`\n```\nThen `crates/a/src/b.rs`, `a b`.";
        assert_eq!(mentioned_paths(text).collect::<Vec<_>>(), ["src/cli", "crates/a/src/b.rs"]);
    }

    #[test]
    fn modules_with_modules_and_crate_roots_are_told_from_others() {
        let paths = ["src/a.rs", "src/a/b.rs", "src/a_c.rs"].map(str::to_owned).into();
        let check = |path, expect| assert_eq!(is_module_of_modules(path, &paths), expect, "{path}");
        check("src/a.rs", true);
        check("src/a/b.rs", false);
        check("src/a_c.rs", false);
        check("src/lib.rs", true);
        check("crates/x/tests/y.rs", true);
        check("crates/x/tests/it/y.rs", false);
        check("src/a", false);
    }
}
