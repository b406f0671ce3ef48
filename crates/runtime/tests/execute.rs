//! Programs on eight virtual devices of the real CPU plugin.

use std::sync::OnceLock;

use shardwright_hlo::compiled::CollectiveKind;
use shardwright_hlo::{ArgumentKind, Binary, DotDims, Module, Op, Precision, SliceBounds, verify};
use shardwright_mesh::{AbstractMesh, Mesh, NamedSharding};
use shardwright_partition::ShardedModule;
use shardwright_runtime::{Argument, Runtime, RuntimeErrorKind, RuntimeOptions, ShardedArray};
use shardwright_tensor::{DType, HostArray, TensorType};

fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| Runtime::open(&RuntimeOptions::cpu_devices(8)).unwrap())
}

fn f32(dims: &[usize]) -> TensorType {
    TensorType::new(DType::F32, dims).unwrap()
}

fn iota(dims: &[usize]) -> HostArray {
    let n: usize = dims.iter().product();
    HostArray::from_slice(dims, &(0..n).map(|i| i as f32).collect::<Vec<_>>()).unwrap()
}

fn sharding(mesh: &Mesh, spec: &str) -> NamedSharding {
    mesh.sharding(spec.parse().unwrap()).unwrap()
}

/// `y = x · w`, with `x` split by rows and `w` by its contracting dim.
fn matmul(mesh: &Mesh) -> ShardedModule {
    let mut m = Module::new("matmul");
    let x = m.add_argument("x", f32(&[16, 24]));
    let w = m.add_argument("w", f32(&[24, 8]));
    let dims = DotDims {
        lhs_batch: vec![],
        rhs_batch: vec![],
        lhs_contracting: vec![1],
        rhs_contracting: vec![0],
        result: DType::F32,
        precision: Precision::Default,
    };
    let y = m.push(Op::DotGeneral(dims), &[x, w]).unwrap()[0];
    m.add_output("y", y);
    let specs = |specs: &[&str]| specs.iter().map(|s| sharding(mesh, s)).collect();
    let (arguments, outputs) = (specs(&["(fsdp, -)", "(fsdp, -)"]), specs(&["(fsdp, -)"]));
    ShardedModule::new(verify(m).unwrap(), mesh.shape(), arguments, outputs).unwrap()
}

#[test]
fn a_matmul_over_eight_devices_equals_that_of_the_host() {
    let runtime = runtime();
    let mesh = runtime.mesh("fsdp=-1").unwrap();
    let module = matmul(&mesh);
    let program = runtime.compile(&module, &mesh).unwrap();
    let gathers = program.compiled().unwrap().unwrap().total(CollectiveKind::AllGather);
    assert_eq!(gathers.0, 1, "the weight is gathered");

    let (x, w) = (iota(&[16, 24]), iota(&[24, 8]));
    let place = |array, index| {
        ShardedArray::from_host(runtime, &mesh, module.argument_sharding(index), array).unwrap()
    };
    let arguments = vec![Argument::Donate(place(&x, 0)), Argument::Donate(place(&w, 1))];
    let y = program.execute(arguments).unwrap().outputs[0].to_host().unwrap();

    let (x, w) = (x.view::<f32>().unwrap(), w.view::<f32>().unwrap());
    let y = y.view::<f32>().unwrap();
    for row in 0..16 {
        for column in 0..8 {
            let expected: f32 = (0..24).map(|k| x[[row, k]] * w[[k, column]]).sum();
            assert!((y[[row, column]] - expected).abs() <= expected.abs() * 1e-6);
        }
    }
}

#[test]
fn uneven_shards_are_padded_and_padding_is_never_seen() {
    let runtime = runtime();
    let mesh = runtime.mesh("fsdp=8").unwrap();
    // 13 rows over 8 devices: six shards of two, one of one, one empty.
    let mut m = Module::new("double");
    let x = m.add_argument_of_kind("x", f32(&[13, 3]), ArgumentKind::Parameter);
    let y = m.push(Op::Binary(Binary::Add), &[x, x]).unwrap()[0];
    m.add_donated_output("x", y, 0);
    let spec = sharding(&mesh, "(fsdp, -)");
    let module =
        ShardedModule::new(verify(m).unwrap(), mesh.shape(), vec![spec.clone()], vec![spec.clone()]).unwrap();
    let program = runtime.compile(&module, &mesh).unwrap();

    let array = iota(&[13, 3]);
    let mut placed = ShardedArray::from_host(runtime, &mesh, &spec, &array).unwrap();
    assert_eq!(placed.bytes_on_devices().unwrap(), [2 * 3 * 4; 8]);
    for _ in 0..3 {
        let execution = program.execute(vec![Argument::Donate(placed)]).unwrap();
        execution.wait().unwrap();
        placed = execution.outputs.into_iter().next().unwrap();
    }
    let rows: Vec<usize> = (0..8).map(|p| placed.shard(p).unwrap().dims()[0]).collect();
    assert_eq!(rows, [2, 2, 2, 2, 2, 2, 1, 0]);
    let expected: Vec<f64> = array.to_f64().iter().map(|v| v * 8.0).collect();
    assert_eq!(placed.to_host().unwrap().to_f64(), expected);
}

#[test]
fn empty_arrays_come_out_and_go_in_again() {
    let runtime = runtime();
    let mesh = runtime.mesh("fsdp=8").unwrap();
    let specs = ["(-, fsdp)", "(fsdp, -)", "(-, -)"];
    for (dims, spec) in [[0, 8], [8, 0]].into_iter().flat_map(|dims| specs.map(|spec| (dims, spec))) {
        let mut m = Module::new("empty");
        let x = m.add_argument("x", f32(&dims));
        let y = m.push(Op::Binary(Binary::Add), &[x, x]).unwrap()[0];
        m.add_output("y", y);
        let spec = sharding(&mesh, spec);
        let same = vec![spec.clone()];
        let module = ShardedModule::new(verify(m).unwrap(), mesh.shape(), same.clone(), same).unwrap();
        let program = runtime.compile(&module, &mesh).unwrap();

        let empty = HostArray::zeros(f32(&dims));
        let mut x = ShardedArray::from_host(runtime, &mesh, &spec, &empty).unwrap();
        for _ in 0..2 {
            let mut execution = program.execute([Argument::Donate(x)]).unwrap();
            execution.wait().unwrap();
            x = execution.outputs.remove(0);
            assert_eq!(x.to_host().unwrap(), empty);
            assert_eq!(x.shard(7).unwrap(), empty.slice(&spec.shard_ranges(7, &dims)).unwrap());
        }
    }
}

#[test]
fn wrong_meshes_and_arguments_are_refused_by_name() {
    let runtime = runtime();
    let error = runtime.mesh("fsdp=16").unwrap_err();
    assert_eq!(error.kind(), RuntimeErrorKind::Mesh);
    assert!(error.to_string().ends_with("(platform cpu)"), "{error}");

    let mesh = runtime.mesh("fsdp=8").unwrap();
    let module = matmul(&mesh);
    let program = runtime.compile(&module, &mesh).unwrap();
    let place = |array: &HostArray, spec| {
        ShardedArray::from_host(runtime, &mesh, &sharding(&mesh, spec), array).unwrap()
    };
    let error = |x: ShardedArray| {
        let arguments = vec![Argument::Borrow(&x), Argument::Donate(place(&iota(&[24, 8]), "(fsdp, -)"))];
        program.execute(arguments).err().unwrap().to_string()
    };
    let x = iota(&[16, 24]);
    assert_eq!(
        error(place(&x.cast(DType::S32), "(fsdp, -)")),
        "program matmul: argument x is f32[16,24] (fsdp, -) on fsdp=8, got s32[16,24] (fsdp, -) on fsdp=8"
    );
    assert!(error(place(&x, "(-, fsdp)")).contains("got f32[16,24] (-, fsdp)"));
    let mirrored = Mesh::new(mesh.shape().clone(), vec![7, 6, 5, 4, 3, 2, 1, 0]).unwrap();
    let elsewhere = ShardedArray::from_host(runtime, &mirrored, &sharding(&mesh, "(fsdp, -)"), &x).unwrap();
    let both = [Argument::Borrow(&elsewhere), Argument::Borrow(&elsewhere)];
    assert_eq!(
        program.execute(both).err().unwrap().to_string(),
        "program matmul: 2 arguments do not fit\n  \
         argument x is f32[16,24] (fsdp, -) on fsdp=8, devices [0, 1, 2, 3, 4, 5, 6, 7], \
         got f32[16,24] (fsdp, -) on fsdp=8, devices [7, 6, 5, 4, 3, 2, 1, 0]\n  \
         argument w is f32[24,8] (fsdp, -) on fsdp=8, devices [0, 1, 2, 3, 4, 5, 6, 7], \
         got f32[16,24] (fsdp, -) on fsdp=8, devices [7, 6, 5, 4, 3, 2, 1, 0]"
    );
    let arguments = [Argument::Donate(place(&x, "(fsdp, -)")), Argument::Donate(place(&x, "(fsdp, -)"))];
    assert_eq!(
        program.check(&arguments).unwrap_err().to_string(),
        "program matmul: argument w is f32[24,8] (fsdp, -) on fsdp=8, got f32[16,24] (fsdp, -) on fsdp=8"
    );
    let [Argument::Donate(kept), _] = arguments else { unreachable!() };
    assert_eq!(kept.to_host().unwrap(), x);
    let none = program.execute([]).err().unwrap();
    assert_eq!(none.to_string(), "program matmul takes 2 arguments, got 0");

    let other = Mesh::new(AbstractMesh::parse("fsdp=2").unwrap(), vec![0, 9]).unwrap();
    let placed = ShardedArray::from_host(runtime, &other, &sharding(&other, "(fsdp, -)"), &x);
    assert_eq!(
        placed.unwrap_err().to_string(),
        "the mesh names device 9, which is not among those of the platform: [0, 1, 2, 3, 4, 5, 6, 7]"
    );
}

/// `y = x`, where what is in between needs more memory than can be addressed.
fn too_large(mesh: &Mesh) -> ShardedModule {
    let mut m = Module::new("too_large");
    let x = m.add_argument("x", f32(&[8]));
    let wide = Op::BroadcastInDim { shape: f32(&[8, 1 << 46]).shape, dims: vec![0] };
    let wide = m.push(wide, &[x]).unwrap()[0];
    let kept = m.push(Op::OptimizationBarrier, &[wide]).unwrap()[0];
    let bounds = SliceBounds { starts: vec![0, 5], limits: vec![8, 6], strides: vec![1, 1] };
    let column = m.push(Op::Slice(bounds), &[kept]).unwrap()[0];
    let y = m.push(Op::Reshape(f32(&[8]).shape), &[column]).unwrap()[0];
    m.add_donated_output("x", y, 0);
    let spec = vec![sharding(mesh, "(fsdp)")];
    ShardedModule::new(verify(m).unwrap(), mesh.shape(), spec.clone(), spec).unwrap()
}

/// `x + 1`
fn add_one(mesh: &Mesh) -> ShardedModule {
    let mut m = Module::new("add_one");
    let x = m.add_argument("x", f32(&[8]));
    let one = m.push(Op::Constant(HostArray::from_slice(&[8], &[1f32; 8]).unwrap()), &[]).unwrap()[0];
    let y = m.push(Op::Binary(Binary::Add), &[x, one]).unwrap()[0];
    m.add_donated_output("x", y, 0);
    let spec = vec![sharding(mesh, "(fsdp)")];
    ShardedModule::new(verify(m).unwrap(), mesh.shape(), spec.clone(), spec).unwrap()
}

#[test]
fn many_steps_are_under_way_at_once() {
    let runtime = runtime();
    let mesh = runtime.mesh("fsdp=8").unwrap();
    let program = runtime.compile(&add_one(&mesh), &mesh).unwrap();
    let zeros = HostArray::zeros(f32(&[8]));
    let mut state = ShardedArray::from_host(runtime, &mesh, &sharding(&mesh, "(fsdp)"), &zeros).unwrap();
    let mut executions = Vec::new();
    for _ in 0..100 {
        let mut execution = program.execute([Argument::Donate(state)]).unwrap();
        state = execution.outputs.remove(0);
        executions.push(execution);
    }
    assert_eq!(state.to_host().unwrap().to_f64(), [100.0; 8]);
    executions.iter().for_each(|execution| execution.wait().unwrap());
}

#[test]
fn a_failed_step_is_named_and_so_is_the_one_that_needed_it() {
    let runtime = runtime();
    let mesh = runtime.mesh("fsdp=8").unwrap();
    let too_large = runtime.compile(&too_large(&mesh), &mesh).unwrap();
    let add_one = runtime.compile(&add_one(&mesh), &mesh).unwrap();
    let zeros = HostArray::zeros(f32(&[8]));
    let x = ShardedArray::from_host(runtime, &mesh, &sharding(&mesh, "(fsdp)"), &zeros).unwrap();

    let before = add_one.execute([Argument::Donate(x)]).unwrap();
    let mut failed = too_large.execute([Argument::Borrow(&before.outputs[0])]).unwrap();
    let next = add_one.execute([Argument::Donate(failed.outputs.remove(0))]).unwrap();

    before.wait().unwrap();
    let error = failed.wait().unwrap_err();
    assert_eq!(error.kind(), RuntimeErrorKind::Program);
    assert_eq!(
        error.to_string(),
        "program too_large failed on device 0: resource exhausted: PJRT_Event_Await: \
         Out of memory allocating 281474976710656 bytes."
    );
    let error = next.wait().unwrap_err().to_string();
    assert!(error.starts_with("program add_one failed on device 0: "), "{error}");
    assert!(error.contains("Out of memory allocating 281474976710656 bytes."), "{error}");
    let error = next.outputs[0].to_host().unwrap_err();
    assert!(error.to_string().contains("Out of memory allocating 281474976710656 bytes."), "{error}");
    assert_eq!(before.outputs[0].to_host().unwrap().to_f64(), [1.0; 8]);
}
