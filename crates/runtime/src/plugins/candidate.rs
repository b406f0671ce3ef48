//! A plugin that might be used: where it lies, what for, and the rule that names it.

use std::ffi::OsStr;
use std::fmt;
use std::path::{Path, PathBuf};

use super::pins::PinnedPlugin;
use super::resolve::carrier;

/// A kind of device in the words of `PJRT_DEVICE`: `CPU`, `TPU`, `CUDA`. Its case does not matter, and `GPU` is `CUDA`,
/// as in the names of libraries.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct DeviceType(String);

/// What library names say of the devices that they are for.
const WORDS: [(&str, &str); 8] = [
    ("tpu", "tpu"),
    ("cuda", "cuda"),
    ("rocm", "rocm"),
    ("gpu", "cuda"),
    ("neuron", "neuron"),
    ("metal", "metal"),
    ("xpu", "xpu"),
    ("cpu", "cpu"),
];

impl DeviceType {
    pub(super) fn new(text: &str) -> Self {
        let text = text.trim().to_ascii_lowercase();
        Self(if text == "gpu" { "cuda".to_owned() } else { text })
    }

    pub(super) fn tpu() -> Self {
        Self("tpu".to_owned())
    }

    /// Whether it is one that libraries are named for, so that nobody who writes it means another.
    pub(super) fn is_well_known(&self) -> bool {
        WORDS.iter().any(|(_, device)| *device == self.0)
    }

    /// Whether it is the TPU.
    pub fn is_tpu(&self) -> bool {
        *self == Self::tpu()
    }

    /// What a library of this name, or in a folder of this name, is for, as far as the names tell.
    pub(super) fn of_library(path: &Path) -> Option<Self> {
        let folder = path.parent().and_then(Path::file_name);
        [path.file_name(), folder].into_iter().flatten().find_map(|name| {
            let name = name.to_string_lossy().to_ascii_lowercase();
            WORDS.iter().find(|(word, _)| name.contains(word)).map(|(_, device)| Self::new(device))
        })
    }
}

impl fmt::Display for DeviceType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.to_ascii_uppercase())
    }
}

/// The rule that names a plugin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Origin {
    /// The caller asks for it.
    Request,
    /// The environment variable `SHARDWRIGHT_PLUGIN` names it.
    Variable,
    /// `TPU_LIBRARY_PATH` names it.
    TpuLibraryPath,
    /// `PJRT_NAMES_AND_LIBRARY_PATHS` names it.
    NamesAndPaths,
    /// `PJRT_PLUGIN_LIBRARY_PATH` names it, or its folder.
    PluginLibraryPath,
    /// It is part of an installed Python package.
    Installed,
    /// Nothing else was found, so it is the pinned plugin for the device.
    Default,
}

/// A plugin that might be used.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Candidate {
    /// The pinned plugin's short name, else the file's name.
    pub name: String,
    /// The rule that names it.
    pub origin: Origin,
    /// The kind of device it is for, as far as that can be told without loading it.
    pub device: Option<DeviceType>,
    /// The shared library; `None` for a pinned plugin that is not on this machine yet.
    pub path: Option<PathBuf>,
    /// Its pin, when it is the pinned one: asked for by its short name, or of the pinned size.
    pub pinned: Option<PinnedPlugin>,
    /// The installed package that it belongs to, with its version, such as `libtpu 0.0.52`.
    pub package: Option<String>,
    /// How its file was written, and where, for errors; `None` where it was found.
    pub(super) written: Option<String>,
}

impl Candidate {
    /// A file that `origin` names.
    pub(super) fn file(path: PathBuf, origin: Origin) -> Self {
        let name = path.file_name().unwrap_or(OsStr::new("")).to_string_lossy().into_owned();
        let device = DeviceType::of_library(&path);
        Self { name, origin, device, path: Some(path), pinned: None, package: None, written: None }
    }

    /// A plugin of the table, in this file if it is on this machine.
    pub(super) fn pinned(pin: &PinnedPlugin, path: Option<PathBuf>, origin: Origin) -> Self {
        Self {
            name: pin.name.clone(),
            origin,
            device: Some(pin.device.clone()),
            path,
            pinned: Some(pin.clone()),
            package: None,
            written: None,
        }
    }

    /// Its file, or where there is none yet the one that is fetched, as its wheel has it: the name says whether it is the
    /// TPU's, for [`check_before_loading`](super::check_before_loading).
    pub fn library(&self) -> &Path {
        let fetched = self.pinned.as_ref().map_or("", |pin| pin.file.as_str());
        self.path.as_deref().unwrap_or(Path::new(fetched))
    }

    /// Whether it is for this kind of device. A library whose name says nothing else is for the device that its name
    /// contains.
    pub(super) fn is_for(&self, device: &DeviceType) -> bool {
        match &self.device {
            Some(own) => own == device,
            None => self.name.to_ascii_lowercase().contains(&device.0),
        }
    }
}

impl Origin {
    /// What to do about a plugin that this rule names and that is not to be had.
    pub(super) fn advice(self) -> &'static str {
        match self {
            Self::Request => "pass --plugin",
            Self::Variable => "set SHARDWRIGHT_PLUGIN",
            Self::TpuLibraryPath => "correct or unset TPU_LIBRARY_PATH, or pass --plugin",
            Self::NamesAndPaths => "correct or unset PJRT_NAMES_AND_LIBRARY_PATHS, or pass --plugin",
            Self::PluginLibraryPath => "correct or unset PJRT_PLUGIN_LIBRARY_PATH, or pass --plugin",
            Self::Installed => "install the package anew, or pass --plugin",
            Self::Default => "fetch it anew, or pass --plugin",
        }
    }
}

/// Where it lies, and in brackets what it is and which rule names it.
impl fmt::Display for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.path {
            Some(path) => write!(f, "{}", path.display())?,
            None => write!(f, "{}, not fetched yet", self.name)?,
        }
        write!(f, " ({}{})", carrier(&self.pinned, &self.package), self.origin)
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Request => "by --plugin",
            Self::Variable => "by SHARDWRIGHT_PLUGIN",
            Self::TpuLibraryPath => "by TPU_LIBRARY_PATH",
            Self::NamesAndPaths => "by PJRT_NAMES_AND_LIBRARY_PATHS",
            Self::PluginLibraryPath => "by PJRT_PLUGIN_LIBRARY_PATH",
            Self::Installed => "as an installed Python package",
            Self::Default => "by default",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn library_names_tell_the_device() {
        let check = |path: &str, expect: Option<&str>| {
            let device = DeviceType::of_library(Path::new(path)).map(|device| device.to_string());
            assert_eq!(device.as_deref(), expect, "{path}");
        };
        check("libtpu/libtpu.so", Some("TPU"));
        check("jax_plugins/xla_cuda12/xla_cuda_plugin.so", Some("CUDA"));
        check("jax_plugins/xla_rocm7/pjrt_plugin.so", Some("ROCM"));
        check("lib/pjrt_c_api_gpu_plugin.so", Some("CUDA"));
        check("/usr/lib/pjrt_c_api_cpu_plugin.so", Some("CPU"));
        check("libneuronxla/libneuronpjrt.so", Some("NEURON"));
        check("/opt/vendor/libvendor.so", None);
        check("plain.so", None);
    }
}
