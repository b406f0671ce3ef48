//! The decoder: a table of tokens, layers of attention and MLP, an output layer. Families differ in some choices, which
//! the configuration holds; there is one decoder for all.
//!
//! Units have the paths and classes of Hugging Face's modules. Activations keep their dims, `[batch, position, …]`:
//! nothing folds batch and position into one, which would hide from the partitioner that the batch is split.
//!
//! A layer is a function of its weights, by their names within it, of what comes in, of the rotation and of its
//! [`LayerKind`]; layers of one kind are the same function.

use std::collections::BTreeMap;

use shardwright_graph::{Graph, GraphError, Value};
use shardwright_hlo::{Comparison, Unary};
use shardwright_tensor::{DType, HostArray};

use crate::layer::{Layer, norm};
use crate::lora::{adapter_name, low_rank};
use crate::rotary::{Rotation, rotation};
use crate::stacked::LAYERS;
use crate::{
    LayerKind, Lora, ModelConfig, ParameterInfo, StackError, StackedParameter, parameters, stacked_parameters,
};

type Result<T, E = GraphError> = std::result::Result<T, E>;

/// A value for each parameter of a model, by name.
pub struct Weights<'c> {
    config: &'c ModelConfig,
    lora: Option<&'c Lora>,
    values: BTreeMap<String, Value>,
}

impl<'c> Weights<'c> {
    /// Asks for the value of each parameter of the model, in the order of [`parameters`]. The values may be of any
    /// floating-point type.
    pub fn new(config: &'c ModelConfig, mut value: impl FnMut(&ParameterInfo) -> Value) -> Weights<'c> {
        let values = parameters(config).iter().map(|p| (p.name.clone(), value(p))).collect();
        Weights { config, lora: None, values }
    }

    /// The same of a model with adapters, whose own parameters come [behind](Lora::parameters) the model's.
    pub fn adapted(
        config: &'c ModelConfig,
        lora: &'c Lora,
        mut value: impl FnMut(&ParameterInfo) -> Value,
    ) -> Weights<'c> {
        let mut weights = Weights::new(config, &mut value);
        weights.values.extend(lora.parameters().into_iter().map(|p| (p.name.clone(), value(&p))));
        Weights { lora: Some(lora), ..weights }
    }

    /// The same for a model whose layers are stacked, in the order of [`stacked_parameters`]. [`logits`] then runs over
    /// its layers in a loop.
    ///
    /// # Errors
    /// When layers are of several kinds.
    pub fn stacked(
        config: &'c ModelConfig,
        mut value: impl FnMut(&StackedParameter) -> Value,
    ) -> Result<Weights<'c>, StackError> {
        let values = stacked_parameters(config)?.into_iter().map(|p| (p.name.clone(), value(&p))).collect();
        Ok(Weights { config, lora: None, values })
    }

    fn get(&self, name: &str) -> Value {
        *self.values.get(name).expect("the model has a weight for each of its modules")
    }

    /// The weights of the module at `path`, by their names within it.
    fn within(&self, path: &str) -> BTreeMap<&str, Value> {
        let from = format!("{path}.");
        let inside = self.values.range(from.clone()..).map_while(|(name, value)| {
            let name = name.strip_prefix(&from)?;
            Some((name, *value))
        });
        inside.collect()
    }
}

/// The logits of each next token: `f32[batch, position, vocabulary]`, from `s32[batch, position]` token ids.
///
/// Activations have the dtype of the token table. Norms, rotary angles, scores and their softmax, the functions inside
/// MLPs, and the caps of scores and logits are computed in f32; logits are f32.
///
/// A position sees itself and what comes before. So padding behind a text changes none of the text's logits, and takes no
/// mask: labels of [`IGNORED_LABEL`](crate::IGNORED_LABEL) keep it out of the loss. Texts that share an example see
/// those before them; padding before a text would be seen by it.
///
/// ```
/// use shardwright_graph::Graph;
/// use shardwright_hlo::ArgumentKind;
/// use shardwright_model::{ModelConfig, Weights, logits};
/// use shardwright_tensor::{DType, TensorType};
///
/// let text = r#"{"model_type": "qwen3", "hidden_size": 64, "intermediate_size": 176, "num_hidden_layers": 2,
///                "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 24, "vocab_size": 260}"#;
/// let config = ModelConfig::parse(text, "config.json")?;
/// let g = Graph::new("forward");
/// let weights = Weights::new(&config, |p| {
///     let ty = TensorType::new(DType::Bf16, p.shape.clone()).expect("a small array");
///     g.argument(&p.name, ty, ArgumentKind::Parameter)
/// });
/// let input_ids = g.argument("input_ids", TensorType::new(DType::S32, [8, 32])?, ArgumentKind::Batch);
/// let logits = logits(&g, &weights, input_ids)?;
/// assert_eq!(g.ty(logits).to_string(), "f32[8,32,260]");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// When the values in `weights` are not of the shapes that the configuration gives.
pub fn logits(g: &Graph, weights: &Weights<'_>, input_ids: Value) -> Result<Value> {
    let decoder = Decoder { g, config: weights.config, weights };
    let classes = weights.config.classes();
    g.unit("", classes.causal_lm, || {
        let hidden = g.unit("model", classes.model, || decoder.model(input_ids))?;
        decoder.head(hidden)
    })
}

struct Decoder<'a> {
    g: &'a Graph,
    config: &'a ModelConfig,
    weights: &'a Weights<'a>,
}

impl Decoder<'_> {
    fn model(&self, input_ids: Value) -> Result<Value> {
        let (g, classes) = (self.g, self.config.classes());
        let embed = || g.activation(self.embed(input_ids)?);
        let mut hidden = g.unit("model.embed_tokens", classes.embedding, embed)?;
        let positions = g.dims(input_ids)[1];
        let rotations = g.unit("model.rotary_emb", classes.rotary, || self.rotations(positions))?;
        let stacks = self.weights.within(LAYERS);
        if stacks.is_empty() {
            for (index, &kind) in self.config.layer_kinds().iter().enumerate() {
                let path = format!("model.layers.{index}");
                hidden = self.layer(&path, &self.weights.within(&path), kind, rotations, hidden)?;
            }
        } else {
            hidden = self.stacked(&stacks, rotations, hidden)?;
        }
        norm(g, self.config, "model.norm", self.weights.get("model.norm.weight"), hidden)
    }

    fn layer(
        &self,
        path: &str,
        weights: &BTreeMap<&str, Value>,
        kind: LayerKind,
        rotations: [Rotation; 2],
        hidden: Value,
    ) -> Result<Value> {
        let (g, config) = (self.g, self.config);
        let rotation = match kind {
            LayerKind::Full => rotations[0],
            LayerKind::Sliding => rotations[1],
        };
        let layer = Layer { g, config, lora: self.weights.lora, path, weights, kind, rotation };
        g.unit(path, config.classes().decoder_layer, || g.activation(layer.run(hidden)?))
    }

    /// All layers, in a loop over the rows of their stacked weights.
    fn stacked(
        &self,
        stacks: &BTreeMap<&str, Value>,
        rotations: [Rotation; 2],
        hidden: Value,
    ) -> Result<Value> {
        let kinds = self.config.layer_kinds();
        let xs: Vec<Value> = stacks.values().copied().collect();
        let body = |_, carry: &[Value], rows: &[Value]| {
            let weights = stacks.keys().copied().zip(rows.iter().copied()).collect();
            Ok((vec![self.layer(LAYERS, &weights, kinds[0], rotations, carry[0])?], Vec::new()))
        };
        Ok(self.g.scan(kinds.len(), &[hidden], &xs, body)?.0[0])
    }

    /// The rotation in layers that see everything, and that in layers that see a window.
    fn rotations(&self, positions: usize) -> Result<[Rotation; 2]> {
        let [full, sliding] = [LayerKind::Full, LayerKind::Sliding].map(|kind| self.config.rotary(kind));
        let rotation = |config| rotation(self.g, config, positions);
        let first = rotation(full)?;
        Ok([first, if sliding == full { first } else { rotation(sliding)? }])
    }

    /// The rows of the token table; looking up the padding row does not train it.
    fn embed(&self, input_ids: Value) -> Result<Value> {
        let g = self.g;
        let table = g.weight(self.weights.get("model.embed_tokens.weight"))?;
        let mut rows = g.gather_rows(table, input_ids)?;
        if let Some(padding) = self.config.padding_row() {
            let padding = HostArray::scalar(i32::try_from(padding).expect("vocabularies are smaller"));
            let padding = g.broadcast_in_dim(g.constant(padding)?, &g.dims(input_ids), &[])?;
            let is_padding = g.compare(Comparison::Equal, input_ids, padding)?;
            let is_padding = g.broadcast_in_dim(is_padding, &g.dims(rows), &[0, 1])?;
            rows = g.select(is_padding, g.detach(g.gather_rows(table, input_ids)?), rows)?;
        }
        match self.config.choices().embedding_scale {
            // Rounded to the dtype of the table, as the original rounds it.
            Some(scale) => g.scale(rows, scale),
            None => Ok(rows),
        }
    }

    fn head(&self, hidden: Value) -> Result<Value> {
        let g = self.g;
        let tied = self.config.tie_word_embeddings();
        let weight = self.weights.get(if tied { "model.embed_tokens.weight" } else { "lm_head.weight" });
        g.unit("lm_head", "Linear", || {
            let weight = g.convert(g.weight(weight)?, g.dtype(hidden))?;
            let mut logits = g.dot(hidden, weight, &[], &[(2, 1)])?;
            if let Some(scale) = self.weights.lora.and_then(|lora| lora.scale("lm_head")) {
                let adapter = ['A', 'B'].map(|letter| self.weights.get(&adapter_name("lm_head", letter)));
                logits = g.add(logits, low_rank(g, hidden, adapter, scale)?)?;
            }
            let logits = g.convert(logits, DType::F32)?;
            g.activation(match self.config.choices().logit_cap {
                Some(cap) => capped(g, logits, cap)?,
                None => logits,
            })
        })
    }
}

/// `cap · tanh(x / cap)`: near 0 as `x`, and never beyond the cap.
pub(crate) fn capped(g: &Graph, x: Value, cap: f64) -> Result<Value> {
    let bounded = g.unary(Unary::Tanh, g.div(x, g.full_like(x, cap)?)?)?;
    g.scale(bounded, cap)
}
