//! A program from elsewhere with its mesh and rules: what the commands on programs have in common.

use std::ffi::OsString;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::{fs, io};

use clap::Args;
use shardwright_hlo::proto::HloProgram;
use shardwright_hlo::{Parsed, Signature, StatedSharding};
use shardwright_mesh::{AbstractMesh, HloSharding, MeshError};
use shardwright_partition::{
    DimRule, Lint, LintOptions, MeshChoiceError, Pins, RuleOptions, RulesFile, Severity, ShardRules,
    ShardedHlo, ShardedModule, ShardingPlan, choose_mesh, lint,
};
use shardwright_pjrt::ProgramFormat;
use shardwright_runtime::compile::ForeignProgram;

use super::console::{self, Verbosity};
use super::failure::{Cause, Failure};
use super::value::Value;

/// How rules are written, for the help of commands that have them.
pub(super) const RULES_HELP: &str = "\
Rules, PATTERN=PLACEMENT; of those that match, the last one counts:
  params.*=fsdp       arguments by name: one dim of each is split over the axis, as FSDP does
                      (* is any text; params['layers'][0]['wq'] is params.layers.0.wq)
  x=(data,fsdp)       dim 0 is split over both axes, the rest is whole
  w1=(-, fsdp)        a spec, an entry for each dim; [data, fsdp] is one too
  *.bias=replicated   whole on every device
  x=batch             what it is, and so where it lies: parameter, state, batch or other
  #3=fsdp  #0..12=…   arguments by index, from 0
  f32[*,128]=…        arguments by type
  kind:parameter=…    arguments by what they are
  out:loss=…          outputs
  op:dot_general=…    results of ops, by op, source (op:model.py:12) or scope (op:jit(f)/*)

Without rules, what is donated and given back is a parameter, or optimizer state if no
loss needs it; what is not donated and agrees in dim 0 is the batch.

A rules file has the same words:
  {\"mesh\": \"data=2,fsdp=4\", \"axis\": \"fsdp\",
   \"shard\": {\"params.*\": \"fsdp\", \"w1\": [null, \"fsdp\"]}, \"donate\": [\"params.*\"]}";

/// What to do with bytecode.
pub(super) const EXPORT_HINT: &str =
    "export it as StableHLO text (`lowered.as_text()` in JAX) or as an HLO proto";

/// The axis of meshes whose axes nobody names.
const DEVICE_AXIS: &str = "device";

/// A program, the mesh that it is for, and the rules for its arrays.
#[derive(Debug, Args)]
#[command(next_help_heading = "Program")]
pub(super) struct ProgramArgs {
    /// The program: StableHLO text, an HLO proto or StableHLO bytecode; - is stdin
    #[arg(value_name = "IN")]
    input: OsString,
    /// Devices as axes with their sizes, such as data=2,fsdp=4 [default: the program's own mesh, or where that has no
    /// names, device=N]
    #[arg(long, value_name = "AXIS=SIZE,...")]
    mesh: Option<String>,
    /// Where arrays lie or what they are; can be given again, after the rules of --rules
    #[arg(long, value_name = "RULE")]
    shard: Vec<String>,
    /// Arguments that give up their memory to outputs of their type, in order; can be given again
    #[arg(long, value_name = "PATTERN")]
    donate: Vec<String>,
    /// A JSON file of rules
    #[arg(long, value_name = "FILE")]
    rules: Option<PathBuf>,
    /// The axis that parameters are split over [default: fsdp, or the only axis of the mesh]
    #[arg(long = "fsdp_axis", value_name = "AXIS")]
    fsdp_axis: Option<String>,
    /// Which dim of a parameter is split: largest_divisible, strict_largest, dim0 [default: largest_divisible]
    #[arg(long = "fsdp_dim_rule", value_name = "RULE")]
    fsdp_dim_rule: Option<String>,
    /// What is pinned inside StableHLO text: arguments (only what rules and the program say), or fsdp (weights where
    /// they are used, and gradients, of parameters that are split as FSDP does) [default: fsdp]
    #[arg(long, value_name = "WHAT")]
    pin: Option<String>,
}

/// What is asked of a program, read once and checked as far as that goes without it and without devices.
#[derive(Debug)]
pub(super) struct Asked {
    rules: ShardRules,
    /// Who says what the mesh is, and the words.
    mesh: Option<(String, String)>,
    axis: Option<String>,
    dim_rule: DimRule,
    /// Whether the program may run whole on one device, where nobody says what the mesh is.
    may_be_whole: bool,
}

/// A program that was read.
#[derive(Clone, Debug)]
pub(super) struct Program {
    /// What it is called in messages: its path.
    pub(super) origin: String,
    pub(super) form: ProgramForm,
}

/// The forms in which programs come.
#[derive(Clone, Debug)]
pub(super) enum ProgramForm {
    /// StableHLO text.
    Text(Box<Parsed>),
    /// An HLO proto.
    Hlo(Box<HloProgram>),
    /// StableHLO bytecode, which only plugins read.
    Bytecode(ForeignProgram),
}

/// A program with the plan for its arrays.
#[derive(Clone, Debug)]
pub(super) struct PlannedProgram {
    pub(super) program: Program,
    pub(super) plan: ShardingPlan,
    /// What is worth knowing about the plan.
    pub(super) lints: Vec<Lint>,
    rules: ShardRules,
}

/// A program that is pinned as its plan says.
#[derive(Clone, Debug)]
pub(super) enum ShardedProgram {
    /// It came as text.
    Module(Box<ShardedModule>),
    /// It came as an HLO proto.
    Hlo(Box<ShardedHlo>),
}

impl ProgramArgs {
    /// Reads the program.
    pub(super) fn read(&self) -> Result<Program, Failure> {
        let (origin, bytes) = self.bytes()?;
        let wrong = |error: anyhow::Error| Failure::new(Cause::Input, error.context(origin.clone()));
        let recognised = ForeignProgram::recognise(&bytes).map_err(|error| wrong(error.into()))?;
        let form = match (recognised.format(), std::str::from_utf8(recognised.code())) {
            (ProgramFormat::Hlo, _) => {
                ProgramForm::Hlo(Box::new(HloProgram::read(&bytes).map_err(|error| wrong(error.into()))?))
            }
            (_, Ok(text)) => ProgramForm::Text(Box::new(
                shardwright_hlo::parse(text).map_err(|error| wrong(error.into()))?,
            )),
            (_, Err(_)) => ProgramForm::Bytecode(recognised),
        };
        Ok(Program { origin, form })
    }

    /// Whether nothing is said of where arrays lie.
    pub(super) fn asks_for_nothing(&self) -> bool {
        let ProgramArgs { mesh, shard, donate, rules, fsdp_axis, fsdp_dim_rule, pin, .. } = self;
        mesh.is_none()
            && shard.is_empty()
            && donate.is_empty()
            && rules.is_none()
            && fsdp_axis.is_none()
            && fsdp_dim_rule.is_none()
            && pin.is_none()
    }

    /// Reads what is asked of the program.
    pub(super) fn asked(&self) -> Result<Asked, Failure> {
        let file = self.rules_file()?;
        let mut rules = file.rules;
        for rule in &self.shard {
            rules.push(rule).map_err(|error| input("--shard", error))?;
        }
        for pattern in &self.donate {
            rules.donate(pattern).map_err(|error| input("--donate", error))?;
        }
        if let Some(word) = &self.pin {
            let unknown = || Failure::input(format!("--pin: expected {}, found {word:?}", Pins::wanted()));
            rules.pin(Pins::parse(word).ok_or_else(unknown)?);
        }
        let dim_rule = match &self.fsdp_dim_rule {
            Some(text) => DimRule::parse(text).ok_or_else(|| {
                Failure::input(format!("--fsdp_dim_rule: expected {}, found {text:?}", DimRule::wanted()))
            })?,
            None => DimRule::default(),
        };
        let of_flag = self.mesh.clone().map(|text| ("--mesh".to_owned(), text));
        let mesh = of_flag.or_else(|| Some((format!("{}: mesh", self.rules_origin()), file.mesh?)));
        let axis = self.fsdp_axis.clone().or(file.axis);
        Ok(Asked { rules, mesh, axis, dim_rule, may_be_whole: self.shard.is_empty() })
    }

    fn bytes(&self) -> Result<(String, Vec<u8>), Failure> {
        if self.input == "-" {
            let mut bytes = Vec::new();
            io::stdin().lock().read_to_end(&mut bytes).map_err(|error| input("stdin", error))?;
            return Ok(("stdin".to_owned(), bytes));
        }
        let path = Path::new(&self.input);
        let bytes = fs::read(path).map_err(|error| input(&path.display().to_string(), error))?;
        Ok((path.display().to_string(), bytes))
    }

    fn rules_origin(&self) -> String {
        self.rules.as_deref().unwrap_or(Path::new("")).display().to_string()
    }

    fn rules_file(&self) -> Result<RulesFile, Failure> {
        let Some(path) = &self.rules else { return Ok(RulesFile::default()) };
        let origin = self.rules_origin();
        let text = fs::read_to_string(path).map_err(|error| input(&origin, error))?;
        RulesFile::parse(&text, &origin).map_err(|error| Failure::new(Cause::Input, error))
    }
}

impl Asked {
    /// Whether the size of an axis is left to the number of devices.
    pub(super) fn leaves_a_size(&self) -> bool {
        let parsed = self.mesh.as_ref().map(|(_, text)| AbstractMesh::parse(text));
        matches!(parsed, Some(Err(MeshError::OpenAxis { .. })))
    }

    /// Plans a program. `devices` is how many there are, where that is known: then a size of the mesh may be -1.
    pub(super) fn plan(self, program: Program, devices: Option<usize>) -> Result<PlannedProgram, Failure> {
        self.plan_or(program, devices, None)
    }

    /// The same, for one device where neither the flags nor the program say what the mesh is.
    pub(super) fn plan_or_whole(
        self,
        program: Program,
        devices: Option<usize>,
    ) -> Result<PlannedProgram, Failure> {
        let default = self.may_be_whole.then(one_device);
        self.plan_or(program, devices, default)
    }

    fn plan_or(
        self,
        program: Program,
        devices: Option<usize>,
        default: Option<AbstractMesh>,
    ) -> Result<PlannedProgram, Failure> {
        let Asked { rules, mesh, axis, dim_rule, .. } = self;
        let asked = mesh.map(|(source, text)| parse_mesh(&source, &text, devices)).transpose()?;
        let Outside { signature, known, meshes } = program.outside()?;
        let wrong = |error: anyhow::Error| Failure::new(Cause::Input, error.context(program.origin.clone()));
        let unnamed = unnamed_mesh(&signature);
        let (mesh, is_unnamed) = match (choose_mesh(&signature, &meshes, asked), unnamed.or(default)) {
            (Err(MeshChoiceError::None), Some(other)) => (other, true),
            (chosen, _) => (chosen.map_err(|error| wrong(error.into()))?, false),
        };
        let options = RuleOptions { axis, dim_rule, ..known };
        let plan = ShardingPlan::by_rules(&signature, &mesh, &rules, &options);
        let plan = plan.map_err(|error| match is_unnamed {
            true => wrong(error.into())
                .with_hint("--mesh names the axes of its mesh, such as --mesh data=2,fsdp=4"),
            false => wrong(error.into()),
        })?;
        let lints = lint(&plan, &LintOptions { devices, ..LintOptions::default() });
        Ok(PlannedProgram { program, plan, lints, rules })
    }
}

/// The mesh of a program that numbers its devices and names no axes: one axis over all of them.
fn unnamed_mesh(signature: &Signature) -> Option<AbstractMesh> {
    let arguments = signature.arguments.iter().map(|argument| &argument.stated);
    let stated = arguments.chain(signature.outputs.iter().map(|output| &output.stated)).flatten();
    let devices = stated.filter_map(|stated| match stated {
        StatedSharding::Hlo(sharding) => match &**sharding {
            HloSharding::Tiled(tiles) => Some(tiles.devices().len()),
            _ => None,
        },
        StatedSharding::Sdy { .. } => None,
    });
    AbstractMesh::new([(DEVICE_AXIS, devices.max()?)]).ok()
}

/// What a plan has to know of a program.
struct Outside {
    signature: Signature,
    /// What is known of its inside, and nothing else asked for.
    known: RuleOptions,
    /// The meshes that it defines.
    meshes: Vec<AbstractMesh>,
}

impl Program {
    fn outside(&self) -> Result<Outside, Failure> {
        match &self.form {
            ProgramForm::Text(parsed) => {
                let meshes = parsed.stated.meshes.iter().map(|(_, mesh)| mesh.shape().clone());
                Ok(Outside {
                    signature: parsed.signature(),
                    known: RuleOptions::for_module(&parsed.module),
                    meshes: meshes.filter(|mesh| !mesh.axes().is_empty()).collect(),
                })
            }
            ProgramForm::Hlo(program) => Ok(Outside {
                signature: program.signature().clone(),
                known: RuleOptions { needed: Some(program.needed_by_results()), ..RuleOptions::default() },
                meshes: Vec::new(),
            }),
            ProgramForm::Bytecode(program) => Err(Failure::input(format!(
                "{}: the program is MLIR bytecode{}, into which no shardings are written",
                self.origin,
                program.stablehlo_version().map(|v| format!(" of StableHLO {v}")).unwrap_or_default()
            ))
            .with_hint(EXPORT_HINT)),
        }
    }
}

impl PlannedProgram {
    /// The program, pinned as its plan says.
    pub(super) fn sharded(&self) -> Result<ShardedProgram, Failure> {
        let wrong =
            |error: anyhow::Error| Failure::new(Cause::Input, error.context(self.program.origin.clone()));
        match &self.program.form {
            ProgramForm::Text(parsed) => {
                let sharded = ShardedModule::from_parsed(Parsed::clone(parsed), &self.plan, &self.rules);
                sharded.map(|s| ShardedProgram::Module(Box::new(s))).map_err(|error| wrong(error.into()))
            }
            ProgramForm::Hlo(program) => {
                let sharded = ShardedHlo::from_plan(program, &self.plan, &self.rules);
                sharded.map(|s| ShardedProgram::Hlo(Box::new(s))).map_err(|error| wrong(error.into()))
            }
            ProgramForm::Bytecode(_) => unreachable!("there are no plans for bytecode"),
        }
    }
}

/// Tells warnings, and notes too where more is asked for; of many about one thing, the first and how many. `all` is what
/// lists the others, if anything does.
pub(super) fn tell_lints(lints: &[Lint], verbosity: Verbosity, all: Option<&str>) {
    const SHOWN: usize = 3;
    let is_told = |lint: &&Lint| match verbosity {
        Verbosity::Quiet => false,
        Verbosity::Normal => lint.severity == Severity::Warning,
        Verbosity::Verbose => true,
    };
    let mut rest: Vec<&Lint> = lints.iter().filter(is_told).collect();
    while let Some(first) = rest.first().map(|lint| (lint.severity, lint.code)) {
        let (alike, others): (Vec<_>, Vec<_>) = rest.into_iter().partition(|l| (l.severity, l.code) == first);
        for lint in alike.iter().take(SHOWN) {
            console::note(format!("{}: {lint}", lint.severity));
        }
        if alike.len() > SHOWN {
            let (severity, code) = first;
            let all = all.map(|all| format!("; {all} lists all")).unwrap_or_default();
            console::note(format!("{severity}: {} more [{code}]{all}", alike.len() - SHOWN));
        }
        rest = others;
    }
}

/// The mesh of programs that are not split.
pub(super) fn one_device() -> AbstractMesh {
    AbstractMesh::new([(DEVICE_AXIS, 1)]).expect("one device is a mesh")
}

fn parse_mesh(source: &str, text: &str, devices: Option<usize>) -> Result<AbstractMesh, Failure> {
    match devices {
        Some(devices) => AbstractMesh::parse_for(text, devices).map_err(|error| input(source, error)),
        None => AbstractMesh::parse(text).map_err(|error| match error {
            MeshError::OpenAxis { .. } => {
                input(source, error).with_hint("`shard` opens no plugin that has devices; write the size")
            }
            error => input(source, error),
        }),
    }
}

/// Something that a user gave is wrong.
fn input(source: &str, error: impl Into<anyhow::Error>) -> Failure {
    Failure::new(Cause::Input, error.into().context(source.to_owned()))
}
