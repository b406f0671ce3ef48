//! Programs that JAX exported: read, printed and read again, and executed, against what JAX computed.

mod support;

use std::fs;

use safetensors::SafeTensors;
use shardwright_hlo::{Parsed, VerifiedModule, parse};
use shardwright_mesh::{AbstractMesh, Mesh, NamedSharding};
use shardwright_partition::{PlanOptions, ShardedModule, ShardingPlan};
use shardwright_runtime::{Argument, ExecutableValue, ShardedArray};
use shardwright_tensor::{HostArray, TensorType};
use support::{data, oracle_model, oracle_step, runtime};

const PROGRAMS: [&str; 6] = ["control", "conv", "decode", "gspmd", "mlp", "shardy"];

fn program(name: &str) -> Parsed {
    let text = fs::read_to_string(data("foreign").join(name).with_extension("mlir")).unwrap();
    parse(&text).unwrap_or_else(|error| panic!("{name}: {error}"))
}

#[test]
fn what_is_printed_is_read_as_the_same_program() {
    for name in PROGRAMS {
        let program = program(name);
        let text = program.to_string();
        let again = parse(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(again.stated, program.stated, "{name}");
        assert_eq!(again.module, program.module, "{name}");
        assert_eq!(again.to_string(), text, "{name}");
    }
}

#[test]
fn a_step_of_our_own_is_read_back_with_its_shardings() {
    let model = oracle_model("base");
    let step = oracle_step(&model, PlanOptions::default());
    let module = step.module(&model).unwrap();
    let mesh = AbstractMesh::parse("data=2, fsdp=4").unwrap();
    let plan = ShardingPlan::new(&module, &mesh, &step.plan).unwrap();
    let text = ShardedModule::from_plan(module, &plan, &step.wrap).unwrap().stablehlo_text();
    let program = parse(&text).unwrap();
    assert_eq!(program.to_string(), text);
    assert_eq!(program.stated.num_partitions, 8);
    assert!(program.stated.values.len() > plan.arguments().len(), "boundaries are constraints");
}

#[test]
fn they_compute_what_they_did_in_jax() {
    for name in PROGRAMS {
        let module = program(name).module;
        let types: Vec<TensorType> = module.arguments.iter().map(|a| module.ty(a.value).clone()).collect();
        let output_types: Vec<TensorType> =
            module.outputs.iter().map(|o| module.ty(o.value).clone()).collect();
        let bytes = fs::read(data("foreign").join(name).with_extension("safetensors")).unwrap();
        let arrays = SafeTensors::deserialize(&bytes).unwrap();
        let array = |(what, index, ty): (&str, usize, &TensorType)| {
            let tensor = arrays.tensor(&format!("{what}.{index:03}")).unwrap();
            HostArray::from_bytes(ty.clone(), tensor.data()).unwrap()
        };
        let inputs = types.iter().enumerate().map(|(index, ty)| array(("input", index, ty)));
        let found = run(module, inputs.collect());
        for (index, ty) in output_types.iter().enumerate() {
            let expected = array(("output", index, ty));
            compare(&format!("{name}, output {index}"), &found[index], &expected);
        }
    }
}

/// What a program gives on one device.
fn run(module: VerifiedModule, inputs: Vec<HostArray>) -> Vec<HostArray> {
    let runtime = runtime(1);
    let mesh = Mesh::iota(AbstractMesh::parse("x=1").unwrap());
    let whole = |ty: &TensorType| NamedSharding::replicated(mesh.shape(), ty.rank());
    let arguments = module.arguments.iter().map(|a| whole(module.ty(a.value))).collect();
    let outputs = module.outputs.iter().map(|o| whole(module.ty(o.value))).collect();
    let sharded = ShardedModule::new(module, mesh.shape(), arguments, outputs).unwrap();
    let refused = |error| panic!("{error}\n{}", sharded.stablehlo_text());
    let program = runtime.compile(&sharded, &mesh).unwrap_or_else(refused);
    let place = |(input, place): (HostArray, &ExecutableValue)| {
        Argument::Donate(ShardedArray::from_host(&runtime, &mesh, &place.sharding, &input).unwrap())
    };
    let arguments = inputs.into_iter().zip(program.arguments()).map(place);
    program.execute(arguments).unwrap().outputs.iter().map(|output| output.to_host().unwrap()).collect()
}

/// Two compilers join the same products in other orders.
fn compare(what: &str, found: &HostArray, expected: &HostArray) {
    assert_eq!(found.ty(), expected.ty(), "{what}");
    for (index, (f, e)) in found.to_f64().into_iter().zip(expected.to_f64()).enumerate() {
        assert!((f - e).abs() <= 2e-6 * e.abs().max(1.0), "{what}: element {index} is {f}, not {e}");
    }
}
