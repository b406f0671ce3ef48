//! Clients with their devices and memories.

use std::ffi::c_int;

use shardwright_pjrt_sys as sys;

use crate::call::{functions, list};
use crate::failure::Failure;
use crate::options::Options;
use crate::registry::{self, Object, Shared};
use crate::topology::{self, PLATFORM, Topology};
use crate::work::{self, When};
use crate::{session, store};

pub(crate) struct Client {
    pub(crate) when: When,
    process_index: i64,
    platform_version: String,
    pub(crate) devices: Shared<Vec<*mut sys::PJRT_Device>>,
    pub(crate) addressable: usize,
    memories: Shared<Vec<*mut sys::PJRT_Memory>>,
    topology: Shared<*mut sys::PJRT_TopologyDescription>,
    later: Option<store::Later>,
}

pub(crate) struct Device {
    pub(crate) client: Shared<*mut sys::PJRT_Client>,
    description: Shared<*mut sys::PJRT_DeviceDescription>,
    /// None where another process has the device.
    pub(crate) memories: Shared<Vec<*mut sys::PJRT_Memory>>,
}

pub(crate) struct Memory {
    id: c_int,
    kind: &'static str,
    pub(crate) devices: Shared<[*mut sys::PJRT_Device; 1]>,
}

impl Object for Client {
    type Raw = sys::PJRT_Client;
    const KIND: &'static str = "client";
}

impl Object for Device {
    type Raw = sys::PJRT_Device;
    const KIND: &'static str = "device";
}

impl Object for Memory {
    type Raw = sys::PJRT_Memory;
    const KIND: &'static str = "memory";
}

/// The kinds of memory that each device has; the first is its own.
pub(crate) const MEMORIES: [&str; 2] = ["device", "pinned_host"];

fn create(
    options: &Options,
    platform_version: String,
    later: Option<store::Later>,
) -> Result<*mut sys::PJRT_Client, Failure> {
    let client = registry::reserve::<Client>();
    let addressable = options.addressable.unwrap_or(options.devices).clamp(0, options.devices.max(0));
    let topology = topology::create(client, options.devices, addressable, options.process_index)?;
    let mut memories = Vec::new();
    let mut device = |description: &*mut sys::PJRT_DeviceDescription| {
        let device = registry::reserve::<Device>();
        let is_addressable =
            i64::from(registry::get::<topology::Description>(*description)?.id) < addressable;
        let kinds = MEMORIES.iter().filter(|_| is_addressable);
        let memory = |(index, &kind): (usize, &&'static str)| {
            let memory = Memory { id: (memories.len() + index) as c_int, kind, devices: Shared([device]) };
            registry::insert(client, memory)
        };
        let its: Vec<_> = kinds.enumerate().map(memory).collect();
        memories.extend_from_slice(&its);
        let value =
            Device { client: Shared(client), description: Shared(*description), memories: Shared(its) };
        registry::put(device, client, value);
        Ok(device)
    };
    let descriptions = &registry::get::<Topology>(topology)?.descriptions.0;
    let devices = Shared(descriptions.iter().map(&mut device).collect::<Result<_, Failure>>()?);
    let value = Client {
        when: options.when,
        process_index: options.process_index,
        platform_version,
        devices,
        addressable: addressable as usize,
        memories: Shared(memories),
        topology: Shared(topology),
        later,
    };
    registry::put(client, std::ptr::null::<()>(), value);
    Ok(client)
}

functions! {
    fn PJRT_Client_Create(args: PJRT_Client_Create_Args) {
        // SAFETY: the caller passes a list of this length.
        let options = Options::read(unsafe { list(args.create_options, args.num_options) })?;
        if let Some(code) = options.fail {
            return Err(Failure::new(code, "told to fail"));
        }
        let got = store::call(args, &options)?;
        let later = store::later(args, &options);
        args.client = create(&options, got, later)?;
        Ok(())
    }

    fn PJRT_Client_Destroy(args: PJRT_Client_Destroy_Args) {
        let client = registry::get::<Client>(args.client)?;
        if work::is_own_thread() {
            let message = "a client destroyed on the plugin's own thread, which it would wait for";
            session::violation(message.to_owned());
            return Err(Failure::internal(message));
        }
        if let Some(later) = &client.later {
            later.end();
        }
        topology::destroy(client.topology.0)?;
        for &memory in &client.memories.0 {
            registry::remove::<Memory>(memory)?;
        }
        for &device in &client.devices.0 {
            registry::remove::<Device>(device)?;
        }
        registry::remove::<Client>(args.client).map(drop)
    }

    fn PJRT_Client_PlatformName(args: PJRT_Client_PlatformName_Args) {
        registry::get::<Client>(args.client)?;
        (args.platform_name, args.platform_name_size) = (PLATFORM.as_ptr().cast(), PLATFORM.len());
        Ok(())
    }

    fn PJRT_Client_PlatformVersion(args: PJRT_Client_PlatformVersion_Args) {
        let client = registry::get::<Client>(args.client)?;
        let version = &client.platform_version;
        (args.platform_version, args.platform_version_size) = (version.as_ptr().cast(), version.len());
        Ok(())
    }

    fn PJRT_Client_ProcessIndex(args: PJRT_Client_ProcessIndex_Args) {
        args.process_index = registry::get::<Client>(args.client)?.process_index as c_int;
        Ok(())
    }

    fn PJRT_Client_TopologyDescription(args: PJRT_Client_TopologyDescription_Args) {
        args.topology = registry::get::<Client>(args.client)?.topology.0;
        Ok(())
    }

    fn PJRT_Client_Devices(args: PJRT_Client_Devices_Args) {
        let client = registry::get::<Client>(args.client)?;
        (args.devices, args.num_devices) = (client.devices.0.as_ptr(), client.devices.0.len());
        Ok(())
    }

    fn PJRT_Client_AddressableDevices(args: PJRT_Client_AddressableDevices_Args) {
        let client = registry::get::<Client>(args.client)?;
        (args.addressable_devices, args.num_addressable_devices) =
            (client.devices.0.as_ptr(), client.addressable);
        Ok(())
    }

    fn PJRT_Client_AddressableMemories(args: PJRT_Client_AddressableMemories_Args) {
        let client = registry::get::<Client>(args.client)?;
        (args.addressable_memories, args.num_addressable_memories) =
            (client.memories.0.as_ptr(), client.memories.0.len());
        Ok(())
    }

    fn PJRT_Device_GetDescription(args: PJRT_Device_GetDescription_Args) {
        args.device_description = registry::get::<Device>(args.device)?.description.0;
        Ok(())
    }

    fn PJRT_Device_IsAddressable(args: PJRT_Device_IsAddressable_Args) {
        args.is_addressable = !registry::get::<Device>(args.device)?.memories.0.is_empty();
        Ok(())
    }

    fn PJRT_Device_AddressableMemories(args: PJRT_Device_AddressableMemories_Args) {
        let device = registry::get::<Device>(args.device)?;
        (args.memories, args.num_memories) = (device.memories.0.as_ptr(), device.memories.0.len());
        Ok(())
    }

    fn PJRT_Device_DefaultMemory(args: PJRT_Device_DefaultMemory_Args) {
        let device = registry::get::<Device>(args.device)?;
        let own = device.memories.0.first();
        args.memory = *own.ok_or_else(|| Failure::internal("another process has the device"))?;
        Ok(())
    }

    fn PJRT_Memory_Id(args: PJRT_Memory_Id_Args) {
        args.id = registry::get::<Memory>(args.memory)?.id;
        Ok(())
    }

    fn PJRT_Memory_Kind(args: PJRT_Memory_Kind_Args) {
        let kind = registry::get::<Memory>(args.memory)?.kind;
        (args.kind, args.kind_size) = (kind.as_ptr().cast(), kind.len());
        Ok(())
    }

    fn PJRT_Memory_ToString(args: PJRT_Memory_ToString_Args) {
        // Memories are named by their kind alone.
        let kind = registry::get::<Memory>(args.memory)?.kind;
        (args.to_string, args.to_string_size) = (kind.as_ptr().cast(), kind.len());
        Ok(())
    }

    fn PJRT_Memory_AddressableByDevices(args: PJRT_Memory_AddressableByDevices_Args) {
        let memory = registry::get::<Memory>(args.memory)?;
        (args.devices, args.num_devices) = (memory.devices.0.as_ptr(), memory.devices.0.len());
        Ok(())
    }
}
