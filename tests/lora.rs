//! Adapters against PEFT: losses and gradient norms of training them, on one device and on eight, and what is left alone.
//! `tests/data/lora/make.py` made what is expected.

mod command;
mod support;

use std::collections::BTreeMap;
use std::path::PathBuf;

use expect_test::expect;
use serde::Deserialize;
use shardwright_checkpoint::HfWeights;
use shardwright_hlo::compiled::CollectiveKind;
use shardwright_mesh::AbstractMesh;
use shardwright_model::{Init, Lora, LoraConfig, parameter_count};
use shardwright_partition::{Lowering, PlanOptions};
use shardwright_tensor::DType;
use shardwright_train::{
    CausalLm, Event, GroupConfig, LoraSource, Model, ModelSource, Observer, PrecisionConfig, StepConfig,
    StopFlag, TrainConfig, TrainError, TrainErrorKind, TrainResults, TrainState, TrainStep, WeightSource,
    prepare,
};
use support::{CompiledStep, data, oracle_batches, oracle_model, oracle_step, runtime};

const TOLERANCE: f64 = 2e-5;

/// What `make.py` wrote.
#[derive(Deserialize)]
struct Expected {
    learning_rate: f64,
    cases: BTreeMap<String, Case>,
}

#[derive(Deserialize)]
struct Case {
    trained: usize,
    total: usize,
    loss: Vec<f64>,
    grad_norm: Vec<f64>,
}

impl Expected {
    fn read() -> Expected {
        serde_json::from_slice(&std::fs::read(data("lora/curves.json")).unwrap()).unwrap()
    }
}

/// The base model with the adapters of a case.
fn adapted(case: &str) -> CausalLm {
    let text = std::fs::read_to_string(data("lora").join(case).join("adapter_config.json")).unwrap();
    let model = oracle_model("base");
    let lora = Lora::new(&LoraConfig::parse(&text, "adapter_config.json").unwrap(), &model.config).unwrap();
    CausalLm { lora: Some(lora), ..model }
}

fn step_config(model: &CausalLm, lowering: Lowering) -> StepConfig {
    StepConfig {
        groups: GroupConfig { learning_rate: Expected::read().learning_rate, ..GroupConfig::default() },
        lowering,
        ..oracle_step(model, PlanOptions::default())
    }
}

fn base() -> HfWeights {
    HfWeights::open(data("oracle/models/base")).unwrap()
}

fn adapter(case: &str) -> HfWeights {
    HfWeights::open(data("lora").join(case).join("adapter_model.safetensors")).unwrap()
}

/// The losses and gradient norms of the steps of a case.
fn follow(case: &str, mesh: &str, change: impl FnOnce(&mut StepConfig), steps: usize) -> Vec<(f64, f64)> {
    let runtime = runtime(AbstractMesh::parse(mesh).unwrap().size());
    let mesh = runtime.mesh(mesh).unwrap();
    let model = adapted(case);
    let mut config = step_config(&model, Lowering::default());
    change(&mut config);
    let step = TrainStep::compile(&runtime, &mesh, &model, &config).unwrap();
    let (base, adapter) = (base(), adapter(case));
    let source = WeightSource::Adapted { base: &base, adapter: Some(&adapter), seed: 0 };
    let mut state = TrainState::new(&runtime, &step, source).unwrap();
    let mut readings = Vec::new();
    for batch in &oracle_batches()[..steps] {
        let (next, metrics) = step.run(&runtime, state, &[batch, batch], 1.0).unwrap();
        state = next;
        let reading = metrics.read().unwrap();
        readings.push((reading.loss, reading.grad_norm));
    }
    readings
}

#[track_caller]
fn check(case: &str, mesh: &str, change: impl FnOnce(&mut StepConfig)) {
    let expected = &Expected::read().cases[case];
    let readings = follow(case, mesh, change, expected.loss.len());
    for (step, (loss, norm)) in readings.into_iter().enumerate() {
        let far = ((loss - expected.loss[step]).abs(), (norm / expected.grad_norm[step] - 1.0).abs());
        // A NaN is not near.
        let is_near = far.0 <= TOLERANCE && far.1 <= TOLERANCE;
        assert!(is_near, "{case} {mesh}, step {step}: loss {loss}, norm {norm}, apart {far:?}");
    }
}

#[test]
fn adapters_of_named_projections_follow_peft() {
    check("projections", "fsdp=1", |_| {});
    check("projections", "fsdp=8", |step| step.remat = true);
}

#[test]
fn adapters_by_patterns_and_modules_in_full_follow_peft() {
    check("patterns", "fsdp=1", |step| step.remat = true);
    check("patterns", "fsdp=8", |_| {});
}

#[test]
fn adapters_of_all_projections_follow_peft() {
    check("all", "data=2,fsdp=4", |step| step.remat = true);
    check("all", "fsdp=8", |step| step.lowering = Lowering::Annotate);
    check("all", "fsdp=2,tensor=4", |step| step.lowering = Lowering::Annotate);
}

#[test]
fn micro_batches_make_the_same_steps() {
    check("projections", "fsdp=4", |step| step.gradient_accumulation_steps = 2);
}

#[test]
fn as_much_is_trained_as_peft_counts() {
    for (name, case) in Expected::read().cases {
        let model = adapted(&name);
        let size = |trained: bool| -> usize {
            let of_kind = model.parameters().into_iter().filter(|p| !trained || model.trains(p));
            of_kind.map(|p| p.element_count()).sum()
        };
        // PEFT counts what is trained in full a second time, as it keeps a copy.
        let lora = model.lora.as_ref().unwrap();
        let copied = size(true) - lora.parameters().iter().map(|p| p.element_count()).sum::<usize>();
        assert_eq!((size(true), size(false) + copied), (case.trained, case.total), "{name}");
        assert_eq!(size(false) - size(true) + copied, parameter_count(&model.config), "{name}");
    }
}

#[test]
fn nothing_is_kept_or_reduced_for_what_is_frozen() {
    for lowering in [Lowering::default(), Lowering::Annotate] {
        let model = adapted("projections");
        let config = step_config(&model, lowering);
        let step = CompiledStep::new(&model, "fsdp=8", &config);
        let bytes = |kind| step.bytes(kind, "fsdp").iter().sum::<usize>();
        let reduced = bytes(CollectiveKind::AllReduce) + bytes(CollectiveKind::ReduceScatter);
        let trained: usize =
            model.lora.iter().flat_map(Lora::parameters).map(|p| p.element_count() * 4).sum();
        // Beside the gradients: loss, count, and their norms.
        assert!(reduced <= trained + 1024, "{reduced} of {trained}: {:#?}", step.program.collectives);
        assert!(step.count(CollectiveKind::AllGather) > 0);
    }
}

#[test]
fn a_base_in_bf16_has_adapters_in_f32() {
    let runtime = runtime(8);
    let mesh = runtime.mesh("fsdp=8").unwrap();
    let model = adapted("patterns");
    let precision =
        PrecisionConfig { weights: DType::Bf16, compute: DType::Bf16, reduce: DType::F32, masters: true };
    let config = StepConfig { precision, remat: true, ..step_config(&model, Lowering::default()) };
    let step = TrainStep::compile(&runtime, &mesh, &model, &config).unwrap();
    let (base, adapter) = (base(), adapter("patterns"));
    let source = WeightSource::Adapted { base: &base, adapter: Some(&adapter), seed: 0 };
    let state = TrainState::new(&runtime, &step, source).unwrap();
    for (info, array) in step.parameters().iter().zip(&state.parameters) {
        let expected = if model.trains(info) { DType::F32 } else { DType::Bf16 };
        assert_eq!(array.ty().dtype, expected, "{}", info.name);
    }
    assert!(state.state.iter().all(|kept| kept.ty().dtype == DType::F32));
    let expected = &Expected::read().cases["all"];
    let readings = follow("all", "fsdp=8", |step| step.precision = precision, expected.loss.len());
    for (step, (loss, _)) in readings.into_iter().enumerate() {
        assert!(
            (loss - expected.loss[step]).abs() <= 5e-3,
            "step {step}: {loss} for {}",
            expected.loss[step]
        );
    }
}

#[test]
fn fresh_adapters_are_the_same_on_any_mesh_and_begin_without_effect() {
    let model = adapted("projections");
    let drawn = |mesh: &str| {
        let runtime = runtime(AbstractMesh::parse(mesh).unwrap().size());
        let mesh = runtime.mesh(mesh).unwrap();
        let step =
            TrainStep::compile(&runtime, &mesh, &model, &step_config(&model, Lowering::default())).unwrap();
        let base = base();
        let source = WeightSource::Adapted { base: &base, adapter: None, seed: 3 };
        let state = TrainState::new(&runtime, &step, source).unwrap();
        let arrays = step.parameters().iter().zip(&state.parameters);
        let adapters = arrays.filter(|(info, _)| model.trains(info));
        adapters.map(|(info, array)| (info.clone(), array.to_host().unwrap().to_f64())).collect::<Vec<_>>()
    };
    let one = drawn("fsdp=1");
    assert_eq!(one, drawn("fsdp=8"));
    for (info, values) in one {
        let Init::Uniform { bound } = info.init else {
            assert!(values.iter().all(|&v| v == 0.0), "{}", info.name);
            continue;
        };
        assert!((bound - 1.0 / 128f64.sqrt()).abs() < 1e-12);
        assert!(values.iter().all(|v| v.abs() <= bound));
        // The variance of a uniform distribution is a third of its bound's square.
        let variance = values.iter().map(|v| v * v).sum::<f64>() / values.len() as f64;
        assert!((variance / (bound * bound / 3.0) - 1.0).abs() < 0.2, "{}: {variance}", info.name);
    }
}

const MODEL: &str = r#"{"model_type": "llama", "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 300, "max_position_embeddings": 32}"#;

/// A folder with a text and a model that was trained on it, in `base`.
struct Runs(tempfile::TempDir);

/// Notes what it is told of the plan.
#[derive(Default)]
struct Recorder {
    parameters: usize,
    trained: usize,
    notices: Vec<String>,
}

impl Observer for Recorder {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Notice(text) => self.notices.push(text.to_owned()),
            Event::Plan { parameters, trained, .. } => {
                (self.parameters, self.trained) = (parameters, trained)
            }
            _ => {}
        }
    }
}

impl Runs {
    fn new() -> Runs {
        let runs = Runs(tempfile::tempdir().unwrap());
        let text: String = (0..60).map(|i| format!("line {i} of {} words\n", i * 7 % 11)).collect();
        std::fs::write(runs.path("text.txt"), text).unwrap();
        std::fs::write(runs.path("config.json"), MODEL).unwrap();
        let source = ModelSource::Config(runs.path("config.json"));
        let config = TrainConfig::new(source, vec![runs.path("text.txt")], runs.path("base"));
        run(&TrainConfig { block_size: Some(16), max_steps: Some(1), ..config }).unwrap();
        runs
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Two steps from the base, with these adapters.
    fn config(&self, lora: Option<LoraSource>, output: &str) -> TrainConfig {
        let source = ModelSource::Pretrained(self.path("base"));
        TrainConfig {
            lora,
            tokenizer: Some(self.path("base")),
            block_size: Some(16),
            per_device_train_batch_size: 1,
            max_steps: Some(2),
            groups: GroupConfig { learning_rate: 1e-2, ..GroupConfig::default() },
            ..TrainConfig::new(source, vec![self.path("text.txt")], self.path(output))
        }
    }

    fn bytes(&self, file: &str) -> Vec<u8> {
        std::fs::read(self.path(file)).unwrap()
    }
}

fn run(config: &TrainConfig) -> Result<(TrainResults, Recorder), TrainError> {
    let mut recorder = Recorder::default();
    let job = prepare(config, &mut recorder)?;
    let results = job.run(&runtime(4), &mut recorder, &StopFlag::default())?;
    Ok((results.train.unwrap(), recorder))
}

fn new_adapters() -> Option<LoraSource> {
    let text = r#"{"r": 3, "target_modules": ["o_proj", "c_proj"], "modules_to_save": ["lm_head"]}"#;
    Some(LoraSource::New(LoraConfig::parse(text, "adapter_config.json").unwrap().into()))
}

#[test]
fn a_run_leaves_the_adapters_alone_and_goes_on_from_them() {
    let runs = Runs::new();
    let base = runs.bytes("base/model.safetensors");
    let (results, recorder) = run(&runs.config(new_adapters(), "adapter")).unwrap();
    assert!(recorder.notices.contains(&"target_modules: no module of the model is called c_proj".to_owned()));
    let adapters = 2 * (3 * 32 + 32 * 3);
    assert_eq!(recorder.trained, adapters + 300 * 32);
    assert!(recorder.parameters > recorder.trained);

    let saved = HfWeights::open(runs.path("adapter/adapter_model.safetensors")).unwrap();
    let mut names: Vec<&str> = saved.tensors().map(|tensor| tensor.name).collect();
    names.sort_unstable();
    let expected = [
        "base_model.model.lm_head.weight",
        "base_model.model.model.layers.0.self_attn.o_proj.lora_A.weight",
        "base_model.model.model.layers.0.self_attn.o_proj.lora_B.weight",
        "base_model.model.model.layers.1.self_attn.o_proj.lora_A.weight",
        "base_model.model.model.layers.1.self_attn.o_proj.lora_B.weight",
    ];
    assert_eq!(names, expected);
    assert!(!runs.path("adapter/model.safetensors").exists() && !runs.path("adapter/config.json").exists());
    assert_eq!(runs.bytes("base/model.safetensors"), base);

    // Without a learning rate, nothing changes: what is read is what was saved.
    let goes_on = Some(LoraSource::Saved(runs.path("adapter")));
    let mut config = runs.config(goes_on, "again");
    config.groups.learning_rate = 0.0;
    let (again, _) = run(&config).unwrap();
    assert!(again.first_loss < results.first_loss, "{} after {}", again.first_loss, results.first_loss);
    let file = "adapter_model.safetensors";
    assert_eq!(runs.bytes(&format!("again/{file}")), runs.bytes(&format!("adapter/{file}")));
    let read = |folder: &str| -> LoraConfig {
        let text = std::fs::read_to_string(runs.path(folder).join("adapter_config.json")).unwrap();
        LoraConfig::parse(&text, "adapter_config.json").unwrap()
    };
    assert_eq!(read("again"), read("adapter"));
    assert_eq!(read("again").base_model_name_or_path, Some(runs.path("base").display().to_string()));
}

#[test]
fn a_whole_model_takes_the_place_of_adapters_and_they_of_it() {
    let runs = Runs::new();
    let whole = ["config.json", "model.safetensors"];
    let adapters = ["adapter_config.json", "adapter_model.safetensors"];
    for (lora, there, gone) in
        [(new_adapters(), adapters, whole), (None, whole, adapters), (new_adapters(), adapters, whole)]
    {
        run(&TrainConfig { overwrite_output_dir: true, ..runs.config(lora, "out") }).unwrap();
        assert!(there.iter().all(|file| runs.path("out").join(file).exists()), "{there:?}");
        assert!(!gone.iter().any(|file| runs.path("out").join(file).exists()), "{gone:?}");
    }
}

#[test]
fn adapters_that_do_not_fit_are_errors() {
    let runs = Runs::new();
    run(&runs.config(new_adapters(), "adapter")).unwrap();
    let path = runs.path("adapter/adapter_config.json");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace("\"r\": 3", "\"r\": 5")).unwrap();
    let saved = || Some(LoraSource::Saved(runs.path("adapter")));
    let wrong = |config: &TrainConfig| {
        let Err(error) = run(config) else { panic!("it runs") };
        assert_eq!(error.kind(), TrainErrorKind::Input);
        error.to_string().replace(&runs.0.path().display().to_string(), "")
    };
    expect![[r#"
        /adapter/adapter_model.safetensors: the weights are not those of the model (5 tensors needed, 5 found)
          4 of another type: base_model.model.model.layers.0.self_attn.o_proj.lora_A.weight ([3,32] in the file, [5,32] by the configuration), base_model.model.model.layers.0.self_attn.o_proj.lora_B.weight ([32,3] in the file, [32,5] by the configuration), base_model.model.model.layers.1.self_attn.o_proj.lora_A.weight ([3,32] in the file, [5,32] by the configuration), base_model.model.model.layers.1.self_attn.o_proj.lora_B.weight ([32,3] in the file, [32,5] by the configuration)"#]].assert_eq(&wrong(&runs.config(saved(), "out")));
    // Links lead to the same folder.
    let link = runs.path("link");
    std::os::unix::fs::symlink(runs.path("base"), &link).unwrap();
    let over = TrainConfig { overwrite_output_dir: true, ..runs.config(new_adapters(), "link") };
    expect!["the output folder /base is that of the model whose adapters are trained, which would be removed; choose another --output_dir"].assert_eq(&wrong(&over));
    assert!(runs.path("base/model.safetensors").exists());
    std::fs::remove_file(&path).unwrap();
    expect!["cannot read /adapter/adapter_config.json: No such file or directory (os error 2)"]
        .assert_eq(&wrong(&runs.config(saved(), "out")));
    let fresh = ModelSource::Config(runs.path("config.json"));
    expect!["adapters are for weights that are there, and those of /config.json are new; give a folder of weights as the model"].assert_eq(&wrong(&TrainConfig {
        model: fresh,
        tokenizer: None,
        ..runs.config(new_adapters(), "out")
    }));
}

#[test]
fn what_is_wrong_with_settings_of_adapters_is_said_before_a_plugin_is_looked_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    std::fs::write(path("text.txt"), "a text").unwrap();
    std::fs::write(path("config.json"), MODEL).unwrap();
    let wrong = |words: &[&str]| {
        let (text, out) = (path("text.txt"), path("out"));
        let shared = ["train", "--train_file", &text, "--output_dir", &out, "--plugin", "/nowhere.so"];
        let output = command::command(&[&shared, words].concat()).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{words:?}");
        let said = String::from_utf8(output.stderr).unwrap();
        let line = said.lines().find(|line| line.starts_with("error: ")).unwrap().to_owned();
        line.replace(&folder.path().display().to_string(), "")
    };
    let (config, base) = (path("config.json"), path(""));
    let fresh = ["--config_name", &config];
    let given = ["--model_name_or_path", &base];
    let check = |model: [&str; 2], words: &[&str], expect: expect_test::Expect| {
        expect.assert_eq(&wrong(&[&model, words].concat()));
    };
    check(
        fresh,
        &["--lora_r", "4"],
        expect![
            "error: --lora_r: adapters are for weights that are there, and those of config_name are new; give the folder of a model with --model_name_or_path"
        ],
    );
    check(
        given,
        &["--lora_r", "4", "--use_peft", "no"],
        expect!["error: --use_peft: lora_r is given too; remove one of them"],
    );
    check(
        given,
        &["--adapter_name_or_path", &base, "--use_rslora"],
        expect![
            "error: --adapter_name_or_path: its adapter_config.json says what use_rslora says; remove use_rslora"
        ],
    );
    check(
        given,
        &["--lora_config", r#"{"use_dora": true}"#],
        expect![
            "error: --lora_config: use_dora is true; supported: false (weights are not decomposed into magnitude and direction)"
        ],
    );
    check(
        given,
        &["--use_peft", "--lora_dropout", "0.1"],
        expect!["error: --lora_dropout: not supported: nothing is dropped out"],
    );
    check(
        given,
        &["--lora_rank", "4"],
        expect!["error: flag --lora_rank is unknown; did you mean --lora_r?"],
    );
}
