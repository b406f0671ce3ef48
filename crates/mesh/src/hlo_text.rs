//! The HLO spelling of a sharding, as XLA prints it.
//!
//! HLO numbers tiles, not axes: `devices=[2,1,4]…` is an array of partitions with one dim per tensor dim and,
//! if the sharding leaves copies, a last one marked `last_tile_dim_replicate` that holds them. What that array
//! contains is written in one of two ways.
//!
//! - *Iota*, `<=[2,4]T(1,0)`: count from 0 in an array `[2,4]`, transpose it, and read it row-major. The counted
//!   array is the mesh and the transpose puts its axes in the order in which the spec uses them. Axes that
//!   stay neighbours are written as one, and `<=[8]` alone needs no transpose.
//! - *A list*, `0,4,1,5,2,6,3,7`, for when devices are in an order of their own.
//!
//! A size-1 axis leaves no mark, and what is split nowhere is `{replicated}`.

use std::ops::Range;

use crate::{Mesh, NamedSharding, ShardingError};

impl NamedSharding {
    /// The sharding as HLO text in iota form: `{devices=[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate}`.
    ///
    /// The numbers are partitions; the device order of a [`Mesh`] plays no part.
    pub fn hlo_text(&self) -> String {
        self.hlo_text_with(|| iota_text(self))
    }

    /// The sharding as HLO text that lists device ids:
    /// `{devices=[1,4,2]0,4,1,5,2,6,3,7 last_tile_dim_replicate}`.
    ///
    /// This is for programs and people that number partitions by device id. Programs of this workspace
    /// number them by mesh position; theirs is [`NamedSharding::hlo_text`].
    ///
    /// # Errors
    ///
    /// The sharding is over another mesh.
    pub fn hlo_device_text(&self, mesh: &Mesh) -> Result<String, ShardingError> {
        self.check_mesh(mesh)?;
        Ok(self.hlo_text_with(|| {
            let ids =
                partitions_in_block_order(self).into_iter().map(|partition| mesh.device_ids()[partition]);
            join(&ids.collect::<Vec<_>>())
        }))
    }

    fn hlo_text_with(&self, assignment: impl FnOnce() -> String) -> String {
        if self.is_fully_replicated() {
            return "{replicated}".into();
        }
        let mut tiles = self.shards_per_dim();
        let mut marker = "";
        if self.replica_count() > 1 {
            tiles.push(self.replica_count());
            marker = " last_tile_dim_replicate";
        }
        format!("{{devices=[{}]{}{marker}}}", join(&tiles), assignment())
    }
}

fn iota_text(sharding: &NamedSharding) -> String {
    let sizes: Vec<_> =
        sharding.mesh().axes().iter().map(|(_, size)| *size).filter(|&size| size > 1).collect();
    let runs = runs_of_neighbours(&visible_axes(sharding));
    let mut by_position = runs.clone();
    by_position.sort_by_key(|run| run.start);

    let dims: Vec<_> = by_position.iter().map(|run| sizes[run.clone()].iter().product::<usize>()).collect();
    if dims.len() == 1 {
        return format!("<=[{}]", join(&dims));
    }
    let rank_of = |run| by_position.iter().position(|other| other == run).expect("the same runs, sorted");
    let permutation: Vec<_> = runs.iter().map(rank_of).collect();
    format!("<=[{}]T({})", join(&dims), join(&permutation))
}

/// The axes of more than one device in block order, numbered as if there were no others.
fn visible_axes(sharding: &NamedSharding) -> Vec<usize> {
    let axes = sharding.mesh().axes();
    let is_visible = |axis_idx: &usize| axes[*axis_idx].1 > 1;
    let number = |axis_idx: usize| (0..axis_idx).filter(is_visible).count();
    sharding.block_axes().into_iter().filter(is_visible).map(number).collect()
}

/// Cuts a permutation into the longest runs `i, i + 1, i + 2, …`.
fn runs_of_neighbours(permutation: &[usize]) -> Vec<Range<usize>> {
    let mut runs: Vec<Range<usize>> = Vec::new();
    for &axis in permutation {
        match runs.last_mut() {
            Some(run) if run.end == axis => run.end += 1,
            _ => runs.push(axis..axis + 1),
        }
    }
    runs
}

/// The partitions ordered by the block they hold, and by replica within a block.
fn partitions_in_block_order(sharding: &NamedSharding) -> Vec<usize> {
    let mesh = sharding.mesh();
    sharding.block_axes().into_iter().fold(vec![0], |partitions, axis_idx| {
        let (size, stride) = (mesh.axes()[axis_idx].1, mesh.stride(axis_idx));
        let along_axis = |partition| (0..size).map(move |coordinate| partition + coordinate * stride);
        partitions.into_iter().flat_map(along_axis).collect()
    })
}

fn join(numbers: &[usize]) -> String {
    numbers.iter().map(usize::to_string).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::AbstractMesh;
    use expect_test::{Expect, expect};

    fn check(mesh: &str, specs: &[&str], expect: Expect) {
        let mesh = Mesh::iota(AbstractMesh::parse(mesh).unwrap());
        let mut text = String::new();
        for spec in specs {
            let sharding = mesh.sharding(spec.parse().unwrap()).unwrap();
            let device_text = sharding.hlo_device_text(&mesh).unwrap();
            text += &format!("{spec}\n  {}\n  {device_text}\n", sharding.hlo_text());
        }
        expect.assert_eq(&text);
    }

    #[test]
    fn axes_become_tiles() {
        check(
            "data=2, model=4",
            &["(data, model)", "(model, data)", "(data, -)", "(model, -)"],
            expect![[r#"
                (data, model)
                  {devices=[2,4]<=[8]}
                  {devices=[2,4]0,1,2,3,4,5,6,7}
                (model, data)
                  {devices=[4,2]<=[2,4]T(1,0)}
                  {devices=[4,2]0,4,1,5,2,6,3,7}
                (data, -)
                  {devices=[2,1,4]<=[8] last_tile_dim_replicate}
                  {devices=[2,1,4]0,1,2,3,4,5,6,7 last_tile_dim_replicate}
                (model, -)
                  {devices=[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate}
                  {devices=[4,1,2]0,4,1,5,2,6,3,7 last_tile_dim_replicate}
            "#]],
        );
    }

    #[test]
    fn size_one_axes_leave_no_mark() {
        check(
            "fsdp=8, tensor=1",
            &["(-, fsdp)", "(tensor, fsdp)", "(tensor, -)"],
            expect![[r#"
                (-, fsdp)
                  {devices=[1,8]<=[8]}
                  {devices=[1,8]0,1,2,3,4,5,6,7}
                (tensor, fsdp)
                  {devices=[1,8]<=[8]}
                  {devices=[1,8]0,1,2,3,4,5,6,7}
                (tensor, -)
                  {replicated}
                  {replicated}
            "#]],
        );
        check(
            "x=1, y=1",
            &["(x, y)", "()"],
            expect![[r#"
                (x, y)
                  {replicated}
                  {replicated}
                ()
                  {replicated}
                  {replicated}
            "#]],
        );
    }

    #[test]
    fn several_axes_split_one_dim_in_the_order_named() {
        check(
            "data=2, fsdp=4, tensor=1",
            &["(-, fsdp)", "((data,fsdp), -)", "((fsdp,data), -)", "((tensor,data,fsdp), -)"],
            expect![[r#"
                (-, fsdp)
                  {devices=[1,4,2]<=[2,4]T(1,0) last_tile_dim_replicate}
                  {devices=[1,4,2]0,4,1,5,2,6,3,7 last_tile_dim_replicate}
                ((data,fsdp), -)
                  {devices=[8,1]<=[8]}
                  {devices=[8,1]0,1,2,3,4,5,6,7}
                ((fsdp,data), -)
                  {devices=[8,1]<=[2,4]T(1,0)}
                  {devices=[8,1]0,4,1,5,2,6,3,7}
                ((tensor,data,fsdp), -)
                  {devices=[8,1]<=[8]}
                  {devices=[8,1]0,1,2,3,4,5,6,7}
            "#]],
        );
    }

    #[test]
    fn neighbouring_axes_are_counted_as_one() {
        check(
            "a=2, b=3, c=5",
            &["(c, (a,b))", "((b,c), a)", "(b, -)", "(c, b)"],
            expect![[r#"
                (c, (a,b))
                  {devices=[5,6]<=[6,5]T(1,0)}
                  {devices=[5,6]0,5,10,15,20,25,1,6,11,16,21,26,2,7,12,17,22,27,3,8,13,18,23,28,4,9,14,19,24,29}
                ((b,c), a)
                  {devices=[15,2]<=[2,15]T(1,0)}
                  {devices=[15,2]0,15,1,16,2,17,3,18,4,19,5,20,6,21,7,22,8,23,9,24,10,25,11,26,12,27,13,28,14,29}
                (b, -)
                  {devices=[3,1,10]<=[2,3,5]T(1,0,2) last_tile_dim_replicate}
                  {devices=[3,1,10]0,1,2,3,4,15,16,17,18,19,5,6,7,8,9,20,21,22,23,24,10,11,12,13,14,25,26,27,28,29 last_tile_dim_replicate}
                (c, b)
                  {devices=[5,3,2]<=[2,3,5]T(2,1,0) last_tile_dim_replicate}
                  {devices=[5,3,2]0,15,5,20,10,25,1,16,6,21,11,26,2,17,7,22,12,27,3,18,8,23,13,28,4,19,9,24,14,29 last_tile_dim_replicate}
            "#]],
        );
    }

    #[test]
    fn device_lists_honour_the_device_order() {
        let mesh = Mesh::new(AbstractMesh::parse("a=2, b=4").unwrap(), (0..8).rev().collect()).unwrap();
        let sharding = mesh.sharding("(b, -)".parse().unwrap()).unwrap();
        expect!["{devices=[4,1,2]7,3,6,2,5,1,4,0 last_tile_dim_replicate}"]
            .assert_eq(&sharding.hlo_device_text(&mesh).unwrap());
    }

    #[test]
    fn thousands_of_devices_are_no_effort() {
        let mesh = Mesh::iota(AbstractMesh::parse("data=16, fsdp=64, tensor=4").unwrap());
        let sharding = mesh.sharding("((tensor,fsdp), -)".parse().unwrap()).unwrap();
        expect!["{devices=[256,1,16]<=[16,64,4]T(2,1,0) last_tile_dim_replicate}"]
            .assert_eq(&sharding.hlo_text());
        assert_eq!(sharding.hlo_device_text(&mesh).unwrap().matches(',').count(), 2 + 4095);
        assert_eq!(sharding.shards(&[8192, 8192]).unwrap().len(), 4096);
    }
}
