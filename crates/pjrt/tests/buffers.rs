//! Buffers on the real CPU plugins: ways in, ways out, memories, and what is refused.

mod plugins;

use std::sync::Arc;

use expect_test::{Expect, expect};
use shardwright_pjrt::{
    Arg, Buffer, Client, ClientOptions, CompileOptions, Error, ErrorKind, LoadedExecutable, Plugin,
    ProgramFormat,
};
use shardwright_tensor::{DType, HostArray, TensorType};

use self::plugins::on_each_cpu_plugin;

on_each_cpu_plugin! {
    every_dtype_and_shape_comes_back_as_it_was,
    host_memory_may_go_or_change_as_soon_as_a_transfer_has_begun,
    programs_write_neither_to_arrays_that_are_shared_with_the_host_nor_to_copies,
    a_shared_array_is_let_go_of_with_the_last_buffer,
    parts_are_read_from_any_byte_into_any_byte,
    memories_are_known_by_kind_and_devices,
    buffers_lie_where_they_were_put_and_copies_where_they_were_sent,
    places_of_another_client_are_refused,
    an_upload_takes_all_bytes_and_no_more,
}

fn new_client(plugin: &Plugin) -> Client {
    Client::new(plugin, &ClientOptions::default().with("cpu_device_count", 2)).unwrap()
}

fn compile(client: &Client, text: &str) -> LoadedExecutable {
    client.compile(text.as_bytes(), ProgramFormat::Mlir, &CompileOptions::default()).unwrap()
}

fn iota(dims: &[usize]) -> HostArray {
    let n: i32 = dims.iter().product::<usize>().try_into().unwrap();
    HostArray::from_slice(dims, &(0..n).collect::<Vec<_>>()).unwrap()
}

fn check_error<T>(result: Result<T, Error>, kind: ErrorKind, message: Expect) {
    let error = result.err().unwrap();
    assert_eq!(error.kind(), kind);
    message.assert_eq(&error.to_string());
}

/// The array on a device, by each of the ways in, and what they are called.
fn ways_in(client: &Client, array: &HostArray) -> Vec<(&'static str, Buffer)> {
    let device = &client.devices()[0];
    let mut upload = client.upload(array.ty(), device).unwrap();
    // Pieces of 1 to 63 bytes, which begin anywhere in the array, and an empty one.
    let (mut rest, mut lens) = (array.bytes(), (1..64).cycle());
    upload.write(Vec::new()).unwrap();
    while !rest.is_empty() {
        let piece;
        (piece, rest) = rest.split_at(lens.next().unwrap().min(rest.len()));
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

fn every_dtype_and_shape_comes_back_as_it_was(plugin: &Plugin) {
    let client = &new_client(plugin);
    for dtype in DType::ALL {
        for dims in [&[][..], &[1], &[0], &[3, 0, 2], &[5, 7], &[1000]] {
            let array = iota(dims).cast(dtype);
            for (way, buffer) in ways_in(client, &array) {
                assert_eq!(buffer.ty(), array.ty());
                assert_eq!(buffer.to_host().unwrap(), array, "{way}");
                let mut target = HostArray::zeros(array.ty().clone());
                buffer.copy_into(&mut target).unwrap();
                assert_eq!(target, array, "{way}");
            }
        }
    }
}

fn host_memory_may_go_or_change_as_soon_as_a_transfer_has_begun(plugin: &Plugin) {
    let client = &new_client(plugin);
    let device = &client.devices()[0];
    let sizes = [1, 3, 16, 17, 64, 1000, 4097, 65536];
    let sums = sizes.map(|n| {
        compile(
            client,
            &format!(
                "func.func @main(%x: tensor<{n}xi32>) -> tensor<i32> {{
               %zero = stablehlo.constant dense<0> : tensor<i32>
               %sum = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [0]
                   : (tensor<{n}xi32>, tensor<i32>) -> tensor<i32>
               return %sum : tensor<i32>
             }}"
            ),
        )
    });
    for round in 0..1000_i32 {
        let index = round as usize % sizes.len();
        let n = sizes[index];
        let values: Vec<i32> = (0..n as i32).map(|i| i ^ round).collect();
        let mut array = HostArray::from_slice(&[n], &values).unwrap();
        let buffer = match round as usize / sizes.len() % 5 {
            0 => {
                let buffer = client.buffer_from_host(&array, device).unwrap();
                array.bytes_mut().fill(0xff);
                buffer
            }
            1 => client.buffer_from_shared(Arc::new(array), device).unwrap(),
            2 => client.buffer_sharing(Arc::new(array), device).unwrap(),
            3 => client.buffer_from_owned(array, device).unwrap(),
            _ => {
                let mut upload = client.upload(array.ty(), device).unwrap();
                // Inside a larger block, at each distance from its beginning.
                let offset = round as usize % 63 + 1;
                let block = [vec![0xff; offset], array.bytes().to_vec()].concat();
                let (first, last) = block[offset..].split_at(array.bytes().len() / 2);
                upload.write(first.to_vec()).unwrap();
                upload.write(last.to_vec()).unwrap();
                upload.finish().unwrap()
            }
        };
        // Memory that is freed too early is likely to become this.
        let noise = HostArray::from_slice(&[n], &vec![-1_i32; n]).unwrap();
        let outputs = sums[index].execute(vec![Arg::Donate(vec![buffer])]).unwrap().outputs;
        let sum = outputs[0][0].to_host().unwrap();
        let expected = values.iter().fold(0_i32, |sum, value| sum.wrapping_add(*value));
        assert_eq!(sum.as_slice::<i32>().unwrap(), [expected], "round {round}");
        drop(noise);
    }
}

fn programs_write_neither_to_arrays_that_are_shared_with_the_host_nor_to_copies(plugin: &Plugin) {
    let client = &new_client(plugin);
    let double = compile(
        client,
        "func.func @main(%x: tensor<4096xi32> {tf.aliasing_output = 0 : i32}) -> tensor<4096xi32> {
           %y = stablehlo.add %x, %x : tensor<4096xi32>
           return %y : tensor<4096xi32>
         }",
    );
    let device = &client.devices()[0];
    let array = Arc::new(iota(&[4096]));
    let twice = HostArray::from_slice(&[4096], &(0..4096).map(|i| 2 * i).collect::<Vec<i32>>()).unwrap();
    let lent = [(); 2].map(|()| client.buffer_sharing(array.clone(), device).unwrap());
    for buffer in lent {
        let execution = double.execute(vec![Arg::Donate(vec![buffer])]).unwrap();
        assert_eq!(execution.outputs[0][0].to_host().unwrap(), twice);
        assert_eq!(*array, iota(&[4096]));
    }
    let given = client.buffer_from_owned(iota(&[4096]), device).unwrap();
    let copies = [given.copy_to(device).unwrap(), given.copy_to(device.default_memory().unwrap()).unwrap()];
    let execution = double.execute(vec![Arg::Donate(vec![given])]).unwrap();
    assert_eq!(execution.outputs[0][0].to_host().unwrap(), twice);
    for copy in copies {
        assert_eq!(copy.to_host().unwrap(), *array);
    }
}

fn a_shared_array_is_let_go_of_with_the_last_buffer(plugin: &Plugin) {
    let client = &new_client(plugin);
    let devices = client.devices();
    let array = Arc::new(iota(&[4096]));
    let buffers = [&devices[0], &devices[1]].map(|d| client.buffer_sharing(array.clone(), d).unwrap());
    for buffer in &buffers {
        assert_eq!(buffer.to_host().unwrap(), *array);
    }
    drop(buffers);
    // The plugin may free on its own threads, which get their turn while it is asked for other things.
    let let_go = (0..10_000).any(|_| {
        client.buffer_from_host(&array, &devices[0]).unwrap().to_host().unwrap();
        Arc::strong_count(&array) == 1
    });
    assert!(let_go);
}

fn parts_are_read_from_any_byte_into_any_byte(plugin: &Plugin) {
    let client = &new_client(plugin);
    let device = &client.devices()[0];
    let array = iota(&[7, 9]);
    let buffer = client.buffer_from_host(&array, device).unwrap();
    let bytes = array.bytes();
    for (offset, len) in [(0, bytes.len()), (0, 0), (bytes.len(), 0), (1, 5), (4 * 9, 4 * 18), (17, 63)] {
        for shift in [0, 1, 3, 8] {
            let mut block = vec![0xff; shift + len];
            buffer.copy_part_into(offset, &mut block[shift..]).unwrap();
            assert_eq!(block[shift..], bytes[offset..offset + len]);
            assert!(block[..shift].iter().all(|&byte| byte == 0xff));
        }
    }
    let mut block = vec![0xff; bytes.len() + 5];
    buffer.copy_into_bytes(&mut block[5..]).unwrap();
    assert_eq!(&block[5..], bytes);

    check_error(
        buffer.copy_part_into(248, &mut [0; 8]),
        ErrorKind::Refused,
        expect!["refused: copy a part to host: 8 bytes at byte 248 are not inside s32[7,9], 252 bytes"],
    );
    check_error(
        buffer.copy_part_into(usize::MAX, &mut [0; 8]),
        ErrorKind::Refused,
        expect![[
            "refused: copy a part to host: 8 bytes at byte 18446744073709551615 are not inside s32[7,9], 252 bytes"
        ]],
    );
    check_error(
        buffer.copy_into_bytes(&mut [0; 3]),
        ErrorKind::Refused,
        expect!["refused: copy to host: s32[7,9] takes 252 bytes, the target has 3"],
    );
    check_error(
        buffer.copy_into(&mut HostArray::zeros(TensorType::new(DType::F32, [7, 9]).unwrap())),
        ErrorKind::Refused,
        expect!["refused: copy to host: the buffer is s32[7,9], the target f32[7,9]"],
    );
}

fn memories_are_known_by_kind_and_devices(plugin: &Plugin) {
    let client = &new_client(plugin);
    let all: Vec<_> = client.memories().map(|m| (m.kind(), m.device_ids().to_vec())).collect();
    let kinds = ["device", "pinned_host", "unpinned_host"];
    let expected = [0, 1].map(|id| kinds.map(|kind| (kind, vec![id]))).concat();
    assert_eq!(all, expected);
    let ids: Vec<i64> = client.memories().map(|memory| memory.id()).collect();
    assert_eq!(ids, [0, 1, 2, 3, 4, 5]);
    let device = &client.devices()[1];
    assert_eq!(device.default_memory().unwrap(), device.memory("device").unwrap());
    check_error(
        device.memory("hbm"),
        ErrorKind::Refused,
        expect![[
            r#"refused: memory: CpuDevice(id=1) reaches no memory of kind "hbm"; it has: device, pinned_host, unpinned_host"#
        ]],
    );
}

fn buffers_lie_where_they_were_put_and_copies_where_they_were_sent(plugin: &Plugin) {
    let client = &new_client(plugin);
    let array = iota(&[5, 3]);
    let start = client.buffer_from_host(&array, &client.devices()[0]).unwrap();
    for device in client.devices() {
        let copy = start.copy_to(device).unwrap();
        assert_eq!((copy.device().id(), copy.memory().unwrap()), (device.id(), device.default_memory()));
        for memory in device.memories() {
            let there = client.buffer_from_host(&array, memory).unwrap();
            let mut upload = client.upload(array.ty(), memory).unwrap();
            upload.write(array.bytes().to_vec()).unwrap();
            let back = there.copy_to(&client.devices()[0]).unwrap();
            assert_eq!(back.memory().unwrap(), client.devices()[0].default_memory());
            let sent = copy.copy_to(memory).unwrap();
            for buffer in [there, upload.finish().unwrap(), sent] {
                assert_eq!(buffer.device().id(), device.id());
                assert_eq!(buffer.memory().unwrap(), Some(memory));
                assert_eq!(buffer.to_host().unwrap(), array);
            }
            assert_eq!(back.to_host().unwrap(), array);
        }
    }
}

fn places_of_another_client_are_refused(plugin: &Plugin) {
    let (client, other) = (new_client(plugin), new_client(plugin));
    let theirs = &other.devices()[1];
    let array = iota(&[2]);
    let buffer = client.buffer_from_host(&array, &client.devices()[0]).unwrap();
    let refused =
        expect!["refused: copy from host: CpuDevice(id=1) is not an addressable device of this client"];
    check_error(client.buffer_from_host(&array, theirs), ErrorKind::Refused, refused);
    check_error(
        buffer.copy_to(theirs),
        ErrorKind::Refused,
        expect!["refused: copy to device: CpuDevice(id=1) is not an addressable device of this client"],
    );
    let memory = theirs.default_memory().unwrap().clone();
    drop(other);
    check_error(
        client.upload(array.ty(), &memory),
        ErrorKind::Refused,
        expect![
            "refused: upload: CPU_DEVICE_3 is not among this client's memories: CPU_DEVICE_0, PINNED_HOST_1, UNPINNED_HOST_2, CPU_DEVICE_3, PINNED_HOST_4, UNPINNED_HOST_5"
        ],
    );
}

fn an_upload_takes_all_bytes_and_no_more(plugin: &Plugin) {
    let client = &new_client(plugin);
    let device = &client.devices()[0];
    let ty = TensorType::new(DType::F32, [6]).unwrap();
    let mut upload = client.upload(&ty, device).unwrap();
    upload.write(vec![0; 20]).unwrap();
    check_error(
        upload.write(vec![0; 5]),
        ErrorKind::Refused,
        expect!["refused: upload: f32[6] takes 24 bytes, got 5 after 20"],
    );
    assert_eq!(upload.written(), 20);
    check_error(
        upload.finish(),
        ErrorKind::Refused,
        expect!["refused: upload: f32[6] takes 24 bytes, only 20 were written"],
    );
    let absurd = TensorType::new(DType::F32, [1 << 40]).unwrap();
    let error = client.upload(&absurd, device).err().unwrap();
    assert_eq!(error.code(), Some(shardwright_pjrt::StatusCode::ResourceExhausted), "{error}");
}
