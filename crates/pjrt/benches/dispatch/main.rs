//! What it costs to start a program with many small, donated arguments: through `Executable`, through this crate, and
//! through the functions of the C API.
//!
//! `cargo bench -p shardwright-pjrt --bench dispatch -- DEVICES` prints one line of JSON. The program is
//! `p * 0.999 + 0.001` for 50 arrays f32[64, 8], split over the devices. The three take turns, call after call, so that
//! what else the machine does meets all alike.

#![expect(unsafe_code, reason = "one of the contestants is the C API itself")]
#![expect(clippy::print_stdout, reason = "a benchmark shows what it measured")]

mod raw;

use std::error::Error;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};
use shardwright_graph::Graph;
use shardwright_hlo::{ArgumentKind, verify};
use shardwright_mesh::Mesh;
use shardwright_partition::ShardedModule;
use shardwright_pjrt::{Arg, Buffer, Client, ClientOptions, CompileOptions, Event, LoadedExecutable};
use shardwright_pjrt::{Plugin, ProgramFormat};
use shardwright_runtime::plugins::{Environment, PinnedPlugins, PluginRequest, resolve};
use shardwright_runtime::{Argument, Executable, Execution, Runtime, RuntimeOptions, ShardedArray};
use shardwright_tensor::{DType, HostArray, TensorType};

const ARRAYS: usize = 50;
const DIMS: [usize; 2] = [64, 8];
const WARM_UP: usize = 50;
const CALLS: usize = 1200;
/// Calls that are not waited for one by one.
const BURST: usize = 100;

/// A way to take a step that donates the state of the last one.
trait Contestant {
    /// Starts a step.
    fn call(&mut self);
    /// Waits for the last step.
    fn wait(&mut self);
}

struct WithRuntime {
    program: Executable,
    state: Vec<ShardedArray>,
    last: Option<Execution>,
}

impl Contestant for WithRuntime {
    fn call(&mut self) {
        let arguments = std::mem::take(&mut self.state).into_iter().map(Argument::Donate);
        let mut execution = self.program.execute(arguments).expect("the step starts");
        self.state = std::mem::take(&mut execution.outputs);
        self.last = Some(execution);
    }

    fn wait(&mut self) {
        self.last.take().expect("a step was taken").wait().expect("the step ends well");
    }
}

struct WithBuffers {
    executable: LoadedExecutable,
    state: Vec<Vec<Buffer>>,
    last: Vec<Event>,
}

impl Contestant for WithBuffers {
    fn call(&mut self) {
        let arguments = std::mem::take(&mut self.state).into_iter().map(Arg::Donate);
        let execution = self.executable.execute(arguments).expect("the step starts");
        self.state = execution.outputs;
        self.last = execution.done;
    }

    fn wait(&mut self) {
        self.last.drain(..).for_each(|event| event.wait().expect("the step ends well"));
    }
}

impl WithRuntime {
    fn new(runtime: &Runtime, module: &ShardedModule, mesh: &Mesh) -> Result<WithRuntime, Box<dyn Error>> {
        let program = runtime.compile(module, mesh)?;
        let zeros = HostArray::zeros(TensorType::new(DType::F32, DIMS)?);
        let place = |index| ShardedArray::from_host(runtime, mesh, module.argument_sharding(index), &zeros);
        Ok(WithRuntime { program, state: (0..ARRAYS).map(place).collect::<Result<_, _>>()?, last: None })
    }
}

impl WithBuffers {
    fn new(plugin: &Path, text: &str, devices: usize) -> Result<WithBuffers, Box<dyn Error>> {
        let options = ClientOptions::default().with("cpu_device_count", devices as i64);
        let client = Client::new(&Plugin::load(plugin)?, &options)?;
        let options = CompileOptions { num_partitions: devices, ..CompileOptions::default() };
        let executable = client.compile(text.as_bytes(), ProgramFormat::Mlir, &options)?;
        let zeros = HostArray::zeros(TensorType::new(DType::F32, shard_dims(devices))?);
        let place = |device| client.buffer_from_host(&zeros, device);
        let place = |_| executable.addressable_devices().map(place).collect();
        let state = (0..ARRAYS).map(place).collect::<Result<_, _>>()?;
        Ok(WithBuffers { executable, state, last: Vec::new() })
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    // Cargo adds a flag of its own.
    let arguments: Vec<String> = std::env::args().skip(1).filter(|a| a != "--bench").collect();
    let devices: usize = arguments.first().map_or(Ok(8), |a| a.parse())?;

    let environment = Environment::from_process();
    let plugin =
        resolve(&PluginRequest::default(), PinnedPlugins::embedded(), &environment, &mut |_| ())?.path;
    let runtime = Runtime::new(&plugin, &RuntimeOptions::cpu_devices(devices))?;
    let mesh = runtime.mesh("fsdp=-1")?;
    let module = module(&mesh)?;
    let text = module.stablehlo_text();

    let mut with_runtime = WithRuntime::new(&runtime, &module, &mesh)?;
    let mut with_buffers = WithBuffers::new(&plugin, &text, devices)?;
    let mut with_c = raw::Step::new(&plugin, &text, devices);
    let mut contestants: [(&str, &mut dyn Contestant); 3] =
        [("runtime", &mut with_runtime), ("pjrt", &mut with_buffers), ("c", &mut with_c)];
    let mut report = Map::from_iter([("devices".to_owned(), json!(devices))]);
    report.extend(measure(&mut contestants));
    println!("{}", Value::Object(report));
    Ok(())
}

fn module(mesh: &Mesh) -> Result<ShardedModule, Box<dyn Error>> {
    let g = Graph::new("update");
    for index in 0..ARRAYS {
        let name = format!("p{index}");
        let p = g.argument(&name, TensorType::new(DType::F32, DIMS)?, ArgumentKind::Parameter);
        g.donated_output(&name, g.offset(g.scale(p, 0.999)?, 0.001)?, index);
    }
    let shardings = vec![mesh.sharding("(fsdp, -)".parse()?)?; ARRAYS];
    Ok(ShardedModule::new(verify(g.finish())?, mesh.shape(), shardings.clone(), shardings)?)
}

fn shard_dims(devices: usize) -> [usize; 2] {
    [DIMS[0] / devices, DIMS[1]]
}

/// Microseconds per call of each: until it returns, until it is done, and when many are under way.
fn measure(contestants: &mut [(&str, &mut dyn Contestant)]) -> Map<String, Value> {
    for (_, contestant) in &mut *contestants {
        (0..WARM_UP).for_each(|_| contestant.call());
        contestant.wait();
    }
    let n = contestants.len();
    let mut times = vec![[const { Vec::new() }; 3]; n];
    for round in 0..CALLS {
        // The one that is first has another's leftovers to wait for; so each is, in turn.
        for index in (0..n).map(|turn| (round + turn) % n) {
            let (contestant, [returned, done, burst]) = (&mut contestants[index].1, &mut times[index]);
            let start = Instant::now();
            contestant.call();
            returned.push(start.elapsed());
            contestant.wait();
            done.push(start.elapsed());
            if round % BURST == 0 {
                let start = Instant::now();
                (0..BURST).for_each(|_| contestant.call());
                contestant.wait();
                burst.push(start.elapsed() / BURST as u32);
            }
        }
    }
    let names = ["returned", "done", "back_to_back"];
    let of_one = |times: [Vec<Duration>; 3]| {
        names.iter().zip(times).map(|(name, times)| (name.to_string(), summary(times))).collect()
    };
    contestants
        .iter()
        .zip(times)
        .map(|((name, _), times)| (name.to_string(), Value::Object(of_one(times))))
        .collect()
}

fn summary(mut times: Vec<Duration>) -> Value {
    times.sort();
    let microseconds = |time: Duration| (time.as_secs_f64() * 1e7).round() / 10.0;
    json!({ "median_us": microseconds(times[times.len() / 2]), "min_us": microseconds(times[0]) })
}
