//! Sharded arrays on eight virtual devices of the real CPU plugin: put there, read back, and turned into others.

use std::ops::Range;
use std::sync::OnceLock;

use expect_test::{Expect, expect};
use shardwright_mesh::{AbstractMesh, Mesh, NamedSharding};
use shardwright_runtime::{LocalPart, Runtime, RuntimeError, RuntimeOptions, ShardedArray};
use shardwright_tensor::{DType, HostArray, TensorType};

fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| Runtime::open(&RuntimeOptions::cpu_devices(8)).unwrap())
}

/// A mesh of these devices.
fn mesh(shape: &str, device_ids: &[usize]) -> Mesh {
    Mesh::new(AbstractMesh::parse(shape).unwrap(), device_ids.to_vec()).unwrap()
}

/// Two by four, in an order that nobody would guess.
fn permuted() -> Mesh {
    mesh("a=2,b=4", &[7, 6, 5, 4, 3, 2, 1, 0])
}

fn on(mesh: &Mesh, spec: &str) -> NamedSharding {
    mesh.sharding(spec.parse().unwrap()).unwrap()
}

/// Distinct values, as far as the dtype has so many.
fn iota(dims: &[usize]) -> HostArray {
    let n: i32 = dims.iter().product::<usize>().try_into().unwrap();
    HostArray::from_slice(dims, &(0..n).collect::<Vec<_>>()).unwrap()
}

fn place(mesh: &Mesh, spec: &str, array: &HostArray) -> ShardedArray {
    ShardedArray::from_host(runtime(), mesh, &on(mesh, spec), array).unwrap()
}

fn check_error<T>(result: Result<T, RuntimeError>, expect: Expect) {
    expect.assert_eq(&result.err().unwrap().to_string());
}

/// Checks each device's part, the parts in order, and the whole.
#[track_caller]
fn check_is(placed: &ShardedArray, array: &HostArray) {
    let what = format!("{placed:?}");
    assert_eq!(placed.ty(), array.ty());
    let shards = placed.mesh().device_shards(placed.sharding(), array.dims()).unwrap();
    for (device, shard) in shards {
        assert_eq!(placed.buffers()[shard.partition].device().id(), device as i64, "{what}");
        assert_eq!(placed.shard(shard.partition).unwrap(), array.slice(&shard.ranges).unwrap(), "{what}");
    }
    let mut elements = 0;
    let mut previous: Option<Vec<usize>> = None;
    for part in placed.shards() {
        let (ranges, block) = part.unwrap();
        assert_eq!(block, array.slice(&ranges).unwrap(), "{what}");
        elements += block.ty().shape.element_count();
        let start = ranges.iter().map(|r| r.start).collect();
        assert!(previous.is_none_or(|previous| previous < start), "{what}");
        previous = Some(start);
    }
    assert_eq!(elements, array.ty().shape.element_count(), "{what}");
    assert_eq!(placed.to_host().unwrap(), *array, "{what}");
}

const SPECS: [&str; 6] = ["(a, b)", "(b, a)", "(b, -)", "(-, a)", "((a,b), -)", "((b,a), -)"];

#[test]
fn each_device_holds_the_block_that_spec_and_device_order_say() {
    let (mesh, array) = (permuted(), iota(&[8, 8]));
    let mut text = String::new();
    for spec in SPECS {
        let placed = place(&mesh, spec, &array);
        check_is(&placed, &array);
        // The first number of each device's block, and the block's dims.
        let mut firsts: Vec<_> =
            placed.buffers().iter().map(|b| (b.device().id(), b.to_host().unwrap().to_f64()[0])).collect();
        firsts.sort_by_key(|(id, _)| *id);
        let firsts: Vec<f64> = firsts.into_iter().map(|(_, first)| first).collect();
        text += &format!("{spec}: {:?} {firsts:?}\n", placed.buffers()[0].ty().dims());
    }
    expect![[r#"
        (a, b): [4, 2] [38.0, 36.0, 34.0, 32.0, 6.0, 4.0, 2.0, 0.0]
        (b, a): [2, 4] [52.0, 36.0, 20.0, 4.0, 48.0, 32.0, 16.0, 0.0]
        (b, -): [2, 8] [48.0, 32.0, 16.0, 0.0, 48.0, 32.0, 16.0, 0.0]
        (-, a): [8, 4] [4.0, 4.0, 4.0, 4.0, 0.0, 0.0, 0.0, 0.0]
        ((a,b), -): [1, 8] [56.0, 48.0, 40.0, 32.0, 24.0, 16.0, 8.0, 0.0]
        ((b,a), -): [1, 8] [56.0, 40.0, 24.0, 8.0, 48.0, 32.0, 16.0, 0.0]
    "#]]
    .assert_eq(&text);
}

#[test]
fn uneven_and_empty_arrays_pass_from_each_spec_to_the_next() {
    let mesh = permuted();
    for dims in [[10, 4], [5, 3], [1, 4], [0, 4], [8, 1]] {
        let array = iota(&dims);
        let mut placed = place(&mesh, SPECS[5], &array);
        for spec in SPECS.into_iter().chain(["(-, -)", "(a, -)"]) {
            placed = placed.reshard(runtime(), &mesh, &on(&mesh, spec)).unwrap();
            assert_eq!(*placed.sharding(), on(&mesh, spec));
            check_is(&placed, &array);
        }
    }
}

#[test]
fn arrays_move_to_other_devices_and_meshes() {
    let meshes = [
        permuted(),
        mesh("a=4,b=2", &[7, 6, 5, 4, 3, 2, 1, 0]),
        mesh("a=3,b=1", &[5, 0, 2]),
        mesh("a=1,b=1", &[6]),
        mesh("a=1,b=8", &[1, 3, 5, 7, 0, 2, 4, 6]),
    ];
    for dims in [[10, 4], [5, 3], [1, 4], [0, 4]] {
        let array = iota(&dims);
        for from in &meshes {
            for to in &meshes {
                for (spec, next) in [("(a, b)", "(a, b)"), ("(b, -)", "(-, (b,a))"), ("(-, -)", "(a, -)")] {
                    let moved = place(from, spec, &array).reshard(runtime(), to, &on(to, next)).unwrap();
                    assert_eq!(moved.mesh(), to);
                    check_is(&moved, &array);
                }
            }
        }
    }
}

#[test]
fn every_dtype_passes_unchanged_through_all_of_it() {
    let (here, there) = (permuted(), mesh("x=3", &[1, 4, 2]));
    for dtype in DType::ALL {
        let array = iota(&[7, 5]).cast(dtype);
        let placed = place(&here, "(a, b)", &array);
        check_is(&placed, &array);
        check_is(&placed.reshard(runtime(), &here, &on(&here, "(b, a)")).unwrap(), &array);
        check_is(&placed.reshard(runtime(), &there, &on(&there, "(-, x)")).unwrap(), &array);
        check_is(&placed.to_memory("pinned_host").unwrap(), &array);
        let scalar = iota(&[1]).cast(dtype);
        let scalar = HostArray::from_bytes(TensorType::scalar(dtype), scalar.bytes()).unwrap();
        check_is(&place(&here, "()", &scalar), &scalar);
        check_is(
            &place(&here, "()", &scalar).reshard(runtime(), &there, &on(&there, "()")).unwrap(),
            &scalar,
        );
    }
}

#[test]
fn a_resharded_array_is_another_one() {
    let mesh = permuted();
    let array = iota(&[8, 8]);
    let placed = place(&mesh, "(a, b)", &array);
    let copy = placed.reshard(runtime(), &mesh, placed.sharding()).unwrap();
    drop(placed);
    check_is(&copy, &array);
}

#[test]
fn arrays_lie_in_the_memory_that_was_asked_for() {
    let mesh = permuted();
    let array = iota(&[10, 3]);
    let placed = place(&mesh, "(b, -)", &array);
    assert_eq!(placed.memory_kind().unwrap(), Some("device"));
    let offloaded = placed.to_memory("pinned_host").unwrap();
    drop(placed);
    assert_eq!(offloaded.memory_kind().unwrap(), Some("pinned_host"));
    check_is(&offloaded, &array);
    // Whatever needs a program, or says nothing of memory, goes by way of the devices' own.
    for back in [
        offloaded.to_memory("device").unwrap(),
        offloaded.reshard(runtime(), &mesh, offloaded.sharding()).unwrap(),
        offloaded.reshard(runtime(), &mesh, &on(&mesh, "(-, a)")).unwrap(),
        offloaded.cast(runtime(), DType::S32).unwrap(),
    ] {
        assert_eq!(back.memory_kind().unwrap(), Some("device"));
        check_is(&back, &array);
    }
    check_error(
        offloaded.to_memory("hbm"),
        expect![[
            r#"refused: memory: CpuDevice(id=7) reaches no memory of kind "hbm"; it has: device, pinned_host, unpinned_host"#
        ]],
    );
}

#[test]
fn devices_cast_as_the_host_does() {
    let mesh = permuted();
    let values: Vec<f32> = (0..30).map(|i| i as f32 + [0.0, 0.25, 0.5][i % 3]).collect();
    let values = HostArray::from_slice(&[10, 3], &values).unwrap();
    for from in [DType::F32, DType::S32, DType::Pred] {
        let array = values.cast(from);
        let placed = place(&mesh, "(b, -)", &array);
        for to in DType::ALL {
            let cast = placed.cast(runtime(), to).unwrap();
            assert_eq!(cast.sharding(), placed.sharding());
            check_is(&cast, &array.cast(to));
        }
    }
    // Wider than the target can tell apart: to the nearest, ties to even.
    let bits: Vec<u32> = (0..0x1_0000).map(|low| 0x3f80_0000 | low).collect();
    let fine = HostArray::from_slice(&[0x1_0000], &bits).unwrap();
    let ty = TensorType::new(DType::F32, [0x1_0000]).unwrap();
    let fine = HostArray::from_bytes(ty, fine.bytes()).unwrap();
    check_is(&place(&mesh, "(a)", &fine).cast(runtime(), DType::Bf16).unwrap(), &fine.cast(DType::Bf16));
}

/// The parts of all processes of two devices each, placed as each of them would place its own.
fn check_processes(rows: usize, spec: &str, expect: Expect) {
    let mesh = mesh("data=4", &[0, 1, 2, 3]);
    let sharding = on(&mesh, spec);
    let whole = iota(&[rows, 4]);
    let parts = [[0, 1], [2, 3]].map(|devices| LocalPart::new(&sharding, whole.ty(), devices).unwrap());
    expect.assert_eq(&parts.each_ref().map(LocalPart::to_string).join("\n"));

    // What each process has loaded: the rows that it holds, and nothing else.
    let rows_of = |part: &LocalPart| {
        let ranges = [part.ranges(0), part.ranges(1)];
        let span = |ranges: &[Range<usize>]| {
            ranges.first().map_or(0..0, |first| first.start..ranges.last().unwrap().end)
        };
        whole.slice(&ranges.map(span)).unwrap()
    };
    let local = parts.each_ref().map(rows_of);
    let shards = sharding.shards(whole.dims()).unwrap();
    let process_of =
        |ranges: &[Range<usize>]| shards.iter().find(|s| s.ranges == ranges).unwrap().partition / 2;
    let placed = ShardedArray::from_fn(runtime(), &mesh, &sharding, whole.ty(), |ranges| {
        parts[process_of(ranges)].block(&local[process_of(ranges)], ranges)
    });
    check_is(&placed.unwrap(), &whole);
}

#[test]
fn the_rows_of_processes_follow_each_other_whether_or_not_they_divide() {
    check_processes(
        16,
        "(data, -)",
        expect![[r#"
            s32[8,4], indices [[0..8], [0..4]] of s32[16,4]
            s32[8,4], indices [[8..16], [0..4]] of s32[16,4]"#]],
    );
    check_processes(
        6,
        "(data, -)",
        expect![[r#"
            s32[4,4], indices [[0..4], [0..4]] of s32[6,4]
            s32[2,4], indices [[4..6], [0..4]] of s32[6,4]"#]],
    );
    check_processes(
        3,
        "(data, -)",
        expect![[r#"
            s32[2,4], indices [[0..2], [0..4]] of s32[3,4]
            s32[1,4], indices [[2..3], [0..4]] of s32[3,4]"#]],
    );
    check_processes(
        1,
        "(data, -)",
        expect![[r#"
        s32[1,4], indices [[0..1], [0..4]] of s32[1,4]
        s32[0,4], indices [[], [0..4]] of s32[1,4]"#]],
    );
    check_processes(
        2,
        "(-, data)",
        expect![[r#"
            s32[2,2], indices [[0..2], [0..2]] of s32[2,4]
            s32[2,2], indices [[0..2], [2..4]] of s32[2,4]"#]],
    );
    check_processes(
        2,
        "(-, -)",
        expect![[r#"
        s32[2,4], indices [[0..2], [0..4]] of s32[2,4]
        s32[2,4], indices [[0..2], [0..4]] of s32[2,4]"#]],
    );
}

#[test]
fn a_process_gives_exactly_what_its_devices_hold() {
    let mesh = permuted();
    let array = iota(&[10, 6]);
    let ty = array.ty();
    for spec in SPECS {
        let placed = ShardedArray::from_local(runtime(), &mesh, &on(&mesh, spec), ty, &array).unwrap();
        check_is(&placed, &array);
    }
    let short = ShardedArray::from_local(runtime(), &mesh, &on(&mesh, "(b, -)"), ty, &iota(&[9, 6]));
    check_error(
        short,
        expect![
            "the local part is s32[10,6], indices [[0..10], [0..6]] of s32[10,6], but the data are s32[9,6]"
        ],
    );
    check_error(
        LocalPart::new(&on(&mesh, "(a, b)"), ty, [0, 5]),
        expect![
            "the blocks that partitions [0, 5] hold of s32[10,6] (a, b) on a=2, b=4 do not make up a rectangle, so they are not one local array; give them one by one"
        ],
    );
    check_error(
        LocalPart::new(&on(&mesh, "(a, b)"), ty, [8]),
        expect!["there is no partition 8 of (a, b) on a=2, b=4, which has 8"],
    );
    let part = LocalPart::new(&on(&mesh, "(a, b)"), ty, [4, 5]).unwrap();
    assert_eq!(part.block(&iota(&[5, 4]), &[5..10, 2..4]).unwrap().to_f64()[0], 2.0);
    check_error(
        part.block(&iota(&[5, 4]), &[0..5, 2..4]),
        expect![
            "the block at [0..5, 2..4] is not inside the local part, s32[5,4], indices [[5..10], [0..4]] of s32[10,6]"
        ],
    );
    check_error(
        part.block(&iota(&[5, 4]), &[5..10]),
        expect![
            "the block at [5..10] is not inside the local part, s32[5,4], indices [[5..10], [0..4]] of s32[10,6]"
        ],
    );
}

#[test]
fn what_does_not_fit_is_refused_by_name() {
    let (here, there) = (permuted(), mesh("x=4", &[0, 1, 2, 3]));
    let array = iota(&[8, 8]);
    let placed = place(&here, "(a, b)", &array);
    check_error(placed.shard(8), expect!["there is no partition 8 of (a, b) on a=2, b=4, which has 8"]);
    check_error(
        placed.reshard(runtime(), &there, &on(&here, "(b, a)")),
        expect!["the sharding is over mesh a=2, b=4, but the devices are arranged as x=4"],
    );
    check_error(
        placed.reshard(runtime(), &here, &on(&here, "(b)")),
        expect![
            "spec (b) is for rank 1, but shape [8, 8] has rank 2; a spec has one entry per dim, - where it is not split"
        ],
    );
    let absent = mesh("x=2", &[0, 8]);
    check_error(
        placed.reshard(runtime(), &absent, &on(&absent, "(x, -)")),
        expect![
            "the mesh names device 8, which is not among those of the platform: [0, 1, 2, 3, 4, 5, 6, 7]"
        ],
    );
    let wrong = ShardedArray::from_fn(runtime(), &here, &on(&here, "(a, -)"), array.ty(), |_| {
        Ok::<_, RuntimeError>(iota(&[4, 7]))
    });
    check_error(wrong, expect!["the block at [0..4, 0..8] of s32[8,8] was given as s32[4,7]"]);
}

#[test]
fn arrays_move_to_another_runtime() {
    let other = Runtime::open(&RuntimeOptions::cpu_devices(8)).unwrap();
    let (here, there) = (permuted(), mesh("x=4", &[0, 1, 2, 3]));
    let array = iota(&[10, 8]);
    let placed = place(&here, "(a, b)", &array);
    check_is(&placed.reshard(&other, &here, placed.sharding()).unwrap(), &array);
    check_is(&placed.reshard(&other, &here, &on(&here, "(b, a)")).unwrap(), &array);
    check_is(&placed.reshard(&other, &there, &on(&there, "(x, -)")).unwrap(), &array);
    check_is(&placed.cast(&other, DType::F32).unwrap(), &array.cast(DType::F32));
}
