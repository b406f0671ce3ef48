//! Settings of the model and its dtypes.

use std::path::PathBuf;

use super::super::choice::{ComputeType, DotPrecision, WeightType};
use super::super::failure::Failure;
use super::super::value::Value;
use super::{Layer, Setting, Spec, default, optional, settings};

settings! {
    /// What is trained, and in which dtypes.
    ModelSettings "Model" {
        /// The config.json of a new model, or the folder it is in; the weights are made from the seed
        config_name: PathBuf;
        /// A folder with config.json, model.safetensors and tokenizer.json; training goes on from its weights
        model_name_or_path: PathBuf;
        /// A tokenizer.json, or the folder it is in [default: the one of model_name_or_path, else one is trained on the
        /// text]
        tokenizer_name: PathBuf;
        /// What weights are saved in and layers compute in: float32, bfloat16, or auto for what config.json says; sums,
        /// losses and updates are float32 in any case
        torch_dtype | dtype: WeightType = "float32";
        /// Layers compute in bfloat16, whatever weights are saved in
        bf16: bool = "no";
        /// Keep float32 weights while training, also where they are saved in bfloat16
        master_weights: bool = "yes";
        /// What gradients are summed over devices in: float32 or bfloat16
        reduce_dtype: ComputeType = "float32";
        /// How exactly float32 matrices are multiplied: default is the fastest that the device has, high, highest
        dot_precision: DotPrecision = "default";
    }
}
