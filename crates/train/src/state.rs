use std::ops::Range;

use shardwright_checkpoint::{CheckpointError, HfWeights};
use shardwright_mesh::Mesh;
use shardwright_model::{Lora, ParameterInfo};
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
    /// A model's own weights from its files, and those of its adapters beside them.
    Adapted {
        /// The files of the model.
        base: &'a HfWeights,
        /// Those that its adapters were saved to, with what was trained in full beside them; without, they are drawn.
        adapter: Option<&'a HfWeights>,
        /// The key of the generator.
        seed: u64,
    },
}

impl<'a> WeightSource<'a> {
    /// The file that has a parameter, and the name that it has there; `None` if it is drawn.
    fn file_of(self, name: &str) -> Option<(&'a HfWeights, String)> {
        match self {
            WeightSource::Random { .. } => None,
            WeightSource::Files(files) => Some((files, name.to_owned())),
            WeightSource::Adapted { base, adapter, .. } => {
                let saved = Lora::saved_name(name);
                match adapter.filter(|adapter| adapter.ty(&saved).is_some()) {
                    Some(adapter) => Some((adapter, saved)),
                    None => base.ty(name).map(|_| (base, name.to_owned())),
                }
            }
        }
    }

    /// The programs that draw what no file has, of the parameters of these infos and places.
    pub(crate) fn draws(
        self,
        runtime: &Runtime,
        mesh: &Mesh,
        infos: &[ParameterInfo],
        places: &[PlannedArgument],
    ) -> Result<Draws, TrainError> {
        let (infos, places) = self.drawn(infos, places);
        Draws::compile(runtime, mesh, &infos, &places)
    }

    /// The parameters, each at its place, with the programs that were compiled for these.
    pub(crate) fn parameters(
        self,
        runtime: &Runtime,
        mesh: &Mesh,
        draws: &Draws,
        infos: &[ParameterInfo],
        places: &[PlannedArgument],
    ) -> Result<Vec<ShardedArray>, TrainError> {
        let (drawn_infos, drawn_places) = self.drawn(infos, places);
        let mut drawn = draws.draw(runtime, mesh, self.seed(), &drawn_infos, &drawn_places)?.into_iter();
        let parameter = |(info, place): (&ParameterInfo, &PlannedArgument)| match self.file_of(&info.name) {
            Some((files, name)) => from_files(runtime, mesh, place, files, &name),
            None => Ok(drawn.next().expect("what is in no file is drawn")),
        };
        infos.iter().zip(places).map(parameter).collect()
    }

    /// Those that no file has.
    fn drawn(
        self,
        infos: &[ParameterInfo],
        places: &[PlannedArgument],
    ) -> (Vec<ParameterInfo>, Vec<PlannedArgument>) {
        let all = infos.iter().zip(places);
        let drawn = all.filter(|(info, _)| self.file_of(&info.name).is_none());
        drawn.map(|(info, place)| (info.clone(), place.clone())).unzip()
    }

    fn seed(self) -> u64 {
        match self {
            WeightSource::Random { seed } | WeightSource::Adapted { seed, .. } => seed,
            // Nothing is drawn.
            WeightSource::Files(_) => 0,
        }
    }
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
        let draws = source.draws(runtime, mesh, infos, places)?;
        let parameters = source.parameters(runtime, mesh, &draws, infos, places)?;
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
fn from_files(
    runtime: &Runtime,
    mesh: &Mesh,
    place: &PlannedArgument,
    files: &HfWeights,
    name: &str,
) -> Result<ShardedArray, TrainError> {
    ShardedArray::from_fn(runtime, mesh, &place.sharding, &place.ty, |ranges| {
        let block = files.read_slice(name, ranges).map_err(|e: CheckpointError| TrainError::from(e))?;
        Ok(block.cast(place.ty.dtype))
    })
}
