//! Each family of decoders against transformers: names, logits and gradients of tiny models, on one device and on eight.
//! `tests/data/models/make.py` made what is expected.

mod support;

use std::collections::{BTreeMap, BTreeSet};

use safetensors::SafeTensors;
use serde_json::{Value as Json, json};
use shardwright_graph::{Graph, Recompute, Value};
use shardwright_hlo::{ArgumentKind, Op, VerifiedModule, print, verify};
use shardwright_mesh::{AbstractMesh, Mesh};
use shardwright_model::{
    Init, LayerKind, ModelConfig, ParameterInfo, Weights, causal_loss, logits, modules, parameters, rotation,
};
use shardwright_partition::{Lowering, PlanOptions, ShardedModule, ShardingPlan, WrapConfig, WrapPolicy};
use shardwright_runtime::{Argument, Executable, ShardedArray};
use shardwright_tensor::{DType, HostArray, TensorType};
use shardwright_train::{Model, StepConfig, TrainState, TrainStep, WeightSource, model_modules};
use support::{causal_lm, data, oracle_batches, oracle_step, runtime};

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
            Init::Normal { .. } | Init::Uniform { .. } => unit,
            Init::Zeros => unit / 2.0,
            Init::Ones => unit / 2.0 + 1.0,
        }
    };
    let count = u32::try_from(info.element_count()).unwrap();
    HostArray::from_slice(&info.shape, &(0..count).map(element).collect::<Vec<f32>>()).unwrap()
}

/// Writes a model: gives its parameters, its logits, and its mean loss of the token ids as their own labels.
fn write(g: &Graph, model: &ModelConfig, dtype: DType, batch: [usize; 2]) -> (Vec<Value>, [Value; 2]) {
    let argument = |info: &ParameterInfo| {
        let ty = TensorType::new(dtype, info.shape.clone()).unwrap();
        g.argument(&info.name, ty, ArgumentKind::Parameter)
    };
    let values: Vec<Value> = parameters(model).iter().map(argument).collect();
    let tokens = TensorType::new(DType::S32, batch).unwrap();
    let tokens = g.argument("tokens", tokens, ArgumentKind::Batch);
    let mut next = values.iter().copied();
    let logits = logits(g, &Weights::new(model, |_| next.next().unwrap()), tokens).unwrap();
    let loss = causal_loss(g, logits, tokens).unwrap();
    let loss = g.div(loss.sum, g.convert(loss.targets, DType::F32).unwrap()).unwrap();
    (values, [logits, loss])
}

/// The program of a model's logits, loss and gradients.
fn program(model: &ModelConfig, dtype: DType, batch: [usize; 2]) -> VerifiedModule {
    let g = Graph::new("model");
    let (values, [logits, loss]) = write(&g, model, dtype, batch);
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
    let lm = causal_lm(model.clone(), BATCH[1]);
    let tensor = mesh.axis_size("tensor").map(|devices| lm.tensor_plan(devices).unwrap());
    let options = PlanOptions { tensor, ..PlanOptions::default() };
    let plan = ShardingPlan::new(&module, &mesh, &options).unwrap();
    let layers = lm.wrapped_by_default();
    let wrap = WrapPolicy::resolve(&WrapConfig::ModelDefault, &model_modules(&lm), &layers).unwrap();
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

/// Models that are run on eight devices as well, with and without a tensor axis: those in which splitting meets something
/// that others lack.
const SPLIT: [&str; 6] = ["llama_biases", "mistral", "qwen2", "qwen3_biases", "gemma2", "gemma3"];

/// Models that are run with weights in bf16, one of each kind of norm, of attention and of activation.
const BF16: [&str; 4] = ["llama_gelu", "qwen3_biases", "gemma2", "gemma3"];

/// Checks the models whose names start so.
#[track_caller]
fn check(prefix: &str) {
    let expected = Expected::read();
    let mut all = Vec::new();
    let mut count = 0;
    for (name, case) in expected.cases().filter(|(name, _)| name.starts_with(prefix)) {
        let split: &[&str] = if SPLIT.contains(&name) { &["fsdp=8", "fsdp=4,tensor=2"] } else { &[] };
        for mesh in ["fsdp=1"].iter().chain(split) {
            all.extend(misfits(&expected, name, case, mesh));
            count += 1;
        }
    }
    assert!(count > 0 && all.is_empty(), "{all:#?}");
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

#[test]
fn parameters_and_classes_are_those_of_the_original() {
    for (name, case) in Expected::read().cases() {
        let model = parse(&case["written"]);
        let init = |init: Init| match init {
            Init::Normal { zero_row: None, .. } => "normal".to_owned(),
            Init::Normal { zero_row: Some(row), .. } => format!("normal, row {row} zero"),
            Init::Ones => "ones".to_owned(),
            Init::Zeros => "zeros".to_owned(),
            Init::Uniform { bound } => format!("uniform, {bound}"),
        };
        let found: Vec<Json> =
            parameters(&model).iter().map(|p| json!([p.name, p.shape, init(p.init)])).collect();
        assert_eq!(Json::from(found), case["parameters"], "{name}");
        let classes: BTreeSet<&str> =
            modules(&model).iter().map(|m| m.class).filter(|class| *class != "Linear").collect();
        assert_eq!(json!(classes), case["classes"], "{name}");
    }
}

#[test]
fn frequencies_are_those_of_the_original() {
    for (name, case) in Expected::read().cases() {
        let model = parse(&case["written"]);
        let buffers = case["inverse_frequencies"].as_object().unwrap();
        assert!(!buffers.is_empty(), "{name}");
        for (buffer, expected) in buffers {
            let kind = if buffer.starts_with("sliding") { LayerKind::Sliding } else { LayerKind::Full };
            let found = model.rotary(kind).inverse_frequencies(BATCH[1]);
            let expected: Vec<f64> =
                expected.as_array().unwrap().iter().map(|f| f.as_f64().unwrap()).collect();
            assert_eq!(found.len(), expected.len(), "{name}");
            for (f, e) in found.iter().zip(&expected) {
                assert!((f / e - 1.0).abs() < 1e-6, "{name}: {buffer} is {found:?}, not {expected:?}");
            }
        }
    }
}

/// All that a configuration means: parameters, tokens, and the program.
fn meaning(model: &ModelConfig) -> String {
    let tokens = (model.bos_token_id(), model.eos_token_ids(), model.padding_row());
    let module = program(model, DType::F32, [1, 6]);
    format!("{:?} {tokens:?} {}", parameters(model), print(&module, None))
}

#[test]
fn what_transformers_saves_of_a_configuration_means_the_same() {
    for (name, case) in Expected::read().cases() {
        let [written, saved] = ["written", "saved"].map(|spelling| parse(&case[spelling]));
        assert_eq!(meaning(&written), meaning(&saved), "{name}");
    }
}

#[test]
fn defaults_are_those_of_the_original() {
    for (family, saved) in Expected::read().cases["defaults"].as_object().unwrap() {
        // The default model is large; two layers say as much.
        let two_layers = |mut members: Json| {
            members["num_hidden_layers"] = json!(2);
            if let Some(types) = members.get_mut("layer_types").and_then(Json::as_array_mut) {
                types.truncate(2);
            }
            parse(&members)
        };
        let bare = two_layers(json!({ "model_type": family }));
        let full = two_layers(saved.clone());
        assert_eq!(meaning(&bare), meaning(&full), "{family}");
        let sizes = |m: &ModelConfig| (m.max_position_embeddings(), m.head_dim(), m.tie_word_embeddings());
        assert_eq!(sizes(&bare), sizes(&full), "{family}");
        let all = parse(&json!({ "model_type": family }));
        assert_eq!(all.layer_kinds(), parse(saved).layer_kinds(), "{family}");
        assert_eq!(all.sliding_window(), parse(saved).sliding_window(), "{family}");
    }
}

#[test]
fn configurations_are_written_back_in_full() {
    for (name, case) in Expected::read().cases() {
        for spelling in ["written", "saved"] {
            let config = parse(&case[spelling]);
            let text = config.to_json();
            assert_eq!(serde_json::from_str::<Json>(&text).unwrap(), case[spelling], "{name}");
            assert_eq!(ModelConfig::parse(&text, "config.json").unwrap(), config, "{name}");
        }
    }
}

#[test]
fn angles_are_right_at_every_position() {
    const POSITIONS: usize = 8192;
    let model = parse(&json!({"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4,
        "num_key_value_heads": 2, "max_position_embeddings": POSITIONS, "torch_dtype": "bfloat16"}));
    let rotary = model.rotary(LayerKind::Full);
    let g = Graph::new("rotation");
    let rotation = rotation(&g, rotary, POSITIONS).unwrap();
    g.output("cos", rotation.cos);
    g.output("sin", rotation.sin);
    let program = compile(&model, verify(g.finish()).unwrap(), "fsdp=1");
    let outputs = program.execute([]).unwrap().outputs;
    let frequencies = rotary.inverse_frequencies(POSITIONS);
    for (table, exact) in outputs.iter().zip([f64::cos, f64::sin]) {
        let table = table.to_host().unwrap().to_f64();
        for (index, found) in table.iter().enumerate() {
            let (position, pair) = (index / frequencies.len(), index % frequencies.len());
            let expected = exact(position as f64 * frequencies[pair]);
            assert!(
                (found - expected).abs() < 5e-3,
                "position {position}, pair {pair}: {found}, not {expected}"
            );
        }
    }
}

/// The loss of a model whose weights are of one dtype.
fn loss(model: &ModelConfig, dtype: DType, tokens: &HostArray) -> f64 {
    let g = Graph::new("loss");
    let (_, [_, loss]) = write(&g, model, dtype, tokens.dims().try_into().unwrap());
    g.output("loss", loss);
    let program = compile(model, verify(g.finish()).unwrap(), "fsdp=1");
    run(model, &program, dtype, tokens)["loss"][0]
}

#[test]
fn padding_behind_a_text_changes_none_of_its_logits() {
    const TEXT: usize = 7;
    let expected = Expected::read();
    let model = parse(&expected.cases["cases"]["gemma3"]["written"]);
    let g = Graph::new("logits");
    let (_, [logits, _]) = write(&g, &model, DType::F32, BATCH);
    g.output("logits", logits);
    let program = compile(&model, verify(g.finish()).unwrap(), "fsdp=1");
    let tokens = expected.tokens();
    let mut padded = tokens.clone();
    let (row, vocabulary) = (BATCH[1], model.vocab_size());
    padded.as_mut_slice::<i32>().unwrap().chunks_exact_mut(row).for_each(|ids| ids[TEXT..].fill(0));
    let [whole, cut] =
        [&tokens, &padded].map(|tokens| run(&model, &program, DType::F32, tokens).remove("logits").unwrap());
    for (whole, cut) in whole.chunks_exact(row * vocabulary).zip(cut.chunks_exact(row * vocabulary)) {
        let (text, behind) = (0..TEXT * vocabulary, TEXT * vocabulary..);
        assert_eq!(whole[text.clone()], cut[text]);
        assert_ne!(whole[behind.clone()], cut[behind]);
    }
}

#[test]
fn far_positions_are_told_apart_in_bf16() {
    let model =
        parse(&json!({"model_type": "llama", "vocab_size": 16, "hidden_size": 16, "intermediate_size": 24,
        "num_hidden_layers": 2, "num_attention_heads": 1, "max_position_embeddings": 8192}));
    let tokens: Vec<i32> = (0..4096).map(|i| i * i / 7 % 16).collect();
    let tokens = HostArray::from_slice(&[1, 4096], &tokens).unwrap();
    let [exact, rounded] = [DType::F32, DType::Bf16].map(|dtype| loss(&model, dtype, &tokens));
    // Angles rounded to bf16 would make it 0.3 percent.
    assert!((rounded / exact - 1.0).abs() < 1.5e-3, "{rounded} in bf16, {exact} in f32");
}

#[test]
fn weights_in_bf16_give_finite_gradients_and_nearly_the_loss() {
    let expected = Expected::read();
    for (name, case) in expected.cases().filter(|(name, _)| BF16.contains(name)) {
        let model = parse(&case["written"]);
        let program = compile(&model, program(&model, DType::Bf16, BATCH), "fsdp=1");
        for output in program.outputs() {
            let is_f32 = output.name == "logits" || output.name == "loss";
            assert_eq!(
                output.ty.dtype,
                if is_f32 { DType::F32 } else { DType::Bf16 },
                "{name}: {}",
                output.name
            );
        }
        let found = run(&model, &program, DType::Bf16, &expected.tokens());
        for (output, values) in &found {
            assert!(values.iter().all(|v| v.is_finite()), "{name}: {output} has {values:?}");
        }
        let (loss, exact) = (found["loss"][0], case["loss"].as_f64().unwrap());
        assert!((loss / exact - 1.0).abs() < 3e-3, "{name}: loss {loss}, in f32 {exact}");
    }
}

#[test]
fn scales_of_embeddings_are_rounded_as_the_table_is() {
    let expected = Expected::read();
    let model = parse(&expected.cases["cases"]["gemma2"]["written"]);
    let scalars = |dtype| {
        let module = program(&model, dtype, [1, 4]);
        let constants = module.instructions.iter().filter_map(|instruction| match &instruction.op {
            Op::Constant(value) if value.dtype() == dtype => Some(value.to_f64()),
            _ => None,
        });
        constants.filter(|values| values.len() == 1).map(|values| values[0]).collect::<Vec<f64>>()
    };
    let exact = f64::from(24_f32.sqrt());
    assert!(scalars(DType::F32).contains(&exact));
    // The neighbour of 4.89898 in bf16.
    assert!(scalars(DType::Bf16).contains(&4.90625) && !scalars(DType::Bf16).contains(&exact));
}

/// Losses and gradient norms of two steps from fresh weights.
fn train(model: &ModelConfig, mesh: &str, lowering: Lowering) -> Vec<(f64, f64)> {
    let model = causal_lm(model.clone(), support::BATCH[1]);
    let config = StepConfig { lowering, ..oracle_step(&model, PlanOptions::default()) };
    let mesh = AbstractMesh::parse(mesh).unwrap();
    let runtime = runtime(mesh.size());
    let step = TrainStep::compile(&runtime, &Mesh::iota(mesh), &model, &config).unwrap();
    let mut state = TrainState::new(&runtime, &step, WeightSource::Random { seed: 3 }).unwrap();
    let mut curve = Vec::new();
    for batch in oracle_batches().iter().take(2) {
        let (next, metrics) = step.run(&runtime, state, &[batch, batch], 100.0).unwrap();
        state = next;
        let reading = metrics.read().unwrap();
        curve.push((reading.loss, reading.grad_norm));
    }
    curve
}

#[test]
fn collectives_written_by_hand_train_the_same_model() {
    for (name, mesh) in [("qwen2", "fsdp=8"), ("gemma3", "data=2,fsdp=4"), ("mistral_full", "fsdp=4")] {
        let mut written = Expected::read().cases["cases"][name]["written"].clone();
        written["vocab_size"] = json!(512);
        let model = parse(&written);
        let whole = train(&model, "fsdp=1", Lowering::Annotate);
        let split = train(&model, mesh, Lowering::Explicit);
        for ((loss, norm), (whole_loss, whole_norm)) in split.iter().zip(&whole) {
            let is_near = (loss - whole_loss).abs() < 2e-5 && (norm / whole_norm - 1.0).abs() < 2e-5;
            assert!(is_near, "{name} on {mesh}: {split:?}, on one device {whole:?}");
        }
    }
}
