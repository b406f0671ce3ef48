//! What holds for every mesh, spec and shape, up to rank 6.

use std::ops::Range;

use proptest::prelude::*;
use shardwright_mesh::{AbstractMesh, DimSharding, HloSharding, Mesh, NamedSharding, PartitionSpec};

/// A mesh of up to six axes, and a sharding over it of arrays of a small shape of rank up to six. Each axis
/// splits some dim or none, and the axes come to the spec in any order.
fn shardings() -> impl Strategy<Value = (NamedSharding, Vec<usize>)> {
    let sizes = prop::collection::vec(1_usize..=3, 0..=6);
    let shape = prop::collection::vec(0_usize..=4, 0..=6);
    (sizes, shape)
        .prop_flat_map(|(sizes, shape)| {
            let order = Just((0..sizes.len()).collect::<Vec<_>>()).prop_shuffle();
            let dims = prop::collection::vec(0..=shape.len(), sizes.len());
            (Just(sizes), Just(shape), order, dims)
        })
        .prop_map(|(sizes, shape, order, dims)| {
            let axes = sizes.iter().enumerate().map(|(idx, &size)| (format!("axis{idx}"), size));
            let mesh = AbstractMesh::new(axes).unwrap();
            let mut entries = vec![DimSharding::default(); shape.len()];
            for axis_idx in order {
                if let Some(entry) = entries.get_mut(dims[axis_idx]) {
                    entry.axes.push(mesh.axes()[axis_idx].0.clone());
                }
            }
            (NamedSharding::new(&mesh, PartitionSpec::new(entries)).unwrap(), shape)
        })
}

/// The row-major indices of a block.
fn elements(ranges: &[Range<usize>], shape: &[usize]) -> Vec<usize> {
    ranges.iter().zip(shape).fold(vec![0], |outer, (range, size)| {
        outer.into_iter().flat_map(|index| range.clone().map(move |i| index * size + i)).collect()
    })
}

proptest! {
    #[test]
    fn shards_tile_the_array_once_per_replica((sharding, shape) in shardings()) {
        let shards = sharding.shards(&shape).unwrap();
        let n_replicas = shards.iter().map(|shard| shard.replica + 1).max().unwrap();
        let mut counts = vec![vec![0; shape.iter().product()]; n_replicas];
        for shard in &shards {
            for index in elements(&shard.ranges, &shape) {
                counts[shard.replica][index] += 1;
            }
        }
        prop_assert!(counts.iter().flatten().all(|&count| count == 1));
        prop_assert_eq!(shards.len(), n_replicas * sharding.shards_per_dim().iter().product::<usize>());
    }

    #[test]
    fn ranges_fit_what_is_stored((sharding, shape) in shardings()) {
        let stored = sharding.shard_shape(&shape).unwrap();
        for shard in sharding.shards(&shape).unwrap() {
            prop_assert!(shard.ranges.iter().zip(&stored).all(|(range, &size)| range.len() <= size));
        }
        let n_blocks: usize = sharding.shards_per_dim().iter().product();
        let padding = stored.iter().product::<usize>() * n_blocks - shape.iter().product::<usize>();
        prop_assert_eq!(sharding.padding_elements(&shape), Ok(padding));
        prop_assert_eq!(sharding.bytes_per_device(&shape, 2), Ok(2 * stored.iter().product::<usize>()));
    }

    #[test]
    fn both_hlo_forms_list_the_devices_block_by_block((sharding, _) in shardings()) {
        prop_assume!(!sharding.is_fully_replicated());
        // In an array with one element per tile, the element is the tile's place in `devices=[…]`.
        let tiles = sharding.shards_per_dim();
        let shards = sharding.shards(&tiles).unwrap();
        let mut places: Vec<_> = shards.iter().map(|s| (elements(&s.ranges, &tiles), s.replica, s.partition)).collect();
        places.sort();
        let expected: Vec<_> = places.into_iter().map(|(_, _, partition)| partition).collect();

        let HloSharding::Tiled(counted) = sharding.hlo_sharding() else { panic!("{sharding} is tiled") };
        prop_assert_eq!(counted.tiles(), &tiles);
        prop_assert!(counted.devices().eq(expected.iter().copied()));
        let reversed: Vec<_> = (0..expected.len()).rev().collect();
        let mesh = Mesh::new(sharding.mesh().clone(), reversed.clone()).unwrap();
        let HloSharding::Tiled(listed) = sharding.hlo_device_sharding(&mesh).unwrap() else { panic!("tiled") };
        let ids: Vec<_> = expected.iter().map(|&partition| reversed[partition]).collect();
        prop_assert!(listed.devices().eq(ids));
    }

    #[test]
    fn printed_forms_are_read_back((sharding, _) in shardings()) {
        prop_assert_eq!(&sharding.spec().to_string().parse::<PartitionSpec>().unwrap(), sharding.spec());
        let mesh = sharding.mesh();
        prop_assert_eq!(&AbstractMesh::parse(&mesh.to_string()).unwrap(), mesh);
        prop_assert_eq!(&AbstractMesh::parse_for(&mesh.to_string(), mesh.size()).unwrap(), mesh);
    }

    #[test]
    fn no_text_makes_a_parser_panic(text in "[-a,=(){} 0-9]{0,12}", device_count in 0_usize..10) {
        let _ = text.parse::<PartitionSpec>();
        let _ = AbstractMesh::parse_for(&text, device_count);
    }
}
