//! Which plugin it is, by the digest of its file, which is taken once for each state of the file.

use std::fs::{self, File, Metadata};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::CompileCache;
use super::private::{self, PrivateFile};
use crate::plugins::{Sha256Digest, digest_while};

/// A plugin's file, as it was when it was loaded.
///
/// Packages are upgraded while programs run. What was loaded then is no longer what the path leads to, and neither the
/// file's digest nor a child that loads it says anything about the plugin of this process.
#[derive(Clone, Debug)]
pub(crate) struct PluginFile {
    path: PathBuf,
    /// Nothing where it could not be read.
    identity: Option<String>,
}

impl PluginFile {
    /// The file as it is now, to be called before it is loaded. A link may lead elsewhere later, and does not count.
    pub(crate) fn now(path: &Path) -> PluginFile {
        let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        PluginFile { identity: fs::metadata(&path).ok().map(|file| identity(&file)), path }
    }

    /// Whether the path still leads to what was loaded from it.
    pub(super) fn is_unchanged(&self) -> bool {
        self.identity.is_some() && PluginFile::now(&self.path).identity == self.identity
    }

    /// Reads the file, or only the note that is kept in the cache's folder of an earlier reading.
    ///
    /// Plugins have hundreds of megabytes. The note is found by all that changes when a file is written: its device
    /// and inode, its size, and its times to the nanosecond.
    ///
    /// # Errors
    /// When the file cannot be read, or is no longer the one that was loaded.
    pub(super) fn digest(&self, cache: &CompileCache) -> io::Result<Sha256Digest> {
        let replaced = || io::Error::other("it was replaced since it was loaded");
        if !self.is_unchanged() {
            return Err(replaced());
        }
        let mut file = File::open(&self.path)?;
        let name = note_name(&file.metadata()?);
        if let Some(noted) = read_note(&cache.folder().join(&name)) {
            return Ok(noted);
        }
        let digest = digest_while(&mut file, |e| e, |_| Ok(()))?;
        if !self.is_unchanged() {
            return Err(replaced());
        }
        // Without the note the next start reads the file again.
        let noted = if cache.is_read_only() { Ok(()) } else { write_note(cache.folder(), &name, digest) };
        if let Err(error) = noted {
            tracing::debug!(note = name, %error, "the plugin's digest is not kept");
        }
        Ok(digest)
    }
}

/// What is another for another file, or one that was written since.
fn identity(file: &Metadata) -> String {
    let (dev, ino, size) = (file.dev(), file.ino(), file.size());
    format!("{dev:x}-{ino:x}-{size:x}-{:x}.{:x}", file.mtime(), file.mtime_nsec())
}

/// With the time of the last change of any kind too, which also comes with a new link and cannot be set back.
fn note_name(file: &Metadata) -> String {
    format!("plugin-{}-{:x}.{:x}", identity(file), file.ctime(), file.ctime_nsec())
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
        let digest = || PluginFile::now(&plugin).digest(&cache).unwrap();
        fs::write(&plugin, "one").unwrap();
        let one = digest();
        let note = fs::read_dir(&notes).unwrap().next().unwrap().unwrap().path();
        assert_eq!(fs::read_to_string(&note).unwrap(), one.to_string());

        // What the note says is believed.
        let other = "0".repeat(64);
        fs::write(&note, &other).unwrap();
        assert_eq!(digest().to_string(), other);
        // A note that is none is not.
        fs::write(&note, "0000").unwrap();
        assert_eq!(digest(), one);

        fs::write(&plugin, "another").unwrap();
        assert_ne!(digest(), one);
        assert_eq!(fs::read_dir(&notes).unwrap().count(), 1, "the old note is gone");
    }

    #[test]
    fn a_file_that_is_not_the_loaded_one_any_more_has_no_digest() {
        let folder = tempfile::tempdir().unwrap();
        let (plugin, cache) =
            (folder.path().join("plugin.so"), CompileCache::new(folder.path().join("notes")));
        fs::write(&plugin, "one").unwrap();
        let loaded = PluginFile::now(&plugin);
        fs::hard_link(&plugin, folder.path().join("link")).unwrap();
        assert!(loaded.is_unchanged(), "a link to it changes nothing of it");
        // An upgrade puts another file in its place, here even of the same size.
        fs::write(folder.path().join("new"), "two").unwrap();
        fs::rename(folder.path().join("new"), &plugin).unwrap();
        assert!(!loaded.is_unchanged());
        let error = loaded.digest(&cache).unwrap_err();
        assert_eq!(error.to_string(), "it was replaced since it was loaded");
        fs::remove_file(&plugin).unwrap();
        assert!(!loaded.is_unchanged());
        assert!(!PluginFile::now(&plugin).is_unchanged(), "what was never there was not loaded");
    }
}
