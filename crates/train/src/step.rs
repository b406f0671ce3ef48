//! One optimizer step as one program: forward, backward, clipping, update.

use shardwright_graph::{Graph, GraphError, Recompute, Value};
use shardwright_hlo::{ArgumentKind, Binary, Comparison, Module, Unary, VerifiedModule, verify};
use shardwright_mesh::{AbstractMesh, Mesh};
use shardwright_model::{
    ModelConfig, ParameterInfo, TensorError, TensorStyle, Weights, causal_loss, logits, parameters,
    tensor_plan,
};
use shardwright_partition::{
    PlanOptions, ShardedModule, ShardingPlan, TENSOR_AXIS, TensorPlan, TensorRule, TensorSplit, WrapPolicy,
};
use shardwright_runtime::{Argument, Executable, Runtime, ShardedArray};
use shardwright_tensor::{DType, HostArray, TensorType};

use crate::adamw::{self, Factors, Slot};
use crate::{AdamWConfig, LossDenominator, TrainError, TrainState};

/// What the program of a step depends on, besides the model.
#[derive(Clone, Debug, PartialEq)]
pub struct StepConfig {
    /// Examples of one step on all devices.
    pub global_batch_size: usize,
    /// Tokens of one example.
    pub block_size: usize,
    /// The optimizer; its learning rate is passed to each step.
    pub optimizer: AdamWConfig,
    /// Gradients are scaled down to this global L2 norm; `None` leaves them.
    pub max_grad_norm: Option<f64>,
    /// What the summed loss is divided by.
    pub loss_denominator: LossDenominator,
    /// The units at whose boundaries activations are pinned.
    pub wrap: WrapPolicy,
    /// Whether these units are computed again in the backward pass.
    pub remat: bool,
    /// Where parameters lie.
    pub plan: PlanOptions,
}

/// A compiled train step.
pub struct TrainStep {
    executable: Executable,
    plan: ShardingPlan,
    parameters: Vec<ParameterInfo>,
    optimizer: AdamWConfig,
}

/// Loss and gradient norm of a step that may still be under way.
pub struct PendingMetrics(ShardedArray);

/// Arguments behind those of the parameters and their two moments.
const INPUTS: [&str; 3] = ["input_ids", "labels", "factors"];

impl StepConfig {
    /// The program of a step: takes the parameters, their first and then their second moments, a batch, its labels
    /// and the numbers of the step; gives the parameters and moments in the same order, then `[loss, gradient norm]`.
    ///
    /// # Errors
    /// When the sizes in the model's configuration do not make a program.
    pub fn module(&self, model: &ModelConfig) -> Result<VerifiedModule, TrainError> {
        Ok(verify(self.trace(model)?)?)
    }

    /// Where the arguments of the step's program lie. Over a tensor axis, the model is split by the plan that the
    /// options give, or else by its own.
    ///
    /// # Errors
    /// When the mesh does not fit the program, or its tensor axis the model.
    pub fn sharding_plan(
        &self,
        model: &ModelConfig,
        module: &Module,
        mesh: &AbstractMesh,
    ) -> Result<ShardingPlan, TrainError> {
        let mut options = self.plan.clone();
        if let (None, Some(devices)) = (&options.tensor, mesh.axis_size(TENSOR_AXIS)) {
            options.tensor = Some(model_tensor_plan(model, devices)?);
        }
        Ok(ShardingPlan::new(module, mesh, &options)?)
    }

    fn trace(&self, model: &ModelConfig) -> Result<Module, GraphError> {
        let g = Graph::new("train_step");
        let infos = parameters(model);
        let slots = self.slots(&g, &infos)?;
        let batch = TensorType::new(DType::S32, [self.global_batch_size, self.block_size])?;
        let [ids, labels, factors] = INPUTS;
        let input_ids = g.argument(ids, batch.clone(), ArgumentKind::Batch);
        let labels = g.argument(labels, batch, ArgumentKind::Batch);
        let factors =
            g.argument(factors, TensorType::new(DType::F32, [adamw::FACTORS])?, ArgumentKind::Other);

        let loss = self.loss(&g, model, &slots, input_ids, labels)?;
        let wrt: Vec<Value> = slots.iter().map(|s| s.parameter).collect();
        let gradients = g.gradients(loss, &wrt, &|unit| self.recompute(&unit.path))?;
        let norm = global_norm(&g, &gradients)?;
        let gradients = match self.max_grad_norm {
            Some(max_norm) => clip(&g, &gradients, norm, max_norm)?,
            None => gradients,
        };

        let factors = Factors::new(&g, factors)?;
        let mut updated = Vec::with_capacity(slots.len());
        for ((info, slot), gradient) in infos.iter().zip(&slots).zip(gradients) {
            let decays = info.kind.decays();
            updated.push(adamw::update(&g, &self.optimizer, factors, *slot, gradient, decays)?);
        }
        let fields: [fn(&Slot) -> Value; 3] = [|s| s.parameter, |s| s.exp_avg, |s| s.exp_avg_sq];
        let names = infos.iter().map(|p| p.name.as_str());
        for (part, field) in fields.into_iter().enumerate() {
            for (index, (name, slot)) in names.clone().zip(&updated).enumerate() {
                let donor = part * infos.len() + index;
                g.donated_output(state_name(part, name), field(slot), donor);
            }
        }
        let both = [g.reshape(loss, &[1])?, g.reshape(norm, &[1])?];
        g.output("metrics", g.concatenate(&both, 0)?);
        Ok(g.finish())
    }

    /// What of the unit at `path` is computed again in the reverse pass. Parameters that are gathered in a wrapped unit
    /// are freed after it and gathered again, unless the policy keeps them.
    fn recompute(&self, path: &str) -> Recompute {
        let reshards = self.plan.strategy.reshards_after_forward() && !self.wrap.keeps_gathered(path);
        match (self.wrap.wraps(path), self.remat, reshards) {
            (false, ..) | (true, false, false) => Recompute::Nothing,
            (true, false, true) => Recompute::Weights,
            (true, true, false) => Recompute::Activations,
            (true, true, true) => Recompute::All,
        }
    }

    fn slots(&self, g: &Graph, infos: &[ParameterInfo]) -> Result<Vec<Slot>, GraphError> {
        let mut parts: Vec<Vec<Value>> = Vec::with_capacity(3);
        for part in 0..3 {
            let argument = |(index, info): (usize, &ParameterInfo)| {
                let kind = match part {
                    0 => ArgumentKind::Parameter,
                    _ => ArgumentKind::State { parameter: index },
                };
                let ty = TensorType::new(DType::F32, info.shape.clone())?;
                Ok(g.argument(state_name(part, &info.name), ty, kind))
            };
            parts.push(infos.iter().enumerate().map(argument).collect::<Result<_, GraphError>>()?);
        }
        let slot = |i| Slot { parameter: parts[0][i], exp_avg: parts[1][i], exp_avg_sq: parts[2][i] };
        Ok((0..infos.len()).map(slot).collect())
    }

    fn loss(
        &self,
        g: &Graph,
        model: &ModelConfig,
        slots: &[Slot],
        input_ids: Value,
        labels: Value,
    ) -> Result<Value, GraphError> {
        let mut used = Vec::with_capacity(slots.len());
        for slot in slots {
            // Without resharding, a parameter is gathered here, outside all units, and kept for the backward pass.
            let gathered_once = !self.plan.strategy.reshards_after_forward();
            used.push(if gathered_once { g.weight(slot.parameter)? } else { slot.parameter });
        }
        let mut used = used.into_iter();
        let weights = Weights::new(model, |_| used.next().expect("one for each parameter"));
        let loss = causal_loss(g, logits(g, &weights, input_ids)?, labels)?;
        let denominator = match self.loss_denominator {
            LossDenominator::Labels => loss.labels,
            LossDenominator::Targets => loss.targets,
        };
        g.div(loss.sum, denominator)
    }
}

/// The model's own plan, as rules.
fn model_tensor_plan(model: &ModelConfig, devices: usize) -> Result<TensorPlan, TensorError> {
    let rule = |(modules, style): (&str, TensorStyle)| TensorRule {
        modules: modules.parse().expect("models name their modules by words"),
        split: match style {
            TensorStyle::Colwise => TensorSplit::Colwise,
            TensorStyle::ColwiseGathered => TensorSplit::ColwiseGathered,
            TensorStyle::Rowwise => TensorSplit::Rowwise,
            TensorStyle::Replicated => TensorSplit::Replicated,
        },
    };
    Ok(TensorPlan { rules: tensor_plan(model, devices)?.into_iter().map(rule).collect() })
}

/// Names as PyTorch's optimizers give them to what they keep.
fn state_name(part: usize, parameter: &str) -> String {
    match part {
        0 => parameter.to_owned(),
        1 => format!("{parameter}.exp_avg"),
        _ => format!("{parameter}.exp_avg_sq"),
    }
}

/// The L2 norm over all gradients.
fn global_norm(g: &Graph, gradients: &[Value]) -> Result<Value, GraphError> {
    let mut total = g.full(DType::F32, &[], 0.0)?;
    for &gradient in gradients {
        let all: Vec<usize> = (0..g.dims(gradient).len()).collect();
        total = g.add(total, g.sum(g.mul(gradient, gradient)?, &all)?)?;
    }
    g.unary(Unary::Sqrt, total)
}

/// Scales gradients by `min(1, max_norm / (norm + 10⁻⁶))`, as `torch.nn.utils.clip_grad_norm_` does.
fn clip(g: &Graph, gradients: &[Value], norm: Value, max_norm: f64) -> Result<Vec<Value>, GraphError> {
    let ratio = g.div(g.full_like(norm, max_norm)?, g.offset(norm, 1e-6)?)?;
    let one = g.full_like(norm, 1.0)?;
    // A NaN must not come out as 1.
    let below = g.compare(Comparison::Greater, ratio, one)?;
    let factor = g.select(below, one, ratio)?;
    let scaled =
        |&gradient| g.binary(Binary::Multiply, gradient, g.broadcast_in_dim(factor, &g.dims(gradient), &[])?);
    gradients.iter().map(scaled).collect()
}

impl TrainStep {
    /// Plans, shards and compiles the step for a mesh.
    ///
    /// # Errors
    /// When no plan can be made, or the compiler refuses the program.
    pub fn compile(
        runtime: &Runtime,
        mesh: &Mesh,
        model: &ModelConfig,
        config: &StepConfig,
    ) -> Result<TrainStep, TrainError> {
        let module = config.module(model)?;
        let plan = config.sharding_plan(model, &module, mesh.shape())?;
        TrainStep::compile_planned(runtime, mesh, model, config, module, plan)
    }

    pub(crate) fn compile_planned(
        runtime: &Runtime,
        mesh: &Mesh,
        model: &ModelConfig,
        config: &StepConfig,
        module: VerifiedModule,
        plan: ShardingPlan,
    ) -> Result<TrainStep, TrainError> {
        let sharded = ShardedModule::from_plan(module, &plan, &config.wrap)?;
        let executable = runtime.compile(&sharded, mesh)?;
        Ok(TrainStep { executable, plan, parameters: parameters(model), optimizer: config.optimizer })
    }

    /// The compiled step.
    pub fn executable(&self) -> &Executable {
        &self.executable
    }

    /// Where its arguments lie.
    pub fn plan(&self) -> &ShardingPlan {
        &self.plan
    }

    /// The model's parameters, in the order of the state.
    pub fn parameters(&self) -> &[ParameterInfo] {
        &self.parameters
    }

    /// Starts a step and does not wait for it. The state is moved in and its memory used again; on an error it is gone.
    ///
    /// `input_ids` and `labels` are `s32[batch, position]`; a label of −100 is not predicted.
    ///
    /// # Errors
    /// When the batch is not of the program's type, or the plugin refuses.
    pub fn run(
        &self,
        runtime: &Runtime,
        state: TrainState,
        input_ids: &HostArray,
        labels: &HostArray,
        learning_rate: f64,
    ) -> Result<(TrainState, PendingMetrics), TrainError> {
        let factors = adamw::factors(&self.optimizer, learning_rate, state.step);
        let (step, arrays) = (state.step, state.into_arrays());
        let places = &self.executable.arguments()[arrays.len()..];
        let mut arguments: Vec<Argument<'_>> = arrays.into_iter().map(Argument::Donate).collect();
        for (place, host) in places.iter().zip([input_ids, labels, &factors]) {
            let array = ShardedArray::from_host(runtime, self.executable.mesh(), &place.sharding, host)?;
            arguments.push(Argument::Donate(array));
        }
        let mut outputs = self.executable.execute(arguments)?.outputs;
        let metrics = outputs.pop().expect("the program gives metrics");
        let state = TrainState::from_arrays(step + 1, self.parameters.len(), outputs);
        Ok((state, PendingMetrics(metrics)))
    }
}

impl PendingMetrics {
    /// Loss and gradient norm; waits for the step.
    ///
    /// # Errors
    /// When the step failed.
    pub fn read(&self) -> Result<(f64, f64), TrainError> {
        let metrics = self.0.to_host()?.to_f64();
        Ok((metrics[0], metrics[1]))
    }
}
