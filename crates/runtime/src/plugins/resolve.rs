//! From a wish to a path: the rules of the [module documentation](super).

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf, is_separator};

use super::cache::PluginFolder;
use super::environment::{Environment, absolute};
use super::error::{Known, PluginError, Repr};
use super::fetch::{FetchEvent, fetch};
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

/// The rule that chose a plugin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Origin {
    /// The caller asked for it.
    Request,
    /// The environment variable `SHARDWRIGHT_PLUGIN` names it.
    Variable,
    /// Nothing was asked for, so it is the table's default.
    Default,
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
    /// Its pin, when it was named by its short name.
    pub pinned: Option<PinnedPlugin>,
}

/// Find the plugin that `request` and `environment` ask for; fetch it if it is pinned and not in the cache.
///
/// `progress` hears about a fetch, and nothing when there is none.
pub fn resolve(
    request: &PluginRequest,
    pins: &PinnedPlugins,
    environment: &Environment,
    progress: &mut dyn FnMut(FetchEvent<'_>),
) -> Result<ResolvedPlugin, PluginError> {
    let (given, origin) = match (&request.plugin, environment.plugin()) {
        (Some(given), _) => (given.as_os_str(), Origin::Request),
        (None, Some(given)) => (given.as_os_str(), Origin::Variable),
        (None, None) => (OsStr::new(&pins.default_plugin().name), Origin::Default),
    };
    let resolved = if looks_like_a_file(given) {
        resolve_file(given, origin, pins, environment)?
    } else {
        let pin = find_pin(given, origin, pins)?;
        let path = locate_or_fetch(pin, request.network, environment, progress)?;
        ResolvedPlugin { path, name: pin.name.clone(), origin, pinned: Some(pin.clone()) }
    };
    tracing::debug!(plugin = %resolved, "resolved");
    Ok(resolved)
}

/// Whether text is a file rather than a short name.
pub(super) fn looks_like_a_file(given: &OsStr) -> bool {
    let text = given.to_string_lossy();
    let library = [".so", ".dylib", ".dll"].iter().any(|ending| text.ends_with(ending));
    library || text.contains(".so.") || text.starts_with('~') || text.contains(is_separator)
}

fn resolve_file(
    given: &OsStr,
    origin: Origin,
    pins: &PinnedPlugins,
    environment: &Environment,
) -> Result<ResolvedPlugin, PluginError> {
    let path = environment.expand_home(Path::new(given)).map(absolute).ok_or_else(|| Repr::NoHome {
        needed_for: format!("plugin {given:?}"),
        instead: "write the path in full",
    })?;
    let metadata = fs::metadata(&path).map_err(|source| match source.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory => Repr::NotFound {
            path: path.clone(),
            given: given.to_string_lossy().into_owned(),
            origin,
            known: known(pins),
        },
        _ => Repr::Unreadable { path: path.clone(), source },
    })?;
    if !metadata.is_file() {
        let found = if metadata.is_dir() { "a folder" } else { "not a regular file" };
        return Err(Repr::NotAFile { path, found, origin }.into());
    }
    let name = path.file_name().unwrap_or(given).to_string_lossy().into_owned();
    Ok(ResolvedPlugin { path, name, origin, pinned: None })
}

fn find_pin<'a>(
    given: &OsStr,
    origin: Origin,
    pins: &'a PinnedPlugins,
) -> Result<&'a PinnedPlugin, PluginError> {
    let given = given.to_string_lossy();
    pins.get(&given).ok_or_else(|| {
        let nearest = nearest(&given, pins).map(|pin| pin.name.clone());
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

/// The name most like `given`, unless none is like it.
fn nearest<'a>(given: &str, pins: &'a PinnedPlugins) -> Option<&'a PinnedPlugin> {
    let given = given.to_lowercase();
    let likeness = |pin: &PinnedPlugin| strsim::jaro_winkler(&given, &pin.name);
    pins.iter().filter(|pin| likeness(pin) > 0.7).max_by(|a, b| likeness(a).total_cmp(&likeness(b)))
}

fn known(pins: &PinnedPlugins) -> Known {
    Known(pins.iter().map(|pin| pin.name.clone()).collect())
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Request => "by --plugin",
            Self::Variable => "by SHARDWRIGHT_PLUGIN",
            Self::Default => "by default",
        })
    }
}

impl fmt::Display for ResolvedPlugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.path.display())?;
        match &self.pinned {
            Some(pin) => {
                write!(f, " ({}: {} {}, chosen {})", pin.name, pin.package, pin.version, self.origin)
            }
            None => write!(f, " (chosen {})", self.origin),
        }
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

    #[test]
    fn nearest_name_is_offered_only_when_it_is_near() {
        let check = |given: &str, expect: Option<&str>| {
            let found = nearest(given, PinnedPlugins::embedded()).map(|pin| pin.name.as_str());
            assert_eq!(found, expect, "{given}");
        };
        check("CPU", Some("cpu"));
        check("cpu0.81", Some("cpu-0.81"));
        check("cpu-0.1O6", Some("cpu-0.106"));
        check("libtpu", None);
        check("", None);
    }
}
