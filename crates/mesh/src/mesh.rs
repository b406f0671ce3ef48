//! Device grids: [`AbstractMesh`] is names and sizes, [`Mesh`] adds the devices.

use std::collections::HashMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use crate::device_order::DeviceOrder;
use crate::text::{clip, is_digits};
use crate::{AxisName, NamedSharding, PartitionSpec, Shard, ShardingError};

/// More axes than this are a mistake, and would make looking them up slow.
const MAX_AXES: usize = 256;

/// How the mesh of no axes is written.
const NO_AXES: &str = "[]";

/// The compiler's view of a mesh: its axes, in order, and their sizes.
///
/// Equal meshes give equal programs. A mesh of no axes is legal and has one device. Cloning is cheap.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct AbstractMesh {
    // The sizes are positive and their product fits a `usize`.
    axes: Arc<[(AxisName, usize)]>,
}

/// The runtime's view of a mesh: an [`AbstractMesh`] and the device at each of its positions.
///
/// The ids are in row-major order of the axes, and partition `p` of a program runs on `device_id(p)`:
/// ids `[0, 2, 1, 3]` on `x=2, y=2` put devices 0 and 2 in the first row. Cloning is cheap. [`crate::Placement`]
/// works out the order that suits the network between the devices.
/// Devices that count up, or are a transpose of such, are not kept one by one, so meshes of any size are small.
#[derive(Debug, Clone)]
pub struct Mesh {
    shape: AbstractMesh,
    // As many as `shape.size()`, each at most once. No list that counts up.
    devices: Arc<DeviceOrder>,
}

/// A mesh that can't be built, or text that names none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MeshError {
    /// The text cannot name an axis.
    #[error(
        "axis name {:?} is not allowed: a name is made of at most {max} letters, digits, '_', '-' and '.', \
         and begins with a letter, a digit or '_'",
        clip(name), max = AxisName::MAX_LEN
    )]
    InvalidAxisName {
        /// The text.
        name: AxisName,
    },
    /// Two axes have one name.
    #[error("axis {axis} is listed twice")]
    DuplicateAxis {
        /// The name.
        axis: AxisName,
    },
    /// A size is zero, negative, no number or too large a one.
    #[error("axis {} has size {}{}", clip(axis), clip(size), size_rule(size, *can_be_open))]
    InvalidSize {
        /// The axis.
        axis: AxisName,
        /// The size as it was written.
        size: String,
        /// Whether the size could have been left open.
        can_be_open: bool,
    },
    /// There are more axes than any machine has use for.
    #[error("the mesh has more than {max} axes")]
    TooManyAxes {
        /// How many axes a mesh may have.
        max: usize,
    },
    /// The mesh has more positions than a `usize` counts.
    #[error("the product of the axis sizes overflows at axis {axis} of size {size}")]
    TooLarge {
        /// The axis whose size is one too many.
        axis: AxisName,
        /// Its size.
        size: usize,
    },
    /// A piece of mesh text is not `axis=size`.
    #[error(
        "{:?} in mesh {:?} is not axis=size; a mesh is written like data=2,fsdp=4",
        clip(item),
        clip(text)
    )]
    Malformed {
        /// The whole text.
        text: String,
        /// The piece.
        item: String,
    },
    /// A size is left open where no device count is known.
    #[error("axis {} has the open size -1, which only a known device count can settle", clip(axis))]
    OpenAxis {
        /// The axis.
        axis: AxisName,
    },
    /// More than one size is left open.
    #[error("axes {first} and {second} both have the open size -1; at most one axis can take the rest")]
    TwoOpenAxes {
        /// The first open axis.
        first: AxisName,
        /// The next open axis.
        second: AxisName,
    },
    /// The devices do not divide by the sizes that were given.
    #[error(
        "axis {axis} takes the rest, but {device_count} devices are not a positive multiple of {product}, \
         the product of the other axes ({others})"
    )]
    OpenAxisDoesNotDivide {
        /// The open axis.
        axis: AxisName,
        /// Devices present.
        device_count: usize,
        /// The other axes.
        others: AbstractMesh,
        /// The product of their sizes.
        product: usize,
    },
    /// The mesh and the machine differ in size.
    #[error(
        "devices present: {device_count}, but mesh {mesh} takes {product}; \
         a size of -1 lets one axis take what is there"
    )]
    DeviceCount {
        /// Devices present.
        device_count: usize,
        /// The mesh that was asked for.
        mesh: AbstractMesh,
        /// Its size.
        product: usize,
    },
    /// The number of device ids is not the size of the mesh.
    #[error("device ids given: {id_count}, but mesh {mesh} takes {product}")]
    DeviceIdCount {
        /// How many ids were given.
        id_count: usize,
        /// The mesh.
        mesh: AbstractMesh,
        /// Its size.
        product: usize,
    },
    /// A device is listed twice.
    #[error("device id {device_id} is at mesh position {first} and again at {second}")]
    DuplicateDeviceId {
        /// The id.
        device_id: usize,
        /// Its first position, row-major.
        first: usize,
        /// Its second position, row-major.
        second: usize,
    },
}

impl AbstractMesh {
    /// A mesh of these axes, major to minor.
    ///
    /// # Errors
    ///
    /// A name that is empty, longer than 128 bytes or has characters outside `A-Za-z0-9_-.`, a name used twice, a
    /// size of zero, a product of sizes that overflows, or more than 256 axes.
    pub fn new<N: Into<AxisName>>(axes: impl IntoIterator<Item = (N, usize)>) -> Result<Self, MeshError> {
        let axes = axes.into_iter().take(MAX_AXES + 1).map(|(name, size)| (name.into(), size));
        let axes: Arc<[_]> = axes.collect();
        if axes.len() > MAX_AXES {
            return Err(MeshError::TooManyAxes { max: MAX_AXES });
        }
        let mut product = 1_usize;
        for (idx, (axis, size)) in axes.iter().enumerate() {
            let (axis, size) = (axis.clone(), *size);
            if !axis.is_valid() {
                return Err(MeshError::InvalidAxisName { name: axis });
            }
            if axes[..idx].iter().any(|(earlier, _)| *earlier == axis) {
                return Err(MeshError::DuplicateAxis { axis });
            }
            if size == 0 {
                return Err(MeshError::InvalidSize { axis, size: "0".into(), can_be_open: false });
            }
            product = product.checked_mul(size).ok_or(MeshError::TooLarge { axis, size })?;
        }
        Ok(Self { axes })
    }

    /// A mesh whose axes are called by their numbers: sizes 4 and 2 make `0=4, 1=2`.
    ///
    /// # Errors
    ///
    /// A size of zero, or a product of sizes that overflows.
    pub fn unnamed(sizes: impl IntoIterator<Item = usize>) -> Result<Self, MeshError> {
        Self::new(sizes.into_iter().enumerate())
    }

    /// Reads `fsdp=8` or `data=2,fsdp=4`; blanks around the parts are ignored. The mesh of no axes is
    /// `[]`. Reads what `Display` prints.
    ///
    /// # Errors
    ///
    /// Text of another form, an open size (`-1`), and whatever [`AbstractMesh::new`] refuses.
    pub fn parse(text: &str) -> Result<Self, MeshError> {
        let sizes = parse_axes(text, false)?.into_iter().map(|(axis, size)| match size {
            Some(size) => Ok((axis, size)),
            None => Err(MeshError::OpenAxis { axis }),
        });
        Self::new(sizes.collect::<Result<Vec<_>, _>>()?)
    }

    /// Reads like [`AbstractMesh::parse`] a mesh that uses exactly `device_count` devices. One axis may have
    /// the size `-1`, which takes what the others leave: `fsdp=-1,tensor=2` for 8 devices is
    /// `fsdp=4, tensor=2`.
    ///
    /// # Errors
    ///
    /// Two open axes, a device count that does not divide by the other sizes or differs from their product,
    /// and whatever [`AbstractMesh::parse`] refuses.
    pub fn parse_for(text: &str, device_count: usize) -> Result<Self, MeshError> {
        let axes = parse_axes(text, true)?;
        // What is wrong with names and sizes is said before a size is worked out that nobody wrote.
        Self::new(axes.iter().map(|(axis, size)| (axis, size.unwrap_or(1))))?;
        let mut open_axes = axes.iter().filter(|(_, size)| size.is_none()).map(|(axis, _)| axis.clone());
        let open = open_axes.next();
        if let (Some(first), Some(second)) = (&open, open_axes.next()) {
            return Err(MeshError::TwoOpenAxes { first: first.clone(), second });
        }
        let rest = match open {
            Some(axis) => rest_size(axis, &axes, device_count)?,
            None => 1,
        };
        let mesh = Self::new(axes.into_iter().map(|(axis, size)| (axis, size.unwrap_or(rest))))?;
        if mesh.size() != device_count {
            let product = mesh.size();
            return Err(MeshError::DeviceCount { device_count, mesh, product });
        }
        Ok(mesh)
    }

    /// The axes and their sizes, major to minor.
    pub fn axes(&self) -> &[(AxisName, usize)] {
        &self.axes
    }

    /// The names of the axes, major to minor.
    pub fn axis_names(&self) -> impl ExactSizeIterator<Item = &AxisName> {
        self.axes.iter().map(|(name, _)| name)
    }

    /// The size of the axis called `name`, if there is one.
    pub fn axis_size(&self, name: impl AsRef<str>) -> Option<usize> {
        self.axis_index(name.as_ref()).map(|axis_idx| self.axes[axis_idx].1)
    }

    /// How many positions, and so partitions and devices, the mesh has: the product of the sizes.
    pub fn size(&self) -> usize {
        self.axes.iter().map(|(_, size)| size).product()
    }

    /// The position of the axis called `name`, if there is one.
    pub fn axis_index(&self, name: &str) -> Option<usize> {
        self.axes.iter().position(|(axis, _)| axis.as_str() == name)
    }

    /// The position of the axis that a spec calls `axis`: by its name, or if no axis has it, by its number.
    pub(crate) fn resolve(&self, axis: &AxisName) -> Option<usize> {
        let by_number = || axis.number().filter(|&number| number < self.axes.len());
        self.axis_index(axis.as_str()).or_else(by_number)
    }

    /// How far apart, in partitions, neighbours along an axis are.
    pub(crate) fn stride(&self, axis_idx: usize) -> usize {
        self.axes[axis_idx + 1..].iter().map(|(_, size)| size).product()
    }

    /// The position of a partition along an axis.
    pub(crate) fn coordinate(&self, partition: usize, axis_idx: usize) -> usize {
        partition / self.stride(axis_idx) % self.axes[axis_idx].1
    }
}

impl Mesh {
    /// A mesh with these devices at its positions, row-major.
    ///
    /// # Errors
    ///
    /// A number of ids other than the mesh's size, or an id listed twice.
    pub fn new(shape: AbstractMesh, device_ids: Vec<usize>) -> Result<Self, MeshError> {
        let (id_count, product) = (device_ids.len(), shape.size());
        if id_count != product {
            return Err(MeshError::DeviceIdCount { id_count, mesh: shape, product });
        }
        if device_ids.iter().copied().eq(0..id_count) {
            return Ok(Self::iota(shape));
        }
        let mut positions = HashMap::with_capacity(id_count);
        for (second, &device_id) in device_ids.iter().enumerate() {
            if let Some(first) = positions.insert(device_id, second) {
                return Err(MeshError::DuplicateDeviceId { device_id, first, second });
            }
        }
        Ok(Self { shape, devices: Arc::new(DeviceOrder::List(device_ids)) })
    }

    /// A mesh with the devices that were counted in this order.
    pub(crate) fn counted(shape: AbstractMesh, devices: DeviceOrder) -> Result<Self, MeshError> {
        let (id_count, product) = (devices.len(), shape.size());
        if id_count != product {
            return Err(MeshError::DeviceIdCount { id_count, mesh: shape, product });
        }
        Ok(Self { shape, devices: Arc::new(devices) })
    }

    /// A mesh with these devices at its positions, or with devices that count up.
    pub(crate) fn with_ids(shape: AbstractMesh, device_ids: Option<Vec<usize>>) -> Result<Self, MeshError> {
        match device_ids {
            Some(device_ids) => Self::new(shape, device_ids),
            None => Ok(Self::iota(shape)),
        }
    }

    /// A mesh of the devices 0, 1, 2, … in order.
    pub fn iota(shape: AbstractMesh) -> Self {
        let devices = DeviceOrder::iota(&[shape.size()], &[0]);
        Self { shape, devices: Arc::new(devices) }
    }

    /// The axes of the mesh, without its devices.
    pub fn shape(&self) -> &AbstractMesh {
        &self.shape
    }

    /// The device at each position, row-major: the device of each partition. They are worked out as they are
    /// asked for; a mesh that was read from a text may have more of them than memory holds.
    pub fn device_ids(&self) -> impl ExactSizeIterator<Item = usize> + Clone + '_ {
        self.devices.devices()
    }

    /// The device at a position: the device of a partition.
    ///
    /// # Panics
    ///
    /// If the mesh has no such position.
    pub fn device_id(&self, position: usize) -> usize {
        assert!(position < self.shape.size(), "mesh {} has no position {position}", self.shape);
        self.devices.device(position)
    }

    /// Whether the devices are 0, 1, 2, … in order.
    pub fn is_iota(&self) -> bool {
        self.devices.counts_up()
    }

    /// The devices in the order of the positions.
    pub(crate) fn device_order(&self) -> &DeviceOrder {
        &self.devices
    }

    /// The sharding of an array over this mesh: [`NamedSharding::new`] on [`Mesh::shape`].
    ///
    /// # Errors
    ///
    /// The spec names an axis that the mesh lacks, or one axis twice.
    pub fn sharding(&self, spec: PartitionSpec) -> Result<NamedSharding, ShardingError> {
        NamedSharding::new(&self.shape, spec)
    }

    /// What each device holds of an array of this global shape: device ids with their shards, in partition
    /// order.
    ///
    /// # Errors
    ///
    /// The sharding is over another mesh or for another rank, or the mesh has more than a million devices.
    pub fn device_shards(
        &self,
        sharding: &NamedSharding,
        shape: &[usize],
    ) -> Result<Vec<(usize, Shard)>, ShardingError> {
        sharding.check_mesh(self)?;
        Ok(self.device_ids().zip(sharding.shards(shape)?).collect())
    }
}

/// Meshes are equal if their axes and devices are, however the devices were written.
impl PartialEq for Mesh {
    fn eq(&self, other: &Self) -> bool {
        let same_devices = || self.devices == other.devices || self.device_ids().eq(other.device_ids());
        self.shape == other.shape && same_devices()
    }
}

impl Eq for Mesh {}

impl Hash for Mesh {
    // The device order is left out: equal ones may be spelled differently.
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.shape.hash(state);
    }
}

/// What a size has to be.
fn size_rule(size: &str, can_be_open: bool) -> String {
    if is_digits(size) && size.bytes().any(|digit| digit != b'0') {
        return format!(", which is too large; the most is {}", usize::MAX);
    }
    let open = if can_be_open { ", or -1 for the one axis that takes the rest" } else { "" };
    format!("; a size is at least 1{open}")
}

/// Reads `axis=size` pairs; `None` is the open size. An error says whether there may be one.
fn parse_axes(text: &str, can_be_open: bool) -> Result<Vec<(AxisName, Option<usize>)>, MeshError> {
    let parse_axis = |item: &str| {
        let Some((axis, size)) = item.split_once('=') else {
            return Err(MeshError::Malformed { text: text.into(), item: item.trim().into() });
        };
        let (axis, size) = (AxisName::from(axis.trim()), size.trim());
        match size.parse() {
            _ if size == "-1" => Ok((axis, None)),
            Ok(number @ 1..) if is_digits(size) => Ok((axis, Some(number))),
            _ => Err(MeshError::InvalidSize { axis, size: size.into(), can_be_open }),
        }
    };
    if text.trim() == NO_AXES {
        return Ok(Vec::new());
    }
    text.split(',').map(parse_axis).collect()
}

/// The size that the open axis takes of `device_count` devices.
fn rest_size(
    axis: AxisName,
    axes: &[(AxisName, Option<usize>)],
    device_count: usize,
) -> Result<usize, MeshError> {
    let others = axes.iter().filter_map(|(axis, size)| Some((axis, (*size)?)));
    let others = AbstractMesh::new(others)?;
    let product = others.size();
    if device_count == 0 || !device_count.is_multiple_of(product) {
        return Err(MeshError::OpenAxisDoesNotDivide { axis, device_count, others, product });
    }
    Ok(device_count / product)
}

impl fmt::Display for AbstractMesh {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.axes.is_empty() {
            return f.write_str(NO_AXES);
        }
        for (idx, (name, size)) in self.axes.iter().enumerate() {
            let separator = if idx == 0 { "" } else { ", " };
            write!(f, "{separator}{name}={size}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    fn show(result: Result<AbstractMesh, MeshError>) -> String {
        match result {
            Ok(mesh) => format!("{mesh}  ({} in all)  {}", mesh.size(), mesh.sdy_text()),
            Err(error) => format!("error: {error}"),
        }
    }

    fn check_parse(texts: &[&str], expect: Expect) {
        let lines: Vec<_> =
            texts.iter().map(|text| format!("{text:?}: {}\n", show(AbstractMesh::parse(text)))).collect();
        expect.assert_eq(&lines.concat());
    }

    fn check_parse_for(cases: &[(&str, usize)], expect: Expect) {
        let line = |(text, n): &(&str, usize)| {
            format!("{text:?} on {n}: {}\n", show(AbstractMesh::parse_for(text, *n)))
        };
        expect.assert_eq(&cases.iter().map(line).collect::<String>());
    }

    #[test]
    fn mesh_text_is_read_and_printed() {
        check_parse(
            &["fsdp=8", " data = 2 ,fsdp=4", "fsdp=4, tensor=1"],
            expect![[r#"
                "fsdp=8": fsdp=8  (8 in all)  <["fsdp"=8]>
                " data = 2 ,fsdp=4": data=2, fsdp=4  (8 in all)  <["data"=2, "fsdp"=4]>
                "fsdp=4, tensor=1": fsdp=4, tensor=1  (4 in all)  <["fsdp"=4, "tensor"=1]>
            "#]],
        );
    }

    #[test]
    fn bad_mesh_text_names_the_axis() {
        check_parse(
            &[
                "",
                "fsdp",
                "x=2,,y=2",
                "x=two",
                "x=2,y=0",
                "x=-2",
                "x=+2",
                "x=-1",
                "=2",
                "a b=2",
                "x=2,y=3,x=4",
            ],
            expect![[r#"
                "": error: "" in mesh "" is not axis=size; a mesh is written like data=2,fsdp=4
                "fsdp": error: "fsdp" in mesh "fsdp" is not axis=size; a mesh is written like data=2,fsdp=4
                "x=2,,y=2": error: "" in mesh "x=2,,y=2" is not axis=size; a mesh is written like data=2,fsdp=4
                "x=two": error: axis x has size two; a size is at least 1
                "x=2,y=0": error: axis y has size 0; a size is at least 1
                "x=-2": error: axis x has size -2; a size is at least 1
                "x=+2": error: axis x has size +2; a size is at least 1
                "x=-1": error: axis x has the open size -1, which only a known device count can settle
                "=2": error: axis name "" is not allowed: a name is made of at most 128 letters, digits, '_', '-' and '.', and begins with a letter, a digit or '_'
                "a b=2": error: axis name "a b" is not allowed: a name is made of at most 128 letters, digits, '_', '-' and '.', and begins with a letter, a digit or '_'
                "x=2,y=3,x=4": error: axis x is listed twice
            "#]],
        );
        check_parse(
            &["x=4294967296,y=4294967296", "x=18446744073709551616"],
            expect![[r#"
                "x=4294967296,y=4294967296": error: the product of the axis sizes overflows at axis y of size 4294967296
                "x=18446744073709551616": error: axis x has size 18446744073709551616, which is too large; the most is 18446744073709551615
            "#]],
        );
    }

    #[test]
    fn unprintable_axis_names_are_refused() {
        let names =
            ["", "a\u{7}", "-", "fsdp\n", "naïve"].map(|name| show(AbstractMesh::new([(name, 2)])) + "\n");
        expect![[r#"
            error: axis name "" is not allowed: a name is made of at most 128 letters, digits, '_', '-' and '.', and begins with a letter, a digit or '_'
            error: axis name "a\u{7}" is not allowed: a name is made of at most 128 letters, digits, '_', '-' and '.', and begins with a letter, a digit or '_'
            error: axis name "-" is not allowed: a name is made of at most 128 letters, digits, '_', '-' and '.', and begins with a letter, a digit or '_'
            error: axis name "fsdp\n" is not allowed: a name is made of at most 128 letters, digits, '_', '-' and '.', and begins with a letter, a digit or '_'
            error: axis name "naïve" is not allowed: a name is made of at most 128 letters, digits, '_', '-' and '.', and begins with a letter, a digit or '_'
        "#]]
        .assert_eq(&names.concat());
    }

    #[test]
    fn a_mesh_of_no_axes_has_one_device() {
        expect!["[]  (1 in all)  <[]>"].assert_eq(&show(AbstractMesh::new::<&str>([])));
        check_parse(
            &[" [] ", "[x=2]"],
            expect![[r#"
                " [] ": []  (1 in all)  <[]>
                "[x=2]": error: axis [x has size 2]; a size is at least 1
            "#]],
        );
    }

    #[test]
    fn one_open_axis_takes_the_rest() {
        check_parse_for(
            &[
                ("fsdp=-1,tensor=2", 8),
                ("fsdp=-1", 1),
                ("fsdp=-1,tensor=-1", 8),
                ("fsdp=-1,tensor=3", 8),
                ("fsdp=-1,tensor=3", 0),
                ("fsdp=0,tensor=8", 8),
                ("fsdp=-2,tensor=4", 8),
                ("fsdp=-1,fsdp=2", 8),
                ("fsdp=-1,fsdp=-1", 8),
                ("fsdp=18446744073709551616,tensor=4", 8),
            ],
            expect![[r#"
                "fsdp=-1,tensor=2" on 8: fsdp=4, tensor=2  (8 in all)  <["fsdp"=4, "tensor"=2]>
                "fsdp=-1" on 1: fsdp=1  (1 in all)  <["fsdp"=1]>
                "fsdp=-1,tensor=-1" on 8: error: axes fsdp and tensor both have the open size -1; at most one axis can take the rest
                "fsdp=-1,tensor=3" on 8: error: axis fsdp takes the rest, but 8 devices are not a positive multiple of 3, the product of the other axes (tensor=3)
                "fsdp=-1,tensor=3" on 0: error: axis fsdp takes the rest, but 0 devices are not a positive multiple of 3, the product of the other axes (tensor=3)
                "fsdp=0,tensor=8" on 8: error: axis fsdp has size 0; a size is at least 1, or -1 for the one axis that takes the rest
                "fsdp=-2,tensor=4" on 8: error: axis fsdp has size -2; a size is at least 1, or -1 for the one axis that takes the rest
                "fsdp=-1,fsdp=2" on 8: error: axis fsdp is listed twice
                "fsdp=-1,fsdp=-1" on 8: error: axis fsdp is listed twice
                "fsdp=18446744073709551616,tensor=4" on 8: error: axis fsdp has size 18446744073709551616, which is too large; the most is 18446744073709551615
            "#]],
        );
    }

    #[test]
    fn mesh_and_machine_must_agree() {
        check_parse_for(
            &[("x=2,y=4", 8), ("x=1,y=8", 1), ("x=1,y=4", 8)],
            expect![[r#"
                "x=2,y=4" on 8: x=2, y=4  (8 in all)  <["x"=2, "y"=4]>
                "x=1,y=8" on 1: error: devices present: 1, but mesh x=1, y=8 takes 8; a size of -1 lets one axis take what is there
                "x=1,y=4" on 8: error: devices present: 8, but mesh x=1, y=4 takes 4; a size of -1 lets one axis take what is there
            "#]],
        );
    }

    #[test]
    fn device_ids_fill_the_mesh_once() {
        let check = |ids: &[usize]| {
            let shape = AbstractMesh::parse("x=2,y=2").unwrap();
            match Mesh::new(shape, ids.to_vec()) {
                Ok(mesh) => format!("{:?}\n", mesh.device_ids().collect::<Vec<_>>()),
                Err(error) => format!("error: {error}\n"),
            }
        };
        expect![[r#"
            [0, 2, 1, 3]
            error: device ids given: 3, but mesh x=2, y=2 takes 4
            error: device id 6 is at mesh position 1 and again at 3
        "#]]
        .assert_eq(&[check(&[0, 2, 1, 3]), check(&[0, 1, 2]), check(&[5, 6, 7, 6])].concat());
    }

    #[test]
    fn axes_are_found_by_name() {
        let mesh = AbstractMesh::new([("x", 4), ("y", 2)]).unwrap();
        assert_eq!(mesh.axis_size("y"), Some(2));
        assert_eq!(mesh.axis_size("z"), None);
        assert_eq!(mesh.axis_index("y"), Some(1));
        assert_eq!(AbstractMesh::unnamed([4, 2]).unwrap().axis_index("y"), None);
        assert_eq!(mesh.axis_names().map(AxisName::as_str).collect::<Vec<_>>(), ["x", "y"]);
        assert!(Mesh::iota(mesh).device_ids().eq(0..8));
    }
}
