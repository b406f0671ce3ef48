//! The update of parameters and states: what is computed elementwise from shards, and where gradients enter it.

use std::collections::{BTreeMap, BTreeSet};

use shardwright_hlo::{Instruction, Op, ValueId};
use shardwright_mesh::{DimSharding, NamedSharding, PartitionSpec};

use super::flow::{Flow, Origin, is_elementwise};

/// What is known of the update of a program's parameters and states.
#[derive(Default)]
pub(super) struct Update {
    /// What enters from outside, with where it should lie: one place after the other.
    pub(super) gradients: BTreeMap<ValueId, Vec<NamedSharding>>,
    /// What is written into a part of a gradient, such as that of one layer of many: by the written array, and the
    /// result it is written into.
    pub(super) parts: BTreeMap<(ValueId, ValueId), NamedSharding>,
    /// First results of the ops that shards go through.
    ops: BTreeSet<ValueId>,
}

impl Update {
    /// Follows outputs back, each a value with where it lies, to where their gradients come from. `is_weight` says of
    /// each value whether it is a parameter.
    ///
    /// A function is looked into for those of its calls that belong to the update; nothing inside one is pinned that is
    /// called from elsewhere too. What would have to lie in two places is left to the compiler.
    pub(super) fn of(flow: &Flow<'_>, outputs: Vec<(ValueId, NamedSharding)>, is_weight: &[bool]) -> Update {
        let mut walk =
            Walk { flow, is_weight, places: BTreeMap::new(), calls: BTreeSet::new(), rest: Vec::new() };
        walk.rest.extend(outputs.into_iter().map(|(value, place)| (value, Some(place))));
        walk.run();
        walk.finish()
    }

    /// Whether shards go through an op.
    pub(super) fn has(&self, instruction: &Instruction) -> bool {
        instruction.results.first().is_some_and(|result| self.ops.contains(result))
    }
}

struct Walk<'a, 'm> {
    flow: &'a Flow<'m>,
    is_weight: &'a [bool],
    /// Where the values of the update lie; none where that is two places.
    places: BTreeMap<ValueId, Option<NamedSharding>>,
    /// First results of the calls that belong to the update.
    calls: BTreeSet<ValueId>,
    rest: Vec<(ValueId, Option<NamedSharding>)>,
}

impl Walk<'_, '_> {
    fn run(&mut self) {
        // A value changes twice at most: to a place, and to none.
        while let Some((value, place)) = self.rest.pop() {
            if self.is_weight[value.index()] || self.flow.is_fixed(value) {
                continue;
            }
            let place = match self.places.get(&value) {
                None => place,
                Some(known) if *known == place || known.is_none() => continue,
                Some(_) => None,
            };
            self.places.insert(value, place.clone());
            self.go_on(value, &place);
        }
    }

    /// Goes on to what a value comes from, where that lies as it does.
    fn go_on(&mut self, value: ValueId, place: &Option<NamedSharding>) {
        match self.flow.origin(value) {
            Origin::Outside | Origin::Carried { .. } => {}
            Origin::FunctionArgument { function, index } => {
                let calls = self.flow.calls(function).iter().filter(|call| self.has_call(call));
                let next: Vec<_> = calls.map(|call| (call.operands[index], place.clone())).collect();
                self.rest.extend(next);
            }
            Origin::Result { of, index } => {
                self.enter(of);
                let next = self.before(of, index).unwrap_or_default();
                self.rest.extend(next.into_iter().map(|value| (value, place.clone())));
            }
        }
    }

    /// Notes that a call belongs to the update: what it passes lies as what the function takes.
    fn enter(&mut self, call: &Instruction) {
        let Some((_, body)) = self.flow.body(&call.op) else { return };
        if self.calls.insert(call.results[0]) {
            for (argument, operand) in body.arguments.iter().zip(&call.operands) {
                let known = self.places.get(argument);
                self.rest.extend(known.map(|place| (*operand, place.clone())));
            }
        }
    }

    /// What a result of an op is computed from, where that lies as the result does; none where the op brings forth
    /// something new.
    fn before(&self, of: &Instruction, index: usize) -> Option<Vec<ValueId>> {
        match &of.op {
            op if is_elementwise(op) => {
                let is_alike = |operand: &ValueId| self.flow.dims(*operand) == self.flow.dims(of.results[0]);
                Some(of.operands.iter().copied().filter(is_alike).collect())
            }
            Op::OptimizationBarrier | Op::Boundary(_) => Some(vec![of.operands[index]]),
            Op::DynamicUpdateSlice => Some(vec![of.operands[0]]),
            Op::While => Some(vec![of.operands[index], of.regions[1].results[index]]),
            Op::If | Op::Case => Some(of.regions.iter().map(|region| region.results[index]).collect()),
            Op::Constant(_) | Op::Splat { .. } | Op::Iota { .. } | Op::BroadcastInDim { .. } => {
                Some(Vec::new())
            }
            op => self.flow.body(op).map(|(_, body)| vec![body.results[index]]),
        }
    }

    fn finish(self) -> Update {
        let mut update = Update::default();
        let shared = self.shared();
        for (&value, place) in &self.places {
            let Origin::Result { of, index } = self.flow.origin(value) else { continue };
            if is_elementwise(&of.op) || matches!(of.op, Op::OptimizationBarrier) {
                update.ops.insert(of.results[0]);
            }
            let Some(place) = place else { continue };
            if self.flow.function_of(value).is_some_and(|function| shared[function]) {
                continue;
            }
            let is_opaque = self.flow.body(&of.op).is_some_and(|(callee, _)| shared[callee]);
            // What comes out of a loop lies as what the loop puts together.
            let is_of_loop = of.op == Op::While && !self.flow.is_trained(of, index);
            if is_opaque || is_of_loop || self.before(of, index).is_none() {
                update.gradients.insert(value, places_of(of, place));
            }
            if of.op == Op::DynamicUpdateSlice
                && let Some(part) = part_of(self.flow, of, place)
            {
                update.parts.insert((of.operands[1], of.results[0]), part);
            }
        }
        update
    }

    fn has_call(&self, call: &Instruction) -> bool {
        call.results.first().is_some_and(|result| self.calls.contains(result))
    }

    /// For each function, whether it is called from elsewhere too.
    fn shared(&self) -> Vec<bool> {
        let is_shared = |calls: &Vec<&Instruction>| calls.iter().any(|call| !self.has_call(call));
        self.flow.all_calls().iter().map(is_shared).collect()
    }
}

/// Where a gradient lies. What is added into the rows of a table is summed over the devices first: else the compiler
/// would bring all activations to the devices of their rows.
fn places_of(of: &Instruction, place: &NamedSharding) -> Vec<NamedSharding> {
    let is_split = |dim: &usize| place.spec().dims().get(*dim).is_some_and(|dim| !dim.axes.is_empty());
    match &of.op {
        Op::Scatter { dims, .. } if dims.index_map.iter().any(is_split) => {
            vec![NamedSharding::replicated(place.mesh(), place.spec().rank()), place.clone()]
        }
        _ => vec![place.clone()],
    }
}

/// Where what is written into a part of an array lies, if the array is split on dims only that it spans.
fn part_of(flow: &Flow<'_>, of: &Instruction, place: &NamedSharding) -> Option<NamedSharding> {
    let (whole, part) = (flow.dims(of.results[0])?, flow.dims(of.operands[1])?);
    let dims = place.spec().dims().iter().zip(whole.iter().zip(part));
    let dims: Vec<DimSharding> = dims
        .map(|(dim, (all, some))| if all == some { dim.clone() } else { DimSharding::default() })
        .collect();
    let spec = PartitionSpec::new(dims);
    spec.axes().next()?;
    NamedSharding::new(place.mesh(), spec).ok()
}
