use std::any::Any;
use std::collections::BTreeMap;
use std::ffi::{c_char, c_void};
use std::ptr::{self, NonNull};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use shardwright_pjrt_sys as sys;

use crate::api::slice;
use crate::{StatusCode, callback};

/// A store through which the processes of one job find each other: each puts what the others wait for.
///
/// Plugins that compute over several processes are given one with [`Client::with_store`](crate::Client::with_store)
/// and call it, from any thread, for as long as the client lives. A panic in it is an error to the plugin. The last
/// handle of the client may go in it.
pub trait KeyValueStore: Send + Sync {
    /// The value of a key, waited for up to `timeout`; [`StatusCode::DeadlineExceeded`] if it does not come.
    fn get(&self, key: &str, timeout: Duration) -> Result<Vec<u8>, KeyValueError>;

    /// The value of a key, if it is there now; otherwise [`StatusCode::NotFound`].
    fn try_get(&self, key: &str) -> Result<Vec<u8>, KeyValueError>;

    /// Puts a value, which everybody can get from then on.
    fn put(&self, key: &str, value: &[u8]) -> Result<(), KeyValueError>;
}

/// What a [`KeyValueStore`] could not do, as plugins are told.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{code}: {message}")]
pub struct KeyValueError {
    code: StatusCode,
    message: String,
}

impl KeyValueError {
    /// An error with this status.
    pub fn new(code: StatusCode, message: impl Into<String>) -> KeyValueError {
        KeyValueError { code, message: message.into() }
    }

    /// The status.
    pub fn code(&self) -> StatusCode {
        self.code
    }

    /// What happened.
    pub fn message(&self) -> &str {
        &self.message
    }
}

/// A [`KeyValueStore`] in the memory of this process, for clients that are all in it. Clones are the same store.
///
/// ```
/// use std::time::Duration;
///
/// use shardwright_pjrt::{KeyValueStore, MemoryStore, StatusCode};
///
/// let store = MemoryStore::default();
/// store.put("address/0", b"10.0.0.1")?;
/// assert_eq!(store.get("address/0", Duration::from_secs(1))?, b"10.0.0.1");
/// assert_eq!(store.try_get("address/1").unwrap_err().code(), StatusCode::NotFound);
/// # Ok::<(), shardwright_pjrt::KeyValueError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct MemoryStore(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    values: Mutex<BTreeMap<String, Vec<u8>>>,
    changed: Condvar,
}

impl MemoryStore {
    fn values(&self) -> MutexGuard<'_, BTreeMap<String, Vec<u8>>> {
        self.0.values.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl KeyValueStore for MemoryStore {
    fn get(&self, key: &str, timeout: Duration) -> Result<Vec<u8>, KeyValueError> {
        let absent = |values: &mut BTreeMap<String, Vec<u8>>| !values.contains_key(key);
        let waited = self.0.changed.wait_timeout_while(self.values(), timeout, absent);
        let (values, _) = waited.unwrap_or_else(PoisonError::into_inner);
        values.get(key).cloned().ok_or_else(|| {
            let message = format!("nobody has put a value for key {key} within {timeout:?}");
            KeyValueError::new(StatusCode::DeadlineExceeded, message)
        })
    }

    fn try_get(&self, key: &str) -> Result<Vec<u8>, KeyValueError> {
        let value = self.values().get(key).cloned();
        let error = || KeyValueError::new(StatusCode::NotFound, format!("there is no value for key {key}"));
        value.ok_or_else(error)
    }

    fn put(&self, key: &str, value: &[u8]) -> Result<(), KeyValueError> {
        self.values().insert(key.to_owned(), value.to_vec());
        self.0.changed.notify_all();
        Ok(())
    }
}

/// The store as a client holds it: in a place of its own, whose address the plugin has.
pub(crate) struct Callbacks(Box<Arc<dyn KeyValueStore>>);

impl Callbacks {
    pub(crate) fn new(store: Arc<dyn KeyValueStore>) -> Callbacks {
        Callbacks(Box::new(store))
    }

    /// Has the client that is to be created call the store; it must not outlive `self`.
    pub(crate) fn fill(&self, args: &mut sys::PJRT_Client_Create_Args) {
        let store = (&raw const *self.0).cast_mut().cast();
        args.kv_get_callback = Some(get);
        args.kv_get_user_arg = store;
        args.kv_try_get_callback = Some(try_get);
        args.kv_try_get_user_arg = store;
        args.kv_put_callback = Some(put);
        args.kv_put_user_arg = store;
    }
}

unsafe extern "C" fn get(args: *mut sys::PJRT_KeyValueGetCallback_Args) -> *mut sys::PJRT_Error {
    // SAFETY: the plugin passes a live struct.
    let args = unsafe { &mut *args };
    // A negative time is one that is over.
    let timeout = Duration::from_millis(args.timeout_in_ms.try_into().unwrap_or(0));
    // SAFETY: the plugin passes a key of this size, and what it was given with the callback.
    let result =
        unsafe { with_store(args.user_arg, args.key, args.key_size, |store, key| store.get(key, timeout)) };
    // SAFETY: the plugin passes its function.
    let value = result.map_err(|error| unsafe { raise(args.callback_error, &error) });
    hand_over(value, &mut args.value, &mut args.value_size, &mut args.value_deleter_callback)
}

unsafe extern "C" fn try_get(args: *mut sys::PJRT_KeyValueTryGetCallback_Args) -> *mut sys::PJRT_Error {
    // SAFETY: the plugin passes a live struct.
    let args = unsafe { &mut *args };
    // SAFETY: the plugin passes a key of this size, and what it was given with the callback.
    let result =
        unsafe { with_store(args.user_arg, args.key, args.key_size, |store, key| store.try_get(key)) };
    // SAFETY: the plugin passes its function.
    let value = result.map_err(|error| unsafe { raise(args.callback_error, &error) });
    hand_over(value, &mut args.value, &mut args.value_size, &mut args.value_deleter_callback)
}

unsafe extern "C" fn put(args: *mut sys::PJRT_KeyValuePutCallback_Args) -> *mut sys::PJRT_Error {
    // SAFETY: the plugin passes a live struct.
    let args = unsafe { &mut *args };
    // SAFETY: the plugin passes a key and a value of these sizes, and what it was given with the callback.
    let result = unsafe {
        let value = slice(args.value.cast::<u8>(), args.value_size);
        with_store(args.user_arg, args.key, args.key_size, |store, key| store.put(key, value))
    };
    // SAFETY: the plugin passes its function.
    result.map_or_else(|error| unsafe { raise(args.callback_error, &error) }, |()| ptr::null_mut())
}

/// Runs `act` on the store; nothing unwinds out of it.
///
/// # Safety
///
/// `store` is what [`Callbacks::fill`] gives, of a live client, and `key` is valid for `key_size` bytes.
unsafe fn with_store<T>(
    store: *mut c_void,
    key: *const c_char,
    key_size: usize,
    act: impl FnOnce(&dyn KeyValueStore, &str) -> Result<T, KeyValueError>,
) -> Result<T, KeyValueError> {
    // SAFETY: the caller's contract. The client, and with it what `store` points to, may go during the call, so the
    // store is held from here on.
    let (store, key) =
        unsafe { (Arc::clone(&*store.cast::<Arc<dyn KeyValueStore>>()), slice(key.cast::<u8>(), key_size)) };
    let key = str::from_utf8(key).map_err(|_| {
        let message = format!("key {} is not UTF-8", key.escape_ascii());
        KeyValueError::new(StatusCode::InvalidArgument, message)
    })?;
    let result = callback::run(|| act(store.as_ref(), key)).unwrap_or_else(|panic| {
        let message = format!("the key-value store panicked at key {key}: {}", panic_message(&*panic));
        drop_quietly(panic);
        Err(KeyValueError::new(StatusCode::Internal, message))
    });
    drop_quietly(store);
    result
}

/// Drops what can panic when it is dropped; what that throws is left alone.
fn drop_quietly(value: impl Sized) {
    callback::run(|| drop(value)).unwrap_or_else(std::mem::forget);
}

fn panic_message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("with no message")
}

/// Makes an error of the plugin's own kind. A plugin that brings no function for that is told of no error, and gets an
/// empty value.
///
/// # Safety
///
/// `make` is null or points to the plugin's function or to null.
unsafe fn raise(make: *mut sys::PJRT_CallbackError, error: &KeyValueError) -> *mut sys::PJRT_Error {
    // SAFETY: the caller's contract.
    let make = NonNull::new(make).and_then(|make| unsafe { make.read() });
    make.map_or(ptr::null_mut(), |make| {
        // SAFETY: the text is valid during the call.
        unsafe { make(error.code.number(), error.message.as_ptr().cast(), error.message.len()) }
    })
}

fn hand_over(
    result: Result<Vec<u8>, *mut sys::PJRT_Error>,
    value: &mut *mut c_char,
    size: &mut usize,
    deleter: &mut Option<unsafe extern "C" fn(*mut c_char)>,
) -> *mut sys::PJRT_Error {
    // Whoever is told of no error looks at these, whatever they were before.
    (*value, *size, *deleter) = (ptr::null_mut(), 0, Some(free as _));
    match result {
        Err(error) => error,
        Ok(bytes) => {
            (*value, *size) = (into_raw(&bytes), bytes.len());
            ptr::null_mut()
        }
    }
}

/// The bytes that stand before a value given to a plugin: its size, which the deleter is not told.
const HEAD: usize = size_of::<usize>();

/// A copy of the bytes, for [`free`].
fn into_raw(bytes: &[u8]) -> *mut c_char {
    let block: Box<[u8]> = bytes.len().to_ne_bytes().iter().chain(bytes).copied().collect();
    let block = Box::into_raw(block).cast::<u8>();
    // SAFETY: the block has at least so many bytes.
    unsafe { block.add(HEAD) }.cast()
}

unsafe extern "C" fn free(value: *mut c_char) {
    if value.is_null() {
        return;
    }
    // SAFETY: the plugin gives back, once, what `into_raw` gave it, before which the size stands.
    unsafe {
        let block = value.cast::<u8>().sub(HEAD);
        let size = usize::from_ne_bytes(block.cast::<[u8; HEAD]>().read());
        drop(Box::from_raw(ptr::slice_from_raw_parts_mut(block, HEAD + size)));
    }
}
