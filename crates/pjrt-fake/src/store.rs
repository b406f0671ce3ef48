//! Calls of the key-value store that a client may be given.

use std::ffi::{c_char, c_int, c_void};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use shardwright_pjrt_sys::{self as sys, Struct};

use crate::call::text;
use crate::failure::{Failure, callback_error};
use crate::options::Options;
use crate::registry::Shared;
use crate::work;

/// Calls the callbacks that the options ask for; what was got, or nothing.
pub(crate) fn call(args: &sys::PJRT_Client_Create_Args, options: &Options) -> Result<String, Failure> {
    if let Some((key, value)) = &options.put {
        put(args, key, value)?;
    }
    match (&options.get, &options.try_get) {
        (Some(key), _) => get(args, key, options.timeout_ms as c_int),
        (None, Some(key)) => try_get(args, key),
        (None, None) => Ok(String::new()),
    }
}

fn put(args: &sys::PJRT_Client_Create_Args, key: &str, value: &str) -> Result<(), Failure> {
    let callback = args.kv_put_callback.ok_or_else(no_store)?;
    // SAFETY: the store is there during the call that brings it.
    unsafe { put_with(callback, args.kv_put_user_arg, key, value) }
}

/// # Safety
///
/// The store behind `user_arg` is alive.
unsafe fn put_with(
    callback: PutCallback,
    user_arg: *mut c_void,
    key: &str,
    value: &str,
) -> Result<(), Failure> {
    let mut make_error: sys::PJRT_CallbackError = Some(callback_error);
    let mut put = sys::PJRT_KeyValuePutCallback_Args {
        key: key.as_ptr().cast(),
        key_size: key.len(),
        value: value.as_ptr().cast(),
        value_size: value.len(),
        callback_error: &mut make_error,
        user_arg,
        ..Struct::new()
    };
    // SAFETY: all that the struct points to is alive during the call.
    check(unsafe { callback(&mut put) })
}

type PutCallback = unsafe extern "C" fn(*mut sys::PJRT_KeyValuePutCallback_Args) -> *mut sys::PJRT_Error;

/// A call of the store that comes when the client is there, unless the client goes first.
pub(crate) struct Later(Arc<Mutex<Option<Call>>>);

struct Call {
    callback: PutCallback,
    user_arg: Shared<*mut c_void>,
    pair: (String, String),
}

impl Later {
    /// Comes back when the call has ended; if it has not begun, it never will.
    pub(crate) fn end(&self) {
        drop(lock(&self.0).take());
    }
}

/// Has the put callback called later, if the options ask for it.
pub(crate) fn later(args: &sys::PJRT_Client_Create_Args, options: &Options) -> Option<Later> {
    let (callback, pair) = (args.kv_put_callback?, options.put_later.clone()?);
    let call = Arc::new(Mutex::new(Some(Call { callback, user_arg: Shared(args.kv_put_user_arg), pair })));
    let later = Later(Arc::clone(&call));
    work::submit(options.when, move || {
        // Locked during the call, so that a client that goes waits for its end.
        if let Some(Call { callback, user_arg, pair: (key, value) }) = lock(&call).take() {
            // SAFETY: the client is alive, for it takes the call back before it goes, and hence its store.
            let result = unsafe { put_with(callback, user_arg.0, &key, &value) };
            // There is nobody to tell.
            drop(result);
        }
    });
    Some(later)
}

fn lock(call: &Mutex<Option<Call>>) -> MutexGuard<'_, Option<Call>> {
    call.lock().unwrap_or_else(PoisonError::into_inner)
}

fn get(args: &sys::PJRT_Client_Create_Args, key: &str, timeout_in_ms: c_int) -> Result<String, Failure> {
    let mut make_error: sys::PJRT_CallbackError = Some(callback_error);
    let mut get = sys::PJRT_KeyValueGetCallback_Args {
        key: key.as_ptr().cast(),
        key_size: key.len(),
        timeout_in_ms,
        callback_error: &mut make_error,
        user_arg: args.kv_get_user_arg,
        ..Struct::new()
    };
    // SAFETY: all that the struct points to is alive during the call.
    check(unsafe { args.kv_get_callback.ok_or_else(no_store)?(&mut get) })?;
    // SAFETY: the callback has succeeded, so the value is this function's.
    unsafe { take(get.value, get.value_size, get.value_deleter_callback) }
}

fn try_get(args: &sys::PJRT_Client_Create_Args, key: &str) -> Result<String, Failure> {
    let mut make_error: sys::PJRT_CallbackError = Some(callback_error);
    let mut get = sys::PJRT_KeyValueTryGetCallback_Args {
        key: key.as_ptr().cast(),
        key_size: key.len(),
        callback_error: &mut make_error,
        user_arg: args.kv_try_get_user_arg,
        ..Struct::new()
    };
    // SAFETY: all that the struct points to is alive during the call.
    check(unsafe { args.kv_try_get_callback.ok_or_else(no_store)?(&mut get) })?;
    // SAFETY: the callback has succeeded, so the value is this function's.
    unsafe { take(get.value, get.value_size, get.value_deleter_callback) }
}

/// Copies a value and frees it.
///
/// # Safety
///
/// The value has this size, and the caller owns it.
unsafe fn take(
    value: *mut c_char,
    size: usize,
    deleter: Option<unsafe extern "C" fn(*mut c_char)>,
) -> Result<String, Failure> {
    let deleter = deleter.ok_or_else(|| Failure::internal("the value has no deleter"))?;
    // SAFETY: the caller's contract; the value is freed once, after it was copied.
    unsafe {
        let copy = text(value, size);
        deleter(value);
        Ok(copy)
    }
}

fn no_store() -> Failure {
    Failure::new(sys::PJRT_Error_Code_FAILED_PRECONDITION, "there is no key-value store")
}

fn check(error: *mut sys::PJRT_Error) -> Result<(), Failure> {
    Failure::take(error).map_or(Ok(()), Err)
}
