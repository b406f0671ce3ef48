//! What an explanation consists of.

use serde::{Serialize, Serializer};
use shardwright_hlo::compiled::CollectiveKind;
use shardwright_mesh::AbstractMesh;

/// What the compiler made of a sharded program.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Explanation {
    /// Name of the program.
    pub program: String,
    /// The mesh that it runs on, in order; serialized as text, `data=2, fsdp=4`.
    #[serde(serialize_with = "as_text")]
    pub mesh: AbstractMesh,
    /// Product of the axes.
    pub devices: usize,
    /// Whether it is what it should be, in a sentence.
    pub verdict: Verdict,
    /// What travels in one run of the program, by purpose and axes, against what FSDP needs.
    pub traffic: Vec<Traffic>,
    /// The units that the plan wraps, in the program's order; empty where units are not known.
    pub units: Vec<UnitReport>,
    /// The parameters, in the order of the arguments.
    pub parameters: Vec<ParameterReport>,
    /// Every collective, in the order in which the program runs them.
    pub collectives: Vec<ExplainedCollective>,
    /// Number of steps of the program, to which [`ExplainedCollective::position`] and [`MemoryPoint::position`] refer.
    pub steps: u64,
    /// What the memory of one device holds.
    pub memory: MemoryReport,
    /// What could not be found out, and why.
    pub notes: Vec<String>,
}

fn as_text<S: Serializer>(mesh: &AbstractMesh, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(mesh)
}

/// A judgement, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// How good it is.
    pub grade: Grade,
    /// Why, in a sentence.
    pub summary: String,
    /// What would make it better, where something would.
    pub next_step: Option<String>,
}

/// How a program, a unit or a parameter fares against the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Grade {
    /// Nothing was planned that could be lost.
    NotSharded,
    /// Gathered and reduced as the strategy says.
    AsPlanned,
    /// As planned in effect, at a higher price: a gradient summed whole and then cut, a weight gathered once too often.
    Costly,
    /// Something else than FSDP: activations travel in place of weights, or nothing gathers what is split.
    Lost,
}

/// One instruction that moves data between devices.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ExplainedCollective {
    /// The instruction's name in the optimized program.
    pub name: String,
    /// Which collective it is.
    #[serde(serialize_with = "kind_name")]
    pub kind: CollectiveKind,
    /// How often it runs in one run of the program.
    pub runs: Runs,
    /// When it runs (first): a step of the program, less than [`Explanation::steps`].
    pub position: u64,
    /// Whether other work can be done while it runs.
    pub is_async: bool,
    /// The mesh axes that it runs over; none if that is not known or it runs over no whole axes.
    pub axes: Option<Vec<String>>,
    /// The replica groups in HLO's spelling, shortened if long, where the program has any.
    pub groups: Option<String>,
    /// How many devices take part together, where that is known.
    pub group_size: Option<usize>,
    /// Bytes of the whole arrays, in one run: what a gather gives, a scatter takes, a sum has.
    pub array_bytes: u64,
    /// Bytes of the results in one run.
    pub result_bytes: u64,
    /// Bytes that each device sends in one run, by the ring algorithm.
    pub sent_bytes: u64,
    /// What it carries: one array, or several that the compiler joined into one exchange.
    pub pieces: Vec<Piece>,
}

/// How often something runs in one run of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Runs {
    /// How often; once per loop whose number of turns is not known.
    pub count: u64,
    /// Whether it is in a loop whose number of turns is not known.
    pub is_unknown: bool,
    /// Whether it is in a branch, so that `count` is the most there can be.
    pub is_conditional: bool,
}

/// One array that a collective carries.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Piece {
    /// What it is in HLO's spelling: `f32[344,128]`; the result on one device.
    #[serde(rename = "type")]
    pub ty: String,
    /// Bytes of the whole array.
    pub array_bytes: u64,
    /// What it is for.
    pub purpose: Purpose,
    /// The pass that it belongs to, where that is known.
    pub pass: Option<Pass>,
    /// What it comes from.
    pub cause: Cause,
    /// Where in the model it comes from, as far as the compiler carried that along.
    pub op_name: String,
    /// The source line, `file:line`, if known.
    pub source: Option<String>,
}

/// What an exchange is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// A parameter is brought together.
    Weight,
    /// A gradient is summed.
    Gradient,
    /// Optimizer state moves, which FSDP never needs.
    State,
    /// A value of the batch, such as token ids.
    Batch,
    /// Something that is computed from the batch and is split as the batch is, or its gradient.
    Activation,
    /// A few numbers, such as the parts of a norm or of a loss, or what an optimizer sums over one dim of a parameter.
    Scalar,
    /// None of these, as far as can be seen.
    Other,
}

/// The passes of a train step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Pass {
    /// The model as written.
    Forward,
    /// Forward a second time.
    Recompute,
    /// The gradient.
    Backward,
    /// What the optimizer does.
    Update,
}

/// What an array comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "of", content = "name")]
pub enum Cause {
    /// An argument of the program.
    Argument(String),
    /// The gradient of a parameter.
    GradientOf(String),
    /// An output of the program.
    Output(String),
    /// An op of the source program.
    Op(String),
    /// Not known.
    Unknown,
}

/// What travels in one run of the program for one purpose over the same axes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Traffic {
    /// What for.
    pub purpose: Purpose,
    /// The axes; none if unknown.
    pub axes: Option<Vec<String>>,
    /// What the strategy needs; none where there is no plan.
    pub predicted: Option<Volume>,
    /// What there is.
    pub actual: Volume,
    /// What makes the difference, item by item.
    pub differences: Vec<String>,
}

/// An amount of traffic in one run of the program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Volume {
    /// Arrays, counted as often as they travel.
    pub arrays: u64,
    /// Bytes of the whole arrays.
    pub array_bytes: u64,
    /// Bytes that each device sends, by the ring algorithm.
    pub sent_bytes: u64,
}

/// What became of one parameter.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ParameterReport {
    /// Number of the argument.
    pub argument: usize,
    /// Its name.
    pub name: String,
    /// Its global type: `f32[344,128]`.
    #[serde(rename = "type")]
    pub ty: String,
    /// Where it lies: `(fsdp, -)`.
    pub spec: String,
    /// Bytes of its shard.
    pub bytes_per_device: u64,
    /// The wrapped unit that it belongs to.
    pub unit: Option<String>,
    /// How often it is gathered in the forward pass.
    pub forward_gathers: u64,
    /// How often it is gathered in recomputation or the backward pass.
    pub backward_gathers: u64,
    /// How its gradient is summed.
    pub reduced: Reduced,
    /// What is to be said of it.
    pub verdict: Verdict,
}

/// How the gradient of a parameter is summed over devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reduced {
    /// By a reduce-scatter: each device gets its part.
    ReduceScatter,
    /// By an all-reduce of which each device keeps its part, or all if the parameter is whole.
    AllReduce,
    /// By an exchange of the parts among all devices (all-to-all), which each then sums.
    AllToAll,
    /// By steps of a loop that sends to neighbours.
    Ring,
    /// Not at all: the program has no gradient of it, or needs no sum.
    Nowhere,
}

/// What became of one wrapped unit.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct UnitReport {
    /// Where in the model: `model.layers.3`.
    pub path: String,
    /// What it is an instance of.
    pub class: String,
    /// How many of its parameters are split, and how many it has.
    pub parameters: (usize, usize),
    /// Bytes of its parameters as they are used: gathered.
    pub parameter_bytes: u64,
    /// Bytes of whole weights that are gathered for it in forward, and in recomputation and backward.
    pub gathered_bytes: (u64, u64),
    /// Bytes of whole gradients that are summed for it.
    pub reduced_bytes: u64,
    /// Bytes of activations that travel in it.
    pub activation_bytes: u64,
    /// What is to be said of it.
    pub verdict: Verdict,
}

/// What a program needs of the memory of one device, in bytes, as its compiler reports it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CompiledMemory {
    /// All arguments.
    pub arguments: u64,
    /// All results.
    pub outputs: u64,
    /// Results that take the place of donated arguments.
    pub aliased: u64,
    /// Everything in between.
    pub temporaries: u64,
    /// The most that is in use at one time; none from plugins that do not tell.
    pub peak: Option<u64>,
}

/// What the memory of one device holds in the course of the program.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MemoryReport {
    /// What the compiler reports, where it does.
    pub compiler: Option<CompiledMemory>,
    /// The most that is in use at one time, worked out from the program.
    pub estimated_peak: u64,
    /// That, divided by what the compiler reports as its peak or, lacking that, as its sum: the error of the method.
    pub ratio: Option<f64>,
    /// Where the most is in use: a step of the program.
    pub peak_position: u64,
    /// What is in use there, by class; each class once, those without bytes too.
    pub at_peak: Vec<ClassBytes>,
    /// What is in use over the course of the program: at most 512 points, each the largest of its stretch.
    pub series: Vec<MemoryPoint>,
    /// How the classes were worked out, and what that leaves out.
    pub method: String,
}

/// Bytes of one class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ClassBytes {
    /// The class.
    pub class: MemoryClass,
    /// How many bytes.
    pub bytes: u64,
}

/// What is in use at one step of the program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MemoryPoint {
    /// The step.
    pub position: u64,
    /// Bytes in use, by class in the order of [`MemoryClass::ALL`].
    pub bytes: [u64; MemoryClass::ALL.len()],
}

/// What memory is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MemoryClass {
    /// Parameters as they are kept.
    Parameters,
    /// Optimizer state.
    OptimizerState,
    /// The batch.
    Batch,
    /// Other arguments.
    OtherArguments,
    /// Parameters brought together for their use.
    GatheredWeights,
    /// Gradients of parameters.
    Gradients,
    /// What is computed from the batch.
    Activations,
    /// Results that do not take the place of arguments.
    Outputs,
    /// What is none of these as far as can be seen, such as what the optimizer computes.
    Other,
}

impl MemoryClass {
    /// All of them, in the order of charts and tables.
    pub const ALL: [MemoryClass; 9] = [
        MemoryClass::Parameters,
        MemoryClass::OptimizerState,
        MemoryClass::Batch,
        MemoryClass::OtherArguments,
        MemoryClass::GatheredWeights,
        MemoryClass::Gradients,
        MemoryClass::Activations,
        MemoryClass::Outputs,
        MemoryClass::Other,
    ];

    /// For people: `gathered weights`.
    pub fn name(self) -> &'static str {
        match self {
            MemoryClass::Parameters => "parameters",
            MemoryClass::OptimizerState => "optimizer state",
            MemoryClass::Batch => "batch",
            MemoryClass::OtherArguments => "other arguments",
            MemoryClass::GatheredWeights => "gathered weights",
            MemoryClass::Gradients => "gradients",
            MemoryClass::Activations => "activations",
            MemoryClass::Outputs => "outputs",
            MemoryClass::Other => "other",
        }
    }
}

fn kind_name<S: Serializer>(kind: &CollectiveKind, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(kind.name())
}
