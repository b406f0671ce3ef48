//! The calls into the training and runtime crates, and what their errors mean for the exit code.

use shardwright_mesh::{AbstractMesh, DrawStyle, Mesh, draw_mesh};
use shardwright_partition::Lowering;
use shardwright_partition::explain::Explanation;
use shardwright_pjrt::Counters;
use shardwright_runtime::compile::{CompilerDeath, Ending, ForeignProgram};
use shardwright_runtime::plugins::ResolvedPlugin;
use shardwright_runtime::{Executable, Runtime, RuntimeError, RuntimeErrorKind, RuntimeOptions};
use shardwright_train::{
    DryRun, EvaluationResults, Job, Observer, StopFlag, TrainConfig, TrainError, TrainErrorKind,
    TrainResults, TrainStep,
};

use super::failure::{Cause, Failure};
use super::metrics::Figure;
use super::program::ShardedProgram;
use super::report::labelled;

const MESH_HINT: &str =
    "--mesh names the axes and their sizes; --cpu_devices sets how many devices a CPU plugin has";

const DEVICES_HINT: &str =
    "--devices 4 uses the first 4 devices only; --cpu_devices sets how many a CPU plugin has";

const TIMEOUT_HINT: &str = "--compile_timeout sets how many seconds a compiler may take";

const MEMORY_HINT: &str = "--compile_memory sets how many gibibytes of address space a compiler may use";

const KILLED_HINT: &str = "the system ends processes so when it runs out of memory, which its log then tells";

/// The signal that cannot be caught.
const SIGKILL: i32 = 9;

/// An opened plugin.
pub(super) struct Engine {
    runtime: Runtime,
    plugin: ResolvedPlugin,
}

/// Reads all files of a run and refuses what can be seen to be wrong before a plugin is opened, or even fetched.
pub(super) fn prepare(config: &TrainConfig, observer: &mut dyn Observer) -> Result<Job, Failure> {
    Ok(shardwright_train::prepare(config, observer)?)
}

/// The same for a run of which only the step is looked at.
pub(super) fn prepare_unsaved(config: &TrainConfig, observer: &mut dyn Observer) -> Result<Job, Failure> {
    Ok(shardwright_train::prepare_unsaved(config, observer)?)
}

/// The figures of training by Hugging Face's names.
pub(super) fn train_figures(results: &TrainResults) -> Vec<(&'static str, Figure)> {
    vec![
        ("epoch", Figure::Number(results.epoch)),
        ("total_flos", Figure::Flops(results.total_flos)),
        ("train_loss", Figure::Number(results.train_loss)),
        ("train_runtime", Figure::Seconds(results.train_runtime)),
        ("train_samples", Figure::Count(results.train_samples as u64)),
        ("train_samples_per_second", Figure::Number(results.train_samples_per_second)),
        ("train_steps_per_second", Figure::Number(results.train_steps_per_second)),
        ("train_tokens_per_second", Figure::Number(results.train_tokens_per_second)),
    ]
}

/// The figures of an evaluation by Hugging Face's names.
pub(super) fn eval_figures(results: &EvaluationResults) -> Vec<(&'static str, Figure)> {
    let epoch = results.epoch.map(|epoch| ("epoch", Figure::Number(epoch)));
    let figures = [
        ("eval_loss", Figure::Number(results.eval_loss)),
        ("eval_runtime", Figure::Seconds(results.eval_runtime)),
        ("eval_samples", Figure::Count(results.eval_samples as u64)),
        ("eval_samples_per_second", Figure::Number(results.eval_samples_per_second)),
        ("eval_steps_per_second", Figure::Number(results.eval_steps_per_second)),
        ("perplexity", Figure::Number(results.perplexity)),
    ];
    epoch.into_iter().chain(figures).collect()
}

impl Engine {
    pub(super) fn start(plugin: &ResolvedPlugin, options: &RuntimeOptions) -> Result<Engine, Failure> {
        let runtime = Runtime::new(&plugin.path, options).map_err(|error| {
            let is_of_plugin = error.kind() == RuntimeErrorKind::Plugin;
            let failure = Failure::from(error);
            match is_of_plugin {
                true => failure
                    .with_hint(format!("the plugin is {plugin}; `shardwright doctor` tells more of it")),
                false => failure,
            }
        })?;
        Ok(Engine { runtime, plugin: plugin.clone() })
    }

    /// Lines that tell what runs are made with.
    pub(super) fn opening(&self) -> Vec<String> {
        let (major, minor) = self.runtime.client().plugin().api_version();
        let count = self.runtime.devices().count();
        let devices = if count == 1 { "device" } else { "devices" };
        vec![
            labelled("plugin", format!("{}, PJRT API {major}.{minor}", self.plugin)),
            labelled("platform", format!("{}, {count} {devices}", self.runtime.platform())),
        ]
    }

    /// A line for each device.
    pub(super) fn devices(&self) -> Vec<String> {
        let device = |device: &shardwright_pjrt::Device| {
            let memory =
                device.default_memory().map(|m| format!(", memory {}", m.kind())).unwrap_or_default();
            labelled(&format!("{}", device.id()), format!("{}{memory}", device.kind()))
        };
        self.runtime.devices().map(device).collect()
    }

    /// All devices as a mesh of one axis.
    pub(super) fn drawing(&self, style: DrawStyle) -> Result<String, Failure> {
        Ok(draw_mesh(&self.runtime.mesh("devices=-1")?, style))
    }

    /// The opened plugin, for programs that are no train steps.
    pub(super) fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    /// The plugin's devices as a mesh, all of them or the `first`.
    pub(super) fn mesh(&self, shape: &AbstractMesh, first: Option<usize>) -> Result<Mesh, Failure> {
        let found = self.runtime.devices().count();
        match first {
            None => {
                let mesh = self.runtime.mesh(&shape.to_string());
                mesh.map_err(|error| program_failure(error).with_hint(DEVICES_HINT))
            }
            Some(count) if count > found => {
                let platform = self.runtime.platform();
                let message = format!("--devices {count}: platform {platform} has {found} devices");
                Err(Failure::input(message).with_hint(DEVICES_HINT))
            }
            Some(count) => self.mesh_of_first(shape, count),
        }
    }

    /// The first of the plugin's devices, of which there are so many, as a mesh of this shape.
    pub(super) fn mesh_of_first(&self, shape: &AbstractMesh, count: usize) -> Result<Mesh, Failure> {
        let id =
            |device: &shardwright_pjrt::Device| usize::try_from(device.id()).map_err(anyhow::Error::from);
        let ids = self.runtime.devices().map(id).take(count).collect::<Result<Vec<_>, _>>();
        let mesh = ids.and_then(|ids| Ok(Mesh::new(shape.clone(), ids)?));
        mesh.map_err(|error| Failure::new(Cause::Plugin, error))
    }

    /// Compiles a program from elsewhere for the devices of a mesh.
    pub(super) fn compile(&self, program: &ShardedProgram, mesh: &Mesh) -> Result<Executable, Failure> {
        let compiled = match program {
            ShardedProgram::Module(module) => self.runtime.compile(module, mesh),
            ShardedProgram::Hlo(proto) => self.runtime.compile_hlo(proto, mesh),
        };
        compiled.map_err(program_failure)
    }

    /// Compiles bytecode for a mesh of one device.
    pub(super) fn compile_bytecode(&self, code: &ForeignProgram, mesh: &Mesh) -> Result<Executable, Failure> {
        self.runtime.compile_for_one(code, mesh).map_err(program_failure)
    }

    /// The plugin's platform.
    pub(super) fn platform(&self) -> &str {
        self.runtime.platform()
    }

    /// What was compiled, run and copied so far.
    pub(super) fn counters(&self) -> &Counters {
        self.runtime.counters()
    }

    /// Compiles the step of a run, lowered so, and explains it.
    pub(super) fn explain(
        &self,
        job: &Job,
        lowering: Lowering,
        observer: &mut dyn Observer,
    ) -> Result<(TrainStep, Explanation), Failure> {
        Ok(job.explain(&self.runtime, lowering, observer)?)
    }

    /// Does all of a run up to its first step, and writes nothing.
    pub(super) fn dry_run(&self, job: &Job, observer: &mut dyn Observer) -> Result<DryRun, Failure> {
        Ok(job.dry_run(&self.runtime, observer)?)
    }

    /// Trains and evaluates, and tells `observer` about it.
    pub(super) fn train(
        &self,
        job: &Job,
        observer: &mut dyn Observer,
        stop: &StopFlag,
    ) -> Result<(), Failure> {
        job.run(&self.runtime, observer, stop)?;
        Ok(())
    }
}

/// What went wrong before a run began.
impl From<RuntimeError> for Failure {
    fn from(error: RuntimeError) -> Failure {
        let cause = match error.kind() {
            RuntimeErrorKind::CompilerFlag | RuntimeErrorKind::Dump => Cause::Input,
            _ => Cause::Plugin,
        };
        Failure::new(cause, error)
    }
}

/// What it means that a program could not be compiled or run.
pub(super) fn program_failure(error: RuntimeError) -> Failure {
    use RuntimeErrorKind::{Argument, CompilerFlag, Data, Dump, Mesh, NotAProgram, Sharding};
    let cause = match error.kind() {
        Argument | CompilerFlag | Data | Dump | Mesh | NotAProgram | Sharding => Cause::Input,
        _ => Cause::Run,
    };
    let hint = hint(&error);
    let failure = Failure::new(cause, error);
    match hint {
        Some(hint) => failure.with_hint(hint),
        None => failure,
    }
}

fn hint(error: &RuntimeError) -> Option<&'static str> {
    match error.compiler_death().map(CompilerDeath::ending) {
        Some(Ending::TimedOut(_)) => Some(TIMEOUT_HINT),
        _ if error.compiler_memory_limit().is_some() => Some(MEMORY_HINT),
        Some(Ending::Signal(SIGKILL)) => Some(KILLED_HINT),
        _ => (error.kind() == RuntimeErrorKind::Mesh).then_some(MESH_HINT),
    }
}

impl From<TrainError> for Failure {
    fn from(error: TrainError) -> Failure {
        let cause = match error.kind() {
            TrainErrorKind::Input => Cause::Input,
            TrainErrorKind::Device => Cause::Plugin,
            TrainErrorKind::Interrupted => Cause::Interrupted,
            _ => Cause::Run,
        };
        let hint = match &error {
            TrainError::Runtime(e) => hint(e),
            _ => None,
        };
        let failure = Failure::new(cause, error);
        match hint {
            Some(hint) => failure.with_hint(hint),
            None => failure,
        }
    }
}
