use serde::{Deserialize, Serialize};
use shardwright_pjrt_sys::{self as sys, Struct};

use crate::CompileOptions;
use crate::error::Error;

/// How a program to be compiled is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum ProgramFormat {
    /// MLIR, as text or bytecode: StableHLO.
    Mlir,
    /// A serialized `HloModuleProto`.
    Hlo,
}

impl ProgramFormat {
    /// The name that PJRT has for the format.
    pub fn name(self) -> &'static str {
        match self {
            ProgramFormat::Mlir => "mlir",
            ProgramFormat::Hlo => "hlo",
        }
    }

    /// The program's C form, which borrows `code` and is only to be read.
    pub(crate) fn program(self, code: &[u8]) -> sys::PJRT_Program {
        let format = self.name();
        sys::PJRT_Program {
            code: code.as_ptr().cast_mut().cast(),
            code_size: code.len(),
            format: format.as_ptr().cast(),
            format_size: format.len(),
            ..Struct::new()
        }
    }

    /// Refuses options that contradict what the program says of itself.
    ///
    /// A program for four partitions that is compiled for one has other shapes, and fails far from here, or not at
    /// all. What MLIR text says is seen at once; the other forms are the plugin's to read.
    pub(crate) fn check(self, code: &[u8], options: &CompileOptions) -> Result<(), Error> {
        let Ok(text) = std::str::from_utf8(code) else { return Ok(()) };
        let given = [
            ("mhlo.num_partitions", "num_partitions", options.num_partitions),
            ("mhlo.num_replicas", "num_replicas", options.num_replicas),
        ];
        for (attribute, option, found) in given {
            match stated(text, attribute) {
                Some(stated) if self == ProgramFormat::Mlir && stated != found as u64 => {
                    let message =
                        format!("the module says {attribute} = {stated}, the options say {option}: {found}");
                    return Err(Error::refused("compile", message));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// The number that a module in MLIR text gives for an attribute of the whole module.
fn stated(text: &str, attribute: &str) -> Option<u64> {
    // The module's attributes stand before its first function, and its line may follow long lists of aliases.
    let head = text.split("func.func").next()?;
    let value = head.split_once(attribute)?.1.trim_start().strip_prefix('=')?.trim_start();
    let digits = value.find(|c: char| !c.is_ascii_digit()).unwrap_or(value.len());
    value[..digits].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_that_contradict_the_module_are_refused() {
        let check = |head: &str, num_partitions, expected: Option<&str>| {
            let text = format!("module @m {head} {{ func.func @main() {{ return }} }}");
            let options = CompileOptions { num_partitions, ..CompileOptions::default() };
            let error = ProgramFormat::Mlir.check(text.as_bytes(), &options).err();
            assert_eq!(error.map(|e| e.to_string()).as_deref(), expected);
            assert_eq!(ProgramFormat::Hlo.check(text.as_bytes(), &options), Ok(()));
        };
        let four = "attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32}";
        check(four, 4, None);
        check("", 3, None);
        let message =
            "refused: compile: the module says mhlo.num_partitions = 4, the options say num_partitions: 1";
        check(four, 1, Some(message));
        let message =
            "refused: compile: the module says mhlo.num_replicas = 2, the options say num_replicas: 1";
        check("attributes {mhlo.num_replicas=2 : i32}", 1, Some(message));
    }

    #[test]
    fn only_the_modules_own_attributes_count() {
        let text = "module @m { func.func @main() { %0 = \"mhlo.num_partitions = 9\" } }";
        assert_eq!(stated(text, "mhlo.num_partitions"), None);
    }
}
