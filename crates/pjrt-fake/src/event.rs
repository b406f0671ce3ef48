//! Events: handles to signals that come once.

use std::ffi::c_void;
use std::ptr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use shardwright_pjrt_sys as sys;

use crate::call::functions;
use crate::failure::Failure;
use crate::registry::{self, Object};
use crate::work;

/// Success or failure of some work, once it is done.
#[derive(Default)]
pub(crate) struct Signal {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    outcome: Option<Result<(), Failure>>,
    callbacks: Vec<Callback>,
}

struct Callback {
    function: unsafe extern "C" fn(*mut sys::PJRT_Error, *mut c_void),
    user_arg: *mut c_void,
}

// SAFETY: whoever registers a callback has it called from any thread.
unsafe impl Send for Callback {}

impl Callback {
    fn call(self, outcome: &Result<(), Failure>) {
        let error = outcome.clone().map_or_else(Failure::into_raw, |()| ptr::null_mut());
        // SAFETY: the function is called once, with what was registered with it and an error that it gets to own.
        unsafe { (self.function)(error, self.user_arg) }
    }
}

impl Signal {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says how it went; what was said first stays.
    pub(crate) fn set(&self, outcome: Result<(), Failure>) {
        let callbacks = {
            let mut state = self.state();
            state.outcome.get_or_insert(outcome.clone());
            std::mem::take(&mut state.callbacks)
        };
        self.changed.notify_all();
        callbacks.into_iter().for_each(|callback| callback.call(&outcome));
    }

    fn wait(&self) -> Result<(), Failure> {
        work::release();
        let pending = self.changed.wait_while(self.state(), |state| state.outcome.is_none());
        let state = pending.unwrap_or_else(PoisonError::into_inner);
        state.outcome.clone().expect("it was waited for")
    }

    fn on_ready(&self, callback: Callback) {
        let mut state = self.state();
        match state.outcome.clone() {
            None => state.callbacks.push(callback),
            Some(outcome) => {
                drop(state);
                callback.call(&outcome);
            }
        }
    }
}

pub(crate) struct Event(Arc<Signal>);

impl Object for Event {
    type Raw = sys::PJRT_Event;
    const KIND: &'static str = "event";
}

/// A new event for the signal. It belongs to nobody: events may outlive their client.
pub(crate) fn event(signal: &Arc<Signal>) -> *mut sys::PJRT_Event {
    registry::insert(ptr::null::<()>(), Event(Arc::clone(signal)))
}

functions! {
    fn PJRT_Event_Destroy(args: PJRT_Event_Destroy_Args) {
        registry::remove::<Event>(args.event).map(drop)
    }

    fn PJRT_Event_IsReady(args: PJRT_Event_IsReady_Args) {
        args.is_ready = registry::get::<Event>(args.event)?.0.state().outcome.is_some();
        Ok(())
    }

    fn PJRT_Event_Error(args: PJRT_Event_Error_Args) {
        let outcome = registry::get::<Event>(args.event)?.0.state().outcome.clone();
        outcome.unwrap_or_else(|| Err(Failure::invalid("the event is not ready")))
    }

    fn PJRT_Event_Await(args: PJRT_Event_Await_Args) {
        registry::get::<Event>(args.event)?.0.wait()
    }

    fn PJRT_Event_OnReady(args: PJRT_Event_OnReady_Args) {
        let event = registry::get::<Event>(args.event)?;
        let function = args.callback.ok_or_else(|| Failure::invalid("the callback is null"))?;
        event.0.on_ready(Callback { function, user_arg: args.user_arg });
        Ok(())
    }
}
