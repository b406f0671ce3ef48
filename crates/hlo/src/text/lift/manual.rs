//! Manual regions, and the collectives in them.
//!
//! A manual computation has rules here where [`ManualComputation`] says all that is written of it and its values vary
//! as they should. Else it is kept as it is written, and so is every collective in it: outside such a region, or by
//! other groups than those along axes, collectives have no rules. That values are the same along an axis for other reasons
//! than [`ManualComputation`] knows is not found out, and is no error of the program.
//!
//! Whether values vary as they should is known once the region is read, so a region may be read twice. One inside
//! another is tried only if the outer one is kept, which bounds the work by the depth.

use shardwright_mesh::{AbstractMesh, AxisName, NamedSharding, ReplicaGroups, SdySharding};

use super::attribute::{Entries, list, sizes};
use super::{Lifter, Result, find, ops};
use crate::text::tree::Operation;
use crate::{AxisGroup, ManualComputation, Op, Region, ValueId, ValueType};

/// What the printer calls the mesh that regions are on.
const MESH: &str = "mesh";

/// Where collectives have rules.
pub(super) struct Surroundings {
    mesh: AbstractMesh,
    manual_axes: Vec<AxisName>,
}

impl<'t> Lifter<'t> {
    /// The manual computation that an operation is, with its region, if it has rules here.
    pub(super) fn manual_computation(
        &mut self,
        op: &'t Operation,
        operands: &[ValueId],
        results: &[ValueType],
    ) -> Result<Option<(Op, Vec<Region>)>> {
        let (None, [region]) = (&self.manual, &op.regions[..]) else { return Ok(None) };
        let Some((mesh, manual)) = self.written_manual(op, results) else { return Ok(None) };
        let first = self.module.values.len();
        self.manual = Some(Surroundings { mesh, manual_axes: manual.manual_axes.clone() });
        let region = self.region(region, op);
        self.manual = None;
        let regions = vec![region?];
        let fits = manual.infer(&self.module, operands, &regions).is_ok();
        if fits && manual.check_varying(&regions[0]).is_empty() {
            return Ok(Some((Op::ManualComputation(Box::new(manual)), regions)));
        }
        let values = first..self.module.values.len();
        self.given_up.extend(values.filter_map(|value| u32::try_from(value).ok()).map(ValueId));
        Ok(None)
    }

    /// What the attributes of a manual computation say, and its mesh, if they say no more than that.
    fn written_manual(
        &self,
        op: &Operation,
        results: &[ValueType],
    ) -> Option<(AbstractMesh, ManualComputation)> {
        let mesh = &self.stated.meshes[*self.meshes.get(MESH)?].1;
        if !mesh.is_iota() || !op.attributes.is_empty() {
            return None;
        }
        let mesh = mesh.shape();
        let axes = find(&op.properties, "manual_axes")?.value.strip_prefix("#sdy<manual_axes{")?;
        let axes = axes.strip_suffix("}>")?.split(", ").filter(|axis| !axis.is_empty());
        let axis = |text: &str| {
            let name = text.strip_prefix('"')?.strip_suffix('"')?;
            mesh.axis_names().find(|axis| axis.as_str() == name).cloned()
        };
        let manual = ManualComputation {
            in_shardings: named(&find(&op.properties, "in_shardings")?.value, mesh)?,
            out_shardings: named(&find(&op.properties, "out_shardings")?.value, mesh)?,
            manual_axes: axes.map(axis).collect::<Option<_>>()?,
            results: results.iter().map(|ty| ty.tensor().cloned()).collect::<Option<_>>()?,
        };
        let says_all = manual.properties() == ops::written(op.properties.iter());
        says_all.then(|| (mesh.clone(), manual))
    }
}

impl Surroundings {
    /// The group that the attributes of a collective name, which are taken.
    pub(super) fn take_group(&self, entries: &mut Entries<'_>) -> Option<AxisGroup> {
        let mut take = |name| entries.take(name);
        self.group(take("channel_handle")?, take("replica_groups")?, take("use_global_device_ids")?)
    }

    /// The group whose attributes these are, as they are printed of it.
    fn group(&self, channel: &str, groups: &str, global_ids: &str) -> Option<AxisGroup> {
        let lists = groups.strip_prefix("dense<")?.split_once('>')?.0;
        let lists = list(lists)?.into_iter().map(sizes).collect::<Option<Vec<_>>>()?;
        let first = lists.first()?.clone();
        let mut axes = ReplicaGroups::list(lists).ok()?.axes_of(&self.mesh).ok()?;
        // The sooner devices of a group differ along an axis, the more minor it is.
        axes.sort_by_key(|axis| std::cmp::Reverse(self.begins_to_differ(axis, &first)));
        let is_manual = axes.iter().all(|axis| self.manual_axes.contains(axis));
        let group = AxisGroup::new(&self.mesh, axes).ok().filter(|group| is_manual && group.size() > 1)?;
        let written = format!("channel_handle = {channel}, replica_groups = {groups}, use_global_device_ids");
        (global_ids == "unit" && group.to_string() == written).then_some(group)
    }

    fn begins_to_differ(&self, axis: &AxisName, group: &[usize]) -> Option<usize> {
        let place = self.mesh.axis_names().position(|name| name == axis)?;
        let stride: usize = self.mesh.axes()[place + 1..].iter().map(|(_, size)| size).product();
        let size = self.mesh.axis_size(axis)?;
        let along = |device: usize| device / stride % size;
        group.iter().position(|&device| along(device) != along(group[0]))
    }
}

/// Shardings by closed dims over whole axes.
fn named(text: &str, mesh: &AbstractMesh) -> Option<Vec<NamedSharding>> {
    let texts = list(text.strip_prefix("#sdy.sharding_per_value<")?.strip_suffix('>')?)?;
    let sharding = |text: &str| text.parse::<SdySharding>().ok()?.to_named(mesh).ok();
    texts.into_iter().map(sharding).collect()
}
