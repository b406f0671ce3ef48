//! The part of the process environment that decides about plugins, as a value.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::tpu;

/// What decides, beside the caller, which plugin is used, where it is kept and what fetches it: variables of the
/// environment, and whether the machine has a TPU.
///
/// Nothing else here reads the environment, so a caller (or a test) can set any of them. A variable that
/// is set but empty counts as not set.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Environment {
    /// `SHARDWRIGHT_PLUGIN`: a file or a short name, used when the caller asks for nothing.
    pub plugin: Option<OsString>,
    /// `SHARDWRIGHT_CACHE_DIR`: the folder that holds `plugins`, in place of the two below.
    pub cache_dir: Option<OsString>,
    /// `XDG_CACHE_HOME`: its `shardwright` is the cache folder. Ignored when not absolute, as its specification asks.
    pub xdg_cache_home: Option<OsString>,
    /// `HOME`: what `~` stands for; its `.cache/shardwright` is the cache folder.
    pub home: Option<OsString>,
    /// `SHARDWRIGHT_PYTHON`: the Python whose pip downloads plugins, `python3` when not set.
    pub python: Option<OsString>,
    /// `PJRT_DEVICE`: the kind of device to use, such as `CPU` or `TPU`, in any case.
    pub pjrt_device: Option<OsString>,
    /// `TPU_LIBRARY_PATH`: the file of the TPU plugin.
    pub tpu_library_path: Option<OsString>,
    /// `PJRT_NAMES_AND_LIBRARY_PATHS`: plugins by the kind of their device, as `name:path,name:path`.
    pub pjrt_names_and_library_paths: Option<OsString>,
    /// `PJRT_PLUGIN_LIBRARY_PATH`: plugins, or folders of them, separated by colons.
    pub pjrt_plugin_library_path: Option<OsString>,
    /// `TPU_SKIP_MDS_QUERY`: when set, the TPU plugin asks no metadata service, and can be loaded where no TPU is.
    pub tpu_skip_mds_query: Option<OsString>,
    /// `VIRTUAL_ENV`: the active virtual environment of Python.
    pub virtual_env: Option<OsString>,
    /// `CONDA_PREFIX`: the active environment of conda.
    pub conda_prefix: Option<OsString>,
    /// `PYTHONUSERBASE`: where Python keeps packages of this user, `~/.local` when not set.
    pub python_user_base: Option<OsString>,
    /// `PATH`: where installed Pythons are looked for.
    pub path: Option<OsString>,
    /// The device files of this machine's TPUs, such as `/dev/accel0`; empty where there is none.
    pub tpu_devices: Vec<PathBuf>,
}

impl Environment {
    /// What this process was started with, and the TPUs that this machine has.
    pub fn from_process() -> Self {
        Self {
            plugin: std::env::var_os("SHARDWRIGHT_PLUGIN"),
            cache_dir: std::env::var_os("SHARDWRIGHT_CACHE_DIR"),
            xdg_cache_home: std::env::var_os("XDG_CACHE_HOME"),
            home: std::env::var_os("HOME"),
            python: std::env::var_os("SHARDWRIGHT_PYTHON"),
            pjrt_device: std::env::var_os("PJRT_DEVICE"),
            tpu_library_path: std::env::var_os("TPU_LIBRARY_PATH"),
            pjrt_names_and_library_paths: std::env::var_os("PJRT_NAMES_AND_LIBRARY_PATHS"),
            pjrt_plugin_library_path: std::env::var_os("PJRT_PLUGIN_LIBRARY_PATH"),
            tpu_skip_mds_query: std::env::var_os("TPU_SKIP_MDS_QUERY"),
            virtual_env: std::env::var_os("VIRTUAL_ENV"),
            conda_prefix: std::env::var_os("CONDA_PREFIX"),
            python_user_base: std::env::var_os("PYTHONUSERBASE"),
            path: std::env::var_os("PATH"),
            tpu_devices: tpu::device_files(Path::new("/")),
        }
    }

    pub(super) fn plugin(&self) -> Option<&OsString> {
        non_empty(&self.plugin)
    }

    /// The cache folder by the rules above; `None` when no variable gives one. It need not exist.
    pub fn cache_folder(&self) -> Option<PathBuf> {
        if let Some(folder) = non_empty(&self.cache_dir) {
            return Some(absolute(self.expand_home(Path::new(folder))?));
        }
        let xdg = non_empty(&self.xdg_cache_home).map(PathBuf::from).filter(|folder| folder.is_absolute());
        let folder = xdg.or_else(|| Some(absolute(self.home()?.join(".cache"))))?;
        Some(folder.join("shardwright"))
    }

    /// `path` with a leading `~` replaced; `None` when that needs a home folder and there is none.
    ///
    /// `~name` stands for another user's home folder in a shell; here it is a file of that name.
    pub(crate) fn expand_home(&self, path: &Path) -> Option<PathBuf> {
        match path.strip_prefix("~") {
            Ok(rest) if rest.as_os_str().is_empty() => self.home(),
            Ok(rest) => Some(self.home()?.join(rest)),
            Err(_) => Some(path.to_owned()),
        }
    }

    /// The Python whose pip downloads plugins. A relative path is made absolute, since the child runs in another folder.
    pub fn python(&self) -> PathBuf {
        let Some(python) = non_empty(&self.python) else {
            return PathBuf::from("python3");
        };
        let path = self.expand_home(Path::new(python)).unwrap_or_else(|| PathBuf::from(python));
        if path.components().count() > 1 { absolute(path) } else { path }
    }

    pub(super) fn home(&self) -> Option<PathBuf> {
        non_empty(&self.home).map(PathBuf::from)
    }
}

/// `path` seen from the current folder, or as it is when there is no current folder.
pub(super) fn absolute(path: PathBuf) -> PathBuf {
    std::path::absolute(&path).unwrap_or(path)
}

pub(super) fn non_empty(variable: &Option<OsString>) -> Option<&OsString> {
    variable.as_ref().filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `text` is variables as `NAME=value` words.
    fn environment(text: &str) -> Environment {
        let value = |name: &str| {
            text.split(' ').find_map(|word| word.strip_prefix(name)?.strip_prefix('=')).map(OsString::from)
        };
        Environment {
            plugin: value("PLUGIN"),
            cache_dir: value("CACHE"),
            xdg_cache_home: value("XDG"),
            home: value("HOME"),
            python: value("PYTHON"),
            ..Environment::default()
        }
    }

    #[test]
    fn cache_folder_follows_the_documented_order() {
        let here = std::env::current_dir().unwrap();
        let check = |text: &str, expect: Option<&str>| {
            let expect = expect.map(|folder| here.join(folder));
            assert_eq!(environment(text).cache_folder(), expect, "{text}");
        };
        check("CACHE=/c XDG=/x HOME=/h", Some("/c"));
        check("CACHE= XDG=/x HOME=/h", Some("/x/shardwright"));
        check("XDG=x HOME=/h", Some("/h/.cache/shardwright"));
        check("XDG= HOME=/h", Some("/h/.cache/shardwright"));
        check("CACHE=c HOME=/h", Some("c"));
        check("CACHE=~/c HOME=/h", Some("/h/c"));
        check("CACHE=~/c", None);
        check("HOME=", None);
    }

    #[test]
    fn python_is_a_command_or_an_absolute_path() {
        let here = std::env::current_dir().unwrap();
        assert_eq!(environment("PYTHON=").python(), Path::new("python3"));
        assert_eq!(environment("PYTHON=python3.13").python(), Path::new("python3.13"));
        assert_eq!(environment("PYTHON=venv/bin/python").python(), here.join("venv/bin/python"));
        assert_eq!(environment("PYTHON=~/venv/bin/python HOME=/h").python(), Path::new("/h/venv/bin/python"));
    }
}
