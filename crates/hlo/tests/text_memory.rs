//! What it takes to read a program: memory in proportion to its text, whatever that says.
//! The allocator of this test counts, so there is nothing else in this file.

#![expect(unsafe_code, reason = "an allocator is unsafe to write")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use shardwright_hlo::parse;

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
const PER_BYTE: usize = 60;
/// And what is not in proportion: the table of ops, and what small texts may say with aliases.
const SMALL: usize = 512 << 10;

/// Reads a text and gives back what is wrong with it, if anything is.
#[track_caller]
fn check(text: &str) -> Option<String> {
    let before = LIVE.load(Ordering::SeqCst);
    PEAK.store(before, Ordering::SeqCst);
    let error = parse(text).err().map(|error| error.to_string());
    let (needed, may_need) = (PEAK.load(Ordering::SeqCst) - before, PER_BYTE * text.len() + SMALL);
    let start: String = text.chars().take(60).collect();
    assert!(needed <= may_need, "{start}… of {} bytes needs {needed} bytes", text.len());
    error
}

fn main_with(body: &str) -> String {
    format!("func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {{\n{body}\n  return %x : tensor<4xf32>\n}}")
}

/// The only test here: tests that run at the same time would count each other's bytes.
#[test]
fn memory_is_in_proportion_to_the_text() {
    let add = "  %y = stablehlo.add %x, %x : tensor<4xf32> loc(#a)\n";
    let many: String = (0..20_000).map(|i| add.replace("%y", &format!("%{i}"))).collect();
    assert_eq!(check(&format!("#a = loc(\"x\")\n{}", main_with(&many))), None);

    // Ops with very many operands, types and attributes.
    let uses = vec!["%x"; 50_000].join(", ");
    let types = vec!["tensor<4xf32>"; 50_000].join(", ");
    assert_eq!(check(&main_with(&format!("stablehlo.custom_call @f({uses}) : ({types}) -> ()"))), None);
    let entries: Vec<String> = (0..50_000).map(|i| format!("a.{i}")).collect();
    let entries = entries.join(", ");
    assert_eq!(check(&main_with(&format!("stablehlo.custom_call @f() {{{entries}}} : () -> ()"))), None);

    // Aliases that double at each step, in attributes and in locations.
    let doubling = |open: &str, close: &str| -> String {
        (1..2000).map(|i| format!("#a{i} = {open}#a{0}, #a{0}{close}\n", i - 1)).collect()
    };
    let text = main_with("stablehlo.custom_call @f() {a.b = #a60} : () -> ()");
    let error = check(&format!("#a0 = 1\n{}{text}", doubling("[", "]"))).unwrap();
    assert!(error.contains("the text with its aliases written out has more than"), "{error}");
    let text = main_with("stablehlo.custom_call @f() : () -> () loc(#a60)");
    assert_eq!(check(&format!("#a0 = loc(\"x\")\n{}{text}", doubling("loc(fused[", "])"))), None);

    // Giant numbers.
    assert!(check(&main_with("%0:4294967295 = stablehlo.custom_call @f() : () -> ()")).is_some());
    assert_eq!(check(&main_with("%0 = stablehlo.constant dense<0> : tensor<1048576x1048576xi64>")), None);
}
