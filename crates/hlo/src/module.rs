use std::fmt;
use std::ops::Range;

use shardwright_tensor::TensorType;

use crate::{InferError, Op, infer};

/// A program: one function over arrays.
///
/// Values are numbered; each is an argument or a result of exactly one instruction, and instructions only use
/// values that were defined before them. [`Module::push`] keeps all of that true. The fields are public because
/// an unverified module may hold anything; [`verify`](crate::verify) tells.
#[derive(Clone, Debug, PartialEq)]
pub struct Module {
    /// Name of the program, as it appears in dumps and profiles.
    pub name: String,
    /// The type of each value, indexed by [`ValueId`].
    pub values: Vec<TensorType>,
    /// What the function takes, in order.
    pub arguments: Vec<Argument>,
    /// What it computes, in order.
    pub instructions: Vec<Instruction>,
    /// What it gives back, in order.
    pub outputs: Vec<Output>,
    /// Named stretches of the program, parents before children.
    pub units: Vec<Unit>,
}

/// A value of a module: the index of its type in [`Module::values`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ValueId(pub u32);

/// A unit of a module: its index in [`Module::units`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct UnitId(pub u32);

/// One step of a program.
#[derive(Clone, Debug, PartialEq)]
pub struct Instruction {
    /// What is computed.
    pub op: Op,
    /// What it is computed from.
    pub operands: Vec<ValueId>,
    /// What it defines.
    pub results: Vec<ValueId>,
    /// Where in the model it comes from.
    pub location: Location,
}

/// Where an instruction comes from. Compilers carry it along, so that a collective can be traced to its cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Location {
    /// The innermost unit.
    pub unit: Option<UnitId>,
    /// Which of the passes over that unit.
    pub phase: Phase,
}

/// The passes that a train step makes over a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Phase {
    /// As written.
    #[default]
    Forward,
    /// Forward a second time, to save the memory of keeping its values.
    Recompute,
    /// The gradient.
    Backward,
}

/// A named stretch of a program, which came from one module of a model.
#[derive(Clone, Debug, PartialEq)]
pub struct Unit {
    /// Where in the model: `model.layers.3`.
    pub path: String,
    /// What it is an instance of: `LlamaDecoderLayer`.
    pub class: String,
    /// The unit around it.
    pub parent: Option<UnitId>,
    /// Its instructions as written: a range of [`Module::instructions`].
    pub instructions: Range<usize>,
}

/// One input of a module.
#[derive(Clone, Debug, PartialEq)]
pub struct Argument {
    /// A name for people and files, such as `model.norm.weight`.
    pub name: String,
    /// The value that stands for it.
    pub value: ValueId,
    /// What is passed here.
    pub kind: ArgumentKind,
}

/// What an argument of a program is to the training or inference that calls it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum ArgumentKind {
    /// A parameter of the model.
    Parameter,
    /// Something that is kept for one parameter, and of its shape, such as a moment of an optimizer.
    State {
        /// The index of that parameter's argument.
        parameter: usize,
    },
    /// A part of the batch; dim 0 counts examples.
    Batch,
    /// Anything else.
    #[default]
    Other,
}

/// One result of a module.
#[derive(Clone, Debug, PartialEq)]
pub struct Output {
    /// A name for people and files.
    pub name: String,
    /// The value that is given back.
    pub value: ValueId,
    /// The argument whose memory it takes over, which the caller gives up.
    pub donor: Option<usize>,
}

impl Module {
    /// A module without arguments, instructions and outputs.
    pub fn new(name: impl Into<String>) -> Module {
        Module {
            name: name.into(),
            values: Vec::new(),
            arguments: Vec::new(),
            instructions: Vec::new(),
            outputs: Vec::new(),
            units: Vec::new(),
        }
    }

    /// Adds an argument of kind [`ArgumentKind::Other`].
    pub fn add_argument(&mut self, name: impl Into<String>, ty: TensorType) -> ValueId {
        self.add_argument_of_kind(name, ty, ArgumentKind::Other)
    }

    /// Adds an argument.
    pub fn add_argument_of_kind(
        &mut self,
        name: impl Into<String>,
        ty: TensorType,
        kind: ArgumentKind,
    ) -> ValueId {
        let value = self.new_value(ty);
        self.arguments.push(Argument { name: name.into(), value, kind });
        value
    }

    /// Appends an instruction outside all units and infers its result types.
    pub fn push(&mut self, op: Op, operands: &[ValueId]) -> Result<Vec<ValueId>, InferError> {
        self.push_at(op, operands, Location::default())
    }

    /// Appends an instruction and infers its result types.
    ///
    /// # Panics
    /// If an operand is not a value of this module.
    pub fn push_at(
        &mut self,
        op: Op,
        operands: &[ValueId],
        location: Location,
    ) -> Result<Vec<ValueId>, InferError> {
        let types: Vec<&TensorType> = operands.iter().map(|&v| self.ty(v)).collect();
        let results: Vec<ValueId> = infer(&op, &types)?.into_iter().map(|ty| self.new_value(ty)).collect();
        let operands = operands.to_vec();
        self.instructions.push(Instruction { op, operands, results: results.clone(), location });
        Ok(results)
    }

    /// Adds an output that gets memory of its own.
    pub fn add_output(&mut self, name: impl Into<String>, value: ValueId) {
        self.outputs.push(Output { name: name.into(), value, donor: None });
    }

    /// Adds an output that takes over the memory of an argument.
    pub fn add_donated_output(&mut self, name: impl Into<String>, value: ValueId, donor: usize) {
        self.outputs.push(Output { name: name.into(), value, donor: Some(donor) });
    }

    /// The type of a value.
    ///
    /// # Panics
    /// If the value is not one of this module.
    pub fn ty(&self, value: ValueId) -> &TensorType {
        &self.values[value.index()]
    }

    /// The unit with this id.
    ///
    /// # Panics
    /// If there is none in this module.
    pub fn unit(&self, id: UnitId) -> &Unit {
        &self.units[id.0 as usize]
    }

    fn new_value(&mut self, ty: TensorType) -> ValueId {
        let id = u32::try_from(self.values.len()).expect("a program has fewer than 2^32 values");
        self.values.push(ty);
        ValueId(id)
    }
}

impl ValueId {
    /// The index into [`Module::values`].
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for ValueId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "%{}", self.0)
    }
}

impl fmt::Debug for ValueId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Phase::Forward => "forward",
            Phase::Recompute => "recompute",
            Phase::Backward => "backward",
        })
    }
}
