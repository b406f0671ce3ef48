//! Copies to devices and back, whose work comes late, and on another thread.

use std::sync::Arc;

use super::*;

#[test]
fn a_client_outlives_its_buffers() {
    let session = Session::begin();
    let client = client(&session, 2, "now");
    let buffer = client.buffer_from_host(&array(&[1.]), &client.devices()[1]).unwrap();
    drop(client);
    assert_eq!(session.calls("PJRT_Client_Destroy"), 0);
    assert_eq!(buffer.device().id(), 1);
    drop(buffer);
    assert_eq!(session.calls("PJRT_Client_Destroy"), 1);
}

#[test]
fn devices_and_memories_are_read() {
    let session = Session::begin();
    let options = ClientOptions::default().with("devices", 3).with("addressable", 2).with("process_index", 5);
    let client = Client::new(&load(&session), &options).unwrap();
    assert_eq!((client.platform_name(), client.process_index()), ("fake", 5));
    let ids = |devices: Vec<&Device>| devices.iter().map(|device| device.id()).collect::<Vec<_>>();
    assert_eq!(ids(client.devices().iter().collect()), [0, 1, 2]);
    assert_eq!(ids(client.addressable_devices().collect()), [0, 1]);
    assert_eq!(client.devices()[2].description().process_index(), 6);
    let error = client.buffer_from_host(&array(&[1.]), &client.devices()[2]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused);
}

#[test]
fn no_devices_at_all() {
    let session = Session::begin();
    let client = client(&session, 0, "now");
    assert_eq!(client.devices().len(), 0);
    assert_eq!(compile(&client, "nothing").unwrap_err().kind(), ErrorKind::Refused);
}

#[test]
fn host_memory_can_go_as_soon_as_a_copy_is_called() {
    let session = Session::begin();
    let client = client(&session, 1, "late");
    let mut array = array(&[1., 2.]);
    let buffer = client.buffer_from_host(&array, &client.devices()[0]).unwrap();
    array.bytes_mut().fill(0xff);
    drop(array);
    assert!(!buffer.ready().unwrap().is_ready().unwrap());
    assert_eq!(buffer.to_host().unwrap().as_slice::<f32>().unwrap(), [1., 2.]);
    assert!(buffer.ready().unwrap().is_ready().unwrap());
}

#[test]
fn a_pending_copy_is_waited_for_before_its_memory_goes() {
    let session = Session::begin();
    let client = client(&session, 1, "late");
    let buffers = put(&client, &[3.]);
    let pending = buffers[0].copy_to_host_async().unwrap();
    drop((buffers, client));
    assert!(!pending.is_ready().unwrap());
    drop(pending);
    assert_eq!(session.calls("PJRT_Event_Await"), 1);
}

#[test]
fn shared_host_memory_is_held_until_the_plugin_is_done() {
    let session = Session::begin();
    let client = client(&session, 1, "late");
    let array = Arc::new(array(&[1.]));
    drop(client.buffer_from_shared(array.clone(), &client.devices()[0]).unwrap());
    drop(client);
    assert_eq!(Arc::strong_count(&array), 2);
    session.release();
    assert_eq!(Arc::strong_count(&array), 1);
}

#[test]
fn copies_and_transfers_that_fail_say_so() {
    let session = Session::begin();
    let client = client(&session, 1, "late");
    let buffers = put(&client, &[1.]);
    session.fail("PJRT_Buffer_ToHostBuffer", 14, "the device is gone");
    let error = buffers[0].to_host().unwrap_err();
    assert_eq!(error.to_string(), "unavailable: PJRT_Buffer_ToHostBuffer: the device is gone");
    session.fail("PJRT_Client_BufferFromHostBuffer", 8, "full");
    let array = Arc::new(array(&[1.]));
    let error = client.buffer_from_shared(array.clone(), &client.devices()[0]).unwrap_err();
    assert_eq!(error.code(), Some(StatusCode::ResourceExhausted));
    assert_eq!(Arc::strong_count(&array), 1);
}

/// Borrowed memory that is freed or written over at once, while the plugin reads it later and on another thread.
#[test]
fn memory_that_is_gone_at_once_gives_right_sums() {
    let session = Session::begin();
    let client = client(&session, 1, "late");
    let device = &client.devices()[0];
    let n_rounds = 1000;
    for round in 0..n_rounds {
        let len = 1 + round % 7;
        let executable = compile(&client, &format!("sum s32[{len}]")).unwrap();
        let values: Vec<i32> = (0..len).map(|index| (round * 31 + index) as i32).collect();
        let mut array = HostArray::from_slice(&[len], &values).unwrap();
        let buffer = match round % 2 {
            0 => {
                let buffer = client.buffer_from_host(&array, device).unwrap();
                array.bytes_mut().fill(0xff);
                buffer
            }
            _ => client.buffer_from_shared(Arc::new(array), device).unwrap(),
        };
        let execution = executable.execute(vec![Arg::Donate(vec![buffer])]).unwrap();
        drop(executable);
        let sum = execution.outputs[0][0].to_host().unwrap();
        assert_eq!(sum.as_slice::<i32>().unwrap(), [values.iter().sum::<i32>()]);
    }
}
