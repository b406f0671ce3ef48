//! Random numbers that are a function of a key and an index, the same on any mesh.
//!
//! The generator is Threefry-2x32 with 20 rounds (Salmon et al., *Parallel Random Numbers: As Easy as 1, 2, 3*, 2011).
//! It has no state: each element of an array is worked out from its own global index, so a device computes its shard
//! and nothing else.

use shardwright_hlo::{Binary, Unary, ValueId};
use shardwright_tensor::{DType, HostArray};

use crate::{Graph, GraphError};

type Result<T> = std::result::Result<T, GraphError>;
/// The two 32-bit words of a key, a counter or an output.
type Pair = [ValueId; 2];

/// An array of independent normal numbers with mean 0, in f32.
///
/// `seed` and `stream` are `u32[2]`; arrays of different streams are independent. The element with index
/// (…, i, j) comes from the counter (r, j), with r the row-major index of (…, i), through the Box–Muller transform.
///
/// # Errors
/// When `seed` or `stream` is of another type.
pub fn normal(g: &Graph, seed: ValueId, stream: ValueId, dims: &[usize], std: f64) -> Result<ValueId> {
    // u in (0, 1] and v in [0, 1); the radius is √(−2 ln u), the angle 2πv.
    let [first, second] = integers(g, seed, stream, dims)?;
    let u = g.scale(g.offset(first, 1.0)?, STEP)?;
    let v = g.scale(second, STEP)?;
    let radius = g.unary(Unary::Sqrt, g.scale(g.unary(Unary::Log, u)?, -2.0)?)?;
    let angle = g.scale(v, 2.0 * std::f64::consts::PI)?;
    g.scale(g.mul(radius, g.unary(Unary::Cosine, angle)?)?, std)
}

/// An array of independent numbers, uniform from `-bound` to just below `bound`, in f32.
///
/// They come of seed, stream and index as those of [`normal`] do, and are multiples of `bound · 2⁻²³`.
///
/// # Errors
/// When `seed` or `stream` is of another type.
pub fn uniform(g: &Graph, seed: ValueId, stream: ValueId, dims: &[usize], bound: f64) -> Result<ValueId> {
    let [integer, _] = integers(g, seed, stream, dims)?;
    let centred = g.offset(integer, -0.5 / STEP)?;
    g.scale(centred, 2.0 * STEP * bound)
}

/// The step between the numbers that [`integers`] stand for in [0, 1).
const STEP: f64 = 1.0 / (1u32 << 24) as f64;

/// Two arrays of independent integers from 0 to 2²⁴ − 1, in f32.
fn integers(g: &Graph, seed: ValueId, stream: ValueId, dims: &[usize]) -> Result<Pair> {
    let words = |pair| -> Result<Pair> { Ok([word(g, pair, 0)?, word(g, pair, 1)?]) };
    let key = threefry2x32(g, words(seed)?, words(stream)?)?;
    let spread = |scalar| g.broadcast_in_dim(scalar, dims, &[]);
    let [first, second] = threefry2x32(g, [spread(key[0])?, spread(key[1])?], counter(g, dims)?)?;
    let top = |bits| g.convert(g.binary(Binary::ShiftRightLogical, bits, full(g, dims, 8)?)?, DType::F32);
    Ok([top(first)?, top(second)?])
}

/// One block of Threefry-2x32: two `u32` values of any one shape, from a key and a counter of that shape.
///
/// # Errors
/// When the operands are not `u32` of one shape.
pub fn threefry2x32(g: &Graph, key: Pair, counter: Pair) -> Result<Pair> {
    const PARITY: u32 = 0x1BD1_1BDA;
    const ROTATIONS: [[u32; 4]; 2] = [[13, 15, 26, 6], [17, 29, 16, 24]];
    let dims = g.dims(key[0]);
    let full = |value| full(g, &dims, value);
    let xor = |x, y| g.binary(Binary::Xor, x, y);
    let rotate = |x, by: u32| {
        let high = g.binary(Binary::ShiftLeft, x, full(by)?)?;
        let low = g.binary(Binary::ShiftRightLogical, x, full(32 - by)?)?;
        g.binary(Binary::Or, high, low)
    };

    let third = xor(xor(key[0], key[1])?, full(PARITY)?)?;
    let schedule = [key[0], key[1], third];
    let [mut x, mut y] = [g.add(counter[0], schedule[0])?, g.add(counter[1], schedule[1])?];
    for group in 0..5u32 {
        let i = group as usize;
        for by in ROTATIONS[i % 2] {
            x = g.add(x, y)?;
            y = xor(rotate(y, by)?, x)?;
        }
        x = g.add(x, schedule[(i + 1) % 3])?;
        y = g.add(g.add(y, schedule[(i + 2) % 3])?, full(group + 1)?)?;
    }
    Ok([x, y])
}

/// For each element, the index of its row and its index in the row.
fn counter(g: &Graph, dims: &[usize]) -> Result<Pair> {
    let Some((_, outer)) = dims.split_last() else {
        return Ok([full(g, &[], 0)?; 2]);
    };
    let mut row = full(g, dims, 0)?;
    for (dim, size) in outer.iter().enumerate() {
        let size = u32::try_from(*size).unwrap_or(u32::MAX);
        row = g.binary(Binary::Multiply, row, full(g, dims, size)?)?;
        row = g.add(row, g.iota(DType::U32, dims, dim)?)?;
    }
    Ok([row, g.iota(DType::U32, dims, outer.len())?])
}

fn word(g: &Graph, pair: ValueId, index: usize) -> Result<ValueId> {
    g.reshape(g.slice_dim(pair, 0, index..index + 1)?, &[])
}

fn full(g: &Graph, dims: &[usize], value: u32) -> Result<ValueId> {
    g.broadcast_in_dim(g.constant(HostArray::scalar(value))?, dims, &[])
}
