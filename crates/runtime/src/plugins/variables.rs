//! Plugins that environment variables of other projects name.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::candidate::{Candidate, DeviceType, Origin};
use super::environment::{Environment, absolute, non_empty};
use super::error::{PluginError, Repr};
use super::installed::libraries_in;
use crate::ordinary_file;

/// The plugins that variables name, in the order of the rules. Whether the files exist is looked at only of the one
/// that is used.
///
/// # Errors
/// When `PJRT_NAMES_AND_LIBRARY_PATHS` is not what it has to be.
pub(super) fn candidates(environment: &Environment) -> Result<Vec<Candidate>, PluginError> {
    let mut found = Vec::new();
    if let Some(path) = non_empty(&environment.tpu_library_path) {
        let file = Candidate::file(in_full(Path::new(path), environment), Origin::TpuLibraryPath);
        found.push(Candidate { device: Some(DeviceType::tpu()), ..file });
    }
    if let Some(text) = non_empty(&environment.pjrt_names_and_library_paths) {
        found.extend(names_and_paths(text, environment)?);
    }
    if let Some(paths) = non_empty(&environment.pjrt_plugin_library_path) {
        found.extend(library_path(paths, environment));
    }
    Ok(found)
}

fn in_full(path: &Path, environment: &Environment) -> PathBuf {
    absolute(environment.expand_home(path).unwrap_or_else(|| path.to_owned()))
}

/// `name:path,name:path`, where a path that ends in `.json` is a file which says where the library is.
fn names_and_paths(text: &OsStr, environment: &Environment) -> Result<Vec<Candidate>, PluginError> {
    let text = text.to_string_lossy();
    let entries = text.split(',').map(str::trim).filter(|entry| !entry.is_empty());
    entries.map(|entry| name_and_path(entry, environment)).collect()
}

fn name_and_path(entry: &str, environment: &Environment) -> Result<Candidate, PluginError> {
    let wrong = |reason: String| Repr::NamesAndPaths { entry: entry.to_owned(), reason };
    let Some((name, path)) =
        entry.split_once(':').filter(|(name, path)| !name.is_empty() && !path.is_empty())
    else {
        return Err(wrong("expected name:path, such as tpu:/usr/lib/libtpu.so".to_owned()).into());
    };
    let full = in_full(Path::new(path), environment);
    let (library, written) = if path.ends_with(".json") {
        let (library, written) = library_of(&full, environment).map_err(wrong)?;
        (library, format!("library_path {written:?} in {full:?}"))
    } else {
        (full, format!("{entry:?}"))
    };
    let file = Candidate::file(library, Origin::NamesAndPaths);
    Ok(Candidate { device: Some(DeviceType::new(name)), written: Some(written), ..file })
}

/// What JAX reads from such a file.
#[derive(Deserialize)]
struct PluginConfig {
    library_path: PathBuf,
    #[serde(default)]
    create_option: serde_json::Map<String, serde_json::Value>,
}

/// The library that the file names, and how it is written there; a relative one is seen from the file's folder.
fn library_of(file: &Path, environment: &Environment) -> Result<(PathBuf, PathBuf), String> {
    let text = ordinary_file::open(file).and_then(io::read_to_string);
    let text = text.map_err(|error| format!("cannot read {file:?}: {error}"))?;
    let config: PluginConfig = serde_json::from_str(&text)
        .map_err(|error| format!("{file:?} is not an object with the text library_path: {error}"))?;
    if !config.create_option.is_empty() {
        let options: Vec<&String> = config.create_option.keys().collect();
        tracing::warn!(file = %file.display(), ?options, "options for the plugin's client are not passed on");
    }
    let folder = file.parent().unwrap_or(Path::new(""));
    let written = config.library_path;
    let path = environment.expand_home(&written).unwrap_or_else(|| written.clone());
    Ok((folder.join(path), written))
}

/// Files, and folders whose plugins are meant; a folder without one stands for itself, so that it is an error to use it.
fn library_path(paths: &OsStr, environment: &Environment) -> Vec<Candidate> {
    let mut found = Vec::new();
    for path in std::env::split_paths(paths).filter(|path| !path.as_os_str().is_empty()) {
        let path = in_full(&path, environment);
        let mut files = libraries_in(&path);
        if files.is_empty() {
            files.push(path);
        }
        found.extend(files.into_iter().map(|file| Candidate::file(file, Origin::PluginLibraryPath)));
    }
    found
}
