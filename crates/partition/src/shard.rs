//! A verified program with its shardings: what a runtime compiles.

use std::collections::{BTreeMap, BTreeSet};

use shardwright_hlo::proto::AnnotateError;
use shardwright_hlo::{
    ArgumentKind, Binary, InferError, Instruction, Module, Op, Role, Shardings, Stated, UnitId, ValueId,
    VerifiedModule, VerifyErrors, print,
};
use shardwright_mesh::{AbstractMesh, NamedSharding, PartitionSpec, ShardingError};
use thiserror::Error;

use crate::storage::with_padded_storage;
use crate::{PinCounts, ShardingPlan, Strategy, WrapPolicy};

/// A program all of whose arguments and outputs are pinned to shards of one mesh.
#[derive(Clone, Debug, PartialEq)]
pub struct ShardedModule {
    module: VerifiedModule,
    shardings: Shardings,
    pins: PinCounts,
}

/// Shardings that do not fit a program.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum ShardError {
    /// More or fewer shardings than there are arguments or outputs.
    #[error("module {module} has {expected} {what}, and {found} shardings were given for them")]
    Count {
        /// Name of the module.
        module: String,
        /// `arguments` or `outputs`.
        what: &'static str,
        /// How many there are.
        expected: usize,
        /// How many shardings were given.
        found: usize,
    },
    /// A sharding on another mesh than the rest.
    #[error("{name} is sharded over the mesh {found}, the program runs on {expected}")]
    Mesh {
        /// Name of the argument or output.
        name: String,
        /// The mesh of the sharding.
        found: AbstractMesh,
        /// The mesh of the program.
        expected: AbstractMesh,
    },
    /// A sharding of another rank.
    #[error("{name}: {source}")]
    Sharding {
        /// Name of the argument or output.
        name: String,
        /// What is wrong.
        source: ShardingError,
    },
    /// A program of shards that are not those of the program of global arrays.
    #[error(transparent)]
    Region(#[from] InferError),
    /// A program of shards that is not sound.
    #[error(transparent)]
    Verify(#[from] VerifyErrors),
    /// An output that takes over the memory of an argument that lies elsewhere.
    #[error("output {output} is sharded {found}, and takes over memory that is sharded {expected}")]
    Donor {
        /// Name of the output.
        output: String,
        /// Spec of the output.
        found: String,
        /// Spec of the argument.
        expected: String,
    },
    /// An argument or output of an HLO proto that is cut into unequal parts, where arrays cannot be stored padded.
    #[error(
        "{what} {name}: dim {dim} of size {size} does not divide into {shards} shards (mesh axis {axes}), and in an \
         HLO proto dims have to; split another dim, or export the program as StableHLO text, where arrays are padded"
    )]
    Uneven {
        /// `argument` or `output`.
        what: &'static str,
        /// Its name.
        name: String,
        /// The dim.
        dim: usize,
        /// Its size.
        size: usize,
        /// Into how many parts it is cut.
        shards: usize,
        /// The axes that cut it.
        axes: String,
    },
    /// Shardings that cannot be written into an HLO proto.
    #[error(transparent)]
    Annotate(#[from] Box<AnnotateError>),
}

impl ShardedModule {
    /// Pins a program as a plan says: FSDP by annotation.
    ///
    /// - Arguments and outputs lie where the plan puts them.
    /// - A parameter is gathered where it is used ([`Role::Weight`]), so the partitioner cannot choose to gather
    ///   activations instead. Over a tensor axis it stays split.
    /// - The activation that a wrapped unit hands on, and any outside wrapped units, is split as the batch is; its
    ///   gradient too. On a mesh with a tensor axis, so is what any module that the plan for that names hands on, and
    ///   where the module is split by its outputs, that is split over the axis in its last dim.
    /// - What is added into the rows of a table ([`Role::TableGradient`]) is summed over the devices. If rows are split,
    ///   the partitioner would otherwise gather all activations to each device's rows.
    /// - The gradient of a parameter lies as the parameter does, so each device keeps its shard of the sum over all:
    ///   a reduce-scatter, or an all-reduce and a slice where the compiler has no better.
    ///
    /// # Errors
    /// When the plan is of another program.
    pub fn from_plan(
        module: VerifiedModule,
        plan: &ShardingPlan,
        wrap: &WrapPolicy,
    ) -> Result<ShardedModule, ShardError> {
        let (arguments, outputs) = plan.shardings();
        let mut sharded = ShardedModule::new(module, plan.mesh(), arguments, outputs)?;
        sharded.shardings.values.extend(boundaries(&sharded.module, plan, wrap));
        Ok(sharded)
    }

    /// Pins the arguments and outputs of a program, and leaves what is in between to the compiler.
    ///
    /// # Errors
    /// When there is not one sharding of the right rank, over this mesh, for each argument and each output, or one
    /// differs from its donor's.
    pub fn new(
        module: VerifiedModule,
        mesh: &AbstractMesh,
        arguments: Vec<NamedSharding>,
        outputs: Vec<NamedSharding>,
    ) -> Result<ShardedModule, ShardError> {
        let argument_types = module.arguments.iter().map(|a| (a.name.as_str(), module.ty(a.value).dims()));
        let output_types = module.outputs.iter().map(|o| (o.name.as_str(), module.ty(o.value).dims()));
        check(&module.name, mesh, "arguments", argument_types, &arguments)?;
        check(&module.name, mesh, "outputs", output_types, &outputs)?;
        let donors = module.outputs.iter().map(|o| (o.name.as_str(), o.donor));
        check_donors(donors, &arguments, &outputs)?;
        let values = module.arguments.iter().map(|a| a.value).zip(arguments).collect();
        let outputs = outputs.into_iter().enumerate().collect();
        let shardings = Shardings { mesh: mesh.clone(), values, outputs, stated: Stated::default() };
        Ok(ShardedModule { module, shardings, pins: PinCounts::default() })
    }

    /// The same with shardings of other values, and with what the program itself says of more of them.
    pub(crate) fn with_pinned(
        mut self,
        values: BTreeMap<ValueId, NamedSharding>,
        stated: Stated,
        pins: PinCounts,
    ) -> ShardedModule {
        self.shardings.values.extend(values);
        self.shardings.stated = stated;
        self.pins = pins;
        self
    }

    /// How much FSDP pinned inside a program from elsewhere; nothing in one of our own, whose boundaries are there
    /// already.
    pub fn pins(&self) -> PinCounts {
        self.pins
    }

    /// The program.
    pub fn module(&self) -> &VerifiedModule {
        &self.module
    }

    /// The mesh that it is sharded over.
    pub fn mesh(&self) -> &AbstractMesh {
        &self.shardings.mesh
    }

    /// Where the argument with this index lies.
    ///
    /// # Panics
    /// If there is no such argument.
    pub fn argument_sharding(&self, index: usize) -> &NamedSharding {
        &self.shardings.values[&self.module.arguments[index].value]
    }

    /// Where the output with this index lies.
    ///
    /// # Panics
    /// If there is no such output.
    pub fn output_sharding(&self, index: usize) -> &NamedSharding {
        &self.shardings.outputs[&index]
    }

    /// The program as StableHLO text with `sdy` shardings, over arguments and outputs that are padded to equal shards.
    pub fn stablehlo_text(&self) -> String {
        let (module, shardings) = with_padded_storage(&self.module, &self.shardings);
        print(&module, Some(&shardings))
    }
}

/// Checks that there is a sharding over the mesh for each value, of its rank; values are names and dims.
pub(crate) fn check<'a>(
    module: &str,
    mesh: &AbstractMesh,
    what: &'static str,
    values: impl ExactSizeIterator<Item = (&'a str, &'a [usize])>,
    shardings: &[NamedSharding],
) -> Result<(), ShardError> {
    if values.len() != shardings.len() {
        let (expected, found) = (values.len(), shardings.len());
        return Err(ShardError::Count { module: module.to_owned(), what, expected, found });
    }
    for ((name, dims), sharding) in values.zip(shardings) {
        if sharding.mesh() != mesh {
            let (found, expected) = (sharding.mesh().clone(), mesh.clone());
            return Err(ShardError::Mesh { name: name.to_owned(), found, expected });
        }
        let wrong = |source| ShardError::Sharding { name: name.to_owned(), source };
        sharding.check_rank(dims).map_err(wrong)?;
    }
    Ok(())
}

/// Checks that outputs, each a name and perhaps the index of its donor, lie where their donors do.
pub(crate) fn check_donors<'a>(
    donors: impl Iterator<Item = (&'a str, Option<usize>)>,
    arguments: &[NamedSharding],
    outputs: &[NamedSharding],
) -> Result<(), ShardError> {
    for ((output, donor), sharding) in donors.zip(outputs) {
        if let Some(donor) = donor.map(|d| &arguments[d])
            && donor != sharding
        {
            return Err(ShardError::Donor {
                output: output.to_owned(),
                found: sharding.spec().to_string(),
                expected: donor.spec().to_string(),
            });
        }
    }
    Ok(())
}

/// What the plan pins between arguments and outputs.
fn boundaries(module: &Module, plan: &ShardingPlan, wrap: &WrapPolicy) -> BTreeMap<ValueId, NamedSharding> {
    let parameters = parameters_of(module);
    let tables = tables_of(module);
    let mut pinned = BTreeMap::new();
    for instruction in module.all_instructions() {
        let Op::Boundary(role) = instruction.op else { continue };
        let value = instruction.results[0];
        let dims = module.ty(value).dims();
        let sharding = match role {
            Role::Weight if plan.strategy() == Strategy::NoShard => continue,
            Role::Weight => match parameters.get(&value) {
                Some(&parameter) => of_row(&plan.gathered(parameter), dims.len()),
                None => NamedSharding::replicated(plan.mesh(), dims.len()),
            },
            Role::Activation => match activation(module, instruction.location.unit, dims, plan, wrap) {
                Some(sharding) => sharding,
                None => continue,
            },
            Role::Gradient { parameter } => plan.arguments()[parameter].sharding.clone(),
            Role::RowGradient { parameter } => of_row(&plan.arguments()[parameter].sharding, dims.len()),
            Role::TableGradient => match tables.get(&value).map(|&table| (table, &plan.arguments()[table])) {
                Some((table, a))
                    if a.sharding.spec().dims().first().is_some_and(|rows| !rows.axes.is_empty()) =>
                {
                    plan.gathered(table)
                }
                _ => continue,
            },
            Role::Stored | Role::Constraint => continue,
        };
        pinned.insert(value, sharding);
    }
    pinned
}

/// Where what an array holds at one index of its first dims lies, if the array lies like that; `rank` dims are left.
fn of_row(sharding: &NamedSharding, rank: usize) -> NamedSharding {
    let dims = sharding.spec().dims();
    let spec = PartitionSpec::new(dims[dims.len().saturating_sub(rank)..].to_vec());
    NamedSharding::new(sharding.mesh(), spec).expect("it names less axes than one that fits")
}

/// For each value that is a parameter, or a row of one, perhaps in another dtype or behind a barrier: the index of its
/// argument.
pub(crate) fn parameters_of(module: &Module) -> BTreeMap<ValueId, usize> {
    let arguments = module.arguments.iter().enumerate();
    let parameters = arguments.filter(|(_, a)| a.kind == ArgumentKind::Parameter);
    let mut known: BTreeMap<ValueId, usize> = parameters.map(|(index, a)| (a.value, index)).collect();
    for instruction in module.all_instructions() {
        if !hands_on(module, instruction) {
            continue;
        }
        for (operand, result) in instruction.operands.iter().zip(&instruction.results) {
            if let Some(&parameter) = known.get(operand) {
                known.insert(*result, parameter);
            }
        }
    }
    known
}

/// The parameters of which the program takes one index of dim 0 at a time, as a loop over layers does.
pub(crate) fn parameters_by_row(module: &Module) -> BTreeSet<usize> {
    let known = parameters_of(module);
    let all = module.all_instructions().into_iter();
    let rows = all.filter(|instruction| takes_row(module, instruction));
    rows.filter_map(|instruction| known.get(&instruction.operands[0]).copied()).collect()
}

/// Whether what an instruction gives is its operands, or a row of the first one.
fn hands_on(module: &Module, instruction: &Instruction) -> bool {
    match &instruction.op {
        Op::Boundary(Role::Weight) | Op::OptimizationBarrier | Op::Convert(_) => true,
        Op::Reshape(shape) => {
            module.ty(instruction.operands[0]).dims().split_first() == Some((&1, shape.dims()))
        }
        _ => takes_row(module, instruction),
    }
}

/// Whether an instruction takes its first operand at one index of dim 0.
fn takes_row(module: &Module, instruction: &Instruction) -> bool {
    let Op::DynamicSlice { sizes } = &instruction.op else { return false };
    let whole = module.ty(instruction.operands[0]).dims();
    matches!((sizes.split_first(), whole.split_first()), (Some((1, row)), Some((_, rest))) if row == rest)
}

/// For each value that is added into the gradient of a parameter: the index of that argument.
fn tables_of(module: &Module) -> BTreeMap<ValueId, usize> {
    let mut known = BTreeMap::new();
    for instruction in module.all_instructions().into_iter().rev() {
        let [result] = instruction.results[..] else { continue };
        let parameter = match instruction.op {
            Op::Boundary(Role::Gradient { parameter }) => Some(parameter),
            Op::Binary(Binary::Add) | Op::Boundary(_) | Op::Convert(_) => known.get(&result).copied(),
            _ => None,
        };
        if let Some(parameter) = parameter {
            known.extend(instruction.operands.iter().map(|&operand| (operand, parameter)));
        }
    }
    known
}

/// Where what `unit` hands on lies: as the plan for the tensor axis says, or at the ends of wrapped units as the batch.
fn activation(
    module: &Module,
    unit: Option<UnitId>,
    dims: &[usize],
    plan: &ShardingPlan,
    wrap: &WrapPolicy,
) -> Option<NamedSharding> {
    let by_module = unit.and_then(|id| plan.module_output(&module.unit(id).path, dims));
    by_module.or_else(|| is_unit_boundary(module, unit, wrap).then(|| plan.batch_sharding(dims.len())))
}

/// Whether what `unit` hands on crosses the boundary of a wrapped unit, or lies outside all of them.
fn is_unit_boundary(module: &Module, unit: Option<UnitId>, wrap: &WrapPolicy) -> bool {
    let Some(id) = unit else { return true };
    let unit = module.unit(id);
    if wrap.wraps(&unit.path) {
        return true;
    }
    let mut outer = unit.parent;
    while let Some(id) = outer {
        let unit = module.unit(id);
        if wrap.wraps(&unit.path) {
            return false;
        }
        outer = unit.parent;
    }
    true
}

#[cfg(test)]
mod tests {
    use shardwright_hlo::{Location, Unary, Unit, verify};
    use shardwright_tensor::{DType, HostArray, TensorType};

    use super::*;
    use crate::{PlanOptions, WrapConfig};

    /// A layer around an inner module, each handing on an activation; then the "gradient" of `w`.
    fn program() -> VerifiedModule {
        let f32 = |dims: &[usize]| TensorType::new(DType::F32, dims).unwrap();
        let mut m = Module::new("step");
        let w = m.add_argument_of_kind("w", f32(&[8, 4]), ArgumentKind::Parameter);
        let x = m.add_argument_of_kind("x", f32(&[8, 4]), ArgumentKind::Batch);
        let unit = |path: &str, class: &str, parent| Unit {
            path: path.into(),
            class: class.into(),
            parent,
            instructions: 0..3,
        };
        m.units = vec![unit("layer", "Layer", None), unit("layer.mlp", "Mlp", Some(UnitId(0)))];
        let at = |unit| Location { unit: Some(UnitId(unit)), ..Default::default() };
        m.push_at(Op::Boundary(Role::Weight), &[w], at(1)).unwrap();
        let inner = m.push_at(Op::Boundary(Role::Activation), &[x], at(1)).unwrap();
        m.push_at(Op::Boundary(Role::Activation), &inner, at(0)).unwrap();
        let g = m.push(Op::Unary(Unary::Tanh), &[w]).unwrap();
        let g = m.push(Op::Boundary(Role::Gradient { parameter: 0 }), &g).unwrap();
        m.add_donated_output("w", g[0], 0);
        verify(m).unwrap()
    }

    fn constraints(strategy: Strategy, wrapped: &[&str]) -> Vec<String> {
        let module = program();
        let mesh = AbstractMesh::parse("fsdp=4").unwrap();
        let plan =
            ShardingPlan::new(&module, &mesh, &PlanOptions { strategy, ..Default::default() }).unwrap();
        let modules = [("layer", "Layer"), ("layer.mlp", "Mlp")].map(|(path, class)| crate::ModelModule {
            path: path.into(),
            class: class.into(),
            parameters: 0,
        });
        let classes = WrapConfig::Classes(wrapped.iter().map(|&c| c.into()).collect());
        let wrap = WrapPolicy::resolve(&classes, &modules, &[]).unwrap();
        let text = ShardedModule::from_plan(module, &plan, &wrap).unwrap().stablehlo_text();
        let line = |l: &str| l.split_once("sharding_constraint").map(|(_, c)| c.to_owned());
        let spec = |c: String| c[c.find('[').unwrap()..=c.find(']').unwrap()].to_owned();
        text.lines().filter_map(line).map(spec).collect()
    }

    #[test]
    fn weights_are_gathered_activations_split_and_gradients_scattered() {
        let (gathered, batch, scattered) = ("[{}, {}]", r#"[{"fsdp"}, {}]"#, r#"[{"fsdp"}, {}]"#);
        assert_eq!(constraints(Strategy::FullShard, &["Layer"]), [gathered, batch, scattered]);
        assert_eq!(constraints(Strategy::FullShard, &["Mlp"]), [gathered, batch, batch, scattered]);
        assert_eq!(constraints(Strategy::NoShard, &["Layer"]), [batch, "[{}, {}]"]);
    }

    #[test]
    fn tables_split_by_rows_get_sums() {
        let tables = |spec_dims: [usize; 2]| {
            let mut m = Module::new("step");
            let ty = |dtype, dims: &[usize]| TensorType::new(dtype, dims).unwrap();
            let table = m.add_argument_of_kind("table", ty(DType::F32, &spec_dims), ArgumentKind::Parameter);
            let added = m.push(Op::Boundary(Role::TableGradient), &[table]).unwrap();
            let sum = m.push(Op::Binary(Binary::Add), &[added[0], table]).unwrap();
            let sum = m.push(Op::Boundary(Role::Gradient { parameter: 0 }), &sum).unwrap();
            m.add_donated_output("table", sum[0], 0);
            let module = verify(m).unwrap();
            let mesh = AbstractMesh::parse("fsdp=4").unwrap();
            let plan = ShardingPlan::new(&module, &mesh, &PlanOptions::default()).unwrap();
            let text =
                ShardedModule::from_plan(module, &plan, &WrapPolicy::default()).unwrap().stablehlo_text();
            text.matches("<@mesh, [{}, {}]>").count()
        };
        assert_eq!(tables([16, 8]), 1, "pinned whole");
        assert_eq!(tables([8, 16]), 0, "left to the compiler");
    }

    #[test]
    fn rows_of_rows_of_a_parameter_are_gathered_as_it_is() {
        let mut m = Module::new("step");
        let ty = |dims: &[usize]| TensorType::new(DType::F32, dims).unwrap();
        let w = m.add_argument_of_kind("w", ty(&[2, 3, 4, 8]), ArgumentKind::Parameter);
        let zero = m.push(Op::Constant(HostArray::scalar(0i32)), &[]).unwrap()[0];
        let mut row = w;
        for dims in [&[3, 4, 8][..], &[4, 8]] {
            let operands: Vec<ValueId> =
                std::iter::once(row).chain(std::iter::repeat_n(zero, dims.len() + 1)).collect();
            let sizes = std::iter::once(1).chain(dims.iter().copied()).collect();
            let taken = m.push(Op::DynamicSlice { sizes }, &operands).unwrap();
            row = m.push(Op::Reshape(ty(dims).shape), &taken).unwrap()[0];
        }
        let weight = m.push(Op::Boundary(Role::Weight), &[row]).unwrap()[0];
        m.add_output("weight", weight);
        let module = verify(m).unwrap();
        let mesh = AbstractMesh::parse("fsdp=4").unwrap();
        let plan = ShardingPlan::new(&module, &mesh, &PlanOptions::default()).unwrap();
        let text = ShardedModule::from_plan(module, &plan, &WrapPolicy::default()).unwrap().stablehlo_text();
        assert_eq!(text.matches("<@mesh, [{}, {}]> : tensor<4x8xf32>").count(), 1, "{text}");
    }

    #[test]
    fn shardings_of_another_program_are_errors() {
        let mesh = AbstractMesh::parse("fsdp=4").unwrap();
        let split = |spec: &str| NamedSharding::new(&mesh, spec.parse().unwrap()).unwrap();
        let error = |arguments: &[&str], outputs: &[&str]| {
            let shardings = |specs: &[&str]| specs.iter().map(|s| split(s)).collect();
            let sharded = ShardedModule::new(program(), &mesh, shardings(arguments), shardings(outputs));
            sharded.unwrap_err().to_string()
        };
        assert_eq!(
            error(&["(fsdp, -)"], &["(fsdp, -)"]),
            "module step has 2 arguments, and 1 shardings were given for them"
        );
        assert_eq!(
            error(&["(fsdp, -)", "(-, -)"], &["(-, fsdp)"]),
            "output w is sharded (-, fsdp), and takes over memory that is sharded (fsdp, -)"
        );
        assert!(error(&["(fsdp)", "(-, -)"], &["(fsdp, -)"]).starts_with("w: "));
    }
}
