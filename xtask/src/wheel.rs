//! Files out of pinned Python wheels, fetched by the package manager that every machine has.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use sha2::{Digest, Sha256};
use zip::ZipArchive;

/// Downloads the wheel `requirement` (`NAME==VERSION`) and copies the one file in it whose path ends in
/// `suffix`, and whose digest has to be this one, into `folder`.
pub(crate) fn fetch_file(requirement: &str, suffix: &str, sha256: &str, folder: &Path) -> Result<PathBuf> {
    let downloads = tempfile::tempdir()?;
    let status = Command::new("python3")
        .args(["-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", "--dest"])
        .arg(downloads.path())
        .arg(requirement)
        .status()
        .context("python3 could not be started")?;
    ensure!(status.success(), "pip could not download {requirement}: {status}");

    let wheel = fs::read_dir(downloads.path())?.next().context("pip left no file")??.path();
    let mut archive = ZipArchive::new(File::open(&wheel)?)?;
    let name = archive
        .file_names()
        .find_map(|name| Some(name.ok().filter(|name| name.ends_with(suffix))?.into_owned()))
        .with_context(|| format!("{requirement} holds no {suffix}"))?;
    let target = folder.join(Path::new(&name).file_name().context("the entry is a folder")?);
    let mut bytes = Vec::new();
    archive.by_name(&name)?.read_to_end(&mut bytes)?;
    let digest: String = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    ensure!(digest == sha256, "{suffix} of {requirement}: sha256 is {digest}, not {sha256}");
    fs::write(&target, bytes)?;
    Ok(target)
}
