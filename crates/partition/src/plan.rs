//! The sharding plan: where each argument of a program lies, and each output.

mod again;
mod batch;
mod by_kind;
mod dim;
mod error;
mod table;

use shardwright_hlo::ArgumentKind;
use shardwright_mesh::{AbstractMesh, AxisName, NamedSharding, PartitionSpec, Placement, ShardingError};
use shardwright_tensor::TensorType;

use self::batch::batch_spec;
pub(crate) use self::batch::batch_spec_of;
pub use self::batch::data_axes;
pub use self::by_kind::PlanOptions;
pub use self::dim::DimRule;
pub(crate) use self::dim::split_dim;
pub use self::error::PlanError;
use crate::tensor::{is_tensor_axis, without_axes};
use crate::{Lint, Strategy, TensorPlan};

/// Where each argument of a program lies.
#[derive(Clone, Debug, PartialEq)]
pub struct ShardingPlan {
    pub(crate) mesh: AbstractMesh,
    /// What parameters are split over. None where a mesh of a program from elsewhere has no axis that they are split
    /// over by themselves.
    pub(crate) axis: Option<AxisName>,
    /// The axes of the mesh that it is made of: one, or those of a torus that it was [placed](ShardingPlan::placed) on.
    pub(crate) sub_axes: Vec<AxisName>,
    pub(crate) strategy: Strategy,
    pub(crate) tensor: TensorPlan,
    pub(crate) arguments: Vec<PlannedArgument>,
    pub(crate) outputs: Vec<PlannedOutput>,
    /// What was noticed in planning; [`lint`](crate::lint) tells it.
    pub(crate) notes: Vec<Lint>,
}

/// One argument of a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct PlannedArgument {
    /// Name of the argument.
    pub name: String,
    /// Its global type.
    pub ty: TensorType,
    /// What it is to the program.
    pub kind: ArgumentKind,
    /// Who says that it is that.
    pub kind_source: KindSource,
    /// Where it lies.
    pub sharding: NamedSharding,
    /// Why it lies there.
    pub decision: Decision,
    /// Bytes that each device holds, padding included.
    pub bytes_per_device: usize,
    /// Bytes of padding, over all devices that hold a different shard.
    pub padding_bytes: usize,
}

/// One output of a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct PlannedOutput {
    /// Name of the output.
    pub name: String,
    /// Its global type.
    pub ty: TensorType,
    /// The argument whose memory it takes over.
    pub donor: Option<usize>,
    /// Where it lies.
    pub sharding: NamedSharding,
    /// Why it lies there.
    pub decision: Decision,
}

/// Why an array lies where it does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The rule with this text says so.
    Rule(String),
    /// The program came with this sharding.
    Stated,
    /// One dim of a parameter is split, by [`PlanOptions::dim_rule`].
    Fsdp,
    /// The same, and one dim is passed over: the program takes one index of it at a time.
    FsdpPast {
        /// That dim.
        sliced: usize,
    },
    /// A batch is split on dim 0 over all data axes.
    Batch,
    /// It lies as the argument with this index: a state as its parameter, an output as its donor.
    Follows(usize),
    /// Nothing says that it is split.
    Whole,
}

/// Who says what an argument is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KindSource {
    /// The program itself.
    Program,
    /// The rule with this text.
    Rule(String),
    /// Nobody; it looks like that.
    Guess,
}

impl ShardingPlan {
    /// The mesh that is planned for.
    pub fn mesh(&self) -> &AbstractMesh {
        &self.mesh
    }

    /// The strategy that was planned by.
    pub fn strategy(&self) -> Strategy {
        self.strategy
    }

    /// The axis that parameters are split over. A mesh for a program from elsewhere may have none.
    pub fn axis(&self) -> Option<&AxisName> {
        self.axis.as_ref()
    }

    /// The axes of the mesh that this axis is made of, major to minor: itself, or those of a torus that the plan was
    /// [placed](ShardingPlan::placed) on.
    pub fn sub_axes(&self) -> &[AxisName] {
        &self.sub_axes
    }

    /// The arguments, in the program's order.
    pub fn arguments(&self) -> &[PlannedArgument] {
        &self.arguments
    }

    /// The outputs, in the program's order.
    pub fn outputs(&self) -> &[PlannedOutput] {
        &self.outputs
    }

    /// Where the arguments lie, and where the outputs do.
    pub(crate) fn shardings(&self) -> (Vec<NamedSharding>, Vec<NamedSharding>) {
        let arguments = self.arguments.iter().map(|argument| argument.sharding.clone()).collect();
        (arguments, self.outputs.iter().map(|output| output.sharding.clone()).collect())
    }

    /// The sharding of something that has one entry per example in dim 0: split there over all data axes.
    pub fn batch_sharding(&self, rank: usize) -> NamedSharding {
        let spec = batch_spec(&self.mesh, rank);
        NamedSharding::new(&self.mesh, spec).expect("each axis of the mesh is named once")
    }

    /// The same plan over the [physical mesh](Placement::physical_mesh) of a placement: each axis is replaced by those of
    /// the torus that it is made of, and each block stays on its device.
    ///
    /// # Errors
    /// When the plan is for another mesh than the placement's.
    pub fn placed(&self, placement: &Placement) -> Result<ShardingPlan, ShardingError> {
        let mut placed = self.clone();
        placed.mesh = placement.physical_mesh().shape().clone();
        let sub_axes = self.axis.iter().flat_map(|axis| placement.sub_axes(axis));
        placed.sub_axes = sub_axes.map(|sub| sub.name.clone()).collect();
        let arguments = placed.arguments.iter_mut().map(|argument| &mut argument.sharding);
        for sharding in arguments.chain(placed.outputs.iter_mut().map(|output| &mut output.sharding)) {
            *sharding = placement.physical_sharding(sharding)?;
        }
        Ok(placed)
    }

    /// Where the parameter that is the argument with this index lies while it is used: gathered over the axis that
    /// parameters are split over, and still split over the [tensor axis](crate::TENSOR_AXIS).
    ///
    /// # Panics
    /// If there is no such argument.
    pub fn gathered(&self, parameter: usize) -> NamedSharding {
        let spec = without_axes(self.arguments[parameter].sharding.spec(), &self.sub_axes);
        NamedSharding::new(&self.mesh, spec).expect("it names less axes than one that fits")
    }

    /// Where what the module at `path` hands on lies, if the plan for the [tensor axis](crate::TENSOR_AXIS) says so: as the
    /// batch does, and where the module is split by its outputs, over that axis in its last dim.
    pub fn module_output(&self, path: &str, dims: &[usize]) -> Option<NamedSharding> {
        let batch = batch_spec(&self.mesh, dims.len());
        let spec = self.tensor.output_spec(path, dims, batch, &self.mesh)?;
        Some(NamedSharding::new(&self.mesh, spec).expect("no data axis is the tensor axis"))
    }

    /// How many parameters are split over the axis for that, if it has more than one device, and how many there are.
    pub fn split_parameters(&self) -> (usize, usize) {
        let is_split = |a: &&PlannedArgument| {
            let mut axes = a.sharding.spec().axes().filter(|axis| self.sub_axes.contains(axis));
            axes.any(|axis| self.mesh.axis_size(axis) > Some(1))
        };
        let parameters = || self.arguments.iter().filter(|a| a.kind == ArgumentKind::Parameter);
        (parameters().filter(is_split).count(), parameters().count())
    }

    /// How many parameters are split over the [tensor axis](crate::TENSOR_AXIS).
    pub fn tensor_parameters(&self) -> usize {
        let is_split =
            |a: &&PlannedArgument| a.sharding.spec().axes().any(|axis| is_tensor_axis(axis.as_str()));
        let parameters = self.arguments.iter().filter(|a| a.kind == ArgumentKind::Parameter);
        parameters.filter(is_split).count()
    }

    /// Bytes of parameters and optimizer state: over the whole mesh with nothing replicated, and on each device.
    pub fn state_bytes(&self) -> (usize, usize) {
        let kept =
            |a: &&PlannedArgument| matches!(a.kind, ArgumentKind::Parameter | ArgumentKind::State { .. });
        let kept = self.arguments.iter().filter(kept);
        kept.fold((0usize, 0usize), |(all, each), a| {
            (all.saturating_add(a.ty.byte_count()), each.saturating_add(a.bytes_per_device))
        })
    }
}

impl PlannedArgument {
    pub(crate) fn new(
        name: &str,
        ty: &TensorType,
        (kind, kind_source): (ArgumentKind, KindSource),
        mesh: &AbstractMesh,
        spec: PartitionSpec,
        decision: Decision,
    ) -> Result<PlannedArgument, PlanError> {
        let wrong = |source| PlanError::Sharding { argument: name.to_owned(), source };
        let sharding = NamedSharding::new(mesh, spec).map_err(wrong)?;
        let width = ty.dtype.size();
        let bytes_per_device = sharding.bytes_per_device(ty.dims(), width).map_err(wrong)?;
        let padding_bytes = sharding.padding_bytes(ty.dims(), width).map_err(wrong)?;
        let (name, ty) = (name.to_owned(), ty.clone());
        Ok(PlannedArgument {
            name,
            ty,
            kind,
            kind_source,
            sharding,
            decision,
            bytes_per_device,
            padding_bytes,
        })
    }
}

#[cfg(test)]
mod tests;
