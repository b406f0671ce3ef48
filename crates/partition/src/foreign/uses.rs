//! What a program does with its arguments, as far as plans need to know.

use std::collections::BTreeSet;

use shardwright_hlo::{Argument, Instruction, Module, ValueId};

use super::flow::Flow;

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
    let overwritten: BTreeSet<ValueId> =
        module.outputs.iter().filter_map(|output| flow.overwritten(output.value)).collect();
    let use_of = |argument: &Argument| ArgumentUse {
        sliced: sliced[argument.value.index()],
        is_overwritten: overwritten.contains(&argument.value),
    };
    module.arguments.iter().map(use_of).collect()
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
            add_uses(instruction, &mut needed);
        }
    }
    module.arguments.iter().map(|argument| needed.contains(&argument.value)).collect()
}

/// Adds what an instruction uses, and what those inside it use; values of the regions themselves do no harm.
fn add_uses(instruction: &Instruction, needed: &mut BTreeSet<ValueId>) {
    let mut rest = vec![instruction];
    while let Some(instruction) = rest.pop() {
        needed.extend(&instruction.operands);
        for region in &instruction.regions {
            needed.extend(&region.results);
            rest.extend(&region.instructions);
        }
    }
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
