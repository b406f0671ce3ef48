//! Programs from elsewhere: what they are, seen by what is in them.
//!
//! A plugin takes MLIR (text or bytecode) and serialized `HloModuleProto`s, and of anything else says little, or
//! aborts. What can be seen from the outside is said here, before it gets that far.

use std::fmt;

use shardwright_hlo::proto::{HloError, hlo_module, hlo_module_name};
use shardwright_pjrt::{NamedValue, Plugin, ProgramFormat};
use thiserror::Error;

/// MLIR bytecode begins with these bytes.
const BYTECODE: &[u8] = b"ML\xefR";
/// How much of what nobody knows is shown.
const SHOWN_BYTES: usize = 24;

/// A program from elsewhere that is one as far as can be seen without a plugin.
#[derive(Clone, PartialEq, Eq)]
pub struct ForeignProgram {
    code: Vec<u8>,
    form: Form,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    MlirText,
    MlirBytecode,
    Hlo,
}

/// Bytes that are no program, or none that this plugin can compile.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum ProgramError {
    /// There is nothing.
    #[error("the program is empty; expected StableHLO, as text or bytecode, or a serialized HloModuleProto")]
    Empty,
    /// HLO's own text.
    #[error(
        "the program is HLO text, which plugins do not take; export StableHLO, or the module as a serialized \
         HloModuleProto"
    )]
    HloText,
    /// Text, but of something else.
    #[error("the program is text and neither StableHLO nor any other MLIR: it begins with {beginning:?}")]
    UnknownText {
        /// Its first characters.
        beginning: String,
    },
    /// Something that is no serialized module, or a damaged one.
    #[error(
        "the program is no StableHLO and no whole HloModuleProto: {reason}; expected StableHLO, as text or bytecode, \
         or a serialized HloModuleProto"
    )]
    BrokenProto {
        /// What is wrong, and where.
        reason: String,
    },
    /// Bytecode that ends within its first fields.
    #[error("the program is MLIR bytecode that ends after {bytes} bytes, before it says who wrote it")]
    TruncatedBytecode {
        /// How many bytes there are.
        bytes: usize,
    },
    /// One kind of program where another was expected.
    #[error("the program is {found}, expected {expected}")]
    OtherFormat {
        /// What was expected.
        expected: &'static str,
        /// What it is.
        found: &'static str,
    },
    /// A portable artifact of a StableHLO that the plugin does not know yet.
    #[error(
        "the program is a portable artifact of StableHLO {artifact}, and the plugin knows StableHLO up to {plugin}; \
         export it for version {plugin}, or use a newer plugin"
    )]
    NewerStablehlo {
        /// The version of the artifact.
        artifact: StablehloVersion,
        /// The plugin's.
        plugin: StablehloVersion,
    },
}

/// A version of StableHLO.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StablehloVersion(pub [u64; 3]);

impl ForeignProgram {
    /// What these bytes are.
    ///
    /// ```
    /// use shardwright_runtime::compile::{ForeignProgram, ProgramError};
    ///
    /// assert_eq!(ForeignProgram::recognise(b"HloModule m").unwrap_err(), ProgramError::HloText);
    /// ```
    ///
    /// # Errors
    /// When they are no program in a form that plugins take.
    pub fn recognise(bytes: &[u8]) -> Result<ForeignProgram, ProgramError> {
        if bytes.trim_ascii().is_empty() {
            return Err(ProgramError::Empty);
        }
        if bytes.starts_with(BYTECODE) {
            let program = ForeignProgram { code: bytes.to_vec(), form: Form::MlirBytecode };
            return match program.producer() {
                Some(_) => Ok(program),
                None => Err(ProgramError::TruncatedBytecode { bytes: bytes.len() }),
            };
        }
        match hlo_module(bytes) {
            Ok(module) => Ok(ForeignProgram { code: module.to_vec(), form: Form::Hlo }),
            Err(malformed) => match std::str::from_utf8(bytes) {
                Ok(text) if is_text(text) => text_program(text),
                _ => Err(broken(&malformed, bytes)),
            },
        }
    }

    /// The program, if it is written in this format.
    ///
    /// # Errors
    /// When it is a program in another format.
    pub fn expect(self, format: ProgramFormat) -> Result<ForeignProgram, ProgramError> {
        if self.format() == format {
            return Ok(self);
        }
        let expected = match format {
            ProgramFormat::Hlo => Form::Hlo.name(),
            _ => "StableHLO, as text or bytecode",
        };
        Err(ProgramError::OtherFormat { expected, found: self.form.name() })
    }

    /// The format in which a plugin is given it.
    pub fn format(&self) -> ProgramFormat {
        match self.form {
            Form::MlirText | Form::MlirBytecode => ProgramFormat::Mlir,
            Form::Hlo => ProgramFormat::Hlo,
        }
    }

    /// What a plugin is given.
    pub fn code(&self) -> &[u8] {
        &self.code
    }

    /// What a plugin is given, where that is StableHLO as text.
    pub(crate) fn text(&self) -> Option<&str> {
        std::str::from_utf8(&self.code).ok().filter(|_| self.form == Form::MlirText)
    }

    /// The version of StableHLO that it was exported for, if it is a portable artifact.
    pub fn stablehlo_version(&self) -> Option<StablehloVersion> {
        let producer = self.producer()?;
        let version = producer.strip_prefix("StableHLO_v")?;
        let mut numbers = version.split('.').map(|number| number.parse().ok());
        Some(StablehloVersion([numbers.next()??, numbers.next()??, numbers.next()??]))
    }

    /// Refuses a portable artifact that is newer than what the plugin declares to know.
    ///
    /// # Errors
    /// When it is.
    pub fn check_version(&self, plugin: &Plugin) -> Result<(), ProgramError> {
        let Some(artifact) = self.stablehlo_version() else { return Ok(()) };
        match current_stablehlo(plugin) {
            Some(plugin) if artifact > plugin => Err(ProgramError::NewerStablehlo { artifact, plugin }),
            _ => Ok(()),
        }
    }

    /// What the program calls itself, for messages.
    pub(crate) fn name(&self) -> String {
        let stated = match self.form {
            Form::MlirText => std::str::from_utf8(&self.code).ok().and_then(mlir_name),
            Form::MlirBytecode => None,
            Form::Hlo => hlo_module_name(&self.code),
        };
        stated.unwrap_or("(without a name)").to_owned()
    }

    /// Who says to have written the bytecode.
    fn producer(&self) -> Option<&str> {
        let rest = self.code.strip_prefix(BYTECODE)?;
        // The version is a number whose first byte says, by its trailing zeros, how many more there are.
        let more = rest.first()?.trailing_zeros() as usize;
        let rest = rest.get(1 + more..)?;
        let end = rest.iter().position(|&byte| byte == 0)?;
        std::str::from_utf8(&rest[..end]).ok()
    }
}

/// The newest StableHLO that the plugin declares to know.
fn current_stablehlo(plugin: &Plugin) -> Option<StablehloVersion> {
    let attributes = plugin.attributes().ok()?;
    let (_, value) = attributes.into_iter().find(|(name, _)| name == "stablehlo_current_version")?;
    let NamedValue::I64List(numbers) = value else { return None };
    let numbers: Vec<u64> = numbers.into_iter().filter_map(|n| n.try_into().ok()).collect();
    Some(StablehloVersion(numbers.try_into().ok()?))
}

fn is_text(text: &str) -> bool {
    !text.chars().any(|c| c.is_control() && !c.is_whitespace())
}

fn text_program(text: &str) -> Result<ForeignProgram, ProgramError> {
    let first = first_line(text);
    if first.starts_with("HloModule") {
        return Err(ProgramError::HloText);
    }
    let begins_mlir =
        ["module", "builtin.module", "func.func", "\"builtin.module\"", "#", "!", "sdy.mesh", "{-#"];
    if begins_mlir.iter().any(|word| first.starts_with(word)) {
        return Ok(ForeignProgram { code: text.as_bytes().to_vec(), form: Form::MlirText });
    }
    // HLO text may begin with a comment, and a damaged one with anything.
    let is_hlo = ["ENTRY ", "HloModule "].iter().any(|word| text.contains(word));
    let beginning = || first.chars().take(SHOWN_BYTES).collect();
    Err(if is_hlo { ProgramError::HloText } else { ProgramError::UnknownText { beginning: beginning() } })
}

/// The first line that is neither empty nor a comment.
fn first_line(text: &str) -> &str {
    text.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with("//")).unwrap_or_default()
}

fn mlir_name(text: &str) -> Option<&str> {
    let name = first_line(text).strip_prefix("module @")?;
    name.split(|c: char| !c.is_alphanumeric() && !"_.$-".contains(c)).next().filter(|name| !name.is_empty())
}

fn broken(malformed: &HloError, bytes: &[u8]) -> ProgramError {
    let beginning = bytes[..bytes.len().min(SHOWN_BYTES)].escape_ascii();
    ProgramError::BrokenProto { reason: format!("{malformed} (it begins with {beginning})") }
}

impl Form {
    fn name(self) -> &'static str {
        match self {
            Form::MlirText => "StableHLO text",
            Form::MlirBytecode => "MLIR bytecode",
            Form::Hlo => "a serialized HloModuleProto",
        }
    }
}

impl fmt::Debug for ForeignProgram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ForeignProgram({}, {} bytes)", self.form.name(), self.code.len())
    }
}

impl fmt::Display for StablehloVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [major, minor, patch] = self.0;
        write!(f, "{major}.{minor}.{patch}")
    }
}
