//! How much host memory the operations on sharded arrays need, as their documentation says. The allocator of this test
//! counts, so there is nothing else in this file.

#![expect(unsafe_code, reason = "an allocator is unsafe to write")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use shardwright_mesh::{AbstractMesh, Mesh, NamedSharding};
use shardwright_runtime::{Runtime, RuntimeError, RuntimeOptions, ShardedArray};
use shardwright_tensor::{DType, HostArray, TensorType};

struct Counting;

static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

// SAFETY: all of it is the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller's contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller's contract.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's contract.
        unsafe { System.dealloc(pointer, layout) };
        LIVE.fetch_sub(layout.size(), Ordering::SeqCst);
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

fn count(size: usize) {
    let live = LIVE.fetch_add(size, Ordering::SeqCst) + size;
    PEAK.fetch_max(live, Ordering::SeqCst);
}

/// What is not an array: types, ranges, the text of a program.
const SMALL: usize = 64 << 10;
/// An array of 1,001 rows of 4 KiB, over eight devices.
const ROW: usize = 4 << 10;
const BLOCK: usize = 126 * ROW;
const WHOLE: usize = 1001 * ROW;

/// Runs `operation`, checks how much more memory than its result it needs on the way and how much its result is, and
/// that all of it is free once the result is gone.
#[track_caller]
fn check<T>(what: &str, on_the_way: usize, result: usize, operation: impl FnOnce() -> T) {
    let before = LIVE.load(Ordering::SeqCst);
    drop(check_kept(what, on_the_way, result, operation));
    // The plugin may free on threads of its own.
    let deadline = Instant::now() + Duration::from_secs(60);
    while LIVE.load(Ordering::SeqCst) > before + SMALL {
        assert!(Instant::now() < deadline, "{what} left memory behind");
        thread::yield_now();
    }
}

#[track_caller]
fn check_kept<T>(what: &str, on_the_way: usize, result: usize, operation: impl FnOnce() -> T) -> T {
    let before = LIVE.load(Ordering::SeqCst);
    PEAK.store(before, Ordering::SeqCst);
    let value = operation();
    let held = LIVE.load(Ordering::SeqCst).saturating_sub(before);
    let needed = PEAK.load(Ordering::SeqCst) - before - held;
    assert!(needed <= on_the_way + SMALL, "{what} needs {needed} bytes, not {on_the_way}");
    assert!(held.abs_diff(result) <= SMALL, "the result of {what} takes {held} bytes, not {result}");
    value
}

#[test]
fn operations_need_as_much_host_memory_as_they_say() {
    let runtime = Runtime::open(&RuntimeOptions::cpu_devices(8)).unwrap();
    let mesh = runtime.mesh("x=8").unwrap();
    let turned = Mesh::new(AbstractMesh::parse("x=8").unwrap(), vec![1, 2, 3, 4, 5, 6, 7, 0]).unwrap();
    let on = |mesh: &Mesh, spec: &str| mesh.sharding(spec.parse().unwrap()).unwrap();
    let (rows, columns, copies) = (on(&mesh, "(x, -)"), on(&mesh, "(-, x)"), on(&mesh, "(-, -)"));
    let ty = TensorType::new(DType::F32, [1001, 1024]).unwrap();
    let whole = check_kept("an array", 0, WHOLE, || HostArray::zeros(ty.clone()));
    let from_host =
        |sharding: &NamedSharding| ShardedArray::from_host(&runtime, &mesh, sharding, &whole).unwrap();

    // The devices of a CPU take over the blocks that they are given, the last of which is padded for that.
    let placed = check_kept("from_host", 2 * BLOCK, 8 * BLOCK, || from_host(&rows));
    check("from_host, by columns", 2 * BLOCK, WHOLE, || from_host(&columns));
    check("from_host, copies", 0, WHOLE, || from_host(&copies));
    check("from_local", 2 * BLOCK, 8 * BLOCK, || {
        ShardedArray::from_local(&runtime, &mesh, &rows, &ty, &whole).unwrap()
    });
    check("from_fn", 2 * BLOCK, 8 * BLOCK, || {
        let block = |ranges: &[std::ops::Range<usize>]| {
            let dims: Vec<usize> = ranges.iter().map(|r| r.len()).collect();
            Ok::<_, RuntimeError>(HostArray::zeros(TensorType::new(DType::F32, dims).unwrap()))
        };
        ShardedArray::from_fn(&runtime, &mesh, &rows, &ty, block).unwrap()
    });

    check("to_host", 2 * BLOCK, WHOLE, || placed.to_host().unwrap());
    check("shard", BLOCK, 119 * ROW, || placed.shard(7).unwrap());
    let in_parts = || placed.shards().map(|part| part.unwrap().1.bytes().len()).sum::<usize>();
    assert_eq!(check_kept("shards", 2 * BLOCK, 0, in_parts), WHOLE);

    // Results that a program makes, or a copy between devices, lie in memory of the plugin's.
    for time in ["first", "second"] {
        let what = format!("reshard on the same mesh, {time} time");
        check(&what, 0, 0, || placed.reshard(&runtime, &mesh, &columns).unwrap());
        check("cast", 0, 0, || placed.cast(&runtime, DType::Bf16).unwrap());
    }
    let grid = runtime.mesh("a=2,b=4").unwrap();
    check("reshard over other axes", 0, 0, || placed.reshard(&runtime, &grid, &on(&grid, "(a, b)")).unwrap());
    check("to_memory", 0, 0, || placed.to_memory("pinned_host").unwrap());
    check("reshard of equal blocks", 0, 0, || {
        placed.reshard(&runtime, &turned, &on(&turned, "(x, -)")).unwrap()
    });
    check("reshard of other blocks", 3 * BLOCK, WHOLE, || {
        placed.reshard(&runtime, &turned, &on(&turned, "(-, x)")).unwrap()
    });
    assert_eq!(placed.to_host().unwrap(), whole);
}
