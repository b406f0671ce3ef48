//! What a compiler made of a program: its computations, how often each runs, and the collectives in them.
//!
//! Plugins return the optimized program as an `HloModuleProto`, or inside an `HloModuleProtoWithConfig`. Only the
//! fields that are needed here are declared, with the field numbers of XLA's `hlo.proto` and `xla_data.proto`;
//! everything else in the message is skipped. What is read holds together: each instruction comes after what it uses,
//! no computation calls itself, and every index is of something that is there.
//!
//! | concern | where |
//! | --- | --- |
//! | computations and instructions | [`CompiledProgram`] |
//! | how often they run, loops multiplied | [`Runs`] |
//! | what they give | [`CompiledShape`] |
//! | exchanges between devices | [`Collective`] |

mod collective;
mod groups;
mod program;
mod proto;
mod runs;
mod shape;
mod trips;

pub use collective::{Collective, CollectiveKind, CollectivePiece};
pub use program::{CompiledComputation, CompiledInstruction, CompiledProgram, OutputAlias, SourceLine};
use prost::Message;
pub use runs::Runs;
pub use shape::{CompiledArray, CompiledShape, ElementType};
use thiserror::Error;

#[cfg(test)]
mod tests;

/// Bytes that are not an HLO module, or one that does not hold together or has collectives that are not understood.
#[derive(Clone, Debug, Error)]
#[error("the optimized program cannot be read: {reason}")]
pub struct CompiledError {
    reason: String,
}

impl CompiledError {
    fn new(reason: impl Into<String>) -> CompiledError {
        CompiledError { reason: reason.into() }
    }
}

impl CompiledProgram {
    /// Reads an `HloModuleProto` or `HloModuleProtoWithConfig`, named by the plugin's `format`: `hlo` or
    /// `hlo_with_config`.
    ///
    /// # Errors
    /// When the bytes are not such a message, the format is another one, the program does not hold together, or a
    /// collective is of elements whose size is not known here.
    pub fn parse(format: &str, bytes: &[u8]) -> Result<CompiledProgram, CompiledError> {
        let broken = |e: prost::DecodeError| CompiledError::new(e.to_string());
        let module = match format {
            "hlo" => proto::Module::decode(bytes).map_err(broken)?,
            "hlo_with_config" => {
                proto::ModuleWithConfig::decode(bytes).map_err(broken)?.module.unwrap_or_default()
            }
            other => return Err(CompiledError::new(format!("its format is {other}"))),
        };
        CompiledProgram::read(&module)
    }

    /// Number and result bytes of the collectives of one kind in one run of the program, those in loops counted each
    /// time. What cannot be counted is the most there is.
    pub fn total(&self, kind: CollectiveKind) -> (usize, u64) {
        let of_kind = self.collectives.iter().filter(|c| c.kind == kind);
        of_kind.fold((0, 0), |(count, bytes): (usize, u64), c| {
            let runs = usize::try_from(c.runs.count).unwrap_or(usize::MAX);
            (count.saturating_add(runs), bytes.saturating_add(c.bytes().saturating_mul(c.runs.count)))
        })
    }
}

/// Numbers of a message as sizes, if none is negative.
pub(crate) fn sizes<N: Copy + TryInto<usize>>(numbers: &[N]) -> Option<Vec<usize>> {
    numbers.iter().map(|&number| number.try_into().ok()).collect()
}
