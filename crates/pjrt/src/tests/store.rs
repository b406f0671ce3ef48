//! The key-value store, called by the plugin.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::*;

/// What the plugin's calls of a store come to: what it got, or its error.
fn check(store: impl KeyValueStore + 'static, options: ClientOptions) -> Result<String, String> {
    let session = Session::begin();
    let client = Client::with_store(&load(&session), &options, Arc::new(store));
    client.map(|client| client.platform_version().to_owned()).map_err(|error| error.to_string())
}

fn options() -> ClientOptions {
    ClientOptions::default()
}

#[test]
fn what_was_put_is_got() {
    let store = MemoryStore::default();
    assert_eq!(check(store.clone(), options().with("put", "a=1").with("get", "a")).as_deref(), Ok("1"));
    assert_eq!(check(store.clone(), options().with("try_get", "a")).as_deref(), Ok("1"));
    // The last one counts, of any size.
    let long = "x".repeat(10_000);
    assert_eq!(check(store.clone(), options().with("put", format!("a={long}")).with("get", "a")), Ok(long));
    assert_eq!(check(store, options().with("put", "a=").with("try_get", "a")).as_deref(), Ok(""));
}

#[test]
fn bytes_need_not_be_text_and_nulls_are_no_ends() {
    let store = MemoryStore::default();
    store.put("a", b"one\0two").unwrap();
    assert_eq!(check(store, options().with("get", "a")).as_deref(), Ok("one\0two"));
}

#[test]
fn what_does_not_come_is_an_error() {
    let store = MemoryStore::default();
    assert_eq!(
        check(store.clone(), options().with("get", "a").with("timeout_ms", 2)).unwrap_err(),
        "deadline exceeded: PJRT_Client_Create: nobody has put a value for key a within 2ms"
    );
    assert_eq!(
        check(store.clone(), options().with("get", "a").with("timeout_ms", -1)).unwrap_err(),
        "deadline exceeded: PJRT_Client_Create: nobody has put a value for key a within 0ns"
    );
    assert_eq!(
        check(store, options().with("try_get", "a")).unwrap_err(),
        "not found: PJRT_Client_Create: there is no value for key a"
    );
}

#[test]
fn a_value_from_another_thread_is_waited_for() {
    let store = MemoryStore::default();
    let other = store.clone();
    let thread = std::thread::spawn(move || other.put("a", b"1"));
    assert_eq!(check(store, options().with("get", "a").with("timeout_ms", 60_000)).as_deref(), Ok("1"));
    thread.join().unwrap().unwrap();
}

/// A store that refuses, and one that panics.
struct Refuses;
struct Panics;

/// What panics again when it is dropped.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("dropped")
    }
}

impl KeyValueStore for Refuses {
    fn get(&self, _: &str, _: Duration) -> Result<Vec<u8>, KeyValueError> {
        Err(KeyValueError::new(StatusCode::Unavailable, "the coordinator is gone"))
    }

    fn try_get(&self, _: &str) -> Result<Vec<u8>, KeyValueError> {
        Err(KeyValueError::new(StatusCode::Unauthenticated, "who are you?"))
    }

    fn put(&self, _: &str, _: &[u8]) -> Result<(), KeyValueError> {
        Err(KeyValueError::new(StatusCode::AlreadyExists, "it is there"))
    }
}

impl KeyValueStore for Panics {
    fn get(&self, _: &str, timeout: Duration) -> Result<Vec<u8>, KeyValueError> {
        panic!("after {timeout:?}")
    }

    fn try_get(&self, _: &str) -> Result<Vec<u8>, KeyValueError> {
        panic!("at once")
    }

    fn put(&self, _: &str, _: &[u8]) -> Result<(), KeyValueError> {
        std::panic::panic_any(Bomb)
    }
}

#[test]
fn errors_reach_the_plugin_and_come_back() {
    for (option, value, text) in [
        ("get", "a", "unavailable: PJRT_Client_Create: the coordinator is gone"),
        ("try_get", "a", "unauthenticated: PJRT_Client_Create: who are you?"),
        ("put", "a=b", "already exists: PJRT_Client_Create: it is there"),
    ] {
        assert_eq!(check(Refuses, options().with(option, value)).unwrap_err(), text);
    }
}

#[test]
fn panics_become_errors() {
    for (option, value, text) in [
        ("get", "a", "internal error: PJRT_Client_Create: the key-value store panicked at key a: after 1s"),
        (
            "try_get",
            "a",
            "internal error: PJRT_Client_Create: the key-value store panicked at key a: at once",
        ),
        (
            "put",
            "a=b",
            "internal error: PJRT_Client_Create: the key-value store panicked at key a: with no message",
        ),
    ] {
        assert_eq!(check(Panics, options().with(option, value)).unwrap_err(), text);
    }
}

#[test]
fn a_client_without_a_store_has_none_to_call() {
    let session = Session::begin();
    let error = Client::new(&load(&session), &options().with("get", "a")).unwrap_err();
    assert_eq!(error.code(), Some(StatusCode::FailedPrecondition));
}

#[test]
fn a_store_lives_as_long_as_its_client() {
    let session = Session::begin();
    let store = Arc::new(MemoryStore::default());
    let client = Client::with_store(&load(&session), &options(), store.clone()).unwrap();
    let buffers = put(&client, &[1.]);
    drop(client);
    assert_eq!(Arc::strong_count(&store), 2);
    drop(buffers);
    assert_eq!(Arc::strong_count(&store), 1);
}

#[test]
fn a_store_is_called_by_the_plugins_own_thread() {
    let session = Session::begin();
    let store = MemoryStore::default();
    let options = options().with("events", "thread").with("put_later", "a=1");
    let client = Client::with_store(&load(&session), &options, Arc::new(store.clone())).unwrap();
    assert_eq!(store.get("a", LONG).as_deref(), Ok(b"1".as_slice()));
    drop(client);
}

#[test]
fn a_store_is_not_called_when_its_client_is_gone() {
    let session = Session::begin();
    let store = MemoryStore::default();
    let options = options().with("events", "late").with("put_later", "a=1");
    drop(Client::with_store(&load(&session), &options, Arc::new(store.clone())).unwrap());
    session.release();
    assert_eq!(store.try_get("a").unwrap_err().code(), StatusCode::NotFound);
}

/// Has its own client let go of when it is called, and says so to the end.
struct LetsGo {
    client: Mutex<Receiver<Client>>,
    told: Sender<&'static str>,
}

impl KeyValueStore for LetsGo {
    fn get(&self, _: &str, _: Duration) -> Result<Vec<u8>, KeyValueError> {
        Ok(Vec::new())
    }

    fn try_get(&self, _: &str) -> Result<Vec<u8>, KeyValueError> {
        Ok(Vec::new())
    }

    fn put(&self, _: &str, _: &[u8]) -> Result<(), KeyValueError> {
        drop(self.client.lock().unwrap().recv_timeout(LONG).unwrap());
        self.told.send("let go").unwrap();
        Ok(())
    }
}

impl Drop for LetsGo {
    fn drop(&mut self) {
        self.told.send("dropped").unwrap();
    }
}

#[test]
fn the_last_handle_of_a_client_can_go_in_its_store() {
    let session = Session::begin();
    let ((give, client), (told, heard)) = (channel(), channel());
    let store = LetsGo { client: Mutex::new(client), told };
    let options = options().with("events", "thread").with("put_later", "a=1");
    give.send(Client::with_store(&load(&session), &options, Arc::new(store)).unwrap()).unwrap();
    assert_eq!([(); 2].map(|()| heard.recv_timeout(LONG)), [Ok("let go"), Ok("dropped")]);
    // The thread that destroys it need not have come so far.
    let end = std::time::Instant::now() + LONG;
    while session.live().contains_key("client") && std::time::Instant::now() < end {
        std::thread::yield_now();
    }
    assert!(!session.live().contains_key("client"));
}
