//! The explicit lowering: a plan written out as collectives.
//!
//! Annotated programs leave it to the compiler to find the gathers and scatters that a plan means. Here they are
//! written by hand: the whole program is one manual region, which works on the shards that a device holds.
//!
//! - A parameter is brought together where it is used, over one mesh axis after the other, the minor one first, since
//!   its blocks are neighbours. On a torus, compilers make real gathers of those and not of one over all axes.
//! - Its gradient is the transpose of that: scattered over the same axes, and summed over those that replicate it.
//! - The batch, and all that is worked out of it, is the device's own part.
//!
//! ```text
//! program of global arrays ── ShardingPlan ── Shards ──► program of shards, written anew
//!          └── arguments, outputs, donors ──────► ShardedModule::explicit ◄─────┘
//! ```

use std::collections::{BTreeSet, HashMap};

use shardwright_hlo::{
    Argument, ArgumentKind, AxisGroup, Location, ManualComputation, Module, Op, Output, Region, SliceBounds,
    Unit, ValueId, VerifiedModule, verify,
};
use shardwright_mesh::{AbstractMesh, AxisName, NamedSharding};
use shardwright_tensor::TensorType;

use crate::{PlanError, ShardError, ShardedModule, ShardingPlan};

/// How a plan is written into a program. All give the same numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Lowering {
    /// [`Explicit`](Lowering::Explicit) where the plan can be written so, else [`Annotate`](Lowering::Annotate).
    #[default]
    Auto,
    /// As shardings of arguments, outputs and boundaries. The compiler finds the collectives.
    Annotate,
    /// As collectives, in a program of one device's shards.
    Explicit,
}

/// A plan as one device sees it: what a program needs to know to work on shards.
#[derive(Clone, Debug)]
pub struct Shards<'p> {
    plan: &'p ShardingPlan,
    /// The axes of more than one device that the batch is split over.
    data: Vec<AxisName>,
}

impl Lowering {
    /// The shards that a program of this plan is to be written over; `None` where it is to be annotated.
    ///
    /// # Errors
    /// When the plan cannot be written as was asked for.
    pub fn shards(self, plan: &ShardingPlan) -> Result<Option<Shards<'_>>, PlanError> {
        match self {
            Lowering::Auto => Ok(Shards::new(plan).ok()),
            Lowering::Annotate => Ok(None),
            Lowering::Explicit => Shards::new(plan).map(Some),
        }
    }
}

impl<'p> Shards<'p> {
    /// A plan, seen from one device.
    ///
    /// # Errors
    /// When a parameter is split over an axis along which all devices see the same examples: the gradient of what is
    /// gathered there is no sum. And on meshes of more devices than can be listed.
    pub fn new(plan: &'p ShardingPlan) -> Result<Shards<'p>, PlanError> {
        let batches = plan.arguments().iter().filter(|a| a.kind == ArgumentKind::Batch);
        let used: BTreeSet<AxisName> = batches.flat_map(|a| wide_axes(&a.sharding)).collect();
        let data: Vec<AxisName> =
            plan.mesh().axis_names().filter(|axis| used.contains(*axis)).cloned().collect();
        if AxisGroup::new(plan.mesh(), data.iter().cloned()).is_err() {
            return Err(PlanError::TooManyDevices { mesh: plan.mesh().clone() });
        }
        for argument in plan.arguments() {
            if let Some(axis) = wide_axes(&argument.sharding).find(|axis| !data.contains(axis)) {
                let argument = argument.name.clone();
                return Err(PlanError::NotADataAxis { argument, axis });
            }
        }
        Ok(Shards { plan, data })
    }

    /// The mesh that it is one device of.
    pub fn mesh(&self) -> &AbstractMesh {
        self.plan.mesh()
    }

    /// The type of a device's shard of the argument with this index, padding included.
    ///
    /// # Panics
    /// If there is no such argument.
    pub fn ty(&self, argument: usize) -> TensorType {
        let argument = &self.plan.arguments()[argument];
        let dims = argument.sharding.shard_shape(argument.ty.dims());
        let dims = dims.expect("a plan has shardings of its arguments' ranks");
        TensorType::new(argument.ty.dtype, dims).expect("a shard is no larger than the whole")
    }

    /// What makes the whole parameter of a device's shard of it, as ops of one operand, for use on the device's part of
    /// the batch.
    ///
    /// # Panics
    /// If there is no such argument.
    pub fn gathers(&self, parameter: usize) -> Vec<Op> {
        self.gathers_from(parameter, 0)
    }

    /// The same for what a device's shard has at one index of the parameter's dim 0, without that dim: one layer of
    /// stacked layers, in a loop over them.
    ///
    /// # Errors
    /// When dim 0 is split.
    ///
    /// # Panics
    /// If there is no such argument.
    pub fn row_gathers(&self, parameter: usize) -> Result<Vec<Op>, PlanError> {
        let planned = &self.plan.arguments()[parameter];
        let rows = planned.sharding.spec().dims().first();
        let mut split = rows.into_iter().flat_map(|dim| &dim.axes);
        if let Some(axis) = split.find(|axis| self.mesh().axis_size(axis) > Some(1)) {
            return Err(PlanError::SplitRows { argument: planned.name.clone(), axis: axis.clone() });
        }
        Ok(self.gathers_from(parameter, 1))
    }

    /// What gathers an array of the parameter's dims from `first` on.
    fn gathers_from(&self, parameter: usize, first: usize) -> Vec<Op> {
        let parameter = &self.plan.arguments()[parameter];
        let split: Vec<AxisName> = wide_axes(&parameter.sharding).collect();
        let mut ops = Vec::new();
        let replicas = self.data.iter().filter(|axis| !split.contains(axis)).cloned();
        ops.extend(self.group(replicas).map(Op::Vary));
        for (dim, entry) in parameter.sharding.spec().dims().iter().skip(first).enumerate() {
            for axis in entry.axes.iter().rev() {
                ops.extend(self.group([axis.clone()]).map(|axes| Op::AllGather { dim, axes }));
            }
        }
        let dims = parameter.ty.dims().get(first..).unwrap_or_default();
        ops.extend((parameter.padding_bytes > 0).then(|| Op::Slice(whole(dims))));
        ops
    }

    /// The devices whose parts make up the batch, if they are more than one.
    pub fn batch(&self) -> Option<AxisGroup> {
        self.group(self.data.iter().cloned())
    }

    /// The devices whose shards make up the argument with this index, if they are more than one.
    ///
    /// # Panics
    /// If there is no such argument.
    pub fn split(&self, argument: usize) -> Option<AxisGroup> {
        self.group(wide_axes(&self.plan.arguments()[argument].sharding))
    }

    /// For each dim of the argument with this index, the devices whose shards make it up, if they are more than one.
    ///
    /// # Panics
    /// If there is no such argument.
    pub fn split_dims(&self, argument: usize) -> Vec<Option<AxisGroup>> {
        let sharding = &self.plan.arguments()[argument].sharding;
        let wide = |axis: &&AxisName| sharding.mesh().axis_size(axis) > Some(1);
        let dims = sharding.spec().dims().iter();
        dims.map(|entry| self.group(entry.axes.iter().filter(wide).cloned())).collect()
    }

    fn group(&self, axes: impl IntoIterator<Item = AxisName>) -> Option<AxisGroup> {
        let group =
            AxisGroup::new(self.plan.mesh(), axes).expect("axes of the mesh, each once, which can be listed");
        (group.size() > 1).then_some(group)
    }
}

impl ShardedModule {
    /// A program of a device's shards, `body`, as the program of all devices: FSDP by hand.
    ///
    /// `program` is the same for global arrays. Of it are the names and types of arguments and outputs, and donors; they
    /// lie where the plan puts them.
    ///
    /// # Errors
    /// When the plan is of another program, or `body` takes or gives anything else than shards of what `program`
    /// does.
    pub fn explicit(
        program: &VerifiedModule,
        plan: &ShardingPlan,
        body: Module,
    ) -> Result<ShardedModule, ShardError> {
        let (in_shardings, out_shardings) = plan.shardings();
        let mut module = Module::new(program.name.clone());
        let mut operands = Vec::with_capacity(program.arguments.len());
        for argument in &program.arguments {
            let value = module.new_value(program.ty(argument.value).clone().into());
            module.arguments.push(Argument { value, ..argument.clone() });
            operands.push(value);
        }
        let manual = ManualComputation {
            in_shardings: in_shardings.clone(),
            out_shardings: out_shardings.clone(),
            manual_axes: plan.mesh().axis_names().cloned().collect(),
            results: program.outputs.iter().map(|o| program.ty(o.value).clone()).collect(),
        };
        let region = as_region(body, &mut module);
        let op = Op::ManualComputation(Box::new(manual));
        let results = module.push_with_regions(op, &operands, vec![region], Location::default())?;
        for (output, value) in program.outputs.iter().zip(results) {
            module.outputs.push(Output { value, ..output.clone() });
        }
        ShardedModule::new(verify(module)?, plan.mesh(), in_shardings, out_shardings)
    }
}

/// Moves a program into another one, as a region. Nothing can be pinned in it, so boundaries are left out.
fn as_region(body: Module, module: &mut Module) -> Region {
    let offset = u32::try_from(module.values.len()).expect("a program has fewer than 2^32 values");
    module.values.extend(body.values);
    module.units.extend(body.units.into_iter().map(|unit| Unit { instructions: 0..1, ..unit }));
    let mut region = Region {
        arguments: body.arguments.iter().map(|a| a.value).collect(),
        instructions: body.instructions,
        results: body.outputs.iter().map(|o| o.value).collect(),
    };
    let mut same = HashMap::new();
    without_boundaries(&mut region, &mut same);
    region.rename(&mut |value| ValueId(offset + same.get(&value).unwrap_or(&value).0));
    region
}

/// Leaves boundaries out of a region and those inside it; notes for each what it is the same as.
fn without_boundaries(region: &mut Region, same: &mut HashMap<ValueId, ValueId>) {
    region.instructions.retain_mut(|instruction| {
        if let (Op::Boundary(_), [operand], [result]) =
            (&instruction.op, &instruction.operands[..], &instruction.results[..])
        {
            same.insert(*result, same.get(operand).copied().unwrap_or(*operand));
            return false;
        }
        instruction.regions.iter_mut().for_each(|inner| without_boundaries(inner, same));
        true
    });
}

/// The axes of more than one device that split an array, dim by dim, major to minor.
fn wide_axes(sharding: &NamedSharding) -> impl Iterator<Item = AxisName> {
    let wide = |axis: &&AxisName| sharding.mesh().axis_size(axis) > Some(1);
    sharding.spec().axes().filter(wide).cloned()
}

/// The bounds of an array that lies, padded, at the beginning of each dim.
pub(crate) fn whole(dims: &[usize]) -> SliceBounds {
    SliceBounds { starts: vec![0; dims.len()], limits: dims.to_vec(), strides: vec![1; dims.len()] }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use shardwright_hlo::Unary;
    use shardwright_tensor::DType;

    use super::*;
    use crate::{DimRule, PlanOptions};

    fn f32(dims: &[usize]) -> TensorType {
        TensorType::new(DType::F32, dims).unwrap()
    }

    /// A program that takes a parameter and a batch, and gives the parameter negated.
    fn program(dims: &[usize]) -> VerifiedModule {
        let mut m = Module::new("step");
        let w = m.add_argument_of_kind("w", f32(dims), ArgumentKind::Parameter);
        m.add_argument_of_kind("x", f32(&[24]), ArgumentKind::Batch);
        let negated = m.push(Op::Unary(Unary::Negate), &[w]).unwrap();
        m.add_donated_output("w", negated[0], 0);
        verify(m).unwrap()
    }

    /// The program over a device's shards.
    fn body(shards: &Shards<'_>) -> Module {
        let mut m = Module::new("body");
        let w = m.add_argument("w", shards.ty(0));
        m.add_argument("x", shards.ty(1));
        let negated = m.push(Op::Unary(Unary::Negate), &[w]).unwrap();
        m.add_output("w", negated[0]);
        m
    }

    fn plan(module: &Module, mesh: &str, options: &PlanOptions) -> ShardingPlan {
        ShardingPlan::new(module, &AbstractMesh::parse(mesh).unwrap(), options).unwrap()
    }

    #[track_caller]
    fn check_gathers(dims: &[usize], mesh: &str, options: &PlanOptions, expect: Expect) {
        let plan = plan(&program(dims), mesh, options);
        let name = |op: &Op| match op {
            Op::Vary(axes) => format!("vary {:?}", names(axes)),
            Op::AllGather { dim, axes } => format!("all_gather {dim} {:?}", names(axes)),
            Op::Slice(bounds) => format!("slice {:?}", bounds.limits),
            op => op.name().to_owned(),
        };
        let gathers = Shards::new(&plan).unwrap().gathers(0);
        expect.assert_eq(&gathers.iter().map(name).collect::<Vec<_>>().join("; "));
    }

    fn names(axes: &AxisGroup) -> Vec<&str> {
        axes.axes().iter().map(AxisName::as_str).collect()
    }

    #[test]
    fn parameters_are_gathered_over_what_splits_them() {
        let options = PlanOptions::default();
        check_gathers(&[16, 8], "fsdp=4", &options, expect![[r#"all_gather 0 ["fsdp"]"#]]);
        check_gathers(
            &[16, 8],
            "data=2,fsdp=4",
            &options,
            expect![[r#"vary ["data"]; all_gather 0 ["fsdp"]"#]],
        );
        check_gathers(
            &[8, 13],
            "fsdp=3",
            &PlanOptions { dim_rule: DimRule::StrictLargest, ..options.clone() },
            expect![[r#"all_gather 1 ["fsdp"]; slice [8, 13]"#]],
        );
        check_gathers(&[16], "fsdp=1", &options, expect![""]);
        check_gathers(
            &[16],
            "data=2,fsdp=4",
            &PlanOptions { min_shard_bytes: 65, ..options },
            expect![[r#"vary ["data", "fsdp"]"#]],
        );
    }

    #[test]
    fn rows_are_gathered_where_dim_0_is_whole() {
        let wide = plan(&program(&[4, 16]), "data=2,fsdp=4", &PlanOptions::default());
        let gathers = Shards::new(&wide).unwrap().row_gathers(0).unwrap();
        let [Op::Vary(replicas), Op::AllGather { dim: 0, axes }] = &gathers[..] else {
            panic!("{gathers:?}");
        };
        assert_eq!((names(replicas), names(axes)), (vec!["data"], vec!["fsdp"]));
        let deep = plan(&program(&[16, 4]), "fsdp=8", &PlanOptions::default());
        expect!["w: dim 0 is split over mesh axis fsdp, and the program takes one index of it at a time; split another dim"].assert_eq(&Shards::new(&deep).unwrap().row_gathers(0).unwrap_err().to_string());
    }

    /// Gathers over one axis after the other, on the host.
    fn gathered(n: usize, mesh: &AbstractMesh, spec: &str) -> Vec<Vec<usize>> {
        const PADDING: usize = usize::MAX;
        let sharding = NamedSharding::new(mesh, spec.parse().unwrap()).unwrap();
        let tile = sharding.shard_shape(&[n]).unwrap()[0];
        let shard = |device| {
            let held = sharding.shard_ranges(device, &[n])[0].clone();
            held.chain(std::iter::repeat(PADDING)).take(tile).collect::<Vec<usize>>()
        };
        let mut shards: Vec<Vec<usize>> = (0..mesh.size()).map(shard).collect();
        let axes: Vec<AxisName> = sharding.spec().axes().cloned().collect();
        for axis in axes.into_iter().rev() {
            let before = shards.clone();
            for group in AxisGroup::new(mesh, [axis]).unwrap().groups() {
                let joined: Vec<usize> = group.iter().flat_map(|&device| before[device].clone()).collect();
                group.iter().for_each(|&device| shards[device] = joined.clone());
            }
        }
        shards.iter_mut().for_each(|shard| shard.truncate(n));
        shards
    }

    #[test]
    fn gathers_over_one_axis_after_the_other_make_the_whole() {
        let mesh = AbstractMesh::parse("a=2,b=3,c=2").unwrap();
        for spec in ["(a)", "(b)", "((a,b))", "((b,a))", "((c,a))", "((a,b,c))", "((c,b,a))", "((b,c,a))"] {
            for n in [1, 2, 5, 12, 13, 24, 25] {
                let whole: Vec<usize> = (0..n).collect();
                let found = gathered(n, &mesh, spec);
                assert!(found.iter().all(|device| *device == whole), "{n} at {spec}: {found:?}");
            }
        }
    }

    #[test]
    fn uneven_parameters_enter_the_region_as_they_are_stored() {
        let program = program(&[13, 2]);
        let plan = plan(&program, "fsdp=8", &PlanOptions::default());
        let body = body(&Shards::new(&plan).unwrap());
        let sharded = ShardedModule::explicit(&program, &plan, body).unwrap();
        assert_eq!(sharded.module().ty(sharded.module().arguments[0].value).dims(), [13, 2]);
        expect![[r#"
            module @step attributes {mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32} {
              sdy.mesh @mesh = <["fsdp"=8]>
              func.func public @main(%arg0: tensor<16x2xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"fsdp"}, {}]>, tf.aliasing_output = 0 : i32} loc("w"), %arg1: tensor<24xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"fsdp"}]>} loc("x")) -> (tensor<16x2xf32> {jax.result_info = "w", sdy.sharding = #sdy.sharding<@mesh, [{"fsdp"}, {}]>}) {
                %0 = "sdy.manual_computation"(%arg0, %arg1) <{in_shardings = #sdy.sharding_per_value<[<@mesh, [{"fsdp"}, {}]>, <@mesh, [{"fsdp"}]>]>, manual_axes = #sdy<manual_axes{"fsdp"}>, out_shardings = #sdy.sharding_per_value<[<@mesh, [{"fsdp"}, {}]>]>}> ({
                ^bb0(%1: tensor<2x2xf32>, %2: tensor<3xf32>):
                  %3 = stablehlo.negate %1 : tensor<2x2xf32>
                  sdy.return %3 : tensor<2x2xf32>
                }) : (tensor<16x2xf32>, tensor<24xf32>) -> (tensor<16x2xf32>)
                return %0 : tensor<16x2xf32>
              }
            }
        "#]].assert_eq(&sharded.stablehlo_text());
    }

    #[test]
    fn what_is_no_program_of_the_plan_is_an_error() {
        let program = program(&[16, 8]);
        let plan = plan(&program, "fsdp=8", &PlanOptions::default());
        let mut whole = body(&Shards::new(&plan).unwrap());
        whole.values[0] = f32(&[16, 8]).into();
        expect!["sdy.manual_computation: argument 0 of the region is f32[16,8]; f32[16,8] at (fsdp, -) has shards f32[2,8]"].assert_eq(&ShardedModule::explicit(&program, &plan, whole).unwrap_err().to_string());
        let mut few = body(&Shards::new(&plan).unwrap());
        few.arguments.pop();
        expect!["sdy.manual_computation: 2 operands with 2 shardings for 1 arguments"]
            .assert_eq(&ShardedModule::explicit(&program, &plan, few).unwrap_err().to_string());
    }

    #[test]
    fn by_default_all_else_is_explicit() {
        let program = program(&[16, 8]);
        let whole = PlanOptions { strategy: crate::Strategy::NoShard, ..PlanOptions::default() };
        for mesh in ["fsdp=1", "fsdp=8", "data=2,fsdp=4"] {
            for options in [&PlanOptions::default(), &whole] {
                let plan = plan(&program, mesh, options);
                assert!(Lowering::default().shards(&plan).unwrap().is_some(), "{mesh} {options:?}");
            }
        }
    }

    #[test]
    fn a_mesh_of_more_devices_than_can_be_listed_is_annotated() {
        let mut m = Module::new("step");
        m.add_argument_of_kind("w", f32(&[1 << 21]), ArgumentKind::Parameter);
        let plan = plan(&m, "data=4,fsdp=524288", &PlanOptions::default());
        assert!(Lowering::Auto.shards(&plan).unwrap().is_none());
        expect!["mesh data=4, fsdp=524288 has 2097152 devices, and the explicit lowering lists those that exchange something, up to 1048576; the annotate lowering leaves that to the compiler"].assert_eq(&Lowering::Explicit.shards(&plan).unwrap_err().to_string());
    }

    #[test]
    fn what_is_split_over_a_tensor_axis_is_annotated() {
        let program = program(&[16, 8]);
        let rule = crate::TensorRule { modules: "w".parse().unwrap(), split: crate::TensorSplit::Colwise };
        let tensor = Some(crate::TensorPlan { rules: vec![rule] });
        let plan = plan(&program, "fsdp=2,tensor=2", &PlanOptions { tensor, ..PlanOptions::default() });
        assert!(Lowering::Auto.shards(&plan).unwrap().is_none());
        expect!["w is split over mesh axis tensor, along which all devices see the same examples; the explicit lowering gathers over the axes of the batch only, and the annotate lowering over any"].assert_eq(&Lowering::Explicit.shards(&plan).unwrap_err().to_string());
    }
}
