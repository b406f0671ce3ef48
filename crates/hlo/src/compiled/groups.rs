//! Which devices take part together in a collective, in whichever of its ways the compiler wrote them.

use shardwright_mesh::{AbstractMesh, AxisName, ReplicaGroups};

use super::proto::{AxisRef, Instruction, IotaGroups, MeshGroups};
use super::{CollectiveKind, sizes};

/// The groups of a collective, where the program lists any that are understood; none of anything else.
pub(super) fn of_collective(instruction: &Instruction) -> Option<ReplicaGroups> {
    match CollectiveKind::of_opcode(&instruction.opcode)?.0 {
        CollectiveKind::CollectivePermute => groups_of_pairs(instruction),
        _ => groups(instruction),
    }
}

fn groups(instruction: &Instruction) -> Option<ReplicaGroups> {
    let devices = instruction.device_list.as_ref();
    let iota = instruction.iota_groups.as_ref().or_else(|| devices?.iota.as_ref());
    match (&instruction.mesh_groups, iota) {
        (Some(groups), _) => along_axes(groups),
        (None, Some(groups)) => counted(groups),
        (None, None) => {
            let lists = [Some(&instruction.replica_groups), devices.map(|list| &list.replica_groups)];
            let groups = lists.into_iter().flatten().find(|groups| !groups.is_empty())?;
            let groups = groups.iter().map(|group| sizes(&group.replica_ids)).collect::<Option<_>>()?;
            ReplicaGroups::list(groups).ok()
        }
    }
}

/// The devices that are linked by sends from one to another, which is what a collective-permute lists: devices that
/// reach each other are one group.
fn groups_of_pairs(instruction: &Instruction) -> Option<ReplicaGroups> {
    // More devices than any mesh has would take memory out of proportion.
    const MOST: usize = 1 << 20;
    let pairs: Vec<(usize, usize)> = instruction
        .source_target_pairs
        .iter()
        .map(|pair| Some((pair.source.try_into().ok()?, pair.target.try_into().ok()?)))
        .collect::<Option<_>>()?;
    let devices = pairs.iter().map(|&(source, target)| source.max(target) + 1).max()?;
    if devices > MOST.min(pairs.len().checked_mul(2)?) {
        return None;
    }
    // Each device points to one of its group, a lower one or itself.
    let mut lower: Vec<usize> = (0..devices).collect();
    for (source, target) in pairs {
        let (a, b) = (lowest(&mut lower, source), lowest(&mut lower, target));
        lower[a.max(b)] = a.min(b);
    }
    let mut groups: Vec<Vec<usize>> = vec![Vec::new(); devices];
    for device in 0..devices {
        groups[lowest(&mut lower, device)].push(device);
    }
    groups.retain(|group| !group.is_empty());
    ReplicaGroups::list(groups).ok()
}

fn lowest(lower: &mut [usize], mut device: usize) -> usize {
    while lower[device] != device {
        lower[device] = lower[lower[device]];
        device = lower[device];
    }
    device
}

fn counted(groups: &IotaGroups) -> Option<ReplicaGroups> {
    let (dims, transpose) = (sizes(&groups.reshape_dims)?, sizes(&groups.transpose)?);
    let [count, size] = [groups.count, groups.devices_per_group].map(usize::try_from);
    ReplicaGroups::iota(count.ok()?, size.ok()?, &dims, &transpose).ok()
}

fn along_axes(groups: &MeshGroups) -> Option<ReplicaGroups> {
    let mesh = groups.mesh.as_ref()?;
    let axes = mesh.axes.iter().map(|axis| Some((axis.name.as_str(), axis.size.try_into().ok()?)));
    let shape = AbstractMesh::new(axes.collect::<Option<Vec<(&str, usize)>>>()?).ok()?;
    let device_ids = Some(sizes(&mesh.device_ids)?).filter(|ids| !ids.is_empty());
    let reference = |axis: &AxisRef| {
        let name = shape.axes().get(usize::try_from(axis.index).ok()?)?.0.clone();
        let Some(part) = &axis.part else { return Some((name, None)) };
        Some((name, Some((part.pre_size.try_into().ok()?, part.size.try_into().ok()?))))
    };
    let axes: Vec<(AxisName, _)> = groups.axes.iter().map(reference).collect::<Option<_>>()?;
    ReplicaGroups::along_axes(shape.clone(), device_ids, axes).ok()
}
