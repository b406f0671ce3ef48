//! The functions inside an MLP, which are computed in f32.

use shardwright_graph::{Graph, GraphError, Value};
use shardwright_hlo::{Comparison, Op, Unary};
use shardwright_tensor::{DType, HostArray};

type Result<T> = std::result::Result<T, GraphError>;

/// A function that is applied to each element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Activation {
    /// `x · σ(x)`.
    Silu,
    /// `x · Φ(x)`, where Φ is the normal distribution.
    Gelu,
    /// The same with Φ approximated by a hyperbolic tangent.
    GeluTanh,
    /// `max(x, 0)`.
    Relu,
}

impl Activation {
    /// The names that configurations have for them.
    const NAMES: [(&str, Activation); 7] = [
        ("silu", Activation::Silu),
        ("swish", Activation::Silu),
        ("gelu", Activation::Gelu),
        ("gelu_pytorch_tanh", Activation::GeluTanh),
        ("gelu_new", Activation::GeluTanh),
        ("gelu_fast", Activation::GeluTanh),
        ("relu", Activation::Relu),
    ];

    pub(crate) fn from_name(name: &str) -> Option<Activation> {
        Self::NAMES.iter().find(|(known, _)| *known == name).map(|(_, activation)| *activation)
    }

    /// All names, for messages.
    pub(crate) fn names() -> String {
        Self::NAMES.map(|(name, _)| name).join(", ")
    }

    /// The function of each element of `x`.
    pub(crate) fn apply(self, g: &Graph, x: Value) -> Result<Value> {
        let dtype = g.dtype(x);
        let x = g.convert(x, DType::F32)?;
        let y = match self {
            Activation::Silu => g.mul(x, g.unary(Unary::Logistic, x)?)?,
            Activation::Gelu => gelu(g, x, erf(g, g.scale(x, std::f64::consts::FRAC_1_SQRT_2)?)?)?,
            Activation::GeluTanh => {
                let cube = g.mul(x, g.mul(x, x)?)?;
                let inner = g.add(x, g.scale(cube, 0.044_715)?)?;
                let scale = std::f64::consts::FRAC_2_SQRT_PI * std::f64::consts::FRAC_1_SQRT_2;
                gelu(g, x, g.unary(Unary::Tanh, g.scale(inner, scale)?)?)?
            }
            Activation::Relu => {
                // Not a maximum, whose gradient at 0 would be shared with the other operand.
                let zero = g.full_like(x, 0.0)?;
                g.select(g.compare(Comparison::Greater, x, zero)?, x, zero)?
            }
        };
        g.convert(y, dtype)
    }
}

/// `x · (1 + e) / 2`.
fn gelu(g: &Graph, x: Value, e: Value) -> Result<Value> {
    g.mul(g.scale(x, 0.5)?, g.offset(e, 1.0)?)
}

/// Up to here [`erf`] follows the fraction; beyond, it is 1 in f32.
const ERF_END: f64 = 3.8;

/// Coefficients of powers of x² in `erf(x) ≈ x · P(x²) / Q(x²)`. Of all such fractions, it is the one whose largest
/// distance from the error function within [`ERF_END`] is least: 1.1e-8, a sixth of an f32's last digit at 1. All are
/// positive, so nothing cancels.
const ERF_P: [f64; 6] = [1.12837907, 0.188116094, 0.0525473284, 0.00369360995, 0.00028799947, 2.13213419e-6];
const ERF_Q: [f64; 6] = [1.0, 0.500045804, 0.113254862, 0.0148229207, 0.0011537445, 3.90978775e-5];

/// The error function, which StableHLO lacks.
fn erf(g: &Graph, x: Value) -> Result<Value> {
    let bound = |at: f64| g.constant(HostArray::scalar(at).cast(g.dtype(x)));
    let x = g.op(Op::Clamp, &[bound(-ERF_END)?, x, bound(ERF_END)?])?;
    let square = g.mul(x, x)?;
    let polynomial = |coefficients: [f64; 6]| {
        let [lower @ .., last] = coefficients;
        lower.iter().rev().try_fold(g.full_like(x, last)?, |sum, &c| g.offset(g.mul(sum, square)?, c))
    };
    g.div(g.mul(x, polynomial(ERF_P)?)?, polynomial(ERF_Q)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The error function by its series.
    fn series(x: f64) -> f64 {
        let mut term = std::f64::consts::FRAC_2_SQRT_PI * x;
        let mut sum = 0.0;
        for n in 0..200 {
            let n = f64::from(n);
            sum += term / (2.0 * n + 1.0);
            term *= -x * x / (n + 1.0);
        }
        sum
    }

    #[test]
    fn the_fraction_is_the_error_function() {
        let polynomial = |c: [f64; 6], z: f64| c.iter().rev().fold(0.0, |sum, c| sum * z + c);
        for step in 0..=3800 {
            let x = f64::from(step) / 1000.0;
            let fraction = x * polynomial(ERF_P, x * x) / polynomial(ERF_Q, x * x);
            assert!((fraction - series(x)).abs() < 2e-8, "erf({x}) is {}, not {fraction}", series(x));
        }
        assert!(1.0 - series(ERF_END) < f64::from(f32::EPSILON));
    }
}
