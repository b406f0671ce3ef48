//! Plans for programs that say what their arguments are: by kinds, names and shapes.

use shardwright_hlo::{Argument, ArgumentKind, Module, Output};
use shardwright_mesh::{AbstractMesh, NamedSharding, PartitionSpec};
use shardwright_tensor::TensorType;

use super::batch::{batch_spec_of, data_axes};
use super::dim::split_dim;
use crate::shard::parameters_by_row;
use crate::tensor::{is_tensor_axis, split_further, tensor_size};
use crate::{
    Decision, DimRule, KindSource, ModulePattern, PlanError, PlannedArgument, PlannedOutput, ShardingPlan,
    Strategy, TENSOR_AXIS, TensorPlan,
};

/// What a plan is made by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanOptions {
    /// The mesh axis that parameters are split over.
    pub axis: String,
    /// What is split.
    pub strategy: Strategy,
    /// Which dim of a parameter is split.
    pub dim_rule: DimRule,
    /// Parameters of fewer bytes are not split over this axis.
    pub min_shard_bytes: usize,
    /// Nor are those of these modules.
    pub ignored: Vec<ModulePattern>,
    /// How modules are split over the mesh's [tensor axis](TENSOR_AXIS), if it has one; without a plan they are whole.
    pub tensor: Option<TensorPlan>,
}

impl Default for PlanOptions {
    fn default() -> Self {
        PlanOptions {
            axis: "fsdp".into(),
            strategy: Strategy::FullShard,
            dim_rule: DimRule::default(),
            min_shard_bytes: 0,
            ignored: Vec::new(),
            tensor: None,
        }
    }
}

impl ShardingPlan {
    /// Plans a program over a mesh.
    ///
    /// # Errors
    /// When the mesh lacks an axis that the options need, or a batch does not divide over the data axes.
    pub fn new(
        module: &Module,
        mesh: &AbstractMesh,
        options: &PlanOptions,
    ) -> Result<ShardingPlan, PlanError> {
        check_mesh(mesh, options)?;
        let by_row = parameters_by_row(module);
        let sliced = |index: usize| by_row.contains(&index).then_some(0);
        let planned = |(index, argument): (usize, &Argument)| {
            let (spec, decision) = argument_spec(module, index, mesh, options, &sliced)?;
            let kind = (argument.kind, KindSource::Program);
            PlannedArgument::new(&argument.name, module.ty(argument.value), kind, mesh, spec, decision)
        };
        let arguments =
            module.arguments.iter().enumerate().map(planned).collect::<Result<Vec<_>, PlanError>>()?;
        let output = |output: &Output| planned_output(module, output, mesh, &arguments);
        Ok(ShardingPlan {
            mesh: mesh.clone(),
            axis: Some(options.axis.as_str().into()),
            sub_axes: vec![options.axis.as_str().into()],
            strategy: options.strategy,
            tensor: options.tensor.clone().unwrap_or_default(),
            outputs: module.outputs.iter().map(output).collect(),
            arguments,
            notes: Vec::new(),
        })
    }
}

/// Whether the mesh has the axes that the options need.
fn check_mesh(
    mesh: &AbstractMesh,
    PlanOptions { axis, strategy, .. }: &PlanOptions,
) -> Result<(), PlanError> {
    if is_tensor_axis(axis) {
        return Err(PlanError::TensorAxis);
    }
    if mesh.axis_size(axis).is_none() && *strategy != Strategy::NoShard {
        return Err(PlanError::NoAxis { mesh: mesh.clone(), axis: axis.clone() });
    }
    let hybrid = matches!(strategy, Strategy::HybridShard | Strategy::HybridShardZero2);
    if hybrid && data_axes(mesh).all(|a| a.as_str() == axis) {
        let (strategy, mesh, axis) = (*strategy, mesh.clone(), axis.clone());
        return Err(PlanError::NoReplicaAxis { strategy, mesh, axis });
    }
    Ok(())
}

/// Where the argument with this index lies, by what it is. `sliced` says for an argument which dim the program takes
/// one index of at a time.
fn argument_spec(
    module: &Module,
    index: usize,
    mesh: &AbstractMesh,
    options: &PlanOptions,
    sliced: &dyn Fn(usize) -> Option<usize>,
) -> Result<(PartitionSpec, Decision), PlanError> {
    let argument = &module.arguments[index];
    let ty = module.ty(argument.value);
    let whole = || (PartitionSpec::replicated(ty.rank()), Decision::Whole);
    Ok(match argument.kind {
        ArgumentKind::Parameter => {
            let sliced = sliced(index);
            let spec = parameter_spec(&argument.name, ty, mesh, options, sliced)?;
            (spec, sliced.map_or(Decision::Fsdp, |sliced| Decision::FsdpPast { sliced }))
        }
        // Its parameter comes before it or not. A state of nothing has no place to follow.
        ArgumentKind::State { parameter: index, without } => match module.arguments.get(index) {
            Some(parameter) => {
                let ty = module.ty(parameter.value);
                let spec = parameter_spec(&parameter.name, ty, mesh, options, sliced(index))?;
                let kept = spec.dims().iter().enumerate().filter(|(dim, _)| Some(*dim) != without);
                let spec = PartitionSpec::new(kept.map(|(_, entry)| entry.clone()));
                (spec, Decision::Follows(index))
            }
            None => whole(),
        },
        ArgumentKind::Batch => (batch_spec_of(mesh, &argument.name, ty)?, Decision::Batch),
        ArgumentKind::Other => whole(),
    })
}

/// An output lies where its donor does, or is whole.
pub(super) fn planned_output(
    module: &Module,
    output: &Output,
    mesh: &AbstractMesh,
    arguments: &[PlannedArgument],
) -> PlannedOutput {
    let ty = module.ty(output.value);
    let donor = output.donor.and_then(|index| Some((index, arguments.get(index)?)));
    let (sharding, decision) = match donor {
        Some((index, argument)) => (argument.sharding.clone(), Decision::Follows(index)),
        None => (NamedSharding::replicated(mesh, ty.rank()), Decision::Whole),
    };
    PlannedOutput { name: output.name.clone(), ty: ty.clone(), donor: output.donor, sharding, decision }
}

/// Where a parameter lies. A dim that the program takes one index of at a time is passed over.
fn parameter_spec(
    name: &str,
    ty: &TensorType,
    mesh: &AbstractMesh,
    options: &PlanOptions,
    sliced: Option<usize>,
) -> Result<PartitionSpec, PlanError> {
    let (spec, taken) = tensor_spec(name, ty, mesh, options)?;
    let n = mesh.axis_size(&options.axis).unwrap_or(1);
    let whole = options.strategy == Strategy::NoShard
        || ty.byte_count() < options.min_shard_bytes
        || options.ignored.iter().any(|modules| modules.covers(name));
    let cut = taken.or(sliced.map(|dim| (dim, 1)));
    match split_dim(ty.dims(), n, options.dim_rule, cut).filter(|dim| sliced != Some(*dim)) {
        Some(dim) if !whole => Ok(split_further(&spec, dim, [options.axis.as_str().into()])),
        _ => Ok(spec),
    }
}

/// What the tensor axis splits of a parameter: the spec, and the dim with the number of its parts.
fn tensor_spec(
    name: &str,
    ty: &TensorType,
    mesh: &AbstractMesh,
    options: &PlanOptions,
) -> Result<(PartitionSpec, Option<(usize, usize)>), PlanError> {
    let rank = ty.rank();
    let dim = options.tensor.as_ref().and_then(|plan| plan.parameter_dim(name, rank, mesh));
    let (Some(dim), Some(shards)) = (dim, tensor_size(mesh)) else {
        return Ok((PartitionSpec::replicated(rank), None));
    };
    let size = ty.dims()[dim];
    if !size.is_multiple_of(shards) {
        return Err(PlanError::Tensor { parameter: name.to_owned(), dim, size, shards });
    }
    Ok((PartitionSpec::split(rank, dim, TENSOR_AXIS), Some((dim, shards))))
}
