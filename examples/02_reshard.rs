//! One array, passed between shardings, meshes, memories and dtypes on eight virtual devices, with the host never
//! holding more than a few blocks of it.
//!
//! `cargo run --release --example 02_reshard`

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use anyhow::Context;
use shardwright::mesh::{AbstractMesh, DrawStyle, Mesh, draw_sharding};
use shardwright::runtime::{Runtime, RuntimeError, RuntimeOptions, ShardedArray};
use shardwright::tensor::{DType, HostArray, TensorType};

const ROWS: usize = 10;
const COLUMNS: usize = 8;

fn main() -> anyhow::Result<()> {
    let runtime = Runtime::open(&RuntimeOptions::cpu_devices(8)).context("no CPU plugin")?;
    let mesh = runtime.mesh("data=2,fsdp=4")?;
    let ty = TensorType::new(DType::F32, [ROWS, COLUMNS])?;

    // Each block is worked out from its index range, when its turn comes. Ten rows over four devices do not divide:
    // the last block is shorter.
    let rows = mesh.sharding("(fsdp, -)".parse()?)?;
    let by_rows = ShardedArray::from_fn(&runtime, &mesh, &rows, &ty, |ranges| {
        let (rows, columns) = (ranges[0].clone(), ranges[1].clone());
        let dims = [rows.len(), columns.len()];
        let values: Vec<f32> = rows.flat_map(|r| columns.clone().map(move |c| value(r, c))).collect();
        Ok::<_, RuntimeError>(HostArray::from_slice(&dims, &values).expect("the values fill the block"))
    })?;
    show("by rows", &by_rows)?;

    // On the same mesh XLA moves the data: a program that is compiled the first time and kept.
    let columns = mesh.sharding("(-, (data,fsdp))".parse()?)?;
    let by_columns = by_rows.reshard(&runtime, &mesh, &columns)?;
    show("by columns, over both axes", &by_columns)?;

    // Three of the devices, in an order of their own.
    let few = Mesh::new(AbstractMesh::parse("x=3")?, vec![6, 0, 5])?;
    let on_few = by_columns.reshard(&runtime, &few, &few.sharding("(x, -)".parse()?)?)?;
    show("by rows, on three devices", &on_few)?;

    let half = on_few.cast(&runtime, DType::Bf16)?;
    let offloaded = half.to_memory("pinned_host")?;
    println!("{offloaded:?} takes {:?} bytes on each device", offloaded.bytes_on_devices()?);
    println!("it lies in memory of kind {}", offloaded.memory_kind()?.unwrap_or("unknown"));

    // Read in order, one part ahead of what is looked at.
    for part in offloaded.shards() {
        let (ranges, block) = part?;
        let block = block.cast(DType::F32);
        let view = block.view::<f32>()?;
        for (row, r) in ranges[0].clone().enumerate() {
            for (column, c) in ranges[1].clone().enumerate() {
                anyhow::ensure!(view[[row, column]] == value(r, c), "row {r}, column {c} has changed");
            }
        }
        println!("rows {:?}, columns {:?}: as they were", ranges[0], ranges[1]);
    }
    Ok(())
}

/// Small enough to be told apart in bf16.
fn value(row: usize, column: usize) -> f32 {
    (row * COLUMNS + column) as f32
}

fn show(what: &str, array: &ShardedArray) -> anyhow::Result<()> {
    let (mesh, sharding) = (array.mesh(), array.sharding());
    println!("{what}: {}", draw_sharding(mesh, sharding, array.ty().dims(), DrawStyle::Plain)?);
    Ok(())
}
