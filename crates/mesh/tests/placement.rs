//! Logical meshes on physical topologies.

use std::collections::BTreeSet;

use expect_test::{Expect, expect};
use proptest::prelude::*;
use shardwright_mesh::{
    AbstractMesh, Mesh, PartitionSpec, PhysicalAxis, PhysicalDevice, PhysicalTopology, Placement,
    TorusPosition,
};

/// A slice of these chips, whose torus closes along some dims.
fn wrapped(chips: [usize; 3], wrap: [bool; 3]) -> PhysicalTopology {
    let lines = torus(1, chips, 1);
    PhysicalTopology::new(lines.devices().iter().copied(), wrap).unwrap()
}

/// Slices of these chips and cores; ids count x fastest, then y, z and cores, with a gap between slices.
fn torus(slices: usize, [x, y, z]: [usize; 3], cores: usize) -> PhysicalTopology {
    let per_slice = x * y * z * cores;
    let device = |i: usize| {
        let (slice, place) = (i / per_slice, i % per_slice);
        let chip = place / cores;
        PhysicalDevice {
            id: 100_000 * slice + place,
            process: i / 4,
            slice,
            position: Some(TorusPosition {
                coords: [chip % x, chip / x % y, chip / x / y],
                core: place % cores,
            }),
        }
    };
    PhysicalTopology::new((0..slices * per_slice).map(device), [false; 3]).unwrap()
}

fn mesh(text: &str) -> AbstractMesh {
    AbstractMesh::parse(text).unwrap()
}

fn check(ici: &str, dcn: &[usize], topology: &PhysicalTopology, expect: Expect) {
    let text = match Placement::hybrid(&mesh(ici), dcn, topology) {
        Ok(placement) => {
            let minor = placement.mesh().shape().axes().last().map_or(1, |(_, size)| *size);
            let ids: Vec<_> = placement.mesh().device_ids().collect();
            let rows: Vec<_> = ids.chunks(minor).map(|row| format!("{row:?}")).collect();
            format!("{placement}\n{}\n", rows.join(" "))
        }
        Err(error) => format!("error: {error}\n"),
    };
    expect.assert_eq(&text);
}

#[test]
fn axes_get_whole_physical_axes_and_split_them_where_they_must() {
    let square = torus(1, [4, 4, 1], 1);
    check(
        "fsdp=16",
        &[1],
        &square,
        expect![[r#"
            fsdp=16 (fsdp.x=4, fsdp.y=4)
            [0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15]
        "#]],
    );
    check(
        "data=4, fsdp=4",
        &[1, 1],
        &square,
        expect![[r#"
            data=4 (data.y=4), fsdp=4 (fsdp.x=4)
            [0, 1, 2, 3] [4, 5, 6, 7] [8, 9, 10, 11] [12, 13, 14, 15]
        "#]],
    );
    check(
        "a=2, b=2, c=4",
        &[1, 1, 1],
        &square,
        expect![[r#"
            a=2 (a.y=2 every 2), b=2 (b.y=2), c=4 (c.x=4)
            [0, 1, 2, 3] [4, 5, 6, 7] [8, 9, 10, 11] [12, 13, 14, 15]
        "#]],
    );
    check(
        "a=2, b=8",
        &[1, 1],
        &square,
        expect![[r#"
            a=2 (a.y=2 every 2), b=8 (b.x=4, b.y=2)
            [0, 4, 1, 5, 2, 6, 3, 7] [8, 12, 9, 13, 10, 14, 11, 15]
        "#]],
    );
    let chips_of_two = torus(1, [2, 2, 1], 2);
    check(
        "data=4, tensor=2",
        &[1, 1],
        &chips_of_two,
        expect![[r#"
            data=4 (data.x=2, data.y=2), tensor=2 (tensor.core=2)
            [0, 1] [4, 5] [2, 3] [6, 7]
        "#]],
    );
    check(
        "fsdp=8",
        &[1],
        &chips_of_two,
        expect![[r#"
            fsdp=8 (fsdp.x=2, fsdp.y=2, fsdp.core=2)
            [0, 1, 4, 5, 2, 3, 6, 7]
        "#]],
    );
}

/// Two slices of four chips whose ids follow neither the order of the list nor that of the coordinates.
#[test]
fn shuffled_devices_of_two_slices_give_the_known_mesh() {
    let device = |(id, slice, x, y)| PhysicalDevice {
        id,
        process: slice,
        slice,
        position: Some(TorusPosition { coords: [x, y, 0], core: 0 }),
    };
    let mut devices = [
        (2, 0, 0, 0),
        (1, 0, 1, 0),
        (0, 0, 0, 1),
        (3, 0, 1, 1),
        (4, 1, 0, 0),
        (7, 1, 1, 0),
        (6, 1, 0, 1),
        (5, 1, 1, 1),
    ]
    .map(device);
    let topology = |devices: [PhysicalDevice; 8]| PhysicalTopology::new(devices, [false; 3]).unwrap();
    let expected = topology(devices);
    check(
        "a=2, b=2",
        &[2, 1],
        &expected,
        expect![[r#"
            a=4 (a.dcn=2, a.y=2), b=2 (b.x=2)
            [2, 1] [0, 3] [4, 7] [6, 5]
        "#]],
    );
    for _ in 0..devices.len() {
        devices.rotate_left(3);
        assert_eq!(topology(devices), expected);
    }
}

#[test]
fn slices_are_the_outer_part_of_an_axis() {
    let slices = torus(2, [2, 2, 1], 1);
    check(
        "data=1, fsdp=4, tensor=1",
        &[2, 1, 1],
        &slices,
        expect![[r#"
            data=2 (data.dcn=2), fsdp=4 (fsdp.x=2, fsdp.y=2), tensor=1
            [0] [2] [1] [3] [100000] [100002] [100001] [100003]
        "#]],
    );
    check(
        "fsdp=4",
        &[2],
        &slices,
        expect![[r#"
            fsdp=8 (fsdp.dcn=2, fsdp.x=2, fsdp.y=2)
            [0, 2, 1, 3, 100000, 100002, 100001, 100003]
        "#]],
    );
    check(
        "a=2, b=2",
        &[1, 2],
        &slices,
        expect![[r#"
            a=2 (a.y=2), b=4 (b.dcn=2, b.x=2)
            [0, 1, 100000, 100001] [2, 3, 100002, 100003]
        "#]],
    );
}

#[test]
fn without_coordinates_meshes_are_row_major() {
    let device = |id| PhysicalDevice { id, process: 0, slice: 0, position: None };
    let topology = PhysicalTopology::new([3, 0, 2, 1, 5, 4].map(device), [false; 3]).unwrap();
    check(
        "data=2, fsdp=3",
        &[1, 1],
        &topology,
        expect![[r#"
            data=2 (data.devices=2 every 3), fsdp=3 (fsdp.devices=3)
            [0, 1, 2] [3, 4, 5]
        "#]],
    );
}

#[test]
fn meshes_that_do_not_fit_name_both_numbers() {
    let (one, two) = (torus(1, [4, 4, 1], 1), torus(2, [4, 4, 1], 1));
    check(
        "data=4, fsdp=4",
        &[1],
        &one,
        expect![[r#"
            error: mesh data=4, fsdp=4 has 2 axes, and 1 sizes over slices are given: [1]; there is one for each axis, 1 where it stays in a slice
        "#]],
    );
    check(
        "fsdp=16",
        &[2],
        &one,
        expect![[r#"
            error: the mesh spans 2 slices (sizes over slices: fsdp=2), and the topology has 1; the sizes over slices multiply to the number of slices
        "#]],
    );
    check(
        "fsdp=16",
        &[1],
        &two,
        expect![[r#"
            error: the mesh spans 1 slice (sizes over slices: fsdp=1), and the topology has 2; the sizes over slices multiply to the number of slices
        "#]],
    );
    check(
        "data=1, fsdp=16",
        &[4, 1],
        &two,
        expect![[r#"
            error: the mesh spans 4 slices (sizes over slices: data=4, fsdp=1), and the topology has 2; the sizes over slices multiply to the number of slices
        "#]],
    );
    check(
        "data=1, fsdp=8",
        &[2, 1],
        &two,
        expect![[r#"
            error: mesh data=1, fsdp=8 takes 8 devices of a slice, and a slice of the topology has 16
        "#]],
    );
    check(
        "data=1, fsdp=16",
        &[0, 1],
        &two,
        expect![[r#"
            error: the mesh spans 0 slices (sizes over slices: data=0, fsdp=1), and the topology has 2; the sizes over slices multiply to the number of slices
        "#]],
    );
    let long = AbstractMesh::new([("a".repeat(128), 16)]).unwrap();
    let error = Placement::new(&long, &one).unwrap_err().to_string();
    expect![
        "axis aaa has too long a name: those of its sub-axes, which add to it, would have more than 128 bytes"
    ]
    .assert_eq(&error.replace(&"a".repeat(128), "aaa"));
    let all_in_one = Placement::new(&mesh("fsdp=32"), &two).unwrap_err();
    expect!["the mesh spans 1 slice (sizes over slices: fsdp=1), and the topology has 2; the sizes over slices multiply to the number of slices"].assert_eq(&all_in_one.to_string());
}

#[test]
fn spec_and_mesh_must_fit() {
    let placement = Placement::new(&mesh("fsdp=16"), &torus(1, [4, 4, 1], 1)).unwrap();
    let error = placement.physical_spec(&"(data, -)".parse().unwrap()).unwrap_err();
    expect!["spec (data, -) splits dim 0 over axis data, which mesh fsdp=16 does not have"]
        .assert_eq(&error.to_string());
    assert!(placement.sub_axes("data").is_empty());
}

#[test]
fn placements_are_listed_best_first() {
    let cube = torus(1, [4, 4, 4], 1);
    let all: Vec<_> = Placement::candidates(&mesh("data=4, fsdp=16"), &[1, 1], &cube).unwrap().collect();
    let lines: Vec<_> = all.iter().take(4).map(Placement::to_string).collect();
    expect![[r#"
        data=4 (data.z=4), fsdp=16 (fsdp.x=4, fsdp.y=4)
        data=4 (data.y=4), fsdp=16 (fsdp.x=4, fsdp.z=4)
        data=4 (data.x=4), fsdp=16 (fsdp.y=4, fsdp.z=4)
        data=4 (data.y=2 every 2, data.z=2 every 2), fsdp=16 (fsdp.x=4, fsdp.y=2, fsdp.z=2)
        6 in all"#]]
    .assert_eq(&format!("{}\n{} in all", lines.join("\n"), all.len()));
    assert_eq!(all[0], Placement::new(&mesh("data=4, fsdp=16"), &cube).unwrap());
}

#[test]
fn rings_go_to_the_axes_that_communicate_most() {
    let placed = |mesh_text: &str, wrap| {
        let topology = wrapped([4, 4, 4], wrap);
        let placement = Mesh::for_topology(&mesh(mesh_text), &topology).unwrap();
        assert!(placement.mesh().device_ids().eq(placement.physical_mesh().device_ids()));
        format!("{:?}: {placement}\n", wrap.map(u8::from))
    };
    let lines = [
        placed("data=4, fsdp=4, tensor=4", [false, false, false]),
        placed("data=4, fsdp=4, tensor=4", [false, true, false]),
        placed("data=4, fsdp=4, tensor=4", [true, false, true]),
        placed("data=4, fsdp=16", [false, true, false]),
        placed("data=4, fsdp=16", [false, true, true]),
        // A ring that others would have a part of is none.
        placed("data=32, fsdp=2", [false, true, false]),
    ];
    expect![[r#"
        [0, 0, 0]: data=4 (data.z=4), fsdp=4 (fsdp.y=4), tensor=4 (tensor.x=4)
        [0, 1, 0]: data=4 (data.z=4), fsdp=4 (fsdp.x=4), tensor=4 (tensor.y=4)
        [1, 0, 1]: data=4 (data.y=4), fsdp=4 (fsdp.z=4), tensor=4 (tensor.x=4)
        [0, 1, 0]: data=4 (data.z=4), fsdp=16 (fsdp.x=4, fsdp.y=4)
        [0, 1, 1]: data=4 (data.x=4), fsdp=16 (fsdp.y=4, fsdp.z=4)
        [0, 1, 0]: data=32 (data.x=2 every 2, data.y=4, data.z=4), fsdp=2 (fsdp.x=2)
    "#]]
    .assert_eq(&lines.concat());
}

#[test]
fn a_large_pod_is_placed() {
    let pod = torus(2, [16, 16, 16], 2);
    let placement = Placement::hybrid(&mesh("data=1, fsdp=2048, tensor=4"), &[2, 1, 1], &pod).unwrap();
    expect!["data=2 (data.dcn=2), fsdp=2048 (fsdp.x=8 every 2, fsdp.y=16, fsdp.z=16), tensor=4 (tensor.x=2, tensor.core=2)"].assert_eq(&placement.to_string());
}

/// A topology of up to three slices, and sizes over slices and within them of a mesh of up to four axes.
fn cases() -> impl Strategy<Value = (PhysicalTopology, AbstractMesh, Vec<usize>)> {
    let chips = [1_usize..=4, 1..=4, 1..=3];
    (1_usize..=3, chips, 1_usize..=2, prop::collection::vec(any::<u8>(), 10)).prop_map(
        |(slices, chips, cores, random)| {
            let topology = torus(slices, chips, cores);
            let n_axes = 1 + usize::from(random[9]) % 4;
            let (mut ici, mut dcn) = (vec![1; n_axes], vec![1; n_axes]);
            // Each prime factor of the number of devices goes to some axis.
            let mut rest = topology.devices_per_slice();
            for pick in &random[..9] {
                let prime = (2..=rest).find(|prime| rest.is_multiple_of(*prime)).unwrap_or(1);
                ici[usize::from(*pick) % n_axes] *= prime;
                rest /= prime;
            }
            dcn[usize::from(random[8]) % n_axes] = slices;
            let names = (0..n_axes).map(|idx| format!("axis{idx}"));
            (topology, AbstractMesh::new(names.zip(ici)).unwrap(), dcn)
        },
    )
}

/// The partitions along `axis`, line by line.
fn lines(mesh: &AbstractMesh, axis: &str) -> Vec<Vec<usize>> {
    let position = mesh.axis_names().position(|name| *name == *axis).unwrap();
    let size = mesh.axes()[position].1;
    let stride: usize = mesh.axes()[position + 1..].iter().map(|(_, size)| size).product();
    let starts = (0..mesh.size()).filter(|partition| (partition / stride).is_multiple_of(size));
    starts.map(|start| (0..size).map(|index| start + index * stride).collect()).collect()
}

proptest! {
    #[test]
    fn every_device_has_one_place((topology, ici, dcn) in cases()) {
        for placement in Placement::candidates(&ici, &dcn, &topology).unwrap().take(50) {
            let ids: BTreeSet<_> = placement.mesh().device_ids().collect();
            prop_assert_eq!(ids, topology.devices().iter().map(|device| device.id).collect());
            for ((name, size), (inner, outer)) in placement.mesh().shape().axes().iter().zip(ici.axes().iter().zip(&dcn)) {
                prop_assert_eq!(*size, inner.1 * outer);
                prop_assert_eq!(*size, placement.sub_axes(name).iter().map(|sub| sub.size).product::<usize>());
            }
        }
    }

    #[test]
    fn positions_that_agree_over_slices_are_of_one_slice((topology, ici, dcn) in cases()) {
        let placement = Placement::hybrid(&ici, &dcn, &topology).unwrap();
        let slice_of = |id: usize| topology.devices().iter().find(|device| device.id == id).unwrap().slice;
        // Partitions by their position in the grid of slices.
        let mut slices = vec![BTreeSet::new(); topology.slice_count()];
        for (partition, id) in placement.mesh().device_ids().enumerate() {
            let mut rest = partition;
            let (mut outer, mut stride) = (0, 1);
            for ((_, inner), over) in ici.axes().iter().zip(&dcn).rev() {
                outer += rest % (inner * over) / inner * stride;
                rest /= inner * over;
                stride *= over;
            }
            slices[outer].insert(slice_of(id));
        }
        prop_assert!(slices.iter().all(|slices| slices.len() == 1), "{:?}", slices);
    }

    #[test]
    fn neighbours_along_a_sub_axis_are_its_stride_apart((topology, ici, dcn) in cases()) {
        let placement = Placement::hybrid(&ici, &dcn, &topology).unwrap();
        let shape = placement.physical_mesh().shape();
        let device = |partition: usize| {
            let id = placement.physical_mesh().device_id(partition);
            topology.devices().iter().find(|device| device.id == id).unwrap()
        };
        let coordinates = |partition: usize| {
            let device = device(partition);
            let TorusPosition { coords: [x, y, z], core } = device.position.unwrap();
            [device.slice, x, y, z, core]
        };
        for sub in ici.axis_names().flat_map(|name| placement.sub_axes(name)) {
            let moved = [PhysicalAxis::Dcn, PhysicalAxis::X, PhysicalAxis::Y, PhysicalAxis::Z, PhysicalAxis::Core]
                .map(|axis| if axis == sub.physical { sub.stride } else { 0 });
            for line in lines(shape, sub.name.as_str()) {
                for pair in line.windows(2) {
                    let (from, to) = (coordinates(pair[0]), coordinates(pair[1]));
                    let expected: Vec<_> = from.iter().zip(moved).map(|(from, moved)| from + moved).collect();
                    prop_assert_eq!(&expected[..], &to[..]);
                }
            }
        }
    }

    #[test]
    fn both_meshes_place_every_block_alike((topology, ici, dcn) in cases(), dims in prop::collection::vec(0_usize..3, 4)) {
        let placement = Placement::hybrid(&ici, &dcn, &topology).unwrap();
        let mut entries = vec![Vec::new(); 2];
        for ((name, _), dim) in ici.axes().iter().rev().zip(dims) {
            if let Some(entry) = entries.get_mut(dim) {
                entry.push(name.clone());
            }
        }
        let logical = placement.mesh().sharding(PartitionSpec::new(entries)).unwrap();
        let physical = placement.physical_sharding(&logical).unwrap();
        let shape = [7, 96];
        prop_assert_eq!(
            placement.mesh().device_shards(&logical, &shape).unwrap(),
            placement.physical_mesh().device_shards(&physical, &shape).unwrap()
        );
        prop_assert_eq!(&placement.physical_spec(logical.spec()).unwrap(), physical.spec());
    }
}
