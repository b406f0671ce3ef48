//! Shardwright: XLA's SPMD partitioner in Rust, for people who want their models sharded and their numbers unchanged.
//!
//! It takes a program, a named grid of devices and an FSDP configuration, writes down where every array lies, lets XLA
//! turn the result into one program for all devices, and compiles and runs it through a PJRT plugin. It is not a
//! partitioner and not a framework: XLA partitions, and programs come from [`graph`], from [`model`] or from elsewhere.
//!
//! A product of two matrices on eight virtual devices, the batch split over them and the weight too:
//!
//! ```
//! use shardwright::graph::Graph;
//! use shardwright::hlo::{ArgumentKind, verify};
//! use shardwright::partition::{PlanOptions, ShardedModule, ShardingPlan, WrapPolicy};
//! use shardwright::runtime::{Argument, Runtime, RuntimeOptions, ShardedArray};
//! use shardwright::tensor::{DType, HostArray, TensorType};
//!
//! let runtime = Runtime::open(&RuntimeOptions::cpu_devices(8))?;
//! let mesh = runtime.mesh("fsdp=8")?;
//!
//! let g = Graph::new("matmul");
//! let x = g.argument("x", TensorType::new(DType::F32, [16, 32])?, ArgumentKind::Batch);
//! let w = g.argument("w", TensorType::new(DType::F32, [64, 32])?, ArgumentKind::Parameter);
//! g.output("y", g.dot(x, g.weight(w)?, &[], &[(1, 1)])?);
//!
//! let module = verify(g.finish())?;
//! let plan = ShardingPlan::new(&module, mesh.shape(), &PlanOptions::default())?;
//! let sharded = ShardedModule::from_plan(module, &plan, &WrapPolicy::default())?;
//! let program = runtime.compile(&sharded, &mesh)?;
//!
//! let ones = |dims: &[usize]| HostArray::from_slice(dims, &vec![1f32; dims.iter().product()]);
//! let place = |i, host| ShardedArray::from_host(&runtime, &mesh, sharded.argument_sharding(i), &host);
//! let (x, w) = (place(0, ones(&[16, 32])?)?, place(1, ones(&[64, 32])?)?);
//! assert_eq!(w.shard(3)?.dims(), [8, 32]);
//! let y = program.execute([Argument::Donate(x), Argument::Donate(w)])?.outputs[0].to_host()?;
//! assert_eq!(y.view::<f32>()?[[15, 63]], 32.0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! This crate re-exports the workspace's crates under their short names; the `shardwright` command is built from the
//! same parts. All it adds is a [`global_mesh()`], for programs that are used to one, and with the feature `xla` the
//! way to and from the crate of that name.
//!
//! | module | what is in it |
//! | --- | --- |
//! | [`mesh`] | device grids, partition specs, which slice lies where |
//! | [`tensor`] | dtypes, shapes, host arrays |
//! | [`hlo`] | programs: StableHLO ops, verified, printed and read |
//! | [`graph`] | programs written in Rust, with gradients and rematerialisation |
//! | [`partition`] | FSDP: wrap policies, sharding plans, annotated programs |
//! | [`pjrt`] | plugins and what they compile and hold, one safe call at a time |
//! | [`runtime`] | plugins found and fetched, programs compiled, sharded arrays |
//! | [`model`] | decoders of seven families with Hugging Face's configurations and names |
//! | [`data`] | text to tokens to batches |
//! | [`checkpoint`] | weights in files |
//! | [`train`] | the training run; [`Accelerator`](train::Accelerator), for a loop of one's own |

#![forbid(unsafe_code)]

mod global_mesh;
#[cfg(feature = "xla")]
pub mod xla;

pub use global_mesh::{NoGlobalMesh, global_mesh, require_global_mesh, set_global_mesh};
pub use shardwright_checkpoint as checkpoint;
pub use shardwright_data as data;
pub use shardwright_graph as graph;
pub use shardwright_hlo as hlo;
pub use shardwright_mesh as mesh;
pub use shardwright_model as model;
pub use shardwright_partition as partition;
pub use shardwright_pjrt as pjrt;
pub use shardwright_runtime as runtime;
pub use shardwright_tensor as tensor;
pub use shardwright_train as train;
