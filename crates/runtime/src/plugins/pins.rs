//! The table of plugins known by a short name: what was written, and what it means.

use std::collections::BTreeSet;
use std::fmt;
use std::fs::{self, File};
use std::path::{Component, Path};
use std::sync::LazyLock;

use serde::Deserialize;

use super::candidate::DeviceType;
use super::digest::{InvalidDigest, Sha256Digest, digest_while};
use super::error::{DigestAdvice, PluginError, Repr};
use super::resolve::looks_like_a_file;
use super::tags::WheelTags;

static EMBEDDED: LazyLock<PinnedPlugins> = LazyLock::new(|| {
    PinnedPlugins::parse(include_str!("../../../../third_party/plugins.toml"))
        .expect("the embedded table is fixed at build time and parsed by a test")
});

/// A table of [`PinnedPlugin`]s with distinct names, one of them the default.
#[derive(Debug, Clone)]
pub struct PinnedPlugins {
    plugins: Vec<PinnedPlugin>,
    default_idx: usize,
}

/// One plugin with everything needed to fetch it and to know that it is the right one.
///
/// Values exist only inside a [`PinnedPlugins`] table, which checks them.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PinnedPlugin {
    /// The short name users write, such as `cpu`.
    pub name: String,
    /// The kind of device it is for.
    pub device: DeviceType,
    /// The Python package that carries it.
    pub package: String,
    /// The version of that package.
    pub version: String,
    /// The machines it runs on.
    pub platform: Platform,
    /// The name of the wheel file.
    pub wheel: String,
    /// The size of the wheel, which is what a fetch downloads.
    pub wheel_bytes: u64,
    /// The digest of the wheel.
    pub wheel_sha256: Sha256Digest,
    /// The shared library's path inside the wheel.
    pub file: String,
    /// The size of the shared library.
    pub file_bytes: u64,
    /// The digest of the shared library.
    pub file_sha256: Sha256Digest,
    /// The PJRT API version it was built with: major, minor.
    pub pjrt_api: (u32, u32),
    /// Its licence, as an SPDX expression; `LicenseRef-…` names terms of its vendor's own.
    pub licence: String,
    /// What else to know about it, in a line.
    pub note: String,
}

/// An operating system and a CPU architecture, in the words of [`std::env::consts`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Platform {
    /// Such as `linux`.
    pub os: String,
    /// Such as `x86_64`.
    pub arch: String,
}

/// Why text is not a table of plugins.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PinTableError {
    /// Not TOML, or a key is missing, unknown or of the wrong type.
    #[error("plugin table: {0}")]
    Syntax(String),
    /// Two plugins have the same name.
    #[error("plugin table: two plugins are named {0}")]
    DuplicateName(String),
    /// The default is not among the plugins.
    #[error("plugin table: the default {0} is none of the plugins")]
    UnknownDefault(String),
    /// A value does not have the form it must have.
    #[error("plugin {plugin}: {key} is {found:?}, expected {expected}")]
    BadValue {
        /// The plugin's name.
        plugin: String,
        /// The key.
        key: &'static str,
        /// What was written.
        found: String,
        /// What may be written.
        expected: &'static str,
    },
    /// A digest does not have the form of one.
    #[error("plugin {plugin}")]
    Digest {
        /// The plugin's name.
        plugin: String,
        /// What was written.
        #[source]
        source: InvalidDigest,
    },
}

impl PinnedPlugins {
    /// The table this build was made with: `third_party/plugins.toml`.
    pub fn embedded() -> &'static Self {
        &EMBEDDED
    }

    /// Parse a table in the form of `third_party/plugins.toml`.
    pub fn parse(text: &str) -> Result<Self, PinTableError> {
        let raw: RawTable = toml::from_str(text)
            .map_err(|error| PinTableError::Syntax(error.to_string().trim_end().to_owned()))?;
        let plugins = raw.plugin.into_iter().map(RawPlugin::check).collect::<Result<Vec<_>, _>>()?;
        let mut names = BTreeSet::new();
        if let Some(twice) = plugins.iter().find(|plugin| !names.insert(&plugin.name)) {
            return Err(PinTableError::DuplicateName(twice.name.clone()));
        }
        match plugins.iter().position(|plugin| plugin.name == raw.default) {
            Some(default_idx) => Ok(Self { plugins, default_idx }),
            None => Err(PinTableError::UnknownDefault(raw.default)),
        }
    }

    /// The plugins in the order of the table.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &PinnedPlugin> {
        self.plugins.iter()
    }

    /// The plugin of that short name.
    pub fn get(&self, name: &str) -> Option<&PinnedPlugin> {
        self.iter().find(|plugin| plugin.name == name)
    }

    /// The plugin that is used when nothing is asked for.
    pub fn default_plugin(&self) -> &PinnedPlugin {
        &self.plugins[self.default_idx]
    }

    /// The plugin of each kind of device that is used where that device is meant: the default, and of every other kind
    /// the first in the table.
    pub(super) fn defaults(&self) -> impl Iterator<Item = &PinnedPlugin> {
        let first_of = |device: &DeviceType| self.iter().find(|plugin| plugin.device == *device);
        let default = self.default_plugin();
        self.iter().filter(move |plugin| match plugin.device == default.device {
            true => plugin.name == default.name,
            false => first_of(&plugin.device).is_some_and(|first| first.name == plugin.name),
        })
    }
}

impl PinnedPlugin {
    /// Read all of `file` and compare its digest with the pin.
    ///
    /// Finding a cached plugin compares sizes only; this is the thorough check, a fraction of a second.
    pub fn verify(&self, file: &Path) -> Result<(), PluginError> {
        let unreadable = |source| Repr::Unreadable { path: file.to_owned(), source };
        let mut opened = File::open(file).map_err(unreadable)?;
        let found = digest_while(&mut opened, unreadable, |_| Ok(()))?;
        expect_digest(self.file_sha256, found, file, DigestAdvice::RemoveCached)
    }

    /// Whether its vendor's own terms apply, instead of a licence that everybody knows.
    pub fn is_proprietary(&self) -> bool {
        self.licence.starts_with("LicenseRef-")
    }

    /// Whether `file` is there and has the pinned size.
    pub(super) fn has_size_of(&self, file: &Path) -> bool {
        fs::metadata(file).is_ok_and(|metadata| metadata.is_file() && metadata.len() == self.file_bytes)
    }

    /// What the wheel's name says of where it can be installed.
    pub(super) fn tags(&self) -> WheelTags<'_> {
        WheelTags::of(&self.wheel).expect("tables check the names of wheels")
    }

    /// The name of the shared library without its folder in the wheel.
    pub(super) fn file_name(&self) -> &str {
        self.file.rsplit('/').next().unwrap_or(&self.file)
    }
}

/// Fail when `file`, as the user can find it, does not have the pinned digest.
pub(super) fn expect_digest(
    expected: Sha256Digest,
    found: Sha256Digest,
    file: &Path,
    advice: DigestAdvice,
) -> Result<(), PluginError> {
    if found == expected {
        return Ok(());
    }
    Err(Repr::DigestMismatch { file: file.to_owned(), expected, found, advice }.into())
}

impl Platform {
    /// The machine this program was built for.
    pub fn current() -> Self {
        Self { os: std::env::consts::OS.to_owned(), arch: std::env::consts::ARCH.to_owned() }
    }
}

impl fmt::Display for Platform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.os, self.arch)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawTable {
    default: String,
    plugin: Vec<RawPlugin>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawPlugin {
    name: String,
    device: String,
    package: String,
    version: String,
    os: String,
    arch: String,
    wheel: String,
    wheel_bytes: u64,
    wheel_sha256: String,
    file: String,
    file_bytes: u64,
    file_sha256: String,
    pjrt_api: String,
    licence: String,
    note: String,
}

impl RawPlugin {
    fn check(self) -> Result<PinnedPlugin, PinTableError> {
        let check = |key, value: &str, holds: bool, expected| match holds {
            true => Ok(()),
            false => Err(PinTableError::BadValue {
                plugin: self.name.clone(),
                key,
                found: value.to_owned(),
                expected,
            }),
        };
        let short = "a word that does not read as a file";
        check("name", &self.name, is_word(&self.name) && !looks_like_a_file(self.name.as_ref()), short)?;
        // These become folder names and arguments of a command.
        let word = "letters, digits, `.`, `_` and `-`, starting with a letter or digit";
        check("device", &self.device, is_word(&self.device), word)?;
        check("package", &self.package, is_word(&self.package), word)?;
        check("version", &self.version, is_word(&self.version), word)?;
        check(
            "wheel",
            &self.wheel,
            is_word(&self.wheel) && WheelTags::of(&self.wheel).is_some(),
            "a wheel's file name, package-version-python-abi-platform.whl",
        )?;
        let inside = !self.file.is_empty()
            && Path::new(&self.file).components().all(|part| matches!(part, Component::Normal(_)));
        check("file", &self.file, inside, "a path inside the wheel")?;
        check("licence", &self.licence, !self.licence.trim().is_empty(), "an SPDX expression")?;
        let pjrt_api = parse_api(&self.pjrt_api);
        check("pjrt_api", &self.pjrt_api, pjrt_api.is_some(), "major.minor, such as 0.115")?;

        let digest = |text: &str| {
            text.parse().map_err(|source| PinTableError::Digest { plugin: self.name.clone(), source })
        };
        let (wheel_sha256, file_sha256) = (digest(&self.wheel_sha256)?, digest(&self.file_sha256)?);
        Ok(PinnedPlugin {
            name: self.name,
            device: DeviceType::new(&self.device),
            package: self.package,
            version: self.version,
            platform: Platform { os: self.os, arch: self.arch },
            wheel: self.wheel,
            wheel_bytes: self.wheel_bytes,
            wheel_sha256,
            file: self.file,
            file_bytes: self.file_bytes,
            file_sha256,
            pjrt_api: pjrt_api.unwrap_or_default(),
            licence: self.licence,
            note: self.note,
        })
    }
}

fn is_word(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphanumeric())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c))
}

fn parse_api(text: &str) -> Option<(u32, u32)> {
    let (major, minor) = text.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = include_str!("../../../../third_party/plugins.toml");

    #[test]
    fn embedded_table_parses_and_its_wheels_carry_the_pinned_version() {
        let pins = PinnedPlugins::embedded();
        assert_eq!(pins.default_plugin().name, "cpu");
        for plugin in pins.iter() {
            let stem = format!("{}-{}-", plugin.package.replace('-', "_"), plugin.version);
            assert!(plugin.wheel.starts_with(&stem), "{}", plugin.wheel);
            assert!(plugin.wheel.ends_with(&format!("{}.whl", plugin.platform.arch)), "{}", plugin.wheel);
        }
    }

    #[test]
    fn each_kind_of_device_has_one_default() {
        let names: Vec<&str> = PinnedPlugins::embedded().defaults().map(|pin| pin.name.as_str()).collect();
        assert_eq!(names, ["cpu", "libtpu"]);
    }

    #[test]
    fn terms_of_a_vendor_are_told_from_licences() {
        let proprietary = PinnedPlugins::embedded().iter().filter(|pin| pin.is_proprietary());
        assert_eq!(proprietary.map(|pin| pin.name.as_str()).collect::<Vec<_>>(), ["libtpu"]);
    }

    #[test]
    fn damaged_tables_name_the_plugin_and_the_key() {
        let check = |written: &str, instead: &str, expect: &str| {
            assert!(TABLE.contains(written), "{written}");
            let error = PinnedPlugins::parse(&TABLE.replacen(written, instead, 1)).unwrap_err();
            assert_eq!(error.to_string().lines().next().unwrap(), expect);
        };
        check(
            "default = \"cpu\"",
            "default = \"tpu\"",
            "plugin table: the default tpu is none of the plugins",
        );
        check("\"cpu-0.81\"", "\"cpu\"", "plugin table: two plugins are named cpu");
        check("wheel_bytes", "wheel_size", "plugin table: TOML parse error at line 22, column 1");
        check(
            "\"cpu-0.81\"",
            "\"cpu.so\"",
            "plugin cpu.so: name is \"cpu.so\", expected a word that does not read as a file",
        );
        check(
            "\"0.0.1\"",
            "\"--help\"",
            "plugin cpu-0.81: version is \"--help\", expected letters, digits, `.`, `_` and `-`, starting with a letter or digit",
        );
        check(
            "\"xla_plugins/",
            "\"../",
            "plugin cpu-0.81: file is \"../xla_cpu_pjrt/xla_cpu_pjrt.so\", expected a path inside the wheel",
        );
        check(
            "\"0.81\"",
            "\"81\"",
            "plugin cpu-0.81: pjrt_api is \"81\", expected major.minor, such as 0.115",
        );
        check("\"88c3", "\"x8c3", "plugin cpu-0.81");
        check(
            "-py3-none-manylinux_2_27_x86_64.whl",
            "-none.whl",
            "plugin cpu: wheel is \"lammps_jax_pjrt_cpu-0.11.2-none.whl\", expected a wheel's file name, \
             package-version-python-abi-platform.whl",
        );
    }
}
