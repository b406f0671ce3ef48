//! The files of a cache, and which of them go.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::private::UNFINISHED;

/// The ending of entries.
pub(super) const ENTRY: &str = "executable";
/// The ending of entries that were put aside.
pub(super) const DAMAGED: &str = "damaged";

/// Nobody writes for as long as that: it is what a killed process left.
const ABANDONED: Duration = Duration::from_secs(60 * 60);

/// A folder's files.
#[derive(Debug, Default)]
pub(super) struct Files(Vec<CachedFile>);

#[derive(Debug)]
pub(super) struct CachedFile {
    pub(super) path: PathBuf,
    pub(super) size: u64,
    used: SystemTime,
}

impl Files {
    /// What is in the folder; nothing, where there is none.
    pub(super) fn list(folder: &Path) -> io::Result<Files> {
        let entries = match fs::read_dir(folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Files::default()),
            entries => entries?,
        };
        let file = |entry: fs::DirEntry| {
            // A file that another process has just removed is no file.
            let metadata = entry.metadata().ok().filter(fs::Metadata::is_file)?;
            let used = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            Some(CachedFile { path: entry.path(), size: metadata.len(), used })
        };
        let mut files: Vec<CachedFile> = entries.flatten().filter_map(file).collect();
        files.sort_by(|a, b| (a.used, &a.path).cmp(&(b.used, &b.path)));
        Ok(Files(files))
    }

    /// The files with this ending, those that were not used for longest first.
    pub(super) fn with_ending(&self, ending: &str) -> impl DoubleEndedIterator<Item = &CachedFile> {
        self.0.iter().filter(move |file| file.path.extension().is_some_and(|found| found == ending))
    }

    /// Entries and what was put aside of them: what goes when room is needed, in this order.
    pub(super) fn all(&self) -> impl Iterator<Item = &CachedFile> {
        self.with_ending(DAMAGED).chain(self.with_ending(ENTRY))
    }

    /// Removes what was abandoned, and then files until `limit` bytes are left: damaged ones first, and never `kept`.
    pub(super) fn make_room(&self, limit: u64, kept: &Path) {
        let is_abandoned = |file: &&CachedFile| {
            let name = file.path.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with(UNFINISHED) && file.used.elapsed().is_ok_and(|age| age > ABANDONED)
        };
        self.0.iter().filter(is_abandoned).for_each(CachedFile::remove);

        let mut bytes: u64 = self.all().map(|file| file.size).sum();
        for file in self.all().filter(|file| file.path != kept) {
            if bytes <= limit {
                return;
            }
            bytes -= file.size;
            file.remove();
        }
    }
}

impl CachedFile {
    /// Another process may have removed it first, and what stays costs space and nothing else.
    fn remove(&self) {
        if let Err(error) = fs::remove_file(&self.path) {
            tracing::debug!(file = %self.path.display(), %error, "cannot be removed");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    #[test]
    fn damaged_files_go_first_then_those_that_were_not_used_for_longest() {
        let folder = tempfile::tempdir().unwrap();
        let now = SystemTime::now();
        // Each with its age in seconds, and of ten bytes.
        for (name, age) in [
            ("a.executable", 30),
            ("b.executable", 20),
            ("c.executable", 10),
            ("d.damaged", 5),
            ("plugin-1-2", 9999),
            (".unfinished-old", 9999),
            (".unfinished-new", 1),
        ] {
            fs::write(folder.path().join(name), [0; 10]).unwrap();
            let file = File::options().write(true).open(folder.path().join(name)).unwrap();
            file.set_modified(now - Duration::from_secs(age)).unwrap();
        }
        let left = |limit| {
            Files::list(folder.path()).unwrap().make_room(limit, &folder.path().join("a.executable"));
            let names = fs::read_dir(folder.path()).unwrap();
            let mut names: Vec<_> =
                names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
            names.sort();
            names.join(" ")
        };
        assert_eq!(left(40), ".unfinished-new a.executable b.executable c.executable d.damaged plugin-1-2");
        assert_eq!(left(30), ".unfinished-new a.executable b.executable c.executable plugin-1-2");
        assert_eq!(left(29), ".unfinished-new a.executable c.executable plugin-1-2");
        assert_eq!(left(0), ".unfinished-new a.executable plugin-1-2", "what was just written stays");
    }
}
