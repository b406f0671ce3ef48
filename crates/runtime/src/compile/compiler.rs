//! The way of a program from its text to its devices.

use std::fmt::{self, Display};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use shardwright_pjrt::{
    Client, ClientOptions, CompileOptions, Error, ErrorKind, LoadedExecutable, Operation,
    SerializedExecutable, StatusCode, Tally,
};

use super::key::{CacheKey, Part, Source, surroundings, wants_dumps};
use super::plugin_digest::PluginFile;
use super::protocol::{Reply, Request};
use super::{CacheMiss, ChildCompiler, CompileCache};
use crate::RuntimeError;
use crate::error::Problem;
use crate::flags::EnvironmentFlags;

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

/// What the compiler of this process was made of when it was loaded. Another process that compiles, and the digest of
/// the plugin's file, stand for it only as long as this is what is there.
pub(crate) struct LoadedFrom {
    pub(crate) plugin: PluginFile,
    pub(crate) flags: EnvironmentFlags,
}

/// Compiles for one client.
pub(crate) struct Compiler {
    client: Client,
    client_options: ClientOptions,
    loaded_from: LoadedFrom,
    setup: CompileSetup,
    /// What all keys of this client have in common; `None` if that cannot be known.
    surroundings: OnceLock<Option<Vec<Part>>>,
    /// The [`Limitation`]s that were told, as bits.
    told: AtomicU8,
}

/// What is true of all programs, and told for the first of them.
#[derive(Clone, Copy)]
enum Limitation {
    FolderRefused,
    NotWritten,
    NotSerialized,
    NoKey,
    NotInChild,
    Replaced,
}

/// What [`Compiler::build`] gives.
struct Built {
    loaded: LoadedExecutable,
    by: CompiledBy,
    serialized: Option<SerializedExecutable>,
}

impl LoadedFrom {
    fn is_still_there(&self) -> bool {
        self.plugin.is_unchanged() && self.flags.are_unchanged()
    }
}

impl Compiler {
    pub(crate) fn new(
        client: Client,
        client_options: ClientOptions,
        loaded_from: LoadedFrom,
        setup: CompileSetup,
    ) -> Compiler {
        let (surroundings, told) = (OnceLock::new(), AtomicU8::new(0));
        Compiler { client, client_options, loaded_from, setup, surroundings, told }
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    pub(crate) fn compile(
        &self,
        source: &Source<'_>,
        options: &CompileOptions,
    ) -> Result<(LoadedExecutable, Compilation), RuntimeError> {
        let start = Instant::now();
        let place = self.cache_and_key(source, options);
        let cache = place.as_ref().map(|(cache, _)| *cache);
        let kept = place.as_ref().map(|(cache, key)| self.look_up(cache, key, source));
        let (built, miss) = match kept {
            Some(Ok(loaded)) => (Built { loaded, by: CompiledBy::Cache, serialized: None }, None),
            Some(Err(miss)) => (self.build(source, options, cache)?, Some(miss)),
            None => (self.build(source, options, cache)?, None),
        };
        if let (Some((cache, key)), Some(executable)) = (&place, &built.serialized) {
            self.keep(cache, key, source, executable);
        }
        let compilation = Compilation { by: built.by, duration: start.elapsed(), miss };
        tracing::info!("program {} was {compilation}", source.name);
        Ok((built.loaded, compilation))
    }

    /// The program as it was kept, or why it is not.
    fn look_up(
        &self,
        cache: &CompileCache,
        key: &CacheKey,
        source: &Source<'_>,
    ) -> Result<LoadedExecutable, CacheMiss> {
        let loaded = cache
            .check_folder()
            .map_err(|error| {
                let folder = cache.folder().display();
                let why = format!("compiled programs in {folder} are not used: {error}");
                self.tell_once(Limitation::FolderRefused, &why);
                CacheMiss::Refused(error.to_string())
            })
            .and_then(|()| cache.get(key, source))
            .and_then(|executable| {
                self.client.load(&executable).map_err(|error| match is_about_the_bytes(&error) {
                    true => cache.put_aside(key, source.name, &error),
                    false => cache.pass_over(key, source.name, &error),
                })
            });
        let tally = if loaded.is_ok() { Tally::CacheHit } else { Tally::CacheMiss };
        self.client.counters().add(tally, 1);
        loaded
    }

    /// `cache` is where the program will be kept, if it is.
    fn build(
        &self,
        source: &Source<'_>,
        options: &CompileOptions,
        cache: Option<&CompileCache>,
    ) -> Result<Built, RuntimeError> {
        if let Some(built) = self.build_in_child(source, options)? {
            return Ok(built);
        }
        let loaded = self.client.compile(source.code, source.format, options)?;
        let takes = |cache: &&CompileCache| !cache.is_read_only() && self.is_as_loaded();
        let serialized = cache.filter(takes).and_then(|_| {
            let told = |error: &Error| {
                self.tell_once(Limitation::NotSerialized, &format!("programs are not kept: {error}"));
            };
            loaded.executable().serialize().inspect_err(told).ok()
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
        if !self.is_as_loaded() {
            return Ok(None);
        }
        let request = Request {
            plugin: self.client.plugin().path().to_owned(),
            client_options: self.client_options.clone(),
            format: source.format,
            options: options.clone(),
            memory_limit: child.memory_limit(),
        };
        let timer = self.client.counters().time(Operation::Compile, 0);
        let reply = child.compile(source.name, &request, source.code);
        drop(timer);
        // What it loaded is known only if it was there from before its start until after its end.
        if !self.is_as_loaded() {
            return Ok(None);
        }
        let error = match reply.map_err(|death| Problem::CompilerDied(Box::new(death)))? {
            Reply::Refused(error) => {
                return Err(Problem::refused_in_child(error, child.memory_limit()).into());
            }
            Reply::NotSerialized(error) => error,
            Reply::Executable(serialized) => match self.client.load(&serialized) {
                Ok(loaded) => {
                    return Ok(Some(Built { loaded, by: CompiledBy::Child, serialized: Some(serialized) }));
                }
                Err(error) => error,
            },
        };
        let why = format!("programs are compiled in this process, as no other can hand them over: {error}");
        self.tell_once(Limitation::NotInChild, &why);
        Ok(None)
    }

    /// Whether the plugin's file and the flags of the environment are still those of this process.
    fn is_as_loaded(&self) -> bool {
        let is_there = self.loaded_from.is_still_there();
        if !is_there {
            let plugin = self.client.plugin().path().display();
            let why = format!(
                "{plugin} or a file of flags was replaced since it was loaded: programs are compiled in this process, \
                 and not kept"
            );
            self.tell_once(Limitation::Replaced, &why);
        }
        is_there
    }

    fn keep(
        &self,
        cache: &CompileCache,
        key: &CacheKey,
        source: &Source<'_>,
        executable: &SerializedExecutable,
    ) {
        if let Err(error) = cache.put(key, source, executable) {
            let folder = cache.folder().display();
            let why = format!("compiled programs are not kept in {folder}: {error}");
            self.tell_once(Limitation::NotWritten, &why);
        }
    }

    /// `None` where no cache is wanted, or the key cannot be known.
    fn cache_and_key(
        &self,
        source: &Source<'_>,
        options: &CompileOptions,
    ) -> Option<(&CompileCache, CacheKey)> {
        let LoadedFrom { plugin, flags } = &self.loaded_from;
        let cache = self.setup.cache.as_ref().filter(|_| !wants_dumps(options, flags))?;
        let surroundings = self.surroundings.get_or_init(|| {
            let told = |error: &std::io::Error| {
                let path = self.client.plugin().path().display();
                let why = format!("compiled programs are not kept: the plugin {path} has no digest: {error}");
                self.tell_once(Limitation::NoKey, &why);
            };
            let digest = plugin.digest(cache).inspect_err(told).ok()?;
            Some(surroundings(&self.client, &digest, flags))
        });
        Some((cache, CacheKey::new(source, options, surroundings.as_ref()?)))
    }

    /// What is true of all programs is told for the first of them.
    fn tell_once(&self, limitation: Limitation, message: &str) {
        let bit = 1 << limitation as u8;
        match self.told.fetch_or(bit, Ordering::Relaxed) & bit {
            0 => tracing::warn!("{message}"),
            _ => tracing::debug!("{message}"),
        }
    }
}

/// Whether a plugin that does not load an executable finds fault with its bytes, and not with what it needs besides.
fn is_about_the_bytes(error: &Error) -> bool {
    use StatusCode::{DataLoss, Internal, InvalidArgument};
    let of_bytes = [DataLoss, Internal, InvalidArgument];
    of_bytes.into_iter().any(|code| error.kind() == ErrorKind::Status(code))
}

/// Such as `compiled in a child process in 1.24 s: nothing like it was kept`.
impl Display for Compilation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.by {
            CompiledBy::Cache => "kept, and loaded",
            CompiledBy::Child => "compiled in a child process",
            CompiledBy::Process => "compiled in this process",
        })?;
        write!(f, " in {:.2} s", self.duration.as_secs_f64())?;
        self.miss.as_ref().map_or(Ok(()), |miss| write!(f, ": {miss}"))
    }
}
