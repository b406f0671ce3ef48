//! Where devices physically are: [`PhysicalTopology`].

use std::fmt;

/// One device of a [`PhysicalTopology`], as a plugin reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PhysicalDevice {
    /// The id that a [`crate::Mesh`] names it by; unique, and not necessarily contiguous.
    pub id: usize,
    /// The host, as the process that can reach the device.
    pub process: usize,
    /// The slice: devices of one slice share a fast network, slices are joined by the data centre's. Machines
    /// that know no slices are slice 0.
    pub slice: usize,
    /// Where in its slice it is, if the platform says so.
    pub position: Option<TorusPosition>,
}

/// A device's place in the torus of its slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TorusPosition {
    /// The chip's coordinates x, y, z. A slice need not begin at 0.
    pub coords: [usize; 3],
    /// Which of the chip's devices it is; 0 where a chip is one device.
    pub core: usize,
}

/// A physical direction along which devices lie, from the slowest network to the fastest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum PhysicalAxis {
    /// From slice to slice, over the data centre's network.
    Dcn,
    /// The first dim of the torus.
    X,
    /// The second dim of the torus.
    Y,
    /// The third dim of the torus.
    Z,
    /// The devices of one chip.
    Core,
    /// The devices of a slice in the order of their ids, where their positions are not known.
    Devices,
}

/// Devices and where they are: slices of equal size, each a full box of chips where positions are known.
///
/// This is data, worked out from a running client or from a description of devices that are elsewhere. The
/// order in which devices are listed does not matter: two lists of the same devices give equal topologies.
///
/// ```
/// use shardwright_mesh::{PhysicalDevice, PhysicalTopology, TorusPosition};
///
/// let device = |id: usize| PhysicalDevice {
///     id,
///     process: 0,
///     slice: 0,
///     position: Some(TorusPosition { coords: [id % 2, id / 2, 0], core: 0 }),
/// };
/// let topology = PhysicalTopology::new((0..4).map(device), [false; 3])?;
/// assert_eq!(topology.to_string(), "4 devices: 2x2 chips, 1 host");
/// # Ok::<(), shardwright_mesh::TopologyError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PhysicalTopology {
    // Slice by slice in the order of their indices; within one row-major by coordinates and core, or by id.
    devices: Vec<PhysicalDevice>,
    // All axes of the grid of devices, slowest first. The product of the sizes is the number of devices.
    axes: Vec<(PhysicalAxis, usize)>,
    wrap: [bool; 3],
}

/// A list of devices that is no topology.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TopologyError {
    /// The list is empty.
    #[error("a topology has at least one device, none is listed")]
    NoDevices,
    /// An id is listed twice.
    #[error("device {id} is listed twice")]
    DuplicateDevice {
        /// The id.
        id: usize,
    },
    /// Slices differ in size.
    #[error(
        "slices differ in their number of devices: {}; all slices of a topology are alike",
        slice_sizes(sizes)
    )]
    UnequalSlices {
        /// Each slice's index and number of devices.
        sizes: Vec<(usize, usize)>,
    },
    /// Some devices have a position and some have none.
    #[error(
        "device {with} has coordinates and device {without} has none; all devices of a topology have them, or none has"
    )]
    MissingPosition {
        /// A device with a position.
        with: usize,
        /// A device without one.
        without: usize,
    },
    /// Two devices are in one place.
    #[error("devices {first} and {second} are both at {position} of slice {slice}")]
    SharedPosition {
        /// The slice.
        slice: usize,
        /// The place.
        position: TorusPosition,
        /// The device with the lower id.
        first: usize,
        /// The other one.
        second: usize,
    },
    /// The devices of a slice do not fill a box.
    #[error(
        "slice {slice} spans {} chips (devices per chip: {cores}), and has {found} devices; \
         a slice is a full box of chips",
        dims(chips)
    )]
    Holes {
        /// The slice.
        slice: usize,
        /// How far its coordinates reach in x, y and z.
        chips: [usize; 3],
        /// How far the cores of its chips reach.
        cores: usize,
        /// How many devices it has.
        found: usize,
    },
    /// Slices of one size have different shapes.
    #[error(
        "slice {slice} is {} chips, slice {first_slice} is {}; all slices of a topology are alike",
        dims(chips),
        dims(first_chips)
    )]
    UnequalShapes {
        /// The first slice.
        first_slice: usize,
        /// Its chips along x, y and z.
        first_chips: [usize; 3],
        /// The other slice.
        slice: usize,
        /// Its chips along x, y and z.
        chips: [usize; 3],
    },
}

impl PhysicalTopology {
    /// The topology of these devices, listed in any order. `wrap` says along which of x, y and z the torus
    /// closes: where it does, the last chip is a neighbour of the first.
    ///
    /// # Errors
    ///
    /// No devices, an id or a place twice, a slice with holes, slices that are not alike, or positions of some
    /// devices only.
    pub fn new(
        devices: impl IntoIterator<Item = PhysicalDevice>,
        wrap: [bool; 3],
    ) -> Result<Self, TopologyError> {
        let mut devices: Vec<_> = devices.into_iter().collect();
        devices.sort_by_key(|device| device.id);
        if let Some(twice) = devices.windows(2).find(|pair| pair[0].id == pair[1].id) {
            return Err(TopologyError::DuplicateDevice { id: twice[0].id });
        }
        check_positions(&devices)?;
        // The sort keeps the order of ids where there are no positions.
        devices.sort_by_key(|device| (device.slice, device.position));
        let slices: Vec<_> = devices.chunk_by(|a, b| a.slice == b.slice).collect();
        let Some(first) = slices.first() else { return Err(TopologyError::NoDevices) };
        if slices.iter().any(|slice| slice.len() != first.len()) {
            let sizes = slices.iter().map(|slice| (slice[0].slice, slice.len())).collect();
            return Err(TopologyError::UnequalSlices { sizes });
        }
        let mut axes = vec![(PhysicalAxis::Dcn, slices.len())];
        match torus_of(&slices)? {
            Some((chips, cores)) => {
                axes.extend([PhysicalAxis::X, PhysicalAxis::Y, PhysicalAxis::Z].into_iter().zip(chips));
                axes.push((PhysicalAxis::Core, cores));
            }
            None => axes.push((PhysicalAxis::Devices, first.len())),
        }
        Ok(Self { devices, axes, wrap })
    }

    /// The devices, slice by slice; within a slice with x as the slowest coordinate, then y, z and the core,
    /// or by id where positions are not known.
    pub fn devices(&self) -> &[PhysicalDevice] {
        &self.devices
    }

    /// The grid that the devices fill, slowest axis first, with sizes of 1 too: the row-major positions in it
    /// are those of [`PhysicalTopology::devices`].
    pub fn axes(&self) -> &[(PhysicalAxis, usize)] {
        &self.axes
    }

    /// The size along an axis; 1 along an axis that the topology does not have.
    pub fn size_along(&self, axis: PhysicalAxis) -> usize {
        self.axes.iter().find(|(candidate, _)| *candidate == axis).map_or(1, |(_, size)| *size)
    }

    /// Whether the last device along the axis is a neighbour of the first.
    pub fn wraps(&self, axis: PhysicalAxis) -> bool {
        match axis {
            PhysicalAxis::X => self.wrap[0],
            PhysicalAxis::Y => self.wrap[1],
            PhysicalAxis::Z => self.wrap[2],
            PhysicalAxis::Dcn | PhysicalAxis::Core | PhysicalAxis::Devices => false,
        }
    }

    /// How many slices there are.
    pub fn slice_count(&self) -> usize {
        self.size_along(PhysicalAxis::Dcn)
    }

    /// How many devices each slice has.
    pub fn devices_per_slice(&self) -> usize {
        self.devices.len() / self.slice_count()
    }

    /// The processes that reach the devices, in order.
    pub fn processes(&self) -> Vec<usize> {
        let mut processes: Vec<_> = self.devices.iter().map(|device| device.process).collect();
        processes.sort_unstable();
        processes.dedup();
        processes
    }
}

/// Checks that all devices have positions, or none.
fn check_positions(devices: &[PhysicalDevice]) -> Result<(), TopologyError> {
    let with = devices.iter().find(|device| device.position.is_some());
    let without = devices.iter().find(|device| device.position.is_none());
    match (with, without) {
        (Some(with), Some(without)) => {
            Err(TopologyError::MissingPosition { with: with.id, without: without.id })
        }
        _ => Ok(()),
    }
}

/// The chips along x, y and z and the cores of each, which all slices have; `None` without positions.
fn torus_of(slices: &[&[PhysicalDevice]]) -> Result<Option<([usize; 3], usize)>, TopologyError> {
    let shapes: Result<Option<Vec<_>>, _> = slices.iter().map(|slice| box_of(slice)).collect();
    let Some(shapes) = shapes? else { return Ok(None) };
    let Some((&shape, others)) = shapes.split_first() else { return Ok(None) };
    match others.iter().zip(&slices[1..]).find(|(other, _)| **other != shape) {
        Some((&(chips, _), slice)) => Err(TopologyError::UnequalShapes {
            first_slice: slices[0][0].slice,
            first_chips: shape.0,
            slice: slice[0].slice,
            chips,
        }),
        None => Ok(Some(shape)),
    }
}

/// The box that a slice, sorted by position, fills.
fn box_of(slice: &[PhysicalDevice]) -> Result<Option<([usize; 3], usize)>, TopologyError> {
    let positions: Option<Vec<_>> = slice.iter().map(|device| device.position).collect();
    let Some(positions) = positions else { return Ok(None) };
    if let Some(twice) = positions.windows(2).position(|pair| pair[0] == pair[1]) {
        return Err(TopologyError::SharedPosition {
            slice: slice[0].slice,
            position: positions[twice],
            first: slice[twice].id,
            second: slice[twice + 1].id,
        });
    }
    let reach = |along: &dyn Fn(&TorusPosition) -> usize| {
        let (low, high) =
            positions.iter().map(along).fold((usize::MAX, 0), |(low, high), at| (low.min(at), high.max(at)));
        (high - low).saturating_add(1)
    };
    let chips = [0, 1, 2].map(|dim| reach(&move |position| position.coords[dim]));
    let cores = reach(&|position| position.core);
    // No two are in one place, so as many devices as places fill the box.
    let places = chips.iter().try_fold(cores, |places, &size| places.checked_mul(size));
    if places != Some(slice.len()) {
        return Err(TopologyError::Holes { slice: slice[0].slice, chips, cores, found: slice.len() });
    }
    Ok(Some((chips, cores)))
}

impl PhysicalAxis {
    /// The axis in a word, as it stands in the name of a sub-axis.
    pub fn name(self) -> &'static str {
        match self {
            PhysicalAxis::Dcn => "dcn",
            PhysicalAxis::X => "x",
            PhysicalAxis::Y => "y",
            PhysicalAxis::Z => "z",
            PhysicalAxis::Core => "core",
            PhysicalAxis::Devices => "devices",
        }
    }
}

impl fmt::Display for PhysicalAxis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for TorusPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [x, y, z] = self.coords;
        write!(f, "({x},{y},{z}) core {}", self.core)
    }
}

impl fmt::Display for PhysicalTopology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = |n: usize, noun: &str| format!("{n} {noun}{}", if n == 1 { "" } else { "s" });
        write!(f, "{}:", count(self.devices.len(), "device"))?;
        if self.slice_count() > 1 {
            write!(f, " {} of", count(self.slice_count(), "slice"))?;
        }
        if self.axes.iter().all(|(axis, _)| *axis != PhysicalAxis::Devices) {
            let chips = [PhysicalAxis::X, PhysicalAxis::Y, PhysicalAxis::Z].map(|axis| self.size_along(axis));
            write!(f, " {} chips", dims(&chips))?;
        } else {
            write!(f, " {} without coordinates", self.devices_per_slice())?;
        }
        let cores = self.size_along(PhysicalAxis::Core);
        if cores > 1 {
            write!(f, " of {}", count(cores, "core"))?;
        }
        write!(f, ", {}", count(self.processes().len(), "host"))
    }
}

/// Chips as `4x4` or `4x4x4`.
fn dims([x, y, z]: &[usize; 3]) -> String {
    if *z == 1 { format!("{x}x{y}") } else { format!("{x}x{y}x{z}") }
}

fn slice_sizes(sizes: &[(usize, usize)]) -> String {
    let sizes: Vec<_> = sizes.iter().map(|(slice, size)| format!("slice {slice} has {size}")).collect();
    sizes.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    fn at(id: usize, slice: usize, coords: [usize; 3]) -> PhysicalDevice {
        PhysicalDevice { id, process: id / 4, slice, position: Some(TorusPosition { coords, core: 0 }) }
    }

    fn unplaced(id: usize, slice: usize) -> PhysicalDevice {
        PhysicalDevice { id, process: 0, slice, position: None }
    }

    fn check(devices: &[PhysicalDevice], expect: Expect) {
        expect.assert_eq(&match PhysicalTopology::new(devices.iter().copied(), [false; 3]) {
            Ok(topology) => {
                let ids: Vec<_> = topology.devices().iter().map(|device| device.id).collect();
                format!("{topology}; in order {ids:?}")
            }
            Err(error) => format!("error: {error}"),
        });
    }

    #[test]
    fn devices_are_put_in_order_by_slice_and_place() {
        let square = [at(3, 1, [5, 5, 0]), at(0, 0, [1, 0, 0]), at(9, 1, [5, 4, 0]), at(7, 0, [0, 0, 0])];
        check(
            &square,
            expect!["error: slice 1 is 1x2 chips, slice 0 is 2x1; all slices of a topology are alike"],
        );
        let rows = [at(3, 1, [5, 5, 0]), at(0, 0, [0, 1, 0]), at(9, 1, [5, 4, 0]), at(7, 0, [0, 0, 0])];
        check(&rows, expect!["4 devices: 2 slices of 1x2 chips, 3 hosts; in order [7, 0, 9, 3]"]);
        check(
            &[unplaced(4, 0), unplaced(1, 0)],
            expect!["2 devices: 2 without coordinates, 1 host; in order [1, 4]"],
        );
        check(&[unplaced(0, 0)], expect!["1 device: 1 without coordinates, 1 host; in order [0]"]);
    }

    #[test]
    fn what_is_no_topology_is_refused() {
        check(&[], expect!["error: a topology has at least one device, none is listed"]);
        check(&[unplaced(1, 0), unplaced(1, 1)], expect!["error: device 1 is listed twice"]);
        check(
            &[unplaced(1, 0), unplaced(2, 4), unplaced(3, 4)],
            expect![
                "error: slices differ in their number of devices: slice 0 has 1, slice 4 has 2; all slices of a topology are alike"
            ],
        );
        check(
            &[unplaced(1, 0), at(2, 0, [0, 0, 0])],
            expect![
                "error: device 2 has coordinates and device 1 has none; all devices of a topology have them, or none has"
            ],
        );
        check(
            &[at(1, 0, [0, 0, 0]), at(2, 0, [0, 0, 0])],
            expect!["error: devices 1 and 2 are both at (0,0,0) core 0 of slice 0"],
        );
        check(
            &[at(1, 0, [0, 0, 0]), at(2, 0, [1, 1, 0]), at(3, 0, [0, usize::MAX, 9])],
            expect![
                "error: slice 0 spans 2x18446744073709551615x10 chips (devices per chip: 1), and has 3 devices; a slice is a full box of chips"
            ],
        );
    }
}
