//! Loops: that they compute what the same steps one after the other do, forward and backward, on one device and on
//! eight, and what is inside them when they are compiled.

mod differences;
mod support;

use std::cell::Cell;

use differences::{Result, WHOLE, call, check, compile, random};
use shardwright_graph::{Graph, GraphError, Recompute, Value};
use shardwright_hlo::{ArgumentKind, Unary, verify};
use shardwright_mesh::{AbstractMesh, Mesh};
use shardwright_partition::{Lowering, PlanOptions, ShardedModule, ShardingPlan, Shards, WrapPolicy};
use shardwright_runtime::Executable;
use shardwright_tensor::{DType, HostArray, TensorType};
use support::runtime;

fn f32(dims: &[usize]) -> TensorType {
    TensorType::new(DType::F32, dims).unwrap()
}

#[test]
fn a_running_sum() {
    let g = Graph::new("running_sum");
    let x = g.argument("x", f32(&[3, 2]), ArgumentKind::Other);
    let zero = g.full(DType::F32, &[2], 0.0).unwrap();
    let sum = |_, carry: &[Value], rows: &[Value]| {
        let sum = g.add(carry[0], rows[0])?;
        Ok((vec![sum], vec![sum]))
    };
    let (total, sums) = g.scan(3, &[zero], &[x], sum).unwrap();
    g.output("total", total[0]);
    g.output("sums", sums[0]);
    let program = compile(verify(g.finish()).unwrap(), WHOLE).unwrap();
    let x = HostArray::from_slice(&[3, 2], &[1f32, 2.0, 3.0, 4.0, 5.0, 6.0]).unwrap();
    let found: Vec<Vec<f64>> = call(&program, &[x]).iter().map(HostArray::to_f64).collect();
    assert_eq!(found, [vec![9.0, 12.0], vec![1.0, 2.0, 4.0, 6.0, 9.0, 12.0]]);
}

#[test]
fn gradients_of_a_scan() {
    check("a running product", &[&[4], &[3, 4]], |g, x| {
        let product = |_, carry: &[Value], rows: &[Value]| {
            let y = g.unary(Unary::Tanh, g.mul(carry[0], rows[0])?)?;
            Ok((vec![y], vec![y]))
        };
        let (last, all) = g.scan(3, &[x[0]], &[x[1]], product)?;
        g.add(g.sum(all[0], &[0])?, last[0])
    });
}

/// A program over one device's shards, or over global arrays.
struct Writer<'g, 'p> {
    g: &'g Graph,
    shards: Option<&'g Shards<'p>>,
    arguments: Cell<usize>,
}

impl Writer<'_, '_> {
    fn argument(&self, name: &str, ty: TensorType, kind: ArgumentKind) -> Value {
        let index = self.arguments.replace(self.arguments.get() + 1);
        let ty = self.shards.map_or(ty, |shards| shards.ty(index));
        let value = self.g.argument(name, ty, kind);
        if let (Some(shards), ArgumentKind::Parameter) = (self.shards, kind) {
            self.g.stored_as(value, shards.gathers(index));
        }
        value
    }

    fn over_batch(&self, x: Value) -> Result<Value> {
        self.shards.and_then(Shards::batch).map_or(Ok(x), |devices| self.g.all_reduce(x, devices))
    }
}

type Write = dyn Fn(&Writer<'_, '_>) -> Result<()>;

/// Writes a program, plans it over a mesh of eight devices, and compiles it.
fn compile_planned(lowering: Lowering, mesh: &str, write: &Write) -> Executable {
    let trace = |shards: Option<&Shards<'_>>| {
        let g = Graph::new("program");
        write(&Writer { g: &g, shards, arguments: Cell::new(0) }).unwrap();
        g.finish()
    };
    let mesh = Mesh::iota(AbstractMesh::parse(mesh).unwrap());
    let module = verify(trace(None)).unwrap();
    let plan = ShardingPlan::new(&module, mesh.shape(), &PlanOptions::default()).unwrap();
    let sharded = match lowering.shards(&plan).unwrap() {
        None => ShardedModule::from_plan(module, &plan, &WrapPolicy::default()).unwrap(),
        Some(shards) => ShardedModule::explicit(&module, &plan, trace(Some(&shards))).unwrap(),
    };
    runtime(8).compile(&sharded, &mesh).unwrap()
}

/// Loss and gradients of two layers: over micro-batches one after the other, or all at once.
fn accumulated(w: &Writer<'_, '_>, micro_batches: Option<usize>) -> Result<()> {
    let g = w.g;
    let weights = [("w0", [32, 16]), ("w1", [8, 32])]
        .map(|(name, dims)| w.argument(name, f32(&dims), ArgumentKind::Parameter));
    let x = w.argument("x", f32(&[32, 16]), ArgumentKind::Batch);
    let step = |x: Value| {
        let hidden = g.unary(Unary::Tanh, g.dot(x, g.weight(weights[0])?, &[], &[(1, 1)])?)?;
        let y = g.dot(hidden, g.weight(weights[1])?, &[], &[(1, 1)])?;
        let loss = w.over_batch(g.sum(g.mul(y, y)?, &[0, 1])?)?;
        let gradients = g.gradients(loss, &weights, &|_| Recompute::Nothing)?;
        Ok::<_, GraphError>([vec![loss], gradients].concat())
    };
    let results = match micro_batches {
        None => step(x)?,
        Some(count) => {
            // Of each device, some examples in each micro-batch.
            let examples = g.dims(x)[0] / count;
            let x = g.transpose(g.reshape(x, &[examples, count, 16])?, &[1, 0, 2])?;
            let mut zeros = vec![g.full(DType::F32, &[], 0.0)?];
            for weight in weights {
                zeros.push(g.full_like(weight, 0.0)?);
            }
            let add = |_, sums: &[Value], rows: &[Value]| {
                let added = sums.iter().zip(step(rows[0])?).map(|(&sum, part)| g.add(sum, part));
                Ok((added.collect::<Result<_>>()?, vec![]))
            };
            g.scan(count, &zeros, &[x], add)?.0
        }
    };
    g.output("loss", results[0]);
    for (donor, &gradient) in results[1..].iter().enumerate() {
        g.donated_output(format!("d{donor}"), gradient, donor);
    }
    Ok(())
}

#[test]
fn micro_batches_add_up_to_their_batch() {
    let inputs = [vec![32, 16], vec![8, 32], vec![32, 16]];
    let inputs: Vec<HostArray> =
        (1..).zip(inputs).map(|(seed, dims)| random(seed, &dims, &(-0.5..0.5)).cast(DType::F32)).collect();
    let whole = call(&compile_planned(Lowering::Annotate, "fsdp=1", &|w| accumulated(w, None)), &inputs);
    for lowering in [Lowering::Annotate, Lowering::Explicit] {
        for mesh in ["fsdp=1", "fsdp=8", "data=2,fsdp=4"] {
            let program = compile_planned(lowering, mesh, &|w| accumulated(w, Some(4)));
            let found = call(&program, &inputs);
            for (found, expected) in found.iter().zip(&whole) {
                for (f, e) in found.to_f64().iter().zip(expected.to_f64()) {
                    assert!((f - e).abs() <= 1e-5 * e.abs().max(1.0), "{f} {e} {lowering:?} on {mesh}");
                }
            }
        }
    }
}
