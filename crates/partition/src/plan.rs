//! The sharding plan: where each argument of a program lies, worked out from names, kinds and shapes alone.
//!
//! The rules are FSDPv2's, with one difference. A parameter is split on its largest dim, the first among equals; but
//! FSDPv2 pads a dim that does not divide, where [`DimRule::LargestDivisible`] prefers a smaller one that does.

use std::fmt;

use shardwright_hlo::{ArgumentKind, Module};
use shardwright_mesh::{
    AbstractMesh, AxisName, DimSharding, NamedSharding, PartitionSpec, Placement, ShardingError,
};
use shardwright_tensor::TensorType;
use thiserror::Error;

use crate::tensor::{split_further, tensor_size, without_axis};
use crate::{Lint, ModulePattern, Strategy, TENSOR_AXIS, TensorPlan};

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

/// Which dim of a parameter is split over `n` devices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DimRule {
    /// The largest dim that `n` divides; the largest of all, padded, if `n` divides none.
    #[default]
    LargestDivisible,
    /// The largest dim, padded if `n` does not divide it: FSDPv2's rule.
    StrictLargest,
    /// Dim 0, padded if `n` does not divide it: the rule of FSDPv2's first months.
    Dim0,
}

/// Where each argument of a program lies.
#[derive(Clone, Debug, PartialEq)]
pub struct ShardingPlan {
    pub(crate) mesh: AbstractMesh,
    /// What parameters are split over. None where a mesh of a program from elsewhere has no axis that they are split
    /// over by themselves.
    pub(crate) axis: Option<AxisName>,
    /// The axes of the mesh that it is made of.
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

/// A program and a mesh that no plan can be made for.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum PlanError {
    /// The mesh lacks the axis that parameters are split over.
    #[error(
        "the mesh ({mesh}) has no axis {axis} to split parameters over; name one of its axes {axis}, or choose another with --fsdp_axis"
    )]
    NoAxis {
        /// The mesh.
        mesh: AbstractMesh,
        /// The axis that is missing.
        axis: String,
    },
    /// A hybrid strategy on a mesh without an axis to replicate over.
    #[error(
        "{strategy} replicates parameters over a second mesh axis, and the mesh ({mesh}) has none besides {axis}; give one, such as --mesh data=2,{axis}=-1"
    )]
    NoReplicaAxis {
        /// The strategy.
        strategy: Strategy,
        /// The mesh.
        mesh: AbstractMesh,
        /// The axis that parameters are split over.
        axis: String,
    },
    /// A batch that cannot be cut into equal parts.
    #[error("{argument}: a batch of {examples} does not divide over {shards} data shards (mesh {mesh})")]
    Batch {
        /// Name of the argument.
        argument: String,
        /// Its dim 0.
        examples: usize,
        /// Product of the data axes.
        shards: usize,
        /// The mesh.
        mesh: AbstractMesh,
    },
    /// A parameter that is split over an axis that the batch is not split over, and a lowering that cannot do that.
    #[error(
        "{argument} is split over mesh axis {axis}, along which all devices see the same examples; the explicit lowering gathers over the axes of the batch only: use --lowering annotate"
    )]
    NotADataAxis {
        /// Name of the argument.
        argument: String,
        /// The axis.
        axis: AxisName,
    },
    /// Parameters cannot be split for storage over the axis that layers are split over.
    #[error(
        "parameters cannot be sharded over the axis {TENSOR_AXIS}, over which all devices see the same examples; choose another with --fsdp_axis"
    )]
    TensorAxis,
    /// A dim that the tensor axis does not cut into equal parts.
    #[error(
        "parameter {parameter}: dim {dim} of size {size} does not divide into {shards} parts (mesh axis {TENSOR_AXIS}); choose another size of the axis, or a tensor_plan in which this module is replicated"
    )]
    Tensor {
        /// Name of the parameter.
        parameter: String,
        /// The dim.
        dim: usize,
        /// Its size.
        size: usize,
        /// The size of the axis.
        shards: usize,
    },
    /// A spec that does not fit the mesh or the argument.
    #[error("argument {argument}: {source}")]
    Sharding {
        /// Name of the argument.
        argument: String,
        /// What is wrong.
        source: ShardingError,
    },
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
        let PlanOptions { axis, strategy, .. } = options;
        if axis == TENSOR_AXIS {
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
        let mut plan = ShardingPlan {
            mesh: mesh.clone(),
            axis: Some(axis.as_str().into()),
            sub_axes: vec![axis.as_str().into()],
            strategy: *strategy,
            tensor: options.tensor.clone().unwrap_or_default(),
            arguments: Vec::with_capacity(module.arguments.len()),
            outputs: Vec::with_capacity(module.outputs.len()),
            notes: Vec::new(),
        };
        for argument in &module.arguments {
            let ty = module.ty(argument.value);
            let (spec, decision) = match argument.kind {
                ArgumentKind::Parameter => {
                    (parameter_spec(&argument.name, ty, mesh, options)?, Decision::Fsdp)
                }
                // Shaped as its parameter, which comes before it or not.
                ArgumentKind::State { parameter: index } => {
                    let parameter = &module.arguments[index];
                    let ty = module.ty(parameter.value);
                    (parameter_spec(&parameter.name, ty, mesh, options)?, Decision::Follows(index))
                }
                ArgumentKind::Batch => (batch_spec_of(mesh, &argument.name, ty)?, Decision::Batch),
                ArgumentKind::Other => (PartitionSpec::replicated(ty.rank()), Decision::Whole),
            };
            let kind = (argument.kind, KindSource::Program);
            let planned = PlannedArgument::new(&argument.name, ty, kind, mesh, spec, decision)?;
            plan.arguments.push(planned);
        }
        for output in &module.outputs {
            let ty = module.ty(output.value);
            let donor = output.donor.and_then(|d| plan.arguments.get(d).map(|a| (d, a.sharding.clone())));
            let (sharding, decision) = match donor {
                Some((index, sharding)) => (sharding, Decision::Follows(index)),
                None => (NamedSharding::replicated(mesh, ty.rank()), Decision::Whole),
            };
            let (name, ty, donor) = (output.name.clone(), ty.clone(), output.donor);
            plan.outputs.push(PlannedOutput { name, ty, donor, sharding, decision });
        }
        Ok(plan)
    }

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

    /// The arguments, in the program's order.
    pub fn arguments(&self) -> &[PlannedArgument] {
        &self.arguments
    }

    /// The outputs, in the program's order.
    pub fn outputs(&self) -> &[PlannedOutput] {
        &self.outputs
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
        let place = |argument: &PlannedArgument| {
            let sharding = placement.physical_sharding(&argument.sharding)?;
            Ok(PlannedArgument { sharding, ..argument.clone() })
        };
        let sub_axes = self.axis.iter().flat_map(|axis| placement.sub_axes(axis));
        let sub_axes = sub_axes.map(|sub| sub.name.clone()).collect();
        let arguments = self.arguments.iter().map(place).collect::<Result<_, ShardingError>>()?;
        let mesh = placement.physical_mesh().shape().clone();
        Ok(ShardingPlan { mesh, sub_axes, arguments, ..self.clone() })
    }

    /// Where the arguments of a program lie, and its outputs: where their donors do, else whole on every device.
    pub(crate) fn argument_and_output_shardings(
        &self,
        module: &Module,
    ) -> (Vec<NamedSharding>, Vec<NamedSharding>) {
        let arguments: Vec<NamedSharding> = self.arguments.iter().map(|a| a.sharding.clone()).collect();
        let whole = |value| NamedSharding::replicated(&self.mesh, module.ty(value).rank());
        let donated = |donor: Option<usize>| donor.and_then(|index| arguments.get(index).cloned());
        let outputs = module.outputs.iter();
        let outputs = outputs.map(|o| donated(o.donor).unwrap_or_else(|| whole(o.value))).collect();
        (arguments, outputs)
    }

    /// Where the parameter that is the argument with this index lies while it is used: gathered over the axis that
    /// parameters are split over, and still split over the [tensor axis](TENSOR_AXIS).
    ///
    /// # Panics
    /// If there is no such argument.
    pub fn gathered(&self, parameter: usize) -> NamedSharding {
        let sharding = &self.arguments[parameter].sharding;
        let Some(axis) = &self.axis else { return sharding.clone() };
        let spec = without_axis(sharding.spec(), axis);
        NamedSharding::new(&self.mesh, spec).expect("it names less axes than one that fits")
    }

    /// Where what the module at `path` hands on lies, if the plan for the [tensor axis](TENSOR_AXIS) says so: as the
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

    /// How many parameters are split over the [tensor axis](TENSOR_AXIS).
    pub fn tensor_parameters(&self) -> usize {
        let is_split =
            |a: &&PlannedArgument| a.sharding.spec().axes().any(|axis| axis.as_str() == TENSOR_AXIS);
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

/// The axes that batches are split over: all but `tensor`, over which every device sees the same examples.
pub fn data_axes(mesh: &AbstractMesh) -> impl Iterator<Item = &AxisName> {
    mesh.axis_names().filter(|name| name.as_str() != TENSOR_AXIS)
}

/// The spec of a batch, whose dim 0 has to divide.
pub(crate) fn batch_spec_of(
    mesh: &AbstractMesh,
    name: &str,
    ty: &TensorType,
) -> Result<PartitionSpec, PlanError> {
    let shards = data_axes(mesh).filter_map(|a| mesh.axis_size(a)).product();
    match ty.dims().first() {
        Some(examples) if examples % shards == 0 => Ok(batch_spec(mesh, ty.rank())),
        Some(&examples) => {
            Err(PlanError::Batch { argument: name.to_owned(), examples, shards, mesh: mesh.clone() })
        }
        None => Ok(PartitionSpec::replicated(0)),
    }
}

fn batch_spec(mesh: &AbstractMesh, rank: usize) -> PartitionSpec {
    let dim0 = DimSharding { axes: data_axes(mesh).cloned().collect() };
    let rest = std::iter::repeat_with(DimSharding::default);
    PartitionSpec::new(std::iter::once(dim0).chain(rest).take(rank))
}

fn parameter_spec(
    name: &str,
    ty: &TensorType,
    mesh: &AbstractMesh,
    options: &PlanOptions,
) -> Result<PartitionSpec, PlanError> {
    let (spec, taken) = tensor_spec(name, ty, mesh, options)?;
    let n = mesh.axis_size(&options.axis).unwrap_or(1);
    let whole = options.strategy == Strategy::NoShard
        || ty.byte_count() < options.min_shard_bytes
        || options.ignored.iter().any(|modules| modules.covers(name));
    match split_dim(ty.dims(), n, options.dim_rule, taken) {
        Some(dim) if !whole => Ok(split_further(&spec, dim, &options.axis)),
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

/// The dim that is split over `n` devices, if splitting saves memory.
///
/// One that is cut already, into so many parts, is cut further only if it is the only one, and the parts divide.
pub(crate) fn split_dim(
    dims: &[usize],
    n: usize,
    rule: DimRule,
    cut: Option<(usize, usize)>,
) -> Option<usize> {
    if let (Some((dim, parts)), 1) = (cut, dims.len()) {
        return (n > 1 && dims[dim].is_multiple_of(parts * n)).then_some(dim);
    }
    let is_free = |d: &usize| cut.is_none_or(|(dim, _)| dim != *d);
    // The first of the largest: `max_by_key` alone gives the last.
    let largest =
        |candidates: &mut dyn DoubleEndedIterator<Item = usize>| candidates.rev().max_by_key(|&d| dims[d]);
    let all = || (0..dims.len()).filter(is_free);
    let dim = match rule {
        DimRule::Dim0 => all().next(),
        DimRule::StrictLargest => largest(&mut all()),
        DimRule::LargestDivisible => {
            let divides = |d: &usize| dims[*d] > 0 && dims[*d].is_multiple_of(n);
            largest(&mut all().filter(divides)).or_else(|| largest(&mut all()))
        }
    }?;
    (dims[dim].div_ceil(n) < dims[dim]).then_some(dim)
}

/// A table of the parameters: name, type, spec, bytes on each device, padding.
impl fmt::Display for ShardingPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parameters: Vec<&PlannedArgument> =
            self.arguments.iter().filter(|a| a.kind == ArgumentKind::Parameter).collect();
        let header = ["parameter", "shape", "spec", "bytes/device", "padding"].map(String::from);
        let row = |a: &PlannedArgument| {
            let padding = if a.padding_bytes == 0 { String::new() } else { a.padding_bytes.to_string() };
            let spec = a.sharding.spec().to_string();
            [a.name.clone(), a.ty.to_string(), spec, a.bytes_per_device.to_string(), padding]
        };
        let rows: Vec<[String; 5]> =
            std::iter::once(header).chain(parameters.iter().map(|&a| row(a))).collect();
        let width = |column: usize| rows.iter().map(|r| r[column].chars().count()).max().unwrap_or(0);
        let widths = [0, 1, 2, 3, 4].map(width);
        for row in &rows {
            let [name, shape, spec, bytes, padding] = row;
            let [w0, w1, w2, w3, w4] = widths;
            let line = format!("{name:w0$}  {shape:w1$}  {spec:w2$}  {bytes:>w3$}  {padding:>w4$}");
            writeln!(f, "{}", line.trim_end())?;
        }
        let (split, count) = self.split_parameters();
        let (all, each) = self.state_bytes();
        let axis = self.axis.as_ref().map_or("no axis", AxisName::as_str);
        write!(
            f,
            "mesh {}: {split} of {count} parameters split over {axis}; parameters and optimizer state {all} bytes, \
             {each} on each device",
            self.mesh
        )
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use shardwright_tensor::DType;

    use super::*;

    fn module(parameters: &[(&str, &[usize])], batch: usize) -> Module {
        let f32 = |dims: &[usize]| TensorType::new(DType::F32, dims).unwrap();
        let mut m = Module::new("step");
        for (name, dims) in parameters {
            m.add_argument_of_kind(*name, f32(dims), ArgumentKind::Parameter);
        }
        for (parameter, (name, dims)) in parameters.iter().enumerate() {
            let kind = ArgumentKind::State { parameter };
            m.add_argument_of_kind(format!("exp_avg.{name}"), f32(dims), kind);
        }
        let ids = TensorType::new(DType::S32, [batch, 16]).unwrap();
        m.add_argument_of_kind("input_ids", ids, ArgumentKind::Batch);
        m
    }

    fn plan(
        parameters: &[(&str, &[usize])],
        mesh: &str,
        options: PlanOptions,
    ) -> Result<ShardingPlan, PlanError> {
        ShardingPlan::new(&module(parameters, 8), &AbstractMesh::parse(mesh).unwrap(), &options)
    }

    #[track_caller]
    fn check_specs(mesh: &str, rule: DimRule, expect: Expect) {
        let shapes: [&[usize]; 7] = [&[64, 128], &[128, 64], &[64, 64], &[1, 64], &[8, 12, 20], &[10], &[]];
        let names = ["a", "b", "c", "d", "e", "f", "g"];
        let parameters: Vec<(&str, &[usize])> = names.into_iter().zip(shapes).collect();
        let plan = plan(&parameters, mesh, PlanOptions { dim_rule: rule, ..Default::default() }).unwrap();
        let line = |a: &PlannedArgument| format!("{} {} +{}", a.ty.shape, a.sharding.spec(), a.padding_bytes);
        let lines: Vec<String> = plan.arguments()[..7].iter().map(line).collect();
        expect.assert_eq(&lines.join("\n"));
    }

    #[test]
    fn the_largest_dim_that_divides_is_split() {
        check_specs(
            "fsdp=8",
            DimRule::LargestDivisible,
            expect![[r#"
                [64,128] (-, fsdp) +0
                [128,64] (fsdp, -) +0
                [64,64] (fsdp, -) +0
                [1,64] (-, fsdp) +0
                [8,12,20] (fsdp, -, -) +0
                [10] (fsdp) +24
                [] () +0"#]],
        );
        check_specs(
            "fsdp=8",
            DimRule::StrictLargest,
            expect![[r#"
                [64,128] (-, fsdp) +0
                [128,64] (fsdp, -) +0
                [64,64] (fsdp, -) +0
                [1,64] (-, fsdp) +0
                [8,12,20] (-, -, fsdp) +1536
                [10] (fsdp) +24
                [] () +0"#]],
        );
        check_specs(
            "data=2, fsdp=4",
            DimRule::Dim0,
            expect![[r#"
                [64,128] (fsdp, -) +0
                [128,64] (fsdp, -) +0
                [64,64] (fsdp, -) +0
                [1,64] (-, -) +0
                [8,12,20] (fsdp, -, -) +0
                [10] (fsdp) +8
                [] () +0"#]],
        );
    }

    #[test]
    fn states_follow_their_parameters_and_batches_the_data_axes() {
        let plan = plan(&[("w", &[8, 16])], "data=2, fsdp=2, tensor=2", PlanOptions::default()).unwrap();
        let specs: Vec<String> = plan.arguments().iter().map(|a| a.sharding.spec().to_string()).collect();
        assert_eq!(specs, ["(-, fsdp)", "(-, fsdp)", "((data,fsdp), -)"]);
        assert_eq!(plan.split_parameters(), (1, 1));
        assert_eq!(plan.state_bytes(), (2 * 512, 512));
    }

    #[test]
    fn small_and_ignored_parameters_and_no_shard_stay_whole() {
        let specs = |options| {
            let plan = plan(&[("w", &[8, 16]), ("norm", &[8])], "fsdp=4", options).unwrap();
            let parameters = plan.arguments()[..2].iter();
            parameters.map(|a| a.sharding.spec().to_string()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(specs(PlanOptions { min_shard_bytes: 33, ..Default::default() }), "(-, fsdp) (-)");
        assert_eq!(specs(PlanOptions { strategy: Strategy::NoShard, ..Default::default() }), "(-, -) (-)");
        let ignored = vec!["w".parse().unwrap()];
        assert_eq!(specs(PlanOptions { ignored, ..Default::default() }), "(-, -) (fsdp)");
    }

    #[test]
    fn meshes_that_do_not_fit_are_errors() {
        let error = |mesh, options| plan(&[("w", &[8])], mesh, options).unwrap_err().to_string();
        expect![[
            "the mesh (data=4, model=2) has no axis fsdp to split parameters over; name one of its axes fsdp, or \
             choose another with --fsdp_axis"
        ]]
        .assert_eq(&error("data=4, model=2", PlanOptions::default()));
        expect!["input_ids: a batch of 8 does not divide over 3 data shards (mesh fsdp=3)"]
            .assert_eq(&error("fsdp=3", PlanOptions::default()));
        let hybrid = PlanOptions { strategy: Strategy::HybridShard, ..Default::default() };
        assert!(error("fsdp=4", hybrid.clone()).starts_with("hybrid_shard replicates parameters over"));
        assert!(plan(&[("w", &[8])], "data=2, fsdp=4", hybrid).is_ok());
    }

    #[test]
    fn the_table_lists_parameters() {
        let plan = plan(&[("w", &[8, 16]), ("norm", &[10])], "fsdp=4", PlanOptions::default()).unwrap();
        expect![[r#"
            parameter  shape      spec       bytes/device  padding
            w          f32[8,16]  (-, fsdp)           128
            norm       f32[10]    (fsdp)               12        8
            mesh fsdp=4: 2 of 2 parameters split over fsdp; parameters and optimizer state 1104 bytes, 280 on each device"#]]
        .assert_eq(&plan.to_string());
    }
}
