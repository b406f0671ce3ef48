//! `shardwright shard`: programs of other frameworks are planned, judged and written with their shardings. No plugin is
//! there, and none is looked for.

mod command;

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Output, Stdio};

use expect_test::{Expect, expect};
use shardwright_hlo::{StatedSharding, parse, verify};
use tempfile::TempDir;

/// A module that a framework wrote, of those in `tests/data/foreign`.
fn foreign(name: &str) -> String {
    format!("{}/tests/data/foreign/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// One constraint on a mesh of its own.
const CONSTRAINED: &str = r#"module @m attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["model"=4]>
  func.func public @main(%arg0: tensor<8x4xf32>) -> tensor<8x4xf32> {
    %0 = sdy.sharding_constraint %arg0 <@mesh, [{"model"}, {}]> : tensor<8x4xf32>
    return %0 : tensor<8x4xf32>
  }
}
"#;

struct Folder(TempDir);

impl Folder {
    fn new() -> Folder {
        Folder(tempfile::tempdir().unwrap())
    }

    fn with(self, name: &str, text: &str) -> Folder {
        fs::write(self.path().join(name), text).unwrap();
        self
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn shard(&self, words: &[&str], stdin: &str) -> Output {
        let mut command = command::command(&["--plugin", "no-plugin", "shard"]);
        command.args(words).current_dir(self.path());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // A command that refuses its flags does not read.
        let _ = child.stdin.take().unwrap().write_all(stdin.as_bytes());
        child.wait_with_output().unwrap()
    }

    /// What is said, and the exit code.
    #[track_caller]
    fn check(&self, words: &[&str], expect: Expect) {
        let output = self.shard(words, CONSTRAINED);
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        let code = output.status.code().unwrap();
        expect.assert_eq(&format!("{out}{err}exit code {code}\n"));
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn a_train_step_of_jax_is_planned_without_rules() {
    let output = Folder::new().shard(&[&foreign("mlp.mlir"), "--mesh", "fsdp=8"], "");
    assert!(output.status.success(), "{}", text(&output.stderr));
    expect![[""]].assert_eq(&text(&output.stdout));
}

#[test]
fn what_is_written_is_read_again_with_its_shardings() {
    let folder = Folder::new().with(
        "rules.json",
        r#"{"mesh": "data=2, fsdp=4", "shard": {"kind:parameter": "fsdp", "*.w2": ["fsdp", null], "*.w1": "(-, fsdp)"}}"#,
    );
    let words = [
        &*foreign("mlp.mlir"),
        "--rules",
        "rules.json",
        "--shard",
        "op:dot_general=(data,fsdp)",
        "-o",
        "out.mlir",
    ];
    let output = folder.shard(&words, "");
    assert!(output.status.success(), "{}", text(&output.stderr));
    let written = fs::read_to_string(folder.path().join("out.mlir")).unwrap();
    let parsed = parse(&written).unwrap();
    let spec = |stated: &Option<StatedSharding>| match stated {
        Some(StatedSharding::Sdy { mesh, sharding }) => sharding.to_named(mesh).unwrap().spec().to_string(),
        _ => "-".to_owned(),
    };
    let signature = parsed.signature();
    let arguments: String =
        signature.arguments.iter().map(|a| format!("{} {} {}\n", a.name, a.ty, spec(&a.stated))).collect();
    expect![[""]].assert_eq(&arguments);
    for output in &signature.outputs {
        if let Some(donor) = output.donor {
            assert_eq!(output.stated, signature.arguments[donor].stated);
        }
    }
    assert!(written.matches("sdy.sharding_constraint").count() >= 2);
    verify(parsed.module).unwrap();
    // Planned again, the program says it all itself.
    let output = folder.shard(&["out.mlir", "--json"], "");
    assert!(text(&output.stdout).contains("stated by the program"), "{}", text(&output.stderr));
}

#[test]
fn a_program_comes_and_goes_through_pipes() {
    let folder = Folder::new();
    let output = folder.shard(&["-", "-o", "-", "--shard", "arg0=(model)"], CONSTRAINED);
    let written = text(&output.stdout);
    assert!(
        written.contains(r#"%arg0: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"model"}, {}]>}"#)
    );
    assert!(written.contains(r#"sdy.sharding_constraint %arg0 <@mesh, [{"model"}, {}]>"#));
    assert!(text(&output.stderr).contains("decided by"));
    folder.check(&["-", "-o", "-", "--json"], expect![[""]]);
}

#[test]
fn the_programs_own_mesh_counts() {
    let folder = Folder::new();
    folder.check(&["-"], expect![[""]]);
    folder.check(&["-", "--mesh", "fsdp=4"], expect![[""]]);
}

#[test]
fn an_axis_that_the_mesh_lacks_is_named_with_its_place() {
    let folder = Folder::new().with("bad.mlir", &CONSTRAINED.replace("{\"model\"}", "{\"mdl\"}"));
    folder.check(&["bad.mlir"], expect![[""]]);
}

#[test]
fn wrong_rules_are_told_all_at_once() {
    let folder = Folder::new().with("unknown.json", r#"{"shard": {}, "meshes": 1}"#);
    folder.check(
        &["-", "--shard", "arg0=(-, -, model)", "--shard", "arg1=model", "--shard", "out:*=modl"],
        expect![[""]],
    );
    folder.check(&["-", "--shard", "arg0"], expect![[""]]);
    folder.check(&["-", "--rules", "unknown.json"], expect![[""]]);
    folder.check(&["-", "--fsdp_dim_rule", "largest"], expect![[""]]);
    folder.check(
        &["-", "--donate", "arg0", "--shard", "out:out0=replicated", "--shard", "arg0=model"],
        expect![[""]],
    );
}

#[test]
fn what_is_missing_or_unknown_is_said() {
    let folder = Folder::new();
    folder.check(&[], expect![[""]]);
    folder.check(&["nothing.mlir"], expect![[""]]);
    folder.check(&["-", "--shards", "x"], expect![[""]]);
    folder.check(&[&foreign("export.py"), "--mesh", "fsdp=8"][1..], expect![[""]]);
}
