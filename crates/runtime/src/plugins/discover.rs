//! Which plugin is used, and why the others are not: the rules of the [module documentation](super).

use std::collections::BTreeSet;
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
pub struct Discovery {
    winner: Candidate,
    others: Vec<Other>,
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

    /// The plugin to use. Where its path is known, a regular file was there.
    pub fn winner(&self) -> &Candidate {
        &self.winner
    }

    /// Those that are on this machine and not used, in the order of the rules that name them.
    pub fn others(&self) -> &[Other] {
        &self.others
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

/// The kind of device that a plugin is looked for.
enum Wanted {
    /// What `PJRT_DEVICE` says.
    Asked(DeviceType),
    /// What this machine is meant for, as far as nobody says otherwise.
    Usual(DeviceType),
}

/// The first candidate that nothing speaks against.
fn choose(
    candidates: Vec<Candidate>,
    environment: &Environment,
    pins: &PinnedPlugins,
) -> Result<Discovery, PluginError> {
    let is_for_tpu = |candidate: &Candidate| candidate.device.as_ref().is_some_and(DeviceType::is_tpu);
    let asked = non_empty(&environment.pjrt_device).map(|asked| asked.to_string_lossy());
    let asked = asked.as_deref().map(str::trim).filter(|asked| !asked.is_empty());
    let wanted = match asked {
        Some(asked) => Wanted::Asked(DeviceType::new(asked)),
        None if !environment.tpu_devices.is_empty() && candidates.iter().any(is_for_tpu) => {
            Wanted::Usual(DeviceType::tpu())
        }
        None => Wanted::Usual(pins.default_plugin().device.clone()),
    };
    let known: BTreeSet<DeviceType> =
        candidates.iter().filter_map(|candidate| candidate.device.clone()).collect();
    let (mut winner, mut others) = (None, Vec::new());
    for candidate in candidates {
        match wanted.speaks_against(&candidate) {
            None if winner.is_none() => winner = Some(candidate),
            reason => others.push((candidate, reason.unwrap_or(WhyNot::Later))),
        }
    }
    let winner = winner.ok_or_else(|| no_plugin_for(&wanted, asked, &known))?;
    if let Some(path) = &winner.path {
        let written = winner.written.clone().unwrap_or_else(|| format!("{path:?}"));
        resolve::check_file(path, &written, winner.origin, pins)?;
    }
    Ok(Discovery::new(winner, others))
}

impl Wanted {
    fn device(&self) -> &DeviceType {
        match self {
            Self::Asked(device) | Self::Usual(device) => device,
        }
    }

    /// Why a plugin does not come into question, if it does not.
    fn speaks_against(&self, candidate: &Candidate) -> Option<WhyNot> {
        if candidate.is_for(self.device()) {
            return None;
        }
        // Whoever sets a variable means it; a package may be there for another reason.
        let is_meant = !matches!(candidate.origin, Origin::Installed | Origin::Default);
        match (self, &candidate.device) {
            (Self::Asked(device), _) => Some(WhyNot::OtherDevice(device.clone())),
            (Self::Usual(_), Some(own)) if own.is_tpu() => Some(WhyNot::NoTpu),
            (Self::Usual(_), _) => (!is_meant).then_some(WhyNot::NotAsked),
        }
    }
}

/// `written` is how `PJRT_DEVICE` has it.
fn no_plugin_for(wanted: &Wanted, written: Option<&str>, known: &BTreeSet<DeviceType>) -> PluginError {
    let known: Vec<String> = known.iter().map(ToString::to_string).collect();
    let asked = wanted.device().to_string();
    let is_misspelled = !wanted.device().is_well_known();
    let nearest = nearest(&asked, known.iter()).filter(|_| is_misspelled).cloned();
    let asked = written.map_or(asked, str::to_ascii_uppercase);
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
