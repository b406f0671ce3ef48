//! Events that come late: waited for, awaited, called back from, and outliving what they are of.

use std::pin::pin;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

use super::*;

/// The end of a run of a program that does nothing, or fails.
fn start(client: &Client, program: &str) -> Event {
    compile(client, program).unwrap().execute([]).unwrap().done.remove(0)
}

#[test]
fn waiting_again_and_again_leaves_one_callback() {
    let session = Session::begin();
    let client = client(&session, 1, "late");
    let event = start(&client, "nothing");
    for _ in 0..100 {
        assert_eq!(event.clone().wait_timeout(Duration::ZERO), Ok(false));
    }
    assert_eq!(session.calls("PJRT_Event_OnReady"), 1);
    let waiting = event.clone();
    let waiter = thread::spawn(move || waiting.wait_timeout(LONG));
    session.release();
    assert_eq!(waiter.join().unwrap(), Ok(true));
    assert_eq!((event.wait_timeout(Duration::ZERO), event.is_ready()), (Ok(true), Ok(true)));
    assert_eq!(session.calls("PJRT_Event_OnReady"), 1);
}

#[test]
fn a_refused_callback_is_kept_for_ever_and_asked_for_again() {
    let session = Session::begin();
    let client = client(&session, 1, "late");
    let event = start(&client, "nothing");
    session.fail("PJRT_Event_OnReady", 10, "not now");
    assert_eq!(event.wait_timeout(LONG).unwrap_err().message(), "not now");
    session.fail("PJRT_Event_OnReady", 0, "");
    assert_eq!(event.wait_timeout(Duration::ZERO), Ok(false));
    session.release();
    assert_eq!(event.wait_timeout(LONG), Ok(true));
    drop((event, client));
    // What waits for a refused callback is not freed: it might come.
    session.forget();
}

#[test]
fn callbacks_come_late_and_may_outlive_the_client() {
    let session = Session::begin();
    let client = client(&session, 1, "late");
    let (sender, receiver) = channel();
    for program in ["nothing", "run-fail 8 no more room"] {
        let sender = sender.clone();
        start(&client, program)
            .on_ready(move |result| sender.send(result.map_err(|e| e.code())).unwrap())
            .unwrap();
    }
    drop((client, sender));
    assert_eq!(session.calls("PJRT_Client_Destroy"), 1);
    assert!(receiver.try_recv().is_err());
    session.release();
    assert_eq!(receiver.recv_timeout(LONG), Ok(Ok(())));
    assert_eq!(receiver.recv_timeout(LONG), Ok(Err(Some(StatusCode::ResourceExhausted))));
    assert_eq!(receiver.recv_timeout(LONG), Err(RecvTimeoutError::Disconnected));
}

#[test]
fn an_event_is_awaited() {
    struct Notify(std::sync::mpsc::Sender<()>);
    impl Wake for Notify {
        fn wake(self: Arc<Self>) {
            self.0.send(()).unwrap();
        }
    }
    let session = Session::begin();
    let client = client(&session, 1, "late");
    for (program, expected) in [("nothing", Ok(())), ("run-fail 13 broken", Err(Some(StatusCode::Internal)))]
    {
        let (sender, woken) = channel();
        let waker = Waker::from(Arc::new(Notify(sender)));
        let mut context = Context::from_waker(&waker);
        let mut future = pin!(start(&client, program).into_future());
        assert!(future.as_mut().poll(&mut context).is_pending());
        assert!(future.as_mut().poll(&mut context).is_pending());
        session.release();
        assert_eq!(woken.recv_timeout(LONG), Ok(()));
        let Poll::Ready(result) = future.as_mut().poll(&mut context) else {
            panic!("it was woken too early")
        };
        assert_eq!(result.map_err(|error| error.code()), expected);
    }
}

/// What tells, when it is dropped, that all who held it are gone.
struct Told(std::sync::mpsc::Sender<()>);

impl KeyValueStore for Told {
    fn get(&self, _: &str, _: Duration) -> Result<Vec<u8>, KeyValueError> {
        Ok(Vec::new())
    }

    fn try_get(&self, _: &str) -> Result<Vec<u8>, KeyValueError> {
        Ok(Vec::new())
    }

    fn put(&self, _: &str, _: &[u8]) -> Result<(), KeyValueError> {
        Ok(())
    }
}

impl Drop for Told {
    fn drop(&mut self) {
        self.0.send(()).unwrap();
    }
}

/// The fake refuses that on the thread on which it calls back, for which a plugin would wait.
#[test]
fn the_last_handle_of_a_client_can_go_in_a_callback() {
    let session = Session::begin();
    let (destroyed, is_destroyed) = channel();
    let options = ClientOptions::default().with("events", "late");
    // The store goes after the plugin's client, on whatever thread.
    let client = Client::with_store(&load(&session), &options, Arc::new(Told(destroyed))).unwrap();
    let event = start(&client, "nothing");
    let (sender, receiver) = channel();
    let callback = move |result| {
        drop(client);
        sender.send((result, thread::current().id())).unwrap();
    };
    event.on_ready(callback).unwrap();
    drop(event);
    assert_eq!(session.calls("PJRT_Client_Destroy"), 0);
    session.release();
    let (result, thread) = receiver.recv_timeout(LONG).unwrap();
    assert_eq!(result, Ok(()));
    assert_ne!(thread, thread::current().id());
    assert_eq!(is_destroyed.recv_timeout(LONG), Ok(()));
    assert_eq!(session.calls("PJRT_Client_Destroy"), 1);
}
