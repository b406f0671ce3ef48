//! One gradient rule per op.
//!
//! A rule takes the cotangents of an instruction's results and gives those of its operands, `None` where there is
//! none. The notation in the comments: `y = op(x, …)`, `ȳ` the cotangent of `y`.

use shardwright_hlo::{
    Binary, Comparison, DotDims, GatherDims, Instruction, Op, Reduction, Role, ScatterDims, SliceBounds,
    Unary, ValueId,
};
use shardwright_tensor::{DType, Shape};

use crate::{Graph, GraphError};

type Result<T> = std::result::Result<T, GraphError>;
type Cotangents = Vec<Option<ValueId>>;

/// The cotangents of an instruction's operands; at least one of `arriving` is there. `wanted` says for which
/// operands one is needed: others may be left out.
pub(crate) fn vjp(
    g: &Graph,
    instruction: &Instruction,
    arriving: &[Option<ValueId>],
    wanted: &[bool],
) -> Result<Cotangents> {
    let Instruction { op, operands: x, results, .. } = instruction;
    match op {
        Op::OptimizationBarrier => return Ok(arriving.to_vec()),
        Op::Call(_) | Op::While | Op::If | Op::Case | Op::ManualComputation(_) | Op::Other(_) => {
            return Err(not_differentiable(g, instruction));
        }
        _ => {}
    }
    let [Some(ct)] = *arriving else { return Ok(vec![None; x.len()]) };
    let y = results[0];
    let one = |cotangent: Result<ValueId>| Ok(vec![Some(cotangent?)]);
    match op {
        Op::Constant(_)
        | Op::Splat { .. }
        | Op::Iota { .. }
        | Op::Compare(_)
        | Op::BitcastConvert(_)
        | Op::OptimizationBarrier => Ok(vec![None; x.len()]),
        Op::Unary(op) => unary(g, *op, x[0], y, ct),
        Op::Binary(op) => binary(g, *op, [x[0], x[1]], y, ct, wanted),
        Op::Select => {
            let zero = g.full_like(ct, 0.0)?;
            Ok(vec![None, Some(g.select(x[0], ct, zero)?), Some(g.select(x[0], zero, ct)?)])
        }
        Op::Clamp => clamp(g, [x[0], x[1], x[2]], ct, wanted),
        // Where it arrives it is converted to what `x` takes, which need not be the dtype of `x`.
        Op::Convert(_) => one(Ok(ct)),
        Op::BroadcastInDim { shape, dims } => one(broadcast_in_dim(g, x[0], shape, dims, ct)),
        Op::Reshape(_) => one(g.reshape(ct, &g.dims(x[0]))),
        Op::Transpose(permutation) => {
            let inverse = (0..permutation.len()).map(|d| position(permutation, d)).collect::<Vec<_>>();
            one(g.transpose(ct, &inverse))
        }
        Op::Slice(bounds) => one(slice(g, x[0], bounds, ct)),
        Op::DynamicSlice { .. } => {
            let zeros = g.full(g.dtype(ct), &g.dims(x[0]), 0.0)?;
            let block = g.op(Op::DynamicUpdateSlice, &[&[zeros, ct], &x[1..]].concat())?;
            Ok([vec![Some(block)], vec![None; x.len() - 1]].concat())
        }
        Op::DynamicUpdateSlice => dynamic_update_slice(g, x, ct),
        Op::Reverse(dims) => one(g.op(Op::Reverse(dims.clone()), &[ct])),
        Op::Pad { low, high, interior } => pad(g, x[0], [low, high, interior], ct),
        Op::Concatenate { dim } => concatenate(g, x, *dim, ct),
        Op::DotGeneral(dims) => dot_general(g, [x[0], x[1]], dims, ct, wanted),
        Op::Reduce { kind: Reduction::Add, dims } => one(spread(g, x[0], dims, ct)),
        Op::Reduce { kind: Reduction::Maximum | Reduction::Minimum, dims } => {
            one(extremum(g, dims, x[0], y, ct))
        }
        Op::Gather(dims) => Ok(vec![Some(gather(g, [x[0], x[1]], dims, ct)?), None]),
        Op::Scatter { kind: Reduction::Add, dims } => {
            Ok(vec![Some(ct), None, Some(scatter_updates(g, [x[0], x[1], x[2]], dims, ct)?)])
        }
        Op::Boundary(Role::Activation) => one(g.activation(ct)),
        Op::Boundary(_) => Ok(vec![Some(ct)]),
        Op::AllGather { dim, axes } => one(g.reduce_scatter(ct, *dim, axes.clone())),
        Op::ReduceScatter { kind: Reduction::Add, dim, axes } => one(g.all_gather(ct, *dim, axes.clone())),
        Op::AllReduce { kind: Reduction::Add, axes } => one(g.vary(ct, axes.clone())),
        Op::Vary(axes) => one(g.all_reduce(ct, axes.clone())),
        Op::Reduce { .. }
        | Op::Scatter { .. }
        | Op::ReduceScatter { .. }
        | Op::AllReduce { .. }
        | Op::Call(_)
        | Op::While
        | Op::If
        | Op::Case
        | Op::ManualComputation(_)
        | Op::Other(_) => Err(not_differentiable(g, instruction)),
    }
}

fn not_differentiable(g: &Graph, Instruction { op, location, .. }: &Instruction) -> GraphError {
    let module = g.module.borrow();
    let unit = location.unit.map(|id| module.unit(id).path.clone()).unwrap_or_default();
    let op = match op {
        Op::Reduce { kind, .. }
        | Op::Scatter { kind, .. }
        | Op::ReduceScatter { kind, .. }
        | Op::AllReduce { kind, .. } => format!("{} with {}", op.name(), kind.op().name()),
        op => op.name().to_owned(),
    };
    GraphError::NotDifferentiable { unit, op }
}

fn unary(g: &Graph, op: Unary, x: ValueId, y: ValueId, ct: ValueId) -> Result<Cotangents> {
    let slope = match op {
        Unary::Exponential => y,
        Unary::ExponentialMinusOne => g.offset(y, 1.0)?,
        // y′ = 1 / 3y²
        Unary::Cbrt => return Ok(vec![Some(g.div(ct, g.scale(g.mul(y, y)?, 3.0)?)?)]),
        Unary::Log => return Ok(vec![Some(g.div(ct, x)?)]),
        Unary::LogPlusOne => return Ok(vec![Some(g.div(ct, g.offset(x, 1.0)?)?)]),
        // y′ = y (1 − y)
        Unary::Logistic => g.mul(y, g.sub(g.full_like(y, 1.0)?, y)?)?,
        Unary::Negate => return Ok(vec![Some(g.neg(ct)?)]),
        // y′ = −y³ / 2
        Unary::Rsqrt => g.scale(g.mul(y, g.mul(y, y)?)?, -0.5)?,
        Unary::Sqrt => g.div(g.full_like(y, 0.5)?, y)?,
        // y′ = 1 + y²
        Unary::Tan => g.offset(g.mul(y, y)?, 1.0)?,
        // y′ = 1 − y²
        Unary::Tanh => g.sub(g.full_like(y, 1.0)?, g.mul(y, y)?)?,
        Unary::Sine => g.unary(Unary::Cosine, x)?,
        Unary::Cosine => g.neg(g.unary(Unary::Sine, x)?)?,
        Unary::Abs => {
            let zero = g.full_like(x, 0.0)?;
            let negative = g.compare(Comparison::Less, x, zero)?;
            return Ok(vec![Some(g.select(negative, g.neg(ct)?, ct)?)]);
        }
        // Constant between their steps, or of what has no gradient.
        Unary::Ceil
        | Unary::CountLeadingZeros
        | Unary::Floor
        | Unary::IsFinite
        | Unary::Not
        | Unary::Popcnt
        | Unary::RoundNearestAfz
        | Unary::RoundNearestEven
        | Unary::Sign => return Ok(vec![None]),
    };
    Ok(vec![Some(g.mul(ct, slope)?)])
}

fn binary(
    g: &Graph,
    op: Binary,
    [a, b]: [ValueId; 2],
    y: ValueId,
    ct: ValueId,
    wanted: &[bool],
) -> Result<Cotangents> {
    let when = |index: usize, cotangent: &dyn Fn() -> Result<ValueId>| {
        if wanted[index] { cotangent().map(Some) } else { Ok(None) }
    };
    let both = |left: &dyn Fn() -> Result<ValueId>, right: &dyn Fn() -> Result<ValueId>| {
        Ok(vec![when(0, left)?, when(1, right)?])
    };
    match op {
        Binary::Add => Ok(vec![Some(ct), Some(ct)]),
        Binary::Subtract => both(&|| Ok(ct), &|| g.neg(ct)),
        Binary::Multiply => both(&|| g.mul(ct, b), &|| g.mul(ct, a)),
        Binary::Divide => both(&|| g.div(ct, b), &|| g.neg(g.div(g.mul(ct, y)?, b)?)),
        Binary::Power => {
            both(&|| g.mul(ct, g.mul(b, g.binary(Binary::Power, a, g.offset(b, -1.0)?)?)?), &|| {
                g.mul(ct, g.mul(y, g.unary(Unary::Log, a)?)?)
            })
        }
        Binary::Maximum => {
            both(&|| share(g, Comparison::Greater, a, b, ct), &|| share(g, Comparison::Greater, b, a, ct))
        }
        Binary::Minimum => {
            both(&|| share(g, Comparison::Less, a, b, ct), &|| share(g, Comparison::Less, b, a, ct))
        }
        // y = atan(a / b), and ȳ / (a² + b²) is what both have in common.
        Binary::Atan2 => {
            let part = g.div(ct, g.add(g.mul(a, a)?, g.mul(b, b)?)?)?;
            both(&|| g.mul(part, b), &|| g.neg(g.mul(part, a)?))
        }
        // y = a − b q, where q = (a − y) / b is whole.
        Binary::Remainder => both(&|| Ok(ct), &|| g.neg(g.mul(ct, g.div(g.sub(a, y)?, b)?)?)),
        Binary::And
        | Binary::Or
        | Binary::ShiftLeft
        | Binary::ShiftRightArithmetic
        | Binary::ShiftRightLogical
        | Binary::Xor => Ok(vec![None, None]),
    }
}

/// `ct` where `mine` wins against `other`, half of it where they are equal.
fn share(g: &Graph, wins: Comparison, mine: ValueId, other: ValueId, ct: ValueId) -> Result<ValueId> {
    let (zero, half) = (g.full_like(ct, 0.0)?, g.scale(ct, 0.5)?);
    let tied = g.select(g.compare(Comparison::Equal, mine, other)?, half, zero)?;
    g.select(g.compare(wins, mine, other)?, ct, tied)
}

/// Whoever gave an element gets its cotangent: the operand, where it lies within the bounds, or a bound.
fn clamp(g: &Graph, [min, x, max]: [ValueId; 3], ct: ValueId, wanted: &[bool]) -> Result<Cotangents> {
    let zero = g.full_like(ct, 0.0)?;
    let dims = g.dims(x);
    let wide =
        |bound| if g.dims(bound).is_empty() { g.broadcast_in_dim(bound, &dims, &[]) } else { Ok(bound) };
    let below = g.compare(Comparison::Less, x, wide(min)?)?;
    let above = g.compare(Comparison::Greater, x, wide(max)?)?;
    let bound = |index: usize, bound, outside| {
        if !wanted[index] {
            return Ok(None);
        }
        let cotangent = g.select(outside, ct, zero)?;
        let is_wide = g.dims(bound).len() == dims.len();
        if is_wide {
            Ok(Some(cotangent))
        } else {
            g.sum(cotangent, &(0..dims.len()).collect::<Vec<_>>()).map(Some)
        }
    };
    let inside = g.select(below, zero, g.select(above, zero, ct)?)?;
    Ok(vec![bound(0, min, below)?, Some(inside), bound(2, max, above)?])
}

/// The block's cotangent is that of the update, the rest that of the operand.
fn dynamic_update_slice(g: &Graph, x: &[ValueId], ct: ValueId) -> Result<Cotangents> {
    let (update, starts) = (x[1], &x[2..]);
    let rest = g.op(Op::DynamicUpdateSlice, &[&[ct, g.full_like(update, 0.0)?], starts].concat())?;
    let block = g.op(Op::DynamicSlice { sizes: g.dims(update) }, &[&[ct], starts].concat())?;
    Ok([vec![Some(rest), Some(block)], vec![None; starts.len()]].concat())
}

/// Sums over the dims that were added or repeated.
fn broadcast_in_dim(g: &Graph, x: ValueId, shape: &Shape, dims: &[usize], ct: ValueId) -> Result<ValueId> {
    let x_dims = g.dims(x);
    let kept = |d: &usize| dims.iter().position(|to| to == d).is_some_and(|i| x_dims[i] == shape.dims()[*d]);
    let summed: Vec<usize> = (0..shape.rank()).filter(|d| !kept(d)).collect();
    let sum = if summed.is_empty() { ct } else { g.sum(summable(g, ct)?, &summed)? };
    // The dims that are left stand in the result's order; a dim of `x` that was repeated has size 1 and is missing.
    let mut left: Vec<usize> = (0..dims.len()).filter(|&i| x_dims[i] == shape.dims()[dims[i]]).collect();
    let by_operand = left.clone();
    left.sort_by_key(|&i| dims[i]);
    let order: Vec<usize> = by_operand.iter().map(|&i| position(&left, i)).collect();
    g.reshape(g.transpose(sum, &order)?, &x_dims)
}

/// A cotangent of which many are added up: floats of 16 bits would soon be too large to notice another one.
fn summable(g: &Graph, ct: ValueId) -> Result<ValueId> {
    let is_narrow = matches!(g.dtype(ct), DType::Bf16 | DType::F16);
    g.convert(ct, if is_narrow { DType::F32 } else { g.dtype(ct) })
}

/// Zeros around, and between, the elements that were taken.
fn slice(g: &Graph, x: ValueId, bounds: &SliceBounds, ct: ValueId) -> Result<ValueId> {
    let (x_dims, taken) = (g.dims(x), g.dims(ct));
    let low = signed(&bounds.starts);
    let interior: Vec<i64> = signed(&bounds.strides).iter().map(|s| s - 1).collect();
    let high = (0..x_dims.len())
        .map(|d| {
            let spread = if taken[d] == 0 { 0 } else { (taken[d] - 1) * bounds.strides[d] + 1 };
            as_i64(x_dims[d]) - low[d] - as_i64(spread)
        })
        .collect();
    let zero = g.full(g.dtype(ct), &[], 0.0)?;
    g.op(Op::Pad { low, high, interior }, &[ct, zero])
}

/// The elements of `ct` where those of `x` stand; the padding gets the sum of the rest.
fn pad(g: &Graph, x: ValueId, [low, high, interior]: [&Vec<i64>; 3], ct: ValueId) -> Result<Cotangents> {
    let zero = g.full(g.dtype(ct), &[], 0.0)?;
    let negated = |amounts: &[i64]| amounts.iter().map(|n| -n).collect();
    let none = vec![0; low.len()];
    let uncut = Op::Pad { low: negated(low), high: negated(high), interior: none };
    let spread = g.op(uncut, &[ct, zero])?;
    let limits = g.dims(spread);
    let strides = interior.iter().map(|&n| usize::try_from(n).unwrap_or(0) + 1).collect();
    let at_x = g.op(Op::Slice(SliceBounds { starts: vec![0; limits.len()], limits, strides }), &[spread])?;
    let all = |v| g.sum(v, &(0..g.dims(x).len()).collect::<Vec<_>>());
    Ok(vec![Some(at_x), Some(g.sub(all(ct)?, all(at_x)?)?)])
}

fn concatenate(g: &Graph, x: &[ValueId], dim: usize, ct: ValueId) -> Result<Cotangents> {
    let mut start = 0;
    let mut part = |&operand: &ValueId| {
        let end = start + g.dims(operand)[dim];
        let range = std::mem::replace(&mut start, end)..end;
        g.slice_dim(ct, dim, range).map(Some)
    };
    x.iter().map(&mut part).collect()
}

/// Each operand's cotangent is a product of `ct` with the other operand, over the dims that the other one brought in.
fn dot_general(
    g: &Graph,
    [lhs, rhs]: [ValueId; 2],
    dims: &DotDims,
    ct: ValueId,
    wanted: &[bool],
) -> Result<Cotangents> {
    let ct = g.convert(ct, g.dtype(lhs))?;
    let left = Side { value: lhs, batch: &dims.lhs_batch, contracting: &dims.lhs_contracting };
    let right = Side { value: rhs, batch: &dims.rhs_batch, contracting: &dims.rhs_contracting };
    // The result's dims: batch, then free dims of the left operand, then free dims of the right one.
    let batch = dims.lhs_batch.len();
    let split = batch + left.free(g).len();
    let end = split + right.free(g).len();
    let for_left = || left.cotangent(g, &right, split..end, ct, dims);
    let for_right = || right.cotangent(g, &left, batch..split, ct, dims);
    let for_left = if wanted[0] { Some(for_left()?) } else { None };
    let for_right = if wanted[1] { Some(for_right()?) } else { None };
    Ok(vec![for_left, for_right])
}

/// One operand of a `dot_general`.
struct Side<'a> {
    value: ValueId,
    batch: &'a [usize],
    contracting: &'a [usize],
}

impl Side<'_> {
    fn free(&self, g: &Graph) -> Vec<usize> {
        let rank = g.dims(self.value).len();
        (0..rank).filter(|d| !self.batch.contains(d) && !self.contracting.contains(d)).collect()
    }

    /// The cotangent of this operand: `ct` times the other one, summed over the dims of `ct` that came from there.
    fn cotangent(
        &self,
        g: &Graph,
        other: &Side<'_>,
        from_other: std::ops::Range<usize>,
        ct: ValueId,
        dims: &DotDims,
    ) -> Result<ValueId> {
        let product = DotDims {
            lhs_batch: (0..self.batch.len()).collect(),
            rhs_batch: other.batch.to_vec(),
            lhs_contracting: from_other.collect(),
            rhs_contracting: other.free(g),
            result: g.cotangent_ty(self.value).dtype,
            precision: dims.precision,
        };
        let product = g.op(Op::DotGeneral(product), &[ct, other.value])?;
        // Its dims: batch, this operand's free dims, and the other one's contracting dims in that one's order.
        let mut theirs: Vec<usize> = (0..self.contracting.len()).collect();
        theirs.sort_by_key(|&i| other.contracting[i]);
        let contracted = theirs.iter().map(|&i| self.contracting[i]);
        let order: Vec<usize> = self.batch.iter().copied().chain(self.free(g)).chain(contracted).collect();
        let inverse: Vec<usize> = (0..order.len()).map(|d| position(&order, d)).collect();
        g.transpose(product, &inverse)
    }
}

/// `v` at every index along the dims of `x` that were reduced.
fn spread(g: &Graph, x: ValueId, dims: &[usize], v: ValueId) -> Result<ValueId> {
    let shape = g.dims(x);
    let kept: Vec<usize> = (0..shape.len()).filter(|d| !dims.contains(d)).collect();
    g.broadcast_in_dim(v, &shape, &kept)
}

/// Elements that are the maximum, or minimum, share its cotangent.
fn extremum(g: &Graph, dims: &[usize], x: ValueId, y: ValueId, ct: ValueId) -> Result<ValueId> {
    let (zero, one) = (g.full_like(x, 0.0)?, g.full_like(x, 1.0)?);
    let winners = g.select(g.compare(Comparison::Equal, x, spread(g, x, dims, y)?)?, one, zero)?;
    let each = g.div(ct, g.sum(winners, dims)?)?;
    g.mul(winners, spread(g, x, dims, each)?)
}

/// Slices are added back to where they were taken. A start index outside the operand was clamped; its cotangent is lost,
/// as `scatter` leaves such updates out.
fn gather(g: &Graph, [x, indices]: [ValueId; 2], dims: &GatherDims, ct: ValueId) -> Result<ValueId> {
    let scatter = ScatterDims {
        update_window: dims.offset.clone(),
        inserted_window: dims.collapsed.clone(),
        operand_batch: dims.operand_batch.clone(),
        indices_batch: dims.indices_batch.clone(),
        index_map: dims.start_index_map.clone(),
        index_vector: dims.index_vector,
        indices_are_sorted: dims.indices_are_sorted,
        unique_indices: false,
    };
    let ct = summable(g, ct)?;
    let zeros = g.full(g.dtype(ct), &g.dims(x), 0.0)?;
    let added = g.op(Op::Scatter { kind: Reduction::Add, dims: scatter }, &[zeros, indices, ct])?;
    g.op(Op::Boundary(Role::TableGradient), &[added])
}

/// Each update gets the cotangent of the window that it was added to.
fn scatter_updates(
    g: &Graph,
    [x, indices, updates]: [ValueId; 3],
    dims: &ScatterDims,
    ct: ValueId,
) -> Result<ValueId> {
    let updates = g.dims(updates);
    let mut window = dims.update_window.iter().map(|&d| updates[d]);
    let rank = g.dims(x).len();
    let left_out = |d: &usize| dims.inserted_window.contains(d) || dims.operand_batch.contains(d);
    let size = |d| if left_out(&d) { 1 } else { window.next().unwrap_or(1) };
    let gather = GatherDims {
        offset: dims.update_window.clone(),
        collapsed: dims.inserted_window.clone(),
        operand_batch: dims.operand_batch.clone(),
        indices_batch: dims.indices_batch.clone(),
        start_index_map: dims.index_map.clone(),
        index_vector: dims.index_vector,
        slice_sizes: (0..rank).map(size).collect(),
        indices_are_sorted: dims.indices_are_sorted,
    };
    g.op(Op::Gather(gather), &[ct, indices])
}

/// Where `item` stands; it is there.
fn position(items: &[usize], item: usize) -> usize {
    items.iter().position(|&i| i == item).expect("a permutation names each dim")
}

fn signed(sizes: &[usize]) -> Vec<i64> {
    sizes.iter().map(|&n| as_i64(n)).collect()
}

fn as_i64(n: usize) -> i64 {
    i64::try_from(n).expect("a size that can be addressed fits")
}
