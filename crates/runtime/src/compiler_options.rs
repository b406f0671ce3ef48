use std::path::Path;
use std::sync::Arc;

use shardwright_pjrt::{CompileOptions, Effort, Error, OptionValue};

use crate::dump::Dump;
use crate::{CompilerFlags, DumpOptions, RuntimeError};

/// What all programs that a runtime or a topology compiles have in common.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CompilerOptions {
    /// Flags for the compiler, beside those of the variable `XLA_FLAGS`, which the plugin reads by itself.
    pub flags: CompilerFlags,
    /// How much the compiler is to do.
    pub effort: Effort,
    /// What is written down of the programs.
    pub dump: Option<DumpOptions>,
}

/// The same, checked by the compiler. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct CompilerSettings(Arc<Settings>);

#[derive(Debug)]
struct Settings {
    overrides: Vec<(String, OptionValue)>,
    effort: Effort,
    dump: Option<Dump>,
}

impl CompilerSettings {
    /// Makes the folder for dumps and tries the flags: `compile` compiles [`EMPTY_PROGRAM`](crate::flags::EMPTY_PROGRAM)
    /// with the plugin in this file.
    ///
    /// # Errors
    /// When a flag is wrong, or the folder cannot be made.
    pub(crate) fn new(
        options: &CompilerOptions,
        plugin: &Path,
        compile: impl Fn(&CompileOptions) -> Result<(), Error>,
    ) -> Result<CompilerSettings, RuntimeError> {
        let flags = options.flags.resolve(plugin, compile)?;
        let dump = options.dump.as_ref().map(Dump::new).transpose()?;
        let mut overrides = dump.as_ref().map(Dump::overrides).unwrap_or_default();
        for (name, value) in flags {
            if !overrides.iter().any(|(known, _)| *known == name) {
                overrides.push((name, value));
            }
        }
        Ok(CompilerSettings(Arc::new(Settings { overrides, effort: options.effort, dump })))
    }

    /// The options of a compilation, for one device of the plugin's choice.
    pub(crate) fn options(&self) -> CompileOptions {
        CompileOptions {
            effort: self.0.effort,
            env_option_overrides: self.0.overrides.clone(),
            ..CompileOptions::default()
        }
    }

    /// The options of a compilation as somebody else gives them, with what they do not say themselves.
    pub(crate) fn complete(&self, given: &CompileOptions) -> CompileOptions {
        let mut options = given.clone();
        for (name, value) in &self.0.overrides {
            if !options.env_option_overrides.iter().any(|(known, _)| known == name) {
                options.env_option_overrides.push((name.clone(), value.clone()));
            }
        }
        if options.effort == Effort::default() {
            options.effort = self.0.effort;
        }
        options
    }

    /// Writes a program down, if that is wanted.
    pub(crate) fn write_down(&self, program: &str, stablehlo: &str) -> Result<(), RuntimeError> {
        self.0.dump.as_ref().map_or(Ok(()), |dump| dump.write(program, stablehlo))
    }
}
