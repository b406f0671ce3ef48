//! Programs for one device: collectives, and parameters that are there in parts.
//!
//! The reverse pass needs nothing of its own for them. The transpose of gathering shards is scattering the sum of what
//! arrives on each device, and the transpose of beginning to use one value in ways that differ ([`Graph::vary`]) is the
//! sum over the devices. So where parameters come in through [`Graph::stored_as`], the gradient of a shard is the
//! shard of the whole batch's gradient.

use std::collections::HashSet;

use shardwright_hlo::{AxisGroup, Instruction, Op, Reduction, Role, ValueId};

use crate::{Graph, GraphError};

type Result<T> = std::result::Result<T, GraphError>;

impl Graph {
    /// Has each use of `x` as a [weight](Graph::weight) be what these ops, of one operand each, make of it one after
    /// the other: the gathers that bring a stored shard together. They are written at the first use, in its unit;
    /// later uses share the result. In the body of a loop that is the first use of each iteration.
    pub fn stored_as(&self, x: ValueId, ops: Vec<Op>) {
        self.stored.borrow_mut().insert(x, ops);
    }

    /// The same for each row that a [scan](Graph::scan) takes of `x`: one layer of stacked layers.
    pub fn stored_rows_as(&self, x: ValueId, ops: Vec<Op>) {
        self.stored_rows.borrow_mut().insert(x, ops);
    }

    /// The operands of the devices of a group one after the other along `dim`.
    pub fn all_gather(&self, x: ValueId, dim: usize, axes: AxisGroup) -> Result<ValueId> {
        self.op(Op::AllGather { dim, axes }, &[x])
    }

    /// The sum over the devices of a group, of which each keeps its part along `dim`.
    pub fn reduce_scatter(&self, x: ValueId, dim: usize, axes: AxisGroup) -> Result<ValueId> {
        self.op(Op::ReduceScatter { kind: Reduction::Add, dim, axes }, &[x])
    }

    /// The sum over the devices of a group.
    pub fn all_reduce(&self, x: ValueId, axes: AxisGroup) -> Result<ValueId> {
        self.op(Op::AllReduce { kind: Reduction::Add, axes }, &[x])
    }

    /// `x`, which is the same on all devices of a group, where they begin to use it in ways that differ. A value that
    /// gradients are wanted of has to pass here before it meets one that varies; its gradient is then the sum over the
    /// group.
    pub fn vary(&self, x: ValueId, axes: AxisGroup) -> Result<ValueId> {
        self.op(Op::Vary(axes), &[x])
    }

    /// Whether a value is made of others, by what was written of the region that is being written.
    pub fn depends_on(&self, x: ValueId, others: &[ValueId]) -> bool {
        let module = self.module.borrow();
        let mut known: HashSet<ValueId> = others.iter().copied().collect();
        for instruction in &module.instructions {
            if instruction.uses().iter().any(|value| known.contains(value)) {
                known.extend(&instruction.results);
            }
        }
        known.contains(&x)
    }

    /// What a stored value is made of for its uses as a weight; any other value itself.
    ///
    /// In a loop, what comes from around it is tied to the iteration: compilers would bring it together once, before
    /// the loop, and keep it whole all the while.
    pub(crate) fn assembled(&self, x: ValueId) -> Result<ValueId> {
        if let Some(whole) = self.known_assembly(x) {
            return Ok(whole);
        }
        let ops = self.stored.borrow().get(&x).cloned().unwrap_or_default();
        let mut whole = x;
        self.is_stored(x);
        if let Some(counter) = self.counter_around(x) {
            let tied = self.push(Op::OptimizationBarrier, &[x, counter])?;
            self.assembly.borrow_mut().extend(&tied);
            whole = tied[0];
            self.is_stored(whole);
        }
        for op in ops {
            whole = self.op(op, &[whole])?;
            self.assembly.borrow_mut().insert(whole);
            self.reduces(whole);
        }
        if whole != x {
            self.remember_assembly(x, whole);
        }
        Ok(whole)
    }

    /// Whether an instruction gives a parameter at a use of it, or a step on the way there from what is stored.
    pub(crate) fn is_weight(&self, instruction: &Instruction) -> bool {
        let assembly = self.assembly.borrow();
        matches!(instruction.op, Op::Boundary(Role::Weight))
            || instruction.results.iter().any(|result| assembly.contains(result))
    }
}

#[cfg(test)]
mod tests {
    use shardwright_hlo::{ArgumentKind, Module, Phase, SliceBounds, Unary};
    use shardwright_tensor::{DType, TensorType};

    use super::*;
    use crate::Recompute;

    /// A function of the first two of three numbers, which are used as a weight in two units.
    fn module(recompute: Recompute) -> Module {
        let g = Graph::new("m");
        let w = g.argument("w", TensorType::new(DType::F32, [3]).unwrap(), ArgumentKind::Parameter);
        let cut = SliceBounds { starts: vec![0], limits: vec![2], strides: vec![1] };
        g.stored_as(w, vec![Op::Slice(cut)]);
        let layer = || g.unary(Unary::Tanh, g.mul(g.weight(w)?, g.weight(w)?)?);
        let first = g.unit("0", "Layer", layer).unwrap();
        let second = g.unit("1", "Layer", layer).unwrap();
        let loss = g.sum(g.mul(first, second).unwrap(), &[0]).unwrap();
        let of_first = |unit: &shardwright_hlo::Unit| match &*unit.path {
            "0" => recompute,
            _ => Recompute::Nothing,
        };
        let gradient = g.gradients(loss, &[w], &of_first).unwrap()[0];
        assert_eq!(g.dims(gradient), [3]);
        g.output("dw", gradient);
        shardwright_hlo::verify(g.finish()).unwrap().into_inner()
    }

    fn slices(module: &Module, phase: Phase) -> usize {
        let is_cut = |i: &&Instruction| matches!(i.op, Op::Slice(_)) && i.location.phase == phase;
        module.instructions.iter().filter(is_cut).count()
    }

    #[test]
    fn what_is_stored_is_brought_together_once_a_pass() {
        let kept = module(Recompute::Nothing);
        assert_eq!((slices(&kept, Phase::Forward), slices(&kept, Phase::Recompute)), (1, 0));
        let again = module(Recompute::Weights);
        assert_eq!((slices(&again, Phase::Forward), slices(&again, Phase::Recompute)), (1, 1));
        let kept = module(Recompute::Activations);
        assert_eq!((slices(&kept, Phase::Forward), slices(&kept, Phase::Recompute)), (1, 0));
    }
}
