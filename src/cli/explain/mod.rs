//! `shardwright explain`.

mod html;

use std::fmt;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde::Serialize;
use shardwright_checkpoint::{make_writable_folder, write_bytes_atomic};
use shardwright_mesh::Mesh;
use shardwright_partition::Lowering;
use shardwright_partition::explain::{Comparison, Explanation, Subject};
use shardwright_runtime::Executable;
use shardwright_runtime::compile::ChildCompiler;

use super::args::{GlobalArgs, TrainArgs};
use super::choice::Lowerings;
use super::console::{self, Verbosity};
use super::engine::{self, Engine, program_failure};
use super::failure::{Cause, Failure};
use super::program::{EXPORT_HINT, ProgramArgs};
use super::session::{PlaceArgs, Prepared};
use super::train;

use html::Surroundings;

/// What `explain` does, for its help.
pub(super) const ABOUT: &str = "\
Compile a program and tell what the compiler made of it: which arrays travel between the devices, over which axes of the \
mesh, how often and because of what; whether that is what FSDP needs; and what the memory of a device holds. The program \
is not run. `shardwright explain train ...` explains the step of the run that `shardwright train ...` would be.";

/// How `explain` is called.
pub(super) const EXAMPLES: &str = "\
Examples:
  shardwright explain step.mlir --mesh fsdp=8
  shardwright explain step.hlo.pb --mesh data=2,fsdp=4 --json
  shardwright explain train run.json --mesh fsdp=8 --html step.html
  shardwright explain train run.json --lowering both

Keys of --json:
  program, mesh, devices  what was compiled, and for how many devices
  verdict                 grade (not_sharded, as_planned, costly or lost), summary and
                          next_step
  traffic                 a list of purpose, axes, predicted and actual (arrays, array_bytes
                          and sent_bytes by one device, in one run) and differences
  units, parameters       what became of each, with a verdict of its own
  collectives             in the order of the program: name, kind, runs, position, axes,
                          groups, bytes, and the pieces that it carries: type, purpose,
                          pass, cause and source
  steps                   how many steps the program has, to which positions refer
  memory                  of one device, in bytes: compiler's figures, estimated_peak,
                          at_peak and series by class
  notes                   what could not be found out

With --lowering both these are annotate and explicit, one object each, beside comparison.";

/// The flags of `explain`.
#[derive(Debug, Args)]
#[command(subcommand_negates_reqs = true)]
#[command(
    override_usage = "shardwright explain [OPTIONS] <IN>\n       shardwright explain train [OPTIONS] [RUN.json]"
)]
pub(super) struct ExplainArgs {
    #[command(subcommand)]
    step: Option<StepCommand>,
    #[command(flatten)]
    program: Option<ProgramArgs>,
    #[command(flatten)]
    place: PlaceArgs,
    /// Only of steps of our own, behind `train`
    #[arg(long, value_name = "LOWERING", hide = true)]
    lowering: Option<String>,
    #[command(flatten)]
    show: ShowArgs,
}

/// Programs of our own.
#[derive(Debug, Subcommand)]
enum StepCommand {
    /// Explain the step that `shardwright train` would run with these settings; nothing is trained or saved
    Train(TrainArgs),
}

/// What there is to show.
#[derive(Serialize)]
#[serde(untagged)]
enum Explained<'a> {
    /// One program.
    One(&'a Explanation),
    /// One step in both lowerings.
    Both { comparison: &'a Comparison, annotate: &'a Explanation, explicit: &'a Explanation },
}

impl fmt::Display for Explained<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Explained::One(explanation) => explanation.fmt(f),
            Explained::Both { comparison, .. } => comparison.fmt(f),
        }
    }
}

/// How an explanation is shown.
#[derive(Debug, Args)]
#[command(next_help_heading = "Explanation")]
struct ShowArgs {
    /// Write one JSON object to stdout, in place of the tables
    #[arg(long, global = true)]
    json: bool,
    /// Also write a page with drawings to this file
    #[arg(long, global = true, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// Compiles a program and tells what became of it.
pub(super) fn run(
    global: &GlobalArgs,
    arguments: &ExplainArgs,
    compiler: &ChildCompiler,
) -> Result<(), Failure> {
    global.records.check()?;
    if let Some(lowering) = &arguments.lowering {
        let message = format!(
            "--lowering {lowering}: a program that is given can be annotated only; explicit collectives take its source, \
             which is traced anew over the shards of a device"
        );
        let hint = "`shardwright explain train RUN.json --lowering both` compares the lowerings of a step of our own";
        return Err(Failure::input(message).with_hint(hint));
    }
    match (&arguments.step, &arguments.program) {
        (Some(_), Some(_)) => Err(Failure::input("explain takes a program, or `train` and its settings")),
        (Some(StepCommand::Train(settings)), None) => explain_step(global, arguments, settings, compiler),
        (None, Some(program)) => explain_program(global, arguments, program, compiler),
        (None, None) => Err(Failure::input("<IN> is missing")),
    }
}

fn explain_program(
    global: &GlobalArgs,
    arguments: &ExplainArgs,
    program: &ProgramArgs,
    compiler: &ChildCompiler,
) -> Result<(), Failure> {
    let prepared = Prepared::new(program, &arguments.place)?;
    if let Prepared::Bytecode(_) = prepared {
        let message = "the program is MLIR bytecode, of which nothing is known that could be explained";
        return Err(Failure::input(message).with_hint(EXPORT_HINT));
    }
    arguments.show.check()?;
    let session = prepared.open(global, &arguments.place, compiler)?;
    session.tell();
    let plan = session.plan().expect("only bytecode has no plan");
    let executable = session.compile()?;
    let explanation = of_executable(&executable, &Subject::of_plan(plan))?;
    arguments.show.show(global, &Explained::One(&explanation), session.engine(), session.mesh())?;
    session.finish()
}

fn explain_step(
    global: &GlobalArgs,
    arguments: &ExplainArgs,
    settings: &TrainArgs,
    compiler: &ChildCompiler,
) -> Result<(), Failure> {
    let train::Prepared { config, lowering, options, mut report, .. } =
        train::prepare(global, settings, compiler)?;
    let job = engine::prepare_unsaved(&config, &mut report);
    report.end();
    let job = job?;
    arguments.show.check()?;
    let engine = Engine::start(&super::fetch::plugin(global)?, &options)?;
    let mut explain = |lowering| {
        let explained = engine.explain(&job, lowering, &mut report);
        report.end();
        explained
    };
    match lowering.value {
        Lowerings::One(lowering) => {
            let (step, explanation) = explain(lowering)?;
            arguments.show.show(global, &Explained::One(&explanation), &engine, step.executable().mesh())?;
        }
        Lowerings::Both => {
            // Not every plan can be written as collectives, and that one can tell before anything is compiled.
            let (step, explicit) = explain(Lowering::Explicit)?;
            let (_, annotated) = explain(Lowering::Annotate)?;
            let comparison = Comparison::new(("annotate", &annotated), ("explicit", &explicit));
            let both = Explained::Both { comparison: &comparison, annotate: &annotated, explicit: &explicit };
            arguments.show.show(global, &both, &engine, step.executable().mesh())?;
        }
    }
    global.records.finish(engine.counters(), global.verbosity(), &options)
}

/// What became of a program.
fn of_executable(executable: &Executable, subject: &Subject) -> Result<Explanation, Failure> {
    let program = executable.compiled().map_err(program_failure)?;
    let program = program.map_err(|error| Failure::new(Cause::Run, error))?;
    Ok(Explanation::new(&program, subject, executable.compiled_memory().ok()))
}

impl ShowArgs {
    /// Finds out before a long compilation whether the page can be written after it. Makes its folder.
    fn check(&self) -> Result<(), Failure> {
        let Some(path) = &self.html else { return Ok(()) };
        if path == Path::new("-") || path.is_dir() {
            let message = format!("--html: expected a file for the page, found {}", path.display());
            return Err(Failure::input(message));
        }
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        make_writable_folder(folder).map_err(|error| Failure::new(Cause::Input, error).about("--html"))
    }

    fn show(
        &self,
        global: &GlobalArgs,
        explained: &Explained<'_>,
        engine: &Engine,
        mesh: &Mesh,
    ) -> Result<(), Failure> {
        if let Some(path) = &self.html {
            let surroundings = Surroundings { mesh, opening: &engine.opening() };
            write_page(path, &html::page(explained, &surroundings))?;
            if global.verbosity() > Verbosity::Quiet {
                console::note(format!("page written to {}", path.display()));
            }
        }
        match self.json {
            true => console::result(json(explained)),
            false => console::result(explained.to_string().trim_end()),
        }
        Ok(())
    }
}

fn write_page(path: &Path, page: &str) -> Result<(), Failure> {
    write_bytes_atomic(path, page.as_bytes()).map_err(|error| Failure::new(Cause::Run, error))
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string_pretty(value).expect("an explanation is plain values")
}
