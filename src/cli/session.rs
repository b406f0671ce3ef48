//! A program from elsewhere on its way to the devices: read and planned before a plugin is looked for, then compiled.

use clap::Args;
use shardwright_hlo::Signature;
use shardwright_mesh::{AbstractMesh, Mesh, NamedSharding};
use shardwright_partition::{ShardedHlo, ShardedModule, ShardingPlan};
use shardwright_runtime::compile::{ChildCompiler, ForeignProgram};
use shardwright_runtime::{Executable, RuntimeOptions};

use super::args::GlobalArgs;
use super::compile;
use super::console::{self, Verbosity};
use super::engine::Engine;
use super::failure::{Cause, Failure};
use super::fetch;
use super::program::{
    Asked, PlannedProgram, Program, ProgramArgs, ProgramForm, ShardedProgram, one_device, tell_lints,
};

const PROGRAM_HINT: &str =
    "--dump_to FOLDER writes the program as it goes to the compiler, whose lines those of its messages are";

/// Flags that say which devices a program gets.
#[derive(Debug, Args)]
pub(super) struct PlaceArgs {
    /// Use the first N devices only [default: all, as many as the mesh has; a CPU plugin has so many unless --cpu_devices
    /// says otherwise]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    devices: Option<u32>,
}

/// A program for which no plugin was needed so far.
pub(super) enum Prepared {
    /// Where its arrays lie is known and written on it.
    Planned(Box<Pinned>),
    /// The size of an axis of its mesh is left to how many devices there are.
    Unplanned(Program, Asked),
    /// Nothing is known of it: it runs on one device, as it is.
    Bytecode(Foreign),
}

/// Bytecode, and what it is called in messages.
pub(super) struct Foreign {
    origin: String,
    code: ForeignProgram,
}

/// A program with the devices that it is for.
pub(super) struct Session<'a> {
    global: &'a GlobalArgs,
    options: RuntimeOptions,
    engine: Engine,
    mesh: Mesh,
    program: Ready,
}

/// A program as it came, and as it goes to the compiler.
pub(super) struct Pinned {
    planned: PlannedProgram,
    sharded: ShardedProgram,
}

enum Ready {
    Planned(Box<Pinned>),
    Bytecode(Foreign),
}

impl Prepared {
    /// Reads a program, and plans it unless that takes devices.
    pub(super) fn new(arguments: &ProgramArgs, place: &PlaceArgs) -> Result<Prepared, Failure> {
        let Program { origin, form } = arguments.read()?;
        let form = match form {
            ProgramForm::Bytecode(code) if arguments.asks_for_nothing() => {
                place.check(&one_device())?;
                return Ok(Prepared::Bytecode(Foreign { origin, code }));
            }
            form => form,
        };
        let (program, asked) = (Program { origin, form }, arguments.asked()?);
        if place.devices.is_none() && asked.leaves_a_size() {
            return Ok(Prepared::Unplanned(program, asked));
        }
        let pinned = Pinned::new(asked, program, place.count())?;
        place.check(pinned.planned.plan.mesh())?;
        Ok(Prepared::Planned(pinned))
    }

    /// The plan, where there is one.
    pub(super) fn plan(&self) -> Option<&ShardingPlan> {
        match self {
            Prepared::Planned(pinned) => Some(&pinned.planned.plan),
            _ => None,
        }
    }

    /// Opens the plugin, and plans what could not be planned without.
    pub(super) fn open<'a>(
        self,
        global: &'a GlobalArgs,
        place: &PlaceArgs,
        compiler: &ChildCompiler,
    ) -> Result<Session<'a>, Failure> {
        let positions = match &self {
            Prepared::Planned(pinned) => Some(pinned.planned.plan.mesh().size()),
            Prepared::Unplanned(..) => None,
            Prepared::Bytecode(_) => Some(1),
        };
        let mut options = global.runtime_options_for(place.count().or(positions))?;
        options.compile = compile::setup(&global.compile, compiler)?;
        let engine = Engine::start(&fetch::plugin(global)?, &options)?;
        let program = match self {
            Prepared::Planned(pinned) => Ready::Planned(pinned),
            Prepared::Unplanned(program, asked) => {
                Ready::Planned(Pinned::new(asked, program, Some(engine.devices().len()))?)
            }
            Prepared::Bytecode(code) => Ready::Bytecode(code),
        };
        let shape = match &program {
            Ready::Planned(pinned) => pinned.planned.plan.mesh().clone(),
            Ready::Bytecode(_) => one_device(),
        };
        let mesh = match shape.size() {
            1 => engine.mesh_of_first(&shape, 1)?,
            _ => engine.mesh(&shape, place.count())?,
        };
        Ok(Session { global, options, engine, mesh, program })
    }
}

impl Session<'_> {
    /// The opened plugin.
    pub(super) fn engine(&self) -> &Engine {
        &self.engine
    }

    /// The devices that the program is for.
    pub(super) fn mesh(&self) -> &Mesh {
        &self.mesh
    }

    /// The plan, where there is one.
    pub(super) fn plan(&self) -> Option<&ShardingPlan> {
        match &self.program {
            Ready::Planned(pinned) => Some(&pinned.planned.plan),
            Ready::Bytecode(_) => None,
        }
    }

    /// Tells what the program is run with, on stderr.
    pub(super) fn tell(&self) {
        let verbosity = self.global.verbosity();
        if verbosity == Verbosity::Quiet {
            return;
        }
        self.engine.opening().iter().for_each(console::note);
        console::note(super::report::labelled("mesh", self.mesh.shape()));
        compile::notice(&self.global.compile, self.engine.platform()).iter().for_each(console::note);
        if let Ready::Planned(pinned) = &self.program {
            if verbosity == Verbosity::Verbose {
                console::note(pinned.planned.plan.table());
            }
            tell_lints(&pinned.planned.lints, verbosity, Some("`shardwright shard --json`"));
        }
    }

    /// Compiles the program as it is planned.
    pub(super) fn compile(&self) -> Result<Executable, Failure> {
        self.tell_compiling(&self.mesh);
        let compiled = match &self.program {
            Ready::Planned(pinned) => self.engine.compile(&pinned.sharded, &self.mesh),
            Ready::Bytecode(foreign) => self.engine.compile_bytecode(&foreign.code, &self.mesh),
        };
        compiled.map_err(|failure| failure.about(self.program.origin()).or_hint(PROGRAM_HINT))
    }

    /// Compiles the program for one device, whole.
    pub(super) fn compile_alone(&self) -> Result<Executable, Failure> {
        let mesh = self.engine.mesh_of_first(&one_device(), 1)?;
        self.tell_compiling(&mesh);
        let compiled = match &self.program {
            Ready::Planned(pinned) => {
                self.engine.compile(&alone(&pinned.planned.program, mesh.shape())?, &mesh)
            }
            Ready::Bytecode(foreign) => self.engine.compile_bytecode(&foreign.code, &mesh),
        };
        compiled.map_err(|failure| failure.about(self.program.origin()).or_hint(PROGRAM_HINT))
    }

    /// Tells what takes so long.
    fn tell_compiling(&self, mesh: &Mesh) {
        if self.global.verbosity() > Verbosity::Quiet {
            console::note(format!("compiling for {}", mesh.shape()));
        }
    }

    /// Writes the records of what was done.
    pub(super) fn finish(&self) -> Result<(), Failure> {
        self.global.records.finish(self.engine.counters(), self.global.verbosity(), &self.options)
    }
}

impl Pinned {
    fn new(asked: Asked, program: Program, devices: Option<usize>) -> Result<Box<Pinned>, Failure> {
        let planned = asked.plan_or_whole(program, devices)?;
        // What cannot be written on the program is an error of the plan too.
        let sharded = planned.sharded()?;
        Ok(Box::new(Pinned { planned, sharded }))
    }
}

impl Ready {
    fn origin(&self) -> &str {
        match self {
            Ready::Planned(pinned) => &pinned.planned.program.origin,
            Ready::Bytecode(foreign) => &foreign.origin,
        }
    }
}

impl PlaceArgs {
    /// Whether as many devices are asked for as the mesh has.
    fn check(&self, mesh: &AbstractMesh) -> Result<(), Failure> {
        match (self.count(), mesh.size()) {
            (Some(count), size) if count != size => {
                let positions = if size == 1 { "position" } else { "positions" };
                let message =
                    format!("--devices {count}: the mesh {mesh} has {size} {positions}, one for each device");
                Err(Failure::input(message)
                    .with_hint("--mesh names the axes and their sizes, such as fsdp=-1"))
            }
            _ => Ok(()),
        }
    }

    fn count(&self) -> Option<usize> {
        self.devices.map(|count| count as usize)
    }
}

/// The program without the shardings that it came with, for a mesh of one device.
fn alone(program: &Program, mesh: &AbstractMesh) -> Result<ShardedProgram, Failure> {
    let whole = |signature: &Signature| {
        let whole = |rank| NamedSharding::replicated(mesh, rank);
        let arguments: Vec<NamedSharding> = signature.arguments.iter().map(|a| whole(a.ty.rank())).collect();
        let outputs: Vec<NamedSharding> = signature.outputs.iter().map(|o| whole(o.ty.rank())).collect();
        (arguments, outputs)
    };
    let wrong = |error: anyhow::Error| Failure::new(Cause::Input, error.context(program.origin.clone()));
    match &program.form {
        ProgramForm::Text(parsed) => {
            let (arguments, outputs) = whole(&parsed.signature());
            let sharded = ShardedModule::new(parsed.module.clone(), mesh, arguments, outputs);
            sharded
                .map(|module| ShardedProgram::Module(Box::new(module)))
                .map_err(|error| wrong(error.into()))
        }
        ProgramForm::Hlo(proto) => {
            let (arguments, outputs) = whole(proto.signature());
            let sharded = ShardedHlo::new(proto, mesh, arguments, outputs, &[]);
            sharded.map(|proto| ShardedProgram::Hlo(Box::new(proto))).map_err(|error| wrong(error.into()))
        }
        ProgramForm::Bytecode(_) => unreachable!("bytecode is compiled as it is"),
    }
}
