use std::fmt;

use shardwright_hlo::compiled::CompiledProgram;
use shardwright_pjrt::{Attributes, CompiledMemoryStats, Executable};

use crate::RuntimeError;
use crate::error::Problem;
use crate::executable::bytes_needed;

/// A program compiled ahead of time: what can be known of it without its devices. It cannot be executed.
pub struct AotProgram {
    executable: Executable,
}

impl AotProgram {
    pub(super) fn new(executable: Executable) -> AotProgram {
        AotProgram { executable }
    }

    /// The compiled program itself, for what this type has no words for.
    pub fn executable(&self) -> &Executable {
        &self.executable
    }

    /// The optimized program with its collectives, read back from the compiler.
    ///
    /// # Errors
    /// When the plugin does not give it, or in a form that cannot be read.
    pub fn compiled(&self) -> Result<CompiledProgram, RuntimeError> {
        let program = self.executable.optimized_program()?;
        Ok(CompiledProgram::parse(&program.format, &program.code).map_err(Problem::Unreadable)?)
    }

    /// What the program needs of the memory of each device.
    ///
    /// # Errors
    /// When the plugin does not tell.
    pub fn memory_stats(&self) -> Result<CompiledMemoryStats, RuntimeError> {
        Ok(self.executable.memory_stats()?)
    }

    /// The most bytes of each device's memory that are in use at one time, arguments and results among them: the
    /// number to hold against [`Topology::memory_per_device`](super::Topology::memory_per_device).
    ///
    /// # Errors
    /// When the plugin does not tell, or tells a negative number.
    pub fn bytes_per_device(&self) -> Result<u64, RuntimeError> {
        bytes_needed(&self.executable.name().unwrap_or_default(), "tpu", self.memory_stats()?)
    }

    /// What the compiler thinks the program costs, under its own names. Its `flops` count the body of a loop once,
    /// and its times are no estimate of anything.
    ///
    /// # Errors
    /// When the plugin does not tell.
    pub fn cost_analysis(&self) -> Result<Attributes, RuntimeError> {
        Ok(self.executable.cost_analysis()?)
    }
}

impl fmt::Debug for AotProgram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AotProgram({})", self.executable.name().unwrap_or_default())
    }
}
