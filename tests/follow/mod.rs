//! Steps of which the numbers are compared: along a stored curve, or with each other.

#![allow(dead_code, reason = "each test file uses a part of this")]

use std::sync::Arc;

use shardwright_checkpoint::HfWeights;
use shardwright_mesh::AbstractMesh;
use shardwright_partition::PlanOptions;
use shardwright_runtime::Runtime;
use shardwright_tensor::HostArray;
use shardwright_train::{
    Adafactor, AdamW, CausalLm, Clipping, GroupConfig, GroupRule, LossDenominator, Optimizer, Schedule,
    ScheduleConfig, ScheduleKind, StepConfig, StepReading, TrainState, TrainStep, Warmup, WeightSource,
};

use crate::support::{
    BATCH, Curve, CurveConfig, oracle_batches, oracle_masked_labels, oracle_model, oracle_step, runtime,
};

/// A curve, and the model and the step that it is of.
pub(crate) struct Followed {
    pub(crate) curve: Curve,
    pub(crate) config: CurveConfig,
    pub(crate) model: CausalLm,
    pub(crate) step: StepConfig,
}

impl Followed {
    /// The curve of this name; `NAME@hf` has the Trainer's denominator.
    pub(crate) fn new(name: &str) -> Followed {
        let mut curves = Curve::all();
        let config = curves[name.trim_end_matches("@hf")].config.clone().unwrap();
        let denominator =
            if name.ends_with("@hf") { LossDenominator::Labels } else { LossDenominator::Targets };
        let model = CausalLm { denominator, ..oracle_model(config.model_name()) };
        let optimizer: Arc<dyn Optimizer> = match &*config.opt {
            "adamw" => Arc::new(AdamW::default()),
            "adafactor" => Arc::new(Adafactor::default()),
            other => panic!("no optimizer {other}"),
        };
        let step = StepConfig {
            optimizer,
            groups: GroupConfig {
                learning_rate: config.lr,
                weight_decay: config.weight_decay,
                rules: config.freeze.iter().map(frozen).collect(),
            },
            clipping: Clipping { norm: Some(config.max_norm), ..Clipping::default() },
            lowering: Default::default(),
            ..oracle_step(&model, PlanOptions::default())
        };
        Followed { curve: curves.remove(name).unwrap(), config, model, step }
    }

    /// What each step of the curve says on a mesh.
    pub(crate) fn readings(&self, mesh: &str) -> Vec<StepReading> {
        let mut started = Started::new(&self.model, &self.step, mesh, &self.config);
        let labels = if self.config.masked { oracle_masked_labels() } else { oracle_batches() };
        let schedule = schedule(&self.config, self.curve.loss.len());
        let batches = oracle_batches();
        let examples = self.step.global_batch_size;
        let run = |(index, (ids, labels)): (usize, (&HostArray, &HostArray))| {
            let (ids, labels) = (filled(ids, examples, 0), filled(labels, examples, -100));
            started.run(&[&ids, &labels], schedule.factor(index))
        };
        batches.iter().zip(&labels).enumerate().map(run).collect()
    }

    /// The largest distances of the curve from these: of a loss, and of a norm, relative.
    pub(crate) fn distance(&self, readings: &[StepReading]) -> (f64, f64) {
        assert_eq!(readings.len(), self.curve.loss.len());
        let (mut loss, mut norm) = (0.0f64, 0.0f64);
        for (index, reading) in readings.iter().enumerate() {
            // A NaN is as near to everything as it gets.
            assert!(reading.loss.is_finite() && reading.grad_norm.is_finite(), "step {index}: {reading:?}");
            loss = loss.max((reading.loss - self.curve.loss[index]).abs());
            norm = norm.max((reading.grad_norm / self.curve.grad_norm[index] - 1.0).abs());
        }
        (loss, norm)
    }
}

fn frozen(pattern: impl AsRef<str>) -> GroupRule {
    GroupRule {
        pattern: pattern.as_ref().parse().unwrap(),
        learning_rate: None,
        weight_decay: None,
        trained: false,
    }
}

/// The learning rates of a curve of so many steps.
pub(crate) fn schedule(config: &CurveConfig, steps: usize) -> Schedule {
    let kind = match &*config.schedule {
        "linear" => ScheduleKind::Linear,
        "cosine" => ScheduleKind::Cosine { cycles: 0.5, floor: 0.0 },
        other => panic!("no schedule {other}"),
    };
    Schedule::new(&ScheduleConfig { kind, warmup: Warmup::Steps(config.warmup) }, steps)
}

/// A compiled step and its state.
pub(crate) struct Started {
    pub(crate) runtime: Runtime,
    pub(crate) step: TrainStep,
    pub(crate) state: Option<TrainState>,
}

impl Started {
    /// The step with the weights of a curve's model.
    pub(crate) fn new(model: &CausalLm, config: &StepConfig, mesh: &str, curve: &CurveConfig) -> Started {
        let runtime = runtime(AbstractMesh::parse(mesh).unwrap().size());
        let mesh = runtime.mesh(mesh).unwrap();
        let weights = HfWeights::open(curve.weights()).unwrap();
        let step = TrainStep::compile(&runtime, &mesh, model, config).unwrap();
        let state = Some(TrainState::new(&runtime, &step, WeightSource::Files(&weights)).unwrap());
        Started { runtime, step, state }
    }

    pub(crate) fn run(&mut self, batch: &[&HostArray], factor: f64) -> StepReading {
        let state = self.state.take().unwrap();
        let (state, metrics) = self.step.run(&self.runtime, state, batch, factor).unwrap();
        self.state = Some(state);
        metrics.read().unwrap()
    }

    /// All parameters as they are now.
    pub(crate) fn parameters(&self) -> Vec<f64> {
        let parameters = &self.state.as_ref().unwrap().parameters;
        parameters.iter().flat_map(|p| p.to_host().unwrap().to_f64()).collect()
    }
}

/// An array of a batch with as many examples more as are missing, all of this number.
pub(crate) fn filled(array: &HostArray, examples: usize, with: i32) -> HostArray {
    let mut values = array.as_slice::<i32>().unwrap().to_vec();
    values.resize(examples * BATCH[1], with);
    HostArray::from_slice(&[examples, BATCH[1]], &values).unwrap()
}
