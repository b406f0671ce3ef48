//! One pinned plugin's folder in the cache: finding, locking, staging, installing.
//!
//! Invariants:
//!
//! - The finished folder appears by one rename, after everything in it was synced.
//! - Only the holder of the lock creates, renames or removes anything beside the lock file, so a staging
//!   folder seen under the lock belongs to nobody.

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::environment::Environment;
use super::error::{PluginError, Repr};
use super::pins::PinnedPlugin;

const STAGING_PREFIX: &str = "staging-";

/// Where a pinned plugin lies, or will lie.
#[derive(Debug)]
pub(super) struct PluginFolder {
    root: PathBuf,
    finished: PathBuf,
    plugin: PathBuf,
    plugin_bytes: u64,
}

impl PluginFolder {
    pub(super) fn of(pin: &PinnedPlugin, environment: &Environment) -> Result<Self, PluginError> {
        let cache = environment.cache_folder().ok_or_else(|| Repr::NoHome {
            needed_for: "the plugin cache".to_owned(),
            instead: "set SHARDWRIGHT_CACHE_DIR",
        })?;
        let root = cache.join("plugins").join(format!("{}-{}", pin.package, pin.version));
        let finished = root.join(pin.file_sha256.short());
        let plugin = finished.join(pin.file_name());
        Ok(Self { root, finished, plugin, plugin_bytes: pin.file_bytes })
    }

    /// The folder of all that belongs to this plugin.
    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// The plugin, if it is there.
    ///
    /// The size is compared because a copied cache may hold a truncated file; our own fetch cannot
    /// leave one.
    pub(super) fn locate(&self) -> Option<PathBuf> {
        let metadata = fs::metadata(&self.plugin).ok()?;
        (metadata.is_file() && metadata.len() == self.plugin_bytes).then(|| self.plugin.clone())
    }

    /// Take the lock, calling `waiting` first if somebody else holds it.
    pub(super) fn lock(&self, waiting: impl FnOnce()) -> Result<LockedFolder<'_>, PluginError> {
        fs::create_dir_all(&self.root).map_err(Repr::cache("create folder", &self.root))?;
        let path = self.root.join("lock");
        let file = File::options().create(true).truncate(false).write(true).open(&path);
        let file = file.map_err(Repr::cache("open lock file", &path))?;
        let locked = match file.try_lock() {
            Err(TryLockError::WouldBlock) => {
                waiting();
                file.lock()
            }
            Err(TryLockError::Error(error)) => Err(error),
            Ok(()) => Ok(()),
        };
        locked.map_err(Repr::cache("lock", &path))?;
        Ok(LockedFolder { folder: self, _lock: file })
    }
}

/// The right to change a [`PluginFolder`], held until dropped. The system takes it from a killed process.
#[derive(Debug)]
pub(super) struct LockedFolder<'a> {
    folder: &'a PluginFolder,
    _lock: File,
}

impl LockedFolder<'_> {
    /// A new empty staging folder, removed when dropped, after the remains of earlier fetches were removed.
    pub(super) fn stage(&self) -> Result<TempDir, PluginError> {
        let root = &self.folder.root;
        self.remove_stale();
        tempfile::Builder::new()
            .prefix(STAGING_PREFIX)
            .tempdir_in(root)
            .map_err(Repr::cache("create a staging folder in", root))
    }

    /// Move `content`, complete and synced, into place and return the plugin's path.
    pub(super) fn install(&self, content: &Path) -> Result<PathBuf, PluginError> {
        let PluginFolder { root, finished, plugin, .. } = self.folder;
        if finished.exists() {
            // `locate` has refused it: a damaged copy.
            fs::remove_dir_all(finished).map_err(Repr::cache("remove damaged folder", finished))?;
        }
        fs::rename(content, finished).map_err(Repr::cache("move the plugin to", finished))?;
        sync_folder(root)?;
        Ok(plugin.clone())
    }

    /// Failing here costs disk space only, so it is logged and not an error.
    fn remove_stale(&self) {
        let entries = fs::read_dir(&self.folder.root).into_iter().flatten().flatten();
        for entry in entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(STAGING_PREFIX)) {
            if let Err(error) = fs::remove_dir_all(entry.path()) {
                tracing::warn!(folder = %entry.path().display(), %error, "cannot remove the remains of a fetch");
            }
        }
    }
}

/// Make the entries of a folder survive a power cut. Other systems than Unix cannot open a folder, nor need it.
pub(super) fn sync_folder(folder: &Path) -> Result<(), PluginError> {
    if cfg!(unix) {
        File::open(folder)
            .and_then(|opened| opened.sync_all())
            .map_err(Repr::cache("sync folder", folder))?;
    }
    Ok(())
}
