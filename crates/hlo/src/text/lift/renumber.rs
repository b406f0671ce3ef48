//! Values left out, and the others numbered anew, and so the sources of instructions.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::{Instruction, Module, Position, Region, SourceId, StatedSharding, ValueId};

/// Takes the instructions that define only `dropped` values out of a program, in which nothing uses them, and the values
/// out of what is known of them.
pub(super) fn without(
    module: &mut Module,
    stated: &mut BTreeMap<ValueId, StatedSharding>,
    positions: &mut Vec<Position>,
    dropped: &HashSet<ValueId>,
) {
    let mut numbers = Vec::with_capacity(module.values.len());
    let mut next = 0;
    for index in 0..module.values.len() {
        numbers.push(ValueId(next));
        next += u32::from(!dropped.contains(&old(index)));
    }
    let map = Renumbering { dropped, numbers };
    retain(&mut module.values, dropped);
    retain(positions, dropped);
    module.arguments.iter_mut().for_each(|argument| map.value(&mut argument.value));
    map.instructions(&mut module.instructions);
    module.outputs.iter_mut().for_each(|output| map.value(&mut output.value));
    module.functions.iter_mut().for_each(|function| map.region(&mut function.body));
    let kept = std::mem::take(stated).into_iter().filter(|(value, _)| !dropped.contains(value));
    *stated = kept.map(|(value, sharding)| (map.numbers[value.index()], sharding)).collect();
    used_sources(module);
}

/// Leaves what belongs to dropped values out of a list with one item for each.
fn retain<T>(list: &mut Vec<T>, dropped: &HashSet<ValueId>) {
    let mut index = 0;
    list.retain(|_| {
        index += 1;
        !dropped.contains(&old(index - 1))
    });
}

/// Leaves the sources out that no instruction is from any more.
fn used_sources(module: &mut Module) {
    fn collect(
        instructions: &mut [Instruction],
        old: &mut [String],
        new: &mut Vec<String>,
        known: &mut HashMap<SourceId, SourceId>,
    ) {
        for instruction in instructions {
            for region in &mut instruction.regions {
                collect(&mut region.instructions, old, new, known);
            }
            let source = &mut instruction.location.source;
            *source = source.map(|id| {
                *known.entry(id).or_insert_with(|| {
                    new.push(std::mem::take(&mut old[id.0 as usize]));
                    SourceId(u32::try_from(new.len() - 1).expect("there were as many before"))
                })
            });
        }
    }
    let (mut old, mut new, mut known) = (std::mem::take(&mut module.sources), Vec::new(), HashMap::new());
    collect(&mut module.instructions, &mut old, &mut new, &mut known);
    for function in &mut module.functions {
        collect(&mut function.body.instructions, &mut old, &mut new, &mut known);
    }
    module.sources = new;
}

fn old(index: usize) -> ValueId {
    ValueId(u32::try_from(index).expect("a program has fewer than 2^32 values"))
}

struct Renumbering<'a> {
    dropped: &'a HashSet<ValueId>,
    numbers: Vec<ValueId>,
}

impl Renumbering<'_> {
    fn value(&self, value: &mut ValueId) {
        *value = self.numbers[value.index()];
    }

    fn values(&self, values: &mut [ValueId]) {
        values.iter_mut().for_each(|value| self.value(value));
    }

    fn region(&self, region: &mut Region) {
        self.values(&mut region.arguments);
        self.instructions(&mut region.instructions);
        self.values(&mut region.results);
    }

    fn instructions(&self, instructions: &mut Vec<Instruction>) {
        instructions.retain(|i| i.results.is_empty() || !i.results.iter().all(|v| self.dropped.contains(v)));
        for instruction in instructions {
            self.values(&mut instruction.operands);
            self.values(&mut instruction.results);
            instruction.regions.iter_mut().for_each(|region| self.region(region));
        }
    }
}
