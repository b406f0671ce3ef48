//! The explicit lowering: a plan written out as collectives.
//!
//! Annotated programs leave it to the compiler to find the gathers and scatters that a plan means. Here they are
//! written by hand: the whole program is one manual region, which works on the shards that a device holds.
//!
//! - A parameter is brought together where it is used, over one mesh axis after the other, the minor one first, since
//!   its blocks are neighbours. On a torus, compilers make real gathers of those and not of one over all axes.
//! - Its gradient is the transpose of that: scattered over the same axes, and summed over those that replicate it.
//! - The batch, and all that is worked out of it, is the device's own part.
//!
//! ```text
//! program of global arrays ── ShardingPlan ── Shards ──► program of shards, written anew
//!          └── arguments, outputs, donors ──────► ShardedModule::explicit ◄─────┘
//! ```

use std::collections::{BTreeSet, HashMap};

use shardwright_hlo::{
    Argument, ArgumentKind, AxisGroup, Instruction, Location, ManualComputation, Module, Op, Output, Region,
    SliceBounds, Unit, ValueId, VerifiedModule, verify,
};
use shardwright_mesh::{AxisName, NamedSharding};
use shardwright_tensor::TensorType;

use crate::{PlanError, ShardError, ShardedModule, ShardingPlan};

/// How a plan is written into a program. Both give the same numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Lowering {
    /// As shardings of arguments, outputs and boundaries. The compiler finds the collectives.
    #[default]
    Annotate,
    /// As collectives, in a program of one device's shards.
    Explicit,
}

/// A plan as one device sees it: what a program needs to know to work on shards.
#[derive(Clone, Debug)]
pub struct Shards<'p> {
    plan: &'p ShardingPlan,
    /// The axes of more than one device that the batch is split over.
    data: Vec<AxisName>,
}

impl Lowering {
    /// What measures best on a platform. The CPU's partitioner keeps FSDP, and joins what it gathers; the TPU's loses
    /// it on tori, where only gathers and scatters that are written by hand stay what they are.
    pub fn for_platform(platform: &str) -> Lowering {
        if platform == "tpu" { Lowering::Explicit } else { Lowering::Annotate }
    }
}

impl<'p> Shards<'p> {
    /// # Errors
    /// When a parameter is split over an axis along which all devices see the same examples: the gradient of what is
    /// gathered there is no sum.
    pub fn new(plan: &'p ShardingPlan) -> Result<Shards<'p>, PlanError> {
        let batches = plan.arguments().iter().filter(|a| a.kind == ArgumentKind::Batch);
        let used: BTreeSet<AxisName> = batches.flat_map(|a| wide_axes(&a.sharding)).collect();
        let data: Vec<AxisName> =
            plan.mesh().axis_names().filter(|axis| used.contains(*axis)).cloned().collect();
        for argument in plan.arguments() {
            if let Some(axis) = wide_axes(&argument.sharding).find(|axis| !data.contains(axis)) {
                let argument = argument.name.clone();
                return Err(PlanError::NotADataAxis { argument, axis });
            }
        }
        Ok(Shards { plan, data })
    }

    /// The type of a device's shard of the argument with this index, padding included.
    ///
    /// # Panics
    /// If there is no such argument.
    pub fn ty(&self, argument: usize) -> TensorType {
        let argument = &self.plan.arguments()[argument];
        let dims = argument.sharding.shard_shape(argument.ty.dims());
        let dims = dims.expect("a plan has shardings of its arguments' ranks");
        TensorType::new(argument.ty.dtype, dims).expect("a shard is no larger than the whole")
    }

    /// What makes the whole parameter of a device's shard of it, as ops of one operand, for use on the device's part of
    /// the batch.
    ///
    /// # Panics
    /// If there is no such argument.
    pub fn gathers(&self, parameter: usize) -> Vec<Op> {
        let parameter = &self.plan.arguments()[parameter];
        let split: Vec<AxisName> = wide_axes(&parameter.sharding).collect();
        let mut ops = Vec::new();
        let replicas = self.data.iter().filter(|axis| !split.contains(axis)).cloned();
        ops.extend(self.group(replicas).map(Op::Vary));
        for (dim, entry) in parameter.sharding.spec().dims().iter().enumerate() {
            for axis in entry.axes.iter().rev() {
                let group = self.group(split.iter().filter(|split| *split == axis).cloned());
                ops.extend(group.map(|axes| Op::AllGather { dim, axes }));
            }
        }
        let padded = self.plan.mesh().size() > 1 && parameter.padding_bytes > 0;
        ops.extend(padded.then(|| Op::Slice(whole(&parameter.ty))));
        ops
    }

    /// The devices whose parts make up the batch, if they are more than one.
    pub fn batch(&self) -> Option<AxisGroup> {
        self.group(self.data.iter().cloned())
    }

    /// The devices whose shards make up the argument with this index, if they are more than one.
    ///
    /// # Panics
    /// If there is no such argument.
    pub fn split(&self, argument: usize) -> Option<AxisGroup> {
        self.group(wide_axes(&self.plan.arguments()[argument].sharding))
    }

    fn group(&self, axes: impl IntoIterator<Item = AxisName>) -> Option<AxisGroup> {
        let group = AxisGroup::new(self.plan.mesh(), axes).expect("axes of the mesh, each once");
        (group.size() > 1).then_some(group)
    }
}

impl ShardedModule {
    /// A program of a device's shards, `body`, as the program of all devices: FSDP by hand.
    ///
    /// `program` is the same for global arrays. Of it are the names and types of arguments and outputs, and donors;
    /// arguments lie where the plan puts them, and outputs as [`ShardedModule::from_plan`] has them.
    ///
    /// # Errors
    /// When the plan is of another program, or `body` takes or gives anything else than shards of what `program`
    /// does.
    pub fn explicit(
        program: &VerifiedModule,
        plan: &ShardingPlan,
        body: Module,
    ) -> Result<ShardedModule, ShardError> {
        let (in_shardings, out_shardings) = plan.argument_and_output_shardings(program);
        let mut module = Module::new(program.name.clone());
        let mut operands = Vec::with_capacity(program.arguments.len());
        for argument in &program.arguments {
            let value = module.new_value(program.ty(argument.value).clone().into());
            module.arguments.push(Argument { value, ..argument.clone() });
            operands.push(value);
        }
        let manual = ManualComputation {
            in_shardings: in_shardings.clone(),
            out_shardings: out_shardings.clone(),
            manual_axes: plan.mesh().axis_names().cloned().collect(),
            results: program.outputs.iter().map(|o| program.ty(o.value).clone()).collect(),
        };
        let region = as_region(body, &mut module);
        let op = Op::ManualComputation(Box::new(manual));
        let results = module.push_with_regions(op, &operands, vec![region], Location::default())?;
        for (output, value) in program.outputs.iter().zip(results) {
            module.outputs.push(Output { value, ..output.clone() });
        }
        ShardedModule::new(verify(module)?, plan.mesh(), in_shardings, out_shardings)
    }
}

/// Moves a program into another one, as a region. Nothing can be pinned in it, so boundaries are left out.
fn as_region(body: Module, module: &mut Module) -> Region {
    let offset = module.values.len();
    let first = u32::try_from(offset).expect("a program has fewer than 2^32 values");
    module.values.extend(body.values);
    module.units.extend(body.units.into_iter().map(|unit| Unit { instructions: 0..1, ..unit }));
    let moved = |value: ValueId| ValueId(first + value.0);
    let mut same: HashMap<ValueId, ValueId> = HashMap::new();
    let mut instructions = Vec::with_capacity(body.instructions.len());
    let used = |same: &HashMap<ValueId, ValueId>, value| same.get(&value).copied().unwrap_or(moved(value));
    for instruction in body.instructions {
        let operands: Vec<ValueId> = instruction.operands.iter().map(|&v| used(&same, v)).collect();
        if let (Op::Boundary(_), [operand], [result]) =
            (&instruction.op, &operands[..], &instruction.results[..])
        {
            same.insert(*result, *operand);
            continue;
        }
        let results = instruction.results.iter().map(|&v| moved(v)).collect();
        instructions.push(Instruction { operands, results, ..instruction });
    }
    Region {
        arguments: body.arguments.iter().map(|a| moved(a.value)).collect(),
        instructions,
        results: body.outputs.iter().map(|o| used(&same, o.value)).collect(),
    }
}

/// The axes of more than one device that split an array, dim by dim, major to minor.
fn wide_axes(sharding: &NamedSharding) -> impl Iterator<Item = AxisName> {
    let wide = |axis: &&AxisName| sharding.mesh().axis_size(axis) > Some(1);
    sharding.spec().axes().filter(wide).cloned()
}

/// The bounds of an array that lies, padded, at the beginning of each dim.
fn whole(ty: &TensorType) -> SliceBounds {
    SliceBounds { starts: vec![0; ty.rank()], limits: ty.dims().to_vec(), strides: vec![1; ty.rank()] }
}
