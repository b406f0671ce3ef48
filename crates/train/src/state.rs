use std::collections::BTreeMap;
use std::ops::Range;

use shardwright_checkpoint::{CheckpointError, HfWeights};
use shardwright_graph::{Graph, random};
use shardwright_hlo::{ArgumentKind, Comparison, verify};
use shardwright_mesh::{Mesh, NamedSharding};
use shardwright_model::Init;
use shardwright_partition::ShardedModule;
use shardwright_runtime::{Argument, Program, ProgramValue, Runtime, RuntimeError, ShardedArray};
use shardwright_tensor::{DType, HostArray, Shape, TensorError, TensorType};

use crate::{TrainError, TrainStep};

/// Parameters and what the optimizer keeps of them, on the devices.
pub struct TrainState {
    /// Steps that were taken.
    pub step: usize,
    /// The parameters, in the model's order.
    pub parameters: Vec<ShardedArray>,
    /// Running means of the gradients, in the same order.
    pub exp_avg: Vec<ShardedArray>,
    /// Running means of the squared gradients, in the same order.
    pub exp_avg_sq: Vec<ShardedArray>,
}

/// Where the first weights come from.
#[derive(Clone, Copy)]
pub enum WeightSource<'a> {
    /// Drawn anew. The same seed gives the same weights on any mesh.
    Random {
        /// The key of the generator.
        seed: u64,
    },
    /// Read from files, and cast to f32.
    Files(&'a HfWeights),
}

impl TrainState {
    /// The state before the first step. Every device makes or is given its own shards; the host holds one at a time.
    ///
    /// # Errors
    /// When weights cannot be read, or the plugin refuses.
    pub fn new(
        runtime: &Runtime,
        step: &TrainStep,
        source: WeightSource<'_>,
    ) -> Result<TrainState, TrainError> {
        let mesh = step.program().mesh();
        let places = step.program().arguments();
        let count = step.parameters().len();
        let mut generator = match source {
            WeightSource::Random { seed } => Some(Generator::new(runtime, mesh, seed)?),
            WeightSource::Files(_) => None,
        };
        let mut parameters = Vec::with_capacity(count);
        for (info, place) in step.parameters().iter().zip(places) {
            parameters.push(match (source, &mut generator, info.init) {
                (WeightSource::Files(files), ..) => from_files(runtime, mesh, place, files, &info.name)?,
                (_, Some(generator), Init::Normal { std, zero_row }) => {
                    generator.normal(place, std, zero_row)?
                }
                (_, _, Init::Ones) => constant(runtime, mesh, place, 1.0)?,
                (_, _, Init::Zeros | Init::Normal { .. }) => constant(runtime, mesh, place, 0.0)?,
            });
        }
        let zeros = |places: &[ProgramValue]| {
            places.iter().map(|place| constant(runtime, mesh, place, 0.0)).collect::<Result<_, _>>()
        };
        let exp_avg = zeros(&places[count..2 * count])?;
        let exp_avg_sq = zeros(&places[2 * count..3 * count])?;
        Ok(TrainState { step: 0, parameters, exp_avg, exp_avg_sq })
    }

    /// The bytes that each device holds of the state, by partition, as the plugin says.
    ///
    /// # Errors
    /// When the plugin does not tell.
    pub fn bytes_on_devices(&self) -> Result<Vec<usize>, TrainError> {
        let mut total = Vec::new();
        for array in self.parameters.iter().chain(&self.exp_avg).chain(&self.exp_avg_sq) {
            let bytes = array.bytes_on_devices()?;
            total.resize(bytes.len(), 0);
            total.iter_mut().zip(bytes).for_each(|(total, bytes)| *total += bytes);
        }
        Ok(total)
    }

    /// In the order of the program's arguments.
    pub(crate) fn into_arrays(self) -> Vec<ShardedArray> {
        self.parameters.into_iter().chain(self.exp_avg).chain(self.exp_avg_sq).collect()
    }

    pub(crate) fn from_arrays(step: usize, count: usize, mut arrays: Vec<ShardedArray>) -> TrainState {
        let exp_avg_sq = arrays.split_off(2 * count);
        let exp_avg = arrays.split_off(count);
        TrainState { step, parameters: arrays, exp_avg, exp_avg_sq }
    }
}

fn constant(
    runtime: &Runtime,
    mesh: &Mesh,
    place: &ProgramValue,
    value: f32,
) -> Result<ShardedArray, RuntimeError> {
    ShardedArray::from_fn(runtime, mesh, &place.sharding, &place.ty, |ranges| {
        let dims: Vec<usize> = ranges.iter().map(Range::len).collect();
        let shape = Shape::new(dims).map_err(TensorError::from)?;
        let mut block = HostArray::zeros(TensorType { dtype: DType::F32, shape });
        block.as_mut_slice::<f32>()?.fill(value);
        Ok(block)
    })
}

fn from_files(
    runtime: &Runtime,
    mesh: &Mesh,
    place: &ProgramValue,
    files: &HfWeights,
    name: &str,
) -> Result<ShardedArray, TrainError> {
    ShardedArray::from_fn(runtime, mesh, &place.sharding, &place.ty, |ranges| {
        let block = files.read_slice(name, ranges).map_err(|e: CheckpointError| TrainError::from(e))?;
        Ok(block.cast(place.ty.dtype))
    })
}

/// Draws weights on the devices, each its own shards. There is one program for each shape and sharding.
struct Generator<'r> {
    runtime: &'r Runtime,
    mesh: &'r Mesh,
    seed: ShardedArray,
    programs: BTreeMap<String, Program>,
}

impl<'r> Generator<'r> {
    fn new(runtime: &'r Runtime, mesh: &'r Mesh, seed: u64) -> Result<Generator<'r>, TrainError> {
        let seed = place_words(runtime, mesh, seed)?;
        Ok(Generator { runtime, mesh, seed, programs: BTreeMap::new() })
    }

    fn normal(
        &mut self,
        place: &ProgramValue,
        std: f64,
        zero_row: Option<usize>,
    ) -> Result<ShardedArray, TrainError> {
        let key = format!("{} {} {std:e} {zero_row:?}", place.ty, place.sharding);
        let program = match self.programs.entry(key) {
            std::collections::btree_map::Entry::Occupied(entry) => entry.into_mut(),
            std::collections::btree_map::Entry::Vacant(entry) => {
                entry.insert(compile_normal(self.runtime, self.mesh, place, std, zero_row)?)
            }
        };
        let stream = place_words(self.runtime, self.mesh, fnv1a(&place.name))?;
        let arguments = vec![Argument::Borrow(&self.seed), Argument::Donate(stream)];
        let mut outputs = program.execute(arguments)?.outputs;
        Ok(outputs.pop().expect("the program has one output"))
    }
}

fn compile_normal(
    runtime: &Runtime,
    mesh: &Mesh,
    place: &ProgramValue,
    std: f64,
    zero_row: Option<usize>,
) -> Result<Program, TrainError> {
    let g = Graph::new("normal");
    let words = TensorType::new(DType::U32, [2]).expect("two words can be addressed");
    let seed = g.argument("seed", words.clone(), ArgumentKind::Other);
    let stream = g.argument("stream", words, ArgumentKind::Other);
    let mut drawn = random::normal(&g, seed, stream, place.ty.dims(), std)?;
    if let Some(row) = zero_row {
        let rows = g.iota(DType::S32, place.ty.dims(), 0)?;
        let is_zero = g.compare(Comparison::Equal, rows, g.full_like(rows, row as f64)?)?;
        drawn = g.select(is_zero, g.full_like(drawn, 0.0)?, drawn)?;
    }
    g.output("normal", drawn);
    let whole = NamedSharding::replicated(mesh.shape(), 1);
    let arguments = vec![whole.clone(), whole];
    let module = verify(g.finish())?;
    let sharded = ShardedModule::new(module, mesh.shape(), arguments, vec![place.sharding.clone()])?;
    Ok(runtime.compile(&sharded, mesh)?)
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
