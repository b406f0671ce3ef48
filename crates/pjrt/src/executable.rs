use shardwright_pjrt_sys::{self as sys, Args, Struct};
use shardwright_tensor::TensorType;

use crate::api::{Api, Handle, blobs, slice, string};
use crate::error::{Error, ErrorKind};
use crate::named_value::{self, Attributes};
use crate::signature::Parameter;
use crate::{Client, Plugin, SerializedExecutable, Topology, shardings, signature, types};

/// A program as the compiler left it.
#[derive(Clone, Debug, PartialEq)]
pub struct OptimizedProgram {
    /// The format of the code: `hlo_with_config` is a serialized `HloModuleProtoWithConfig`.
    pub format: String,
    /// The code.
    pub code: Vec<u8>,
}

/// What a program needs of the memory of each device, in bytes, as the compiler reports it.
///
/// On TPUs `peak_memory` is the number to hold against the device's memory; it counts arguments and results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CompiledMemoryStats {
    /// The code itself.
    pub generated_code: i64,
    /// All arguments.
    pub argument: i64,
    /// All results.
    pub output: i64,
    /// Results that take the place of donated arguments.
    pub alias: i64,
    /// Everything in between.
    pub temp: i64,
    /// The most that is in use at one time; 0 from plugins too old to tell.
    pub peak_memory: i64,
    /// Arguments in the memory of the host.
    pub host_argument: i64,
    /// Results in the memory of the host.
    pub host_output: i64,
    /// What of the host's memory the program needs in between.
    pub host_temp: i64,
}

/// A compiled program: what can be known of it without running it.
pub struct Executable {
    handle: Handle<sys::PJRT_Executable>,
    // Behind the handle: an executable is destroyed before what it was compiled for.
    target: Target,
}

/// What a program was compiled for; held to keep it alive.
pub(crate) enum Target {
    Client(Client),
    Topology(Topology),
}

impl Target {
    fn plugin(&self) -> &Plugin {
        match self {
            Target::Client(client) => client.plugin(),
            Target::Topology(topology) => topology.plugin(),
        }
    }
}

impl Executable {
    /// # Safety
    ///
    /// `raw` is null or an executable of this target that the caller owns.
    pub(crate) unsafe fn new(
        api: Api,
        target: Target,
        raw: *mut sys::PJRT_Executable,
        function: &str,
    ) -> Result<Executable, Error> {
        // SAFETY: the caller's contract.
        Ok(Executable { handle: unsafe { Handle::new(api, raw, function)? }, target })
    }

    /// The program's name.
    pub fn name(&self) -> Result<String, Error> {
        let args = sys::PJRT_Executable_Name_Args { executable: self.handle.raw(), ..Struct::new() };
        // SAFETY: the executable is alive, and so is the name, which is copied.
        unsafe {
            let args = self.handle.api().call(args)?;
            Ok(string(args.executable_name, args.executable_name_size))
        }
    }

    /// How many copies of the program run side by side.
    pub fn num_replicas(&self) -> Result<usize, Error> {
        let args = sys::PJRT_Executable_NumReplicas_Args { executable: self.handle.raw(), ..Struct::new() };
        // SAFETY: the executable is alive.
        Ok(unsafe { self.handle.api().call(args)? }.num_replicas)
    }

    /// Into how many partitions the program is cut.
    pub fn num_partitions(&self) -> Result<usize, Error> {
        let args = sys::PJRT_Executable_NumPartitions_Args { executable: self.handle.raw(), ..Struct::new() };
        // SAFETY: the executable is alive.
        Ok(unsafe { self.handle.api().call(args)? }.num_partitions)
    }

    /// How many results each device has.
    pub fn num_outputs(&self) -> Result<usize, Error> {
        let args = sys::PJRT_Executable_NumOutputs_Args { executable: self.handle.raw(), ..Struct::new() };
        // SAFETY: the executable is alive.
        Ok(unsafe { self.handle.api().call(args)? }.num_outputs)
    }

    /// The types of the parameters on each device: what a partition gets, not what was written.
    ///
    /// They are read from the optimized program.
    pub fn parameter_types(&self) -> Result<Vec<TensorType>, Error> {
        Ok(self.signature()?.into_iter().map(|parameter| parameter.ty).collect())
    }

    pub(crate) fn signature(&self) -> Result<Vec<Parameter>, Error> {
        signature::parameters(&self.optimized_program()?)
    }

    /// The types of the results on each device.
    pub fn output_types(&self) -> Result<Vec<TensorType>, Error> {
        let executable = self.handle.raw();
        // SAFETY: the executable is alive, and so are the lists; they have the stated lengths, `dims` that of all
        // ranks together.
        let (elements, ranks, dims) = unsafe {
            let api = self.handle.api();
            let elements =
                api.call(sys::PJRT_Executable_OutputElementTypes_Args { executable, ..Struct::new() })?;
            let dims =
                api.call(sys::PJRT_Executable_OutputDimensions_Args { executable, ..Struct::new() })?;
            let ranks = slice(dims.dim_sizes, dims.num_outputs);
            let n_dims = ranks.iter().sum();
            (slice(elements.output_types, elements.num_output_types), ranks, slice(dims.dims, n_dims))
        };
        if elements.len() != ranks.len() {
            let message = format!("{} element types for {} results", elements.len(), ranks.len());
            let function = sys::PJRT_Executable_OutputDimensions_Args::FUNCTION;
            return Err(Error::new(ErrorKind::BrokenContract, function, message));
        }
        let mut rest = dims;
        let types = elements.iter().zip(ranks).enumerate().map(|(index, (&element, &rank))| {
            let (dims, behind) = rest.split_at_checked(rank).ok_or_else(|| {
                let function = sys::PJRT_Executable_OutputDimensions_Args::FUNCTION;
                Error::new(ErrorKind::BrokenContract, function, format!("output {index} lacks its dims"))
            })?;
            rest = behind;
            types::from_raw(&format!("output {index}"), element, dims)
        });
        types.collect()
    }

    /// The program as the compiler left it, partitioned and scheduled.
    pub fn optimized_program(&self) -> Result<OptimizedProgram, Error> {
        let ask = |program: &mut sys::PJRT_Program| {
            let executable = self.handle.raw();
            let args = sys::PJRT_Executable_OptimizedProgram_Args { executable, program, ..Struct::new() };
            // SAFETY: executable and program are alive, and the program's code is null, which asks for its size,
            // or has the size that was the answer.
            unsafe { self.handle.api().call(args) }
        };
        let mut program = sys::PJRT_Program::new();
        ask(&mut program)?;
        let mut code = vec![0u8; program.code_size];
        program.code = code.as_mut_ptr().cast();
        ask(&mut program)?;
        code.truncate(program.code_size);
        // SAFETY: the format's name belongs to the plugin and lives as long as the executable.
        let format = unsafe { string(program.format, program.format_size) };
        Ok(OptimizedProgram { format, code })
    }

    /// What the program needs of each device's memory.
    pub fn memory_stats(&self) -> Result<CompiledMemoryStats, Error> {
        let args = sys::PJRT_Executable_GetCompiledMemoryStats_Args {
            executable: self.handle.raw(),
            ..Struct::new()
        };
        // SAFETY: the executable is alive.
        let args = unsafe { self.handle.api().call(args)? };
        Ok(CompiledMemoryStats {
            generated_code: args.generated_code_size_in_bytes,
            argument: args.argument_size_in_bytes,
            output: args.output_size_in_bytes,
            alias: args.alias_size_in_bytes,
            temp: args.temp_size_in_bytes,
            peak_memory: args.peak_memory_in_bytes,
            host_argument: args.host_argument_size_in_bytes,
            host_output: args.host_output_size_in_bytes,
            host_temp: args.host_temp_size_in_bytes,
        })
    }

    /// What the compiler thinks the program costs, under the plugin's own names; the CPU plugin does not say.
    pub fn cost_analysis(&self) -> Result<Attributes, Error> {
        let args =
            sys::PJRT_Executable_GetCostAnalysis_Args { executable: self.handle.raw(), ..Struct::new() };
        // SAFETY: the executable is alive, and so are its properties, which are copied.
        unsafe {
            let args = self.handle.api().call(args)?;
            Ok(named_value::from_raw(args.properties, args.num_properties))
        }
    }

    /// The same bytes for the same program, options and compiler. They need not be text.
    pub fn fingerprint(&self) -> Result<Vec<u8>, Error> {
        let args = sys::PJRT_Executable_Fingerprint_Args { executable: self.handle.raw(), ..Struct::new() };
        // SAFETY: the executable is alive, and so is its fingerprint, which is copied.
        unsafe {
            let args = self.handle.api().call(args)?;
            let bytes = args.executable_fingerprint.cast::<u8>();
            Ok(slice(bytes, args.executable_fingerprint_size).to_vec())
        }
    }

    /// The memory that each result lies in on each device, such as `device` or `pinned_host`.
    pub fn output_memory_kinds(&self) -> Result<Vec<String>, Error> {
        let args =
            sys::PJRT_Executable_OutputMemoryKinds_Args { executable: self.handle.raw(), ..Struct::new() };
        // SAFETY: the executable is alive, and so are the lists and the names in them, which are copied.
        unsafe {
            let args = self.handle.api().call(args)?;
            Ok(blobs(args.memory_kinds, args.memory_kind_sizes, args.num_outputs)
                .map(|name| String::from_utf8_lossy(name).into_owned())
                .collect())
        }
    }

    /// How each parameter is cut, as far as the plugin tells, each a serialized `OpSharding` of XLA; `None` where the
    /// plugin has no such function.
    pub fn parameter_shardings(&self) -> Result<Option<Vec<Vec<u8>>>, Error> {
        // SAFETY: the executable is alive.
        unsafe { shardings::of_parameters(self.handle.api(), self.handle.raw()) }
    }

    /// How each result is cut, in the same form.
    pub fn output_shardings(&self) -> Result<Option<Vec<Vec<u8>>>, Error> {
        // SAFETY: the executable is alive.
        unsafe { shardings::of_outputs(self.handle.api(), self.handle.raw()) }
    }

    /// The executable as bytes, for [`Client::load`].
    pub fn serialize(&self) -> Result<SerializedExecutable, Error> {
        let args = sys::PJRT_Executable_Serialize_Args { executable: self.handle.raw(), ..Struct::new() };
        // SAFETY: the executable is alive; the bytes are copied before what holds them is freed, once.
        unsafe {
            let args = self.handle.api().call(args)?;
            let bytes = slice(args.serialized_bytes.cast::<u8>(), args.serialized_bytes_size);
            let serialized = SerializedExecutable::new(bytes, self.target.plugin());
            if let Some(free) = args.serialized_executable_deleter {
                free(args.serialized_executable);
            }
            Ok(serialized)
        }
    }
}
