use shardwright_pjrt_sys::{self as sys, Struct};

use crate::Client;
use crate::api::Handle;
use crate::error::Error;

/// Something that will be done, or will have failed, at some time.
///
/// Dropping an event neither waits for the work nor stops it.
pub struct Event {
    handle: Handle<sys::PJRT_Event>,
    // Behind the handle: an event is destroyed before its client.
    _client: Client,
}

impl Event {
    /// # Safety
    ///
    /// `raw` is null or an event of this client that the caller owns.
    pub(crate) unsafe fn new(
        client: &Client,
        raw: *mut sys::PJRT_Event,
        function: &str,
    ) -> Result<Event, Error> {
        // SAFETY: the caller's contract.
        let handle = unsafe { Handle::new(client.api(), raw, function)? };
        Ok(Event { handle, _client: client.clone() })
    }

    /// Waits until the work is done; its error, if it failed. Every call returns the same.
    pub fn wait(&self) -> Result<(), Error> {
        let args = sys::PJRT_Event_Await_Args { event: self.handle.raw(), ..Struct::new() };
        // SAFETY: the event is alive.
        unsafe { self.handle.api().call(args)? };
        Ok(())
    }

    /// Whether the work is done or has failed, without waiting.
    pub fn is_ready(&self) -> Result<bool, Error> {
        let args = sys::PJRT_Event_IsReady_Args { event: self.handle.raw(), ..Struct::new() };
        // SAFETY: the event is alive.
        Ok(unsafe { self.handle.api().call(args)? }.is_ready)
    }
}
