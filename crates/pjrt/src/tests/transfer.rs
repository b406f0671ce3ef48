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

/// An array that comes late, by each of the ways in, and what they are called.
fn ways_in(client: &Client, array: &HostArray) -> Vec<(&'static str, Buffer)> {
    let device = &client.devices()[0];
    let mut upload = client.upload(array.ty(), device).unwrap();
    // Two, so that none has to be waited for.
    for piece in array.bytes().chunks(array.bytes().len() - 3) {
        upload.write(piece.to_vec()).unwrap();
    }
    vec![
        ("copied", client.buffer_from_host(array, device).unwrap()),
        ("shared until copied", client.buffer_from_shared(Arc::new(array.clone()), device).unwrap()),
        ("shared", client.buffer_sharing(Arc::new(array.clone()), device).unwrap()),
        ("given away", client.buffer_from_owned(array.clone(), device).unwrap()),
        ("in pieces", upload.finish().unwrap()),
    ]
}

#[test]
fn what_came_in_any_way_goes_out_in_any_way() {
    let session = Session::begin();
    let client = client(&session, 2, "late");
    let array = array(&[1., 2., 3., 4., 5.]);
    let identity = compile(&client, "donate identity f32[5]").unwrap();
    type Out = fn(&Client, &LoadedExecutable, Buffer) -> Vec<u8>;
    let ways_out: [(&str, Out); 7] = [
        ("whole", |_, _, buffer| buffer.to_host().unwrap().bytes().to_vec()),
        ("pending", |_, _, buffer| {
            let pending = buffer.copy_to_host_async().unwrap();
            drop(buffer);
            pending.wait().unwrap().bytes().to_vec()
        }),
        ("into an array", |_, _, buffer| {
            let mut target = HostArray::zeros(buffer.ty().clone());
            buffer.copy_into(&mut target).unwrap();
            target.bytes().to_vec()
        }),
        ("in parts", |_, _, buffer| {
            let mut target = [0; 20];
            for (index, part) in target.chunks_mut(7).enumerate() {
                buffer.copy_part_into(index * 7, part).unwrap();
            }
            target.to_vec()
        }),
        ("by way of another device", |client, _, buffer| {
            let copy = buffer.copy_to(&client.devices()[1]).unwrap();
            drop(buffer);
            copy.to_host().unwrap().bytes().to_vec()
        }),
        ("by way of another memory", |client, _, buffer| {
            let copy = buffer.copy_to(client.devices()[1].memory("pinned_host").unwrap()).unwrap();
            drop(buffer);
            copy.to_host().unwrap().bytes().to_vec()
        }),
        ("donated", |_, identity, buffer| {
            let execution = identity.execute([Arg::Donate(vec![buffer])]).unwrap();
            execution.outputs[0][0].to_host().unwrap().bytes().to_vec()
        }),
    ];
    for (out, go) in ways_out {
        for (way, buffer) in ways_in(&client, &array) {
            assert_eq!(go(&client, &identity, buffer), array.bytes(), "{way}, {out}");
        }
    }
}

#[test]
fn buffers_that_never_come_free_what_they_were_to_be_made_of() {
    let session = Session::begin();
    let client = client(&session, 1, "late");
    let shared = Arc::new(array(&[1.]));
    let lent = client.buffer_sharing(shared.clone(), &client.devices()[0]).unwrap();
    drop(ways_in(&client, &array(&[1., 2.])));
    drop(lent);
    assert_eq!(Arc::strong_count(&shared), 2);
    session.release();
    assert_eq!(Arc::strong_count(&shared), 1);
}

#[test]
fn a_pending_copy_keeps_its_memory_where_waiting_fails() {
    let session = Session::begin();
    let client = client(&session, 1, "late");
    let pending = put(&client, &[3.])[0].copy_to_host_async().unwrap();
    session.fail("PJRT_Event_Await", 13, "cannot wait");
    drop(pending);
    // It goes with the callback, after the copy.
    assert_eq!(session.calls("PJRT_Event_OnReady"), 1);
    session.release();
}

#[test]
fn an_upload_that_has_failed_stays_so() {
    let session = Session::begin();
    let client = client(&session, 1, "late");
    let ty = array(&[1., 2., 3.]).ty().clone();
    let begin = || client.upload(&ty, &client.devices()[0]).unwrap();
    let message = |result: Result<(), Error>| result.unwrap_err().message().to_owned();

    let mut upload = begin();
    session.fail("PJRT_AsyncHostToDeviceTransferManager_TransferData", 14, "the device is gone");
    assert_eq!(message(upload.write(vec![0; 4])), "the device is gone");
    session.fail("PJRT_AsyncHostToDeviceTransferManager_TransferData", 0, "");
    assert_eq!(message(upload.write(vec![0; 12])), "the device is gone");
    assert_eq!(message(upload.finish().map(drop)), "the device is gone");

    // The first piece is waited for when the third comes.
    let mut upload = begin();
    upload.write(vec![0; 4]).unwrap();
    upload.write(vec![0; 4]).unwrap();
    session.fail("PJRT_Event_Await", 15, "damaged on the way");
    assert_eq!(message(upload.write(vec![0; 4])), "damaged on the way");
    session.fail("PJRT_Event_Await", 0, "");
    assert_eq!(message(upload.write(vec![0; 4])), "damaged on the way");

    // What is known to have failed by the end is told there.
    let mut upload = begin();
    upload.write(vec![0; 12]).unwrap();
    session.release();
    session.fail("PJRT_Event_Await", 15, "damaged on the way");
    assert_eq!(message(upload.finish().map(drop)), "damaged on the way");
}
