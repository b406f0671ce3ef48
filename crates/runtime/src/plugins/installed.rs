//! Plugins in installed Python packages, found by the names of their files.

use std::fs;
use std::path::{Path, PathBuf};

use super::candidate::{Candidate, Origin};
use super::environment::Environment;
use super::pins::{PinnedPlugin, PinnedPlugins};
use super::site_packages;

/// The plugins of installed packages: the TPU's of any version, for it comes with the machine; of the other pinned
/// defaults only the pinned version; and those that register themselves with JAX, for other devices than these.
pub(super) fn candidates(pins: &PinnedPlugins, environment: &Environment) -> Vec<Candidate> {
    let mut found = Vec::new();
    for folder in site_packages::folders(environment) {
        found.extend(pins.defaults().filter_map(|pin| of_pin(pin, &folder)));
        let others = jax_plugins(&folder).into_iter().map(|file| Candidate::file(file, Origin::Installed));
        found.extend(
            others.filter(|other| pins.defaults().all(|pin| other.device.as_ref() != Some(&pin.device))),
        );
    }
    found
}

/// The file of a pinned plugin in an installed package, if it has the pinned size.
pub(super) fn locate(pin: &PinnedPlugin, environment: &Environment) -> Option<PathBuf> {
    let files = site_packages::folders(environment).into_iter().map(|folder| folder.join(&pin.file));
    files.into_iter().find(|file| pin.has_size_of(file))
}

fn of_pin(pin: &PinnedPlugin, folder: &Path) -> Option<Candidate> {
    let file = folder.join(&pin.file);
    if pin.has_size_of(&file) {
        return Some(Candidate::pinned(pin, Some(file), Origin::Installed));
    }
    if !pin.device.is_tpu() || !file.is_file() {
        return None;
    }
    let package = version(folder, &pin.package).map(|version| format!("{} {version}", pin.package));
    Some(Candidate { package, ..Candidate::file(file, Origin::Installed) })
}

/// The version of an installed package, from the name of its metadata.
fn version(folder: &Path, package: &str) -> Option<String> {
    let start = format!("{}-", package.replace('-', "_"));
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let versions = names
        .filter_map(|name| Some(name.strip_suffix(".dist-info")?.strip_prefix(start.as_str())?.to_owned()));
    versions.max()
}

/// The libraries in the folders of `jax_plugins`, where plugins for JAX register themselves.
fn jax_plugins(folder: &Path) -> Vec<PathBuf> {
    let subfolders = fs::read_dir(folder.join("jax_plugins")).into_iter().flatten().flatten();
    let mut libraries: Vec<PathBuf> = subfolders.flat_map(|entry| libraries_in(&entry.path())).collect();
    libraries.sort();
    libraries
}

/// The files in a folder that are named as PJRT plugins are, sorted.
pub(super) fn libraries_in(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> =
        entries.map(|entry| entry.path()).filter(|path| is_named_as_plugin(path) && path.is_file()).collect();
    files.sort();
    files
}

fn is_named_as_plugin(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    let is_library = name.ends_with(".so") || name.ends_with(".dylib");
    is_library && (name.contains("pjrt") || name.contains("_plugin.") || name == "libtpu.so")
}
