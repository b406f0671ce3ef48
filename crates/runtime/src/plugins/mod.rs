//! Find the PJRT plugin to use, and fetch it when it is one we know by name.
//!
//! A plugin is a shared library that exports `GetPjrtApi`. This module ends at its path; loading it
//! is the `pjrt` crate's.
//!
//! # Which plugin
//!
//! The first rule that applies wins, and [`ResolvedPlugin::origin`] says which one did:
//!
//! 1. what the caller asks for ([`PluginRequest::plugin`], the command line's `--plugin`);
//! 2. the environment variable `SHARDWRIGHT_PLUGIN`, when it is not empty;
//! 3. the table's default, `cpu`.
//!
//! Rules 1 and 2 take a file or a short name. Text is a **file** when it contains a path separator,
//! starts with `~` or is named like a shared library (`.so`, `.so.1`, `.dylib`, `.dll`); anything else is
//! a **short name** from `third_party/plugins.toml`. So `cpu` is always the pinned plugin, and a file of
//! that name is `./cpu`. A leading `~/` is the home folder; relative files start at the current folder.
//! A rule that applies and fails is an error, never a reason to try the next.
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
//!             └── lammps_jax_pjrt_cpu-0.11.2.dist-info   licences and metadata
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
mod digest;
mod environment;
mod error;
mod fetch;
mod list;
mod pins;
mod pip;
mod resolve;
mod wheel;

pub(crate) use digest::digest_while;
pub use digest::{InvalidDigest, Sha256Digest};
pub use environment::Environment;
pub use error::{DownloadFailure, PluginError, PluginErrorKind};
pub use fetch::FetchEvent;
pub use list::{PluginState, PluginStatus, list};
pub use pins::{PinTableError, PinnedPlugin, PinnedPlugins, Platform};
pub use resolve::{Network, Origin, PluginRequest, ResolvedPlugin, resolve};
