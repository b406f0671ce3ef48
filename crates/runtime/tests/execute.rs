//! Programs on eight virtual devices of the real CPU plugin.

use std::sync::OnceLock;

use shardwright_hlo::compiled::CollectiveKind;
use shardwright_hlo::{ArgumentKind, Binary, DotDims, Module, Op, Precision, verify};
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
    let devices = "devices [0, 1, 2, 3, 4, 5, 6, 7]";
    assert_eq!(
        error(place(&x.cast(DType::S32), "(fsdp, -)")),
        format!(
            "program matmul: argument x is f32[16,24] (fsdp, -) on fsdp=8, {devices}, \
             got s32[16,24] (fsdp, -) on fsdp=8, {devices}"
        )
    );
    assert!(error(place(&x, "(-, fsdp)")).contains("got f32[16,24] (-, fsdp)"));
    let none = program.execute(Vec::new()).err().unwrap();
    assert_eq!(none.to_string(), "program matmul takes 2 arguments, got 0");

    let other = Mesh::new(AbstractMesh::parse("fsdp=2").unwrap(), vec![0, 9]).unwrap();
    let placed = ShardedArray::from_host(runtime, &other, &sharding(&other, "(fsdp, -)"), &x);
    assert_eq!(
        placed.unwrap_err().to_string(),
        "the mesh names device 9, which is not among those that this process drives: [0, 1, 2, 3, 4, 5, 6, 7]"
    );
}
