//! Programs for one device: collectives, and parameters that are there in parts.
//!
//! The reverse pass needs nothing of its own for them. The transpose of gathering shards is scattering the sum of what
//! arrives on each device, and the transpose of beginning to use one value in ways that differ ([`Graph::vary`]) is the
//! sum over the devices. So where parameters come in through [`Graph::stored_as`], the gradient of a shard is the
//! shard of the whole batch's gradient.

use shardwright_hlo::{AxisGroup, Instruction, Op, Reduction, Role, ValueId};

use crate::{Graph, GraphError};

type Result<T> = std::result::Result<T, GraphError>;

impl Graph {
    /// Has each use of `x` as a [weight](Graph::weight) be what these ops, of one operand each, make of it one after
    /// the other: the gathers that bring a stored shard together. They are written at the first use, in its unit;
    /// later uses share the result.
    pub fn stored_as(&self, x: ValueId, ops: Vec<Op>) {
        self.stored.borrow_mut().insert(x, ops);
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

    /// What a stored value is made of for its uses as a weight; any other value itself.
    pub(crate) fn assembled(&self, x: ValueId) -> Result<ValueId> {
        if let Some(&whole) = self.assembled.borrow().get(&x) {
            return Ok(whole);
        }
        let Some(ops) = self.stored.borrow_mut().remove(&x) else { return Ok(x) };
        let mut whole = x;
        for op in ops {
            whole = self.op(op, &[whole])?;
            self.assembly.borrow_mut().insert(whole);
        }
        self.assembled.borrow_mut().insert(x, whole);
        Ok(whole)
    }

    /// Whether an instruction gives a parameter at a use of it, or a step on the way there from what is stored.
    pub(crate) fn is_weight(&self, instruction: &Instruction) -> bool {
        let assembly = self.assembly.borrow();
        matches!(instruction.op, Op::Boundary(Role::Weight))
            || instruction.results.iter().any(|result| assembly.contains(result))
    }
}
