//! What is known of a program before it is compiled: what an explanation holds the compiled one against.

use std::collections::{BTreeMap, BTreeSet};

use shardwright_hlo::{
    ArgumentInfo, ArgumentKind, Instruction, Module, Op, OutputInfo, Phase, Role, Signature, Unit, ValueId,
};
use shardwright_mesh::{AbstractMesh, AxisName, NamedSharding};
use shardwright_tensor::TensorType;

use crate::{ShardingPlan, Strategy, WrapPolicy};

/// A program as it was given to the compiler, and what was planned for it.
#[derive(Clone, Debug, PartialEq)]
pub struct Subject {
    /// The mesh that it was compiled for.
    pub mesh: AbstractMesh,
    /// What it takes, in order.
    pub arguments: Vec<SubjectArgument>,
    /// What it gives, in order.
    pub outputs: Vec<SubjectOutput>,
    /// The units that are gathered one by one, in the program's order; none where units are not known.
    pub units: Vec<SubjectUnit>,
    /// What FSDP should make of it; none for a program that is just sharded.
    pub fsdp: Option<Fsdp>,
}

/// What was planned for the parameters of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fsdp {
    /// The axis that parameters are split over; on a torus, those that it is made of, major to minor.
    pub axes: Vec<AxisName>,
    /// What is split.
    pub strategy: Strategy,
}

/// One argument of a program.
#[derive(Clone, Debug, PartialEq)]
pub struct SubjectArgument {
    /// Its name.
    pub name: String,
    /// Its global type.
    pub ty: TensorType,
    /// What is passed there.
    pub kind: ArgumentKind,
    /// Where it lies.
    pub sharding: NamedSharding,
    /// Whether the program brings it together again for the backward pass; none where that is not known before.
    pub gathers_again: Option<bool>,
}

/// One output of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubjectOutput {
    /// Its name.
    pub name: String,
    /// Its global type.
    pub ty: TensorType,
    /// The argument whose new value it is, as far as that is known: the one whose memory it takes over.
    pub updates: Option<usize>,
}

/// A wrapped unit of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubjectUnit {
    /// Where in the model: `model.layers.3`.
    pub path: String,
    /// What it is an instance of.
    pub class: String,
}

impl Subject {
    /// A program that a plan was made for, with the units that are wrapped.
    pub fn of_module(module: &Module, plan: &ShardingPlan, wrap: &WrapPolicy) -> Subject {
        let mut subject = Subject::of_plan(plan, &module.signature().outputs);
        let again = gathered_again(module);
        for (argument, known) in subject.arguments.iter_mut().zip(&module.arguments) {
            argument.gathers_again = Some(again.contains(&known.value));
        }
        let wrapped = module.units.iter().filter(|unit| wrap.wraps(&unit.path));
        let unit = |unit: &Unit| SubjectUnit { path: unit.path.clone(), class: unit.class.clone() };
        subject.units = wrapped.map(unit).collect();
        subject
    }

    /// A program from elsewhere that a plan was made for; its units are not known.
    pub fn of_plan(plan: &ShardingPlan, outputs: &[OutputInfo]) -> Subject {
        let argument = |a: &crate::PlannedArgument| SubjectArgument {
            name: a.name.clone(),
            ty: a.ty.clone(),
            kind: a.kind,
            sharding: a.sharding.clone(),
            gathers_again: None,
        };
        Subject {
            mesh: plan.mesh().clone(),
            arguments: plan.arguments().iter().map(argument).collect(),
            outputs: outputs.iter().map(SubjectOutput::new).collect(),
            units: Vec::new(),
            fsdp: plan.axis().map(|_| Fsdp { axes: plan.sub_axes.clone(), strategy: plan.strategy() }),
        }
    }

    /// A program that came with its shardings, one for each argument, and without a plan.
    pub fn of_signature(signature: &Signature, mesh: &AbstractMesh, shardings: &[NamedSharding]) -> Subject {
        let arguments = signature.arguments.iter().zip(shardings);
        let argument = |(argument, sharding): (&ArgumentInfo, &NamedSharding)| SubjectArgument {
            name: argument.name.clone(),
            ty: argument.ty.clone(),
            kind: argument.kind,
            sharding: sharding.clone(),
            gathers_again: None,
        };
        Subject {
            mesh: mesh.clone(),
            arguments: arguments.map(argument).collect(),
            outputs: signature.outputs.iter().map(SubjectOutput::new).collect(),
            units: Vec::new(),
            fsdp: None,
        }
    }

    /// The parameters: number and argument.
    pub(super) fn parameters(&self) -> impl Iterator<Item = (usize, &SubjectArgument)> {
        self.arguments.iter().enumerate().filter(|(_, a)| a.kind == ArgumentKind::Parameter)
    }

    /// The innermost unit that a parameter, or what is said of an op, belongs to.
    pub(super) fn unit_of(&self, name: &str) -> Option<&SubjectUnit> {
        self.units.iter().filter(|unit| is_in(name, &unit.path)).max_by_key(|unit| unit.path.len())
    }

    /// Whether what is said of an op is that it is in a unit, or in a module that has parameters.
    pub(super) fn is_of_model(&self, op_name: &str) -> bool {
        self.unit_of(op_name).is_some() || self.parameters().any(|(_, p)| is_in(&p.name, op_name))
    }

    /// In how many parts an argument stays while it is used: those over the axes that are not FSDP's.
    fn parts_in_use(&self, argument: &SubjectArgument) -> usize {
        let of_fsdp = |axis: &&AxisName| self.fsdp.as_ref().is_some_and(|fsdp| fsdp.axes.contains(axis));
        let others = argument.sharding.spec().axes().filter(|axis| !of_fsdp(axis));
        others.filter_map(|axis| self.mesh.axis_size(axis.as_str())).product::<usize>().max(1)
    }

    /// How many elements an argument has on a device that uses it.
    pub(super) fn elements_in_use(&self, argument: &SubjectArgument) -> usize {
        argument.ty.shape.element_count().div_ceil(self.parts_in_use(argument))
    }

    /// How many bytes those are.
    pub(super) fn bytes_in_use(&self, argument: &SubjectArgument) -> u64 {
        argument.ty.byte_count().div_ceil(self.parts_in_use(argument)) as u64
    }

    /// The axes of more than one device over which FSDP splits an argument, with their sizes, major to minor.
    pub(super) fn split_axes<'a>(
        &'a self,
        argument: &'a SubjectArgument,
    ) -> impl Iterator<Item = (&'a AxisName, usize)> {
        let of_fsdp = |axis: &&AxisName| self.fsdp.as_ref().is_some_and(|fsdp| fsdp.axes.contains(axis));
        let sized = |axis: &'a AxisName| Some((axis, self.mesh.axis_size(axis.as_str())?));
        let axes = argument.sharding.spec().axes().filter(of_fsdp);
        axes.filter_map(sized).filter(|(_, size)| *size > 1)
    }

    /// Whether FSDP splits an argument, so that it has to be gathered.
    pub(super) fn is_split(&self, argument: &SubjectArgument) -> bool {
        self.split_axes(argument).next().is_some()
    }

    /// How much travels when an argument is gathered over one axis after the other, in parts of the argument.
    pub(super) fn parts_gathered(&self, argument: &SubjectArgument) -> f64 {
        let part = |part: &mut f64, (_, size): (&AxisName, usize)| {
            let gathered = *part;
            *part /= size as f64;
            Some(gathered)
        };
        self.split_axes(argument).scan(1.0, part).sum::<f64>().max(1.0)
    }
}

impl SubjectOutput {
    fn new(output: &OutputInfo) -> SubjectOutput {
        SubjectOutput { name: output.name.clone(), ty: output.ty.clone(), updates: output.donor }
    }
}

/// The arguments whose weight is needed when their unit is computed again or in the backward pass.
fn gathered_again(module: &Module) -> BTreeSet<ValueId> {
    let needed = needed(module);
    // What values are that only pass through.
    let mut same: BTreeMap<ValueId, ValueId> = BTreeMap::new();
    let mut again = BTreeSet::new();
    for Instruction { op, operands, results, location, .. } in &module.instructions {
        if !matches!(op, Op::Boundary(_) | Op::OptimizationBarrier) {
            continue;
        }
        for (operand, &result) in operands.iter().zip(results) {
            let origin = same.get(operand).copied().unwrap_or(*operand);
            same.insert(result, origin);
            let is_again = *op == Op::Boundary(Role::Weight) && location.phase == Phase::Recompute;
            if is_again && needed.contains(&result) {
                again.insert(origin);
            }
        }
    }
    again
}

/// The values that outputs depend on: compilers leave the rest out.
fn needed(module: &Module) -> BTreeSet<ValueId> {
    fn all_operands(instruction: &Instruction, needed: &mut BTreeSet<ValueId>) {
        needed.extend(&instruction.operands);
        for region in &instruction.regions {
            needed.extend(&region.results);
            region.instructions.iter().for_each(|inner| all_operands(inner, needed));
        }
    }
    let mut needed: BTreeSet<ValueId> = module.outputs.iter().map(|output| output.value).collect();
    for instruction in module.instructions.iter().rev() {
        let Instruction { op, operands, results, .. } = instruction;
        if *op == Op::OptimizationBarrier {
            let pairs = operands.iter().zip(results);
            let through: Vec<ValueId> = pairs.filter(|(_, r)| needed.contains(r)).map(|(o, _)| *o).collect();
            needed.extend(through);
        } else if results.iter().any(|result| needed.contains(result)) {
            all_operands(instruction, &mut needed);
        }
    }
    needed
}

/// Whether something of this name is the module at `path` or inside it.
fn is_in(name: &str, path: &str) -> bool {
    name.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '/']))
}
