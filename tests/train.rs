//! Whole runs: from files to the saved model, through `prepare` and `Job::run`.

mod support;

use std::fs;
use std::path::Path;

use serde_json::Value;
use shardwright_checkpoint::HfWeights;
use shardwright_model::{ModelConfig, parameters};
use shardwright_tensor::DType;
use shardwright_train::{
    Clipping, Event, GroupConfig, IntervalStrategy, LogRecord, LoggingConfig, LossDenominator, ModelSource,
    Observer, StopFlag, TrainConfig, TrainError, TrainErrorKind, TrainRecord, TrainResults, prepare,
};
use support::runtime;

/// Lines of text that make 40 or so blocks of 16 tokens.
fn text() -> String {
    (0..60).map(|i| format!("line {i} of {} words, more or less\n", i * 7 % 11)).collect()
}

const MODEL: &str = r#"{"model_type": "llama", "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 300, "max_position_embeddings": 32,
    "torch_dtype": "bfloat16", "pad_token_id": 7}"#;

/// A folder with a text and a model, and the settings of a run over them.
struct Fixture {
    folder: tempfile::TempDir,
    config: TrainConfig,
}

impl Fixture {
    fn new() -> Fixture {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("text.txt"), text()).unwrap();
        fs::write(folder.path().join("config.json"), MODEL).unwrap();
        let model = ModelSource::Config(folder.path().join("config.json"));
        let (text, out) = (folder.path().join("text.txt"), folder.path().join("out"));
        let config = TrainConfig {
            block_size: Some(16),
            max_train_samples: Some(10),
            per_device_train_batch_size: 1,
            num_train_epochs: 1.0,
            seed: 5,
            groups: GroupConfig { learning_rate: 1e-2, ..GroupConfig::default() },
            clipping: Clipping::default(),
            loss_denominator: LossDenominator::Targets,
            logging: LoggingConfig { strategy: IntervalStrategy::Steps(1), ..LoggingConfig::default() },
            ..TrainConfig::new(model, vec![text], out)
        };
        Fixture { folder, config }
    }

    fn output(&self) -> &Path {
        &self.config.output_dir
    }

    fn json(&self, name: &str) -> Value {
        serde_json::from_str(&fs::read_to_string(self.output().join(name)).unwrap()).unwrap()
    }

    fn run(&self, devices: usize, recorder: &mut Recorder) -> Result<TrainResults, TrainError> {
        let stop = recorder.stop.clone();
        let results = prepare(&self.config, recorder)?.run(&runtime(devices), recorder, &stop)?;
        Ok(results.train.expect("the run trains"))
    }
}

/// Notes what it is told, and asks for a stop after a given step.
#[derive(Default)]
struct Recorder {
    stop: StopFlag,
    stop_after: Option<usize>,
    notices: Vec<String>,
    steps: Vec<TrainRecord>,
    planned: Option<(usize, usize)>,
}

impl Observer for Recorder {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Notice(text) => self.notices.push(text.to_owned()),
            Event::Start(start) => self.planned = Some((start.steps, start.global_batch_size)),
            Event::Step(progress) if self.stop_after == Some(progress.step) => self.stop.request(),
            Event::Logged(LogRecord::Train(record)) => self.steps.push(record.clone()),
            _ => {}
        }
    }
}

fn losses(recorder: &Recorder) -> Vec<f64> {
    recorder.steps.iter().map(|s| s.loss).collect()
}

#[test]
fn a_run_leaves_a_model_that_can_be_loaded_and_gone_on_with() {
    let mut fixture = Fixture::new();
    let mut recorder = Recorder::default();
    let results = fixture.run(4, &mut recorder).unwrap();
    assert_eq!(recorder.planned, Some((3, 4)));
    assert_eq!((results.steps, results.train_samples), (3, 10));

    // All parameters under their names, in the dtype that the run was told.
    let text = fs::read_to_string(fixture.output().join("config.json")).unwrap();
    let model = ModelConfig::parse(&text, "config.json").unwrap();
    assert_eq!(model.dtype(), Some(DType::F32));
    let weights = HfWeights::open(fixture.output()).unwrap();
    assert_eq!(weights.tensors().len(), parameters(&model).len());
    for parameter in parameters(&model) {
        let ty = weights.ty(&parameter.name).unwrap();
        assert_eq!((ty.dims(), ty.dtype), (&parameter.shape[..], DType::F32), "{}", parameter.name);
        assert!(weights.read(&parameter.name).unwrap().to_f64().iter().all(|v| v.is_finite()));
    }
    let padding = weights.read_slice("model.embed_tokens.weight", &[7..8, 0..32]).unwrap();
    assert!(padding.to_f64().iter().all(|&v| v == 0.0), "the padding row stays zero");

    // The log has the steps, then the whole run.
    let history = fixture.json("trainer_state.json")["log_history"].as_array().unwrap().clone();
    assert_eq!(history.len(), 4);
    assert_eq!((&history[1]["epoch"], &history[1]["step"]), (&Value::from(0.67), &Value::from(2)));
    assert_eq!(history[3]["train_samples"], 10);
    assert_eq!(fixture.json("train_results.json"), fixture.json("all_results.json"));
    assert_eq!(fixture.json("tokenizer_config.json")["eos_token"], "</s>");
    assert_eq!(fixture.json("fsdp_config.json")["xla_fsdp_grad_ckpt"], false);

    // Training goes on from the saved weights: its first loss is that of a model that was trained.
    fixture.config.model = ModelSource::Pretrained(fixture.output().to_owned());
    fixture.config.tokenizer = Some(fixture.output().join("tokenizer.json"));
    fixture.config.output_dir = fixture.folder.path().join("again");
    let mut again = Recorder::default();
    fixture.run(2, &mut again).unwrap();
    assert!(again.steps[0].loss < recorder.steps[0].loss - 0.1);
}

#[test]
fn ragged_batches_are_dropped_or_filled_up() {
    let mut fixture = Fixture::new();
    fixture.config.num_train_epochs = 2.0;
    let mut kept = Recorder::default();
    let results = fixture.run(4, &mut kept).unwrap();
    assert_eq!(kept.planned, Some((6, 4)));
    let seconds = results.train_runtime;
    assert!((results.train_samples_per_second * seconds - 20.0).abs() < 1e-6, "real examples count");

    fixture.config.dataloader_drop_last = true;
    fixture.config.overwrite_output_dir = true;
    let mut dropped = Recorder::default();
    fixture.run(4, &mut dropped).unwrap();
    assert_eq!(dropped.planned, Some((4, 4)));
    assert!(dropped.notices.iter().any(|n| n.starts_with("2 blocks of each epoch")), "{:?}", dropped.notices);
    // The first epochs begin alike.
    assert_eq!(losses(&dropped)[0], losses(&kept)[0]);
}

#[test]
fn losses_do_not_depend_on_the_mesh() {
    let mut fixture = Fixture::new();
    fixture.config.overwrite_output_dir = true;
    let mut reference = Recorder::default();
    fixture.config.per_device_train_batch_size = 8;
    let expected = fixture.run(1, &mut reference).unwrap();
    assert!(reference.notices.iter().any(|n| n.contains("parameters are not sharded")));
    fixture.config.per_device_train_batch_size = 1;
    for mesh in ["fsdp=8", "data=2,fsdp=4", "fsdp=2,data=4"] {
        fixture.config.sharding.mesh = Some(mesh.into());
        let mut recorder = Recorder::default();
        let results = fixture.run(8, &mut recorder).unwrap();
        let figures = |results: &TrainResults| [results.first_loss, results.last_loss, results.train_loss];
        for (loss, expected) in figures(&results).into_iter().zip(figures(&expected)) {
            assert!((loss - expected).abs() < 1e-5, "{mesh}: {loss}, not {expected}");
        }
        assert_eq!(recorder.steps.len(), reference.steps.len());
    }
}

#[test]
fn a_stopped_run_ends_at_the_next_step_and_leaves_nothing() {
    let fixture = Fixture::new();
    let mut recorder = Recorder { stop_after: Some(1), ..Default::default() };
    let error = fixture.run(2, &mut recorder).unwrap_err();
    assert_eq!(error.kind(), TrainErrorKind::Interrupted);
    assert_eq!(error.to_string(), "interrupted after 1 of 5 steps; nothing was saved");
    assert_eq!(fs::read_dir(fixture.output()).unwrap().count(), 0);
}

#[test]
fn what_an_earlier_run_left_does_not_come_before_the_new_model() {
    let mut fixture = Fixture::new();
    fs::create_dir(fixture.output()).unwrap();
    let kept = "model-00001-of-00002.safetensors.txt";
    for name in ["model.safetensors.index.json", "model-00001-of-00002.safetensors", kept] {
        fs::write(fixture.output().join(name), "{}").unwrap();
    }
    let refused = fixture.run(2, &mut Recorder::default()).unwrap_err();
    assert!(refused.to_string().ends_with("or pass --overwrite_output_dir"), "{refused}");
    fixture.config.overwrite_output_dir = true;
    fixture.run(2, &mut Recorder::default()).unwrap();
    assert!(HfWeights::open(fixture.output()).unwrap().notices().is_empty());
    let names = fs::read_dir(fixture.output()).unwrap().map(|entry| entry.unwrap().file_name());
    assert_eq!(names.filter(|name| name.to_string_lossy().contains("-of-")).collect::<Vec<_>>(), [kept]);
}

#[test]
fn training_in_which_nothing_would_be_sharded_is_not_called_fsdp() {
    let mut fixture = Fixture::new();
    fixture.config.sharding.min_shard_bytes = 1 << 30;
    let error = fixture.run(2, &mut Recorder::default()).unwrap_err().to_string();
    assert!(
        error.starts_with("none of the 21 parameters can be split over the 2 devices of mesh axis fsdp"),
        "{error}"
    );
}

#[test]
fn numbers_that_are_lost_are_told_of_once() {
    let mut fixture = Fixture::new();
    fixture.config.groups.learning_rate = 1e38;
    fixture.config.num_train_epochs = 3.0;
    fixture.config.nan_stop = false;
    let mut recorder = Recorder::default();
    fixture.run(2, &mut recorder).unwrap();
    let told = recorder.notices.iter().filter(|n| n.contains("from here on the numbers are lost")).count();
    assert_eq!(told, 1, "{:?}", recorder.notices);
}

#[test]
fn a_head_that_is_not_tied_is_not_dropped_from_a_tied_model() {
    let mut fixture = Fixture::new();
    fixture.run(2, &mut Recorder::default()).unwrap();
    let path = fixture.output().join("config.json");
    let mut config: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    config["tie_word_embeddings"] = true.into();
    fs::write(&path, config.to_string()).unwrap();
    fixture.config.model = ModelSource::Pretrained(fixture.output().to_owned());
    fixture.config.output_dir = fixture.folder.path().join("again");
    let error = fixture.run(2, &mut Recorder::default()).unwrap_err();
    assert!(error.to_string().contains("lm_head.weight differs from model.embed_tokens.weight"), "{error}");
    assert!(!fixture.output().exists(), "nothing is made for a run that is refused");
}
