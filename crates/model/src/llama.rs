//! The Llama decoder: RMSNorm, rotary positions, grouped-query attention, SwiGLU.
//!
//! Units have the paths and classes of Hugging Face's modules. Activations keep their dims, `[batch, position, …]`:
//! nothing folds batch and position into one, which would hide from the partitioner that the batch is split.
//!
//! Norms, rotary angles, the softmax and the loss are computed in f32, whatever the dtype of the weights.

use std::collections::BTreeMap;

use shardwright_graph::{Graph, GraphError, Value};
use shardwright_hlo::{Comparison, Unary};
use shardwright_tensor::{DType, HostArray};

use crate::{ModelConfig, ParameterInfo, parameters};

type Result<T> = std::result::Result<T, GraphError>;

/// A value for each parameter of a model, by name.
pub struct Weights<'c> {
    config: &'c ModelConfig,
    values: BTreeMap<String, Value>,
}

impl<'c> Weights<'c> {
    /// Asks for the value of each parameter of the model, in the order of [`parameters`].
    pub fn new(config: &'c ModelConfig, mut value: impl FnMut(&ParameterInfo) -> Value) -> Weights<'c> {
        let values = parameters(config).iter().map(|p| (p.name.clone(), value(p))).collect();
        Weights { config, values }
    }

    fn get(&self, path: &str, part: &str) -> Option<Value> {
        self.values.get(&format!("{path}.{part}")).copied()
    }

    fn weight(&self, path: &str) -> Value {
        self.get(path, "weight").expect("the model has a weight for each of its modules")
    }
}

/// The logits of each next token: `f32[batch, position, vocabulary]`, from `s32[batch, position]` token ids.
///
/// # Errors
/// When the values in `weights` are not of the shapes that the configuration gives.
pub fn logits(g: &Graph, weights: &Weights<'_>, input_ids: Value) -> Result<Value> {
    let decoder = Decoder { g, config: weights.config, weights };
    g.unit("", "LlamaForCausalLM", || {
        let hidden = g.unit("model", "LlamaModel", || decoder.model(input_ids))?;
        decoder.head(hidden)
    })
}

struct Decoder<'a> {
    g: &'a Graph,
    config: &'a ModelConfig,
    weights: &'a Weights<'a>,
}

/// Cosines and sines of the rotary angles, `f32[position, head_dim / 2]`.
#[derive(Clone, Copy)]
struct Rotation {
    cos: Value,
    sin: Value,
}

impl Decoder<'_> {
    fn model(&self, input_ids: Value) -> Result<Value> {
        let g = self.g;
        let embed = "model.embed_tokens";
        let mut hidden = g.unit(embed, "Embedding", || {
            let table = g.weight(self.weights.weight(embed))?;
            g.activation(self.embed(table, input_ids)?)
        })?;
        let positions = g.dims(input_ids)[1];
        let rotation = g.unit("model.rotary_emb", "LlamaRotaryEmbedding", || self.rotation(positions))?;
        for layer in 0..self.config.num_hidden_layers() {
            let path = format!("model.layers.{layer}");
            let body = || g.activation(self.layer(&path, hidden, rotation)?);
            hidden = g.unit(&path, "LlamaDecoderLayer", body)?;
        }
        self.norm("model.norm", hidden)
    }

    /// The rows of the table; looking up the padding row does not train it.
    fn embed(&self, table: Value, input_ids: Value) -> Result<Value> {
        let g = self.g;
        let rows = g.gather_rows(table, input_ids)?;
        let Some(padding) = self.config.padding_row() else { return Ok(rows) };
        let padding = HostArray::scalar(i32::try_from(padding).expect("vocabularies are smaller"));
        let padding = g.broadcast_in_dim(g.constant(padding)?, &g.dims(input_ids), &[])?;
        let is_padding = g.compare(Comparison::Equal, input_ids, padding)?;
        let is_padding = g.broadcast_in_dim(is_padding, &g.dims(rows), &[0, 1])?;
        g.select(is_padding, g.detach(g.gather_rows(table, input_ids)?), rows)
    }

    fn head(&self, hidden: Value) -> Result<Value> {
        let g = self.g;
        let tied = self.config.tie_word_embeddings();
        let weight = self.weights.weight(if tied { "model.embed_tokens" } else { "lm_head" });
        g.unit("lm_head", "Linear", || {
            let logits = g.dot(hidden, g.weight(weight)?, &[], &[(2, 1)])?;
            g.activation(g.convert(logits, DType::F32)?)
        })
    }

    fn layer(&self, path: &str, hidden: Value, rotation: Rotation) -> Result<Value> {
        let g = self.g;
        let normed = self.norm(&format!("{path}.input_layernorm"), hidden)?;
        let attention = format!("{path}.self_attn");
        let attended =
            g.unit(&attention, "LlamaAttention", || self.attention(&attention, normed, rotation))?;
        let hidden = g.add(hidden, attended)?;
        let normed = self.norm(&format!("{path}.post_attention_layernorm"), hidden)?;
        let mlp = format!("{path}.mlp");
        g.add(hidden, g.unit(&mlp, "LlamaMLP", || self.mlp(&mlp, normed))?)
    }

    fn attention(&self, path: &str, x: Value, rotation: Rotation) -> Result<Value> {
        let (g, config) = (self.g, self.config);
        let [batch, positions] = [g.dims(x)[0], g.dims(x)[1]];
        let (heads, kv_heads) = (config.num_attention_heads(), config.num_key_value_heads());
        let (head_dim, group) = (config.head_dim(), heads / kv_heads);
        let project = |name: &str, heads: usize| {
            let y = self.linear(&format!("{path}.{name}"), x)?;
            g.reshape(y, &[batch, positions, heads, head_dim])
        };

        let query = self.rotate(project("q_proj", heads)?, rotation)?;
        let query = g.scale(query, 1.0 / (head_dim as f64).sqrt())?;
        let query = g.reshape(query, &[batch, positions, kv_heads, group, head_dim])?;
        let key = self.rotate(project("k_proj", kv_heads)?, rotation)?;
        let value = project("v_proj", kv_heads)?;

        // [batch, kv_head, position, group, position that is looked at]
        let scores = g.dot(query, key, &[(0, 0), (2, 2)], &[(4, 3)])?;
        let weights = self.causal_softmax(scores)?;
        let mixed = g.dot(weights, value, &[(0, 0), (1, 2)], &[(4, 1)])?;
        let mixed = g.transpose(mixed, &[0, 2, 1, 3, 4])?;
        let mixed = g.reshape(mixed, &[batch, positions, heads * head_dim])?;
        self.linear(&format!("{path}.o_proj"), mixed)
    }

    /// Softmax over the last dim, in which dim 2 sees itself and what comes before.
    fn causal_softmax(&self, scores: Value) -> Result<Value> {
        let g = self.g;
        let dtype = g.dtype(scores);
        let scores = g.convert(scores, DType::F32)?;
        let dims = g.dims(scores);
        let square = [dims[2], dims[4]];
        let [at, seen] = [g.iota(DType::S32, &square, 0)?, g.iota(DType::S32, &square, 1)?];
        let visible = g.compare(Comparison::GreaterEqual, at, seen)?;
        let visible = g.broadcast_in_dim(visible, &dims, &[2, 4])?;
        let scores = g.select(visible, scores, g.full_like(scores, f64::from(f32::MIN))?)?;
        g.convert(softmax(g, scores)?, dtype)
    }

    fn mlp(&self, path: &str, x: Value) -> Result<Value> {
        let g = self.g;
        let gate = self.linear(&format!("{path}.gate_proj"), x)?;
        let up = self.linear(&format!("{path}.up_proj"), x)?;
        let silu = g.mul(gate, g.unary(Unary::Logistic, gate)?)?;
        self.linear(&format!("{path}.down_proj"), g.mul(silu, up)?)
    }

    /// `x · weightᵀ (+ bias)` over the last dim; weights are stored `[out, in]`.
    fn linear(&self, path: &str, x: Value) -> Result<Value> {
        let g = self.g;
        g.unit(path, "Linear", || {
            let last = g.dims(x).len() - 1;
            let mut y = g.dot(x, g.weight(self.weights.weight(path))?, &[], &[(last, 1)])?;
            if let Some(bias) = self.weights.get(path, "bias") {
                y = g.add(y, g.broadcast_in_dim(g.weight(bias)?, &g.dims(y), &[last])?)?;
            }
            g.activation(y)
        })
    }

    fn norm(&self, path: &str, x: Value) -> Result<Value> {
        let g = self.g;
        g.unit(path, "LlamaRMSNorm", || {
            let (dtype, dims) = (g.dtype(x), g.dims(x));
            let last = dims.len() - 1;
            let outer: Vec<usize> = (0..last).collect();
            let x = g.convert(x, DType::F32)?;
            let mean_square = g.scale(g.sum(g.mul(x, x)?, &[last])?, 1.0 / dims[last] as f64)?;
            let inverse = g.unary(Unary::Rsqrt, g.offset(mean_square, self.config.rms_norm_eps())?)?;
            let normed = g.mul(x, g.broadcast_in_dim(inverse, &dims, &outer)?)?;
            let weight = g.weight(self.weights.weight(path))?;
            g.mul(g.convert(normed, dtype)?, g.broadcast_in_dim(weight, &dims, &[last])?)
        })
    }

    fn rotation(&self, positions: usize) -> Result<Rotation> {
        let g = self.g;
        let frequencies: Vec<f32> =
            self.config.rotary().inverse_frequencies().into_iter().map(|f| f as f32).collect();
        let dims = [positions, frequencies.len()];
        let frequencies =
            HostArray::from_slice(&[frequencies.len()], &frequencies).expect("as long as it is");
        let frequencies = g.broadcast_in_dim(g.constant(frequencies)?, &dims, &[1])?;
        let position = g.iota(DType::F32, &dims, 0)?;
        let angle = g.mul(position, frequencies)?;
        Ok(Rotation { cos: g.unary(Unary::Cosine, angle)?, sin: g.unary(Unary::Sine, angle)? })
    }

    /// Rotates the halves of each head of `[batch, position, head, head_dim]` against each other.
    fn rotate(&self, x: Value, rotation: Rotation) -> Result<Value> {
        let g = self.g;
        let half = g.dims(x)[3] / 2;
        let [first, second] = [g.slice_dim(x, 3, 0..half)?, g.slice_dim(x, 3, half..2 * half)?];
        let spread = |table| g.broadcast_in_dim(g.convert(table, g.dtype(x))?, &g.dims(first), &[1, 3]);
        let (cos, sin) = (spread(rotation.cos)?, spread(rotation.sin)?);
        let turned_first = g.sub(g.mul(first, cos)?, g.mul(second, sin)?)?;
        let turned_second = g.add(g.mul(second, cos)?, g.mul(first, sin)?)?;
        g.concatenate(&[turned_first, turned_second], 3)
    }
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
