//! Writing instructions again.

use std::collections::{HashMap, HashSet};

use shardwright_hlo::{Instruction, Phase, ValueId};

use crate::Graph;
use crate::scan::Scan;

impl Graph {
    /// Writes an instruction again, in the phase [`Phase::Recompute`] of its unit. It uses `copies` in place of what they
    /// are copies of, and adds to them those of what it defines.
    pub(crate) fn write_again(&self, instruction: &Instruction, copies: &mut HashMap<ValueId, ValueId>) {
        let mut copy = instruction.clone();
        let mut defined = Vec::new();
        copy.for_each_defined(&mut |value| defined.push(value));
        for &value in &defined {
            copies.insert(value, self.new_value(self.ty(value)));
        }
        copy.rename(&mut |value| copies.get(&value).copied().unwrap_or(value));
        as_recomputed(&mut copy);
        self.module.borrow_mut().instructions.push(copy);

        let also = |set: &mut HashSet<ValueId>| {
            let known: Vec<ValueId> = defined.iter().filter(|v| set.contains(v)).map(|v| copies[v]).collect();
            set.extend(known);
        };
        also(&mut self.detached.borrow_mut());
        also(&mut self.assembly.borrow_mut());
        defined.iter().for_each(|value| self.same_cotangent_dtype(*value, copies[value]));
        let mut scans = self.scans.borrow_mut();
        for value in defined {
            if let Some(scan) = scans.get(&value).map(|scan| scan.copied(copies)) {
                scans.insert(copies[&value], scan);
            }
        }
    }
}

fn as_recomputed(instruction: &mut Instruction) {
    instruction.location.phase = Phase::Recompute;
    instruction.regions.iter_mut().flat_map(|region| &mut region.instructions).for_each(as_recomputed);
}

impl Scan {
    /// The same loop, written again.
    fn copied(&self, copies: &HashMap<ValueId, ValueId>) -> Scan {
        let all = |values: &[ValueId]| values.iter().map(|v| copies.get(v).copied().unwrap_or(*v)).collect();
        Scan { xs: all(&self.xs), slices: all(&self.slices), ys: all(&self.ys), ..self.clone() }
    }
}
