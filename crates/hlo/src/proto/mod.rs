//! Programs as HLO protos: what `XlaComputation`s are, what JAX exports as `hlo`, and what plugins give back.
//!
//! Such a program is not parsed into a [`Module`](crate::Module) but kept as its bytes. [`HloProgram::read`] checks
//! what aborts or confuses compilers and reads the [`Signature`]; [`HloProgram::annotate`] writes shardings into the
//! message and leaves every byte that is not about them as it was, so nothing is lost that is not known here:
//! backend configurations, layouts, fields of newer versions.
//!
//! Messages are read as the wire has them: nothing recurses but the nesting of tuples, which has a limit, and what is
//! read refers to the input, so memory stays within a small multiple of it.

mod annotate;
mod changes;
mod check;
mod donations;
mod error;
mod read;
mod sdy;
mod shape;
mod signature;
#[cfg(test)]
mod tests;
mod uses;
mod wire;

use std::fmt;
use std::ops::Range;

use shardwright_tensor::TensorType;

pub use annotate::{AnnotateError, ConstraintProblem, HloAnnotations};
pub use error::{DonationProblem, HloError, Place, StatedProblem};
pub use read::{hlo_module, hlo_module_name};
pub use shape::ShapeProblem;
pub use wire::WireError;

use crate::Signature;
use read::{Instruction, Module, WRAPPED_MODULE};
use shape::Shape;

/// A program that is an HLO proto, checked as far as can be without a compiler.
#[derive(Clone, PartialEq)]
pub struct HloProgram {
    bytes: Vec<u8>,
    /// Where in them the module is: all of them, or what a message around it holds.
    module: Range<usize>,
    signature: Signature,
    partitioner: Partitioner,
}

/// A part of XLA that cuts programs, each of which reads shardings in a form of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Partitioner {
    /// The older one.
    Gspmd,
    /// The newer one.
    Shardy,
}

/// An instruction of a program, by its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HloInstructionId {
    computation: usize,
    instruction: usize,
}

/// What can be known of an instruction whose result is an array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HloInstruction {
    /// Which it is.
    pub id: HloInstructionId,
    /// Its name, such as `dot.3`.
    pub name: String,
    /// What it does.
    pub opcode: String,
    /// Where in the model it comes from, as far as the framework says: `jit(step)/dot_general`.
    pub op_name: String,
    /// What it gives.
    pub ty: TensorType,
}

impl HloProgram {
    /// Reads a serialized `HloModuleProto`, or the `HloProto` or `HloModuleProtoWithConfig` around one.
    ///
    /// # Errors
    /// When the bytes are something else, or a module that a compiler would refuse, misread or abort on: ids that are
    /// not unique, instructions that use what is not defined before them, shapes that cannot be; when it takes tuples,
    /// or takes or gives what is no array of fixed size.
    pub fn read(bytes: &[u8]) -> Result<HloProgram, HloError> {
        let found = hlo_module(bytes)?;
        let start = found.as_ptr() as usize - bytes.as_ptr() as usize;
        let module = Module::read(found)?;
        let entry = check::check(&module)?;
        let signature = signature::signature(&module, &entry)?;
        let partitioner = if sdy::is_used(&module) { Partitioner::Shardy } else { Partitioner::Gspmd };
        Ok(HloProgram { bytes: bytes.to_vec(), module: start..start + found.len(), signature, partitioner })
    }

    /// What it takes and gives. Arguments are called what the framework calls them, or else as their instructions;
    /// outputs like their donors, or else `out` and their position.
    pub fn signature(&self) -> &Signature {
        &self.signature
    }

    /// The message, as it was read.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The `HloModuleProto`, which plugins compile.
    pub fn module(&self) -> &[u8] {
        &self.bytes[self.module.clone()]
    }

    /// The partitioner that reads the program's shardings, and that it is annotated for.
    pub fn partitioner(&self) -> Partitioner {
        self.partitioner
    }

    /// Has an output take over the memory of an argument, which callers then give up.
    ///
    /// # Errors
    /// When they are of different types, are not there, or are parts of such a pair already.
    pub fn donate(&mut self, output: usize, argument: usize) -> Result<(), DonationProblem> {
        donations::donate(&mut self.signature, output, argument)
    }

    /// The instructions that give arrays whose elements are known here, in the order of the program: those that
    /// [`HloAnnotations::constraints`] can name.
    pub fn instructions(&self) -> Vec<HloInstruction> {
        let module = Module::read(self.module()).expect("the module was read before");
        let mut instructions = Vec::new();
        for (computation, read) in module.computations.iter().enumerate() {
            for (position, found) in read.instructions.iter().enumerate() {
                let shape = found.shape.map(Shape::read);
                let Some(ty) = shape.and_then(Result::ok).and_then(|shape| shape.tensor()) else { continue };
                instructions.push(HloInstruction {
                    id: HloInstructionId { computation, instruction: position },
                    name: found.name.to_owned(),
                    opcode: found.opcode.to_owned(),
                    op_name: found.op_name.to_owned(),
                    ty,
                });
            }
        }
        instructions
    }

    /// The message with shardings: of the arguments, the outputs and what is pinned between, and with the donors of
    /// the [signature](HloProgram::signature). Everything else stays byte for byte.
    ///
    /// Shardings are written for [the program's partitioner](HloProgram::partitioner), and those that it stated itself
    /// for its arguments and outputs are replaced. Over a mesh of one device none are written.
    ///
    /// # Errors
    /// When a compiler has been through the module, it has its own mesh and that is another, or the shardings are not
    /// as many as the arguments and outputs, or one is of another rank.
    pub fn annotate(&self, annotations: &HloAnnotations<'_>) -> Result<Vec<u8>, AnnotateError> {
        let annotated = annotate::annotate(self.module(), &self.signature, annotations)?;
        if self.module.len() == self.bytes.len() {
            return Ok(annotated);
        }
        let wrapped = wire::with_field(&self.bytes, WRAPPED_MODULE, &annotated);
        Ok(wrapped.map_err(|error| HloError::NoMessage { error })?)
    }
}

impl HloInstructionId {
    fn of<'m, 'a>(self, module: &'m Module<'a>) -> Option<&'m Instruction<'a>> {
        module.computations.get(self.computation)?.instructions.get(self.instruction)
    }
}

impl fmt::Display for HloInstructionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "instruction {} of computation {}", self.instruction, self.computation)
    }
}

impl fmt::Debug for HloProgram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HloProgram({}, {} bytes)", self.signature.name, self.bytes.len())
    }
}
