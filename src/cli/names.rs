//! Names of settings that were mistyped, or belong to Hugging Face and not to this program.

/// Settings of `TrainingArguments` and `run_clm.py` that have no counterpart here.
const FOREIGN: &str = "
    accelerator_config adafactor auto_find_batch_size average_tokens_across_devices batch_eval_metrics bf16_full_eval
    config_overrides dataloader_num_workers dataloader_persistent_workers dataloader_pin_memory
    dataloader_prefetch_factor ddp_backend ddp_broadcast_buffers ddp_bucket_cap_mb ddp_find_unused_parameters
    ddp_timeout debug deepspeed disable_tqdm do_eval do_predict eval_accumulation_steps eval_delay
    eval_do_concat_batches eval_on_start eval_steps eval_strategy eval_use_gather_object evaluation_strategy
    fp16_backend fp16_full_eval fp16_opt_level full_determinism gradient_accumulation_steps
    gradient_checkpointing_kwargs greater_is_better group_by_length half_precision_backend hub_always_push hub_model_id
    hub_private_repo hub_revision hub_strategy hub_token ignore_data_skip include_for_metrics
    include_inputs_for_metrics include_num_input_tokens_seen include_tokens_per_second jit_mode_eval keep_linebreaks
    label_names label_smoothing_factor length_column_name liger_kernel_config load_best_model_at_end local_rank
    log_level log_level_replica log_on_each_node logging_dir logging_first_step logging_nan_inf_filter
    low_cpu_mem_usage lr_scheduler_kwargs max_eval_samples metric_for_best_model model_revision model_type
    mp_parameters neftune_noise_alpha no_cuda optim_args optim_target_modules overwrite_cache parallelism_config
    past_index per_device_eval_batch_size per_gpu_eval_batch_size per_gpu_train_batch_size prediction_loss_only
    preprocessing_num_workers project push_to_hub push_to_hub_model_id push_to_hub_organization push_to_hub_token
    ray_scope remove_unused_columns report_to restore_callback_states_from_checkpoint resume_from_checkpoint run_name
    save_on_each_node save_only_model save_safetensors save_steps save_total_limit skip_memory_metrics streaming tf32
    token torch_compile torch_compile_backend torch_compile_mode torch_empty_cache_steps torchdynamo tpu_metrics_debug
    tpu_num_cores trackio_space_id trust_remote_code use_auth_token use_cpu use_fast_tokenizer use_ipex
    use_legacy_prediction_loop use_liger_kernel use_mps_device validation_file validation_split_percentage";

/// What to do in place of some of them.
const INSTEAD: &[(&str, &str)] = &[
    ("dataset_name", "give files or folders of text with train_file"),
    ("dataset_config_name", "give files or folders of text with train_file"),
    ("fsdp_transformer_layer_cls_to_wrap", "write the key into the file of fsdp_config"),
    ("fsdp_min_num_params", "write the key into the file of fsdp_config"),
    ("per_gpu_train_batch_size", "use per_device_train_batch_size"),
    ("adafactor", "optim names the optimizer"),
    ("no_cuda", "--plugin names the devices"),
    ("use_cpu", "--plugin names the devices"),
    ("tpu_num_cores", "mesh names the devices"),
];

/// How alike two names are at least when one is taken for the other.
const ALIKE: f64 = 0.85;

/// What is wrong with a setting of `command` called `name`, of which `known` has none, and what to write instead.
/// `dashes` go before the name of another setting.
pub(super) fn explain_unknown(name: &str, dashes: &str, known: &[&str], command: &str) -> String {
    let instead = INSTEAD.iter().find(|(foreign, _)| *foreign == name).map(|(_, instead)| *instead);
    if instead.is_some() || FOREIGN.split_whitespace().any(|foreign| foreign == name) {
        let instead = instead.map(|text| format!("; {text}")).unwrap_or_default();
        return format!("is Hugging Face's and not supported here yet{instead}");
    }
    match nearest(name, known) {
        Some(nearest) => format!("is unknown; did you mean {dashes}{nearest}?"),
        None => format!("is unknown; `shardwright {command} --help` lists the settings"),
    }
}

/// The name most like `given`, unless none is like it.
pub(super) fn nearest<'a>(given: &str, known: &[&'a str]) -> Option<&'a str> {
    let given = given.to_lowercase();
    // `batch_size` is much of `per_device_train_batch_size`, which edit distances do not see.
    let is_part = |name: &str| given.len() >= 4 && name.contains(&given);
    let likeness =
        |name: &str| strsim::jaro_winkler(&given, name).max(if is_part(name) { ALIKE } else { 0.0 });
    let scored = known.iter().map(|&name| (likeness(name), name));
    let (score, best) = scored.max_by(|(a, _), (b, _)| a.total_cmp(b))?;
    (score >= ALIKE).then_some(best)
}

#[cfg(test)]
mod tests {
    use super::super::settings;
    use super::*;

    #[test]
    fn near_names_are_offered_and_far_ones_are_not() {
        let check = |given, expect| assert_eq!(nearest(given, &settings::names()), expect, "{given}");
        check("learning_rat", Some("learning_rate"));
        check("per_device_batch_size", Some("per_device_train_batch_size"));
        check("batch_size", Some("per_device_train_batch_size"));
        check("epochs", Some("num_train_epochs"));
        check("Mesh", Some("mesh"));
        check("quux", None);
        check("", None);
    }

    #[test]
    fn no_setting_is_called_foreign() {
        let names = settings::names();
        let foreign = FOREIGN.split_whitespace().chain(INSTEAD.iter().map(|(name, _)| *name));
        assert_eq!(foreign.filter(|name| names.contains(name)).collect::<Vec<_>>(), [""; 0]);
    }
}
