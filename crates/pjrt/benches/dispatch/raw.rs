//! The same step by calls of the C API, with arrays of pointers that are made once.

use std::mem::MaybeUninit;
use std::path::Path;
use std::ptr;

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use prost::Message;
use shardwright_pjrt_sys::{self as sys, Args, Struct};

use super::{ARRAYS, Contestant, shard_dims};

pub(crate) struct Step {
    api: *const sys::PJRT_Api,
    executable: *mut sys::PJRT_LoadedExecutable,
    inputs: Rows,
    outputs: Rows,
    events: Vec<*mut sys::PJRT_Event>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct CompileOptions {
    #[prost(message, optional, tag = "3")]
    build: Option<BuildOptions>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct BuildOptions {
    #[prost(int64, tag = "1")]
    device_ordinal: i64,
    #[prost(int64, tag = "4")]
    num_replicas: i64,
    #[prost(int64, tag = "5")]
    num_partitions: i64,
    #[prost(bool, tag = "6")]
    use_spmd_partitioning: bool,
    #[prost(bool, tag = "19")]
    use_shardy_partitioner: bool,
}

/// Arguments with room behind them, for plugins that write fields of a later header without looking at the size.
#[repr(C)]
struct Roomy<A>(A, MaybeUninit<[u64; 64]>);

/// # Safety
///
/// The pointers in `args` are what the function asks for.
unsafe fn call<A: Args>(api: *const sys::PJRT_Api, args: A) -> A {
    let mut roomy = Roomy(args, MaybeUninit::uninit());
    // SAFETY: the table is a loaded plugin's, and the caller vouches for the arguments, which come first.
    let error = unsafe { A::function(api).expect("the plugin has the function")((&raw mut roomy).cast()) };
    assert!(error.is_null(), "{} failed", A::FUNCTION);
    roomy.0
}

impl Step {
    pub(crate) fn new(plugin: &Path, text: &str, n_devices: usize) -> Step {
        // SAFETY: the library is a PJRT plugin that is initialized already and never unloaded; the client, which
        // owns the list of devices, is never destroyed.
        let (api, client, devices) = unsafe {
            let library = Library::open(Some(plugin), RTLD_NOW | RTLD_LOCAL).expect("the plugin loads");
            type Entry = unsafe extern "C" fn() -> *const sys::PJRT_Api;
            let api = library.get::<Entry>(c"GetPjrtApi").expect("it is a plugin")();
            std::mem::forget(library);
            let client = create_client(api, n_devices);
            let list = call(api, sys::PJRT_Client_AddressableDevices_Args { client, ..Struct::new() });
            (api, client, std::slice::from_raw_parts(list.addressable_devices, list.num_addressable_devices))
        };
        // SAFETY: client and device are alive.
        let buffer = |&device| unsafe { zeros(api, client, device, shard_dims(n_devices)) };
        let places = devices.iter().flat_map(|device| std::iter::repeat_n(device, ARRAYS));
        let inputs: Vec<_> = places.map(buffer).collect();
        Step {
            api,
            // SAFETY: the client is alive.
            executable: unsafe { compile(api, client, text, n_devices) },
            outputs: Rows::new(vec![ptr::null_mut(); inputs.len()], n_devices),
            inputs: Rows::new(inputs, n_devices),
            events: vec![ptr::null_mut(); n_devices],
        }
    }
}

/// # Safety
///
/// The table is that of an initialized plugin.
unsafe fn create_client(api: *const sys::PJRT_Api, n_devices: usize) -> *mut sys::PJRT_Client {
    let name = "cpu_device_count";
    let mut option = sys::PJRT_NamedValue {
        name: name.as_ptr().cast(),
        name_size: name.len(),
        type_: sys::PJRT_NamedValue_kInt64,
        value_size: 1,
        ..Struct::new()
    };
    option.__bindgen_anon_1.int64_value = n_devices as i64;
    let args = sys::PJRT_Client_Create_Args { create_options: &option, num_options: 1, ..Struct::new() };
    // SAFETY: the option is alive during the call.
    unsafe { call(api, args) }.client
}

/// # Safety
///
/// Client and device are alive and of this plugin.
unsafe fn zeros(
    api: *const sys::PJRT_Api,
    client: *mut sys::PJRT_Client,
    device: *mut sys::PJRT_Device,
    dims: [usize; 2],
) -> *mut sys::PJRT_Buffer {
    let (data, dims) = (vec![0f32; dims[0] * dims[1]], dims.map(|dim| dim as i64));
    let args = sys::PJRT_Client_BufferFromHostBuffer_Args {
        client,
        data: data.as_ptr().cast(),
        type_: sys::PJRT_Buffer_Type_F32,
        dims: dims.as_ptr(),
        num_dims: dims.len(),
        host_buffer_semantics: sys::PJRT_HostBufferSemantics_kImmutableOnlyDuringCall,
        device,
        ..Struct::new()
    };
    // SAFETY: the data are needed during the first call only; the event is not used after the second.
    unsafe {
        let args = call(api, args);
        call(api, sys::PJRT_Event_Destroy_Args { event: args.done_with_host_buffer, ..Struct::new() });
        args.buffer
    }
}

/// # Safety
///
/// The client is alive and of this plugin.
unsafe fn compile(
    api: *const sys::PJRT_Api,
    client: *mut sys::PJRT_Client,
    text: &str,
    n_devices: usize,
) -> *mut sys::PJRT_LoadedExecutable {
    let build = BuildOptions {
        device_ordinal: -1,
        num_replicas: 1,
        num_partitions: n_devices as i64,
        use_spmd_partitioning: true,
        use_shardy_partitioner: true,
    };
    let options = CompileOptions { build: Some(build) }.encode_to_vec();
    let program = sys::PJRT_Program {
        code: text.as_ptr().cast_mut().cast(),
        code_size: text.len(),
        format: "mlir".as_ptr().cast(),
        format_size: 4,
        ..Struct::new()
    };
    let args = sys::PJRT_Client_Compile_Args {
        client,
        program: &program,
        compile_options: options.as_ptr().cast(),
        compile_options_size: options.len(),
        ..Struct::new()
    };
    // SAFETY: program and options are alive during the call, and the caller vouches for the client.
    unsafe { call(api, args) }.executable
}

/// A list of buffers, and where in it the row of each device begins.
struct Rows {
    buffers: Vec<*mut sys::PJRT_Buffer>,
    starts: Vec<*mut *mut sys::PJRT_Buffer>,
}

impl Rows {
    fn new(mut buffers: Vec<*mut sys::PJRT_Buffer>, n_devices: usize) -> Rows {
        let (first, row) = (buffers.as_mut_ptr(), buffers.len() / n_devices);
        let starts = (0..n_devices).map(|device| first.wrapping_add(device * row)).collect();
        Rows { buffers, starts }
    }
}

impl Step {
    fn drop_events(&mut self) {
        for event in self.events.iter_mut().filter(|event| !event.is_null()) {
            // SAFETY: the event is alive, and afterwards its place is empty.
            unsafe { call(self.api, sys::PJRT_Event_Destroy_Args { event: *event, ..Struct::new() }) };
            *event = ptr::null_mut();
        }
    }
}

impl Contestant for Step {
    fn call(&mut self) {
        self.drop_events();
        let mut options = sys::PJRT_ExecuteOptions::new();
        let args = sys::PJRT_LoadedExecutable_Execute_Args {
            executable: self.executable,
            options: &mut options,
            argument_lists: self.inputs.starts.as_ptr().cast(),
            num_devices: self.inputs.starts.len(),
            num_args: self.inputs.buffers.len() / self.inputs.starts.len(),
            output_lists: self.outputs.starts.as_ptr(),
            device_complete_events: self.events.as_mut_ptr(),
            ..Struct::new()
        };
        // SAFETY: executable and inputs are alive, and the lists have a row for each device. The inputs are not used
        // after they are destroyed, because the outputs take their place.
        unsafe {
            call(self.api, args);
            for &buffer in &self.inputs.buffers {
                call(self.api, sys::PJRT_Buffer_Destroy_Args { buffer, ..Struct::new() });
            }
        }
        std::mem::swap(&mut self.inputs, &mut self.outputs);
    }

    fn wait(&mut self) {
        for &event in &self.events {
            // SAFETY: the event is alive.
            unsafe { call(self.api, sys::PJRT_Event_Await_Args { event, ..Struct::new() }) };
        }
        self.drop_events();
    }
}
