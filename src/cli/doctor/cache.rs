//! The cache folder: what lies in it, whether it can be written, and how much space there is.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access, statvfs};
use shardwright_partition::Bytes;
use shardwright_runtime::plugins::{self, Environment, PinnedPlugins, PluginStatus};

use super::check::Check;

const CACHE: &str = "cache";
const MOVE: &str = "set SHARDWRIGHT_CACHE_DIR to a folder elsewhere";

/// What is said of the cache folder.
pub(super) fn checks(environment: &Environment) -> Vec<Check> {
    let Some(folder) = environment.cache_folder() else {
        let next = "set HOME, or SHARDWRIGHT_CACHE_DIR to a folder";
        return vec![Check::warning(CACHE, "folder", "there is none, for HOME is not set", next)];
    };
    vec![
        writable(&folder),
        plugins(&folder, environment),
        Check::ok(CACHE, "compiled", contents(&folder.join("compiled"))),
        space(&folder, environment),
    ]
}

fn writable(folder: &Path) -> Check {
    let existing = existing(folder);
    let text = match existing == folder {
        true => folder.display().to_string(),
        false => format!("{}, not made yet", folder.display()),
    };
    if !existing.is_dir() {
        let text = format!("{}: {} is no folder", folder.display(), existing.display());
        return Check::problem(CACHE, "folder", text, MOVE);
    }
    match access(existing, Access::WRITE_OK | Access::EXEC_OK) {
        Ok(()) => Check::ok(CACHE, "folder", text),
        Err(error) => Check::warning(CACHE, "folder", format!("{text}, cannot be written: {error}"), MOVE),
    }
}

fn plugins(folder: &Path, environment: &Environment) -> Check {
    let states = plugins::list(PinnedPlugins::embedded(), environment).unwrap_or_default();
    let cached = states.iter().filter(|state| matches!(state.status, PluginStatus::Cached(_)));
    let names: Vec<&str> = cached.map(|state| state.pin.name.as_str()).collect();
    let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    Check::ok(CACHE, "plugins", format!("{names}; {}", contents(&folder.join("plugins"))))
}

/// Whether there is space for the default plugin, which lies there as a wheel and unpacked while it is fetched.
fn space(folder: &Path, environment: &Environment) -> Check {
    let free = match statvfs(existing(folder)) {
        Ok(system) => system.f_bavail.saturating_mul(system.f_frsize),
        Err(error) => return Check::warning(CACHE, "space", format!("cannot be read: {error}"), MOVE),
    };
    let text = format!("{} free", Bytes(free));
    let states = plugins::list(PinnedPlugins::embedded(), environment).unwrap_or_default();
    let default = PinnedPlugins::embedded().default_plugin();
    let is_cached = states
        .iter()
        .any(|state| state.pin.name == default.name && matches!(state.status, PluginStatus::Cached(_)));
    let needed = if is_cached { 0 } else { 2 * default.wheel_bytes + default.file_bytes };
    match free < needed {
        true => {
            let text = format!("{text}, fetching plugin {} takes {}", default.name, Bytes(needed));
            Check::warning(CACHE, "space", text, format!("free some, or {MOVE}"))
        }
        false => Check::ok(CACHE, "space", text),
    }
}

/// The folder, or the nearest above it that exists.
fn existing(folder: &Path) -> &Path {
    folder.ancestors().find(|path| path.symlink_metadata().is_ok()).unwrap_or(folder)
}

/// The number and size of the files in a folder and its subfolders.
fn contents(folder: &Path) -> String {
    let (mut files, mut bytes) = (0_usize, 0);
    let mut folders: Vec<PathBuf> = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            match entry.metadata() {
                Ok(metadata) if metadata.is_dir() => folders.push(entry.path()),
                Ok(metadata) => {
                    files += 1;
                    bytes += metadata.len();
                }
                Err(_) => {}
            }
        }
    }
    let plural = if files == 1 { "" } else { "s" };
    format!("{files} file{plural}, {}", Bytes(bytes))
}
