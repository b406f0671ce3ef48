//! Settings of the optimizer.

use super::super::choice::{OptimizerName, Scheduler};
use super::super::failure::Failure;
use super::super::value::{AtLeast, Names, NonNegative, Options, Positive, Share, Source, Value};
use super::{Layer, Setting, Spec, default, optional, settings};

settings! {
    /// How parameters are updated.
    OptimizationSettings "Optimization" {
        /// The optimizer: adamw_torch, adafactor, sgd or lion_32bit
        optim: OptimizerName = "adamw_torch";
        /// Its options, as NAME=VALUE,... or a JSON object
        optim_args: Options;
        /// The highest learning rate
        learning_rate: NonNegative = "5e-5";
        /// Decoupled weight decay, of all parameters but biases and norms
        weight_decay: NonNegative = "0.0";
        /// AdamW's decay of the mean of gradients
        adam_beta1: Share<false> = "0.9";
        /// AdamW's decay of the mean of squared gradients
        adam_beta2: Share<false> = "0.999";
        /// What AdamW adds to the root of the mean square
        adam_epsilon: NonNegative = "1e-8";
        /// The learning rate over time: linear, cosine, cosine_with_restarts, cosine_with_min_lr, polynomial, constant,
        /// constant_with_warmup, inverse_sqrt or warmup_stable_decay
        lr_scheduler_type: Scheduler = "linear";
        /// Its options, such as '{"num_cycles": 2}'
        lr_scheduler_kwargs: Options;
        /// Steps over which the learning rate rises from 0; overrides warmup_ratio
        warmup_steps: AtLeast<0> = "0";
        /// The same as a part of all steps
        warmup_ratio: Share<true> = "0.0";
        /// Scale gradients down to this global norm; 0 leaves them as they are
        max_grad_norm: NonNegative = "1.0";
        /// Keep each number of a gradient between this one and its negative
        max_grad_value: Positive;
        /// Limit the gradients of these modules or parameters only; max_grad_norm is then their norm
        max_grad_within: Names;
        /// What is different for some parameters: a JSON list of {"pattern": ..., "lr": ..., "weight_decay": ...,
        /// "trained": ...}, or its file; of several that fit, the last counts
        parameter_groups: Source;
        /// Patterns of modules or parameters that are not trained, such as embed_tokens or layers.*.mlp
        freeze: Names;
    }
}
