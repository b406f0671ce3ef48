//! Texts in, effective configuration or errors out.

use expect_test::{Expect, expect};
use serde_json::Value;

use super::keys::{self, KEYS};
use super::{FsdpConfig, FsdpFlag, Notice, Strategy, UnknownKeys};

const ORIGIN: &str = "fsdp.json";
/// The start of a file that gives rise to no notices.
const XLA: &str = r#""xla": true, "xla_fsdp_v2": true"#;

#[track_caller]
fn check(text: &str, expect: Expect) {
    check_with(text, UnknownKeys::Refuse, expect);
}

/// The same for a file with these entries after the two that say what is the case anyway.
#[track_caller]
fn check_entries(entries: &str, expect: Expect) {
    check(&format!("{{{XLA}, {entries}}}"), expect);
}

/// Prints what differs from an empty file, and the notices.
#[track_caller]
fn check_with(text: &str, unknown: UnknownKeys, expect: Expect) {
    let answer = match FsdpConfig::parse_with(text, ORIGIN, unknown) {
        Ok((config, notices)) => {
            assert_reads_back(&config);
            let defaults = FsdpConfig::default().to_string();
            let config = config.to_string();
            let changed = config.lines().filter(|line| !defaults.lines().any(|default| default == *line));
            let notices = notices.iter().map(|notice| format!("notice: {notice}"));
            changed.map(str::to_owned).chain(notices).map(|line| line + "\n").collect()
        }
        Err(error) => format!("{error}\n"),
    };
    expect.assert_eq(&answer);
}

/// Printing and reading again gives the same configuration, and nothing to say about single keys but a form of
/// checkpoints that is kept as it was asked for.
#[track_caller]
fn assert_reads_back(config: &FsdpConfig) {
    let Value::Object(map) = config.to_json() else { panic!("the JSON form is an object") };
    assert!(map.keys().is_sorted(), "{config}");
    let again = FsdpConfig::from_map(map, "printed", UnknownKeys::Refuse).expect("what is printed is valid");
    assert_eq!(&again.0, config);
    let is_known = |notice: &Notice| match notice {
        Notice::NothingToRecompute => true,
        Notice::NoEffect { key, .. } => key == keys::STATE_DICT_TYPE,
        _ => false,
    };
    assert!(again.1.iter().all(is_known), "{:?}", again.1);
}

#[track_caller]
fn check_words(texts: &[&str], expect: Expect) {
    let lines = texts.iter().map(|text| match Strategy::parse_fsdp_words(text) {
        Ok(flag) => format!("{text:?}: {flag:?}\n"),
        Err(error) => format!("{text:?}: {error}\n"),
    });
    expect.assert_eq(&lines.collect::<String>());
}

/// What each flag makes of a file.
#[track_caller]
fn check_strategy(entries: &str, flags: &[&str], expect: Expect) {
    let (config, _) = FsdpConfig::parse(&format!("{{{entries}}}"), ORIGIN).expect("the file is valid");
    let lines = flags.iter().map(|flag| {
        let Ok(FsdpFlag::On(named)) = Strategy::parse_fsdp_words(flag) else { panic!("{flag} is on") };
        match config.resolve_strategy(named, ORIGIN) {
            Ok(strategy) => format!("{flag}: {strategy}\n"),
            Err(error) => format!("{flag}: {error}\n"),
        }
    });
    expect.assert_eq(&lines.collect::<String>());
}

#[test]
fn the_four_keys_of_the_fsdp_v2_file() {
    check(
        r#"{"fsdp_transformer_layer_cls_to_wrap": ["LlamaDecoderLayer"],
              "xla": true, "xla_fsdp_v2": true, "xla_fsdp_grad_ckpt": true}"#,
        expect![[r#"
            transformer_layer_cls_to_wrap = ["LlamaDecoderLayer"]
            xla_fsdp_grad_ckpt = true
        "#]],
    );
}

#[test]
fn missing_keys_mean_defaults() {
    check(
        r#"{}"#,
        expect![[r#"
            notice: key xla is not given and taken as true, the only mode there is
            notice: key xla_fsdp_v2 is not given and taken as true, the only mode there is
        "#]],
    );
    check(
        r#"{"xla": true}"#,
        expect![[r#"
            notice: key xla_fsdp_v2 is not given and taken as true, the only mode there is
        "#]],
    );
    check(
        r#"{"xla_fsdp_v2": true}"#,
        expect![[r#"
            notice: key xla is not given and taken as true, the only mode there is
        "#]],
    );
    check(
        r#"{"xla": null, "min_num_params": null}"#,
        expect![[r#"
            notice: key xla is not given and taken as true, the only mode there is
            notice: key xla_fsdp_v2 is not given and taken as true, the only mode there is
        "#]],
    );
}

#[test]
fn an_empty_file_and_no_file_mean_the_same() {
    let (empty, _) = FsdpConfig::parse("{}", ORIGIN).expect("an empty object is valid");
    assert_eq!(empty, FsdpConfig::default());
    expect![[r#"
        auto_wrap_policy = "TRANSFORMER_BASED_WRAP"
        state_dict_type = "FULL_STATE_DICT"
        xla = true
        xla_fsdp_grad_ckpt = false
        xla_fsdp_v2 = true
    "#]]
    .assert_eq(&empty.to_string());
}

#[test]
fn other_modes_are_refused_with_what_works() {
    check(
        r#"{"xla": true, "xla_fsdp_v2": false}"#,
        expect![[r#"
        fsdp.json: key xla_fsdp_v2: false is not supported; set it to true, or leave it out: FSDP v1 does not exist here
    "#]],
    );
    check(
        r#"{"fsdp_xla": "No", "xla_fsdp_v2": 0, "fsdp_offload_params": true}"#,
        expect![[r#"
        fsdp.json: 3 problems
          key fsdp_xla: text "No" is not supported; set it to true, or leave it out
          key xla_fsdp_v2: number 0 is not supported; set it to true, or leave it out: FSDP v1 does not exist here
          key fsdp_offload_params: true is not supported; set it to false, or leave it out: parameters stay on the devices
    "#]],
    );
    check_entries(
        r#""mixed_precision_policy": "fp16", "ignored_modules": ".*head", "tp_plan": {"lm_head": "rowise"}"#,
        expect![[r#"
            fsdp.json: 3 problems
              key mixed_precision_policy: wanted bf16, fp32 or no, or an object of param_dtype, reduce_dtype and buffer_dtype or output_dtype, each bfloat16 or float32, got text "fp16"
              key ignored_modules: wanted a pattern such as layers.*.mlp, which is no regular expression, or a list of them, got text ".*head"
              key tp_plan: wanted an object from patterns such as layers.*.mlp to one of colwise, colwise_rep, colwise_gather_output, embedding_rowwise, rowwise, replicated, got object {"lm_head":"rowise"}
        "#]],
    );
    check_entries(r#""cpu_offload": "no", "ignored_modules": null"#, expect![""]);
}

#[test]
fn mixed_precision_is_a_word_a_list_or_an_object() {
    check_entries(
        r#""mixed_precision_policy": "bf16""#,
        expect![[r#"
        mixed_precision_policy = {"param_dtype":"bfloat16","reduce_dtype":"bfloat16"}
    "#]],
    );
    check_entries(
        r#""mixed_precision_policy": "fp32""#,
        expect![[r#"
        mixed_precision_policy = {"param_dtype":"float32","reduce_dtype":"float32"}
    "#]],
    );
    check_entries(
        r#""mixed_precision_policy": "no""#,
        expect![[r#"
        mixed_precision_policy = {}
    "#]],
    );
    check_entries(
        r#""mixed_precision_policy": ["bf16", "torch.float32"]"#,
        expect![[r#"
        mixed_precision_policy = {"param_dtype":"bfloat16","reduce_dtype":"float32"}
    "#]],
    );
    check_entries(
        r#""mixed_precision_policy": {"param_dtype": "bfloat16", "reduce_dtype": null, "output_dtype": "bf16", "cast_forward_inputs": true}"#,
        expect![[r#"
            mixed_precision_policy = {"param_dtype":"bfloat16"}
            notice: key mixed_precision_policy.output_dtype has no effect: logits, losses and tables of angles are f32
        "#]],
    );
    check_entries(
        r#""mixed_precision_policy": {"param_dtype": "float16"}, "fsdp_mixed_precision_policy": {"param": "bf16"}"#,
        expect![[r#"
            fsdp.json: 2 problems
              key mixed_precision_policy: wanted bf16, fp32 or no, or an object of param_dtype, reduce_dtype and buffer_dtype or output_dtype, each bfloat16 or float32, got object {"param_dtype":"float16"}
              key fsdp_mixed_precision_policy: wanted bf16, fp32 or no, or an object of param_dtype, reduce_dtype and buffer_dtype or output_dtype, each bfloat16 or float32, got object {"param":"bf16"}
        "#]],
    );
}

/// What a file and the variables of a launcher mean together.
#[track_caller]
fn check_variables(file: Option<&str>, variables: &[(&str, &str)], expect: Expect) {
    let variables: Vec<(String, String)> =
        variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let read = match file {
        Some(entries) => {
            FsdpConfig::parse_over(&format!("{{{XLA}, {entries}}}"), ORIGIN, UnknownKeys::Refuse, &variables)
        }
        None => FsdpConfig::from_variables(&variables),
    };
    let answer = match read {
        Ok((config, notices)) => {
            let notices = notices.iter().map(|notice| format!("notice: {notice}\n"));
            std::iter::once(config.to_string()).chain(notices).collect()
        }
        Err(error) => format!("{error}\n"),
    };
    expect.assert_eq(&answer);
}

#[test]
fn variables_stand_for_keys_that_the_file_has_not() {
    check_variables(
        None,
        &[],
        expect![[r#"
        auto_wrap_policy = "TRANSFORMER_BASED_WRAP"
        state_dict_type = "FULL_STATE_DICT"
        xla = true
        xla_fsdp_grad_ckpt = false
        xla_fsdp_v2 = true
    "#]],
    );
    check_variables(
        None,
        &[
            ("FSDP_SHARDING_STRATEGY", "2"),
            ("FSDP_AUTO_WRAP_POLICY", "TRANSFORMER_BASED_WRAP"),
            ("FSDP_TRANSFORMER_CLS_TO_WRAP", "LlamaDecoderLayer"),
            ("FSDP_OFFLOAD_PARAMS", "false"),
            ("FSDP_FORWARD_PREFETCH", "true"),
        ],
        expect![[r#"
            auto_wrap_policy = "TRANSFORMER_BASED_WRAP"
            sharding_strategy = "SHARD_GRAD_OP"
            state_dict_type = "FULL_STATE_DICT"
            transformer_layer_cls_to_wrap = ["LlamaDecoderLayer"]
            xla = true
            xla_fsdp_grad_ckpt = false
            xla_fsdp_v2 = true
            notice: key sharding_strategy is taken from FSDP_SHARDING_STRATEGY
            notice: key auto_wrap_policy is taken from FSDP_AUTO_WRAP_POLICY
            notice: key transformer_layer_cls_to_wrap is taken from FSDP_TRANSFORMER_CLS_TO_WRAP
            notice: key cpu_offload is taken from FSDP_OFFLOAD_PARAMS
            notice: key forward_prefetch is taken from FSDP_FORWARD_PREFETCH
            notice: key FSDP_FORWARD_PREFETCH has no effect: the compiler decides when weights are gathered, and the numbers do not depend on it
        "#]],
    );
    check_variables(
        Some(r#""fsdp_min_num_params": 5"#),
        &[("FSDP_MIN_NUM_PARAMS", "7"), ("FSDP_ACTIVATION_CHECKPOINTING", "True")],
        expect![[r#"
            auto_wrap_policy = "SIZE_BASED_WRAP"
            min_num_params = 5
            state_dict_type = "FULL_STATE_DICT"
            xla = true
            xla_fsdp_grad_ckpt = true
            xla_fsdp_v2 = true
            notice: key activation_checkpointing is taken from FSDP_ACTIVATION_CHECKPOINTING
        "#]],
    );
    check_variables(
        None,
        &[("FSDP_OFFLOAD_PARAMS", "true"), ("FSDP_STATE_DICT_TYPE", "HALF")],
        expect![[r#"
            environment: 2 problems
              key FSDP_STATE_DICT_TYPE: wanted one of FULL_STATE_DICT, LOCAL_STATE_DICT, SHARDED_STATE_DICT, or 1 to 3, got text "HALF"
              key FSDP_OFFLOAD_PARAMS: text "true" is not supported; set it to false, or leave it out: parameters stay on the devices
        "#]],
    );
}

#[test]
fn booleans_have_many_spellings() {
    for (value, expected) in [
        ("true", true),
        ("1", true),
        (r#""True""#, true),
        (r#"" YES""#, true),
        (r#""1""#, true),
        ("false", false),
        ("0", false),
        (r#""FALSE""#, false),
        (r#""no""#, false),
        (r#""0""#, false),
        ("null", false),
    ] {
        let text = format!(r#"{{"xla_fsdp_grad_ckpt": {value}}}"#);
        let (config, _) = FsdpConfig::parse(&text, ORIGIN).expect(value);
        assert_eq!(config.grad_ckpt, expected, "{value}");
    }
}

#[test]
fn values_of_another_type_are_named() {
    check(
        r#"{"xla": "yes please", "min_num_params": -1, "transformer_layer_cls_to_wrap": [1],
              "version": 3, "xla_fsdp_settings": true, "state_dict_type": 4, "xla_fsdp_grad_ckpt": 2.5,
              "reshard_after_forward": {"a": [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21]}}"#,
        expect![[r#"
            fsdp.json: 8 problems
              key xla: wanted true or false, got text "yes please"
              key min_num_params: wanted a whole number, 0 or more, got number -1
              key transformer_layer_cls_to_wrap: wanted a class name or a list of them, got list [1]
              key version: wanted one of 1, 2, got number 3
              key xla_fsdp_settings: wanted an object, got true
              key state_dict_type: wanted one of FULL_STATE_DICT, LOCAL_STATE_DICT, SHARDED_STATE_DICT, or 1 to 3, got number 4
              key xla_fsdp_grad_ckpt: wanted true or false, got number 2.5
              key reshard_after_forward: wanted true, false, or one of full_shard, shard_grad_op, no_shard, hybrid_shard, hybrid_shard_zero2, got object {"a":[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21]…
        "#]],
    );
}

#[test]
fn two_spellings_must_agree() {
    check_entries(
        r#""fsdp_xla": "true", "fsdp_xla_fsdp_grad_ckpt": true"#,
        expect![[r#"
            xla_fsdp_grad_ckpt = true
        "#]],
    );
    check_entries(
        r#""fsdp_xla": false"#,
        expect![[r#"
        fsdp.json: keys xla (true) and fsdp_xla (false) disagree; keep one of them
    "#]],
    );
    check_entries(
        r#""transformer_cls_names_to_wrap": "A", "fsdp_transformer_layer_cls_to_wrap": ["B"]"#,
        expect![[r#"
            fsdp.json: keys transformer_cls_names_to_wrap (text "A") and fsdp_transformer_layer_cls_to_wrap (list ["B"]) disagree; keep one of them
        "#]],
    );
    check_entries(
        r#""forward_prefetch": true, "forward_prefetch": false"#,
        expect![[r#"
        fsdp.json: keys forward_prefetch (true) and forward_prefetch (false) disagree; keep one of them
    "#]],
    );
}

#[test]
fn unknown_keys_get_the_nearest_known_one() {
    check_entries(
        r#""fsdp_transformer_layer_class_to_wrap": "A", "xla_fsdp_v3": true, "colour": 1"#,
        expect![[r#"
            fsdp.json: 3 problems
              unknown key fsdp_transformer_layer_class_to_wrap; did you mean transformer_layer_cls_to_wrap? Otherwise remove it, or allow unknown keys
              unknown key xla_fsdp_v3; did you mean xla_fsdp_v2? Otherwise remove it, or allow unknown keys
              unknown key colour; remove it, or allow unknown keys
        "#]],
    );
    check_entries(
        r#""XLA": true, "xla_fsdp_settings": {"compute_type": "float32"}"#,
        expect![[r#"
        fsdp.json: 2 problems
          unknown key XLA; did you mean xla? Otherwise remove it, or allow unknown keys
          unknown key xla_fsdp_settings.compute_type; did you mean compute_dtype? Otherwise remove it, or allow unknown keys
    "#]],
    );
}

#[test]
fn unknown_keys_can_be_allowed() {
    let text = r#"{"xla": true, "xla_fsdp_v2": true, "min_num_parms": 5, "colour": 1}"#;
    check_with(
        text,
        UnknownKeys::Allow,
        expect![[r#"
            notice: unknown key min_num_parms is ignored; the nearest known key is min_num_params
            notice: unknown key colour is ignored
        "#]],
    );
}

#[test]
fn classes_are_a_text_or_a_list() {
    check_entries(
        r#""transformer_layer_cls_to_wrap": "A""#,
        expect![[r#"
            transformer_layer_cls_to_wrap = ["A"]
        "#]],
    );
    check_entries(
        r#""fsdp_transformer_cls_names_to_wrap": " A, B ,,A""#,
        expect![[r#"
            transformer_layer_cls_to_wrap = ["A","B"]
        "#]],
    );
    check_entries(
        r#""transformer_layer_cls_to_wrap": ["A", "B,C"]"#,
        expect![[r#"
            transformer_layer_cls_to_wrap = ["A","B","C"]
        "#]],
    );
    check_entries(
        r#""transformer_layer_cls_to_wrap": []"#,
        expect![[r#"
            auto_wrap_policy = "NO_WRAP"
            notice: key transformer_layer_cls_to_wrap wraps nothing; leave it out for the classes which the model names itself
        "#]],
    );
}

#[test]
fn a_size_may_be_written_as_a_float_or_a_text() {
    check_entries(
        r#""min_num_params": 1e8"#,
        expect![[r#"
            auto_wrap_policy = "SIZE_BASED_WRAP"
            min_num_params = 100000000
        "#]],
    );
    check_entries(
        r#""min_num_params": "2000""#,
        expect![[r#"
            auto_wrap_policy = "SIZE_BASED_WRAP"
            min_num_params = 2000
        "#]],
    );
    check_entries(
        r#""min_num_params": 0.5"#,
        expect![[r#"
        fsdp.json: key min_num_params: wanted a whole number, 0 or more, got number 0.5
    "#]],
    );
}

#[test]
fn classes_and_size_need_a_policy() {
    check_entries(
        r#""transformer_layer_cls_to_wrap": "A", "fsdp_min_num_params": 5"#,
        expect![[r#"
        fsdp.json: keys transformer_layer_cls_to_wrap and fsdp_min_num_params ask for two wrap policies; keep one of them, or set auto_wrap_policy to TRANSFORMER_BASED_WRAP or SIZE_BASED_WRAP
    "#]],
    );
    check_entries(
        r#""transformer_layer_cls_to_wrap": "A", "min_num_params": 0"#,
        expect![[r#"
            transformer_layer_cls_to_wrap = ["A"]
        "#]],
    );
    check_entries(
        r#""transformer_layer_cls_to_wrap": [], "min_num_params": 5"#,
        expect![[r#"
            auto_wrap_policy = "SIZE_BASED_WRAP"
            min_num_params = 5
        "#]],
    );
}

#[test]
fn a_policy_decides_between_classes_and_size() {
    check_entries(
        r#""auto_wrap_policy": "transformer_based_wrap", "transformer_layer_cls_to_wrap": "A", "min_num_params": 5"#,
        expect![[r#"
            transformer_layer_cls_to_wrap = ["A"]
            notice: key min_num_params has no effect: auto_wrap_policy is TRANSFORMER_BASED_WRAP
        "#]],
    );
    check_entries(
        r#""auto_wrap_policy": "SIZE_BASED_WRAP", "transformer_layer_cls_to_wrap": "A", "min_num_params": 5"#,
        expect![[r#"
            auto_wrap_policy = "SIZE_BASED_WRAP"
            min_num_params = 5
            notice: key transformer_layer_cls_to_wrap has no effect: auto_wrap_policy is SIZE_BASED_WRAP
        "#]],
    );
    check_entries(
        r#""auto_wrap_policy": "SIZE_BASED_WRAP""#,
        expect![[r#"
            auto_wrap_policy = "SIZE_BASED_WRAP"
            min_num_params = 100000000
        "#]],
    );
    check_entries(
        r#""auto_wrap_policy": "SIZE_BASED_WRAP", "min_num_params": 0"#,
        expect![[r#"
            auto_wrap_policy = "NO_WRAP"
            notice: key min_num_params wraps nothing; set it to 1 or more, or leave it out for 100000000
        "#]],
    );
    check_entries(r#""auto_wrap_policy": "TRANSFORMER_BASED_WRAP""#, expect![""]);
    check_entries(
        r#""auto_wrap_policy": "NO_WRAP", "transformer_layer_cls_to_wrap": "A""#,
        expect![[r#"
            auto_wrap_policy = "NO_WRAP"
            notice: key transformer_layer_cls_to_wrap has no effect: auto_wrap_policy is NO_WRAP
        "#]],
    );
    check_entries(
        r#""auto_wrap_policy": "ALWAYS_WRAP""#,
        expect![[r#"
        fsdp.json: key auto_wrap_policy: wanted one of TRANSFORMER_BASED_WRAP, SIZE_BASED_WRAP, NO_WRAP, got text "ALWAYS_WRAP"
    "#]],
    );
}

#[test]
fn recomputation_has_two_switches_and_one_meaning() {
    check_entries(
        r#""activation_checkpointing": true"#,
        expect![[r#"
            xla_fsdp_grad_ckpt = true
        "#]],
    );
    check_entries(
        r#""activation_checkpointing": true, "xla_fsdp_grad_ckpt": true"#,
        expect![[r#"
            xla_fsdp_grad_ckpt = true
        "#]],
    );
    check_entries(
        r#""activation_checkpointing": false, "xla_fsdp_grad_ckpt": true"#,
        expect![[r#"
            xla_fsdp_grad_ckpt = true
        "#]],
    );
    check_entries(
        r#""activation_checkpointing": true, "auto_wrap_policy": "NO_WRAP""#,
        expect![[r#"
            auto_wrap_policy = "NO_WRAP"
            xla_fsdp_grad_ckpt = true
            notice: gradient checkpointing does nothing: only wrapped layers are computed again, and none is wrapped
        "#]],
    );
}

#[test]
fn hints_are_accepted_and_noted() {
    check_entries(
        r#""forward_prefetch": true, "backward_prefetch": "backward_pre", "limit_all_gathers": false,
           "use_orig_params": false, "sync_module_states": false, "cpu_ram_efficient_loading": true, "version": 1"#,
        expect![[r#"
            notice: key forward_prefetch has no effect: the compiler decides when weights are gathered, and the numbers do not depend on it
            notice: key backward_prefetch has no effect: the compiler decides when weights are gathered, and the numbers do not depend on it
            notice: key limit_all_gathers has no effect: the compiler decides when weights are gathered, and the numbers do not depend on it
            notice: key use_orig_params has no effect: parameters always keep their names and shapes
            notice: key sync_module_states has no effect: replicas start from the same weights by construction
            notice: key cpu_ram_efficient_loading has no effect: weights are always read slice by slice
            notice: key version has no effect: parameters are sharded one by one, as in version 2, and never made flat
        "#]],
    );
}

#[test]
fn what_happens_anyway_is_not_noted() {
    check_entries(
        r#""version": "2", "use_orig_params": true, "sync_module_states": true, "cpu_offload": false"#,
        expect![""],
    );
}

#[test]
fn settings_of_v1_are_checked_and_noted() {
    check_entries(r#""xla_fsdp_settings": {}"#, expect![""]);
    check_entries(
        r#""xla_fsdp_settings": {"compute_dtype": "bfloat16", "reshard_after_forward": false}"#,
        expect![[r#"
            notice: key xla_fsdp_settings.compute_dtype has no effect: only FSDP v1 reads it
            notice: key xla_fsdp_settings.reshard_after_forward has no effect: only FSDP v1 reads it
        "#]],
    );
    check_entries(
        r#""xla_fsdp_settings": {"compute_dtype": "int3"}"#,
        expect![[r#"
        fsdp.json: key xla_fsdp_settings.compute_dtype: wanted one of float32, float16, bfloat16, float64, got text "int3"
    "#]],
    );
}

#[test]
fn strategies_have_names_and_numbers() {
    check_entries(
        r#""sharding_strategy": "HYBRID_SHARD""#,
        expect![[r#"
            sharding_strategy = "HYBRID_SHARD"
        "#]],
    );
    check_entries(
        r#""fsdp_sharding_strategy": "2""#,
        expect![[r#"
            sharding_strategy = "SHARD_GRAD_OP"
        "#]],
    );
    check_entries(
        r#""sharding_strategy": 6"#,
        expect![[r#"
        fsdp.json: key sharding_strategy: wanted one of full_shard, shard_grad_op, no_shard, hybrid_shard, hybrid_shard_zero2, or 1 to 5, got number 6
    "#]],
    );
    check_entries(
        r#""reshard_after_forward": false"#,
        expect![[r#"
            reshard_after_forward = false
        "#]],
    );
    check_entries(
        r#""reshard_after_forward": "shard_grad_op""#,
        expect![[r#"
            sharding_strategy = "SHARD_GRAD_OP"
        "#]],
    );
}

#[test]
fn strategy_and_resharding_must_agree() {
    check_entries(
        r#""sharding_strategy": 1, "reshard_after_forward": true"#,
        expect![[r#"
            sharding_strategy = "FULL_SHARD"
        "#]],
    );
    check_entries(
        r#""sharding_strategy": "HYBRID_SHARD_ZERO2", "fsdp_reshard_after_forward": true"#,
        expect![[r#"
            fsdp.json: keys sharding_strategy (text "HYBRID_SHARD_ZERO2") and fsdp_reshard_after_forward (true) disagree; keep one of them
        "#]],
    );
    check_entries(
        r#""sharding_strategy": 4, "reshard_after_forward": "FULL_SHARD""#,
        expect![[r#"
        fsdp.json: keys sharding_strategy (number 4) and reshard_after_forward (text "FULL_SHARD") disagree; keep one of them
    "#]],
    );
}

#[test]
fn checkpoint_forms() {
    check_entries(
        r#""state_dict_type": "sharded_state_dict""#,
        expect![[r#"
            state_dict_type = "SHARDED_STATE_DICT"
            notice: key state_dict_type has no effect: the model is saved whole
        "#]],
    );
    check_entries(
        r#""fsdp_state_dict_type": 2"#,
        expect![[r#"
            state_dict_type = "LOCAL_STATE_DICT"
            notice: key fsdp_state_dict_type has no effect: the model is saved whole
        "#]],
    );
    check_entries(r#""state_dict_type": "FULL_STATE_DICT""#, expect![""]);
    check_entries(
        r#""state_dict_type": "SHARDED""#,
        expect![[r#"
        fsdp.json: key state_dict_type: wanted one of FULL_STATE_DICT, LOCAL_STATE_DICT, SHARDED_STATE_DICT, or 1 to 3, got text "SHARDED"
    "#]],
    );
}

#[test]
fn text_that_is_no_object_is_located() {
    check(
        r#""#,
        expect![[r#"
            fsdp.json:1:1: not a JSON object of FSDP keys: EOF while parsing a value
        "#]],
    );
    check(
        r#"["xla"]"#,
        expect![[r#"
            fsdp.json:1:1: not a JSON object of FSDP keys: invalid type: sequence, expected an object
        "#]],
    );
    check(
        r#"{
 "xla": true,
}"#,
        expect![[r#"
            fsdp.json:3:1: not a JSON object of FSDP keys: trailing comma
        "#]],
    );
    check(
        r#"{"xla": True}"#,
        expect![[r#"
        fsdp.json:1:9: not a JSON object of FSDP keys: expected value
    "#]],
    );
    check(
        r#"{} {}"#,
        expect![[r#"
        fsdp.json:1:4: not a JSON object of FSDP keys: trailing characters
    "#]],
    );
}

#[test]
fn a_byte_order_mark_is_skipped() {
    check(&format!("\u{feff}{{{XLA}}}"), expect![""]);
}

#[test]
fn words_of_the_flag() {
    check_words(
        &[
            "full_shard",
            "FULL_SHARD auto_wrap",
            "shard_grad_op",
            "no_shard,auto_wrap",
            "hybrid_shard",
            "hybrid_shard_zero2",
            "auto_wrap",
            "True",
            "1",
            "",
            "  ",
            "false",
            "full_shard full_shard",
        ],
        expect![[r#"
            "full_shard": On(Some(FullShard))
            "FULL_SHARD auto_wrap": On(Some(FullShard))
            "shard_grad_op": On(Some(ShardGradOp))
            "no_shard,auto_wrap": On(Some(NoShard))
            "hybrid_shard": On(Some(HybridShard))
            "hybrid_shard_zero2": On(Some(HybridShardZero2))
            "auto_wrap": On(None)
            "True": On(None)
            "1": On(None)
            "": Off
            "  ": Off
            "false": Off
            "full_shard full_shard": On(Some(FullShard))
        "#]],
    );
}

#[test]
fn words_that_do_not_go_together() {
    check_words(
        &[
            "offload",
            "full_shard offload auto_wrap",
            "full_shard shard_grad_op",
            "full_shrad",
            "full_shard true",
        ],
        expect![[r#"
            "offload": --fsdp: offload is not supported, parameters stay on the devices; leave it out and choose one of full_shard, shard_grad_op, no_shard, hybrid_shard, hybrid_shard_zero2
            "full_shard offload auto_wrap": --fsdp: offload is not supported, parameters stay on the devices; leave it out and choose one of full_shard, shard_grad_op, no_shard, hybrid_shard, hybrid_shard_zero2
            "full_shard shard_grad_op": --fsdp: full_shard and shard_grad_op exclude each other; keep one of them
            "full_shrad": --fsdp: unknown word full_shrad; choose one of full_shard, shard_grad_op, no_shard, hybrid_shard, hybrid_shard_zero2, and auto_wrap beside it
            "full_shard true": --fsdp: unknown word true; choose one of full_shard, shard_grad_op, no_shard, hybrid_shard, hybrid_shard_zero2, and auto_wrap beside it
        "#]],
    );
}

#[test]
fn the_flag_and_the_file_settle_the_strategy() {
    let flags = ["true", "full_shard", "hybrid_shard", "shard_grad_op", "no_shard"];
    check_strategy(
        "",
        &flags,
        expect![[r#"
        true: full_shard
        full_shard: full_shard
        hybrid_shard: hybrid_shard
        shard_grad_op: shard_grad_op
        no_shard: no_shard
    "#]],
    );
    check_strategy(
        r#""reshard_after_forward": false"#,
        &flags,
        expect![[r#"
        true: shard_grad_op
        full_shard: --fsdp full_shard disagrees with fsdp.json, where reshard_after_forward is false; change one of them
        hybrid_shard: --fsdp hybrid_shard disagrees with fsdp.json, where reshard_after_forward is false; change one of them
        shard_grad_op: shard_grad_op
        no_shard: no_shard
    "#]],
    );
    check_strategy(
        r#""sharding_strategy": "HYBRID_SHARD""#,
        &flags,
        expect![[r#"
        true: hybrid_shard
        full_shard: --fsdp full_shard disagrees with fsdp.json, where sharding_strategy is "HYBRID_SHARD"; change one of them
        hybrid_shard: hybrid_shard
        shard_grad_op: --fsdp shard_grad_op disagrees with fsdp.json, where sharding_strategy is "HYBRID_SHARD"; change one of them
        no_shard: --fsdp no_shard disagrees with fsdp.json, where sharding_strategy is "HYBRID_SHARD"; change one of them
    "#]],
    );
}

#[test]
fn modules_are_named_by_patterns() {
    check_entries(
        r#""ignored_modules": "lm_head, layers.*.mlp", "keep_gathered_modules": []"#,
        expect![[r#"
        ignored_modules = ["lm_head","layers.*.mlp"]
        keep_gathered_modules = []
    "#]],
    );
    check_entries(
        r#""keep_gathered_modules": ["layers.3"], "ignored_modules": []"#,
        expect![[r#"
        keep_gathered_modules = ["layers.3"]
    "#]],
    );
    check_entries(
        r#""tp_plan": {"lm_head": "colwise_gather_output", "layers.*.mlp": "replicated"}, "tensor_plan": null"#,
        expect![[r#"
            tensor_plan = {"lm_head":"colwise_rep","layers.*.mlp":"replicated"}
        "#]],
    );
}

#[test]
fn patterns_that_fit_no_module_are_noted() {
    let text = r#"{"ignored_modules": ["lm_head", "head"], "keep_gathered_modules": ["layers.9"],
                   "tensor_plan": {"layers.*.mpl": "colwise", "*": "replicated"}}"#;
    let (config, _) = FsdpConfig::parse(text, ORIGIN).unwrap();
    let notices = config.unmatched(["", "model.layers.0", "model.layers.0.mlp", "lm_head"].into_iter());
    let lines: Vec<String> = notices.iter().map(Notice::to_string).collect();
    expect![[r#"
        key ignored_modules: head fits no module of the model
        key keep_gathered_modules: layers.9 fits no module of the model
        key tensor_plan: layers.*.mpl fits no module of the model"#]]
    .assert_eq(&lines.join("\n"));
}

#[test]
fn no_two_keys_share_a_name() {
    for key in KEYS {
        for name in key.names() {
            let found = keys::find(KEYS, name).expect("the table finds its own names");
            assert!(std::ptr::eq(found, key), "{name}");
        }
    }
}

#[test]
fn the_help_lists_every_key() {
    expect![[r#"
        xla: true or false
            run on XLA; taken as true when missing; must be true
        xla_fsdp_v2: true or false
            FSDP as shardings of one program; taken as true when missing; must be true
        xla_fsdp_grad_ckpt: true or false
            recompute each wrapped unit in backward; default false
        activation_checkpointing: true or false
            the same as xla_fsdp_grad_ckpt; one of them is enough, and both are the same as one
        transformer_layer_cls_to_wrap, transformer_cls_names_to_wrap, transformer_cls_to_wrap: a class name or a list of them
            each layer of these classes is a unit; default the model's own classes; an empty list is no units
        min_num_params: a whole number, 0 or more
            a module with so many unwrapped parameters is a unit; default 0, or 100000000 with SIZE_BASED_WRAP
        auto_wrap_policy: one of TRANSFORMER_BASED_WRAP, SIZE_BASED_WRAP, NO_WRAP
            which of classes and size counts; when missing, the one that is given
        sharding_strategy: one of full_shard, shard_grad_op, no_shard, hybrid_shard, hybrid_shard_zero2, or 1 to 5
            what is sharded; default what --fsdp names, else full_shard
        reshard_after_forward: true, false, or one of full_shard, shard_grad_op, no_shard, hybrid_shard, hybrid_shard_zero2
            true frees gathered weights after forward (full_shard), false keeps them (shard_grad_op)
        state_dict_type: one of FULL_STATE_DICT, LOCAL_STATE_DICT, SHARDED_STATE_DICT, or 1 to 3
            the form of checkpoints; default FULL_STATE_DICT, and no effect yet: the model is saved whole
        cpu_offload, offload_params: true or false
            keep parameters in host memory; must be false
        mixed_precision_policy: bf16, fp32 or no, or an object of param_dtype, reduce_dtype and buffer_dtype or output_dtype, each bfloat16 or float32
            dtypes of computation and reduction; default those of the run
        ignored_modules: a pattern such as layers.*.mlp, which is no regular expression, or a list of them
            modules whose parameters are whole on every device, such as lm_head or layers.*.mlp; they are trained alike
        keep_gathered_modules: a pattern such as layers.*.mlp, which is no regular expression, or a list of them
            units that keep gathered weights until backward where others free them; default the last unit
        tensor_plan, tp_plan: an object from patterns such as layers.*.mlp to one of colwise, colwise_rep, colwise_gather_output, embedding_rowwise, rowwise, replicated
            how modules are split over the mesh axis tensor; the first that fits counts; default the model's own plan
        version: one of 1, 2
            the generation of FSDP; no effect: parameters are sharded one by one, as in version 2, and never made flat
        use_orig_params: true or false
            keep the original parameters; no effect: parameters always keep their names and shapes
        sync_module_states: true or false
            give all devices the same initial weights; no effect: replicas start from the same weights by construction
        cpu_ram_efficient_loading: true or false
            load weights on one process only; no effect: weights are always read slice by slice
        forward_prefetch: true or false
            gather the next unit early in forward; no effect: the compiler decides when weights are gathered, and the numbers do not depend on it
        backward_prefetch, backward_prefetch_policy: one of BACKWARD_PRE, BACKWARD_POST, NO_PREFETCH, or 1 to 3
            gather the next unit early in backward; no effect: the compiler decides when weights are gathered, and the numbers do not depend on it
        limit_all_gathers: true or false
            bound the gathers in flight; no effect: the compiler decides when weights are gathered, and the numbers do not depend on it
        state_dict_config: any value
            how model state is saved; no effect: the model is saved whole
        optim_state_dict_config: any value
            how optimizer state is saved; no effect: the model is saved whole
        xla_fsdp_settings: an object
            settings of FSDP v1; they are checked and have no effect
    "#]].assert_eq(&FsdpConfig::keys_help());
}
