//! Settings of adapters.

use std::path::PathBuf;

use super::super::failure::Failure;
use super::super::value::{AtLeast, Names, NonNegative, Source, Value};
use super::{Layer, Setting, Spec, default, optional, settings};

settings! {
    /// What is trained in place of the model.
    AdapterSettings "Adapters (LoRA)" {
        /// Train adapters beside the model's projections and leave its weights as they are; any of the settings below
        /// means the same
        use_peft: bool = "no";
        /// Which adapters: PEFT's adapter_config.json, or its text; the settings below are put in place of what it says
        lora_config: Source;
        /// The features between an adapter's two matrices [default: 8]
        lora_r: AtLeast<1>;
        /// The scale of what adapters add, times lora_r [default: 8]
        lora_alpha: NonNegative;
        /// The projections that have adapters: ends of their names, one regular expression of whole names, or all-linear
        /// [default: q_proj v_proj]
        lora_target_modules: Names;
        /// Modules that are trained in full and saved with the adapters, such as lm_head
        lora_modules_to_save: Names;
        /// Divide lora_alpha by the root of lora_r
        use_rslora: bool;
        /// A folder with adapter_config.json and adapter_model.safetensors, which training goes on from
        adapter_name_or_path: PathBuf;
    }
}
