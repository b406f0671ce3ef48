//! What breaks, or is silently wrong, where Hugging Face's Trainer runs over PyTorch/XLA's FSDPv2, with the same settings
//! here: whole runs over eight devices.

mod support;

use std::fs;
use std::path::Path;
use std::sync::OnceLock;

use shardwright_checkpoint::HfWeights;
use shardwright_model::{ModelConfig, parameters};
use shardwright_tensor::DType;
use shardwright_train::{
    EvaluationConfig, Event, ModelSource, Observer, PrecisionConfig, RunResults, StopFlag, TrainConfig,
    prepare,
};
use support::runtime;

const TOLERANCE: f64 = 2e-5;

struct Unobserved;

impl Observer for Unobserved {
    fn event(&mut self, _event: Event<'_>) {}
}

/// Settings of a run of five steps, in a folder of its own.
struct Run {
    folder: tempfile::TempDir,
    config: TrainConfig,
}

impl Run {
    /// All as it is where nothing is said, but for the size of things.
    fn new(tied: bool) -> Run {
        let folder = tempfile::tempdir().unwrap();
        let path = |name| folder.path().join(name);
        let text = |lines: std::ops::Range<usize>| -> String {
            lines.map(|i| format!("line {i} of {} words, more or less\n", i * 7 % 11)).collect()
        };
        let model = format!(
            r#"{{"model_type": "llama", "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
            "num_attention_heads": 4, "vocab_size": 300, "max_position_embeddings": 16, "tie_word_embeddings": {tied}}}"#
        );
        fs::write(path("text.txt"), text(0..400)).unwrap();
        fs::write(path("eval.txt"), text(400..435)).unwrap();
        fs::write(path("config.json"), model).unwrap();
        let source = ModelSource::Config(path("config.json"));
        let mut config = TrainConfig::new(source, vec![path("text.txt")], path("out"));
        config.max_steps = Some(5);
        config.groups.learning_rate = 1e-2;
        config.per_device_train_batch_size = 1;
        config.validation_files = vec![path("eval.txt")];
        config.per_device_eval_batch_size = 1;
        config.evaluation = EvaluationConfig { do_eval: true, ..EvaluationConfig::default() };
        Run { folder, config }
    }

    /// The same batches on so many devices.
    fn results(&mut self, devices: usize) -> RunResults {
        self.config.per_device_train_batch_size = 8 / devices;
        self.config.overwrite_output_dir = true;
        let job = prepare(&self.config, &mut Unobserved).unwrap();
        job.run(&runtime(devices), &mut Unobserved, &StopFlag::default()).unwrap()
    }

    fn output(&self) -> &Path {
        &self.config.output_dir
    }

    /// Another run that only evaluates what this one saved.
    fn evaluated_again(&self, devices: usize) -> f64 {
        let mut config = self.config.clone();
        config.model = ModelSource::Pretrained(self.output().to_owned());
        config.tokenizer = Some(self.output().to_owned());
        config.output_dir = self.folder.path().join("again");
        config.do_train = false;
        let job = prepare(&config, &mut Unobserved).unwrap();
        let results = job.run(&runtime(devices), &mut Unobserved, &StopFlag::default()).unwrap();
        results.eval.unwrap().eval_loss
    }
}

/// What eight devices make of the settings as they are.
fn usual() -> &'static RunResults {
    static USUAL: OnceLock<RunResults> = OnceLock::new();
    USUAL.get_or_init(|| Run::new(false).results(8))
}

/// The loss of the last step, and that of the evaluation.
fn losses(results: &RunResults) -> [f64; 2] {
    [results.train.as_ref().unwrap().last_loss, results.eval.as_ref().unwrap().eval_loss]
}

#[track_caller]
fn check_near(found: &RunResults, expected: &RunResults, tolerance: f64) {
    let (found, expected) = (losses(found), losses(expected));
    let is_near = found.iter().zip(expected).all(|(found, expected)| (found - expected).abs() <= tolerance);
    assert!(is_near, "{found:?}, not {expected:?}");
}

#[test]
fn the_default_optimizer_trains_and_a_short_last_batch_of_an_evaluation_counts_what_it_has() {
    let on_eight = usual();
    let evaluated = on_eight.eval.as_ref().unwrap().eval_samples;
    assert!(!evaluated.is_multiple_of(8) && evaluated > 8, "{evaluated} blocks");
    let train = on_eight.train.as_ref().unwrap();
    assert!(train.last_loss < train.first_loss, "{train:?}");
    // On one device each batch of the evaluation has one block, and none is short.
    check_near(on_eight, &Run::new(false).results(1), TOLERANCE);
}

#[test]
fn computing_in_bf16_trains_to_nearly_the_same_loss() {
    let mut run = Run::new(false);
    let bf16 = DType::Bf16;
    run.config.precision = PrecisionConfig { compute: bf16, ..PrecisionConfig::default() };
    check_near(&run.results(8), usual(), 5e-2);
}

#[test]
fn gradient_checkpointing_by_its_own_name_changes_no_loss() {
    let mut run = Run::new(false);
    run.config.sharding.gradient_checkpointing = true;
    check_near(&run.results(8), usual(), TOLERANCE);
}

#[test]
fn tied_tables_stay_one_table() {
    let mut run = Run::new(true);
    let on_one = run.results(1);
    let on_eight = run.results(8);
    check_near(&on_eight, &on_one, TOLERANCE);
    let saved = HfWeights::open(run.output()).unwrap();
    assert!(saved.ty("model.embed_tokens.weight").is_some() && saved.ty("lm_head.weight").is_none());
    assert!((run.evaluated_again(8) - losses(&on_eight)[1]).abs() <= 1e-6);
}

#[test]
fn what_is_saved_has_the_models_own_names_and_is_read_again_on_one_device() {
    let mut run = Run::new(false);
    let results = run.results(8);
    let text = fs::read_to_string(run.output().join("config.json")).unwrap();
    let model = ModelConfig::parse(&text, "config.json").unwrap();
    let mut expected: Vec<String> = parameters(&model).into_iter().map(|p| p.name).collect();
    let saved = HfWeights::open(run.output()).unwrap();
    let mut names: Vec<String> = saved.tensors().map(|tensor| tensor.name.to_owned()).collect();
    expected.sort();
    names.sort();
    assert_eq!(names, expected);
    assert!((run.evaluated_again(1) - losses(&results)[1]).abs() <= TOLERANCE);
}
