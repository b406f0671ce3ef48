//! `shardwright run`.

mod execution;
mod inputs;
mod report;

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use shardwright_hlo::{ArgumentInfo, ArgumentKind};
use shardwright_partition::{PlannedArgument, ShardingPlan};
use shardwright_runtime::compile::ChildCompiler;
use shardwright_runtime::{Executable, ExecutableValue};
use shardwright_tensor::HostArray;

use super::args::GlobalArgs;
use super::arrays::{OutputFile, Summary, Tolerance, compare};
use super::console::{self, Verbosity};
use super::engine::program_failure;
use super::failure::{Cause, Failure};
use super::program::ProgramArgs;
use super::session::{PlaceArgs, Prepared};

use execution::{Execution, execute, median};
use inputs::{InputArgs, Inputs};
use report::{OutputReport, RunReport};

/// What `run` does, for its help.
pub(super) const ABOUT: &str = "\
Compile a program of any framework, run it, and tell what it gives.

Inputs are matched by the names of the program's arguments, else by number (003 and arr_3 are argument 3, counted from \
0), else, where no name is an argument's, in their order. Their types must be those of the program. What is in no file \
is drawn from a seed, by the argument's name, the same on any mesh. Outputs are gathered and written whole. Without a \
mesh, and without one that the program states, the program runs on one device.";

/// How `run` is called.
pub(super) const EXAMPLES: &str = "\
Examples:
  shardwright run step.mlir --mesh fsdp=8 --compare_single
  shardwright run step.hlo.pb --mesh data=2,fsdp=4 --input inputs.npz --output outputs.npz
  shardwright run decode.mlir --seed 1 --range 'ids=0..32000' --repeat 20

Keys of --json:
  program, mesh, devices  what ran where; the ids of the devices in the order of the mesh
  compile_seconds, first_run_seconds, median_run_seconds, runs
                          times; the median is that of all runs but the first, null if there is one
  outputs                 a list of name, type, sharding, min, max, mean, nan (how many elements are no
                          number) and difference: null, or absolute, relative (to the largest element),
                          at (the index), values (found and expected there) and is_too_large
  written                 the file or folder of the outputs, or null";

/// The flags of `run`.
#[derive(Debug, Args)]
pub(super) struct RunArgs {
    #[command(flatten)]
    program: ProgramArgs,
    #[command(flatten)]
    place: PlaceArgs,
    /// Run so often, and tell the median of all runs but the first
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    repeat: u32,
    #[command(flatten)]
    inputs: InputArgs,
    #[command(flatten)]
    outputs: OutputArgs,
}

/// Flags that say what becomes of the outputs.
#[derive(Debug, Args)]
#[command(next_help_heading = "Outputs")]
struct OutputArgs {
    /// Write the outputs, whole, to this .npz, .safetensors or .npy file, or into this folder
    #[arg(long, value_name = "FILE|FOLDER")]
    output: Option<PathBuf>,
    /// Run the program on one device too, and compare the outputs; the exit code is 1 where they differ
    #[arg(id = "compare_single", long = "compare_single")]
    compare_single: bool,
    /// How far elements may be apart, as a part of the largest in their output [default: 1e-12 for f64, 1e-5 for f32,
    /// 1e-2 for f16, 5e-2 for bf16, 0 for others]
    #[arg(long, value_name = "X", requires = "compare_single")]
    tolerance: Option<f64>,
    /// Write one JSON object to stdout
    #[arg(long)]
    json: bool,
}

/// What the flags come to, before there is a program.
struct Settings {
    inputs: Inputs,
    tolerance: Tolerance,
    output: Option<OutputFile>,
}

/// Compiles a program and runs it.
pub(super) fn run(global: &GlobalArgs, arguments: &RunArgs, compiler: &ChildCompiler) -> Result<(), Failure> {
    global.records.check()?;
    let mut settings = Settings::read(arguments)?;
    let prepared = Prepared::new(&arguments.program, &arguments.place)?;
    let early =
        prepared.plan().map(|plan| settings.hosts(&of_plan(plan), plan.outputs().len())).transpose()?;

    let session = prepared.open(global, &arguments.place, compiler)?;
    session.tell();
    let executable = session.compile()?;
    let hosts = match early {
        Some(hosts) => hosts,
        None => settings.hosts(&of_executable(&executable, session.plan()), executable.outputs().len())?,
    };
    let donated = donated(session.plan(), hosts.len());
    let count = arguments.repeat as usize;
    let runtime = session.engine().runtime();
    let Execution { outputs, durations } =
        execute(runtime, &executable, &donated, &hosts, count).map_err(program_failure)?;
    let expected = match arguments.outputs.compare_single {
        true => {
            let alone = session.compile_alone()?;
            Some(execute(runtime, &alone, &donated, &hosts, 1).map_err(program_failure)?.outputs)
        }
        false => None,
    };

    let names = executable.outputs().iter().map(|output| output.name.clone());
    let outputs: Vec<(String, HostArray)> = names.zip(outputs).collect();
    let report = report(&executable, &durations, &outputs, expected.as_deref(), &settings);
    if let Some(file) = &settings.output {
        file.write(&outputs).map_err(|error| Failure::new(Cause::Run, error))?;
    }
    if global.verbosity() > Verbosity::Quiet {
        console::note(report.times());
    }
    match arguments.outputs.json {
        true => console::result(serde_json::to_string_pretty(&report).expect("a report is plain values")),
        false => console::result(&report),
    }
    session.finish()?;
    report.verdict()
}

impl Settings {
    fn read(arguments: &RunArgs) -> Result<Settings, Failure> {
        let wanted = &arguments.outputs;
        let tolerance = match wanted.tolerance {
            Some(tolerance) if !(tolerance >= 0.0 && tolerance.is_finite()) => {
                let message = format!("--tolerance: expected a number of at least 0, found {tolerance}");
                return Err(Failure::input(message));
            }
            Some(tolerance) => Tolerance::Given(tolerance),
            None => Tolerance::OfDtype,
        };
        let output = wanted.output.as_deref().map(OutputFile::new).transpose().map_err(wrong_output)?;
        Ok(Settings { inputs: arguments.inputs.open()?, tolerance, output })
    }

    /// The input arrays, and what else can be known to be wrong before a program with these arguments is run.
    fn hosts(&mut self, arguments: &[ArgumentInfo], outputs: usize) -> Result<Vec<HostArray>, Failure> {
        let check = self.output.as_ref().map(|file| file.check(outputs));
        check.transpose().map_err(wrong_output)?;
        self.inputs.arrays(arguments)
    }
}

fn wrong_output(error: anyhow::Error) -> Failure {
    Failure::new(Cause::Input, error.context("--output"))
}

/// The arguments as a plan knows them.
fn of_plan(plan: &ShardingPlan) -> Vec<ArgumentInfo> {
    let info = |argument: &PlannedArgument| ArgumentInfo {
        name: argument.name.clone(),
        ty: argument.ty.clone(),
        kind: argument.kind,
        donated: false,
        stated: None,
    };
    plan.arguments().iter().map(info).collect()
}

/// The arguments as the plan knows them; without a plan, as the compiled program does.
fn of_executable(executable: &Executable, plan: Option<&ShardingPlan>) -> Vec<ArgumentInfo> {
    let info = |argument: &ExecutableValue| ArgumentInfo {
        name: argument.name.clone(),
        ty: argument.ty.clone(),
        kind: ArgumentKind::Other,
        donated: false,
        stated: None,
    };
    plan.map_or_else(|| executable.arguments().iter().map(info).collect(), of_plan)
}

/// For each argument, whether an output takes over its memory.
fn donated(plan: Option<&ShardingPlan>, arguments: usize) -> Vec<bool> {
    let mut donated = vec![false; arguments];
    for donor in plan.into_iter().flat_map(ShardingPlan::outputs).filter_map(|output| output.donor) {
        donated[donor] = true;
    }
    donated
}

fn report<'a>(
    executable: &'a Executable,
    durations: &[Duration],
    outputs: &'a [(String, HostArray)],
    expected: Option<&[HostArray]>,
    settings: &'a Settings,
) -> RunReport<'a> {
    let output = |(index, (name, array)): (usize, &'a (String, HostArray))| OutputReport {
        name,
        ty: array.ty().to_string(),
        sharding: executable.outputs()[index].sharding.spec().to_string(),
        summary: Summary::of(array),
        difference: expected.map(|expected| compare(array, &expected[index], settings.tolerance)),
    };
    RunReport {
        program: executable.name(),
        mesh: executable.mesh().shape().to_string(),
        devices: executable.mesh().device_ids().collect(),
        compile_seconds: executable.compilation().duration.as_secs_f64(),
        first_run_seconds: durations[0].as_secs_f64(),
        median_run_seconds: median(&durations[1..]).map(|median| median.as_secs_f64()),
        runs: durations.len(),
        outputs: outputs.iter().enumerate().map(output).collect(),
        written: settings.output.as_ref().map(OutputFile::path),
    }
}
