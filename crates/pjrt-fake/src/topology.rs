//! Topologies: descriptions of devices, there or not.

use std::ptr;
use std::sync::Arc;

use shardwright_pjrt_sys::{self as sys, Struct};

use crate::call::{functions, text};
use crate::failure::Failure;
use crate::registry::{self, Object, Shared};

pub(crate) const PLATFORM: &str = "fake";

/// The most devices that anybody may ask for.
const MOST: i64 = 4096;

pub(crate) struct Topology {
    pub(crate) descriptions: Shared<Vec<*mut sys::PJRT_DeviceDescription>>,
}

impl Object for Topology {
    type Raw = sys::PJRT_TopologyDescription;
    const KIND: &'static str = "topology";
}

pub(crate) struct Description {
    pub(crate) id: i32,
    process_index: i32,
    text: String,
    /// Kept for `attributes`, which point to it.
    _coords: Box<[i64; 3]>,
    attributes: Shared<[sys::PJRT_NamedValue; 1]>,
}

impl Description {
    fn new(id: i32, process_index: i32) -> Description {
        let (name, coords) = ("coords", Box::new([i64::from(id), 0, 0]));
        let attribute = sys::PJRT_NamedValue {
            name: name.as_ptr().cast(),
            name_size: name.len(),
            type_: sys::PJRT_NamedValue_kInt64List,
            __bindgen_anon_1: sys::PJRT_NamedValue__bindgen_ty_1 { int64_array_value: coords.as_ptr() },
            value_size: coords.len(),
            ..Struct::new()
        };
        let text = format!("FakeDevice(id={id})");
        Description { id, process_index, text, _coords: coords, attributes: Shared([attribute]) }
    }
}

impl Object for Description {
    type Raw = sys::PJRT_DeviceDescription;
    const KIND: &'static str = "device description";
}

/// A topology of devices with ids from 0, the first ones in process `process_index`, the others in the next.
pub(crate) fn create<W>(
    owner: *const W,
    devices: i64,
    addressable: i64,
    process_index: i64,
) -> Result<*mut sys::PJRT_TopologyDescription, Failure> {
    if !(0..=MOST).contains(&devices) {
        return Err(Failure::invalid(format!("{devices} devices; there can be 0 to {MOST}")));
    }
    let topology = registry::reserve::<Topology>();
    let describe = |id: i64| {
        let process_index = process_index + i64::from(id >= addressable);
        registry::insert(topology, Description::new(id as i32, process_index as i32))
    };
    let descriptions = Shared((0..devices).map(describe).collect());
    registry::put(topology, owner, Topology { descriptions });
    Ok(topology)
}

pub(crate) fn destroy(topology: *mut sys::PJRT_TopologyDescription) -> Result<(), Failure> {
    for &description in &registry::get::<Topology>(topology)?.descriptions.0 {
        registry::remove::<Description>(description)?;
    }
    registry::remove::<Topology>(topology).map(drop)
}

/// The topology that is called, and serialized as, `fake:` and a number of devices.
fn by_name(name: &str) -> Result<*mut sys::PJRT_TopologyDescription, Failure> {
    let devices = name.strip_prefix("fake:").and_then(|devices| devices.parse().ok());
    let devices = devices.ok_or_else(|| Failure::invalid(format!("no topology {name:?}; try fake:8")))?;
    create(ptr::null::<()>(), devices, devices, 0)
}

fn description(handle: *mut sys::PJRT_DeviceDescription) -> Result<Arc<Description>, Failure> {
    registry::get::<Description>(handle)
}

unsafe extern "C" fn free_serialized(serialized: *mut sys::PJRT_SerializedTopology) {
    // SAFETY: it comes from `Box::into_raw` below, and the caller frees it once.
    drop(unsafe { Box::from_raw(serialized.cast::<String>()) });
}

functions! {
    fn PJRT_TopologyDescription_Create(args: PJRT_TopologyDescription_Create_Args) {
        // SAFETY: the caller passes a text of this size.
        let name = unsafe { text(args.topology_name, args.topology_name_size) };
        args.topology = by_name(&name)?;
        Ok(())
    }

    fn PJRT_TopologyDescription_Deserialize(args: PJRT_TopologyDescription_Deserialize_Args) {
        // SAFETY: the caller passes bytes of this size.
        args.topology = by_name(&unsafe { text(args.serialized_topology, args.serialized_topology_size) })?;
        Ok(())
    }

    fn PJRT_TopologyDescription_Destroy(args: PJRT_TopologyDescription_Destroy_Args) {
        destroy(args.topology)
    }

    fn PJRT_TopologyDescription_PlatformName(args: PJRT_TopologyDescription_PlatformName_Args) {
        registry::get::<Topology>(args.topology)?;
        (args.platform_name, args.platform_name_size) = (PLATFORM.as_ptr().cast(), PLATFORM.len());
        Ok(())
    }

    fn PJRT_TopologyDescription_PlatformVersion(args: PJRT_TopologyDescription_PlatformVersion_Args) {
        registry::get::<Topology>(args.topology)?;
        (args.platform_version, args.platform_version_size) = (PLATFORM.as_ptr().cast(), PLATFORM.len());
        Ok(())
    }

    fn PJRT_TopologyDescription_Attributes(args: PJRT_TopologyDescription_Attributes_Args) {
        registry::get::<Topology>(args.topology)?;
        (args.attributes, args.num_attributes) = (ptr::null(), 0);
        Ok(())
    }

    fn PJRT_TopologyDescription_Serialize(args: PJRT_TopologyDescription_Serialize_Args) {
        let devices = registry::get::<Topology>(args.topology)?.descriptions.0.len();
        let text = Box::new(format!("{PLATFORM}:{devices}"));
        (args.serialized_bytes, args.serialized_bytes_size) = (text.as_ptr().cast(), text.len());
        args.serialized_topology = Box::into_raw(text).cast();
        args.serialized_topology_deleter = Some(free_serialized);
        Ok(())
    }

    fn PJRT_TopologyDescription_GetDeviceDescriptions(args: PJRT_TopologyDescription_GetDeviceDescriptions_Args) {
        let topology = registry::get::<Topology>(args.topology)?;
        let list = &topology.descriptions.0;
        (args.descriptions, args.num_descriptions) = (list.as_ptr(), list.len());
        Ok(())
    }

    fn PJRT_DeviceDescription_Id(args: PJRT_DeviceDescription_Id_Args) {
        args.id = description(args.device_description)?.id;
        Ok(())
    }

    fn PJRT_DeviceDescription_ProcessIndex(args: PJRT_DeviceDescription_ProcessIndex_Args) {
        args.process_index = description(args.device_description)?.process_index;
        Ok(())
    }

    fn PJRT_DeviceDescription_Kind(args: PJRT_DeviceDescription_Kind_Args) {
        description(args.device_description)?;
        (args.device_kind, args.device_kind_size) = (PLATFORM.as_ptr().cast(), PLATFORM.len());
        Ok(())
    }

    fn PJRT_DeviceDescription_ToString(args: PJRT_DeviceDescription_ToString_Args) {
        let description = description(args.device_description)?;
        (args.to_string, args.to_string_size) = (description.text.as_ptr().cast(), description.text.len());
        Ok(())
    }

    fn PJRT_DeviceDescription_Attributes(args: PJRT_DeviceDescription_Attributes_Args) {
        let description = description(args.device_description)?;
        let attributes = &description.attributes.0;
        (args.attributes, args.num_attributes) = (attributes.as_ptr(), attributes.len());
        Ok(())
    }
}
