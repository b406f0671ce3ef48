//! Decoders as models to be trained: the next token is predicted.

use shardwright_graph::{Graph, GraphError, Value};
use shardwright_model::{
    Lora, ModelConfig, ModuleInfo, ParameterInfo, TensorError, TensorStyle, Weights, causal_loss, logits,
    modules, parameters, tensor_plan,
};
use shardwright_partition::{TensorPlan, TensorRule, TensorSplit};
use shardwright_tensor::{DType, TensorType};

use crate::{BatchInput, LossDenominator, Model, ModelLoss};

/// A decoder with its training loss. A batch is `input_ids` and `labels`, both `s32[batch, position]`; a label of −100
/// is not predicted.
#[derive(Clone, Debug, PartialEq)]
pub struct CausalLm {
    /// The decoder.
    pub config: ModelConfig,
    /// Tokens of one example.
    pub block_size: usize,
    /// What the summed loss is divided by.
    pub denominator: LossDenominator,
    /// Adapters of the decoder, which are trained in its place.
    pub lora: Option<Lora>,
}

impl Model for CausalLm {
    fn parameters(&self) -> Vec<ParameterInfo> {
        let adapters = self.lora.iter().flat_map(Lora::parameters);
        parameters(&self.config).into_iter().chain(adapters).collect()
    }

    fn trains(&self, parameter: &ParameterInfo) -> bool {
        self.lora.as_ref().is_none_or(|lora| lora.trains(&parameter.name))
    }

    fn modules(&self) -> Vec<ModuleInfo> {
        modules(&self.config)
    }

    fn wrapped_by_default(&self) -> Vec<&'static str> {
        vec![self.config.decoder_layer_class()]
    }

    fn tensor_plan(&self, devices: usize) -> Result<TensorPlan, TensorError> {
        let rule = |modules: &str, split| TensorRule {
            modules: modules.parse().expect("models name their modules by words"),
            split,
        };
        let plan = tensor_plan(&self.config, devices)?;
        // Of `A` and `B`, one has the dim that the projection's weight is split by; the other has the rank only.
        let adapters = plan.iter().filter(|_| self.lora.is_some()).map(|(modules, style)| {
            let whole = if *style == TensorStyle::Rowwise { "lora_B" } else { "lora_A" };
            rule(&format!("{modules}.{whole}"), TensorSplit::Replicated)
        });
        let modules = plan.iter().map(|(modules, style)| {
            rule(
                modules,
                match style {
                    TensorStyle::Colwise => TensorSplit::Colwise,
                    TensorStyle::ColwiseGathered => TensorSplit::ColwiseGathered,
                    TensorStyle::Rowwise => TensorSplit::Rowwise,
                    TensorStyle::Replicated => TensorSplit::Replicated,
                },
            )
        });
        Ok(TensorPlan { rules: adapters.chain(modules).collect() })
    }

    fn batch(&self, examples: usize) -> Result<Vec<BatchInput>, GraphError> {
        let ty = TensorType::new(DType::S32, [examples, self.block_size])?;
        Ok(["input_ids", "labels"].map(|name| BatchInput { name, ty: ty.clone() }).into())
    }

    fn loss(&self, g: &Graph, parameters: &[Value], batch: &[Value]) -> Result<ModelLoss, GraphError> {
        let mut used = parameters.iter().copied();
        let next = |_: &ParameterInfo| used.next().expect("one for each parameter");
        let weights = match &self.lora {
            Some(lora) => Weights::adapted(&self.config, lora, next),
            None => Weights::new(&self.config, next),
        };
        let loss = causal_loss(g, logits(g, &weights, batch[0])?, batch[1])?;
        let count = match self.denominator {
            LossDenominator::Labels => loss.labels,
            LossDenominator::Targets => loss.targets,
        };
        Ok(ModelLoss { sum: loss.sum, count })
    }
}
