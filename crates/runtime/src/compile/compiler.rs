//! The way of a program from its text to its devices.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use shardwright_pjrt::{
    Client, ClientOptions, CompileOptions, LoadedExecutable, Operation, SerializedExecutable, Tally,
};

use super::cache::Lookup;
use super::key::{CacheKey, Part, Source, surroundings, wants_dumps};
use super::plugin_digest::PluginDigest;
use super::protocol::{Reply, Request};
use super::{CacheMiss, ChildCompiler, CompileCache};
use crate::RuntimeError;
use crate::error::Problem;

/// How programs are compiled. By default in this process, and anew each time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CompileSetup {
    /// Where compiled programs are kept, if they are.
    pub cache: Option<CompileCache>,
    /// The program that compiles in a child process, if one does. Only on the `cpu` platform; see the
    /// [module](super).
    pub child: Option<ChildCompiler>,
}

/// How a program was made.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Compilation {
    /// What compiled it.
    pub by: CompiledBy,
    /// How long it took until it was loaded.
    pub duration: Duration,
    /// Why it was not in the cache; `None` if it was, or was not looked for there.
    pub miss: Option<CacheMiss>,
}

/// What compiled a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CompiledBy {
    /// An earlier compilation, whose result was kept.
    Cache,
    /// A child process.
    Child,
    /// This process.
    Process,
}

/// Compiles for one client.
pub(crate) struct Compiler {
    client: Client,
    client_options: ClientOptions,
    setup: CompileSetup,
    /// What all keys of this client have in common; `None` if that cannot be known.
    surroundings: OnceLock<Option<Vec<Part>>>,
    has_warned: AtomicBool,
}

/// What [`Compiler::build`] gives.
struct Built {
    loaded: LoadedExecutable,
    by: CompiledBy,
    serialized: Option<SerializedExecutable>,
}

impl Compiler {
    pub(crate) fn new(client: Client, client_options: ClientOptions, setup: CompileSetup) -> Compiler {
        let (surroundings, has_warned) = (OnceLock::new(), AtomicBool::new(false));
        Compiler { client, client_options, setup, surroundings, has_warned }
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    pub(crate) fn setup(&self) -> &CompileSetup {
        &self.setup
    }

    pub(crate) fn compile(
        &self,
        source: &Source<'_>,
        options: &CompileOptions,
    ) -> Result<(LoadedExecutable, Compilation), RuntimeError> {
        let start = Instant::now();
        let place = self.cache_and_key(source, options);
        let place = place.as_ref().map(|(cache, key)| (*cache, key));
        let (kept, miss) = place.map_or((None, None), |(cache, key)| self.look_up(cache, key, source.name));
        let built = match kept {
            Some(loaded) => Built { loaded, by: CompiledBy::Cache, serialized: None },
            None => self.build(source, options)?,
        };
        if let (Some((cache, key)), Some(executable)) = (place, &built.serialized) {
            self.keep(cache, key, source.name, executable);
        }
        let (by, duration) = (built.by, start.elapsed());
        let why = miss.as_ref().map(ToString::to_string).unwrap_or_default();
        tracing::info!(program = source.name, ?by, ?duration, why, "compiled");
        Ok((built.loaded, Compilation { by, duration, miss }))
    }

    /// The program as it was kept, or why it is not.
    fn look_up(
        &self,
        cache: &CompileCache,
        key: &CacheKey,
        name: &str,
    ) -> (Option<LoadedExecutable>, Option<CacheMiss>) {
        match cache.get(key, name) {
            Err(error) => {
                let folder = cache.folder().display();
                self.say_once(&format!("compiled programs in {folder} are not used: {error}"));
                (None, None)
            }
            Ok(Lookup::Miss(miss)) => {
                self.client.counters().add(Tally::CacheMiss, 1);
                (None, Some(miss))
            }
            Ok(Lookup::Hit(executable)) => match self.client.load(&executable) {
                Ok(loaded) => {
                    self.client.counters().add(Tally::CacheHit, 1);
                    (Some(loaded), None)
                }
                Err(error) => {
                    cache.put_aside(key, name, &error);
                    (None, None)
                }
            },
        }
    }

    fn build(&self, source: &Source<'_>, options: &CompileOptions) -> Result<Built, RuntimeError> {
        if let Some(built) = self.build_in_child(source, options)? {
            return Ok(built);
        }
        let loaded = self.client.compile(source.code, source.format, options)?;
        let serialized = self.setup.cache.as_ref().filter(|cache| !cache.is_read_only()).and_then(|_| {
            loaded
                .executable()
                .serialize()
                .inspect_err(|error| self.say_once(&format!("programs are not kept: {error}")))
                .ok()
        });
        Ok(Built { loaded, by: CompiledBy::Process, serialized })
    }

    /// `None` where there is no child, or it cannot hand over what it compiles.
    fn build_in_child(
        &self,
        source: &Source<'_>,
        options: &CompileOptions,
    ) -> Result<Option<Built>, RuntimeError> {
        let Some(child) = self.setup.child.as_ref().filter(|_| self.client.platform_name() == "cpu") else {
            return Ok(None);
        };
        let request = Request {
            plugin: self.client.plugin().path().to_owned(),
            client_options: self.client_options.clone(),
            format: source.format,
            options: options.clone(),
            memory_limit: None,
        };
        let timer = self.client.counters().time(Operation::Compile, 0);
        let reply = child.compile(source.name, request, source.code);
        drop(timer);
        let error = match reply.map_err(|death| Problem::CompilerDied(Box::new(death)))? {
            Reply::Refused(error) => return Err(error.into()),
            Reply::NotSerialized(error) => error,
            Reply::Executable(serialized) => match self.client.load(&serialized) {
                Ok(loaded) => {
                    return Ok(Some(Built { loaded, by: CompiledBy::Child, serialized: Some(serialized) }));
                }
                Err(error) => error,
            },
        };
        self.say_once(&format!(
            "programs are compiled in this process, as no other can hand them over: {error}"
        ));
        Ok(None)
    }

    fn keep(&self, cache: &CompileCache, key: &CacheKey, name: &str, executable: &SerializedExecutable) {
        if let Err(error) = cache.put(key, name, executable) {
            let folder = cache.folder().display();
            self.say_once(&format!("compiled programs are not kept in {folder}: {error}"));
        }
    }

    /// `None` where no cache is wanted, or the key cannot be known.
    fn cache_and_key(
        &self,
        source: &Source<'_>,
        options: &CompileOptions,
    ) -> Option<(&CompileCache, CacheKey)> {
        let cache = self.setup.cache.as_ref().filter(|_| !wants_dumps(options))?;
        let surroundings = self.surroundings.get_or_init(|| {
            let plugin = self.client.plugin().path();
            PluginDigest::of(plugin, cache)
                .map(|digest| surroundings(&self.client, &digest))
                .inspect_err(|error| {
                    let plugin = plugin.display();
                    self.say_once(&format!(
                        "compiled programs are not kept: {plugin} cannot be read: {error}"
                    ));
                })
                .ok()
        });
        Some((cache, CacheKey::new(source, options, surroundings.as_ref()?)))
    }

    /// What is true of all programs is told for the first of them.
    fn say_once(&self, message: &str) {
        match self.has_warned.swap(true, Ordering::Relaxed) {
            false => tracing::warn!("{message}"),
            true => tracing::debug!("{message}"),
        }
    }
}
