//! What the safe layer may ask of the plugin by and by works when the functions are called one by one.
#![expect(unsafe_code, reason = "the functions are those of a C interface")]

mod support;

use shardwright_pjrt_fake::Session;
use shardwright_pjrt_sys::{self as sys, Struct};
use support::{buffer, call, client};

/// The client's one device, and its memories.
fn device(client: *mut sys::PJRT_Client) -> (*mut sys::PJRT_Device, Vec<*mut sys::PJRT_Memory>) {
    let devices = call(sys::PJRT_Client_Devices_Args { client, ..Struct::new() }).unwrap();
    // SAFETY: there is one device, and as many memories as the plugin says.
    unsafe {
        let device = *devices.devices;
        let args = call(sys::PJRT_Device_AddressableMemories_Args { device, ..Struct::new() }).unwrap();
        (device, std::slice::from_raw_parts(args.memories, args.num_memories).to_vec())
    }
}

fn value(buffer: *mut sys::PJRT_Buffer) -> f32 {
    let mut value = 0f32;
    let args = sys::PJRT_Buffer_CopyRawToHost_Args {
        buffer,
        dst: (&raw mut value).cast(),
        transfer_size: 4,
        ..Struct::new()
    };
    let event = call(args).unwrap().event;
    call(sys::PJRT_Event_Await_Args { event, ..Struct::new() }).unwrap();
    destroy_event(event);
    value
}

fn destroy_event(event: *mut sys::PJRT_Event) {
    call(sys::PJRT_Event_Destroy_Args { event, ..Struct::new() }).unwrap();
}

fn destroy(buffer: *mut sys::PJRT_Buffer) {
    call(sys::PJRT_Buffer_Destroy_Args { buffer, ..Struct::new() }).unwrap();
}

#[test]
fn buffers_are_copied_to_devices_and_memories() {
    let _session = Session::begin();
    let client = client();
    let (device, memories) = device(client);
    let (source, event) = buffer(client);
    destroy_event(event);

    let to_device =
        sys::PJRT_Buffer_CopyToDevice_Args { buffer: source, dst_device: device, ..Struct::new() };
    let to_memory =
        sys::PJRT_Buffer_CopyToMemory_Args { buffer: source, dst_memory: memories[1], ..Struct::new() };
    for (copy, memory) in [
        (call(to_device).unwrap().dst_buffer, memories[0]),
        (call(to_memory).unwrap().dst_buffer, memories[1]),
    ] {
        assert_eq!(value(copy), 1.);
        assert_eq!(
            call(sys::PJRT_Buffer_Memory_Args { buffer: copy, ..Struct::new() }).unwrap().memory,
            memory
        );
        assert_eq!(
            call(sys::PJRT_Buffer_Device_Args { buffer: copy, ..Struct::new() }).unwrap().device,
            device
        );
        destroy(copy);
    }
    let in_use = || call(sys::PJRT_Device_MemoryStats_Args { device, ..Struct::new() }).unwrap().bytes_in_use;
    assert_eq!(in_use(), 4);
    call(sys::PJRT_Buffer_Delete_Args { buffer: source, ..Struct::new() }).unwrap();
    assert_eq!(in_use(), 0);
    let after = call(sys::PJRT_Buffer_ReadyEvent_Args { buffer: source, ..Struct::new() });
    assert_eq!(after.map(drop).unwrap_err(), "Buffer has been deleted or donated.");
    destroy(source);
    call(sys::PJRT_Client_Destroy_Args { client, ..Struct::new() }).unwrap();
}

#[test]
fn parts_that_are_not_there_are_refused() {
    let _session = Session::begin();
    let client = client();
    let (buffer, event) = buffer(client);
    destroy_event(event);
    for (offset, transfer_size) in [(1, 4), (-1, 4), (0, -1), (i64::MAX, i64::MAX)] {
        let args = sys::PJRT_Buffer_CopyRawToHost_Args { buffer, offset, transfer_size, ..Struct::new() };
        call(args).map(drop).unwrap_err();
    }
    destroy(buffer);
    call(sys::PJRT_Client_Destroy_Args { client, ..Struct::new() }).unwrap();
}

#[test]
fn borrowed_memory_is_in_use_until_the_buffer_goes() {
    let _session = Session::begin();
    let client = client();
    let mut host = 1f32;
    let args = call(sys::PJRT_Client_BufferFromHostBuffer_Args {
        client,
        data: (&raw mut host).cast(),
        type_: sys::PJRT_Buffer_Type_F32,
        host_buffer_semantics: sys::PJRT_HostBufferSemantics_kImmutableZeroCopy,
        device: device(client).0,
        ..Struct::new()
    });
    let (buffer, event) = args.map(|args| (args.buffer, args.done_with_host_buffer)).unwrap();
    let is_done = || call(sys::PJRT_Event_IsReady_Args { event, ..Struct::new() }).unwrap().is_ready;
    // SAFETY: nobody reads it at this time.
    unsafe { (&raw mut host).write(2.) };
    assert_eq!((value(buffer), is_done()), (2., false));
    destroy(buffer);
    assert!(is_done());
    destroy_event(event);
    call(sys::PJRT_Client_Destroy_Args { client, ..Struct::new() }).unwrap();
}

#[test]
fn a_buffer_is_filled_piece_by_piece() {
    let _session = Session::begin();
    let client = client();
    let memory = device(client).1[0];
    let dims = [2];
    let mut spec = sys::PJRT_ShapeSpec {
        dims: dims.as_ptr(),
        num_dims: 1,
        element_type: sys::PJRT_Buffer_Type_U16,
        ..Struct::new()
    };
    let args = sys::PJRT_Client_CreateBuffersForAsyncHostToDevice_Args {
        client,
        shape_specs: &mut spec,
        num_shape_specs: 1,
        memory,
        ..Struct::new()
    };
    let transfer_manager = call(args).unwrap().transfer_manager;
    let retrieve = || {
        call(sys::PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer_Args {
            transfer_manager,
            ..Struct::new()
        })
    };
    let buffer = retrieve().unwrap().buffer_out;
    assert_eq!(retrieve().map(drop).unwrap_err(), "the buffer was retrieved before");

    let send = |piece: &[u8], offset: i64, is_last_transfer| {
        let args = call(sys::PJRT_AsyncHostToDeviceTransferManager_TransferData_Args {
            transfer_manager,
            data: piece.as_ptr().cast(),
            offset,
            transfer_size: piece.len() as i64,
            is_last_transfer,
            ..Struct::new()
        });
        args.map(|args| destroy_event(args.done_with_h2d_transfer))
    };
    let one = 1f32.to_ne_bytes();
    assert_eq!(send(&one, 1, false).unwrap_err(), "4 bytes from 1 of 4");
    send(&one[..3], 0, false).unwrap();
    send(&one[3..], 3, true).unwrap();
    assert_eq!(send(&one, 0, true).unwrap_err(), "a piece after the last one");
    call(sys::PJRT_AsyncHostToDeviceTransferManager_Destroy_Args { transfer_manager, ..Struct::new() })
        .unwrap();
    // Two halves of a number, read as the whole.
    assert_eq!(value(buffer), 1.);
    destroy(buffer);
    call(sys::PJRT_Client_Destroy_Args { client, ..Struct::new() }).unwrap();
}

#[test]
fn bytes_are_loaded_if_they_are_those_of_an_executable() {
    let _session = Session::begin();
    let client = client();
    let load = |bytes: &str| {
        call(sys::PJRT_Executable_DeserializeAndLoad_Args {
            client,
            serialized_executable: bytes.as_ptr().cast(),
            serialized_executable_size: bytes.len(),
            ..Struct::new()
        })
    };
    let executable = load("shardwright-pjrt-fake\n1 1\n0\nsum f32[2]").unwrap().loaded_executable;
    call(sys::PJRT_LoadedExecutable_Destroy_Args { executable, ..Struct::new() }).unwrap();
    for (bytes, message) in [
        ("", "these are not the bytes of an executable"),
        ("shardwright-pjrt-fake\n1 one\n0\nsum f32[2]", "these are not the bytes of an executable"),
        ("shardwright-pjrt-fake\n1 1\n3\nsum f32[2]", "there is no device 3"),
        ("shardwright-pjrt-fake\n1 1\n0\nsum f32[2", "\"f32[2\" is no type such as f32[2,3]"),
    ] {
        assert_eq!(load(bytes).map(drop).unwrap_err(), message);
    }
    call(sys::PJRT_Client_Destroy_Args { client, ..Struct::new() }).unwrap();
}
