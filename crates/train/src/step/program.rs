//! The step, written as a program: over global arrays, or over the shards that one device has of them.

use shardwright_graph::{Graph, GraphError, Value};
use shardwright_hlo::{ArgumentKind, Module};
use shardwright_partition::Shards;
use shardwright_tensor::{DType, TensorType};

use super::norm::{self, GradientNorms};
use super::{StateLayout, StepConfig};
use crate::{GroupError, Held, Model, Update, Updated};

type Result<T> = std::result::Result<T, GraphError>;

/// Writes the program of a step.
pub(super) struct Program<'a> {
    g: Graph,
    config: &'a StepConfig,
    model: &'a dyn Model,
    shards: Option<&'a Shards<'a>>,
    layout: StateLayout,
    arguments: usize,
}

/// The arguments of the program.
struct Inputs {
    parameters: Vec<Value>,
    /// One for each slot of the layout.
    state: Vec<Value>,
    batch: Vec<Value>,
    /// The numbers of the step, `f32[group, number]`.
    numbers: Value,
}

impl<'a> Program<'a> {
    pub(super) fn new(
        config: &'a StepConfig,
        model: &'a dyn Model,
        shards: Option<&'a Shards<'a>>,
    ) -> std::result::Result<Program<'a>, GroupError> {
        let layout = StateLayout::new(model, config)?;
        Ok(Program { g: Graph::new("train_step"), config, model, shards, layout, arguments: 0 })
    }

    pub(super) fn trace(mut self) -> Result<Module> {
        let inputs = self.inputs()?;
        let (loss, gradients) = self.loss_and_gradients(&inputs)?;
        let trained: Vec<usize> = self.layout.groups.trained().collect();
        let norms = GradientNorms::new(&self.g, &trained, &gradients, self.shards)?;
        let clipping = &self.config.clipping;
        let is_clipped = |index: &usize| clipping.covers(&self.layout.parameters[*index].name);
        let clipped: Vec<bool> = trained.iter().map(is_clipped).collect();
        let gradients = norm::clip(&self.g, clipping, &clipped, &gradients, &norms)?;
        self.update(&inputs, &gradients)?;
        let g = self.g;
        g.output("gradient_squares", norms.stacked(&g)?);
        let both = [g.reshape(loss, &[1])?, g.reshape(norms.global(&g)?, &[1])?];
        g.output("metrics", g.concatenate(&both, 0)?);
        Ok(g.finish())
    }

    fn inputs(&mut self) -> Result<Inputs> {
        let mut parameters = Vec::with_capacity(self.layout.parameters.len());
        for (index, info) in self.layout.parameters.clone().iter().enumerate() {
            let ty = TensorType::new(DType::F32, info.shape.clone())?;
            let value = self.argument(&info.name, ty, ArgumentKind::Parameter);
            if let Some(shards) = self.shards {
                self.g.stored_as(value, shards.gathers(index));
            }
            parameters.push(value);
        }
        let mut state = Vec::with_capacity(self.layout.slots.len());
        for slot in self.layout.slots.clone() {
            let ty = TensorType::new(DType::F32, self.layout.slot_dims(&slot))?;
            let name = self.layout.slot_name(&slot);
            state.push(self.argument(&name, ty, StateLayout::slot_kind(&slot)));
        }
        let inputs = self.model.batch(self.config.global_batch_size)?;
        let batch = inputs.into_iter().map(|i| self.argument(i.name, i.ty, ArgumentKind::Batch)).collect();
        let groups = self.layout.groups.groups();
        let count = groups.first().map_or(0, |group| self.config.optimizer.numbers(group, 1.0, 0).len());
        let ty = TensorType::new(DType::F32, [groups.len(), count])?;
        let numbers = self.argument("numbers", ty, ArgumentKind::Other);
        Ok(Inputs { parameters, state, batch, numbers })
    }

    /// An argument of this type, or a device's shard of one.
    fn argument(&mut self, name: &str, ty: TensorType, kind: ArgumentKind) -> Value {
        let ty = self.shards.map_or(ty, |shards| shards.ty(self.arguments));
        self.arguments += 1;
        self.g.argument(name, ty, kind)
    }

    /// The loss over the whole batch, and the gradients of the parameters that are trained.
    fn loss_and_gradients(&self, inputs: &Inputs) -> Result<(Value, Vec<Value>)> {
        let g = &self.g;
        let mut used = Vec::with_capacity(inputs.parameters.len());
        for &parameter in &inputs.parameters {
            // Without resharding, a parameter is gathered here, outside all units, and kept for the backward pass.
            let gathered_once = !self.config.plan.strategy.reshards_after_forward();
            used.push(if gathered_once { g.weight(parameter)? } else { parameter });
        }
        let loss = self.model.loss(g, &used, &inputs.batch)?;
        let over_batch = |part| match self.shards.and_then(Shards::batch) {
            Some(devices) => g.all_reduce(part, devices),
            None => Ok(part),
        };
        let loss = g.div(over_batch(loss.sum)?, g.convert(over_batch(loss.count)?, DType::F32)?)?;
        let wrt: Vec<Value> = self.layout.groups.trained().map(|index| inputs.parameters[index]).collect();
        Ok((loss, g.gradients(loss, &wrt, &|unit| self.config.recompute(&unit.path))?))
    }

    /// Writes the updates, and gives what they make in place of what it was made of.
    fn update(&self, inputs: &Inputs, gradients: &[Value]) -> Result<()> {
        let (g, layout) = (&self.g, &self.layout);
        let numbers = self.numbers(inputs.numbers)?;
        let mut updated = Vec::with_capacity(gradients.len());
        for (index, &gradient) in layout.groups.trained().zip(gradients) {
            let slots = layout.slots.iter().zip(&inputs.state).filter(|(slot, _)| slot.parameter == index);
            let state: Vec<Value> = slots.map(|(_, value)| *value).collect();
            let group = layout.groups.of(index).expect("it is trained");
            let dims = &layout.parameters[index].shape;
            let held = match self.shards {
                Some(shards) => Held::shard(dims, shards, index),
                None => Held::whole(dims),
            };
            let update = Update {
                held: &held,
                parameter: inputs.parameters[index],
                state: &state,
                gradient,
                numbers: &numbers[group],
            };
            updated.push((index, self.config.optimizer.update(g, &update)?));
        }
        for (index, Updated { parameter, .. }) in &updated {
            g.donated_output(layout.parameters[*index].name.clone(), *parameter, *index);
        }
        let state = updated.into_iter().flat_map(|(_, updated)| updated.state);
        for (index, (slot, value)) in layout.slots.iter().zip(state).enumerate() {
            g.donated_output(layout.slot_name(slot), value, layout.parameters.len() + index);
        }
        Ok(())
    }

    /// The numbers of each group, as scalars.
    fn numbers(&self, numbers: Value) -> Result<Vec<Vec<Value>>> {
        let g = &self.g;
        let [groups, count] = g.dims(numbers)[..] else { unreachable!("a matrix, as it was made") };
        let number = |group: usize, index: usize| {
            let row = g.slice_dim(numbers, 0, group..group + 1)?;
            g.reshape(g.slice_dim(row, 1, index..index + 1)?, &[])
        };
        (0..groups).map(|group| (0..count).map(|index| number(group, index)).collect()).collect()
    }
}
