//! The pinned plugins, each put through what this crate asks of a plugin.
//!
//! A plugin that cannot be had is a failure. On a platform that a pin is not for, its lane says so and does nothing.

mod plugins;

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use shardwright_pjrt::{
    Arg, Client, ClientOptions, CompileOptions, DeviceDescription, ErrorKind, Extension, MemoryStore,
    ProgramFormat, StatusCode, Topology,
};
use shardwright_tensor::HostArray;

use self::plugins::plugin;

/// Adds two arrays into the place of the first.
const ADD: &[u8] = b"
    module @add {
      func.func @main(%a: tensor<2x3xf32> {tf.aliasing_output = 0 : i32}, %b: tensor<2x3xf32>) -> tensor<2x3xf32> {
        %sum = stablehlo.add %a, %b : tensor<2x3xf32>
        return %sum : tensor<2x3xf32>
      }
    }";

/// Multiplies matrices that are split over four devices.
const MATMUL: &[u8] = b"
    module @matmul {
      sdy.mesh @mesh = <[\"x\"=4]>
      func.func @main(
        %a: tensor<64x128xf32> {sdy.sharding = #sdy.sharding<@mesh, [{\"x\"}, {}]>},
        %b: tensor<128x256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}
      ) -> (tensor<64x256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{\"x\"}, {}]>}) {
        %c = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0]
          : (tensor<64x128xf32>, tensor<128x256xf32>) -> tensor<64x256xf32>
        return %c : tensor<64x256xf32>
      }
    }";

fn cpu(name: &str, api_version: (i32, i32), shardings: bool) {
    let Some(plugin) = plugin(name) else { return };
    assert_eq!(plugin.api_version(), api_version);
    assert_eq!(plugin.missing_functions(), [""; 0]);
    assert_eq!(plugin.require_extension(Extension::SHARDINGS).is_ok(), shardings);
    assert_eq!(
        plugin.require_extension(Extension::PROFILER).map_err(|error| error.kind()),
        Err(ErrorKind::MissingExtension)
    );
    let client = Client::new(&plugin, &ClientOptions::default().with("cpu_device_count", 4)).unwrap();
    assert_eq!((client.platform_name(), client.process_index()), ("cpu", 0));
    let ids: Vec<i64> = client.addressable_devices().map(|device| device.id()).collect();
    assert_eq!(ids, [0, 1, 2, 3]);
    for device in client.devices() {
        assert!(device.memories().iter().any(|memory| memory == device.default_memory().unwrap()));
        assert!(device.memory_stats().unwrap_err().is_unimplemented());
    }
    // These plugins have no use for a store, and take one.
    Client::with_store(&plugin, &ClientOptions::default(), Arc::new(MemoryStore::default())).unwrap();
    let topology = Topology::of_client(&client).unwrap();
    assert_eq!(topology.devices().len(), 4);
    let bytes = topology.serialize().unwrap();
    match (plugin.api_version(), Topology::deserialize(&plugin, &bytes)) {
        ((0, 115), again) => assert_eq!(again.unwrap().devices(), topology.devices()),
        (_, again) => assert_eq!(again.unwrap_err().code(), Some(StatusCode::NotFound)),
    }
    for damaged in [&bytes[..bytes.len() / 2], b"damaged", b""] {
        assert!(Topology::deserialize(&plugin, damaged).unwrap_err().code().is_some());
    }
    facts(&client);
    donation(&client);
    partitions(&client);
    refusals(&client);
}

fn facts(client: &Client) {
    let compile = || client.compile(ADD, ProgramFormat::Mlir, &CompileOptions::default()).unwrap();
    let loaded = compile();
    let executable = loaded.executable();
    assert_eq!(executable.name().as_deref(), Ok("add"));
    assert_eq!((executable.num_partitions(), executable.num_replicas()), (Ok(1), Ok(1)));
    assert_eq!(texts(loaded.parameter_types()), ["f32[2,3]", "f32[2,3]"]);
    assert_eq!(texts(loaded.output_types()), ["f32[2,3]"]);
    let stats = executable.memory_stats().unwrap();
    assert_eq!((stats.argument, stats.output, stats.alias), (48, 24, 24));
    match client.plugin().api_version() {
        (0, 81) => assert!(executable.cost_analysis().unwrap().iter().any(|(name, _)| name == "flops")),
        _ => assert!(executable.cost_analysis().unwrap_err().is_unimplemented()),
    }
    assert_eq!(loaded.device_assignment(), Ok(vec![0]));
    let copy = client.load(&executable.serialize().unwrap()).unwrap();
    assert_eq!(copy.parameter_types(), loaded.parameter_types());
    assert_eq!(executable.fingerprint(), compile().executable().fingerprint());
    assert!(!executable.optimized_program().unwrap().code.is_empty());
}

fn texts<T: ToString>(values: &[T]) -> Vec<String> {
    values.iter().map(ToString::to_string).collect()
}

fn donation(client: &Client) {
    let executable = client.compile(ADD, ProgramFormat::Mlir, &CompileOptions::default()).unwrap();
    let put = |values: [f32; 6]| {
        let array = HostArray::from_slice(&[2, 3], &values).unwrap();
        vec![client.buffer_from_host(&array, executable.addressable_devices().next().unwrap()).unwrap()]
    };
    let b = put([1.; 6]);
    let mut sum = put([0., 1., 2., 3., 4., 5.]);
    for _ in 0..3 {
        let mut execution = executable.execute(vec![Arg::Donate(sum), Arg::Borrow(&b)]).unwrap();
        sum = execution.outputs.remove(0);
        execution.wait().unwrap();
    }
    assert_eq!(sum[0].to_host().unwrap().as_slice::<f32>().unwrap(), [3., 4., 5., 6., 7., 8.]);
    assert_eq!(sum[0].on_device_size_in_bytes(), Ok(24));
    // The program could have taken what was only borrowed.
    let doubled = executable.execute(vec![Arg::Borrow(&b), Arg::Borrow(&b)]).unwrap();
    assert_eq!(doubled.outputs[0][0].to_host().unwrap().as_slice::<f32>().unwrap(), [2.; 6]);
    assert_eq!(b[0].to_host().unwrap().as_slice::<f32>().unwrap(), [1.; 6]);
}

fn partitions(client: &Client) {
    let options = CompileOptions { num_partitions: 4, ..CompileOptions::default() };
    let executable = client.compile(MATMUL, ProgramFormat::Mlir, &options).unwrap();
    let put = |rows: usize, cols: usize, value: &dyn Fn(usize) -> f32| {
        let shard = |(index, device)| {
            let array = HostArray::from_slice(&[rows, cols], &vec![value(index); rows * cols]).unwrap();
            client.buffer_from_host(&array, device).unwrap()
        };
        executable.addressable_devices().enumerate().map(shard).collect()
    };
    let args = vec![Arg::Donate(put(16, 128, &|index| index as f32)), Arg::Donate(put(128, 256, &|_| 1.))];
    let execution = executable.execute(args).unwrap();
    for (index, shard) in execution.outputs[0].iter().enumerate() {
        let expected = vec![128. * index as f32; 16 * 256];
        assert_eq!(shard.to_host().unwrap().as_slice::<f32>().unwrap(), expected);
    }
}

fn refusals(client: &Client) {
    let compile = |code: &[u8]| client.compile(code, ProgramFormat::Mlir, &CompileOptions::default());
    for code in [b"".as_slice(), b"no program", b"module { func.func @main() { stablehlo.none } }"] {
        let error = compile(code).unwrap_err();
        assert!(error.code().is_some(), "{error}");
    }
    let options = ClientOptions::default().with("no_such_option", 1);
    if let Err(error) = Client::new(client.plugin(), &options) {
        assert_eq!(error.code(), Some(StatusCode::InvalidArgument));
        assert!(error.message().contains("no_such_option"), "{error}");
    }
}

#[test]
fn cpu_0_115() {
    cpu("cpu", (0, 115), true);
}

#[test]
fn cpu_0_106() {
    cpu("cpu-0.106", (0, 106), true);
}

#[test]
fn cpu_0_81() {
    cpu("cpu-0.81", (0, 81), false);
}

/// Set, with what libtpu has to find in the environment, in the process in which it is loaded.
const IN_CHILD: &str = "SHARDWRIGHT_SMOKE_CHILD";

#[test]
fn libtpu_without_a_tpu() {
    if std::env::var_os(IN_CHILD).is_some() {
        return libtpu();
    }
    // Without these it asks the network what machine this is, and does not share the machine with other processes.
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["libtpu_without_a_tpu", "--exact", "--nocapture"])
        .envs([(IN_CHILD, "1"), ("TPU_SKIP_MDS_QUERY", "1"), ("ALLOW_MULTIPLE_LIBTPU_LOAD", "1")])
        .output()
        .unwrap();
    let words =
        [child.stdout, child.stderr].map(|words| String::from_utf8_lossy(&words).into_owned()).concat();
    assert!(child.status.success(), "{}\n{words}", child.status);
}

fn libtpu() {
    let Some(plugin) = plugin("libtpu") else { return };
    assert_eq!(plugin.api_version(), (0, 117));
    assert_eq!(plugin.missing_functions(), [""; 0]);
    plugin.require_extension(Extension::SHARDINGS).unwrap();
    plugin.require_extension(Extension::TPU_TOPOLOGY).unwrap();
    let attributes = plugin.attributes().unwrap();
    assert!(attributes.iter().any(|(name, _)| name == "stablehlo_current_version"), "{attributes:?}");

    let topology = Topology::new(&plugin, "v5e:2x2", &ClientOptions::default()).unwrap();
    let ids: Vec<i64> = topology.devices().iter().map(DeviceDescription::id).collect();
    assert_eq!(ids, [0, 1, 2, 3]);
    assert!(
        topology.devices().iter().all(|device| device.kind() == "TPU v5 lite"),
        "{:?}",
        topology.devices()
    );
    assert!(topology.devices()[0].attributes().iter().any(|(name, _)| name == "coords"));

    let options = CompileOptions { num_partitions: 4, ..CompileOptions::default() };
    let executable = topology.compile(MATMUL, ProgramFormat::Mlir, &options).unwrap();
    assert_eq!(executable.num_partitions(), Ok(4));
    assert!(executable.memory_stats().unwrap().peak_memory > 0);
    let costs = executable.cost_analysis().unwrap();
    assert!(costs.iter().any(|(name, _)| name == "flops"), "{costs:?}");
    executable.serialize().unwrap();

    let error = Topology::new(&plugin, "v5e:no", &ClientOptions::default()).unwrap_err();
    assert!(error.code().is_some(), "{error}");
    let has_tpu = ["/dev/accel0", "/dev/vfio/0"].iter().any(|device| Path::new(device).exists());
    match Client::new(&plugin, &ClientOptions::default()) {
        Ok(client) => assert!(has_tpu, "{client:?}"),
        Err(error) => assert!(has_tpu || error.code() == Some(StatusCode::NotFound), "{error}"),
    }
}
