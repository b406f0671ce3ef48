//! The cache folder: what lies in it, and whether the plugin that is to be fetched into it can be.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};
use std::{fs, io};

use rustix::fs::{Access, access, statvfs};
use shardwright_partition::Bytes;
use shardwright_runtime::compile::{CachePlaceError, CompileCache};
use shardwright_runtime::plugins::{self, Environment, PinnedPlugin, PinnedPlugins, PluginStatus};

use super::check::Check;
use super::probe;

const CACHE: &str = "cache";
const MOVE: &str = "set SHARDWRIGHT_CACHE_DIR to a folder elsewhere";
/// How long pip may take to tell its version.
const PIP_LIMIT: Duration = Duration::from_secs(30);

/// What is said of the cache folder; `to_fetch` is the plugin that the next run has to fetch into it, and `compiled` is
/// where a run with the same flags keeps its programs.
pub(super) fn checks(
    environment: &Environment,
    to_fetch: Option<&PinnedPlugin>,
    compiled: Result<Option<CompileCache>, CachePlaceError>,
) -> Vec<Check> {
    let wrong = if to_fetch.is_some() { Check::problem } else { Check::warning };
    let Some(folder) = environment.cache_folder() else {
        let next = "set HOME, or SHARDWRIGHT_CACHE_DIR to a folder";
        return vec![
            wrong(CACHE, "folder", "there is none, for HOME is not set", next),
            self::compiled(Path::new(""), compiled),
        ];
    };
    let unusable = unusable(&folder).map(|why| wrong(CACHE, "folder", &why, MOVE));
    let mut checks = vec![
        unusable.unwrap_or_else(|| Check::ok(CACHE, "folder", folder.display())),
        plugins(&folder, environment),
        self::compiled(&folder, compiled),
        space(&folder, to_fetch),
    ];
    checks.extend(to_fetch.map(|_| pip(&environment.python())));
    checks
}

/// Whether there is the pip that downloads plugins.
fn pip(python: &Path) -> Check {
    let next = "install Python 3 with pip, or set SHARDWRIGHT_PYTHON to a Python that has it";
    match version_of_pip(python) {
        Ok(output) if output.status.success() => {
            let text = String::from_utf8_lossy(&output.stdout);
            Check::ok(CACHE, "pip", text.lines().next().unwrap_or_default())
        }
        Ok(output) => {
            let text = String::from_utf8_lossy(&output.stderr);
            let last = text.lines().last().unwrap_or_default();
            Check::problem(CACHE, "pip", &format!("{} has none: {last}", python.display()), next)
        }
        Err(error) => {
            Check::problem(CACHE, "pip", &format!("cannot run {}: {error}", python.display()), next)
        }
    }
}

/// What pip answers, if it does in time: the Python may be anything.
fn version_of_pip(python: &Path) -> io::Result<Output> {
    let mut command = Command::new(python);
    command.args(["-m", "pip", "--version"]).process_group(0);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn()?;
    if probe::wait(&mut child, Instant::now() + PIP_LIMIT).is_none() {
        probe::end(&mut child);
        return Err(io::Error::new(io::ErrorKind::TimedOut, "it did not answer in time"));
    }
    child.wait_with_output()
}

/// Why nothing can be written into the folder, if so; it need not exist.
fn unusable(folder: &Path) -> Option<String> {
    let existing = existing(folder);
    if !existing.is_dir() {
        return Some(format!("{}: {} is no folder", folder.display(), existing.display()));
    }
    let refused = access(existing, Access::WRITE_OK | Access::EXEC_OK).err()?;
    Some(format!("{}: {} cannot be written: {refused}", folder.display(), existing.display()))
}

fn plugins(folder: &Path, environment: &Environment) -> Check {
    let states = plugins::list(PinnedPlugins::embedded(), environment).unwrap_or_default();
    let cached = states.iter().filter(|state| matches!(state.status, PluginStatus::Cached(_)));
    let names: Vec<&str> = cached.map(|state| state.pin.name.as_str()).collect();
    let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    Check::ok(CACHE, "plugins", format!("{names}; {}", contents(&folder.join("plugins"))))
}

/// What is kept of compiled programs, and where: mostly in the cache folder.
fn compiled(folder: &Path, cache: Result<Option<CompileCache>, CachePlaceError>) -> Check {
    let cache = match cache {
        Ok(None) => return Check::ok(CACHE, "compiled", "off"),
        Ok(Some(cache)) => cache,
        // A run ends over it.
        Err(error) => return Check::problem(CACHE, "compiled", &error.to_string(), ""),
    };
    match cache.summary() {
        Ok(summary) => Check::ok(CACHE, "compiled", summary),
        // That has been said of the cache folder itself.
        Err(_) if cache.folder().starts_with(folder) && unusable(folder).is_some() => {
            Check::ok(CACHE, "compiled", "none")
        }
        Err(error) => Check::warning(
            CACHE,
            "compiled",
            &format!("{}: {error}", cache.folder().display()),
            "until then each start compiles anew; mend that, or set SHARDWRIGHT_COMPILE_CACHE to a folder elsewhere, or \
             to off",
        ),
    }
}

/// Whether there is space for a plugin, which lies there as a wheel and unpacked while it is fetched.
fn space(folder: &Path, to_fetch: Option<&PinnedPlugin>) -> Check {
    let free = match statvfs(existing(folder)) {
        Ok(system) => system.f_bavail.saturating_mul(system.f_frsize),
        Err(error) => return Check::warning(CACHE, "space", &format!("cannot be read: {error}"), MOVE),
    };
    match to_fetch.map(|pin| (pin, 2 * pin.wheel_bytes + pin.file_bytes)) {
        Some((pin, needed)) if needed > free => {
            let text = format!("{} free, to fetch plugin {} takes {}", Bytes(free), pin.name, Bytes(needed));
            Check::problem(CACHE, "space", &text, &format!("free some, or {MOVE}"))
        }
        _ => Check::ok(CACHE, "space", format!("{} free", Bytes(free))),
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
