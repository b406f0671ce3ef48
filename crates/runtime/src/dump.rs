use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use shardwright_pjrt::OptionValue;

use crate::RuntimeError;
use crate::error::Problem;

/// What is written down of each program that is compiled: the StableHLO that the compiler is given, if it is given
/// StableHLO as text, and of any program the compiler's own text before and after its passes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DumpOptions {
    /// Where the files go; made if it does not exist.
    pub folder: PathBuf,
    /// Also the program before and after each pass whose name this regular expression finds, such as
    /// `spmd|sharding|shardy`.
    pub passes: Option<String>,
}

/// A folder for dumps that is there.
#[derive(Debug)]
pub(crate) struct Dump {
    folder: String,
    passes: Option<String>,
    /// How many programs of each name were written.
    written: Mutex<BTreeMap<String, usize>>,
}

impl Dump {
    /// Makes the folder.
    pub(crate) fn new(options: &DumpOptions) -> Result<Dump, RuntimeError> {
        let wrong = |error: io::Error| Problem::Dump { path: options.folder.clone(), error: error.into() };
        fs::create_dir_all(&options.folder).map_err(wrong)?;
        // Some names mean other things than folders to XLA, absolute paths never do.
        let folder = options.folder.canonicalize().map_err(wrong)?;
        let folder = folder.into_os_string().into_string();
        let folder = folder.map_err(|_| wrong(io::Error::other("XLA needs a path that is UTF-8")))?;
        Ok(Dump { folder, passes: options.passes.clone(), written: Mutex::default() })
    }

    /// The flags by which XLA does its part.
    pub(crate) fn overrides(&self) -> Vec<(String, OptionValue)> {
        let text = |text: &str| OptionValue::String(text.to_owned());
        let passes = self.passes.as_deref().map(|passes| ("xla_dump_hlo_pass_re", text(passes)));
        [("xla_dump_to", text(&self.folder)), ("xla_dump_hlo_as_text", OptionValue::Bool(true))]
            .into_iter()
            .chain(passes)
            .map(|(name, value)| (name.to_owned(), value))
            .collect()
    }

    /// Writes down a program as it goes to the compiler. A number keeps programs of one name apart; others do not count,
    /// as they may be compiled side by side in any order.
    pub(crate) fn write(&self, program: &str, stablehlo: &str) -> Result<(), RuntimeError> {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        let name: String = program.chars().map(|c| if is_plain(c) { c } else { '_' }).collect();
        let number = {
            let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
            let number = written.entry(name.clone()).or_default();
            *number += 1;
            *number
        };
        let path = Path::new(&self.folder).join(format!("program_{number:04}.{name}.stablehlo.mlir"));
        fs::write(&path, stablehlo).map_err(|error| Problem::Dump { path, error: error.into() }.into())
    }
}
