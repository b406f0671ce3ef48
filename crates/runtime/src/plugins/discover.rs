//! Which plugin is used, and why the others are not: the rules of the [module documentation](super).

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fmt;
use std::path::PathBuf;

use super::cache::PluginFolder;
use super::candidate::{Candidate, DeviceType, Origin};
use super::environment::{Environment, non_empty};
use super::error::{Known, PluginError, Repr, nearest};
use super::fetch::FetchEvent;
use super::pins::{PinnedPlugin, PinnedPlugins};
use super::resolve::{self, Network, PluginRequest, ResolvedPlugin};
use super::{installed, variables};

/// The plugin to use, and those that were found and are not used.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Discovery {
    /// The plugin to use. Where its path is known, a regular file is there.
    pub winner: Candidate,
    /// The others, in the order of the rules that name them.
    pub others: Vec<Other>,
}

/// A plugin that is not used. Its `Display` is a line that says why.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Other {
    /// The plugin.
    pub candidate: Candidate,
    /// Why it is not used.
    pub reason: WhyNot,
}

/// Why a plugin is not used.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum WhyNot {
    /// An earlier rule names a plugin, or the same rule an earlier one.
    Later,
    /// It is the TPU's, and this machine has no TPU.
    NoTpu,
    /// `PJRT_DEVICE` asks for this device, which it is not for.
    OtherDevice(DeviceType),
    /// It is there for any use, and is used here where `PJRT_DEVICE` asks for its device.
    NotAsked,
}

/// Find the plugin that `request` and `environment` ask for. Loads, fetches and changes nothing.
///
/// # Errors
/// When what is asked for does not exist, or there is no plugin for the device that is asked for.
pub fn discover(
    request: &PluginRequest,
    pins: &PinnedPlugins,
    environment: &Environment,
) -> Result<Discovery, PluginError> {
    let asked = match (&request.plugin, environment.plugin()) {
        (Some(given), _) => Some((given.as_os_str(), Origin::Request)),
        (None, Some(given)) => Some((given.as_os_str(), Origin::Variable)),
        (None, None) => None,
    };
    let discovery = match asked {
        Some((given, origin)) => {
            let winner = resolve::named(given, origin, pins, environment)?;
            // Variables that decide nothing now may be wrong.
            let others = candidates(pins, environment).unwrap_or_default();
            Discovery::new(winner, others.into_iter().map(|candidate| (candidate, WhyNot::Later)))
        }
        None => choose(candidates(pins, environment)?, environment, pins)?,
    };
    tracing::debug!(plugin = %discovery.winner, "found");
    Ok(discovery)
}

impl Discovery {
    /// Without those among the others that are not on this machine, or are the winner again.
    fn new(winner: Candidate, others: impl IntoIterator<Item = (Candidate, WhyNot)>) -> Self {
        let others = others
            .into_iter()
            .filter(|(other, _)| other.path.is_some() && other.path != winner.path)
            .map(|(candidate, reason)| Other { candidate, reason })
            .collect();
        Self { winner, others }
    }

    /// The plugin as a file: fetched, if it is pinned and not on this machine. `progress` hears about a fetch.
    ///
    /// # Errors
    /// When it cannot or may not be fetched.
    pub fn obtain(
        &self,
        network: Network,
        environment: &Environment,
        progress: &mut dyn FnMut(FetchEvent<'_>),
    ) -> Result<ResolvedPlugin, PluginError> {
        resolve::obtain(&self.winner, network, environment, progress)
    }
}

/// All plugins that variables name, that are installed, and that are pinned, in this order.
fn candidates(pins: &PinnedPlugins, environment: &Environment) -> Result<Vec<Candidate>, PluginError> {
    let mut found = variables::candidates(environment)?;
    found.extend(installed::candidates(pins, environment));
    found
        .extend(pins.defaults().map(|pin| Candidate::pinned(pin, cached(pin, environment), Origin::Default)));
    Ok(found)
}

fn cached(pin: &PinnedPlugin, environment: &Environment) -> Option<PathBuf> {
    PluginFolder::of(pin, environment).ok()?.locate()
}

/// The first candidate that nothing speaks against.
fn choose(
    candidates: Vec<Candidate>,
    environment: &Environment,
    pins: &PinnedPlugins,
) -> Result<Discovery, PluginError> {
    let asked = non_empty(&environment.pjrt_device);
    let device = asked.map(|text| DeviceType::new(&text.to_string_lossy()));
    let known: BTreeSet<DeviceType> =
        candidates.iter().filter_map(|candidate| candidate.device.clone()).collect();
    let (mut winner, mut others) = (None, Vec::new());
    for candidate in candidates {
        let reason = why_not(&candidate, device.as_ref(), !environment.tpu_devices.is_empty());
        match reason {
            None if winner.is_none() => winner = Some(candidate),
            _ => others.push((candidate, reason.unwrap_or(WhyNot::Later))),
        }
    }
    let winner = winner.ok_or_else(|| no_plugin_for(asked.map_or(OsStr::new(""), |text| text), known))?;
    if let Some(path) = &winner.path {
        resolve::check_file(path, &path.to_string_lossy(), winner.origin, pins)?;
    }
    Ok(Discovery::new(winner, others))
}

/// What speaks against a plugin, if `asked` is what `PJRT_DEVICE` says.
fn why_not(candidate: &Candidate, asked: Option<&DeviceType>, has_tpu: bool) -> Option<WhyNot> {
    if let Some(asked) = asked {
        return (!candidate.is_for(asked)).then(|| WhyNot::OtherDevice(asked.clone()));
    }
    let is_for = |device: DeviceType| candidate.device == Some(device);
    if is_for(DeviceType::tpu()) {
        return (!has_tpu).then_some(WhyNot::NoTpu);
    }
    // Whoever sets a variable means it; a package may be there for another reason.
    let is_meant = !matches!(candidate.origin, Origin::Installed | Origin::Default);
    let is_usual = is_for(DeviceType::cpu()) && !has_tpu;
    (!is_meant && !is_usual).then_some(WhyNot::NotAsked)
}

fn no_plugin_for(asked: &OsStr, known: BTreeSet<DeviceType>) -> PluginError {
    let asked = asked.to_string_lossy().into_owned();
    let known: Vec<String> = known.iter().map(ToString::to_string).collect();
    let nearest = nearest(&asked.to_uppercase(), known.iter()).cloned();
    Repr::NoPluginForDevice { asked, nearest, known: Known(known) }.into()
}

impl fmt::Display for Other {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.candidate, self.reason)
    }
}

impl fmt::Display for WhyNot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Later => f.write_str("another comes first"),
            Self::NoTpu => f.write_str("this machine has no TPU"),
            Self::OtherDevice(asked) => write!(f, "PJRT_DEVICE asks for {asked}"),
            Self::NotAsked => f.write_str("used where PJRT_DEVICE asks for its device"),
        }
    }
}
