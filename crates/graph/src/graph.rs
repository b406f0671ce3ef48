use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};

use shardwright_hlo::{
    ArgumentKind, Binary, Comparison, DotDims, GatherDims, InferError, Location, Module, Op, Phase,
    Precision, Reduction, Region, Role, SliceBounds, Unary, Unit, UnitId, ValueId,
};
use shardwright_tensor::{DType, HostArray, Shape, ShapeError, TensorType};
use thiserror::Error;

use crate::inline::InlineProblem;
use crate::region::Scope;
use crate::scan::{Scan, ScanProblem};

/// A program that is being written.
///
/// All methods take `&self`, so that expressions nest. Methods named after an op append it and give its result.
///
/// # Panics
/// When a value of another graph is passed in and this one has no value of that number.
pub struct Graph {
    pub(crate) module: RefCell<Module>,
    /// Where appended instructions are said to come from.
    pub(crate) location: Cell<Location>,
    /// Values that no gradient flows back through.
    pub(crate) detached: RefCell<HashSet<ValueId>>,
    /// For values that are shards, what brings them together, and what does so with each of their rows.
    pub(crate) stored: RefCell<HashMap<ValueId, Vec<Op>>>,
    pub(crate) stored_rows: RefCell<HashMap<ValueId, Vec<Op>>>,
    /// The steps of that, where they are written.
    pub(crate) assembly: RefCell<HashSet<ValueId>>,
    /// The regions that are open, the program itself first.
    pub(crate) scopes: RefCell<Vec<Scope>>,
    /// The units that lie in regions which have ended.
    pub(crate) enclosed: RefCell<HashSet<UnitId>>,
    /// The loops that gradients can be taken through, by their first results.
    pub(crate) scans: RefCell<HashMap<ValueId, Scan>>,
    /// What gradients of weights are summed over devices in, if not in the dtype of the weights.
    pub(crate) reduction: Option<DType>,
    /// Values whose cotangents are of another dtype than they are.
    pub(crate) cotangent_dtypes: RefCell<HashMap<ValueId, DType>>,
    precision: Precision,
}

/// An op that cannot be applied, or a gradient that cannot be taken.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum GraphError {
    /// An op is not defined on its operands.
    #[error("{}{source}", place(.unit))]
    Infer {
        /// Path of the unit that the op stands in; empty outside all.
        unit: String,
        /// Which op and why.
        source: Box<InferError>,
    },
    /// A shape that cannot be addressed.
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// A gradient of something that is not one float.
    #[error("gradients are of a float scalar, not of {ty}")]
    NotAScalar {
        /// The type of the value.
        ty: TensorType,
    },
    /// A loop over arrays that does not fit them.
    #[error("{}scan: {problem}", place(.unit))]
    Scan {
        /// Path of the unit that the loop stands in; empty outside all.
        unit: String,
        /// What is wrong.
        problem: ScanProblem,
    },
    /// A program that cannot be a part of this one.
    #[error("{}program {program} cannot be used here: {problem}", place(.unit))]
    Inline {
        /// Path of the unit that it was to stand in; empty outside all.
        unit: String,
        /// Name of the program.
        program: String,
        /// What is wrong.
        problem: Box<InlineProblem>,
    },
    /// A gradient through an op that has none.
    #[error("{}{op} has no gradient", place(.unit))]
    NotDifferentiable {
        /// Path of the unit that the op stands in; empty outside all.
        unit: String,
        /// Name of the op.
        op: String,
    },
}

fn place(unit: &str) -> String {
    if unit.is_empty() { String::new() } else { format!("{unit}: ") }
}

type Result<T, E = GraphError> = std::result::Result<T, E>;

impl Graph {
    /// An empty program with this name.
    pub fn new(name: impl Into<String>) -> Graph {
        Graph {
            module: RefCell::new(Module::new(name)),
            location: Cell::default(),
            detached: RefCell::default(),
            stored: RefCell::default(),
            stored_rows: RefCell::default(),
            assembly: RefCell::default(),
            scopes: RefCell::new(vec![Scope::default()]),
            enclosed: RefCell::default(),
            scans: RefCell::default(),
            reduction: None,
            cotangent_dtypes: RefCell::default(),
            precision: Precision::default(),
        }
    }

    /// The same, with a precision for all its products.
    pub fn with_precision(name: impl Into<String>, precision: Precision) -> Graph {
        Graph { precision, ..Graph::new(name) }
    }

    /// The same, with gradients of [weights](Graph::weight) that are `dtype` from where they leave what uses the weight
    /// to where the devices have summed them, whatever the weight's dtype. What arrives at a stored parameter is f32.
    #[must_use]
    pub fn reducing_in(self, dtype: DType) -> Graph {
        Graph { reduction: Some(dtype), ..self }
    }

    /// The program as written so far.
    pub fn finish(self) -> Module {
        self.write_constants();
        self.module.into_inner()
    }

    /// Adds an argument.
    pub fn argument(&self, name: impl Into<String>, ty: TensorType, kind: ArgumentKind) -> ValueId {
        self.module.borrow_mut().add_argument_of_kind(name, ty, kind)
    }

    /// Adds an output.
    pub fn output(&self, name: impl Into<String>, value: ValueId) {
        self.module.borrow_mut().add_output(name, value);
    }

    /// Adds an output that takes over the memory of the argument with this index.
    pub fn donated_output(&self, name: impl Into<String>, value: ValueId, donor: usize) {
        self.module.borrow_mut().add_donated_output(name, value, donor);
    }

    /// The type of a value.
    pub fn ty(&self, x: ValueId) -> TensorType {
        self.module.borrow().ty(x).clone()
    }

    /// The dtype of a value.
    pub fn dtype(&self, x: ValueId) -> DType {
        self.module.borrow().ty(x).dtype
    }

    /// The sizes of a value, outermost dim first.
    pub fn dims(&self, x: ValueId) -> Vec<usize> {
        self.module.borrow().ty(x).dims().to_vec()
    }

    /// What `body` writes, as a named unit: one module of the model, such as a decoder layer.
    ///
    /// Units nest. They are where a sharding plan pins activations and what can be rematerialised.
    pub fn unit<T>(
        &self,
        path: impl Into<String>,
        class: impl Into<String>,
        body: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        let outer = self.location.get();
        let (path, class) = (path.into(), class.into());
        let id = {
            let mut module = self.module.borrow_mut();
            let start = module.instructions.len();
            let id = u32::try_from(module.units.len()).expect("a program has fewer than 2^32 units");
            module.units.push(Unit { path, class, parent: outer.unit, instructions: start..start });
            UnitId(id)
        };
        self.location.set(Location { unit: Some(id), ..outer });
        let result = body();
        self.location.set(outer);
        let mut module = self.module.borrow_mut();
        let end = module.instructions.len();
        module.units[id.0 as usize].instructions.end = end;
        result
    }

    /// Appends any op without regions, and gives all its results.
    pub fn push(&self, op: Op, operands: &[ValueId]) -> Result<Vec<ValueId>> {
        self.push_with_regions(op, operands, Vec::new())
    }

    pub(crate) fn push_with_regions(
        &self,
        op: Op,
        operands: &[ValueId],
        regions: Vec<Region>,
    ) -> Result<Vec<ValueId>> {
        let pushed = self.module.borrow_mut().push_with_regions(op, operands, regions, self.location.get());
        pushed.map_err(|source| GraphError::Infer { unit: self.unit_path(), source: Box::new(source) })
    }

    /// Path of the unit that is being written; empty outside all.
    pub(crate) fn unit_path(&self) -> String {
        let module = self.module.borrow();
        self.location.get().unit.map(|id| module.unit(id).path.clone()).unwrap_or_default()
    }

    /// Appends an op with one result.
    pub fn op(&self, op: Op, operands: &[ValueId]) -> Result<ValueId> {
        Ok(self.push(op, operands)?[0])
    }

    /// Stops gradients at `x`, for all its uses: it counts as a constant.
    pub fn detach(&self, x: ValueId) -> ValueId {
        self.detached.borrow_mut().insert(x);
        x
    }

    /// A parameter at a use of it. A sharding plan may have it gathered here.
    pub fn weight(&self, x: ValueId) -> Result<ValueId> {
        let weight = self.op(Op::Boundary(Role::Weight), &[self.assembled(x)?])?;
        self.reduces(weight);
        Ok(weight)
    }

    /// What a unit hands on, batch first. A sharding plan may pin it here, and its gradient likewise.
    pub fn activation(&self, x: ValueId) -> Result<ValueId> {
        self.op(Op::Boundary(Role::Activation), &[x])
    }
}

/// Constants and elementwise ops.
impl Graph {
    /// An array that is part of the program.
    pub fn constant(&self, value: HostArray) -> Result<ValueId> {
        self.op(Op::Constant(value), &[])
    }

    /// `value`, rounded to `dtype`, at every index of the given dims.
    pub fn full(&self, dtype: DType, dims: &[usize], value: f64) -> Result<ValueId> {
        let scalar = self.constant(HostArray::scalar(value).cast(dtype))?;
        self.broadcast_in_dim(scalar, dims, &[])
    }

    /// `value` at every index, with the type of `x`.
    pub fn full_like(&self, x: ValueId, value: f64) -> Result<ValueId> {
        let ty = self.ty(x);
        self.full(ty.dtype, ty.dims(), value)
    }

    /// The index along `dim` at every index of the given dims.
    pub fn iota(&self, dtype: DType, dims: &[usize], dim: usize) -> Result<ValueId> {
        self.op(Op::Iota { ty: TensorType::new(dtype, dims)?, dim }, &[])
    }

    /// Elementwise, of one value.
    pub fn unary(&self, op: Unary, x: ValueId) -> Result<ValueId> {
        self.op(Op::Unary(op), &[x])
    }

    /// Elementwise, of two values of one type.
    pub fn binary(&self, op: Binary, x: ValueId, y: ValueId) -> Result<ValueId> {
        self.op(Op::Binary(op), &[x, y])
    }

    /// `x + y`.
    pub fn add(&self, x: ValueId, y: ValueId) -> Result<ValueId> {
        self.binary(Binary::Add, x, y)
    }

    /// `x − y`.
    pub fn sub(&self, x: ValueId, y: ValueId) -> Result<ValueId> {
        self.binary(Binary::Subtract, x, y)
    }

    /// `x · y`, elementwise.
    pub fn mul(&self, x: ValueId, y: ValueId) -> Result<ValueId> {
        self.binary(Binary::Multiply, x, y)
    }

    /// `x ÷ y`.
    pub fn div(&self, x: ValueId, y: ValueId) -> Result<ValueId> {
        self.binary(Binary::Divide, x, y)
    }

    /// `−x`.
    pub fn neg(&self, x: ValueId) -> Result<ValueId> {
        self.unary(Unary::Negate, x)
    }

    /// `x · factor`.
    pub fn scale(&self, x: ValueId, factor: f64) -> Result<ValueId> {
        self.mul(x, self.full_like(x, factor)?)
    }

    /// `x + offset`.
    pub fn offset(&self, x: ValueId, offset: f64) -> Result<ValueId> {
        self.add(x, self.full_like(x, offset)?)
    }

    /// Whether `x` and `y` compare so, elementwise.
    pub fn compare(&self, direction: Comparison, x: ValueId, y: ValueId) -> Result<ValueId> {
        self.op(Op::Compare(direction), &[x, y])
    }

    /// `on_true` where `condition` holds, else `on_false`.
    pub fn select(&self, condition: ValueId, on_true: ValueId, on_false: ValueId) -> Result<ValueId> {
        self.op(Op::Select, &[condition, on_true, on_false])
    }

    /// The same values in another dtype; `x` itself when it has that dtype.
    pub fn convert(&self, x: ValueId, dtype: DType) -> Result<ValueId> {
        if self.dtype(x) == dtype { Ok(x) } else { self.op(Op::Convert(dtype), &[x]) }
    }
}

/// Ops that move, join and sum.
impl Graph {
    /// `x` repeated to `shape`: its dim `i` becomes dim `dims[i]`.
    pub fn broadcast_in_dim(&self, x: ValueId, shape: &[usize], dims: &[usize]) -> Result<ValueId> {
        if self.dims(x) == shape && dims.iter().copied().eq(0..shape.len()) {
            return Ok(x);
        }
        let shape = Shape::new(shape)?;
        self.op(Op::BroadcastInDim { shape, dims: dims.to_vec() }, &[x])
    }

    /// The same elements under other dims.
    pub fn reshape(&self, x: ValueId, dims: &[usize]) -> Result<ValueId> {
        if self.dims(x) == dims { Ok(x) } else { self.op(Op::Reshape(Shape::new(dims)?), &[x]) }
    }

    /// Result dim `i` is dim `permutation[i]` of `x`.
    pub fn transpose(&self, x: ValueId, permutation: &[usize]) -> Result<ValueId> {
        if permutation.iter().copied().eq(0..self.dims(x).len()) {
            return Ok(x);
        }
        self.op(Op::Transpose(permutation.to_vec()), &[x])
    }

    /// The half-open range of `dim`.
    pub fn slice_dim(&self, x: ValueId, dim: usize, range: std::ops::Range<usize>) -> Result<ValueId> {
        let mut limits = self.dims(x);
        let mut starts = vec![0; limits.len()];
        // A dim that `x` lacks is for `infer` to refuse.
        if let (Some(start), Some(limit)) = (starts.get_mut(dim), limits.get_mut(dim)) {
            (*start, *limit) = (range.start, range.end);
        }
        let strides = vec![1; limits.len()];
        self.op(Op::Slice(SliceBounds { starts, limits, strides }), &[x])
    }

    /// One after the other along `dim`.
    pub fn concatenate(&self, values: &[ValueId], dim: usize) -> Result<ValueId> {
        self.op(Op::Concatenate { dim }, values)
    }

    /// The sum over `dims`, which disappear.
    pub fn sum(&self, x: ValueId, dims: &[usize]) -> Result<ValueId> {
        self.op(Op::Reduce { kind: Reduction::Add, dims: dims.to_vec() }, &[x])
    }

    /// The maximum over `dims`, which disappear.
    pub fn max(&self, x: ValueId, dims: &[usize]) -> Result<ValueId> {
        self.op(Op::Reduce { kind: Reduction::Maximum, dims: dims.to_vec() }, &[x])
    }

    /// Products summed over one dim of each operand, in the operands' dtype; see [`DotDims`] for the order of the
    /// result's dims. `batch` and `contracting` hold pairs of a dim of `x` and one of `y`.
    pub fn dot(
        &self,
        x: ValueId,
        y: ValueId,
        batch: &[(usize, usize)],
        contracting: &[(usize, usize)],
    ) -> Result<ValueId> {
        let (lhs_batch, rhs_batch) = batch.iter().copied().unzip();
        let (lhs_contracting, rhs_contracting) = contracting.iter().copied().unzip();
        let result = self.dtype(x);
        let precision = self.precision;
        let dims = DotDims { lhs_batch, rhs_batch, lhs_contracting, rhs_contracting, result, precision };
        self.op(Op::DotGeneral(dims), &[x, y])
    }

    /// `table[ids]`: for each id, the row of the two-dim table. Ids outside the table are clamped to it.
    pub fn gather_rows(&self, table: ValueId, ids: ValueId) -> Result<ValueId> {
        let rank = self.dims(ids).len();
        let row = self.dims(table).last().copied().unwrap_or(0);
        let dims = GatherDims {
            offset: vec![rank],
            collapsed: vec![0],
            start_index_map: vec![0],
            index_vector: rank,
            slice_sizes: vec![1, row],
            ..GatherDims::default()
        };
        self.op(Op::Gather(dims), &[table, ids])
    }
}

impl Graph {
    /// Writes what `body` writes as a given phase of a given unit.
    pub(crate) fn at<T>(&self, unit: Option<UnitId>, phase: Phase, body: impl FnOnce() -> T) -> T {
        let outer = self.location.replace(Location { unit, phase, source: None });
        let result = body();
        self.location.set(outer);
        result
    }
}
