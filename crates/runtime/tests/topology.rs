//! Programs compiled by the TPU compiler for slices that are not there.
//!
//! Each test runs in a process of its own, started with the variables that the TPU plugin needs.

use std::env;
use std::fmt::Write;
use std::process::Command;

use shardwright_hlo::compiled::CollectiveKind;
use shardwright_mesh::{AbstractMesh, HostView, Mesh, NamedSharding, PartitionSpec, PhysicalAxis, Placement};
use shardwright_pjrt::{CompileOptions, ProgramFormat};
use shardwright_runtime::topology::{Topology, TopologyOptions, VARIABLES};
use shardwright_runtime::{Runtime, RuntimeError, RuntimeErrorKind, RuntimeOptions};

/// Runs `body` in a child of this process that runs nothing but the test of this name.
fn in_a_child(test: &str, body: fn()) {
    if VARIABLES.iter().all(|(name, value)| env::var(name).is_ok_and(|set| set == *value)) {
        return body();
    }
    let mut child = Command::new(env::current_exe().unwrap());
    let output = child.args(["--exact", test, "--nocapture"]).envs(VARIABLES).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}

fn open(name: &str) -> Topology {
    Topology::open(name, &TopologyOptions::default()).unwrap()
}

/// A weight of 32 MiB, gathered, used, and its gradient scattered, in bf16.
const WEIGHT: [usize; 2] = [2048, 8192];
const WEIGHT_BYTES: u64 = 2048 * 8192 * 2;

/// The groups of partitions that differ along one axis only.
fn groups(mesh: &AbstractMesh, axis: usize) -> Vec<Vec<usize>> {
    let size = mesh.axes()[axis].1;
    let stride: usize = mesh.axes()[axis + 1..].iter().map(|(_, size)| size).product();
    let starts = (0..mesh.size()).filter(|partition| (partition / stride).is_multiple_of(size));
    starts.map(|start| (0..size).map(|index| start + index * stride).collect()).collect()
}

/// `y = x · w`, `dw = xᵀ · y` in a region where `w`, split over all axes of the mesh on dim 0, is gathered over one axis
/// after the other, and `dw` scattered.
fn gather_and_scatter(mesh: &AbstractMesh, spec: &PartitionSpec) -> String {
    let sharding = NamedSharding::new(mesh, spec.clone()).unwrap().sdy_text();
    let axes = mesh.axis_names().map(|name| format!("\"{name}\"")).collect::<Vec<_>>().join(", ");
    let ([rows, columns], batch) = (WEIGHT, 8 * mesh.size());
    let shard = rows / mesh.size();
    let ty = |rows: usize| format!("tensor<{rows}x{columns}xbf16>");
    let (x, x_local) = (format!("tensor<{batch}x{rows}xbf16>"), format!("tensor<8x{rows}xbf16>"));
    let attributes = |axis: usize| {
        let groups = groups(mesh, axis);
        let shape = format!("tensor<{}x{}xi64>", groups.len(), groups[0].len());
        format!(
            "replica_groups = dense<{groups:?}> : {shape}, use_global_device_ids, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>"
        )
    };

    let (mut body, mut held) = (String::new(), shard);
    let mut value = "%w".to_owned();
    // The minor axis first: its blocks are neighbours.
    for axis in (0..mesh.axes().len()).rev() {
        let gathered = held * mesh.axes()[axis].1;
        writeln!(
            body,
            "%w{axis} = \"stablehlo.all_gather\"({value}) <{{all_gather_dim = 0 : i64, {}}}> : ({}) -> {}",
            attributes(axis),
            ty(held),
            ty(gathered)
        )
        .unwrap();
        (value, held) = (format!("%w{axis}"), gathered);
    }
    write!(
        body,
        "%y = stablehlo.dot_general %x, {value}, contracting_dims = [1] x [0] : ({x_local}, {weight}) -> {y}
         %dw = stablehlo.dot_general %x, %y, contracting_dims = [0] x [0] : ({x_local}, {y}) -> {weight}\n",
        weight = ty(rows),
        y = ty(8)
    )
    .unwrap();
    value = "%dw".to_owned();
    for axis in 0..mesh.axes().len() {
        let scattered = held / mesh.axes()[axis].1;
        writeln!(
            body,
            "%dw{axis} = \"stablehlo.reduce_scatter\"({value}) <{{scatter_dimension = 0 : i64, {}}}> ({{
               ^bb0(%a: tensor<bf16>, %b: tensor<bf16>):
                 %sum = stablehlo.add %a, %b : tensor<bf16>
                 stablehlo.return %sum : tensor<bf16>
             }}) : ({}) -> {}",
            attributes(axis),
            ty(held),
            ty(scattered)
        )
        .unwrap();
        (value, held) = (format!("%dw{axis}"), scattered);
    }
    format!(
        "module @step {{
           sdy.mesh @mesh = {mesh}
           func.func public @main(%weight: {weight} {{sdy.sharding = #sdy.sharding{sharding}}}, %batch: {x} {{sdy.sharding = #sdy.sharding{sharding}}})
               -> ({weight} {{sdy.sharding = #sdy.sharding{sharding}}}) {{
             %gradient = sdy.manual_computation(%weight, %batch) in_shardings=[{sharding}, {sharding}]
                 out_shardings=[{sharding}] manual_axes={{{axes}}} (%w: {local}, %x: {x_local}) {{
               {body}
               sdy.return {value} : {local}
             }} : ({weight}, {x}) -> {weight}
             return %gradient : {weight}
           }}
         }}",
        mesh = mesh.sdy_text(), weight = ty(rows), local = ty(shard)
    )
}

/// Compiles the exchange over the flat axis, in which as many all-gathers are left, and over one torus axis after the
/// other.
fn check_exchange(name: &str, wrap: Option<[bool; 3]>, flat_gathers: usize) {
    let topology = Topology::open(name, &TopologyOptions { wrap, ..TopologyOptions::default() }).unwrap();
    let placement = topology.place("fsdp=-1").unwrap();
    let spec: PartitionSpec = "(fsdp, -)".parse().unwrap();
    let compile = |mesh: &Mesh, spec: &PartitionSpec| {
        let program = topology.compile_text(&gather_and_scatter(mesh.shape(), spec), mesh).unwrap();
        assert!(program.bytes_per_device().unwrap() > WEIGHT_BYTES, "the whole weight is there at some time");
        program.compiled().unwrap()
    };

    let flat = compile(placement.mesh(), &spec);
    assert_eq!(flat.total(CollectiveKind::AllGather).0, flat_gathers, "{name}");
    assert_eq!(flat.total(CollectiveKind::ReduceScatter).0, 0, "{name}");
    assert!(flat.total(CollectiveKind::AllReduce).1 >= WEIGHT_BYTES, "{name}: the gradient is summed whole");

    let by_axis = compile(placement.physical_mesh(), &placement.physical_spec(&spec).unwrap());
    let n_axes = placement.sub_axes("fsdp").len();
    assert_eq!(by_axis.total(CollectiveKind::AllGather).0, n_axes, "{name}");
    assert_eq!(by_axis.total(CollectiveKind::ReduceScatter).0, n_axes, "{name}");
    assert_eq!(by_axis.total(CollectiveKind::AllReduce), (0, 0), "{name}");
}

#[test]
fn gradients_are_scattered_only_over_torus_axes() {
    in_a_child("gradients_are_scattered_only_over_torus_axes", || {
        check_exchange("v5e:4x4", None, 1);
        check_exchange("v5p:4x4x4", None, 1);
    });
}

#[test]
fn weights_are_gathered_over_three_open_dims_only_one_by_one() {
    in_a_child("weights_are_gathered_over_three_open_dims_only_one_by_one", || {
        check_exchange("v5p:4x4x4", Some([false; 3]), 0);
    });
}

#[test]
fn slices_are_described() {
    in_a_child("slices_are_described", || {
        let described = |name: &str, options: &TopologyOptions| {
            let topology = Topology::open(name, options).unwrap();
            let gib = topology.memory_per_device().unwrap() as f64 / (1u64 << 30) as f64;
            format!("{}: {}, {gib:.1} GiB", topology.name(), topology.physical())
        };
        let plain = TopologyOptions::default();
        let hosts_of_one = TopologyOptions { chips_per_host: Some([1, 1, 1]), ..plain.clone() };
        let two_slices = TopologyOptions { num_slices: Some(2), ..plain.clone() };
        assert_eq!(described("TPU v5 lite_4x4", &plain), "v5e:4x4: 16 devices: 4x4 chips, 4 hosts, 15.7 GiB");
        assert_eq!(described("v5e:1x1", &hosts_of_one), "v5e:1x1: 1 device: 1x1 chips, 1 host, 15.7 GiB");
        assert_eq!(described("v4:2x2x2", &plain), "v4:2x2x2: 8 devices: 2x2x2 chips, 2 hosts, 30.7 GiB");
        assert_eq!(
            described("tpu7x:2x2x1", &plain),
            "tpu7x:2x2x1: 8 devices: 2x2 chips of 2 cores, 1 host, 94.7 GiB"
        );
        assert_eq!(
            described("v5e:2x2", &two_slices),
            "v5e:2x2: 8 devices: 2 slices of 2x2 chips, 2 hosts, 15.7 GiB"
        );
        assert!(open("v5p:4x4x4").physical().wraps(PhysicalAxis::Z));

        let topology = Topology::open("v5e:2x2", &two_slices).unwrap();
        let serialized = topology.described().serialize();
        assert!(serialized.unwrap_err().is_unimplemented());
        assert_eq!(open("v5e:2x2").described().serialize(), open("v5e=2x2").described().serialize());
    });
}

#[test]
fn meshes_of_several_slices_have_hosts() {
    in_a_child("meshes_of_several_slices_have_hosts", || {
        let options = TopologyOptions { num_slices: Some(2), ..TopologyOptions::default() };
        let topology = Topology::open("v5e:4x4", &options).unwrap();
        let ici = AbstractMesh::parse("data=1,fsdp=16").unwrap();
        let placement = Placement::hybrid(&ici, &[2, 1], topology.physical()).unwrap();
        assert_eq!(placement.to_string(), "data=2 (data.dcn=2), fsdp=16 (fsdp.x=4, fsdp.y=4)");
        let host = HostView::new(placement.mesh(), topology.physical(), 4).unwrap();
        assert_eq!((host.global_device_count(), host.addressable_device_count()), (32, 4));
        let batch = placement.mesh().sharding("((data,fsdp), -)".parse().unwrap()).unwrap();
        // The first host of the second slice has the first two chips along x and y.
        let rows = host.batch_rows(&batch, 4).unwrap();
        assert_eq!((rows.global, rows.ranges), (32, vec![16..18, 20..22]));
    });
}

#[test]
fn what_cannot_be_compiled_for_says_why() {
    in_a_child("what_cannot_be_compiled_for_says_why", || {
        let refusal = |name: &str, options: &TopologyOptions| Topology::open(name, options).unwrap_err();
        let plain = TopologyOptions::default();
        // The plugin's own words.
        let odd = refusal("v5e:3x3", &plain);
        assert_eq!(odd.kind(), RuntimeErrorKind::Plugin);
        assert!(odd.to_string().contains("not divisible"), "{odd}");
        let many = refusal("v5e:2x2", &TopologyOptions { num_slices: Some(usize::MAX), ..plain.clone() });
        assert!(many.to_string().contains("expected 1 to"), "{many}");
        let config = refusal("v5e:2x2", &TopologyOptions { chip_config: Some("odd".into()), ..plain });
        assert_eq!(config.kind(), RuntimeErrorKind::Plugin, "{config}");

        let topology = open("v5e:2x2");
        let mesh = topology.place("fsdp=3").unwrap_err();
        assert_eq!(
            mesh.to_string(),
            "devices present: 4, but mesh fsdp=3 takes 3; a size of -1 lets one axis take what is there \
             (platform v5e:2x2)"
        );
        check_shortage(&topology);
        let mesh = topology.place("fsdp=4").unwrap();
        let error = topology.compile_text("module {", mesh.mesh()).unwrap_err();
        assert_eq!(error.kind(), RuntimeErrorKind::Plugin, "{error}");
        let elsewhere = Mesh::new(AbstractMesh::parse("fsdp=2").unwrap(), vec![0, 77]).unwrap();
        let error = topology.compile_text(&double("8"), &elsewhere).unwrap_err();
        assert_eq!(error.to_string(), "refused: compile: device 77 is assigned and does not exist");
    });
}

fn double(dims: &str) -> String {
    format!(
        "module @double {{
           func.func public @main(%x: tensor<{dims}xf32>) -> tensor<{dims}xf32> {{
             %y = stablehlo.add %x, %x : tensor<{dims}xf32>
             return %y : tensor<{dims}xf32>
           }}
         }}"
    )
}

fn check_shortage(topology: &Topology) {
    let mesh = topology.place("fsdp=4").unwrap();
    let error: RuntimeError = topology.compile_text(&double("4096x1048576"), mesh.mesh()).unwrap_err();
    assert_eq!(error.kind(), RuntimeErrorKind::OutOfMemory, "{error}");
    let shortage = error.out_of_memory().unwrap();
    assert_eq!(shortage.program, "double");
    // The array comes and goes, 16 GiB each time.
    assert_eq!(shortage.needed >> 30, 32, "{error}");
    assert_eq!(shortage.available >> 30, 15, "{error}");
}

#[test]
fn devices_that_are_there_have_a_topology_too() {
    let runtime = Runtime::open(&RuntimeOptions::cpu_devices(8)).unwrap();
    let physical = runtime.physical_topology().unwrap();
    assert_eq!(physical.to_string(), "8 devices: 8 without coordinates, 1 host");
    let placement = Placement::new(&AbstractMesh::parse("data=2,fsdp=4").unwrap(), &physical).unwrap();
    assert_eq!(*placement.mesh(), runtime.mesh("data=2,fsdp=4").unwrap());

    let topology = shardwright_pjrt::Topology::of_client(runtime.client()).unwrap();
    drop(runtime);
    assert_eq!((topology.platform_name(), topology.devices().len()), ("cpu", 8));
    let options = CompileOptions { num_partitions: 8, ..CompileOptions::default() };
    let program = topology.compile(double("8").as_bytes(), ProgramFormat::Mlir, &options).unwrap();
    assert_eq!(program.num_partitions().unwrap(), 8);
    let serialized = topology.serialize().unwrap();
    assert!(!serialized.is_empty());
    assert_eq!(topology.serialize().unwrap(), serialized);
}

#[test]
fn names_and_environment_are_looked_at_before_the_plugin() {
    let name = Topology::open("v5e-8", &TopologyOptions::default()).unwrap_err();
    assert_eq!(name.kind(), RuntimeErrorKind::Topology);
    let test = "names_and_environment_are_looked_at_before_the_plugin";
    if env::var_os(VARIABLES[0].0).is_none() {
        let error = Topology::open("v5e:2x2", &TopologyOptions::default()).unwrap_err();
        assert_eq!(error.kind(), RuntimeErrorKind::Environment);
        assert!(error.to_string().contains("TPU_SKIP_MDS_QUERY=1"), "{error}");
        return;
    }
    let mut child = Command::new(env::current_exe().unwrap());
    for (name, _) in VARIABLES {
        child.env_remove(name);
    }
    assert!(child.args(["--exact", test]).status().unwrap().success());
}
