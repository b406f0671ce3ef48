//! From a plugin's descriptions of devices to where they are.

use shardwright_mesh::{PhysicalDevice, PhysicalTopology, TorusPosition};
use shardwright_pjrt::{DeviceDescription, NamedValue, Topology};

use crate::error::Problem;
use crate::{Runtime, RuntimeError};

impl Runtime {
    /// Where the devices of all processes are: what [`Placement`](shardwright_mesh::Placement) lays meshes on and
    /// [`HostView`](shardwright_mesh::HostView) divides by hosts.
    ///
    /// # Errors
    /// When the plugin describes devices that make no topology.
    pub fn physical_topology(&self) -> Result<PhysicalTopology, RuntimeError> {
        match Topology::of_client(self.client()) {
            Ok(topology) => of(&topology),
            // A plugin without topologies still describes its devices.
            Err(error) if error.is_unimplemented() => {
                let devices = self.client().devices().iter().map(|device| device.description());
                from_descriptions(devices, [false; 3])
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// Where the devices of a topology are.
pub(super) fn of(topology: &Topology) -> Result<PhysicalTopology, RuntimeError> {
    let wrap = topology.attributes().iter().find(|(name, _)| name == "wrap");
    let wrap = match wrap.map(|(_, value)| value) {
        Some(NamedValue::I64List(wrap)) => {
            [0, 1, 2].map(|dim| wrap.get(dim).is_some_and(|&wraps| wraps != 0))
        }
        _ => [false; 3],
    };
    from_descriptions(topology.devices().iter(), wrap)
}

fn from_descriptions<'d>(
    devices: impl Iterator<Item = &'d DeviceDescription>,
    wrap: [bool; 3],
) -> Result<PhysicalTopology, RuntimeError> {
    let devices = devices.map(device).collect::<Result<Vec<_>, _>>()?;
    Ok(PhysicalTopology::new(devices, wrap).map_err(Problem::Topology)?)
}

fn device(description: &DeviceDescription) -> Result<PhysicalDevice, RuntimeError> {
    let unsigned = |what, value: i64| {
        let device = description.to_string();
        usize::try_from(value).map_err(|_| Problem::DeviceNumber { device, what, value })
    };
    let number = |name| match description.attribute(name) {
        Some(NamedValue::I64(value)) => unsigned(name, *value),
        _ => Ok(0),
    };
    let position = match description.attribute("coords") {
        Some(NamedValue::I64List(coords)) => match coords[..] {
            [x, y, z] => Some(TorusPosition {
                coords: [unsigned("x", x)?, unsigned("y", y)?, unsigned("z", z)?],
                core: number("core_on_chip")?,
            }),
            // Not a place on a torus.
            _ => None,
        },
        _ => None,
    };
    Ok(PhysicalDevice {
        id: unsigned("id", description.id())?,
        process: unsigned("process", description.process_index())?,
        slice: number("slice_index")?,
        position,
    })
}
