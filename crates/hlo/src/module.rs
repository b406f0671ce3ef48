use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use shardwright_tensor::TensorType;

use crate::infer::infer_instruction;
use crate::{InferError, Op, Role};

/// A program: a function over arrays, and the functions that it calls.
///
/// Values are numbered across the whole module; each is an argument of the program, of a function or of a region, or
/// a result of exactly one instruction. Instructions only use values that were defined before them in their own
/// region or, where the op allows it, in one around that. [`Module::push`] keeps all of that true. The fields are
/// public because an unverified module may hold anything; [`verify`](crate::verify) tells.
#[derive(Clone, Debug, PartialEq)]
pub struct Module {
    /// Name of the program, as it appears in dumps and profiles.
    pub name: String,
    /// The type of each value, indexed by [`ValueId`].
    pub values: Vec<ValueType>,
    /// What the function takes, in order.
    pub arguments: Vec<Argument>,
    /// What it computes, in order.
    pub instructions: Vec<Instruction>,
    /// What it gives back, in order.
    pub outputs: Vec<Output>,
    /// Named stretches of the program, parents before children.
    pub units: Vec<Unit>,
    /// The functions that the program calls.
    pub functions: Vec<Function>,
    /// Where the instructions of a program from elsewhere come from, in MLIR's spelling: what follows `loc`, with its
    /// parentheses.
    pub sources: Vec<String>,
    /// What else a program from elsewhere says of itself as a whole: attributes in MLIR's spelling.
    pub attributes: String,
    /// The same of its main function.
    pub main_attributes: String,
}

/// What a value is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ValueType {
    /// An array that can be passed to a program and had from it.
    Tensor(TensorType),
    /// Anything else, in MLIR's spelling: `tensor<4xcomplex<f32>>`, `!stablehlo.token`.
    Other(Arc<str>),
}

/// Instructions inside an instruction, such as the body of a loop, or of a function.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Region {
    /// What it takes, in order.
    pub arguments: Vec<ValueId>,
    /// What it computes, in order.
    pub instructions: Vec<Instruction>,
    /// What it gives back, in order.
    pub results: Vec<ValueId>,
}

/// A function that others call by its name.
#[derive(Clone, Debug, PartialEq)]
pub struct Function {
    /// Its name, without `@`.
    pub name: String,
    /// What it takes, computes and gives.
    pub body: Region,
    /// What else a program from elsewhere says of it: attributes in MLIR's spelling.
    pub attributes: String,
}

/// A value of a module: the index of its type in [`Module::values`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ValueId(pub u32);

/// A unit of a module: its index in [`Module::units`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct UnitId(pub u32);

/// A function of a module: its index in [`Module::functions`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FunctionId(pub u32);

/// One step of a program.
#[derive(Clone, Debug, PartialEq)]
pub struct Instruction {
    /// What is computed.
    pub op: Op,
    /// What it is computed from.
    pub operands: Vec<ValueId>,
    /// What it defines.
    pub results: Vec<ValueId>,
    /// The instructions inside it, for ops that have any.
    pub regions: Vec<Region>,
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
    /// In a program from elsewhere, what that says of it.
    pub source: Option<SourceId>,
}

/// What a program from elsewhere says of an instruction's origin: an index into [`Module::sources`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SourceId(pub u32);

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
    /// Whether the caller gives its memory up, without saying which output takes it over: the compiler finds one. Not
    /// set for the [donor](Output::donor) of an output.
    pub donated: bool,
    /// What else a program from elsewhere says of it: attributes in MLIR's spelling.
    pub attributes: String,
}

/// What an argument of a program is to the training or inference that calls it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum ArgumentKind {
    /// A parameter of the model.
    Parameter,
    /// Something that is kept for one parameter, such as a moment of an optimizer.
    State {
        /// The index of that parameter's argument.
        parameter: usize,
        /// The dim of the parameter that it has not; without, it is of the parameter's shape.
        without: Option<usize>,
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
    /// What else a program from elsewhere says of it: attributes in MLIR's spelling.
    pub attributes: String,
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
            functions: Vec::new(),
            sources: Vec::new(),
            attributes: String::new(),
            main_attributes: String::new(),
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
        let value = self.new_value(ValueType::Tensor(ty));
        let name = name.into();
        self.arguments.push(Argument { name, value, kind, donated: false, attributes: String::new() });
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
        self.push_with_regions(op, operands, Vec::new(), location)
    }

    /// Appends an instruction that has others inside it, and infers its result types.
    ///
    /// # Panics
    /// If an operand is not a value of this module.
    pub fn push_with_regions(
        &mut self,
        op: Op,
        operands: &[ValueId],
        regions: Vec<Region>,
        location: Location,
    ) -> Result<Vec<ValueId>, InferError> {
        let types = infer_instruction(self, &op, operands, &regions)?;
        let results: Vec<ValueId> = types.into_iter().map(|ty| self.new_value(ty)).collect();
        let operands = operands.to_vec();
        self.instructions.push(Instruction { op, operands, results: results.clone(), regions, location });
        Ok(results)
    }

    /// Adds an output that gets memory of its own.
    pub fn add_output(&mut self, name: impl Into<String>, value: ValueId) {
        self.push_output(name.into(), value, None);
    }

    /// Adds an output that takes over the memory of an argument.
    pub fn add_donated_output(&mut self, name: impl Into<String>, value: ValueId, donor: usize) {
        self.push_output(name.into(), value, Some(donor));
    }

    fn push_output(&mut self, name: String, value: ValueId, donor: Option<usize>) {
        self.outputs.push(Output { name, value, donor, attributes: String::new() });
    }

    /// The type of an array. Arguments and outputs of a verified module are arrays, and so is everything in programs
    /// that were written here; other values of a program from elsewhere may be of another [`ValueType`].
    ///
    /// # Panics
    /// If the value is not one of this module, or not an array.
    pub fn ty(&self, value: ValueId) -> &TensorType {
        match &self.values[value.index()] {
            ValueType::Tensor(ty) => ty,
            ValueType::Other(ty) => panic!("{value} is a {ty}, and no array"),
        }
    }

    /// The unit with this id.
    ///
    /// # Panics
    /// If there is none in this module.
    pub fn unit(&self, id: UnitId) -> &Unit {
        &self.units[id.0 as usize]
    }

    /// Adds a value that nothing defines yet.
    pub fn new_value(&mut self, ty: ValueType) -> ValueId {
        let id = u32::try_from(self.values.len()).expect("a program has fewer than 2^32 values");
        self.values.push(ty);
        ValueId(id)
    }
}

impl Instruction {
    /// A [boundary](Op::Boundary) with this role, which gives `operand` on as `result`.
    pub fn boundary(role: Role, operand: ValueId, result: ValueId, location: Location) -> Instruction {
        let (op, operands, results) = (Op::Boundary(role), vec![operand], vec![result]);
        Instruction { op, operands, results, regions: Vec::new(), location }
    }
}

impl ArgumentKind {
    /// The word for it: `parameter`, `state`, `batch` or `other`.
    pub fn word(self) -> &'static str {
        match self {
            ArgumentKind::Parameter => "parameter",
            ArgumentKind::State { .. } => "state",
            ArgumentKind::Batch => "batch",
            ArgumentKind::Other => "other",
        }
    }
}

impl ValueType {
    /// The type of an array that can be passed and had, if it is one.
    pub fn tensor(&self) -> Option<&TensorType> {
        match self {
            ValueType::Tensor(ty) => Some(ty),
            ValueType::Other(_) => None,
        }
    }
}

impl From<TensorType> for ValueType {
    fn from(ty: TensorType) -> Self {
        ValueType::Tensor(ty)
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

impl fmt::Display for FunctionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "function {}", self.0)
    }
}

/// An array as everywhere (`f32[2,3]`), anything else in MLIR's spelling.
impl fmt::Display for ValueType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ValueType::Tensor(ty) => ty.fmt(f),
            ValueType::Other(ty) => f.write_str(ty),
        }
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
