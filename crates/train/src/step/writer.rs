//! What the programs of a model have in common: its parameters, a batch, and the devices that see a part of it.

use shardwright_graph::{Graph, GraphError, Value};
use shardwright_hlo::{ArgumentKind, Op};
use shardwright_partition::Shards;
use shardwright_tensor::{DType, TensorType};

use super::{StateLayout, StepConfig};
use crate::{GroupError, Model, ModelLoss};

type Result<T> = std::result::Result<T, GraphError>;

/// A program over a model's parameters that is being written, over global arrays or over the shards that one device has
/// of them.
pub(super) struct Writer<'a> {
    pub(super) g: Graph,
    pub(super) config: &'a StepConfig,
    pub(super) model: &'a dyn Model,
    pub(super) shards: Option<&'a Shards<'a>>,
    pub(super) layout: StateLayout,
    arguments: usize,
}

impl<'a> Writer<'a> {
    pub(super) fn new(
        name: &str,
        config: &'a StepConfig,
        model: &'a dyn Model,
        shards: Option<&'a Shards<'a>>,
    ) -> std::result::Result<Writer<'a>, GroupError> {
        let g = Graph::with_precision(name, config.dot_precision).reducing_in(config.precision.reduce);
        let layout = StateLayout::new(model, config)?;
        Ok(Writer { g, config, model, shards, layout, arguments: 0 })
    }

    /// The parameters as they are kept. Where they are used, they are converted to what is computed in, and then
    /// gathered.
    pub(super) fn parameters(&mut self) -> Result<Vec<Value>> {
        let mut parameters = Vec::with_capacity(self.layout.parameters.len());
        for index in 0..self.layout.parameters.len() {
            let name = self.layout.parameters[index].name.clone();
            let ty = self.layout.parameter_ty(index)?;
            let compute = self.config.precision.compute;
            let mut used = Vec::from_iter((ty.dtype != compute).then_some(Op::Convert(compute)));
            used.extend(self.shards.map(|shards| shards.gathers(index)).unwrap_or_default());
            let value = self.argument(&name, ty, ArgumentKind::Parameter);
            self.g.stored_as(value, used);
            parameters.push(value);
        }
        Ok(parameters)
    }

    /// What the optimizer keeps, one array for each slot of the layout.
    pub(super) fn state(&mut self) -> Result<Vec<Value>> {
        let mut state = Vec::with_capacity(self.layout.slots.len());
        for slot in self.layout.slots.clone() {
            let ty = TensorType::new(DType::F32, self.layout.slot_dims(&slot))?;
            let name = self.layout.slot_name(&slot);
            state.push(self.argument(&name, ty, StateLayout::slot_kind(&slot)));
        }
        Ok(state)
    }

    /// The arrays of a batch of so many examples.
    pub(super) fn batch(&mut self, examples: usize) -> Result<Vec<Value>> {
        let inputs = self.model.batch(examples)?;
        Ok(inputs.into_iter().map(|input| self.argument(input.name, input.ty, ArgumentKind::Batch)).collect())
    }

    /// An argument of this type, or a device's shard of one.
    pub(super) fn argument(&mut self, name: &str, ty: TensorType, kind: ArgumentKind) -> Value {
        let ty = self.shards.map_or(ty, |shards| shards.ty(self.arguments));
        self.arguments += 1;
        self.g.argument(name, ty, kind)
    }

    /// The loss of a device's part of the batch. A count that does not look at the batch is that of this part all the same,
    /// so it is one of many that are to be summed.
    pub(super) fn loss(&self, parameters: &[Value], batch: &[Value]) -> Result<ModelLoss> {
        let g = &self.g;
        let ModelLoss { sum, count } = self.model.loss(g, parameters, batch)?;
        let of_part = |x| match self.shards.and_then(Shards::batch) {
            Some(devices) if !g.depends_on(x, batch) => g.vary(x, devices),
            _ => Ok(x),
        };
        Ok(ModelLoss { sum: of_part(sum)?, count: of_part(count)? })
    }

    /// What a device has worked out of its part of the batch, summed over all parts.
    pub(super) fn over_batch(&self, part: Value) -> Result<Value> {
        match self.shards.and_then(Shards::batch) {
            Some(devices) => self.g.all_reduce(part, devices),
            None => Ok(part),
        }
    }
}
