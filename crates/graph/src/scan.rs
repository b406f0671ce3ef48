//! Loops.
//!
//! [`Graph::scan`] writes a body once that runs for each index of some arrays, so that a program does not grow with
//! the number of its layers or micro-batches. It is a `while` whose state is a counter, what the body hands on, and
//! the arrays that it fills:
//!
//! ```text
//! (0, carry…, zeros…) ─► while counter < length
//!                          slices = xs[counter]
//!                          carry…, ys = body(counter, carry…, slices…)
//!                          (counter + 1, carry…, zeros…[counter] ← ys)  ─► carry…, stacked ys…
//! ```
//!
//! The body may use any value that is there around the loop. `scan_gradient.rs` has the gradient.

use std::ops::Range;

use shardwright_hlo::{Comparison, Instruction, Op, Region, UnitId, ValueId};
use shardwright_tensor::{DType, HostArray, TensorType};
use thiserror::Error;

use crate::region::Written;
use crate::{Graph, GraphError};

type Result<T> = std::result::Result<T, GraphError>;

/// What is wrong with a [`Graph::scan`].
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ScanProblem {
    /// Nothing to go through.
    #[error("it has no iterations; a length is at least 1")]
    Empty,
    /// More than the counter counts.
    #[error("it has {length} iterations; a length is less than 2^31")]
    Length {
        /// The number of iterations.
        length: usize,
    },
    /// An array that has not one row for each iteration.
    #[error("array {index} is {ty}, and there are {length} iterations; its dim 0 has to be as long")]
    Rows {
        /// Which of the arrays.
        index: usize,
        /// Its type.
        ty: TensorType,
        /// The number of iterations.
        length: usize,
    },
    /// A body that hands on more or fewer values than it takes.
    #[error("its body takes {expected} values from the iteration before, and hands on {found}")]
    CarryCount {
        /// How many it takes.
        expected: usize,
        /// How many it hands on.
        found: usize,
    },
    /// A body that hands on something else than it takes.
    #[error(
        "its body takes value {index} as {expected}, and hands it on as {found}; the types have to be the same"
    )]
    Carry {
        /// Which of the values.
        index: usize,
        /// The type that it has at first.
        expected: TensorType,
        /// The type that is handed on.
        found: TensorType,
    },
}

/// What a loop was written from; its `while` has the counter, the carry and then the stacks as its state.
#[derive(Clone)]
pub(crate) struct Scan {
    pub(crate) length: usize,
    /// How many values are handed from one iteration to the next.
    pub(crate) carries: usize,
    /// The arrays that it goes through, and their rows in the body.
    pub(crate) xs: Vec<ValueId>,
    pub(crate) slices: Vec<ValueId>,
    /// What is stacked, in the body.
    pub(crate) ys: Vec<ValueId>,
    /// The instructions of the loop's body that were written for it, and its units.
    pub(crate) body: Range<usize>,
    pub(crate) units: Vec<(UnitId, Range<usize>)>,
}

impl Scan {
    /// So many instructions are put before those of the loop's body.
    pub(crate) fn shift(&mut self, count: usize) {
        let shifted = |range: &Range<usize>| range.start + count..range.end + count;
        self.body = shifted(&self.body);
        self.units.iter_mut().for_each(|(_, range)| *range = shifted(range));
    }
}

impl Graph {
    /// Puts values through `body` for as long as `condition`, which gives a scalar pred of them, holds.
    ///
    /// Both may use any value that is there around the loop. Gradients cannot be taken through it, as nothing says how
    /// often it runs; those through a [scan](Graph::scan) can.
    ///
    /// # Errors
    /// When the body gives other types than it takes, or `condition` something else than a scalar pred.
    pub fn while_loop(
        &self,
        init: &[ValueId],
        condition: impl FnOnce(&[ValueId]) -> Result<ValueId>,
        body: impl FnOnce(&[ValueId]) -> Result<Vec<ValueId>>,
    ) -> Result<Vec<ValueId>> {
        let types: Vec<TensorType> = init.iter().map(|&v| self.ty(v)).collect();
        let condition = self.region(&types, None, |values| Ok(vec![condition(values)?]))?;
        let body = self.region(&types, None, body)?;
        self.push_with_regions(Op::While, init, vec![condition.region, body.region])
    }

    /// Runs `body` for each index below `length`, and gives what the last iteration hands on, and what all of them give
    /// besides, stacked along a new dim 0.
    ///
    /// The body takes the index, a scalar `s32`; the carry, which is `carry` at first and then what the iteration
    /// before handed on; and for each of `xs` its row at the index, of the shape without dim 0. It gives the new carry,
    /// of the same types, and what is to be stacked. It may use any value that is there around the loop, and it may
    /// take gradients of what it computes.
    ///
    /// ```
    /// use shardwright_graph::Graph;
    /// use shardwright_hlo::ArgumentKind;
    /// use shardwright_tensor::{DType, TensorType};
    ///
    /// let g = Graph::new("running_sum");
    /// let x = g.argument("x", TensorType::new(DType::F32, [3, 2])?, ArgumentKind::Other);
    /// let zero = g.full(DType::F32, &[2], 0.0)?;
    /// let (total, sums) = g.scan(3, &[zero], &[x], |_index, carry, rows| {
    ///     let sum = g.add(carry[0], rows[0])?;
    ///     Ok((vec![sum], vec![sum]))
    /// })?;
    /// assert_eq!(g.dims(total[0]), [2]);
    /// assert_eq!(g.dims(sums[0]), [3, 2]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// When `length` is 0, one of `xs` has not so many rows, or the carry changes its type; and those of the body.
    pub fn scan(
        &self,
        length: usize,
        carry: &[ValueId],
        xs: &[ValueId],
        body: impl FnOnce(ValueId, &[ValueId], &[ValueId]) -> Result<(Vec<ValueId>, Vec<ValueId>)>,
    ) -> Result<(Vec<ValueId>, Vec<ValueId>)> {
        let wrong = |problem| GraphError::Scan { unit: self.unit_path(), problem };
        let end = self.check_rows(length, xs).map_err(wrong)?;
        let mut scan = Scan {
            length,
            carries: carry.len(),
            xs: xs.to_vec(),
            slices: Vec::new(),
            ys: Vec::new(),
            body: 0..0,
            units: Vec::new(),
        };
        let expected: Vec<TensorType> = carry.iter().map(|&v| self.ty(v)).collect();
        let written = self.counted_body(length, carry, |index, carry| {
            scan.slices = xs.iter().map(|&x| self.row(x, index)).collect::<Result<_>>()?;
            let start = self.position();
            let (next, ys) = body(index, carry, &scan.slices)?;
            scan.body = start..self.position();
            scan.ys.clone_from(&ys);
            self.check_carry(&expected, &next).map_err(wrong)?;
            Ok(Iteration { next, ys, row: index })
        })?;
        scan.shift(written.constants);
        scan.units = written.units;
        let mut results = self.counted(end, carry, written.region)?;
        let stacks = results.split_off(1 + carry.len());
        self.scans.borrow_mut().insert(results[0], scan);
        Ok((results.split_off(1), stacks))
    }

    fn check_rows(&self, length: usize, xs: &[ValueId]) -> std::result::Result<i32, ScanProblem> {
        if length == 0 {
            return Err(ScanProblem::Empty);
        }
        for (index, &x) in xs.iter().enumerate() {
            let ty = self.ty(x);
            if ty.dims().first() != Some(&length) {
                return Err(ScanProblem::Rows { index, ty, length });
            }
        }
        i32::try_from(length).map_err(|_| ScanProblem::Length { length })
    }

    fn check_carry(&self, expected: &[TensorType], next: &[ValueId]) -> std::result::Result<(), ScanProblem> {
        if expected.len() != next.len() {
            return Err(ScanProblem::CarryCount { expected: expected.len(), found: next.len() });
        }
        for (index, (expected, &next)) in expected.iter().zip(next).enumerate() {
            let (expected, found) = (expected.clone(), self.ty(next));
            if expected != found {
                return Err(ScanProblem::Carry { index, expected, found });
            }
        }
        Ok(())
    }
}

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
