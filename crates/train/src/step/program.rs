//! The step, written as a program: over global arrays, or over the shards that one device has of them.
//!
//! **Gradient accumulation.** The batch is cut into micro-batches, each device's part by itself, and a loop goes through
//! them. It carries the summed loss, the count, and the sums of gradients: shards, as each iteration scatters what it
//! adds. Loss and gradients are divided by the count of the whole step at the end. So they are the same however a batch
//! is cut, whichever labels count.

use shardwright_graph::{GraphError, Value};
use shardwright_hlo::{ArgumentKind, Module};
use shardwright_partition::Shards;
use shardwright_tensor::{DType, TensorType};

use super::StepConfig;
use super::norm::{self, GradientNorms};
use super::writer::Writer;
use crate::{GroupError, Held, Model, Update, Updated};

type Result<T> = std::result::Result<T, GraphError>;

/// Writes the program of a step.
pub(super) struct Program<'a> {
    w: Writer<'a>,
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
        Ok(Program { w: Writer::new("train_step", config, model, shards)? })
    }

    pub(super) fn trace(mut self) -> Result<Module> {
        let inputs = self.inputs()?;
        let (loss, gradients) = self.loss_and_gradients(&inputs)?;
        let Writer { g, config, layout, shards, .. } = &self.w;
        let trained: Vec<usize> = layout.groups.trained().collect();
        let norms = GradientNorms::new(g, &trained, &gradients, *shards)?;
        let is_clipped = |index: &usize| config.clipping.covers(&layout.parameters[*index].name);
        let clipped: Vec<bool> = trained.iter().map(is_clipped).collect();
        let gradients = norm::clip(g, &config.clipping, &clipped, &gradients, &norms)?;
        self.update(&inputs, &gradients)?;
        g.output("gradient_squares", norms.stacked(g)?);
        let both = [g.reshape(loss, &[1])?, g.reshape(norms.global(g)?, &[1])?];
        g.output("metrics", g.concatenate(&both, 0)?);
        Ok(self.w.g.finish())
    }

    fn inputs(&mut self) -> Result<Inputs> {
        let w = &mut self.w;
        let (parameters, state) = (w.parameters()?, w.state()?);
        let batch = w.batch(w.config.global_batch_size)?;
        let groups = w.layout.groups.groups();
        let count = groups.first().map_or(0, |group| w.config.optimizer.numbers(group, 1.0, 0).len());
        let ty = TensorType::new(DType::F32, [groups.len(), count])?;
        let numbers = w.argument("numbers", ty, ArgumentKind::Other);
        Ok(Inputs { parameters, state, batch, numbers })
    }

    /// The loss over the whole batch, and the gradients of the parameters that are trained, in f32.
    fn loss_and_gradients(&self, inputs: &Inputs) -> Result<(Value, Vec<Value>)> {
        let g = &self.w.g;
        let mut used = Vec::with_capacity(inputs.parameters.len());
        for &parameter in &inputs.parameters {
            // Without resharding, a parameter is gathered here, outside all units, and kept for the backward pass.
            let gathered_once = !self.w.config.plan.strategy.reshards_after_forward();
            used.push(if gathered_once { g.weight(parameter)? } else { parameter });
        }
        let trained: Vec<Value> =
            self.w.layout.groups.trained().map(|index| inputs.parameters[index]).collect();
        let sums = match self.w.config.gradient_accumulation_steps {
            1 => self.sums(&used, &trained, &inputs.batch)?,
            steps => self.accumulated(steps, &used, &trained, &inputs.batch)?,
        };
        let count = g.convert(self.w.over_batch(sums[1])?, DType::F32)?;
        let loss = g.div(self.w.over_batch(sums[0])?, count)?;
        let mean = |&sum| g.div(sum, g.broadcast_in_dim(count, &g.dims(sum), &[])?);
        Ok((loss, sums[2..].iter().map(mean).collect::<Result<_>>()?))
    }

    /// The sums over a batch: of the loss, `f32[]`, and its count, `s32[]`, over a device's part; and of the loss's
    /// gradients over all devices, in f32.
    fn sums(&self, used: &[Value], trained: &[Value], batch: &[Value]) -> Result<Vec<Value>> {
        let Writer { g, config, .. } = &self.w;
        let loss = self.w.loss(used, batch)?;
        let gradients = g.gradients(loss.sum, trained, &|unit| config.recompute(&unit.path))?;
        let gradients = gradients.into_iter().map(|gradient| g.convert(gradient, DType::F32));
        [Ok(loss.sum), Ok(loss.count)].into_iter().chain(gradients).collect()
    }

    /// The same, over one micro-batch after the other.
    fn accumulated(
        &self,
        steps: usize,
        used: &[Value],
        trained: &[Value],
        batch: &[Value],
    ) -> Result<Vec<Value>> {
        let g = &self.w.g;
        let mut zeros = vec![g.full(DType::F32, &[], 0.0)?, g.full(DType::S32, &[], 0.0)?];
        for &parameter in trained {
            zeros.push(g.full(DType::F32, &g.dims(parameter), 0.0)?);
        }
        let rows = batch.iter().map(|&array| self.micro_batches(steps, array)).collect::<Result<Vec<_>>>()?;
        let (sums, _) = g.scan(steps, &zeros, &rows, |_, sums, rows| {
            let parts = self.sums(used, trained, rows)?;
            let added = sums.iter().zip(parts).map(|(&sum, part)| g.add(sum, part));
            Ok((added.collect::<Result<_>>()?, Vec::new()))
        })?;
        Ok(sums)
    }

    /// An array of the batch as `[micro-batch, example, …]`. With `n` of them, each has every `n`-th example, and
    /// with that as many of each device's: no device needs what another has.
    fn micro_batches(&self, steps: usize, array: Value) -> Result<Value> {
        let g = &self.w.g;
        let dims = g.dims(array);
        let cut = [&[dims[0] / steps, steps], &dims[1..]].concat();
        let order: Vec<usize> = [1, 0].into_iter().chain(2..cut.len()).collect();
        g.transpose(g.reshape(array, &cut)?, &order)
    }

    /// Writes the updates, and gives what they make in place of what it was made of.
    fn update(&self, inputs: &Inputs, gradients: &[Value]) -> Result<()> {
        let Writer { g, config, layout, shards, .. } = &self.w;
        let numbers = self.numbers(inputs.numbers)?;
        let mut updated = Vec::with_capacity(gradients.len());
        for (index, &gradient) in layout.groups.trained().zip(gradients) {
            let slots = layout.slots.iter().zip(&inputs.state).filter(|(slot, _)| slot.parameter == index);
            let state: Vec<Value> = slots.map(|(_, value)| *value).collect();
            let group = layout.groups.of(index).expect("it is trained");
            let kept = inputs.parameters[index];
            let dims = &layout.parameters[index].shape;
            let held = match shards {
                Some(shards) => Held::shard(dims, shards, index),
                None => Held::whole(dims),
            };
            let update = Update {
                held: &held,
                parameter: g.convert(kept, DType::F32)?,
                state: &state,
                gradient,
                numbers: &numbers[group],
            };
            let Updated { parameter, state } = config.optimizer.update(g, &update)?;
            updated.push((index, Updated { parameter: g.convert(parameter, g.dtype(kept))?, state }));
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
        let g = &self.w.g;
        let [groups, count] = g.dims(numbers)[..] else { unreachable!("a matrix, as it was made") };
        let number = |group: usize, index: usize| {
            let row = g.slice_dim(numbers, 0, group..group + 1)?;
            g.reshape(g.slice_dim(row, 1, index..index + 1)?, &[])
        };
        (0..groups).map(|group| (0..count).map(|index| number(group, index)).collect()).collect()
    }
}
