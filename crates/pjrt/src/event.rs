use std::cell::Cell;
use std::ffi::c_void;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::ptr::NonNull;
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use shardwright_pjrt_sys::{self as sys, Args, Struct};

use crate::Client;
use crate::api::Handle;
use crate::error::Error;

/// Something that will be done, or will have failed, at some time.
///
/// It can be waited for, asked, awaited in any executor, and can call back. Clones are the same event. Dropping an
/// event neither waits for the work nor stops it.
#[derive(Clone)]
pub struct Event {
    // Shared with the callbacks, so that the plugin's event is there until the last of them has been called.
    handle: Arc<Handle<sys::PJRT_Event>>,
    // Behind the handle: an event is destroyed before its client.
    _client: Client,
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
        Ok(Event { handle: Arc::new(handle), _client: client.clone() })
    }

    /// Waits until the work is done; its error, if it failed. Every call returns the same.
    pub fn wait(&self) -> Result<(), Error> {
        let args = sys::PJRT_Event_Await_Args { event: self.handle.raw(), ..Struct::new() };
        // SAFETY: the event is alive.
        unsafe { self.handle.api().call(args)? };
        Ok(())
    }

    /// Waits for at most this long: whether the work is done by then, or its error, if it failed.
    ///
    /// A call that runs out of time leaves a small callback with the plugin until the work is done.
    pub fn wait_timeout(&self, timeout: Duration) -> Result<bool, Error> {
        if self.is_ready()? {
            return self.wait().map(|()| true);
        }
        let (sender, receiver) = sync_channel(1);
        // Nobody may be listening any more, which is no failure.
        self.on_ready(move |result| drop(sender.send(result)))?;
        // It is only after it has sent that the other end goes.
        receiver.recv_timeout(timeout).map_or(Ok(false), |result| result.map(|()| true))
    }

    /// Whether the work is done or has failed, without waiting.
    pub fn is_ready(&self) -> Result<bool, Error> {
        let args = sys::PJRT_Event_IsReady_Args { event: self.handle.raw(), ..Struct::new() };
        // SAFETY: the event is alive.
        Ok(unsafe { self.handle.api().call(args)? }.is_ready)
    }

    /// Has `callback` called once, with the outcome, when the work is done: at once if it is.
    ///
    /// That happens on this thread or on one of the plugin's, which does nothing else meanwhile: a callback has to
    /// be short, and must not wait for other work. A panic in it is reported as those of other threads are, and goes no
    /// further.
    pub fn on_ready(&self, callback: impl FnOnce(Result<(), Error>) + Send + 'static) -> Result<(), Error> {
        on_ready(Arc::clone(&self.handle), callback)
    }
}

/// A callback that a plugin holds, and the event that it waits for.
struct Waiting<F> {
    callback: F,
    event: Arc<Handle<sys::PJRT_Event>>,
}

/// See [`Event::on_ready`]. When the plugin refuses the callback, it is leaked with all that it owns, which may be
/// memory that the work under way still uses.
fn on_ready<F>(event: Arc<Handle<sys::PJRT_Event>>, callback: F) -> Result<(), Error>
where
    F: FnOnce(Result<(), Error>) + Send + 'static,
{
    let (api, raw) = (event.api(), event.raw());
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
    let was_in_callback = IN_CALLBACK.replace(true);
    let result = match NonNull::new(error) {
        None => Ok(()),
        // SAFETY: the callback owns the error.
        Some(error) => Err(unsafe { event.api().take_error(sys::PJRT_Event_OnReady_Args::FUNCTION, error) }),
    };
    // Nothing may unwind into the plugin; neither may what was thrown, whose own drop could do the same.
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| callback(result))) {
        std::mem::forget(panic);
    }
    IN_CALLBACK.set(was_in_callback);
}

thread_local! {
    /// Whether this thread is in a callback, so that it may be one of a plugin's.
    static IN_CALLBACK: Cell<bool> = const { Cell::new(false) };
}

/// Destroys a client: here, or on a new thread when this one may be the plugin's own, which the plugin would wait for.
pub(crate) fn destroy_outside_callbacks<T: Send + 'static>(client: T) {
    if IN_CALLBACK.get() {
        // Where there can be no thread, it stays.
        let client = ManuallyDrop::new(client);
        drop(thread::Builder::new().spawn(move || drop(ManuallyDrop::into_inner(client))));
    } else {
        drop(client);
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

fn lock(progress: &Mutex<Progress>) -> MutexGuard<'_, Progress> {
    progress.lock().unwrap_or_else(PoisonError::into_inner)
}
