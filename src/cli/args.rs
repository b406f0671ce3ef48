//! The command line as written: commands, flags, help, and one-line errors.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::builder::Styles;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgAction, ArgMatches, Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use shardwright_pjrt::ClientOptions;
use shardwright_runtime::RuntimeOptions;

use super::compiler::CompilerArgs;
use super::console::Verbosity;
use super::explain::{self, ExplainArgs};
use super::failure::Failure;
use super::foreign;
use super::names::{explain_unknown, nearest};
use super::program::RULES_HELP;
use super::record::RecordArgs;
use super::run_program::{self, RunArgs};
use super::settings::{self, Given, Layer, Origin, Written, specs};
use super::shard::{self, ShardArgs};
use super::value::Arity;

/// Virtual devices of a CPU plugin where nobody says how many.
const CPU_DEVICES: usize = 8;

/// The most of them. A CPU plugin starts threads for each, and aborts or hangs with many more.
const MAX_CPU_DEVICES: usize = ClientOptions::MOST_CPU_DEVICES;

const EXIT_CODES: &str = "\
Exit codes:
    0  done
    1  the run failed
    2  a flag, a setting or an input is wrong
    3  no plugin, or its devices cannot be used
  130  interrupted";

const ENVIRONMENT: &str = "\
Environment:
  SHARDWRIGHT_PLUGIN     the plugin where --plugin is not given
  SHARDWRIGHT_CACHE_DIR  where plugins, compiled programs and tokens are kept
                         [default: ~/.cache/shardwright, or in XDG_CACHE_HOME]
  SHARDWRIGHT_COMPILE_CACHE
                         where compiled programs are kept where --compile_cache is not given; if neither is,
                         XLA_PERSISTENT_CACHE_PATH and XLA_PERSISTENT_CACHE_READ_ONLY count
  SHARDWRIGHT_COMPILE_CACHE_LIMIT
                         the most gibibytes that are kept of compiled programs [default: 4]
  SHARDWRIGHT_PYTHON     the Python whose pip downloads plugins [default: python3]
  CPU_NUM_DEVICES        virtual devices of a CPU plugin where --cpu_devices is not given
  XLA_FLAGS              flags for the compiler, before those of --xla_flags; they are checked
  XLA_USE_BF16, ACCELERATE_MIXED_PRECISION, ACCELERATE_USE_FSDP, FSDP_*
                         settings of a run as PyTorch/XLA and `accelerate launch` have them; flags and RUN.json win
  PJRT_DEVICE            the kind of device, CPU, TPU or GPU [default: TPU where there is one, else CPU]
  TPU_LIBRARY_PATH, PJRT_NAMES_AND_LIBRARY_PATHS, PJRT_PLUGIN_LIBRARY_PATH
                         plugins, as other projects name them; `shardwright doctor` tells which
                         one is used";

const DOCTOR_ABOUT: &str = "\
Tell what a run would work with here: the plugin and why it is the one, its devices, the cache, the machine and the \
environment. Each fact is ok, a warning or a problem, with the next step. The plugin is loaded in a process of its own. \
Nothing is downloaded or changed. Ends with 0 unless there is a problem, which ends it with 3.";

const DOCTOR_JSON: &str = "\
Keys of --json:
  shardwright  the version of this program
  healthy      whether there is no problem
  plugin       name, path, chosen (by which rule), package, pjrt_api, stablehlo (oldest and
               newest), xla, extensions, missing_functions, platform, devices (how many);
               each null where it is not known
  checks       a list of section, name, status (ok, warning, problem), text, next";

const TRAIN_ABOUT: &str = "\
Train a causal language model (Llama, Mistral, Qwen or Gemma), sharded over the devices of a PJRT plugin.

Settings have the names of Hugging Face's TrainingArguments and run_clm.py. Each is a flag, spelled with underscores or \
dashes, and a key of RUN.json; flags win. Relative paths begin at the working directory in flags, and at the folder of \
RUN.json in that file. A yes|no setting alone means yes. Other settings of Hugging Face's are known: what would change \
the run is refused with its reason, what would not is noted.";

/// Without clap's one-line description, which the text before the usage stands for; a long description would make clap
/// spread every flag over three lines.
const TEMPLATE: &str = "{before-help}{usage-heading} {usage}\n\n{all-args}{after-help}";

const TRAIN_EXAMPLES: &str = "\
Examples:
  shardwright train run.json
  shardwright train run.json --max_steps 20 --mesh data=2,fsdp=4
  shardwright train --config_name config.json --train_file text/ --output_dir out \\
      --fsdp full_shard --fsdp_config fsdp_config.json --per_device_train_batch_size 1

  fsdp_config.json, as PyTorch/XLA's FSDPv2 has it:
  {
    \"fsdp_transformer_layer_cls_to_wrap\": [\"LlamaDecoderLayer\"],
    \"xla\": true,
    \"xla_fsdp_v2\": true,
    \"xla_fsdp_grad_ckpt\": true
  }";

/// Train sharded language models with XLA, through PJRT plugins.
#[derive(Debug, Parser)]
#[command(name = "shardwright", version, styles = Styles::styled(), disable_help_subcommand = true)]
#[command(subcommand_required = true, arg_required_else_help = true)]
#[command(after_help = format!("{ENVIRONMENT}\n\n{EXIT_CODES}"))]
pub(super) struct Cli {
    #[command(flatten)]
    pub(super) global: GlobalArgs,
    #[command(subcommand)]
    pub(super) command: Command,
}

/// Flags of every command.
#[derive(Debug, Args)]
#[command(next_help_heading = "General")]
pub(super) struct GlobalArgs {
    /// The PJRT plugin: a name that `shardwright plugins` lists, or the path of a shared library
    #[arg(long, global = true, value_name = "NAME|PATH")]
    pub(super) plugin: Option<OsString>,
    /// Never download a plugin
    #[arg(long, global = true)]
    pub(super) offline: bool,
    /// Virtual devices of a CPU plugin, at most 1024 [default: 8]
    #[arg(long = "cpu_devices", global = true, value_name = "N")]
    cpu_devices: Option<String>,
    #[command(flatten)]
    pub(super) compile: CompileArgs,
    /// Show the sharding plan and the log; twice for more of the log
    #[arg(short, long, global = true, action = ArgAction::Count)]
    pub(super) verbose: u8,
    /// Show results and errors only
    #[arg(short, long, global = true)]
    quiet: bool,
    #[command(flatten)]
    pub(super) compiler: CompilerArgs,
    #[command(flatten)]
    pub(super) records: RecordArgs,
}

/// Flags about compilation.
#[derive(Debug, Args)]
pub(super) struct CompileArgs {
    /// Where compiled programs are kept: on, off, ro (only read), a folder such as ./compiled, or a folder and `:ro`
    /// [default: on]
    #[arg(id = "compile_cache", long = "compile_cache", global = true, value_name = "WHERE")]
    pub(super) cache: Option<OsString>,
    /// Seconds after which a compiler is given up, on CPUs [default: 3600]
    #[arg(id = "compile_timeout", long = "compile_timeout", global = true, value_name = "SECONDS")]
    pub(super) timeout: Option<String>,
    /// Gibibytes of address space that a compiler may use, on CPUs [default: no limit]
    #[arg(id = "compile_memory", long = "compile_memory", global = true, value_name = "GIB")]
    pub(super) memory: Option<String>,
    /// Compile in this process: one less to start, a compiler that aborts ends the run, and nothing limits it
    #[arg(id = "compile_in_process", long = "compile_in_process", global = true)]
    pub(super) in_process: bool,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Train a model
    #[command(before_help = TRAIN_ABOUT, help_template = TEMPLATE)]
    #[command(after_help = format!("{TRAIN_EXAMPLES}\n\n{ENVIRONMENT}\n\n{EXIT_CODES}"))]
    Train(TrainArgs),
    /// Compile a program and run it on inputs from files or from a seed
    #[command(before_help = run_program::ABOUT, help_template = TEMPLATE)]
    #[command(after_help = format!("{}\n\n{RULES_HELP}\n\n{ENVIRONMENT}\n\n{EXIT_CODES}", run_program::EXAMPLES))]
    Run(Box<RunArgs>),
    /// Write on a program of any framework where its arrays lie
    #[command(before_help = shard::ABOUT, help_template = TEMPLATE)]
    #[command(after_help = format!("{RULES_HELP}\n\n{}\n\n{EXIT_CODES}", shard::EXAMPLES))]
    Shard(ShardArgs),
    /// Compile a program and tell what the compiler made of it
    #[command(before_help = explain::ABOUT, help_template = TEMPLATE)]
    #[command(after_help = format!("{}\n\n{RULES_HELP}\n\n{ENVIRONMENT}\n\n{EXIT_CODES}", explain::EXAMPLES))]
    Explain(Box<ExplainArgs>),
    /// List the devices of the plugin
    Devices,
    /// Tell what a run would work with here, and what stands in its way
    #[command(before_help = DOCTOR_ABOUT, help_template = TEMPLATE)]
    #[command(after_help = format!("{DOCTOR_JSON}\n\n{ENVIRONMENT}\n\n{EXIT_CODES}"))]
    Doctor(DoctorArgs),
    /// List the plugins that are known by a name, fetch them, or check those that were fetched
    Plugins {
        #[command(subcommand)]
        action: Option<PluginsAction>,
    },
}

/// The flags of `doctor`.
#[derive(Debug, Args)]
pub(super) struct DoctorArgs {
    /// Write one JSON object
    #[arg(long)]
    pub(super) json: bool,
    /// How long the plugin may take to load and to open its devices
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub(super) timeout: u64,
    /// Load this plugin and tell the parent process about it
    #[arg(long, hide = true, value_name = "PATH")]
    pub(super) probe: Option<PathBuf>,
}

/// What to do with plugins.
#[derive(Debug, Subcommand)]
pub(super) enum PluginsAction {
    /// List the plugins that are known by a name (the default)
    List,
    /// Fetch a plugin into the cache
    Fetch {
        /// Its name [default: the plugin that commands use]
        name: Option<OsString>,
    },
    /// Compare the plugins in the cache with their digests
    Verify,
}

/// The settings of `train` that are flags.
#[derive(Debug)]
pub(super) struct TrainArgs {
    pub(super) run_file: Option<OsString>,
    pub(super) flags: Layer,
}

/// What became of the command line.
pub(super) enum Parsed {
    /// There is something to do.
    Run(Box<Cli>),
    /// Help or the version was asked for, and printed.
    Told(ExitCode),
}

/// Reads a command line; the first word is the program.
pub(super) fn parse(words: impl IntoIterator<Item = OsString>) -> Result<Parsed, Failure> {
    let words = normalised(words);
    let cli = match Cli::try_parse_from(&words) {
        Ok(cli) => cli,
        Err(error) => return told_or_failed(&error, &words),
    };
    cli.global.check()?;
    Ok(Parsed::Run(Box::new(cli)))
}

/// The words with underscores in the names of flags, and with negative numbers joined to the flags before them, which
/// clap would take for flags where they have an exponent.
fn normalised(words: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut joined: Vec<OsString> = Vec::new();
    for word in words.into_iter().map(with_underscores) {
        let is_negative =
            word.to_str().is_some_and(|text| text.starts_with('-') && text.parse::<f64>().is_ok());
        match joined.last_mut() {
            Some(flag)
                if is_negative && flag.to_str().is_some_and(|f| f.starts_with("--") && !f.contains('=')) =>
            {
                flag.push("=");
                flag.push(word);
            }
            _ => joined.push(word),
        }
    }
    joined
}

/// A flag with the dashes in its name as underscores: HF's scripts take both.
fn with_underscores(word: OsString) -> OsString {
    let Some(flag) = word.to_str().and_then(|text| text.strip_prefix("--")) else { return word };
    let (name, value) = match flag.split_once('=') {
        Some((name, value)) => (name, format!("={value}")),
        None => (flag, String::new()),
    };
    // A value that begins with dashes is no flag of ours.
    if name.contains(char::is_whitespace) {
        return word;
    }
    let name = name.replace('-', "_");
    // HF's scripts have such a flag for what is on by default.
    let is_switch = |name: &&str| match settings::find(name) {
        Some(spec) => spec.arity == Arity::Optional,
        None => foreign::find(name).is_some(),
    };
    match name.strip_prefix("no_").filter(is_switch).filter(|_| value.is_empty()) {
        Some(switch) => format!("--{switch}=no").into(),
        None => format!("--{name}{value}").into(),
    }
}

impl GlobalArgs {
    pub(super) fn verbosity(&self) -> Verbosity {
        match (self.quiet, self.verbose) {
            (true, _) => Verbosity::Quiet,
            (false, 0) => Verbosity::Normal,
            (false, _) => Verbosity::Verbose,
        }
    }

    /// How a plugin is to be opened. Commands that open none have no use for this, nor for the variables.
    pub(super) fn runtime_options(&self) -> Result<RuntimeOptions, Failure> {
        self.runtime_options_for(None)
    }

    /// The same for a program that needs so many devices, where that is known.
    pub(super) fn runtime_options_for(&self, devices: Option<usize>) -> Result<RuntimeOptions, Failure> {
        let mut options = self.compiler.runtime_options()?;
        options.cpu_devices = Some(self.cpu_devices_or(devices.unwrap_or(CPU_DEVICES))?);
        Ok(options)
    }

    /// How many virtual devices a CPU plugin shall have; other plugins have the devices that there are.
    pub(super) fn cpu_devices(&self) -> Result<usize, Failure> {
        self.cpu_devices_or(CPU_DEVICES)
    }

    /// The same, with `default` or the most that there can be where nobody says how many.
    fn cpu_devices_or(&self, default: usize) -> Result<usize, Failure> {
        let variable = std::env::var_os("CPU_NUM_DEVICES").filter(|value| !value.is_empty());
        match (&self.cpu_devices, variable) {
            (Some(text), _) => device_count("--cpu_devices", text),
            (None, Some(value)) => device_count("CPU_NUM_DEVICES", &value.to_string_lossy()),
            (None, None) => match self.compiler.flags()?.host_devices()? {
                Some(count) => device_count("--xla_force_host_platform_device_count", &count.to_string()),
                None => Ok(default.min(MAX_CPU_DEVICES)),
            },
        }
    }

    /// Refuses flags that are wrong for every command.
    fn check(&self) -> Result<(), Failure> {
        self.cpu_devices.as_ref().map_or(Ok(()), |text| device_count("--cpu_devices", text).map(|_| ()))
    }
}

fn device_count(source: &str, text: &str) -> Result<usize, Failure> {
    match text.parse() {
        Ok(count @ 1..=MAX_CPU_DEVICES) => Ok(count),
        _ => Err(Failure::input(format!(
            "{source}: expected a whole number from 1 to {MAX_CPU_DEVICES}, found {text:?}"
        ))),
    }
}

impl Args for TrainArgs {
    fn augment_args(command: clap::Command) -> clap::Command {
        let run_file = Arg::new("RUN.json")
            .value_parser(clap::value_parser!(OsString))
            .help("A JSON file of settings; write it before the flags");
        let flags = specs().map(flag).chain(foreign::names().map(foreign_flag));
        flags.fold(command.arg(run_file), clap::Command::arg)
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for TrainArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut flags = Layer::new();
        for name in specs().map(|spec| spec.name).chain(foreign::names()) {
            if let Some(words) = matches.get_many::<OsString>(name) {
                let written = Written::Words(words.cloned().collect());
                flags.insert(name, Given { written, origin: Origin::Flag });
            }
        }
        Ok(TrainArgs { run_file: matches.get_one("RUN.json").cloned(), flags })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

fn flag(spec: &'static settings::Spec) -> Arg {
    let default = match spec.default {
        // A switch that is off where nobody speaks of it needs no words.
        Some(default) if spec.arity != Arity::Optional || default != "no" => format!(" [default: {default}]"),
        _ => String::new(),
    };
    let arg = Arg::new(spec.name)
        .long(spec.name)
        .aliases(spec.aliases)
        .help_heading(spec.heading)
        .help(format!("{}{default}", spec.help.trim()))
        .value_name(spec.placeholder)
        .value_parser(clap::value_parser!(OsString));
    match spec.arity {
        Arity::One => arg.overrides_with(spec.name),
        Arity::Optional => arg.overrides_with(spec.name).num_args(0..=1).default_missing_value("yes"),
        Arity::Many => arg.action(ArgAction::Append).num_args(1..),
    }
}

/// A flag that is known and not shown: it takes what it may take elsewhere.
fn foreign_flag(name: &'static str) -> Arg {
    Arg::new(name)
        .long(name)
        .hide(true)
        .value_parser(clap::value_parser!(OsString))
        .overrides_with(name)
        .num_args(0..)
        .default_missing_value("yes")
}

/// Prints help that was asked for; turns anything else into one line.
fn told_or_failed(error: &clap::Error, words: &[OsString]) -> Result<Parsed, Failure> {
    let context = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => text.clone(),
        _ => String::new(),
    };
    let argument = context(ContextKind::InvalidArg);
    match error.kind() {
        ErrorKind::DisplayHelp
        | ErrorKind::DisplayVersion
        | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            // Where it cannot be printed, nobody reads it.
            let _ = error.print();
            Ok(Parsed::Told(if error.use_stderr() { ExitCode::from(2) } else { ExitCode::SUCCESS }))
        }
        ErrorKind::UnknownArgument => Err(unknown_argument(&argument, words)),
        ErrorKind::InvalidSubcommand => {
            let given = context(ContextKind::InvalidSubcommand);
            let all = Cli::command();
            let (_, command) = command_of(&all, words);
            let known: Vec<&str> = command.get_subcommands().map(clap::Command::get_name).collect();
            let nearest = nearest(&given, &known).map(|name| format!("; did you mean {name}?"));
            let failure =
                Failure::input(format!("command {given} is unknown{}", nearest.unwrap_or_default()));
            Err(failure.with_hint("`shardwright --help` lists the commands"))
        }
        ErrorKind::MissingRequiredArgument => {
            let missing = match error.get(ContextKind::InvalidArg) {
                Some(ContextValue::Strings(names)) => names.join(", "),
                _ => argument,
            };
            match missing.as_str() {
                // The program, where `explain` has flags of its own and then the name of its subcommand.
                "" => Err(Failure::input("explain takes a program, or `train` and its settings")
                    .with_hint("flags of a run stand behind the word train")),
                missing => {
                    Err(Failure::input(format!("{missing} is missing")).with_hint("--help tells what it is"))
                }
            }
        }
        ErrorKind::InvalidValue if context(ContextKind::InvalidValue).is_empty() => {
            let flag = argument.split(' ').next().unwrap_or(&argument);
            Err(Failure::input(format!("{flag}: a value must follow")))
        }
        _ => {
            let text = error.to_string();
            let line = text.lines().next().unwrap_or_default();
            Err(Failure::input(line.strip_prefix("error: ").unwrap_or(line)))
        }
    }
}

/// `words` are the whole command line, which tells the command that has no such argument.
fn unknown_argument(argument: &str, words: &[OsString]) -> Failure {
    let Some(name) = argument.strip_prefix("--") else {
        if argument.starts_with('-') {
            return Failure::input(format!("flag {argument} is unknown"));
        }
        return Failure::input(format!("argument {argument} is one too many"))
            .with_hint("commands take one file; all other settings are flags");
    };
    let all = Cli::command();
    let flags = |command: &clap::Command| -> Vec<String> {
        command
            .get_arguments()
            .filter(|arg| !arg.is_hide_set())
            .filter_map(Arg::get_long)
            .map(str::to_owned)
            .collect()
    };
    let (asked, command) = command_of(&all, words);
    let known: Vec<String> = flags(&all).into_iter().chain(flags(command)).collect();
    let known: Vec<&str> = known.iter().map(String::as_str).collect();
    let why = match all.get_subcommands().find(|other| flags(other).iter().any(|flag| flag == name)) {
        Some(other) => format!("is a flag of `shardwright {}`", other.get_name()),
        None => explain_unknown(name, "--", &known, if asked.is_empty() { "train" } else { &asked }),
    };
    Failure::input(format!("flag --{name} {why}"))
}

/// The command that a command line asks for, and its name with those of the commands that it is one of, such as `explain
/// train`; all of them where it asks for none.
fn command_of<'a>(all: &'a clap::Command, words: &[OsString]) -> (String, &'a clap::Command) {
    let (mut names, mut command) = (Vec::new(), all);
    for word in words.iter().skip(1) {
        if let Some(inner) = command.find_subcommand(word) {
            names.push(inner.get_name());
            command = inner;
        }
    }
    (names.join(" "), command)
}
