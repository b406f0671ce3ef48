//! Fresh weights, drawn on the devices: each draws its own shards and nothing else.
//!
//! There is one program for each shape, sharding and distribution; it takes the seed of the run and a number that stands
//! for the parameter's name.

use std::collections::BTreeMap;
use std::thread;

use shardwright_graph::{Graph, GraphError, Value, random};
use shardwright_hlo::{ArgumentKind, Comparison, verify};
use shardwright_mesh::{Mesh, NamedSharding};
use shardwright_model::{Init, ParameterInfo};
use shardwright_partition::{PlannedArgument, ShardedModule};
use shardwright_runtime::{Argument, Executable, Runtime, RuntimeError, ShardedArray};
use shardwright_tensor::{DType, HostArray, TensorType};

use crate::TrainError;
use crate::state::constant;

/// The programs that draw a model's parameters, by what each draws.
pub(crate) struct Draws(BTreeMap<String, Executable>);

impl Draws {
    /// Compiles the programs for parameters and their places.
    pub(crate) fn compile(
        runtime: &Runtime,
        mesh: &Mesh,
        parameters: &[ParameterInfo],
        places: &[PlannedArgument],
    ) -> Result<Draws, TrainError> {
        let drawn = parameters.iter().zip(places).filter_map(|(info, place)| Drawn::new(info.init, place));
        Ok(Draws(compile_all(runtime, mesh, drawn)?))
    }

    /// The parameters before the first step, each at its place; they are those that the programs were compiled for.
    pub(crate) fn draw(
        &self,
        runtime: &Runtime,
        mesh: &Mesh,
        seed: u64,
        parameters: &[ParameterInfo],
        places: &[PlannedArgument],
    ) -> Result<Vec<ShardedArray>, TrainError> {
        let seed = place_words(runtime, mesh, seed)?;
        let draw_one = |(info, place): (&ParameterInfo, &PlannedArgument)| match (
            Drawn::new(info.init, place),
            info.init,
        ) {
            (Some(drawn), _) => {
                let stream = place_words(runtime, mesh, fnv1a(&info.name))?;
                let arguments = vec![Argument::Borrow(&seed), Argument::Donate(stream)];
                let mut outputs = self.0[&drawn.key()].execute(arguments)?.outputs;
                Ok(outputs.pop().expect("the program has one output"))
            }
            (None, Init::Ones) => Ok(constant(runtime, mesh, place, 1.0)?),
            (None, _) => Ok(constant(runtime, mesh, place, 0.0)?),
        };
        parameters.iter().zip(places).map(draw_one).collect()
    }
}

/// An array of random numbers at a place.
#[derive(Clone, Copy)]
struct Drawn<'p> {
    place: &'p PlannedArgument,
    distribution: Distribution,
}

#[derive(Clone, Copy)]
enum Distribution {
    Normal { std: f64, zero_row: Option<usize> },
    Uniform { bound: f64 },
}

impl<'p> Drawn<'p> {
    fn new(init: Init, place: &'p PlannedArgument) -> Option<Drawn<'p>> {
        let distribution = match init {
            Init::Normal { std, zero_row } => Distribution::Normal { std, zero_row },
            Init::Uniform { bound } => Distribution::Uniform { bound },
            Init::Ones | Init::Zeros => return None,
        };
        Some(Drawn { place, distribution })
    }

    /// Equal for what one program can draw.
    fn key(&self) -> String {
        let what = match self.distribution {
            Distribution::Normal { std, zero_row } => format!("normal {std:e} {zero_row:?}"),
            Distribution::Uniform { bound } => format!("uniform {bound:e}"),
        };
        format!("{} {} {what}", self.place.ty, self.place.sharding)
    }

    fn compile(&self, runtime: &Runtime, mesh: &Mesh) -> Result<Executable, TrainError> {
        let g = Graph::new("draw");
        let words = TensorType::new(DType::U32, [2]).expect("two words can be addressed");
        let seed = g.argument("seed", words.clone(), ArgumentKind::Other);
        let stream = g.argument("stream", words, ArgumentKind::Other);
        let dims = self.place.ty.dims();
        let drawn = match self.distribution {
            Distribution::Uniform { bound } => random::uniform(&g, seed, stream, dims, bound)?,
            Distribution::Normal { std, zero_row } => {
                let drawn = random::normal(&g, seed, stream, dims, std)?;
                zero_row.map_or(Ok(drawn), |row| without_row(&g, drawn, row))?
            }
        };
        g.output("drawn", g.convert(drawn, self.place.ty.dtype)?);
        let whole = NamedSharding::replicated(mesh.shape(), 1);
        let arguments = vec![whole.clone(), whole];
        let outputs = vec![self.place.sharding.clone()];
        let sharded = ShardedModule::new(verify(g.finish())?, mesh.shape(), arguments, outputs)?;
        Ok(runtime.compile(&sharded, mesh)?)
    }
}

/// The same with zeros in one row.
fn without_row(g: &Graph, drawn: Value, row: usize) -> Result<Value, GraphError> {
    let rows = g.iota(DType::S32, &g.dims(drawn), 0)?;
    let is_zero = g.compare(Comparison::Equal, rows, g.full_like(rows, row as f64)?)?;
    g.select(is_zero, g.full_like(drawn, 0.0)?, drawn)
}

/// One program for each that differs. They are small and compiled side by side.
fn compile_all<'p>(
    runtime: &Runtime,
    mesh: &Mesh,
    drawn: impl Iterator<Item = Drawn<'p>>,
) -> Result<BTreeMap<String, Executable>, TrainError> {
    let distinct: BTreeMap<String, Drawn<'p>> = drawn.map(|drawn| (drawn.key(), drawn)).collect();
    thread::scope(|scope| {
        // The timeline shows a thread by its name.
        let start = |(key, drawn): (String, Drawn<'p>)| {
            let thread = thread::Builder::new().name(format!("draw {}", drawn.place.ty));
            let started = thread.spawn_scoped(scope, move || drawn.compile(runtime, mesh));
            (key, started.expect("a process has room for some threads"))
        };
        let started: Vec<_> = distinct.into_iter().map(start).collect();
        let finish =
            |(key, thread): (String, thread::ScopedJoinHandle<'_, Result<Executable, TrainError>>)| {
                match thread.join() {
                    Ok(program) => program.map(|program| (key, program)),
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            };
        started.into_iter().map(finish).collect()
    })
}

/// A number as `u32[2]` on every device, high word first.
fn place_words(runtime: &Runtime, mesh: &Mesh, value: u64) -> Result<ShardedArray, RuntimeError> {
    let words = [(value >> 32) as u32, value as u32];
    let host = HostArray::from_slice(&[2], &words)?;
    ShardedArray::from_host(runtime, mesh, &NamedSharding::replicated(mesh.shape(), 1), &host)
}

/// The 64-bit FNV-1a hash, which tells names apart and never changes.
fn fnv1a(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}
