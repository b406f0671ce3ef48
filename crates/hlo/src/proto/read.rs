//! The messages of `hlo.proto`, each with the fields that matter here, as views of the bytes.

use super::error::{HloError, Place};
use super::wire::{Fields, WireError, Writer, with_items};

/// `HloProto.hlo_module` and `HloModuleProtoWithConfig.hlo_module`: how XLA dumps modules, and plugins return them.
pub(super) const WRAPPED_MODULE: u64 = 1;

/// Fields of `HloModuleProto`.
pub(super) mod module {
    pub(in super::super) const NAME: u64 = 1;
    pub(in super::super) const COMPUTATIONS: u64 = 3;
    pub(in super::super) const ALIASES: u64 = 8;
    pub(in super::super) const DONORS: u64 = 18;
    pub(in super::super) const ATTRIBUTES: u64 = 19;
    pub(super) const ENTRY_NAME: u64 = 2;
    pub(super) const PROGRAM_SHAPE: u64 = 4;
    pub(super) const ENTRY_ID: u64 = 6;
    pub(super) const SCHEDULE: u64 = 7;
    pub(super) const SPMD_OUTPUT: u64 = 12;
    pub(super) const SPMD_PARAMETERS: u64 = 14;
}

/// Fields of `HloComputationProto`.
pub(super) mod computation {
    pub(in super::super) const INSTRUCTIONS: u64 = 2;
    pub(in super::super) const ROOT: u64 = 6;
    pub(super) const NAME: u64 = 1;
    pub(super) const ID: u64 = 5;
}

/// Fields of `HloInstructionProto`.
pub(super) mod instruction {
    pub(in super::super) const NAME: u64 = 1;
    pub(in super::super) const OPCODE: u64 = 2;
    pub(in super::super) const SHAPE: u64 = 3;
    pub(in super::super) const TARGET: u64 = 28;
    pub(in super::super) const ID: u64 = 35;
    pub(in super::super) const OPERANDS: u64 = 36;
    pub(in super::super) const SHARDING: u64 = 40;
    pub(in super::super) const SIDE_EFFECT: u64 = 65;
    pub(in super::super) const ATTRIBUTES: u64 = 68;
    pub(in super::super) const API_VERSION: u64 = 77;
    pub(super) const METADATA: u64 = 7;
    pub(super) const PARAMETER_NUMBER: u64 = 9;
    pub(super) const PREDECESSORS: u64 = 37;
    pub(super) const CALLED: u64 = 38;
}

/// `OpMetadata.op_name`.
const OP_NAME: u64 = 2;
/// `FrontendAttributes.map`.
const ATTRIBUTE: u64 = 1;

#[derive(Default)]
pub(super) struct Module<'a> {
    pub(super) name: &'a str,
    pub(super) entry_name: &'a str,
    pub(super) entry_id: u64,
    /// In the order of the message.
    pub(super) computations: Vec<Computation<'a>>,
    pub(super) program_shape: Option<&'a [u8]>,
    pub(super) aliases: &'a [u8],
    pub(super) donors: &'a [u8],
    pub(super) attributes: &'a [u8],
    /// The order in which a compiler has the instructions run.
    pub(super) schedule: &'a [u8],
    /// The shardings that a partitioner leaves behind: of the parameters, each, and of the result.
    pub(super) spmd_parameters: Vec<&'a [u8]>,
    pub(super) spmd_output: Option<&'a [u8]>,
}

#[derive(Default)]
pub(super) struct Computation<'a> {
    pub(super) name: &'a str,
    pub(super) id: u64,
    pub(super) root: u64,
    pub(super) instructions: Vec<Instruction<'a>>,
}

#[derive(Default)]
pub(super) struct Instruction<'a> {
    pub(super) name: &'a str,
    pub(super) opcode: &'a str,
    pub(super) shape: Option<&'a [u8]>,
    pub(super) id: u64,
    pub(super) operands: Vec<u64>,
    pub(super) predecessors: Vec<u64>,
    pub(super) called: Vec<u64>,
    pub(super) parameter_number: u64,
    pub(super) op_name: &'a str,
    pub(super) target: &'a str,
    pub(super) sharding: Option<&'a [u8]>,
    pub(super) attributes: &'a [u8],
}

/// The module in these bytes: all of them, or the one that an `HloProto` or an `HloModuleProtoWithConfig` wraps.
///
/// Only the outermost fields are looked at.
///
/// # Errors
/// When the bytes are no message, or one of something else.
pub fn hlo_module(bytes: &[u8]) -> Result<&[u8], HloError> {
    let no_module = |error| HloError::NoMessage { error };
    let mut wrapped = None;
    for field in Fields::of(bytes) {
        let field = field.map_err(no_module)?;
        if field.number == WRAPPED_MODULE && wrapped.is_none() {
            wrapped = field.bytes().ok();
        }
    }
    if is_module(bytes) {
        return Ok(bytes);
    }
    wrapped.filter(|inner| is_module(inner)).ok_or(HloError::OtherMessage)
}

/// What a module calls itself.
pub fn hlo_module_name(module: &[u8]) -> Option<&str> {
    let mut fields = Fields::of(module).map_while(Result::ok);
    fields.find(|field| field.number == module::NAME)?.text().ok()
}

fn is_module(bytes: &[u8]) -> bool {
    let (mut has_name, mut has_computation) = (false, false);
    for field in Fields::of(bytes) {
        let Ok(field) = field else { return false };
        match field.number {
            module::NAME => has_name |= field.text().is_ok(),
            module::COMPUTATIONS => {
                has_computation |= field.bytes().is_ok_and(|inner| Fields::of(inner).all(|f| f.is_ok()));
            }
            _ => {}
        }
    }
    has_name && has_computation
}

impl<'a> Module<'a> {
    pub(super) fn read(bytes: &'a [u8]) -> Result<Module<'a>, HloError> {
        let mut read = Module::default();
        let wire = |error| HloError::Wire { place: Place::Module, error };
        for field in Fields::of(bytes) {
            let field = field.map_err(wire)?;
            if field.number == module::COMPUTATIONS {
                let bytes = field.bytes().map_err(wire)?;
                read.computations.push(Computation::read(bytes, read.computations.len())?);
                continue;
            }
            let mut set = || -> Result<(), WireError> {
                match field.number {
                    module::NAME => read.name = field.text()?,
                    module::ENTRY_NAME => read.entry_name = field.text()?,
                    module::ENTRY_ID => read.entry_id = field.number()?,
                    module::PROGRAM_SHAPE => read.program_shape = Some(field.bytes()?),
                    module::ALIASES => read.aliases = field.bytes()?,
                    module::DONORS => read.donors = field.bytes()?,
                    module::ATTRIBUTES => read.attributes = field.bytes()?,
                    module::SCHEDULE => read.schedule = field.bytes()?,
                    module::SPMD_PARAMETERS => read.spmd_parameters.push(field.bytes()?),
                    module::SPMD_OUTPUT => read.spmd_output = Some(field.bytes()?),
                    _ => {}
                }
                Ok(())
            };
            set().map_err(wire)?;
        }
        Ok(read)
    }

    /// Whether a compiler has been through it.
    pub(super) fn is_compiled(&self) -> bool {
        !self.schedule.is_empty() || !self.spmd_parameters.is_empty() || self.spmd_output.is_some()
    }
}

impl<'a> Computation<'a> {
    fn read(bytes: &'a [u8], index: usize) -> Result<Computation<'a>, HloError> {
        let mut read = Computation::default();
        for field in Fields::of(bytes) {
            let set = || -> Result<Option<&'a [u8]>, WireError> {
                let field = field?;
                match field.number {
                    computation::NAME => read.name = field.text()?,
                    computation::ID => read.id = field.number()?,
                    computation::ROOT => read.root = field.number()?,
                    computation::INSTRUCTIONS => return field.bytes().map(Some),
                    _ => {}
                }
                Ok(None)
            };
            let bytes = set().map_err(|error| HloError::Wire { place: Place::Computation(index), error })?;
            let Some(bytes) = bytes else { continue };
            let place = Place::Instruction { computation: index, instruction: read.instructions.len() };
            let wire = |error| HloError::Wire { place, error };
            let instruction = Instruction::read(bytes).map_err(wire)?;
            // Without one it is nothing, and a list of nothings would take more memory than it is long.
            if instruction.opcode.is_empty() {
                let expected = "the name of an operation";
                return Err(wire(WireError::Type { number: instruction::OPCODE, expected }));
            }
            read.instructions.push(instruction);
        }
        Ok(read)
    }

    /// An id after those of all instructions, if there is one.
    pub(super) fn free_id(&self) -> Option<u64> {
        let last = self.instructions.iter().map(|instruction| instruction.id as u32).max().unwrap_or(0);
        // In newer modules, the computation's id is in front.
        let front = self.root >> 32 << 32;
        Some(front | u64::from(last.checked_add(1)?))
    }
}

impl<'a> Instruction<'a> {
    fn read(bytes: &'a [u8]) -> Result<Instruction<'a>, WireError> {
        let mut read = Instruction::default();
        for field in Fields::of(bytes) {
            let field = field?;
            match field.number {
                instruction::NAME => read.name = field.text()?,
                instruction::OPCODE => read.opcode = field.text()?,
                instruction::SHAPE => read.shape = Some(field.bytes()?),
                instruction::METADATA => read.op_name = op_name(field.bytes()?)?,
                instruction::PARAMETER_NUMBER => read.parameter_number = field.number()?,
                instruction::TARGET => read.target = field.text()?,
                instruction::ID => read.id = field.number()?,
                instruction::OPERANDS => field.numbers(&mut read.operands)?,
                instruction::PREDECESSORS => field.numbers(&mut read.predecessors)?,
                instruction::CALLED => field.numbers(&mut read.called)?,
                instruction::SHARDING => read.sharding = Some(field.bytes()?),
                instruction::ATTRIBUTES => read.attributes = field.bytes()?,
                _ => {}
            }
        }
        Ok(read)
    }
}

fn op_name(metadata: &[u8]) -> Result<&str, WireError> {
    let mut name = "";
    for field in Fields::of(metadata) {
        let field = field?;
        if field.number == OP_NAME {
            name = field.text()?;
        }
    }
    Ok(name)
}

/// The value of a key of `FrontendAttributes`, which is a map of texts.
pub(super) fn attribute<'a>(attributes: &'a [u8], key: &str) -> Result<Option<&'a str>, WireError> {
    let mut found = None;
    for entry in Fields::of(attributes) {
        let (name, value) = key_and_value(entry?.bytes()?)?;
        found = (name == key).then_some(value).or(found);
    }
    Ok(found)
}

/// `FrontendAttributes` with this value of a key.
pub(super) fn with_attribute(attributes: &[u8], key: &str, value: &str) -> Result<Vec<u8>, WireError> {
    let entry = Writer::default().bytes(1, key.as_bytes()).bytes(2, value.as_bytes()).finish();
    let mut is_there = false;
    let mut written = with_items(attributes, ATTRIBUTE, |_, content| {
        let is_it = key_and_value(content)?.0 == key;
        is_there |= is_it;
        Ok(is_it.then(|| entry.clone()))
    })?;
    if !is_there {
        written.extend(Writer::default().bytes(ATTRIBUTE, &entry).finish());
    }
    Ok(written)
}

fn key_and_value(entry: &[u8]) -> Result<(&str, &str), WireError> {
    let (mut key, mut value) = ("", "");
    for field in Fields::of(entry) {
        let field = field?;
        match field.number {
            1 => key = field.text()?,
            2 => value = field.text()?,
            _ => {}
        }
    }
    Ok((key, value))
}
