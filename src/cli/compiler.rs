//! Flags of the command line that are about the compiler.

use std::path::PathBuf;

use clap::Args;
use shardwright_pjrt::EffortLevel;
use shardwright_runtime::{CompilerFlags, DumpOptions, RuntimeOptions};

use super::failure::Failure;
use super::quiet;

/// How programs are compiled.
#[derive(Debug, Args)]
#[command(next_help_heading = "Compiler")]
pub(super) struct CompilerArgs {
    /// Flags for XLA, as in the variable XLA_FLAGS: "--xla_a=1 --xla_b"; may be given again
    #[arg(long = "xla_flags", global = true, value_name = "FLAGS", allow_hyphen_values = true)]
    xla_flags: Vec<String>,
    /// How much the compiler does for a fast program: O0 to O3; not all plugins heed it
    #[arg(long = "optimization_level", global = true, value_name = "LEVEL")]
    optimization_level: Option<String>,
    /// Write each program, as it goes to the compiler and as the compiler leaves it, to this folder
    #[arg(long = "dump_to", global = true, value_name = "FOLDER")]
    dump_to: Option<PathBuf>,
    /// Also write the program before and after each compiler pass that this regular expression finds
    #[arg(long = "dump_passes", global = true, value_name = "REGEX")]
    dump_passes: Option<String>,
}

impl CompilerArgs {
    /// XLA's flags: those of the environment, then those of the command line.
    pub(super) fn flags(&self) -> Result<CompilerFlags, Failure> {
        let mut flags = quiet::xla_flags()?;
        for text in &self.xla_flags {
            flags.extend(CompilerFlags::parse("--xla_flags", text)?);
        }
        Ok(flags)
    }

    /// The flags that decide whether a plugin opens, as they are written for another process of this program.
    pub(super) fn words(&self) -> Vec<String> {
        let level = self.optimization_level.iter().map(|level| format!("--optimization_level={level}"));
        self.xla_flags.iter().map(|flags| format!("--xla_flags={flags}")).chain(level).collect()
    }

    /// The part of the options that is about the compiler.
    pub(super) fn runtime_options(&self) -> Result<RuntimeOptions, Failure> {
        let mut options = RuntimeOptions::default();
        options.compiler.flags = self.flags()?;
        options.compiler.effort.optimization_level =
            self.optimization_level.as_deref().map(level).transpose()?;
        let passes = self.dump_passes.clone();
        if passes.is_some() && self.dump_to.is_none() {
            return Err(Failure::input("--dump_passes: --dump_to must say where"));
        }
        options.compiler.dump = self.dump_to.clone().map(|folder| DumpOptions { folder, passes });
        Ok(options)
    }
}

fn level(text: &str) -> Result<EffortLevel, Failure> {
    match text.to_uppercase().as_str() {
        "O0" => Ok(EffortLevel::O0),
        "O1" => Ok(EffortLevel::O1),
        "O2" => Ok(EffortLevel::O2),
        "O3" => Ok(EffortLevel::O3),
        _ => Err(Failure::input(format!("--optimization_level: expected O0, O1, O2 or O3, found {text:?}"))),
    }
}
