//! What is known of a program before it is compiled: what an explanation holds the compiled one against.

use std::collections::{BTreeMap, BTreeSet};

use shardwright_hlo::{ArgumentKind, Instruction, Module, Op, Phase, Role, Unit, ValueId};
use shardwright_mesh::{AbstractMesh, AxisName, NamedSharding};
use shardwright_tensor::TensorType;

use super::turns::{Turns, turns};
use crate::shard::parameters_of;
use crate::{PlannedArgument, PlannedOutput, ShardingPlan, Strategy, WrapPolicy};

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
    /// The axes that parameters are split over, major to minor: one, or those of a torus that make it up.
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
    /// Whether the program gathers it a second time, for the backward pass; none where that cannot be told.
    pub gathers_again: Option<bool>,
    /// How often a run comes to it.
    pub turns: Turns,
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
        let again = gathered_again(module);
        let turns = turns(module);
        let mut subject = Subject::of_plan(plan);
        for (index, argument) in subject.arguments.iter_mut().enumerate() {
            argument.gathers_again = Some(again.contains(&index));
            argument.turns = turns[index];
        }
        let wrapped = module.units.iter().filter(|unit| wrap.wraps(&unit.path));
        let unit = |unit: &Unit| SubjectUnit { path: unit.path.clone(), class: unit.class.clone() };
        subject.units = wrapped.map(unit).collect();
        subject
    }

    /// A program from elsewhere that a plan was made for; its units are not known.
    pub fn of_plan(plan: &ShardingPlan) -> Subject {
        let argument = |a: &PlannedArgument| SubjectArgument {
            name: a.name.clone(),
            ty: a.ty.clone(),
            kind: a.kind,
            sharding: a.sharding.clone(),
            gathers_again: None,
            turns: Turns::ONCE,
        };
        let output =
            |o: &PlannedOutput| SubjectOutput { name: o.name.clone(), ty: o.ty.clone(), updates: o.donor };
        Subject {
            mesh: plan.mesh().clone(),
            arguments: plan.arguments().iter().map(argument).collect(),
            outputs: plan.outputs().iter().map(output).collect(),
            units: Vec::new(),
            fsdp: plan.axis().map(|_| Fsdp { axes: plan.sub_axes().to_vec(), strategy: plan.strategy() }),
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

    /// In how many parts an argument stays while it is used: those over the axes that are not FSDP's.
    fn parts_in_use(&self, argument: &SubjectArgument) -> usize {
        let others = argument.sharding.spec().axes().filter(|axis| !self.fsdp_axes().contains(axis));
        others.map(|axis| self.size(axis)).product::<usize>().max(1)
    }

    /// The axes that parameters are split over, if that was planned.
    pub(super) fn fsdp_axes(&self) -> &[AxisName] {
        self.fsdp.as_ref().map_or(&[], |fsdp| &fsdp.axes)
    }

    /// How many devices an axis has.
    pub(super) fn size(&self, axis: &AxisName) -> usize {
        self.mesh.axis_size(axis).unwrap_or(1)
    }

    /// How many elements an argument has on a device that uses it.
    pub(super) fn elements_in_use(&self, argument: &SubjectArgument) -> usize {
        argument.ty.shape.element_count().div_ceil(self.parts_in_use(argument))
    }

    /// How many bytes those are.
    pub(super) fn bytes_in_use(&self, argument: &SubjectArgument) -> u64 {
        argument.ty.byte_count().div_ceil(self.parts_in_use(argument)) as u64
    }

    /// Whether all arguments are split over axes of the batch only. Others, such as one that layers are split over, the
    /// [explicit lowering](crate::Lowering::Explicit) cannot gather over.
    pub(super) fn is_split_as_batches(&self) -> bool {
        let batches = || self.arguments.iter().filter(|a| a.kind == ArgumentKind::Batch);
        let is_of_batch =
            |axis: &AxisName| batches().any(|a| a.sharding.spec().axes().any(|used| used == axis));
        let mut axes = self.arguments.iter().flat_map(|a| a.sharding.spec().axes());
        axes.all(|axis| self.size(axis) == 1 || is_of_batch(axis))
    }

    /// Whether FSDP splits an argument, so that it has to be gathered.
    pub(super) fn is_split(&self, argument: &SubjectArgument) -> bool {
        self.split_axes(argument).next().is_some()
    }

    /// How much travels when an argument is gathered over one axis after the other, in parts of the argument.
    pub(super) fn parts_gathered(&self, argument: &SubjectArgument) -> f64 {
        let part = |part: &mut f64, axis: &AxisName| {
            let gathered = *part;
            *part /= self.size(axis) as f64;
            Some(gathered)
        };
        self.split_axes(argument).scan(1.0, part).sum::<f64>().max(1.0)
    }

    /// The axes of several devices over which FSDP splits an argument, major to minor.
    pub(super) fn split_axes<'a>(
        &'a self,
        argument: &'a SubjectArgument,
    ) -> impl Iterator<Item = &'a AxisName> {
        let axes = argument.sharding.spec().axes();
        axes.filter(|axis| self.fsdp_axes().contains(axis) && self.size(axis) > 1)
    }
}

/// The parameters that are gathered in recomputation, for something that an output needs.
fn gathered_again(module: &Module) -> BTreeSet<usize> {
    let needed = module.outputs.iter().map(|output| output.value).collect();
    let mut search = Search { parameters: parameters_of(module), needed, again: BTreeSet::new() };
    search.instructions(&module.instructions);
    search.again
}

struct Search {
    /// For each value that is a parameter, its argument.
    parameters: BTreeMap<ValueId, usize>,
    needed: BTreeSet<ValueId>,
    again: BTreeSet<usize>,
}

impl Search {
    fn instructions(&mut self, instructions: &[Instruction]) {
        for instruction in instructions.iter().rev() {
            if instruction.results.iter().any(|result| self.needed.contains(result)) {
                self.instruction(instruction);
            }
        }
    }

    fn instruction(&mut self, Instruction { op, operands, results, regions, location }: &Instruction) {
        if *op == Op::Boundary(Role::Weight) && location.phase == Phase::Recompute {
            self.again.extend(self.parameters.get(&results[0]));
        }
        // A barrier hands on each of its operands by itself.
        let barrier = *op == Op::OptimizationBarrier;
        for (index, &operand) in operands.iter().enumerate() {
            if !barrier || self.needed.contains(&results[index]) {
                self.needed.insert(operand);
            }
        }
        for region in regions {
            self.needed.extend(&region.results);
            self.instructions(&region.instructions);
        }
    }
}

/// Whether something of this name is the module at `path` or inside it.
pub(super) fn is_in(name: &str, path: &str) -> bool {
    name.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '/']))
}
