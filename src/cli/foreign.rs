//! Settings of `TrainingArguments` and `run_clm.py` that this program has not: each is known, and either changes nothing
//! here, which is noted, or would change what happens, which is refused with its reason.
//!
//! Files that list all arguments of a run pass if what is refused is at the value that means nothing.

use serde_json::Value as Json;

use super::failure::Failure;
use super::settings::{Given, Layer, Setting, Written};

/// What follows from settings being given.
struct Row {
    /// Their names, between blanks.
    names: &'static str,
    means: Means,
    why: &'static str,
}

/// What a setting means here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Means {
    /// Nothing, whatever its value.
    Nothing,
    /// What cannot be done.
    Refused,
    /// The same, unless it is off.
    RefusedUnlessOff,
    /// The same, unless it is on.
    RefusedUnlessOn,
    /// The same, unless it is 0.
    RefusedUnlessZero,
}

const TABLE: &[Row] = &[
    // Sharding.
    row("deepspeed", Means::RefusedUnlessOff, "another sharding engine; use fsdp"),
    row("sharded_ddp", Means::RefusedUnlessOff, "use fsdp"),
    row(
        "parallelism_config mp_parameters",
        Means::RefusedUnlessOff,
        "mesh names the axes, such as data=2,fsdp=4",
    ),
    row(
        "accelerator_config",
        Means::Refused,
        "what it says is said by settings here, such as dataloader_drop_last and gradient_accumulation_steps",
    ),
    // Devices.
    row("use_cpu no_cuda use_mps_device", Means::RefusedUnlessOff, "--plugin names the devices"),
    row("tpu_num_cores", Means::RefusedUnlessOff, "mesh names the devices"),
    row(
        "local_rank ddp_backend ddp_broadcast_buffers ddp_bucket_cap_mb ddp_find_unused_parameters ddp_timeout xpu_backend",
        Means::Nothing,
        "one process drives all its devices",
    ),
    row("use_ipex", Means::Nothing, "the plugin's compiler chooses kernels"),
    // Precision.
    row(
        "fp16 fp16_full_eval",
        Means::RefusedUnlessOff,
        "float16 takes loss scaling, which is not there; use bf16",
    ),
    row("fp16_opt_level fp16_backend", Means::Nothing, "there is no float16"),
    row("half_precision_backend", Means::Nothing, "there is one way to compute in bfloat16"),
    row("bf16_full_eval", Means::Nothing, "evaluation computes in the dtypes of training"),
    row("tf32", Means::Nothing, "dot_precision says how exactly matrices are multiplied"),
    // Adapters.
    row("lora_dropout", Means::RefusedUnlessZero, "nothing is dropped out"),
    row("use_dora", Means::RefusedUnlessOff, "adapters are plain LoRA; use_rslora is there"),
    row(
        "lora_target_parameters",
        Means::RefusedUnlessOff,
        "adapters stand beside modules; use lora_target_modules",
    ),
    row(
        "load_in_4bit load_in_8bit",
        Means::RefusedUnlessOff,
        "weights are not quantized; use torch_dtype bfloat16",
    ),
    // Compilers and kernels.
    row(
        "torch_compile torch_compile_backend torch_compile_mode torchdynamo jit_mode_eval",
        Means::Nothing,
        "the step is always compiled",
    ),
    row(
        "use_liger_kernel liger_kernel_config attn_implementation",
        Means::Nothing,
        "the plugin's compiler chooses kernels",
    ),
    row("torch_empty_cache_steps", Means::Nothing, "memory is planned when the step is compiled"),
    // The Hub.
    row(
        "dataset_name dataset_config_name",
        Means::RefusedUnlessOff,
        "nothing is looked up on the Hugging Face Hub; give files or folders of text with train_file",
    ),
    row("push_to_hub", Means::RefusedUnlessOff, "nothing is sent anywhere; upload output_dir after the run"),
    row(
        "push_to_hub_model_id push_to_hub_organization push_to_hub_token hub_always_push hub_model_id hub_private_repo hub_revision hub_strategy hub_token",
        Means::Nothing,
        "nothing is sent to the Hub",
    ),
    row("token use_auth_token model_revision", Means::Nothing, "nothing is asked of the Hub"),
    // Model and tokenizer.
    row("config_overrides", Means::RefusedUnlessOff, "write the change into the file of config_name"),
    row("model_type", Means::RefusedUnlessOff, "the config.json of config_name says it"),
    row("trust_remote_code", Means::RefusedUnlessOff, "no code of a model's folder is run"),
    row("use_fast_tokenizer", Means::RefusedUnlessOn, "a tokenizer is a tokenizer.json"),
    row("low_cpu_mem_usage", Means::Nothing, "weights are always read slice by slice"),
    // Data.
    row(
        "dataloader_num_workers dataloader_persistent_workers dataloader_pin_memory dataloader_prefetch_factor",
        Means::Nothing,
        "batches are made in the background, on one thread",
    ),
    row("preprocessing_num_workers", Means::Nothing, "all processors tokenize"),
    row("streaming", Means::Nothing, "files are always read in parts"),
    row("keep_linebreaks", Means::RefusedUnlessOn, "line breaks are part of the text"),
    row("group_by_length length_column_name", Means::Nothing, "all examples have the same length"),
    row("remove_unused_columns", Means::Nothing, "only the column of the text is read"),
    row("label_names", Means::Nothing, "labels are the text itself"),
    // Training.
    row("adafactor", Means::RefusedUnlessOff, "optim names the optimizer: --optim adafactor"),
    row("optim_target_modules", Means::RefusedUnlessOff, "only optimizers that are not there take it"),
    row("auto_find_batch_size", Means::RefusedUnlessOff, "dry_run tells what a batch takes"),
    row("label_smoothing_factor", Means::RefusedUnlessZero, "losses are plain cross entropies"),
    row("neftune_noise_alpha", Means::RefusedUnlessOff, "nothing is added to embeddings"),
    row("gradient_checkpointing_kwargs", Means::Nothing, "there is one way to compute layers again"),
    row("average_tokens_across_devices", Means::Nothing, "a loss is a mean over the tokens of all devices"),
    row("full_determinism", Means::Nothing, "a run gives the same numbers each time"),
    row("past_index", Means::Nothing, "models keep nothing from batch to batch"),
    // Evaluation.
    row("do_predict", Means::RefusedUnlessOff, "evaluate with do_eval"),
    row(
        "eval_delay",
        Means::RefusedUnlessZero,
        "evaluations begin with the first that eval_strategy asks for",
    ),
    row(
        "eval_accumulation_steps eval_do_concat_batches eval_use_gather_object batch_eval_metrics prediction_loss_only include_for_metrics include_inputs_for_metrics use_legacy_prediction_loop",
        Means::Nothing,
        "evaluation gives a loss and keeps no logits",
    ),
    // Log.
    row("disable_tqdm", Means::Nothing, "--quiet shows no bar"),
    row("log_level log_level_replica log_on_each_node", Means::Nothing, "--verbose shows more, --quiet less"),
    row(
        "include_num_input_tokens_seen include_tokens_per_second",
        Means::Nothing,
        "tokens are always counted",
    ),
    row("skip_memory_metrics tpu_metrics_debug", Means::Nothing, "--metrics_file writes what is counted"),
    row("ray_scope", Means::Nothing, "no hyperparameters are searched"),
    row("project trackio_space_id", Means::Nothing, "no service gets the log"),
    row("debug", Means::RefusedUnlessOff, "--verbose tells what happens, --trace writes a timeline"),
    // Checkpoints.
    row(
        "resume_from_checkpoint load_best_model_at_end",
        Means::RefusedUnlessOff,
        "checkpoints are not written yet",
    ),
    row("metric_for_best_model greater_is_better", Means::Nothing, "no best model is chosen"),
    row(
        "restore_callback_states_from_checkpoint ignore_data_skip",
        Means::Nothing,
        "checkpoints are not written yet",
    ),
    row(
        "save_steps save_total_limit save_on_each_node save_only_model",
        Means::Nothing,
        "checkpoints are not written yet, the final model always is",
    ),
    row("save_safetensors", Means::RefusedUnlessOn, "weights are saved as safetensors"),
];

const fn row(names: &'static str, means: Means, why: &'static str) -> Row {
    Row { names, means, why }
}

/// The names of all of them.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    TABLE.iter().flat_map(|row| row.names.split_whitespace())
}

/// The name as the table has it, if it is there; its words may be joined by dashes.
pub(super) fn find(name: &str) -> Option<&'static str> {
    let name = name.replace('-', "_");
    names().find(|known| *known == name)
}

/// Refuses those that would change what happens, and gives a notice for each other one that is not off.
pub(super) fn check(layers: &[&Layer]) -> Result<Vec<String>, Failure> {
    let mut notices = Vec::new();
    for row in TABLE {
        for name in row.names.split_whitespace() {
            let Some(given) = layers.iter().find_map(|layer| layer.get(name)) else { continue };
            let word = word(given);
            if row.means == Means::Nothing {
                let notice = || format!("{name} has no effect: {}", row.why);
                notices.extend((!is_off(&word)).then(notice));
            } else if !row.means.allows(&word) {
                return Err(Setting::of(name, given).wrong(format!("not supported: {}", row.why)));
            }
        }
    }
    Ok(notices)
}

impl Means {
    /// Whether this value asks for nothing that is not done anyway.
    fn allows(self, word: &str) -> bool {
        match self {
            Means::Nothing => true,
            Means::Refused => word == "none",
            Means::RefusedUnlessOff => is_off(word),
            Means::RefusedUnlessOn => matches!(word, "yes" | "true" | "y" | "t" | "1"),
            Means::RefusedUnlessZero => word.parse::<f64>().is_ok_and(|number| number == 0.0),
        }
    }
}

fn is_off(word: &str) -> bool {
    matches!(word, "" | "no" | "false" | "n" | "f" | "0" | "-1" | "none" | "[]" | "{}")
}

/// A value as one word of small letters.
fn word(given: &Given) -> String {
    let text = match &given.written {
        Written::Words(words) => {
            words.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
        }
        Written::Json(Json::String(text)) => text.clone(),
        Written::Json(json) => json.to_string(),
    };
    text.trim().to_lowercase()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::settings::{self, Spec};
    use super::*;

    #[test]
    fn no_setting_is_called_foreign_and_none_is_there_twice() {
        let all: Vec<&str> = names().chain(settings::specs().flat_map(Spec::names)).collect();
        let mut seen = BTreeSet::new();
        assert_eq!(all.into_iter().filter(|name| !seen.insert(*name)).collect::<Vec<_>>(), [""; 0]);
    }
}
