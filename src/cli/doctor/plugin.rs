//! The plugin: which one, whether it is the pinned one, and what it does when it is loaded and opened.

use std::path::Path;
use std::time::Duration;

use serde::Serialize;
use shardwright_partition::Bytes;
use shardwright_runtime::plugins::{
    self, Candidate, DeviceType, Discovery, Environment, Platform, PluginError,
};

use super::check::Check;
use super::probe::{self, DeviceFacts, End, Loaded, Opened, Probe, Step};

const PLUGIN: &str = "plugin";
const DEVICES: &str = "devices";

/// What is known of the plugin, for programs that read the report.
#[derive(Debug, Default, Serialize)]
pub(super) struct Facts {
    name: Option<String>,
    path: Option<String>,
    chosen: Option<String>,
    package: Option<String>,
    pjrt_api: Option<String>,
    stablehlo: Option<[Option<String>; 2]>,
    xla: Option<String>,
    extensions: Option<Vec<String>>,
    missing_functions: Option<Vec<String>>,
    platform: Option<String>,
    /// How many there are.
    pub(super) devices: Option<usize>,
}

pub(super) fn is_for_tpu(candidate: &Candidate) -> bool {
    candidate.device.as_ref().is_some_and(DeviceType::is_tpu)
}

/// Finds out everything about the plugin; a child with these flags may take `limit` to load it.
pub(super) fn checks(
    found: &Result<Discovery, PluginError>,
    environment: &Environment,
    flags: &[String],
    limit: Duration,
) -> (Vec<Check>, Facts) {
    let mut facts = Facts::default();
    let found = match found {
        Ok(found) => found,
        Err(error) => return (vec![Check::problem(PLUGIN, "file", &chain(error), "")], facts),
    };
    let winner = found.winner();
    facts.name = Some(winner.name.clone());
    facts.chosen = Some(winner.origin.to_string());
    facts.package = winner.package.clone();
    if let Some(pin) = &winner.pinned {
        facts.package = Some(format!("{} {}", pin.package, pin.version));
    }

    let mut checks = vec![file(winner)];
    checks.extend(found.others().iter().map(|other| Check::ok(PLUGIN, "not used", other)));
    if let Some(path) = &winner.path {
        facts.path = Some(path.display().to_string());
        checks.push(digest(winner, path));
    }
    match (plugins::check_before_loading(winner.library(), environment), &winner.path) {
        (Err(error), _) => checks.push(Check::problem(PLUGIN, "loading", &error.to_string(), "")),
        (Ok(()), Some(path)) => {
            let probe = probe::probe(path, flags, limit);
            facts.learn(&probe);
            checks.extend(outcome(&probe, is_for_tpu(winner) && environment.tpu_devices.is_empty()));
        }
        (Ok(()), None) => {}
    }
    (checks, facts)
}

impl Facts {
    fn learn(&mut self, probe: &Probe) {
        if let Some(loaded) = &probe.loaded {
            self.pjrt_api = Some(format!("{}.{}", loaded.api.0, loaded.api.1));
            self.stablehlo = Some([dotted(&loaded.stablehlo_minimum), dotted(&loaded.stablehlo_current)]);
            self.xla = loaded.xla_version.clone();
            self.extensions = Some(loaded.extensions.clone());
            self.missing_functions = Some(loaded.missing_functions.clone());
        }
        if let Some(opened) = &probe.opened {
            self.platform = Some(opened.platform.clone());
            self.devices = Some(opened.devices.len());
        }
    }
}

fn file(winner: &Candidate) -> Check {
    let here = Platform::current();
    match (&winner.path, &winner.pinned) {
        (None, Some(pin)) if pin.platform != here => Check::problem(
            PLUGIN,
            "file",
            &format!("{} is built for {}, this machine is {here}", pin.name, pin.platform),
            "use a plugin that is built for it, with --plugin PATH",
        ),
        (None, Some(pin)) => Check::warning(
            PLUGIN,
            "file",
            &format!("{winner}, {} to download", Bytes(pin.wheel_bytes)),
            &format!("the first run fetches it, and so does `shardwright plugins fetch {}`", pin.name),
        ),
        _ => Check::ok(PLUGIN, "file", winner),
    }
}

fn digest(winner: &Candidate, path: &Path) -> Check {
    let Some(pin) = &winner.pinned else {
        let package = winner.package.as_ref().map(|package| format!("{package}, ")).unwrap_or_default();
        return Check::ok(
            PLUGIN,
            "digest",
            format!("{package}not a pinned plugin, so there is none to compare with"),
        );
    };
    match pin.verify(path) {
        Ok(()) => Check::ok(PLUGIN, "digest", format!("that of the pinned {} {}", pin.package, pin.version)),
        Err(error) => Check::problem(PLUGIN, "digest", &chain(&error), ""),
    }
}

/// What came of loading it. `is_away` says that it is the TPU's where there is no TPU.
fn outcome(probe: &Probe, is_away: bool) -> Vec<Check> {
    let mut checks: Vec<Check> = probe.loaded.iter().flat_map(loaded).collect();
    if let Some(opened) = &probe.opened {
        checks.extend(devices(opened));
    }
    checks.extend(match &probe.end {
        End::Failed(Step::Open, error) if is_away => Some(Check::warning(
            DEVICES,
            "none",
            error,
            "use another plugin to run here: without a TPU, this one can only compile for those that are elsewhere",
        )),
        _ => failed(probe),
    });
    checks
}

fn loaded(loaded: &Loaded) -> Vec<Check> {
    let (major, minor) = loaded.api;
    let stablehlo = match (dotted(&loaded.stablehlo_minimum), dotted(&loaded.stablehlo_current)) {
        (Some(minimum), Some(current)) => format!("{minimum} to {current}"),
        (None, Some(current)) => format!("up to {current}"),
        _ => "the plugin does not say".to_owned(),
    };
    let xla = loaded.xla_version.as_deref().unwrap_or("the plugin does not say");
    let extensions = match loaded.extensions.is_empty() {
        true => "none".to_owned(),
        false => loaded.extensions.join(", "),
    };
    let functions = match loaded.missing_functions.as_slice() {
        [] => Check::ok(PLUGIN, "functions", "all that this program knows"),
        missing => Check::warning(
            PLUGIN,
            "functions",
            &format!("it lacks {}", missing.join(", ")),
            "what needs one of them fails with an error that names it; a newer plugin may have it",
        ),
    };
    vec![
        Check::ok(PLUGIN, "pjrt api", format!("{major}.{minor}")),
        Check::ok(PLUGIN, "stablehlo", stablehlo),
        Check::ok(PLUGIN, "xla", xla),
        Check::ok(PLUGIN, "extensions", extensions),
        functions,
    ]
}

/// A line for the platform, and one for each kind of device.
fn devices(opened: &Opened) -> Vec<Check> {
    let version = opened.version.lines().next().filter(|version| *version != opened.platform);
    let version = version.map(|version| format!(" {version}")).unwrap_or_default();
    let mut checks = vec![Check::ok(DEVICES, "platform", format!("{}{version}", opened.platform))];
    let alike = |a: &DeviceFacts, b: &DeviceFacts| DeviceFacts { id: b.id, ..a.clone() } == *b;
    for group in opened.devices.chunk_by(alike) {
        checks.push(Check::ok(DEVICES, ids(group), device(&group[0])));
    }
    if opened.devices.is_empty() {
        checks.push(Check::problem(DEVICES, "none", "this process drives no device", "use another plugin"));
    }
    checks
}

/// The numbers of devices that are listed one after the other.
fn ids(group: &[DeviceFacts]) -> String {
    let (first, last) = (group[0].id, group[group.len() - 1].id);
    match group.len() {
        1 => first.to_string(),
        count if last.checked_sub(first).is_some_and(|apart| apart + 1 == count as i64) => {
            format!("{first} to {last}")
        }
        count => format!("{count} from {first}"),
    }
}

fn device(device: &DeviceFacts) -> String {
    let memory = |memory: &String| match Some(memory) == device.default_memory.as_ref() {
        true => format!("{memory} (default)"),
        false => memory.clone(),
    };
    let memories: Vec<String> = device.memories.iter().map(memory).collect();
    let limit = device.bytes_limit.and_then(|limit| u64::try_from(limit).ok());
    let limit = limit.map(|limit| format!(", {}", Bytes(limit))).unwrap_or_default();
    format!("{}{limit}; memories: {}", device.kind, memories.join(", "))
}

fn failed(probe: &Probe) -> Option<Check> {
    let (step, what, next) = match &probe.end {
        End::Well => return None,
        End::NotStarted(error) => (Step::Load, format!("cannot start a child process: {error}"), ""),
        End::Failed(step, error) => (*step, error.clone(), "mend that, or use another plugin with --plugin"),
        End::Died(step, status) => {
            let next = "use another plugin with --plugin, or report this to those who made it";
            (*step, format!("the plugin ended the process: {status}"), next)
        }
        End::Hung(step, limit) => {
            let next = "use another plugin, or give it more time with --timeout";
            (*step, format!("not done after {} s", limit.as_secs()), next)
        }
    };
    let (section, name) = match step {
        Step::Load => (PLUGIN, "loading"),
        Step::Open => (DEVICES, "opening"),
        Step::Close => (DEVICES, "closing"),
    };
    let said: String = probe.said.iter().map(|line| format!("\n  {line}")).collect();
    Some(Check::problem(section, name, &(what + &said), next))
}

fn dotted(version: &Option<Vec<i64>>) -> Option<String> {
    let numbers: Vec<String> = version.as_ref()?.iter().map(ToString::to_string).collect();
    Some(numbers.join("."))
}

/// An error and what caused it.
fn chain(error: &PluginError) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(error) = source {
        let link = error.to_string();
        if !text.ends_with(&link) {
            text += &format!(": {link}");
        }
        source = error.source();
    }
    text
}
