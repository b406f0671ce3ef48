//! What is counted, refused and written down of programs on the real CPU plugin.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::Command;
use std::{env, fs};

use expect_test::{Expect, expect};
use shardwright_hlo::{ArgumentKind, Binary, Module, Op, verify};
use shardwright_mesh::Mesh;
use shardwright_partition::ShardedModule;
use shardwright_pjrt::{Effort, EffortLevel, Operation, Tally};
use shardwright_runtime::{
    Argument, CompilerFlags, CompilerOptions, DumpOptions, Executable, Runtime, RuntimeError,
    RuntimeErrorKind, RuntimeOptions, ShardedArray,
};
use shardwright_tensor::{DType, HostArray, TensorType};

fn open(change: impl FnOnce(&mut RuntimeOptions)) -> Result<Runtime, RuntimeError> {
    let mut options = RuntimeOptions::cpu_devices(4);
    change(&mut options);
    Runtime::open(&options)
}

/// What a program does to `x: f32[8, 2]`, split over the devices by rows and donated: it doubles it.
fn double(runtime: &Runtime) -> (Executable, Mesh) {
    let mesh = runtime.mesh("fsdp=-1").unwrap();
    let mut m = Module::new("double");
    let ty = TensorType::new(DType::F32, [8, 2]).unwrap();
    let x = m.add_argument_of_kind("x", ty, ArgumentKind::Parameter);
    let y = m.push(Op::Binary(Binary::Add), &[x, x]).unwrap()[0];
    m.add_donated_output("x", y, 0);
    let rows = mesh.sharding("(fsdp, -)".parse().unwrap()).unwrap();
    let module =
        ShardedModule::new(verify(m).unwrap(), mesh.shape(), vec![rows.clone()], vec![rows]).unwrap();
    (runtime.compile(&module, &mesh).unwrap(), mesh)
}

fn place(runtime: &Runtime, program: &Executable, mesh: &Mesh) -> ShardedArray {
    let ones = HostArray::from_slice(&[8, 2], &[1f32; 16]).unwrap();
    ShardedArray::from_host(runtime, mesh, &program.arguments()[0].sharding, &ones).unwrap()
}

#[test]
fn steps_compile_nothing_and_copy_nothing_that_they_are_not_asked_for() {
    let runtime = open(|_| ()).unwrap();
    let (program, mesh) = double(&runtime);
    let mut x = place(&runtime, &program, &mesh);
    let before = runtime.clone().counters().snapshot();
    for _ in 0..3 {
        x = program.execute(vec![Argument::Donate(x)]).unwrap().outputs.remove(0);
    }
    let steps = runtime.counters().snapshot().since(&before);
    let counts = Operation::ALL.map(|operation| (operation.name(), steps.operation(operation).count));
    assert_eq!(counts, [("compile", 0), ("load", 0), ("execute", 3), ("to_device", 0), ("from_device", 0)]);
    assert_eq!(steps.tally(Tally::Donation), 3);

    assert_eq!(x.to_host().unwrap().to_f64(), [8.0; 16]);
    let all = runtime.counters().snapshot();
    assert_eq!(all.operation(Operation::Compile).count, 1);
    for copies in [Operation::ToDevice, Operation::FromDevice].map(|copies| all.operation(copies)) {
        assert_eq!((copies.count, copies.bytes), (4, 64), "a shard of four floats for each device");
    }
}

#[test]
fn a_runtime_counts_for_itself() {
    let runtime = open(|_| ()).unwrap();
    double(&runtime);
    let other = open(|_| ()).unwrap();
    assert_eq!(other.counters().snapshot().operation(Operation::Compile).count, 0);
}

/// What comes of opening a runtime with these flags.
#[track_caller]
fn check_flags(flags: &[&str], expect: Expect) {
    let show = |text: &&str| {
        let flags = CompilerFlags::parse("--xla_flags", text).unwrap();
        match open(|options| options.compiler.flags = flags) {
            Ok(_) => format!("{text}\n  fine\n"),
            Err(error) => {
                assert_eq!(error.kind(), RuntimeErrorKind::CompilerFlag, "{error}");
                format!("{text}\n  {error}\n")
            }
        }
    };
    expect.assert_eq(&flags.iter().map(show).collect::<String>());
}

#[test]
fn flags_that_are_fine_are_taken_in_every_spelling() {
    check_flags(
        &[
            "--xla_cpu_enable_fast_math --xla_cpu_multi_thread_eigen=false",
            "--xla_cpu_enable_fast_math=1 --xla_cpu_multi_thread_eigen=True",
            "--xla_backend_optimization_level=1  --xla_cpu_parallel_codegen_split_count=1",
            "--xla_disable_hlo_passes='cse,dce'",
            "--xla_gpu_enable_triton_gemm=false",
            "--xla_gpu_autotune_gemm_rtol=0.5 --xla_gpu_autotune_gemm_rtol=1",
            "--xla_cpu_max_isa=true",
        ],
        expect![[r#"
            --xla_cpu_enable_fast_math --xla_cpu_multi_thread_eigen=false
              fine
            --xla_cpu_enable_fast_math=1 --xla_cpu_multi_thread_eigen=True
              fine
            --xla_backend_optimization_level=1  --xla_cpu_parallel_codegen_split_count=1
              fine
            --xla_disable_hlo_passes='cse,dce'
              fine
            --xla_gpu_enable_triton_gemm=false
              fine
            --xla_gpu_autotune_gemm_rtol=0.5 --xla_gpu_autotune_gemm_rtol=1
              fine
            --xla_cpu_max_isa=true
              fine
        "#]],
    );
}

#[test]
fn flags_that_are_wrong_are_named_with_what_is_wrong() {
    check_flags(
        &[
            "--dump_hlo_as_text",
            "--xla_gpu_enable_triton_gemm=false --xla_no_such_flag=1",
            "--xla_cpu_multi_thread_eigen=abc --xla_nothing --xla_backend_optimization_level=x",
            "--xla_backend_optimization_level",
            "--xla_cpu_parallel_codegen_split_count=0",
            "--xla_fuel=cse=1",
            "--xla_backend_extra_options=a=1",
        ],
        expect![[r#"
            --dump_hlo_as_text
              --xla_flags: the compiler has no flag dump_hlo_as_text (did you mean xla_dump_hlo_as_text or xla_dump_hlo_as_long_text?)
            --xla_gpu_enable_triton_gemm=false --xla_no_such_flag=1
              --xla_flags: the compiler has no flag xla_no_such_flag
            --xla_cpu_multi_thread_eigen=abc --xla_nothing --xla_backend_optimization_level=x
              --xla_flags: --xla_cpu_multi_thread_eigen=abc: 'abc' is not a valid bool value; --xla_flags: the compiler has no flag xla_nothing; --xla_flags: --xla_backend_optimization_level=x: 'x' is not a valid int32 value
            --xla_backend_optimization_level
              --xla_flags: --xla_backend_optimization_level: it takes no truth value, which a flag without a value is; write --xla_backend_optimization_level=VALUE
            --xla_cpu_parallel_codegen_split_count=0
              the compiler cannot work with the flags --xla_cpu_parallel_codegen_split_count=0: internal error: PJRT_Client_Compile: Too many extra compilation parts due to non-default options (0). Consider reducing this number or increasing parallel_codegen_split_count (0)
            --xla_fuel=cse=1
              --xla_flags: --xla_fuel=cse=1: the compiler knows it for a whole process only, not for a program
            --xla_backend_extra_options=a=1
              --xla_flags: --xla_backend_extra_options=a=1: the compiler knows it for a whole process only, not for a program
        "#]],
    );
}

/// Runs itself with the variables set, since a process cannot change its own.
#[test]
fn flags_in_the_environment_are_refused_before_the_plugin_reads_them() {
    const NAME: &str = "flags_in_the_environment_are_refused_before_the_plugin_reads_them";
    const CHILD: &str = "SHARDWRIGHT_TEST_CHILD";
    if env::var_os(CHILD).is_some() {
        let opened = Runtime::open(&RuntimeOptions::default());
        let result = opened.map_or_else(|e| e.to_string(), |runtime| runtime.devices().count().to_string());
        writeln!(io::stdout(), "\nresult: {result}").unwrap();
        return;
    }
    let check = |variable: &str, value: &str, expect: &str| {
        let mut child = Command::new(env::current_exe().unwrap());
        child.args([NAME, "--exact", "--nocapture"]).env(CHILD, "1").env_remove("XLA_FLAGS");
        let output = child.env(variable, value).output().unwrap();
        let stdout = String::from_utf8_lossy(&output.stdout);
        let result = stdout.lines().find_map(|line| line.strip_prefix("result: "));
        assert_eq!(result, Some(expect), "{value}: {output:?}");
    };
    let unknown = "XLA_FLAGS: the compiler has no flag xla_no_such_flag";
    check("XLA_FLAGS", "--xla_gpu_enable_triton_gemm=false --xla_no_such_flag=1", unknown);
    check("XLA_FLAGS", "--xla_force_host_platform_device_count=5 --xla_cpu_enable_fast_math", "5");
    check("LIBTPU_INIT_ARGS", "--xla_no_such_flag", "4");
}

#[test]
fn the_host_device_flag_counts_where_nothing_else_does() {
    let flags = || CompilerFlags::parse("XLA_FLAGS", "--xla_force_host_platform_device_count=3").unwrap();
    let by_flag = open(|options| (options.cpu_devices, options.compiler.flags) = (None, flags())).unwrap();
    assert_eq!(by_flag.devices().count(), 3);
    let by_option = open(|options| options.compiler.flags = flags()).unwrap();
    assert_eq!(by_option.devices().count(), 4);
}

#[test]
fn a_dump_has_the_program_before_the_compiler_and_after_its_passes() {
    let folder = tempfile::tempdir().unwrap();
    let dump = DumpOptions { folder: folder.path().join("a/b"), passes: Some("spmd".into()) };
    let flags = CompilerFlags::parse("--xla_flags", "--xla_cpu_enable_fast_math").unwrap();
    let runtime = open(|options| {
        let effort = Effort { optimization_level: Some(EffortLevel::O1), ..Effort::default() };
        options.compiler = CompilerOptions { flags, effort, dump: Some(dump) };
    });
    double(&runtime.unwrap());
    let mut files: Vec<PathBuf> =
        fs::read_dir(folder.path().join("a/b")).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let text = |part: &str| {
        let found: Vec<_> = files.iter().filter(|file| file.to_str().unwrap().contains(part)).collect();
        assert!(!found.is_empty(), "{part} is not in {files:?}");
        fs::read_to_string(found[0]).unwrap()
    };
    assert!(text("program_0001.double.stablehlo.mlir").contains("stablehlo.add"));
    assert!(text("before_optimizations.txt").contains("HloModule double"));
    assert!(text("after_optimizations.txt").contains("f32[2,2]"), "the program of one device");
    assert!(text("spmd").contains("HloModule double"));
    assert!(files.iter().all(|file| file.to_str().unwrap().contains("double")), "{files:?}");
}

#[test]
fn a_folder_for_dumps_that_cannot_be_is_named() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let dump = DumpOptions { folder: file.path().join("sub"), passes: None };
    let error = open(|options| options.compiler.dump = Some(dump)).err().unwrap();
    assert_eq!(error.kind(), RuntimeErrorKind::Dump);
    assert!(error.to_string().contains(&file.path().join("sub").display().to_string()), "{error}");
}
