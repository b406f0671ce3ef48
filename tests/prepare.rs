//! Loops of one's own: parts in any order make the same steps, and what does not go together is said.

mod support;

use std::path::Path;
use std::sync::Arc;

use expect_test::{Expect, expect};
use shardwright::checkpoint::HfWeights;
use shardwright::data::{BatchPlan, Batches, BlockOptions, Blocks, Corpus, CorpusOptions, Tokenizer};
use shardwright::graph::{Graph, GraphError, Value};
use shardwright::mesh::{AbstractMesh, Mesh};
use shardwright::model::{Init, ModuleInfo, ParameterInfo, ParameterKind};
use shardwright::partition::{Lowering, WrapConfig};
use shardwright::tensor::{DType, HostArray, TensorType};
use shardwright::train::{
    Accelerator, AcceleratorConfig, AdamW, BatchInput, Clipping, GroupConfig, GroupRule, GroupedOptimizer,
    Model, ModelLoss, Schedule, ScheduleConfig, Sgd, TrainError, WeightSource,
};
use support::{Curve, oracle_batches, oracle_model, runtime};

const FEATURES: usize = 8;

/// `(x W₁ᵀ) W₂ᵀ` against targets, by squares. Examples whose mask is 0 do not count.
struct TwoLayers;

impl Model for TwoLayers {
    fn parameters(&self) -> Vec<ParameterInfo> {
        let matrix = |name: &str| ParameterInfo {
            name: format!("{name}.weight"),
            shape: vec![FEATURES, FEATURES],
            init: Init::Normal { std: 0.3, zero_row: None },
            kind: ParameterKind::Matrix,
        };
        vec![matrix("first"), matrix("second")]
    }

    fn modules(&self) -> Vec<ModuleInfo> {
        let module = |(path, class): (&str, &'static str)| ModuleInfo { path: path.to_owned(), class };
        [("", "TwoLayers"), ("first", "Layer"), ("second", "Layer")].map(module).into()
    }

    fn wrapped_by_default(&self) -> Vec<&'static str> {
        vec!["Layer"]
    }

    fn batch(&self, examples: usize) -> Result<Vec<BatchInput>, GraphError> {
        let inputs = TensorType::new(DType::F32, [examples, FEATURES])?;
        let mask = TensorType::new(DType::F32, [examples])?;
        Ok(vec![BatchInput { name: "inputs", ty: inputs }, BatchInput { name: "mask", ty: mask }])
    }

    fn loss(&self, g: &Graph, parameters: &[Value], batch: &[Value]) -> Result<ModelLoss, GraphError> {
        let layer = |name: &str, weight, x| {
            g.unit(name, "Layer", || g.activation(g.dot(x, g.weight(weight)?, &[], &[(1, 1)])?))
        };
        let (inputs, mask) = (batch[0], batch[1]);
        let y = layer("second", parameters[1], layer("first", parameters[0], inputs)?)?;
        let error = g.sub(y, g.offset(inputs, 1.0)?)?;
        let each = g.mul(g.sum(g.mul(error, error)?, &[1])?, mask)?;
        Ok(ModelLoss { sum: g.sum(each, &[0])?, count: g.convert(g.sum(mask, &[0])?, DType::S32)? })
    }
}

/// Inputs that look random, of which the last `ignored` do not count.
fn batch(step: usize, rows: usize, ignored: usize) -> [HostArray; 2] {
    let noise = |i: usize| ((step * 1000 + i) as f32 * 12.9898).sin();
    let inputs: Vec<f32> = (0..rows * FEATURES).map(noise).collect();
    let mask: Vec<f32> = (0..rows).map(|row| if row < rows - ignored { 1.0 } else { 0.0 }).collect();
    [
        HostArray::from_slice(&[rows, FEATURES], &inputs).unwrap(),
        HostArray::from_slice(&[rows], &mask).unwrap(),
    ]
}

fn accelerator(mesh: &str, config: AcceleratorConfig<'static>) -> Accelerator<'static> {
    let runtime = runtime(AbstractMesh::parse(mesh).unwrap().size());
    Accelerator::new(&runtime, &runtime.mesh(mesh).unwrap(), config).unwrap()
}

fn on_four() -> Accelerator<'static> {
    accelerator("fsdp=4", AcceleratorConfig::default())
}

fn optimizer() -> GroupedOptimizer {
    let groups = GroupConfig { learning_rate: 0.02, weight_decay: 0.1, ..GroupConfig::default() };
    GroupedOptimizer::new(AdamW::default(), groups)
}

fn rule(pattern: &str, trained: bool) -> GroupRule {
    let pattern = pattern.parse().unwrap();
    GroupRule { pattern, learning_rate: None, weight_decay: None, trained }
}

fn schedule() -> Schedule {
    Schedule::new(&ScheduleConfig::default(), 4)
}

/// The losses of steps.
fn losses(accelerator: &mut Accelerator<'_>, steps: usize) -> Vec<f64> {
    let step = |step| accelerator.step(&batch(step, 8, 0)).unwrap().read().unwrap().loss;
    (0..steps).map(step).collect()
}

fn ready() -> Accelerator<'static> {
    let mut accelerator = on_four();
    accelerator.prepare((Arc::new(TwoLayers), optimizer(), schedule())).unwrap();
    accelerator
}

fn said<T>(result: Result<T, TrainError>) -> String {
    result.err().map_or("nothing is wrong".to_owned(), |e| e.to_string())
}

#[track_caller]
fn check<T>(result: Result<T, TrainError>, expect: Expect) {
    expect.assert_eq(&said(result));
}

#[test]
fn parts_in_any_order_and_in_pieces_make_the_same_steps() {
    type Order = fn(&mut Accelerator<'_>);
    let orders: [Order; 8] = [
        |a| drop(a.prepare((Arc::new(TwoLayers), optimizer(), schedule())).unwrap()),
        |a| drop(a.prepare((Arc::new(TwoLayers), schedule(), optimizer())).unwrap()),
        |a| drop(a.prepare((optimizer(), Arc::new(TwoLayers), schedule())).unwrap()),
        |a| drop(a.prepare((optimizer(), schedule(), Arc::new(TwoLayers))).unwrap()),
        |a| drop(a.prepare((schedule(), Arc::new(TwoLayers), optimizer())).unwrap()),
        |a| drop(a.prepare((schedule(), optimizer(), Arc::new(TwoLayers))).unwrap()),
        |a| {
            a.prepare(optimizer()).unwrap();
            a.prepare((schedule(),)).unwrap();
            a.prepare(Arc::new(TwoLayers)).unwrap();
        },
        |a| {
            // Each part twice, and evaluated before it is trained.
            let parts = a.prepare((Arc::new(TwoLayers), optimizer())).unwrap();
            a.prepare((schedule(), parts)).unwrap();
            a.prepare(schedule()).unwrap();
            a.evaluate([Ok::<_, TrainError>(batch(0, 16, 3))]).unwrap();
        },
    ];
    let run = |order: &Order| {
        let mut accelerator = on_four();
        order(&mut accelerator);
        losses(&mut accelerator, 4)
    };
    let all: Vec<Vec<f64>> = orders.iter().map(run).collect();
    assert!(all[0][3] < all[0][0], "{all:?}");
    assert!(all.iter().all(|losses| losses == &all[0]), "{all:?}");
}

#[test]
fn a_decoder_follows_its_curve() {
    let curves = Curve::all();
    let curve = &curves["adamw_fp32"];
    let config = curve.config.clone().unwrap();
    let weights = HfWeights::open(config.weights()).unwrap();
    let runtime = runtime(8);
    let clipping = Clipping { norm: Some(config.max_norm), ..Clipping::default() };
    let options = AcceleratorConfig {
        weights: WeightSource::Files(&weights),
        clipping,
        ..AcceleratorConfig::default()
    };
    let mut accelerator = Accelerator::new(&runtime, &runtime.mesh("fsdp=8").unwrap(), options).unwrap();
    let groups =
        GroupConfig { learning_rate: config.lr, weight_decay: config.weight_decay, ..GroupConfig::default() };
    let schedule = Schedule::new(&ScheduleConfig::default(), curve.loss.len());
    let parts = (Arc::new(oracle_model("base")), GroupedOptimizer::new(AdamW::default(), groups), schedule);
    accelerator.prepare(parts).unwrap();
    for (step, ids) in oracle_batches().into_iter().enumerate().take(5) {
        let reading = accelerator.step(&[ids.clone(), ids]).unwrap().read().unwrap();
        let apart = (reading.loss - curve.loss[step]).abs();
        assert!(apart <= 2e-5, "step {step}: {reading:?}, not {}", curve.loss[step]);
        let apart = (reading.grad_norm / curve.grad_norm[step] - 1.0).abs();
        assert!(apart <= 2e-5, "step {step}: {reading:?}, not {}", curve.grad_norm[step]);
    }
}

#[test]
fn what_comes_back_is_what_was_given() {
    let (model, optimizer) = (Arc::new(TwoLayers), optimizer());
    let mut accelerator = on_four();
    let (prepared, handle) = accelerator.prepare((model.clone(), optimizer.clone())).unwrap();
    assert!(Arc::ptr_eq(&model, &prepared) && Arc::ptr_eq(&optimizer.optimizer, &handle.optimizer));
    let (again, _) = accelerator.prepare((prepared, handle)).unwrap();
    assert!(Arc::ptr_eq(&model, &again));
    losses(&mut accelerator, 1);
    // After steps too, and nothing begins anew.
    accelerator.prepare((optimizer, again)).unwrap();
    losses(&mut accelerator, 1);
    assert_eq!(accelerator.state().unwrap().step, 2);
    let names = accelerator.train_step().unwrap().parameters().iter().map(|p| p.name.as_str());
    assert_eq!(names.collect::<Vec<_>>(), ["first.weight", "second.weight"]);
}

#[test]
fn what_is_frozen_stays_beside_what_is_trained() {
    let mut accelerator = on_four();
    let mut optimizer = optimizer();
    optimizer.groups.rules = vec![rule("first", false)];
    accelerator.prepare((optimizer, Arc::new(TwoLayers))).unwrap();
    let values = |accelerator: &Accelerator<'_>| -> Vec<HostArray> {
        accelerator.state().unwrap().parameters.iter().map(|p| p.to_host().unwrap()).collect()
    };
    losses(&mut accelerator, 1);
    let before = values(&accelerator);
    losses(&mut accelerator, 2);
    let after = values(&accelerator);
    assert_eq!(before[0], after[0]);
    assert_ne!(before[1], after[1]);
    let layout = accelerator.train_step().unwrap().layout();
    assert!(!layout.slots.is_empty() && layout.slots.iter().all(|slot| slot.parameter == 1));
}

#[test]
fn several_models_are_trained_side_by_side() {
    let alone = losses(&mut ready(), 3);
    let slow = GroupConfig { learning_rate: 1e-4, ..GroupConfig::default() };
    let slow = || GroupedOptimizer::new(Sgd::default(), slow.clone());
    let slowly = || {
        let mut accelerator = on_four();
        accelerator.prepare((Arc::new(TwoLayers), slow())).unwrap();
        accelerator
    };
    let slowly_alone = losses(&mut slowly(), 3);
    assert_ne!(alone, slowly_alone);
    let (mut one, mut other) = (ready(), slowly());
    let both =
        |step| [&mut one, &mut other].map(|a| a.step(&batch(step, 8, 0)).unwrap().read().unwrap().loss);
    let together: Vec<[f64; 2]> = (0..3).map(both).collect();
    assert_eq!(together.iter().map(|both| both[0]).collect::<Vec<_>>(), alone);
    assert_eq!(together.iter().map(|both| both[1]).collect::<Vec<_>>(), slowly_alone);
}

#[test]
fn an_evaluation_counts_each_example_once() {
    let mut accelerator = ready();
    let ok = Ok::<_, TrainError>;
    // Twelve examples: the last batch is short, and filled up.
    let loss = accelerator.evaluate([ok(batch(0, 8, 0)), ok(batch(1, 8, 4))]).unwrap();
    let parts = [batch(0, 8, 0), batch(1, 8, 4)].map(|b| accelerator.eval_step(&b).unwrap().read().unwrap());
    assert_eq!((parts[0].1, parts[1].1), (8, 4));
    assert_eq!(loss, (parts[0].0 + parts[1].0) / 12.0);
    // Nothing was learned from that.
    assert_eq!(losses(&mut accelerator, 3), losses(&mut ready(), 3));
    check(
        accelerator.evaluate([ok(batch(0, 8, 8))]),
        expect!["there is nothing to evaluate: no batches were given, or nothing in them counts"],
    );
    check(
        accelerator.evaluate(Vec::<Result<[HostArray; 2], TrainError>>::new()),
        expect!["there is nothing to evaluate: no batches were given, or nothing in them counts"],
    );
}

#[test]
fn what_is_saved_is_read_again_bit_for_bit_on_another_mesh() {
    let mut accelerator = ready();
    check(
        accelerator.save(Path::new("nowhere")),
        expect!["there is nothing to save: weights are made with the first batch of step or evaluate"],
    );
    losses(&mut accelerator, 2);
    let folder = tempfile::tempdir().unwrap();
    accelerator.save(folder.path()).unwrap();
    let evaluated = [Ok::<_, TrainError>(batch(7, 8, 0))];
    let weights = HfWeights::open(folder.path()).unwrap();
    let config = AcceleratorConfig { weights: WeightSource::Files(&weights), ..AcceleratorConfig::default() };
    let runtime = runtime(4);
    let mut again = Accelerator::new(&runtime, &runtime.mesh("data=2,fsdp=2").unwrap(), config).unwrap();
    again.prepare((Arc::new(TwoLayers), optimizer())).unwrap();
    again.evaluate(evaluated).unwrap();
    let parameters = accelerator.state().unwrap().parameters.iter().zip(&again.state().unwrap().parameters);
    for (saved, read) in parameters {
        assert_eq!(saved.to_host().unwrap(), read.to_host().unwrap());
    }
    // Training goes on.
    losses(&mut accelerator, 1);
}

#[test]
fn micro_batches_make_the_same_steps() {
    let whole = losses(&mut ready(), 3);
    let config = AcceleratorConfig { gradient_accumulation_steps: 2, ..AcceleratorConfig::default() };
    let mut parts = accelerator("fsdp=4", config);
    parts.prepare((Arc::new(TwoLayers), optimizer(), schedule())).unwrap();
    for (whole, part) in whole.into_iter().zip(losses(&mut parts, 3)) {
        assert!((whole - part).abs() < 1e-5, "{whole} {part}");
    }
}

#[test]
fn loaders_are_of_as_many_micro_batches_as_the_step() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("text.txt");
    std::fs::write(&path, "the cat sat on the mat\n".repeat(50)).unwrap();
    let corpus = Corpus::open(&[path], CorpusOptions::default()).unwrap();
    let tokenizer = Tokenizer::train_byte_level_bpe(&corpus, 270, &["<s>"]).unwrap();
    let blocks = Blocks::from_corpus(&corpus, &tokenizer, &BlockOptions::new(16)).unwrap();
    let loader =
        |accumulation| Batches::new(&blocks, BatchPlan { accumulation, ..BatchPlan::new(8) }).unwrap();
    let config = AcceleratorConfig { gradient_accumulation_steps: 2, ..AcceleratorConfig::default() };
    let mut accelerator = accelerator("fsdp=4", config);
    let (train, eval) = accelerator.prepare((loader(2), loader(1))).unwrap();
    assert_eq!((train.plan().accumulation, eval.plan().accumulation), (2, 1));
    check(
        accelerator.prepare(loader(4)),
        expect![
            "the loader's batches are of 4 micro-batches, and gradient_accumulation_steps is 2: give both the same number"
        ],
    );
}

#[test]
fn a_missing_part_is_named() {
    let mut accelerator = on_four();
    check(
        accelerator.step(&batch(0, 8, 0)),
        expect!["step needs a model, and none was prepared: give it to prepare first"],
    );
    accelerator.prepare(Arc::new(TwoLayers)).unwrap();
    check(
        accelerator.step(&batch(0, 8, 0)),
        expect!["step needs an optimizer, and none was prepared: give it to prepare first"],
    );
    check(
        accelerator.eval_step(&batch(0, 8, 0)),
        expect!["evaluate needs an optimizer, and none was prepared: give it to prepare first"],
    );
    accelerator.prepare(optimizer()).unwrap();
    check(accelerator.step(&batch(0, 8, 0)), expect!["nothing is wrong"]);
}

#[test]
fn a_second_part_of_a_kind_is_refused() {
    let mut accelerator = ready();
    check(
        accelerator.prepare(Arc::new(TwoLayers)),
        expect![
            "another model was prepared before: an accelerator has one, so make a second accelerator for this one"
        ],
    );
    check(
        accelerator.prepare(optimizer()),
        expect![
            "another optimizer was prepared before: an accelerator has one, so make a second accelerator for this one"
        ],
    );
    check(
        accelerator.prepare(Schedule::new(&ScheduleConfig::default(), 5)),
        expect![
            "another schedule was prepared before: an accelerator has one, so make a second accelerator for this one"
        ],
    );
    assert_eq!(losses(&mut accelerator, 2), losses(&mut ready(), 2));
}

#[test]
fn names_that_the_model_lacks_are_said_whichever_part_comes_last() {
    let mut wrong = optimizer();
    wrong.groups.rules = vec![rule("frist", false)];
    let expected = expect![
        "pattern frist, of a parameter group, covers none of the model's 2 parameters; near it are first, first.weight, weight"
    ];
    let mut accelerator = on_four();
    accelerator.prepare(wrong.clone()).unwrap();
    let first = said(accelerator.prepare(Arc::new(TwoLayers)));
    expected.assert_eq(&first);
    let mut accelerator = on_four();
    accelerator.prepare(Arc::new(TwoLayers)).unwrap();
    assert_eq!(said(accelerator.prepare(wrong)), first);
    // The model was taken in all the same, and a right optimizer makes it complete.
    accelerator.prepare(optimizer()).unwrap();
    losses(&mut accelerator, 1);

    let wrap = WrapConfig::Classes(vec!["Leyer".to_owned()]);
    let mut accelerator = self::accelerator("fsdp=4", AcceleratorConfig { wrap, ..Default::default() });
    check(
        accelerator.prepare(Arc::new(TwoLayers)),
        expect![
            "the model has no module of class Leyer to wrap; it has TwoLayers, Layer; did you mean Layer?"
        ],
    );
    let clipping = Clipping { norm: Some(1.0), within: vec!["third".parse().unwrap()], value: None };
    let mut accelerator = self::accelerator("fsdp=4", AcceleratorConfig { clipping, ..Default::default() });
    check(
        accelerator.prepare(Arc::new(TwoLayers)),
        expect![
            "pattern third, of what is clipped, covers none of the model's 2 parameters; near it are first, first.weight, second"
        ],
    );
}

#[test]
fn batches_that_do_not_fit_are_named_and_cost_nothing() {
    let mut accelerator = ready();
    let [inputs, mask] = batch(0, 8, 0);
    check(
        accelerator.step(&vec![inputs.clone()]),
        expect!["arrays in the batch: 1; the model takes 2: inputs, mask"],
    );
    check(accelerator.step(&Vec::new()), expect!["arrays in the batch: 0; the model takes 2: inputs, mask"]);
    check(
        accelerator.step(&[mask.clone(), inputs.clone()]),
        expect!["inputs of the batch is f32[8], and the model takes f32[8,8] in a batch of 8 examples"],
    );
    check(
        accelerator.step(&[inputs.cast(DType::Bf16), mask]),
        expect!["inputs of the batch is bf16[8,8], and the model takes f32[8,8] in a batch of 8 examples"],
    );
    check(
        accelerator.step(&batch(0, 6, 0)),
        expect!["inputs: a batch of 6 does not divide over 4 data shards (mesh fsdp=4)"],
    );
    let first = losses(&mut accelerator, 2);
    check(
        accelerator.step(&batch(2, 4, 0)),
        expect![
            "inputs of the batch is f32[4,8], and the program was compiled for f32[8,8] with the first batch: fill short batches up with examples that count nothing, or leave them out"
        ],
    );
    check(
        accelerator.step(&[inputs, batch(0, 4, 0)[1].clone()]),
        expect!["mask of the batch is f32[4], and the model takes f32[8] in a batch of 8 examples"],
    );
    assert_eq!(first, losses(&mut ready(), 2));
    // Evaluation has a size of its own.
    accelerator.eval_step(&batch(2, 4, 0)).unwrap();
    check(
        accelerator.eval_step(&batch(2, 8, 0)),
        expect![
            "inputs of the batch is f32[8,8], and the program was compiled for f32[4,8] with the first batch: fill short batches up with examples that count nothing, or leave them out"
        ],
    );
    assert_eq!(accelerator.state().unwrap().step, 2);
}

/// The same without a mask: the count of examples is a number, which looks at nothing of the batch.
struct Unmasked;

impl Model for Unmasked {
    fn parameters(&self) -> Vec<ParameterInfo> {
        TwoLayers.parameters()
    }

    fn modules(&self) -> Vec<ModuleInfo> {
        TwoLayers.modules()
    }

    fn batch(&self, examples: usize) -> Result<Vec<BatchInput>, GraphError> {
        TwoLayers.batch(examples).map(|inputs| inputs[..1].to_vec())
    }

    fn loss(&self, g: &Graph, parameters: &[Value], batch: &[Value]) -> Result<ModelLoss, GraphError> {
        let rows = g.dims(batch[0])[0];
        let ones = g.full(DType::F32, &[rows], 1.0)?;
        let ModelLoss { sum, .. } = TwoLayers.loss(g, parameters, &[batch[0], ones])?;
        Ok(ModelLoss { sum, count: g.full(DType::S32, &[], rows as f64)? })
    }
}

#[test]
fn a_count_that_does_not_look_at_the_batch_is_that_of_a_part() {
    let expected = losses(&mut ready(), 3);
    for (mesh, lowering, micro_batches) in [
        ("fsdp=4", Lowering::Explicit, 1),
        ("data=2,fsdp=2", Lowering::Explicit, 2),
        ("fsdp=4", Lowering::Annotate, 1),
    ] {
        let config = AcceleratorConfig {
            lowering,
            gradient_accumulation_steps: micro_batches,
            ..AcceleratorConfig::default()
        };
        let mut accelerator = accelerator(mesh, config);
        accelerator.prepare((Arc::new(Unmasked), optimizer(), schedule())).unwrap();
        let [inputs, _] = batch(0, 8, 0);
        let (sum, count) = accelerator.eval_step(&[inputs]).unwrap().read().unwrap();
        assert_eq!(count, 8);
        assert!((sum / 8.0 - expected[0]).abs() < 1e-5, "{mesh}: {sum}");
        for (step, expected) in expected.iter().enumerate() {
            let [inputs, _] = batch(step, 8, 0);
            let loss = accelerator.step(&[inputs]).unwrap().read().unwrap().loss;
            assert!(
                (loss - expected).abs() < 1e-5,
                "{mesh} {lowering:?} {micro_batches}: {loss}, not {expected}"
            );
        }
    }
}

#[test]
fn meshes_of_other_devices_are_refused() {
    let four = runtime(4);
    let mesh = four.mesh("data=2,fsdp=3").map_err(TrainError::from);
    check(
        mesh,
        expect![
            "devices present: 4, but mesh data=2, fsdp=3 takes 6; a size of -1 lets one axis take what is there (platform cpu)"
        ],
    );
    let eight = Mesh::iota(AbstractMesh::parse("fsdp=8").unwrap());
    check(
        Accelerator::new(&four, &eight, AcceleratorConfig::default()),
        expect!["the mesh names device 4, which is not among those of the platform: [0, 1, 2, 3]"],
    );
}

#[test]
fn training_of_which_nothing_can_be_split_is_refused() {
    let mut plan = AcceleratorConfig::default().plan;
    plan.min_shard_bytes = 1 << 20;
    let mut accelerator = accelerator("fsdp=4", AcceleratorConfig { plan, ..Default::default() });
    accelerator.prepare((Arc::new(TwoLayers), optimizer())).unwrap();
    check(
        accelerator.step(&batch(0, 8, 0)),
        expect![
            "none of the 2 parameters can be split over the 4 devices of mesh axis fsdp; pass --fsdp no_shard to train without sharding"
        ],
    );
}
