use std::fmt;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use shardwright_pjrt_sys::{self as sys, Args, Struct};

use crate::api::{Handle, non_null, slice, string};
use crate::error::{Error, if_implemented};
use crate::executable::Target;
use crate::named_value::{self, Attributes};
use crate::{
    Client, ClientOptions, CompileOptions, DeviceDescription, Executable, NamedValue, Plugin, ProgramFormat,
};

/// More devices than any machine has. A description of a million takes gigabytes, and plugins do not ask back.
const MOST_DEVICES: u64 = 1 << 17;

/// Devices that need not be there: enough to compile for them.
///
/// What is compiled for a topology can be asked about its memory, its cost and its optimized program on a machine
/// that has no such device. Clones are cheap and are the same topology.
#[derive(Clone)]
pub struct Topology(Arc<Inner>);

// Fields are dropped in order: the topology goes before its plugin.
struct Inner {
    source: Source,
    plugin: Plugin,
    devices: Vec<DeviceDescription>,
    platform_name: String,
    platform_version: String,
    attributes: Attributes,
}

/// Whose the topology is.
enum Source {
    Own(Handle<sys::PJRT_TopologyDescription>),
    /// A client's, which is therefore kept.
    Client(Borrowed, Client),
}

/// A topology that belongs to a client.
struct Borrowed(NonNull<sys::PJRT_TopologyDescription>);

// SAFETY: a client's topology belongs to no thread and is only read.
unsafe impl Send for Borrowed {}
// SAFETY: as for `Send`.
unsafe impl Sync for Borrowed {}

impl Topology {
    /// The topology that the plugin knows by this name, such as `v5e:4x4` for a TPU plugin.
    ///
    /// Names and options are the plugin's matter. Refused is what is known to end the process, and what can be no
    /// topology: a size of zero, in the name or for the chips of a host (option `chips_per_host_bounds`), more slices
    /// (option `num_slices`) or devices than any machine has, and an option that is given twice.
    pub fn new(plugin: &Plugin, name: &str, options: &ClientOptions) -> Result<Topology, Error> {
        const FUNCTION: &str = sys::PJRT_TopologyDescription_Create_Args::FUNCTION;
        check(name, options).map_err(|message| Error::refused(format!("topology {name:?}"), message))?;
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
        Topology::describe(Source::Own(handle), plugin)
    }

    /// The topology that [`Topology::serialize`] wrote down, in this process or another.
    ///
    /// Older CPU plugins cannot, and say [`StatusCode::NotFound`](crate::StatusCode::NotFound). Plugins parse the bytes
    /// as they parse programs: damaged ones are mostly errors, and whoever takes them from others does so in a child
    /// process.
    pub fn deserialize(plugin: &Plugin, bytes: &[u8]) -> Result<Topology, Error> {
        const FUNCTION: &str = sys::PJRT_TopologyDescription_Deserialize_Args::FUNCTION;
        let api = plugin.api();
        let args = sys::PJRT_TopologyDescription_Deserialize_Args {
            serialized_topology: bytes.as_ptr().cast(),
            serialized_topology_size: bytes.len(),
            ..Struct::new()
        };
        // SAFETY: the bytes are alive during the call, and the caller owns the topology.
        let handle = unsafe { Handle::new(api, api.call(args)?.topology, FUNCTION)? };
        Topology::describe(Source::Own(handle), plugin)
    }

    /// The topology of a client's devices, those of other processes among them.
    pub fn of_client(client: &Client) -> Result<Topology, Error> {
        const FUNCTION: &str = sys::PJRT_Client_TopologyDescription_Args::FUNCTION;
        let args = sys::PJRT_Client_TopologyDescription_Args { client: client.raw(), ..Struct::new() };
        // SAFETY: the client is alive.
        let topology = unsafe { client.api().call(args)? }.topology;
        // The client owns it, and lives as long as the source.
        let source = Source::Client(Borrowed(non_null(topology, FUNCTION)?), client.clone());
        Topology::describe(source, client.plugin())
    }

    fn describe(source: Source, plugin: &Plugin) -> Result<Topology, Error> {
        const DEVICES: &str = sys::PJRT_TopologyDescription_GetDeviceDescriptions_Args::FUNCTION;
        let (api, topology) = (plugin.api(), source.raw());
        // SAFETY: the topology is alive, and so is what the calls return, which is copied.
        unsafe {
            let name =
                api.call(sys::PJRT_TopologyDescription_PlatformName_Args { topology, ..Struct::new() })?;
            let version =
                api.call(sys::PJRT_TopologyDescription_PlatformVersion_Args { topology, ..Struct::new() })?;
            let list = api.call(sys::PJRT_TopologyDescription_GetDeviceDescriptions_Args {
                topology,
                ..Struct::new()
            })?;
            let devices = slice(list.descriptions, list.num_descriptions)
                .iter()
                .map(|&raw| DeviceDescription::read(api, raw, DEVICES))
                .collect::<Result<_, _>>()?;
            let attributes =
                api.call(sys::PJRT_TopologyDescription_Attributes_Args { topology, ..Struct::new() });
            let attributes = if_implemented(attributes)?;
            Ok(Topology(Arc::new(Inner {
                source,
                plugin: plugin.clone(),
                devices,
                platform_name: string(name.platform_name, name.platform_name_size),
                platform_version: string(version.platform_version, version.platform_version_size),
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

    /// The platform's version, in the words of the plugin.
    pub fn platform_version(&self) -> &str {
        &self.0.platform_version
    }

    /// The devices, in the plugin's order; their ids need not be contiguous.
    pub fn devices(&self) -> &[DeviceDescription] {
        &self.0.devices
    }

    /// What the plugin says of the topology.
    pub fn attributes(&self) -> &[(String, NamedValue)] {
        &self.0.attributes
    }

    /// The topology as bytes, the same for the same topology of the same plugin. TPU plugins cannot write one of
    /// several slices, and then say that this is not implemented: [`Error::is_unimplemented`].
    pub fn serialize(&self) -> Result<Vec<u8>, Error> {
        let args = sys::PJRT_TopologyDescription_Serialize_Args { topology: self.raw(), ..Struct::new() };
        // SAFETY: the topology is alive; the bytes are copied before what holds them is freed, once.
        unsafe {
            let args = self.0.plugin.api().call(args)?;
            let bytes = slice(args.serialized_bytes.cast::<u8>(), args.serialized_bytes_size).to_vec();
            if let Some(free) = args.serialized_topology_deleter {
                free(args.serialized_topology);
            }
            Ok(bytes)
        }
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
        let api = self.0.plugin.api();
        let args = sys::PJRT_Compile_Args {
            topology: self.raw(),
            program: &program,
            compile_options: compile_options.as_ptr().cast(),
            compile_options_size: compile_options.len(),
            client: ptr::null_mut(),
            ..Struct::new()
        };
        let target = Target::Topology(self.clone());
        // SAFETY: the topology is alive, and program and options are during the call; the plugin does not write to
        // a program that is to be compiled. There may be no client. The caller owns the executable.
        unsafe { Executable::new(api, target, api.call(args)?.executable, FUNCTION) }
    }

    /// The topology, for calls made while `self` is borrowed.
    fn raw(&self) -> *mut sys::PJRT_TopologyDescription {
        self.0.source.raw()
    }
}

impl Source {
    fn raw(&self) -> *mut sys::PJRT_TopologyDescription {
        match self {
            Source::Own(handle) => handle.raw(),
            Source::Client(Borrowed(topology), _client) => topology.as_ptr(),
        }
    }
}

/// Refuses what ends the process of the TPU plugin, and no other plugin has a use for.
fn check(name: &str, options: &ClientOptions) -> Result<(), String> {
    options.check()?;
    let layout = name.rsplit_once([':', '=', '_']).map_or("", |(kind, layout)| match layout {
        "twisted" | "untwisted" => kind.rsplit_once([':', '=', '_']).map_or("", |(_, layout)| layout),
        layout => layout,
    });
    // A part that is no number is the plugin's to judge; one with more digits than fit is a large one.
    let is_number = |size: &&str| !size.is_empty() && size.bytes().all(|byte| byte.is_ascii_digit());
    let sizes = layout.split('x').filter(is_number).map(|size| size.parse().unwrap_or(u64::MAX));
    let sizes: Vec<u64> = sizes.collect();
    if sizes.contains(&0) {
        return Err("a size of its layout is 0, and each is at least 1".to_owned());
    }
    let mut slices = 1;
    for (option, value) in &options.values {
        let list = match value {
            NamedValue::I64(number) => std::slice::from_ref(number),
            NamedValue::I64List(list) => list,
            _ => continue,
        };
        match option.as_str() {
            "num_slices" => {
                for count in list {
                    let found = u64::try_from(*count).unwrap_or(0);
                    if !(1..=MOST_DEVICES).contains(&found) {
                        return Err(format!("{count} slices were asked for, expected 1 to {MOST_DEVICES}"));
                    }
                    slices = found.saturating_mul(slices);
                }
            }
            "chips_per_host_bounds" if list.iter().any(|&size| size < 1) => {
                return Err(format!(
                    "the chips of a host are {list:?}, and each number of them is at least 1"
                ));
            }
            _ => {}
        }
    }
    let devices = sizes.iter().fold(slices, |product, &size| product.saturating_mul(size));
    if devices > MOST_DEVICES {
        let or_more = if devices == u64::MAX { "or more" } else { "in all" };
        return Err(format!("it has {devices} chips {or_more}, and {MOST_DEVICES} is the most"));
    }
    Ok(())
}

impl fmt::Debug for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Topology({}, {} devices)", self.platform_name(), self.devices().len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ends_the_process_is_refused() {
        let slices = |count: i64| ClientOptions::default().with("num_slices", count);
        let cases = [
            ("v5e:0x0", slices(1), "a size of its layout is 0, and each is at least 1"),
            ("v5p_4x00x4_twisted", slices(1), "a size of its layout is 0, and each is at least 1"),
            ("v5e:2x2", slices(0), "0 slices were asked for, expected 1 to 131072"),
            ("v5e:2x2", slices(-1), "-1 slices were asked for, expected 1 to 131072"),
            ("v5e:2x2", slices(1 << 31), "2147483648 slices were asked for, expected 1 to 131072"),
            ("v5e:2x2", slices(100_000), "it has 400000 chips in all, and 131072 is the most"),
            ("v5e=1024x1024", slices(1), "it has 1048576 chips in all, and 131072 is the most"),
            (
                "v5e:99999999999999999999x1",
                slices(1),
                "it has 18446744073709551615 chips or more, and 131072 is the most",
            ),
            (
                "v5e:2x2",
                ClientOptions::default().with("num_slices", vec![0]),
                "0 slices were asked for, expected 1 to 131072",
            ),
            ("v5e:2x2", slices(1).with("num_slices", 1), "the option num_slices is given twice"),
        ];
        let bounds =
            |bounds: [i64; 3]| ClientOptions::default().with("chips_per_host_bounds", bounds.to_vec());
        for (numbers, shown) in [([0, 2, 1], "[0, 2, 1]"), ([2, 2, -1], "[2, 2, -1]")] {
            let message = format!("the chips of a host are {shown}, and each number of them is at least 1");
            assert_eq!(check("v5e:4x4", &bounds(numbers)), Err(message));
        }
        assert_eq!(check("v5e:4x4", &bounds([2, 2, 1])), Ok(()));
        for (name, options, message) in cases {
            assert_eq!(check(name, &options), Err(message.to_owned()), "{name}");
        }
        for name in ["v5e:4x4", "v5p:32x32x32", "", "cpu", "h100", "v5e:", "v5e:2xlarge"] {
            assert_eq!(check(name, &ClientOptions::default()), Ok(()), "{name}");
        }
    }
}
