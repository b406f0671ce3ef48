use std::error::Error as _;
use std::ffi::CStr;
use std::fmt;
use std::fs::File;
use std::mem::{ManuallyDrop, offset_of};
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::{Mutex, PoisonError};

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use shardwright_pjrt_sys::{self as sys, Struct};

use crate::api::Api;
use crate::elf::{Elf, Machine};
use crate::error::{Error, ErrorKind, if_implemented};
use crate::extension::Extension;
use crate::named_value::{self, Attributes};

const ENTRY_POINT: &CStr = c"GetPjrtApi";

/// A PJRT plugin: a shared library with a compiler and a runtime for some kind of device.
///
/// A plugin is initialized once and stays loaded until the process ends, because plugins start threads and
/// install handlers that do not survive unloading. Clones are cheap and are the same plugin.
#[derive(Clone)]
pub struct Plugin(Api);

/// The plugins of this process. What they are is a fact about the process, hence the global.
static LOADED: Mutex<Vec<Plugin>> = Mutex::new(Vec::new());

impl Plugin {
    /// Loads and initializes the plugin at `path`; a plugin that is loaded already is returned as it is.
    ///
    /// The file's symbols stay private to it, so that several plugins, each with its own copy of XLA, can live
    /// in one process. Loading runs the library's own code, here and in all that follows: the path decides what this
    /// process trusts.
    pub fn load(path: &Path) -> Result<Plugin, Error> {
        let path = resolve(path)?;
        // SAFETY: start-up code of a library can do anything, and the caller chose to run it.
        let library = unsafe { Library::open(Some(&path), RTLD_NOW | RTLD_LOCAL) };
        let library = library.map_err(|error| loader_error(&path, &in_loaders_words(&error)))?;
        // Never unloaded, not even when it turns out to be no plugin: it may have started threads.
        let library = ManuallyDrop::new(library);

        type GetPjrtApi = unsafe extern "C" fn() -> *mut sys::PJRT_Api;
        // SAFETY: a symbol of this name is, by the definition of a PJRT plugin, a function of this type.
        let entry = unsafe { library.get::<GetPjrtApi>(ENTRY_POINT) }.map_err(|error| {
            Error::new(ErrorKind::NoEntryPoint, path.display().to_string(), in_loaders_words(&error))
        })?;
        // SAFETY: the function takes nothing and may be called at any time.
        let table = unsafe { entry() };
        // SAFETY: the table is the plugin's own, and the plugin is never unloaded.
        unsafe { Plugin::from_table(&path, table) }
    }

    /// # Safety
    ///
    /// `table` is null or a plugin's function table, valid for ever.
    pub(crate) unsafe fn from_table(path: &Path, table: *mut sys::PJRT_Api) -> Result<Plugin, Error> {
        let error = |kind, message: String| Error::new(kind, path.display().to_string(), message);
        let table = NonNull::new(table)
            .ok_or_else(|| error(ErrorKind::NoApi, "GetPjrtApi returned null".to_owned()))?;

        // SAFETY: the size comes first in every version of the table.
        let size = unsafe { (&raw const (*table.as_ptr()).struct_size).read() };
        if size < offset_of!(sys::PJRT_Api, PJRT_Error_Destroy) {
            let message = format!("it has {size} bytes, too few to state a version");
            return Err(error(ErrorKind::TruncatedTable, message));
        }
        // SAFETY: the table is a plugin's and, as just checked, states its version.
        let api = unsafe { Api::new(table, for_ever(path)) };
        let (major, minor) = api.version();
        let ours = sys::PJRT_API_MAJOR as i32;
        if major != ours {
            let message = format!(
                "its PJRT API is {major}.{minor}, this program's is {ours}.{}; a plugin with API {ours}.x is needed",
                sys::PJRT_API_MINOR
            );
            return Err(error(ErrorKind::IncompatibleApi, message));
        }

        // Held during initialization, so that a second thread neither repeats nor overtakes it. No code panics
        // in here that could leave the list half-changed.
        let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(plugin) = loaded.iter().find(|plugin| plugin.api().table() == api.table()) {
            return Ok(plugin.clone());
        }
        // SAFETY: the struct holds no pointer but the null one for extensions.
        unsafe { api.call(sys::PJRT_Plugin_Initialize_Args::new())? };
        let plugin = Plugin(api);
        loaded.push(plugin.clone());
        Ok(plugin)
    }

    /// The file, with symbolic links resolved.
    pub fn path(&self) -> &Path {
        self.0.file()
    }

    /// Major and minor version of the PJRT API that the plugin was built with.
    pub fn api_version(&self) -> (i32, i32) {
        self.0.version()
    }

    /// What the plugin says of itself, such as `stablehlo_current_version`; nothing if it has no such function.
    pub fn attributes(&self) -> Result<Attributes, Error> {
        // SAFETY: the struct holds no pointer but the null one for extensions.
        let result = unsafe { self.0.call(sys::PJRT_Plugin_Attributes_Args::new()) };
        let Some(args) = if_implemented(result)? else { return Ok(Attributes::new()) };
        // SAFETY: the attributes live as long as the process.
        Ok(unsafe { named_value::from_raw(args.attributes, args.num_attributes) })
    }

    /// What tells this version of the plugin from others, in one line: the version of its API, the size of its file, and
    /// what it says of itself.
    pub(crate) fn build(&self) -> String {
        let (major, minor) = self.api_version();
        let size = self.path().metadata().map_or(0, |file| file.len());
        let mut build = format!("PJRT API {major}.{minor}, {size} bytes");
        for (name, value) in self.attributes().unwrap_or_default() {
            build += &format!(", {name} {value}");
        }
        build.replace('\n', " ")
    }

    /// The extensions of the API that the plugin offers, in its order.
    pub fn extensions(&self) -> Vec<Extension> {
        // SAFETY: the list holds extensions with all fields that every extension has.
        let number = |extension: NonNull<sys::PJRT_Extension_Base>| unsafe { extension.read() }.type_;
        self.0.extensions().into_iter().map(|extension| Extension::from_number(number(extension))).collect()
    }

    /// Fails with [`ErrorKind::MissingExtension`] if the plugin does not offer the extension.
    pub fn require_extension(&self, extension: Extension) -> Result<(), Error> {
        self.0.extension(extension, 0).map(drop)
    }

    /// The functions of the API that this library is built upon and the plugin does not have, in the order of
    /// the API. An older plugin lacks the last ones.
    pub fn missing_functions(&self) -> Vec<&'static str> {
        self.0.missing_functions()
    }

    pub(crate) fn api(&self) -> Api {
        self.0
    }
}

/// The path, kept as long as the plugin that it names: until the process ends.
fn for_ever(path: &Path) -> &'static Path {
    static PATHS: Mutex<Vec<&'static Path>> = Mutex::new(Vec::new());
    let mut paths = PATHS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = paths.iter().find(|known| **known == path) {
        return known;
    }
    let kept: &'static Path = Box::leak(path.into());
    paths.push(kept);
    kept
}

impl fmt::Debug for Plugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (major, minor) = self.api_version();
        write!(f, "Plugin({}, PJRT API {major}.{minor})", self.path().display())
    }
}

/// The path without symbolic links, of a file that can be a library of this machine.
///
/// The loader says "no such file" of a library for another processor, of what it cannot read at all little more, and
/// a file that ends early ends the process with it. So the file is looked at first.
fn resolve(path: &Path) -> Result<PathBuf, Error> {
    let error = |kind, message: &str| Error::new(kind, path.display().to_string(), message);
    let io_error = |e: std::io::Error| {
        let kind = match e.kind() {
            std::io::ErrorKind::NotFound => ErrorKind::PluginNotFound,
            _ => ErrorKind::LoaderRefused,
        };
        error(kind, &e.to_string())
    };
    let resolved = path.canonicalize().map_err(io_error)?;
    if resolved.is_dir() {
        return Err(error(ErrorKind::PluginIsFolder, "the path of the library in it is needed"));
    }
    if !resolved.is_file() {
        return Err(error(ErrorKind::NotALibrary, "it is no ordinary file"));
    }
    if cfg!(target_os = "linux") {
        let mut file = File::open(&resolved).map_err(io_error)?;
        let Some(elf) = Elf::read(&mut file).map_err(io_error)? else {
            return Err(error(ErrorKind::NotALibrary, "the file does not begin as ELF files do"));
        };
        if let Some(ours) = Machine::current().filter(|ours| *ours != elf.machine) {
            let message = format!("the file is for {}, this program for {ours}", elf.machine);
            return Err(error(ErrorKind::OtherArchitecture, &message));
        }
        let size = file.metadata().map_err(io_error)?.len();
        if size < elf.mapped {
            let message = format!(
                "the file has {size} bytes and needs {} or more; it was copied or fetched in part",
                elf.mapped
            );
            return Err(error(ErrorKind::TruncatedLibrary, &message));
        }
    }
    Ok(resolved)
}

/// The loader's complaint, told apart by whether it is about the plugin or about a library that the plugin needs.
///
/// The plugin itself was found and looked at, so a file that cannot be opened is another one.
fn loader_error(path: &Path, reason: &str) -> Error {
    let dependency = ["cannot open shared object file", "Library not loaded"];
    let path = path.display().to_string();
    match dependency.iter().any(|words| reason.contains(words)) {
        true => {
            let message = format!("{reason} (install it, or put its folder into LD_LIBRARY_PATH)");
            Error::new(ErrorKind::MissingDependency, path, message)
        }
        false => Error::new(ErrorKind::LoaderRefused, path, reason),
    }
}

fn in_loaders_words(error: &libloading::Error) -> String {
    error.source().map_or_else(|| error.to_string(), |source| source.to_string())
}
