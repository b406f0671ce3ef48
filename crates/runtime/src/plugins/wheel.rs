//! Unpacking a wheel: the plugin, and the metadata and licences that belong to it.

use std::error::Error;
use std::fs::{self, File};
use std::io::{BufReader, Read, Write};
use std::path::Path;

use zip::ZipArchive;

use super::cache::sync_folder;
use super::digest::{Sha256Digest, digest_while};
use super::error::{DigestAdvice, PluginError, Repr};
use super::pins::{PinnedPlugin, expect_digest};

/// Unpack the plugin of `wheel` into `folder`, checking its digest, and beside it the wheel's `dist-info` and the licences
/// and notices that lie with the plugin.
///
/// Everything is synced to disk but `folder` itself. `progress` hears the plugin's bytes so far.
pub(super) fn unpack(
    pin: &PinnedPlugin,
    wheel: &Path,
    folder: &Path,
    progress: &mut dyn FnMut(u64),
) -> Result<(), PluginError> {
    let broken = |source| broken_wheel(pin, &pin.file, source);
    let opened = File::open(wheel).map_err(Repr::cache("open", wheel))?;
    let mut archive = ZipArchive::new(BufReader::new(opened)).map_err(|error| broken(error.into()))?;

    let mut entry = archive.by_name(&pin.file).map_err(|error| broken(error.into()))?;
    let target = folder.join(pin.file_name());
    let found = write_synced(&mut entry, &target, &broken, progress)?;
    drop(entry);
    expect_digest(pin.file_sha256, found, Path::new(&pin.file), DigestAdvice::FetchAgain)?;
    unpack_papers(pin, &mut archive, folder)
}

fn unpack_papers(
    pin: &PinnedPlugin,
    archive: &mut ZipArchive<BufReader<File>>,
    folder: &Path,
) -> Result<(), PluginError> {
    for idx in 0..archive.len() {
        let broken = |source| broken_wheel(pin, "licences and dist-info", source);
        let mut entry = archive.by_index(idx).map_err(|error| broken(error.into()))?;
        // `enclosed_name` is `None` for paths that lead out of the folder.
        let Some(name) = entry.enclosed_name().filter(|name| entry.is_file() && is_paper(pin, name)) else {
            continue;
        };
        let target = folder.join(name);
        let parent = target.parent().unwrap_or(folder);
        fs::create_dir_all(parent).map_err(Repr::cache("create folder", parent))?;
        write_synced(&mut entry, &target, &broken, &mut |_| {})?;
        sync_folder(parent)?;
    }
    Ok(())
}

fn is_paper(pin: &PinnedPlugin, name: &Path) -> bool {
    let is_dist_info =
        name.iter().next().is_some_and(|first| first.to_string_lossy().ends_with(".dist-info"));
    let title = name.file_name().unwrap_or_default().to_string_lossy().to_ascii_uppercase();
    let is_licence = title.contains("LICENSE") || title.contains("LICENCE") || title.contains("NOTICE");
    is_dist_info || (is_licence && name.parent() == Path::new(&pin.file).parent())
}

/// Copy `entry` to the new file `target`, sync it, and return the digest of what was written.
fn write_synced(
    entry: &mut dyn Read,
    target: &Path,
    broken: &dyn Fn(Box<dyn Error + Send + Sync>) -> PluginError,
    progress: &mut dyn FnMut(u64),
) -> Result<Sha256Digest, PluginError> {
    let write_failed = |error| Repr::cache("write", target)(error);
    let mut file = File::create_new(target).map_err(write_failed)?;
    let mut written = 0;
    let digest = digest_while(
        entry,
        |error| broken(error.into()),
        |chunk| {
            file.write_all(chunk).map_err(write_failed)?;
            written += chunk.len() as u64;
            progress(written);
            Ok(())
        },
    )?;
    file.sync_all().map_err(write_failed)?;
    Ok(digest)
}

fn broken_wheel(pin: &PinnedPlugin, file: &str, source: Box<dyn Error + Send + Sync>) -> PluginError {
    Repr::BrokenWheel { wheel: pin.wheel.clone(), file: file.to_owned(), source }.into()
}
