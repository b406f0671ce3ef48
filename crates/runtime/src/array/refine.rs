//! Two shardings over one mesh.
//!
//! A program knows one mesh. Meshes of the same devices in the same order differ in how partitions are counted only:
//! `fsdp=8` and `data=2, fsdp=4` both cut eight partitions into halves, and `x0=2, x1=4` can say all that both can.

use std::collections::{BTreeMap, BTreeSet};

use shardwright_mesh::{AbstractMesh, AxisName, DimSharding, NamedSharding, PartitionSpec};

/// The same two shardings over a mesh whose axes are pieces of the axes of both. None where there is no such mesh, as
/// for `a=2, b=3` and `a=3, b=2`.
pub(super) fn over_one_mesh(a: &NamedSharding, b: &NamedSharding) -> Option<(NamedSharding, NamedSharding)> {
    // Where axes end: how many partitions are between neighbours along them, the largest number first.
    let ends: BTreeSet<usize> = ends(a.mesh()).into_iter().chain(ends(b.mesh())).collect();
    let ends: Vec<usize> = ends.into_iter().rev().collect();
    let mut axes = Vec::new();
    for pair in ends.windows(2) {
        if pair[0] % pair[1] != 0 {
            return None;
        }
        axes.push((AxisName::from(format!("x{}", axes.len())), pair[0] / pair[1]));
    }
    let mesh = AbstractMesh::new(axes).ok()?;
    Some((over(&mesh, &ends, a)?, over(&mesh, &ends, b)?))
}

/// The number of partitions, and how many there are between neighbours along each axis, major to minor.
fn ends(mesh: &AbstractMesh) -> Vec<usize> {
    let mut ends = vec![mesh.size()];
    for (_, size) in mesh.axes() {
        ends.push(ends[ends.len() - 1] / size);
    }
    ends
}

/// The sharding over `mesh`, of which axis `i` reaches from one of `ends` to the next.
fn over(mesh: &AbstractMesh, ends: &[usize], sharding: &NamedSharding) -> Option<NamedSharding> {
    let mut pieces: BTreeMap<&str, Vec<AxisName>> = BTreeMap::new();
    let own = self::ends(sharding.mesh());
    for ((name, _), own) in sharding.mesh().axes().iter().zip(own.windows(2)) {
        let inside = mesh.axis_names().zip(ends.windows(2)).filter(|(_, e)| e[0] <= own[0] && e[1] >= own[1]);
        pieces.insert(name.as_ref(), inside.map(|(name, _)| name.clone()).collect());
    }
    let dim = |dim: &DimSharding| DimSharding {
        axes: dim.axes.iter().flat_map(|axis| pieces[axis.as_ref()].clone()).collect(),
    };
    NamedSharding::new(mesh, PartitionSpec::new(sharding.spec().dims().iter().map(dim))).ok()
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn check(meshes: [&str; 2], specs: [&str; 2], expect: Expect) {
        let sharding = |i: usize| {
            NamedSharding::new(&AbstractMesh::parse(meshes[i]).unwrap(), specs[i].parse().unwrap())
        };
        let before = [sharding(0).unwrap(), sharding(1).unwrap()];
        let text = match over_one_mesh(&before[0], &before[1]) {
            None => "none".to_owned(),
            Some((a, b)) => {
                for (before, after) in before.iter().zip([&a, &b]) {
                    // 13 and 7 divide by nothing.
                    assert_eq!(before.shards(&[13, 7]), after.shards(&[13, 7]));
                }
                format!("{}: {} and {}", a.mesh(), a.spec(), b.spec())
            }
        };
        expect.assert_eq(&text);
    }

    #[test]
    fn axes_are_cut_where_either_mesh_cuts() {
        check(
            ["fsdp=8", "data=2,fsdp=4"],
            ["(fsdp, -)", "(fsdp, data)"],
            expect!["x0=2, x1=4: ((x0,x1), -) and (x1, x0)"],
        );
        check(
            ["a=4,b=2", "a=2,b=4"],
            ["(b, a)", "(-, (b,a))"],
            expect!["x0=2, x1=2, x2=2: (x2, (x0,x1)) and (-, (x1,x2,x0))"],
        );
        check(
            ["a=2,b=3", "c=6"],
            ["((b,a), -)", "(-, c)"],
            expect!["x0=2, x1=3: ((x1,x0), -) and (-, (x0,x1))"],
        );
        check(["a=2,one=1", "x=2"], ["(one, a)", "(x, -)"], expect!["x0=2: (-, x0) and (x0, -)"]);
        check(["one=1", "x=1,y=1"], ["(one, -)", "(x, y)"], expect!["[]: (-, -) and (-, -)"]);
        check(["a=2,b=3", "a=3,b=2"], ["(a, b)", "(a, b)"], expect!["none"]);
    }
}
