//! Whether this machine has a TPU, and what has to hold before the TPU plugin is loaded.

use std::fs;
use std::path::{Path, PathBuf};

use super::environment::{Environment, non_empty};
use super::error::{PluginError, Repr};

/// The PCI vendor of TPUs, as sysfs writes it.
const VENDOR: &str = "0x1ae0";

/// The device files of TPUs below `root`, which is `/` but in tests: `dev/accel0` and on, and the groups in `dev/vfio`
/// whose devices are of the vendor of TPUs.
///
/// `dev/accel/accel0`, in a folder, is another matter: the accelerators of laptops are there. Any device can be in a
/// group of `dev/vfio`, so sysfs is asked whose it is; where sysfs is hidden, as in some containers, the group counts.
pub(super) fn device_files(root: &Path) -> Vec<PathBuf> {
    let mut files = numbered(&root.join("dev"), "accel");
    let groups = numbered(&root.join("dev/vfio"), "");
    files.extend(groups.into_iter().filter(|group| !is_of_another_vendor(root, group)));
    files.sort();
    files
}

/// The entries of `folder` that are `prefix` and a number, and no folders.
fn numbered(folder: &Path, prefix: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let is_numbered = |entry: &fs::DirEntry| {
        let name = entry.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix(prefix));
        number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
    };
    entries.filter(is_numbered).map(|entry| entry.path()).filter(|path| !path.is_dir()).collect()
}

fn is_of_another_vendor(root: &Path, group: &Path) -> bool {
    let Some(number) = group.file_name() else { return false };
    let devices = root.join("sys/kernel/iommu_groups").join(number).join("devices");
    let entries = fs::read_dir(devices).into_iter().flatten().flatten();
    let vendors: Vec<String> =
        entries.filter_map(|entry| fs::read_to_string(entry.path().join("vendor")).ok()).collect();
    !vendors.is_empty() && vendors.iter().all(|vendor| vendor.trim() != VENDOR)
}

/// Fails when loading the plugin in this file would hang: it is the TPU plugin, and there is no TPU.
///
/// While it is initialized, the TPU plugin asks the metadata service of its cloud what the machine is, again and again
/// for minutes, unless `TPU_SKIP_MDS_QUERY` is set. A process cannot safely set its own variables once it has threads,
/// so whoever starts it has to.
///
/// # Errors
/// [`PluginErrorKind::NoTpu`](super::PluginErrorKind::NoTpu), which says what to set.
pub fn check_before_loading(plugin: &Path, environment: &Environment) -> Result<(), PluginError> {
    let can_load =
        !environment.tpu_devices.is_empty() || non_empty(&environment.tpu_skip_mds_query).is_some();
    if can_load || !is_tpu_library(plugin) {
        return Ok(());
    }
    Err(Repr::NoTpu { path: plugin.to_owned() }.into())
}

/// Whether the file, or the one that it is a link to, has the TPU plugin's name, which all its releases have.
fn is_tpu_library(plugin: &Path) -> bool {
    let has_its_name = |path: &Path| {
        path.file_name().is_some_and(|name| {
            let name = name.to_string_lossy();
            name.starts_with("libtpu") && name.contains(".so")
        })
    };
    has_its_name(plugin) || plugin.canonicalize().is_ok_and(|path| has_its_name(&path))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `text` is the files of a machine, each with what it holds after `=`; of those below `dev`, which are TPUs?
    #[track_caller]
    fn check(text: &str, expect: &[&str]) {
        let root = tempfile::tempdir().unwrap();
        for word in text.split_whitespace() {
            let (path, content) = word.split_once('=').unwrap_or((word, ""));
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        let expect: Vec<PathBuf> = expect.iter().map(|file| root.path().join(file)).collect();
        assert_eq!(device_files(root.path()), expect, "{text}");
    }

    #[test]
    fn tpus_are_numbered_device_files() {
        check("", &[]);
        check("dev/null dev/kvm dev/accel dev/vfio/vfio", &[]);
        check("dev/accel1 dev/accel0 dev/accelerate", &["dev/accel0", "dev/accel1"]);
        // The accelerator of a laptop.
        check("dev/accel/accel0", &[]);
        // A container that hides sysfs.
        check("dev/vfio/vfio dev/vfio/0", &["dev/vfio/0"]);
    }

    #[test]
    fn a_group_of_vfio_counts_when_sysfs_says_no_other_vendor() {
        let group = "sys/kernel/iommu_groups/7/devices";
        check(&format!("dev/vfio/7 {group}/0000:00:05.0/vendor=0x1ae0"), &["dev/vfio/7"]);
        check(&format!("dev/vfio/7 {group}/0000:01:00.0/vendor=0x10de"), &[]);
        check(&format!("dev/vfio/7 {group}/a/vendor=0x8086 {group}/b/vendor=0x1ae0"), &["dev/vfio/7"]);
    }
}
