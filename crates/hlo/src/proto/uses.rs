//! Which arguments the results of a program depend on, besides those that it keeps.

use std::collections::HashSet;

use super::HloProgram;
use super::check::{self, EntryPoint};
use super::read::Module;

impl HloProgram {
    /// For each argument, whether an output that takes over no argument's memory depends on it.
    ///
    /// What an instruction gives depends on all that it is given, computations that it calls included; so the answer may
    /// be yes where it is no, and never the other way.
    pub fn needed_by_results(&self) -> Vec<bool> {
        let module = Module::read(self.module()).expect("the module was read before");
        let entry = check::check(&module).expect("the module was checked before");
        let outputs = &self.signature.outputs;
        let results = match entry.outputs() {
            Some(positions) => {
                let free = positions.into_iter().zip(outputs).filter(|(_, output)| output.donor.is_none());
                free.map(|(position, _)| position).collect()
            }
            // What makes up the tuple cannot be told apart.
            None => vec![entry.root],
        };
        needed(&entry, &results)
    }
}

fn needed(entry: &EntryPoint<'_, '_>, results: &[usize]) -> Vec<bool> {
    let mut needed: HashSet<u64> = results.iter().map(|&position| entry.instruction(position).id).collect();
    // Instructions use what was defined before them.
    for instruction in entry.computation.instructions.iter().rev() {
        if needed.contains(&instruction.id) {
            needed.extend(&instruction.operands);
        }
    }
    entry.parameters.iter().map(|(position, _)| needed.contains(&entry.instruction(*position).id)).collect()
}
