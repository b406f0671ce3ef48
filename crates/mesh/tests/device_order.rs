//! The order of axes in a spec and the order of devices in a mesh both decide where a block lies.

use expect_test::{Expect, expect};
use shardwright_mesh::{AbstractMesh, Mesh, Shard};

/// Places the 8x8 matrix 0..63 on a 2x4 mesh of devices 7 down to 0, which each get a buffer of their own, prints
/// the corners of each device's block in device order, and gathers the matrix back from the buffers.
fn check(spec: &str, expect: Expect) {
    let matrix: Vec<usize> = (0..64).collect();
    let mesh = Mesh::new(AbstractMesh::parse("a=2, b=4").unwrap(), (0..8).rev().collect()).unwrap();
    let sharding = mesh.sharding(spec.parse().unwrap()).unwrap();
    let mut blocks = mesh.device_shards(&sharding, &[8, 8]).unwrap();
    blocks.sort_by_key(|(device_id, _)| *device_id);
    let indices = |shard: &Shard| -> Vec<usize> {
        let [rows, columns] = [shard.ranges[0].clone(), shard.ranges[1].clone()];
        rows.flat_map(|row| columns.clone().map(move |column| row * 8 + column)).collect()
    };
    let mut buffers = vec![Vec::new(); 8];
    for (device_id, shard) in &blocks {
        buffers[*device_id] = indices(shard).into_iter().map(|idx| matrix[idx]).collect();
        let stored: usize = sharding.shard_shape(&[8, 8]).unwrap().iter().product();
        assert_eq!(buffers[*device_id].len(), stored);
    }

    let mut gathered = vec![usize::MAX; 64];
    let mut text = String::new();
    for (device_id, shard) in blocks {
        let [rows, columns] = &shard.ranges[..] else { panic!("a matrix has two dims") };
        text += &format!("device {device_id}: rows {rows:?} columns {columns:?}\n");
        for (idx, value) in indices(&shard).into_iter().zip(&buffers[device_id]) {
            gathered[idx] = *value;
        }
    }
    assert_eq!(gathered, matrix);
    expect.assert_eq(&text);
}

#[test]
fn one_axis_per_dim() {
    check(
        "(a, b)",
        expect![[r#"
            device 0: rows 4..8 columns 6..8
            device 1: rows 4..8 columns 4..6
            device 2: rows 4..8 columns 2..4
            device 3: rows 4..8 columns 0..2
            device 4: rows 0..4 columns 6..8
            device 5: rows 0..4 columns 4..6
            device 6: rows 0..4 columns 2..4
            device 7: rows 0..4 columns 0..2
        "#]],
    );
    check(
        "(b, a)",
        expect![[r#"
            device 0: rows 6..8 columns 4..8
            device 1: rows 4..6 columns 4..8
            device 2: rows 2..4 columns 4..8
            device 3: rows 0..2 columns 4..8
            device 4: rows 6..8 columns 0..4
            device 5: rows 4..6 columns 0..4
            device 6: rows 2..4 columns 0..4
            device 7: rows 0..2 columns 0..4
        "#]],
    );
}

#[test]
fn one_axis_left_for_copies() {
    check(
        "(b, -)",
        expect![[r#"
            device 0: rows 6..8 columns 0..8
            device 1: rows 4..6 columns 0..8
            device 2: rows 2..4 columns 0..8
            device 3: rows 0..2 columns 0..8
            device 4: rows 6..8 columns 0..8
            device 5: rows 4..6 columns 0..8
            device 6: rows 2..4 columns 0..8
            device 7: rows 0..2 columns 0..8
        "#]],
    );
    check(
        "(-, a)",
        expect![[r#"
            device 0: rows 0..8 columns 4..8
            device 1: rows 0..8 columns 4..8
            device 2: rows 0..8 columns 4..8
            device 3: rows 0..8 columns 4..8
            device 4: rows 0..8 columns 0..4
            device 5: rows 0..8 columns 0..4
            device 6: rows 0..8 columns 0..4
            device 7: rows 0..8 columns 0..4
        "#]],
    );
}

#[test]
fn two_axes_on_one_dim() {
    check(
        "((a,b), -)",
        expect![[r#"
            device 0: rows 7..8 columns 0..8
            device 1: rows 6..7 columns 0..8
            device 2: rows 5..6 columns 0..8
            device 3: rows 4..5 columns 0..8
            device 4: rows 3..4 columns 0..8
            device 5: rows 2..3 columns 0..8
            device 6: rows 1..2 columns 0..8
            device 7: rows 0..1 columns 0..8
        "#]],
    );
    check(
        "((b,a), -)",
        expect![[r#"
            device 0: rows 7..8 columns 0..8
            device 1: rows 5..6 columns 0..8
            device 2: rows 3..4 columns 0..8
            device 3: rows 1..2 columns 0..8
            device 4: rows 6..7 columns 0..8
            device 5: rows 4..5 columns 0..8
            device 6: rows 2..3 columns 0..8
            device 7: rows 0..1 columns 0..8
        "#]],
    );
}
