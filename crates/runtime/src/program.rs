use shardwright_hlo::compiled::{CompiledError, CompiledProgram};
use shardwright_mesh::{Mesh, NamedSharding};
use shardwright_partition::ShardedModule;
use shardwright_pjrt::{Arg, CompiledMemoryStats, Event, LoadedExecutable};
use shardwright_tensor::TensorType;

use crate::array::shard_type;
use crate::compile::Compilation;
use crate::error::Problem;
use crate::{RuntimeError, ShardedArray};

/// A compiled program on the devices of a mesh.
pub struct Program {
    name: String,
    loaded: LoadedExecutable,
    compilation: Compilation,
    mesh: Mesh,
    arguments: Vec<ProgramValue>,
    outputs: Vec<ProgramValue>,
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
pub enum Argument<'a> {
    /// Can be used again.
    Borrow(&'a ShardedArray),
    /// Is given up: the program may write its results there.
    Donate(ShardedArray),
}

/// What a started program gives.
pub struct Execution {
    /// The outputs, in the program's order. They can be passed on before the program has ended.
    pub outputs: Vec<ShardedArray>,
    /// For each partition, the end of the program there.
    done: Vec<Event>,
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
        let outputs = program.outputs.iter().enumerate();
        let program = Program {
            name: program.name.clone(),
            mesh: mesh.clone(),
            arguments: arguments.map(|(i, a)| value(&a.name, a.value, module.argument_sharding(i))).collect(),
            outputs: outputs.map(|(i, o)| value(&o.name, o.value, module.output_sharding(i))).collect(),
            loaded,
            compilation,
        };
        program.check_stored("argument", &program.arguments, program.loaded.parameter_types())?;
        program.check_stored("output", &program.outputs, program.loaded.output_types())?;
        Ok(program)
    }

    fn check_stored(
        &self,
        what: &'static str,
        values: &[ProgramValue],
        stored: &[TensorType],
    ) -> Result<(), RuntimeError> {
        for (value, found) in values.iter().zip(stored) {
            let expected = shard_type(&value.sharding, &value.ty)?;
            if expected != *found {
                return Err(Problem::StoredType {
                    program: self.name.clone(),
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
    /// # Errors
    /// When an argument is not of the program's type, sharding or mesh, or the plugin refuses. Donated arguments are
    /// gone even then. A program that fails later gives outputs whose use is an error.
    pub fn execute(&self, arguments: Vec<Argument<'_>>) -> Result<Execution, RuntimeError> {
        self.check(&arguments)?;
        let args = arguments.into_iter().map(|argument| match argument {
            Argument::Borrow(array) => Arg::Borrow(array.buffers()),
            Argument::Donate(array) => Arg::Donate(array.into_buffers()),
        });
        let execution = self.loaded.execute(args.collect())?;
        let outputs = execution.outputs.into_iter().zip(&self.outputs).map(|(buffers, value)| {
            ShardedArray::from_buffers(value.ty.clone(), self.mesh.clone(), value.sharding.clone(), buffers)
        });
        Ok(Execution { outputs: outputs.collect(), done: execution.done })
    }

    /// The optimized program, read back from the compiler.
    ///
    /// # Errors
    /// When the plugin does not give it, or in a form that cannot be read; the latter is the inner error.
    pub fn compiled(&self) -> Result<Result<CompiledProgram, CompiledError>, RuntimeError> {
        let program = self.loaded.optimized_program()?;
        Ok(CompiledProgram::parse(&program.format, &program.code))
    }

    /// What the program needs of the memory of each device.
    ///
    /// # Errors
    /// When the plugin does not tell.
    pub fn memory_stats(&self) -> Result<CompiledMemoryStats, RuntimeError> {
        Ok(self.loaded.memory_stats()?)
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

    fn check(&self, arguments: &[Argument<'_>]) -> Result<(), RuntimeError> {
        let (expected, found) = (self.arguments.len(), arguments.len());
        if expected != found {
            return Err(Problem::ArgumentCount { program: self.name.clone(), expected, found }.into());
        }
        for (argument, value) in arguments.iter().zip(&self.arguments) {
            let array = argument.array();
            let fits =
                *array.ty() == value.ty && *array.sharding() == value.sharding && *array.mesh() == self.mesh;
            if !fits {
                let text =
                    |ty, sharding, mesh: &Mesh| format!("{ty} {sharding}, devices {:?}", mesh.device_ids());
                return Err(Problem::Argument {
                    program: self.name.clone(),
                    argument: value.name.clone(),
                    expected: text(&value.ty, &value.sharding, &self.mesh),
                    found: text(array.ty(), array.sharding(), array.mesh()),
                }
                .into());
            }
        }
        Ok(())
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
    /// Waits until the program has ended on all devices.
    ///
    /// # Errors
    /// The first error of a device on which it failed.
    pub fn wait(&self) -> Result<(), RuntimeError> {
        Ok(self.done.iter().try_for_each(Event::wait)?)
    }
}
