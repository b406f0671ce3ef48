//! Checks a whole module. What holds afterwards:
//!
//! - every value is defined once, by an argument or by one instruction, and only used after that, where it is visible:
//!   in its own region and those inside it, and never in another function;
//! - the recorded type of every value is the one that [`infer`] gives;
//! - outputs exist; an output and its donor have one type, and no argument is donated twice;
//! - states and gradients name arguments that are parameters, and have their shape;
//! - arguments and outputs are arrays; their names are distinct, and so are those of functions;
//! - calls are of functions that there are, and none comes to call itself; regions are not nested too deep;
//! - units are ranges of instructions that lie inside their parents.

mod calls;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::fmt;

use shardwright_mesh::AxisName;
use shardwright_tensor::TensorType;
use thiserror::Error;

use crate::infer::{List, infer_instruction};
use crate::varying::VaryingProblem;
use crate::{
    Argument, ArgumentKind, AxisGroup, Function, InferError, Instruction, ManualComputation, Module, Op,
    Output, Region, Role, Unit, ValueId, ValueType,
};

/// A module that passed [`verify`]; there is no other way to make one.
#[derive(Clone, Debug, PartialEq)]
pub struct VerifiedModule(Module);

impl VerifiedModule {
    /// Gives the module up, to be changed.
    pub fn into_inner(self) -> Module {
        self.0
    }
}

impl std::ops::Deref for VerifiedModule {
    type Target = Module;

    fn deref(&self) -> &Module {
        &self.0
    }
}

/// Everything that is wrong with a module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifyErrors {
    /// Name of the module.
    pub module: String,
    /// The problems, in program order.
    pub problems: Vec<Problem>,
}

/// One thing that is wrong with a module.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Problem {
    /// A value that is used, but not defined before that.
    #[error("{user} uses {value}, which is not defined before it")]
    Undefined {
        /// Who uses it.
        user: String,
        /// The value.
        value: ValueId,
    },
    /// A value that is defined again, or outside the module's table of values.
    #[error("{definer} defines {value}, which is {}", if *exists { "defined already" } else { "not in the table of values" })]
    Redefined {
        /// Who defines it.
        definer: String,
        /// The value.
        value: ValueId,
        /// Whether the table of values has it.
        exists: bool,
    },
    /// An argument or output that cannot be passed.
    #[error("{user} is a {ty}, and programs take and give arrays")]
    NotAnArray {
        /// Which argument or output.
        user: String,
        /// Its type.
        ty: ValueType,
    },
    /// Regions inside each other, too many of them for whatever calls itself for each.
    #[error("{instruction} has regions, and lies in {limit} others already")]
    TooDeep {
        /// Which instruction.
        instruction: String,
        /// In how many one may lie.
        limit: usize,
    },
    /// A function that comes to call itself.
    #[error("@{function} calls itself, which no compiler makes a program of")]
    Recursion {
        /// Name of the function.
        function: String,
    },
    /// An instruction that its op does not allow.
    #[error("{instruction}: {source}")]
    Infer {
        /// Which instruction.
        instruction: String,
        /// What its op says.
        source: InferError,
    },
    /// An instruction whose recorded result types are not what its op gives.
    #[error("{instruction}: results are {}, recorded as {}", List(expected), List(found))]
    ResultTypes {
        /// Which instruction.
        instruction: String,
        /// What the op gives.
        expected: Vec<ValueType>,
        /// What the module says.
        found: Vec<ValueType>,
    },
    /// A collective where there is nothing to exchange, or nobody to do it with.
    #[error("{instruction} along {axis}: {reason}")]
    Collective {
        /// Which instruction.
        instruction: String,
        /// The axis of its group.
        axis: AxisName,
        /// What is wrong.
        reason: &'static str,
    },
    /// A result of a manual region that has one value for devices on which it may differ.
    #[error("{instruction}: result {index} is not split over {axis}, and may differ along it")]
    Varies {
        /// Which instruction.
        instruction: String,
        /// Which result.
        index: usize,
        /// The axis.
        axis: AxisName,
    },
    /// An index of an argument that there is not, or that is not a parameter.
    #[error("{user} names argument {index}, which is not a parameter")]
    NotAParameter {
        /// Who names it.
        user: String,
        /// The index.
        index: usize,
    },
    /// A state or gradient that is not shaped as its parameter.
    #[error(
        "{user} has shape {found}, its parameter {name} is {expected}{}",
        .without.map_or(String::new(), |dim| format!(" and it is without dim {dim}"))
    )]
    ParameterShape {
        /// Which state or gradient.
        user: String,
        /// The type it has.
        found: TensorType,
        /// Name of the parameter.
        name: String,
        /// The type of the parameter.
        expected: TensorType,
        /// The dim of the parameter that it has not.
        without: Option<usize>,
    },
    /// An output that cannot take over its donor's memory.
    #[error("output {output} cannot take over the memory of argument {donor}: {reason}")]
    Donor {
        /// Name of the output.
        output: String,
        /// Index of the argument.
        donor: usize,
        /// Why not.
        reason: &'static str,
    },
    /// Two arguments, outputs or functions with one name.
    #[error("two {what} are named {name}")]
    DuplicateName {
        /// `arguments`, `outputs` or `functions`.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// A unit whose instructions do not exist, or lie outside its parent.
    #[error("unit {path}: its range of instructions does not lie inside {}", if *nested { "its parent" } else { "the program" })]
    UnitRange {
        /// Path of the unit.
        path: String,
        /// Whether a parent is what it sticks out of.
        nested: bool,
    },
}

/// Checks a module; [`Problem`] has what it looks for.
///
/// # Errors
/// All problems of the module, in program order.
pub fn verify(module: Module) -> Result<VerifiedModule, VerifyErrors> {
    let mut verifier = Verifier::new(&module);
    verifier.arguments();
    verifier.instructions(&module.instructions);
    verifier.outputs();
    for unit in &module.units {
        verifier.unit(unit);
    }
    verifier.functions();
    let problems = verifier.problems;
    if problems.is_empty() {
        return Ok(VerifiedModule(module));
    }
    Err(VerifyErrors { module: module.name, problems })
}

impl fmt::Display for VerifyErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let n = self.problems.len();
        write!(f, "module {} has {n} problem{}", self.module, if n == 1 { "" } else { "s" })?;
        self.problems.iter().try_for_each(|problem| write!(f, "\n  {problem}"))
    }
}

impl std::error::Error for VerifyErrors {}

/// In how many regions an instruction may lie. Texts that are read have no more either.
const DEEPEST: usize = 64;

struct Verifier<'m> {
    module: &'m Module,
    /// What was defined so far.
    defined: HashSet<ValueId>,
    /// What of that can be used.
    visible: HashSet<ValueId>,
    /// The visible values in the order of their definition.
    order: Vec<ValueId>,
    /// The regions that are being looked at, from the outside in, and the function that they are of.
    path: Vec<(usize, &'m Instruction, usize)>,
    function: Option<&'m Function>,
    problems: Vec<Problem>,
}

impl<'m> Verifier<'m> {
    fn new(module: &'m Module) -> Self {
        Verifier {
            module,
            defined: HashSet::new(),
            visible: HashSet::new(),
            order: Vec::new(),
            path: Vec::new(),
            function: None,
            problems: Vec::new(),
        }
    }

    fn arguments(&mut self) {
        let arguments = &self.module.arguments;
        for Argument { name, value, kind, .. } in arguments {
            self.define(*value, |_| format!("argument {name}"));
            self.passable(*value, || format!("argument {name}"));
            if let ArgumentKind::State { parameter, without } = *kind {
                self.shaped_as_parameter(*value, parameter, without, |_| format!("state {name}"));
            }
        }
        self.distinct_names("arguments", arguments.iter().map(|a| a.name.as_str()));
    }

    fn instructions(&mut self, instructions: &'m [Instruction]) {
        for (index, instruction) in instructions.iter().enumerate() {
            self.instruction(index, instruction);
        }
    }

    fn instruction(&mut self, index: usize, instruction: &'m Instruction) {
        let Instruction { op, operands, results, regions, .. } = instruction;
        let name = |verifier: &Self| verifier.name(index, instruction);
        let before = self.problems.len();
        self.used(operands, name);
        if self.path.len() >= DEEPEST && !regions.is_empty() {
            let instruction = name(self);
            self.problems.push(Problem::TooDeep { instruction, limit: DEEPEST });
            return;
        }
        for (number, region) in regions.iter().enumerate() {
            self.path.push((index, instruction, number));
            match op {
                Op::ManualComputation(_) => self.isolated_region(region),
                _ => self.region(region),
            }
            self.path.pop();
        }
        for &value in results {
            self.define(value, name);
        }
        if self.problems.len() == before {
            self.inferred(instruction, name);
        }
    }

    /// Checks an instruction whose values are defined against what its op says.
    fn inferred(&mut self, instruction: &'m Instruction, name: impl Fn(&Self) -> String) {
        let Instruction { op, operands, results, regions, .. } = instruction;
        match infer_instruction(self.module, op, operands, regions) {
            Err(source) => {
                let instruction = name(self);
                self.problems.push(Problem::Infer { instruction, source });
                return;
            }
            Ok(expected) => {
                let found: Vec<ValueType> =
                    results.iter().map(|&v| self.module.values[v.index()].clone()).collect();
                if expected != found {
                    let instruction = name(self);
                    self.problems.push(Problem::ResultTypes { instruction, expected, found });
                    return;
                }
            }
        }
        match op {
            Op::Boundary(Role::Gradient { parameter }) => {
                self.shaped_as_parameter(operands[0], *parameter, None, name);
            }
            Op::Boundary(Role::RowGradient { parameter }) => {
                self.shaped_as_parameter(operands[0], *parameter, Some(0), name);
            }
            Op::ManualComputation(manual) => self.varying(manual, &regions[0], name),
            Op::AllGather { axes, .. }
            | Op::ReduceScatter { axes, .. }
            | Op::AllReduce { axes, .. }
            | Op::Vary(axes) => self.in_manual_region(axes, name),
            _ => {}
        }
    }

    /// Checks a region that uses nothing from around it.
    fn isolated_region(&mut self, region: &'m Region) {
        let visible = (std::mem::take(&mut self.visible), std::mem::take(&mut self.order));
        self.region(region);
        (self.visible, self.order) = visible;
    }

    fn in_manual_region(&mut self, group: &AxisGroup, name: impl Fn(&Self) -> String) {
        let mut around = self.path.iter().map(|(_, instruction, _)| &instruction.op);
        if around.any(|op| matches!(op, Op::ManualComputation(_))) {
            return;
        }
        if let Some(axis) = group.axes().first().cloned() {
            let (instruction, reason) = (name(self), "it stands in no manual region");
            self.problems.push(Problem::Collective { instruction, axis, reason });
        }
    }

    /// Checks that collectives of a manual region have something to exchange, and results the one value that they
    /// are said to have.
    fn varying(&mut self, manual: &ManualComputation, region: &'m Region, name: impl Fn(&Self) -> String) {
        for problem in manual.check_varying(region) {
            let instruction = name(self);
            self.problems.push(match problem {
                VaryingProblem::Result { index, axis } => Problem::Varies { instruction, index, axis },
                VaryingProblem::Collective { op, axis, reason } => {
                    Problem::Collective { instruction: format!("{op} in {instruction}"), axis, reason }
                }
            });
        }
    }

    /// Checks a region; what it defines is visible in it alone.
    fn region(&mut self, region: &'m Region) {
        let before = self.order.len();
        let name = |verifier: &Self| format!("the block{}", verifier.place());
        for &argument in &region.arguments {
            self.define(argument, name);
        }
        self.instructions(&region.instructions);
        self.used(&region.results, name);
        for value in self.order.drain(before..) {
            self.visible.remove(&value);
        }
    }

    fn functions(&mut self) {
        let module = self.module;
        let visible = (std::mem::take(&mut self.visible), std::mem::take(&mut self.order));
        for function in &module.functions {
            self.function = Some(function);
            self.region(&function.body);
        }
        self.function = None;
        (self.visible, self.order) = visible;
        let names = module.functions.iter().map(|function| function.name.as_str());
        self.distinct_names("functions", std::iter::once("main").chain(names));
        // What is nested too deep is not walked over.
        if self.problems.is_empty()
            && let Some(id) = calls::recursive(module)
        {
            let function = module.functions[id].name.clone();
            self.problems.push(Problem::Recursion { function });
        }
    }

    /// Where in the program the instructions are that are being looked at, if not at its outermost.
    fn place(&self) -> String {
        let mut place = String::new();
        for (index, instruction, region) in self.path.iter().rev() {
            place += &format!(" of region {region} of instruction {index} ({})", instruction.op.name());
        }
        let function = self.function.map(|function| format!(" of @{}", function.name));
        place + &function.unwrap_or_default()
    }

    /// What an instruction is called: where it is, what it is, and where it comes from.
    fn name(&self, index: usize, instruction: &Instruction) -> String {
        let (op, place, source) = (instruction.op.name(), self.place(), self.source(instruction));
        format!("instruction {index} ({op}){place}{source}")
    }

    /// What the program says of where an instruction comes from.
    fn source(&self, instruction: &Instruction) -> String {
        const ROOM: usize = 200;
        let source = instruction.location.source.and_then(|id| self.module.sources.get(id.0 as usize));
        source.map_or_else(String::new, |source| {
            format!(" at {}", source.chars().take(ROOM).collect::<String>())
        })
    }

    fn used(&mut self, values: &[ValueId], user: impl Fn(&Self) -> String) {
        for &value in values {
            if !self.visible.contains(&value) {
                let user = user(self);
                self.problems.push(Problem::Undefined { user, value });
            }
        }
    }

    fn passable(&mut self, value: ValueId, user: impl FnOnce() -> String) {
        if let Some(ty @ ValueType::Other(_)) = self.module.values.get(value.index()) {
            self.problems.push(Problem::NotAnArray { user: user(), ty: ty.clone() });
        }
    }

    fn outputs(&mut self) {
        let outputs = &self.module.outputs;
        let mut donors = HashSet::new();
        for Output { name, value, donor, .. } in outputs {
            self.passable(*value, || format!("output {name}"));
            if !self.visible.contains(value) {
                self.problems.push(Problem::Undefined { user: format!("output {name}"), value: *value });
                continue;
            }
            let Some(donor) = *donor else { continue };
            let reason = match self.module.arguments.get(donor) {
                None => "there is no such argument",
                Some(a) if self.type_of(a.value) != self.type_of(*value) => "their types differ",
                Some(_) if !donors.insert(donor) => "another output does",
                Some(_) => continue,
            };
            self.problems.push(Problem::Donor { output: name.clone(), donor, reason });
        }
        self.distinct_names("outputs", outputs.iter().map(|o| o.name.as_str()));
    }

    fn unit(&mut self, unit: &Unit) {
        let Unit { path, parent, instructions: range, .. } = unit;
        let parent = parent.map(|id| self.module.units.get(id.0 as usize));
        let inside = |start, end| start <= range.start && range.start <= range.end && range.end <= end;
        if !inside(0, self.module.instructions.len()) {
            self.problems.push(Problem::UnitRange { path: path.clone(), nested: false });
        } else if let Some(parent) = parent
            && !parent.is_some_and(|p| inside(p.instructions.start, p.instructions.end))
        {
            self.problems.push(Problem::UnitRange { path: path.clone(), nested: true });
        }
    }

    /// Notes a definition.
    fn define(&mut self, value: ValueId, definer: impl FnOnce(&Self) -> String) {
        let exists = value.index() < self.module.values.len();
        if exists && self.defined.insert(value) {
            self.visible.insert(value);
            self.order.push(value);
        } else {
            let definer = definer(self);
            self.problems.push(Problem::Redefined { definer, value, exists });
        }
    }

    /// Whether a value has the dims of a parameter, but for the one that it is without.
    fn shaped_as_parameter(
        &mut self,
        value: ValueId,
        index: usize,
        without: Option<usize>,
        user: impl FnOnce(&Self) -> String,
    ) {
        let parameter = self.module.arguments.get(index).filter(|a| a.kind == ArgumentKind::Parameter);
        let Some(parameter) = parameter else {
            let user = user(self);
            self.problems.push(Problem::NotAParameter { user, index });
            return;
        };
        let (Some(found), Some(expected)) = (self.type_of(value), self.type_of(parameter.value)) else {
            return; // Reported where the value is defined.
        };
        let kept = expected.dims().iter().enumerate().filter(|(dim, _)| Some(*dim) != without);
        let is_there = without.is_none_or(|dim| dim < expected.rank());
        if !is_there || !kept.map(|(_, size)| size).eq(found.dims()) {
            let (found, expected) = (found.clone(), expected.clone());
            let name = parameter.name.clone();
            let user = user(self);
            self.problems.push(Problem::ParameterShape { user, found, name, expected, without });
        }
    }

    fn distinct_names<'a>(&mut self, what: &'static str, names: impl Iterator<Item = &'a str>) {
        let mut seen = HashSet::new();
        let repeated = names.filter(|&name| !seen.insert(name));
        self.problems.extend(repeated.map(|name| Problem::DuplicateName { what, name: name.to_owned() }));
    }

    fn type_of(&self, value: ValueId) -> Option<&TensorType> {
        self.module.values.get(value.index())?.tensor()
    }
}
