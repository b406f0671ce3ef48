//! `shardwright run`: programs of other frameworks on virtual devices, with inputs from files and from seeds, and what is
//! said of programs and inputs that are wrong.

mod command;

use std::fs;
use std::io::{Cursor, Write};
use std::path::PathBuf;
use std::process::Output;

use expect_test::{Expect, expect};
use serde_json::Value;
use shardwright_tensor::{HostArray, NpyHeader};
use tempfile::TempDir;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

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
    type Function = fn(f32, f32) -> f32;
    let ops: [(&str, Function); 4] = [
        ("add", |a, b| a + b),
        ("subtract", |a, b| a - b),
        ("multiply", |a, b| a * b),
        ("divide", |a, b| a / b),
    ];
    let a = counted(&[64, 32]);
    let others: Vec<f32> = (0..64 * 32).map(|n| 1.0 + (n % 37) as f32 / 3.0).collect();
    let b = HostArray::from_slice(&[64, 32], &others).unwrap();
    for (op, function) in ops {
        let folder = Folder::new().with("p.mlir", binary(op)).with_npy("a.npy", &a).with_npy("b.npy", &b);
        let pairs = a.as_slice::<f32>().unwrap().iter().zip(b.as_slice::<f32>().unwrap());
        let values: Vec<f32> = pairs.map(|(&a, &b)| function(a, b)).collect();
        for shard in ["a=(x,-) --shard b=(x,-)", "a=(-,x) --shard b=(-,x)", "a=(x,-) --shard b=(-,x)"] {
            let words =
                format!("p.mlir --mesh x=4 --shard {shard} --input a.npy --input b.npy --output c.npy -q");
            let output = folder.run(&words);
            assert!(output.status.success(), "{}", text(&output.stderr));
            assert_eq!(
                folder.npy("c.npy"),
                HostArray::from_slice(&[64, 32], &values).unwrap(),
                "{op} {shard}"
            );
        }
    }
}

#[test]
fn dims_that_do_not_divide_come_back_whole() {
    let five = HostArray::from_slice(&[5], &[1f32, 2., 3., 4., 5.]).unwrap();
    let folder = Folder::new().with("p.mlir", identity("5xf32")).with_npy("x.npy", &five);
    let report = folder.json("p.mlir --mesh x=4,y=2 --shard out:y=(x) --input x.npy --output y.npy");
    assert_eq!(report["outputs"][0]["spec"], "(x)");
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

#[test]
fn shardings_of_another_rank_or_mesh_are_refused_before_a_plugin_is_looked_for() {
    let folder = Folder::new().with("p.mlir", identity("256x20x1000xf32"));
    check_early_failure(
        &folder,
        "p.mlir --mesh fsdp=4 --shard x=(-,fsdp)",
        expect![[r#"
        error: p.mlir: argument x: rule x=(-,fsdp): spec (-, fsdp) is for rank 2, but shape [256, 20, 1000] has rank 3; a spec has one entry per dim, - where it is not split
        exit code 2
    "#]],
    );
    check_early_failure(
        &folder,
        "p.mlir --mesh fsdp=4 --shard x=(-,fsdp,-,-)",
        expect![[r#"
        error: p.mlir: argument x: rule x=(-,fsdp,-,-): spec (-, fsdp, -, -) is for rank 4, but shape [256, 20, 1000] has rank 3; a spec has one entry per dim, - where it is not split
        exit code 2
    "#]],
    );
    check_early_failure(
        &folder.with("bias.mlir", identity("16xf32").replace("loc(\"x\")", "loc(\"layer.bias\")")),
        "bias.mlir --mesh fsdp=4 --shard layer.*=(-,fsdp)",
        expect![[r#"
            error: bias.mlir: argument layer.bias: rule layer.*=(-,fsdp): spec (-, fsdp) is for rank 2, but shape [16] has rank 1; a spec has one entry per dim, - where it is not split
            exit code 2
        "#]],
    );
    let folder = Folder::new().with("p.mlir", identity("256x20x1000xf32"));
    check_early_failure(
        &folder,
        "p.mlir --mesh model=4 --shard x=(mdl,-,-)",
        expect![[r#"
        error: p.mlir: rule x=(mdl,-,-): spec (mdl, -, -) splits dim 0 over axis mdl, which mesh model=4 does not have; did you mean model?
        exit code 2
    "#]],
    );
}

#[test]
fn files_that_are_no_program_are_refused_before_a_plugin_is_looked_for() {
    let reshape = binary("add").replace(
        "stablehlo.add %a, %b : tensor<64x32xf32>",
        "stablehlo.reshape %a : (tensor<64x32xf32>) -> tensor<31xf32>",
    );
    let folder = Folder::new()
        .with(
            "hlo.txt",
            "HloModule m\nENTRY main { p = f32[4,8] parameter(0)\n ROOT r = f32[31] reshape(p) }\n",
        )
        .with("reshape.mlir", reshape)
        .with("cut.mlir", &identity("2xf32")[..60])
        .with("empty", "")
        .with("cut.pb", b"\x0a\x01m\x12\x04main\x1a\x7f\x0a");
    check_early_failure(
        &folder,
        "hlo.txt",
        expect![[r#"
        error: hlo.txt: the program is HLO text, which plugins do not take; export StableHLO, or the module as a serialized HloModuleProto
        exit code 2
    "#]],
    );
    check_early_failure(
        &folder,
        "reshape.mlir",
        expect![[r#"
        error: reshape.mlir: line 3, column 5: reshape of [f32[64,32]]: element counts are equal
              %c = stablehlo.reshape %a : (tensor<64x32xf32>) -> tensor<31xf32>
              ^
        exit code 2
    "#]],
    );
    check_early_failure(
        &folder,
        "cut.mlir",
        expect![[r#"
        error: cut.mlir: line 2, column 41: expected a `"` that closes what opens here, found none
          nc.func @main(%x: tensor<2xf32> loc("
                                              ^
        exit code 2
    "#]],
    );
    check_early_failure(
        &folder,
        "empty",
        expect![[r#"
        error: empty: the program is empty; expected StableHLO, as text or bytecode, or a serialized HloModuleProto
        exit code 2
    "#]],
    );
    check_early_failure(
        &folder,
        "cut.pb",
        expect![[r#"
        error: cut.pb: the program is no StableHLO and no whole HloModuleProto: it has 12 bytes, and the field that begins at byte 9 goes beyond them (it begins with \n\x01m\x12\x04main\x1a\x7f\n); expected StableHLO, as text or bytecode, or a serialized HloModuleProto
        exit code 2
    "#]],
    );
    check_early_failure(
        &folder,
        "nowhere.mlir",
        expect![[r#"
        error: nowhere.mlir: No such file or directory (os error 2)
        exit code 2
    "#]],
    );
}

#[test]
fn inputs_that_do_not_fit_are_all_told_before_a_plugin_is_looked_for() {
    let program = binary("add").replace("%b: tensor<64x32xf32> loc", "%b: tensor<64xi32> loc");
    let program = program.replace("%a, %b :", "%a, %a :");
    let folder = Folder::new()
        .with("p.mlir", program)
        .with_npy("a.npy", &counted(&[32, 64]))
        .with_npy("b.npy", &HostArray::from_slice(&[64], &[1i64; 64]).unwrap())
        .with_npy("ab.npy", &counted(&[64, 32]))
        .with_npy("1.npy", &HostArray::from_slice(&[64], &[1i32; 64]).unwrap());
    check_early_failure(
        &folder,
        "p.mlir --input a.npy --input b.npy --input ab.npy",
        expect![[r#"
        error: the inputs are not those of the program:
          argument a: expected f32[64,32], found f32[32,64] in array a of a.npy
          argument b: expected s32[64], found s64[64] in array b of b.npy
          array ab of ab.npy is no argument of the program, which takes 2; did you mean a?
        exit code 2
    "#]],
    );
    check_early_failure(
        &folder,
        "p.mlir --input 1.npy",
        expect![[r#"
        error: the inputs are not those of the program:
          argument a: expected f32[64,32], nothing given
        hint: --seed 0 draws what is in no file
        exit code 2
    "#]],
    );
    check_early_failure(
        &folder,
        "p.mlir --input 1.npy --seed 3 --input b.npy",
        expect![[r#"
        error: the inputs are not those of the program:
          argument b: two arrays are given for it, 1 of 1.npy and b of b.npy
        exit code 2
    "#]],
    );
    check_early_failure(
        &folder,
        "p.mlir --range ids=0..3",
        expect![[r#"
        error: --range ids=0..3: no argument of the program is called ids
        hint: its arguments are a, b
        exit code 2
    "#]],
    );
    check_early_failure(
        &folder,
        "p.mlir --output out.csv",
        expect![[r#"
        error: --output: out.csv: outputs are written as .npy, .npz, .safetensors or into a folder, not as .csv
        exit code 2
    "#]],
    );
    check_early_failure(
        &folder,
        "p.mlir --output -",
        expect![[r#"
        error: --output: outputs are files, and are not written to stdout; name an .npz file, or ./- for that folder
        exit code 2
    "#]],
    );
    check_early_failure(
        &folder,
        "p.mlir --seed 1 --range a=0..1e39",
        expect![[r#"
        error: --range a=0..1e39: argument a is f32, whose ranges lie within -3.4028234663852886e38..3.4028234663852886e38; --range 'a=LOW..HIGH' gives it its own
        exit code 2
    "#]],
    );
    check_early_failure(
        &folder,
        "p.mlir --devices 4",
        expect![[r#"
        error: --devices 4: the mesh device=1 has 1 position, one for each device
        hint: --mesh names the axes and their sizes, such as fsdp=-1
        exit code 2
    "#]],
    );
    // A folder for outputs is made once nothing else is wrong.
    check_early_failure(
        &folder,
        "p.mlir --input 1.npy --output made/out.npz",
        expect![[r#"
        error: the inputs are not those of the program:
          argument a: expected f32[64,32], nothing given
        hint: --seed 0 draws what is in no file
        exit code 2
    "#]],
    );
    assert!(!folder.path("made").exists());
    check_early_failure(
        &folder,
        "p.mlir --compare_single --tolerance -1",
        expect![[r#"
        error: --tolerance: expected a number of at least 0, found -1
        exit code 2
    "#]],
    );
    check_early_failure(
        &folder,
        "--mesh x=4",
        expect![[r#"
        error: <IN> is missing
        hint: --help tells what it is
        exit code 2
    "#]],
    );
}

#[test]
fn a_mesh_of_another_number_of_devices_says_what_to_do() {
    let folder = Folder::new().with("p.mlir", identity("8xf32"));
    check_failure(
        &folder,
        "p.mlir --mesh x=1,y=8 --cpu_devices 1",
        expect![[r#"
        error: devices present: 1, but mesh x=1, y=8 takes 8; a size of -1 lets one axis take what is there (platform cpu)
        hint: --devices 4 uses the first 4 devices only; --cpu_devices sets how many a CPU plugin has
        exit code 2
    "#]],
    );
    check_failure(
        &folder,
        "p.mlir --mesh x=1,y=4 --cpu_devices 8",
        expect![[r#"
        error: devices present: 8, but mesh x=1, y=4 takes 4; a size of -1 lets one axis take what is there (platform cpu)
        hint: --devices 4 uses the first 4 devices only; --cpu_devices sets how many a CPU plugin has
        exit code 2
    "#]],
    );
    let report = folder.json("p.mlir --mesh x=1,y=4 --cpu_devices 8 --devices 4 --seed 0");
    assert_eq!(report["devices"], serde_json::json!([0, 1, 2, 3]));
}

#[test]
fn drawn_inputs_are_the_same_on_any_mesh_and_written_in_any_format() {
    let folder = Folder::new().with("p.mlir", binary("multiply")).with(
        "id.mlir",
        identity("64x32xf32")
            .replace("%x: tensor<64x32xf32> loc(\"x\")", "%c: tensor<64x32xf32> loc(\"c\")")
            .replace("return %x", "return %c"),
    );
    let report = folder.json("p.mlir --mesh x=4 --shard a=(x,-) --seed 7 --compare_single --output out.npz");
    assert_eq!(report["outputs"][0]["difference"]["absolute"], 0.0);
    folder.json("p.mlir --seed 7 --output c.npy");
    for again in ["out.npz", "folder", "out.safetensors"] {
        folder.json(&format!("p.mlir --mesh x=2 --seed 7 --output {again}"));
        // The output of one run is an input of the next.
        folder.json(&format!("id.mlir --input {again} --output copy.npy"));
        assert_eq!(folder.npy("copy.npy"), folder.npy("c.npy"), "{again}");
    }
}

/// An archive as NumPy compresses it.
fn compressed(arrays: &[(&str, &[u8])]) -> Vec<u8> {
    let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
    let options = SimpleFileOptions::default().compression_method(CompressionMethod::Deflated);
    for (name, array) in arrays {
        archive.start_file(*name, options).unwrap();
        archive.write_all(array).unwrap();
    }
    archive.finish().unwrap().into_inner()
}

/// A `.npy` file whose dictionary is written by hand.
fn npy(dictionary: &str, data: &[u8]) -> Vec<u8> {
    let size = u16::try_from(dictionary.len()).unwrap().to_le_bytes();
    [b"\x93NUMPY\x01\x00", &size[..], dictionary.as_bytes(), data].concat()
}

#[test]
fn arrays_are_read_however_numpy_stores_them() {
    let numbers = [0f32, 3., 1., 4., 2., 5.];
    let columns: Vec<u8> = numbers.iter().flat_map(|number| number.to_be_bytes()).collect();
    let columns = npy("{'descr': '>f4', 'fortran_order': True, 'shape': (2, 3), }", &columns);
    let record = npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (6,), }", &[0; 24]);
    let scalar = npy("{'descr': '<f4', 'fortran_order': False, 'shape': (), }", &[0; 4]);
    let archive = compressed(&[("x.npy", &columns)]);
    let folder = Folder::new()
        .with("p.mlir", identity("2x3xf32"))
        .with("cut.npz", &archive[..archive.len() / 2])
        .with("x.npz", archive)
        .with("record.npy", record)
        .with("scalar.npz", compressed(&[("x.npy", &scalar)]))
        .with("text.npz", compressed(&[("x.txt", b"text")]))
        .with("point.mlir", identity("f32"));
    folder.json("p.mlir --input x.npz -o y.npy");
    assert_eq!(folder.npy("y.npy"), HostArray::from_slice(&[2, 3], &[0f32, 1., 2., 3., 4., 5.]).unwrap());
    folder.json("point.mlir --input scalar.npz -o y.npy");
    assert_eq!(folder.npy("y.npy").dims(), &[] as &[usize]);
    check_early_failure(
        &folder,
        "p.mlir --input cut.npz",
        expect![[r#"
        error: --input: cut.npz: this is no whole .npz file, which is a zip archive of .npy files: invalid Zip archive: Could not find EOCD
        exit code 2
    "#]],
    );
    check_early_failure(
        &folder,
        "p.mlir --input record.npy",
        expect![[r#"
        error: --input: record.npy: elements of type [('a', '<f4')] are not supported; supported are b1, i1, i2, i4, i8, u1, u2, u4, u8, f2, V2, f4, f8 (V2 as bfloat16)
        exit code 2
    "#]],
    );
    check_early_failure(
        &folder,
        "p.mlir --input scalar.npz",
        expect![[r#"
        error: the inputs are not those of the program:
          argument x: expected f32[2,3], found f32[] in array x of scalar.npz
        exit code 2
    "#]],
    );
    check_early_failure(
        &folder,
        "p.mlir --input text.npz",
        expect![[r#"
        error: --input: text.npz: x.txt is in the archive, which has .npy files only if it is NumPy's
        exit code 2
    "#]],
    );
}

#[test]
fn programs_without_elements_arguments_or_outputs_run() {
    let folder = Folder::new()
        .with("empty.mlir", identity("0x3xf32"))
        .with("nothing.mlir", "module @nothing {\n  func.func @main() {\n    return\n  }\n}\n");
    let report = folder.json("empty.mlir --mesh fsdp=2 --shard x=(fsdp,-) -o y.npy");
    assert_eq!(report["outputs"][0]["min"], Value::Null);
    assert_eq!(folder.npy("y.npy").dims(), [0, 3]);
    let output = folder.run("nothing.mlir -q -o none.npz");
    assert_eq!(text(&output.stdout), "the program has no outputs\n", "{}", text(&output.stderr));
    // An archive of nothing is one too.
    assert!(folder.run("nothing.mlir -q --input none.npz").status.success());
}

#[test]
fn a_program_that_numbers_its_devices_runs_on_as_many() {
    let stated = |sharding: &str| {
        let attributes = format!("{{mhlo.sharding = \"{sharding}\"}} loc(\"x\")");
        identity("8x8xf32").replace("loc(\"x\")", &attributes)
    };
    let folder = Folder::new()
        .with("p.mlir", stated("{devices=[4,1]<=[4]}"))
        .with("two.mlir", stated("{devices=[2,1,2]<=[2,2]T(1,0) last_tile_dim_replicate}"));
    let report = folder.json("p.mlir --shard out:y=(device,-) --compare_single");
    assert_eq!(report["mesh"], "device=4");
    assert_eq!(report["outputs"][0]["spec"], "(device, -)");
    // Shardings over some of several axes need their sizes.
    check_early_failure(
        &folder,
        "two.mlir",
        expect![[r#"
        error: two.mlir: argument x: the program says that it is sharded {devices=[2,1,2]<=[2,2]T(1,0) last_tile_dim_replicate}, which is of no use here: no axes of mesh device=4 cut dim 0 into the 2 tiles of {devices=[2,1,2]<=[2,2]T(1,0) last_tile_dim_replicate}
        hint: --mesh names the axes of its mesh, such as --mesh data=2,fsdp=4
        exit code 2
    "#]],
    );
    folder.json("two.mlir --mesh data=2,fsdp=2");
}

#[test]
fn an_op_that_the_plugin_does_not_know_is_named() {
    let program = identity("8xf32").replace(
        "return %x",
        "%y = \"stablehlo.frobnicate\"(%x) : (tensor<8xf32>) -> tensor<8xf32>\n    return %y",
    );
    let folder = Folder::new().with("p.mlir", program);
    let output = folder.run("p.mlir -q");
    assert_eq!(output.status.code(), Some(1));
    let message = text(&output.stderr);
    for part in ["error: p.mlir: ", "'stablehlo.frobnicate'", "StableHLO v", "hint: --dump_to FOLDER"] {
        assert!(message.contains(part), "{message}");
    }
}

#[test]
fn a_difference_beyond_the_tolerance_is_a_failure() {
    // A sum over devices has another order than one on a single device.
    let program = "module @sum {
  func.func @main(%x: tensor<4096xf32> loc(\"x\")) -> (tensor<f32> {jax.result_info = \"sum\"}) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %sum = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<4096xf32>, tensor<f32>) -> tensor<f32>
    return %sum : tensor<f32>
  }
}
";
    let folder = Folder::new().with("p.mlir", program);
    let words = "p.mlir --mesh x=8 --shard x=(x) --seed 1 --compare_single -q";
    assert!(folder.run(words).status.success());
    let output = folder.run(&format!("{words} --tolerance 0"));
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stdout));
    assert!(text(&output.stderr).contains("outputs differ from those of one device"));
}

#[test]
fn bytecode_runs_on_one_device_and_a_newer_artifact_is_refused() {
    let folder = Folder::new().with("newer.bc", b"ML\xefR\x0dStableHLO_v99.0.0\0");
    let output = folder.run("newer.bc -q");
    assert_eq!(output.status.code(), Some(2));
    let message = text(&output.stderr);
    assert!(message.contains("StableHLO 99.0.0, and the plugin knows StableHLO up to 1."), "{message}");
    check_early_failure(
        &folder,
        "newer.bc --mesh x=4",
        expect![[r#"
        error: newer.bc: the program is MLIR bytecode of StableHLO 99.0.0, into which no shardings are written
        hint: export it as StableHLO text (`lowered.as_text()` in JAX) or as an HLO proto
        exit code 2
    "#]],
    );
}

#[test]
fn inputs_that_no_memory_holds_are_refused_before_a_plugin_is_looked_for() {
    let folder = Folder::new().with("p.mlir", identity("1000000000000000000xui8"));
    check_early_failure(
        &folder,
        "p.mlir",
        expect![[r#"
        error: the inputs take 909494.7 TiB, and there is no memory for them; the largest is argument x, 909494.7 TiB of u8[1000000000000000000]
        exit code 2
    "#]],
    );
}

#[test]
fn thousands_of_inputs_that_do_not_fit_are_told_as_far_as_anyone_reads() {
    const COUNT: usize = 2_000;
    let argument = |index| format!("%a{index}: tensor<f32> loc(\"layers.{index}.weight\")");
    let arguments: Vec<String> = (0..COUNT).map(argument).collect();
    let program = format!(
        "func.func @main({}) -> tensor<f32> {{\n  return %a0 : tensor<f32>\n}}\n",
        arguments.join(", ")
    );
    let scalar = npy("{'descr': '<f4', 'fortran_order': False, 'shape': (), }", &[0; 4]);
    let names: Vec<String> = (0..COUNT).map(|index| format!("layers.{index}.weights.npy")).collect();
    let mut arrays: Vec<(&str, &[u8])> = names.iter().map(|name| (name.as_str(), &scalar[..])).collect();
    arrays.push(("layers.0.weight.npy", &scalar));
    let folder = Folder::new().with("p.mlir", program).with("x.npz", compressed(&arrays));
    let output = folder.run("p.mlir --input x.npz --plugin no-plugin -q");
    let lines: Vec<&str> = text(&output.stderr).lines().collect();
    expect![[r#"
          array layers.0.weights of x.npz is no argument of the program, which takes 2000; did you mean layers.0.weight?
          and 3979 more
        hint: --seed 0 draws what is in no file"#]].assert_eq(&[lines[1], lines[lines.len() - 2], lines[lines.len() - 1]].join("\n"));
    assert_eq!((output.status.code(), lines.len()), (Some(2), 23));
}

#[test]
fn a_mesh_of_an_open_size_hides_no_mistake_until_a_plugin_is_open() {
    let folder =
        Folder::new().with("p.mlir", identity("8xf32")).with("rules.json", "{\"shard\": {\"x\": \"(\"}}");
    check_early_failure(
        &folder,
        "p.mlir --mesh fsdp=-1 --shard bogus",
        expect![[r#"
        error: --shard: rule bogus: there is no '=' in it; a rule is written PATTERN=PLACEMENT, such as params.*=fsdp
        exit code 2
    "#]],
    );
    check_early_failure(
        &folder,
        "p.mlir --mesh fsdp=-1 --rules rules.json",
        expect![[r#"
        error: rules.json: rule x=(: "(" is no placement; expected an axis, replicated, axes for dim 0 such as (data,fsdp), a spec with an entry for each dim such as (-, fsdp), or one of parameter, state, batch and other
        exit code 2
    "#]],
    );
    // This one is not open.
    check_early_failure(
        &folder,
        "p.mlir --mesh fsdp-1=4 --shard x=fsdp",
        expect![[r#"
        error: p.mlir: rule x=fsdp: spec (fsdp) splits dim 0 over axis fsdp, which mesh fsdp-1=4 does not have; did you mean fsdp-1?
        exit code 2
    "#]],
    );
}
