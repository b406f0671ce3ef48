use std::sync::Arc;

use shardwright_hlo::compiled::{CompiledError, CompiledProgram};
use shardwright_mesh::{Mesh, NamedSharding};
use shardwright_partition::ShardedModule;
use shardwright_pjrt::{Arg, Buffer, CompiledMemoryStats, Event, LoadedExecutable};
use shardwright_tensor::TensorType;

use crate::array::{ShardedType, shard_type};
use crate::compile::Compilation;
use crate::error::{Misfit, Problem};
use crate::{RuntimeError, ShardedArray};

/// A compiled program on the devices of a mesh.
pub struct Program {
    name: Arc<str>,
    loaded: LoadedExecutable,
    compilation: Compilation,
    mesh: Mesh,
    arguments: Vec<ProgramValue>,
    outputs: Vec<ProgramValue>,
    // An output has the very type of its donor, so that what comes out of a step goes into the next without a closer
    // look.
    argument_types: Vec<Arc<ShardedType>>,
    output_types: Vec<Arc<ShardedType>>,
}

/// An argument or an output of a program.
#[derive(Clone, Debug, PartialEq)]
pub struct ProgramValue {
    /// Its name in the program.
    pub name: String,
    /// The type of the whole array.
    pub ty: TensorType,
    /// How it is cut.
    pub sharding: NamedSharding,
}

/// One argument of [`Program::execute`].
///
/// Donation is a move, so an array that was given up cannot be used again, nor be another argument of the same call:
///
/// ```compile_fail,E0505
/// # use shardwright_runtime::{Argument, Execution, Program, RuntimeError, ShardedArray};
/// fn both(program: &Program, x: ShardedArray) -> Result<Execution, RuntimeError> {
///     let other = Argument::Borrow(&x);
///     program.execute([Argument::Donate(x), other])
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
    /// For each partition, the end of the program there.
    done: Vec<Event>,
    program: Arc<str>,
    mesh: Mesh,
}

impl Program {
    /// # Errors
    /// When the compiler stores an argument or an output in another way than its sharding says.
    pub(crate) fn new(
        loaded: LoadedExecutable,
        compilation: Compilation,
        module: &ShardedModule,
        mesh: &Mesh,
    ) -> Result<Program, RuntimeError> {
        let program = module.module();
        let value = |name: &str, id, sharding: &NamedSharding| ProgramValue {
            name: name.to_owned(),
            ty: program.ty(id).clone(),
            sharding: sharding.clone(),
        };
        let arguments = program.arguments.iter().enumerate();
        let arguments: Vec<ProgramValue> =
            arguments.map(|(i, a)| value(&a.name, a.value, module.argument_sharding(i))).collect();
        let outputs = program.outputs.iter().enumerate();
        let outputs: Vec<ProgramValue> =
            outputs.map(|(i, o)| value(&o.name, o.value, module.output_sharding(i))).collect();

        let argument_types: Vec<_> = arguments.iter().map(|a| Arc::new(a.sharded_type(mesh))).collect();
        let donors = program.outputs.iter().map(|output| output.donor);
        let output_type = |(output, donor): (&ProgramValue, Option<usize>)| {
            let ty = output.sharded_type(mesh);
            let donor = donor.map(|index| &argument_types[index]).filter(|donor| ***donor == ty);
            donor.map_or_else(|| Arc::new(ty.clone()), Arc::clone)
        };
        let program = Program {
            name: program.name.as_str().into(),
            loaded,
            compilation,
            mesh: mesh.clone(),
            output_types: outputs.iter().zip(donors).map(output_type).collect(),
            argument_types,
            arguments,
            outputs,
        };
        program.check_stored("argument", &program.arguments, program.loaded.parameter_types())?;
        program.check_stored("output", &program.outputs, program.loaded.output_types())?;
        Ok(program)
    }

    fn check_stored(
        &self,
        what: &'static str,
        values: &[ProgramValue],
        stored: &[Arc<TensorType>],
    ) -> Result<(), RuntimeError> {
        for (value, found) in values.iter().zip(stored) {
            let expected = shard_type(&value.sharding, &value.ty)?;
            if expected != **found {
                return Err(Problem::StoredType {
                    program: self.name.to_string(),
                    what,
                    name: value.name.clone(),
                    expected: expected.to_string(),
                    found: found.to_string(),
                }
                .into());
            }
        }
        Ok(())
    }

    pub(crate) fn check_mesh(module: &ShardedModule, mesh: &Mesh) -> Result<(), RuntimeError> {
        if module.mesh() == mesh.shape() {
            return Ok(());
        }
        Err(Problem::ProgramMesh {
            program: module.module().name.clone(),
            expected: module.mesh().to_string(),
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

    /// What it takes.
    pub fn arguments(&self) -> &[ProgramValue] {
        &self.arguments
    }

    /// What it gives.
    pub fn outputs(&self) -> &[ProgramValue] {
        &self.outputs
    }

    /// Starts the program and does not wait for it.
    ///
    /// Its outputs can be passed on at once, so that several steps are under way while the next is prepared.
    /// Starting a step costs the host no allocation per argument: outputs move into the places of donated arrays.
    ///
    /// # Errors
    /// When [`Program::check`] or the plugin refuses the arguments. Donated ones are gone even then.
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
        let mut donated = arguments.into_iter().filter_map(|argument| match argument {
            Argument::Borrow(_) => None,
            Argument::Donate(array) => Some(array),
        });
        let output = |(buffers, ty)| match donated.next() {
            Some(array) => array.refilled(ty, buffers),
            None => ShardedArray::from_parts(Arc::clone(ty), buffers),
        };
        Ok(Execution {
            outputs: execution.outputs.into_iter().zip(&self.output_types).map(output).collect(),
            done: execution.done,
            program: Arc::clone(&self.name),
            mesh: self.mesh.clone(),
        })
    }

    /// Has a span end with the program on each device, if anybody watches.
    fn follow(&self, done: &[Event]) {
        for (partition, event) in done.iter().enumerate() {
            let span = tracing::debug_span!("on device", in_flight = true, program = &*self.name, partition);
            // Where the plugin takes no callback, nothing is seen of the end; waiting for it says why.
            if span.is_disabled() || event.on_ready(move |_| drop(span)).is_err() {
                return;
            }
        }
    }

    /// Whether the program takes these arguments. [`Program::execute`] finds out by itself; who asks first still has
    /// what was to be donated if the answer is no.
    ///
    /// # Errors
    /// When arguments are not of the program's types, shardings or mesh, all of which the error names.
    pub fn check(&self, arguments: &[Argument<'_>]) -> Result<(), RuntimeError> {
        let (expected, found) = (self.arguments.len(), arguments.len());
        if expected != found {
            return Err(Problem::ArgumentCount { program: self.name.to_string(), expected, found }.into());
        }
        let misfit = |((argument, value), ty): ((&Argument<'_>, &ProgramValue), &Arc<ShardedType>)| {
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

    /// Bytes that the program needs on each device while it runs: arguments, results and what is in between.
    ///
    /// # Errors
    /// When the plugin does not tell.
    pub fn bytes_per_device(&self) -> Result<u64, RuntimeError> {
        let stats = self.memory_stats()?;
        let bytes = match self.loaded.client().platform_name() {
            // There the temporaries are counted with holes, and the peak is the number that must fit.
            "tpu" => stats.peak_memory,
            _ => stats.argument + stats.output - stats.alias + stats.temp,
        };
        Ok(u64::try_from(bytes).unwrap_or(0))
    }
}

impl ProgramValue {
    fn sharded_type(&self, mesh: &Mesh) -> ShardedType {
        ShardedType { ty: self.ty.clone(), mesh: mesh.clone(), sharding: self.sharding.clone() }
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
        let wait = |(event, device): (&Event, usize)| {
            let failed = |reason| Problem::Failed { program: self.program.to_string(), device, reason };
            event.wait().map_err(|reason| failed(reason).into())
        };
        self.done.iter().zip(self.mesh.device_ids()).map(wait).fold(Ok(()), Result::and)
    }
}
