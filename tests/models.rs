//! Each family of decoders against transformers: names, logits and gradients of tiny models, on one device and on eight.
//! `tests/data/models/make.py` made what is expected.

mod support;

use std::collections::BTreeMap;

use safetensors::SafeTensors;
use serde_json::Value as Json;
use shardwright_graph::{Graph, Recompute, Value};
use shardwright_hlo::{ArgumentKind, VerifiedModule, verify};
use shardwright_mesh::{AbstractMesh, Mesh};
use shardwright_model::{
    Init, LayerKind, ModelConfig, ParameterInfo, TensorStyle, Weights, causal_loss, logits, modules,
    parameters, rotation, tensor_plan,
};
use shardwright_partition::{
    PlanOptions, ShardedModule, ShardingPlan, TensorPlan, TensorRule, TensorSplit, WrapConfig, WrapPolicy,
};
use shardwright_runtime::{Argument, Executable, ShardedArray};
use shardwright_tensor::{DType, HostArray, TensorType};
use shardwright_train::model_modules;
use support::{data, runtime};

const BATCH: [usize; 2] = [8, 12];
/// Of logits, the loss and gradients, absolute, or relative to the largest where that is more than 1.
const TOLERANCE: f64 = 1e-5;

/// What `make.py` wrote.
struct Expected {
    cases: Json,
    arrays: Vec<u8>,
}

impl Expected {
    fn read() -> Expected {
        let file = |name: &str| std::fs::read(data("models").join(name)).unwrap();
        Expected {
            cases: serde_json::from_slice(&file("cases.json")).unwrap(),
            arrays: file("expected.safetensors"),
        }
    }

    /// The models, by name.
    fn cases(&self) -> impl Iterator<Item = (&str, &Json)> {
        self.cases["cases"].as_object().unwrap().iter().map(|(name, case)| (name.as_str(), case))
    }

    fn tokens(&self) -> HostArray {
        let arrays = SafeTensors::deserialize(&self.arrays).unwrap();
        let ty = TensorType::new(DType::S32, BATCH).unwrap();
        HostArray::from_bytes(ty, arrays.tensor("tokens").unwrap().data()).unwrap()
    }

    /// The arrays of one model, by their names: `logits`, and gradients by parameter.
    fn arrays(&self, case: &str) -> BTreeMap<String, Vec<f64>> {
        let arrays = SafeTensors::deserialize(&self.arrays).unwrap();
        let of_case = arrays.iter().filter_map(|(name, view)| {
            let name = name.strip_prefix(case)?.strip_prefix('/')?.to_owned();
            let floats =
                view.data().chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap()).into());
            Some((name, floats.collect()))
        });
        of_case.collect()
    }
}

fn parse(members: &Json) -> ModelConfig {
    ModelConfig::parse(&members.to_string(), "config.json").unwrap()
}

/// The weights of a parameter, as `make.py` makes them from its name.
fn weights(info: &ParameterInfo) -> HostArray {
    let hash = info.name.bytes().fold(0x811C_9DC5_u32, |h, b| (h ^ u32::from(b)).wrapping_mul(0x0100_0193));
    let mixed = |mut x: u32| {
        for (shift, factor) in [(16, 0x7FEB_352D), (15, 0x846C_A68B)] {
            x = (x ^ (x >> shift)).wrapping_mul(factor);
        }
        x ^ (x >> 16)
    };
    let element = |index: u32| {
        let unit = (mixed(hash.wrapping_add(index)) >> 12) as f32 / 1_048_576.0 - 0.5;
        match info.init {
            Init::Normal { .. } => unit,
            Init::Zeros => unit / 2.0,
            Init::Ones => unit / 2.0 + 1.0,
        }
    };
    let count = u32::try_from(info.element_count()).unwrap();
    HostArray::from_slice(&info.shape, &(0..count).map(element).collect::<Vec<f32>>()).unwrap()
}

/// The logits, the mean loss and the gradients of all parameters, for the token ids as their own labels.
fn program(model: &ModelConfig, dtype: DType, [batch, positions]: [usize; 2]) -> VerifiedModule {
    let g = Graph::new("model");
    let argument = |info: &ParameterInfo| {
        let ty = TensorType::new(dtype, info.shape.clone()).unwrap();
        g.argument(&info.name, ty, ArgumentKind::Parameter)
    };
    let values: Vec<Value> = parameters(model).iter().map(argument).collect();
    let tokens = TensorType::new(DType::S32, [batch, positions]).unwrap();
    let tokens = g.argument("tokens", tokens, ArgumentKind::Batch);
    let mut next = values.iter().copied();
    let logits = logits(&g, &Weights::new(model, |_| next.next().unwrap()), tokens).unwrap();
    let loss = causal_loss(&g, logits, tokens).unwrap();
    let loss = g.div(loss.sum, g.convert(loss.targets, DType::F32).unwrap()).unwrap();
    let gradients = g.gradients(loss, &values, &|_| Recompute::Nothing).unwrap();
    g.output("logits", logits);
    g.output("loss", loss);
    for (info, gradient) in parameters(model).iter().zip(gradients) {
        g.output(&info.name, gradient);
    }
    verify(g.finish()).unwrap()
}

/// Compiles a program for a mesh: parameters fully sharded, decoder layers wrapped, modules split over a tensor axis.
fn compile(model: &ModelConfig, module: VerifiedModule, mesh: &str) -> Executable {
    let mesh = AbstractMesh::parse(mesh).unwrap();
    let tensor = mesh.axis_size("tensor").map(|devices| {
        let rules = tensor_plan(model, devices).unwrap().into_iter().map(|(modules, style)| TensorRule {
            modules: modules.parse().unwrap(),
            split: match style {
                TensorStyle::Colwise => TensorSplit::Colwise,
                TensorStyle::ColwiseGathered => TensorSplit::ColwiseGathered,
                TensorStyle::Rowwise => TensorSplit::Rowwise,
                TensorStyle::Replicated => TensorSplit::Replicated,
            },
        });
        TensorPlan { rules: rules.collect() }
    });
    let options = PlanOptions { tensor, ..PlanOptions::default() };
    let plan = ShardingPlan::new(&module, &mesh, &options).unwrap();
    let layers = [model.decoder_layer_class()];
    let wrap = WrapPolicy::resolve(&WrapConfig::ModelDefault, &model_modules(model), &layers).unwrap();
    let sharded = ShardedModule::from_plan(module, &plan, &wrap).unwrap();
    runtime(mesh.size()).compile(&sharded, &Mesh::iota(mesh)).unwrap()
}

/// The outputs of a program by name, from weights in its dtype and tokens.
fn run(
    model: &ModelConfig,
    program: &Executable,
    dtype: DType,
    tokens: &HostArray,
) -> BTreeMap<String, Vec<f64>> {
    let weights = parameters(model).iter().map(|info| weights(info).cast(dtype)).collect::<Vec<_>>();
    let runtime = runtime(program.mesh().shape().size());
    let place = |(argument, array): (&shardwright_runtime::ExecutableValue, &HostArray)| {
        let array = ShardedArray::from_host(&runtime, program.mesh(), &argument.sharding, array);
        Argument::Donate(array.unwrap())
    };
    let arrays = weights.iter().chain([tokens]);
    let arguments: Vec<_> = program.arguments().iter().zip(arrays).map(place).collect();
    let outputs = program.execute(arguments).unwrap().outputs;
    let named = program.outputs().iter().zip(&outputs);
    named.map(|(output, array)| (output.name.clone(), array.to_host().unwrap().to_f64())).collect()
}

/// The largest distance between numbers; where there are fewer expected, the first of those found count.
fn distance(found: &[f64], expected: &[f64]) -> f64 {
    assert!(found.len() >= expected.len() && !expected.is_empty());
    let each = found.iter().zip(expected).map(|(f, e)| (f - e).abs());
    each.fold(0.0, |most, d| if d.is_nan() { f64::INFINITY } else { most.max(d) })
}

/// How far logits, loss and gradients of a model are from what transformers computes, if too far.
fn misfits(expected: &Expected, name: &str, case: &Json, mesh: &str) -> Vec<String> {
    let model = parse(&case["written"]);
    let program = compile(&model, program(&model, DType::F32, BATCH), mesh);
    let found = run(&model, &program, DType::F32, &expected.tokens());
    let mut arrays = expected.arrays(name);
    arrays.insert("loss".to_owned(), vec![case["loss"].as_f64().unwrap()]);
    let mut misfits = Vec::new();
    for (output, expected) in &arrays {
        let distance = distance(&found[output], expected);
        let largest = expected.iter().fold(1.0_f64, |most, e| most.max(e.abs()));
        if distance > TOLERANCE * largest {
            misfits.push(format!("{name} on {mesh}: {output} is {distance:.1e} from {largest:.1e}"));
        }
    }
    misfits
}

/// Checks the models whose names start so.
#[track_caller]
fn check(prefix: &str) {
    let expected = Expected::read();
    let cases = expected.cases().filter(|(name, _)| name.starts_with(prefix));
    let mut misfits_of_all = Vec::new();
    let mut checked = 0;
    for (name, case) in cases {
        // A third mesh for the models whose heads can be shared out.
        let heads = parse(&case["written"]).num_attention_heads();
        let meshes = ["fsdp=1", "fsdp=8", "fsdp=4,tensor=2"];
        for mesh in meshes.into_iter().filter(|mesh| !mesh.contains("tensor") || heads.is_multiple_of(2)) {
            misfits_of_all.extend(misfits(&expected, name, case, mesh));
            checked += 1;
        }
    }
    assert!(checked > 0 && misfits_of_all.is_empty(), "{misfits_of_all:#?}");
}

macro_rules! families {
    ($($test:ident: $prefix:literal;)*) => { $(#[test] fn $test() { check($prefix); })* };
}

families! {
    llama_and_its_activations: "llama";
    rotary_scalings: "rope";
    mistral: "mistral";
    qwen2: "qwen2";
    qwen3: "qwen3";
    gemma: "gemma";
}
