//! FSDP as sharding specs on a program.
//!
//! XLA partitions; this crate says how. It takes a program, a mesh and a configuration, works out where every
//! parameter, optimizer state, batch and activation lies, and pins that on the program as `sdy` shardings. The
//! compiler inside a plugin turns the result into one program for all devices, with the gathers and scatters that FSDP
//! is made of; [`CollectiveSummary`] says afterwards in a line which those are, and [`explain`] what each is for.
//!
//! ```text
//! FsdpConfig ──► WrapPolicy ─┐
//! VerifiedModule + AbstractMesh ──► ShardingPlan ──► ShardedModule ──► StableHLO text with sdy shardings
//! ```
//!
//! A program from elsewhere goes the same way. [`ShardRules`] say what its arguments are and where they lie,
//! [`ShardingPlan::by_rules`] plans it from its signature, and what the rules leave open is seen from donations, shapes
//! and what its results need. [`lint`](fn@lint) tells what a plan costs that it need not cost, before anything is compiled.
//!
//! It knows no model: parameters, states, units and boundaries are what the program says they are. It does no I/O and
//! knows no device; a [`ShardingPlan`] can be printed for a slice that nobody has rented yet.
//!
//! ```
//! use shardwright_hlo::{ArgumentKind, Module};
//! use shardwright_mesh::AbstractMesh;
//! use shardwright_partition::{PlanOptions, ShardingPlan};
//! use shardwright_tensor::{DType, TensorType};
//!
//! let mut module = Module::new("step");
//! let ty = TensorType::new(DType::F32, [344, 128])?;
//! module.add_argument_of_kind("up_proj.weight", ty, ArgumentKind::Parameter);
//! let mesh = AbstractMesh::parse("fsdp=8")?;
//! let plan = ShardingPlan::new(&module, &mesh, &PlanOptions::default())?;
//! assert_eq!(plan.arguments()[0].sharding.spec().to_string(), "(fsdp, -)");
//! assert_eq!(plan.arguments()[0].bytes_per_device, 344 * 128 * 4 / 8);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod config;
pub mod explain;
mod explicit;
mod foreign;
mod json;
mod lint;
mod pattern;
mod plan;
mod report;
mod rules;
mod shard;
mod sharded_hlo;
mod storage;
mod tensor;
mod wrap;

pub use config::{
    FsdpConfig, FsdpConfigError, FsdpFlag, KeyProblem, MixedPrecision, Notice, ShardingRequest,
    StateDictType, Strategy, StrategyError, UnknownKeys, WrapConfig,
};
pub use explicit::{Lowering, Shards};
pub use foreign::{
    ArgumentUse, MeshChoiceError, PinCounts, PinError, Pins, PlanTable, RuleErrors, RuleOptions, RuleProblem,
    choose_mesh, needed_by_results, uses_of_arguments,
};
pub use lint::{Lint, LintCode, LintOptions, Severity, lint};
pub use pattern::{ModulePattern, PatternError, glob};
pub use plan::{
    Decision, DimRule, KindSource, PlanError, PlanOptions, PlannedArgument, PlannedOutput, ShardingPlan,
    data_axes,
};
pub use report::{Bytes, CollectiveSummary, printable};
pub use rules::{RuleParseError, RuleParseProblem, RulesFile, RulesFileError, ShardRules};
pub use shard::{ShardError, ShardedModule};
pub use sharded_hlo::ShardedHlo;
pub use tensor::{TENSOR_AXIS, TensorPlan, TensorRule, TensorSplit};
pub use wrap::{ModelModule, WrapError, WrapPolicy};
