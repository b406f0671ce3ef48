//! Adafactor, as Hugging Face's Trainer sets it.

use shardwright_graph::{Graph, GraphError, Value};
use shardwright_hlo::{Binary, Unary};

use super::{Held, Optimizer, StateInfo, Update, Updated, spread};
use crate::Group;

/// Adafactor with the learning rate of the group and the schedule: no relative steps.
///
/// Of a parameter of two or more dims, mean squares are kept as two factors: of its rows, without the last dim, and of
/// its columns, without the one before it. Earlier dims are a batch of matrices. All means are over the whole parameter,
/// however it is split.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Adafactor {
    /// Added to squared gradients.
    pub epsilon: f64,
    /// An update whose root mean square is above this is scaled down to it.
    pub clip_threshold: f64,
    /// At step `t` from 1, mean squares decay by `1 − tʳ`: this is `r`.
    pub decay_rate: f64,
    /// Decay of the mean of updates; without, none is kept.
    pub beta1: Option<f64>,
    /// The learning rate is multiplied by the parameter's root mean square, or this if that is smaller. Without, it is
    /// left.
    pub parameter_scale: Option<f64>,
}

impl Default for Adafactor {
    /// Trainer's settings.
    fn default() -> Self {
        Adafactor {
            epsilon: 1e-30,
            clip_threshold: 1.0,
            decay_rate: -0.8,
            beta1: None,
            parameter_scale: None,
        }
    }
}

impl Optimizer for Adafactor {
    fn state(&self, dims: &[usize]) -> Vec<StateInfo> {
        let mean = self.beta1.map(|_| StateInfo { name: "exp_avg", without: None });
        let squares = match dims.len() {
            0 | 1 => vec![StateInfo { name: "exp_avg_sq", without: None }],
            n => vec![
                StateInfo { name: "exp_avg_sq_row", without: Some(n - 1) },
                StateInfo { name: "exp_avg_sq_col", without: Some(n - 2) },
            ],
        };
        mean.into_iter().chain(squares).collect()
    }

    fn numbers(&self, group: &Group, factor: f64, taken: usize) -> Vec<f64> {
        let learning_rate = group.learning_rate * factor;
        let decay = 1.0 - ((taken + 1) as f64).powf(self.decay_rate);
        vec![decay, 1.0 - decay, learning_rate, group.weight_decay]
    }

    fn update(&self, g: &Graph, update: &Update<'_>) -> Result<Updated, GraphError> {
        let &[decay, rest, learning_rate, weight_decay] = update.numbers else {
            unreachable!("an update has the numbers that its optimizer asks for");
        };
        let (held, before) = (update.held, update.parameter);
        let (exp_avg, squares) = update.state.split_at(usize::from(self.beta1.is_some()));
        let (direction, squares) = self.direction(g, update, squares, &|kept, mean| {
            g.add(g.mul(kept, spread(g, decay, kept)?)?, g.mul(mean, spread(g, rest, kept)?)?)
        })?;

        // u ← η u / max(1, RMS(u) / threshold)
        let excess = g.scale(held.rms(g, direction)?, self.clip_threshold.recip())?;
        let excess = g.binary(Binary::Maximum, excess, g.full_like(excess, 1.0)?)?;
        let learning_rate = match self.parameter_scale {
            None => learning_rate,
            Some(least) => {
                let rms = held.rms(g, before)?;
                g.mul(learning_rate, g.binary(Binary::Maximum, rms, g.full_like(rms, least)?)?)?
            }
        };
        let direction = g.div(direction, spread(g, excess, direction)?)?;
        let mut step = g.mul(direction, spread(g, learning_rate, direction)?)?;
        let mut state = Vec::with_capacity(update.state.len());
        if let (Some(beta1), &[exp_avg]) = (self.beta1, exp_avg) {
            step = g.add(g.scale(exp_avg, beta1)?, g.scale(step, 1.0 - beta1)?)?;
            state.push(step);
        }
        state.extend(squares);

        // p ← p − η λ p − u
        let decayed = g.mul(before, spread(g, g.mul(weight_decay, learning_rate)?, before)?)?;
        let parameter = g.sub(g.sub(before, decayed)?, step)?;
        Ok(Updated { parameter, state })
    }
}

impl Adafactor {
    /// The gradient over the root of its mean squares, and these as they are kept from now on: `advance` makes them of
    /// what was kept and what is new.
    ///
    /// Padding has no gradient. Its mean squares stay between 0 and ε, and it takes no part in the means over the rest.
    fn direction(
        &self,
        g: &Graph,
        update: &Update<'_>,
        kept: &[Value],
        advance: &dyn Fn(Value, Value) -> Result<Value, GraphError>,
    ) -> Result<(Value, Vec<Value>), GraphError> {
        let (held, gradient) = (update.held, update.gradient);
        let square = g.mul(gradient, gradient)?;
        let &[row, col] = kept else {
            let mean_square = advance(kept[0], g.offset(square, self.epsilon)?)?;
            let direction = g.mul(gradient, g.unary(Unary::Rsqrt, mean_square)?)?;
            return Ok((direction, vec![mean_square]));
        };
        let last = held.dims().len() - 1;
        // The mean of g² + ε, in which padding counts as nothing.
        let mean_over = |dim| g.offset(held.mean(g, square, &[dim])?, self.epsilon);
        let (row, col) = (advance(row, mean_over(last)?)?, advance(col, mean_over(last - 1)?)?);

        // g √mean(row) / √row / √col, in which nothing but a gradient of size can overflow.
        let row_root = g.unary(Unary::Rsqrt, row)?;
        let mean_root = g.unary(Unary::Sqrt, self.mean_of_rows(g, &held.without(last), row)?)?;
        let batch: Vec<usize> = (0..last - 1).collect();
        let row_factor = g.mul(row_root, g.broadcast_in_dim(mean_root, &g.dims(row), &batch)?)?;
        let without = |dim: usize| (0..=last).filter(|&d| d != dim).collect::<Vec<usize>>();
        let dims = g.dims(gradient);
        let row_factor = g.broadcast_in_dim(row_factor, &dims, &without(last))?;
        let col_factor = g.unary(Unary::Rsqrt, col)?;
        let col_factor = g.broadcast_in_dim(col_factor, &dims, &without(last - 1))?;
        Ok((g.mul(g.mul(gradient, row_factor)?, col_factor)?, vec![row, col]))
    }

    /// The mean of each matrix's rows. Each is ε or more, but for padding, which may be less: so ε is left out of the
    /// sum.
    fn mean_of_rows(&self, g: &Graph, held: &Held, row: Value) -> Result<Value, GraphError> {
        let above = g.offset(row, -self.epsilon)?;
        let above = g.binary(Binary::Maximum, above, g.full_like(above, 0.0)?)?;
        g.offset(held.mean(g, above, &[held.dims().len() - 1])?, self.epsilon)
    }
}
