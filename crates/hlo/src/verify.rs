//! Checks a whole module. What holds afterwards:
//!
//! - every value is defined once, by an argument or by one instruction, and only used after that;
//! - the recorded type of every value is the one that [`infer`] gives;
//! - outputs exist; an output and its donor have one type, and no argument is donated twice;
//! - states and gradients name arguments that are parameters, and have their shape;
//! - argument and output names are distinct;
//! - units are ranges of instructions that lie inside their parents.

use std::collections::HashSet;
use std::fmt;

use shardwright_mesh::AxisName;
use shardwright_tensor::TensorType;
use thiserror::Error;

use crate::collective::VaryingProblem;
use crate::infer::{List, infer_instruction};
use crate::{
    Argument, ArgumentKind, InferError, Instruction, Module, Op, Output, Region, Role, Unit, ValueId,
    ValueType,
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
#[derive(Clone, Debug, PartialEq)]
pub struct VerifyErrors {
    /// Name of the module.
    pub module: String,
    /// The problems, in program order.
    pub problems: Vec<Problem>,
}

/// One thing that is wrong with a module.
#[derive(Clone, Debug, PartialEq, Error)]
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
    #[error("{user} has shape {found}, its parameter {name} is {expected}")]
    ParameterShape {
        /// Which state or gradient.
        user: String,
        /// The type it has.
        found: TensorType,
        /// Name of the parameter.
        name: String,
        /// The type of the parameter.
        expected: TensorType,
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
    /// Two arguments or two outputs with one name.
    #[error("two {what} are named {name}")]
    DuplicateName {
        /// `arguments` or `outputs`.
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

/// Checks a module; see [`VerifyErrors`] for what it reports.
///
/// # Errors
/// All problems of the module, in program order.
pub fn verify(module: Module) -> Result<VerifiedModule, VerifyErrors> {
    let mut verifier = Verifier { module: &module, defined: HashSet::new(), problems: Vec::new() };
    verifier.arguments();
    for (index, instruction) in module.instructions.iter().enumerate() {
        verifier.instruction(index, instruction);
    }
    verifier.outputs();
    for unit in &module.units {
        verifier.unit(unit);
    }
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

struct Verifier<'m> {
    module: &'m Module,
    defined: HashSet<ValueId>,
    problems: Vec<Problem>,
}

impl Verifier<'_> {
    fn arguments(&mut self) {
        let arguments = &self.module.arguments;
        for Argument { name, value, kind, .. } in arguments {
            self.define(*value, || format!("argument {name}"));
            if let ArgumentKind::State { parameter } = *kind {
                self.shaped_as_parameter(*value, parameter, || format!("state {name}"));
            }
        }
        self.distinct_names("arguments", arguments.iter().map(|a| a.name.as_str()));
    }

    fn instruction(&mut self, index: usize, instruction: &Instruction) {
        let Instruction { op, operands, results, regions, .. } = instruction;
        let name = || format!("instruction {index} ({})", op.name());
        if let (Op::ManualComputation(manual), [region]) = (op, &regions[..]) {
            self.manual_region(index, region);
            self.problems.extend(manual.check_varying(region).into_iter().map(|problem| match problem {
                VaryingProblem::Result { index, axis } => {
                    Problem::Varies { instruction: name(), index, axis }
                }
                VaryingProblem::Collective { instruction, axis, reason } => {
                    let instruction =
                        format!("instruction {index} ({}, {})", op.name(), instruction.op.name());
                    Problem::Collective { instruction, axis, reason }
                }
            }));
        }
        let undefined = operands.iter().filter(|v| !self.defined.contains(v));
        let undefined: Vec<Problem> =
            undefined.map(|&value| Problem::Undefined { user: name(), value }).collect();
        let operands_exist = undefined.is_empty();
        self.problems.extend(undefined);
        let new = results.iter().filter(|&&value| self.define(value, name)).count();
        if !operands_exist || new < results.len() {
            return;
        }

        match infer_instruction(self.module, op, operands, regions) {
            Err(source) => self.problems.push(Problem::Infer { instruction: name(), source }),
            Ok(expected) => {
                let found: Vec<ValueType> =
                    results.iter().map(|&v| self.module.values[v.index()].clone()).collect();
                if expected != found {
                    let instruction = name();
                    self.problems.push(Problem::ResultTypes { instruction, expected, found });
                } else if let Op::Boundary(Role::Gradient { parameter }) = *op {
                    self.shaped_as_parameter(operands[0], parameter, name);
                }
            }
        }
    }

    /// Checks the instructions of a manual region, which uses nothing from around it.
    fn manual_region(&mut self, index: usize, region: &Region) {
        let outside = std::mem::take(&mut self.defined);
        for &argument in &region.arguments {
            self.define(argument, || format!("the region of instruction {index}"));
        }
        for instruction in &region.instructions {
            self.instruction(index, instruction);
        }
        for &value in region.results.iter().filter(|v| !self.defined.contains(v)) {
            self.problems
                .push(Problem::Undefined { user: format!("the region of instruction {index}"), value });
        }
        let inside = std::mem::replace(&mut self.defined, outside);
        let twice: Vec<ValueId> = inside.intersection(&self.defined).copied().collect();
        for value in twice {
            let definer = format!("the region of instruction {index}");
            self.problems.push(Problem::Redefined { definer, value, exists: true });
        }
    }

    fn outputs(&mut self) {
        let outputs = &self.module.outputs;
        let mut donors = HashSet::new();
        for Output { name, value, donor, .. } in outputs {
            if !self.defined.contains(value) {
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

    /// Notes a definition; whether it is in order.
    fn define(&mut self, value: ValueId, definer: impl FnOnce() -> String) -> bool {
        let exists = value.index() < self.module.values.len();
        let fine = exists && self.defined.insert(value);
        if !fine {
            self.problems.push(Problem::Redefined { definer: definer(), value, exists });
        }
        fine
    }

    fn shaped_as_parameter(&mut self, value: ValueId, index: usize, user: impl FnOnce() -> String) {
        let parameter = self.module.arguments.get(index).filter(|a| a.kind == ArgumentKind::Parameter);
        let Some(parameter) = parameter else {
            self.problems.push(Problem::NotAParameter { user: user(), index });
            return;
        };
        let (Some(found), Some(expected)) = (self.type_of(value), self.type_of(parameter.value)) else {
            return; // Reported where the value is defined.
        };
        if found.shape != expected.shape {
            let (found, expected) = (found.clone(), expected.clone());
            let name = parameter.name.clone();
            self.problems.push(Problem::ParameterShape { user: user(), found, name, expected });
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

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use shardwright_tensor::DType;

    use super::*;
    use crate::{Binary, Unary, UnitId};

    fn f32(dims: &[usize]) -> TensorType {
        TensorType::new(DType::F32, dims).unwrap()
    }

    /// `y = x + w`, with a parameter, a state of it and a donated output.
    fn sound() -> Module {
        let mut m = Module::new("m");
        let w = m.add_argument_of_kind("w", f32(&[2]), ArgumentKind::Parameter);
        m.add_argument_of_kind("m.w", f32(&[2]), ArgumentKind::State { parameter: 0 });
        let x = m.add_argument("x", f32(&[2]));
        let y = m.push(Op::Binary(Binary::Add), &[x, w]).unwrap();
        m.add_donated_output("y", y[0], 0);
        m
    }

    #[track_caller]
    fn check(change: impl FnOnce(&mut Module), expect: Expect) {
        let mut module = sound();
        change(&mut module);
        expect.assert_eq(&verify(module).map_or_else(|e| e.to_string(), |_| "sound".into()));
    }

    #[test]
    fn sound_modules_pass() {
        check(|_| (), expect!["sound"]);
    }

    #[test]
    fn values_are_defined_once_before_use() {
        check(
            |m| m.instructions[0].operands[0] = ValueId(3),
            expect![[r#"
                module m has 1 problem
                  instruction 0 (add) uses %3, which is not defined before it"#]],
        );
        check(
            |m| m.instructions[0].results[0] = ValueId(2),
            expect![[r#"
                module m has 2 problems
                  instruction 0 (add) defines %2, which is defined already
                  output y uses %3, which is not defined before it"#]],
        );
        check(
            |m| m.instructions[0].results[0] = ValueId(9),
            expect![[r#"
                module m has 2 problems
                  instruction 0 (add) defines %9, which is not in the table of values
                  output y uses %3, which is not defined before it"#]],
        );
    }

    #[test]
    fn recorded_types_are_the_inferred_ones() {
        check(
            |m| m.values[3] = f32(&[3]).into(),
            expect![[r#"
                module m has 2 problems
                  instruction 0 (add): results are [f32[2]], recorded as [f32[3]]
                  output y cannot take over the memory of argument 0: their types differ"#]],
        );
        check(
            |m| m.instructions[0].op = Op::Unary(Unary::Sqrt),
            expect![[r#"
                module m has 1 problem
                  instruction 0 (sqrt): sqrt takes 1 operands, got 2"#]],
        );
    }

    #[test]
    fn states_and_gradients_belong_to_parameters() {
        check(
            |m| m.arguments[1].kind = ArgumentKind::State { parameter: 2 },
            expect![[r#"
                module m has 1 problem
                  state m.w names argument 2, which is not a parameter"#]],
        );
        check(
            |m| m.values[1] = f32(&[3]).into(),
            expect![[r#"
                module m has 1 problem
                  state m.w has shape f32[3], its parameter w is f32[2]"#]],
        );
        check(
            |m| {
                let g = m.push(Op::Boundary(Role::Gradient { parameter: 7 }), &[ValueId(3)]).unwrap();
                m.add_output("g", g[0]);
            },
            expect![[r#"
                module m has 1 problem
                  instruction 1 (boundary) names argument 7, which is not a parameter"#]],
        );
    }

    #[test]
    fn outputs_and_names_are_sound() {
        check(
            |m| m.add_donated_output("y", ValueId(3), 0),
            expect![[r#"
                module m has 2 problems
                  output y cannot take over the memory of argument 0: another output does
                  two outputs are named y"#]],
        );
        check(
            |m| m.outputs[0].donor = Some(5),
            expect![[r#"
                module m has 1 problem
                  output y cannot take over the memory of argument 5: there is no such argument"#]],
        );
    }

    #[test]
    fn units_nest() {
        let unit = |range, parent: Option<u32>| Unit {
            path: "layer".into(),
            class: "Layer".into(),
            parent: parent.map(UnitId),
            instructions: range,
        };
        check(
            |m| m.units = vec![unit(0..1, None), unit(0..2, None), unit(0..1, Some(4))],
            expect![[r#"
                module m has 2 problems
                  unit layer: its range of instructions does not lie inside the program
                  unit layer: its range of instructions does not lie inside its parent"#]],
        );
    }
}
