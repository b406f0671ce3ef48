//! Arrays that become others: with another sharding, on other devices, in another memory, of another dtype.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use shardwright_hlo::{Module, Op, verify};
use shardwright_mesh::{Mesh, NamedSharding};
use shardwright_partition::ShardedModule;
use shardwright_pjrt::{Buffer, Memory, Tally};
use shardwright_tensor::{DType, HostArray, Shape, TensorError, TensorType};

use super::blocks::{Block, blocks, overlap, relative};
use super::place::Placing;
use super::refine::over_one_mesh;
use super::{ShardedArray, shard_type};
use crate::{Program, Runtime, RuntimeError};

/// The programs that convert arrays, each compiled once.
#[derive(Clone, Default)]
pub(crate) struct Conversions(Arc<Mutex<HashMap<Conversion, Arc<Program>>>>);

#[derive(Clone, PartialEq, Eq, Hash)]
struct Conversion {
    ty: TensorType,
    mesh: Mesh,
    from: NamedSharding,
    to: NamedSharding,
    dtype: DType,
}

impl ShardedArray {
    /// The same array under another sharding, on the same or on other devices, in their default memories.
    ///
    /// On the same devices in the same order, however many axes they are arranged in, a compiled program does it, which
    /// the runtime keeps for the next time, and nothing passes through the host. Elsewhere, blocks that are the same before and after go from device to device; others are put
    /// together on the host, which holds four blocks at most, besides what is in the memory of its CPU devices.
    ///
    /// # Errors
    /// When the sharding does not fit the array, or the mesh the sharding or the runtime; when the program that computes
    /// the array failed; and the plugin's.
    pub fn reshard(
        &self,
        runtime: &Runtime,
        mesh: &Mesh,
        sharding: &NamedSharding,
    ) -> Result<ShardedArray, RuntimeError> {
        let _span = tracing::debug_span!("reshard", ty = %self.ty(), from = %self.sharding(), to = %sharding)
            .entered();
        runtime.counters().add(Tally::Reshard, 1);
        let placing = Placing::new(runtime, mesh, sharding, self.ty())?;
        if mesh.device_ids().eq(self.mesh().device_ids())
            && self.can_be_converted(runtime)?
            && let Some((from, to)) = over_one_mesh(self.sharding(), sharding)
            && from != to
        {
            let buffers = self.convert(runtime, from, to, self.ty().dtype)?;
            let (ty, mesh, sharding) = (self.ty().clone(), mesh.clone(), sharding.clone());
            return Ok(ShardedArray::from_buffers(ty, mesh, sharding, buffers));
        }
        self.move_blocks(placing)
    }

    /// The array in another dtype, as XLA converts: floats are rounded to nearest even. The result has the same
    /// sharding and lies in the devices' default memories. Nothing passes through the host; the program is kept for
    /// the next time.
    ///
    /// # Errors
    /// When the program that computes the array failed; and the plugin's.
    pub fn cast(&self, runtime: &Runtime, dtype: DType) -> Result<ShardedArray, RuntimeError> {
        let (mesh, sharding) = (self.mesh(), self.sharding());
        let ty = TensorType { dtype, shape: self.ty().shape.clone() };
        if ty.shape.element_count() == 0 {
            return ShardedArray::from_fn(runtime, mesh, sharding, &ty, |ranges| zeros(dtype, ranges));
        }
        let moved;
        let here = if self.can_be_converted(runtime)? {
            self
        } else {
            moved = self.move_blocks(Placing::new(runtime, mesh, sharding, self.ty())?)?;
            &moved
        };
        let buffers = here.convert(runtime, sharding.clone(), sharding.clone(), dtype)?;
        Ok(ShardedArray::from_buffers(ty, mesh.clone(), sharding.clone(), buffers))
    }

    /// The array in the memories of this kind that its devices reach, such as `pinned_host`. Nothing passes through the
    /// host but what is to lie there.
    ///
    /// # Errors
    /// When a device reaches no memory of the kind; the message lists those that it does.
    pub fn to_memory(&self, kind: &str) -> Result<ShardedArray, RuntimeError> {
        let copy = |buffer: &Buffer| buffer.copy_to(buffer.device().memory(kind)?);
        let buffers = self.buffers.iter().map(copy).collect::<Result<_, _>>()?;
        Ok(ShardedArray::from_buffers(
            self.ty().clone(),
            self.mesh().clone(),
            self.sharding().clone(),
            buffers,
        ))
    }

    /// The kind of memory that the array lies in, such as `device`; none where the plugin knows no memories.
    ///
    /// # Errors
    /// When the plugin does not tell.
    pub fn memory_kind(&self) -> Result<Option<&str>, RuntimeError> {
        Ok(self.buffers[0].memory()?.map(Memory::kind))
    }

    /// Whether a program of this runtime can read the array where it lies, and split it: compilers do not split what
    /// is empty.
    fn can_be_converted(&self, runtime: &Runtime) -> Result<bool, RuntimeError> {
        let buffer = &self.buffers[0];
        Ok(buffer.client().is_same(runtime.client())
            && buffer.memory()? == buffer.device().default_memory()
            && self.ty().shape.element_count() > 0)
    }

    /// Runs the program that converts the array on its devices. Both shardings are over one mesh, which may have other
    /// axes than the array's; `from` cuts as the array's sharding does.
    fn convert(
        &self,
        runtime: &Runtime,
        from: NamedSharding,
        to: NamedSharding,
        dtype: DType,
    ) -> Result<Vec<Buffer>, RuntimeError> {
        let device_ids = self.mesh().device_ids().collect();
        let mesh =
            Mesh::new(from.mesh().clone(), device_ids).expect("another arrangement of the same devices");
        let conversion = Conversion { ty: self.ty().clone(), mesh, from, to, dtype };
        runtime.conversions().get(runtime, conversion)?.convert(&self.buffers)
    }

    /// Copies block by block: from device to device what is the same block there, the rest through the host.
    fn move_blocks(&self, mut placing: Placing<'_>) -> Result<ShardedArray, RuntimeError> {
        let sources = blocks(self.sharding(), self.ty().dims())?;
        let is_stored_alike = placing.is_of(self.buffers[0].client())
            && *placing.padded() == shard_type(self.sharding(), self.ty())?;
        let mut gather = Gather { array: self, sources: &sources, shard: None };
        for Block { ranges, partitions } in placing.blocks()? {
            let same = sources.iter().find(|source| is_stored_alike && source.ranges == ranges);
            let Some(source) = same else {
                placing.put(gather.block(&ranges)?, &ranges, &partitions)?;
                continue;
            };
            for partition in partitions {
                let is_here = |&&p: &&usize| self.buffers[p].device().id() == placing.device(partition).id();
                let nearest = source.partitions.iter().find(is_here).unwrap_or(&source.partitions[0]);
                placing.put_copy(&self.buffers[*nearest], partition)?;
            }
        }
        Ok(placing.finish())
    }
}

impl Conversions {
    /// The program, compiled if it is new.
    fn get(&self, runtime: &Runtime, wanted: Conversion) -> Result<Arc<Program>, RuntimeError> {
        // Held while compiling, so that two threads that want one program do not both compile it.
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(program) = known.get(&wanted) {
            return Ok(Arc::clone(program));
        }
        let program = Arc::new(runtime.compile(&wanted.module(), &wanted.mesh)?);
        known.insert(wanted, Arc::clone(&program));
        Ok(program)
    }
}

impl Conversion {
    /// The program that takes an array and gives it back, with another sharding, or dtype, or both.
    fn module(&self) -> ShardedModule {
        let mut module = Module::new("convert");
        let x = module.add_argument("x", self.ty.clone());
        let y = if self.dtype == self.ty.dtype {
            x
        } else {
            module.push(Op::Convert(self.dtype), &[x]).expect("every dtype converts to every other")[0]
        };
        module.add_output("y", y);
        let module = verify(module).expect("the module is well-formed");
        let (from, to) = (vec![self.from.clone()], vec![self.to.clone()]);
        ShardedModule::new(module, self.mesh.shape(), from, to).expect("both shardings fit array and mesh")
    }
}

/// Puts blocks of an array together on the host.
struct Gather<'a> {
    array: &'a ShardedArray,
    sources: &'a [Block],
    /// What one device stores, read from the source with this index, which the next block often needs too. The memory
    /// is used again for each source: fresh memory takes longer to get than to fill.
    shard: Option<(usize, HostArray)>,
}

impl Gather<'_> {
    fn block(&mut self, ranges: &[Range<usize>]) -> Result<HostArray, RuntimeError> {
        let mut block = zeros(self.array.ty().dtype, ranges)?;
        for (index, source) in self.sources.iter().enumerate() {
            let Some(both) = overlap(ranges, &source.ranges) else { continue };
            let shard = self.shard(index, &self.array.buffers[source.partitions[0]])?;
            let piece = shard.slice(&relative(&both, &source.ranges))?;
            block.write_slice(&relative(&both, ranges), &piece)?;
        }
        Ok(block)
    }

    fn shard(&mut self, index: usize, buffer: &Buffer) -> Result<&HostArray, RuntimeError> {
        let shard = match self.shard.take() {
            Some((known, shard)) if known == index => shard,
            Some((_, mut shard)) => {
                buffer.copy_into(&mut shard)?;
                shard
            }
            None => buffer.to_host()?,
        };
        Ok(&self.shard.insert((index, shard)).1)
    }
}

/// An empty sheet for the block at these ranges.
fn zeros(dtype: DType, ranges: &[Range<usize>]) -> Result<HostArray, RuntimeError> {
    let dims: Vec<usize> = ranges.iter().map(Range::len).collect();
    let shape = Shape::new(dims).map_err(TensorError::from)?;
    Ok(HostArray::zeros(TensorType { dtype, shape }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RuntimeOptions;

    #[test]
    fn a_conversion_is_compiled_once() {
        let runtime = Runtime::open(&RuntimeOptions::cpu_devices(4)).unwrap();
        let mesh = runtime.mesh("x=4").unwrap();
        let on = |spec: &str| mesh.sharding(spec.parse().unwrap()).unwrap();
        let array = HostArray::from_slice(&[8, 4], &[1_f32; 32]).unwrap();
        let rows = ShardedArray::from_host(&runtime, &mesh, &on("(x, -)"), &array).unwrap();
        let known = || runtime.conversions().0.lock().unwrap().len();
        for _ in 0..3 {
            let columns = rows.reshard(&runtime, &mesh, &on("(-, x)")).unwrap();
            assert_eq!(known(), 1);
            assert_eq!(columns.to_host().unwrap(), array);
        }
        let grid = runtime.mesh("a=2,b=2").unwrap();
        let columns = grid.sharding("(-, (a,b))".parse().unwrap()).unwrap();
        let columns = rows.reshard(&runtime, &grid, &columns).unwrap();
        assert_eq!((known(), columns.mesh()), (2, &grid));
        assert_eq!(columns.to_host().unwrap(), array);
        let rows_of_grid = grid.sharding("((a,b), -)".parse().unwrap()).unwrap();
        rows.reshard(&runtime, &grid, &rows_of_grid).unwrap();
        rows.reshard(&runtime.clone(), &mesh, rows.sharding()).unwrap();
        assert_eq!(known(), 2, "nothing to compile for a copy");
        rows.cast(&runtime.clone(), DType::S8).unwrap();
        assert_eq!(known(), 3, "clones of a runtime share its programs");
    }
}
