//! Who gives what to whom in a program: through functions, loops and branches.

use std::collections::BTreeSet;

use shardwright_hlo::{Instruction, Module, Op, Region, ValueId};

/// A program with the origin of each of its values.
pub(super) struct Flow<'m> {
    module: &'m Module,
    origins: Vec<Origin<'m>>,
    /// For each value, the function that it is in; none in the main one.
    functions: Vec<Option<usize>>,
    /// For each function, its calls.
    calls: Vec<Vec<&'m Instruction>>,
    /// Values that somebody else pins.
    fixed: &'m BTreeSet<ValueId>,
    /// What loops carry that is a parameter in every turn, though not the same one.
    trained: BTreeSet<ValueId>,
}

/// What defines a value.
#[derive(Clone, Copy)]
pub(super) enum Origin<'m> {
    /// Whoever calls the program, or an op that is not looked into.
    Outside,
    /// A function's argument.
    FunctionArgument { function: usize, index: usize },
    /// What a loop carries into its condition or its body.
    Carried { by: &'m Instruction, index: usize },
    /// The result of an instruction.
    Result { of: &'m Instruction, index: usize },
}

impl<'m> Flow<'m> {
    /// Looks through a program. Values that are `fixed` lie where somebody else says.
    pub(super) fn new(module: &'m Module, fixed: &'m BTreeSet<ValueId>) -> Flow<'m> {
        let count = module.values.len();
        let mut flow = Flow {
            module,
            origins: vec![Origin::Outside; count],
            functions: vec![None; count],
            calls: vec![Vec::new(); module.functions.len()],
            fixed,
            trained: BTreeSet::new(),
        };
        flow.look_through(&module.instructions, None);
        for (function, body) in module.functions.iter().map(|function| &function.body).enumerate() {
            for (index, &argument) in body.arguments.iter().enumerate() {
                flow.define(argument, Origin::FunctionArgument { function, index }, Some(function));
            }
            flow.look_through(&body.instructions, Some(function));
        }
        flow
    }

    fn look_through(&mut self, instructions: &'m [Instruction], function: Option<usize>) {
        let mut rest: Vec<&'m Instruction> = instructions.iter().collect();
        while let Some(instruction) = rest.pop() {
            for (index, &result) in instruction.results.iter().enumerate() {
                self.define(result, Origin::Result { of: instruction, index }, function);
            }
            match instruction.op {
                Op::Call(callee) => self.calls[callee.0 as usize].push(instruction),
                Op::While => {
                    for region in &instruction.regions {
                        for (index, &argument) in region.arguments.iter().enumerate() {
                            self.define(argument, Origin::Carried { by: instruction, index }, function);
                        }
                    }
                }
                // The program of one device: nothing in it is split.
                Op::ManualComputation(_) => continue,
                _ => {}
            }
            rest.extend(instruction.regions.iter().flat_map(|region| &region.instructions));
        }
    }

    fn define(&mut self, value: ValueId, origin: Origin<'m>, function: Option<usize>) {
        self.origins[value.index()] = origin;
        self.functions[value.index()] = function;
    }

    /// What defines a value.
    pub(super) fn origin(&self, value: ValueId) -> Origin<'m> {
        self.origins[value.index()]
    }

    /// The function that a value is in; none in the main one.
    pub(super) fn function_of(&self, value: ValueId) -> Option<usize> {
        self.functions[value.index()]
    }

    /// The calls of a function.
    pub(super) fn calls(&self, function: usize) -> &[&'m Instruction] {
        &self.calls[function]
    }

    /// For each function, its calls.
    pub(super) fn all_calls(&self) -> &[Vec<&'m Instruction>] {
        &self.calls
    }

    /// The body of the function that a call is of.
    pub(super) fn body(&self, call: &Op) -> Option<(usize, &'m Region)> {
        let Op::Call(function) = call else { return None };
        let function = function.0 as usize;
        Some((function, &self.module.functions[function].body))
    }

    /// Whether somebody else says where a value lies.
    pub(super) fn is_fixed(&self, value: ValueId) -> bool {
        self.fixed.contains(&value)
    }

    /// The dims of a value; none where it is no array.
    pub(super) fn dims(&self, value: ValueId) -> Option<&'m [usize]> {
        self.module.values[value.index()].tensor().map(|ty| ty.dims())
    }

    /// If a loop makes an output of an argument, turn after turn, what it carries is that argument too: such as a
    /// parameter that is trained for several steps.
    pub(super) fn train(&mut self, argument: ValueId, output: ValueId) {
        if let Origin::Result { of, index } = self.origin(output)
            && of.op == Op::While
            && of.operands[index] == argument
        {
            self.trained.extend(of.regions.iter().map(|region| region.arguments[index]));
        }
    }

    /// Whether a result of a loop is an argument that the loop trains.
    pub(super) fn is_trained(&self, by: &Instruction, index: usize) -> bool {
        by.op == Op::While && self.trained.contains(&by.regions[1].arguments[index])
    }

    /// The values of the program that are all there is in a value: what it is in another form, or a part of. Of several,
    /// each may be it, or all are joined elementwise.
    fn sources(&self, value: ValueId) -> Vec<ValueId> {
        if self.is_fixed(value) {
            return Vec::new();
        }
        match self.origin(value) {
            Origin::Outside => Vec::new(),
            Origin::FunctionArgument { function, index } => {
                self.calls(function).iter().map(|call| call.operands[index]).collect()
            }
            Origin::Carried { by, index } if is_unchanged(by, index) || self.is_trained(by, index) => {
                vec![by.operands[index]]
            }
            Origin::Carried { .. } => Vec::new(),
            Origin::Result { of, index } => match &of.op {
                Op::Reshape(_) | Op::Transpose(_) => vec![of.operands[0]],
                Op::Slice(_) | Op::DynamicSlice { .. } if self.sliced_dim(of).is_some() => {
                    vec![of.operands[0]]
                }
                Op::OptimizationBarrier | Op::Boundary(_) => vec![of.operands[index]],
                Op::While if is_unchanged(of, index) => vec![of.operands[index]],
                op if is_elementwise(op) => {
                    of.operands.iter().copied().filter(|&operand| !self.is_uniform(operand)).collect()
                }
                op => self.body(op).map(|(_, body)| vec![body.results[index]]).unwrap_or_default(),
            },
        }
    }

    /// The dim of which a slice takes one index, if it takes all of the others.
    fn sliced_dim(&self, of: &Instruction) -> Option<usize> {
        let (whole, slice) = (self.dims(*of.operands.first()?)?, self.dims(*of.results.first()?)?);
        let mut cut = (0..whole.len()).filter(|&dim| whole[dim] != slice[dim]);
        let dim = cut.next().filter(|&dim| slice[dim] == 1)?;
        cut.next().is_none().then_some(dim)
    }

    /// For each value, a dim of which one index at a time is taken of it.
    pub(super) fn sliced_dims(&self) -> Vec<Option<usize>> {
        let mut sliced = vec![None; self.origins.len()];
        let mut rest = Vec::new();
        for origin in &self.origins {
            if let Origin::Result { of, .. } = *origin
                && matches!(of.op, Op::Slice(_) | Op::DynamicSlice { .. })
            {
                rest.extend(self.sliced_dim(of).map(|dim| (of.operands[0], dim)));
            }
        }
        while let Some((value, dim)) = rest.pop() {
            let known: &mut Option<usize> = &mut sliced[value.index()];
            // Only what has the same dims can be told of.
            if known.is_none() {
                *known = Some(dim);
                let alike =
                    self.sources(value).into_iter().filter(|source| self.dims(*source) == self.dims(value));
                rest.extend(alike.map(|source| (source, dim)));
            }
        }
        sliced
    }

    /// Whether all elements are the same, as far as one looks.
    fn is_uniform(&self, value: ValueId) -> bool {
        let Origin::Result { of, .. } = self.origin(value) else { return self.dims(value) == Some(&[]) };
        match of.op {
            Op::Splat { .. } => true,
            Op::BroadcastInDim { .. } => self.dims(of.operands[0]) == Some(&[]),
            _ => self.dims(value) == Some(&[]),
        }
    }

    /// For each value, whether there is nothing in it but some of these: a weight in another dtype, behind a barrier,
    /// or that of one layer of many.
    pub(super) fn made_of(&self, values: impl Iterator<Item = ValueId>) -> Vec<bool> {
        let all = (0..self.origins.len()).map(|index| ValueId(index as u32));
        let mut users: Vec<Vec<ValueId>> = vec![Vec::new(); self.origins.len()];
        let mut missing = vec![0usize; self.origins.len()];
        for value in all {
            for source in self.sources(value) {
                users[source.index()].push(value);
                missing[value.index()] += 1;
            }
        }
        let mut is_made = vec![false; self.origins.len()];
        let mut rest: Vec<ValueId> = values.collect();
        while let Some(value) = rest.pop() {
            if std::mem::replace(&mut is_made[value.index()], true) {
                continue;
            }
            for user in &users[value.index()] {
                missing[user.index()] -= 1;
                if missing[user.index()] == 0 {
                    rest.push(*user);
                }
            }
        }
        is_made
    }
}

/// Whether a loop carries a value through its turns as it is.
pub(super) fn is_unchanged(by: &Instruction, index: usize) -> bool {
    by.regions.get(1).is_some_and(|body| body.arguments[index] == body.results[index])
}

/// Whether each element of the result is computed from the same element of the operands, or from scalars.
pub(super) fn is_elementwise(op: &Op) -> bool {
    matches!(op, Op::Unary(_) | Op::Binary(_) | Op::Compare(_) | Op::Select | Op::Clamp | Op::Convert(_))
}
