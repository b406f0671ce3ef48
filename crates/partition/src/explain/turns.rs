//! How often a run of a program comes to each of its parameters, where it goes through micro-batches in a loop.

use std::collections::BTreeMap;

use shardwright_hlo::{Binary, Comparison, Instruction, Module, Op, Role, ValueId};

use crate::shard::parameters_of;

/// How often a run comes to a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turns {
    /// How often a pass brings it together.
    pub gathered: u64,
    /// How often a part of its gradient is summed over the devices.
    pub reduced: u64,
}

impl Turns {
    /// Once each: a step over its whole batch.
    pub const ONCE: Turns = Turns { gathered: 1, reduced: 1 };
}

/// The turns of each argument. Rows count as parts of the whole: a loop over all rows comes to the array once.
pub(super) fn turns(module: &Module) -> Vec<Turns> {
    let all = module.all_instructions();
    let definers = all.iter().flat_map(|i| i.results.iter().map(|&result| (result, *i))).collect();
    let mut count = Count {
        module,
        definers,
        parameters: parameters_of(module),
        gathered: vec![None; module.arguments.len()],
        reduced: vec![None; module.arguments.len()],
    };
    count.instructions(&module.instructions, 1);
    let once = |turns: Option<u64>| turns.unwrap_or(1);
    count
        .gathered
        .into_iter()
        .zip(count.reduced)
        .map(|(gathered, reduced)| Turns { gathered: once(gathered), reduced: once(reduced) })
        .collect()
}

struct Count<'m> {
    module: &'m Module,
    /// What defines a value that is no argument.
    definers: BTreeMap<ValueId, &'m Instruction>,
    parameters: BTreeMap<ValueId, usize>,
    gathered: Vec<Option<u64>>,
    reduced: Vec<Option<u64>>,
}

impl Count<'_> {
    /// Counts what instructions do that run so often.
    fn instructions(&mut self, instructions: &[Instruction], runs: u64) {
        for instruction in instructions {
            match instruction.op {
                Op::Boundary(Role::Weight) => {
                    if let Some(&parameter) = self.parameters.get(&instruction.results[0]) {
                        let turns = self.turns(parameter, instruction.results[0], runs);
                        // What was brought together around a loop is not once more in it.
                        let known = &mut self.gathered[parameter];
                        *known = Some(known.map_or(turns, |known| known.min(turns)));
                    }
                }
                Op::Boundary(Role::Gradient { parameter } | Role::RowGradient { parameter }) => {
                    let turns = self.turns(parameter, instruction.results[0], runs);
                    let known = &mut self.reduced[parameter];
                    *known = (*known).max(Some(turns));
                }
                _ => {}
            }
            let trips = self.trips(instruction).unwrap_or(1);
            for region in &instruction.regions {
                self.instructions(&region.instructions, runs.saturating_mul(trips));
            }
        }
    }

    /// How often the parameter is come to whole, if `value` is it or a part of it.
    fn turns(&self, parameter: usize, value: ValueId, runs: u64) -> u64 {
        let whole = self.module.ty(self.module.arguments[parameter].value);
        whole_turns(whole.dims(), self.module.ty(value).dims(), runs)
    }

    /// How often a loop runs that counts from 0 to a constant.
    fn trips(&self, instruction: &Instruction) -> Option<u64> {
        let (Op::While, [condition, body]) = (&instruction.op, &instruction.regions[..]) else {
            return None;
        };
        let compare = self.definers.get(condition.results.first()?)?;
        let (Op::Compare(Comparison::Less), [counter, end]) = (&compare.op, &compare.operands[..]) else {
            return None;
        };
        let index = condition.arguments.iter().position(|argument| argument == counter)?;
        let next = self.definers.get(&body.results[index])?;
        let counts = next.op == Op::Binary(Binary::Add)
            && next.operands[0] == body.arguments[index]
            && self.number(next.operands[1]) == Some(1.0);
        let starts = self.number(instruction.operands[index]) == Some(0.0);
        self.number(*end).filter(|end| counts && starts && *end >= 1.0).map(|end| end as u64)
    }

    /// The number that a scalar constant is.
    fn number(&self, value: ValueId) -> Option<f64> {
        let definer = self.definers.get(&value)?;
        let (Op::Constant(constant) | Op::Splat { element: constant, .. }) = &definer.op else { return None };
        (constant.dims().is_empty()).then(|| constant.to_f64()[0])
    }
}

/// How often runs that come to a row of an array, or to a row of one, have come to all of it.
fn whole_turns(whole: &[usize], row: &[usize], runs: u64) -> u64 {
    let rows: usize = whole.strip_suffix(row).unwrap_or_default().iter().product();
    (runs / rows.max(1) as u64).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_and_rows_of_rows_are_parts_of_the_whole() {
        assert_eq!(whole_turns(&[4, 8], &[4, 8], 5), 5);
        assert_eq!(whole_turns(&[3, 4, 8], &[4, 8], 6), 2);
        assert_eq!(whole_turns(&[2, 3, 4, 8], &[4, 8], 6), 1);
        assert_eq!(whole_turns(&[16], &[], 16), 1);
        assert_eq!(whole_turns(&[4, 8], &[8, 4], 5), 5);
    }
}
