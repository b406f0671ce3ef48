//! Programs: what they are given, what they give, and how they fail.

use super::*;

#[test]
fn results_are_computed_and_donated_arguments_are_gone() {
    let session = Session::begin();
    let client = client(&session, 1, "late");
    let executable = compile(&client, "donate add f32[2]").unwrap();
    let (a, b) = (put(&client, &[1., 2.]), put(&client, &[10., 20.]));
    let execution = executable.execute(vec![Arg::Donate(a), Arg::Borrow(&b)]).unwrap();
    assert_eq!(execution.outputs[0][0].to_host().unwrap(), array(&[11., 22.]));
    execution.wait().unwrap();

    // Borrowed arguments keep their contents, although the program could have taken them.
    let execution = executable.execute(vec![Arg::Borrow(&b), Arg::Borrow(&b)]).unwrap();
    assert_eq!(execution.outputs[0][0].to_host().unwrap(), array(&[20., 40.]));
    assert!(!b[0].is_deleted().unwrap());
    assert_eq!(b[0].to_host().unwrap(), array(&[10., 20.]));
}

#[test]
fn a_program_with_neither_arguments_nor_results() {
    let session = Session::begin();
    let client = client(&session, 1, "thread");
    let execution = compile(&client, "nothing").unwrap().execute(Vec::new()).unwrap();
    assert_eq!(execution.outputs.len(), 0);
    execution.wait().unwrap();
}

#[test]
fn replicas_run_on_the_devices_that_are_assigned() {
    let session = Session::begin();
    let client = client(&session, 4, "thread");
    let options = CompileOptions {
        num_replicas: 2,
        num_partitions: 2,
        device_assignment: vec![3, 1, 0, 2],
        ..CompileOptions::default()
    };
    let executable = client.compile(b"identity f32[1]", ProgramFormat::Mlir, &options).unwrap();
    let ids: Vec<i64> = executable.addressable_devices().map(Device::id).collect();
    assert_eq!(ids, [3, 1, 0, 2]);
    let args = ids
        .iter()
        .map(|&id| client.buffer_from_host(&array(&[id as f32]), client.device(id).unwrap()).unwrap());
    let execution = executable.execute(vec![Arg::Donate(args.collect())]).unwrap();
    drop((executable, client));
    let results: Vec<f32> = execution.outputs[0]
        .iter()
        .map(|buffer| buffer.to_host().unwrap().as_slice::<f32>().unwrap()[0])
        .collect();
    assert_eq!(results, [3., 1., 0., 2.]);
}

#[test]
fn a_failure_while_running_is_told_by_all_that_comes_of_it() {
    let session = Session::begin();
    let client = client(&session, 1, "late");
    let execution = compile(&client, "run-fail 8 no more room").unwrap().execute(Vec::new()).unwrap();
    let identity = compile(&client, "identity f32[]").unwrap();
    let next = identity.execute(vec![Arg::Borrow(&execution.outputs[0])]).unwrap();
    for error in [
        execution.wait().unwrap_err(),
        execution.outputs[0][0].to_host().unwrap_err(),
        execution.outputs[0][0].ready().unwrap().wait().unwrap_err(),
        next.wait().unwrap_err(),
        next.outputs[0][0].to_host().unwrap_err(),
    ] {
        assert_eq!((error.code(), error.message()), (Some(StatusCode::ResourceExhausted), "no more room"));
    }
}

#[test]
fn a_program_that_does_not_compile_says_why() {
    let session = Session::begin();
    let client = client(&session, 1, "now");
    let error = compile(&client, "module {}\n// fake: fail 12 no such op").unwrap_err();
    assert_eq!(error.to_string(), "unimplemented: PJRT_Client_Compile: no such op");
    let error = compile(&client, "identity f32[-1]").unwrap_err();
    assert_eq!(error.to_string(), "unsupported: parameter 0: its dims are [-1]");
    compile(&client, "allocate 1000000").unwrap();
}

#[test]
fn one_client_serves_several_threads() {
    let session = Session::begin();
    let client = client(&session, 1, "thread");
    let executable = compile(&client, "add f32[3]").unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4u8 {
            let (client, executable) = (&client, &executable);
            scope.spawn(move || {
                for round in 0..25u8 {
                    let (a, b) = (f32::from(thread), f32::from(round));
                    let args = vec![Arg::Donate(put(client, &[a; 3])), Arg::Donate(put(client, &[b; 3]))];
                    let execution = executable.execute(args).unwrap();
                    assert_eq!(execution.outputs[0][0].to_host().unwrap(), array(&[a + b; 3]));
                    execution.wait().unwrap();
                }
            });
        }
    });
}

#[test]
fn executables_are_described() {
    let session = Session::begin();
    let client = client(&session, 1, "now");
    let loaded = compile(&client, "add f32[2,3]").unwrap();
    let executable = loaded.executable();
    let ty = "f32[2,3]";
    assert_eq!(loaded.parameter_types().iter().map(ToString::to_string).collect::<Vec<_>>(), [ty, ty]);
    assert_eq!(loaded.output_types().iter().map(ToString::to_string).collect::<Vec<_>>(), [ty]);
    assert_eq!(executable.memory_stats().unwrap().argument, 48);
    assert_eq!(executable.cost_analysis().unwrap(), [("flops".to_owned(), NamedValue::F32(1.))]);
    assert_eq!(executable.fingerprint().unwrap(), b"add f32[2,3]");
    executable.serialize().unwrap();
}

#[test]
fn topologies_are_described_and_compiled_for() {
    let session = Session::begin();
    let plugin = load(&session);
    let topology = Topology::new(&plugin, "fake:4", &ClientOptions::default()).unwrap();
    let ids: Vec<i64> = topology.devices().iter().map(DeviceDescription::id).collect();
    assert_eq!(ids, [0, 1, 2, 3]);
    let options = CompileOptions { num_partitions: 4, ..CompileOptions::default() };
    let executable = topology.compile(b"sum f32[8]", ProgramFormat::Mlir, &options).unwrap();
    drop(topology);
    assert_eq!(executable.num_partitions(), Ok(4));
    let error = Topology::new(&plugin, "v5e:2x2", &ClientOptions::default()).unwrap_err();
    assert_eq!(error.code(), Some(StatusCode::InvalidArgument));
}

#[test]
fn a_topology_is_what_it_was_when_it_was_written_down() {
    let session = Session::begin();
    let plugin = load(&session);
    let topology = Topology::of_client(&client(&session, 3, "late")).unwrap();
    let again = Topology::deserialize(&plugin, &topology.serialize().unwrap()).unwrap();
    assert_eq!(again.devices(), topology.devices());
    let error = Topology::deserialize(&plugin, b"damaged").unwrap_err();
    assert_eq!(error.code(), Some(StatusCode::InvalidArgument));
    let named = |count: i64| {
        let options = ClientOptions::default().with("num_slices", 1).with("num_slices", count);
        Topology::new(&plugin, "fake:4", &options).unwrap_err().to_string()
    };
    assert_eq!(named(1), "refused: topology \"fake:4\": the option num_slices is given twice");
}

#[test]
fn a_loaded_program_is_the_one_that_was_compiled() {
    let session = Session::begin();
    let client = client(&session, 4, "late");
    let options = CompileOptions {
        num_replicas: 2,
        num_partitions: 2,
        device_assignment: vec![3, 1, 0, 2],
        ..CompileOptions::default()
    };
    let compiled = client.compile(b"identity f32[1]", ProgramFormat::Mlir, &options).unwrap();
    let kept = compiled.executable().serialize().unwrap();
    let taken = SerializedExecutable::from_trusted(kept.bytes().to_vec(), kept.digest()).unwrap();
    assert_eq!(taken, kept);
    let loaded = client.load(&taken).unwrap();
    assert_eq!(loaded.device_assignment(), Ok(vec![3, 1, 0, 2]));
    let args =
        loaded.addressable_devices().map(|device| client.buffer_from_host(&array(&[5.]), device).unwrap());
    let execution = loaded.execute([Arg::Donate(args.collect())]).unwrap();
    for output in &execution.outputs[0] {
        assert_eq!(output.to_host().unwrap(), array(&[5.]));
    }
}

#[test]
fn an_executable_of_another_plugin_is_refused() {
    let session = Session::begin();
    let kept = compile(&client(&session, 1, "now"), "nothing").unwrap().executable().serialize().unwrap();
    let other = try_load(&session, |table| table.pjrt_api_version.minor_version = 106).unwrap();
    let attributes = "0 bytes, integer -7, number 0.5, stablehlo_current_version [1, 2, 3], truth true, words a \
                      plugin for tests";
    let error = client_of(&other, 1, "now").load(&kept).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "refused: serialized executable: a plugin with PJRT API 0.81, {attributes} has made it, this one has \
             PJRT API 0.106, {attributes}"
        )
    );
    assert_eq!(session.calls("PJRT_Executable_DeserializeAndLoad"), 0);
}

#[test]
fn bytes_that_are_no_executable_are_refused() {
    let session = Session::begin();
    let client = client(&session, 1, "now");
    let take = |bytes: &[u8]| {
        let digest = <sha2::Sha256 as sha2::Digest>::digest(bytes).into();
        SerializedExecutable::from_trusted(bytes.to_vec(), digest)
    };
    let error = take(b"an executable").unwrap_err();
    assert_eq!(
        error.to_string(),
        "refused: serialized executable: it does not begin as what this version of the library has serialized"
    );
    // Cut off in the line of the plugin.
    let cut = take(b"shardwright-pjrt-executable-1\nPJRT").unwrap();
    assert_eq!(client.load(&cut).unwrap_err().kind(), ErrorKind::Refused);
}

#[test]
fn a_program_on_devices_of_another_process_is_not_started_here() {
    let session = Session::begin();
    let options = ClientOptions::default().with("devices", 2).with("addressable", 1);
    let client = Client::new(&load(&session), &options).unwrap();
    let options = CompileOptions { device_assignment: vec![1], ..CompileOptions::default() };
    let executable = client.compile(b"identity f32[1]", ProgramFormat::Mlir, &options).unwrap();
    assert_eq!(executable.addressable_devices().len(), 0);
    assert_eq!(executable.device_assignment(), Ok(vec![1]));
    let error = executable.execute([Arg::Donate(Vec::new())]).err().unwrap();
    assert_eq!(error.to_string(), "refused: execute: the program runs on no device of this process");
}

#[test]
fn waiting_for_a_program_waits_for_all_its_devices() {
    let session = Session::begin();
    let client = client(&session, 3, "late");
    let options = CompileOptions { num_partitions: 3, ..CompileOptions::default() };
    let executable = client.compile(b"run-fail 8 no more room", ProgramFormat::Mlir, &options).unwrap();
    let execution = executable.execute([]).unwrap();
    assert_eq!(execution.wait().unwrap_err().message(), "no more room");
    assert_eq!(session.calls("PJRT_Event_Await"), 3);
}

#[test]
fn arguments_in_another_memory_are_refused() {
    let session = Session::begin();
    let client = client(&session, 1, "late");
    let executable = compile(&client, "donate identity f32[1]").unwrap();
    let device = &client.devices()[0];
    let pinned = device.memory("pinned_host").unwrap();
    let there = client.buffer_from_host(&array(&[1.]), pinned).unwrap();
    let back = there.copy_to(device).unwrap();
    let run = |buffer| executable.execute([Arg::Donate(vec![buffer])]);
    assert_eq!(
        run(there).err().unwrap().to_string(),
        "refused: execute: argument 0: a buffer in the default memory is needed, got one in pinned_host"
    );
    let result = run(back).unwrap().outputs.remove(0).remove(0);
    let sent = result.copy_to(pinned).unwrap();
    assert_eq!(run(sent).err().unwrap().kind(), ErrorKind::Refused);
    let named = client.buffer_from_host(&array(&[1.]), device.memory("device").unwrap()).unwrap();
    assert_eq!(run(named).unwrap().outputs[0][0].to_host().unwrap(), array(&[1.]));
}

#[test]
fn shardings_come_as_the_plugin_has_them() {
    let session = Session::begin();
    let client = client(&session, 2, "now");
    let options = CompileOptions { num_partitions: 2, ..CompileOptions::default() };
    let loaded = client.compile(b"sum f32[4]", ProgramFormat::Mlir, &options).unwrap();
    // Tiles [2], counted in [2], which is not transposed.
    let tiled = vec![1 << 3, 3, 3 << 3 | 2, 1, 2, 9 << 3 | 2, 1, 2, 10 << 3 | 2, 1, 0];
    assert_eq!(loaded.executable().parameter_shardings(), Ok(Some(vec![tiled])));
    assert_eq!(loaded.executable().output_shardings(), Ok(Some(vec![Vec::new()])));

    let without = try_load(&session, |table| table.extension_start = std::ptr::null_mut()).unwrap();
    let loaded = compile(&client_of(&without, 1, "now"), "sum f32[4]").unwrap();
    assert_eq!(loaded.executable().parameter_shardings(), Ok(None));
}
