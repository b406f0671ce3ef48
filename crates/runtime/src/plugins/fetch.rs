//! Fetching a pinned plugin into the cache: lock, download, check, unpack, install.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use super::cache::{PluginFolder, sync_folder};
use super::digest::digest_while;
use super::environment::Environment;
use super::error::{DigestAdvice, DownloadFailure, PluginError, Repr};
use super::pins::{PinnedPlugin, expect_digest};
use super::{pip, wheel};

/// What a fetch is doing. `Waiting` comes first or not at all; a fetch that fails does not finish.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum FetchEvent<'a> {
    /// Another process is fetching the same plugin; this one waits for it.
    Waiting {
        /// The plugin.
        pin: &'a PinnedPlugin,
    },
    /// The download begins; [`PinnedPlugin::wheel_bytes`] are to come.
    Started {
        /// The plugin.
        pin: &'a PinnedPlugin,
    },
    /// The download goes on.
    Downloading {
        /// Bytes on disk so far.
        bytes: u64,
    },
    /// The wheel is right and is being unpacked; [`PinnedPlugin::file_bytes`] are to come.
    Unpacking {
        /// Bytes unpacked so far.
        bytes: u64,
    },
    /// The plugin is in the cache.
    Finished {
        /// Where it is.
        path: &'a Path,
    },
}

/// Fetch `pin` into `folder`, unless another process does so first.
pub(super) fn fetch(
    pin: &PinnedPlugin,
    folder: &PluginFolder,
    environment: &Environment,
    progress: &mut dyn FnMut(FetchEvent<'_>),
) -> Result<PathBuf, PluginError> {
    let locked = folder.lock(|| progress(FetchEvent::Waiting { pin }))?;
    if let Some(path) = folder.locate() {
        return Ok(path);
    }
    progress(FetchEvent::Started { pin });
    let staging = locked.stage()?;
    let [download, content] = ["download", "content"].map(|name| staging.path().join(name));
    for subfolder in [&download, &content] {
        fs::create_dir(subfolder).map_err(Repr::cache("create folder", subfolder))?;
    }

    pip::download(pin, &environment.python(), &download, &mut |bytes| {
        progress(FetchEvent::Downloading { bytes })
    })?;
    let wheel = find_wheel(pin, &download)?;
    check_wheel(pin, &wheel)?;
    wheel::unpack(pin, &wheel, &content, &mut |bytes| progress(FetchEvent::Unpacking { bytes }))?;
    sync_folder(&content)?;

    let path = locked.install(&content)?;
    progress(FetchEvent::Finished { path: &path });
    Ok(path)
}

/// The wheel pip left. Any name will do, as its digest decides.
fn find_wheel(pin: &PinnedPlugin, folder: &Path) -> Result<PathBuf, PluginError> {
    let entries = fs::read_dir(folder).map_err(Repr::cache("read folder", folder))?;
    let mut paths = entries.flatten().map(|entry| entry.path());
    paths.find(|path| path.extension().is_some_and(|ending| ending == "whl")).ok_or_else(|| {
        let output = vec![format!("(exit status 0, and no file {})", pin.wheel)];
        Repr::DownloadFailed { pin: pin.into(), failure: DownloadFailure::Other, output }.into()
    })
}

fn check_wheel(pin: &PinnedPlugin, wheel: &Path) -> Result<(), PluginError> {
    let read_failed = |error| Repr::cache("read", wheel)(error);
    let mut file = File::open(wheel).map_err(read_failed)?;
    let found = digest_while(&mut file, read_failed, |_| Ok(()))?;
    // Named without its folder, which is gone by the time anybody reads this.
    let name = wheel.file_name().map_or(wheel, Path::new);
    expect_digest(pin.wheel_sha256, found, name, DigestAdvice::FetchAgain)
}
