//! The boundaries that `ARCHITECTURE.md` promises, as far as no lint holds them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use cargo_metadata::{DependencyKind, Metadata, MetadataCommand, Package};

/// Crates in which a plan can be made on any machine.
const PURE: [&str; 6] = ["mesh", "tensor", "hlo", "graph", "partition", "model"];
/// Crates on either side of a C interface.
const UNSAFE: [&str; 3] = ["pjrt-sys", "pjrt", "pjrt-fake"];
/// Packages that no other depends on, where errors end and text is printed.
const OUTERMOST: [&str; 2] = ["shardwright", "xtask"];
const PREFIX: &str = "shardwright-";

#[test]
fn crates_depend_on_each_other_as_the_map_says() {
    let mapped = edges_of_the_map(&fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap());
    let actual: BTreeMap<String, BTreeSet<String>> = packages()
        .iter()
        .filter_map(|package| Some((package.name.strip_prefix(PREFIX)?.to_owned(), edges(package))))
        .collect();
    assert_eq!(mapped, actual, "left: the table in ARCHITECTURE.md, right: the Cargo.toml of each crate");
}

#[test]
fn edges_are_read_from_rows_that_begin_with_a_crate() {
    let text = "\
        ## Crates\n\
        | crate | what it is | depends on |\n\
        | --- | --- | --- |\n\
        | `a` | has `b` in it | – |\n\
        | `b-c` | last | a, d |\n\
        ## Next\n\
        | `x` | elsewhere | a |\n";
    let edges = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<BTreeSet<_>>();
    let expect = [("a".to_owned(), edges(&[])), ("b-c".to_owned(), edges(&["a", "d"]))];
    assert_eq!(edges_of_the_map(text), BTreeMap::from(expect));
}

#[test]
fn unsafe_code_is_forbidden_outside_the_bindings() {
    for package in packages() {
        if UNSAFE.contains(&short(&package)) {
            continue;
        }
        for target in package.targets.iter().filter(|t| t.is_lib() || t.is_bin()) {
            let text = fs::read_to_string(&target.src_path).unwrap();
            let forbidden = text.lines().any(|line| line == "#![forbid(unsafe_code)]");
            assert!(forbidden, "{} does not say #![forbid(unsafe_code)]", target.src_path);
        }
    }
}

#[test]
fn pure_crates_have_no_inputs_but_their_arguments() {
    let packages = packages();
    let pure: Vec<_> = packages.iter().filter(|package| PURE.contains(&short(package))).collect();
    assert_eq!(pure.len(), PURE.len());
    let words = ["std::fs", "std::env", "std::process", "std::net", "std::io::std", "std::{"];
    check_absent(pure.into_iter(), &words);
}

#[test]
fn only_the_command_line_prints() {
    let packages = packages();
    let quiet = packages.iter().filter(|package| !OUTERMOST.contains(&short(package)));
    check_absent(quiet, &["print!(", "println!(", "io::stdout(", "io::stderr("]);
}

#[test]
fn errors_lose_their_type_only_at_the_edge() {
    for package in packages() {
        let uses = package.dependencies.iter().any(|dependency| dependency.name == "anyhow");
        let may = OUTERMOST.contains(&short(&package));
        assert!(may || !uses, "{} depends on anyhow; a library has errors of its own", package.name);
    }
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The packages of this workspace, as Cargo reads them.
fn packages() -> Vec<Package> {
    let mut command = MetadataCommand::new();
    command.manifest_path(root().join("Cargo.toml")).no_deps();
    let metadata: Metadata = command.exec().unwrap();
    metadata.packages
}

fn short(package: &Package) -> &str {
    package.name.strip_prefix(PREFIX).unwrap_or(&package.name)
}

/// The crates of this workspace that a package builds upon, those of its tests aside.
fn edges(package: &Package) -> BTreeSet<String> {
    let normal = package.dependencies.iter().filter(|dependency| dependency.kind == DependencyKind::Normal);
    normal.filter_map(|dependency| dependency.name.strip_prefix(PREFIX)).map(str::to_owned).collect()
}

/// The table under the heading `Crates`: for each crate those in its last column.
fn edges_of_the_map(text: &str) -> BTreeMap<String, BTreeSet<String>> {
    let section = text.lines().skip_while(|line| *line != "## Crates").skip(1);
    let rows = section.take_while(|line| !line.starts_with("## "));
    let edges = |row: &str| {
        let mut cells = row.strip_prefix("| `")?.trim_end_matches(" |").split(" | ");
        let (name, edges) = (cells.next()?.trim_end_matches('`'), cells.nth(1)?);
        let edges = edges.split(", ").filter(|edge| *edge != "–").map(str::to_owned).collect();
        Some((name.to_owned(), edges))
    };
    rows.filter_map(edges).collect()
}

/// Checks that the code of these packages, without its tests and comments, does not contain any of `words`.
#[track_caller]
fn check_absent<'p>(packages: impl Iterator<Item = &'p Package>, words: &[&str]) {
    let mut found = Vec::new();
    for package in packages {
        let folder = package.manifest_path.parent().unwrap().join("src");
        for path in source_files(folder.as_std_path()) {
            let text = fs::read_to_string(&path).unwrap();
            let code = text.split("\n#[cfg(test)]\n").next().unwrap_or_default();
            for (index, line) in code.lines().enumerate() {
                let is_comment = line.trim_start().starts_with("//");
                if let Some(word) = words.iter().find(|word| !is_comment && line.contains(**word)) {
                    let path = path.strip_prefix(root()).unwrap().display();
                    found.push(format!("{path}:{}: {word}", index + 1));
                }
            }
        }
    }
    assert!(found.is_empty(), "this does not belong here:\n{}", found.join("\n"));
}

/// The Rust files of a folder and those inside it, but for files that hold nothing but tests.
fn source_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(source_files(&path));
        } else if path.extension().is_some_and(|e| e == "rs") && !path.ends_with("tests.rs") {
            files.push(path);
        }
    }
    files.sort();
    files
}
