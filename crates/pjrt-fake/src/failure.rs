//! What can go wrong, and the error objects that tell it.

use std::ffi::c_char;
use std::ptr;

use shardwright_pjrt_sys as sys;

use crate::call::{functions, text};
use crate::registry::{self, Object};

/// A status other than success.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    code: sys::PJRT_Error_Code,
    message: String,
}

impl Object for Failure {
    type Raw = sys::PJRT_Error;
    const KIND: &'static str = "error";
}

impl Failure {
    pub(crate) fn new(code: sys::PJRT_Error_Code, message: impl Into<String>) -> Failure {
        Failure { code, message: message.into() }
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Failure {
        Failure::new(sys::PJRT_Error_Code_INVALID_ARGUMENT, message)
    }

    pub(crate) fn unimplemented(message: impl Into<String>) -> Failure {
        Failure::new(sys::PJRT_Error_Code_UNIMPLEMENTED, message)
    }

    pub(crate) fn internal(message: impl Into<String>) -> Failure {
        Failure::new(sys::PJRT_Error_Code_INTERNAL, message)
    }

    /// As an object, which the caller gets to own.
    pub(crate) fn into_raw(self) -> *mut sys::PJRT_Error {
        registry::insert(ptr::null::<()>(), self)
    }

    /// The failure in an error object, which is used up; `None` for null, which is success.
    pub(crate) fn take(error: *mut sys::PJRT_Error) -> Option<Failure> {
        let failure = (!error.is_null()).then(|| registry::remove::<Failure>(error))?;
        Some(failure.map_or_else(|failure| failure, |failure| (*failure).clone()))
    }
}

pub(crate) unsafe extern "C" fn error_destroy(args: *mut sys::PJRT_Error_Destroy_Args) {
    // SAFETY: the caller passes a live struct.
    let error = unsafe { (*args).error };
    // That there is no such error has been noted.
    let _ = registry::remove::<Failure>(error);
}

pub(crate) unsafe extern "C" fn error_message(args: *mut sys::PJRT_Error_Message_Args) {
    // SAFETY: the caller passes a live struct.
    let args = unsafe { &mut *args };
    if let Ok(failure) = registry::get::<Failure>(args.error) {
        // The registry keeps the text until the error is destroyed.
        (args.message, args.message_size) = (failure.message.as_ptr().cast(), failure.message.len());
    }
}

/// Makes an error for a callback, which gives it back.
pub(crate) unsafe extern "C" fn callback_error(
    code: sys::PJRT_Error_Code,
    message: *const c_char,
    message_size: usize,
) -> *mut sys::PJRT_Error {
    // SAFETY: the caller passes a text of this size.
    Failure::new(code, unsafe { text(message, message_size) }).into_raw()
}

functions! {
    fn PJRT_Error_GetCode(args: PJRT_Error_GetCode_Args) {
        args.code = registry::get::<Failure>(args.error)?.code;
        Ok(())
    }
}
