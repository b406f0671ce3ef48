//! Which values depend on those that gradients are wanted of.

use std::collections::{HashMap, HashSet};

use shardwright_hlo::{Instruction, Module, Op, ValueId};

use crate::Graph;

/// For each value, whether it depends on one that gradients are wanted of. What a reverse pass adds does not, unless
/// it is said to.
pub(crate) struct Dependent(Vec<bool>);

impl Dependent {
    /// Finds what depends on `wrt` in the regions that are open, `code` from the inside out.
    pub(crate) fn find(g: &Graph, wrt: &[ValueId], code: &[Vec<Instruction>]) -> Dependent {
        let module = g.module.borrow();
        let mut known = Dependent(vec![false; module.values.len()]);
        for value in wrt {
            known.0[value.index()] = true;
        }
        let mut search = Search { module: &module, detached: &g.detached.borrow(), known };
        code.iter().rev().for_each(|region| search.instructions(region));
        search.known
    }

    pub(crate) fn has(&self, value: ValueId) -> bool {
        self.0.get(value.index()).copied().unwrap_or(false)
    }

    /// Copies depend on what their originals depend on; there are `count` values by now.
    pub(crate) fn inherit(&mut self, copies: &HashMap<ValueId, ValueId>, count: usize) {
        self.0.resize(count, false);
        for (original, copy) in copies {
            self.0[copy.index()] = self.has(*original);
        }
    }
}

struct Search<'m> {
    module: &'m Module,
    detached: &'m HashSet<ValueId>,
    known: Dependent,
}

impl Search<'_> {
    fn instructions(&mut self, instructions: &[Instruction]) {
        instructions.iter().for_each(|instruction| self.instruction(instruction));
    }

    fn instruction(&mut self, instruction: &Instruction) {
        if let Op::While = instruction.op {
            return self.while_loop(instruction);
        }
        for region in &instruction.regions {
            self.instructions(&region.instructions);
        }
        if instruction.uses().iter().any(|&value| self.known.has(value)) {
            instruction.results.iter().for_each(|&result| self.mark(result));
        }
    }

    /// What is carried around depends on what any iteration makes of it.
    fn while_loop(&mut self, instruction: &Instruction) {
        let body = &instruction.regions[1];
        self.mark_like(&instruction.operands, &body.arguments);
        loop {
            self.instructions(&body.instructions);
            if !self.mark_like(&body.results, &body.arguments) {
                break;
            }
        }
        self.mark_like(&body.arguments, &instruction.results);
    }

    /// Marks those of `to` whose counterparts are marked, and tells whether that was news.
    fn mark_like(&mut self, from: &[ValueId], to: &[ValueId]) -> bool {
        let mut news = false;
        for (&from, &to) in from.iter().zip(to) {
            if self.known.has(from) && !self.known.has(to) {
                self.mark(to);
                news |= self.known.has(to);
            }
        }
        news
    }

    fn mark(&mut self, value: ValueId) {
        let float = self.module.ty(value).dtype.is_float();
        self.known.0[value.index()] |= float && !self.detached.contains(&value);
    }
}
