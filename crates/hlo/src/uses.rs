//! Which values instructions use, regions included, and the same instructions on other values.

use std::collections::HashSet;

use crate::{Instruction, Module, Region, ValueId};

impl Module {
    /// The instructions of the main function in order, each followed by those of its regions.
    pub fn all_instructions(&self) -> Vec<&Instruction> {
        let mut found = Vec::new();
        let mut open: Vec<&Instruction> = self.instructions.iter().rev().collect();
        while let Some(instruction) = open.pop() {
            found.push(instruction);
            let inner = instruction.regions.iter().flat_map(|region| &region.instructions);
            let from = open.len();
            open.extend(inner);
            open[from..].reverse();
        }
        found
    }
}

impl Instruction {
    /// The values that it uses: its operands, and what its regions use from around it; each once, in order of first
    /// use.
    pub fn uses(&self) -> Vec<ValueId> {
        let mut uses = Uses::default();
        uses.instruction(self);
        uses.found
    }

    /// Puts another value in place of each one that it names, in its regions too, where it is used and where it is
    /// defined.
    pub fn rename(&mut self, to: &mut dyn FnMut(ValueId) -> ValueId) {
        for value in self.operands.iter_mut().chain(&mut self.results) {
            *value = to(*value);
        }
        self.regions.iter_mut().for_each(|region| region.rename(to));
    }

    /// Tells of each value that it defines, those in its regions included.
    pub fn for_each_defined(&self, tell: &mut dyn FnMut(ValueId)) {
        self.results.iter().for_each(|&value| tell(value));
        for region in &self.regions {
            region.arguments.iter().for_each(|&value| tell(value));
            region.instructions.iter().for_each(|inner| inner.for_each_defined(tell));
        }
    }
}

impl Region {
    /// The values that it uses from around it; each once, in order of first use.
    pub fn uses(&self) -> Vec<ValueId> {
        let mut uses = Uses::default();
        uses.region(self);
        uses.found
    }

    /// Puts another value in place of each one that it names, where it is used and where it is defined.
    pub fn rename(&mut self, to: &mut dyn FnMut(ValueId) -> ValueId) {
        for value in self.arguments.iter_mut().chain(&mut self.results) {
            *value = to(*value);
        }
        self.instructions.iter_mut().for_each(|instruction| instruction.rename(to));
    }
}

#[derive(Default)]
struct Uses {
    /// What regions define themselves, and what was found.
    known: HashSet<ValueId>,
    found: Vec<ValueId>,
}

impl Uses {
    fn value(&mut self, value: ValueId) {
        if self.known.insert(value) {
            self.found.push(value);
        }
    }

    fn instruction(&mut self, instruction: &Instruction) {
        instruction.operands.iter().for_each(|&value| self.value(value));
        instruction.regions.iter().for_each(|region| self.region(region));
    }

    fn region(&mut self, region: &Region) {
        self.known.extend(&region.arguments);
        for instruction in &region.instructions {
            self.instruction(instruction);
            self.known.extend(&instruction.results);
        }
        region.results.iter().for_each(|&value| self.value(value));
    }
}

#[cfg(test)]
mod tests {
    use shardwright_tensor::{DType, TensorType};

    use super::*;
    use crate::{Binary, Location, Module, Op};

    /// `if c { x + x } else { y }`, and the values c, x, y, the sum and the result.
    fn branches() -> (Instruction, [ValueId; 5]) {
        let mut m = Module::new("m");
        let c = m.add_argument("c", TensorType::scalar(DType::Pred));
        let [x, y] = ["x", "y"].map(|name| m.add_argument(name, TensorType::scalar(DType::F32)));
        let sum = m.push(Op::Binary(Binary::Add), &[x, x]).unwrap()[0];
        let inner = m.instructions.pop().unwrap();
        let on_true = Region { arguments: vec![], instructions: vec![inner], results: vec![sum] };
        let on_false = Region { arguments: vec![], instructions: vec![], results: vec![y] };
        let result =
            m.push_with_regions(Op::If, &[c], vec![on_true, on_false], Location::default()).unwrap()[0];
        (m.instructions.pop().unwrap(), [c, x, y, sum, result])
    }

    #[test]
    fn what_regions_use_from_around_them_is_used() {
        let (instruction, [c, x, y, sum, result]) = branches();
        assert_eq!(instruction.uses(), [c, x, y]);
        assert_eq!(instruction.regions[0].uses(), [x]);
        let mut defined = Vec::new();
        instruction.for_each_defined(&mut |value| defined.push(value));
        assert_eq!(defined, [result, sum]);
    }

    #[test]
    fn all_instructions_are_those_of_regions_too() {
        let mut m = Module::new("m");
        let branches = branches().0;
        m.instructions = vec![branches.clone(), branches];
        let names: Vec<&str> = m.all_instructions().iter().map(|i| i.op.name()).collect();
        assert_eq!(names, ["if", "add", "if", "add"]);
    }

    #[test]
    fn renaming_reaches_into_regions() {
        let (mut instruction, [c, x, y, sum, result]) = branches();
        let shift = |value: ValueId| ValueId(value.0 + 10);
        instruction.rename(&mut |value| shift(value));
        assert_eq!(instruction.uses(), [c, x, y].map(shift));
        assert_eq!(instruction.results, [shift(result)]);
        assert_eq!(instruction.regions[0].results, [shift(sum)]);
    }
}
