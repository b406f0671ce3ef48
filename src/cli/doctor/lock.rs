//! Who holds the lock with which the TPU's library keeps its chips to one process.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The library's lock file. It lies in this folder whatever `TMPDIR` says.
pub(super) fn lock_file() -> PathBuf {
    Path::new("/tmp").join("libtpu_lockfile")
}

/// A process that holds the lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Holder {
    pub(super) pid: u32,
    /// The name of its program, where that can be read.
    pub(super) name: Option<String>,
}

/// The process that holds a lock on `file`, if there is one. `proc` is `/proc`, but in tests.
pub(super) fn holder(file: &Path, proc: &Path) -> Option<Holder> {
    let inode = fs::metadata(file).ok()?.ino();
    let pid = pid_of_lock(&fs::read_to_string(proc.join("locks")).ok()?, inode)?;
    let name = fs::read_to_string(proc.join(pid.to_string()).join("comm")).ok();
    Some(Holder { pid, name: name.map(|name| name.trim().to_owned()) })
}

/// The process of a lock on this inode in a list of the kernel's, which has lines such as
/// `3: POSIX  ADVISORY  WRITE 31243 fe:00:10027161 0 EOF`, and with an arrow after the number those that wait.
fn pid_of_lock(locks: &str, inode: u64) -> Option<u32> {
    locks.lines().find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [_, kind, _, _, pid, place, ..] = words.as_slice() else { return None };
        let is_here = place.rsplit(':').next()?.parse() == Ok(inode);
        (*kind != "->" && is_here).then(|| pid.parse().ok()).flatten()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_holder_of_a_lock_is_found_by_the_inode_of_its_file() {
        let locks = "\
            1: FLOCK  ADVISORY  WRITE 23793 fe:00:106 0 EOF\n\
            2: POSIX  ADVISORY  WRITE 31243 fe:00:101 0 EOF\n\
            2: -> POSIX  ADVISORY  WRITE 31244 fe:00:102 0 EOF\n";
        assert_eq!(pid_of_lock(locks, 101), Some(31243));
        assert_eq!(pid_of_lock(locks, 102), None);
        assert_eq!(pid_of_lock(locks, 6), None);
        assert_eq!(pid_of_lock("", 101), None);

        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::write(path("lock"), "").unwrap();
        assert_eq!(holder(&path("lock"), folder.path()), None);
        let inode = fs::metadata(path("lock")).unwrap().ino();
        fs::write(path("locks"), format!("1: POSIX ADVISORY WRITE 7 00:01:{inode} 0 EOF\n")).unwrap();
        assert_eq!(holder(&path("lock"), folder.path()), Some(Holder { pid: 7, name: None }));
        fs::create_dir(path("7")).unwrap();
        fs::write(path("7/comm"), "python3\n").unwrap();
        let name = Some("python3".to_owned());
        assert_eq!(holder(&path("lock"), folder.path()), Some(Holder { pid: 7, name }));
        assert_eq!(holder(&path("none"), folder.path()), None);
    }
}
