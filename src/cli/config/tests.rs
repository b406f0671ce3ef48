//! Settings in, and what they mean out.

use expect_test::{Expect, expect};
use serde_json::json;

use super::super::settings::{Given, Layer, Origin, Written};
use super::*;

/// What these settings mean beside those of a run of the smallest text and model.
#[track_caller]
fn check(given: Json, show: impl Fn(&TrainConfig) -> String, expect: Expect) {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    fs::write(path("text.txt"), "to be").unwrap();
    let needed = json!({"config_name": path(""), "train_file": path("text.txt"), "output_dir": path("out")});
    let members = [needed, given].into_iter().flat_map(|object| object.as_object().unwrap().clone());
    let layer: Layer = members
        .map(|(name, json)| {
            let spec = super::super::settings::find(&name).unwrap();
            (spec.name, Given { written: Written::Json(json), origin: Origin::Flag })
        })
        .collect();
    let layers = [&layer];
    let settings = Settings::read(&layers).unwrap();
    let (config, _) = train_config(&settings, &Variables::default(), &Effective::of(&layers)).unwrap();
    expect.assert_eq(&show(&config));
}

#[test]
fn schedules_have_their_options() {
    let show = |config: &TrainConfig| format!("{:?}", config.schedule);
    check(
        json!({"lr_scheduler_type": "cosine", "warmup_steps": 5}),
        show,
        expect!["ScheduleConfig { kind: Cosine { cycles: 0.5, floor: 0.0 }, warmup: Steps(5) }"],
    );
    let restarts =
        json!({"lr_scheduler_type": "cosine_with_restarts", "lr_scheduler_kwargs": "num_cycles=3"});
    check(
        restarts,
        show,
        expect!["ScheduleConfig { kind: CosineWithRestarts { cycles: 3 }, warmup: Steps(0) }"],
    );
    let floor = json!({"lr_scheduler_type": "cosine_with_min_lr", "learning_rate": 1.0, "lr_scheduler_kwargs": {"min_lr": 0.25}});
    check(
        floor,
        show,
        expect!["ScheduleConfig { kind: Cosine { cycles: 0.5, floor: 0.25 }, warmup: Steps(0) }"],
    );
    let power = json!({"lr_scheduler_type": "polynomial", "learning_rate": 2, "lr_scheduler_kwargs": {"lr_end": 0.5, "power": 2}});
    check(
        power,
        show,
        expect!["ScheduleConfig { kind: Polynomial { power: 2.0, end: 0.25 }, warmup: Steps(0) }"],
    );
    let stable = json!({"lr_scheduler_type": "warmup_stable_decay", "lr_scheduler_kwargs": {"num_decay_steps": 7}, "warmup_ratio": 0.1});
    check(
        stable,
        show,
        expect![
            "ScheduleConfig { kind: WarmupStableDecay(StableDecay { warmup: Linear, stable_steps: None, decay_steps: 7, decay: Cosine, floor: 0.0, cycles: 0.5 }), warmup: Ratio(0.1) }"
        ],
    );
}

#[test]
fn optimizers_have_their_options() {
    let show = |config: &TrainConfig| format!("{:?}", config.optimizer);
    check(json!({"adam_beta2": 0.95}), show, expect!["AdamW { beta1: 0.9, beta2: 0.95, epsilon: 1e-8 }"]);
    check(
        json!({"optim": "adafactor", "optim_args": "scale_parameter=True,beta1=0.9"}),
        show,
        expect![
            "Adafactor { epsilon: 1e-30, clip_threshold: 1.0, decay_rate: -0.8, beta1: Some(0.9), parameter_scale: Some(0.001) }"
        ],
    );
    check(
        json!({"optim": "sgd", "optim_args": {"momentum": 0.9, "nesterov": true}}),
        show,
        expect!["Sgd { momentum: Some(Nesterov { momentum: 0.9 }) }"],
    );
    check(json!({"optim": "lion"}), show, expect!["Lion { beta1: 0.9, beta2: 0.999 }"]);
}

#[test]
fn groups_are_rules_and_frozen_patterns_come_last() {
    let show = |config: &TrainConfig| {
        let rules = config.groups.rules.iter();
        let lines = rules.map(|rule| {
            format!("{} {:?} {:?} {}\n", rule.pattern, rule.learning_rate, rule.weight_decay, rule.trained)
        });
        lines.collect::<String>() + &format!("{:?}", config.clipping)
    };
    let groups = json!({
        "parameter_groups": [{"pattern": "lm_head", "lr": 1e-4}, {"pattern": "layers.*.mlp", "weight_decay": 0, "trained": false}],
        "freeze": ["embed_tokens, norm"], "max_grad_norm": 0, "max_grad_value": 0.5, "max_grad_within": "lm_head",
    });
    check(
        groups,
        show,
        expect![[r#"
        lm_head Some(0.0001) None true
        layers.*.mlp None Some(0.0) false
        embed_tokens None None false
        norm None None false
        Clipping { norm: None, value: Some(0.5), within: [ModulePattern { words: ["lm_head"] }] }"#]],
    );
}

#[test]
fn dtypes_come_from_four_settings() {
    let show = |config: &TrainConfig| {
        let precision = config.precision;
        let (weights, masters) = (precision.weights, precision.masters);
        format!(
            "weights {weights}, compute {}, reduce {}, masters {masters}",
            precision.compute, precision.reduce
        )
    };
    check(json!({}), show, expect!["weights f32, compute f32, reduce f32, masters true"]);
    check(json!({"bf16": true}), show, expect!["weights f32, compute bf16, reduce f32, masters true"]);
    check(
        json!({"dtype": "bfloat16", "master_weights": "no", "reduce_dtype": "bf16"}),
        show,
        expect!["weights bf16, compute bf16, reduce bf16, masters false"],
    );
    let policy = json!({"mixed_precision_policy": {"param_dtype": "bf16", "reduce_dtype": "bf16"}});
    check(
        json!({"fsdp": true, "fsdp_config": policy}),
        show,
        expect!["weights f32, compute bf16, reduce bf16, masters true"],
    );
}

#[test]
fn who_asks_for_evaluation_alone_does_not_train() {
    let show = |config: &TrainConfig| format!("train {}, {:?}", config.do_train, config.evaluation);
    check(
        json!({}),
        show,
        expect!["train true, EvaluationConfig { do_eval: false, strategy: No, on_start: false }"],
    );
    check(
        json!({"do_eval": true}),
        show,
        expect!["train false, EvaluationConfig { do_eval: true, strategy: No, on_start: false }"],
    );
    check(
        json!({"do_eval": true, "do_train": true}),
        show,
        expect!["train true, EvaluationConfig { do_eval: true, strategy: No, on_start: false }"],
    );
    check(
        json!({"eval_strategy": "steps", "eval_steps": 0.25}),
        show,
        expect!["train true, EvaluationConfig { do_eval: true, strategy: Part(0.25), on_start: false }"],
    );
    check(
        json!({"evaluation_strategy": "steps", "logging_steps": 7}),
        show,
        expect!["train true, EvaluationConfig { do_eval: true, strategy: Steps(7), on_start: false }"],
    );
}
