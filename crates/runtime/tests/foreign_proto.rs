//! Programs that JAX exported as HLO protos, sharded, compiled and executed: the numbers are JAX's, on one device and
//! split over eight.

use std::path::Path;
use std::sync::OnceLock;

use shardwright_hlo::HloProgram;
use shardwright_hlo::compiled::CollectiveKind;
use shardwright_mesh::{AbstractMesh, Mesh, NamedSharding, PartitionSpec};
use shardwright_partition::{ShardError, ShardedHlo};
use shardwright_runtime::{Argument, Executable, Runtime, RuntimeErrorKind, RuntimeOptions, ShardedArray};
use shardwright_tensor::{DType, HostArray, TensorType};

fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| Runtime::open(&RuntimeOptions::cpu_devices(8)).unwrap())
}

/// One of the programs of `benchmarks/foreign/export.py`, or one over the mesh `data=2,fsdp=4`.
fn program(name: &str) -> HloProgram {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../hlo/tests/data");
    let bytes = std::fs::read(folder.join(name).with_extension("hlo.pb")).unwrap();
    HloProgram::read(&bytes).unwrap()
}

/// FSDP by hand: arguments that are given up, and outputs with them, are split along their largest dim that divides;
/// of the rest, dim 0 of arguments is the batch, and outputs are whole.
fn fsdp(program: &HloProgram, mesh: &AbstractMesh) -> ShardedHlo {
    let size = mesh.axis_size("fsdp").unwrap();
    let signature = program.signature();
    let split = |ty: &TensorType, is_state: bool| {
        let divides = |&dim: &usize| ty.dims()[dim].is_multiple_of(size) && (is_state || dim == 0);
        let dim = (0..ty.rank()).rev().filter(divides).max_by_key(|&dim| ty.dims()[dim]);
        let whole = PartitionSpec::replicated(ty.rank());
        let spec = dim.map_or(whole, |dim| PartitionSpec::split(ty.rank(), dim, "fsdp"));
        NamedSharding::new(mesh, spec).unwrap()
    };
    let is_state = |index| signature.outputs.iter().any(|output| output.donor == Some(index));
    let arguments = signature.arguments.iter().enumerate();
    let arguments: Vec<_> = arguments.map(|(index, a)| split(&a.ty, is_state(index))).collect();
    let whole = |ty: &TensorType| NamedSharding::replicated(mesh, ty.rank());
    let outputs = signature.outputs.iter();
    let outputs = outputs.map(|o| o.donor.map_or_else(|| whole(&o.ty), |donor| arguments[donor].clone()));
    let outputs = outputs.collect();
    ShardedHlo::new(program, mesh, arguments, outputs, &[]).unwrap()
}

/// Numbers that have nothing to do with each other, and that floats hold exactly.
fn input(index: usize, ty: &TensorType, offset: f32) -> HostArray {
    let count = ty.shape.element_count();
    match ty.dtype {
        DType::F32 => {
            let value = |i: usize| ((i * 37 + index) % 101) as f32 / 128.0 - 50.0 / 128.0;
            let value = |i| if offset > 0.0 { value(i).abs() + offset } else { value(i) };
            HostArray::from_slice(ty.dims(), &(0..count).map(value).collect::<Vec<f32>>()).unwrap()
        }
        _ if ty.rank() == 0 => HostArray::scalar(5i32),
        _ => {
            HostArray::from_slice(ty.dims(), &(0..count as i32).map(|i| i % 16).collect::<Vec<_>>()).unwrap()
        }
    }
}

fn run(executable: &Executable, offset: impl Fn(usize) -> f32) -> Vec<HostArray> {
    let arguments = executable.arguments().iter().enumerate().map(|(index, argument)| {
        let host = input(index, &argument.ty, offset(index));
        let placed = ShardedArray::from_host(runtime(), executable.mesh(), &argument.sharding, &host);
        Argument::Donate(placed.unwrap())
    });
    let execution = executable.execute(arguments).unwrap();
    execution.outputs.iter().map(|output| output.to_host().unwrap()).collect()
}

#[track_caller]
fn check_close(outputs: &[HostArray], others: &[HostArray]) {
    assert_eq!(outputs.len(), others.len());
    for (index, (output, other)) in outputs.iter().zip(others).enumerate() {
        assert_eq!(output.ty(), other.ty());
        for (a, b) in output.to_f64().into_iter().zip(other.to_f64()) {
            assert!((a - b).abs() <= 1e-5, "output {index} has {a} where {b} is expected");
        }
    }
}

/// Compares with the sums of absolute values that JAX gives, and on eight devices each number with that of one.
#[track_caller]
fn check(name: &str, offset: impl Fn(usize) -> f32, sums: &[f64]) -> Executable {
    let program = program(name);
    let compile = |mesh: &str| {
        let mesh = Mesh::iota(AbstractMesh::parse(mesh).unwrap());
        runtime().compile_hlo(&fsdp(&program, mesh.shape()), &mesh).unwrap()
    };
    let whole = run(&compile("fsdp=1"), &offset);
    let split = compile("fsdp=8");
    let outputs = run(&split, &offset);
    assert_eq!(outputs.len(), sums.len());
    check_close(&outputs, &whole);
    for (whole, sum) in whole.iter().zip(sums) {
        let found: f64 = whole.to_f64().into_iter().map(f64::abs).sum();
        assert!((found - sum).abs() <= 1e-6 * sum, "{found} where JAX has {sum}");
    }
    split
}

#[test]
fn a_train_step_of_jax_is_fsdp_with_its_numbers() {
    let sums = [
        25.172054377762834,
        3.1249295892193913,
        806.297854263692,
        403.18200980384427,
        22.67516521504149,
        2.8055423013865948,
        727.2500593916375,
        363.68140348701127,
        89.07497119903564,
        11.05144065618515,
        2853.066353738308,
        1426.6346089541912,
        1.796875,
        2.7038660049438477,
    ];
    // The second moments of Adam, and its count, are above 0.
    let executable = check("mlp", |index| if (8..13).contains(&index) { 0.5 } else { 0.0 }, &sums);
    let compiled = executable.compiled().unwrap().unwrap();
    assert_ne!(compiled.total(CollectiveKind::AllGather).0, 0, "parameters are gathered");
    let state: usize = executable.outputs()[..13].iter().map(|output| output.ty.byte_count()).sum();
    let stats = executable.memory_stats().unwrap();
    let an_eighth = state as i64 / 8;
    assert!((an_eighth..an_eighth + 64).contains(&stats.alias), "{stats:?} for {state} bytes of state");
}

#[test]
fn attention_over_a_cache_has_jax_s_numbers() {
    check("decode", |_| 0.0, &[3211.1155395507812, 8.19054526090622, 1010.0, 8.19054526090622]);
}

#[test]
fn programs_with_shardings_of_their_own_run_under_either_partitioner() {
    let mesh = runtime().mesh("data=2,fsdp=4").unwrap();
    let one = Mesh::new(AbstractMesh::parse("fsdp=1").unwrap(), vec![3]).unwrap();
    let on = |name: &str, mesh: &Mesh| {
        let sharded = fsdp(&program(name), mesh.shape());
        run(&runtime().compile_hlo(&sharded, mesh).unwrap(), |_| 0.0)
    };
    let results = ["sharded_gspmd", "sharded_shardy"].map(|name| {
        let split = on(name, &mesh);
        // What it states for eight devices means nothing to one.
        check_close(&split, &on(name, &one));
        split
    });
    check_close(&results[0], &results[1]);
    assert_eq!(results[0][1].dims(), [8, 16]);
    assert!(results[0][1].to_f64().iter().all(|&h| h != 0.0 && h.abs() < 1.0), "it is a tanh");
}

#[test]
fn a_constraint_changes_what_the_compiler_makes_under_either_partitioner() {
    let mesh = runtime().mesh("data=2,fsdp=4").unwrap();
    for name in ["sharded_gspmd", "sharded_shardy"] {
        let program = program(name);
        let dot = program.instructions().into_iter().find(|i| i.opcode == "dot").unwrap();
        let free = fsdp(&program, mesh.shape());
        let whole = NamedSharding::replicated(mesh.shape(), dot.ty.rank());
        let (arguments, outputs) = (free.argument_shardings().to_vec(), free.output_shardings().to_vec());
        let pinned = [(dot.id, whole)];
        let pinned = ShardedHlo::new(&program, mesh.shape(), arguments, outputs, &pinned).unwrap();
        let [free, pinned] = [free, pinned].map(|sharded| runtime().compile_hlo(&sharded, &mesh).unwrap());
        let gathered = |executable: &Executable| {
            executable.compiled().unwrap().unwrap().total(CollectiveKind::AllGather)
        };
        assert!(gathered(&pinned) > gathered(&free), "{name}");
        check_close(&run(&pinned, |_| 0.0), &run(&free, |_| 0.0));
    }
}

#[test]
fn what_does_not_fit_is_said_before_anything_is_compiled() {
    let program = program("mlp");
    let mesh = AbstractMesh::parse("fsdp=3").unwrap();
    let whole = |ty: &TensorType| NamedSharding::replicated(&mesh, ty.rank());
    let mut arguments: Vec<_> = program.signature().arguments.iter().map(|a| whole(&a.ty)).collect();
    arguments[13] = NamedSharding::new(&mesh, "(fsdp, -)".parse().unwrap()).unwrap();
    let outputs: Vec<_> = program.signature().outputs.iter().map(|o| whole(&o.ty)).collect();
    let error = ShardedHlo::new(&program, &mesh, arguments, outputs, &[]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "argument x: dim 0 of size 16 does not divide into 3 shards (mesh axis fsdp), and in an HLO proto dims have \
         to; split another dim, or export the program as StableHLO text, where arrays are padded"
    );
    assert!(matches!(error, ShardError::Uneven { dim: 0, .. }));

    let eight = fsdp(&program, &AbstractMesh::parse("fsdp=8").unwrap());
    let error = runtime().compile_hlo(&eight, &runtime().mesh("data=8").unwrap()).err().unwrap();
    assert_eq!(error.kind(), RuntimeErrorKind::Mesh);
    assert_eq!(
        error.to_string(),
        "program jit_step was sharded over the mesh fsdp=8, and is compiled for data=8"
    );
}
