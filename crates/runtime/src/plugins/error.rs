//! What can go wrong between a user's wish for a plugin and its path.

use std::error::Error;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use super::candidate::Origin;
use super::digest::Sha256Digest;
use super::pins::{PinnedPlugin, Platform};

/// No plugin could be found or fetched. The message says what was given, what was expected and what to do.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct PluginError(Box<Repr>);

/// What went wrong, for callers that decide by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum PluginErrorKind {
    /// The file that was asked for does not exist.
    NotFound,
    /// What was asked for exists and is no regular file, most often a folder.
    NotAFile,
    /// The file exists and cannot be read.
    Unreadable,
    /// The short name is not in the table.
    UnknownName,
    /// The variable `PJRT_NAMES_AND_LIBRARY_PATHS` is not what it has to be.
    NamesAndPaths,
    /// There is no plugin for the device that the variable `PJRT_DEVICE` asks for.
    NoPluginForDevice,
    /// The plugin is the TPU's, and would hang where no TPU is.
    NoTpu,
    /// The plugin is built for other machines.
    UnsupportedPlatform,
    /// The plugin is not in the cache and the network may not be used.
    Offline,
    /// Python cannot be started.
    PythonMissing,
    /// Python has no pip.
    PipMissing,
    /// pip ran and did not deliver.
    DownloadFailed(DownloadFailure),
    /// A file is not the pinned one.
    DigestMismatch,
    /// The wheel cannot be unpacked or lacks the plugin.
    BrokenWheel,
    /// A home or cache folder is needed and no variable gives one.
    NoHome,
    /// The cache folder cannot be read or written.
    Cache,
}

/// Why pip did not deliver, as far as its output tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum DownloadFailure {
    /// The package index could not be reached.
    Network,
    /// The index has no such version for this platform.
    NoSuchVersion,
    /// The disk is full.
    DiskFull,
    /// None of these; the message ends with pip's last lines.
    Other,
}

impl PluginError {
    /// What went wrong.
    pub fn kind(&self) -> PluginErrorKind {
        match &*self.0 {
            Repr::NotFound { .. } => PluginErrorKind::NotFound,
            Repr::NotAFile { .. } => PluginErrorKind::NotAFile,
            Repr::Unreadable { .. } => PluginErrorKind::Unreadable,
            Repr::UnknownName { .. } => PluginErrorKind::UnknownName,
            Repr::NamesAndPaths { .. } => PluginErrorKind::NamesAndPaths,
            Repr::NoPluginForDevice { .. } => PluginErrorKind::NoPluginForDevice,
            Repr::NoTpu { .. } => PluginErrorKind::NoTpu,
            Repr::UnsupportedPlatform { .. } => PluginErrorKind::UnsupportedPlatform,
            Repr::Offline { .. } => PluginErrorKind::Offline,
            Repr::PythonMissing { .. } => PluginErrorKind::PythonMissing,
            Repr::PipMissing { .. } => PluginErrorKind::PipMissing,
            Repr::DownloadFailed { failure, .. } => PluginErrorKind::DownloadFailed(*failure),
            Repr::DigestMismatch { .. } => PluginErrorKind::DigestMismatch,
            Repr::BrokenWheel { .. } => PluginErrorKind::BrokenWheel,
            Repr::NoHome { .. } => PluginErrorKind::NoHome,
            Repr::Cache { .. } => PluginErrorKind::Cache,
        }
    }

    /// The file or folder it went wrong with, where there is one.
    pub fn path(&self) -> Option<&Path> {
        match &*self.0 {
            Repr::NotFound { path, .. }
            | Repr::NotAFile { path, .. }
            | Repr::Unreadable { path, .. }
            | Repr::NoTpu { path }
            | Repr::DigestMismatch { file: path, .. }
            | Repr::Cache { path, .. } => Some(path),
            _ => None,
        }
    }
}

impl From<Repr> for PluginError {
    fn from(repr: Repr) -> Self {
        Self(Box::new(repr))
    }
}

#[derive(Debug, thiserror::Error)]
pub(super) enum Repr {
    #[error(
        "plugin file {path:?} does not exist (given {origin} as {given}); {} with an existing file or one of {known}", origin.advice()
    )]
    NotFound { path: PathBuf, given: String, origin: Origin, known: Known },

    #[error(
        "plugin {path:?} is {found}, expected a shared library (given {origin}); {} with the file itself",
        origin.advice()
    )]
    NotAFile { path: PathBuf, found: &'static str, origin: Origin },

    #[error("cannot read plugin file {path:?}; check its permissions and those of its folder")]
    Unreadable { path: PathBuf, source: io::Error },

    #[error(
        "unknown plugin {given:?} (given {origin}){}; known are {known}; for a file of your own pass --plugin PATH, \
         with a separator or the ending of a shared library in it",
        did_you_mean(nearest)
    )]
    UnknownName { given: String, origin: Origin, nearest: Option<String>, known: Known },

    #[error(
        "PJRT_NAMES_AND_LIBRARY_PATHS: entry {entry:?}: {reason}; write name:path, or name:path.json with the path of a \
         JSON file, and commas between entries"
    )]
    NamesAndPaths { entry: String, reason: String },

    #[error(
        "there is no plugin for PJRT_DEVICE={asked}{}; there are plugins for {known}; for another device name its plugin \
         with --plugin PATH or PJRT_NAMES_AND_LIBRARY_PATHS={}:PATH",
        did_you_mean(nearest),
        asked.to_lowercase()
    )]
    NoPluginForDevice { asked: String, nearest: Option<String>, known: Known },

    #[error(
        "plugin {path:?} is the TPU's, and this machine has no TPU: neither /dev/accel0 nor a TPU in /dev/vfio; loading \
         it would hang, asking for its cloud's metadata; to run here use another plugin, such as --plugin cpu; to compile \
         for TPUs that are elsewhere start this program with TPU_SKIP_MDS_QUERY=1"
    )]
    NoTpu { path: PathBuf },

    #[error(
        "plugin {name} is built for {built_for}, this machine is {here}; pass --plugin PATH with a plugin built for it"
    )]
    UnsupportedPlatform { name: String, built_for: Platform, here: Platform },

    #[error(
        "{pin} is not in the cache folder {folder:?} and may not be downloaded; run once without --offline, or pass --plugin PATH"
    )]
    Offline { pin: PinName, folder: PathBuf },

    #[error(
        "cannot start {python:?}, whose pip downloads {pin}; install Python 3, or set SHARDWRIGHT_PYTHON to its path, or pass --plugin PATH"
    )]
    PythonMissing { python: PathBuf, pin: PinName, source: io::Error },

    #[error(
        "{python:?} has no pip, which downloads {pin}; install pip, or set SHARDWRIGHT_PYTHON to a Python that has it, or pass --plugin PATH"
    )]
    PipMissing { python: PathBuf, pin: PinName },

    #[error("pip could not download {pin}: {failure}{}", last_lines(output))]
    DownloadFailed { pin: PinName, failure: DownloadFailure, output: Vec<String> },

    #[error("{file:?} is not the pinned file: expected sha256 {expected}, found {found}; {advice}")]
    DigestMismatch { file: PathBuf, expected: Sha256Digest, found: Sha256Digest, advice: DigestAdvice },

    #[error("cannot unpack {file:?} of wheel {wheel:?}; report this, and pass --plugin PATH meanwhile")]
    BrokenWheel { wheel: String, file: String, source: Box<dyn Error + Send + Sync> },

    #[error("{needed_for} needs a home folder and HOME is not set; set HOME, or {instead}")]
    NoHome { needed_for: String, instead: &'static str },

    #[error(
        "cannot {action} {path:?} in the plugin cache; set SHARDWRIGHT_CACHE_DIR to a folder with space that can be written"
    )]
    Cache { action: &'static str, path: PathBuf, source: io::Error },
}

impl Repr {
    /// For `map_err`: the error of an `action` on a `path` in the cache.
    pub(super) fn cache(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> PluginError {
        move |source| Self::Cache { action, path: path.to_owned(), source }.into()
    }
}

/// The names of a table as a list.
#[derive(Debug)]
pub(super) struct Known(pub(super) Vec<String>);

impl fmt::Display for Known {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join(", "))
    }
}

/// A pinned plugin as messages name it.
#[derive(Debug)]
pub(super) struct PinName(String);

impl From<&PinnedPlugin> for PinName {
    fn from(pin: &PinnedPlugin) -> Self {
        Self(format!("plugin {} ({} {})", pin.name, pin.package, pin.version))
    }
}

impl fmt::Display for PinName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What to do about a digest that differs.
#[derive(Debug, Clone, Copy)]
pub(super) enum DigestAdvice {
    /// It was just downloaded, and nothing has been kept.
    FetchAgain,
    /// It lies in the cache.
    RemoveCached,
}

impl fmt::Display for DigestAdvice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::FetchAgain => {
                "nothing was installed; try again, check which package index pip uses, or pass --plugin PATH"
            }
            Self::RemoveCached => "remove it, and the next run fetches it again",
        })
    }
}

impl fmt::Display for DownloadFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Network => {
                "no connection to the package index; check network and proxy and run again, or pass --plugin PATH"
            }
            Self::NoSuchVersion => {
                "the package index has no such version for this platform; check which index pip uses, or pass \
                 --plugin PATH"
            }
            Self::DiskFull => "the disk is full; free some space, or set SHARDWRIGHT_CACHE_DIR to a folder elsewhere",
            Self::Other => "it failed as shown below; mend that and run again, or pass --plugin PATH",
        })
    }
}

/// The name most like `given`, unless none is like it.
pub(super) fn nearest<'a>(given: &str, known: impl Iterator<Item = &'a String>) -> Option<&'a String> {
    // `tpu` is the end of `libtpu`, and yet nearer to `cpu` by its letters.
    let is_part = |name: &str| given.len() >= 3 && name.contains(given);
    let likeness = |name: &&String| if is_part(name) { 1.0 } else { strsim::jaro_winkler(given, name) };
    known.filter(|name| likeness(name) > 0.75).max_by(|a, b| likeness(a).total_cmp(&likeness(b)))
}

fn did_you_mean(nearest: &Option<String>) -> String {
    nearest.as_ref().map(|name| format!(": did you mean {name}?")).unwrap_or_default()
}

fn last_lines(output: &[String]) -> String {
    output.iter().map(|line| format!("\n  pip: {line}")).collect()
}

#[cfg(test)]
mod tests {
    use super::super::pins::PinnedPlugins;
    use super::*;

    #[test]
    fn nearest_name_is_offered_only_when_it_is_near() {
        let check = |given: &str, expect: Option<&str>| {
            let names = PinnedPlugins::embedded().iter().map(|pin| &pin.name);
            assert_eq!(nearest(given, names).map(String::as_str), expect, "{given}");
        };
        check("cpu0.81", Some("cpu-0.81"));
        check("cpu-0.1O6", Some("cpu-0.106"));
        check("tpu", Some("libtpu"));
        check("cuda", None);
        check("", None);
    }
}
