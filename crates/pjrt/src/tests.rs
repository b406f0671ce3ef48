//! How the safe layer treats a plugin, seen from the plugin's side.
//!
//! The plugin is made of the functions below and keeps a log. Tests take turns, as the log is one for all.

use std::ffi::c_void;
use std::path::Path;
use std::ptr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use shardwright_pjrt_sys::{self as sys, Args};
use shardwright_tensor::HostArray;

use crate::*;

static TURN: Mutex<()> = Mutex::new(());
static STATE: Mutex<State> =
    Mutex::new(State { log: Vec::new(), status: 0, live_errors: 0, on_ready: None, copy_to: None });

struct State {
    log: Vec<&'static str>,
    /// What the plugin's attributes fail with; 0 is success.
    status: u32,
    live_errors: usize,
    on_ready: Option<(sys::PJRT_Event_OnReadyCallback, usize)>,
    /// Address and size of the host memory that a pending copy is going to write.
    copy_to: Option<(usize, usize)>,
}

fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn log(entry: &'static str) {
    state().log.push(entry);
}

fn new_error() -> *mut sys::PJRT_Error {
    state().live_errors += 1;
    ptr::dangling_mut()
}

macro_rules! fake {
    ($($function:ident = |$args:ident: $ty:ident| $body:expr;)*) => {
        $(
            #[allow(non_snake_case, reason = "named after what it stands for")]
            unsafe extern "C" fn $function(args: *mut sys::$ty) -> *mut sys::PJRT_Error {
                // SAFETY: the caller passes a live struct.
                let $args = unsafe { &mut *args };
                $body
            }
        )*

        fn table() -> sys::PJRT_Api {
            // SAFETY: the table consists of sizes, version numbers, a pointer and nullable functions.
            let mut table: sys::PJRT_Api = unsafe { std::mem::zeroed() };
            table.struct_size = size_of::<sys::PJRT_Api>();
            table.pjrt_api_version.minor_version = 81;
            table.PJRT_Error_Message = Some(error_message);
            table.PJRT_Error_Destroy = Some(error_destroy);
            $(table.$function = Some($function);)*
            table
        }
    };
}

const OK: *mut sys::PJRT_Error = ptr::null_mut();

unsafe extern "C" fn error_message(args: *mut sys::PJRT_Error_Message_Args) {
    // SAFETY: the caller passes a live struct.
    let args = unsafe { &mut *args };
    let text = "in the plugin's words";
    (args.message, args.message_size) = (text.as_ptr().cast(), text.len());
}

unsafe extern "C" fn error_destroy(_: *mut sys::PJRT_Error_Destroy_Args) {
    state().live_errors -= 1;
}

static DEVICE: [usize; 1] = [64];

fake! {
    PJRT_Error_GetCode = |args: PJRT_Error_GetCode_Args| { args.code = state().status; OK };
    PJRT_Plugin_Initialize = |_args: PJRT_Plugin_Initialize_Args| { log("initialize"); OK };
    PJRT_Plugin_Attributes = |_args: PJRT_Plugin_Attributes_Args| {
        let fails = state().status != 0;
        if fails { new_error() } else { OK }
    };
    PJRT_Client_Create = |args: PJRT_Client_Create_Args| { args.client = ptr::dangling_mut(); OK };
    PJRT_Client_Destroy = |_args: PJRT_Client_Destroy_Args| { log("destroy client"); OK };
    PJRT_Client_PlatformName = |_args: PJRT_Client_PlatformName_Args| OK;
    PJRT_Client_PlatformVersion = |_args: PJRT_Client_PlatformVersion_Args| OK;
    PJRT_Client_ProcessIndex = |_args: PJRT_Client_ProcessIndex_Args| OK;
    PJRT_Client_Devices = |args: PJRT_Client_Devices_Args| {
        (args.devices, args.num_devices) = (DEVICE.as_ptr().cast(), 1);
        OK
    };
    PJRT_Client_AddressableDevices = |args: PJRT_Client_AddressableDevices_Args| {
        (args.addressable_devices, args.num_addressable_devices) = (DEVICE.as_ptr().cast(), 1);
        OK
    };
    PJRT_Device_GetDescription = |_args: PJRT_Device_GetDescription_Args| OK;
    PJRT_DeviceDescription_Id = |args: PJRT_DeviceDescription_Id_Args| { args.id = 7; OK };
    PJRT_DeviceDescription_ProcessIndex = |_args: PJRT_DeviceDescription_ProcessIndex_Args| OK;
    PJRT_DeviceDescription_Kind = |_args: PJRT_DeviceDescription_Kind_Args| OK;
    PJRT_DeviceDescription_ToString = |_args: PJRT_DeviceDescription_ToString_Args| OK;
    PJRT_Client_BufferFromHostBuffer = |args: PJRT_Client_BufferFromHostBuffer_Args| {
        args.buffer = ptr::dangling_mut();
        args.done_with_host_buffer = ptr::dangling_mut();
        OK
    };
    PJRT_Buffer_Destroy = |_args: PJRT_Buffer_Destroy_Args| { log("destroy buffer"); OK };
    PJRT_Buffer_ToHostBuffer = |args: PJRT_Buffer_ToHostBuffer_Args| {
        state().copy_to = Some((args.dst as usize, args.dst_size));
        args.event = ptr::dangling_mut();
        OK
    };
    PJRT_Event_Await = |_args: PJRT_Event_Await_Args| {
        let pending = state().copy_to.take();
        if let Some((address, size)) = pending {
            // SAFETY: this is what is tested: the memory stays until the event.
            unsafe { ptr::write_bytes(address as *mut u8, 1, size) };
            log("copied");
        }
        OK
    };
    PJRT_Event_OnReady = |args: PJRT_Event_OnReady_Args| {
        state().on_ready = Some((args.callback, args.user_arg as usize));
        OK
    };
    PJRT_Event_Destroy = |_args: PJRT_Event_Destroy_Args| { log("destroy event"); OK };
}

/// A new plugin with this table, and the turn to use it.
fn load(change: impl FnOnce(&mut sys::PJRT_Api)) -> (MutexGuard<'static, ()>, Result<Plugin, Error>) {
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    *state() = State { log: Vec::new(), status: 0, live_errors: 0, on_ready: None, copy_to: None };
    let mut table = table();
    change(&mut table);
    // SAFETY: the table is whole, whatever it says of itself, and lives for ever.
    let plugin = unsafe { Plugin::from_table(Path::new("fake.so"), Box::leak(Box::new(table))) };
    (turn, plugin)
}

fn client(plugin: &Plugin) -> Client {
    Client::new(plugin, &ClientOptions::default()).unwrap()
}

fn take_log() -> Vec<&'static str> {
    std::mem::take(&mut state().log)
}

#[test]
fn incompatible_tables_are_refused() {
    let (_turn, newer) = load(|table| table.pjrt_api_version.major_version = 1);
    let error = newer.unwrap_err();
    assert_eq!(
        error.to_string(),
        "plugin has an incompatible API: fake.so: its PJRT API is 1.81, this program's is 0.81, and major \
         versions do not mix"
    );
    drop(_turn);
    let (_turn, tiny) = load(|table| table.struct_size = 8);
    assert_eq!(tiny.unwrap_err().kind(), ErrorKind::IncompatibleApi);
    assert_eq!(take_log(), [""; 0], "nothing of such a plugin is called");
}

#[test]
fn a_plugin_is_initialized_once() {
    let (_turn, plugin) = load(|_| ());
    let plugin = plugin.unwrap();
    // SAFETY: the table is that of a plugin.
    let again = unsafe { Plugin::from_table(Path::new("link.so"), plugin.api().table()) }.unwrap();
    assert_eq!(again.path(), plugin.path());
    assert_eq!(take_log(), ["initialize"]);
}

#[test]
fn functions_past_the_end_of_an_older_table_and_null_ones_are_never_called() {
    let end = std::mem::offset_of!(sys::PJRT_Api, PJRT_Client_Create);
    for change in [
        Box::new(|table: &mut sys::PJRT_Api| table.struct_size = end) as Box<dyn FnOnce(&mut _)>,
        Box::new(|table: &mut sys::PJRT_Api| table.PJRT_Client_Create = None),
    ] {
        let (_turn, plugin) = load(change);
        let error = Client::new(&plugin.unwrap(), &ClientOptions::default()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "plugin lacks a function: PJRT_Client_Create: not in this plugin, whose API version is 0.81"
        );
        assert!(error.is_unimplemented());
    }
}

#[test]
fn newer_tables_are_taken() {
    let (_turn, plugin) = load(|table| {
        table.struct_size += 240;
        table.pjrt_api_version.minor_version = 111;
    });
    assert_eq!(plugin.unwrap().api_version(), (0, 111));
}

#[test]
fn errors_are_read_and_freed() {
    let (_turn, plugin) = load(|_| ());
    let plugin = plugin.unwrap();
    let expected = [
        (3, StatusCode::InvalidArgument, "invalid argument"),
        (8, StatusCode::ResourceExhausted, "resource exhausted"),
        (16, StatusCode::Unauthenticated, "unauthenticated"),
        (17, StatusCode::Unknown, "unknown error"),
    ];
    for (number, code, text) in expected {
        state().status = number;
        let error = plugin.attributes().unwrap_err();
        assert_eq!(error.code(), Some(code));
        assert_eq!(error.to_string(), format!("{text}: PJRT_Plugin_Attributes: in the plugin's words"));
    }
    state().status = 12;
    assert_eq!(plugin.attributes(), Ok(Vec::new()), "unimplemented attributes are none");
    assert_eq!(state().live_errors, 0);
}

#[test]
fn null_for_an_object_is_an_error() {
    let (_turn, plugin) = load(|table| table.PJRT_Client_Create = Some(no_client));
    unsafe extern "C" fn no_client(_: *mut sys::PJRT_Client_Create_Args) -> *mut sys::PJRT_Error {
        ptr::null_mut()
    }
    let error = Client::new(&plugin.unwrap(), &ClientOptions::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::BrokenContract);
    assert_eq!(error.context(), sys::PJRT_Client_Create_Args::FUNCTION);
}

#[test]
fn a_client_outlives_its_buffers() {
    let (_turn, plugin) = load(|_| ());
    let client = client(&plugin.unwrap());
    let buffer = client.buffer_from_host(&HostArray::scalar(1f32), &client.devices()[0]).unwrap();
    drop(client);
    assert_eq!(buffer.device().id(), 7);
    drop(buffer);
    assert_eq!(take_log(), ["initialize", "destroy event", "destroy buffer", "destroy client"]);
}

#[test]
fn a_pending_copy_is_waited_for_before_its_memory_goes() {
    let (_turn, plugin) = load(|_| ());
    let client = client(&plugin.unwrap());
    let buffer = client.buffer_from_host(&HostArray::scalar(0u32), &client.devices()[0]).unwrap();
    assert_eq!(buffer.to_host().unwrap(), HostArray::scalar(0x0101_0101u32));
    take_log();
    let pending = buffer.copy_to_host_async().unwrap();
    drop((buffer, client));
    drop(pending);
    assert_eq!(take_log(), ["destroy buffer", "copied", "destroy event", "destroy client"]);
}

#[test]
fn shared_host_memory_is_held_until_the_plugin_is_done() {
    let (_turn, plugin) = load(|_| ());
    let client = client(&plugin.unwrap());
    let array = Arc::new(HostArray::scalar(1f32));
    drop(client.buffer_from_shared(array.clone(), &client.devices()[0]).unwrap());
    drop(client);
    assert_eq!(Arc::strong_count(&array), 2);

    let (callback, user_arg) = state().on_ready.take().unwrap();
    let failed = new_error();
    // SAFETY: the plugin calls it once, with an error that it gives away.
    unsafe { callback.unwrap()(failed, user_arg as *mut c_void) };
    assert_eq!(Arc::strong_count(&array), 1);
    assert_eq!(state().live_errors, 0);
    assert_eq!(take_log(), ["initialize", "destroy buffer", "destroy client", "destroy event"]);
}
