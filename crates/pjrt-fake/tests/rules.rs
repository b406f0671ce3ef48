//! The plugin notices callers that break the rules, and only those.
#![expect(unsafe_code, reason = "the rules are those of a C interface")]

use shardwright_pjrt_fake::Session;
use shardwright_pjrt_sys::{self as sys, Args, Struct};

/// Calls a function of the plugin: the arguments as it leaves them, or the error's message.
fn call<A: Args>(args: A) -> Result<A, String> {
    let (mut args, table) = (args, shardwright_pjrt_fake::GetPjrtApi());
    // SAFETY: the table has all its functions, handles are checked by the plugin, and no other pointers are used here
    // than those that it gives.
    unsafe {
        let error = A::function(table).expect("the plugin has it")(&mut args);
        if error.is_null() {
            return Ok(args);
        }
        let mut text = sys::PJRT_Error_Message_Args { error, ..Struct::new() };
        sys::entry!(table, PJRT_Error_Message).expect("the plugin has it")(&mut text);
        let message = std::slice::from_raw_parts(text.message.cast::<u8>(), text.message_size);
        let message = String::from_utf8_lossy(message).into_owned();
        let mut done = sys::PJRT_Error_Destroy_Args { error, ..Struct::new() };
        sys::entry!(table, PJRT_Error_Destroy).expect("the plugin has it")(&mut done);
        Err(message)
    }
}

fn client() -> *mut sys::PJRT_Client {
    call(sys::PJRT_Client_Create_Args::new()).unwrap().client
}

fn destroy(client: *mut sys::PJRT_Client) -> Result<(), String> {
    call(sys::PJRT_Client_Destroy_Args { client, ..Struct::new() }).map(drop)
}

fn buffer(client: *mut sys::PJRT_Client) -> (*mut sys::PJRT_Buffer, *mut sys::PJRT_Event) {
    let devices = call(sys::PJRT_Client_Devices_Args { client, ..Struct::new() }).unwrap().devices;
    let value = 1f32;
    let args = call(sys::PJRT_Client_BufferFromHostBuffer_Args {
        client,
        data: (&raw const value).cast(),
        type_: sys::PJRT_Buffer_Type_F32,
        // SAFETY: there is one device.
        device: unsafe { *devices },
        ..Struct::new()
    });
    args.map(|args| (args.buffer, args.done_with_host_buffer)).unwrap()
}

#[test]
fn what_is_used_well_leaves_nothing_behind() {
    let session = Session::new();
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
    let session = Session::new();
    let client = client();
    destroy(client).unwrap();
    // A new object never takes the place of an old one.
    let other = self::client();
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
    let session = Session::new();
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
        let _session = Session::new();
        client();
    });
    let message = *left.unwrap_err().downcast::<String>().unwrap();
    assert!(message.starts_with("left behind: {\"client\": 1, "), "{message}");
}

#[test]
fn structs_that_are_too_short_are_refused() {
    let _session = Session::new();
    let short = sys::PJRT_Client_Create_Args { struct_size: 40, ..Struct::new() };
    assert_eq!(call(short).unwrap_err(), "struct of 40 bytes, 88 expected");
}
