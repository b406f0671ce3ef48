use std::ffi::c_void;
use std::pin::Pin;
use std::ptr::NonNull;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use shardwright_pjrt_sys::{self as sys, Args, Struct};

use crate::api::Handle;
use crate::error::Error;
use crate::{Client, callback};

/// Something that will be done, or will have failed, at some time.
///
/// It can be waited for, asked, awaited in any executor, and can call back. Clones are the same event. Dropping an
/// event neither waits for the work nor stops it.
///
/// An event keeps its client alive; a callback of [`Event::on_ready`] does not, or a client could never go while
/// something is under way. The plugin's event may therefore outlive the client. That is sound, for it is no part of a
/// client: PJRT makes it of a reference-counted value that the work under way shares, and names no client in any of
/// its functions.
#[derive(Clone)]
pub struct Event {
    // Shared with the callbacks, so that the plugin's event is there until the last of them has been called.
    shared: Arc<Shared>,
    _client: Client,
}

struct Shared {
    handle: Handle<sys::PJRT_Event>,
    /// Where those who wait with a limit hear of the end, once there was one of them.
    end: Mutex<Option<Arc<End>>>,
}

/// The outcome, once the work is done.
#[derive(Default)]
struct End {
    result: Mutex<Option<Result<(), Error>>>,
    changed: Condvar,
}

/// An [`Event`] that is awaited. It asks the plugin to be called back when it is first polled.
#[must_use = "nothing is awaited until it is polled"]
pub struct EventFuture {
    event: Event,
    progress: Option<Arc<Mutex<Progress>>>,
}

#[derive(Default)]
struct Progress {
    result: Option<Result<(), Error>>,
    waker: Option<Waker>,
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
        Ok(Event { shared: Arc::new(Shared { handle, end: Mutex::new(None) }), _client: client.clone() })
    }

    /// Waits until the work is done; its error, if it failed. Every call returns the same.
    pub fn wait(&self) -> Result<(), Error> {
        let handle = &self.shared.handle;
        let args = sys::PJRT_Event_Await_Args { event: handle.raw(), ..Struct::new() };
        // SAFETY: the event is alive.
        unsafe { handle.api().call(args)? };
        Ok(())
    }

    /// Waits for at most this long: whether the work is done by then, or its error, if it failed.
    ///
    /// The first call that has to wait leaves a small callback with the plugin until the work is done; all later ones
    /// of this event and its clones share it.
    pub fn wait_timeout(&self, timeout: Duration) -> Result<bool, Error> {
        if self.is_ready()? {
            return self.wait().map(|()| true);
        }
        let end = self.end()?;
        let pending = end.changed.wait_timeout_while(lock(&end.result), timeout, |result| result.is_none());
        let (result, _) = pending.unwrap_or_else(PoisonError::into_inner);
        result.clone().map_or(Ok(false), |result| result.map(|()| true))
    }

    /// Where the outcome will be, for which the plugin is asked once.
    fn end(&self) -> Result<Arc<End>, Error> {
        let (end, is_new) = {
            let mut place = lock(&self.shared.end);
            let is_new = place.is_none();
            (Arc::clone(place.get_or_insert_default()), is_new)
        };
        if is_new {
            let told = Arc::clone(&end);
            // Not under the lock: the callback may be called at once.
            let asked = self.on_ready(move |result| {
                *lock(&told.result) = Some(result);
                told.changed.notify_all();
            });
            if let Err(error) = asked {
                // The next one may have more luck; who waits already hears of it.
                *lock(&self.shared.end) = None;
                *lock(&end.result) = Some(Err(error.clone()));
                end.changed.notify_all();
                return Err(error);
            }
        }
        Ok(end)
    }

    /// Whether the work is done or has failed, without waiting.
    pub fn is_ready(&self) -> Result<bool, Error> {
        let handle = &self.shared.handle;
        let args = sys::PJRT_Event_IsReady_Args { event: handle.raw(), ..Struct::new() };
        // SAFETY: the event is alive.
        Ok(unsafe { handle.api().call(args)? }.is_ready)
    }

    /// Has `callback` called once, with the outcome, when the work is done: at once if it is.
    ///
    /// That happens on this thread or on one of the plugin's, which does nothing else meanwhile: a callback has to
    /// be short, and must not wait for other work. A panic in it is reported as those of other threads are, and goes no
    /// further.
    pub fn on_ready(&self, callback: impl FnOnce(Result<(), Error>) + Send + 'static) -> Result<(), Error> {
        on_ready(Arc::clone(&self.shared), callback)
    }
}

/// A callback that a plugin holds, and the event that it waits for.
struct Waiting<F> {
    callback: F,
    event: Arc<Shared>,
}

/// See [`Event::on_ready`]. When the plugin refuses the callback, it is leaked with all that it owns, which may be
/// memory that the work under way still uses.
fn on_ready<F>(event: Arc<Shared>, callback: F) -> Result<(), Error>
where
    F: FnOnce(Result<(), Error>) + Send + 'static,
{
    let (api, raw) = (event.handle.api(), event.handle.raw());
    let waiting = Box::into_raw(Box::new(Waiting { callback, event }));
    let args = sys::PJRT_Event_OnReady_Args {
        event: raw,
        callback: Some(ready::<F>),
        user_arg: waiting.cast(),
        ..Struct::new()
    };
    // SAFETY: the event is alive until the callback, which is called once and takes the box back, lets go of it.
    unsafe { api.call(args)? };
    Ok(())
}

/// What the plugin calls.
unsafe extern "C" fn ready<F>(error: *mut sys::PJRT_Error, waiting: *mut c_void)
where
    F: FnOnce(Result<(), Error>) + Send + 'static,
{
    // SAFETY: `waiting` comes from `Box::into_raw` in `on_ready`, and the plugin calls this once.
    let Waiting { callback, event } = *unsafe { Box::from_raw(waiting.cast::<Waiting<F>>()) };
    let result = match NonNull::new(error) {
        None => Ok(()),
        Some(error) => {
            let api = event.handle.api();
            // SAFETY: the callback owns the error.
            Err(unsafe { api.take_error(sys::PJRT_Event_OnReady_Args::FUNCTION, error) })
        }
    };
    // What was thrown could throw in turn when it is dropped.
    if let Err(panic) = callback::run(|| callback(result)) {
        std::mem::forget(panic);
    }
}

impl IntoFuture for Event {
    type Output = Result<(), Error>;
    type IntoFuture = EventFuture;

    fn into_future(self) -> EventFuture {
        EventFuture { event: self, progress: None }
    }
}

impl Future for EventFuture {
    type Output = Result<(), Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let progress = match &this.progress {
            Some(progress) => progress,
            None => {
                let progress = Arc::<Mutex<Progress>>::default();
                let shared = Arc::clone(&progress);
                if let Err(error) = this.event.on_ready(move |result| finish(&shared, result)) {
                    return Poll::Ready(Err(error));
                }
                this.progress.insert(progress)
            }
        };
        let mut progress = lock(progress);
        match &progress.result {
            Some(result) => Poll::Ready(result.clone()),
            None => {
                progress.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

fn finish(progress: &Mutex<Progress>, result: Result<(), Error>) {
    let mut progress = lock(progress);
    progress.result = Some(result);
    let waker = progress.waker.take();
    // A waker may poll at once.
    drop(progress);
    if let Some(waker) = waker {
        waker.wake();
    }
}

fn lock<T>(value: &Mutex<T>) -> MutexGuard<'_, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}
