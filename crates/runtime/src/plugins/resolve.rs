//! From a wish to a path: the rules of the [module documentation](super).

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf, is_separator};

use super::cache::PluginFolder;
use super::candidate::{Candidate, Origin};
use super::discover::discover;
use super::environment::{Environment, absolute};
use super::error::{Known, PluginError, Repr, nearest};
use super::fetch::{FetchEvent, fetch};
use super::installed;
use super::pins::{PinnedPlugin, PinnedPlugins, Platform};

/// What the caller wants.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PluginRequest {
    /// A file or a short name; `None` leaves it to the environment and the default.
    pub plugin: Option<OsString>,
    /// Whether a missing plugin may be fetched.
    pub network: Network,
}

/// Whether a missing plugin may be fetched.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Network {
    /// Fetch a pinned plugin that is not in the cache.
    #[default]
    Allowed,
    /// Use what is on this machine.
    Offline,
}

/// A plugin to load. Its `Display` is for a first log line: file, pinned package, and the rule that won.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ResolvedPlugin {
    /// The shared library: absolute, and a regular file when it was resolved.
    pub path: PathBuf,
    /// The pinned plugin's short name, else the file's name.
    pub name: String,
    /// The rule that chose it.
    pub origin: Origin,
    /// Its pin, when it is the pinned one: asked for by its short name, or of the pinned size.
    pub pinned: Option<PinnedPlugin>,
    /// The installed package that it belongs to, with its version, where it is not the pinned one.
    pub package: Option<String>,
}

/// Find the plugin that `request` and `environment` ask for, as [`discover`] does; fetch it if it is pinned and not on
/// this machine.
///
/// `progress` hears about a fetch, and nothing when there is none.
pub fn resolve(
    request: &PluginRequest,
    pins: &PinnedPlugins,
    environment: &Environment,
    progress: &mut dyn FnMut(FetchEvent<'_>),
) -> Result<ResolvedPlugin, PluginError> {
    discover(request, pins, environment)?.obtain(request.network, environment, progress)
}

/// The plugin that is asked for by a file or a short name.
pub(super) fn named(
    given: &OsStr,
    origin: Origin,
    pins: &PinnedPlugins,
    environment: &Environment,
) -> Result<Candidate, PluginError> {
    if looks_like_a_file(given) {
        let path = environment.expand_home(Path::new(given)).map(absolute).ok_or_else(|| Repr::NoHome {
            needed_for: format!("plugin {given:?}"),
            instead: "write the path in full",
        })?;
        check_file(&path, &format!("{:?}", given.to_string_lossy()), origin, pins)?;
        return Ok(Candidate::file(path, origin));
    }
    let pin = find_pin(given, origin, pins)?;
    let cached = PluginFolder::of(pin, environment).ok().and_then(|folder| folder.locate());
    let path = cached.or_else(|| installed::locate(pin, environment));
    Ok(Candidate::pinned(pin, path, origin))
}

/// The candidate's file, fetched if there is none yet.
pub(super) fn obtain(
    candidate: &Candidate,
    network: Network,
    environment: &Environment,
    progress: &mut dyn FnMut(FetchEvent<'_>),
) -> Result<ResolvedPlugin, PluginError> {
    let path = match &candidate.path {
        Some(path) => path.clone(),
        None => {
            let pin = candidate.pinned.as_ref().expect("only pinned plugins are known without a file");
            locate_or_fetch(pin, network, environment, progress)?
        }
    };
    let Candidate { name, origin, pinned, package, .. } = candidate.clone();
    let resolved = ResolvedPlugin { path, name, origin, pinned, package };
    tracing::debug!(plugin = %resolved, "resolved");
    Ok(resolved)
}

/// Whether text is a file rather than a short name.
pub(super) fn looks_like_a_file(given: &OsStr) -> bool {
    let text = given.to_string_lossy();
    let library = [".so", ".dylib", ".dll"].iter().any(|ending| text.ends_with(ending));
    library || text.contains(".so.") || text.starts_with('~') || text.contains(is_separator)
}

/// Fails unless `path` is a regular file; `given` is what was written for it, in quotes.
pub(super) fn check_file(
    path: &Path,
    given: &str,
    origin: Origin,
    pins: &PinnedPlugins,
) -> Result<(), PluginError> {
    let path = path.to_owned();
    let metadata = fs::metadata(&path).map_err(|source| match source.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory => {
            Repr::NotFound { path: path.clone(), given: given.to_owned(), origin, known: known(pins) }
        }
        _ => Repr::Unreadable { path: path.clone(), source },
    })?;
    if metadata.is_file() {
        return Ok(());
    }
    let found = if metadata.is_dir() { "a folder" } else { "not a regular file" };
    Err(Repr::NotAFile { path, found, origin }.into())
}

fn find_pin<'a>(
    given: &OsStr,
    origin: Origin,
    pins: &'a PinnedPlugins,
) -> Result<&'a PinnedPlugin, PluginError> {
    let given = given.to_string_lossy();
    pins.get(&given).ok_or_else(|| {
        let nearest = nearest(&given.to_lowercase(), pins.iter().map(|pin| &pin.name)).cloned();
        Repr::UnknownName { given: given.into_owned(), origin, nearest, known: known(pins) }.into()
    })
}

fn locate_or_fetch(
    pin: &PinnedPlugin,
    network: Network,
    environment: &Environment,
    progress: &mut dyn FnMut(FetchEvent<'_>),
) -> Result<PathBuf, PluginError> {
    let here = Platform::current();
    if pin.platform != here {
        return Err(Repr::UnsupportedPlatform {
            name: pin.name.clone(),
            built_for: pin.platform.clone(),
            here,
        }
        .into());
    }
    let folder = PluginFolder::of(pin, environment)?;
    match (folder.locate(), network) {
        (Some(path), _) => Ok(path),
        (None, Network::Allowed) => fetch(pin, &folder, environment, progress),
        (None, Network::Offline) => {
            Err(Repr::Offline { pin: pin.into(), folder: folder.root().to_owned() }.into())
        }
    }
}

fn known(pins: &PinnedPlugins) -> Known {
    Known(pins.iter().map(|pin| pin.name.clone()).collect())
}

impl fmt::Display for ResolvedPlugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}chosen {})", self.path.display(), carrier(&self.pinned, &self.package), self.origin)
    }
}

/// The package that carries a plugin, before a comma; nothing where there is none.
pub(super) fn carrier(pinned: &Option<PinnedPlugin>, package: &Option<String>) -> String {
    match (pinned, package) {
        (Some(pin), _) => format!("{}: {} {}, ", pin.name, pin.package, pin.version),
        (None, Some(package)) => format!("{package}, "),
        (None, None) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_a_file_by_separator_tilde_or_ending() {
        for file in
            ["./cpu", "a/b", "/p", "~", "~/p", "~p", "p.so", "my plugin.so", "lib.so.1", "p.dylib", "p.dll"]
        {
            assert!(looks_like_a_file(file.as_ref()), "{file}");
        }
        for name in ["cpu", "cpu-0.106", "CPU", "so", "", "cpu.sofa"] {
            assert!(!looks_like_a_file(name.as_ref()), "{name}");
        }
    }
}
