//! The one way into a plugin: calls, owned objects, and what comes back through pointers.

use std::ffi::c_char;
use std::mem::MaybeUninit;
use std::path::Path;
use std::ptr::NonNull;

use shardwright_pjrt_sys::{self as sys, Args, Struct};

use crate::error::{Error, ErrorKind, StatusCode};
use crate::extension::Extension;

/// The function table of a loaded plugin.
///
/// It is kept as a pointer and never copied or borrowed: the plugin's table may be shorter or longer than the
/// type. It stays valid because plugins are never unloaded.
#[derive(Clone, Copy)]
pub(crate) struct Api {
    table: NonNull<sys::PJRT_Api>,
    /// The plugin's file, for errors.
    file: &'static Path,
}

// SAFETY: plugins fill the table before they hand it out and do not change it afterwards, and PJRT's functions
// may be called from any thread.
unsafe impl Send for Api {}
// SAFETY: as for `Send`.
unsafe impl Sync for Api {}

/// Arguments with room behind them. A plugin that was built with a later header must look at the struct's size before it
/// fills in a field that ours lacks; some do not.
#[repr(C)]
struct Roomy<A> {
    args: A,
    _room: MaybeUninit<[u64; 64]>,
}

impl Api {
    /// # Safety
    ///
    /// `table` points to a plugin's function table, which holds its size and version and is valid for ever.
    pub(crate) unsafe fn new(table: NonNull<sys::PJRT_Api>, file: &'static Path) -> Api {
        Api { table, file }
    }

    pub(crate) fn table(self) -> *mut sys::PJRT_Api {
        self.table.as_ptr()
    }

    pub(crate) fn file(self) -> &'static Path {
        self.file
    }

    /// Major and minor version of the API that the plugin was built with.
    pub(crate) fn version(self) -> (i32, i32) {
        // SAFETY: the table is valid and holds its version, by the contract of `new`.
        let version = unsafe { (&raw const (*self.table()).pjrt_api_version).read() };
        (version.major_version, version.minor_version)
    }

    /// Calls the function that takes `args` and returns them as the plugin left them.
    ///
    /// # Safety
    ///
    /// Each pointer in `args` is what the function's description asks for: null where that is allowed, or valid
    /// for as long as the function says, and of this plugin where it points to one of its objects.
    pub(crate) unsafe fn call<A: Args>(self, args: A) -> Result<A, Error> {
        // SAFETY: the table is valid by the contract of `new`.
        let Some(function) = (unsafe { A::function(self.table()) }) else {
            return Err(self.missing(A::FUNCTION, A::OFFSET));
        };
        // SAFETY: the function is this plugin's, and the caller vouches for the fields.
        unsafe { self.call_function(A::FUNCTION, function, args) }
    }

    /// Calls a function that is not in the table but in an extension, and returns the arguments as the plugin left them.
    ///
    /// # Safety
    ///
    /// As for [`Api::call`]; the function is this plugin's.
    pub(crate) unsafe fn call_function<A: Struct>(
        self,
        name: &str,
        function: unsafe extern "C" fn(*mut A) -> *mut sys::PJRT_Error,
        args: A,
    ) -> Result<A, Error> {
        let mut roomy = Roomy { args, _room: MaybeUninit::uninit() };
        // SAFETY: the function is this plugin's, the arguments come first in a live local, and the caller vouches for
        // their fields.
        let error = unsafe { function((&raw mut roomy).cast()) };
        match NonNull::new(error) {
            None => Ok(roomy.args),
            // SAFETY: the function has just passed ownership of the error.
            Some(error) => Err(unsafe { self.take_error(name, error) }),
        }
    }

    /// Whether the function at this offset lies inside the plugin's table.
    fn reaches(self, offset: usize) -> bool {
        // SAFETY: the table is valid and holds its size, by the contract of `new`.
        let size = unsafe { (&raw const (*self.table()).struct_size).read() };
        offset + size_of::<usize>() <= size
    }

    /// Why there is no function of this name and offset.
    fn missing(self, function: &str, offset: usize) -> Error {
        let (kind, how) = match self.reaches(offset) {
            true => (ErrorKind::NullFunction, "leaves its place in the table null"),
            false => (ErrorKind::MissingFunction, "has a table that ends before it"),
        };
        Error::new(kind, function, format!("{} {how}", self.described()))
    }

    /// The plugin as messages name it: its file, its version and ours.
    fn described(self) -> String {
        let (major, minor) = self.version();
        let (our_major, our_minor) = (sys::PJRT_API_MAJOR, sys::PJRT_API_MINOR);
        let file = self.file.display();
        format!("{file}, whose PJRT API is {major}.{minor} (this program's is {our_major}.{our_minor}),")
    }

    /// The functions of this program's version of the API that the plugin does not have.
    pub(crate) fn missing_functions(self) -> Vec<&'static str> {
        let is_missing = |&&(_, offset): &&(&str, usize)| {
            // SAFETY: the table is valid by the contract of `new`, and the place is read only if it is part of it.
            !self.reaches(offset)
                || unsafe { self.table().byte_add(offset).cast::<*const ()>().read() }.is_null()
        };
        sys::FUNCTIONS.iter().filter(is_missing).map(|&(name, _)| name).collect()
    }

    /// The extensions that the plugin offers, in its order.
    pub(crate) fn extensions(self) -> Vec<NonNull<sys::PJRT_Extension_Base>> {
        // More than there are types of extensions; a list that bites its own tail has to end somewhere.
        const MOST: usize = 256;
        let mut found = Vec::new();
        // SAFETY: the table is valid and holds the start of the list, by the contract of `new`.
        let mut next = unsafe { (&raw const (*self.table()).extension_start).read() };
        while let Some(extension) = NonNull::new(next).filter(|_| found.len() < MOST) {
            // SAFETY: what a plugin lists lives as long as its table, and begins with its size.
            let size = unsafe { (&raw const (*extension.as_ptr()).struct_size).read() };
            if size < sys::PJRT_Extension_Base::STRUCT_SIZE {
                break;
            }
            found.push(extension);
            // SAFETY: the size says that the fields that all extensions have are there.
            next = unsafe { (&raw const (*extension.as_ptr()).next).read() };
        }
        found
    }

    /// The extension of this type, in a version with at least `size` bytes.
    ///
    /// It lives as long as the process. What lies behind its first fields, the type says.
    pub(crate) fn extension(
        self,
        wanted: Extension,
        size: usize,
    ) -> Result<NonNull<sys::PJRT_Extension_Base>, Error> {
        let error = |how: String| {
            let message = format!("{} {how}", self.described());
            Error::new(ErrorKind::MissingExtension, wanted.to_string(), message)
        };
        let found = self.extensions().into_iter().find_map(|extension| {
            // SAFETY: the list holds extensions with all fields that every extension has.
            let base = unsafe { extension.read() };
            (base.type_ == wanted.number()).then_some((extension, base.struct_size))
        });
        match found {
            Some((extension, its)) if its >= size => Ok(extension),
            Some((_, its)) => Err(error(format!("has an older one, of {its} bytes where {size} are needed"))),
            None => Err(error("does not list it".to_owned())),
        }
    }

    /// Reads and frees an error.
    ///
    /// # Safety
    ///
    /// `error` comes from this plugin, and the caller owns it.
    pub(crate) unsafe fn take_error(self, context: &str, error: NonNull<sys::PJRT_Error>) -> Error {
        let (table, error) = (self.table(), error.as_ptr());
        let mut code = sys::PJRT_Error_GetCode_Args { error, ..Struct::new() };
        let mut text = sys::PJRT_Error_Message_Args { error, ..Struct::new() };
        // SAFETY: the table is valid by the contract of `new`; `error` is alive until it is destroyed, and the
        // message, which lives as long, is copied before that.
        let (code, message) = unsafe {
            // An error of the function that reads errors is freed unread: there is nothing left to read it with.
            let second = sys::entry!(table, PJRT_Error_GetCode).map(|get_code| get_code(&mut code));
            sys::entry!(table, PJRT_Error_Message).inspect(|message| message(&mut text));
            let message = string(text.message, text.message_size);
            for error in second.and_then(NonNull::new).into_iter().map(NonNull::as_ptr).chain([error]) {
                let mut done = sys::PJRT_Error_Destroy_Args { error, ..Struct::new() };
                sys::entry!(table, PJRT_Error_Destroy).inspect(|destroy| destroy(&mut done));
            }
            (StatusCode::from_raw(code.code), message)
        };
        Error::new(ErrorKind::Status(code), context, message)
    }
}

/// A PJRT type whose values the caller owns and destroys.
///
/// # Safety
///
/// `destroy` fills in the arguments of the function that frees a value of this type.
pub(crate) unsafe trait Object: Sized {
    /// Arguments of that function.
    type Destroy: Args;

    fn destroy(this: *mut Self) -> Self::Destroy;
}

macro_rules! objects {
    ($($object:ident: $args:ident.$field:ident,)*) => {$(
        // SAFETY: the function is the one that the header names for this type, and takes nothing else.
        unsafe impl Object for sys::$object {
            type Destroy = sys::$args;

            fn destroy(this: *mut Self) -> sys::$args {
                sys::$args { $field: this, ..Struct::new() }
            }
        }
    )*};
}

objects! {
    PJRT_Event: PJRT_Event_Destroy_Args.event,
    PJRT_Client: PJRT_Client_Destroy_Args.client,
    PJRT_Executable: PJRT_Executable_Destroy_Args.executable,
    PJRT_LoadedExecutable: PJRT_LoadedExecutable_Destroy_Args.executable,
    PJRT_Buffer: PJRT_Buffer_Destroy_Args.buffer,
    PJRT_TopologyDescription: PJRT_TopologyDescription_Destroy_Args.topology,
    PJRT_AsyncHostToDeviceTransferManager: PJRT_AsyncHostToDeviceTransferManager_Destroy_Args.transfer_manager,
}

/// An owned object of a plugin, destroyed when dropped.
///
/// Whoever holds one also holds, in a later field, its parent: fields are dropped in order.
pub(crate) struct Handle<T: Object> {
    api: Api,
    raw: NonNull<T>,
}

// SAFETY: PJRT objects belong to no thread.
unsafe impl<T: Object> Send for Handle<T> {}
// SAFETY: PJRT's functions may be called on one object from many threads at once, apart from the one that
// destroys it, and that one is called in `drop`, when nobody else has the handle.
unsafe impl<T: Object> Sync for Handle<T> {}

impl<T: Object> Handle<T> {
    /// Takes what `function` has returned.
    ///
    /// # Safety
    ///
    /// `raw` is null or an object of this plugin that the caller owns.
    pub(crate) unsafe fn new(api: Api, raw: *mut T, function: &str) -> Result<Handle<T>, Error> {
        Ok(Handle { api, raw: non_null(raw, function)? })
    }

    pub(crate) fn api(&self) -> Api {
        self.api
    }

    /// The object, for calls made while `self` is borrowed.
    pub(crate) fn raw(&self) -> *mut T {
        self.raw.as_ptr()
    }
}

impl<T: Object> Drop for Handle<T> {
    fn drop(&mut self) {
        // SAFETY: the handle owns the object, and nobody can use it after this.
        let result = unsafe { self.api.call(T::destroy(self.raw.as_ptr())) };
        // There is nobody to tell and nothing left to do.
        drop(result);
    }
}

/// The pointer, which `function` has no right to leave null.
pub(crate) fn non_null<T>(pointer: *mut T, function: &str) -> Result<NonNull<T>, Error> {
    NonNull::new(pointer)
        .ok_or_else(|| Error::new(ErrorKind::BrokenContract, function, "returned null for an object"))
}

/// The text at `pointer`; empty for null.
///
/// # Safety
///
/// `pointer` is null or valid for `len` bytes.
pub(crate) unsafe fn string(pointer: *const c_char, len: usize) -> String {
    // SAFETY: the caller's contract, and bytes have no alignment.
    String::from_utf8_lossy(unsafe { slice(pointer.cast::<u8>(), len) }).into_owned()
}

/// The values at `pointer`; none for null.
///
/// # Safety
///
/// `pointer` is null, or aligned and valid for `len` values for the whole of `'a`.
pub(crate) unsafe fn slice<'a, T>(pointer: *const T, len: usize) -> &'a [T] {
    if pointer.is_null() {
        return &[];
    }
    // SAFETY: the caller's contract.
    unsafe { std::slice::from_raw_parts(pointer, len) }
}

/// The byte strings whose places and lengths two lists give; none where a list is null.
///
/// # Safety
///
/// Each list is null, or aligned and valid for `len` values for the whole of `'a`; so is each byte string for its
/// length.
pub(crate) unsafe fn blobs<'a>(
    places: *const *const c_char,
    sizes: *const usize,
    len: usize,
) -> impl Iterator<Item = &'a [u8]> {
    // SAFETY: the caller's contract.
    let (places, sizes) = unsafe { (slice(places, len), slice(sizes, len)) };
    // SAFETY: the caller's contract, and bytes have no alignment.
    places.iter().zip(sizes).map(|(&place, &size)| unsafe { slice(place.cast::<u8>(), size) })
}
