use std::fmt;
use std::ptr::NonNull;

use shardwright_pjrt_sys::{self as sys, Args, Struct};

use crate::Memory;
use crate::api::{Api, non_null, string};
use crate::error::{Error, if_implemented};
use crate::named_value::{self, Attributes};

/// What is known of a device, whether or not it is there: a topology describes devices that exist elsewhere.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceDescription {
    id: i64,
    process_index: i64,
    kind: String,
    attributes: Attributes,
    text: String,
}

/// A device of a [`Client`](crate::Client), borrowed from it.
pub struct Device {
    raw: NonNull<sys::PJRT_Device>,
    api: Api,
    description: DeviceDescription,
    is_addressable: bool,
    memories: Vec<Memory>,
    // Among the memories.
    default_memory: Option<usize>,
}

/// Use of a device's memory, in bytes. What the plugin does not report is `None`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeviceMemoryStats {
    /// In use now.
    pub bytes_in_use: i64,
    /// The most that was in use at one time.
    pub peak_bytes_in_use: Option<i64>,
    /// How many blocks were allocated so far.
    pub num_allocs: Option<i64>,
    /// The largest block that was allocated so far.
    pub largest_alloc_size: Option<i64>,
    /// What programs may use altogether.
    pub bytes_limit: Option<i64>,
    /// Set aside now, beside what is in use.
    pub bytes_reserved: Option<i64>,
    /// The most that was set aside at one time.
    pub peak_bytes_reserved: Option<i64>,
    /// What may be set aside altogether.
    pub bytes_reservable_limit: Option<i64>,
    /// The largest block that can be allocated now.
    pub largest_free_block_bytes: Option<i64>,
    /// What the plugin has taken of the device to give out, whether or not it is in use.
    pub pool_bytes: Option<i64>,
    /// The most that it had taken at one time.
    pub peak_pool_bytes: Option<i64>,
}

// SAFETY: a device is a part of its client, which belongs to no thread; PJRT's functions may be called on it from
// many threads at once.
unsafe impl Send for Device {}
// SAFETY: as for `Send`.
unsafe impl Sync for Device {}

impl DeviceDescription {
    /// # Safety
    ///
    /// `raw`, which `function` has given, is null or alive.
    pub(crate) unsafe fn read(
        api: Api,
        raw: *mut sys::PJRT_DeviceDescription,
        function: &str,
    ) -> Result<DeviceDescription, Error> {
        let raw = non_null(raw, function)?.as_ptr();
        // SAFETY: `raw` is alive for all calls, and what they return is copied at once.
        unsafe {
            let id =
                api.call(sys::PJRT_DeviceDescription_Id_Args { device_description: raw, ..Struct::new() })?;
            let process = api.call(sys::PJRT_DeviceDescription_ProcessIndex_Args {
                device_description: raw,
                ..Struct::new()
            })?;
            let kind =
                api.call(sys::PJRT_DeviceDescription_Kind_Args { device_description: raw, ..Struct::new() })?;
            let text = api.call(sys::PJRT_DeviceDescription_ToString_Args {
                device_description: raw,
                ..Struct::new()
            })?;
            let attributes = if_implemented(api.call(sys::PJRT_DeviceDescription_Attributes_Args {
                device_description: raw,
                ..Struct::new()
            }))?;
            Ok(DeviceDescription {
                id: id.id.into(),
                process_index: process.process_index.into(),
                kind: string(kind.device_kind, kind.device_kind_size),
                attributes: attributes
                    .map(|args| named_value::from_raw(args.attributes, args.num_attributes))
                    .unwrap_or_default(),
                text: string(text.to_string, text.to_string_size),
            })
        }
    }

    /// The number that device assignments and sharded programs mean by "device".
    pub fn id(&self) -> i64 {
        self.id
    }

    /// The process that the device can be reached from.
    pub fn process_index(&self) -> i64 {
        self.process_index
    }

    /// The vendor's name for devices like this one, such as `TPU v5e`.
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// What the plugin says of the device, such as its coordinates.
    pub fn attributes(&self) -> &[(String, crate::NamedValue)] {
        &self.attributes
    }

    /// One of the attributes.
    pub fn attribute(&self, name: &str) -> Option<&crate::NamedValue> {
        self.attributes.iter().find(|(candidate, _)| candidate == name).map(|(_, value)| value)
    }
}

impl fmt::Display for DeviceDescription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Device {
    /// # Safety
    ///
    /// `raw` is null or a device of a client that outlives the result.
    pub(crate) unsafe fn read(
        api: Api,
        raw: *mut sys::PJRT_Device,
        is_addressable: bool,
    ) -> Result<Device, Error> {
        let raw = non_null(raw, sys::PJRT_Client_Devices_Args::FUNCTION)?;
        let device = raw.as_ptr();
        // SAFETY: the device is alive, hence its description too.
        let description = unsafe {
            let args = api.call(sys::PJRT_Device_GetDescription_Args { device, ..Struct::new() })?;
            DeviceDescription::read(
                api,
                args.device_description,
                sys::PJRT_Device_GetDescription_Args::FUNCTION,
            )?
        };
        let (memories, default_memory) = match is_addressable {
            // SAFETY: the device is alive, and so is its client for as long as the result is.
            true => unsafe { Memory::of_device(api, device)? },
            false => (Vec::new(), None),
        };
        Ok(Device { raw, api, description, is_addressable, memories, default_memory })
    }

    /// What the plugin says of the device.
    pub fn description(&self) -> &DeviceDescription {
        &self.description
    }

    /// The number that device assignments mean.
    pub fn id(&self) -> i64 {
        self.description.id
    }

    /// The vendor's name for devices like this one.
    pub fn kind(&self) -> &str {
        &self.description.kind
    }

    /// Whether this process can put buffers on the device.
    pub fn is_addressable(&self) -> bool {
        self.is_addressable
    }

    /// The memories that the device can reach; none where the plugin knows none, and of the devices of other processes.
    pub fn memories(&self) -> &[Memory] {
        &self.memories
    }

    /// The memory that buffers lie in unless said otherwise.
    pub fn default_memory(&self) -> Option<&Memory> {
        self.default_memory.map(|index| &self.memories[index])
    }

    /// How much memory is in use now. Many plugins, the CPU's among them, do not implement this.
    pub fn memory_stats(&self) -> Result<DeviceMemoryStats, Error> {
        let args = sys::PJRT_Device_MemoryStats_Args { device: self.raw(), ..Struct::new() };
        // SAFETY: the device is alive, for it is borrowed from its client.
        let args = unsafe { self.api.call(args)? };
        let set = |is_set: bool, value: i64| is_set.then_some(value);
        Ok(DeviceMemoryStats {
            bytes_in_use: args.bytes_in_use,
            peak_bytes_in_use: set(args.peak_bytes_in_use_is_set, args.peak_bytes_in_use),
            num_allocs: set(args.num_allocs_is_set, args.num_allocs),
            largest_alloc_size: set(args.largest_alloc_size_is_set, args.largest_alloc_size),
            bytes_limit: set(args.bytes_limit_is_set, args.bytes_limit),
            bytes_reserved: set(args.bytes_reserved_is_set, args.bytes_reserved),
            peak_bytes_reserved: set(args.peak_bytes_reserved_is_set, args.peak_bytes_reserved),
            bytes_reservable_limit: set(args.bytes_reservable_limit_is_set, args.bytes_reservable_limit),
            largest_free_block_bytes: set(
                args.largest_free_block_bytes_is_set,
                args.largest_free_block_bytes,
            ),
            pool_bytes: set(args.pool_bytes_is_set, args.pool_bytes),
            peak_pool_bytes: set(args.peak_pool_bytes_is_set, args.peak_pool_bytes),
        })
    }

    /// The device, for calls made while its client is borrowed.
    pub(crate) fn raw(&self) -> *mut sys::PJRT_Device {
        self.raw.as_ptr()
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.description.fmt(f)
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.description.fmt(f)
    }
}
