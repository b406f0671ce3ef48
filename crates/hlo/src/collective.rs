//! Manual regions: a program for one device inside the program for all.
//!
//! The region of a [`ManualComputation`] works on the shards that a device holds of the operands. What it needs from
//! other devices it gets by collectives, which run among the devices of an [`AxisGroup`]: those whose places in the
//! mesh differ along the group's axes only.
//!
//! A value of a region *varies* along an axis if devices that differ along it may hold different values; else it is
//! *invariant* there. Arguments vary along the axes that split them. Values vary along the axes that any operand does,
//! and the collectives change that:
//!
//! | op | its operand | its result |
//! | --- | --- | --- |
//! | `all_gather` | varies | varies: what is done with it differs, and so do its gradients |
//! | `reduce_scatter` | varies | varies |
//! | `all_reduce` | varies | is invariant |
//! | `vary`, the identity | is invariant | varies |
//!
//! Each is the transpose of one of them: `all_gather` of `reduce_scatter`, `all_reduce` of `vary`. A result of the
//! region may vary along those axes only that split it. [`verify`](crate::verify()) holds all of this.

use std::fmt;

use shardwright_mesh::{AbstractMesh, AxisName, NamedSharding, ReplicaGroups, TextError};
use shardwright_tensor::{Shape, TensorType};

use crate::{InferError, Module, Region, ValueId, ValueType};

/// Devices that exchange something: those whose places in a mesh differ along these axes only. The last axis is the
/// fastest within a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AxisGroup {
    mesh: AbstractMesh,
    axes: Vec<AxisName>,
}

/// `sdy.manual_computation`: an instruction whose one region is the program of one device along `manual_axes`. Along
/// the other axes of the mesh, compilers go on to partition.
#[derive(Clone, Debug, PartialEq)]
pub struct ManualComputation {
    /// How each operand lies outside. The region takes its shard, padding included.
    pub in_shardings: Vec<NamedSharding>,
    /// How each result lies outside. The region gives its shard, padding included.
    pub out_shardings: Vec<NamedSharding>,
    /// The axes that the region is written for one device of.
    pub manual_axes: Vec<AxisName>,
    /// The global type of each result, which equal shards do not say.
    pub results: Vec<TensorType>,
}

impl AxisGroup {
    /// The groups along these axes of a mesh.
    ///
    /// # Errors
    /// When the mesh lacks an axis, one is named twice, or the mesh has more than a million devices.
    pub fn new(
        mesh: &AbstractMesh,
        axes: impl IntoIterator<Item = AxisName>,
    ) -> Result<AxisGroup, TextError> {
        let group = AxisGroup { mesh: mesh.clone(), axes: axes.into_iter().collect() };
        group.replica_groups().map(|_| group)
    }

    /// The mesh.
    pub fn mesh(&self) -> &AbstractMesh {
        &self.mesh
    }

    /// The axes, major to minor.
    pub fn axes(&self) -> &[AxisName] {
        &self.axes
    }

    /// How many devices are in each group.
    pub fn size(&self) -> usize {
        self.axes.iter().filter_map(|axis| self.mesh.axis_size(axis)).product()
    }

    /// The partitions of each group, in the order of their parts.
    pub fn groups(&self) -> Vec<Vec<usize>> {
        self.replica_groups().expect("checked when the group was made").groups()
    }

    fn replica_groups(&self) -> Result<ReplicaGroups, TextError> {
        let axes = self.axes.iter().map(|axis| (axis.clone(), None));
        ReplicaGroups::along_axes(self.mesh.clone(), None, axes)
    }
}

/// The attributes that name the group in StableHLO: partitions of the program, through a channel of one device each.
impl fmt::Display for AxisGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let groups = self.groups();
        f.write_str("channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, ")?;
        write!(f, "replica_groups = dense<{groups:?}> : tensor<{}x{}xi64>, ", groups.len(), self.size())?;
        f.write_str("use_global_device_ids")
    }
}

impl ManualComputation {
    /// The type that the region has of an array of this global type.
    ///
    /// # Errors
    /// When the sharding is for another rank.
    fn shard_type(&self, sharding: &NamedSharding, ty: &TensorType) -> Result<TensorType, InferError> {
        let wrong = |reason: String| InferError::Manual { reason };
        sharding.check_rank(ty.dims()).map_err(|e| wrong(e.to_string()))?;
        let shards = sharding.shards_per_dim();
        let dims = ty.dims().iter().zip(shards).zip(sharding.spec().dims()).map(|((&size, shards), dim)| {
            let manual = dim.axes.iter().filter(|axis| self.manual_axes.contains(axis));
            let manual: usize = manual.filter_map(|axis| sharding.mesh().axis_size(axis)).product();
            size.div_ceil(shards) * (shards / manual)
        });
        let shape = Shape::new(dims.collect::<Vec<_>>()).map_err(|e| wrong(e.to_string()))?;
        Ok(TensorType { dtype: ty.dtype, shape })
    }

    /// Checks operands and region, and gives the types of the results.
    pub(crate) fn infer(
        &self,
        module: &Module,
        operands: &[ValueId],
        regions: &[Region],
    ) -> Result<Vec<ValueType>, InferError> {
        let wrong = |reason: String| Err(InferError::Manual { reason });
        let [region] = regions else { return wrong(format!("it has one region, got {}", regions.len())) };
        let counts = [self.in_shardings.len(), operands.len(), region.arguments.len()];
        if counts.iter().any(|&count| count != counts[0]) {
            let [shardings, operands, arguments] = counts;
            return wrong(format!(
                "{operands} operands with {shardings} shardings for {arguments} arguments"
            ));
        }
        let counts = [self.out_shardings.len(), self.results.len(), region.results.len()];
        if counts.iter().any(|&count| count != counts[0]) {
            let [shardings, results, inner] = counts;
            return wrong(format!("{results} results with {shardings} shardings for {inner} of the region"));
        }
        let mut all = self.in_shardings.iter().chain(&self.out_shardings);
        if let Some(mesh) = all.clone().next().map(NamedSharding::mesh) {
            if let Some(other) = all.find(|sharding| sharding.mesh() != mesh) {
                return wrong(format!("it has shardings over mesh {mesh} and over mesh {}", other.mesh()));
            }
            if let Some(axis) = self.manual_axes.iter().find(|axis| mesh.axis_size(axis).is_none()) {
                return wrong(format!("axis {axis} is not in mesh {mesh}"));
            }
        }
        let outside = operands.iter().map(|&value| &module.values[value.index()]);
        self.check(module, "argument", outside, &self.in_shardings, &region.arguments)?;
        let results: Vec<ValueType> = self.results.iter().cloned().map(ValueType::Tensor).collect();
        self.check(module, "result", results.iter(), &self.out_shardings, &region.results)?;
        Ok(results)
    }

    /// Checks that values of the region are the shards of values outside.
    fn check<'a>(
        &self,
        module: &Module,
        what: &'static str,
        outside: impl Iterator<Item = &'a ValueType>,
        shardings: &[NamedSharding],
        inside: &[ValueId],
    ) -> Result<(), InferError> {
        for (index, ((ty, sharding), value)) in outside.zip(shardings).zip(inside).enumerate() {
            let Some(ty) = ty.tensor() else {
                return Err(InferError::NotATensor {
                    op: "sdy.manual_computation".into(),
                    found: ty.clone(),
                });
            };
            let expected = self.shard_type(sharding, ty)?;
            let found = module.values.get(value.index()).and_then(ValueType::tensor);
            if found != Some(&expected) {
                let found = found.map_or_else(|| "no array".to_owned(), ToString::to_string);
                let spec = sharding.spec();
                let reason =
                    format!("{what} {index} of the region is {found}; {ty} at {spec} has shards {expected}");
                return Err(InferError::Manual { reason });
            }
        }
        Ok(())
    }

    /// What MLIR's generic form has between `<{` and `}>`.
    pub(crate) fn properties(&self) -> String {
        let list = |shardings: &[NamedSharding]| {
            let texts: Vec<String> = shardings.iter().map(NamedSharding::sdy_text).collect();
            format!("#sdy.sharding_per_value<[{}]>", texts.join(", "))
        };
        let axes: Vec<String> = self.manual_axes.iter().map(|axis| format!("\"{axis}\"")).collect();
        let (ins, outs) = (list(&self.in_shardings), list(&self.out_shardings));
        let axes = axes.join(", ");
        format!("in_shardings = {ins}, manual_axes = #sdy<manual_axes{{{axes}}}>, out_shardings = {outs}")
    }

    pub(crate) fn mesh(&self) -> Option<&AbstractMesh> {
        self.in_shardings.iter().chain(&self.out_shardings).map(NamedSharding::mesh).next()
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use shardwright_tensor::DType;

    use super::*;
    use crate::{Binary, Location, Op, Reduction, print, verify};

    fn mesh() -> AbstractMesh {
        AbstractMesh::parse("data=2,fsdp=2").unwrap()
    }

    fn over(axes: &[&str]) -> AxisGroup {
        AxisGroup::new(&mesh(), axes.iter().map(|&axis| axis.into())).unwrap()
    }

    fn f32(dims: &[usize]) -> TensorType {
        TensorType::new(DType::F32, dims).unwrap()
    }

    type Build<'a> = &'a dyn Fn(&mut Module, ValueId) -> Result<ValueId, InferError>;

    /// A module whose region takes shards of an `f32[5, 4]` at `(fsdp, -)`, and gives what `build` makes of one, as a
    /// shard of a result of this type and spec.
    fn module(spec: &str, result: &[usize], build: Build<'_>) -> Result<Module, InferError> {
        let on = |spec: &str| NamedSharding::new(&mesh(), spec.parse().unwrap()).unwrap();
        let mut m = Module::new("m");
        let x = m.add_argument("x", f32(&[5, 4]));
        let shard = m.new_value(f32(&[3, 4]).into());
        let y = build(&mut m, shard)?;
        let instructions = std::mem::take(&mut m.instructions);
        let manual = ManualComputation {
            in_shardings: vec![on("(fsdp, -)")],
            out_shardings: vec![on(spec)],
            manual_axes: vec!["data".into(), "fsdp".into()],
            results: vec![f32(result)],
        };
        let region = Region { arguments: vec![shard], instructions, results: vec![y] };
        let op = Op::ManualComputation(Box::new(manual));
        let y = m.push_with_regions(op, &[x], vec![region], Location::default())?;
        m.add_output("y", y[0]);
        Ok(m)
    }

    #[track_caller]
    fn check(spec: &str, result: &[usize], build: Build<'_>, expect: Expect) {
        let found = match module(spec, result, build) {
            Ok(module) => verify(module).map_or_else(|e| e.to_string(), |_| "sound".into()),
            Err(error) => error.to_string(),
        };
        expect.assert_eq(&found);
    }

    fn one(m: &mut Module, op: Op, x: ValueId) -> Result<ValueId, InferError> {
        Ok(m.push(op, &[x])?[0])
    }

    fn gather(dim: usize, axes: &[&str]) -> Op {
        Op::AllGather { dim, axes: over(axes) }
    }

    fn scatter(dim: usize, axes: &[&str]) -> Op {
        Op::ReduceScatter { kind: Reduction::Add, dim, axes: over(axes) }
    }

    fn sum(axes: &[&str]) -> Op {
        Op::AllReduce { kind: Reduction::Add, axes: over(axes) }
    }

    #[test]
    fn a_region_works_on_shards() {
        check("(fsdp, -)", &[5, 4], &|_, x| Ok(x), expect!["sound"]);
        check(
            "(fsdp, -)",
            &[8, 4],
            &|_, x| Ok(x),
            expect![
                "sdy.manual_computation: result 0 of the region is f32[3,4]; f32[8,4] at (fsdp, -) has shards f32[4,4]"
            ],
        );
        check(
            "(-, -)",
            &[6, 4],
            &|m, x| one(m, gather(0, &["fsdp"]), x),
            expect![[r#"
            module m has 1 problem
              instruction 0 (sdy.manual_computation): result 0 is not split over fsdp, and may differ along it"#]],
        );
        check(
            "(fsdp, -)",
            &[5, 4],
            &|m, x| {
                let whole = one(m, gather(0, &["fsdp"]), x)?;
                one(m, scatter(0, &["fsdp"]), whole)
            },
            expect!["sound"],
        );
        check("(-, -)", &[3, 4], &|m, x| one(m, sum(&["fsdp"]), x), expect!["sound"]);
        check("((data,fsdp), -)", &[12, 4], &|m, x| one(m, Op::Vary(over(&["data"])), x), expect!["sound"]);
    }

    #[test]
    fn collectives_fit_their_operands() {
        check(
            "(fsdp, -)",
            &[5, 4],
            &|m, x| one(m, gather(2, &["fsdp"]), x),
            expect!["all_gather of [f32[3,4]]: the dim is one of the operand's"],
        );
        check(
            "(fsdp, -)",
            &[5, 4],
            &|m, x| one(m, scatter(0, &["fsdp"]), x),
            expect!["reduce_scatter of [f32[3,4]]: the devices of a group divide the dim"],
        );
        check(
            "(-, -)",
            &[3, 4],
            &|m, x| one(m, sum(&["data", "fsdp"]), x),
            expect![[r#"
                module m has 1 problem
                  all_reduce in instruction 0 (sdy.manual_computation) along data: its operand is the same there"#]],
        );
        check(
            "(fsdp, -)",
            &[5, 4],
            &|m, x| one(m, Op::Vary(over(&["fsdp"])), x),
            expect![[r#"
                module m has 1 problem
                  vary in instruction 0 (sdy.manual_computation) along fsdp: its operand varies there"#]],
        );
        check(
            "(fsdp, -)",
            &[5, 4],
            &|m, x| {
                let elsewhere = AbstractMesh::parse("fsdp=2").unwrap();
                let axes = AxisGroup::new(&elsewhere, ["fsdp".into()]).unwrap();
                let total = one(m, Op::AllReduce { kind: Reduction::Add, axes }, x)?;
                Ok(m.push(Op::Binary(Binary::Add), &[x, total])?[0])
            },
            expect![[r#"
                module m has 1 problem
                  all_reduce in instruction 0 (sdy.manual_computation) along fsdp: its mesh is not that of the region around it"#]],
        );
        assert!(AxisGroup::new(&mesh(), ["x".into()]).is_err());
        assert!(AxisGroup::new(&mesh(), ["fsdp".into(), "fsdp".into()]).is_err());
    }

    #[test]
    fn collectives_stand_in_a_region() {
        let mut m = Module::new("m");
        let x = m.add_argument("x", f32(&[4]));
        let y = one(&mut m, gather(0, &["fsdp"]), x).unwrap();
        m.add_output("y", y);
        expect![[r#"
            module m has 1 problem
              instruction 0 (all_gather) along fsdp: it stands in no manual region"#]]
        .assert_eq(&verify(m).unwrap_err().to_string());
    }

    #[test]
    fn a_region_prints_with_its_groups() {
        let module = module("(-, -)", &[3, 4], &|m, x| {
            let x = one(m, Op::Vary(over(&["data"])), x)?;
            let whole = one(m, gather(0, &["fsdp"]), x)?;
            let part = one(m, scatter(0, &["fsdp"]), whole)?;
            one(m, sum(&["data", "fsdp"]), part)
        });
        let module = verify(module.unwrap()).unwrap();
        expect![[r#"
            module @m attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
              func.func public @main(%arg0: tensor<5x4xf32> loc("x")) -> (tensor<3x4xf32> {jax.result_info = "y"}) {
                %0 = "sdy.manual_computation"(%arg0) <{in_shardings = #sdy.sharding_per_value<[<@mesh, [{"fsdp"}, {}]>]>, manual_axes = #sdy<manual_axes{"data", "fsdp"}>, out_shardings = #sdy.sharding_per_value<[<@mesh, [{}, {}]>]>}> ({
                ^bb0(%1: tensor<3x4xf32>):
                  %2 = "stablehlo.all_gather"(%1) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, use_global_device_ids}> : (tensor<3x4xf32>) -> tensor<6x4xf32>
                  %3 = "stablehlo.reduce_scatter"(%2) <{scatter_dimension = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, use_global_device_ids}> ({
                ^bb0(%a: tensor<f32>, %b: tensor<f32>):
                  %c = stablehlo.add %a, %b : tensor<f32>
                  stablehlo.return %c : tensor<f32>
                }) : (tensor<6x4xf32>) -> tensor<3x4xf32>
                  %4 = "stablehlo.all_reduce"(%3) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> ({
                ^bb0(%a: tensor<f32>, %b: tensor<f32>):
                  %c = stablehlo.add %a, %b : tensor<f32>
                  stablehlo.return %c : tensor<f32>
                }) : (tensor<3x4xf32>) -> tensor<3x4xf32>
                  sdy.return %4 : tensor<3x4xf32>
                }) : (tensor<5x4xf32>) -> (tensor<3x4xf32>)
                return %0 : tensor<3x4xf32>
              }
            }
        "#]].assert_eq(&print(&module, None));
    }
}
