//! Which plugin it is, by the digest of its file, which is taken once for each state of the file.

use std::fmt;
use std::fs::{self, File, Metadata};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::CompileCache;
use super::private::{self, PrivateFile};
use crate::plugins::{Sha256Digest, digest_while};

/// The digest of a plugin's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PluginDigest(Sha256Digest);

impl PluginDigest {
    /// Reads the file, or only the note that is kept in the cache's folder of an earlier reading.
    ///
    /// Plugins have hundreds of megabytes. The note is found by all that changes when a file is written: its device
    /// and inode, its size, and its times to the nanosecond.
    pub(crate) fn of(plugin: &Path, cache: &CompileCache) -> io::Result<PluginDigest> {
        let mut file = File::open(plugin)?;
        let name = format!("plugin-{}", state(&file.metadata()?));
        if let Some(noted) = read_note(&cache.folder().join(&name)) {
            return Ok(PluginDigest(noted));
        }
        let digest = digest_while(&mut file, |e| e, |_| Ok(()))?;
        // Without the note the next start reads the file again.
        let noted = if cache.is_read_only() { Ok(()) } else { write_note(cache.folder(), &name, digest) };
        if let Err(error) = noted {
            tracing::debug!(note = name, %error, "the plugin's digest is not kept");
        }
        Ok(PluginDigest(digest))
    }
}

impl fmt::Display for PluginDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

fn state(file: &Metadata) -> String {
    let (dev, ino, size) = (file.dev(), file.ino(), file.size());
    let (written, changed) = ((file.mtime(), file.mtime_nsec()), (file.ctime(), file.ctime_nsec()));
    format!("{dev:x}-{ino:x}-{size:x}-{:x}.{:x}-{:x}.{:x}", written.0, written.1, changed.0, changed.1)
}

fn read_note(path: &Path) -> Option<Sha256Digest> {
    let file = PrivateFile::open(path).ok()?;
    String::from_utf8(file.read(128).ok()?).ok()?.parse().ok()
}

fn write_note(folder: &Path, name: &str, digest: Sha256Digest) -> io::Result<()> {
    private::create_folder(folder)?;
    private::write_atomic(folder, name, |file| file.write_all(digest.to_string().as_bytes()))?;
    // Notes of files that are no longer there are worth nothing, and hardly take space.
    for entry in fs::read_dir(folder)?.flatten().filter(|e| is_old_note(e, name)) {
        let _ = fs::remove_file(entry.path());
    }
    Ok(())
}

/// A note about the same inode in another state.
fn is_old_note(entry: &fs::DirEntry, new: &str) -> bool {
    let inode = |name: &str| name.splitn(4, '-').take(3).collect::<Vec<_>>().join("-");
    entry.file_name().to_str().is_some_and(|name| name != new && inode(name) == inode(new))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_read_once_for_each_of_its_states() {
        let folder = tempfile::tempdir().unwrap();
        let (plugin, notes) = (folder.path().join("plugin.so"), folder.path().join("notes"));
        let cache = CompileCache::new(&notes);
        fs::write(&plugin, "one").unwrap();
        let one = PluginDigest::of(&plugin, &cache).unwrap();
        let note = fs::read_dir(&notes).unwrap().next().unwrap().unwrap().path();
        assert_eq!(fs::read_to_string(&note).unwrap(), one.to_string());

        // What the note says is believed.
        let other = "0".repeat(64);
        fs::write(&note, &other).unwrap();
        assert_eq!(PluginDigest::of(&plugin, &cache).unwrap().to_string(), other);
        // A note that is none is not.
        fs::write(&note, "0000").unwrap();
        assert_eq!(PluginDigest::of(&plugin, &cache).unwrap(), one);

        fs::write(&plugin, "another").unwrap();
        assert_ne!(PluginDigest::of(&plugin, &cache).unwrap(), one);
        assert_eq!(fs::read_dir(&notes).unwrap().count(), 1, "the old note is gone");
    }
}
