//! The loss of a batch, without gradients: what a model is evaluated with.

use shardwright_hlo::{Module, verify};
use shardwright_mesh::Mesh;
use shardwright_partition::{ShardingPlan, Shards};
use shardwright_runtime::{Argument, Executable, Runtime, ShardedArray};
use shardwright_tensor::HostArray;

use super::StepConfig;
use super::compiled::place_all;
use super::writer::Writer;
use crate::{Model, TrainError};

/// A compiled program that takes the parameters of a train step, where they are, and a batch, and gives its loss.
pub struct EvalStep {
    executable: Executable,
}

/// The loss of a batch that may still be under way.
pub struct PendingLoss {
    outputs: Vec<ShardedArray>,
}

impl EvalStep {
    /// Compiles the program for batches of so many examples. `plan` is that of the [train step](crate::TrainStep) with this
    /// configuration: parameters lie as it has them.
    ///
    /// # Errors
    /// When the batch cannot be cut into equal parts, or the compiler refuses the program.
    pub fn compile(
        runtime: &Runtime,
        mesh: &Mesh,
        model: &dyn Model,
        config: &StepConfig,
        plan: &ShardingPlan,
        examples: usize,
    ) -> Result<EvalStep, TrainError> {
        let module = verify(trace(config, model, examples, None)?)?;
        let plan = plan.for_program(&module)?;
        let sharded =
            config.lower_traced(module, &plan, |shards| trace(config, model, examples, Some(shards)))?;
        Ok(EvalStep { executable: runtime.compile(&sharded, mesh)? })
    }

    /// The compiled program.
    pub fn executable(&self) -> &Executable {
        &self.executable
    }

    /// Starts the program and does not wait for it. `batch` are the arrays that the model asks for; examples all of whose
    /// labels are ignored fill up a batch that is too short.
    ///
    /// # Errors
    /// When parameters or batch are not of the program's types, or the plugin refuses.
    pub fn run(
        &self,
        runtime: &Runtime,
        parameters: &[ShardedArray],
        batch: &[&HostArray],
    ) -> Result<PendingLoss, TrainError> {
        let batch = place_all(runtime, &self.executable, parameters.len(), batch)?;
        let parameters = parameters.iter().map(Argument::Borrow);
        let arguments: Vec<Argument<'_>> =
            parameters.chain(batch.into_iter().map(Argument::Donate)).collect();
        Ok(PendingLoss { outputs: self.executable.execute(arguments)?.outputs })
    }
}

impl PendingLoss {
    /// The loss summed over the batch, and what it is divided by: their sums over batches make the mean over all. Waits
    /// for the program.
    ///
    /// # Errors
    /// When the program failed.
    pub fn read(&self) -> Result<(f64, u64), TrainError> {
        let [sum, count] = &self.outputs[..] else { unreachable!("the program gives two scalars") };
        let sum = sum.to_host()?.to_f64()[0];
        // A count of examples and positions is never negative, and exact in f64.
        Ok((sum, count.to_host()?.to_f64()[0] as u64))
    }
}

fn trace(
    config: &StepConfig,
    model: &dyn Model,
    examples: usize,
    shards: Option<&Shards<'_>>,
) -> Result<Module, TrainError> {
    let mut w = Writer::new("eval_step", config, model, shards)?;
    let parameters = w.parameters()?;
    let batch = w.batch(examples)?;
    let loss = w.loss(&parameters, &batch)?;
    let (sum, count) = (w.over_batch(loss.sum)?, w.over_batch(loss.count)?);
    w.g.output("loss", sum);
    w.g.output("count", count);
    Ok(w.g.finish())
}
