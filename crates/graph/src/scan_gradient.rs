//! The gradient of a loop is a loop that runs backwards.
//!
//! Its carry is the gradient of the carry, and for each value that the body uses from around the loop, the sum of what
//! the iterations add to that one's gradient. The gradients of rows are stacked.
//!
//! The body of the backward loop is the reverse pass of the forward body, written as if the values of that were there.
//! What it turns out to use of them is then brought in, at its start:
//!
//! - the index is counted down, and rows are taken again;
//! - what is made of the index alone, of what stands around the loop, or of [weights](Role::Weight) alone is computed
//!   again: it would be the same array for all iterations, or a gathered parameter for each;
//! - the rest is stacked by the forward loop, which is extended for that.
//!
//! What a rematerialised unit of the body needs are its inputs, so of a body that is one such unit only the carry is
//! stacked.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use shardwright_hlo::{Instruction, Op, Region, Role, UnitId, ValueId};

use crate::counted::Iteration;
use crate::gradient::Reverse;
use crate::scan::Scan;
use crate::{Graph, GraphError};

type Result<T> = std::result::Result<T, GraphError>;

impl Reverse<'_> {
    /// Goes back through a loop: `forward` is its `while`, and `arriving` are the cotangents of what that gives.
    pub(crate) fn scan(
        &mut self,
        scan: &Scan,
        forward: &Instruction,
        arriving: &[Option<ValueId>],
    ) -> Result<()> {
        let graph = self.graph;
        let body = Body::new(scan, &forward.regions[1]);
        let carries: Vec<usize> = (0..scan.carries).filter(|&k| self.depends.has(body.carry[k])).collect();
        let around: Vec<ValueId> = body.around.iter().copied().filter(|&v| self.depends.has(v)).collect();
        let mut state = Vec::new();
        for &k in &carries {
            state.push(arriving[1 + k].unwrap_or_else(|| graph.zeros(&graph.cotangent_ty(body.carry[k]))));
        }
        state.extend(around.iter().map(|&v| graph.zeros(&graph.cotangent_ty(v))));

        let mut stacked = Vec::new();
        let mut written = graph.counted_body(scan.length, &state, |_, state| {
            let (of_carry, sums) = state.split_at(carries.len());
            let outer = std::mem::take(&mut self.cotangents);
            let kept = std::mem::take(&mut self.copies);
            let done = self.iteration(&body, arriving, carries.iter().copied().zip(of_carry.iter().copied()));
            let mut found = std::mem::replace(&mut self.cotangents, outer);
            self.copies = kept;
            done?;
            let mut next = Vec::new();
            for (&k, &before) in carries.iter().zip(of_carry) {
                let cotangent = found.remove(&body.carry[k]);
                next.push(cotangent.map_or_else(|| graph.full_like(before, 0.0), Ok)?);
            }
            for (&value, &sum) in around.iter().zip(sums) {
                next.push(match found.remove(&value) {
                    Some(cotangent) => graph.add(sum, graph.as_gradient(value, cotangent)?)?,
                    None => sum,
                });
            }
            let mut ys = Vec::new();
            for (&x, slice) in scan.xs.iter().zip(&scan.slices) {
                if let Some(cotangent) = found.remove(slice) {
                    stacked.push(x);
                    ys.push(graph.as_gradient_of_row(x, cotangent)?);
                }
            }
            Ok(Iteration { next, ys, row: body.index })
        })?;
        self.bring_in(forward, &mut written.region)?;

        let end = i32::try_from(scan.length).expect("checked when the loop was written");
        let results = graph.counted(end, &state, written.region)?;
        let owners = carries.iter().map(|&k| forward.operands[1 + k]).chain(around).chain(stacked);
        for (owner, &cotangent) in owners.zip(&results[1..]) {
            let owner = *self.copies.get(&owner).unwrap_or(&owner);
            if self.depends.has(owner) {
                self.accumulate(owner, cotangent)?;
            }
        }
        Ok(())
    }

    /// Goes back through one iteration, given the cotangents of what it hands on.
    fn iteration(
        &mut self,
        body: &Body<'_>,
        arriving: &[Option<ValueId>],
        of_carry: impl Iterator<Item = (usize, ValueId)>,
    ) -> Result<()> {
        for (k, cotangent) in of_carry {
            self.accumulate(body.next[k], cotangent)?;
        }
        for (&y, stack) in body.scan.ys.iter().zip(&arriving[1 + body.scan.carries..]) {
            if let Some(stack) = *stack {
                self.accumulate(y, self.graph.row(stack, body.index)?)?;
            }
        }
        let units = self.outermost(&body.units);
        self.walk(body.code, &units)
    }

    /// Puts what the body of the backward loop uses of the forward one's values at its start.
    fn bring_in(&self, forward: &Instruction, backward: &mut Region) -> Result<()> {
        let graph = self.graph;
        // As it is now: going back through a loop inside it may have extended it.
        let (scan, forward) = graph.loop_of(forward).expect("it is one");
        let body = Body::new(&scan, &forward.regions[1]);
        let Needed { rows, again, kept } = body.needed(graph, backward.uses());
        let stacks = graph.keep(&scan, &forward, &kept)?;
        let counter = backward.arguments[0];
        let mut values: HashMap<ValueId, ValueId> = HashMap::new();
        let start = graph.region(&[], None, |_| {
            let last = graph.full_like(counter, (scan.length - 1) as f64)?;
            let index = graph.sub(last, counter)?;
            values.insert(body.index, index);
            for (&value, &stack) in kept.iter().zip(&stacks) {
                values.insert(value, graph.row(stack, index)?);
            }
            for (slice, x) in rows {
                values.insert(slice, graph.row(x, index)?);
            }
            again.iter().for_each(|instruction| graph.write_again(instruction, &mut values));
            Ok(Vec::new())
        })?;
        let mut there = |value| *values.get(&value).or(self.copies.get(&value)).unwrap_or(&value);
        let written = std::mem::replace(&mut backward.instructions, start.region.instructions);
        backward.instructions.extend(written);
        backward.rename(&mut there);
        Ok(())
    }
}

/// The body of a forward loop.
struct Body<'a> {
    scan: &'a Scan,
    index: ValueId,
    /// What it is given from the iteration before, and what it hands on.
    carry: &'a [ValueId],
    next: &'a [ValueId],
    /// What stands before that, constants and rows.
    before: &'a [Instruction],
    /// The instructions that were written for it, and its units as ranges of them.
    code: &'a [Instruction],
    units: Vec<(UnitId, Range<usize>)>,
    /// What is defined in the loop, and what the code uses from around it.
    defined: HashSet<ValueId>,
    around: Vec<ValueId>,
}

/// What the backward loop needs of the forward loop's values.
struct Needed<'a> {
    /// Rows, with the arrays that they are of.
    rows: Vec<(ValueId, ValueId)>,
    /// What is computed again, in order.
    again: Vec<&'a Instruction>,
    /// What is stacked.
    kept: Vec<ValueId>,
}

/// What a value of a body is made of.
#[derive(Clone, Copy, Default)]
struct MadeOf {
    /// Values from around the loop.
    around: bool,
    /// Parameters, or rows of them.
    weights: bool,
    /// The carry, or rows of anything else.
    activations: bool,
}

impl<'a> Body<'a> {
    fn new(scan: &'a Scan, region: &'a Region) -> Body<'a> {
        let mut defined: HashSet<ValueId> = region.arguments.iter().copied().collect();
        for instruction in &region.instructions {
            instruction.for_each_defined(&mut |value| {
                defined.insert(value);
            });
        }
        let before = &region.instructions[..scan.body.start];
        let code = &region.instructions[scan.body.clone()];
        let next = &region.results[1..=scan.carries];
        let used = code.iter().flat_map(Instruction::uses).chain(next.iter().chain(&scan.ys).copied());
        let mut around = Vec::new();
        let mut seen = HashSet::new();
        around.extend(used.filter(|&value| !defined.contains(&value) && seen.insert(value)));
        let start = scan.body.start;
        let units =
            scan.units.iter().map(|(id, range)| (*id, range.start - start..range.end - start)).collect();
        let (index, carry) = (region.arguments[0], &region.arguments[1..=scan.carries]);
        Body { scan, index, carry, next, before, code, units, defined, around }
    }

    /// Constants at the start of the loop's body, which the code may use.
    fn constants(&self) -> impl DoubleEndedIterator<Item = &'a Instruction> {
        self.before.iter().filter(|instruction| instruction.operands.is_empty())
    }

    fn needed(&self, g: &Graph, used: Vec<ValueId>) -> Needed<'a> {
        let made_of = self.made_of(g);
        let mut needed: HashSet<ValueId> = used.into_iter().collect();
        let (mut again, mut kept) = (Vec::new(), Vec::new());
        for instruction in self.constants().chain(self.code).rev() {
            let results: Vec<ValueId> =
                instruction.results.iter().copied().filter(|v| needed.contains(v)).collect();
            let Some(first) = results.first() else { continue };
            if made_of[first].is_computed_again() {
                again.push(instruction);
                needed.extend(instruction.uses());
            } else {
                kept.extend(results.into_iter().rev());
            }
        }
        kept.extend(self.carry.iter().rev().filter(|v| needed.contains(v)));
        again.reverse();
        kept.reverse();
        let rows = self.scan.slices.iter().copied().zip(self.scan.xs.iter().copied());
        Needed { rows: rows.filter(|(slice, _)| needed.contains(slice)).collect(), again, kept }
    }

    /// What each value of the body is made of.
    fn made_of(&self, g: &Graph) -> HashMap<ValueId, MadeOf> {
        let activations = MadeOf { activations: true, ..MadeOf::default() };
        let weights = MadeOf { weights: true, ..MadeOf::default() };
        let mut made_of = HashMap::from([(self.index, MadeOf::default())]);
        made_of.extend(self.carry.iter().map(|&value| (value, activations)));
        for (&slice, &x) in self.scan.slices.iter().zip(&self.scan.xs) {
            made_of.insert(slice, if g.parameter(x).is_some() { weights } else { activations });
        }
        for instruction in self.constants().chain(self.code) {
            let of = |value: ValueId| match self.defined.contains(&value) {
                true => made_of.get(&value).copied().unwrap_or_default(),
                false => MadeOf { around: true, ..MadeOf::default() },
            };
            let used = instruction.uses().into_iter().map(of).fold(MadeOf::default(), MadeOf::and);
            let made = if g.is_weight(instruction) { weights } else { used };
            made_of.extend(instruction.results.iter().map(|&result| (result, made)));
        }
        made_of
    }
}

impl MadeOf {
    fn and(self, other: MadeOf) -> MadeOf {
        MadeOf {
            around: self.around | other.around,
            weights: self.weights | other.weights,
            activations: self.activations | other.activations,
        }
    }

    fn is_computed_again(self) -> bool {
        !(self.activations || self.around && self.weights)
    }
}

impl Graph {
    /// The gradient of a row of `x`, pinned as such if that is a parameter.
    fn as_gradient_of_row(&self, x: ValueId, gradient: ValueId) -> Result<ValueId> {
        match self.parameter(x) {
            Some(parameter) => self.op(Op::Boundary(Role::RowGradient { parameter }), &[gradient]),
            None => Ok(gradient),
        }
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use shardwright_hlo::{ArgumentKind, Comparison, Module, SliceBounds, Unary, verify};
    use shardwright_tensor::{DType, TensorType};

    use super::*;
    use crate::Recompute;

    fn f32(dims: &[usize]) -> TensorType {
        TensorType::new(DType::F32, dims).unwrap()
    }

    /// Three layers `x ← x + tanh(mask(x · scale) wᵀ)` in a loop. The rows `[6, 4]` of `w` are stored with two more
    /// features, as if that were a shard.
    fn layers(recompute: Recompute) -> Module {
        let g = Graph::new("layers");
        let x = g.argument("x", f32(&[2, 4]), ArgumentKind::Batch);
        let w = g.argument("w", f32(&[3, 4, 6]), ArgumentKind::Parameter);
        let scale = g.argument("scale", f32(&[4]), ArgumentKind::Parameter);
        let layer = |_, carry: &[ValueId], rows: &[ValueId]| {
            let whole = SliceBounds { starts: vec![0, 0], limits: vec![4, 4], strides: vec![1, 1] };
            g.stored_as(rows[0], vec![Op::Slice(whole)]);
            let body = || {
                let scaled = g.mul(carry[0], g.broadcast_in_dim(g.weight(scale)?, &[2, 4], &[1])?)?;
                let [row, column] = [g.iota(DType::S32, &[2, 4], 0)?, g.iota(DType::S32, &[2, 4], 1)?];
                let mask = g.compare(Comparison::GreaterEqual, row, column)?;
                let masked = g.select(mask, scaled, g.full_like(scaled, 0.0)?)?;
                let y = g.dot(masked, g.weight(rows[0])?, &[], &[(1, 1)])?;
                g.activation(g.add(carry[0], g.unary(Unary::Tanh, y)?)?)
            };
            Ok((vec![g.unit("layer", "Layer", body)?], vec![]))
        };
        let y = g.scan(3, &[x], &[w], layer).unwrap().0[0];
        let loss = g.sum(y, &[0, 1]).unwrap();
        for (index, gradient) in
            g.gradients(loss, &[w, scale], &|_| recompute).unwrap().into_iter().enumerate()
        {
            g.output(format!("d{index}"), gradient);
        }
        verify(g.finish()).unwrap().into_inner()
    }

    /// Checks the states of the two loops: first what they take, then what they stack.
    #[track_caller]
    fn check_states(recompute: Recompute, expect: Expect) {
        let module = layers(recompute);
        let loops = module.instructions.iter().filter(|i| i.op == Op::While);
        let state = |i: &Instruction| {
            let types = i.results.iter().map(|&v| module.ty(v).to_string());
            types.collect::<Vec<_>>().join(" ")
        };
        expect.assert_eq(&loops.map(state).collect::<Vec<_>>().join("\n"));
    }

    #[test]
    fn the_carry_is_stacked_and_what_the_reverse_pass_uses_but_no_weight_and_no_mask() {
        // Of the layer: x, the masked product, and tanh.
        check_states(
            Recompute::Nothing,
            expect![[r#"
            s32[] f32[2,4] f32[3,2,4] f32[3,2,4] f32[3,2,4]
            s32[] f32[2,4] f32[4] f32[3,4,6]"#]],
        );
        check_states(
            Recompute::Weights,
            expect![[r#"
            s32[] f32[2,4] f32[3,2,4] f32[3,2,4] f32[3,2,4]
            s32[] f32[2,4] f32[4] f32[3,4,6]"#]],
        );
        check_states(
            Recompute::Activations,
            expect![[r#"
            s32[] f32[2,4] f32[3,2,4]
            s32[] f32[2,4] f32[4] f32[3,4,6]"#]],
        );
        check_states(
            Recompute::All,
            expect![[r#"
            s32[] f32[2,4] f32[3,2,4]
            s32[] f32[2,4] f32[4] f32[3,4,6]"#]],
        );
    }

    #[test]
    fn a_unit_of_the_body_is_computed_again_behind_a_barrier() {
        let count = |recompute, name: &str| {
            let module = layers(recompute);
            let backward = module.instructions.iter().rfind(|i| i.op == Op::While).unwrap();
            let body = &backward.regions[1].instructions;
            body.iter().filter(|i| i.op.name() == name).count()
        };
        assert_eq!(count(Recompute::All, "tanh"), 1);
        assert_eq!(count(Recompute::Nothing, "tanh"), 0);
        // One for the unit, and one that ties the parameter from around the loop to the iteration.
        assert_eq!(count(Recompute::All, "optimization_barrier"), 2);
        assert_eq!(count(Recompute::Weights, "optimization_barrier"), 2);
        // What is gathered is gathered again, whatever is kept.
        for recompute in [Recompute::Nothing, Recompute::Weights, Recompute::Activations, Recompute::All] {
            assert_eq!(count(recompute, "slice"), 1, "{recompute:?}");
        }
    }
}
