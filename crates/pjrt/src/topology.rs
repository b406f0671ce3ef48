use std::fmt;
use std::ptr;
use std::sync::Arc;

use shardwright_pjrt_sys::{self as sys, Args, Struct};

use crate::api::{Handle, slice, string};
use crate::error::{Error, if_implemented};
use crate::executable::Target;
use crate::named_value::{self, Attributes};
use crate::{ClientOptions, CompileOptions, DeviceDescription, Executable, Plugin, ProgramFormat};

/// Devices that need not be there: enough to compile for them.
///
/// What is compiled for a topology can be asked about its memory, its cost and its optimized program on a machine
/// that has no such device. Clones are cheap and are the same topology.
#[derive(Clone)]
pub struct Topology(Arc<Inner>);

// Fields are dropped in order: the topology goes before its plugin.
struct Inner {
    handle: Handle<sys::PJRT_TopologyDescription>,
    plugin: Plugin,
    devices: Vec<DeviceDescription>,
    platform_name: String,
    attributes: Attributes,
}

impl Topology {
    /// The topology that the plugin knows by this name, such as `v5e:4x4` for a TPU plugin.
    ///
    /// Names and options are the plugin's matter, and some wrong ones end the process: check what users write.
    pub fn new(plugin: &Plugin, name: &str, options: &ClientOptions) -> Result<Topology, Error> {
        const FUNCTION: &str = sys::PJRT_TopologyDescription_Create_Args::FUNCTION;
        let api = plugin.api();
        let create_options = named_value::to_raw(&options.values);
        let args = sys::PJRT_TopologyDescription_Create_Args {
            topology_name: name.as_ptr().cast(),
            topology_name_size: name.len(),
            create_options: create_options.as_ptr(),
            num_options: create_options.len(),
            ..Struct::new()
        };
        // SAFETY: name and options are alive during the call, and the caller owns the topology.
        let handle = unsafe { Handle::new(api, api.call(args)?.topology, FUNCTION)? };
        let topology = handle.raw();
        // SAFETY: the topology is alive, and so is what the calls return, which is copied.
        unsafe {
            let name =
                api.call(sys::PJRT_TopologyDescription_PlatformName_Args { topology, ..Struct::new() })?;
            let list = api.call(sys::PJRT_TopologyDescription_GetDeviceDescriptions_Args {
                topology,
                ..Struct::new()
            })?;
            let devices = slice(list.descriptions, list.num_descriptions)
                .iter()
                .map(|&raw| DeviceDescription::read(api, raw))
                .collect::<Result<_, _>>()?;
            let attributes =
                api.call(sys::PJRT_TopologyDescription_Attributes_Args { topology, ..Struct::new() });
            let attributes = if_implemented(attributes)?;
            Ok(Topology(Arc::new(Inner {
                handle,
                plugin: plugin.clone(),
                devices,
                platform_name: string(name.platform_name, name.platform_name_size),
                attributes: attributes
                    .map(|args| named_value::from_raw(args.attributes, args.num_attributes))
                    .unwrap_or_default(),
            })))
        }
    }

    /// The plugin that the topology is of.
    pub fn plugin(&self) -> &Plugin {
        &self.0.plugin
    }

    /// The platform, such as `tpu`.
    pub fn platform_name(&self) -> &str {
        &self.0.platform_name
    }

    /// The devices, in the plugin's order; their ids need not be contiguous.
    pub fn devices(&self) -> &[DeviceDescription] {
        &self.0.devices
    }

    /// What the plugin says of the topology.
    pub fn attributes(&self) -> &[(String, crate::NamedValue)] {
        &self.0.attributes
    }

    /// Compiles a program for these devices.
    pub fn compile(
        &self,
        code: &[u8],
        format: ProgramFormat,
        options: &CompileOptions,
    ) -> Result<Executable, Error> {
        const FUNCTION: &str = sys::PJRT_Compile_Args::FUNCTION;
        let device_ids: Vec<i64> = self.devices().iter().map(DeviceDescription::id).collect();
        let compile_options = options.encode(&device_ids)?;
        format.check(code, options)?;
        let program = format.program(code);
        let api = self.0.handle.api();
        let args = sys::PJRT_Compile_Args {
            topology: self.0.handle.raw(),
            program: &program,
            compile_options: compile_options.as_ptr().cast(),
            compile_options_size: compile_options.len(),
            client: ptr::null_mut(),
            ..Struct::new()
        };
        let target = Target::Topology { _topology: self.clone() };
        // SAFETY: the topology is alive, and program and options are during the call; the plugin does not write to
        // a program that is to be compiled. There may be no client. The caller owns the executable.
        unsafe { Executable::new(api, target, api.call(args)?.executable, FUNCTION) }
    }
}

impl fmt::Debug for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Topology({}, {} devices)", self.platform_name(), self.devices().len())
    }
}
