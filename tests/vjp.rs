//! Every gradient rule against central differences in f64, on one device and split over eight.

mod differences;
mod support;

use std::ops::Range;

use differences::{Build, Case, Remat, Result, SPLITS, WHOLE, check, check_on, check_whole, random};
use shardwright_graph::{Graph, Recompute, Value};
use shardwright_hlo::{
    ArgumentKind, AxisGroup, Binary, Comparison, DotDims, GatherDims, Op, Precision, Reduction, Role,
    ScatterDims, SliceBounds, Unary, verify,
};
use shardwright_mesh::{AbstractMesh, Mesh};
use shardwright_model::{IGNORED_LABEL, ModelConfig, Weights, causal_loss, logits, parameters};
use shardwright_partition::{PlanOptions, ShardedModule, ShardingPlan, Shards};
use shardwright_tensor::{DType, HostArray, Shape, TensorType};
use support::runtime;

fn ids(dims: &[usize], values: &[i32]) -> HostArray {
    HostArray::from_slice(dims, values).unwrap()
}

#[test]
fn unary() {
    let check = |range: Range<f64>, op: Unary| {
        check_on(range, op.name(), &[&[6, 8]], move |g, x| g.unary(op, x[0]));
    };
    for op in [
        Unary::Cosine,
        Unary::Exponential,
        Unary::ExponentialMinusOne,
        Unary::Logistic,
        Unary::Negate,
        Unary::Sine,
        Unary::Tanh,
    ] {
        check(-2.0..2.0, op);
    }
    for op in [Unary::Abs, Unary::Cbrt, Unary::Log, Unary::LogPlusOne, Unary::Rsqrt, Unary::Sqrt] {
        check(0.5..2.0, op);
    }
    for op in [Unary::Abs, Unary::Cbrt] {
        check(-2.0..-0.5, op);
    }
    check(-1.0..1.0, Unary::Tan);
    // Constant between their steps.
    for op in [Unary::Ceil, Unary::Floor, Unary::RoundNearestAfz, Unary::RoundNearestEven, Unary::Sign] {
        check(1.1..1.4, op);
    }
}

#[test]
fn binary() {
    let check = |range: Range<f64>, op: Binary| {
        check_on(range, op.name(), &[&[6, 8], &[6, 8]], move |g, x| g.binary(op, x[0], x[1]));
    };
    for op in [Binary::Add, Binary::Maximum, Binary::Minimum, Binary::Multiply, Binary::Subtract] {
        check(-2.0..2.0, op);
    }
    for op in [Binary::Atan2, Binary::Divide, Binary::Power] {
        check(0.5..2.0, op);
    }
    check(-2.0..-0.5, Binary::Atan2);
    check_on(0.1..0.9, "remainder of 5 and more", &[&[6, 8], &[6, 8]], |g, x| {
        let divisor = g.offset(g.scale(x[1], 0.01)?, 1.3)?;
        g.binary(Binary::Remainder, g.offset(g.scale(x[0], 0.5)?, 5.5)?, divisor)
    });
    check(-2.0..-0.5, Binary::Divide);
    check_on(-2.0..-0.5, "a negative base", &[&[6, 8]], |g, x| {
        g.binary(Binary::Power, x[0], g.full_like(x[0], 3.0)?)
    });
}

#[test]
fn ties_share_a_gradient() {
    // Between two equal elements the differences lie halfway, too.
    check("maximum of equals", &[&[3, 8]], |g, x| g.binary(Binary::Maximum, x[0], g.neg(g.neg(x[0])?)?));
    let case = |name, build: &'static Build| {
        let values = [1.0, 3.0, -2.0, 3.0, /**/ 2.0, 2.0, 0.5, 1.0, /**/ -1.0, -2.0, -3.0, -1.0];
        let inputs = vec![HostArray::from_slice(&[3, 4], &values).unwrap(); 2];
        Case { name, inputs, build, step: 1e-3, tolerance: 1e-9, spread: 1e-12, splits: &SPLITS }.check();
    };
    case("maximum", &|g, x| g.binary(Binary::Maximum, x[0], x[1]));
    case("minimum", &|g, x| g.binary(Binary::Minimum, x[0], x[1]));
    case("reduce max", &|g, x| g.add(g.max(x[0], &[1])?, g.max(x[1], &[1])?));
}

#[test]
fn choosing_and_converting() {
    check("select by the values", &[&[6, 8], &[6, 8]], |g, x| {
        let greater = g.compare(Comparison::Greater, x[0], x[1])?;
        g.select(greater, g.mul(x[0], x[1])?, g.unary(Unary::Exponential, x[1])?)
    });
    check("clamp between numbers", &[&[], &[6, 8], &[]], |g, x| {
        let (low, high) = (g.scale(x[0], 0.1)?, g.offset(g.scale(x[2], 0.1)?, 1.0)?);
        g.op(Op::Clamp, &[low, x[1], high])
    });
    check("clamp between arrays", &[&[6, 8], &[6, 8], &[6, 8]], |g, x| {
        g.op(Op::Clamp, &[x[0], x[1], g.offset(x[2], 4.0)?])
    });
    check("select by a constant", &[&[5], &[5]], |g, x| {
        let condition = HostArray::from_slice(&[5], &[1u8, 0, 0, 1, 1]).unwrap().cast(DType::Pred);
        g.select(g.constant(condition)?, x[0], x[1])
    });
    let inputs = vec![random(1, &[6, 8], &(-2.0..2.0))];
    let build: &Build = &|g, x| {
        let single = g.convert(x[0], DType::F32)?;
        g.convert(g.mul(single, single)?, DType::F64)
    };
    Case { name: "convert", inputs, build, step: 0.1, tolerance: 1e-6, spread: 1e-6, splits: &SPLITS }
        .check();
}

#[test]
fn broadcast_in_dim() {
    let check = |from: &'static [usize], to: &'static [usize], dims: &'static [usize]| {
        let name = format!("{from:?} to {to:?} at {dims:?}");
        check(&name, &[from], move |g, x| {
            let shape = Shape::new(to)?;
            g.op(Op::BroadcastInDim { shape, dims: dims.to_vec() }, &[g.mul(x[0], x[0])?])
        });
    };
    check(&[], &[4, 6], &[]);
    check(&[6], &[4, 6], &[1]);
    check(&[4], &[4, 6], &[0]);
    check(&[4, 6], &[4, 6], &[0, 1]);
    check(&[3, 5], &[2, 3, 4, 5], &[1, 3]);
    check(&[1, 6], &[8, 6], &[0, 1]);
    check(&[8, 1], &[8, 6], &[0, 1]);
    check(&[1, 1], &[3, 2], &[0, 1]);
    check(&[1], &[1, 4], &[0]);
    check(&[3, 4], &[4, 5, 3], &[2, 0]);
    check(&[2, 3, 4], &[3, 4, 2], &[2, 0, 1]);
    check(&[1, 4], &[4, 5, 3], &[2, 0]);
    check(&[4, 1, 2], &[2, 3, 4], &[2, 1, 0]);
}

#[test]
fn reshape_and_transpose() {
    check("reshape to one dim", &[&[4, 6]], |g, x| g.reshape(x[0], &[24]));
    check("reshape over the dims' border", &[&[4, 6]], |g, x| g.reshape(x[0], &[3, 2, 4]));
    check("reshape to no dims", &[&[1, 1]], |g, x| g.reshape(x[0], &[]));
    for permutation in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        check(&format!("transpose {permutation:?}"), &[&[2, 3, 4]], move |g, x| {
            g.op(Op::Transpose(permutation.to_vec()), &[x[0]])
        });
    }
}

#[test]
fn slice() {
    let slice = |starts: [usize; 2], limits: [usize; 2], strides: [usize; 2]| {
        let [starts, limits, strides] = [starts, limits, strides].map(Vec::from);
        let op = Op::Slice(SliceBounds { starts, limits, strides });
        let name = format!("{op:?}");
        (name, move |g: &Graph, x: &[Value]| g.op(op.clone(), &[g.mul(x[0], x[0])?]))
    };
    let check = |starts, limits, strides| {
        let (name, build) = slice(starts, limits, strides);
        check(&name, &[&[8, 9]], build);
    };
    check([0, 0], [8, 9], [1, 1]);
    check([1, 2], [7, 9], [1, 1]);
    check([1, 2], [7, 9], [2, 3]);
    check([0, 1], [8, 8], [3, 5]);
    check([2, 3], [2, 9], [1, 2]);
    // FIXME: split, XLA's partitioner gives this slice a wrong shape and refuses it.
    let (name, build) = slice([7, 0], [8, 9], [4, 8]);
    check_whole(&name, &[&[8, 9]], build);
}

#[test]
fn pad() {
    let pad = |low: [i64; 2], high: [i64; 2], interior: [i64; 2]| {
        let [low, high, interior] = [low, high, interior].map(Vec::from);
        let op = Op::Pad { low, high, interior };
        let name = format!("{op:?}");
        let build = move |g: &Graph, x: &[Value]| g.op(op.clone(), &[g.mul(x[0], x[0])?, g.mul(x[1], x[1])?]);
        (name, build)
    };
    let check = |low, high, interior| {
        let (name, build) = pad(low, high, interior);
        check(&name, &[&[4, 5], &[]], build);
    };
    check([1, 0], [0, 3], [0, 0]);
    check([0, 0], [0, 0], [1, 2]);
    check([1, 2], [3, 0], [2, 1]);
    check([-1, 0], [0, -2], [0, 0]);
    check([-1, 2], [2, -3], [0, 0]);
    check([-4, 0], [0, 0], [0, 0]);
    check([-4, 0], [2, 0], [0, 0]);
    // Cuts into the interior padding, and takes a whole element. FIXME: split, this aborts inside XLA's partitioner
    // (spmd_partitioner.cc, "get_first_valid_element_offset_on_dilated_shard(0) == swd->padding_low()").
    let (name, build) = pad([-1, -3], [-2, 1], [2, 1]);
    check_whole(&name, &[&[4, 5], &[]], build);
}

#[test]
fn blocks_and_reversals() {
    let at = |g: &Graph, starts: [i32; 2]| starts.map(|start| g.constant(HostArray::scalar(start)).unwrap());
    for starts in [[1, 2], [9, -4]] {
        check("dynamic_slice", &[&[5, 6]], move |g, x| {
            let [row, column] = at(g, starts);
            g.op(Op::DynamicSlice { sizes: vec![2, 3] }, &[g.mul(x[0], x[0])?, row, column])
        });
        check("dynamic_update_slice", &[&[5, 6], &[2, 3]], move |g, x| {
            let [row, column] = at(g, starts);
            g.op(Op::DynamicUpdateSlice, &[g.mul(x[0], x[0])?, g.mul(x[1], x[1])?, row, column])
        });
    }
    check("reverse", &[&[4, 6]], |g, x| g.mul(x[0], g.op(Op::Reverse(vec![1]), &[g.mul(x[0], x[0])?])?));
}

#[test]
fn concatenate() {
    check("along dim 1", &[&[4, 3], &[4, 1], &[4, 8]], |g, x| g.concatenate(x, 1));
    check("along dim 0", &[&[3, 4], &[1, 4], &[8, 4]], |g, x| g.concatenate(x, 0));
    check("one value twice", &[&[4, 3], &[4, 2]], |g, x| g.concatenate(&[x[0], x[1], x[0]], 1));
    check("one value", &[&[4, 3]], |g, x| g.concatenate(x, 0));
}

#[test]
fn dot_general() {
    type Dims = &'static [(usize, usize)];
    let check = |x: &[usize], y: &[usize], batch: Dims, contracting: Dims| {
        let name = format!("{x:?} · {y:?}, batch {batch:?}, contracting {contracting:?}");
        check(&name, &[x, y], move |g, x| g.dot(x[0], x[1], batch, contracting));
    };
    check(&[4, 5], &[5, 6], &[], &[(1, 0)]);
    check(&[5, 4], &[6, 5], &[], &[(0, 1)]);
    check(&[3], &[4], &[], &[]);
    check(&[8], &[8], &[], &[(0, 0)]);
    check(&[2, 3, 5], &[5, 2, 3], &[], &[(2, 0)]);
    check(&[2, 4, 5], &[2, 5, 3], &[(0, 0)], &[(2, 1)]);
    check(&[4, 2, 5], &[5, 3, 2], &[(1, 2)], &[(2, 0)]);
    check(&[4, 3], &[3, 4], &[(0, 1)], &[(1, 0)]);
    check(&[4, 3], &[4, 3], &[(0, 0), (1, 1)], &[]);
    check(&[2, 3, 2, 3], &[3, 2, 4], &[(0, 1), (1, 0)], &[]);
    check(&[3, 4, 5], &[4, 5, 2], &[], &[(1, 0), (2, 1)]);
    check(&[3, 4, 5], &[4, 5, 2], &[], &[(2, 1), (1, 0)]);
    check(&[3, 4, 5], &[5, 2, 4], &[], &[(1, 2), (2, 0)]);
    check(&[2, 3, 4], &[4, 2, 3], &[], &[(0, 1), (2, 0), (1, 2)]);
    check(&[2, 3, 4, 2, 5], &[5, 2, 3, 4, 2], &[(0, 4), (2, 3)], &[(4, 0), (1, 2)]);
    // What attention does: batch dims that are not in front.
    check(&[2, 3, 2, 2, 4], &[2, 3, 2, 4], &[(0, 0), (2, 2)], &[(4, 3)]);
}

#[test]
fn dot_general_with_wide_sums() {
    let inputs = vec![random(1, &[4, 5], &(-2.0..2.0)), random(2, &[5, 6], &(-2.0..2.0))];
    let build: &Build = &|g, x| {
        let [lhs, rhs] = [g.convert(x[0], DType::F32)?, g.convert(x[1], DType::F32)?];
        let dims = DotDims {
            lhs_batch: vec![],
            rhs_batch: vec![],
            lhs_contracting: vec![1],
            rhs_contracting: vec![0],
            result: DType::F64,
            precision: Precision::Highest,
        };
        g.op(Op::DotGeneral(dims), &[lhs, rhs])
    };
    Case {
        name: "f32 summed in f64",
        inputs,
        build,
        step: 0.1,
        tolerance: 1e-6,
        spread: 1e-6,
        splits: &SPLITS,
    }
    .check();
}

#[test]
fn reduce() {
    for dims in [&[0][..], &[1], &[2], &[0, 2], &[0, 1, 2], &[]] {
        let squares = |g: &Graph, x: Value| g.mul(x, x);
        check(&format!("sum over {dims:?}"), &[&[3, 4, 5]], move |g, x| g.sum(squares(g, x[0])?, dims));
        check(&format!("max over {dims:?}"), &[&[3, 4, 5]], move |g, x| g.max(squares(g, x[0])?, dims));
        check(&format!("min over {dims:?}"), &[&[3, 4, 5]], move |g, x| {
            g.op(Op::Reduce { kind: Reduction::Minimum, dims: dims.to_vec() }, &[squares(g, x[0])?])
        });
    }
}

#[test]
fn gather() {
    check("rows, one of them three times", &[&[6, 4]], |g, x| {
        g.gather_rows(x[0], g.constant(ids(&[5], &[2, 0, 2, 5, 2]))?)
    });
    check("rows at two-dim ids", &[&[6, 4]], |g, x| {
        g.gather_rows(g.mul(x[0], x[0])?, g.constant(ids(&[2, 4], &[1, 1, 5, 0, 3, 1, 5, 4]))?)
    });
    check("a row at no dims", &[&[6, 4]], |g, x| g.gather_rows(x[0], g.constant(ids(&[], &[3]))?));
    check("blocks, at indices with two components", &[&[5, 6]], |g, x| {
        let dims = GatherDims {
            offset: vec![0, 2],
            collapsed: vec![],
            start_index_map: vec![1, 0],
            index_vector: 0,
            slice_sizes: vec![2, 3],
            ..GatherDims::default()
        };
        // Columns first; the blocks overlap.
        g.op(Op::Gather(dims), &[x[0], g.constant(ids(&[2, 3], &[0, 3, 2, /**/ 1, 0, 1]))?])
    });
}

#[test]
fn scatter() {
    check("rows, one of them three times", &[&[6, 4], &[5, 4]], |g, x| {
        let dims = ScatterDims {
            update_window: vec![1],
            inserted_window: vec![0],
            index_map: vec![0],
            index_vector: 1,
            ..ScatterDims::default()
        };
        let at = g.constant(ids(&[5], &[2, 0, 2, 5, 2]))?;
        g.op(Op::Scatter { kind: Reduction::Add, dims }, &[x[0], at, g.mul(x[1], x[1])?])
    });
    check("blocks, at indices with two components", &[&[5, 6], &[2, 4, 3]], |g, x| {
        let dims = ScatterDims {
            update_window: vec![0, 2],
            inserted_window: vec![],
            index_map: vec![1, 0],
            index_vector: 1,
            ..ScatterDims::default()
        };
        let at = g.constant(ids(&[4, 2], &[0, 1, /**/ 3, 0, /**/ 2, 1, /**/ 0, 1]))?;
        g.op(Op::Scatter { kind: Reduction::Add, dims }, &[x[0], at, x[1]])
    });
}

#[test]
fn gather_and_scatter_in_batches() {
    check("an element of each row", &[&[4, 6]], |g, x| {
        let dims = GatherDims {
            collapsed: vec![1],
            operand_batch: vec![0],
            indices_batch: vec![0],
            start_index_map: vec![1],
            index_vector: 2,
            slice_sizes: vec![1, 1],
            ..GatherDims::default()
        };
        let at = g.constant(ids(&[4, 2, 1], &[0, 5, /**/ 1, 1, /**/ 3, 2, /**/ 4, 0]))?;
        g.op(Op::Gather(dims), &[g.mul(x[0], x[0])?, at])
    });
    check("elements added to each row", &[&[4, 6], &[4, 2]], |g, x| {
        let dims = ScatterDims {
            inserted_window: vec![1],
            operand_batch: vec![0],
            indices_batch: vec![0],
            index_map: vec![1],
            index_vector: 2,
            ..ScatterDims::default()
        };
        let at = g.constant(ids(&[4, 2, 1], &[0, 5, /**/ 1, 1, /**/ 3, 2, /**/ 4, 0]))?;
        g.op(Op::Scatter { kind: Reduction::Add, dims }, &[x[0], at, g.mul(x[1], x[1])?])
    });
}

#[test]
fn identities() {
    check("optimization_barrier", &[&[4, 6], &[3]], |g, x| {
        let held = g.push(Op::OptimizationBarrier, &[g.mul(x[0], x[0])?, x[1], x[0]])?;
        g.mul(held[0], g.broadcast_in_dim(g.sum(held[1], &[0])?, &[4, 6], &[])?)
    });
    check("a barrier's result that nothing uses", &[&[4, 6], &[3]], |g, x| {
        let held = g.push(Op::OptimizationBarrier, x)?;
        g.mul(held[0], x[0])
    });
    check("boundaries", &[&[4, 6]], |g, x| {
        let y = g.activation(g.mul(g.weight(x[0])?, x[0])?)?;
        g.op(Op::Boundary(Role::Stored), &[y])
    });
}

#[test]
fn values_used_several_times() {
    check("x x + x exp(x) / x", &[&[4, 6]], |g, x| {
        let x = x[0];
        let square = g.mul(x, x)?;
        let product = g.mul(square, g.unary(Unary::Exponential, x)?)?;
        g.add(g.add(square, product)?, g.add(x, square)?)
    });
    check("an input that nothing uses", &[&[4], &[3]], |g, x| g.mul(x[0], x[0]));
    check("the loss is an input", &[&[]], |_, x| Ok(x[0]));
}

#[test]
fn detached_values_count_as_constants() {
    let inputs = vec![random(1, &[4, 6], &(-2.0..2.0)), random(2, &[4, 6], &(-2.0..2.0))];
    let [x, c] = [inputs[0].to_f64(), inputs[1].to_f64()];
    let build: &Build = &|g, x| {
        g.unit("u", "Unit", || g.mul(g.detach(g.unary(Unary::Exponential, g.mul(x[0], x[1])?)?), x[0]))
    };
    let case =
        Case { name: "detach", inputs, build, step: 0.0, tolerance: 1e-12, spread: 1e-12, splits: &SPLITS };
    let weights = random(0, &[4, 6], &(0.5..1.5)).to_f64();
    let slope = |i: usize| weights[i] * (x[i] * c[i]).exp();
    let expected = [(0..24).map(slope).collect(), vec![0.0; 24]];
    for recompute in [Recompute::Nothing, Recompute::All] {
        let gradients = case.gradients(WHOLE, &move |_| recompute);
        case.compare("the formula", &gradients[1..], &expected, case.tolerance);
    }
}

/// What is computed again of the units that are chosen.
fn when(chosen: bool, recompute: Recompute) -> Recompute {
    if chosen { recompute } else { Recompute::Nothing }
}

/// A function in nested units, with values that cross their borders in both directions.
fn nested_units(g: &Graph, x: &[Value]) -> Result<Value> {
    let [w, mut hidden] = [x[0], x[1]];
    for layer in ["0", "1"] {
        hidden = g.unit(layer, "Layer", || {
            let skipped = g.unit(format!("{layer}.norm"), "Norm", || {
                let scale = g.unary(Unary::Rsqrt, g.offset(g.sum(g.mul(hidden, hidden)?, &[1])?, 1.0)?)?;
                g.mul(hidden, g.broadcast_in_dim(scale, &g.dims(hidden), &[0])?)
            })?;
            let mixed = g.unit(format!("{layer}.mlp"), "Mlp", || {
                let inner = g.unary(Unary::Tanh, g.dot(skipped, g.weight(w)?, &[], &[(1, 1)])?)?;
                g.dot(inner, w, &[], &[(1, 0)])
            })?;
            g.activation(g.add(g.mul(hidden, skipped)?, mixed)?)
        })?;
    }
    Ok(hidden)
}

#[test]
fn rematerialised_units_have_the_same_gradients() {
    let inputs = vec![random(1, &[8, 4], &(-1.0..1.0)), random(2, &[8, 4], &(-1.0..1.0))];
    let build: &Build = &nested_units;
    let case = Case {
        name: "nested units",
        inputs,
        build,
        step: 1e-3,
        tolerance: 1e-9,
        spread: 1e-12,
        splits: &SPLITS,
    };
    case.check();
    let kept = case.gradients(WHOLE, &|_| Recompute::Nothing);
    let rules: [(&str, &Remat); 8] = [
        ("all units", &|_| Recompute::All),
        ("outer units", &|u| when(u.class == "Layer", Recompute::All)),
        ("inner units", &|u| when(u.class != "Layer", Recompute::All)),
        ("one layer and part of the other", &|u| when(u.path == "0" || u.path == "1.mlp", Recompute::All)),
        ("the part with the sums", &|u| when(u.class == "Norm", Recompute::All)),
        ("weights", &|_| Recompute::Weights),
        ("all but weights", &|_| Recompute::Activations),
        ("weights of one layer, the rest of the other", &|u| match u.path.as_str() {
            "0" => Recompute::Activations,
            _ => Recompute::Weights,
        }),
    ];
    for (name, remat) in rules {
        for place in [WHOLE].into_iter().chain(SPLITS) {
            let gradients = case.gradients(place, remat);
            case.compare(&format!("{name} on {}", place.0), &gradients, &kept, case.spread);
        }
        let length = |remat: &Remat| case.module(remat).instructions.len();
        assert!(length(remat) > length(&|_| Recompute::Nothing), "{name}: nothing is computed again");
    }
}

#[test]
fn softmax_with_cross_entropy() {
    check("causal loss", &[&[2, 4, 6]], |g, x| {
        let labels = [3, 0, IGNORED_LABEL, 5, /**/ 1, 2, 2, IGNORED_LABEL];
        Ok(causal_loss(g, x[0], g.constant(ids(&[2, 4], &labels))?)?.sum)
    });
}

#[test]
fn a_whole_model() {
    // Norms, softmax and loss are in f32 whatever the weights are, hence the long steps and the tolerance.
    let text = r#"{"model_type": "llama", "hidden_size": 8, "intermediate_size": 6, "num_hidden_layers": 1,
        "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 11, "attention_bias": true,
        "max_position_embeddings": 16, "tie_word_embeddings": true}"#;
    let config = ModelConfig::parse(text, "config.json").unwrap();
    let infos = parameters(&config).into_iter().zip(1..);
    let inputs = infos.map(|(info, seed)| random(seed, &info.shape, &(-0.7..0.7))).collect();
    let build = move |g: &Graph, x: &[Value]| {
        let tokens = ids(&[2, 5], &[1, 7, 3, 7, 10, /**/ 0, 2, 2, 9, 4]);
        let tokens = g.constant(tokens)?;
        let mut values = x.iter().copied();
        let weights = Weights::new(&config, |_| values.next().unwrap());
        Ok(causal_loss(g, logits(g, &weights, tokens)?, tokens)?.sum)
    };
    let case = Case {
        name: "llama",
        inputs,
        build: &build,
        step: 0.02,
        tolerance: 1e-4,
        spread: 1e-5,
        splits: &SPLITS,
    };
    case.check();
    let kept = case.gradients(WHOLE, &|_| Recompute::Nothing);
    let layers: [(&str, &Remat); 2] = [
        ("rematerialised layers", &|u| when(u.class == "LlamaDecoderLayer", Recompute::All)),
        ("layers with their weights again", &|u| when(u.class == "LlamaDecoderLayer", Recompute::Weights)),
    ];
    for (name, recompute) in layers {
        let again = case.gradients(SPLITS[0], recompute);
        case.compare(name, &again, &kept, case.spread);
    }
    let ty = TensorType::new(DType::F64, [11, 8]).unwrap();
    assert_eq!(*case.inputs[0].ty(), ty, "the token table comes first");
    assert!(kept[1].iter().any(|v| v.abs() > 0.1), "gradients are not just rounding");
}

/// Checks the gradient of a parameter, taken in a program of shards over `data=2,fsdp=4`, against differences of the
/// whole. `build` gives the loss, of a device's shard of the parameter and its part of the batch.
#[track_caller]
fn check_shards(
    name: &str,
    options: &PlanOptions,
    build: impl Fn(&Graph, [Value; 2], &Shards<'_>) -> Result<Value>,
) {
    let mesh = Mesh::iota(AbstractMesh::parse("data=2,fsdp=4").unwrap());
    let ty = TensorType::new(DType::F64, [8, 4]).unwrap();
    // Says what goes in and comes out; what is computed is up to the program of shards.
    let g = Graph::new(name);
    let w = g.argument("w", ty.clone(), ArgumentKind::Parameter);
    g.argument("x", ty, ArgumentKind::Batch);
    g.output("loss", g.sum(w, &[0, 1]).unwrap());
    g.donated_output("w", w, 0);
    let global = verify(g.finish()).unwrap();
    let plan = ShardingPlan::new(&global, mesh.shape(), options).unwrap();
    let shards = Shards::new(&plan).unwrap();

    for recompute in [Recompute::Nothing, Recompute::Weights, Recompute::All] {
        let g = Graph::new(name);
        let w = g.argument("w", shards.ty(0), ArgumentKind::Parameter);
        let x = g.argument("x", shards.ty(1), ArgumentKind::Batch);
        g.stored_as(w, shards.gathers(0));
        let loss = g.unit("u", "Unit", || build(&g, [w, x], &shards)).unwrap();
        g.output("loss", loss);
        g.output("w", g.gradients(loss, &[w], &|_| recompute).unwrap()[0]);
        let sharded =
            ShardedModule::explicit(&global, &plan, g.finish()).unwrap_or_else(|e| panic!("{name}: {e}"));
        let program = runtime(8).compile(&sharded, &mesh).unwrap_or_else(|e| panic!("{name}: {e}"));
        let unused: &Build = &|_, x| Ok(x[0]);
        let case = Case::new(name, &[&[8, 4], &[8, 4]], &(-1.0..1.0), unused);
        case.compare(
            "differences",
            &case.call(&program)[1..],
            &case.differences(&program)[..1],
            case.tolerance,
        );
    }
}

#[test]
fn collectives() {
    let split = PlanOptions::default();
    let whole = PlanOptions { min_shard_bytes: 1 << 20, ..PlanOptions::default() };
    let mixed = |g: &Graph, w: Value, x: Value| g.unary(Unary::Tanh, g.dot(x, w, &[], &[(1, 1)])?);
    let total = |g: &Graph, y: Value, shards: &Shards<'_>| {
        g.all_reduce(g.sum(g.mul(y, y)?, &[0, 1])?, shards.batch().unwrap())
    };
    for (name, options) in [("a parameter in shards", &split), ("a parameter that each device has", &whole)] {
        check_shards(name, options, |g, [w, x], shards| total(g, mixed(g, g.weight(w)?, x)?, shards));
    }
    check_shards("all_gather and vary by hand, of a dim and of another", &split, |g, [w, x], shards| {
        let [data, fsdp] = ["data", "fsdp"].map(|axis| AxisGroup::new(shards.mesh(), [axis.into()]).unwrap());
        let rows = g.all_gather(g.vary(w, data)?, 0, fsdp.clone())?;
        let columns = g.all_gather(g.mul(x, x)?, 1, fsdp)?;
        let columns = g.reshape(columns, &[4, 4])?;
        total(g, mixed(g, rows, columns)?, shards)
    });
    check_shards("reduce_scatter", &split, |g, [w, x], shards| {
        let fsdp = AxisGroup::new(shards.mesh(), ["fsdp".into()]).unwrap();
        let y = mixed(g, g.weight(w)?, x)?;
        total(g, g.reduce_scatter(y, 1, fsdp)?, shards)
    });
    check_shards("a function of an all_reduce", &split, |g, [w, x], shards| {
        let sum = total(g, mixed(g, g.weight(w)?, x)?, shards)?;
        g.mul(sum, g.unary(Unary::Exponential, g.scale(sum, -0.01)?)?)
    });
}
