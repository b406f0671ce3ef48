use std::sync::Arc;

use shardwright_hlo::Signature;
use shardwright_hlo::compiled::{CompiledError, CompiledProgram};
use shardwright_mesh::{AbstractMesh, Mesh, NamedSharding};
use shardwright_partition::explain::CompiledMemory;
use shardwright_partition::{ShardedHlo, ShardedModule};
use shardwright_pjrt::{Arg, Buffer, CompiledMemoryStats, Event, LoadedExecutable};
use shardwright_tensor::{HostArray, TensorType};

use crate::array::{ShardedType, shard_type};
use crate::compile::Compilation;
use crate::error::{Misfit, Problem};
use crate::{ForeignExecutable, RuntimeError, ShardedArray};

/// A compiled program on the devices of a mesh.
pub struct Executable {
    name: Arc<str>,
    loaded: LoadedExecutable,
    compilation: Compilation,
    mesh: Mesh,
    /// The partitions that this process drives.
    addressable: Arc<[usize]>,
    /// Their devices.
    device_ids: Arc<[usize]>,
    arguments: Vec<ExecutableValue>,
    outputs: Vec<ExecutableValue>,
    // An output has the very type of its donor, so that what comes out of a step goes into the next without a closer
    // look.
    argument_types: Vec<Arc<ShardedType>>,
    output_types: Vec<Arc<ShardedType>>,
    /// For each output, what the devices are to store, if the compiler stores an empty array otherwise.
    restored: Vec<Option<TensorType>>,
}

/// An argument or an output of a program.
#[derive(Clone, Debug, PartialEq)]
pub struct ExecutableValue {
    /// Its name in the program.
    pub name: String,
    /// The type of the whole array.
    pub ty: TensorType,
    /// How it is cut.
    pub sharding: NamedSharding,
}

/// One argument of [`Executable::execute`].
///
/// Donation is a move, so an array that was given up cannot be used again, nor be another argument of the same call:
///
/// ```compile_fail,E0505
/// # use shardwright_runtime::{Argument, Execution, Executable, RuntimeError, ShardedArray};
/// fn both(executable: &Executable, x: ShardedArray) -> Result<Execution, RuntimeError> {
///     let other = Argument::Borrow(&x);
///     executable.execute([Argument::Donate(x), other])
/// }
/// ```
pub enum Argument<'a> {
    /// Can be used again.
    Borrow(&'a ShardedArray),
    /// Is given up: the program may write its results there.
    Donate(ShardedArray),
}

/// What a started program gives.
///
/// Dropping it neither waits for the program nor stops it.
pub struct Execution {
    /// The outputs, in the program's order. They can be passed on before the program has ended.
    pub outputs: Vec<ShardedArray>,
    /// For each device, the end of the program there.
    done: Vec<Event>,
    program: Arc<str>,
    device_ids: Arc<[usize]>,
}

/// What a program takes and gives, and where: what there has to be known of it beside its code.
pub(crate) struct Interface {
    pub(crate) name: Arc<str>,
    pub(crate) arguments: Vec<ExecutableValue>,
    pub(crate) outputs: Vec<ExecutableValue>,
    /// For each output, the index of the argument whose memory it takes over.
    pub(crate) donors: Vec<Option<usize>>,
}

impl Executable {
    /// # Errors
    /// When the compiler stores an argument or an output in another way than its sharding says.
    pub(crate) fn new(
        loaded: LoadedExecutable,
        compilation: Compilation,
        interface: Interface,
        mesh: &Mesh,
        addressable: Arc<[usize]>,
    ) -> Result<Executable, RuntimeError> {
        let Interface { name, arguments, outputs, donors } = interface;
        let argument_types: Vec<_> =
            arguments.iter().map(|a| Arc::new(a.sharded_type(mesh, &addressable))).collect();
        let output_type = |(output, donor): (&ExecutableValue, Option<usize>)| {
            let ty = output.sharded_type(mesh, &addressable);
            let donor = donor.map(|index| &argument_types[index]).filter(|donor| ***donor == ty);
            donor.map_or_else(|| Arc::new(ty.clone()), Arc::clone)
        };
        let mut executable = Executable {
            name,
            loaded,
            compilation,
            mesh: mesh.clone(),
            device_ids: addressable.iter().map(|&partition| mesh.device_id(partition)).collect(),
            addressable: Arc::clone(&addressable),
            output_types: outputs.iter().zip(donors).map(output_type).collect(),
            argument_types,
            arguments,
            outputs,
            restored: Vec::new(),
        };
        for (argument, found) in executable.arguments.iter().zip(executable.loaded.parameter_types()) {
            let expected = shard_type(&argument.sharding, &argument.ty)?;
            if expected != **found {
                return Err(executable.stored_otherwise("argument", argument, &expected, found));
            }
        }
        let outputs = executable.outputs.iter().zip(executable.loaded.output_types());
        executable.restored =
            outputs.map(|(output, found)| executable.restored(output, found)).collect::<Result<_, _>>()?;
        Ok(executable)
    }

    /// What devices are to store of an output that is empty, if the program stores it whole: XLA does not split what
    /// is computed and empty.
    fn restored(
        &self,
        output: &ExecutableValue,
        found: &TensorType,
    ) -> Result<Option<TensorType>, RuntimeError> {
        let expected = shard_type(&output.sharding, &output.ty)?;
        if expected == *found {
            return Ok(None);
        }
        if output.ty == *found && found.shape.element_count() == 0 {
            return Ok(Some(expected));
        }
        Err(self.stored_otherwise("output", output, &expected, found))
    }

    fn stored_otherwise(
        &self,
        what: &'static str,
        value: &ExecutableValue,
        expected: &TensorType,
        found: &TensorType,
    ) -> RuntimeError {
        Problem::StoredType {
            program: self.name.to_string(),
            what,
            name: value.name.clone(),
            expected: expected.to_string(),
            found: found.to_string(),
        }
        .into()
    }

    /// `expected` is what the program was sharded over.
    pub(crate) fn check_mesh(
        program: &str,
        expected: &AbstractMesh,
        mesh: &Mesh,
    ) -> Result<(), RuntimeError> {
        if expected == mesh.shape() {
            return Ok(());
        }
        Err(Problem::ProgramMesh {
            program: program.to_owned(),
            expected: expected.to_string(),
            found: mesh.shape().to_string(),
        }
        .into())
    }

    /// The name of the program.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How it was made: from the cache or anew, where, and in what time.
    pub fn compilation(&self) -> &Compilation {
        &self.compilation
    }

    /// The devices that it runs on.
    pub fn mesh(&self) -> &Mesh {
        &self.mesh
    }

    /// The partitions that run on devices of this process, in order: all of them where it works alone. Where it does
    /// not, all processes of the mesh have to start the program.
    pub fn addressable_partitions(&self) -> &[usize] {
        &self.addressable
    }

    /// What it takes.
    pub fn arguments(&self) -> &[ExecutableValue] {
        &self.arguments
    }

    /// What it gives.
    pub fn outputs(&self) -> &[ExecutableValue] {
        &self.outputs
    }

    /// Starts the program and does not wait for it.
    ///
    /// Its outputs can be passed on at once, so that several steps are under way while the next is prepared.
    /// Starting a step costs the host no allocation per argument: outputs move into the places of donated arrays.
    ///
    /// # Errors
    /// When [`Executable::check`] or the plugin refuses the arguments. Donated ones are gone even then.
    ///
    /// A program that fails later gives outputs whose use is an error, and so is [`Execution::wait`]; programs that
    /// are given such outputs fail in turn.
    pub fn execute<'a>(
        &self,
        arguments: impl IntoIterator<Item = Argument<'a>>,
    ) -> Result<Execution, RuntimeError> {
        let mut arguments: Vec<Argument<'_>> = arguments.into_iter().collect();
        let _span = tracing::debug_span!("execute", program = &*self.name).entered();
        self.check(&arguments)?;
        let execution = self.loaded.execute(arguments.iter_mut().map(|argument| match argument {
            Argument::Borrow(array) => Arg::Borrow(array.buffers()),
            Argument::Donate(array) => Arg::Donate(array.take_buffers()),
        }))?;
        self.follow(&execution.done);
        let mut outputs = execution.outputs;
        for (buffers, ty) in outputs.iter_mut().zip(&self.restored) {
            ty.as_ref().map_or(Ok(()), |ty| restore(buffers, ty))?;
        }
        let mut donated = arguments.into_iter().filter_map(|argument| match argument {
            Argument::Borrow(_) => None,
            Argument::Donate(array) => Some(array),
        });
        let output = |(buffers, ty)| match donated.next() {
            Some(array) => array.refilled(ty, buffers),
            None => ShardedArray::from_parts(Arc::clone(ty), buffers),
        };
        Ok(Execution {
            outputs: outputs.into_iter().zip(&self.output_types).map(output).collect(),
            done: execution.done,
            program: Arc::clone(&self.name),
            device_ids: Arc::clone(&self.device_ids),
        })
    }

    /// Has a span end with the program on each device, if anybody watches.
    fn follow(&self, done: &[Event]) {
        for (&partition, event) in self.addressable_partitions().iter().zip(done) {
            let span = tracing::debug_span!("on device", in_flight = true, program = &*self.name, partition);
            // Where the plugin takes no callback, nothing is seen of the end; waiting for it says why.
            if span.is_disabled() || event.on_ready(move |_| drop(span)).is_err() {
                return;
            }
        }
    }

    /// Whether the program takes these arguments. [`Executable::execute`] finds out by itself; who asks first still has
    /// what was to be donated if the answer is no.
    ///
    /// # Errors
    /// When arguments are not of the program's types, shardings or mesh, all of which the error names.
    pub fn check(&self, arguments: &[Argument<'_>]) -> Result<(), RuntimeError> {
        let (expected, found) = (self.arguments.len(), arguments.len());
        if expected != found {
            return Err(Problem::ArgumentCount { program: self.name.to_string(), expected, found }.into());
        }
        let misfit = |((argument, value), ty): ((&Argument<'_>, &ExecutableValue), &Arc<ShardedType>)| {
            let found = argument.array().sharded_type();
            let fits = Arc::ptr_eq(found, ty) || found == ty;
            (!fits).then(|| Misfit {
                argument: value.name.clone(),
                expected: ty.describe(found),
                found: found.describe(ty),
            })
        };
        let values = self.arguments.iter();
        let misfits: Vec<Misfit> =
            arguments.iter().zip(values).zip(&self.argument_types).filter_map(misfit).collect();
        if misfits.is_empty() {
            return Ok(());
        }
        Err(Problem::Arguments { program: self.name.to_string(), misfits }.into())
    }

    /// Runs a program of one argument and one output on buffers that are its argument, whatever the axes of their mesh
    /// are called.
    pub(crate) fn convert(&self, buffers: &[Buffer]) -> Result<Vec<Buffer>, RuntimeError> {
        let execution = self.loaded.execute(vec![Arg::Borrow(buffers)])?;
        Ok(execution.outputs.into_iter().next().expect("the program has an output"))
    }

    /// The optimized program, read back from the compiler.
    ///
    /// # Errors
    /// When the plugin does not give it, or in a form that cannot be read; the latter is the inner error.
    pub fn compiled(&self) -> Result<Result<CompiledProgram, CompiledError>, RuntimeError> {
        let program = self.loaded.executable().optimized_program()?;
        Ok(CompiledProgram::parse(&program.format, &program.code))
    }

    /// What the program needs of the memory of each device.
    ///
    /// # Errors
    /// When the plugin does not tell.
    pub fn memory_stats(&self) -> Result<CompiledMemoryStats, RuntimeError> {
        Ok(self.loaded.executable().memory_stats()?)
    }

    /// What the program needs of the memory of each device, as explanations take it.
    ///
    /// # Errors
    /// When the plugin does not tell.
    pub fn compiled_memory(&self) -> Result<CompiledMemory, RuntimeError> {
        Ok(compiled_memory(self.loaded.client().platform_name(), self.memory_stats()?))
    }

    /// Bytes that the program needs on each device while it runs: arguments, results and what is in between.
    ///
    /// # Errors
    /// When the plugin does not tell, or tells numbers that make no sense together.
    pub fn bytes_per_device(&self) -> Result<u64, RuntimeError> {
        bytes_needed(&self.name, self.loaded.client().platform_name(), self.memory_stats()?)
    }
}

/// What a compiler for a platform says of a program's memory. Only TPUs count temporaries into the peak.
fn compiled_memory(platform: &str, stats: CompiledMemoryStats) -> CompiledMemory {
    let bytes = |number: i64| u64::try_from(number).unwrap_or(0);
    CompiledMemory {
        arguments: bytes(stats.argument),
        outputs: bytes(stats.output),
        aliased: bytes(stats.alias),
        temporaries: bytes(stats.temp),
        peak: (platform == "tpu").then(|| bytes(stats.peak_memory)),
    }
}

/// The bytes that a program needs on each device of a platform.
///
/// # Errors
/// When the plugin's numbers make less than none.
pub(crate) fn bytes_needed(
    program: &str,
    platform: &str,
    stats: CompiledMemoryStats,
) -> Result<u64, RuntimeError> {
    let bytes = match platform {
        // There the temporaries are counted with holes, and the peak is the number that must fit.
        "tpu" => i128::from(stats.peak_memory),
        _ => {
            let CompiledMemoryStats { argument, output, alias, temp, .. } = stats;
            i128::from(argument) + i128::from(output) - i128::from(alias) + i128::from(temp)
        }
    };
    let problem = |_| Problem::MemoryStats { program: program.to_owned(), bytes, stats: stats.into() };
    Ok(u64::try_from(bytes).map_err(problem)?)
}

/// Puts empty buffers of this type in the place of others.
fn restore(buffers: &mut [Buffer], ty: &TensorType) -> Result<(), RuntimeError> {
    for buffer in buffers {
        *buffer = buffer.client().buffer_from_owned(HostArray::zeros(ty.clone()), buffer.device())?;
    }
    Ok(())
}

impl Interface {
    /// That of a module.
    pub(crate) fn of_module(module: &ShardedModule) -> Interface {
        let program = module.module();
        let arguments = (0..program.arguments.len()).map(|index| module.argument_sharding(index));
        let outputs = (0..program.outputs.len()).map(|index| module.output_sharding(index));
        Interface::new(program.signature(), arguments, outputs)
    }

    /// That of a program from elsewhere.
    pub(crate) fn of_hlo(program: &ShardedHlo) -> Interface {
        let signature = program.signature().clone();
        Interface::new(signature, program.argument_shardings().iter(), program.output_shardings().iter())
    }

    /// That of a program of which only the types are known, whole on every device of a mesh.
    pub(crate) fn by_number(program: &ForeignExecutable, mesh: &AbstractMesh) -> Interface {
        let value = |(number, ty): (usize, &Arc<TensorType>)| ExecutableValue {
            name: number.to_string(),
            ty: (**ty).clone(),
            sharding: NamedSharding::replicated(mesh, ty.rank()),
        };
        let outputs = program.output_types();
        Interface {
            name: program.name().into(),
            arguments: program.argument_types().iter().enumerate().map(value).collect(),
            outputs: outputs.iter().enumerate().map(value).collect(),
            donors: vec![None; outputs.len()],
        }
    }

    fn new<'s>(
        signature: Signature,
        arguments: impl Iterator<Item = &'s NamedSharding>,
        outputs: impl Iterator<Item = &'s NamedSharding>,
    ) -> Interface {
        let value =
            |name, ty, sharding: &NamedSharding| ExecutableValue { name, ty, sharding: sharding.clone() };
        let donors = signature.outputs.iter().map(|output| output.donor).collect();
        let arguments = signature.arguments.into_iter().zip(arguments);
        let outputs = signature.outputs.into_iter().zip(outputs);
        Interface {
            name: signature.name.into(),
            arguments: arguments.map(|(a, sharding)| value(a.name, a.ty, sharding)).collect(),
            outputs: outputs.map(|(o, sharding)| value(o.name, o.ty, sharding)).collect(),
            donors,
        }
    }
}

impl ExecutableValue {
    fn sharded_type(&self, mesh: &Mesh, addressable: &Arc<[usize]>) -> ShardedType {
        ShardedType {
            ty: self.ty.clone(),
            mesh: mesh.clone(),
            sharding: self.sharding.clone(),
            addressable: Arc::clone(addressable),
        }
    }
}

impl Argument<'_> {
    fn array(&self) -> &ShardedArray {
        match self {
            Argument::Borrow(array) => array,
            Argument::Donate(array) => array,
        }
    }
}

impl Execution {
    /// Waits until the program has ended on all devices, whether or not it fails on one.
    ///
    /// # Errors
    /// Why it failed on the first device, in the mesh's order, of those on which it did.
    pub fn wait(&self) -> Result<(), RuntimeError> {
        let wait = |(event, &device): (&Event, &usize)| {
            let failed = |reason| Problem::Failed { program: self.program.to_string(), device, reason };
            event.wait().map_err(|reason| failed(reason).into())
        };
        self.done.iter().zip(&*self.device_ids).map(wait).fold(Ok(()), Result::and)
    }
}

#[cfg(test)]
mod tests {
    use shardwright_hlo::{Module, verify};
    use shardwright_mesh::AbstractMesh;
    use shardwright_pjrt::{ClientOptions, CompileOptions};
    use shardwright_tensor::DType;

    use super::*;
    use crate::compile::ForeignProgram;
    use crate::{Runtime, RuntimeErrorKind, RuntimeOptions};

    /// The runtime of a process that drives the first two of four devices.
    fn runtime() -> Runtime {
        let client = ClientOptions::default().with("devices", 4).with("addressable", 2);
        let options = RuntimeOptions { client, ..RuntimeOptions::default() };
        Runtime::new(&shardwright_pjrt_fake::path(), &options).unwrap()
    }

    fn mesh(ids: [usize; 4]) -> Mesh {
        Mesh::new(AbstractMesh::parse("x=4").unwrap(), ids.to_vec()).unwrap()
    }

    /// The identity, by rows; the fake plugin cannot read what is printed of it, and is given it in its own words.
    fn identity(runtime: &Runtime, mesh: &Mesh) -> Executable {
        let mut m = Module::new("identity");
        let x = m.add_argument("x", TensorType::new(DType::S32, [8, 3]).unwrap());
        m.add_output("y", x);
        let rows = vec![mesh.sharding("(x, -)".parse().unwrap()).unwrap()];
        let module = ShardedModule::new(verify(m).unwrap(), mesh.shape(), rows.clone(), rows).unwrap();

        let code = ForeignProgram::recognise(b"module @identity {}\n// fake: identity s32[2,3]").unwrap();
        let device_assignment = mesh.device_ids().map(|id| id as i64).collect();
        let options = CompileOptions { num_partitions: 4, device_assignment, ..CompileOptions::default() };
        let compiled = runtime.compile_foreign(&code, &options).unwrap();
        let compilation = compiled.compilation().clone();
        let addressable = runtime.addressable_partitions(mesh).unwrap();
        Executable::new(compiled.into_loaded(), compilation, Interface::of_module(&module), mesh, addressable)
            .unwrap()
    }

    #[test]
    fn a_program_runs_on_the_partitions_of_its_process() {
        let values: Vec<i32> = (0..24).collect();
        let array = HostArray::from_slice(&[8, 3], &values).unwrap();
        // The devices of a process may be anywhere in the mesh.
        for (ids, own) in [([0, 1, 2, 3], [0, 1]), ([2, 3, 0, 1], [2, 3]), ([1, 2, 3, 0], [0, 3])] {
            let (runtime, mesh) = (runtime(), mesh(ids));
            let program = identity(&runtime, &mesh);
            assert_eq!(program.addressable_partitions(), own);
            let rows = &program.arguments()[0].sharding;
            let mut x = ShardedArray::from_host(&runtime, &mesh, rows, &array).unwrap();
            for _ in 0..2 {
                let mut execution = program.execute([Argument::Donate(x)]).unwrap();
                execution.wait().unwrap();
                x = execution.outputs.remove(0);
            }
            assert_eq!(x.addressable_partitions(), own);
            for partition in own {
                let ranges = rows.shard_ranges(partition, array.dims());
                assert_eq!(x.shard(partition).unwrap(), array.slice(&ranges).unwrap());
            }
            assert_eq!(x.to_host().unwrap_err().kind(), RuntimeErrorKind::NotAddressable);
        }
    }

    #[test]
    fn memory_that_makes_no_sense_is_an_error() {
        let stats = |argument, alias, peak_memory| CompiledMemoryStats {
            argument,
            alias,
            peak_memory,
            ..CompiledMemoryStats::default()
        };
        assert_eq!(bytes_needed("p", "cpu", stats(8, 4, 0)).unwrap(), 4);
        assert_eq!(bytes_needed("p", "tpu", stats(8, 4, 6)).unwrap(), 6);
        let error = bytes_needed("p", "cpu", stats(4, 8, 0)).unwrap_err().to_string();
        assert!(
            error.starts_with("program p: the plugin says that it needs -4 bytes on each device ("),
            "{error}"
        );
        assert!(bytes_needed("p", "tpu", stats(8, 4, -1)).is_err());
    }

    #[test]
    fn an_array_of_another_process_is_no_argument() {
        let (runtime, mesh) = (runtime(), mesh([0, 1, 2, 3]));
        let program = identity(&runtime, &mesh);
        let client = ClientOptions::default().with("devices", 4);
        let options = RuntimeOptions { client, ..RuntimeOptions::default() };
        let other = Runtime::new(&shardwright_pjrt_fake::path(), &options).unwrap();
        let array = HostArray::zeros(program.arguments()[0].ty.clone());
        let x = ShardedArray::from_host(&other, &mesh, &program.arguments()[0].sharding, &array).unwrap();
        let error = program.execute([Argument::Donate(x)]).err().unwrap();
        assert_eq!(
            error.to_string(),
            "program identity: argument x is s32[8,3] (x, -) on x=4, partitions [0, 1] of it, \
             got s32[8,3] (x, -) on x=4, partitions [0, 1, 2, 3] of it"
        );
    }
}
