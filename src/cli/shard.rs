//! `shardwright shard`.

use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::path::Path;

use clap::Args;
use serde::Serialize;
use shardwright_checkpoint::write_bytes_atomic;
use shardwright_hlo::ArgumentKind;
use shardwright_partition::{KindSource, Lint, PinCounts, PlannedArgument, PlannedOutput, ShardingPlan};

use super::console::{self, Verbosity};
use super::failure::{Cause, Failure};
use super::program::{PlannedProgram, ProgramArgs, ShardedProgram, tell_lints};

pub(super) const ABOUT: &str = "\
Write on a program where each of its arrays lies, so that a compiler makes one program for all devices of it. The program \
may come from JAX, torch_xla, xla-rs or elsewhere. No plugin is needed. Without --output, only the plan is shown. Text \
stays text, with arguments that do not divide stored padded; in an HLO proto nothing else is changed.";

pub(super) const EXAMPLES: &str = "\
Examples:
  shardwright shard step.mlir --mesh fsdp=8
  shardwright shard step.mlir --mesh data=2,fsdp=4 --shard 'x=batch' -o sharded.mlir
  shardwright shard step.pb --rules rules.json -o sharded.pb

Keys of --json:
  program, mesh, axis  what was planned, over which mesh, and the axis of parameters
  arguments            a list of name, type, kind, parameter (the index of a state's),
                       guessed (whether nobody says that it is of this kind), spec,
                       bytes_per_device, padding_bytes and decided_by
  outputs              a list of name, type, donor (the index of the argument whose
                       memory it takes over), spec and decided_by
  pinned_inside        null for an HLO proto, else weights and gradients: in how many
                       places each is pinned
  lints                a list of severity, code, name, message and advice";

/// The flags of `shard`.
#[derive(Debug, Args)]
pub(super) struct ShardArgs {
    #[command(flatten)]
    program: ProgramArgs,
    /// Where the program is written, in the form in which it came; - is stdout
    #[arg(short, long, value_name = "OUT")]
    output: Option<OsString>,
    /// Write the plan as one JSON object to stdout, in place of the table
    #[arg(long)]
    json: bool,
}

/// Plans a program, and writes it with its shardings.
pub(super) fn run(arguments: &ShardArgs, verbosity: Verbosity) -> Result<(), Failure> {
    let to_stdout = arguments.output.as_deref() == Some(OsStr::new("-"));
    if to_stdout && arguments.json {
        return Err(Failure::input("--output - and --json both write to stdout; give --output a file"));
    }
    let program = arguments.program.read()?;
    let planned = arguments.program.asked()?.plan(program, None)?;
    // What cannot be written is an error of the plan too.
    let sharded = planned.sharded()?;
    match (arguments.json, to_stdout) {
        (true, _) => console::result(json(&planned, &sharded)?),
        (false, true) if verbosity > Verbosity::Quiet => console::note(table(&planned, &sharded)),
        (false, true) => {}
        (false, false) => console::result(table(&planned, &sharded)),
    }
    tell_lints(&planned.lints, verbosity, Some("--json"));
    match arguments.output.as_deref() {
        None => Ok(()),
        Some(_) if to_stdout => write_to_stdout(&bytes(&sharded)),
        Some(path) => {
            let path = Path::new(path);
            write_bytes_atomic(path, &bytes(&sharded)).map_err(|error| Failure::new(Cause::Run, error))?;
            if verbosity > Verbosity::Quiet {
                console::note(format!("written to {}", path.display()));
            }
            Ok(())
        }
    }
}

fn bytes(sharded: &ShardedProgram) -> Vec<u8> {
    match sharded {
        ShardedProgram::Module(module) => module.stablehlo_text().into_bytes(),
        ShardedProgram::Hlo(program) => program.program().bytes().to_vec(),
    }
}

/// What is pinned inside a program, if that is known.
fn pins(sharded: &ShardedProgram) -> Option<PinCounts> {
    match sharded {
        ShardedProgram::Module(module) => Some(module.pins()),
        ShardedProgram::Hlo(_) => None,
    }
}

fn table(planned: &PlannedProgram, sharded: &ShardedProgram) -> String {
    let table = planned.plan.table();
    match pins(sharded) {
        Some(pins) if pins != PinCounts::default() => format!("{table}\n{pins}"),
        _ => table.to_string(),
    }
}

fn write_to_stdout(bytes: &[u8]) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    let written = stdout.write_all(bytes).and_then(|()| stdout.flush());
    written.map_err(|error| Failure::new(Cause::Run, anyhow::Error::new(error).context("stdout")))
}

#[derive(Serialize)]
struct Plan<'a> {
    program: &'a str,
    mesh: String,
    axis: Option<&'a str>,
    arguments: Vec<Argument<'a>>,
    outputs: Vec<Output<'a>>,
    /// None in an HLO proto.
    pinned_inside: Option<PinCounts>,
    lints: Vec<LintLine<'a>>,
}

#[derive(Serialize)]
struct Argument<'a> {
    name: &'a str,
    #[serde(rename = "type")]
    ty: String,
    kind: &'static str,
    /// The index of a state's parameter.
    parameter: Option<usize>,
    /// Whether nobody says that it is that.
    guessed: bool,
    spec: String,
    bytes_per_device: usize,
    padding_bytes: usize,
    decided_by: String,
}

#[derive(Serialize)]
struct Output<'a> {
    name: &'a str,
    #[serde(rename = "type")]
    ty: String,
    /// The index of the argument whose memory it takes over.
    donor: Option<usize>,
    spec: String,
    decided_by: String,
}

#[derive(Serialize)]
struct LintLine<'a> {
    severity: String,
    code: String,
    name: Option<&'a str>,
    message: &'a str,
    advice: &'a str,
}

fn json(planned: &PlannedProgram, sharded: &ShardedProgram) -> Result<String, Failure> {
    let plan = &planned.plan;
    let described = Plan {
        program: &planned.program.origin,
        mesh: plan.mesh().to_string(),
        axis: plan.axis().map(|axis| axis.as_str()),
        arguments: plan.arguments().iter().map(|argument| describe(plan, argument)).collect(),
        outputs: plan.outputs().iter().map(|output| describe_output(plan, output)).collect(),
        pinned_inside: pins(sharded),
        lints: planned.lints.iter().map(describe_lint).collect(),
    };
    serde_json::to_string_pretty(&described).map_err(|error| Failure::new(Cause::Run, error))
}

fn describe<'a>(plan: &ShardingPlan, argument: &'a PlannedArgument) -> Argument<'a> {
    Argument {
        name: &argument.name,
        ty: argument.ty.to_string(),
        kind: argument.kind.word(),
        parameter: match argument.kind {
            ArgumentKind::State { parameter, .. } => Some(parameter),
            _ => None,
        },
        guessed: argument.kind_source == KindSource::Guess,
        spec: argument.sharding.spec().to_string(),
        bytes_per_device: argument.bytes_per_device,
        padding_bytes: argument.padding_bytes,
        decided_by: plan.reason(&argument.decision),
    }
}

fn describe_output<'a>(plan: &ShardingPlan, output: &'a PlannedOutput) -> Output<'a> {
    Output {
        name: &output.name,
        ty: output.ty.to_string(),
        donor: output.donor,
        spec: output.sharding.spec().to_string(),
        decided_by: plan.reason(&output.decision),
    }
}

fn describe_lint(lint: &Lint) -> LintLine<'_> {
    LintLine {
        severity: lint.severity.to_string(),
        code: lint.code.to_string(),
        name: Some(lint.name.as_str()).filter(|name| !name.is_empty()),
        message: &lint.message,
        advice: &lint.advice,
    }
}
