//! The calls into the training and runtime crates, and what their errors mean for the exit code.

use shardwright_mesh::{DrawStyle, draw_mesh};
use shardwright_pjrt::Counters;
use shardwright_runtime::compile::{CompilerDeath, Ending};
use shardwright_runtime::plugins::ResolvedPlugin;
use shardwright_runtime::{Runtime, RuntimeError, RuntimeErrorKind, RuntimeOptions};
use shardwright_train::{Job, Observer, StopFlag, TrainConfig, TrainError, TrainErrorKind, TrainResults};

use super::failure::{Cause, Failure};
use super::metrics::Figure;
use super::report::labelled;

const MESH_HINT: &str =
    "--mesh names the axes and their sizes; --cpu_devices sets how many devices a CPU plugin has";

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

/// The figures of a run by Hugging Face's names.
pub(super) fn figures(results: &TrainResults) -> Vec<(&'static str, Figure)> {
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

    /// The plugin's platform.
    pub(super) fn platform(&self) -> &str {
        self.runtime.platform()
    }

    /// What was compiled, run and copied so far.
    pub(super) fn counters(&self) -> &Counters {
        self.runtime.counters()
    }

    /// Trains, and tells `observer` about it.
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
