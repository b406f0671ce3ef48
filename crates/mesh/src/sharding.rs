//! Shardings: a partition spec that fits a mesh, and the arithmetic of blocks.
//!
//! A dim split over axes whose sizes multiply to `t` is cut into `t` *tiles*, each `ceil(size / t)` long.
//! A *block* is one tile per dim. Every partition holds one block; partitions that differ only along axes
//! the spec does not name hold copies of the same block, its *replicas*.
//!
//! Every device stores the full tile length. The true index ranges end where the array ends, so the last
//! tiles may be partly or wholly padding, which no range contains.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use crate::axis::hint_with_numbers;
use crate::text::{MAX_LISTED, clip};
use crate::{AbstractMesh, AxisName, Mesh, PartitionSpec};

/// How an array is laid out over a mesh: a [`PartitionSpec`] whose axes are all there, each used once.
///
/// Cheap to clone: a program keeps one for each argument, and an array takes it along.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct NamedSharding(Arc<Layout>);

#[derive(Debug, PartialEq, Eq, Hash)]
struct Layout {
    mesh: AbstractMesh,
    spec: PartitionSpec,
    // The spec with axis positions for names. With `replica_axes` they are all axes of the mesh, each once.
    tile_axes: Vec<Vec<usize>>,
    // The axes the spec does not name, in mesh order.
    replica_axes: Vec<usize>,
}

/// What one partition holds of an array.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Shard {
    /// The partition: the row-major position in the mesh.
    pub partition: usize,
    /// The indices it holds, one range per dim, without padding. A range may be empty.
    pub ranges: Vec<Range<usize>>,
    /// Which copy of its block this is: its position, from 0, among the partitions that hold the same block, in
    /// their order. So exactly one partition has copy 0 of each block, whatever the sharding: 0 for all of a block
    /// that is held once, and for an array that is replicated everywhere the number of the partition. It counts
    /// partitions and not device ids, so that it is the same on any devices.
    pub replica: usize,
}

/// A spec that does not fit a mesh, or a sharding that does not fit what it is used for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ShardingError {
    /// The spec names an axis that the mesh lacks.
    #[error(
        "spec {} splits dim {dim} over axis {}, which mesh {mesh} does not have{}",
        clip(spec),
        clip(axis),
        hint_with_numbers(axis, mesh)
    )]
    UnknownAxis {
        /// The spec.
        spec: PartitionSpec,
        /// The dim with the unknown axis.
        dim: usize,
        /// The axis.
        axis: AxisName,
        /// The mesh, whose axes are the ones to choose from.
        mesh: AbstractMesh,
    },
    /// The spec names one axis twice.
    #[error(
        "spec {} uses axis {axis} for dim {first_dim} and again for dim {second_dim}; an axis can split once",
        clip(spec)
    )]
    AxisUsedTwice {
        /// The spec.
        spec: PartitionSpec,
        /// The axis.
        axis: AxisName,
        /// The dim of its first use.
        first_dim: usize,
        /// The dim of its second use, perhaps the same.
        second_dim: usize,
    },
    /// The spec is for arrays of another rank.
    #[error(
        "spec {} is for rank {}, but shape {shape:?} has rank {}; a spec has one entry per dim, - where it is not split",
        clip(spec), spec.rank(), shape.len()
    )]
    RankMismatch {
        /// The spec.
        spec: PartitionSpec,
        /// The global shape of the array.
        shape: Vec<usize>,
    },
    /// The sharding is over one mesh, the devices are in another.
    #[error("the sharding is over mesh {sharding_mesh}, but the devices are arranged as {device_mesh}")]
    MeshMismatch {
        /// The sharding's mesh.
        sharding_mesh: AbstractMesh,
        /// The mesh of devices.
        device_mesh: AbstractMesh,
    },
    /// The mesh has more devices than are listed one by one.
    #[error("mesh {mesh} has {} devices, and at most {MAX_LISTED} are listed one by one", mesh.size())]
    TooManyDevices {
        /// The mesh.
        mesh: AbstractMesh,
    },
    /// An array's size is more than a `usize` counts.
    #[error("an array of shape {shape:?} is too large: its size overflows")]
    TooLarge {
        /// The global shape.
        shape: Vec<usize>,
    },
}

impl NamedSharding {
    /// The sharding that splits an array over `mesh` as `spec` says. An axis that the spec gives by its number
    /// is called by its name from here on: `(0, -)` and `(data, -)` make one sharding.
    ///
    /// # Errors
    ///
    /// The spec names an axis that the mesh lacks, or one axis twice.
    pub fn new(mesh: &AbstractMesh, spec: PartitionSpec) -> Result<Self, ShardingError> {
        // For each axis of the mesh, the dim that it splits.
        let mut used_by = vec![None; mesh.axes().len()];
        let mut tile_axes = vec![Vec::new(); spec.rank()];
        for (dim, entry) in spec.dims().iter().enumerate() {
            for axis in &entry.axes {
                let Some(axis_idx) = mesh.resolve(axis) else {
                    let (axis, mesh) = (axis.clone(), mesh.clone());
                    return Err(ShardingError::UnknownAxis { spec, dim, axis, mesh });
                };
                if let Some(first_dim) = used_by[axis_idx].replace(dim) {
                    let (axis, second_dim) = (axis.clone(), dim);
                    return Err(ShardingError::AxisUsedTwice { spec, axis, first_dim, second_dim });
                }
                tile_axes[dim].push(axis_idx);
            }
        }
        let replica_axes = (0..used_by.len()).filter(|&axis_idx| used_by[axis_idx].is_none()).collect();
        let name = |&axis_idx: &usize| mesh.axes()[axis_idx].0.clone();
        let spec = PartitionSpec::new(tile_axes.iter().map(|axes| axes.iter().map(name).collect::<Vec<_>>()));
        Ok(Self(Arc::new(Layout { mesh: mesh.clone(), spec, tile_axes, replica_axes })))
    }

    /// The sharding that gives every partition a whole copy of an array of this rank.
    pub fn replicated(mesh: &AbstractMesh, rank: usize) -> Self {
        Self(Arc::new(Layout {
            mesh: mesh.clone(),
            spec: PartitionSpec::replicated(rank),
            tile_axes: vec![Vec::new(); rank],
            replica_axes: (0..mesh.axes().len()).collect(),
        }))
    }

    /// The mesh.
    pub fn mesh(&self) -> &AbstractMesh {
        &self.0.mesh
    }

    /// The spec.
    pub fn spec(&self) -> &PartitionSpec {
        &self.0.spec
    }

    /// Checks that an array of this global shape can have this sharding. Sizes may be anything, zero too.
    ///
    /// # Errors
    ///
    /// The spec has more or fewer entries than the shape has dims.
    pub fn check_rank(&self, shape: &[usize]) -> Result<(), ShardingError> {
        if self.0.spec.rank() != shape.len() {
            return Err(ShardingError::RankMismatch { spec: self.0.spec.clone(), shape: shape.to_vec() });
        }
        Ok(())
    }

    /// Into how many tiles each dim is cut.
    pub fn shards_per_dim(&self) -> Vec<usize> {
        self.0.tile_axes.iter().map(|axes| self.extent(axes)).collect()
    }

    /// Whether every partition holds the whole array: no dim is split, or only over axes of size 1.
    pub fn is_fully_replicated(&self) -> bool {
        self.0.tile_axes.iter().all(|axes| self.extent(axes) == 1)
    }

    /// The shape every device stores of an array of this global shape, padding included.
    ///
    /// # Errors
    ///
    /// The spec is for another rank.
    pub fn shard_shape(&self, shape: &[usize]) -> Result<Vec<usize>, ShardingError> {
        self.check_rank(shape)?;
        Ok(shape.iter().zip(self.shards_per_dim()).map(|(size, tiles)| size.div_ceil(tiles)).collect())
    }

    /// The indices that `partition` holds of an array of this global shape, one range per dim, without
    /// padding. A range may be empty: 5 over 4 is `0..2`, `2..4`, `4..5`, `5..5`.
    ///
    /// # Panics
    ///
    /// If the mesh has no such partition, or the shape has a rank that [`NamedSharding::check_rank`] refuses.
    pub fn shard_ranges(&self, partition: usize, shape: &[usize]) -> Vec<Range<usize>> {
        assert!(partition < self.0.mesh.size(), "mesh {} has no partition {partition}", self.0.mesh);
        assert_eq!(
            shape.len(),
            self.0.spec.rank(),
            "spec {} is for another rank than {shape:?}",
            self.0.spec
        );
        let range = |(&size, axes): (&usize, &Vec<usize>)| {
            let tile_size = size.div_ceil(self.extent(axes));
            let start = self.index_along(partition, axes).saturating_mul(tile_size).min(size);
            start..start.saturating_add(tile_size).min(size)
        };
        shape.iter().zip(&self.0.tile_axes).map(range).collect()
    }

    /// What each partition holds of an array of this global shape, in partition order.
    ///
    /// # Errors
    ///
    /// The spec is for another rank, or the mesh has more than a million devices.
    pub fn shards(&self, shape: &[usize]) -> Result<Vec<Shard>, ShardingError> {
        self.check_rank(shape)?;
        self.check_listed()?;
        let shard = |partition| Shard {
            partition,
            ranges: self.shard_ranges(partition, shape),
            replica: self.index_along(partition, &self.0.replica_axes),
        };
        Ok((0..self.0.mesh.size()).map(shard).collect())
    }

    /// How many elements of padding the shards of one copy of the array store together.
    ///
    /// # Errors
    ///
    /// The spec is for another rank, or the padded array has more elements than a `usize` counts.
    pub fn padding_elements(&self, shape: &[usize]) -> Result<usize, ShardingError> {
        let padded = [self.shard_shape(shape)?, self.shards_per_dim()].concat();
        let (padded, unpadded) = (checked_product(&padded), checked_product(shape));
        let padding = padded.zip(unpadded).map(|(padded, unpadded)| padded - unpadded);
        padding.ok_or_else(|| ShardingError::TooLarge { shape: shape.to_vec() })
    }

    /// The bytes of padding that the shards of one copy of the array store together.
    ///
    /// # Errors
    ///
    /// The spec is for another rank, or the bytes are more than a `usize` counts.
    pub fn padding_bytes(&self, shape: &[usize], bytes_per_element: usize) -> Result<usize, ShardingError> {
        let bytes = self.padding_elements(shape)?.checked_mul(bytes_per_element);
        bytes.ok_or_else(|| ShardingError::TooLarge { shape: shape.to_vec() })
    }

    /// The bytes each device stores of an array of this global shape, padding included.
    ///
    /// # Errors
    ///
    /// The spec is for another rank, or the bytes are more than a `usize` counts.
    pub fn bytes_per_device(
        &self,
        shape: &[usize],
        bytes_per_element: usize,
    ) -> Result<usize, ShardingError> {
        let mut factors = self.shard_shape(shape)?;
        factors.push(bytes_per_element);
        checked_product(&factors).ok_or_else(|| ShardingError::TooLarge { shape: shape.to_vec() })
    }

    /// Checks that something can be listed for each device.
    pub(crate) fn check_listed(&self) -> Result<(), ShardingError> {
        if self.0.mesh.size() > MAX_LISTED {
            return Err(ShardingError::TooManyDevices { mesh: self.0.mesh.clone() });
        }
        Ok(())
    }

    /// Checks that the devices of `mesh` are arranged as this sharding expects.
    pub(crate) fn check_mesh(&self, mesh: &Mesh) -> Result<(), ShardingError> {
        if *mesh.shape() != self.0.mesh {
            let (sharding_mesh, device_mesh) = (self.0.mesh.clone(), mesh.shape().clone());
            return Err(ShardingError::MeshMismatch { sharding_mesh, device_mesh });
        }
        Ok(())
    }

    /// Which tile of a dim a partition holds.
    pub(crate) fn tile_index(&self, partition: usize, dim: usize) -> usize {
        self.index_along(partition, &self.0.tile_axes[dim])
    }

    /// How many copies of each block there are.
    pub(crate) fn replica_count(&self) -> usize {
        self.extent(&self.0.replica_axes)
    }

    /// For each dim the axes that split it, as positions in the mesh.
    pub(crate) fn tile_axes(&self) -> &[Vec<usize>] {
        &self.0.tile_axes
    }

    /// The product of the sizes of these axes.
    fn extent(&self, axes: &[usize]) -> usize {
        axes.iter().map(|&axis_idx| self.0.mesh.axes()[axis_idx].1).product()
    }

    /// The position of a partition along these axes, read as one axis with the first the major one.
    fn index_along(&self, partition: usize, axes: &[usize]) -> usize {
        axes.iter().fold(0, |index, &axis_idx| {
            index * self.0.mesh.axes()[axis_idx].1 + self.0.mesh.coordinate(partition, axis_idx)
        })
    }
}

impl fmt::Display for NamedSharding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on {}", self.0.spec, self.0.mesh)
    }
}

/// The product of the factors, if it fits; a zero among them makes it zero, however large the others are.
fn checked_product(factors: &[usize]) -> Option<usize> {
    if factors.contains(&0) {
        return Some(0);
    }
    factors.iter().try_fold(1_usize, |product, &factor| product.checked_mul(factor))
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    fn sharding(mesh: &str, spec: &str) -> Result<NamedSharding, ShardingError> {
        NamedSharding::new(&AbstractMesh::parse(mesh).unwrap(), spec.parse().unwrap())
    }

    fn check_shards(mesh: &str, spec: &str, shape: &[usize], expect: Expect) {
        let sharding = sharding(mesh, spec).unwrap();
        let mut text = format!("each stores {:?}\n", sharding.shard_shape(shape).unwrap());
        for Shard { partition, ranges, replica } in sharding.shards(shape).unwrap() {
            text += &format!("p{partition} {ranges:?} copy {replica}\n");
        }
        expect.assert_eq(&text);
    }

    fn check_error<T: fmt::Debug>(result: Result<T, ShardingError>, expect: Expect) {
        expect.assert_eq(&result.unwrap_err().to_string());
    }

    #[test]
    fn two_axes_on_one_dim_cut_major_to_minor() {
        check_shards(
            "x=2, y=3",
            "((x,y), -)",
            &[12, 4],
            expect![[r#"
                each stores [2, 4]
                p0 [0..2, 0..4] copy 0
                p1 [2..4, 0..4] copy 0
                p2 [4..6, 0..4] copy 0
                p3 [6..8, 0..4] copy 0
                p4 [8..10, 0..4] copy 0
                p5 [10..12, 0..4] copy 0
            "#]],
        );
        check_shards(
            "x=2, y=3",
            "((y,x), -)",
            &[12, 4],
            expect![[r#"
                each stores [2, 4]
                p0 [0..2, 0..4] copy 0
                p1 [4..6, 0..4] copy 0
                p2 [8..10, 0..4] copy 0
                p3 [2..4, 0..4] copy 0
                p4 [6..8, 0..4] copy 0
                p5 [10..12, 0..4] copy 0
            "#]],
        );
    }

    #[test]
    fn an_unnamed_axis_holds_copies() {
        check_shards(
            "data=2, fsdp=2",
            "(-, fsdp)",
            &[2, 4],
            expect![[r#"
                each stores [2, 2]
                p0 [0..2, 0..2] copy 0
                p1 [0..2, 2..4] copy 0
                p2 [0..2, 0..2] copy 1
                p3 [0..2, 2..4] copy 1
            "#]],
        );
        check_shards(
            "x=2",
            "()",
            &[],
            expect![[r#"
                each stores []
                p0 [] copy 0
                p1 [] copy 1
            "#]],
        );
    }

    #[test]
    fn uneven_sizes_round_up_and_end_with_the_array() {
        let sharding = sharding("x=4", "(x)").unwrap();
        let line = |size: usize| {
            let lens = (0..4).map(|p| sharding.shard_ranges(p, &[size])[0].len());
            let lens: Vec<_> = lens.collect();
            let (stored, padding) = (sharding.shard_shape(&[size]), sharding.padding_elements(&[size]));
            format!("{size} over 4: {lens:?} stored as {:?}, padding {}\n", stored.unwrap(), padding.unwrap())
        };
        expect![[r#"
            8 over 4: [2, 2, 2, 2] stored as [2], padding 0
            10 over 4: [3, 3, 3, 1] stored as [3], padding 2
            5 over 4: [2, 2, 1, 0] stored as [2], padding 3
            1 over 4: [1, 0, 0, 0] stored as [1], padding 3
            0 over 4: [0, 0, 0, 0] stored as [0], padding 0
        "#]]
        .assert_eq(&[8, 10, 5, 1, 0].map(line).concat());
    }

    #[test]
    fn a_size_one_axis_splits_nothing() {
        let sharding = sharding("fsdp=1, data=4", "(fsdp, -)").unwrap();
        assert!(sharding.is_fully_replicated());
        assert_eq!(sharding.shards_per_dim(), [1, 1]);
        assert_eq!(sharding.shard_shape(&[5, 3]), Ok(vec![5, 3]));
    }

    #[test]
    fn bytes_count_the_padding() {
        let sharding = sharding("data=2, fsdp=4", "(fsdp, -)").unwrap();
        assert_eq!(sharding.bytes_per_device(&[10, 8], 4), Ok(3 * 8 * 4));
        assert_eq!(sharding.padding_elements(&[10, 8]), Ok(2 * 8));
        assert_eq!(sharding.padding_bytes(&[10, 8], 4), Ok(2 * 8 * 4));
        assert_eq!(sharding.bytes_per_device(&[usize::MAX, 0], 4), Ok(0));
        assert_eq!(sharding.padding_elements(&[usize::MAX, 0]), Ok(0));
    }

    #[test]
    fn errors_name_both_sides() {
        check_error(
            sharding("data=2, fsdp=4", "(-, mdl)"),
            expect!["spec (-, mdl) splits dim 1 over axis mdl, which mesh data=2, fsdp=4 does not have"],
        );
        check_error(
            sharding("data=2, model=4", "(-, mdl)"),
            expect![
                "spec (-, mdl) splits dim 1 over axis mdl, which mesh data=2, model=4 does not have; did you mean model?"
            ],
        );
        check_error(
            sharding("data=2, model=4", "(2)"),
            expect![
                "spec (2) splits dim 0 over axis 2, which mesh data=2, model=4 does not have; its axes are numbered 0 to 1"
            ],
        );
        check_error(
            sharding("data=2, model=4", "(0, data)"),
            expect!["spec (0, data) uses axis data for dim 0 and again for dim 1; an axis can split once"],
        );
        check_error(
            sharding("data=2, fsdp=4", "(fsdp, (data,fsdp))"),
            expect![
                "spec (fsdp, (data,fsdp)) uses axis fsdp for dim 0 and again for dim 1; an axis can split once"
            ],
        );
        let fsdp = sharding("fsdp=4", "(-, fsdp)").unwrap();
        check_error(
            fsdp.shard_shape(&[256, 20, 1000]),
            expect![
                "spec (-, fsdp) is for rank 2, but shape [256, 20, 1000] has rank 3; a spec has one entry per dim, - where it is not split"
            ],
        );
        check_error(
            fsdp.shards(&[8]),
            expect![
                "spec (-, fsdp) is for rank 2, but shape [8] has rank 1; a spec has one entry per dim, - where it is not split"
            ],
        );
        check_error(
            fsdp.bytes_per_device(&[usize::MAX, 8], 4),
            expect!["an array of shape [18446744073709551615, 8] is too large: its size overflows"],
        );
        let mesh = Mesh::iota(AbstractMesh::parse("fsdp=2, tensor=2").unwrap());
        check_error(
            mesh.device_shards(&fsdp, &[8, 8]),
            expect!["the sharding is over mesh fsdp=4, but the devices are arranged as fsdp=2, tensor=2"],
        );
    }

    #[test]
    fn axes_are_given_by_name_or_number() {
        let same = |mesh, [by_number, by_name]: [&str; 2]| {
            let (by_number, by_name) = (sharding(mesh, by_number), sharding(mesh, by_name));
            assert_eq!(by_number.unwrap(), by_name.unwrap());
        };
        same("data=2, fsdp=4", ["(0, -)", "(data, -)"]);
        same("data=2, fsdp=4", ["((1,data), -)", "((fsdp,data), -)"]);
        // A name goes before a number.
        assert_eq!(sharding("1=2, 0=4", "(0)").unwrap().shards_per_dim(), [4]);
        let unnamed = AbstractMesh::unnamed([4, 2]).unwrap();
        let by_number = NamedSharding::new(&unnamed, PartitionSpec::new([vec![1], vec![]])).unwrap();
        assert_eq!(by_number.to_string(), "(1, -) on 0=4, 1=2");
    }

    #[test]
    fn replicated_is_what_an_empty_spec_gives() {
        let mesh = AbstractMesh::parse("data=2, fsdp=4").unwrap();
        let checked = NamedSharding::new(&mesh, PartitionSpec::replicated(3)).unwrap();
        assert_eq!(NamedSharding::replicated(&mesh, 3), checked);
    }
}
