//! The text.

use std::path::{Path, PathBuf};

use shardwright_runtime::plugins::Environment;

use super::super::failure::Failure;
use super::super::settings::{DataSettings, Setting};
use super::existing;

pub(super) fn train_files(settings: &DataSettings) -> Result<Vec<PathBuf>, Failure> {
    let Some(files) = settings.train_file.as_ref().filter(|files| !files.value.is_empty()) else {
        return Err(Failure::input("there is no text: give files or folders with --train_file"));
    };
    paths(files)
}

pub(super) fn validation_files(settings: &DataSettings) -> Result<Vec<PathBuf>, Failure> {
    settings.validation_file.as_ref().map_or(Ok(Vec::new()), paths)
}

/// Files, folders and patterns; what the patterns fit is found later.
fn paths(setting: &Setting<Vec<PathBuf>>) -> Result<Vec<PathBuf>, Failure> {
    let found = |path: &PathBuf| match is_pattern(path) && !setting.resolve(path).exists() {
        true => Ok(setting.resolve(path)),
        false => existing(setting, path),
    };
    setting.value.iter().map(found).collect()
}

fn is_pattern(path: &Path) -> bool {
    path.to_string_lossy().contains(['*', '?', '['])
}

/// Where tokens are kept; nowhere if there is no place for it.
pub(super) fn cache_dir(settings: &DataSettings) -> Option<PathBuf> {
    match &settings.cache_dir {
        Some(folder) => Some(folder.resolve(&folder.value)),
        None => Some(Environment::from_process().cache_folder()?.join("tokens")),
    }
}
