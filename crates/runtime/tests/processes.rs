//! Arrays over the devices of two processes, as each of them sees them. Both are clients of the fake plugin, each with
//! two devices of its own, which are the first ones: the second process has them at the end of its mesh.

use std::ops::Range;
use std::sync::Arc;

use expect_test::{Expect, expect};
use shardwright_mesh::{AbstractMesh, Mesh, NamedSharding};
use shardwright_pjrt::{Arg, Buffer, ClientOptions, CompileOptions, Device, MemoryStore};
use shardwright_runtime::compile::ForeignProgram;
use shardwright_runtime::{LocalPart, Runtime, RuntimeError, RuntimeErrorKind, RuntimeOptions, ShardedArray};
use shardwright_tensor::HostArray;

/// The devices of the mesh `data=4`, as each process counts them.
const DEVICES: [[usize; 4]; 2] = [[0, 1, 2, 3], [2, 3, 0, 1]];

struct Process {
    runtime: Runtime,
    mesh: Mesh,
    /// Its partitions.
    own: Range<usize>,
}

impl Process {
    fn both() -> [Process; 2] {
        [0, 1].map(|index| {
            let mut options = RuntimeOptions::default();
            let client = ClientOptions::default().with("devices", 4).with("addressable", 2);
            options.client = client.with("process_index", index as i64);
            let runtime = Runtime::new(&shardwright_pjrt_fake::path(), &options).unwrap();
            Process { runtime, mesh: mesh("data=4", &DEVICES[index]), own: 2 * index..2 * index + 2 }
        })
    }

    fn on(&self, spec: &str) -> NamedSharding {
        self.mesh.sharding(spec.parse().unwrap()).unwrap()
    }

    fn place(&self, spec: &str, array: &HostArray) -> ShardedArray {
        ShardedArray::from_host(&self.runtime, &self.mesh, &self.on(spec), array).unwrap()
    }
}

fn mesh(shape: &str, device_ids: &[usize]) -> Mesh {
    Mesh::new(AbstractMesh::parse(shape).unwrap(), device_ids.to_vec()).unwrap()
}

fn iota(dims: &[usize]) -> HostArray {
    let n: i32 = dims.iter().product::<usize>().try_into().unwrap();
    HostArray::from_slice(dims, &(0..n).collect::<Vec<_>>()).unwrap()
}

#[track_caller]
fn check_error<T>(result: Result<T, RuntimeError>, kind: RuntimeErrorKind, expect: Expect) {
    let error = result.err().unwrap();
    expect.assert_eq(&error.to_string());
    assert_eq!(error.kind(), kind);
}

/// Checks that the array is the process's share of `whole`, buffer by buffer, and that the rest is refused.
#[track_caller]
fn check_is(process: &Process, placed: &ShardedArray, whole: &HostArray) {
    let what = format!("{placed:?} at partitions {:?}", process.own);
    assert_eq!(placed.ty(), whole.ty(), "{what}");
    assert_eq!(placed.addressable_partitions(), process.own.clone().collect::<Vec<_>>(), "{what}");
    assert!(!placed.is_fully_addressable());
    assert_eq!(placed.bytes_on_devices().unwrap().len(), 2, "{what}");
    let devices: Vec<i64> = placed.buffers().iter().map(|buffer| buffer.device().id()).collect();
    assert_eq!(devices, [0, 1], "{what}");
    for partition in 0..4 {
        let ranges = placed.sharding().shard_ranges(partition, whole.dims());
        match placed.shard(partition) {
            Ok(shard) => assert_eq!(shard, whole.slice(&ranges).unwrap(), "{what}"),
            Err(error) => assert_eq!(error.kind(), RuntimeErrorKind::NotAddressable, "{what}"),
        }
        assert_eq!(placed.shard(partition).is_ok(), process.own.contains(&partition), "{what}");
    }
    for part in placed.shards() {
        let (ranges, block) = part.unwrap();
        assert_eq!(block, whole.slice(&ranges).unwrap(), "{what}");
    }
}

#[test]
fn each_process_places_its_rows_of_one_batch() {
    for (rows, spec) in
        [(16, "(data, -)"), (6, "(data, -)"), (1, "(data, -)"), (3, "(-, data)"), (3, "(-, -)")]
    {
        let whole = iota(&[rows, 4]);
        let mut elements = 0;
        for process in Process::both() {
            let sharding = process.on(spec);
            let part = LocalPart::new(&sharding, whole.ty(), process.own.clone()).unwrap();
            // What the process has loaded: the block that it holds, and nothing else.
            let held = [0, 1].map(|dim| part.ranges(dim).first().cloned().unwrap_or_default());
            let local = whole.slice(&held).unwrap();
            let (runtime, mesh) = (&process.runtime, &process.mesh);
            let placed = ShardedArray::from_local(runtime, mesh, &sharding, whole.ty(), &local).unwrap();
            check_is(&process, &placed, &whole);
            check_is(&process, &process.place(spec, &whole), &whole);
            elements += placed.shards().map(|part| part.unwrap().1.ty().shape.element_count()).sum::<usize>();
        }
        let copies = if spec == "(-, -)" { 2 } else { 1 };
        assert_eq!(elements, copies * whole.ty().shape.element_count(), "{spec}");
    }
}

#[test]
fn blocks_of_other_processes_are_never_asked_for() {
    let [_, second] = Process::both();
    let mut asked = Vec::new();
    let ty = iota(&[8, 2]).ty().clone();
    ShardedArray::from_fn(&second.runtime, &second.mesh, &second.on("(data, -)"), &ty, |ranges| {
        asked.push(ranges[0].clone());
        Ok::<_, RuntimeError>(HostArray::from_slice(&[2, 2], &[0i32; 4]).unwrap())
    })
    .unwrap();
    assert_eq!(asked, [4..6, 6..8]);
}

#[test]
fn what_only_others_have_is_refused_by_partition_device_and_process() {
    use RuntimeErrorKind::{Data, Mesh, NotAddressable};
    let [process, _] = Process::both();
    let (runtime, whole) = (&process.runtime, iota(&[8, 4]));
    let placed = process.place("(data, -)", &whole);
    check_error(
        placed.shard(3),
        NotAddressable,
        expect![
            "partitions [3] of s32[8,4] (data, -) on data=4 are on devices [3] of processes [1]; this process, 0, has partitions [0, 1]"
        ],
    );
    check_error(
        placed.to_host(),
        NotAddressable,
        expect![
            "partitions [2, 3] of s32[8,4] (data, -) on data=4 are on devices [2, 3] of processes [1]; this process, 0, has partitions [0, 1]"
        ],
    );
    // Another part of the array than the one that is here, on one of the own devices.
    let alone = mesh("x=1", &[1]);
    check_error(
        placed.reshard(runtime, &alone, &alone.sharding("(-, x)".parse().unwrap()).unwrap()),
        NotAddressable,
        expect![
            "partitions [2] of s32[8,4] (data, -) on data=4 are on devices [2] of processes [1]; this process, 0, has partitions [0, 1]"
        ],
    );
    let theirs = mesh("x=2", &[2, 3]);
    check_error(
        ShardedArray::from_host(
            runtime,
            &theirs,
            &theirs.sharding("(x, -)".parse().unwrap()).unwrap(),
            &whole,
        ),
        Mesh,
        expect!["this process, 0, drives the devices [0, 1], and the mesh has none of them: [2, 3]"],
    );
    check_error(
        ShardedArray::from_local(runtime, &process.mesh, &process.on("(data, -)"), whole.ty(), &whole),
        Data,
        expect![
            "the local part is s32[4,4], indices [[0..4], [0..4]] of s32[8,4], but the data are s32[8,4]"
        ],
    );
}

#[test]
fn what_each_process_has_is_read_moved_and_copied_there() {
    let whole = iota(&[6, 4]);
    for process in Process::both() {
        let copies = process.place("(-, -)", &whole);
        assert_eq!(copies.to_host().unwrap(), whole);
        // Copies on both processes, cut over the two devices of each.
        let grid = mesh("host=2,x=2", &process.mesh.device_ids().collect::<Vec<_>>());
        let halves = grid.sharding("(x, -)".parse().unwrap()).unwrap();
        let halves = ShardedArray::from_host(&process.runtime, &grid, &halves, &whole).unwrap();
        assert_eq!(halves.to_host().unwrap(), whole);

        let placed = process.place("(data, -)", &whole);
        check_is(
            &process,
            &placed.reshard(&process.runtime, &process.mesh, placed.sharding()).unwrap(),
            &whole,
        );
        let offloaded = placed.to_memory("pinned_host").unwrap();
        assert_eq!(offloaded.memory_kind().unwrap(), Some("pinned_host"));
        check_is(&process, &offloaded, &whole);
        // All of it is in each process, so each can put it elsewhere among its own devices.
        let alone = mesh("x=1", &[1]);
        let alone =
            halves.reshard(&process.runtime, &alone, &alone.sharding("(x, -)".parse().unwrap()).unwrap());
        assert_eq!(alone.unwrap().to_host().unwrap(), whole);
    }
}

#[test]
fn an_array_goes_to_a_runtime_that_drives_other_devices() {
    let [process, _] = Process::both();
    let mut options = RuntimeOptions::default();
    options.client = ClientOptions::default().with("devices", 4);
    let all = Runtime::new(&shardwright_pjrt_fake::path(), &options).unwrap();
    let whole = iota(&[8, 4]);
    let halves =
        process.place("(-, -)", &whole).reshard(&all, &process.mesh, &process.on("(data, -)")).unwrap();
    assert!(halves.is_fully_addressable());
    assert_eq!(halves.to_host().unwrap(), whole);
    let back = halves.reshard(&process.runtime, &process.mesh, halves.sharding()).unwrap();
    check_is(&process, &back, &whole);
}

#[test]
fn a_runtime_tells_its_own_devices_from_all() {
    let [process, _] = Process::both();
    let ids = |devices: Vec<&Device>| devices.into_iter().map(Device::id).collect::<Vec<_>>();
    assert_eq!(ids(process.runtime.devices().collect()), [0, 1, 2, 3]);
    assert_eq!(ids(process.runtime.addressable_devices().collect()), [0, 1]);
}

#[test]
fn processes_find_each_other_through_a_store() {
    let store = MemoryStore::default();
    let options = |name, value: &str| {
        let mut options = RuntimeOptions::default();
        options.client = ClientOptions::default().with("devices", 2).with(name, value);
        options
    };
    let open = |options| {
        Runtime::with_store(&shardwright_pjrt_fake::path(), &options, Arc::new(store.clone())).unwrap()
    };
    let _first = open(options("put", "address=here"));
    let second = open(options("get", "address"));
    assert_eq!(second.client().platform_version(), "here", "the fake client shows what it got");
}

#[test]
fn a_foreign_program_takes_and_gives_the_buffers_of_its_process() {
    let program = ForeignProgram::recognise(b"module @copy {}\n// fake: identity s32[2]").unwrap();
    for (process, devices) in Process::both().iter().zip(DEVICES) {
        let device_assignment = devices.map(|id| id as i64).to_vec();
        let options = CompileOptions { num_partitions: 4, device_assignment, ..CompileOptions::default() };
        let executable = process.runtime.compile_foreign(&program, &options).unwrap();
        let placed = process.place("(data)", &iota(&[8]));
        let outputs = executable.execute([Arg::Borrow(placed.buffers())]).unwrap().outputs;
        let read = |buffer: &Buffer| buffer.to_host().unwrap();
        assert_eq!(
            outputs[0].iter().map(read).collect::<Vec<_>>(),
            process.own.clone().map(|p| placed.shard(p).unwrap()).collect::<Vec<_>>()
        );
    }
}
