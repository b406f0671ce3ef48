//! Values with names: what can be chosen, and names that mean something elsewhere.

use std::ffi::OsString;

use shardwright_hlo::Precision;
use shardwright_partition::{DimRule, Lowering};
use shardwright_tensor::DType;
use shardwright_train::{LossDenominator, ReportTo};

use super::value::{Arity, Value};

/// How sharding is written into a program.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Lowerings {
    /// So.
    One(Lowering),
    /// In each way, for a comparison.
    Both,
}

/// Values with names.
pub(super) trait Choice: Copy + PartialEq + 'static {
    /// Stands for the value in the help.
    const PLACEHOLDER: &'static str;
    /// What can be chosen; several names may mean the same.
    const CHOICES: &'static [(&'static str, Self)];
    /// Names that have a meaning elsewhere and none here yet.
    const ELSEWHERE: &'static [&'static str] = &[];
    /// Names that have a meaning elsewhere which could be taken for one of the choices, how it differs, and what to
    /// choose.
    const OTHERWISE: &'static [(&'static str, &'static str)] = &[];

    /// The first of its names.
    fn word(self) -> &'static str {
        Self::CHOICES.iter().find(|(_, choice)| *choice == self).map_or("", |(name, _)| *name)
    }
}

/// Optimizers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OptimizerName {
    AdamW,
    Adafactor,
    Sgd,
    Lion,
}

/// Types of the weights as they are saved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WeightType {
    /// This one.
    Is(DType),
    /// What the model's configuration says.
    Auto,
}

/// Types that can be computed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ComputeType(pub(super) DType);

/// How exactly matrices are multiplied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DotPrecision(pub(super) Precision);

/// When something is done in the course of training.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum When {
    No,
    Steps,
    Epoch,
}

/// When checkpoints are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SaveStrategy {
    No,
}

/// Shapes of a learning rate over time, whose parameters are still to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scheduler {
    Linear,
    Cosine,
    CosineWithRestarts,
    CosineWithMinLr,
    Polynomial,
    Constant,
    ConstantWithWarmup,
    InverseSqrt,
    WarmupStableDecay,
}

/// Who reads the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Reporters(pub(super) Vec<ReportTo>);

impl Choice for OptimizerName {
    const PLACEHOLDER: &'static str = "NAME";
    const CHOICES: &'static [(&'static str, Self)] = &[
        ("adamw_torch", OptimizerName::AdamW),
        ("adamw_torch_fused", OptimizerName::AdamW),
        ("adamw_torch_xla", OptimizerName::AdamW),
        ("adafactor", OptimizerName::Adafactor),
        ("sgd", OptimizerName::Sgd),
        ("lion_32bit", OptimizerName::Lion),
        ("lion", OptimizerName::Lion),
    ];
    const OTHERWISE: &'static [(&'static str, &'static str)] = &[(
        "adamw_hf",
        "adds epsilon before the bias correction and decays weights after the update; use adamw_torch",
    )];
    const ELSEWHERE: &'static [&'static str] = &[
        "adagrad",
        "adalomo",
        "adamw_8bit",
        "adamw_anyprecision",
        "adamw_apex_fused",
        "adamw_bnb_8bit",
        "adamw_torch_4bit",
        "adamw_torch_8bit",
        "adamw_torch_npu_fused",
        "ademamix",
        "ademamix_8bit",
        "apollo_adamw",
        "galore_adafactor",
        "galore_adamw",
        "grokadamw",
        "lion_8bit",
        "lomo",
        "muon",
        "paged_adamw_32bit",
        "paged_adamw_8bit",
        "paged_lion_32bit",
        "paged_lion_8bit",
        "rmsprop",
        "schedule_free_adamw",
        "schedule_free_radam",
        "schedule_free_sgd",
        "stable_adamw",
    ];
}

impl Choice for WeightType {
    const PLACEHOLDER: &'static str = "TYPE";
    const CHOICES: &'static [(&'static str, Self)] = &[
        ("float32", WeightType::Is(DType::F32)),
        ("bfloat16", WeightType::Is(DType::Bf16)),
        ("auto", WeightType::Auto),
        ("fp32", WeightType::Is(DType::F32)),
        ("bf16", WeightType::Is(DType::Bf16)),
    ];
    const OTHERWISE: &'static [(&'static str, &'static str)] =
        &[("float16", NO_LOSS_SCALING), ("fp16", NO_LOSS_SCALING), ("half", NO_LOSS_SCALING)];
    const ELSEWHERE: &'static [&'static str] = &["float64"];
}

const NO_LOSS_SCALING: &str = "takes loss scaling, which is not there; use bfloat16";

impl Choice for ComputeType {
    const PLACEHOLDER: &'static str = "TYPE";
    const CHOICES: &'static [(&'static str, Self)] = &[
        ("float32", ComputeType(DType::F32)),
        ("bfloat16", ComputeType(DType::Bf16)),
        ("fp32", ComputeType(DType::F32)),
        ("bf16", ComputeType(DType::Bf16)),
    ];
    const OTHERWISE: &'static [(&'static str, &'static str)] = WeightType::OTHERWISE;
}

impl Choice for DotPrecision {
    const PLACEHOLDER: &'static str = "HOW";
    const CHOICES: &'static [(&'static str, Self)] = &[
        ("default", DotPrecision(Precision::Default)),
        ("high", DotPrecision(Precision::High)),
        ("highest", DotPrecision(Precision::Highest)),
    ];
}

impl Choice for When {
    const PLACEHOLDER: &'static str = "WHEN";
    const CHOICES: &'static [(&'static str, Self)] =
        &[("no", When::No), ("steps", When::Steps), ("epoch", When::Epoch)];
}

const CHECKPOINTS: &str = "writes checkpoints, and only the final model is written yet; use no";

impl Choice for SaveStrategy {
    const PLACEHOLDER: &'static str = "WHEN";
    const CHOICES: &'static [(&'static str, Self)] = &[("no", SaveStrategy::No)];
    const OTHERWISE: &'static [(&'static str, &'static str)] =
        &[("steps", CHECKPOINTS), ("epoch", CHECKPOINTS), ("best", CHECKPOINTS)];
}

impl Choice for Scheduler {
    const PLACEHOLDER: &'static str = "NAME";
    const CHOICES: &'static [(&'static str, Self)] = &[
        ("linear", Scheduler::Linear),
        ("cosine", Scheduler::Cosine),
        ("cosine_with_restarts", Scheduler::CosineWithRestarts),
        ("cosine_with_min_lr", Scheduler::CosineWithMinLr),
        ("polynomial", Scheduler::Polynomial),
        ("constant", Scheduler::Constant),
        ("constant_with_warmup", Scheduler::ConstantWithWarmup),
        ("inverse_sqrt", Scheduler::InverseSqrt),
        ("warmup_stable_decay", Scheduler::WarmupStableDecay),
    ];
    const OTHERWISE: &'static [(&'static str, &'static str)] =
        &[("reduce_lr_on_plateau", "waits for evaluations while it runs; use cosine")];
    const ELSEWHERE: &'static [&'static str] = &["cosine_warmup_with_min_lr", "greedy"];
}

/// Stands alone.
const NOBODY: &str = "none";

impl Value for Reporters {
    const PLACEHOLDER: &'static str = "WHO";
    const ARITY: Arity = Arity::Many;

    fn wanted() -> String {
        "none, tensorboard or all".into()
    }

    fn parse(text: &str) -> Option<Self> {
        match text {
            NOBODY => Some(Reporters(Vec::new())),
            "tensorboard" | "all" => Some(Reporters(vec![ReportTo::TensorBoard])),
            _ => None,
        }
    }

    fn from_words(words: &[OsString]) -> Option<Self> {
        if words.len() > 1 && words.iter().any(|word| word == NOBODY) {
            return None;
        }
        let each: Option<Vec<Reporters>> = words.iter().map(|word| Self::parse(word.to_str()?)).collect();
        let mut all: Vec<ReportTo> = each?.into_iter().flat_map(|one| one.0).collect();
        all.dedup();
        Some(Reporters(all))
    }

    fn why_not(word: &str) -> Option<String> {
        const SERVICES: &[&str] = &[
            "azure_ml",
            "clearml",
            "codecarbon",
            "comet_ml",
            "dagshub",
            "dvclive",
            "flyte",
            "mlflow",
            "neptune",
            "swanlab",
            "trackio",
            "wandb",
        ];
        SERVICES.contains(&word).then(|| format!("{word} is not supported; use {}", Self::wanted()))
    }
}

impl Choice for LossDenominator {
    const PLACEHOLDER: &'static str = "COUNT";
    const CHOICES: &'static [(&'static str, Self)] =
        &[("labels", LossDenominator::Labels), ("targets", LossDenominator::Targets)];
}

impl Choice for DimRule {
    const PLACEHOLDER: &'static str = "RULE";
    const CHOICES: &'static [(&'static str, Self)] = &[
        ("largest_divisible", DimRule::LargestDivisible),
        ("strict_largest", DimRule::StrictLargest),
        ("dim0", DimRule::Dim0),
    ];
}

impl Choice for Lowerings {
    const PLACEHOLDER: &'static str = "LOWERING";
    const CHOICES: &'static [(&'static str, Self)] = &[
        ("auto", Lowerings::One(Lowering::Auto)),
        ("annotate", Lowerings::One(Lowering::Annotate)),
        ("explicit", Lowerings::One(Lowering::Explicit)),
        ("both", Lowerings::Both),
    ];
}

impl<T: Choice> Value for T {
    const PLACEHOLDER: &'static str = T::PLACEHOLDER;

    fn wanted() -> String {
        let names: Vec<&str> = T::CHOICES.iter().map(|(name, _)| *name).collect();
        match names.split_last() {
            Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
            _ => names.join(""),
        }
    }

    fn parse(text: &str) -> Option<Self> {
        T::CHOICES.iter().find(|(name, _)| *name == text).map(|(_, value)| *value)
    }

    fn why_not(word: &str) -> Option<String> {
        if let Some((_, why)) = T::OTHERWISE.iter().find(|(name, _)| *name == word) {
            return Some(format!("{word} is not supported: it {why}"));
        }
        let elsewhere = T::ELSEWHERE.contains(&word);
        elsewhere.then(|| format!("{word} is not supported yet; use {}", Self::wanted()))
    }
}
