//! From a plugin's descriptions of devices to where they are.

use shardwright_mesh::{AbstractMesh, Mesh, PhysicalAxis, PhysicalDevice, PhysicalTopology, TorusPosition};
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

/// A mesh of these devices of a topology in the order that suits their torus. `None` where they have no coordinates,
/// are of several slices, or do not fill a box.
pub(crate) fn on_torus(shape: &AbstractMesh, ids: &[usize], topology: &PhysicalTopology) -> Option<Mesh> {
    let is_meant = |device: &&PhysicalDevice| ids.contains(&device.id) && device.position.is_some();
    let devices = topology.devices().iter().filter(is_meant).copied();
    // A part of a torus does not close, or not for its own devices alone.
    let is_whole = ids.len() == topology.devices().len();
    let wrap =
        [PhysicalAxis::X, PhysicalAxis::Y, PhysicalAxis::Z].map(|axis| is_whole && topology.wraps(axis));
    let topology = PhysicalTopology::new(devices, wrap).ok()?;
    // A topology of several slices, or of fewer devices than the mesh, is no place for it.
    Some(Mesh::for_topology(shape, &topology).ok()?.mesh().clone())
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

#[cfg(test)]
mod tests {
    use super::*;

    fn device(id: usize, slice: usize, coords: Option<[usize; 3]>) -> PhysicalDevice {
        let position = coords.map(|coords| TorusPosition { coords, core: 0 });
        PhysicalDevice { id, process: id / 4, slice, position }
    }

    fn ids(mesh: &str, ids: &[usize], devices: impl Iterator<Item = PhysicalDevice>) -> Option<Vec<usize>> {
        let topology = PhysicalTopology::new(devices, [false, true, false]).unwrap();
        let mesh = on_torus(&AbstractMesh::parse(mesh).unwrap(), ids, &topology)?;
        Some(mesh.device_ids().collect())
    }

    #[test]
    fn devices_of_one_slice_are_laid_on_its_torus() {
        let eight = || (0..8).map(|id| device(id, 0, Some([id % 2, id / 2, 0])));
        let all: Vec<_> = (0..8).collect();
        // The last axis has the four chips along y, which is not the order of the ids.
        assert_eq!(ids("data=2,fsdp=4", &all, eight()), Some(vec![0, 2, 4, 6, 1, 3, 5, 7]));
        // The devices of one process.
        assert_eq!(ids("fsdp=4", &[4, 5, 6, 7], eight()), Some(vec![4, 6, 5, 7]));
        // No box.
        assert_eq!(ids("fsdp=3", &[0, 1, 2], eight()), None);
    }

    #[test]
    fn other_devices_are_not() {
        let all: Vec<_> = (0..4).collect();
        assert_eq!(ids("fsdp=4", &all, (0..4).map(|id| device(id, id / 2, Some([id % 2, 0, 0])))), None);
        assert_eq!(ids("fsdp=4", &all, (0..4).map(|id| device(id, 0, None))), None);
    }
}
