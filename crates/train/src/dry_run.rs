//! A run up to its first step: what it takes, found out without training or writing anything.

use std::time::Instant;

use shardwright_hlo::{ArgumentKind, Instruction, Region};
use shardwright_partition::PlannedArgument;
use shardwright_runtime::Runtime;

use crate::programs::Planned;
use crate::{Event, Job, Observer, Phase, TrainError, TrainState};

/// What a run takes.
#[derive(Clone, Debug, PartialEq)]
pub struct DryRun {
    /// Seconds that each stage took, in their order.
    pub stages: Vec<(DryRunStage, f64)>,
    /// What the devices hold, by what it is for.
    pub memory: Vec<MemoryShare>,
    /// What was really held of parameters and optimizer state by the device that holds most, as the plugin tells.
    pub held_bytes: Option<u64>,
    /// Bytes of temporaries of the compiled step on one device, activations among them, where the compiler tells.
    pub temporary_bytes: Option<u64>,
    /// All that the compiled step needs on one device, where the compiler tells.
    pub compiled_bytes: Option<u64>,
    /// Ops of the step's program.
    pub program_ops: usize,
    /// Bytes of the text that the compiler is given.
    pub program_text_bytes: usize,
}

/// A stage of a dry run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DryRunStage {
    /// The program is written and its arrays are laid on the devices.
    Plan,
    /// The programs are compiled.
    Compile,
    /// The initial state is made.
    State,
}

/// A part of what the devices hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryShare {
    /// What it is.
    pub what: &'static str,
    /// Bytes with nothing replicated and nothing padded.
    pub whole: u64,
    /// Bytes on each device, padding included.
    pub per_device: u64,
    /// Bytes of padding, over devices that hold different shards.
    pub padding: u64,
}

impl Job {
    /// Plans and compiles a training, makes its initial state, and drops all of it. Nothing is written.
    ///
    /// # Errors
    /// As [`Job::run`], as far as it goes; and when the run only evaluates.
    pub fn dry_run(&self, runtime: &Runtime, observer: &mut dyn Observer) -> Result<DryRun, TrainError> {
        if self.texts.train.is_none() {
            return Err(TrainError::NothingTrained);
        }
        let mut stages = Vec::new();
        let mut clock = Instant::now();
        let mut ended = |stage| {
            let now = Instant::now();
            stages.push((stage, now.duration_since(clock).as_secs_f64()));
            clock = now;
        };
        let planned = self.plan(runtime, observer)?;
        let sharded = planned.step.lower(&self.model, planned.module.clone(), &planned.plan)?;
        let (program_ops, program_text_bytes) =
            (op_count(&sharded.module().instructions), sharded.stablehlo_text().len());
        drop(sharded);
        ended(DryRunStage::Plan);

        observer.event(Event::Phase(Phase::Compile));
        let programs = self.compile(runtime, &planned, observer)?;
        ended(DryRunStage::Compile);

        observer.event(Event::Phase(Phase::Weights));
        let parameters = self.initial_parameters(runtime, &planned, &programs.draws)?;
        let (step, _) = programs.train.as_ref().ok_or(TrainError::NothingTrained)?;
        let state = TrainState::of_parameters(runtime, step, parameters)?;
        let held = state.bytes_on_devices().ok().and_then(|bytes| bytes.into_iter().max());
        ended(DryRunStage::State);

        let stats = step.executable().memory_stats().ok();
        Ok(DryRun {
            memory: memory(&planned, step.layout().groups.trained()),
            held_bytes: held.map(|bytes| bytes as u64),
            temporary_bytes: stats.and_then(|stats| u64::try_from(stats.temp).ok()),
            compiled_bytes: step.executable().bytes_per_device().ok(),
            program_ops,
            program_text_bytes,
            stages,
        })
    }
}

/// Instructions, those inside of others among them.
fn op_count(instructions: &[Instruction]) -> usize {
    let inside = |region: &Region| op_count(&region.instructions);
    instructions.iter().map(|op| 1 + op.regions.iter().map(inside).sum::<usize>()).sum()
}

/// What is planned, by what it is. Gradients lie as the parameters do that are trained.
fn memory(planned: &Planned, trained: impl Iterator<Item = usize>) -> Vec<MemoryShare> {
    let arguments = planned.plan.arguments();
    let of = |wanted: fn(&ArgumentKind) -> bool| arguments.iter().filter(move |a| wanted(&a.kind));
    vec![
        share("parameters", of(|kind| matches!(kind, ArgumentKind::Parameter))),
        share("gradients", trained.map(|index| &arguments[index])),
        share("optimizer state", of(|kind| matches!(kind, ArgumentKind::State { .. }))),
        share("batch", of(|kind| matches!(kind, ArgumentKind::Batch))),
    ]
}

fn share<'a>(what: &'static str, arguments: impl Iterator<Item = &'a PlannedArgument>) -> MemoryShare {
    let none = MemoryShare { what, whole: 0, per_device: 0, padding: 0 };
    arguments.fold(none, |sum, a| MemoryShare {
        what,
        whole: sum.whole.saturating_add(a.ty.byte_count() as u64),
        per_device: sum.per_device.saturating_add(a.bytes_per_device as u64),
        padding: sum.padding.saturating_add(a.padding_bytes as u64),
    })
}
