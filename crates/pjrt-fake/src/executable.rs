//! Compiling, and what there is to know of a compiled program.

use std::ffi::c_char;
use std::ptr;
use std::sync::Arc;

use shardwright_pjrt_sys::{self as sys, Struct};

use crate::call::{functions, list, text};
use crate::client::{Client, MEMORIES};
use crate::failure::Failure;
use crate::program::{self, Program, Type};
use crate::proto::{self, CompileOptions};
use crate::registry::{self, Object, Shared};
use crate::topology::Topology;

/// What each serialized executable begins with.
const MAGIC: &str = "shardwright-pjrt-fake";
const FORMAT: &str = "hlo";
const NAME: &str = "main";

pub(crate) struct Compiled {
    pub(crate) program: Program,
    options: CompileOptions,
    output_elements: Vec<sys::PJRT_Buffer_Type>,
    output_dims: Vec<i64>,
    output_ranks: Vec<usize>,
    output_memories: Shared<Vec<*const c_char>>,
    output_memory_sizes: Vec<usize>,
    module: Vec<u8>,
    costs: Shared<[sys::PJRT_NamedValue; 1]>,
    parameter_shardings: Shardings,
    output_shardings: Shardings,
}

/// Serialized shardings, and the lists by which they are told.
struct Shardings {
    _blobs: Vec<Vec<u8>>,
    places: Shared<Vec<*const c_char>>,
    sizes: Vec<usize>,
}

impl Shardings {
    fn new(types: &[Type], num_partitions: usize) -> Shardings {
        let blobs: Vec<_> = types.iter().map(|ty| proto::sharding(ty.dims.len(), num_partitions)).collect();
        let places = Shared(blobs.iter().map(|blob| blob.as_ptr().cast()).collect());
        Shardings { places, sizes: blobs.iter().map(Vec::len).collect(), _blobs: blobs }
    }

    fn tell(&self, args: &mut sys::PJRT_Shardings_Executable_Args) {
        args.num_shardings = self.sizes.len();
        (args.shardings, args.sharding_sizes) = (self.places.0.as_ptr(), self.sizes.as_ptr());
    }
}

impl Compiled {
    fn new(program: Program, options: CompileOptions) -> Compiled {
        let outputs = &program.outputs;
        let name = "flops";
        let costs = sys::PJRT_NamedValue {
            name: name.as_ptr().cast(),
            name_size: name.len(),
            type_: sys::PJRT_NamedValue_kFloat,
            __bindgen_anon_1: sys::PJRT_NamedValue__bindgen_ty_1 { float_value: outputs.len() as f32 },
            value_size: 1,
            ..Struct::new()
        };
        Compiled {
            parameter_shardings: Shardings::new(&program.parameters, options.num_partitions),
            output_shardings: Shardings::new(&program.outputs, options.num_partitions),
            options,
            output_elements: outputs.iter().map(|ty| ty.element).collect(),
            output_dims: outputs.iter().flat_map(|ty| ty.dims.iter().copied()).collect(),
            output_ranks: outputs.iter().map(|ty| ty.dims.len()).collect(),
            output_memories: Shared(vec![MEMORIES[0].as_ptr().cast(); outputs.len()]),
            output_memory_sizes: vec![MEMORIES[0].len(); outputs.len()],
            module: proto::module(&program.parameters),
            costs: Shared([costs]),
            program,
        }
    }
}

/// A handle to a compiled program, of which there can be several.
pub(crate) struct Executable(Arc<Compiled>);

impl Object for Executable {
    type Raw = sys::PJRT_Executable;
    const KIND: &'static str = "executable";
}

/// A compiled program on devices of this process.
pub(crate) struct Loaded {
    pub(crate) compiled: Arc<Compiled>,
    pub(crate) client: Shared<*mut sys::PJRT_Client>,
    pub(crate) devices: Shared<Vec<*mut sys::PJRT_Device>>,
}

impl Object for Loaded {
    type Raw = sys::PJRT_LoadedExecutable;
    const KIND: &'static str = "loaded executable";
}

/// The compiled program, or none where null is what was asked for.
fn compile(
    program: *const sys::PJRT_Program,
    options: CompileOptions,
    n_devices: usize,
) -> Result<Option<Compiled>, Failure> {
    // SAFETY: the caller passes a live program with a code of this size.
    let code = unsafe { text((*program).code, (*program).code_size) };
    let needed = options.n_devices();
    if needed == 0 || needed > n_devices {
        return Err(Failure::invalid(format!("{needed} devices are needed, there are {n_devices}")));
    }
    Ok(program::parse(&code)?.map(|program| Compiled::new(program, options)))
}

/// Puts a program onto its devices: those of the options, or the first ones.
fn load(
    handle: *mut sys::PJRT_Client,
    compiled: Compiled,
) -> Result<*mut sys::PJRT_LoadedExecutable, Failure> {
    let client = registry::get::<Client>(handle)?;
    let options = &compiled.options;
    let mut devices = Vec::new();
    for id in options.device_ids() {
        // Ids are places in the list, of which the first ones are this process's.
        let place = usize::try_from(id).unwrap_or(usize::MAX);
        let device = client.devices.0.get(place);
        let device = *device.ok_or_else(|| Failure::invalid(format!("there is no device {id}")))?;
        devices.extend((place < client.addressable).then_some(device));
    }
    let loaded = Loaded { compiled: Arc::new(compiled), client: Shared(handle), devices: Shared(devices) };
    Ok(registry::insert(handle, loaded))
}

/// Reads what `PJRT_Executable_Serialize` gives.
fn deserialize(text: &str) -> Option<(CompileOptions, String)> {
    let mut parts = text.splitn(4, '\n');
    let numbers =
        |line: &str| line.split_whitespace().map(|n| n.parse::<i64>().ok()).collect::<Option<Vec<_>>>();
    if parts.next()? != MAGIC {
        return None;
    }
    let (counts, devices, program) = (numbers(parts.next()?)?, numbers(parts.next()?)?, parts.next()?);
    let &[num_replicas, num_partitions] = counts.as_slice() else { return None };
    let (num_replicas, num_partitions) = (num_replicas.try_into().ok()?, num_partitions.try_into().ok()?);
    Some((CompileOptions { num_replicas, num_partitions, devices }, program.to_owned()))
}

unsafe extern "C" fn free_serialized(serialized: *mut sys::PJRT_SerializedExecutable) {
    // SAFETY: it comes from `Box::into_raw` below, and the caller frees it once.
    drop(unsafe { Box::from_raw(serialized.cast::<String>()) });
}

unsafe extern "C" fn free_assignment(serialized: *mut sys::PJRT_DeviceAssignmentSerialized) {
    // SAFETY: it comes from `Box::into_raw` below, and the caller frees it once.
    drop(unsafe { Box::from_raw(serialized.cast::<Vec<u8>>()) });
}

fn sizes(types: &[Type]) -> Result<i64, Failure> {
    types.iter().map(|ty| Ok(ty.size()? as i64)).sum()
}

fn compiled(handle: *const sys::PJRT_Executable) -> Result<Arc<Compiled>, Failure> {
    Ok(Arc::clone(&registry::get::<Executable>(handle)?.0))
}

/// The Shardings extension, which hangs on every table.
pub(crate) fn shardings_extension() -> sys::PJRT_Shardings_Extension {
    unsafe extern "C" fn parameters(args: *mut sys::PJRT_Shardings_Executable_Args) -> *mut sys::PJRT_Error {
        // SAFETY: the caller passes a live struct.
        let args = unsafe { &mut *args };
        let told = compiled(args.executable).map(|compiled| compiled.parameter_shardings.tell(args));
        told.map_or_else(Failure::into_raw, |()| ptr::null_mut())
    }
    unsafe extern "C" fn outputs(args: *mut sys::PJRT_Shardings_Executable_Args) -> *mut sys::PJRT_Error {
        // SAFETY: the caller passes a live struct.
        let args = unsafe { &mut *args };
        let told = compiled(args.executable).map(|compiled| compiled.output_shardings.tell(args));
        told.map_or_else(Failure::into_raw, |()| ptr::null_mut())
    }
    sys::PJRT_Shardings_Extension {
        base: sys::PJRT_Extension_Base {
            struct_size: size_of::<sys::PJRT_Shardings_Extension>(),
            type_: 19,
            next: ptr::null_mut(),
        },
        PJRT_Shardings_PJRT_Executable_ParameterShardings: Some(parameters),
        PJRT_Shardings_PJRT_Executable_OutputShardings: Some(outputs),
    }
}

functions! {
    fn PJRT_Client_Compile(args: PJRT_Client_Compile_Args) {
        let n_devices = registry::get::<Client>(args.client)?.devices.0.len();
        // SAFETY: the caller passes options of this size.
        let options = unsafe { list(args.compile_options.cast::<u8>(), args.compile_options_size) };
        let options = CompileOptions::read(options)?;
        let compiled = compile(args.program, options, n_devices)?;
        args.executable = compiled.map_or(Ok(ptr::null_mut()), |compiled| load(args.client, compiled))?;
        Ok(())
    }

    fn PJRT_Compile(args: PJRT_Compile_Args) {
        let n_devices = registry::get::<Topology>(args.topology)?.descriptions.0.len();
        // SAFETY: the caller passes options of this size.
        let options = unsafe { list(args.compile_options.cast::<u8>(), args.compile_options_size) };
        let compiled = compile(args.program, CompileOptions::read(options)?, n_devices)?;
        args.executable = compiled.map_or(ptr::null_mut(), |compiled| {
            registry::insert(args.topology, Executable(Arc::new(compiled)))
        });
        Ok(())
    }

    fn PJRT_Executable_DeserializeAndLoad(args: PJRT_Executable_DeserializeAndLoad_Args) {
        // SAFETY: the caller passes bytes of this size.
        let bytes = unsafe { text(args.serialized_executable, args.serialized_executable_size) };
        let not_ours = || Failure::invalid("these are not the bytes of an executable");
        let (options, program) = deserialize(&bytes).ok_or_else(not_ours)?;
        let program = program::parse(&program)?.ok_or_else(|| Failure::invalid("the program is null"))?;
        args.loaded_executable = load(args.client, Compiled::new(program, options))?;
        Ok(())
    }

    fn PJRT_LoadedExecutable_Destroy(args: PJRT_LoadedExecutable_Destroy_Args) {
        registry::remove::<Loaded>(args.executable).map(drop)
    }

    fn PJRT_LoadedExecutable_GetExecutable(args: PJRT_LoadedExecutable_GetExecutable_Args) {
        let loaded = registry::get::<Loaded>(args.loaded_executable)?;
        args.executable = registry::insert(loaded.client.0, Executable(Arc::clone(&loaded.compiled)));
        Ok(())
    }

    fn PJRT_LoadedExecutable_AddressableDevices(args: PJRT_LoadedExecutable_AddressableDevices_Args) {
        let loaded = registry::get::<Loaded>(args.executable)?;
        (args.addressable_devices, args.num_addressable_devices) =
            (loaded.devices.0.as_ptr(), loaded.devices.0.len());
        Ok(())
    }

    fn PJRT_LoadedExecutable_GetDeviceAssignment(args: PJRT_LoadedExecutable_GetDeviceAssignment_Args) {
        let loaded = registry::get::<Loaded>(args.executable)?;
        let options = &loaded.compiled.options;
        let bytes = Box::new(proto::assignment(&options.device_ids(), options.num_partitions));
        (args.serialized_bytes, args.serialized_bytes_size) = (bytes.as_ptr().cast(), bytes.len());
        args.serialized_device_assignment = Box::into_raw(bytes).cast();
        args.serialized_device_assignment_deleter = Some(free_assignment);
        Ok(())
    }

    fn PJRT_Executable_Destroy(args: PJRT_Executable_Destroy_Args) {
        registry::remove::<Executable>(args.executable).map(drop)
    }

    fn PJRT_Executable_Name(args: PJRT_Executable_Name_Args) {
        compiled(args.executable)?;
        (args.executable_name, args.executable_name_size) = (NAME.as_ptr().cast(), NAME.len());
        Ok(())
    }

    fn PJRT_Executable_NumReplicas(args: PJRT_Executable_NumReplicas_Args) {
        args.num_replicas = compiled(args.executable)?.options.num_replicas;
        Ok(())
    }

    fn PJRT_Executable_NumPartitions(args: PJRT_Executable_NumPartitions_Args) {
        args.num_partitions = compiled(args.executable)?.options.num_partitions;
        Ok(())
    }

    fn PJRT_Executable_NumOutputs(args: PJRT_Executable_NumOutputs_Args) {
        args.num_outputs = compiled(args.executable)?.program.outputs.len();
        Ok(())
    }

    fn PJRT_Executable_SizeOfGeneratedCodeInBytes(args: PJRT_Executable_SizeOfGeneratedCodeInBytes_Args) {
        args.size_in_bytes = compiled(args.executable)?.program.text.len() as i64;
        Ok(())
    }

    fn PJRT_Executable_OutputElementTypes(args: PJRT_Executable_OutputElementTypes_Args) {
        let compiled = compiled(args.executable)?;
        let elements = &compiled.output_elements;
        (args.output_types, args.num_output_types) = (elements.as_ptr().cast_mut(), elements.len());
        Ok(())
    }

    fn PJRT_Executable_OutputDimensions(args: PJRT_Executable_OutputDimensions_Args) {
        let compiled = compiled(args.executable)?;
        args.num_outputs = compiled.output_ranks.len();
        (args.dims, args.dim_sizes) = (compiled.output_dims.as_ptr(), compiled.output_ranks.as_ptr());
        Ok(())
    }

    fn PJRT_Executable_OutputMemoryKinds(args: PJRT_Executable_OutputMemoryKinds_Args) {
        let compiled = compiled(args.executable)?;
        args.num_outputs = compiled.output_ranks.len();
        args.memory_kinds = compiled.output_memories.0.as_ptr();
        args.memory_kind_sizes = compiled.output_memory_sizes.as_ptr();
        Ok(())
    }

    fn PJRT_Executable_GetCompiledMemoryStats(args: PJRT_Executable_GetCompiledMemoryStats_Args) {
        let compiled = compiled(args.executable)?;
        args.argument_size_in_bytes = sizes(&compiled.program.parameters)?;
        args.output_size_in_bytes = sizes(&compiled.program.outputs)?;
        args.peak_memory_in_bytes = args.argument_size_in_bytes + args.output_size_in_bytes;
        Ok(())
    }

    fn PJRT_Executable_GetCostAnalysis(args: PJRT_Executable_GetCostAnalysis_Args) {
        let compiled = compiled(args.executable)?;
        (args.properties, args.num_properties) = (compiled.costs.0.as_ptr(), compiled.costs.0.len());
        Ok(())
    }

    fn PJRT_Executable_Fingerprint(args: PJRT_Executable_Fingerprint_Args) {
        let compiled = compiled(args.executable)?;
        let fingerprint = &compiled.program.text;
        (args.executable_fingerprint, args.executable_fingerprint_size) =
            (fingerprint.as_ptr().cast(), fingerprint.len());
        Ok(())
    }

    fn PJRT_Executable_OptimizedProgram(args: PJRT_Executable_OptimizedProgram_Args) {
        let compiled = compiled(args.executable)?;
        // SAFETY: the caller passes a live program.
        let program = unsafe { args.program.as_mut() }.ok_or_else(|| Failure::invalid("the program is null"))?;
        (program.format, program.format_size) = (FORMAT.as_ptr().cast(), FORMAT.len());
        let size = compiled.module.len();
        if !program.code.is_null() {
            if program.code_size < size {
                return Err(Failure::invalid(format!("{size} bytes do not fit into {}", program.code_size)));
            }
            // SAFETY: the caller has made room for this many bytes.
            unsafe { program.code.cast::<u8>().copy_from_nonoverlapping(compiled.module.as_ptr(), size) };
        }
        program.code_size = size;
        Ok(())
    }

    fn PJRT_Executable_Serialize(args: PJRT_Executable_Serialize_Args) {
        let compiled = compiled(args.executable)?;
        let (options, program) = (&compiled.options, &compiled.program);
        let devices = options.devices.iter().map(i64::to_string).collect::<Vec<_>>().join(" ");
        let (replicas, partitions) = (options.num_replicas, options.num_partitions);
        let text = Box::new(format!("{MAGIC}\n{replicas} {partitions}\n{devices}\n{}", program.text));
        (args.serialized_bytes, args.serialized_bytes_size) = (text.as_ptr().cast(), text.len());
        args.serialized_executable = Box::into_raw(text).cast();
        args.serialized_executable_deleter = Some(free_serialized);
        Ok(())
    }
}
