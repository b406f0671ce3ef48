//! Programs on devices of the real CPU plugin, written by hand.

use std::process::Command;
use std::sync::OnceLock;

use shardwright_pjrt::{
    Arg, Buffer, Client, ClientOptions, CompileOptions, LoadedExecutable, Plugin, ProgramFormat,
};
use shardwright_runtime::plugins::{Environment, PinnedPlugins, PluginRequest, resolve};
use shardwright_tensor::HostArray;

fn new_client(devices: i64) -> Client {
    let environment = Environment::from_process();
    let found = resolve(&PluginRequest::default(), PinnedPlugins::embedded(), &environment, &mut |_| ());
    let plugin = Plugin::load(&found.unwrap().path).unwrap();
    Client::new(&plugin, &ClientOptions::default().with("cpu_device_count", devices)).unwrap()
}

/// One with eight devices, for all tests.
fn client() -> &'static Client {
    static CLIENT: OnceLock<Client> = OnceLock::new();
    CLIENT.get_or_init(|| new_client(8))
}

fn compile(client: &Client, devices: &[i64], program: &str) -> LoadedExecutable {
    let options = CompileOptions {
        num_partitions: devices.len(),
        device_assignment: devices.to_vec(),
        ..CompileOptions::default()
    };
    client.compile(program.as_bytes(), ProgramFormat::Mlir, &options).unwrap()
}

/// A buffer for each device, with a value for each element.
fn place<const N: usize>(client: &Client, devices: &[i64], value: impl Fn(usize) -> [f32; N]) -> Vec<Buffer> {
    let buffer = |(partition, &id)| {
        let host = HostArray::from_slice(&[N], &value(partition)).unwrap();
        client.buffer_from_host(&host, client.device(id).unwrap()).unwrap()
    };
    devices.iter().enumerate().map(buffer).collect()
}

fn read(buffers: &[Buffer]) -> Vec<Vec<f32>> {
    buffers.iter().map(|b| b.to_host().unwrap().as_slice::<f32>().unwrap().to_vec()).collect()
}

const ADD_ONE: &str = "
    func.func @main(%x: tensor<2xf32> {tf.aliasing_output = 0 : i32}) -> tensor<2xf32> {
      %one = stablehlo.constant dense<1.0> : tensor<2xf32>
      %y = stablehlo.add %x, %one : tensor<2xf32>
      return %y : tensor<2xf32>
    }";

/// `y = 2 · x` over four partitions.
const DOUBLE: &str = r#"
    sdy.mesh @mesh = <["a"=4]>
    func.func @main(%x: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"a"}]>})
        -> (tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"a"}]>}) {
      %y = stablehlo.add %x, %x : tensor<8xf32>
      return %y : tensor<8xf32>
    }"#;

/// The sum of `x` over all partitions.
fn sum_over(partitions: usize) -> String {
    format!(
        r#"
    sdy.mesh @mesh = <["a"={partitions}]>
    func.func @main(%x: tensor<{partitions}xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{"a"}}]>}})
        -> (tensor<f32> {{sdy.sharding = #sdy.sharding<@mesh, []>}}) {{
      %zero = stablehlo.constant dense<0.0> : tensor<f32>
      %y = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [0]
          : (tensor<{partitions}xf32>, tensor<f32>) -> tensor<f32>
      return %y : tensor<f32>
    }}"#
    )
}

/// Three permutes, each between two of four partitions, each waiting for the one before.
const PERMUTES: &str = r#"
    sdy.mesh @mesh = <["a"=4]>
    func.func @main(%x: tensor<32xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"a"}]>})
        -> (tensor<32xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"a"}]>}) {
      %y = sdy.manual_computation(%x) in_shardings=[<@mesh, [{"a"}]>] out_shardings=[<@mesh, [{"a"}]>]
          manual_axes={"a"} (%p: tensor<8xf32>) {
        %a = "stablehlo.collective_permute"(%p) {
          source_target_pairs = dense<[[0, 1]]> : tensor<1x2xi64>,
          channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>
        } : (tensor<8xf32>) -> tensor<8xf32>
        %ap = stablehlo.add %a, %p : tensor<8xf32>
        %b = "stablehlo.collective_permute"(%ap) {
          source_target_pairs = dense<[[2, 3]]> : tensor<1x2xi64>,
          channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>
        } : (tensor<8xf32>) -> tensor<8xf32>
        %ab = stablehlo.add %a, %b : tensor<8xf32>
        %c = "stablehlo.collective_permute"(%ab) {
          source_target_pairs = dense<[[1, 2]]> : tensor<1x2xi64>,
          channel_handle = #stablehlo.channel_handle<handle = 3, type = 1>
        } : (tensor<8xf32>) -> tensor<8xf32>
        %abc = stablehlo.add %ab, %c : tensor<8xf32>
        sdy.return %abc : tensor<8xf32>
      } : (tensor<32xf32>) -> tensor<32xf32>
      return %y : tensor<32xf32>
    }"#;

/// `y = x`, by way of a product that needs more memory on each device than can be addressed.
const TOO_LARGE: &str = r#"
    sdy.mesh @mesh = <["a"=8]>
    func.func @main(%x: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"a"}]>})
        -> (tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"a"}]>}) {
      %i = stablehlo.iota dim = 1 : tensor<8x70368744177664xf32>
      %wide = stablehlo.broadcast_in_dim %x, dims = [0] : (tensor<8xf32>) -> tensor<8x70368744177664xf32>
      %product = stablehlo.multiply %i, %wide : tensor<8x70368744177664xf32>
      %sorted = "stablehlo.sort"(%product) ({
        ^bb0(%a: tensor<f32>, %b: tensor<f32>):
          %less = stablehlo.compare LT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
          stablehlo.return %less : tensor<i1>
      }) {dimension = 1 : i64, is_stable = true}
          : (tensor<8x70368744177664xf32>) -> tensor<8x70368744177664xf32>
      %one = stablehlo.slice %sorted [0:8, 1:2] : (tensor<8x70368744177664xf32>) -> tensor<8x1xf32>
      %y = stablehlo.reshape %one : (tensor<8x1xf32>) -> tensor<8xf32>
      return %y : tensor<8xf32>
    }"#;

const ALL: [i64; 8] = [0, 1, 2, 3, 4, 5, 6, 7];

#[test]
fn a_program_runs_on_the_devices_that_it_is_assigned() {
    let client = client();
    let on_five = compile(client, &[5], ADD_ONE);
    let output = on_five.execute([Arg::Donate(place(client, &[5], |_| [1., 2.]))]).unwrap().outputs;
    assert_eq!(output[0][0].device().id(), 5);
    assert_eq!(read(&output[0]), [[2., 3.]]);

    let devices = [2, 3, 6, 7];
    let on_four = compile(client, &devices, DOUBLE);
    let x = place(client, &devices, |p| [2. * p as f32, 2. * p as f32 + 1.]);
    let output = on_four.execute([Arg::Donate(x)]).unwrap().outputs;
    assert!(output[0].iter().map(|b| b.device().id()).eq(devices));
    assert_eq!(read(&output[0]), [[0., 2.], [4., 6.], [8., 10.], [12., 14.]]);
}

#[test]
fn arguments_that_do_not_fit_are_refused() {
    let client = client();
    let program = compile(client, &[2, 3, 6, 7], DOUBLE);
    let check = |arguments: Vec<Vec<Buffer>>, expected: &str| {
        let arguments = arguments.iter().map(|buffers| Arg::Borrow(buffers));
        let error = program.execute(arguments).err().unwrap();
        assert_eq!(error.to_string(), format!("refused: execute: {expected}"));
    };
    let x = || place(client, &[2, 3, 6, 7], |_| [0.; 2]);
    check(vec![x(), x()], "the program takes 1 arguments, 2 were given");
    check(vec![place(client, &[2, 3], |_| [0.; 4])], "argument 0: 4 devices need a buffer each, got 2");
    check(
        vec![place(client, &[2, 3, 4, 5], |_| [0.; 2])],
        "argument 0: a buffer on CpuDevice(id=6) is needed, got one on CpuDevice(id=4)",
    );
    check(
        vec![place(client, &[2, 3, 6, 7], |_| [0.; 3])],
        "argument 0: f32[2] is needed, got f32[3] on CpuDevice(id=2)",
    );
    let other = new_client(8);
    check(
        vec![place(&other, &[2, 3, 6, 7], |_| [0.; 2])],
        "argument 0: its buffers belong to another client",
    );
}

#[test]
fn a_borrowed_argument_keeps_its_contents_and_a_donated_one_gives_its_memory() {
    let client = client();
    let program = compile(client, &[0], ADD_ONE);
    let x = place(client, &[0], |_| [1., 2.]);
    for _ in 0..2 {
        let output = program.execute([Arg::Borrow(&x)]).unwrap().outputs;
        assert_eq!(read(&output[0]), [[2., 3.]]);
        assert_eq!(read(&x), [[1., 2.]]);
    }
    let mut state = x;
    for _ in 0..100 {
        state = program.execute([Arg::Donate(state)]).unwrap().outputs.remove(0);
    }
    assert_eq!(read(&state), [[101., 102.]]);
}

#[test]
fn one_array_can_be_two_arguments_unless_it_is_given_up() {
    let client = client();
    let program = compile(
        client,
        &[0],
        "func.func @main(%x: tensor<2xf32> {tf.aliasing_output = 0 : i32}, %y: tensor<2xf32>) -> tensor<2xf32> {
           %sum = stablehlo.add %x, %y : tensor<2xf32>
           return %sum : tensor<2xf32>
         }",
    );
    let (b, c) = (place(client, &[0], |_| [1., 2.]), place(client, &[0], |_| [10., 20.]));
    let twice = program.execute([Arg::Borrow(&b), Arg::Borrow(&b)]).unwrap().outputs;
    assert_eq!(read(&twice[0]), [[2., 4.]]);
    // `b` cannot be named after this; see `Arg` for what the compiler says.
    let sum = program.execute([Arg::Donate(b), Arg::Borrow(&c)]).unwrap().outputs;
    assert_eq!((read(&sum[0]), read(&c)), (vec![vec![11., 22.]], vec![vec![10., 20.]]));
}

#[test]
fn threads_share_an_executable() {
    let client = client();
    let program = compile(client, &ALL, &sum_over(8));
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let program = &program;
            scope.spawn(move || {
                for round in 0..25 {
                    let first = (thread * 100 + round) as f32;
                    let x = place(client, &ALL, |partition| [first + partition as f32]);
                    let output = program.execute([Arg::Donate(x)]).unwrap().outputs;
                    assert_eq!(read(&output[0]), vec![[8. * first + 28.]; 8]);
                }
            });
        }
    });
}

#[test]
fn chained_permutes_between_some_devices_end() {
    let client = client();
    let devices = [0, 1, 2, 3];
    let program = compile(client, &devices, PERMUTES);
    for _ in 0..100 {
        let x = place(client, &devices, |partition| [partition as f32 + 1.; 8]);
        let output = program.execute([Arg::Donate(x)]).unwrap().outputs;
        assert_eq!(read(&output[0]), [[0.; 8], [1.; 8], [1.; 8], [3.; 8]]);
    }
}

#[test]
fn a_step_that_fails_says_so_and_so_do_those_that_need_it() {
    const REASON: &str = "Out of memory allocating 281474976710656 bytes.";
    let client = client();
    let too_large = compile(client, &ALL, TOO_LARGE);
    let sum = compile(client, &ALL, &sum_over(8));
    let x = place(client, &ALL, |_| [1.]);

    let mut failed = too_large.execute([Arg::Borrow(&x)]).unwrap();
    let y = failed.outputs.remove(0);
    let next = sum.execute([Arg::Donate(y)]).unwrap();
    let error = failed.wait().unwrap_err();
    assert!(error.code().is_some() && error.message().contains(REASON), "{error}");
    let error = next.wait().unwrap_err();
    assert!(error.message().contains(REASON), "{error}");
    let error = next.outputs[0][7].to_host().unwrap_err();
    assert!(error.code().is_some() && error.message().contains(REASON), "{error}");

    // What does not need the failed step is not touched by it.
    let output = sum.execute([Arg::Donate(x)]).unwrap().outputs;
    assert_eq!(read(&output[0]), [[8.]; 8]);
}

/// Run by the test below, in a process that has one core.
#[test]
fn sixteen_devices_sum() {
    let client = new_client(16);
    let devices: Vec<i64> = (0..16).collect();
    let program = compile(&client, &devices, &sum_over(16));
    let executions: Vec<_> = (0..20)
        .map(|round| {
            let x = place(&client, &devices, |partition| [(round + partition) as f32]);
            program.execute([Arg::Donate(x)]).unwrap()
        })
        .collect();
    for (round, execution) in executions.iter().enumerate() {
        assert_eq!(read(&execution.outputs[0]), vec![[(16 * round + 120) as f32]; 16]);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn one_core_is_enough_for_sixteen_devices() {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap();
    let core = allowed.trim().split(['-', ',']).next().unwrap();
    let test = std::env::current_exe().unwrap();
    let output = Command::new("taskset")
        .args(["-c", core])
        .arg(test)
        .args(["--exact", "sixteen_devices_sum", "--test-threads=1"])
        .output()
        .expect("util-linux is installed");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{text}\n{output:?}");
}
