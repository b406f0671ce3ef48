//! The same steps in a loop, and written out one after the other.

use shardwright_graph::{Graph, Value};
use shardwright_tensor::HostArray;

use crate::differences::Result;

pub(crate) type Body<'a> = dyn Fn(Value, &[Value], &[Value]) -> Result<(Vec<Value>, Vec<Value>)> + 'a;

/// A scan, or the same written out: what is handed on at last, and what is stacked.
pub(crate) fn repeat(
    g: &Graph,
    how: Loop,
    length: usize,
    carry: &[Value],
    xs: &[Value],
    body: &Body<'_>,
) -> Result<(Vec<Value>, Vec<Value>)> {
    if how == Loop::Scan {
        return g.scan(length, carry, xs, body);
    }
    let mut carry = carry.to_vec();
    let mut stacks: Vec<Vec<Value>> = Vec::new();
    for i in 0..length {
        let row = |x: &Value| g.reshape(g.slice_dim(*x, 0, i..i + 1)?, &g.dims(*x)[1..]);
        let rows: Vec<Value> = xs.iter().map(row).collect::<Result<_>>()?;
        let index = g.constant(HostArray::scalar(i as i32))?;
        let (next, ys) = body(index, &carry, &rows)?;
        carry = next;
        stacks.resize(ys.len(), Vec::new());
        for (stack, y) in stacks.iter_mut().zip(ys) {
            stack.push(g.reshape(y, &[&[1], &g.dims(y)[..]].concat())?);
        }
    }
    let stacks = stacks.iter().map(|rows| g.concatenate(rows, 0)).collect::<Result<_>>()?;
    Ok((carry, stacks))
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Loop {
    Scan,
    WrittenOut,
}
