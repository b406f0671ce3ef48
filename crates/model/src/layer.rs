//! One layer of the decoder.

use std::collections::BTreeMap;

use shardwright_graph::{Graph, GraphError, Value};
use shardwright_hlo::Unary;
use shardwright_tensor::DType;

use crate::family::NormForm;
use crate::lora::{adapter_name, low_rank};
use crate::{LayerKind, Lora, ModelConfig, Rotation};

type Result<T> = std::result::Result<T, GraphError>;

/// One layer, with all that it needs besides what comes in.
pub(crate) struct Layer<'a> {
    pub(crate) g: &'a Graph,
    pub(crate) config: &'a ModelConfig,
    pub(crate) lora: Option<&'a Lora>,
    /// The path of its unit.
    pub(crate) path: &'a str,
    /// Its weights, by their names within it: `self_attn.q_proj.weight`.
    pub(crate) weights: &'a BTreeMap<&'a str, Value>,
    pub(crate) kind: LayerKind,
    /// The rotation for layers of its kind.
    pub(crate) rotation: Rotation,
}

impl Layer<'_> {
    /// What the layer makes of the `[batch, position, hidden]` residual stream.
    pub(crate) fn run(&self, hidden: Value) -> Result<Value> {
        let (g, classes) = (self.g, self.config.classes());
        let norms_outputs = self.config.choices().norms_outputs;
        let normed_after = |name: &str, x| if norms_outputs { self.norm(name, x) } else { Ok(x) };

        let normed = self.norm("input_layernorm", hidden)?;
        let attended = self.unit("self_attn", classes.attention, || self.attention(normed))?;
        let hidden = g.add(hidden, normed_after("post_attention_layernorm", attended)?)?;

        let before_mlp = if norms_outputs { "pre_feedforward_layernorm" } else { "post_attention_layernorm" };
        let normed = self.norm(before_mlp, hidden)?;
        let widened = self.unit("mlp", classes.mlp, || self.mlp(normed))?;
        g.add(hidden, normed_after("post_feedforward_layernorm", widened)?)
    }

    fn mlp(&self, x: Value) -> Result<Value> {
        let g = self.g;
        let gate = self.linear("mlp.gate_proj", x)?;
        let up = self.linear("mlp.up_proj", x)?;
        let gate = self.config.choices().activation.apply(g, gate)?;
        self.linear("mlp.down_proj", g.mul(gate, up)?)
    }

    /// `x · weightᵀ (+ bias)` over the last dim, and what its adapter adds; weights are stored `[out, in]`.
    pub(crate) fn linear(&self, name: &str, x: Value) -> Result<Value> {
        let g = self.g;
        self.unit(name, "Linear", || {
            let last = g.dims(x).len() - 1;
            let as_x = |weight| g.convert(g.weight(weight)?, g.dtype(x));
            let mut y = g.dot(x, as_x(self.weight(&format!("{name}.weight")))?, &[], &[(last, 1)])?;
            if let Some(&bias) = self.weights.get(&*format!("{name}.bias")) {
                y = g.add(y, g.broadcast_in_dim(as_x(bias)?, &g.dims(y), &[last])?)?;
            }
            if let Some(scale) = self.lora.and_then(|lora| lora.scale(&format!("{}.{name}", self.path))) {
                let adapter = ['A', 'B'].map(|letter| self.weight(&adapter_name(name, letter)));
                y = g.add(y, low_rank(g, x, adapter, scale)?)?;
            }
            g.activation(y)
        })
    }

    pub(crate) fn norm(&self, name: &str, x: Value) -> Result<Value> {
        let weight = self.weight(&format!("{name}.weight"));
        norm(self.g, self.config, &format!("{}.{name}", self.path), weight, x)
    }

    fn weight(&self, name: &str) -> Value {
        *self.weights.get(name).expect("a layer has a weight for each of its modules and adapters")
    }

    fn unit<T>(&self, name: &str, class: &str, body: impl FnOnce() -> Result<T>) -> Result<T> {
        self.g.unit(format!("{}.{name}", self.path), class, body)
    }
}

/// `x` over the root of its mean square along the last dim, times the weight.
pub(crate) fn norm(g: &Graph, config: &ModelConfig, path: &str, weight: Value, x: Value) -> Result<Value> {
    g.unit(path, config.classes().norm, || {
        let (dtype, dims) = (g.dtype(x), g.dims(x));
        let last = dims.len() - 1;
        let outer: Vec<usize> = (0..last).collect();
        let x = g.convert(x, DType::F32)?;
        let mean_square = g.scale(g.sum(g.mul(x, x)?, &[last])?, 1.0 / dims[last] as f64)?;
        let inverse = g.unary(Unary::Rsqrt, g.offset(mean_square, config.rms_norm_eps())?)?;
        let normed = g.mul(x, g.broadcast_in_dim(inverse, &dims, &outer)?)?;
        let factor_as = |dtype| g.convert(g.weight(weight)?, dtype);
        let spread = |factor| g.broadcast_in_dim(factor, &dims, &[last]);
        match config.choices().norm {
            NormForm::Factor => g.mul(g.convert(normed, dtype)?, spread(factor_as(dtype)?)?),
            NormForm::OffsetFromOne => {
                let factor = g.offset(factor_as(DType::F32)?, 1.0)?;
                g.convert(g.mul(normed, spread(factor)?)?, dtype)
            }
        }
    })
}
