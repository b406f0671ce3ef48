//! Loops over several devices, in both lowerings: micro-batches, stacked layers, and what is exchanged inside them.

mod differences;
mod repeat;
mod support;

use std::cell::Cell;

use differences::{Result, call, random};
use repeat::{Loop, repeat};
use shardwright_graph::{Graph, Recompute, Value};
use shardwright_hlo::compiled::CollectiveKind;
use shardwright_hlo::{ArgumentKind, Module, Unary, Unit, verify};
use shardwright_mesh::{AbstractMesh, Mesh};
use shardwright_model::{
    ModelConfig, ParameterInfo, StackedParameter, Weights, causal_loss, logits, parameters,
    stacked_parameters,
};
use shardwright_partition::explain::{Explanation, Grade, Purpose, Subject};
use shardwright_partition::{Lowering, PlanOptions, ShardedModule, ShardingPlan, Shards, WrapPolicy};
use shardwright_runtime::Executable;
use shardwright_tensor::{DType, HostArray, TensorType};
use support::runtime;

fn f32(dims: &[usize]) -> TensorType {
    TensorType::new(DType::F32, dims).unwrap()
}

/// A program that is being written, over global arrays or over one device's shards.
struct Writer<'a> {
    g: &'a Graph,
    shards: Option<&'a Shards<'a>>,
    arguments: Cell<usize>,
}

impl Writer<'_> {
    fn argument(&self, name: &str, dims: &[usize], kind: ArgumentKind) -> Value {
        let index = self.arguments.replace(self.arguments.get() + 1);
        let ty = self.shards.map_or(f32(dims), |shards| shards.ty(index));
        let value = self.g.argument(name, ty, kind);
        if let (Some(shards), ArgumentKind::Parameter) = (self.shards, kind) {
            self.g.stored_as(value, shards.gathers(index));
        }
        value
    }

    /// A parameter of which a loop takes one row at a time.
    fn stacked(&self, name: &str, dims: &[usize]) -> Value {
        let index = self.arguments.get();
        let value = self.argument(name, dims, ArgumentKind::Parameter);
        if let Some(shards) = self.shards {
            self.g.stored_rows_as(value, shards.row_gathers(index).unwrap());
        }
        value
    }

    fn over_batch(&self, x: Value) -> Result<Value> {
        self.shards.and_then(Shards::batch).map_or(Ok(x), |devices| self.g.all_reduce(x, devices))
    }

    /// The loss, and the gradients of the parameters, which are the first arguments.
    fn outputs(&self, loss: Value, gradients: &[Value]) {
        self.g.output("loss", loss);
        for (donor, &gradient) in gradients.iter().enumerate() {
            self.g.donated_output(format!("d{donor}"), gradient, donor);
        }
    }
}

type Write<'a> = &'a dyn Fn(&Writer<'_>) -> Result<()>;

fn trace(write: Write<'_>, shards: Option<&Shards<'_>>) -> Module {
    let g = Graph::new("program");
    write(&Writer { g: &g, shards, arguments: Cell::new(0) }).unwrap();
    g.finish()
}

/// Writes a program, plans it over a mesh of devices, and compiles it.
fn compile_planned(lowering: Lowering, mesh: &str, write: Write<'_>) -> Executable {
    let mesh = Mesh::iota(AbstractMesh::parse(mesh).unwrap());
    let module = verify(trace(write, None)).unwrap();
    let plan = ShardingPlan::new(&module, mesh.shape(), &PlanOptions::default()).unwrap();
    let sharded = match lowering.shards(&plan).unwrap() {
        None => ShardedModule::from_plan(module, &plan, &WrapPolicy::default()).unwrap(),
        Some(shards) => ShardedModule::explicit(&module, &plan, trace(write, Some(&shards))).unwrap(),
    };
    runtime(8).compile(&sharded, &mesh).unwrap()
}

/// What is said of the explicit program of such a step on eight devices.
fn explain(write: Write<'_>) -> Explanation {
    let module = verify(trace(write, None)).unwrap();
    let mesh = AbstractMesh::parse("fsdp=8").unwrap();
    let plan = ShardingPlan::new(&module, &mesh, &PlanOptions::default()).unwrap();
    let subject = Subject::of_module(&module, &plan, &WrapPolicy::default());
    let program = compile_planned(Lowering::Explicit, "fsdp=8", write);
    Explanation::new(&program.compiled().unwrap().unwrap(), &subject, None)
}

/// Arrays of these shapes with numbers that look random.
fn inputs(dims: &[&[usize]]) -> Vec<HostArray> {
    (1..).zip(dims).map(|(seed, dims)| random(seed, dims, &(-0.5..0.5)).cast(DType::F32)).collect()
}

#[track_caller]
fn check_close(what: &str, found: &[HostArray], expected: &[HostArray]) {
    assert_eq!(found.len(), expected.len());
    for (array, (found, expected)) in found.iter().zip(expected).enumerate() {
        let expected = expected.to_f64();
        let largest = expected.iter().fold(1.0, |m: f64, v| m.max(v.abs()));
        for (f, e) in found.to_f64().iter().zip(expected) {
            assert!((f - e).abs() <= 1e-6 * largest, "{what}, array {array}: {f} and not {e}");
        }
    }
}

/// The collectives of one kind: bytes of what each gives, and how often it runs.
fn collectives(program: &Executable, kind: CollectiveKind) -> Vec<(u64, u64)> {
    let compiled = program.compiled().unwrap().unwrap();
    let of_kind = compiled.collectives.iter().filter(|c| c.kind == kind);
    let mut found: Vec<(u64, u64)> = of_kind.map(|c| (c.bytes(), c.runs.count)).collect();
    found.sort_unstable();
    found
}

const MICRO_BATCHES: usize = 4;

/// Loss and gradients of two layers over micro-batches, `how`, or over all at once.
struct Accumulated {
    how: Option<Loop>,
    /// Whether parameters are gathered before the loop, and kept.
    gathered_once: bool,
    recompute: Recompute,
}

impl Accumulated {
    fn new(how: Option<Loop>) -> Accumulated {
        Accumulated { how, gathered_once: false, recompute: Recompute::Nothing }
    }

    fn write(&self, w: &Writer<'_>) -> Result<()> {
        let g = w.g;
        let weights = [("w0", [32, 16]), ("w1", [8, 32])]
            .map(|(name, dims)| w.argument(name, &dims, ArgumentKind::Parameter));
        let x = w.argument("x", &[32, 16], ArgumentKind::Batch);
        let mut used = weights.to_vec();
        if self.gathered_once {
            used = used.into_iter().map(|weight| g.weight(weight)).collect::<Result<_>>()?;
        }
        let step = |x: Value| self.step(w, &weights, &used, x);
        let results = match self.how {
            None => step(x)?,
            Some(how) => {
                // Each device has some examples of each micro-batch.
                let examples = g.dims(x)[0] / MICRO_BATCHES;
                let x = g.transpose(g.reshape(x, &[examples, MICRO_BATCHES, 16])?, &[1, 0, 2])?;
                let mut zeros = vec![g.full(DType::F32, &[], 0.0)?];
                for weight in weights {
                    zeros.push(g.full_like(weight, 0.0)?);
                }
                let add = |_, sums: &[Value], rows: &[Value]| {
                    let added = sums.iter().zip(step(rows[0])?).map(|(&sum, part)| g.add(sum, part));
                    Ok((added.collect::<Result<_>>()?, vec![]))
                };
                repeat(g, how, MICRO_BATCHES, &zeros, &[x], &add)?.0
            }
        };
        w.outputs(results[0], &results[1..]);
        Ok(())
    }

    /// The loss of some examples, and the gradients of the parameters.
    fn step(&self, w: &Writer<'_>, weights: &[Value], used: &[Value], x: Value) -> Result<Vec<Value>> {
        let g = w.g;
        let hidden = g.unit("layer", "Layer", || {
            g.activation(g.unary(Unary::Tanh, g.dot(x, g.weight(used[0])?, &[], &[(1, 1)])?)?)
        })?;
        let y = g.dot(hidden, g.weight(used[1])?, &[], &[(1, 1)])?;
        let loss = w.over_batch(g.sum(g.mul(y, y)?, &[0, 1])?)?;
        let gradients = g.gradients(loss, weights, &|_| self.recompute)?;
        Ok([vec![loss], gradients].concat())
    }
}

#[test]
fn micro_batches_add_up_to_their_batch() {
    let inputs = inputs(&[&[32, 16], &[8, 32], &[32, 16]]);
    let compile = |lowering, mesh, step: &Accumulated| compile_planned(lowering, mesh, &|w| step.write(w));
    let expected = call(&compile(Lowering::Annotate, "fsdp=1", &Accumulated::new(None)), &inputs);
    let again = Accumulated { recompute: Recompute::All, ..Accumulated::new(Some(Loop::Scan)) };
    let once = Accumulated { gathered_once: true, ..Accumulated::new(Some(Loop::Scan)) };
    let [scan, written_out] = [Loop::Scan, Loop::WrittenOut].map(|how| Accumulated::new(Some(how)));
    for lowering in [Lowering::Annotate, Lowering::Explicit] {
        for mesh in ["fsdp=1", "fsdp=8", "data=2,fsdp=4"] {
            for (name, step) in
                [("a scan", &scan), ("again", &again), ("once", &once), ("written out", &written_out)]
            {
                let found = call(&compile(lowering, mesh, step), &inputs);
                check_close(&format!("{name}, {lowering:?} on {mesh}"), &found, &expected);
            }
        }
    }
}

#[test]
fn each_micro_batch_gathers_parameters_and_scatters_gradients() {
    let [w1, w0] = [8 * 32 * 4, 32 * 16 * 4];
    let runs = MICRO_BATCHES as u64;
    let scan = || Accumulated::new(Some(Loop::Scan));
    for lowering in [Lowering::Annotate, Lowering::Explicit] {
        let check = |step: Accumulated, gathers: &[(u64, u64)]| {
            let program = compile_planned(lowering, "fsdp=8", &|w| step.write(w));
            assert_eq!(collectives(&program, CollectiveKind::AllGather), gathers, "{lowering:?}");
            if lowering == Lowering::Explicit {
                let scatters = collectives(&program, CollectiveKind::ReduceScatter);
                assert_eq!(scatters, [(w1 / 8, runs), (w0 / 8, runs)]);
            }
        };
        check(scan(), &[(w1, runs), (w0, runs)]);
        check(Accumulated { gathered_once: true, ..scan() }, &[(w1, 1), (w0, 1)]);
        // The first parameter is used in a unit, and the unit is computed again.
        check(Accumulated { recompute: Recompute::All, ..scan() }, &[(w1, runs), (w0, runs), (w0, runs)]);
    }
}

#[test]
fn what_loops_exchange_is_as_planned() {
    let layers: Write<'_> = &|w| stacked(w, 16, Loop::Scan, Recompute::All);
    let micro_batches: Write<'_> = &|w| Accumulated::new(Some(Loop::Scan)).write(w);
    for write in [layers, micro_batches] {
        let explanation = explain(write);
        assert_eq!(explanation.verdict.grade, Grade::AsPlanned, "{explanation}");
        for purpose in [Purpose::Weight, Purpose::Gradient] {
            let row = explanation.traffic.iter().find(|row| row.purpose == purpose).unwrap();
            let predicted = row.predicted.unwrap();
            assert_eq!(predicted.array_bytes, row.actual.array_bytes, "{explanation}");
        }
    }
}

const DEPTH: usize = 4;

/// Gradients of stacked layers, in a loop or one after the other.
fn stacked(w: &Writer<'_>, features: usize, how: Loop, recompute: Recompute) -> Result<()> {
    let g = w.g;
    let shapes: [(&str, &[usize]); 3] =
        [("norm", &[DEPTH, features]), ("up", &[DEPTH, 64, features]), ("down", &[DEPTH, features, 64])];
    let weights = shapes.map(|(name, dims)| w.stacked(name, dims));
    let x = w.argument("x", &[16, features], ArgumentKind::Batch);
    let layer = |_, carry: &[Value], rows: &[Value]| {
        let body = || {
            let norm = g.broadcast_in_dim(g.weight(rows[0])?, &g.dims(carry[0]), &[1])?;
            let inner = g.dot(g.mul(carry[0], norm)?, g.weight(rows[1])?, &[], &[(1, 1)])?;
            let added = g.dot(g.unary(Unary::Tanh, inner)?, g.weight(rows[2])?, &[], &[(1, 1)])?;
            g.activation(g.add(carry[0], added)?)
        };
        Ok((vec![g.unit("layer", "Layer", body)?], vec![]))
    };
    let y = repeat(g, how, DEPTH, &[x], &weights, &layer)?.0[0];
    let loss = w.over_batch(g.sum(g.mul(y, y)?, &[0, 1])?)?;
    let gradients = g.gradients(loss, &weights, &|_| recompute)?;
    w.outputs(loss, &gradients);
    Ok(())
}

/// Arguments for that, and what it gives of them on one device, written out.
fn stacked_example(features: usize) -> (Vec<HostArray>, Vec<HostArray>) {
    let inputs =
        inputs(&[&[DEPTH, features], &[DEPTH, 64, features], &[DEPTH, features, 64], &[16, features]]);
    let write = |w: &Writer<'_>| stacked(w, features, Loop::WrittenOut, Recompute::Nothing);
    let expected = call(&compile_planned(Lowering::Annotate, "fsdp=1", &write), &inputs);
    (inputs, expected)
}

#[test]
fn rows_of_uneven_layers_are_padded() {
    // Eight devices do not divide the norm.
    let (inputs, expected) = stacked_example(12);
    for lowering in [Lowering::Annotate, Lowering::Explicit] {
        let write = |w: &Writer<'_>| stacked(w, 12, Loop::Scan, Recompute::All);
        let program = compile_planned(lowering, "fsdp=8", &write);
        check_close(&format!("{lowering:?}"), &call(&program, &inputs), &expected);
    }
}

#[test]
fn stacked_layers_are_gathered_one_at_a_time() {
    let (inputs, expected) = stacked_example(16);
    let [norm, matrix] = [16 * 4, 64 * 16 * 4];
    let runs = DEPTH as u64;
    for recompute in [Recompute::Nothing, Recompute::Weights, Recompute::All] {
        for lowering in [Lowering::Annotate, Lowering::Explicit] {
            for mesh in ["fsdp=1", "fsdp=8", "data=2,fsdp=4"] {
                let program = compile_planned(lowering, mesh, &|w| stacked(w, 16, Loop::Scan, recompute));
                let what = format!("{recompute:?}, {lowering:?} on {mesh}");
                check_close(&what, &call(&program, &inputs), &expected);
                if mesh == "fsdp=1" {
                    continue;
                }
                // Forward and backward, of each row.
                let twice = [norm, norm, matrix, matrix, matrix, matrix].map(|bytes| (bytes, runs));
                assert_eq!(collectives(&program, CollectiveKind::AllGather), twice, "{what}");
                if lowering == Lowering::Explicit {
                    let devices = if mesh == "fsdp=8" { 8 } else { 4 };
                    let once = [norm, matrix, matrix].map(|bytes| (bytes / devices, runs));
                    assert_eq!(collectives(&program, CollectiveKind::ReduceScatter), once, "{what}");
                }
                assert_eq!(collectives(&program, CollectiveKind::AllToAll), [], "{what}");
                assert_eq!(collectives(&program, CollectiveKind::CollectivePermute), [], "{what}");
            }
        }
    }
}

/// The loss of a decoder and its gradients, with its layers stacked or one after the other; over the batch of
/// [`decoder_inputs`].
fn decoder(w: &Writer<'_>, config: &ModelConfig, how: Loop, recompute: Recompute) -> Result<()> {
    let g = w.g;
    let mut parameters = Vec::new();
    let mut argument = |name: &str, shape: &[usize], is_stacked| {
        let value = match is_stacked {
            true => w.stacked(name, shape),
            false => w.argument(name, shape, ArgumentKind::Parameter),
        };
        parameters.push(value);
        value
    };
    let weights = match how {
        Loop::Scan => Weights::stacked(config, |p| argument(&p.name, &p.shape, !p.rows.is_empty())).unwrap(),
        Loop::WrittenOut => Weights::new(config, |p| argument(&p.name, &p.shape, false)),
    };
    // Token ids fit in a float.
    let ids = g.convert(w.argument("ids", &[8, 12], ArgumentKind::Batch), DType::S32)?;
    let loss = w.over_batch(causal_loss(g, logits(g, &weights, ids)?, ids)?.sum)?;
    let is_layer = |unit: &Unit| unit.class == "LlamaDecoderLayer";
    let of_layers = |unit: &Unit| if is_layer(unit) { recompute } else { Recompute::Nothing };
    w.outputs(loss, &g.gradients(loss, &parameters, &of_layers)?);
    Ok(())
}

/// Arrays for the rows of each parameter, the row's index first, and token ids.
fn decoder_inputs(config: &ModelConfig) -> (Vec<HostArray>, Vec<HostArray>) {
    let stacked = stacked_parameters(config).unwrap();
    let values = inputs(&stacked.iter().map(|p| &*p.shape).collect::<Vec<_>>());
    let ids: Vec<f32> = (0..8 * 12).map(|i| ((i * i + 3 * i) % config.vocab_size()) as f32).collect();
    let ids = HostArray::from_slice(&[8, 12], &ids).unwrap();
    let row = |info: &ParameterInfo| {
        let of = |(p, array): (&StackedParameter, &HostArray)| {
            if p.name == info.name {
                return Some(array.clone());
            }
            let index = p.rows.iter().position(|row| row == info)?;
            let count = info.element_count();
            let elements = array.to_f64()[index * count..][..count].to_vec();
            Some(HostArray::from_slice(&info.shape, &elements).unwrap().cast(DType::F32))
        };
        stacked.iter().zip(&values).find_map(of).unwrap()
    };
    let rows = parameters(config).iter().map(row).chain([ids.clone()]).collect();
    (values.iter().cloned().chain([ids]).collect(), rows)
}

/// What a decoder whose layers are one after the other gives, with the gradients of layers stacked.
fn decoder_expected(config: &ModelConfig, rows: &[HostArray]) -> Vec<HostArray> {
    let write: Write<'_> = &|w| decoder(w, config, Loop::WrittenOut, Recompute::Nothing);
    let found = call(&compile_planned(Lowering::Annotate, "fsdp=1", write), rows);
    let infos = parameters(config);
    let gradient = |p: &StackedParameter| {
        let is_part = |info: &ParameterInfo| info.name == p.name || p.rows.contains(info);
        let parts = infos.iter().zip(&found[1..]).filter(|(info, _)| is_part(info));
        let elements: Vec<f64> = parts.flat_map(|(_, gradient)| gradient.to_f64()).collect();
        HostArray::from_slice(&p.shape, &elements).unwrap()
    };
    let gradients = stacked_parameters(config).unwrap();
    std::iter::once(found[0].clone()).chain(gradients.iter().map(gradient)).collect()
}

#[test]
fn decoders_with_stacked_layers_have_the_same_loss_and_gradients() {
    let text = r#"{"model_type": "llama", "hidden_size": 16, "intermediate_size": 40, "num_hidden_layers": 3,
        "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 48, "attention_bias": true}"#;
    let config = ModelConfig::parse(text, "config.json").unwrap();
    let (stacked, rows) = decoder_inputs(&config);
    let expected = decoder_expected(&config, &rows);
    for (mesh, lowering, recompute) in [
        ("fsdp=1", Lowering::Annotate, Recompute::Nothing),
        ("fsdp=8", Lowering::Annotate, Recompute::Weights),
        ("fsdp=8", Lowering::Explicit, Recompute::Weights),
        ("data=2,fsdp=4", Lowering::Annotate, Recompute::All),
        ("data=2,fsdp=4", Lowering::Explicit, Recompute::All),
    ] {
        let write: Write<'_> = &|w| decoder(w, &config, Loop::Scan, recompute);
        let program = compile_planned(lowering, mesh, write);
        let what = format!("{recompute:?}, {lowering:?} on {mesh}");
        check_close(&what, &call(&program, &stacked), &expected);
        if mesh != "fsdp=1" {
            // Of what is not in layers, all at once; of layers, one at a time.
            let gathers = collectives(&program, CollectiveKind::AllGather);
            let once: Vec<u64> =
                gathers.iter().filter(|(_, runs)| *runs != 3).map(|(bytes, _)| *bytes).collect();
            assert_eq!(once, [16 * 4, 48 * 16 * 4, 48 * 16 * 4], "{what}");
        }
    }
}
