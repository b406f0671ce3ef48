//! Find the PJRT plugin to use, and fetch it when it is one we know by name.
//!
//! A plugin is a shared library that exports `GetPjrtApi`. This module ends at its path; loading it
//! is the `pjrt` crate's.
//!
//! # Which plugin
//!
//! The first rule that applies wins, and [`ResolvedPlugin::origin`] says which one did; [`discover`] also tells which
//! others there are, and why they are not used:
//!
//! 1. what the caller asks for ([`PluginRequest::plugin`], the command line's `--plugin`);
//! 2. `SHARDWRIGHT_PLUGIN`;
//! 3. `TPU_LIBRARY_PATH`, the file of the TPU's plugin;
//! 4. `PJRT_NAMES_AND_LIBRARY_PATHS`, a list `name:path,name:path` in which a name is a kind of device, as for JAX; a path
//!    that ends in `.json` is a file with the text `library_path` in it;
//! 5. `PJRT_PLUGIN_LIBRARY_PATH`, files, or folders whose libraries are named as plugins are, with colons between them;
//! 6. installed Python packages, found without running Python, see below;
//! 7. the pinned plugin for the device, from the cache or fetched into it.
//!
//! Rules 1 and 2 take a file or a short name. Text is a **file** when it contains a path separator,
//! starts with `~` or is named like a shared library (`.so`, `.so.1`, `.dylib`, `.dll`); anything else is
//! a **short name** from `third_party/plugins.toml`. So `cpu` is always the pinned plugin, and a file of
//! that name is `./cpu`. A leading `~/` is the home folder; relative files start at the current folder.
//! A rule that applies and fails is an error, never a reason to try the next. Variables that are empty count as not set.
//!
//! # Which device
//!
//! Rules 3 to 7 may name plugins for several kinds of device. `PJRT_DEVICE` (`CPU`, `TPU`, `GPU` for CUDA's, or a name of
//! rule 4) chooses among them; without it
//!
//! - the TPU's plugins are used where the machine has a TPU (`/dev/accel0` and on, or a TPU in `/dev/vfio`), and there they
//!   are preferred to the CPU's packages and pin;
//! - what a variable names is used, for it was set to be used;
//! - of installed packages for other devices none is used.
//!
//! So a laptop on which the TPU's library is installed runs on its CPU and never loads that library, and a TPU VM runs on
//! its TPU, with nothing set on either. [`check_before_loading`] refuses to load the TPU's library where that would hang.
//!
//! # Installed packages
//!
//! They are looked for in the `site-packages` of `VIRTUAL_ENV`, of `CONDA_PREFIX`, of this user, of `SHARDWRIGHT_PYTHON` and
//! of each Python in `PATH`; `pyvenv.cfg` tells whether a virtual environment uses another Python's packages too. What counts
//! is `libtpu/libtpu.so` of any version, the library of the CPU's pinned default in its pinned version, and the libraries in
//! `jax_plugins` that are for other devices than these.
//!
//! # Where fetched plugins lie
//!
//! ```text
//! $SHARDWRIGHT_CACHE_DIR, else $XDG_CACHE_HOME/shardwright, else $HOME/.cache/shardwright
//! └── plugins
//!     └── lammps-jax-pjrt-cpu-0.11.2          package and version
//!         ├── lock                            held by the process that is fetching
//!         ├── staging-3fA9xQ                  a fetch under way, or what a killed one left
//!         └── ad1309ac822b1b24                the plugin, named by its file's digest
//!             ├── pjrt_c_api_cpu_plugin.so
//!             └── lammps_jax_pjrt_cpu-0.11.2.dist-info   metadata; licences lie here or in the plugin's folder of the wheel
//! ```
//!
//! A plugin is downloaded, checked, unpacked and synced to disk inside the staging folder; one rename
//! makes it visible. A process killed at any moment therefore leaves a whole plugin or none, and the
//! next fetch removes the remains. Using a cached plugin takes no lock, writes nothing and compares
//! only the file's size with the pin; [`PinnedPlugin::verify`] reads it all.
//!
//! The download itself is `python3 -m pip download` in a child process, so the user's own package index,
//! proxy and certificates apply and no host is named here. Nothing is printed: a fetch reports
//! [`FetchEvent`]s.
//!
//! ```
//! use shardwright_runtime::plugins::{Environment, PinnedPlugins, PluginErrorKind, PluginRequest, resolve};
//!
//! let request = PluginRequest { plugin: Some("cpuu".into()), ..PluginRequest::default() };
//! let error = resolve(&request, PinnedPlugins::embedded(), &Environment::default(), &mut |_| {}).unwrap_err();
//! assert_eq!(error.kind(), PluginErrorKind::UnknownName);
//! assert!(error.to_string().contains("did you mean cpu?"));
//! ```

mod cache;
mod candidate;
mod digest;
mod discover;
mod environment;
mod error;
mod fetch;
mod installed;
mod list;
mod pins;
mod pip;
mod resolve;
mod site_packages;
mod tags;
mod tpu;
mod variables;
mod wheel;

pub use candidate::{Candidate, DeviceType, Origin};
pub(crate) use digest::digest_while;
pub use digest::{InvalidDigest, Sha256Digest};
pub use discover::{Discovery, Other, WhyNot, discover};
pub use environment::Environment;
pub use error::{DownloadFailure, PluginError, PluginErrorKind};
pub use fetch::FetchEvent;
pub use list::{PluginState, PluginStatus, list};
pub use pins::{PinTableError, PinnedPlugin, PinnedPlugins, Platform};
pub use resolve::{Network, PluginRequest, ResolvedPlugin, resolve};
pub use tpu::check_before_loading;
