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
    let executable = compile(&client, "add f32[2,3]").unwrap();
    let ty = "f32[2,3]";
    assert_eq!(executable.parameter_types().iter().map(ToString::to_string).collect::<Vec<_>>(), [ty, ty]);
    assert_eq!(executable.output_types().iter().map(ToString::to_string).collect::<Vec<_>>(), [ty]);
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
