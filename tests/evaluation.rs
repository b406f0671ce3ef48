//! Evaluations, logs and dry runs, through `prepare` and `Job`.

mod support;

use std::fs;

use serde_json::Value;
use shardwright_train::{
    EvaluationConfig, Event, GroupConfig, IntervalStrategy, LogRecord, LoggingConfig, ModelSource, Observer,
    ReportTo, RunResults, StopFlag, TrainConfig, TrainError, TrainErrorKind, prepare, prepare_unsaved,
};
use support::runtime;

const MODEL: &str = r#"{"model_type": "llama", "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1,
    "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 300, "max_position_embeddings": 32}"#;

/// A folder with a text, a model, and the settings of a run over them.
struct Fixture {
    folder: tempfile::TempDir,
    config: TrainConfig,
}

impl Fixture {
    fn new() -> Fixture {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let text = |count: usize| -> String {
            (0..count).map(|i| format!("line {i} of {} words, more or less\n", i * 7 % 11)).collect()
        };
        fs::write(path("text.txt"), text(60)).unwrap();
        fs::write(path("other.txt"), text(99)).unwrap();
        fs::write(path("config.json"), MODEL).unwrap();
        let config = TrainConfig {
            validation_files: vec![path("other.txt")],
            max_eval_samples: Some(13),
            block_size: Some(16),
            max_train_samples: Some(12),
            per_device_train_batch_size: 1,
            num_train_epochs: 1.0,
            groups: GroupConfig { learning_rate: 1e-2, ..GroupConfig::default() },
            evaluation: EvaluationConfig { do_eval: true, ..EvaluationConfig::default() },
            logging: LoggingConfig { strategy: IntervalStrategy::No, ..LoggingConfig::default() },
            ..TrainConfig::new(
                ModelSource::Config(path("config.json")),
                vec![path("text.txt")],
                folder.path().join("out"),
            )
        };
        Fixture { folder, config }
    }

    fn run(&self, devices: usize) -> Result<RunResults, TrainError> {
        let mut records = Records::default();
        prepare(&self.config, &mut records)?.run(&runtime(devices), &mut records, &StopFlag::new())
    }

    fn json(&self, name: &str) -> Value {
        serde_json::from_slice(&fs::read(self.config.output_dir.join(name)).unwrap()).unwrap()
    }

    /// The names of all files in the output folder, the folders in between too.
    fn files(&self) -> Vec<String> {
        let mut found = Vec::new();
        let mut folders = vec![self.config.output_dir.clone()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
                match entry.is_dir() {
                    true => folders.push(entry),
                    false => found.push(
                        entry.strip_prefix(&self.config.output_dir).unwrap().to_str().unwrap().to_owned(),
                    ),
                }
            }
        }
        found.sort();
        found
    }
}

/// The records of a run, as words; asks for a stop once the model is saved, if told to.
#[derive(Default)]
struct Records {
    words: Vec<String>,
    stop: Option<StopFlag>,
}

impl Observer for Records {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Logged(LogRecord::Train(record)) => self.words.push(format!("train {}", record.step)),
            Event::Logged(LogRecord::Evaluation(record)) => self.words.push(format!("eval {}", record.step)),
            Event::Trained { .. } => {
                self.words.push("trained".into());
                self.stop.iter().for_each(StopFlag::request);
            }
            Event::Evaluated { .. } => self.words.push("evaluated".into()),
            _ => {}
        }
    }
}

fn told(fixture: &Fixture) -> Vec<String> {
    let mut records = Records::default();
    let job = prepare(&fixture.config, &mut records).unwrap();
    job.run(&runtime(4), &mut records, &StopFlag::new()).unwrap();
    records.words
}

#[test]
fn the_loss_is_the_mean_over_all_tokens_however_they_are_batched_and_spread() {
    let mut fixture = Fixture::new();
    fixture.config.do_train = false;
    fixture.config.overwrite_output_dir = true;
    let mut losses = Vec::new();
    for (devices, batch) in [(1, 1), (1, 4), (1, 5), (1, 13), (1, 16), (4, 1), (4, 2), (4, 5), (4, 16)] {
        fixture.config.per_device_eval_batch_size = batch;
        let results = fixture.run(devices).unwrap();
        assert!(results.train.is_none());
        let eval = results.eval.unwrap();
        assert_eq!(eval.eval_samples, 13);
        assert!((eval.perplexity - eval.eval_loss.exp()).abs() < 1e-9 * eval.perplexity);
        losses.push(eval.eval_loss);
    }
    for loss in &losses {
        assert!((loss - losses[0]).abs() <= 1e-6 * losses[0], "{losses:?}");
    }
    // New weights know nothing.
    assert!((losses[0] - 300f64.ln()).abs() < 0.1, "{losses:?}");
    // Nothing is trained, so no model is written.
    assert_eq!(fixture.files(), ["all_results.json", "eval_results.json"]);
    assert_eq!(fixture.json("eval_results.json"), fixture.json("all_results.json"));
}

#[test]
fn a_model_is_evaluated_when_it_was_said_and_at_the_end_once() {
    let mut fixture = Fixture::new();
    fixture.config.overwrite_output_dir = true;
    fixture.config.evaluation.on_start = true;
    fixture.config.evaluation.strategy = IntervalStrategy::Steps(1);
    fixture.config.logging.strategy = IntervalStrategy::Steps(2);
    fixture.config.logging.first_step = true;
    assert_eq!(
        told(&fixture),
        ["eval 0", "train 1", "eval 1", "train 2", "eval 2", "trained", "eval 3", "evaluated"]
    );
    let history = fixture.json("trainer_state.json")["log_history"].as_array().unwrap().clone();
    let losses: Vec<f64> = history.iter().filter_map(|record| record["eval_loss"].as_f64()).collect();
    assert_eq!(losses.len(), 4);
    assert!(losses[3] < losses[0] - 0.05, "training helps: {losses:?}");
    assert_eq!(fixture.json("eval_results.json")["eval_loss"], losses[3]);
    let all = fixture.json("all_results.json");
    assert_eq!((&all["eval_samples"], &all["train_samples"]), (&Value::from(13), &Value::from(12)));

    fixture.config.evaluation =
        EvaluationConfig { do_eval: true, strategy: IntervalStrategy::Epoch, on_start: false };
    fixture.config.logging.strategy = IntervalStrategy::Epoch;
    fixture.config.logging.first_step = false;
    fixture.config.num_train_epochs = 2.0;
    assert_eq!(told(&fixture), ["train 3", "eval 3", "train 6", "trained", "eval 6", "evaluated"]);
}

#[test]
fn a_run_that_is_stopped_while_it_evaluates_has_saved_its_model() {
    let fixture = Fixture::new();
    let stop = StopFlag::new();
    let mut records = Records { stop: Some(stop.clone()), ..Records::default() };
    let job = prepare(&fixture.config, &mut records).unwrap();
    let error = job.run(&runtime(4), &mut records, &stop).unwrap_err();
    assert_eq!(error.kind(), TrainErrorKind::Interrupted);
    assert_eq!(error.to_string(), "interrupted during the evaluation, whose results are not saved");
    let files = fixture.files();
    assert!(files.iter().any(|name| name == "model.safetensors"), "{files:?}");
    assert!(!files.iter().any(|name| name == "eval_results.json"), "{files:?}");
}

#[test]
fn without_files_of_its_own_a_part_of_the_text_is_evaluated_and_not_trained_on() {
    let mut fixture = Fixture::new();
    fixture.config.validation_files.clear();
    fixture.config.max_eval_samples = None;
    fixture.config.max_train_samples = None;
    fixture.config.validation_split_percentage = 20;
    let all = {
        let job = TrainConfig { evaluation: EvaluationConfig::default(), ..fixture.config.clone() };
        let mut records = Records::default();
        let job =
            prepare(&TrainConfig { output_dir: fixture.folder.path().join("all"), ..job }, &mut records);
        job.unwrap().run(&runtime(4), &mut records, &StopFlag::new()).unwrap().train.unwrap().train_samples
    };
    let results = fixture.run(4).unwrap();
    let (train, eval) = (results.train.unwrap().train_samples, results.eval.unwrap().eval_samples);
    assert!(train < all && eval > 0 && (train + eval).abs_diff(all) <= 2, "{train} and {eval} of {all}");
}

#[test]
fn a_run_that_logs_nothing_leaves_the_model_and_its_figures_only() {
    let mut fixture = Fixture::new();
    fixture.config.evaluation.do_eval = false;
    fixture.run(4).unwrap();
    assert_eq!(
        fixture.files(),
        [
            "README.md",
            "all_results.json",
            "config.json",
            "fsdp_config.json",
            "model.safetensors",
            "tokenizer.json",
            "tokenizer_config.json",
            "train_results.json",
            "trainer_state.json",
            "training_args.json",
        ]
    );
}

#[test]
fn a_log_is_lines_a_picture_and_events_on_request() {
    let mut fixture = Fixture::new();
    fixture.config.logging.strategy = IntervalStrategy::Steps(1);
    fixture.config.logging.report_to = vec![ReportTo::TensorBoard];
    fixture.config.run_name = Some("mine".into());
    fixture.run(4).unwrap();
    let log: Vec<String> = fixture.files().into_iter().filter(|name| name.starts_with("runs/")).collect();
    assert_eq!(log.len(), 3, "{log:?}");
    assert!(log[0].starts_with("runs/mine/events.out.tfevents."), "{log:?}");
    assert_eq!(log[1..], ["runs/mine/log.jsonl", "runs/mine/loss.svg"]);
    let lines = fs::read_to_string(fixture.config.output_dir.join(&log[1])).unwrap();
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(Value::from(lines), fixture.json("trainer_state.json")["log_history"]);
}

#[test]
fn a_run_stops_where_its_numbers_are_lost() {
    let mut fixture = Fixture::new();
    fixture.config.groups.learning_rate = 1e38;
    let error = fixture.run(2).unwrap_err().to_string();
    assert!(error.contains(" is not finite at step "), "{error}");
    assert!(error.contains("nothing was saved; try a lower --learning_rate"), "{error}");
    assert!(fixture.files().is_empty());
}

#[test]
fn a_dry_run_tells_what_is_needed_and_writes_nothing() {
    let fixture = Fixture::new();
    let mut records = Records::default();
    let job = prepare_unsaved(&fixture.config, &mut records).unwrap();
    let found = job.dry_run(&runtime(4), &mut records).unwrap();
    let [parameters, gradients, state, _] = &found.memory[..] else { panic!("{found:?}") };
    assert_eq!((parameters.whole, parameters.per_device), (gradients.whole, gradients.per_device));
    assert_eq!(state.whole, 2 * parameters.whole, "AdamW keeps two numbers for each");
    assert_eq!(found.held_bytes, Some(parameters.per_device + state.per_device));
    assert!(found.compiled_bytes > found.held_bytes && found.program_ops > 100, "{found:?}");
    assert!(!fixture.config.output_dir.exists());

    let only = TrainConfig { do_train: false, ..fixture.config.clone() };
    let job = prepare_unsaved(&only, &mut records).unwrap();
    let error = job.dry_run(&runtime(4), &mut records).unwrap_err();
    assert_eq!(error.to_string(), "a dry run is of training, and this run only evaluates; pass --do_train");
}
