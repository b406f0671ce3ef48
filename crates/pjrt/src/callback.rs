//! Code of the caller's that a plugin calls, on this thread or on one of its own.

use std::any::Any;
use std::cell::Cell;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

thread_local! {
    /// Whether this thread is in a callback, so that it may be one of a plugin's.
    static IN_CALLBACK: Cell<bool> = const { Cell::new(false) };
}

/// Runs what a plugin has called. Nothing unwinds out of it: what was thrown is returned.
///
/// A client whose last handle goes in there is destroyed elsewhere: see [`destroy_outside`].
pub(crate) fn run<T>(code: impl FnOnce() -> T) -> Result<T, Box<dyn Any + Send>> {
    let was_in_callback = IN_CALLBACK.replace(true);
    // What the code leaves half done is its own affair, as with any other thread of its callers.
    let result = catch_unwind(AssertUnwindSafe(code));
    IN_CALLBACK.set(was_in_callback);
    result
}

/// Destroys a client: here, or on a new thread when this one may be the plugin's own, which the plugin would wait for.
pub(crate) fn destroy_outside<T: Send + 'static>(client: T) {
    if IN_CALLBACK.get() {
        // Where there can be no thread, it stays.
        let client = ManuallyDrop::new(client);
        drop(thread::Builder::new().spawn(move || drop(ManuallyDrop::into_inner(client))));
    } else {
        drop(client);
    }
}
