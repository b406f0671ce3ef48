//! Result types: one rule per op. The labels in the rules are what [`InferError`] quotes.

mod control;

use std::fmt;

use shardwright_tensor::{DType, Shape, ShapeError, TensorType};
use thiserror::Error;

use crate::{
    DotDims, FunctionId, GatherDims, Module, Op, Reduction, Region, ScatterDims, SliceBounds, ValueId,
    ValueType,
};

/// Operands that an op is not defined on.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum InferError {
    /// More or fewer operands than the op has.
    #[error("{op} takes {expected} operands, got {found}")]
    OperandCount {
        /// Name of the op.
        op: String,
        /// How many it takes.
        expected: usize,
        /// How many were given.
        found: usize,
    },
    /// A constraint of the op that its operands or attributes break.
    #[error("{op} of {operands:?}: {constraint}")]
    Constraint {
        /// Name of the op.
        op: String,
        /// What must hold.
        constraint: &'static str,
        /// The types that were given.
        operands: Vec<TensorType>,
    },
    /// An operand that is no array, of an op that is on arrays.
    #[error("{op} takes arrays, got {found}")]
    NotATensor {
        /// Name of the op.
        op: String,
        /// The type that was given.
        found: ValueType,
    },
    /// A manual region that does not work on the shards of its operands.
    #[error("sdy.manual_computation: {reason}")]
    Manual {
        /// What does not fit.
        reason: String,
    },
    /// An op whose operands do not say what it gives.
    #[error("{op}: its results are not given by its operands")]
    NotInferred {
        /// Name of the op.
        op: String,
    },
    /// More or fewer regions than the op has.
    #[error("{op} has {expected}, got {found}")]
    RegionCount {
        /// Name of the op.
        op: String,
        /// How many it has.
        expected: &'static str,
        /// How many were given.
        found: usize,
    },
    /// What goes into or comes out of a region or function is not what it takes or should give.
    #[error("{op}: {what} has types {}, and must have {}", List(found), List(expected))]
    Types {
        /// Name of the op.
        op: String,
        /// Which values.
        what: String,
        /// What their types must be.
        expected: Vec<ValueType>,
        /// What they are.
        found: Vec<ValueType>,
    },
    /// A function that the module does not have.
    #[error("call: the module has no {function}")]
    NoFunction {
        /// Which one.
        function: FunctionId,
    },
    /// A result too large to be addressed.
    #[error("{op}: {source}")]
    Shape {
        /// Name of the op.
        op: String,
        /// Which shape.
        source: ShapeError,
    },
}

/// The types of an instruction's results: given by its op and operands, and where it has regions, by these.
pub(crate) fn infer_instruction(
    module: &Module,
    op: &Op,
    operands: &[ValueId],
    regions: &[Region],
) -> Result<Vec<ValueType>, InferError> {
    match op {
        Op::Other(other) => return Ok(other.results.clone()),
        Op::ManualComputation(manual) => return manual.infer(module, operands, regions),
        Op::Call(_) | Op::While | Op::If | Op::Case => {
            return control::Control { module, op, operands, regions }.infer();
        }
        _ if !regions.is_empty() => {
            return Err(InferError::RegionCount {
                op: op.name().into(),
                expected: "no regions",
                found: regions.len(),
            });
        }
        _ => {}
    }
    let tensor = |&value: &ValueId| match &module.values[value.index()] {
        ValueType::Tensor(ty) => Ok(ty),
        found => Err(InferError::NotATensor { op: op.name().to_owned(), found: found.clone() }),
    };
    let types = operands.iter().map(tensor).collect::<Result<Vec<_>, _>>()?;
    Ok(infer(op, &types)?.into_iter().map(ValueType::Tensor).collect())
}

/// The types of an op's results, given those of its operands, where these alone give them.
///
/// # Errors
/// When the op is not defined on these operands, with the constraint that they break.
pub fn infer(op: &Op, operands: &[&TensorType]) -> Result<Vec<TensorType>, InferError> {
    let rule = Rule { op, operands };
    let ty = match op {
        Op::Constant(value) => rule.operands().map(|[]| value.ty().clone()),
        Op::Splat { element, shape } => rule.splat(element.ty(), shape),
        Op::Iota { ty, dim } => rule.iota(ty, *dim),
        Op::Unary(unary) => {
            rule.elementwise::<1>(|dtype| unary.takes(dtype)).map(|ty| with_dtype(&ty, unary.gives(ty.dtype)))
        }
        Op::Binary(binary) => rule.elementwise::<2>(|dtype| binary.takes(dtype)),
        Op::Compare(_) => rule.elementwise::<2>(|_| true).map(|ty| with_dtype(&ty, DType::Pred)),
        Op::Select => rule.select(),
        Op::Clamp => rule.clamp(),
        Op::Convert(dtype) => rule.operands().map(|[x]| with_dtype(x, *dtype)),
        Op::BitcastConvert(dtype) => rule.bitcast_convert(*dtype),
        Op::BroadcastInDim { shape, dims } => rule.broadcast_in_dim(shape, dims),
        Op::Reshape(shape) => rule.reshape(shape),
        Op::Transpose(permutation) => rule.transpose(permutation),
        Op::Slice(bounds) => rule.slice(bounds),
        Op::DynamicSlice { sizes } => rule.dynamic_slice(sizes),
        Op::DynamicUpdateSlice => rule.dynamic_update_slice(),
        Op::Reverse(dims) => rule.reverse(dims),
        Op::Pad { low, high, interior } => rule.pad(low, high, interior),
        Op::Concatenate { dim } => rule.concatenate(*dim),
        Op::DotGeneral(dims) => rule.dot_general(dims),
        Op::Reduce { kind, dims } => rule.reduce(*kind, dims),
        Op::Gather(dims) => rule.gather(dims),
        Op::Scatter { kind, dims } => rule.scatter(*kind, dims),
        Op::OptimizationBarrier => return Ok(operands.iter().map(|&ty| ty.clone()).collect()),
        Op::Boundary(_) => rule.operands().map(|[x]| x.clone()),
        Op::AllGather { dim, axes } => rule.all_gather(*dim, axes.size()),
        Op::ReduceScatter { dim, axes, .. } => rule.reduce_scatter(*dim, axes.size()),
        Op::AllReduce { .. } => rule.elementwise::<1>(|dtype| dtype != DType::Pred),
        Op::Vary(_) => rule.operands().map(|[x]| x.clone()),
        Op::Call(_) | Op::While | Op::If | Op::Case | Op::ManualComputation(_) | Op::Other(_) => {
            Err(InferError::NotInferred { op: op.name().to_owned() })
        }
    };
    Ok(vec![ty?])
}

/// Types as messages list them.
pub(crate) struct List<'a>(pub(crate) &'a [ValueType]);

impl fmt::Display for List<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let types: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        write!(f, "[{}]", types.join(", "))
    }
}

struct Rule<'a> {
    op: &'a Op,
    operands: &'a [&'a TensorType],
}

type Inferred = Result<TensorType, InferError>;

impl<'a> Rule<'a> {
    fn operands<const N: usize>(&self) -> Result<[&'a TensorType; N], InferError> {
        <[&TensorType; N]>::try_from(self.operands).map_err(|_| InferError::OperandCount {
            op: self.op.name().to_owned(),
            expected: N,
            found: self.operands.len(),
        })
    }

    fn require(&self, holds: bool, constraint: &'static str) -> Result<(), InferError> {
        if holds {
            return Ok(());
        }
        let operands = self.operands.iter().map(|&ty| ty.clone()).collect();
        Err(InferError::Constraint { op: self.op.name().to_owned(), constraint, operands })
    }

    fn ty(&self, dtype: DType, dims: Vec<usize>) -> Inferred {
        let shape =
            Shape::new(dims).map_err(|source| InferError::Shape { op: self.op.name().to_owned(), source })?;
        Ok(TensorType { dtype, shape })
    }

    fn splat(&self, element: &TensorType, shape: &Shape) -> Inferred {
        let [] = self.operands()?;
        self.require(element.rank() == 0, "the element is a scalar")?;
        Ok(TensorType { dtype: element.dtype, shape: shape.clone() })
    }

    fn iota(&self, ty: &TensorType, dim: usize) -> Inferred {
        let [] = self.operands()?;
        self.require(dim < ty.rank(), "the dim is one of the result's")?;
        self.require(ty.dtype != DType::Pred, "the dtype is a number's")?;
        Ok(ty.clone())
    }

    fn elementwise<const N: usize>(&self, takes: impl Fn(DType) -> bool) -> Inferred {
        let operands: [&TensorType; N] = self.operands()?;
        self.require(operands.iter().all(|&ty| ty == operands[0]), "all operands have one type")?;
        self.require(takes(operands[0].dtype), "the op is defined on the dtype")?;
        Ok(operands[0].clone())
    }

    fn select(&self) -> Inferred {
        let [condition, on_true, on_false] = self.operands()?;
        self.require(condition.dtype == DType::Pred, "the first operand is a pred")?;
        self.require(on_true == on_false, "the second and third operands have one type")?;
        let fits = condition.rank() == 0 || condition.shape == on_true.shape;
        self.require(fits, "the first operand is a scalar or has the shape of the others")?;
        Ok(on_true.clone())
    }

    fn clamp(&self) -> Inferred {
        let [min, x, max] = self.operands()?;
        let bounds = |ty: &TensorType| ty == x || *ty == TensorType::scalar(x.dtype);
        self.require(bounds(min) && bounds(max), "bounds are scalars or arrays of the operand's type")?;
        Ok(x.clone())
    }

    fn bitcast_convert(&self, dtype: DType) -> Inferred {
        let [x] = self.operands()?;
        let (from, to) = (x.dtype.size(), dtype.size());
        let alike = (x.dtype == DType::Pred) == (dtype == DType::Pred);
        self.require(alike, "truth values have no bits to be seen as another dtype")?;
        let mut dims = x.dims().to_vec();
        if from > to {
            dims.push(from / to);
        } else if from < to {
            self.require(dims.pop() == Some(to / from), "the last dim holds the parts of an element")?;
        }
        self.ty(dtype, dims)
    }

    fn broadcast_in_dim(&self, shape: &Shape, dims: &[usize]) -> Inferred {
        let [x] = self.operands()?;
        self.require(dims.len() == x.rank(), "there is one result dim for each operand dim")?;
        self.require(distinct_below(dims, shape.rank()), "result dims exist and are distinct")?;
        let fits = dims.iter().zip(x.dims()).all(|(&d, &size)| size == 1 || size == shape.dims()[d]);
        self.require(fits, "each operand dim is 1 or of the result's size")?;
        Ok(TensorType { dtype: x.dtype, shape: shape.clone() })
    }

    fn reshape(&self, shape: &Shape) -> Inferred {
        let [x] = self.operands()?;
        self.require(x.shape.element_count() == shape.element_count(), "element counts are equal")?;
        Ok(TensorType { dtype: x.dtype, shape: shape.clone() })
    }

    fn transpose(&self, permutation: &[usize]) -> Inferred {
        let [x] = self.operands()?;
        let permutes = permutation.len() == x.rank() && distinct_below(permutation, x.rank());
        self.require(permutes, "the permutation names each dim once")?;
        self.ty(x.dtype, permutation.iter().map(|&d| x.dims()[d]).collect())
    }

    fn slice(&self, bounds: &SliceBounds) -> Inferred {
        let [x] = self.operands()?;
        let SliceBounds { starts, limits, strides } = bounds;
        let one_each = [starts.len(), limits.len(), strides.len()] == [x.rank(); 3];
        self.require(one_each, "there is one start, limit and stride for each dim")?;
        let inside = (0..x.rank()).all(|d| starts[d] <= limits[d] && limits[d] <= x.dims()[d]);
        self.require(inside, "start <= limit <= size in each dim")?;
        self.require(strides.iter().all(|&s| s > 0), "strides are positive")?;
        self.ty(x.dtype, (0..x.rank()).map(|d| (limits[d] - starts[d]).div_ceil(strides[d])).collect())
    }

    fn dynamic_slice(&self, sizes: &[usize]) -> Inferred {
        let x = self.indexed(1, "there is an operand, and a start index for each dim")?;
        self.require(sizes.len() == x.rank(), "there is one size for each dim")?;
        self.require(sizes.iter().zip(x.dims()).all(|(n, size)| n <= size), "sizes are within the operand")?;
        self.ty(x.dtype, sizes.to_vec())
    }

    fn dynamic_update_slice(&self) -> Inferred {
        let x = self.indexed(2, "there is an operand, an update, and a start index for each dim")?;
        let update = self.operands[1];
        self.require(update.dtype == x.dtype && update.rank() == x.rank(), "dtypes and ranks are equal")?;
        let fits = update.dims().iter().zip(x.dims()).all(|(n, size)| n <= size);
        self.require(fits, "the update is within the operand")?;
        Ok(x.clone())
    }

    /// The first operand of an op that has start indices after `arrays` of them.
    fn indexed(&self, arrays: usize, counts: &'static str) -> Result<&'a TensorType, InferError> {
        let rank = self.operands.first().map(|x| x.rank());
        self.require(rank.map(|rank| rank + arrays) == Some(self.operands.len()), counts)?;
        let starts = &self.operands[arrays..];
        let alike = starts.iter().all(|&ty| ty.rank() == 0 && ty.dtype.is_integer() && ty == starts[0]);
        self.require(alike, "start indices are scalars of one integer dtype")?;
        Ok(self.operands[0])
    }

    fn reverse(&self, dims: &[usize]) -> Inferred {
        let [x] = self.operands()?;
        self.require(distinct_below(dims, x.rank()), "dims exist and are distinct")?;
        Ok(x.clone())
    }

    fn pad(&self, low: &[i64], high: &[i64], interior: &[i64]) -> Inferred {
        let [x, value] = self.operands()?;
        self.require(*value == TensorType::scalar(x.dtype), "the padding is a scalar of the dtype")?;
        let one_each = [low.len(), high.len(), interior.len()] == [x.rank(); 3];
        self.require(one_each, "there is one low, high and interior amount for each dim")?;
        self.require(interior.iter().all(|&n| n >= 0), "interior amounts are not negative")?;
        let size = |d: usize| {
            let size = i64::try_from(x.dims()[d]).ok()?;
            let inner = (size - 1).max(0).checked_mul(interior[d])?;
            let padded = size.checked_add(inner)?.checked_add(low[d])?.checked_add(high[d])?;
            usize::try_from(padded).ok()
        };
        let dims: Option<Vec<usize>> = (0..x.rank()).map(size).collect();
        self.require(dims.is_some(), "padded sizes are not negative")?;
        self.ty(x.dtype, dims.unwrap_or_default())
    }

    fn concatenate(&self, dim: usize) -> Inferred {
        let first = *self.operands.first().ok_or(InferError::OperandCount {
            op: self.op.name().to_owned(),
            expected: 1,
            found: 0,
        })?;
        self.require(dim < first.rank(), "the dim is one of the operands'")?;
        let mut dims = first.dims().to_vec();
        dims[dim] = 0;
        for x in self.operands {
            let mut others = x.dims().to_vec();
            let alike = x.rank() == first.rank() && x.dtype == first.dtype;
            self.require(alike, "dtypes and ranks are equal")?;
            dims[dim] = dims[dim].saturating_add(x.dims()[dim]);
            others[dim] = dims[dim];
            self.require(others == dims, "sizes are equal in all other dims")?;
        }
        self.ty(first.dtype, dims)
    }

    fn dot_general(&self, dims: &DotDims) -> Inferred {
        let [lhs, rhs] = self.operands()?;
        self.require(lhs.dtype == rhs.dtype, "operand dtypes are equal")?;
        let pairs = [(&dims.lhs_batch, &dims.rhs_batch), (&dims.lhs_contracting, &dims.rhs_contracting)];
        for (l, r) in pairs {
            self.require(l.len() == r.len(), "both operands have as many batch and contracting dims")?;
        }
        let lhs_used = [&dims.lhs_batch[..], &dims.lhs_contracting[..]].concat();
        let rhs_used = [&dims.rhs_batch[..], &dims.rhs_contracting[..]].concat();
        let distinct = distinct_below(&lhs_used, lhs.rank()) && distinct_below(&rhs_used, rhs.rank());
        self.require(distinct, "batch and contracting dims exist and are distinct")?;
        let sizes_match = lhs_used.iter().zip(&rhs_used).all(|(&l, &r)| lhs.dims()[l] == rhs.dims()[r]);
        self.require(sizes_match, "batch and contracting dims have equal sizes")?;
        let batch = dims.lhs_batch.iter().map(|&d| lhs.dims()[d]);
        let left = free_dims(lhs, &lhs_used).chain(free_dims(rhs, &rhs_used));
        self.ty(dims.result, batch.chain(left).collect())
    }

    fn reduce(&self, kind: Reduction, dims: &[usize]) -> Inferred {
        let [x] = self.operands()?;
        self.require(ascending_below(dims, x.rank()), "dims exist, in ascending order")?;
        self.require(kind.op().takes(x.dtype), "the reduction is defined on the dtype")?;
        self.ty(x.dtype, free_dims(x, dims).collect())
    }

    fn gather(&self, dims: &GatherDims) -> Inferred {
        let [x, indices] = self.operands()?;
        let batch = self.index_batch(indices, dims.index_vector, &dims.start_index_map, x)?;
        let one_each = dims.slice_sizes.len() == x.rank();
        self.require(one_each, "there is one slice size for each operand dim")?;
        let inside = dims.slice_sizes.iter().zip(x.dims()).all(|(&slice, &size)| slice <= size);
        self.require(inside, "slice sizes are within the operand")?;
        let exist = ascending_below(&dims.collapsed, x.rank());
        self.require(exist, "collapsed dims exist, in ascending order")?;
        let left_out = [&dims.collapsed[..], &dims.operand_batch].concat();
        self.batch_dims(&dims.operand_batch, &dims.indices_batch, indices, dims.index_vector, x)?;
        self.require(distinct_below(&left_out, x.rank()), "collapsed and batch dims are distinct")?;
        let indexed = [&dims.start_index_map[..], &dims.operand_batch].concat();
        self.require(distinct_below(&indexed, x.rank()), "batch dims have no component of an index")?;
        let single = left_out.iter().all(|&d| dims.slice_sizes[d] <= 1);
        self.require(single, "slices have size 1 in collapsed and batch dims")?;
        let window: Vec<usize> =
            (0..x.rank()).filter(|d| !left_out.contains(d)).map(|d| dims.slice_sizes[d]).collect();
        let rank = batch.len() + window.len();
        let placed = dims.offset.len() == window.len() && ascending_below(&dims.offset, rank);
        self.require(placed, "offset dims exist, in ascending order, one for each dim of a slice")?;
        let (mut batch, mut window) = (batch.into_iter(), window.into_iter());
        let next = |d| if dims.offset.contains(&d) { window.next() } else { batch.next() };
        self.ty(x.dtype, (0..rank).map_while(next).collect())
    }

    fn scatter(&self, kind: Reduction, dims: &ScatterDims) -> Inferred {
        let [x, indices, updates] = self.operands()?;
        self.require(kind.op().takes(x.dtype), "the reduction is defined on the dtype")?;
        self.require(x.dtype == updates.dtype, "operand and updates have one dtype")?;
        let batch = self.index_batch(indices, dims.index_vector, &dims.index_map, x)?;
        self.batch_dims(&dims.operand_batch, &dims.indices_batch, indices, dims.index_vector, x)?;
        let exist = ascending_below(&dims.inserted_window, x.rank());
        self.require(exist, "inserted window dims exist, in ascending order")?;
        let left_out = [&dims.inserted_window[..], &dims.operand_batch].concat();
        let distinct = distinct_below(&left_out, x.rank());
        self.require(distinct, "inserted window dims and batch dims are distinct")?;
        let indexed = [&dims.index_map[..], &dims.operand_batch].concat();
        self.require(distinct_below(&indexed, x.rank()), "batch dims have no component of an index")?;
        let placed = ascending_below(&dims.update_window, updates.rank())
            && dims.update_window.len() + left_out.len() == x.rank();
        self.require(placed, "window dims exist, in ascending order, one for each operand dim left")?;
        let scattered: Vec<usize> = free_dims(updates, &dims.update_window).collect();
        self.require(scattered == batch, "the other dims of the updates are those of the indices")?;
        let sizes = free_dims(x, &left_out);
        let fits = dims.update_window.iter().zip(sizes).all(|(&d, size)| updates.dims()[d] <= size);
        self.require(fits, "windows are within the operand")?;
        Ok(x.clone())
    }

    fn all_gather(&self, dim: usize, n: usize) -> Inferred {
        let [x] = self.operands()?;
        self.require(dim < x.rank(), "the dim is one of the operand's")?;
        let mut dims = x.dims().to_vec();
        dims[dim] = dims[dim].saturating_mul(n);
        self.ty(x.dtype, dims)
    }

    fn reduce_scatter(&self, dim: usize, n: usize) -> Inferred {
        let [x] = self.operands()?;
        self.require(dim < x.rank(), "the dim is one of the operand's")?;
        self.require(x.dtype != DType::Pred, "the dtype is a number's")?;
        self.require(x.dims()[dim].is_multiple_of(n), "the devices of a group divide the dim")?;
        let mut dims = x.dims().to_vec();
        dims[dim] /= n;
        self.ty(x.dtype, dims)
    }

    /// Batch dims of an operand `x` and of its `indices` exist and correspond.
    fn batch_dims(
        &self,
        operand: &[usize],
        of_indices: &[usize],
        indices: &TensorType,
        index_vector: usize,
        x: &TensorType,
    ) -> Result<(), InferError> {
        let exist = ascending_below(operand, x.rank())
            && distinct_below(of_indices, indices.rank())
            && !of_indices.contains(&index_vector);
        self.require(exist, "batch dims exist and are distinct, those of the operand in ascending order")?;
        let sizes = |dims: &[usize], ty: &TensorType| dims.iter().map(|&d| ty.dims()[d]).collect::<Vec<_>>();
        let alike = sizes(operand, x) == sizes(of_indices, indices);
        self.require(alike, "batch dims of the operand and the indices have equal sizes")
    }

    /// The dims of `indices` that count index vectors, for ops that index `x`.
    fn index_batch(
        &self,
        indices: &TensorType,
        index_vector: usize,
        map: &[usize],
        x: &TensorType,
    ) -> Result<Vec<usize>, InferError> {
        self.require(indices.dtype.is_integer(), "indices are integers")?;
        self.require(index_vector <= indices.rank(), "the index vector dim is one of the indices'")?;
        let components = indices.dims().get(index_vector).copied().unwrap_or(1);
        self.require(map.len() == components, "each component of an index has a dim")?;
        self.require(distinct_below(map, x.rank()), "indexed dims exist and are distinct")?;
        Ok(free_dims(indices, &[index_vector]).collect())
    }
}

fn with_dtype(ty: &TensorType, dtype: DType) -> TensorType {
    TensorType { dtype, shape: ty.shape.clone() }
}

/// Sizes of the dims of `ty` that are not in `used`.
fn free_dims<'a>(ty: &'a TensorType, used: &'a [usize]) -> impl Iterator<Item = usize> + 'a {
    ty.dims().iter().enumerate().filter(|(d, _)| !used.contains(d)).map(|(_, &size)| size)
}

fn ascending_below(dims: &[usize], rank: usize) -> bool {
    dims.iter().all(|&d| d < rank) && dims.windows(2).all(|pair| pair[0] < pair[1])
}

fn distinct_below(dims: &[usize], rank: usize) -> bool {
    dims.iter().enumerate().all(|(i, d)| *d < rank && !dims[..i].contains(d))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Binary, Precision, Unary};

    fn ty(text: &str) -> TensorType {
        let (dtype, dims) = text.trim_end_matches(']').split_once('[').unwrap();
        let dtype = DType::ALL.into_iter().find(|d| d.name() == dtype).unwrap();
        let dims: Vec<usize> =
            dims.split(',').filter(|d| !d.is_empty()).map(|d| d.parse().unwrap()).collect();
        TensorType::new(dtype, dims).unwrap()
    }

    #[track_caller]
    fn check(op: Op, operands: &[&str], expect: &str) {
        let operands: Vec<TensorType> = operands.iter().map(|t| ty(t)).collect();
        let operands: Vec<&TensorType> = operands.iter().collect();
        let got = match infer(&op, &operands) {
            Ok(types) => format!("{types:?}"),
            Err(error) => error.to_string(),
        };
        assert_eq!(got, expect);
    }

    fn dot(lhs_batch: &[usize], lhs: &[usize], rhs_batch: &[usize], rhs: &[usize]) -> Op {
        Op::DotGeneral(DotDims {
            lhs_batch: lhs_batch.to_vec(),
            rhs_batch: rhs_batch.to_vec(),
            lhs_contracting: lhs.to_vec(),
            rhs_contracting: rhs.to_vec(),
            result: DType::F32,
            precision: Precision::Default,
        })
    }

    #[test]
    fn elementwise() {
        check(Op::Binary(Binary::Add), &["f32[2,3]", "f32[2,3]"], "[f32[2,3]]");
        check(Op::Binary(Binary::Add), &["f32[2]"], "add takes 2 operands, got 1");
        check(
            Op::Binary(Binary::Add),
            &["f32[2,3]", "f32[3]"],
            "add of [f32[2,3], f32[3]]: all operands have one type",
        );
        check(
            Op::Binary(Binary::Xor),
            &["f32[]", "f32[]"],
            "xor of [f32[], f32[]]: the op is defined on the dtype",
        );
        check(
            Op::Unary(Unary::Exponential),
            &["s32[2]"],
            "exponential of [s32[2]]: the op is defined on the dtype",
        );
        check(Op::Unary(Unary::Abs), &["u32[2]"], "abs of [u32[2]]: the op is defined on the dtype");
        check(Op::Select, &["pred[2]", "f32[2]", "f32[2]"], "[f32[2]]");
        check(
            Op::Select,
            &["pred[3]", "f32[2]", "f32[2]"],
            "select of [pred[3], f32[2], f32[2]]: the first operand is a scalar or has the shape of the others",
        );
    }

    #[test]
    fn dims_move_and_change() {
        let shape = |dims: &[usize]| Shape::new(dims).unwrap();
        check(Op::BroadcastInDim { shape: shape(&[4, 2, 3]), dims: vec![2] }, &["f32[3]"], "[f32[4,2,3]]");
        check(
            Op::BroadcastInDim { shape: shape(&[4, 3]), dims: vec![0] },
            &["f32[3]"],
            "broadcast_in_dim of [f32[3]]: each operand dim is 1 or of the result's size",
        );
        check(Op::Reshape(shape(&[6])), &["f32[2,3]"], "[f32[6]]");
        check(Op::Reshape(shape(&[5])), &["f32[2,3]"], "reshape of [f32[2,3]]: element counts are equal");
        check(Op::Transpose(vec![1, 0]), &["f32[2,3]"], "[f32[3,2]]");
        check(
            Op::Transpose(vec![0, 0]),
            &["f32[2,3]"],
            "transpose of [f32[2,3]]: the permutation names each dim once",
        );
        check(Op::Concatenate { dim: 1 }, &["f32[2,3]", "f32[2,1]"], "[f32[2,4]]");
        check(
            Op::Concatenate { dim: 0 },
            &["f32[2,3]", "f32[2,1]"],
            "concatenate of [f32[2,3], f32[2,1]]: sizes are equal in all other dims",
        );
        let bounds = |starts: usize, limits, strides| {
            Op::Slice(SliceBounds { starts: vec![starts], limits: vec![limits], strides: vec![strides] })
        };
        check(bounds(1, 8, 3), &["f32[8]"], "[f32[3]]");
        check(bounds(1, 9, 1), &["f32[8]"], "slice of [f32[8]]: start <= limit <= size in each dim");
        let pad =
            |low, high, interior| Op::Pad { low: vec![low], high: vec![high], interior: vec![interior] };
        check(pad(1, -2, 1), &["f32[4]", "f32[]"], "[f32[6]]");
        check(pad(-9, 0, 0), &["f32[4]", "f32[]"], "pad of [f32[4], f32[]]: padded sizes are not negative");
    }

    #[test]
    fn dot_general() {
        check(dot(&[0], &[2], &[0], &[1]), &["f32[8,2,3]", "f32[8,3,5]"], "[f32[8,2,5]]");
        check(dot(&[], &[2], &[], &[1]), &["f32[8,2,3]", "f32[5,3]"], "[f32[8,2,5]]");
        check(
            dot(&[], &[1], &[], &[0]),
            &["f32[2,3]", "f32[4,5]"],
            "dot_general of [f32[2,3], f32[4,5]]: batch and contracting dims have equal sizes",
        );
        check(
            dot(&[0], &[0], &[0], &[0]),
            &["f32[2,3]", "f32[2,3]"],
            "dot_general of [f32[2,3], f32[2,3]]: batch and contracting dims exist and are distinct",
        );
    }

    #[test]
    fn embedding_rows_are_gathered_and_scattered() {
        let gather = |slice| {
            Op::Gather(GatherDims {
                offset: vec![2],
                collapsed: vec![0],
                start_index_map: vec![0],
                index_vector: 2,
                slice_sizes: vec![slice, 16],
                ..GatherDims::default()
            })
        };
        check(gather(1), &["f32[100,16]", "s32[4,8]"], "[f32[4,8,16]]");
        check(
            gather(2),
            &["f32[100,16]", "s32[4,8]"],
            "gather of [f32[100,16], s32[4,8]]: slices have size 1 in collapsed and batch dims",
        );
        let turned = Op::Gather(GatherDims {
            collapsed: vec![1, 0],
            start_index_map: vec![0],
            index_vector: 2,
            slice_sizes: vec![1, 1],
            ..GatherDims::default()
        });
        check(
            turned,
            &["f32[100,16]", "s32[4,8]"],
            "gather of [f32[100,16], s32[4,8]]: collapsed dims exist, in ascending order",
        );
        let scatter = Op::Scatter {
            kind: crate::Reduction::Add,
            dims: ScatterDims {
                update_window: vec![2],
                inserted_window: vec![0],
                index_map: vec![0],
                index_vector: 2,
                ..ScatterDims::default()
            },
        };
        check(scatter.clone(), &["f32[100,16]", "s32[4,8]", "f32[4,8,16]"], "[f32[100,16]]");
        check(
            scatter,
            &["f32[100,16]", "s32[4,8]", "f32[4,9,16]"],
            "scatter of [f32[100,16], s32[4,8], f32[4,9,16]]: the other dims of the updates are those of the indices",
        );
    }

    #[test]
    fn blocks_bounds_and_bits() {
        let block = Op::DynamicSlice { sizes: vec![2, 3] };
        check(block.clone(), &["f32[4,5]", "s32[]", "s32[]"], "[f32[2,3]]");
        check(
            block.clone(),
            &["f32[4,5]", "s32[]"],
            "dynamic_slice of [f32[4,5], s32[]]: there is an operand, and a start index for each dim",
        );
        check(
            block,
            &["f32[4,2]", "s32[]", "s32[]"],
            "dynamic_slice of [f32[4,2], s32[], s32[]]: sizes are within the operand",
        );
        check(Op::DynamicUpdateSlice, &["f32[4]", "f32[2]", "u8[]"], "[f32[4]]");
        check(
            Op::DynamicUpdateSlice,
            &["f32[4]", "f32[2]", "f32[]"],
            "dynamic_update_slice of [f32[4], f32[2], f32[]]: start indices are scalars of one integer dtype",
        );
        check(Op::Clamp, &["f32[]", "f32[4]", "f32[4]"], "[f32[4]]");
        check(Op::BitcastConvert(DType::U8), &["f32[4]"], "[u8[4,4]]");
        check(Op::BitcastConvert(DType::F32), &["u8[4,4]"], "[f32[4]]");
        check(
            Op::BitcastConvert(DType::F32),
            &["u8[4,2]"],
            "bitcast_convert of [u8[4,2]]: the last dim holds the parts of an element",
        );
        check(Op::Unary(Unary::IsFinite), &["f32[4]"], "[pred[4]]");
        check(
            Op::Reduce { kind: crate::Reduction::And, dims: vec![0] },
            &["f32[4]"],
            "reduce of [f32[4]]: the reduction is defined on the dtype",
        );
    }

    #[test]
    fn results_that_no_memory_holds_are_refused() {
        let huge = "f32[1073741824,1]";
        check(
            dot(&[], &[1], &[], &[1]),
            &[huge, huge],
            "dot_general: shape [1073741824, 1073741824] has more elements than can be addressed",
        );
    }
}
