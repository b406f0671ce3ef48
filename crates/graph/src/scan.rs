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

use shardwright_hlo::{Op, UnitId, ValueId};
use shardwright_tensor::TensorType;
use thiserror::Error;

use crate::counted::Iteration;
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
            scan.slices = xs.iter().map(|&x| self.stored_row(x, index)).collect::<Result<_>>()?;
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

    /// A row of `x`, with what brings it together if it is a shard.
    fn stored_row(&self, x: ValueId, index: ValueId) -> Result<ValueId> {
        let row = self.row(x, index)?;
        if let Some(ops) = self.stored_rows.borrow().get(&x) {
            self.stored_as(row, ops.clone());
        }
        Ok(row)
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

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use shardwright_hlo::{ArgumentKind, Comparison};
    use shardwright_tensor::DType;

    use super::*;
    use crate::Recompute;

    type Body<'a> = &'a dyn Fn(&Graph, &[ValueId], &[ValueId]) -> Result<(Vec<ValueId>, Vec<ValueId>)>;

    /// Checks what is said of a scan over `f32` arrays.
    #[track_caller]
    fn check(length: usize, carry: &[&[usize]], xs: &[&[usize]], body: Body<'_>, expect: Expect) {
        let g = Graph::new("m");
        let argument = |dims: &&[usize]| {
            let ty = TensorType::new(DType::F32, *dims).unwrap();
            g.argument(format!("{}", g.module.borrow().arguments.len()), ty, ArgumentKind::Other)
        };
        let carry: Vec<ValueId> = carry.iter().map(argument).collect();
        let xs: Vec<ValueId> = xs.iter().map(argument).collect();
        let result =
            g.unit("model", "Model", || g.scan(length, &carry, &xs, |_, carry, rows| body(&g, carry, rows)));
        expect.assert_eq(&result.map_or_else(|e| e.to_string(), |_| "sound".into()));
        // What was written before is as it was.
        g.output("x", g.offset(carry[0], 1.0).unwrap());
        shardwright_hlo::verify(g.finish()).unwrap();
    }

    #[test]
    fn scans_that_do_not_fit_are_errors() {
        let same: Body<'_> = &|_, carry, _| Ok((carry.to_vec(), vec![]));
        check(3, &[&[4]], &[&[3, 4], &[3]], same, expect!["sound"]);
        check(
            0,
            &[&[4]],
            &[&[0, 4]],
            same,
            expect!["model: scan: it has no iterations; a length is at least 1"],
        );
        check(
            3,
            &[&[4]],
            &[&[3, 4], &[2, 4]],
            same,
            expect![
                "model: scan: array 1 is f32[2,4], and there are 3 iterations; its dim 0 has to be as long"
            ],
        );
        check(
            3,
            &[&[4]],
            &[&[]],
            same,
            expect!["model: scan: array 0 is f32[], and there are 3 iterations; its dim 0 has to be as long"],
        );
        check(
            usize::MAX,
            &[&[4]],
            &[],
            same,
            expect!["model: scan: it has 18446744073709551615 iterations; a length is less than 2^31"],
        );
        check(
            3,
            &[&[4], &[2]],
            &[],
            &|_, carry, _| Ok((carry[..1].to_vec(), vec![])),
            expect!["model: scan: its body takes 2 values from the iteration before, and hands on 1"],
        );
        check(
            3,
            &[&[4], &[2]],
            &[],
            &|g, carry, _| Ok((vec![carry[0], g.sum(carry[1], &[0])?], vec![])),
            expect![
                "model: scan: its body takes value 1 as f32[2], and hands it on as f32[]; the types have to be the same"
            ],
        );
        check(
            3,
            &[&[4]],
            &[&[3, 5]],
            &|g, carry, rows| Ok((vec![g.add(carry[0], rows[0])?], vec![])),
            expect!["model: add of [f32[4], f32[5]]: all operands have one type"],
        );
    }

    #[test]
    fn loops_of_unknown_length_have_no_gradient() {
        let g = Graph::new("m");
        let x = g.argument("x", TensorType::scalar(DType::F32), ArgumentKind::Parameter);
        let below = |values: &[ValueId]| g.compare(Comparison::Less, values[0], g.full_like(values[0], 9.0)?);
        let y = g.while_loop(&[x], below, |values| Ok(vec![g.scale(values[0], 2.0)?])).unwrap()[0];
        let error = g.gradients(y, &[x], &|_| Recompute::Nothing).unwrap_err();
        assert_eq!(error.to_string(), "while has no gradient");
    }
}
