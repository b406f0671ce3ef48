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
        if self != ProgramFormat::Mlir {
            return Ok(());
        }
        let Ok(text) = std::str::from_utf8(code) else { return Ok(()) };
        // What is said of the whole module stands before its first function.
        let head = text.split("func.func").next().unwrap_or_default();
        check_counts(head, options)
            .and_then(|()| check_meshes(head, options))
            .map_err(|m| Error::refused("compile", m))
    }
}

fn check_counts(head: &str, options: &CompileOptions) -> Result<(), String> {
    let given = [
        ("mhlo.num_partitions", "num_partitions", options.num_partitions),
        ("mhlo.num_replicas", "num_replicas", options.num_replicas),
    ];
    for (attribute, option, found) in given {
        match stated(head, attribute) {
            Some(stated) if stated != found as u64 => {
                return Err(format!(
                    "the module says {attribute} = {stated}, the options say {option}: {found}"
                ));
            }
            _ => {}
        }
    }
    Ok(())
}

/// With fewer partitions than a mesh has devices the compiler leaves arrays whole and says nothing.
fn check_meshes(head: &str, options: &CompileOptions) -> Result<(), String> {
    let found = options.num_partitions;
    for mesh in head.split("sdy.mesh @").skip(1) {
        let (name, devices) = mesh_devices(mesh);
        if options.use_spmd_partitioning && devices > found as u64 {
            return Err(format!(
                "the module's mesh @{name} has {devices} devices, the options say num_partitions: {found}"
            ));
        }
    }
    Ok(())
}

/// The number that a module gives for an attribute.
fn stated(head: &str, attribute: &str) -> Option<u64> {
    let value = head.split_once(attribute)?.1.trim_start().strip_prefix('=')?.trim_start();
    leading_number(value)
}

/// Name and number of devices of a mesh that is written `mesh = <["a"=2, "b"=4]>`.
fn mesh_devices(text: &str) -> (&str, u64) {
    let (name, rest) = text.split_once('=').unwrap_or((text, ""));
    let axes = rest.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map_or("", |(axes, _)| axes);
    let sizes = axes.split(',').filter_map(|axis| leading_number(axis.rsplit_once('=')?.1.trim_start()));
    (name.trim(), sizes.fold(1, u64::saturating_mul))
}

fn leading_number(text: &str) -> Option<u64> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text[..end].parse().ok()
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
    fn a_mesh_of_more_devices_than_partitions_is_refused() {
        let check = |mesh: &str, num_partitions| {
            let text =
                format!("module @m {{\n  sdy.mesh @empty = <[]>\n  sdy.mesh {mesh}\n  func.func @main() }}");
            let options = CompileOptions { num_partitions, ..CompileOptions::default() };
            ProgramFormat::Mlir.check(text.as_bytes(), &options).map_err(|e| e.message().to_owned())
        };
        assert_eq!(check("@mesh = <[\"a\"=2, \"b\"=4]>", 8), Ok(()));
        assert_eq!(check("@one = <[], device_ids=[3]>", 1), Ok(()));
        let message = "the module's mesh @mesh has 8 devices, the options say num_partitions: 1";
        assert_eq!(check("@mesh = <[\"a\"=2, \"b\"=4]>", 1), Err(message.to_owned()));
        assert_eq!(check("@broken", 1), Ok(()));
    }

    #[test]
    fn only_the_modules_own_attributes_count() {
        let text = "module @m { func.func @main() { %0 = \"mhlo.num_partitions = 9\" } }";
        assert_eq!(ProgramFormat::Mlir.check(text.as_bytes(), &CompileOptions::default()), Ok(()));
    }
}
