//! What short texts take: memory in proportion to their length, whatever numbers they name.
//! The allocator of this test counts, so there is nothing else in this file.

#![expect(unsafe_code, reason = "an allocator is unsafe to write")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use shardwright_mesh::{AbstractMesh, HloSharding, Mesh, ReplicaGroups};

struct Counting;

static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

// SAFETY: all of it is the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let live = LIVE.fetch_add(layout.size(), Ordering::SeqCst) + layout.size();
        PEAK.fetch_max(live, Ordering::SeqCst);
        // SAFETY: the caller's contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's contract.
        unsafe { System.dealloc(pointer, layout) };
        LIVE.fetch_sub(layout.size(), Ordering::SeqCst);
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Bytes that each byte of a text may take while it is read, its errors are shown and it is dropped.
const PER_BYTE: usize = 200;
/// And what is not in proportion: short texts in errors, tables of the standard library.
const SMALL: usize = 64 << 10;

#[track_caller]
fn check<T>(text: &str, read: impl FnOnce(&str) -> T) -> T {
    let before = LIVE.load(Ordering::SeqCst);
    PEAK.store(before, Ordering::SeqCst);
    let value = read(text);
    let (needed, may_need) = (PEAK.load(Ordering::SeqCst) - before, PER_BYTE * text.len() + SMALL);
    let start: String = text.chars().take(60).collect();
    assert!(needed <= may_need, "{start}… of {} bytes needs {needed} bytes", text.len());
    value
}

/// The only test here: tests that run at the same time would count each other's bytes.
#[test]
fn memory_is_in_proportion_to_the_text() {
    let parts = |part: &str, count: usize| format!("{{{}}}", vec![part; count].join(", "));
    let read_parts = |text: &str| HloSharding::parse_tuple(text).unwrap();

    // Meshes of a million devices, and of as many as can be counted.
    for mesh in [
        "mesh['x'=1024,'y'=1024]",
        "mesh['x'=1024,'y'=1024], device_ids=([1024,1024]T(1,0))",
        "mesh['x'=4294967295,'y'=4294967295]",
    ] {
        let read = check(&parts(&format!("{{{mesh}, [{{'y'}}, {{}}]}}"), 100), read_parts);
        assert_eq!(read.len(), 100);
    }
    check(&parts("{devices=[1024,1024]<=[1024,1024]T(1,0)}", 1000), read_parts);

    // What is read is turned into a sharding over axes, and a mesh is compared and printed.
    let shape = AbstractMesh::parse("x=65536, y=65536, z=65536").unwrap();
    let text = "{devices=[65536,65536,65536]<=[65536,65536,65536]T(2,0,1) last_tile_dim_replicate}";
    let spec = check(text, |text| {
        text.parse::<HloSharding>().unwrap().to_named(&shape, 2).unwrap().spec().to_string()
    });
    assert_eq!(spec, "(z, x)");
    check("<[\"x\"=18446744073709551615]>", |text| {
        let mesh = Mesh::from_sdy_text(text).unwrap();
        assert_eq!(mesh, Mesh::iota(mesh.shape().clone()));
        assert_eq!(mesh.sdy_text(), text);
    });

    // Lists are limited.
    let too_many = |text: &str| text.parse::<ReplicaGroups>().unwrap_err().to_string();
    for text in ["[1024,1025]<=[1049600]", "mesh['x'=1024,'y'=1025] {'x'}"] {
        assert_eq!(check(text, too_many), "the text speaks of more than 1048576 devices");
    }
    let counted = "{mesh['x'=1025,'y'=1024], device_ids=([1024,1025]T(1,0)), [{'x'}]}";
    let error = check(counted, |text| text.parse::<HloSharding>().unwrap_err().to_string());
    assert_eq!(error, "the text speaks of more than 1048576 devices");
}
