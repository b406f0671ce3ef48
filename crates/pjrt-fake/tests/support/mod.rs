//! Calls of the plugin by its table.

use shardwright_pjrt_sys::{self as sys, Args, Struct};

/// Calls a function of the plugin: the arguments as it leaves them, or the error's message.
pub(crate) fn call<A: Args>(args: A) -> Result<A, String> {
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

/// A client with one device.
pub(crate) fn client() -> *mut sys::PJRT_Client {
    call(sys::PJRT_Client_Create_Args::new()).unwrap().client
}

/// A buffer of one `f32`, and the event that tells that the host's memory is no longer needed.
pub(crate) fn buffer(client: *mut sys::PJRT_Client) -> (*mut sys::PJRT_Buffer, *mut sys::PJRT_Event) {
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
