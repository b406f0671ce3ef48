//! From C functions to Rust ones: the struct's size is checked, failures become error objects, calls are counted.

use std::ffi::c_char;
use std::ptr;

use shardwright_pjrt_sys::{self as sys, Args};

use crate::failure::Failure;
use crate::session;

/// Functions of the C API by their names there, and `fill`, which puts them into a table.
macro_rules! functions {
    ($(fn $name:ident($args:ident: $ty:ident) $body:block)*) => {
        $(
            #[allow(non_snake_case, reason = "the names are those of the C header")]
            unsafe extern "C" fn $name(
                args: *mut ::shardwright_pjrt_sys::$ty,
            ) -> *mut ::shardwright_pjrt_sys::PJRT_Error {
                fn body(
                    $args: &mut ::shardwright_pjrt_sys::$ty,
                ) -> Result<(), $crate::failure::Failure> {
                    $body
                }
                // SAFETY: callers pass a live struct, as the C API asks.
                unsafe { $crate::call::enter(args, body) }
            }
        )*

        pub(crate) fn fill(table: &mut ::shardwright_pjrt_sys::PJRT_Api) {
            $(table.$name = Some($name);)*
        }
    };
}
pub(crate) use functions;

/// # Safety
///
/// `args` is a live struct that begins with its size.
pub(crate) unsafe fn enter<A: Args>(
    args: *mut A,
    body: fn(&mut A) -> Result<(), Failure>,
) -> *mut sys::PJRT_Error {
    // SAFETY: the caller's contract.
    let size = unsafe { args.cast::<usize>().read() };
    let result = session::called(A::FUNCTION).and_then(|()| match size < A::STRUCT_SIZE {
        true => Err(Failure::invalid(format!("struct of {size} bytes, {} expected", A::STRUCT_SIZE))),
        // SAFETY: the struct is live and as long as the type.
        false => body(unsafe { &mut *args }),
    });
    result.map_or_else(Failure::into_raw, |()| ptr::null_mut())
}

/// # Safety
///
/// `pointer` is null or valid for `size` bytes.
pub(crate) unsafe fn text(pointer: *const c_char, size: usize) -> String {
    // SAFETY: the caller's contract.
    String::from_utf8_lossy(unsafe { list(pointer.cast::<u8>(), size) }).into_owned()
}

/// # Safety
///
/// `pointer` is null or valid for `len` values for as long as the result is used.
pub(crate) unsafe fn list<'a, T>(pointer: *const T, len: usize) -> &'a [T] {
    if pointer.is_null() {
        return &[];
    }
    // SAFETY: the caller's contract.
    unsafe { std::slice::from_raw_parts(pointer, len) }
}
