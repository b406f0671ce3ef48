//! The calls into the training and runtime crates, and what their errors mean for the exit code.

use shardwright_runtime::plugins::ResolvedPlugin;
use shardwright_runtime::{Runtime, RuntimeErrorKind, RuntimeOptions};
use shardwright_train::{Job, Observer, StopFlag, TrainConfig, TrainError, TrainErrorKind, TrainResults};

use super::failure::{Cause, Failure};
use super::metrics::Figure;
use super::report::labelled;

const MESH_HINT: &str =
    "--mesh names the axes and their sizes; --cpu_devices sets how many devices a CPU plugin has";

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
    pub(super) fn start(plugin: &ResolvedPlugin, cpu_devices: usize) -> Result<Engine, Failure> {
        let runtime = Runtime::new(&plugin.path, &RuntimeOptions::cpu_devices(cpu_devices))
            .map_err(|error| Failure::new(Cause::Plugin, error))?;
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

impl From<TrainError> for Failure {
    fn from(error: TrainError) -> Failure {
        let cause = match error.kind() {
            TrainErrorKind::Input => Cause::Input,
            TrainErrorKind::Device => Cause::Plugin,
            TrainErrorKind::Interrupted => Cause::Interrupted,
            _ => Cause::Run,
        };
        let is_mesh = matches!(&error, TrainError::Runtime(e) if e.kind() == RuntimeErrorKind::Mesh);
        let failure = Failure::new(cause, error);
        if is_mesh { failure.with_hint(MESH_HINT) } else { failure }
    }
}
