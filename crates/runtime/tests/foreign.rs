//! Programs from elsewhere: what is said of files that are none, and what the real CPU plugin makes of those that are.

use std::fs;
use std::path::Path;
use std::sync::OnceLock;

use expect_test::{Expect, expect};
use shardwright_hlo::read_op_sharding;
use shardwright_pjrt::{Arg, Buffer, CompileOptions, OptionValue, ProgramFormat};
use shardwright_runtime::compile::{ForeignProgram, ProgramError};
use shardwright_runtime::{DumpOptions, ForeignExecutable, Runtime, RuntimeErrorKind, RuntimeOptions};
use shardwright_tensor::HostArray;

const DOUBLE: &str = r#"
// Twice x, cut by rows.
module @double attributes {mhlo.num_partitions = 4 : i32} {
  sdy.mesh @mesh = <["a"=2, "b"=2]>
  func.func public @main(%x: tensor<8x3xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"b", "a"}, {}]>})
      -> (tensor<8x3xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"a"}, {}]>}) {
    %y = stablehlo.add %x, %x : tensor<8x3xf32>
    return %y : tensor<8x3xf32>
  }
}
"#;

fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| Runtime::open(&RuntimeOptions::cpu_devices(8)).unwrap())
}

fn negate() -> ForeignProgram {
    let text = "module @negate {
        func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
            %y = stablehlo.negate %x : tensor<2xf32>
            return %y : tensor<2xf32>
        }
    }";
    ForeignProgram::recognise(text.as_bytes()).unwrap()
}

/// These numbers on the device with this id.
fn on_device(id: i64, values: &[f32]) -> Buffer {
    let host = HostArray::from_slice(&[values.len()], values).unwrap();
    runtime().client().buffer_from_host(&host, runtime().client().device(id).unwrap()).unwrap()
}

#[track_caller]
fn check(bytes: &[u8], expected: Expect) {
    let text = match ForeignProgram::recognise(bytes) {
        Ok(program) => format!("{program:?}"),
        Err(error) => error.to_string(),
    };
    expected.assert_eq(&text);
}

/// A field of a protocol buffer that is shorter than 128 bytes.
fn field(number: u8, content: &[u8]) -> Vec<u8> {
    [&[number << 3 | 2, content.len() as u8], content].concat()
}

/// A serialized module without instructions.
fn hlo() -> Vec<u8> {
    [field(1, b"m"), field(2, b"main"), field(3, &field(1, b"main"))].concat()
}

/// Bytecode of this producer, with nothing behind that.
fn bytecode(producer: &str) -> Vec<u8> {
    [b"ML\xefR\x0d", producer.as_bytes(), b"\0"].concat()
}

#[test]
fn what_a_plugin_takes_is_recognised() {
    check(DOUBLE.as_bytes(), expect!["ForeignProgram(StableHLO text, 390 bytes)"]);
    check(b"#map = affine_map<()>\nmodule {}", expect!["ForeignProgram(StableHLO text, 31 bytes)"]);
    check(&bytecode("MLIR21.0.0git"), expect!["ForeignProgram(MLIR bytecode, 19 bytes)"]);
    check(&hlo(), expect!["ForeignProgram(a serialized HloModuleProto, 17 bytes)"]);
    let dump = field(1, &hlo());
    assert_eq!(ForeignProgram::recognise(&dump).unwrap().code(), hlo(), "what XLA dumps wraps a module");
}

#[test]
fn files_that_are_no_program_are_said_to_be_none() {
    check(
        b" \n",
        expect![
            "the program is empty; expected StableHLO, as text or bytecode, or a serialized HloModuleProto"
        ],
    );
    for text in [
        "HloModule m\nENTRY main { ROOT r = f32[31] reshape(f32[4,8] p) }",
        "// cut off\nHloModule m, is_sch",
        "ENTRY main { ROOT r = f32[] no_such_op() }",
    ] {
        assert_eq!(ForeignProgram::recognise(text.as_bytes()), Err(ProgramError::HloText));
    }
    check(
        b"HloModule m",
        expect![
            "the program is HLO text, which plugins do not take; export StableHLO, or the module as a serialized HloModuleProto"
        ],
    );
    check(
        b"{\"module\": 1}",
        expect![[r#"
            the program is text and neither StableHLO nor any other MLIR: it begins with "{\"module\": 1}""#]],
    );
    let half = &hlo()[..hlo().len() / 2];
    check(
        half,
        expect![[r#"
            the program is no StableHLO and no whole HloModuleProto: it has 8 bytes, and the field that begins at byte 3 goes beyond them (it begins with \n\x01m\x12\x04mai); expected StableHLO, as text or bytecode, or a serialized HloModuleProto"#]],
    );
    check(
        &field(7, b"m"),
        expect![[r#"
            the program is no StableHLO and no whole HloModuleProto: it is a protocol buffer of something else (it begins with :\x01m); expected StableHLO, as text or bytecode, or a serialized HloModuleProto"#]],
    );
    check(
        b"\x7fELF\x02\x01\x01\x00",
        expect![[r#"
            the program is no StableHLO and no whole HloModuleProto: at byte 0 there is no field of a protocol buffer (it begins with \x7fELF\x02\x01\x01\x00); expected StableHLO, as text or bytecode, or a serialized HloModuleProto"#]],
    );
    check(
        b"ML\xefR\x0dStab",
        expect!["the program is MLIR bytecode that ends after 9 bytes, before it says who wrote it"],
    );
}

#[test]
fn one_kind_of_program_is_not_taken_for_another() {
    let wrong = |bytes: &[u8], format| {
        ForeignProgram::recognise(bytes).unwrap().expect(format).unwrap_err().to_string()
    };
    assert_eq!(
        wrong(DOUBLE.as_bytes(), ProgramFormat::Hlo),
        "the program is StableHLO text, expected a serialized HloModuleProto"
    );
    assert_eq!(
        wrong(&hlo(), ProgramFormat::Mlir),
        "the program is a serialized HloModuleProto, expected StableHLO, as text or bytecode"
    );
}

#[test]
fn artifacts_of_a_newer_stablehlo_are_refused_with_both_versions() {
    let plugin = runtime().client().plugin();
    let program = ForeignProgram::recognise(&bytecode("StableHLO_v99.0.0")).unwrap();
    let error = runtime().compile_foreign(&program, &CompileOptions::default()).unwrap_err();
    assert_eq!(error.kind(), RuntimeErrorKind::NotAProgram);
    let message =
        "the program is a portable artifact of StableHLO 99.0.0, and the plugin knows StableHLO up to 1.";
    assert!(error.to_string().starts_with(message), "{error}");

    let older = ForeignProgram::recognise(&bytecode("StableHLO_v1.0.0")).unwrap();
    assert_eq!(older.stablehlo_version().unwrap().to_string(), "1.0.0");
    assert_eq!(older.check_version(plugin), Ok(()));
}

fn options(num_partitions: usize, devices: &[i64]) -> CompileOptions {
    CompileOptions { num_partitions, device_assignment: devices.to_vec(), ..CompileOptions::default() }
}

#[test]
fn a_program_runs_on_the_devices_that_were_named() {
    let program = ForeignProgram::recognise(DOUBLE.as_bytes()).unwrap();
    let executable = runtime().compile_foreign(&program, &options(4, &[2, 3, 6, 7])).unwrap();
    let ids: Vec<i64> = executable.devices().map(|device| device.id()).collect();
    assert_eq!(ids, [2, 3, 6, 7]);
    let shard = |device| {
        let host = HostArray::from_slice(&[2, 3], &[1f32; 6]).unwrap();
        runtime().client().buffer_from_host(&host, device).unwrap()
    };
    let x = executable.devices().map(shard).collect();
    let outputs = executable.execute(vec![Arg::Donate(x)]).unwrap().outputs;
    assert_eq!(outputs[0][3].to_host().unwrap(), HostArray::from_slice(&[4, 3], &[2f32; 12]).unwrap());
}

#[test]
fn an_unsharded_program_runs_on_the_one_device_that_was_named() {
    let executable = runtime().compile_foreign(&negate(), &options(1, &[5])).unwrap();
    let [device] = executable.devices().collect::<Vec<_>>()[..] else { panic!("one device") };
    assert_eq!(device.id(), 5);
    let outputs = executable.execute([Arg::Donate(vec![on_device(5, &[1., -2.])])]).unwrap().outputs;
    assert_eq!(outputs[0][0].device().id(), 5);
    assert_eq!(outputs[0][0].to_host().unwrap(), HostArray::from_slice(&[2], &[-1f32, 2.]).unwrap());
}

#[test]
fn arguments_that_do_not_fit_are_refused_by_number() {
    let one = runtime().compile_foreign(&negate(), &options(1, &[5])).unwrap();
    let four = ForeignProgram::recognise(DOUBLE.as_bytes()).unwrap();
    let four = runtime().compile_foreign(&four, &options(4, &[2, 3, 6, 7])).unwrap();
    let check = |executable: &ForeignExecutable, arguments: &[&[Buffer]], expected: Expect| {
        let arguments = arguments.iter().map(|&buffers| Arg::Borrow(buffers));
        let error = executable.execute(arguments).err().unwrap();
        assert_eq!(error.kind(), RuntimeErrorKind::Argument);
        expected.assert_eq(&error.to_string());
    };
    let elsewhere = [on_device(0, &[1., -2.])];
    check(&one, &[], expect!["program negate takes 1 arguments, got 0"]);
    check(
        &one,
        &[&elsewhere],
        expect!["program negate: argument 0 is f32[2] on CpuDevice(id=5), got f32[2] on CpuDevice(id=0)"],
    );
    check(
        &one,
        &[&[on_device(5, &[1., 2., 3.])]],
        expect!["program negate: argument 0 is f32[2] on CpuDevice(id=5), got f32[3] on CpuDevice(id=5)"],
    );
    check(&four, &[&elsewhere], expect!["program double: argument 0 is 4 buffers of f32[2,3], got 1"]);
    let other = Runtime::open(&RuntimeOptions::cpu_devices(8)).unwrap();
    let other = other.compile_foreign(&negate(), &options(1, &[0])).unwrap();
    check(
        &other,
        &[&elsewhere],
        expect!["program negate: argument 0 is f32[2] on CpuDevice(id=0), got a buffer of another client"],
    );
}

#[test]
fn the_options_of_the_runtime_hold_unless_the_call_says_otherwise() {
    let folder = tempfile::tempdir().unwrap();
    let [own, given] = ["own", "given"].map(|name| folder.path().join(name));
    let mut opened = RuntimeOptions::cpu_devices(1);
    opened.compiler.dump = Some(DumpOptions { folder: own.clone(), passes: None });
    let runtime = Runtime::open(&opened).unwrap();
    let files = |folder: &Path| fs::read_dir(folder).map_or(0, Iterator::count);
    let names = |folder: &Path| {
        let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
        entries.map(|name| name.into_string().unwrap()).collect::<Vec<_>>()
    };

    runtime.compile_foreign(&negate(), &CompileOptions::default()).unwrap();
    assert!(names(&own).contains(&"program_0001.negate.stablehlo.mlir".to_owned()));
    let dumped = files(&own);
    assert!(dumped > 1, "the compiler wrote down nothing");

    let to = OptionValue::String(given.to_str().unwrap().to_owned());
    let flag = ("xla_dump_to".to_owned(), to);
    let options = CompileOptions { env_option_overrides: vec![flag], ..CompileOptions::default() };
    runtime.compile_foreign(&negate(), &options).unwrap();
    assert!(files(&given) > 0);
    assert_eq!(files(&own), dumped + 1, "but for the program itself");
}

#[test]
fn another_number_of_partitions_than_the_modules_is_refused() {
    let program = ForeignProgram::recognise(DOUBLE.as_bytes()).unwrap();
    let error = runtime().compile_foreign(&program, &options(1, &[])).unwrap_err();
    assert_eq!(
        error.to_string(),
        "refused: compile: the module says mhlo.num_partitions = 4, the options say num_partitions: 1"
    );
}

#[test]
fn a_serialized_module_is_compiled_too() {
    let executable = runtime().compile_foreign(&negate(), &CompileOptions::default()).unwrap();
    // What the compiler gives back is a message that wraps the module.
    let module =
        ForeignProgram::recognise(&executable.loaded().executable().optimized_program().unwrap().code)
            .unwrap();
    assert_eq!(module.format(), ProgramFormat::Hlo);
    let again = runtime().compile_foreign(&module, &CompileOptions::default()).unwrap();
    let outputs = again.execute([Arg::Donate(vec![on_device(0, &[1., -2.])])]).unwrap().outputs;
    assert_eq!(outputs[0][0].to_host().unwrap(), HostArray::from_slice(&[2], &[-1f32, 2.]).unwrap());
}

#[test]
fn an_executable_tells_what_it_is_and_so_does_its_copy() {
    let program = ForeignProgram::recognise(DOUBLE.as_bytes()).unwrap();
    let compiled = runtime().compile_foreign(&program, &options(4, &[])).unwrap();
    let loaded = compiled.loaded();
    let copy = runtime().client().load(&loaded.executable().serialize().unwrap()).unwrap();
    for loaded in [loaded, &copy] {
        let executable = loaded.executable();
        assert_eq!(executable.name().unwrap(), "double");
        let counts = [executable.num_partitions(), executable.num_replicas(), executable.num_outputs()];
        assert_eq!(counts.map(Result::unwrap), [4, 1, 1]);
        assert_eq!(loaded.parameter_types()[0].to_string(), "f32[2,3]");
        assert_eq!(loaded.output_types()[0].to_string(), "f32[4,3]");
        assert_eq!(loaded.device_assignment(), Ok(vec![0, 1, 2, 3]));
        let text = |shardings: Option<Vec<Vec<u8>>>| {
            read_op_sharding(&shardings.unwrap()[0]).unwrap()[0].to_string()
        };
        assert_eq!(text(executable.parameter_shardings().unwrap()), "{devices=[4,1]<=[2,2]T(1,0)}");
        assert_eq!(
            text(executable.output_shardings().unwrap()),
            "{devices=[2,1,2]<=[4] last_tile_dim_replicate}"
        );
        assert_eq!(executable.output_memory_kinds().unwrap(), ["device"]);
        assert_eq!(executable.memory_stats().unwrap().output, 4 * 3 * 4);
    }
}
