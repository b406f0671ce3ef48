//! Loops: that they compute what the same steps one after the other do, forward and backward.

mod differences;
mod repeat;
mod support;

use differences::{Build, Case, Result, SPLITS, WHOLE, call, compile};
use repeat::{Loop, repeat};
use shardwright_graph::random::normal;
use shardwright_graph::{Graph, Recompute, Value};
use shardwright_hlo::{ArgumentKind, Binary, Comparison, Unary, print, verify};
use shardwright_tensor::{DType, HostArray, TensorType};

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

/// Checks a function with loops against differences and against the same written out, under each of the rules for
/// what is computed again.
#[track_caller]
fn check_loop(name: &'static str, inputs: &[&[usize]], build: fn(&Graph, &[Value], Loop) -> Result<Value>) {
    let scanned: &Build = &move |g, x| build(g, x, Loop::Scan);
    let case = Case::new(name, inputs, &(-1.0..1.0), scanned);
    case.check();
    let written_out: &Build = &move |g, x| build(g, x, Loop::WrittenOut);
    let written_out = Case::new(name, inputs, &(-1.0..1.0), written_out);
    let expected = written_out.gradients(WHOLE, &|_| Recompute::Nothing);
    let rules = [Recompute::Nothing, Recompute::Weights, Recompute::Activations, Recompute::All];
    for recompute in rules {
        let found = case.gradients(WHOLE, &move |_| recompute);
        case.compare(&format!("the loop written out, with {recompute:?} again"), &found, &expected, 1e-12);
    }
    for place in SPLITS {
        let found = case.gradients(place, &|_| Recompute::All);
        case.compare(&format!("one device, on {}", place.0), &found, &expected, 1e-12);
    }
}

#[test]
fn what_a_loop_hands_on_and_stacks_has_a_gradient() {
    check_loop("a running product", &[&[4], &[3, 4]], |g, x, how| {
        let product = |_, carry: &[Value], rows: &[Value]| {
            let y = g.unary(Unary::Tanh, g.mul(carry[0], rows[0])?)?;
            Ok((vec![y], vec![y]))
        };
        let (last, all) = repeat(g, how, 3, &[x[0]], &[x[1]], &product)?;
        g.add(g.sum(all[0], &[0])?, last[0])
    });
    check_loop("carries that change places, and stay", &[&[4], &[4], &[4]], |g, x, how| {
        let turn = |_, carry: &[Value], _: &[Value]| {
            let product = g.mul(carry[0], carry[2])?;
            Ok((vec![carry[1], product, carry[2]], vec![carry[1], product]))
        };
        let (last, all) = repeat(g, how, 4, x, &[], &turn)?;
        let sums = g.mul(g.sum(all[0], &[0])?, g.sum(all[1], &[0])?)?;
        g.add(g.add(sums, last[0])?, g.mul(last[1], last[2])?)
    });
    check_loop("stacks alone, of rows and of what is around", &[&[3, 4], &[4]], |g, x, how| {
        let rows = |_, _: &[Value], rows: &[Value]| Ok((vec![], vec![rows[0], x[1], g.mul(rows[0], x[1])?]));
        let (_, all) = repeat(g, how, 3, &[], &[x[0]], &rows)?;
        g.mul(g.mul(all[0], all[1])?, g.unary(Unary::Exponential, all[2])?)
    });
    check_loop("one iteration", &[&[4], &[1, 4]], |g, x, how| {
        let body = |_, carry: &[Value], rows: &[Value]| Ok((vec![g.mul(carry[0], rows[0])?], vec![]));
        Ok(repeat(g, how, 1, &[x[0]], &[x[1]], &body)?.0[0])
    });
    check_loop("iterations that lead nowhere", &[&[4], &[3, 4]], |g, x, how| {
        let body = |_, carry: &[Value], rows: &[Value]| {
            Ok((vec![g.mul(carry[0], x[0])?, carry[1]], vec![g.mul(carry[0], rows[0])?]))
        };
        let last = repeat(g, how, 3, &[x[0], x[0]], &[x[1]], &body)?.0;
        g.mul(last[1], last[1])
    });
}

#[test]
fn numbers_masks_and_the_index_pass_through_loops() {
    check_loop("powers, counted", &[&[4], &[3, 4]], |g, x, how| {
        let zero = g.constant(HostArray::scalar(0i32))?;
        let body = |index: Value, carry: &[Value], rows: &[Value]| {
            let odd = g.binary(Binary::And, index, g.full_like(index, 1.0)?)?;
            let is_odd = g.compare(Comparison::Equal, odd, g.full_like(odd, 1.0)?)?;
            let is_odd = g.broadcast_in_dim(is_odd, &[4], &[])?;
            let scale = g.broadcast_in_dim(g.convert(g.add(index, carry[1])?, DType::F64)?, &[4], &[])?;
            let grown = g.mul(g.unary(Unary::Exponential, rows[0])?, g.mul(carry[0], x[0])?)?;
            let next = g.select(is_odd, grown, g.mul(carry[0], g.offset(scale, 0.5)?)?)?;
            let positive = g.compare(Comparison::Greater, next, g.full_like(next, 0.0)?)?;
            let next = g.select(positive, next, g.scale(next, 0.25)?)?;
            Ok((vec![next, g.offset(carry[1], 2.0)?], vec![carry[1], next]))
        };
        let (last, all) = repeat(g, how, 3, &[x[0], zero], &[x[1]], &body)?;
        let counted = g.broadcast_in_dim(g.convert(all[0], DType::F64)?, &[3, 4], &[0])?;
        g.add(g.mul(all[1], counted)?, g.broadcast_in_dim(last[0], &[3, 4], &[1])?)
    });
    check_loop("what is detached", &[&[4], &[3, 4]], |g, x, how| {
        let body = |_, carry: &[Value], rows: &[Value]| {
            let held = g.mul(carry[0], rows[0])?;
            Ok((vec![g.mul(held, x[0])?], vec![]))
        };
        Ok(repeat(g, how, 3, &[x[0]], &[x[1]], &body)?.0[0])
    });
}

/// Layers in units, with weights that are rows and one that all share.
fn layers(g: &Graph, x: &[Value], how: Loop) -> Result<Value> {
    let [hidden, up, down, shared] = [x[0], x[1], x[2], x[3]];
    let layer = |_, carry: &[Value], rows: &[Value]| {
        let body = || {
            let norm = g.unit("layer.norm", "Norm", || {
                let square = g.sum(g.mul(carry[0], carry[0])?, &[1])?;
                let scale = g.unary(Unary::Rsqrt, g.offset(square, 1.0)?)?;
                let scale = g.mul(carry[0], g.broadcast_in_dim(scale, &g.dims(carry[0]), &[0])?)?;
                g.mul(scale, g.broadcast_in_dim(g.weight(shared)?, &g.dims(scale), &[1])?)
            })?;
            let inner = g.unary(Unary::Tanh, g.dot(norm, g.weight(rows[0])?, &[], &[(1, 1)])?)?;
            let added = g.dot(inner, g.weight(rows[1])?, &[], &[(1, 1)])?;
            g.activation(g.add(carry[0], added)?)
        };
        Ok((vec![g.unit("layer", "Layer", body)?], vec![]))
    };
    Ok(repeat(g, how, 3, &[hidden], &[up, down], &layer)?.0[0])
}

const LAYERS: [&[usize]; 4] = [&[8, 4], &[3, 6, 4], &[3, 4, 6], &[4]];

#[test]
fn layers_in_a_loop_are_layers_one_after_the_other() {
    check_loop("layers", &LAYERS, layers);
    check_loop("layers in a unit around the loop", &LAYERS, |g, x, how| {
        g.unit("model", "Model", || {
            let hidden = g.unary(Unary::Sine, x[0])?;
            let hidden = layers(g, &[hidden, x[1], x[2], x[3]], how)?;
            g.mul(hidden, hidden)
        })
    });
    check_loop("layers whose weights are made before the loop", &LAYERS, |g, x, how| {
        let halved = g.unit("halved", "Half", || g.scale(g.weight(x[1])?, 0.5))?;
        layers(g, &[x[0], halved, x[2], g.unary(Unary::Cosine, x[3])?], how)
    });
}

#[test]
fn loops_in_loops_have_gradients() {
    check_loop("a loop in a loop", &[&[4], &[3, 4], &[2, 4]], |g, x, how| {
        let outer = |_, carry: &[Value], rows: &[Value]| {
            let inner = |index: Value, carry: &[Value], inner_rows: &[Value]| {
                let scale = g.broadcast_in_dim(g.convert(index, DType::F64)?, &[4], &[])?;
                let y = g.mul(g.mul(carry[0], rows[0])?, g.unary(Unary::Tanh, inner_rows[0])?)?;
                let y = g.add(y, g.mul(scale, x[0])?)?;
                Ok((vec![y], vec![g.mul(y, y)?]))
            };
            let carried = g.unary(Unary::Sine, carry[0])?;
            let (last, all) = repeat(g, how, 2, &[carried], &[x[2]], &inner)?;
            Ok((vec![g.add(last[0], carry[0])?], vec![g.sum(all[0], &[0])?]))
        };
        let (last, all) = repeat(g, how, 3, &[x[0]], &[x[1]], &outer)?;
        g.mul(g.sum(all[0], &[0])?, last[0])
    });
    check_loop("layers in a loop, over all layers in a loop", &LAYERS, |g, x, how| {
        let all = |_, carry: &[Value], _: &[Value]| {
            let around = || layers(g, &[carry[0], x[1], x[2], x[3]], how);
            Ok((vec![g.unit("all", "All", around)?], vec![]))
        };
        Ok(repeat(g, how, 2, &[x[0]], &[], &all)?.0[0])
    });
}

#[test]
fn programs_do_not_grow_with_their_loops() {
    let text = |layers: usize| {
        let g = Graph::new("layers");
        let [x, w] = [vec![8, 16], vec![layers, 16, 16]]
            .map(|dims| g.argument(format!("{dims:?}"), f32(&dims), ArgumentKind::Parameter));
        let layer = |_, carry: &[Value], rows: &[Value]| {
            let body = || g.unary(Unary::Tanh, g.dot(carry[0], g.weight(rows[0])?, &[], &[(1, 0)])?);
            Ok((vec![g.unit("layer", "Layer", body)?], vec![]))
        };
        let y = g.scan(layers, &[x], &[w], layer).unwrap().0[0];
        let loss = g.sum(y, &[0, 1]).unwrap();
        g.output("dw", g.gradients(loss, &[w], &|_| Recompute::All).unwrap()[0]);
        print(&verify(g.finish()).unwrap(), None)
    };
    assert_eq!(text(4).lines().count(), text(48).lines().count());
}

#[test]
fn random_numbers_differ_from_one_iteration_to_the_next() {
    let g = Graph::new("dropout");
    let seed = g.argument("seed", TensorType::new(DType::U32, [2]).unwrap(), ArgumentKind::Other);
    let w = g.argument("w", f32(&[8]), ArgumentKind::Parameter);
    let drop = |index: Value, carry: &[Value], _: &[Value]| {
        let index = g.reshape(g.convert(index, DType::U32)?, &[1])?;
        let stream = g.concatenate(&[index, g.full_like(index, 7.0)?], 0)?;
        let noise = normal(&g, seed, stream, &[8], 1.0)?;
        Ok((vec![g.add(carry[0], g.mul(noise, w)?)?], vec![noise]))
    };
    let zero = g.full(DType::F32, &[8], 0.0).unwrap();
    let (last, noise) = g.scan(3, &[zero], &[], drop).unwrap();
    let loss = g.sum(last[0], &[0]).unwrap();
    g.output("noise", noise[0]);
    g.output("dw", g.gradients(loss, &[w], &|_| Recompute::All).unwrap()[0]);
    let program = compile(verify(g.finish()).unwrap(), WHOLE).unwrap();
    let seed = HostArray::from_slice(&[2], &[3u32, 4]).unwrap();
    let found = call(&program, &[seed, HostArray::from_slice(&[8], &[1f32; 8]).unwrap()]);
    let [noise, gradient] = [found[0].to_f64(), found[1].to_f64()];
    assert_ne!(noise[..8], noise[8..16]);
    assert_ne!(noise[8..16], noise[16..]);
    // The gradient is the sum of the same numbers: they are drawn again, and alike.
    for (element, gradient) in gradient.iter().enumerate() {
        let sum: f64 = (0..3).map(|iteration| noise[8 * iteration + element]).sum();
        assert!((sum - gradient).abs() < 1e-5, "{sum} {gradient}");
    }
}

#[test]
fn a_loop_may_run_until_something_holds() {
    let g = Graph::new("doubled");
    let x = g.argument("x", f32(&[]), ArgumentKind::Other);
    let limit = g.argument("limit", f32(&[]), ArgumentKind::Other);
    let doubled = g
        .while_loop(
            &[x],
            |values| g.compare(Comparison::Less, values[0], limit),
            |values| Ok(vec![g.scale(values[0], 2.0)?]),
        )
        .unwrap();
    g.output("doubled", doubled[0]);
    let program = compile(verify(g.finish()).unwrap(), WHOLE).unwrap();
    let found = call(&program, &[3f32, 40.0].map(HostArray::scalar));
    assert_eq!(found[0].to_f64(), [48.0]);
}
