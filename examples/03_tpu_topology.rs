//! A matrix product on a TPU slice without a TPU: where the devices are, how a mesh is laid on them, what the program
//! needs of their memory, and which collectives the compiler puts in. Nothing is executed.
//!
//! `cargo run --release --example 03_tpu_topology`

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::env;
use std::process::{Command, exit};

use shardwright::graph::Graph;
use shardwright::hlo::{ArgumentKind, verify};
use shardwright::mesh::{DrawStyle, HostView, draw_mesh};
use shardwright::partition::{CollectiveSummary, PlanOptions, ShardedModule, ShardingPlan, WrapPolicy};
use shardwright::runtime::topology::{Topology, TopologyOptions, VARIABLES};
use shardwright::tensor::{DType, TensorType};

const BATCH: usize = 1024;
const IN: usize = 4096;
const OUT: usize = 16384;

fn main() -> anyhow::Result<()> {
    // The TPU plugin reads its environment when it is loaded, and a process with threads must not change its own.
    // So this one starts itself anew.
    if VARIABLES.iter().any(|(name, _)| env::var_os(name).is_none()) {
        let status = Command::new(env::current_exe()?).envs(VARIABLES).status()?;
        exit(status.code().unwrap_or(1));
    }
    let topology = Topology::open("v5e:4x4", &TopologyOptions::default())?;
    println!("{} is {}", topology.name(), topology.physical());

    // The last axis communicates most and gets the better part of the torus. That makes its neighbours neighbours on
    // the torus; for reduce-scatters over several dims of it a program has to be over the sub-axes too.
    let placement = topology.place("data=2,fsdp=-1")?;
    let mesh = placement.mesh();
    println!("the mesh is {placement}:\n{}", draw_mesh(mesh, DrawStyle::Plain));
    let host = HostView::new(mesh, topology.physical(), 1)?;
    println!("host 1 runs partitions {:?}\n", host.partitions().collect::<Vec<_>>());

    let g = Graph::new("matmul");
    let x = g.argument("x", TensorType::new(DType::Bf16, [BATCH, IN])?, ArgumentKind::Batch);
    let w = g.argument("w", TensorType::new(DType::Bf16, [OUT, IN])?, ArgumentKind::Parameter);
    g.output("y", g.dot(x, g.weight(w)?, &[], &[(1, 1)])?);
    let module = verify(g.finish())?;
    let plan = ShardingPlan::new(&module, mesh.shape(), &PlanOptions::default())?;
    println!("the plan:\n{plan}\n");
    let weight = &plan.arguments()[1].sharding;
    println!("w over torus axes: {}\n", placement.physical_sharding(weight)?.spec());

    let sharded = ShardedModule::from_plan(module, &plan, &WrapPolicy::default())?;
    let program = topology.compile(&sharded, mesh)?;
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    println!("needed on each device: {:.1} MiB", mib(program.bytes_per_device()?));
    println!("there on each device: {:.1} MiB", mib(topology.memory_per_device().unwrap_or(0)));
    println!("the compiler put in: {}", CollectiveSummary::new(&program.compiled()?));
    Ok(())
}
