//! Starting a program allocates no more for many arguments than for few.

#![expect(unsafe_code, reason = "an allocator that counts is an allocator")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use shardwright_hlo::{ArgumentKind, Binary, Module, Op, verify};
use shardwright_partition::ShardedModule;
use shardwright_pjrt::{Arg, Buffer, CompileOptions, ProgramFormat};
use shardwright_runtime::{Argument, Runtime, RuntimeOptions, ShardedArray};
use shardwright_tensor::{DType, HostArray, TensorType};

thread_local! {
    /// How often this thread has allocated.
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

/// The system's allocator, counting. Growing a list counts too.
struct Counting;

// SAFETY: the system's allocator does the work.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller's contract is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's contract is the same, and the pointer comes from the system's allocator.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const DEVICES: usize = 8;

/// `p + p` for this many arrays, each in place of what it was made of.
fn module(arrays: usize, runtime: &Runtime) -> ShardedModule {
    let mut m = Module::new("double");
    for index in 0..arrays {
        let name = format!("p{index}");
        let p = m.add_argument_of_kind(&name, ty(64), ArgumentKind::Parameter);
        let doubled = m.push(Op::Binary(Binary::Add), &[p, p]).unwrap()[0];
        m.add_donated_output(&name, doubled, index);
    }
    let mesh = runtime.mesh("fsdp=-1").unwrap();
    let spec = vec![mesh.sharding("(fsdp, -)".parse().unwrap()).unwrap(); arrays];
    ShardedModule::new(verify(m).unwrap(), mesh.shape(), spec.clone(), spec).unwrap()
}

fn ty(rows: usize) -> TensorType {
    TensorType::new(DType::F32, [rows, 8]).unwrap()
}

/// Allocations of a call of `step`, once it has been called a few times.
fn per_call(mut step: impl FnMut()) -> usize {
    (0..3).for_each(|_| step());
    let before = ALLOCATIONS.get();
    step();
    ALLOCATIONS.get() - before
}

/// Allocations of a step through `shardwright_runtime::Executable`.
fn of_program(runtime: &Runtime, arrays: usize) -> usize {
    let (module, mesh) = (module(arrays, runtime), runtime.mesh("fsdp=-1").unwrap());
    let program = runtime.compile(&module, &mesh).unwrap();
    let zeros = HostArray::zeros(ty(64));
    let place = |index| ShardedArray::from_host(runtime, &mesh, module.argument_sharding(index), &zeros);
    let mut state: Vec<ShardedArray> = (0..arrays).map(place).collect::<Result<_, _>>().unwrap();
    per_call(|| {
        let arguments = std::mem::take(&mut state).into_iter().map(Argument::Donate);
        state = program.execute(arguments).unwrap().outputs;
    })
}

/// Allocations of a step through `LoadedExecutable`.
fn of_executable(runtime: &Runtime, arrays: usize) -> usize {
    let text = module(arrays, runtime).stablehlo_text();
    let options = CompileOptions { num_partitions: DEVICES, ..CompileOptions::default() };
    let executable = runtime.client().compile(text.as_bytes(), ProgramFormat::Mlir, &options).unwrap();
    let zeros = HostArray::zeros(ty(64 / DEVICES));
    let place = |device| runtime.client().buffer_from_host(&zeros, device);
    let place = |_| executable.addressable_devices().map(place).collect();
    let mut state: Vec<Vec<Buffer>> = (0..arrays).map(place).collect::<Result<_, _>>().unwrap();
    per_call(|| {
        let args = std::mem::take(&mut state).into_iter().map(Arg::Donate);
        state = executable.execute(args).unwrap().outputs;
    })
}

#[test]
fn a_step_allocates_the_same_for_any_number_of_donated_arguments() {
    let runtime = Runtime::open(&RuntimeOptions::cpu_devices(DEVICES)).unwrap();
    let check = |of_one: fn(&Runtime, usize) -> usize| {
        let [one, fifty, two_hundred] = [1, 50, 200].map(|arrays| of_one(&runtime, arrays));
        assert_eq!([fifty, two_hundred], [one; 2]);
        // Lists of arguments, of outputs and of events, at each level, and the event of each device.
        assert!(one <= 6 + DEVICES, "{one} allocations");
    };
    check(of_executable);
    check(of_program);
}
