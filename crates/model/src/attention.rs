//! Attention of grouped heads: each position looks at itself and at what comes before, or at a window of that.

use shardwright_graph::{Graph, GraphError, Value};
use shardwright_hlo::{Binary, Comparison, Unary};
use shardwright_tensor::DType;

use crate::LayerKind;
use crate::decoder::capped;
use crate::layer::Layer;
use crate::rotary::Rotation;

type Result<T> = std::result::Result<T, GraphError>;

impl Layer<'_> {
    pub(crate) fn attention(&self, x: Value) -> Result<Value> {
        let (g, config) = (self.g, self.config);
        let [batch, positions] = [g.dims(x)[0], g.dims(x)[1]];
        let (heads, kv_heads) = (config.num_attention_heads(), config.num_key_value_heads());
        let (head_dim, group) = (config.head_dim(), heads / kv_heads);

        let query = self.rotated("q", heads, x)?;
        let query = scaled(g, query, config.choices().query_scale)?;
        let query = g.reshape(query, &[batch, positions, kv_heads, group, head_dim])?;
        let key = self.rotated("k", kv_heads, x)?;
        let value = self.heads("v_proj", kv_heads, x)?;

        // [batch, kv_head, position, group, position that is looked at]
        let scores = g.dot(query, key, &[(0, 0), (2, 2)], &[(4, 3)])?;
        let weights = self.masked_softmax(scores)?;
        let mixed = g.dot(weights, value, &[(0, 0), (1, 2)], &[(4, 1)])?;
        let mixed = g.transpose(mixed, &[0, 2, 1, 3, 4])?;
        let mixed = g.reshape(mixed, &[batch, positions, heads * head_dim])?;
        self.linear("self_attn.o_proj", mixed)
    }

    /// A projection as `[batch, position, head, head_dim]`.
    fn heads(&self, projection: &str, heads: usize, x: Value) -> Result<Value> {
        let dims = self.g.dims(x);
        let y = self.linear(&format!("self_attn.{projection}"), x)?;
        self.g.reshape(y, &[dims[0], dims[1], heads, self.config.head_dim()])
    }

    /// Queries or keys, turned by their positions.
    fn rotated(&self, letter: &str, heads: usize, x: Value) -> Result<Value> {
        let mut y = self.heads(&format!("{letter}_proj"), heads, x)?;
        if self.config.choices().query_key_norms {
            y = self.norm(&format!("self_attn.{letter}_norm"), y)?;
        }
        rotate(self.g, y, self.rotation)
    }

    /// Softmax over the last dim of scores, of what each position of dim 2 sees.
    fn masked_softmax(&self, scores: Value) -> Result<Value> {
        let g = self.g;
        let (dtype, dims) = (g.dtype(scores), g.dims(scores));
        let mut scores = g.convert(scores, DType::F32)?;
        if let Some(cap) = self.config.choices().score_cap {
            scores = capped(g, scores, cap)?;
        }
        let visible = g.broadcast_in_dim(self.visible(dims[2])?, &dims, &[2, 4])?;
        // The least finite number: where all are masked, infinities would give NaN.
        let scores = g.select(visible, scores, g.full_like(scores, f64::from(f32::MIN))?)?;
        g.convert(softmax(g, scores)?, dtype)
    }

    /// Whether the position of dim 0 sees that of dim 1.
    fn visible(&self, positions: usize) -> Result<Value> {
        let g = self.g;
        let square = [positions, positions];
        let [at, seen] = [g.iota(DType::S32, &square, 0)?, g.iota(DType::S32, &square, 1)?];
        let past = g.compare(Comparison::GreaterEqual, at, seen)?;
        match (self.kind, self.config.sliding_window()) {
            (LayerKind::Sliding, Some(window)) if window < positions => {
                let before_window = g.offset(at, -(window as f64))?;
                let near = g.compare(Comparison::Greater, seen, before_window)?;
                g.binary(Binary::And, past, near)
            }
            _ => Ok(past),
        }
    }
}

/// `x · factor`, with the factor not rounded to the dtype of `x`.
fn scaled(g: &Graph, x: Value, factor: f64) -> Result<Value> {
    g.convert(g.scale(g.convert(x, DType::F32)?, factor)?, g.dtype(x))
}

/// Rotates the halves of each head of `[batch, position, head, head_dim]` against each other.
fn rotate(g: &Graph, x: Value, rotation: Rotation) -> Result<Value> {
    let half = g.dims(x)[3] / 2;
    let [first, second] = [g.slice_dim(x, 3, 0..half)?, g.slice_dim(x, 3, half..2 * half)?];
    let spread = |table| g.broadcast_in_dim(g.convert(table, g.dtype(x))?, &g.dims(first), &[1, 3]);
    let (cos, sin) = (spread(rotation.cos)?, spread(rotation.sin)?);
    let turned_first = g.sub(g.mul(first, cos)?, g.mul(second, sin)?)?;
    let turned_second = g.add(g.mul(second, cos)?, g.mul(first, sin)?)?;
    g.concatenate(&[turned_first, turned_second], 3)
}

/// Softmax over the last dim.
fn softmax(g: &Graph, x: Value) -> Result<Value> {
    let dims = g.dims(x);
    let last = dims.len() - 1;
    let outer: Vec<usize> = (0..last).collect();
    let spread = |v| g.broadcast_in_dim(v, &dims, &outer);
    let exponentials = g.unary(Unary::Exponential, g.sub(x, spread(g.detach(g.max(x, &[last])?))?)?)?;
    g.div(exponentials, spread(g.sum(exponentials, &[last])?)?)
}
