//! Loops that run so many times, over a counter, a carry and stacks that are filled row by row.

use shardwright_hlo::{Comparison, Instruction, Op, Region, ValueId};
use shardwright_tensor::{DType, HostArray, TensorType};

use crate::region::Written;
use crate::scan::Scan;
use crate::{Graph, GraphError};

type Result<T> = std::result::Result<T, GraphError>;

/// What the body of a counted loop gives.
pub(crate) struct Iteration {
    /// What it hands on.
    pub(crate) next: Vec<ValueId>,
    /// What is stacked, and at which index.
    pub(crate) ys: Vec<ValueId>,
    pub(crate) row: ValueId,
}

/// Loops that run so many times, over a counter, a carry and stacks that are filled.
impl Graph {
    /// Writes the body of one: `body` is given the counter and the carry.
    pub(crate) fn counted_body(
        &self,
        length: usize,
        carry: &[ValueId],
        body: impl FnOnce(ValueId, &[ValueId]) -> Result<Iteration>,
    ) -> Result<Written> {
        let counter = TensorType::scalar(DType::S32);
        let types: Vec<TensorType> =
            std::iter::once(counter).chain(carry.iter().map(|&v| self.ty(v))).collect();
        let mut stacks = Vec::new();
        let mut written = self.region(&types, Some(0), |values| {
            let Iteration { next, ys, row } = body(values[0], &values[1..])?;
            let mut results = vec![self.offset(values[0], 1.0)?];
            results.extend(next);
            for y in ys {
                let stack = self.new_value(stack_type(length, &self.ty(y))?);
                stacks.push(stack);
                results.push(self.with_row(stack, row, y)?);
            }
            Ok(results)
        })?;
        written.region.arguments.extend(stacks);
        Ok(written)
    }

    /// Runs such a body; stacks are zeros at first.
    pub(crate) fn counted(&self, length: i32, carry: &[ValueId], body: Region) -> Result<Vec<ValueId>> {
        let types: Vec<TensorType> = body.arguments.iter().map(|&v| self.ty(v)).collect();
        let mut state = vec![self.zeros(&types[0])];
        state.extend(carry);
        state.extend(types[state.len()..].iter().map(|ty| self.zeros(ty)).collect::<Vec<_>>());
        let condition = self.region(&types, None, |values| {
            let end = self.constant(HostArray::scalar(length))?;
            Ok(vec![self.compare(Comparison::Less, values[0], end)?])
        })?;
        self.push_with_regions(Op::While, &state, vec![condition.region, body])
    }

    /// `x[index]`, of the shape without dim 0.
    pub(crate) fn row(&self, x: ValueId, index: ValueId) -> Result<ValueId> {
        let dims = self.dims(x);
        let sizes = std::iter::once(1).chain(dims[1..].iter().copied()).collect();
        let operands = [vec![x], self.starts(index, dims.len())?].concat();
        let row = self.op(Op::DynamicSlice { sizes }, &operands)?;
        self.reshape(row, &dims[1..])
    }

    /// `x` with `row` at `x[index]`.
    pub(crate) fn with_row(&self, x: ValueId, index: ValueId, row: ValueId) -> Result<ValueId> {
        let dims = self.dims(x);
        let sizes: Vec<usize> = std::iter::once(1).chain(dims[1..].iter().copied()).collect();
        let operands = [vec![x, self.reshape(row, &sizes)?], self.starts(index, dims.len())?].concat();
        self.op(Op::DynamicUpdateSlice, &operands)
    }

    /// The first index of the row at `index`.
    fn starts(&self, index: ValueId, rank: usize) -> Result<Vec<ValueId>> {
        let zero = self.full_like(index, 0.0)?;
        Ok(std::iter::once(index).chain(std::iter::repeat_n(zero, rank - 1)).collect())
    }
}

/// The type of so many values of a type, one after the other in a new dim 0.
pub(crate) fn stack_type(length: usize, ty: &TensorType) -> Result<TensorType> {
    let dims: Vec<usize> = std::iter::once(length).chain(ty.dims().iter().copied()).collect();
    Ok(TensorType::new(ty.dtype, dims)?)
}

/// Loops that are there already.
impl Graph {
    /// What a loop was written from, and the `while` as it is now.
    pub(crate) fn loop_of(&self, instruction: &Instruction) -> Option<(Scan, Instruction)> {
        let id = *instruction.results.first()?;
        let scan = self.scans.borrow().get(&id)?.clone();
        let module = self.module.borrow();
        let scopes = self.scopes.borrow();
        let mut open = std::iter::once(&module.instructions).chain(scopes.iter().map(|scope| &scope.around));
        Some((scan, open.find_map(|code| find(code, id))?.clone()))
    }

    /// Has a loop stack these values of its body, and gives the stacks.
    pub(crate) fn keep(
        &self,
        scan: &Scan,
        instruction: &Instruction,
        values: &[ValueId],
    ) -> Result<Vec<ValueId>> {
        let mut stacks = Vec::new();
        let mut extended = instruction.clone();
        let mut constants = Vec::new();
        let [condition, body] = &mut extended.regions[..] else { unreachable!("a loop has two regions") };
        let index = body.arguments[0];
        let outside = self.location.replace(instruction.location);
        let here = std::mem::replace(
            &mut self.module.borrow_mut().instructions,
            std::mem::take(&mut body.instructions),
        );
        for &value in values {
            if let Some(y) = scan.ys.iter().position(|&y| y == value) {
                stacks.push(instruction.results[1 + scan.carries + y]);
                continue;
            }
            let ty = stack_type(scan.length, &self.ty(value))?;
            let (zeros, constant) = self.splat_of_zeros(&ty);
            let [in_condition, in_body, result] = [(); 3].map(|()| self.new_value(ty.clone()));
            constants.push(constant);
            extended.operands.push(zeros);
            condition.arguments.push(in_condition);
            body.arguments.push(in_body);
            body.results.push(self.with_row(in_body, index, value)?);
            extended.results.push(result);
            stacks.push(result);
        }
        body.instructions = std::mem::replace(&mut self.module.borrow_mut().instructions, here);
        self.location.set(outside);
        self.replace(extended, constants);
        Ok(stacks)
    }
}

fn find(code: &[Instruction], id: ValueId) -> Option<&Instruction> {
    code.iter().find_map(|instruction| match instruction.results.first() {
        Some(&first) if first == id => Some(instruction),
        _ => instruction.regions.iter().find_map(|region| find(&region.instructions, id)),
    })
}
