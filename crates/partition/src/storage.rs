//! Padded storage.
//!
//! Compilers take and give arrays in equal shards only: an argument whose dim does not divide would silently be whole
//! on every device. So such arrays are stored padded, and the program cuts the padding off what it is given and puts
//! it on what it gives back. Each device keeps `⌈size / shards⌉` of such a dim, as an
//! [uneven sharding](shardwright_mesh::NamedSharding::shard_shape) has it, and neither step moves data.
//!
//! A manual region works on such shards as they are: what nothing else takes or gives is stored padded as it stands.

use std::collections::{BTreeMap, HashMap};

use shardwright_hlo::{Instruction, Location, Module, Op, Role, Shardings, ValueId};
use shardwright_mesh::NamedSharding;
use shardwright_tensor::{HostArray, Shape, TensorType};

use crate::explicit::whole;

/// The program over padded arguments and outputs, and its shardings.
pub(crate) fn with_padded_storage(module: &Module, shardings: &Shardings) -> (Module, Shardings) {
    let values = shardings.values.clone();
    let mut storage = Storage { module: module.clone(), values, by_shard: used_by_shard(module, shardings) };
    let prologue = storage.cut_arguments();
    for unit in &mut storage.module.units {
        unit.instructions.start += prologue.len();
        unit.instructions.end += prologue.len();
    }
    storage.module.instructions.splice(0..0, prologue);
    storage.pad_outputs(&shardings.outputs);
    let shardings = Shardings { values: storage.values, ..shardings.clone() };
    (storage.module, shardings)
}

struct Storage {
    module: Module,
    values: BTreeMap<ValueId, NamedSharding>,
    /// What only manual regions take and give, and how they cut it.
    by_shard: HashMap<ValueId, NamedSharding>,
}

impl Storage {
    /// Gives each uneven argument a padded value; what turns that into the old one.
    fn cut_arguments(&mut self) -> Vec<Instruction> {
        let mut prologue = Vec::new();
        for index in 0..self.module.arguments.len() {
            let value = self.module.arguments[index].value;
            let Some(sharding) = self.values.get(&value).cloned() else { continue };
            let ty = self.module.ty(value).clone();
            let Some(padded) = padded_type(&ty, &sharding) else { continue };
            if self.by_shard.get(&value) == Some(&sharding) {
                self.module.values[value.index()] = padded.into();
                continue;
            }
            let (stored, cut) = (self.value(padded), self.value(ty.clone()));
            prologue.push(instruction(Op::Slice(whole(ty.dims())), &[stored], cut));
            prologue.push(Instruction::boundary(Role::Stored, cut, value, Location::default()));
            self.module.arguments[index].value = stored;
            self.values.insert(stored, sharding);
        }
        prologue
    }

    fn pad_outputs(&mut self, shardings: &BTreeMap<usize, NamedSharding>) {
        for (&index, sharding) in shardings {
            let value = self.module.outputs[index].value;
            let ty = self.module.ty(value).clone();
            let Some(padded) = padded_type(&ty, sharding) else { continue };
            if self.by_shard.get(&value) == Some(sharding) {
                self.module.values[value.index()] = padded.into();
                continue;
            }
            let pinned = self.value(ty.clone());
            self.values.insert(pinned, sharding.clone());
            let zero = self.value(TensorType::scalar(ty.dtype));
            let high = padded.dims().iter().zip(ty.dims()).map(|(p, d)| as_i64(p - d)).collect();
            let pad = Op::Pad { low: vec![0; ty.rank()], high, interior: vec![0; ty.rank()] };
            let stored = self.value(padded);
            let constant = HostArray::zeros(TensorType::scalar(ty.dtype));
            self.module.instructions.extend([
                Instruction::boundary(Role::Stored, value, pinned, Location::default()),
                instruction(Op::Constant(constant), &[], zero),
                instruction(pad, &[pinned, zero], stored),
            ]);
            self.module.outputs[index].value = stored;
        }
    }

    fn value(&mut self, ty: TensorType) -> ValueId {
        self.module.new_value(ty.into())
    }
}

/// The values that manual regions take or give as shards of one sharding, and that nothing else uses or gives; arguments
/// and outputs among them lie as the shards do.
fn used_by_shard(module: &Module, shardings: &Shardings) -> HashMap<ValueId, NamedSharding> {
    let mut by_shard: HashMap<ValueId, Option<NamedSharding>> = HashMap::new();
    for instruction in &module.instructions {
        if let Op::ManualComputation(manual) = &instruction.op {
            let taken = instruction.operands.iter().zip(&manual.in_shardings);
            for (&value, sharding) in taken.chain(instruction.results.iter().zip(&manual.out_shardings)) {
                let known = by_shard.entry(value).or_insert_with(|| Some(sharding.clone()));
                if known.as_ref() != Some(sharding) {
                    *known = None;
                }
            }
        } else {
            let results = instruction.results.iter().copied();
            by_shard.extend(instruction.uses().into_iter().chain(results).map(|value| (value, None)));
        }
    }
    // Arguments and outputs have one shape each, whoever else takes or gives them.
    let arguments = module.arguments.iter().map(|a| (a.value, shardings.values.get(&a.value)));
    let outputs = module.outputs.iter().enumerate().map(|(i, o)| (o.value, shardings.outputs.get(&i)));
    for (value, sharding) in arguments.chain(outputs) {
        if by_shard.get(&value).is_some_and(|known| known.as_ref() != sharding) {
            by_shard.insert(value, None);
        }
    }
    by_shard.into_iter().filter_map(|(value, sharding)| Some((value, sharding?))).collect()
}

/// The type of the array that equal shards make up, where that is not the array itself.
fn padded_type(ty: &TensorType, sharding: &NamedSharding) -> Option<TensorType> {
    let shards = sharding.shards_per_dim();
    let sizes = ty.dims().iter().zip(&shards);
    let dims: Vec<usize> = sizes.map(|(&size, &n)| size.next_multiple_of(n)).collect();
    // What cannot be addressed is left to fail where it is placed.
    let shape = Shape::new(dims).ok()?;
    (shape != ty.shape).then_some(TensorType { dtype: ty.dtype, shape })
}

fn instruction(op: Op, operands: &[ValueId], result: ValueId) -> Instruction {
    let (operands, results) = (operands.to_vec(), vec![result]);
    Instruction { op, operands, results, regions: Vec::new(), location: Location::default() }
}

fn as_i64(n: usize) -> i64 {
    i64::try_from(n).expect("a size that can be addressed fits")
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use shardwright_hlo::{ArgumentKind, Unary, verify};
    use shardwright_mesh::AbstractMesh;
    use shardwright_tensor::DType;

    use crate::ShardedModule;

    use super::*;

    #[test]
    fn uneven_arguments_and_outputs_are_stored_padded() {
        let f32 = |dims: &[usize]| TensorType::new(DType::F32, dims).unwrap();
        let mut m = Module::new("m");
        let x = m.add_argument_of_kind("x", f32(&[13, 3]), ArgumentKind::Parameter);
        m.add_argument("even", f32(&[16]));
        let y = m.push(Op::Unary(Unary::Negate), &[x]).unwrap()[0];
        m.add_donated_output("x", y, 0);
        let mesh = AbstractMesh::parse("fsdp=8").unwrap();
        let on = |spec: &str| NamedSharding::new(&mesh, spec.parse().unwrap()).unwrap();
        let arguments = vec![on("(fsdp, -)"), on("(fsdp)")];
        let sharded =
            ShardedModule::new(verify(m).unwrap(), &mesh, arguments, vec![on("(fsdp, -)")]).unwrap();
        let text = sharded.stablehlo_text();
        let body: Vec<&str> = text.lines().skip(3).take_while(|l| !l.contains("return")).collect();
        expect![[r#"
            %0 = stablehlo.slice %arg0 [0:13, 0:3] : (tensor<16x3xf32>) -> tensor<13x3xf32>
            %1 = sdy.sharding_constraint %0 <@mesh, [{"fsdp"}, {}]> : tensor<13x3xf32>
            %2 = stablehlo.negate %1 : tensor<13x3xf32>
            %3 = sdy.sharding_constraint %2 <@mesh, [{"fsdp"}, {}]> : tensor<13x3xf32>
            %4 = stablehlo.constant dense<0.0e0> : tensor<f32>
            %5 = stablehlo.pad %3, %4, low = [0, 0], high = [3, 0], interior = [0, 0] : (tensor<13x3xf32>, tensor<f32>) -> tensor<16x3xf32>"#]]
        .assert_eq(&body.iter().map(|l| l.trim()).collect::<Vec<_>>().join("\n"));
        assert_eq!(sharded.module().ty(sharded.module().arguments[0].value).dims(), [13, 3]);
    }

    #[test]
    fn what_enters_or_leaves_a_region_and_is_used_elsewhere_too_keeps_its_type() {
        let program = r#"module @m {
          sdy.mesh @mesh = <["x"=8]>
          func.func public @main(%arg0: tensor<13x2xf32>) -> (tensor<13x2xf32>, tensor<13x2xf32>) {
            %0 = stablehlo.negate %arg0 : tensor<13x2xf32>
            %1 = "sdy.manual_computation"(%TAKEN) <{in_shardings = #sdy.sharding_per_value<[<@mesh, [{"x"}, {}]>]>, manual_axes = #sdy<manual_axes{"x"}>, out_shardings = #sdy.sharding_per_value<[<@mesh, [{"x"}, {}]>]>}> ({
            ^bb0(%2: tensor<2x2xf32>):
              sdy.return %2 : tensor<2x2xf32>
            }) : (tensor<13x2xf32>) -> tensor<13x2xf32>
            return %TAKEN, %1 : tensor<13x2xf32>, tensor<13x2xf32>
          }
        }"#;
        let mesh = AbstractMesh::parse("x=8").unwrap();
        let on = |spec: &str| NamedSharding::new(&mesh, spec.parse().unwrap()).unwrap();
        let lines = |taken: &str, argument: &str, output: &str| {
            let negated = "%0 = stablehlo.negate %arg0 : tensor<13x2xf32>";
            let program = if taken == "arg0" { program.replace(negated, "") } else { program.to_owned() };
            let module = shardwright_hlo::parse(&program.replace("TAKEN", taken)).unwrap().module;
            let outputs = vec![on(output), on("(x, -)")];
            let sharded = ShardedModule::new(module, &mesh, vec![on(argument)], outputs).unwrap();
            let text = sharded.stablehlo_text();
            let body = text.lines().skip(3).map(str::trim).take_while(|l| *l != "}");
            let body = body.map(|l| l.split(" <{").next().unwrap_or_default());
            body.map(|l| format!("{l}\n")).collect::<String>()
        };
        // An output that lies elsewhere.
        expect![[r#"
            %0 = stablehlo.slice %arg0 [0:13, 0:2] : (tensor<16x2xf32>) -> tensor<13x2xf32>
            %1 = sdy.sharding_constraint %0 <@mesh, [{"x"}, {}]> : tensor<13x2xf32>
            %2 = "sdy.manual_computation"(%1)
            ^bb0(%3: tensor<2x2xf32>):
            sdy.return %3 : tensor<2x2xf32>
            }) : (tensor<13x2xf32>) -> (tensor<16x2xf32>)
            return %1, %2 : tensor<13x2xf32>, tensor<16x2xf32>
        "#]]
        .assert_eq(&lines("arg0", "(x, -)", "(-, -)"));
        // An argument that lies elsewhere.
        expect![[r#"
            %0 = stablehlo.slice %arg0 [0:13, 0:2] : (tensor<13x8xf32>) -> tensor<13x2xf32>
            %1 = sdy.sharding_constraint %0 <@mesh, [{}, {"x"}]> : tensor<13x2xf32>
            %2 = "sdy.manual_computation"(%1)
            ^bb0(%3: tensor<2x2xf32>):
            sdy.return %3 : tensor<2x2xf32>
            }) : (tensor<13x2xf32>) -> (tensor<16x2xf32>)
            %4 = sdy.sharding_constraint %1 <@mesh, [{"x"}, {}]> : tensor<13x2xf32>
            %5 = stablehlo.constant dense<0.0e0> : tensor<f32>
            %6 = stablehlo.pad %4, %5, low = [0, 0], high = [3, 0], interior = [0, 0] : (tensor<13x2xf32>, tensor<f32>) -> tensor<16x2xf32>
            return %6, %2 : tensor<16x2xf32>, tensor<16x2xf32>
        "#]].assert_eq(&lines("arg0", "(-, x)", "(x, -)"));
        // The result of another op.
        expect![[r#"
            %0 = stablehlo.slice %arg0 [0:13, 0:2] : (tensor<16x2xf32>) -> tensor<13x2xf32>
            %1 = sdy.sharding_constraint %0 <@mesh, [{"x"}, {}]> : tensor<13x2xf32>
            %2 = stablehlo.negate %1 : tensor<13x2xf32>
            %3 = "sdy.manual_computation"(%2)
            ^bb0(%4: tensor<2x2xf32>):
            sdy.return %4 : tensor<2x2xf32>
            }) : (tensor<13x2xf32>) -> (tensor<16x2xf32>)
            %5 = sdy.sharding_constraint %2 <@mesh, [{"x"}, {}]> : tensor<13x2xf32>
            %6 = stablehlo.constant dense<0.0e0> : tensor<f32>
            %7 = stablehlo.pad %5, %6, low = [0, 0], high = [3, 0], interior = [0, 0] : (tensor<13x2xf32>, tensor<f32>) -> tensor<16x2xf32>
            return %7, %3 : tensor<16x2xf32>, tensor<16x2xf32>
        "#]].assert_eq(&lines("0", "(x, -)", "(x, -)"));
        // All of it lies as the region has it.
        expect![[r#"
            %0 = "sdy.manual_computation"(%arg0)
            ^bb0(%1: tensor<2x2xf32>):
            sdy.return %1 : tensor<2x2xf32>
            }) : (tensor<16x2xf32>) -> (tensor<16x2xf32>)
            return %arg0, %0 : tensor<16x2xf32>, tensor<16x2xf32>
        "#]]
        .assert_eq(&lines("arg0", "(x, -)", "(x, -)"));
    }
}
