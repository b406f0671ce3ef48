use std::ops::Range;

use shardwright_checkpoint::{CheckpointError, HfWeights};
use shardwright_mesh::Mesh;
use shardwright_partition::PlannedArgument;
use shardwright_runtime::{Runtime, RuntimeError, ShardedArray};
use shardwright_tensor::{DType, HostArray, Shape, TensorError, TensorType};

use crate::draw::Draws;
use crate::{TrainError, TrainStep};

/// Parameters and what the optimizer keeps of them, on the devices.
pub struct TrainState {
    /// Steps that were taken.
    pub step: usize,
    /// The parameters, in the model's order.
    pub parameters: Vec<ShardedArray>,
    /// What the optimizer keeps for those that are trained, in the order of the step's
    /// [layout](crate::StateLayout::slots).
    pub state: Vec<ShardedArray>,
}

/// Where the first weights come from.
#[derive(Clone, Copy)]
pub enum WeightSource<'a> {
    /// Drawn anew. The same seed gives the same weights on any mesh.
    Random {
        /// The key of the generator.
        seed: u64,
    },
    /// Read from files, and cast to what they are kept in.
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
        let mesh = step.executable().mesh();
        let (infos, places) = (step.parameters(), step.plan().arguments());
        match source {
            WeightSource::Random { seed } => {
                let draws = Draws::compile(runtime, mesh, infos, places)?;
                TrainState::drawn(runtime, step, &draws, seed)
            }
            WeightSource::Files(files) => {
                let read = |place| from_files(runtime, mesh, place, files);
                let parameters = places[..infos.len()].iter().map(read).collect::<Result<_, _>>()?;
                TrainState::of_parameters(runtime, step, parameters)
            }
        }
    }

    /// [`TrainState::new`] with programs that were compiled for the step's parameters before.
    pub(crate) fn drawn(
        runtime: &Runtime,
        step: &TrainStep,
        draws: &Draws,
        seed: u64,
    ) -> Result<TrainState, TrainError> {
        let (infos, places) = (step.parameters(), step.plan().arguments());
        let parameters = draws.draw(runtime, step.executable().mesh(), seed, infos, places)?;
        TrainState::of_parameters(runtime, step, parameters)
    }

    /// The state of a step that has these parameters and was not run yet.
    pub(crate) fn of_parameters(
        runtime: &Runtime,
        step: &TrainStep,
        parameters: Vec<ShardedArray>,
    ) -> Result<TrainState, TrainError> {
        let (mesh, places) = (step.executable().mesh(), step.plan().arguments());
        let slots = &places[parameters.len()..][..step.layout().slots.len()];
        let state =
            slots.iter().map(|place| constant(runtime, mesh, place, 0.0)).collect::<Result<_, _>>()?;
        Ok(TrainState { step: 0, parameters, state })
    }

    /// The bytes that each device holds of the state, by partition, as the plugin says.
    ///
    /// # Errors
    /// When the plugin does not tell.
    pub fn bytes_on_devices(&self) -> Result<Vec<usize>, TrainError> {
        let mut total = Vec::new();
        for array in self.parameters.iter().chain(&self.state) {
            let bytes = array.bytes_on_devices()?;
            total.resize(bytes.len(), 0);
            total.iter_mut().zip(bytes).for_each(|(total, bytes)| *total += bytes);
        }
        Ok(total)
    }
}

/// One value at every index.
pub(crate) fn constant(
    runtime: &Runtime,
    mesh: &Mesh,
    place: &PlannedArgument,
    value: f32,
) -> Result<ShardedArray, RuntimeError> {
    ShardedArray::from_fn(runtime, mesh, &place.sharding, &place.ty, |ranges| {
        let dims: Vec<usize> = ranges.iter().map(Range::len).collect();
        let shape = Shape::new(dims).map_err(TensorError::from)?;
        let mut block = HostArray::zeros(TensorType { dtype: DType::F32, shape });
        block.as_mut_slice::<f32>()?.fill(value);
        Ok(block.cast(place.ty.dtype))
    })
}

/// The parameter that belongs at a place, as the files have it.
pub(crate) fn from_files(
    runtime: &Runtime,
    mesh: &Mesh,
    place: &PlannedArgument,
    files: &HfWeights,
) -> Result<ShardedArray, TrainError> {
    ShardedArray::from_fn(runtime, mesh, &place.sharding, &place.ty, |ranges| {
        let block =
            files.read_slice(&place.name, ranges).map_err(|e: CheckpointError| TrainError::from(e))?;
        Ok(block.cast(place.ty.dtype))
    })
}
