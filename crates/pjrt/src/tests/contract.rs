//! Plugins that break the contract: an error, and nothing is lost that can be freed.
//!
//! Where nothing tells when a plugin is done with host memory, it is kept for ever. Tests of that say so in their names,
//! by which the leak is known to be meant.

use std::ptr;
use std::sync::Arc;

use shardwright_pjrt_sys::{Args, Struct};

use super::*;

/// A function with this body in the place of the plugin's own; `$own` calls that.
macro_rules! instead {
    ($table:ident.$function:ident = |$args:ident: $ty:ident, $own:ident| $body:expr) => {{
        unsafe extern "C" fn function($args: *mut sys::$ty) -> *mut sys::PJRT_Error {
            // SAFETY: the fake has the function, and gets what the caller has passed.
            let $own = move || unsafe {
                sys::entry!(shardwright_pjrt_fake::GetPjrtApi(), $function).expect("the fake has it")($args)
            };
            $body
        }
        $table.$function = Some(function);
    }};
}

#[track_caller]
fn check<T>(result: Result<T, Error>, function: &str, message: &str) {
    let error = result.map(drop).unwrap_err();
    assert_eq!(error.to_string(), format!("plugin broke its contract: {function}: {message}"));
    assert_eq!(error.kind(), ErrorKind::BrokenContract);
}

const NULL: &str = "returned null for an object";
const OK: *mut sys::PJRT_Error = ptr::null_mut();

#[test]
fn null_for_a_client() {
    let session = Session::begin();
    let change = |table: &mut sys::PJRT_Api| {
        instead!(table.PJRT_Client_Create = |_args: PJRT_Client_Create_Args, _own| OK);
    };
    let plugin = try_load(&session, change).unwrap();
    check(Client::new(&plugin, &ClientOptions::default()), "PJRT_Client_Create", NULL);
}

#[test]
fn null_for_a_device() {
    static DEVICES: [usize; 1] = [0];
    let session = Session::begin();
    let change = |table: &mut sys::PJRT_Api| {
        instead!(
            table.PJRT_Client_Devices = |args: PJRT_Client_Devices_Args, own| {
                let error = own();
                // SAFETY: the struct is live.
                unsafe { ((*args).devices, (*args).num_devices) = (DEVICES.as_ptr().cast(), 1) };
                error
            }
        );
    };
    let plugin = try_load(&session, change).unwrap();
    check(Client::new(&plugin, &ClientOptions::default()), "PJRT_Client_Devices", NULL);
}

#[test]
fn null_for_an_executable() {
    let session = Session::begin();
    check(compile(&client(&session, 1, "now"), "null"), sys::PJRT_Client_Compile_Args::FUNCTION, NULL);
}

#[test]
fn an_executable_on_a_device_of_nobody() {
    // No object of the fake has an odd number.
    static DEVICES: [usize; 1] = [7];
    let session = Session::begin();
    let change = |table: &mut sys::PJRT_Api| {
        instead!(
            table.PJRT_LoadedExecutable_AddressableDevices =
                |args: PJRT_LoadedExecutable_AddressableDevices_Args, own| {
                    let error = own();
                    // SAFETY: the struct is live.
                    unsafe { (*args).addressable_devices = DEVICES.as_ptr().cast() };
                    error
                }
        );
    };
    let client = client_of(&try_load(&session, change).unwrap(), 1, "now");
    let function = sys::PJRT_LoadedExecutable_AddressableDevices_Args::FUNCTION;
    check(compile(&client, "nothing"), function, "listed a device that the client does not have");
}

#[test]
fn results_of_two_numbers() {
    let session = Session::begin();
    let change = |table: &mut sys::PJRT_Api| {
        instead!(
            table.PJRT_Executable_OutputElementTypes =
                |args: PJRT_Executable_OutputElementTypes_Args, own| {
                    let error = own();
                    // SAFETY: the struct is live.
                    unsafe { (*args).num_output_types = 0 };
                    error
                }
        );
    };
    let client = client_of(&try_load(&session, change).unwrap(), 1, "now");
    let function = sys::PJRT_Executable_OutputDimensions_Args::FUNCTION;
    check(compile(&client, "sum f32[2]"), function, "0 element types for 1 results");
}

#[test]
fn null_for_a_result() {
    let session = Session::begin();
    let executable = compile(&client(&session, 2, "thread"), "null-output").unwrap();
    check(executable.execute(Vec::new()), sys::PJRT_LoadedExecutable_Execute_Args::FUNCTION, NULL);
}

#[test]
fn null_for_the_event_of_an_execution() {
    let session = Session::begin();
    let change = |table: &mut sys::PJRT_Api| {
        instead!(
            table.PJRT_LoadedExecutable_Execute = |args: PJRT_LoadedExecutable_Execute_Args, own| {
                // SAFETY: the struct is live, and the plugin may be asked for no events.
                unsafe { (*args).device_complete_events = ptr::null_mut() };
                own()
            }
        );
    };
    let client = client_of(&try_load(&session, change).unwrap(), 1, "thread");
    let executable = compile(&client, "identity f32[1]").unwrap();
    let args = vec![Arg::Donate(put(&client, &[1.]))];
    check(executable.execute(args), sys::PJRT_LoadedExecutable_Execute_Args::FUNCTION, NULL);
}

#[test]
fn host_memory_is_kept_for_ever_where_a_copy_to_it_has_no_event() {
    let session = Session::begin();
    let change = |table: &mut sys::PJRT_Api| {
        instead!(table.PJRT_Buffer_ToHostBuffer = |_args: PJRT_Buffer_ToHostBuffer_Args, _own| OK);
    };
    let client = client_of(&try_load(&session, change).unwrap(), 1, "now");
    check(put(&client, &[1.])[0].to_host(), sys::PJRT_Buffer_ToHostBuffer_Args::FUNCTION, NULL);
}

#[test]
fn host_memory_is_kept_for_ever_where_a_copy_of_it_has_no_event() {
    let session = Session::begin();
    let change = |table: &mut sys::PJRT_Api| {
        instead!(
            table.PJRT_Client_BufferFromHostBuffer = |args: PJRT_Client_BufferFromHostBuffer_Args, own| {
                let error = own();
                // SAFETY: the struct is live, and the event is the caller's to destroy.
                unsafe {
                    let event = std::mem::replace(&mut (*args).done_with_host_buffer, ptr::null_mut());
                    let mut destroy = sys::PJRT_Event_Destroy_Args { event, ..Struct::new() };
                    sys::entry!(shardwright_pjrt_fake::GetPjrtApi(), PJRT_Event_Destroy).unwrap()(
                        &mut destroy,
                    );
                }
                error
            }
        );
    };
    let client = client_of(&try_load(&session, change).unwrap(), 1, "late");
    let array = Arc::new(array(&[1.]));
    let result = client.buffer_from_shared(array.clone(), &client.devices()[0]);
    check(result, sys::PJRT_Client_BufferFromHostBuffer_Args::FUNCTION, NULL);
    session.release();
    assert_eq!(Arc::strong_count(&array), 2);
}

#[test]
fn host_memory_is_kept_for_ever_where_a_callback_is_refused() {
    let session = Session::begin();
    let client = client(&session, 1, "now");
    let array = Arc::new(array(&[1.]));
    session.fail("PJRT_Event_OnReady", 12, "no callbacks");
    let error = client.buffer_from_shared(array.clone(), &client.devices()[0]).unwrap_err();
    assert_eq!(error.context(), "PJRT_Event_OnReady");
    assert_eq!(Arc::strong_count(&array), 2);
    drop(client);
    session.forget();
}

#[test]
fn another_number_of_results_than_of_types() {
    let session = Session::begin();
    let change = |table: &mut sys::PJRT_Api| {
        instead!(
            table.PJRT_Executable_NumOutputs = |args: PJRT_Executable_NumOutputs_Args, own| {
                let error = own();
                // SAFETY: the struct is live.
                unsafe { (*args).num_outputs = 2 };
                error
            }
        );
    };
    let client = client_of(&try_load(&session, change).unwrap(), 1, "now");
    let function = sys::PJRT_Executable_NumOutputs_Args::FUNCTION;
    check(compile(&client, "sum f32[2]"), function, "2 results, with 1 types");
}

#[test]
fn null_for_a_description() {
    let session = Session::begin();
    let change = |table: &mut sys::PJRT_Api| {
        instead!(table.PJRT_Device_GetDescription = |_args: PJRT_Device_GetDescription_Args, _own| OK);
    };
    let plugin = try_load(&session, change).unwrap();
    check(Client::new(&plugin, &ClientOptions::default()), "PJRT_Device_GetDescription", NULL);
}

#[test]
fn a_memory_that_the_device_does_not_list() {
    let session = Session::begin();
    let change = |table: &mut sys::PJRT_Api| {
        instead!(table.PJRT_Buffer_Memory = |_args: PJRT_Buffer_Memory_Args, _own| OK);
    };
    let client = client_of(&try_load(&session, change).unwrap(), 1, "now");
    let buffers = put(&client, &[1.]);
    let message = "gave a memory that FakeDevice(id=0) does not list";
    check(buffers[0].memory(), sys::PJRT_Buffer_Memory_Args::FUNCTION, message);
}

/// Set in the process that is to end.
const IN_CHILD: &str = "SHARDWRIGHT_PJRT_TEST_CHILD";

#[test]
fn a_copy_to_borrowed_memory_without_an_event_ends_the_process() {
    if let Some(way) = std::env::var_os(IN_CHILD) {
        return copy_without_an_event(way.to_str().unwrap());
    }
    for (way, function) in [("whole", "PJRT_Buffer_ToHostBuffer"), ("part", "PJRT_Buffer_CopyRawToHost")] {
        let child = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["a_copy_to_borrowed_memory_without_an_event_ends_the_process", "--nocapture"])
            .env(IN_CHILD, way)
            .output()
            .unwrap();
        let words = String::from_utf8_lossy(&child.stderr);
        let reason = format!(
            "plugin broke its contract: {function}: {NULL}: it may write to borrowed memory at any time"
        );
        assert!(words.contains(&reason), "{words}");
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&child.status), Some(6), "{}", child.status);
    }
}

fn copy_without_an_event(way: &str) {
    let session = Session::begin();
    let change = |table: &mut sys::PJRT_Api| {
        instead!(table.PJRT_Buffer_ToHostBuffer = |_args: PJRT_Buffer_ToHostBuffer_Args, _own| OK);
        instead!(table.PJRT_Buffer_CopyRawToHost = |_args: PJRT_Buffer_CopyRawToHost_Args, _own| OK);
    };
    let client = client_of(&try_load(&session, change).unwrap(), 1, "now");
    let buffers = put(&client, &[1.]);
    let copy = || match way {
        "whole" => buffers[0].copy_into_bytes(&mut [0; 4]),
        _ => buffers[0].copy_part_into(0, &mut [0; 4]),
    };
    // Nothing comes back: neither a result nor a panic.
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(copy));
    panic!("it went on with {caught:?}");
}

#[test]
fn a_store_without_a_way_to_make_errors_gives_an_empty_value() {
    let session = Session::begin();
    let change = |table: &mut sys::PJRT_Api| {
        instead!(
            table.PJRT_Client_Create = |args: PJRT_Client_Create_Args, own| {
                let error = own();
                // SAFETY: the struct is live, the store is there during the call, and the value is this function's.
                unsafe {
                    let mut get = sys::PJRT_KeyValueTryGetCallback_Args {
                        user_arg: (*args).kv_try_get_user_arg,
                        value: ptr::dangling_mut(),
                        value_size: 9,
                        ..Struct::new()
                    };
                    assert!((*args).kv_try_get_callback.unwrap()(&mut get).is_null());
                    assert_eq!((get.value, get.value_size), (ptr::null_mut(), 0));
                    get.value_deleter_callback.unwrap()(get.value);
                }
                error
            }
        );
    };
    let plugin = try_load(&session, change).unwrap();
    Client::with_store(&plugin, &ClientOptions::default(), Arc::new(MemoryStore::default())).unwrap();
}
