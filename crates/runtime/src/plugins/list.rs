//! All known plugins and what is on this machine of them.

use std::path::PathBuf;

use super::cache::PluginFolder;
use super::environment::Environment;
use super::error::PluginError;
use super::pins::{PinnedPlugin, PinnedPlugins, Platform};

/// A known plugin and its state on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PluginState<'a> {
    /// The plugin.
    pub pin: &'a PinnedPlugin,
    /// Its state.
    pub status: PluginStatus,
}

/// What is on this machine of a known plugin.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum PluginStatus {
    /// It lies in the cache and has the right size.
    Cached(PathBuf),
    /// The first use fetches it.
    NotCached,
    /// It is built for other machines.
    Unsupported,
}

/// The known plugins in the order of the table. Reads the cache and changes nothing.
pub fn list<'a>(
    pins: &'a PinnedPlugins,
    environment: &Environment,
) -> Result<Vec<PluginState<'a>>, PluginError> {
    let here = Platform::current();
    let state = |pin| Ok(PluginState { pin, status: status(pin, &here, environment)? });
    pins.iter().map(state).collect()
}

fn status(
    pin: &PinnedPlugin,
    here: &Platform,
    environment: &Environment,
) -> Result<PluginStatus, PluginError> {
    if pin.platform != *here {
        return Ok(PluginStatus::Unsupported);
    }
    let cached = PluginFolder::of(pin, environment)?.locate();
    Ok(cached.map_or(PluginStatus::NotCached, PluginStatus::Cached))
}
