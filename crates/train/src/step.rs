//! One optimizer step as one program: forward, backward, clipping, update.

use shardwright_graph::{Graph, GraphError, Recompute, Value};
use shardwright_hlo::{ArgumentKind, Binary, Comparison, Module, Unary, VerifiedModule, verify};
use shardwright_mesh::{AbstractMesh, Mesh};
use shardwright_model::{
    ModelConfig, ParameterInfo, TensorError, TensorStyle, Weights, causal_loss, logits, parameters,
    tensor_plan,
};
use shardwright_partition::{
    Lowering, PlanOptions, ShardedModule, ShardingPlan, Shards, TENSOR_AXIS, TensorPlan, TensorRule,
    TensorSplit, WrapPolicy,
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
    /// How that is written into the program.
    pub lowering: Lowering,
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
        Ok(verify(self.trace(model, None)?)?)
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

    /// The program that compilers are given for [`StepConfig::module`] and a plan of it.
    ///
    /// # Errors
    /// When the plan is of another program, or one that the lowering cannot write.
    pub fn lower(
        &self,
        model: &ModelConfig,
        module: VerifiedModule,
        plan: &ShardingPlan,
    ) -> Result<ShardedModule, TrainError> {
        match self.lowering.shards(plan)? {
            None => Ok(ShardedModule::from_plan(module, plan, &self.wrap)?),
            Some(shards) => {
                let body = self.trace(model, Some(&shards))?;
                Ok(ShardedModule::explicit(&module, plan, body)?)
            }
        }
    }

    /// Writes the step: over global arrays, or over the shards that one device has of them.
    fn trace(&self, model: &ModelConfig, shards: Option<&Shards<'_>>) -> Result<Module, GraphError> {
        let g = Graph::new("train_step");
        let infos = parameters(model);
        let slots = self.slots(&g, &infos, shards)?;
        let batch = TensorType::new(DType::S32, [self.global_batch_size, self.block_size])?;
        let numbers = TensorType::new(DType::F32, [adamw::FACTORS])?;
        let types = [
            (batch.clone(), ArgumentKind::Batch),
            (batch, ArgumentKind::Batch),
            (numbers, ArgumentKind::Other),
        ];
        let argument = |index: usize| {
            let (ty, kind) = types[index].clone();
            let ty = shards.map_or(ty, |shards| shards.ty(3 * infos.len() + index));
            g.argument(INPUTS[index], ty, kind)
        };
        let [input_ids, labels, factors] = [0, 1, 2].map(argument);

        let loss = self.loss(&g, model, &slots, [input_ids, labels], shards)?;
        let wrt: Vec<Value> = slots.iter().map(|s| s.parameter).collect();
        let gradients = g.gradients(loss, &wrt, &|unit| self.recompute(&unit.path))?;
        let norm = global_norm(&g, &gradients, shards)?;
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

    fn slots(
        &self,
        g: &Graph,
        infos: &[ParameterInfo],
        shards: Option<&Shards<'_>>,
    ) -> Result<Vec<Slot>, GraphError> {
        let mut parts: Vec<Vec<Value>> = Vec::with_capacity(3);
        for part in 0..3 {
            let argument = |(index, info): (usize, &ParameterInfo)| {
                let kind = match part {
                    0 => ArgumentKind::Parameter,
                    _ => ArgumentKind::State { parameter: index },
                };
                let ty = match shards {
                    Some(shards) => shards.ty(part * infos.len() + index),
                    None => TensorType::new(DType::F32, info.shape.clone())?,
                };
                let value = g.argument(state_name(part, &info.name), ty, kind);
                if let (0, Some(shards)) = (part, shards) {
                    g.stored_as(value, shards.gathers(index));
                }
                Ok(value)
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
        [input_ids, labels]: [Value; 2],
        shards: Option<&Shards<'_>>,
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
        let over_batch = |part| match shards.and_then(Shards::batch) {
            Some(devices) => g.all_reduce(part, devices),
            None => Ok(part),
        };
        g.div(over_batch(loss.sum)?, g.convert(over_batch(denominator)?, DType::F32)?)
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

/// The L2 norm over all gradients. What devices hold in parts is summed over them, what all hold is counted once.
fn global_norm(g: &Graph, gradients: &[Value], shards: Option<&Shards<'_>>) -> Result<Value, GraphError> {
    let mut totals = vec![(None, g.full(DType::F32, &[], 0.0)?)];
    for (parameter, &gradient) in gradients.iter().enumerate() {
        let all: Vec<usize> = (0..g.dims(gradient).len()).collect();
        let square = g.sum(g.mul(gradient, gradient)?, &all)?;
        let devices = shards.and_then(|shards| shards.split(parameter));
        match totals.iter_mut().find(|(known, _)| *known == devices) {
            Some((_, total)) => *total = g.add(*total, square)?,
            None => totals.push((devices, square)),
        }
    }
    let mut sum = totals[0].1;
    for (devices, total) in totals {
        if let Some(devices) = devices {
            sum = g.add(sum, g.all_reduce(total, devices)?)?;
        }
    }
    g.unary(Unary::Sqrt, sum)
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
        let (mesh, plan) = config.on_torus(runtime, mesh.clone(), plan)?;
        TrainStep::compile_planned(runtime, &mesh, model, config, module, plan)
    }

    pub(crate) fn compile_planned(
        runtime: &Runtime,
        mesh: &Mesh,
        model: &ModelConfig,
        config: &StepConfig,
        module: VerifiedModule,
        plan: ShardingPlan,
    ) -> Result<TrainStep, TrainError> {
        let sharded = config.lower(model, module, &plan)?;
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
