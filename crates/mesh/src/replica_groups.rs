//! Which devices take part together in a collective, as HLO writes it behind `replica_groups=`.
//!
//! ```text
//! groups = "{" [ "{" ids "}" { "," "{" ids "}" } ] "}"      listed; none at all: all devices are one group
//!        | "[" count "," size "]<=" iota                    so many groups of so many, counted
//!        | mesh " {" refs "}"                               along axes of a mesh, perhaps the compiler's own
//! ```
//!
//! `iota`, `mesh` and `refs` are those of [`crate::HloSharding`].

use std::fmt;
use std::str::FromStr;

use crate::axis_ref::{AxisPart, AxisRef, Parts, Quoted};
use crate::device_order::DeviceOrder;
use crate::hlo_sharding::{mesh_text, scan_mesh};
use crate::text::{HLO_QUOTE, Scanner, TextError, check_listed, device_count, join};
use crate::{AbstractMesh, AxisName, Mesh};

/// Groups of devices. `Display` prints the HLO text, and `FromStr` reads it.
///
/// Two spellings of the same groups compare unequal; their [`ReplicaGroups::groups`] are equal.
///
/// ```
/// use shardwright_mesh::{AbstractMesh, ReplicaGroups};
///
/// let mesh = AbstractMesh::parse("data=2, fsdp=4")?;
/// for text in ["{{0,1,2,3},{4,5,6,7}}", "[2,4]<=[8]", "mesh['a'=2,'b'=4] {'b'}"] {
///     let groups: ReplicaGroups = text.parse()?;
///     assert_eq!(groups.groups(), [[0, 1, 2, 3], [4, 5, 6, 7]]);
///     assert_eq!(groups.axes_of(&mesh)?, ["fsdp"]);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ReplicaGroups(Repr);

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Repr {
    // No device is in two groups, and no group is empty.
    List(Vec<Vec<usize>>),
    // `group_size` divides the number of devices.
    Iota { group_size: usize, order: DeviceOrder },
    // The axes are of the mesh, and do not overlap.
    Axes { mesh: Mesh, axes: Vec<AxisRef> },
}

impl ReplicaGroups {
    /// These groups. None at all means that all devices are one group.
    ///
    /// # Errors
    ///
    /// A group is empty, or a device is listed twice.
    pub fn list(groups: Vec<Vec<usize>>) -> Result<Self, TextError> {
        if let Some(empty) = groups.iter().find(|group| group.is_empty()) {
            return Err(TextError::ZeroSize { sizes: vec![empty.len()] });
        }
        DeviceOrder::list(groups.concat())?;
        Ok(Self(Repr::List(groups)))
    }

    /// `count` groups of `group_size`, from the transpose of an array of sizes `dims` that counts from 0.
    ///
    /// # Errors
    ///
    /// The permutation does not name each dim once, a size is zero, the numbers of devices differ, or there are
    /// more than a million of them.
    pub fn iota(
        count: usize,
        group_size: usize,
        dims: &[usize],
        permutation: &[usize],
    ) -> Result<Self, TextError> {
        let order = DeviceOrder::checked_iota(dims, permutation)?;
        Self::counted(&[count, group_size], order)
    }

    /// The groups that run along these axes of a mesh whose devices are `device_ids`, or count up. An axis is
    /// given as its name and, for a part of an axis, the sizes `(m, k)` of its sub-axis `(m)k`. The last axis is the
    /// fastest within a group.
    ///
    /// # Errors
    ///
    /// The mesh lacks an axis, a part is none of it, two overlap, the devices are not those of a mesh
    /// ([`Mesh::new`]), or there are more than a million of them.
    pub fn along_axes(
        mesh: AbstractMesh,
        device_ids: Option<Vec<usize>>,
        axes: impl IntoIterator<Item = (AxisName, Option<(usize, usize)>)>,
    ) -> Result<Self, TextError> {
        let axes = axes.into_iter().map(|(axis, part)| match part {
            Some((pre_size, size)) => AxisRef::part(axis, AxisPart { pre_size, size }),
            None => Ok(AxisRef { axis, part: None }),
        });
        let mesh = Mesh::with_ids(mesh, device_ids)?;
        Self::along(mesh, axes.collect::<Result<_, _>>()?)
    }

    fn counted(sizes: &[usize], order: DeviceOrder) -> Result<Self, TextError> {
        let (expected, found) = (device_count(sizes)?, order.len());
        check_listed(found)?;
        match sizes {
            [_, group_size] if expected == found => Ok(Self(Repr::Iota { group_size: *group_size, order })),
            _ => Err(TextError::DeviceCount { expected, found }),
        }
    }

    fn along(mesh: Mesh, axes: Vec<AxisRef>) -> Result<Self, TextError> {
        check_listed(mesh.shape().size())?;
        parts(&mesh, &axes)?;
        Ok(Self(Repr::Axes { mesh, axes }))
    }

    /// The groups, each in its own order. Empty if all devices, whichever there are, are one group.
    pub fn groups(&self) -> Vec<Vec<usize>> {
        let chunks = |order: &DeviceOrder, size| {
            let devices: Vec<_> = order.devices().collect();
            devices.chunks(size).map(<[_]>::to_vec).collect()
        };
        match &self.0 {
            Repr::List(groups) => groups.clone(),
            Repr::Iota { group_size, order } => chunks(order, *group_size),
            Repr::Axes { mesh, axes } => {
                let parts = parts(mesh, axes).expect("the axes were checked against the mesh");
                let order = parts.devices(mesh, &[parts.free(), parts.used()].concat());
                chunks(&order, parts.extent(parts.used()))
            }
        }
    }

    /// How many devices are in each group. `None` if groups differ in that, and if all devices, whichever there
    /// are, are one group.
    pub fn group_size(&self) -> Option<usize> {
        match &self.0 {
            Repr::List(groups) => {
                let size = groups.first()?.len();
                groups.iter().all(|group| group.len() == size).then_some(size)
            }
            Repr::Iota { group_size, .. } => Some(*group_size),
            Repr::Axes { mesh, axes } => {
                let parts = parts(mesh, axes).expect("the axes were checked against the mesh");
                Some(parts.extent(parts.used()))
            }
        }
    }
}

fn parts(mesh: &Mesh, axes: &[AxisRef]) -> Result<Parts, TextError> {
    Parts::new(mesh.shape(), &axes.iter().collect::<Vec<_>>())
}

impl FromStr for ReplicaGroups {
    type Err = TextError;

    fn from_str(text: &str) -> Result<Self, TextError> {
        let mut scanner = Scanner::new("replica groups", HLO_QUOTE, text);
        let groups = if scanner.eats("{") {
            let group = |scanner: &mut Scanner<'_>| {
                scanner.expect("{", "'{'")?;
                scanner.list("}", Scanner::number)
            };
            Self::list(scanner.list("}", group)?)?
        } else if scanner.eats("[") {
            let sizes = scanner.list("]", Scanner::number)?;
            if sizes.len() != 2 {
                return Err(scanner.unexpected("the number and the size of the groups before it"));
            }
            scanner.expect("<=", "'<='")?;
            Self::counted(&sizes, DeviceOrder::scan_iota(&mut scanner)?)?
        } else if scanner.sees("mesh") {
            let mesh = scan_mesh(&mut scanner)?;
            Self::along(mesh, AxisRef::scan_list(&mut scanner)?)?
        } else {
            return Err(scanner.unexpected("'{', '[' or mesh["));
        };
        scanner.end().map(|()| groups)
    }
}

impl fmt::Display for ReplicaGroups {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Repr::List(groups) => {
                let groups: Vec<_> = groups.iter().map(|group| format!("{{{}}}", join(group))).collect();
                write!(f, "{{{}}}", groups.join(","))
            }
            Repr::Iota { group_size, order } => {
                write!(f, "[{},{group_size}]<={order}", order.len() / group_size)
            }
            Repr::Axes { mesh, axes } => {
                let axes: Vec<_> = axes.iter().map(|axis| Quoted(HLO_QUOTE, axis).to_string()).collect();
                write!(f, "{} {{{}}}", mesh_text(mesh), axes.join(","))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    fn check(mesh: &str, texts: &[&str], expect: Expect) {
        let mesh = AbstractMesh::parse(mesh).unwrap();
        let show = |text: &&str| match text.parse::<ReplicaGroups>() {
            Ok(groups) => {
                assert_eq!(groups.to_string().parse(), Ok(groups.clone()));
                let axes = match groups.axes_of(&mesh) {
                    Ok(axes) => {
                        format!("over {axes:?}", axes = axes.iter().map(AxisName::as_str).collect::<Vec<_>>())
                    }
                    Err(error) => format!("error: {error}"),
                };
                format!("{groups}: {:?}\n  {axes}\n", groups.groups())
            }
            Err(error) => format!("error: {error}\n"),
        };
        expect.assert_eq(&texts.iter().map(show).collect::<String>());
    }

    #[test]
    fn groups_run_over_axes() {
        check(
            "data=2, fsdp=4, tensor=1",
            &[
                "{}",
                "{{0,1,2,3},{4,5,6,7}}",
                "{{3,1,0,2},{4,5,7,6}}",
                "[4,2]<=[2,4]T(1,0)",
                "[1,8]<=[8]",
                "[8,1]<=[8]",
                "mesh['axis_0'=2,'axis_1'=4] {'axis_1'}",
                "mesh['axis_0'=2,'axis_1'=4] {'axis_1','axis_0'}",
                "mesh['axis_0'=8] {'axis_0':(2)4}",
                "mesh['x'=4,'y'=2], device_ids=([2,4]T(1,0)) {'x'}",
                "mesh[x=8] {x:(1)2,x:(4)2}",
            ],
            expect![[r#"
                {}: []
                  over ["data", "fsdp"]
                {{0,1,2,3},{4,5,6,7}}: [[0, 1, 2, 3], [4, 5, 6, 7]]
                  over ["fsdp"]
                {{3,1,0,2},{4,5,7,6}}: [[3, 1, 0, 2], [4, 5, 7, 6]]
                  over ["fsdp"]
                [4,2]<=[2,4]T(1,0): [[0, 4], [1, 5], [2, 6], [3, 7]]
                  over ["data"]
                [1,8]<=[8]: [[0, 1, 2, 3, 4, 5, 6, 7]]
                  over ["data", "fsdp"]
                [8,1]<=[8]: [[0], [1], [2], [3], [4], [5], [6], [7]]
                  over []
                mesh['axis_0'=2,'axis_1'=4] {'axis_1'}: [[0, 1, 2, 3], [4, 5, 6, 7]]
                  over ["fsdp"]
                mesh['axis_0'=2,'axis_1'=4] {'axis_1','axis_0'}: [[0, 4, 1, 5, 2, 6, 3, 7]]
                  over ["data", "fsdp"]
                mesh['axis_0'=8] {'axis_0':(2)4}: [[0, 1, 2, 3], [4, 5, 6, 7]]
                  over ["fsdp"]
                mesh['x'=4,'y'=2], device_ids=([2,4]T(1,0)) {'x'}: [[0, 1, 2, 3], [4, 5, 6, 7]]
                  over ["fsdp"]
                mesh['x'=8] {'x':(1)2,'x':(4)2}: [[0, 1, 4, 5], [2, 3, 6, 7]]
                  error: the groups mesh['x'=8] {'x':(1)2,'x':(4)2} do not run over axes of mesh data=2, fsdp=4, tensor=1
            "#]],
        );
    }

    #[test]
    fn other_groups_are_told_apart() {
        check(
            "data=2, fsdp=4",
            &[
                "{{0,1},{2,3},{4,5},{6,7}}",
                "{{0,1,2,3}}",
                "{{0,1,2,4},{3,5,6,7}}",
                "{{0,1,2},{3,4,5,6,7}}",
                "{{8,9,10,11},{4,5,6,7}}",
                "[2,8]<=[16]",
            ],
            expect![[r#"
                {{0,1},{2,3},{4,5},{6,7}}: [[0, 1], [2, 3], [4, 5], [6, 7]]
                  error: the groups {{0,1},{2,3},{4,5},{6,7}} do not run over axes of mesh data=2, fsdp=4
                {{0,1,2,3}}: [[0, 1, 2, 3]]
                  error: the text is about 4 devices, but mesh data=2, fsdp=4 has 8
                {{0,1,2,4},{3,5,6,7}}: [[0, 1, 2, 4], [3, 5, 6, 7]]
                  error: the groups {{0,1,2,4},{3,5,6,7}} do not run over axes of mesh data=2, fsdp=4
                {{0,1,2},{3,4,5,6,7}}: [[0, 1, 2], [3, 4, 5, 6, 7]]
                  error: the groups {{0,1,2},{3,4,5,6,7}} do not run over axes of mesh data=2, fsdp=4
                {{8,9,10,11},{4,5,6,7}}: [[8, 9, 10, 11], [4, 5, 6, 7]]
                  error: the groups {{8,9,10,11},{4,5,6,7}} do not run over axes of mesh data=2, fsdp=4
                [2,8]<=[16]: [[0, 1, 2, 3, 4, 5, 6, 7], [8, 9, 10, 11, 12, 13, 14, 15]]
                  error: the text is about 16 devices, but mesh data=2, fsdp=4 has 8
            "#]],
        );
    }

    #[test]
    fn groups_of_several_sizes_have_none() {
        let size = |text: &str| text.parse::<ReplicaGroups>().unwrap().group_size();
        assert_eq!(size("{{0,1},{2,3}}"), Some(2));
        assert_eq!(size("{{0,1},{2}}"), None);
        assert_eq!(size("{}"), None);
        assert_eq!(size("mesh['x'=4,'y'=2] {'x'}"), Some(4));
    }

    #[test]
    fn bad_groups_say_what_is_wrong() {
        check(
            "data=2, fsdp=4",
            &[
                "",
                "0,1",
                "{{0,1},{}}",
                "{{0,1},{1}}",
                "{{0,1},2}",
                "[2,4]",
                "[8]<=[8]",
                "[2,4]<=[9]",
                "[0,4]<=[0]",
                "mesh['axis_0'=8] {'axis0'}",
                "mesh['x'=8] {'x','x'}",
                "mesh['x'=8] {'x':(2)8}",
                "mesh['x'=8]",
                "mesh['x'=8] {'x'} y",
                "[1000000000,1000000000]<=[1000000000,1000000000]",
                "mesh['x'=100000000] {'x'}",
            ],
            expect![[r#"
                error: replica groups "": expected '{', '[' or mesh[ at byte 0, found the end
                error: replica groups "0,1": expected '{', '[' or mesh[ at byte 0, found '0'
                error: sizes [0]: a size is at least 1
                error: device 1 is listed twice
                error: replica groups "{{0,1},2}": expected '{' at byte 7, found '2'
                error: replica groups "[2,4]": expected '<=' at byte 5, found the end
                error: replica groups "[8]<=[8]": expected the number and the size of the groups before it at byte 3, found '<'
                error: the tiles or groups take 8 devices, but 9 are listed or counted
                error: sizes [0]: a size is at least 1
                error: axis axis0 is not in mesh axis_0=8; did you mean axis_0?
                error: axis x is used twice, in parts that overlap or do not fit side by side
                error: "x":(2)8 is no sub-axis: (m)k needs m at least 1, k at least 2, and an axis size that m·k divides
                error: replica groups "mesh['x'=8]": expected '{' at byte 11, found the end
                error: replica groups "mesh['x'=8] {'x'} y": expected the end at byte 18, found 'y'
                error: the text speaks of more than 1048576 devices
                error: the text speaks of more than 1048576 devices
            "#]],
        );
    }
}
