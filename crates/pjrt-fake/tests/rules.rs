//! The plugin notices callers that break the rules, and only those.
#![expect(unsafe_code, reason = "the rules are those of a C interface")]

mod support;

use std::process::Command;

use shardwright_pjrt_fake::Session;
use shardwright_pjrt_sys::{self as sys, Struct};
use support::{buffer, call, client};

fn destroy(client: *mut sys::PJRT_Client) -> Result<(), String> {
    call(sys::PJRT_Client_Destroy_Args { client, ..Struct::new() }).map(drop)
}

#[test]
fn what_is_used_well_leaves_nothing_behind() {
    let session = Session::begin();
    let client = client();
    let (buffer, event) = buffer(client);
    assert_eq!((session.live()["buffer"], session.live()["event"]), (1, 1));
    call(sys::PJRT_Event_Destroy_Args { event, ..Struct::new() }).unwrap();
    call(sys::PJRT_Buffer_Destroy_Args { buffer, ..Struct::new() }).unwrap();
    destroy(client).unwrap();
    assert!(session.live().is_empty());
}

#[test]
fn what_is_destroyed_twice_or_used_afterwards_is_noticed() {
    let session = Session::begin();
    let client = client();
    destroy(client).unwrap();
    // A new object never takes the place of an old one.
    let other = support::client();
    let check = |result: Result<(), String>, message: &str| {
        assert_eq!(result.unwrap_err(), message);
        assert_eq!(session.violations(), [message]);
    };
    let gone = "what is none, or is gone, given as client";
    check(destroy(client), gone);
    check(call(sys::PJRT_Client_Devices_Args { client, ..Struct::new() }).map(drop), gone);
    check(destroy(std::ptr::null_mut()), "null given as client");
    let buffer = call(sys::PJRT_Buffer_Destroy_Args { buffer: other.cast(), ..Struct::new() });
    check(buffer.map(drop), "what is none, or is gone, given as buffer");
    destroy(other).unwrap();
}

#[test]
fn a_client_that_goes_first_is_noticed() {
    let session = Session::begin();
    let client = client();
    buffer(client);
    destroy(client).unwrap();
    assert_eq!(session.violations(), ["client destroyed before its buffer"]);
    assert_eq!(session.live().into_iter().collect::<Vec<_>>(), [("buffer", 1), ("event", 1)]);
    session.forget();
}

#[test]
fn a_session_ends_badly_if_something_is_left() {
    let left = std::panic::catch_unwind(|| {
        let _session = Session::begin();
        client();
    });
    let message = *left.unwrap_err().downcast::<String>().unwrap();
    assert!(message.starts_with("left behind: {\"client\": 1, "), "{message}");
}

#[test]
fn structs_that_are_too_short_are_refused() {
    let _session = Session::begin();
    let short = sys::PJRT_Client_Create_Args { struct_size: 40, ..Struct::new() };
    assert_eq!(call(short).unwrap_err(), "struct of 40 bytes, 88 expected");
}

#[test]
fn a_broken_rule_ends_the_process_where_no_session_hears_of_it() {
    const IN_CHILD: &str = "SHARDWRIGHT_TEST_CHILD";
    if std::env::var_os(IN_CHILD).is_some() {
        let client = client();
        destroy(client).unwrap();
        unreachable!("destroyed twice: {:?}", destroy(client));
    }
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["a_broken_rule_ends_the_process_where_no_session_hears_of_it", "--exact", "--nocapture"])
        .env(IN_CHILD, "1")
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&child.stderr);
    assert_eq!(child.status.code(), None, "{stderr}");
    let message = "a rule of PJRT was broken: what is none, or is gone, given as client";
    assert!(stderr.contains(message), "{stderr}");
}
