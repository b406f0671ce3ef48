//! What a program does with its arguments, as far as plans need to know.

use std::collections::BTreeSet;

use shardwright_hlo::{Argument, Module, Op, ValueId};

use super::flow::{Flow, Origin};

/// What a program takes of an argument at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ArgumentUse {
    /// A dim of which one index at a time is taken, as a loop over layers does.
    pub sliced: Option<usize>,
    /// Whether an output is the argument as it was, but for parts that are written anew.
    pub is_overwritten: bool,
}

/// The use of each argument.
///
/// # Panics
/// If the module is not sound: one that was read from text, or verified, is.
pub fn uses_of_arguments(module: &Module) -> Vec<ArgumentUse> {
    let fixed = BTreeSet::new();
    let flow = Flow::new(module, &fixed);
    let sliced = flow.sliced_dims();
    let mut kept = KeptValues { flow: &flow, known: vec![None; module.values.len()] };
    let overwritten: BTreeSet<ValueId> = module
        .outputs
        .iter()
        .filter_map(|output| kept.of(output.value))
        .filter_map(|kept| kept.is_written.then_some(kept.value))
        .collect();
    let use_of = |argument: &Argument| ArgumentUse {
        sliced: sliced[argument.value.index()],
        is_overwritten: overwritten.contains(&argument.value),
    };
    module.arguments.iter().map(use_of).collect()
}

/// What values are, but for parts of them that are written anew.
struct KeptValues<'a, 'm> {
    flow: &'a Flow<'m>,
    /// What was found out: functions may be called many times over, and values be part of many outputs.
    known: Vec<Option<Option<Kept>>>,
}

/// What a value is, as its own function sees it.
#[derive(Clone, Copy)]
struct Kept {
    /// An argument of the function, or of the program.
    value: ValueId,
    /// Whether a part is written anew.
    is_written: bool,
}

/// What has to be known to tell what a value is.
enum Before {
    /// Nothing: it is what it is.
    Itself,
    /// Nothing: it is something new.
    Nothing,
    /// What this one is, of which a part may be written anew.
    Value(ValueId, bool),
}

impl KeptValues<'_, '_> {
    fn of(&mut self, value: ValueId) -> Option<Kept> {
        // Loops and calls may be nested deeply, so what is waited for is not on the stack.
        let mut waiting = vec![value];
        while let Some(&value) = waiting.last() {
            let found = match self.before(value) {
                Err(callee_result) => {
                    waiting.push(callee_result);
                    continue;
                }
                Ok(Before::Itself) => Some(Kept { value, is_written: false }),
                Ok(Before::Nothing) => None,
                Ok(Before::Value(before, writes)) => match self.known[before.index()] {
                    None => {
                        waiting.push(before);
                        continue;
                    }
                    Some(kept) => kept.map(|k| Kept { is_written: k.is_written || writes, ..k }),
                },
            };
            self.known[value.index()] = Some(found);
            waiting.pop();
        }
        self.known[value.index()].flatten()
    }

    /// What a value was before the op that gives it; as an error the result of a function which has to be known first.
    fn before(&self, value: ValueId) -> Result<Before, ValueId> {
        Ok(match self.flow.origin(value) {
            Origin::Outside | Origin::FunctionArgument { .. } => Before::Itself,
            Origin::Carried { by, index } => Before::Value(by.operands[index], false),
            Origin::Result { of, index } => match &of.op {
                Op::DynamicUpdateSlice => Before::Value(of.operands[0], true),
                // One that sets elements: what adds to them is known by its dims.
                Op::Other(op) if op.name == "stablehlo.scatter" => Before::Value(of.operands[0], true),
                Op::While => Before::Value(of.regions[1].results[index], false),
                op => {
                    let Some((_, body)) = self.flow.body(op) else { return Ok(Before::Nothing) };
                    let result = body.results[index];
                    let Some(kept) = self.known[result.index()].ok_or(result)? else {
                        return Ok(Before::Nothing);
                    };
                    match self.flow.origin(kept.value) {
                        Origin::FunctionArgument { index, .. } => {
                            Before::Value(of.operands[index], kept.is_written)
                        }
                        _ => Before::Nothing,
                    }
                }
            },
        })
    }
}

/// For each argument, whether an output that takes over no argument's memory depends on it.
///
/// What an instruction gives depends on all that it is given and on all that its regions use; so the answer may be yes
/// where it is no, and never the other way.
pub fn needed_by_results(module: &Module) -> Vec<bool> {
    let results = module.outputs.iter().filter(|output| output.donor.is_none());
    let mut needed: BTreeSet<ValueId> = results.map(|output| output.value).collect();
    for instruction in module.instructions.iter().rev() {
        if instruction.results.iter().any(|result| needed.contains(result)) {
            needed.extend(instruction.uses());
        }
    }
    module.arguments.iter().map(|argument| needed.contains(&argument.value)).collect()
}

#[cfg(test)]
mod tests {
    use shardwright_hlo::{Binary, Op};
    use shardwright_tensor::{DType, TensorType};

    use super::*;

    #[test]
    fn a_loss_needs_parameters_and_no_moments() {
        let ty = TensorType::new(DType::F32, [4]).unwrap();
        let mut m = Module::new("step");
        let [w, moment, x] = ["w", "moment", "x"].map(|name| m.add_argument(name, ty.clone()));
        let mut op = |a, b| m.push(Op::Binary(Binary::Multiply), &[a, b]).unwrap()[0];
        let loss = op(w, x);
        let new_moment = op(moment, loss);
        let new_w = op(w, new_moment);
        m.add_donated_output("w", new_w, 0);
        m.add_donated_output("moment", new_moment, 1);
        m.add_output("loss", loss);
        assert_eq!(needed_by_results(&m), [true, false, true]);
    }
}
