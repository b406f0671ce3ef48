use std::collections::BTreeSet;
use std::fmt;
use std::ptr::NonNull;

use shardwright_pjrt_sys::{self as sys, Args, Struct};

use crate::api::{Api, non_null, slice, string};
use crate::error::{Error, if_implemented};
use crate::{Client, Device};

/// A memory that devices of a [`Client`] can reach, such as a device's own, or host memory that it can read.
///
/// Every device has a default one; others are found by their kind: see [`Device::memory`].
#[derive(Clone)]
pub struct Memory {
    raw: NonNull<sys::PJRT_Memory>,
    id: i64,
    kind: String,
    text: String,
    device_ids: Vec<i64>,
}

// SAFETY: a memory is a part of its client, which belongs to no thread; PJRT's functions may be called on it from
// many threads at once.
unsafe impl Send for Memory {}
// SAFETY: as for `Send`.
unsafe impl Sync for Memory {}

/// Where a buffer is to lie: on a device, in the memory that the plugin prefers, or in a certain memory.
///
/// What takes one takes a `&Device` and a `&Memory`, too.
#[derive(Clone, Copy, Debug)]
pub enum Place<'a> {
    /// In the device's default memory.
    Device(&'a Device),
    /// In this memory.
    Memory(&'a Memory),
}

/// A place in the words of PJRT, on devices of the client that it was checked against.
pub(crate) struct RawPlace {
    /// The device, where its default memory is meant.
    pub(crate) device: *mut sys::PJRT_Device,
    /// The memory, where a certain one is meant; else null.
    pub(crate) memory: *mut sys::PJRT_Memory,
    /// Where the device that the buffer will belong to stands in [`Client::devices`].
    pub(crate) device_index: usize,
    /// Whether that is another memory than this device's default one.
    is_offloaded: bool,
}

impl RawPlace {
    /// What a buffer keeps of it.
    pub(crate) fn at(&self) -> (usize, bool) {
        (self.device_index, self.is_offloaded)
    }
}

impl Client {
    /// The memories that this process can put buffers into, each once, those of the first device first.
    pub fn memories(&self) -> impl Iterator<Item = &Memory> {
        let mut seen = BTreeSet::new();
        self.addressable_devices().flat_map(Device::memories).filter(move |memory| seen.insert(memory.raw))
    }

    /// Checks that the place is one of this client's, where buffers can lie. `what` is what was to be done.
    pub(crate) fn raw_place(&self, place: Place<'_>, what: &str) -> Result<RawPlace, Error> {
        match place {
            Place::Device(device) => {
                let index = self.index_of(device.raw()).filter(|_| device.is_addressable());
                let refuse =
                    || Error::refused(what, format!("{device} is not an addressable device of this client"));
                let (device, device_index) = (device.raw(), index.ok_or_else(refuse)?);
                Ok(RawPlace { device, memory: std::ptr::null_mut(), device_index, is_offloaded: false })
            }
            Place::Memory(memory) => {
                let reaches = |device: &Device| device.memories().iter().any(|m| m.raw == memory.raw);
                let index =
                    self.devices().iter().position(|device| device.is_addressable() && reaches(device));
                let refuse = || {
                    let known: Vec<&str> = self.memories().map(|known| known.text.as_str()).collect();
                    let known = known.join(", ");
                    Error::refused(what, format!("{memory} is not among this client's memories: {known}"))
                };
                let device_index = index.ok_or_else(refuse)?;
                let device = &self.devices()[device_index];
                let is_offloaded = device.default_memory().is_some_and(|default| default != memory);
                Ok(RawPlace { device: device.raw(), memory: memory.raw(), device_index, is_offloaded })
            }
        }
    }
}

impl Device {
    /// The memory of this kind that the device can reach.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Refused`](crate::ErrorKind::Refused) when there is none; the message lists those that there are.
    pub fn memory(&self, kind: &str) -> Result<&Memory, Error> {
        self.memories().iter().find(|memory| memory.kind == kind).ok_or_else(|| {
            let known: Vec<&str> = self.memories().iter().map(Memory::kind).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            Error::refused("memory", format!("{self} reaches no memory of kind {kind:?}; it has: {known}"))
        })
    }
}

impl Memory {
    /// The memories that an addressable device reaches, and which of them is its default; none where the plugin knows
    /// none. Of other devices, plugins answer with all kinds of errors.
    ///
    /// # Safety
    ///
    /// `device` is a device of a client that outlives the results.
    pub(crate) unsafe fn of_device(
        api: Api,
        device: *mut sys::PJRT_Device,
    ) -> Result<(Vec<Memory>, Option<usize>), Error> {
        // SAFETY: the device is alive, hence its memories too, and the list, which lives as long, is read at once.
        unsafe {
            let list = if_implemented(
                api.call(sys::PJRT_Device_AddressableMemories_Args { device, ..Struct::new() }),
            )?;
            let raw = list.map(|args| slice(args.memories, args.num_memories)).unwrap_or_default();
            let memories = raw.iter().map(|&memory| Memory::read(api, memory)).collect::<Result<_, _>>()?;
            let default =
                if_implemented(api.call(sys::PJRT_Device_DefaultMemory_Args { device, ..Struct::new() }))?;
            let default = default.and_then(|args| raw.iter().position(|&memory| memory == args.memory));
            Ok((memories, default))
        }
    }

    /// # Safety
    ///
    /// `raw` is null or a memory of a client that outlives the result.
    unsafe fn read(api: Api, raw: *mut sys::PJRT_Memory) -> Result<Memory, Error> {
        let raw = non_null(raw, sys::PJRT_Device_AddressableMemories_Args::FUNCTION)?;
        let memory = raw.as_ptr();
        // SAFETY: the memory is alive in all calls, and what they return is copied at once; the devices that it lists
        // live as long, and so do their descriptions.
        unsafe {
            let kind = api.call(sys::PJRT_Memory_Kind_Args { memory, ..Struct::new() })?;
            let id = api.call(sys::PJRT_Memory_Id_Args { memory, ..Struct::new() })?;
            let text = api.call(sys::PJRT_Memory_ToString_Args { memory, ..Struct::new() })?;
            let devices = api.call(sys::PJRT_Memory_AddressableByDevices_Args { memory, ..Struct::new() })?;
            let device_id = |&device: &*mut sys::PJRT_Device| {
                let function = sys::PJRT_Device_GetDescription_Args::FUNCTION;
                let args = api.call(sys::PJRT_Device_GetDescription_Args { device, ..Struct::new() })?;
                let device_description = non_null(args.device_description, function)?.as_ptr();
                let args =
                    api.call(sys::PJRT_DeviceDescription_Id_Args { device_description, ..Struct::new() })?;
                Ok::<i64, Error>(args.id.into())
            };
            Ok(Memory {
                raw,
                id: id.id.into(),
                kind: string(kind.kind, kind.kind_size),
                text: string(text.to_string, text.to_string_size),
                device_ids: slice(devices.devices, devices.num_devices)
                    .iter()
                    .map(device_id)
                    .collect::<Result<_, _>>()?,
            })
        }
    }

    /// The number of the memory among those of its client.
    pub fn id(&self) -> i64 {
        self.id
    }

    /// What kind of memory it is, such as `device` and `pinned_host`.
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// The ids of the devices that can read and write it.
    pub fn device_ids(&self) -> &[i64] {
        &self.device_ids
    }

    /// The memory, for calls made while its client is borrowed.
    pub(crate) fn raw(&self) -> *mut sys::PJRT_Memory {
        self.raw.as_ptr()
    }
}

impl PartialEq for Memory {
    /// Whether both are the same memory of the same client.
    fn eq(&self, other: &Memory) -> bool {
        self.raw == other.raw
    }
}

impl Eq for Memory {}

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl<'a> From<&'a Device> for Place<'a> {
    fn from(device: &'a Device) -> Place<'a> {
        Place::Device(device)
    }
}

impl<'a> From<&'a Memory> for Place<'a> {
    fn from(memory: &'a Memory) -> Place<'a> {
        Place::Memory(memory)
    }
}
