//! Train steps that JAX exported, split over devices: what XLA makes of them is FSDP, and computes what it did.

mod support;

use std::fs;

use safetensors::SafeTensors;
use shardwright_hlo::{Parsed, parse};
use shardwright_mesh::{AbstractMesh, Mesh};
use shardwright_partition::explain::{Explanation, Grade, Purpose, Reduced, Subject};
use shardwright_partition::{Pins, RuleOptions, ShardRules, ShardedModule, ShardingPlan};
use shardwright_runtime::{Argument, Executable, ShardedArray};
use shardwright_tensor::{HostArray, TensorType};
use support::{data, runtime};

const STEPS: [&str; 4] = ["control", "conv", "layers", "mlp"];

/// A program that is planned, pinned and compiled.
struct Compiled {
    plan: ShardingPlan,
    program: Executable,
    mesh: Mesh,
}

impl Compiled {
    fn new(program: Parsed, mesh: &str, rules: &ShardRules) -> Compiled {
        let mesh = Mesh::iota(AbstractMesh::parse(mesh).unwrap());
        let options = RuleOptions::for_module(&program.module);
        let plan = ShardingPlan::by_rules(&program.signature(), mesh.shape(), rules, &options).unwrap();
        let sharded = ShardedModule::from_parsed(program, &plan, rules).unwrap();
        let program = runtime(mesh.shape().size()).compile(&sharded, &mesh).unwrap();
        Compiled { plan, program, mesh }
    }

    fn exported(name: &str, mesh: &str, rules: &ShardRules) -> Compiled {
        let text = fs::read_to_string(data("foreign").join(name).with_extension("mlir")).unwrap();
        Compiled::new(parse(&text).unwrap(), mesh, rules)
    }

    fn explain(&self) -> Explanation {
        let subject = Subject::of_plan(&self.plan);
        Explanation::new(&self.program.compiled().unwrap().unwrap(), &subject, None)
    }

    fn run(&self, inputs: Vec<HostArray>) -> Vec<HostArray> {
        let runtime = runtime(self.mesh.shape().size());
        let places = self.program.arguments();
        let arguments = inputs.iter().zip(places).map(|(input, place)| {
            Argument::Donate(ShardedArray::from_host(&runtime, &self.mesh, &place.sharding, input).unwrap())
        });
        let outputs = self.program.execute(arguments).unwrap().outputs;
        outputs.iter().map(|output| output.to_host().unwrap()).collect()
    }
}

/// The arrays that a program was given or gave.
fn arrays<'a>(name: &str, what: &str, types: impl Iterator<Item = &'a TensorType>) -> Vec<HostArray> {
    let bytes = fs::read(data("foreign").join(name).with_extension("safetensors")).unwrap();
    let arrays = SafeTensors::deserialize(&bytes).unwrap();
    let array = |(index, ty): (usize, &TensorType)| {
        let tensor = arrays.tensor(&format!("{what}.{index:03}")).unwrap();
        HostArray::from_bytes(ty.clone(), tensor.data()).unwrap()
    };
    types.enumerate().map(array).collect()
}

#[track_caller]
fn check_near(what: &str, found: &HostArray, expected: &[f64], tolerance: f64) {
    for (index, (f, e)) in found.to_f64().into_iter().zip(expected).enumerate() {
        assert!((f - e).abs() <= tolerance * e.abs().max(1.0), "{what}: element {index} is {f}, not {e}");
    }
}

#[test]
fn train_steps_become_fsdp_and_compute_what_they_did() {
    for mesh in ["fsdp=8", "data=2, fsdp=4"] {
        for name in STEPS {
            let step = Compiled::exported(name, mesh, &ShardRules::default());
            let explanation = step.explain();
            let what = format!("{name} on {mesh}:\n{explanation}");
            assert!(matches!(explanation.verdict.grade, Grade::AsPlanned | Grade::Costly), "{what}");
            let unwanted = [Purpose::Activation, Purpose::State, Purpose::Batch];
            assert!(!explanation.traffic.iter().any(|row| unwanted.contains(&row.purpose)), "{what}");
            for parameter in &explanation.parameters {
                // In loops it is not told in which pass a layer is gathered.
                let gathers = parameter.forward_gathers + parameter.backward_gathers;
                assert!((1..=2).contains(&gathers), "{}, {what}", parameter.name);
                let is_summed = matches!(parameter.reduced, Reduced::ReduceScatter | Reduced::AllReduce);
                assert!(is_summed, "{}, {what}", parameter.name);
            }
            let inputs = arrays(name, "input", step.plan.arguments().iter().map(|a| &a.ty));
            let expected = arrays(name, "output", step.plan.outputs().iter().map(|o| &o.ty));
            for (index, (found, expected)) in step.run(inputs).iter().zip(&expected).enumerate() {
                check_near(&format!("{name} on {mesh}, output {index}"), found, &expected.to_f64(), 2e-6);
            }
        }
    }
}

#[test]
fn what_is_left_to_the_compiler_is_not_always_fsdp() {
    let mut rules = ShardRules::default();
    rules.pin(Pins::Arguments);
    let lost = STEPS.iter().filter(|name| {
        let explanation = Compiled::exported(name, "data=2, fsdp=4", &rules).explain();
        explanation.verdict.grade == Grade::Lost
            || explanation.traffic.iter().any(|row| row.purpose == Purpose::Activation)
    });
    assert_ne!(lost.count(), 0);
}

/// Rows of a table are looked up and weighted; and their gradient, which is added into the rows of zeros.
const LOOKUP: &str = r#"
module @lookup {
  func.func @main(%w: tensor<260x64xf32> loc("table"), %x: tensor<16x1xi32> loc("ids"), %r: tensor<16x64xf32> loc("weights")) -> (tensor<260x64xf32> {jax.result_info = "gradient"}, tensor<16xf32> {jax.result_info = "sums"}) {
    %0 = "stablehlo.gather"(%w, %x) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 64>}> : (tensor<260x64xf32>, tensor<16x1xi32>) -> tensor<16x64xf32>
    %1 = stablehlo.multiply %0, %r : tensor<16x64xf32>
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %sums = stablehlo.reduce(%1 init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<16x64xf32>, tensor<f32>) -> tensor<16xf32>
    %zeros = stablehlo.broadcast_in_dim %zero, dims = [] : (tensor<f32>) -> tensor<260x64xf32>
    %g = "stablehlo.scatter"(%zeros, %x, %r) <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, unique_indices = false}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<260x64xf32>, tensor<16x1xi32>, tensor<16x64xf32>) -> tensor<260x64xf32>
    return %g, %sums : tensor<260x64xf32>, tensor<16xf32>
  }
}
"#;

/// Repeated on one device and on several, the first and the last row among them.
const IDS: [i32; 16] = [7, 7, 7, 259, 7, 3, 3, 0, 259, 64, 65, 130, 7, 129, 131, 7];

#[test]
fn a_tables_gradient_is_that_of_the_host_however_the_table_is_split() {
    let value = |index: usize| ((index * 7919 + 13) % 1009) as f32 / 1009.0 - 0.5;
    let floats = |n: usize| (0..n).map(value).collect::<Vec<f32>>();
    let (table, weights) = (floats(260 * 64), floats(16 * 64));
    let mut gradient = vec![0.0; 260 * 64];
    let mut sums = vec![0.0; 16];
    for (row, &id) in IDS.iter().enumerate() {
        for column in 0..64 {
            let weight = f64::from(weights[row * 64 + column]);
            gradient[id as usize * 64 + column] += weight;
            sums[row] += weight * f64::from(table[id as usize * 64 + column]);
        }
    }
    let splits = [
        &["table=(tensor, -)"][..],
        &["table=(-, tensor)"],
        &["table=(tensor, fsdp)"],
        &["table=(fsdp, tensor)"],
        &["table=((tensor,fsdp), -)"],
        &["table=replicated"],
        // As FSDP splits it, with the gradient in place of the table.
        &["table=fsdp", "donate"],
    ];
    for split in splits {
        let mut rules = ShardRules::default();
        for rule in split.iter().chain(&["ids=(fsdp)", "weights=(fsdp)"]) {
            match *rule {
                "donate" => rules.donate("table").unwrap(),
                rule => rules.push(rule).unwrap(),
            }
        }
        let lookup = Compiled::new(parse(LOOKUP).unwrap(), "fsdp=4, tensor=2", &rules);
        let types: Vec<_> = lookup.plan.arguments().iter().map(|a| a.ty.clone()).collect();
        let ids: Vec<u8> = IDS.iter().flat_map(|id| id.to_le_bytes()).collect();
        let bytes = |values: &[f32]| values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>();
        let inputs = [bytes(&table), ids, bytes(&weights)];
        let inputs =
            inputs.iter().zip(&types).map(|(bytes, ty)| HostArray::from_bytes(ty.clone(), bytes).unwrap());
        let outputs = lookup.run(inputs.collect());
        check_near(&format!("{split:?}, gradient"), &outputs[0], &gradient, 1e-6);
        check_near(&format!("{split:?}, sums"), &outputs[1], &sums, 1e-6);
        let unused = |row: &usize| !IDS.contains(&(*row as i32));
        let rows = outputs[0].to_f64();
        assert!(
            (0..260).filter(unused).all(|row| rows[row * 64..][..64].iter().all(|g| *g == 0.0)),
            "{split:?}"
        );
    }
}
