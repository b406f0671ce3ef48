//! FSDP inside a program from elsewhere: weights are gathered where they are used, gradients lie as their parameters.
//!
//! Where those are is seen from what goes where:
//!
//! - A *weight* is what has nothing in it but parameters that are split for storage: in another dtype, times a scalar,
//!   behind a barrier, in a loop that leaves them as they are, or that of one layer of many. It is gathered before the
//!   first op of each block that uses it, so that what a loop uses is gathered in the loop, slice by slice.
//! - What is elementwise on the way to a new parameter or state is the *update*, which needs shards only.
//! - What enters the update is a *gradient*, and lies as its parameter: each device needs no more than its part of the
//!   sum over the devices. In a loop that is the part which a turn writes.
//!
//! Nothing is pinned that the program or a rule pins.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::Serialize;
use shardwright_hlo::{ArgumentKind, Instruction, Location, Module, Op, Region, Role, ValueId};
use shardwright_mesh::NamedSharding;

use super::flow::{Flow, is_elementwise};
use super::update::Update;
use crate::rules::{Placement, Says};
use crate::{Decision, PlannedArgument, ShardRules, ShardingPlan};

/// What is pinned between the arguments and outputs of a program from elsewhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pins {
    /// What the program and rules about ops say: the rest is left to the compiler.
    Arguments,
    /// Besides, where parameters are split as FSDP does: weights where they are used, and gradients.
    #[default]
    Fsdp,
}

impl Pins {
    /// The word for it: `arguments` or `fsdp`.
    pub fn word(self) -> &'static str {
        match self {
            Pins::Arguments => "arguments",
            Pins::Fsdp => "fsdp",
        }
    }

    /// The one with this word.
    pub fn parse(word: &str) -> Option<Pins> {
        Pins::ALL.into_iter().find(|pins| pins.word() == word)
    }

    /// The words, for messages.
    pub fn wanted() -> String {
        Pins::ALL.map(Pins::word).join(" or ")
    }

    const ALL: [Pins; 2] = [Pins::Arguments, Pins::Fsdp];
}

/// How much FSDP pinned inside a program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PinCounts {
    /// Places where a weight is gathered.
    pub weights: usize,
    /// Gradients, or parts of gradients, that lie as their parameter.
    pub gradients: usize,
}

/// `pinned inside: 12 weights where they are used, 8 gradients`.
impl fmt::Display for PinCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let s = |count: usize| if count == 1 { "" } else { "s" };
        let PinCounts { weights, gradients } = *self;
        let they = if weights == 1 { "it is" } else { "they are" };
        write!(
            f,
            "pinned inside: {weights} weight{} where {they} used, {gradients} gradient{}",
            s(weights),
            s(gradients)
        )
    }
}

/// Pins what FSDP needs inside a program, but for what is `fixed`: values that lie where somebody else says.
pub(super) fn pin(
    module: &mut Module,
    plan: &ShardingPlan,
    rules: &ShardRules,
    fixed: &BTreeSet<ValueId>,
) -> (BTreeMap<ValueId, NamedSharding>, PinCounts) {
    let is_fsdp = |argument: &PlannedArgument| {
        let is_trained = matches!(argument.kind, ArgumentKind::Parameter | ArgumentKind::State { .. });
        is_trained && !argument.sharding.is_fully_replicated() && is_by_fsdp(plan, rules, &argument.decision)
    };
    if !plan.arguments().iter().any(|a| a.kind == ArgumentKind::Parameter && is_fsdp(a)) {
        return Default::default();
    }
    let mut pinning = {
        let mut flow = Flow::new(module, fixed);
        let outputs = module.outputs.iter().zip(plan.outputs());
        let mut kept = Vec::new();
        for (output, planned) in outputs {
            let Some(donor) = planned.donor.filter(|donor| is_fsdp(&plan.arguments()[*donor])) else {
                continue;
            };
            kept.push((output.value, planned.sharding.clone()));
            flow.train(module.arguments[donor].value, output.value);
        }
        let parameters = module.arguments.iter().zip(plan.arguments());
        let parameters = parameters.filter(|(_, a)| a.kind == ArgumentKind::Parameter && is_fsdp(a));
        let is_weight = flow.made_of(parameters.map(|(argument, _)| argument.value));
        let update = Update::of(&flow, kept, &is_weight);
        Pinning { is_weight, update, plan, pinned: BTreeMap::new(), counts: PinCounts::default() }
    };
    let mut functions = std::mem::take(&mut module.functions);
    let mut instructions = std::mem::take(&mut module.instructions);
    let arguments: Vec<Vec<ValueId>> = functions.iter().map(|f| f.body.arguments.clone()).collect();
    pinning.block(&mut instructions, module, &arguments);
    for function in &mut functions {
        pinning.block(&mut function.body.instructions, module, &arguments);
    }
    (module.functions, module.instructions) = (functions, instructions);
    (pinning.pinned, pinning.counts)
}

/// Whether it was FSDP's rule that chose the dim.
fn is_by_fsdp(plan: &ShardingPlan, rules: &ShardRules, decision: &Decision) -> bool {
    let is_auto = |text: &String| {
        let rule = rules.rules.iter().find(|rule| rule.text == *text);
        rule.is_some_and(|rule| matches!(rule.says, Says::Lies(Placement::Auto(_))))
    };
    match decision {
        Decision::Fsdp | Decision::FsdpPast { .. } => true,
        Decision::Rule(text) => is_auto(text),
        // What a state follows is a parameter, which follows nobody.
        Decision::Follows(index) => match &plan.arguments()[*index].decision {
            Decision::Rule(text) => is_auto(text),
            decision => matches!(decision, Decision::Fsdp | Decision::FsdpPast { .. }),
        },
        Decision::Stated | Decision::Batch | Decision::Whole => false,
    }
}

struct Pinning<'a> {
    is_weight: Vec<bool>,
    update: Update,
    plan: &'a ShardingPlan,
    pinned: BTreeMap<ValueId, NamedSharding>,
    counts: PinCounts,
}

impl Pinning<'_> {
    /// Pins what is in a block and in the blocks inside it. `functions` has the arguments of each function.
    fn block(&mut self, block: &mut Vec<Instruction>, module: &mut Module, functions: &[Vec<ValueId>]) {
        let mut gathered: BTreeMap<ValueId, ValueId> = BTreeMap::new();
        for mut instruction in std::mem::take(block) {
            if !matches!(instruction.op, Op::ManualComputation(_)) {
                for Region { instructions, .. } in &mut instruction.regions {
                    self.block(instructions, module, functions);
                }
            }
            for index in 0..instruction.operands.len() {
                let operand = instruction.operands[index];
                if self.uses_whole(&instruction, index, functions) {
                    let whole = gathered.entry(operand).or_insert_with(|| {
                        self.counts.weights += 1;
                        let rank = module.ty(operand).rank();
                        let place = NamedSharding::replicated(self.plan.mesh(), rank);
                        self.boundary(block, module, (operand, Role::Weight), instruction.location, place)
                    });
                    instruction.operands[index] = *whole;
                }
                let part = instruction
                    .results
                    .first()
                    .and_then(|result| self.update.parts.remove(&(operand, *result)));
                if let Some(place) = part {
                    self.counts.gradients += 1;
                    instruction.operands[index] = self.boundary(
                        block,
                        module,
                        (operand, Role::Constraint),
                        instruction.location,
                        place,
                    );
                }
            }
            let gradients = self.gradients(&mut instruction, module);
            block.push(instruction);
            block.extend(gradients);
        }
    }

    /// Whether an op uses a weight as it is, so that it has to be gathered.
    fn uses_whole(&self, instruction: &Instruction, index: usize, functions: &[Vec<ValueId>]) -> bool {
        let is_weight = |value: ValueId| self.is_weight.get(value.index()) == Some(&true);
        if !is_weight(instruction.operands[index]) {
            return false;
        }
        match &instruction.op {
            Op::Call(function) => !is_weight(functions[function.0 as usize][index]),
            Op::While => !is_weight(instruction.regions[1].arguments[index]),
            // It becomes less; or somebody else says where it lies.
            Op::Reduce { .. } | Op::Boundary(_) | Op::ManualComputation(_) => false,
            Op::OptimizationBarrier => !is_weight(instruction.results[index]),
            op if is_elementwise(op) && self.update.has(instruction) => false,
            _ => !instruction.results.iter().any(|result| is_weight(*result)),
        }
    }

    /// The boundaries behind an op that brings forth gradients.
    fn gradients(&mut self, instruction: &mut Instruction, module: &mut Module) -> Vec<Instruction> {
        let mut boundaries = Vec::new();
        for result in &mut instruction.results {
            let Some(mut places) = self.update.gradients.remove(result) else { continue };
            self.counts.gradients += 1;
            // The last boundary gives what the op gave, so that nothing else has to change.
            let last = std::mem::replace(result, module.new_value(module.values[result.index()].clone()));
            let place = places.pop();
            let mut value = *result;
            for place in places {
                value = self.boundary(
                    &mut boundaries,
                    module,
                    (value, Role::Constraint),
                    instruction.location,
                    place,
                );
            }
            boundaries.push(Instruction::boundary(Role::Constraint, value, last, instruction.location));
            self.pinned.extend(place.map(|place| (last, place)));
        }
        boundaries
    }

    /// Adds a boundary to a block; the value that it gives.
    fn boundary(
        &mut self,
        block: &mut Vec<Instruction>,
        module: &mut Module,
        (operand, role): (ValueId, Role),
        location: Location,
        place: NamedSharding,
    ) -> ValueId {
        let result = module.new_value(module.values[operand.index()].clone());
        block.push(Instruction::boundary(role, operand, result, location));
        self.pinned.insert(result, place);
        result
    }
}

#[cfg(test)]
mod tests;
