//! `shardwright run`: programs of other frameworks on virtual devices, with inputs from files and from seeds, and what is
//! said of programs and inputs that are wrong.

mod command;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use expect_test::{Expect, expect};
use serde_json::Value;
use shardwright_tensor::{HostArray, NpyHeader};
use tempfile::TempDir;

/// A folder with programs and inputs.
struct Folder(TempDir);

impl Folder {
    fn new() -> Folder {
        Folder(tempfile::tempdir().unwrap())
    }

    fn with(self, name: &str, contents: impl AsRef<[u8]>) -> Folder {
        fs::write(self.path(name), contents).unwrap();
        self
    }

    fn with_npy(self, name: &str, array: &HostArray) -> Folder {
        self.with(name, [&NpyHeader::write(array.ty())[..], array.bytes()].concat())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// `run` with these words, blanks between them.
    fn run(&self, words: &str) -> Output {
        let words: Vec<&str> = ["run"].into_iter().chain(words.split_whitespace()).collect();
        command::command(&words).current_dir(self.0.path()).output().unwrap()
    }

    /// What `run --json` tells.
    #[track_caller]
    fn json(&self, words: &str) -> Value {
        let output = self.run(&format!("{words} --json -q"));
        assert!(output.status.success(), "{}", text(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// The array that an earlier run has written.
    fn npy(&self, name: &str) -> HostArray {
        let bytes = fs::read(self.path(name)).unwrap();
        let header = NpyHeader::parse(&bytes).unwrap();
        header.array(&bytes[header.len()..]).unwrap()
    }
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// What is said of a run that fails, and its exit code.
#[track_caller]
fn check_failure(folder: &Folder, words: &str, expected: Expect) {
    let output = folder.run(&format!("{words} -q"));
    let code = output.status.code().unwrap();
    expected.assert_eq(&format!("{}exit code {code}\n", text(&output.stderr)));
    assert_eq!(text(&output.stdout), "");
}

/// The same where a plugin is not to be looked for.
#[track_caller]
fn check_early_failure(folder: &Folder, words: &str, expected: Expect) {
    check_failure(folder, &format!("{words} --plugin no-plugin"), expected);
}

/// A program that applies an op to two arrays.
fn binary(op: &str) -> String {
    format!(
        "module @binary {{
  func.func @main(%a: tensor<64x32xf32> loc(\"a\"), %b: tensor<64x32xf32> loc(\"b\")) -> (tensor<64x32xf32> {{jax.result_info = \"c\"}}) {{
    %c = stablehlo.{op} %a, %b : tensor<64x32xf32>
    return %c : tensor<64x32xf32>
  }}
}}
"
    )
}

/// The identity on an array.
fn identity(ty: &str) -> String {
    format!(
        "module @identity {{
  func.func @main(%x: tensor<{ty}> loc(\"x\")) -> (tensor<{ty}> {{jax.result_info = \"y\"}}) {{
    return %x : tensor<{ty}>
  }}
}}
"
    )
}

/// As many numbers as the dims take, each with its own.
fn counted(dims: &[usize]) -> HostArray {
    let values: Vec<f32> = (0..dims.iter().product()).map(|n: usize| n as f32 - 3.5).collect();
    HostArray::from_slice(dims, &values).unwrap()
}

#[test]
fn elementwise_ops_are_exact_however_their_operands_are_split() {
    let ops: [(&str, fn(f32, f32) -> f32); 4] =
        [("add", |a, b| a + b), ("subtract", |a, b| a - b), ("multiply", |a, b| a * b), ("divide", |a, b| a / b)];
    let (a, b) = (counted(&[64, 32]), counted(&[64, 32]).slice(&[0..64, 0..32]).unwrap());
    for (op, function) in ops {
        let folder = Folder::new().with("p.mlir", binary(op)).with_npy("a.npy", &a).with_npy("b.npy", &b);
        let pairs = a.as_slice::<f32>().unwrap().iter().zip(b.as_slice::<f32>().unwrap());
        let values: Vec<f32> = pairs.map(|(&a, &b)| function(a, b)).collect();
        for shard in ["a=(x,-) --shard b=(x,-)", "a=(-,x) --shard b=(-,x)", "a=(x,-) --shard b=(-,x)"] {
            let words = format!("p.mlir --mesh x=4 --shard {shard} --input a.npy --input b.npy --output c.npy -q");
            let output = folder.run(&words);
            assert!(output.status.success(), "{}", text(&output.stderr));
            assert_eq!(folder.npy("c.npy"), HostArray::from_slice(&[64, 32], &values).unwrap(), "{op} {shard}");
        }
    }
}

#[test]
fn dims_that_do_not_divide_come_back_whole() {
    let five = HostArray::from_slice(&[5], &[1f32, 2., 3., 4., 5.]).unwrap();
    let folder = Folder::new().with("p.mlir", identity("5xf32")).with_npy("x.npy", &five);
    let report = folder.json("p.mlir --mesh x=4,y=2 --shard out:y=(x) --input x.npy --output y.npy");
    assert_eq!(report["outputs"][0]["sharding"], "(x)");
    assert_eq!(folder.npy("y.npy"), five);
}

#[test]
fn a_constraint_that_does_not_divide_changes_no_value() {
    let program = "module @constrained {
  sdy.mesh @mesh = <[\"x\"=8]>
  func.func @main(%a: tensor<7x1xf32>) -> tensor<7x1xf32> {
    %b = sdy.sharding_constraint %a <@mesh, [{\"x\"}, {}]> : tensor<7x1xf32>
    return %b : tensor<7x1xf32>
  }
}
";
    let seven = counted(&[7, 1]);
    let folder = Folder::new().with("p.mlir", program).with_npy("a.npy", &seven);
    let output = folder.run("p.mlir --input a.npy --output b.npy -q");
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(folder.npy("b.npy"), seven);
}

#[test]
fn partial_permutations_end_on_all_devices() {
    let program = "module @permutes {
  sdy.mesh @mesh = <[\"x\"=4]>
  func.func @main(%p: tensor<32xf32>) -> tensor<32xf32> {
    %0 = sdy.manual_computation(%p) in_shardings=[<@mesh, [{\"x\"}]>] out_shardings=[<@mesh, [{\"x\"}]>] manual_axes={\"x\"} (%q: tensor<8xf32>) {
      %a = \"stablehlo.collective_permute\"(%q) <{source_target_pairs = dense<[[0, 1]]> : tensor<1x2xi64>, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>}> : (tensor<8xf32>) -> tensor<8xf32>
      %ap = stablehlo.add %a, %q : tensor<8xf32>
      %b = \"stablehlo.collective_permute\"(%ap) <{source_target_pairs = dense<[[2, 3]]> : tensor<1x2xi64>, channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>}> : (tensor<8xf32>) -> tensor<8xf32>
      %ab = stablehlo.add %a, %b : tensor<8xf32>
      %c = \"stablehlo.collective_permute\"(%ab) <{source_target_pairs = dense<[[1, 2]]> : tensor<1x2xi64>, channel_handle = #stablehlo.channel_handle<handle = 3, type = 1>}> : (tensor<8xf32>) -> tensor<8xf32>
      %abc = stablehlo.add %ab, %c : tensor<8xf32>
      sdy.return %abc : tensor<8xf32>
    } : (tensor<32xf32>) -> tensor<32xf32>
    return %0 : tensor<32xf32>
  }
}
";
    // Device k holds k + 1 in all its places.
    let blocks = |values: [f32; 4]| -> Vec<f32> { values.iter().flat_map(|&value| [value; 8]).collect() };
    let input = HostArray::from_slice(&[32], &blocks([1., 2., 3., 4.])).unwrap();
    let folder = Folder::new().with("p.mlir", program).with_npy("p.npy", &input);
    let report = folder.json("p.mlir --mesh x=4 --shard #0=(x) --input p.npy --output out.npy --repeat 100");
    assert_eq!(report["runs"], 100);
    assert_eq!(folder.npy("out.npy"), HostArray::from_slice(&[32], &blocks([0., 1., 1., 3.])).unwrap());
}
