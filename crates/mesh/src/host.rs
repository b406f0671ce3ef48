//! What one of several hosts sees of a mesh: [`HostView`].

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use crate::{AbstractMesh, Mesh, NamedSharding, PhysicalTopology, Shard, ShardingError};

/// The part of a mesh that one process drives, where several work together on one program.
///
/// Each process, one on each host, holds the shards of its own devices and feeds its own rows of each batch.
/// *Global* counts speak of all processes, *addressable* ones of this process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostView {
    mesh: Mesh,
    // The process of each partition.
    owners: Vec<usize>,
    process: usize,
    process_count: usize,
}

/// The rows of a global batch that a host feeds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BatchRows {
    /// Rows of the whole batch, those of all hosts together.
    pub global: usize,
    /// The global rows that this host's batch is, in the order of its rows; no two ranges touch.
    pub ranges: Vec<Range<usize>>,
}

/// A host that a mesh does not have, or a batch that does not fit one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HostError {
    /// No device of the topology belongs to the process.
    #[error("process {process} has no devices; those that have some are {known:?}")]
    UnknownProcess {
        /// The process.
        process: usize,
        /// The processes of the topology.
        known: Vec<usize>,
    },
    /// The mesh names a device that the topology does not have.
    #[error("the mesh names device {device_id}, which the topology does not have ({topology})")]
    UnknownDevice {
        /// The device.
        device_id: usize,
        /// The topology.
        topology: Box<PhysicalTopology>,
    },
    /// The rows of a host do not divide among its devices.
    #[error(
        "process {process} gives {local_rows} rows of the batch, which do not divide into the {parts} parts that its devices hold; \
         give a multiple of {parts}"
    )]
    LocalBatch {
        /// The process.
        process: usize,
        /// The rows it gives.
        local_rows: usize,
        /// Into how many parts they are cut.
        parts: usize,
    },
    /// The process drives no device of the mesh.
    #[error("process {process} drives no device of mesh {mesh}, so it feeds no rows")]
    DrivesNone {
        /// The process.
        process: usize,
        /// The mesh.
        mesh: AbstractMesh,
    },
    /// Hosts hold different numbers of parts, so equal batches of theirs are no batch.
    #[error(
        "of a batch split {sharding} process {process} holds {parts} and process {other} holds {other_parts} \
         of the {} parts; hosts that feed equal batches hold equally many",
        sharding.shards_per_dim().first().unwrap_or(&1)
    )]
    UnequalParts {
        /// This process.
        process: usize,
        /// Its parts.
        parts: usize,
        /// Another process.
        other: usize,
        /// That one's parts.
        other_parts: usize,
        /// How the batch is split.
        sharding: Box<NamedSharding>,
    },
    /// What was given as a batch has no rows to split.
    #[error("a batch has rows, and spec () is for a scalar")]
    ScalarBatch,
    /// The batch is larger than a `usize` counts.
    #[error("{parts} parts of {rows} rows each are more than can be counted")]
    TooLarge {
        /// All parts of the batch.
        parts: usize,
        /// The rows of each.
        rows: usize,
    },
    /// The sharding does not fit.
    #[error(transparent)]
    Sharding(#[from] ShardingError),
}

impl HostView {
    /// The part of a mesh, made of devices of this topology, that `process` drives. A process may drive none of
    /// the mesh's devices, where the mesh leaves out some of the topology.
    ///
    /// # Errors
    ///
    /// The topology does not have the process, or not a device of the mesh.
    pub fn new(mesh: &Mesh, topology: &PhysicalTopology, process: usize) -> Result<Self, HostError> {
        let known = topology.processes();
        if !known.contains(&process) {
            return Err(HostError::UnknownProcess { process, known });
        }
        let mut devices: Vec<_> = topology.devices().iter().collect();
        devices.sort_unstable_by_key(|device| device.id);
        let owner = |device_id: usize| match devices.binary_search_by_key(&device_id, |device| device.id) {
            Ok(idx) => Ok(devices[idx].process),
            Err(_) => Err(HostError::UnknownDevice { device_id, topology: Box::new(topology.clone()) }),
        };
        let owners = mesh.device_ids().map(owner).collect::<Result<_, _>>()?;
        Ok(Self { mesh: mesh.clone(), owners, process, process_count: known.len() })
    }

    /// The mesh.
    pub fn mesh(&self) -> &Mesh {
        &self.mesh
    }

    /// Which process this is.
    pub fn process(&self) -> usize {
        self.process
    }

    /// How many processes there are.
    pub fn process_count(&self) -> usize {
        self.process_count
    }

    /// How many devices the mesh has on all hosts together.
    pub fn global_device_count(&self) -> usize {
        self.owners.len()
    }

    /// How many devices of the mesh this process drives.
    pub fn addressable_device_count(&self) -> usize {
        self.partitions().count()
    }

    /// The partitions that run on this host.
    pub fn partitions(&self) -> impl Iterator<Item = usize> {
        (0..self.owners.len()).filter(|&partition| self.owners[partition] == self.process)
    }

    /// What the devices of this host hold of an array of this global shape: device ids with their shards.
    ///
    /// # Errors
    ///
    /// The sharding is over another mesh, or for another rank.
    pub fn shards(
        &self,
        sharding: &NamedSharding,
        shape: &[usize],
    ) -> Result<Vec<(usize, Shard)>, ShardingError> {
        let mut shards = self.mesh.device_shards(sharding, shape)?;
        shards.retain(|(_, shard)| self.owners[shard.partition] == self.process);
        Ok(shards)
    }

    /// The rows that this host feeds of a batch to which every host gives `local_rows` rows. The batch is split
    /// by dim 0 of `sharding`, and the rows of a host go in order to the parts that its devices hold, first to
    /// last. Hosts that hold the same part must give the same rows for it.
    ///
    /// With the batch split over all devices of two hosts, in order of the hosts, 8 rows from each make a batch
    /// of 16, and the rows of the first host come first.
    ///
    /// # Errors
    ///
    /// The host drives none of the mesh's devices, the rows do not divide among its parts, other hosts hold more or
    /// fewer parts, the batch is a scalar, or the sharding is over another mesh.
    pub fn batch_rows(&self, sharding: &NamedSharding, local_rows: usize) -> Result<BatchRows, HostError> {
        sharding.check_mesh(&self.mesh)?;
        if sharding.spec().rank() == 0 {
            return Err(HostError::ScalarBatch);
        }
        // The tiles of dim 0 that the devices of each process hold.
        let mut tiles_of: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
        for (partition, &owner) in self.owners.iter().enumerate() {
            tiles_of.entry(owner).or_default().insert(sharding.tile_index(partition, 0));
        }
        let process = self.process;
        let Some(tiles) = tiles_of.get(&process) else {
            return Err(HostError::DrivesNone { process, mesh: self.mesh.shape().clone() });
        };
        if let Some((&other, others)) = tiles_of.iter().find(|(_, others)| others.len() != tiles.len()) {
            let (parts, other_parts, sharding) = (tiles.len(), others.len(), Box::new(sharding.clone()));
            return Err(HostError::UnequalParts { process, parts, other, other_parts, sharding });
        }
        if !local_rows.is_multiple_of(tiles.len()) {
            return Err(HostError::LocalBatch { process, local_rows, parts: tiles.len() });
        }
        let (rows, parts) = (local_rows / tiles.len(), sharding.shards_per_dim()[0]);
        let global = rows.checked_mul(parts).ok_or(HostError::TooLarge { parts, rows })?;
        let mut ranges: Vec<Range<usize>> = Vec::new();
        for range in tiles.iter().map(|tile| tile * rows..(tile + 1) * rows) {
            match ranges.last_mut() {
                Some(last) if last.end == range.start => last.end = range.end,
                _ => ranges.push(range),
            }
        }
        Ok(BatchRows { global, ranges })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PhysicalDevice;
    use expect_test::{Expect, expect};

    /// Two hosts with four devices each, in order.
    fn topology() -> PhysicalTopology {
        let device = |id| PhysicalDevice { id, process: id / 4, slice: 0, position: None };
        PhysicalTopology::new((0..8).map(device), [false; 3]).unwrap()
    }

    fn view(mesh: &str, ids: impl IntoIterator<Item = usize>, process: usize) -> Result<HostView, HostError> {
        let mesh = Mesh::new(AbstractMesh::parse(mesh).unwrap(), ids.into_iter().collect()).unwrap();
        HostView::new(&mesh, &topology(), process)
    }

    fn check_rows(mesh: &str, ids: &[usize], spec: &str, local_rows: usize, expect: Expect) {
        let line = |process| {
            let view = view(mesh, ids.iter().copied(), process).unwrap();
            let sharding = NamedSharding::new(view.mesh().shape(), spec.parse().unwrap()).unwrap();
            match view.batch_rows(&sharding, local_rows) {
                Ok(rows) => format!("host {process} feeds {:?} of {}\n", rows.ranges, rows.global),
                Err(error) => format!("host {process}: error: {error}\n"),
            }
        };
        expect.assert_eq(&[0, 1].map(line).concat());
    }

    #[test]
    fn counts_say_what_they_count() {
        let view = view("fsdp=8", 0..8, 1).unwrap();
        assert_eq!((view.global_device_count(), view.addressable_device_count()), (8, 4));
        assert_eq!((view.process_count(), view.process()), (2, 1));
        assert_eq!(view.partitions().collect::<Vec<_>>(), [4, 5, 6, 7]);
    }

    #[test]
    fn hosts_feed_the_rows_that_their_devices_hold() {
        let ids = [0, 1, 2, 3, 4, 5, 6, 7];
        check_rows(
            "fsdp=8",
            &ids,
            "(fsdp, -)",
            8,
            expect![[r#"
                host 0 feeds [0..8] of 16
                host 1 feeds [8..16] of 16
            "#]],
        );
        check_rows(
            "data=2, tensor=4",
            &ids,
            "(data, -)",
            8,
            expect![[r#"
                host 0 feeds [0..8] of 16
                host 1 feeds [8..16] of 16
            "#]],
        );
        // The tensor axis runs over the hosts, so both feed the whole batch.
        check_rows(
            "data=4, tensor=2",
            &[0, 4, 1, 5, 2, 6, 3, 7],
            "(data, -)",
            8,
            expect![[r#"
                host 0 feeds [0..8] of 8
                host 1 feeds [0..8] of 8
            "#]],
        );
        check_rows(
            "fsdp=8",
            &[0, 1, 4, 5, 2, 3, 6, 7],
            "(fsdp, -)",
            8,
            expect![[r#"
                host 0 feeds [0..4, 8..12] of 16
                host 1 feeds [4..8, 12..16] of 16
            "#]],
        );
    }

    #[test]
    fn batches_that_do_not_fit_are_refused() {
        let ids = [0, 1, 2, 3, 4, 5, 6, 7];
        check_rows(
            "fsdp=8",
            &ids,
            "(fsdp, -)",
            6,
            expect![[r#"
                host 0: error: process 0 gives 6 rows of the batch, which do not divide into the 4 parts that its devices hold; give a multiple of 4
                host 1: error: process 1 gives 6 rows of the batch, which do not divide into the 4 parts that its devices hold; give a multiple of 4
            "#]],
        );
        check_rows(
            "fsdp=8",
            &ids,
            "()",
            6,
            expect![[r#"
                host 0: error: a batch has rows, and spec () is for a scalar
                host 1: error: a batch has rows, and spec () is for a scalar
            "#]],
        );
        check_rows(
            "fsdp=8",
            &ids,
            "(fsdp)",
            usize::MAX & !3,
            expect![[r#"
                host 0: error: 8 parts of 4611686018427387903 rows each are more than can be counted
                host 1: error: 8 parts of 4611686018427387903 rows each are more than can be counted
            "#]],
        );
        check_rows(
            "a=2, b=4",
            &[0, 4, 5, 6, 1, 2, 3, 7],
            "(a)",
            8,
            expect![[r#"
                host 0 feeds [0..8] of 8
                host 1 feeds [0..8] of 8
            "#]],
        );
        check_rows(
            "fsdp=4",
            &[0, 1, 2, 3],
            "(fsdp)",
            8,
            expect![[r#"
                host 0 feeds [0..8] of 8
                host 1: error: process 1 drives no device of mesh fsdp=4, so it feeds no rows
            "#]],
        );
        check_rows(
            "a=2, b=2",
            &[0, 1, 2, 4],
            "((a,b))",
            6,
            expect![[r#"
                host 0: error: of a batch split ((a,b)) on a=2, b=2 process 0 holds 3 and process 1 holds 1 of the 4 parts; hosts that feed equal batches hold equally many
                host 1: error: of a batch split ((a,b)) on a=2, b=2 process 1 holds 1 and process 0 holds 3 of the 4 parts; hosts that feed equal batches hold equally many
            "#]],
        );
    }

    #[test]
    fn a_host_has_the_shards_of_its_devices_with_the_number_of_their_copy() {
        let view = view("data=2, fsdp=4", [0, 4, 1, 5, 2, 6, 3, 7], 1).unwrap();
        let shards = |spec: &str| {
            let sharding = view.mesh().sharding(spec.parse().unwrap()).unwrap();
            let shards = view.shards(&sharding, &[8]).unwrap();
            let line = |(id, shard): (usize, Shard)| {
                format!(
                    "device {id}: partition {} {:?} copy {}\n",
                    shard.partition, shard.ranges, shard.replica
                )
            };
            format!("{spec}\n{}", shards.into_iter().map(line).collect::<String>())
        };
        expect![[r#"
            ((data,fsdp))
            device 4: partition 1 [1..2] copy 0
            device 5: partition 3 [3..4] copy 0
            device 6: partition 5 [5..6] copy 0
            device 7: partition 7 [7..8] copy 0
            (fsdp)
            device 4: partition 1 [2..4] copy 0
            device 5: partition 3 [6..8] copy 0
            device 6: partition 5 [2..4] copy 1
            device 7: partition 7 [6..8] copy 1
            (-)
            device 4: partition 1 [0..8] copy 1
            device 5: partition 3 [0..8] copy 3
            device 6: partition 5 [0..8] copy 5
            device 7: partition 7 [0..8] copy 7
        "#]]
        .assert_eq(&["((data,fsdp))", "(fsdp)", "(-)"].map(shards).concat());
    }

    #[test]
    fn hosts_and_devices_must_be_there() {
        let error = |result: Result<HostView, HostError>| result.unwrap_err().to_string() + "\n";
        let errors = [error(view("fsdp=8", 0..8, 2)), error(view("fsdp=8", 1..9, 0))];
        expect![[r#"
            process 2 has no devices; those that have some are [0, 1]
            the mesh names device 8, which the topology does not have (8 devices: 8 without coordinates, 2 hosts)
        "#]].assert_eq(&errors.concat());
    }
}
