//! `shardwright shard`: programs of other frameworks are planned, judged and written with their shardings. No plugin is
//! there, and none is looked for.

mod command;

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Output, Stdio};

use expect_test::{Expect, expect};
use shardwright_hlo::{StatedSharding, parse};
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
    expect![[r#"
                 name                type       kind        spec       bytes/device  decided by
        #0       state[0]['b1']      f32[32]    parameter?  (fsdp)               16  FSDP rule
        #1       state[0]['w1']      f32[8,32]  parameter?  (-, fsdp)           128  FSDP rule
        #2       state[0]['w2']      f32[32,4]  parameter?  (fsdp, -)            64  FSDP rule
        #3       state[1]['b1']      f32[32]    state?      (fsdp)               16  as state[0]['b1']
        #4       state[1]['w1']      f32[8,32]  state?      (-, fsdp)           128  as state[0]['w1']
        #5       state[1]['w2']      f32[32,4]  state?      (fsdp, -)            64  as state[0]['w2']
        #6       state[2]['b1']      f32[32]    state?      (fsdp)               16  as state[0]['b1']
        #7       state[2]['w1']      f32[8,32]  state?      (-, fsdp)           128  as state[0]['w1']
        #8       state[2]['w2']      f32[32,4]  state?      (fsdp, -)            64  as state[0]['w2']
        #9       state[3]            f32[]      other       ()                    4  default
        #10      x                   f32[16,8]  batch?      (fsdp, -)            64  dim 0 over the data axes
        #11      y                   s32[16]    batch?      (fsdp)                8  dim 0 over the data axes
        out:#0   result[0][0]['b1']  f32[32]    in place    (fsdp)               16  as state[0]['b1']
        out:#1   result[0][0]['w1']  f32[8,32]  in place    (-, fsdp)           128  as state[0]['w1']
        out:#2   result[0][0]['w2']  f32[32,4]  in place    (fsdp, -)            64  as state[0]['w2']
        out:#3   result[0][1]['b1']  f32[32]    in place    (fsdp)               16  as state[1]['b1']
        out:#4   result[0][1]['w1']  f32[8,32]  in place    (-, fsdp)           128  as state[1]['w1']
        out:#5   result[0][1]['w2']  f32[32,4]  in place    (fsdp, -)            64  as state[1]['w2']
        out:#6   result[0][2]['b1']  f32[32]    in place    (fsdp)               16  as state[2]['b1']
        out:#7   result[0][2]['w1']  f32[8,32]  in place    (-, fsdp)           128  as state[2]['w1']
        out:#8   result[0][2]['w2']  f32[32,4]  in place    (fsdp, -)            64  as state[2]['w2']
        out:#9   result[0][3]        f32[]      in place    ()                    4  as state[3]
        out:#10  result[1]           f32[]      output      ()                    4  default
        mesh fsdp=8: arguments 5572 bytes, 700 on each device
        ? is what it looks like; a rule such as NAME=batch says what it is
        pinned inside: 3 weights where they are used, 3 gradients
    "#]]
    .assert_eq(&text(&output.stdout));
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
    expect![[r#"
        state[0]['b1'] f32[32] (fsdp)
        state[0]['w1'] f32[8,32] (-, fsdp)
        state[0]['w2'] f32[32,4] (fsdp, -)
        state[1]['b1'] f32[32] (fsdp)
        state[1]['w1'] f32[8,32] (-, fsdp)
        state[1]['w2'] f32[32,4] (fsdp, -)
        state[2]['b1'] f32[32] (fsdp)
        state[2]['w1'] f32[8,32] (-, fsdp)
        state[2]['w2'] f32[32,4] (fsdp, -)
        state[3] f32[] ()
        x f32[16,8] ((data,fsdp), -)
        y s32[16] ((data,fsdp))
    "#]]
    .assert_eq(&arguments);
    for output in &signature.outputs {
        if let Some(donor) = output.donor {
            assert_eq!(output.stated, signature.arguments[donor].stated);
        }
    }
    assert!(written.matches("sdy.sharding_constraint").count() >= 2);
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
    folder.check(
        &["-", "-o", "-", "--json"],
        expect![[r#"
        error: --output - and --json both write to stdout; give --output a file
        exit code 2
    "#]],
    );
}

#[test]
fn the_programs_own_mesh_counts() {
    let folder = Folder::new();
    folder.check(&["-"], expect![[r#"
                name  type      kind    spec    bytes/device  decided by
        #0      arg0  f32[8,4]  other   (-, -)           128  default
        out:#0  out0  f32[8,4]  output  (-, -)           128  default
        mesh model=4: arguments 128 bytes, 128 on each device
        warning: no argument is split over axis model: 4 groups of devices compute the same; split a batch or parameters over model, or leave it out of the mesh [unused-axis]
        exit code 0
    "#]]);
    folder.check(&["-", "--mesh", "fsdp=4"], expect![[r#"
        error: stdin: the mesh fsdp=4 was asked for, and the program states shardings over its own mesh model=4; leave the mesh out to use that, or export the program without shardings
        exit code 2
    "#]]);
}

#[test]
fn an_axis_that_the_mesh_lacks_is_named_with_its_place() {
    let folder = Folder::new().with("bad.mlir", &CONSTRAINED.replace("{\"model\"}", "{\"mdl\"}"));
    folder.check(
        &["bad.mlir"],
        expect![[r#"
        error: bad.mlir: line 4, column 5: axis mdl is not in mesh model=4; did you mean model?
              %0 = sdy.sharding_constraint %arg0 <@mesh, [{"mdl"}, {}]> : tensor<8
              ^
        exit code 2
    "#]],
    );
}

#[test]
fn wrong_rules_are_told_all_at_once() {
    let folder = Folder::new().with("unknown.json", r#"{"shard": {}, "meshes": 1}"#);
    folder.check(
        &["-", "--shard", "arg0=(-, -, model)", "--shard", "arg1=model", "--shard", "out:*=modl"],
        expect![[r#"
            error: stdin: 3 problems
              rule out:*=modl: spec (modl) splits dim 0 over axis modl, which mesh model=4 does not have; did you mean model?
              argument arg0: rule arg0=(-, -, model): spec (-, -, model) is for rank 3, but shape [8, 4] has rank 2; a spec has one entry per dim, - where it is not split
              rule arg1=model matches none of the 1 arguments; nearest to it are arg0
            exit code 2
        "#]],
    );
    folder.check(&["-", "--shard", "arg0"], expect![[r#"
        error: --shard: rule arg0: there is no '=' in it; a rule is written PATTERN=PLACEMENT, such as params.*=fsdp
        exit code 2
    "#]]);
    folder.check(
        &["-", "--rules", "unknown.json"],
        expect![[r#"
        error: unknown.json:1:22: unknown key meshes; did you mean mesh?
        exit code 2
    "#]],
    );
    folder.check(
        &["-", "--fsdp_dim_rule", "largest"],
        expect![[r#"
        error: --fsdp_dim_rule: expected largest_divisible, strict_largest or dim0, found "largest"
        exit code 2
    "#]],
    );
    folder.check(
        &["-", "--donate", "arg0", "--shard", "out:out0=replicated", "--shard", "arg0=model"],
        expect![[r#"
            error: stdin: output out0: rule out:out0=replicated says (-, -), and it takes over the memory of arg0, which lies (model, -); give both the same
            exit code 2
        "#]],
    );
}

#[test]
fn what_is_missing_or_unknown_is_said() {
    let folder = Folder::new();
    folder.check(
        &[],
        expect![[r#"
        error: <IN> is missing
        hint: --help tells what it is
        exit code 2
    "#]],
    );
    folder.check(
        &["nothing.mlir"],
        expect![[r#"
        error: nothing.mlir: No such file or directory (os error 2)
        exit code 2
    "#]],
    );
    folder.check(
        &["-", "--shards", "x"],
        expect![[r#"
        error: flag --shards is unknown; did you mean --shard?
        exit code 2
    "#]],
    );
}

#[test]
fn names_are_no_commands_to_the_terminal() {
    let folder = Folder::new().with(
        "red.mlir",
        "func.func @main(%a: tensor<8xf32> loc(\"a\\1B[31m\")) -> tensor<8xf32> {\n  return %a : tensor<8xf32>\n}\n",
    );
    folder.check(
        &["red.mlir", "--mesh", "x=1"],
        expect![[r#"
                name    type    kind    spec  bytes/device  decided by
        #0      a�[31m  f32[8]  other   (-)             32  default
        out:#0  out0    f32[8]  output  (-)             32  default
        mesh x=1: arguments 32 bytes, 32 on each device
        exit code 0
    "#]],
    );
    folder.check(&["red.mlir", "--mesh", "x=1", "--shard", "a*=(x,-)"], expect![[r#"
        error: red.mlir: argument a�[31m: rule a*=(x,-): spec (x, -) is for rank 2, but shape [8] has rank 1; a spec has one entry per dim, - where it is not split
        exit code 2
    "#]]);
}
