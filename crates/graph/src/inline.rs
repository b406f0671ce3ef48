//! Programs from elsewhere, as a part of one that is being written.

use std::collections::HashMap;

use shardwright_hlo::{Instruction, Location, Module, Op, Region, ValueId, ValueType, VerifiedModule};
use shardwright_tensor::TensorType;
use thiserror::Error;

use crate::{Graph, GraphError};

/// Calls inside calls that are followed.
const MAX_DEPTH: usize = 64;
/// Instructions that calls may come to: where functions call each other twice, that grows with a power of their number.
const MAX_INSTRUCTIONS: usize = 1 << 18;

/// Why a program cannot be a part of another.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum InlineProblem {
    /// Other operands than it takes.
    #[error("it takes {expected} arguments, and was given {given}")]
    Count {
        /// Arguments of its main function.
        expected: usize,
        /// Operands.
        given: usize,
    },
    /// An operand of another type.
    #[error("its argument {name} is {expected}, and was given {given}")]
    Type {
        /// The argument.
        name: String,
        /// Its type.
        expected: TensorType,
        /// That of the operand.
        given: TensorType,
    },
    /// Something in it that is not known here.
    #[error("{op} defines a value of type {ty}, and only arrays can be used here")]
    NotAnArray {
        /// What defines it.
        op: String,
        /// Its type.
        ty: String,
    },
    /// Functions that call each other too deeply.
    #[error("its calls are more than {MAX_DEPTH} deep")]
    Depth,
    /// Calls that come to too much.
    #[error("with the functions that it calls it is more than {MAX_INSTRUCTIONS} instructions")]
    Size,
}

impl Graph {
    /// Writes the main function of a program here, applied to these operands, and gives its outputs. Functions that it
    /// calls are written where they are called, so gradients can be taken through all of it, as far as its ops have any.
    ///
    /// The program's shardings are left out: those of the program that is being written count.
    ///
    /// ```
    /// use shardwright_graph::{Graph, Recompute};
    /// use shardwright_hlo::{ArgumentKind, parse, verify};
    /// use shardwright_tensor::{DType, TensorType};
    ///
    /// let square = parse(
    ///     "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
    ///        %y = stablehlo.multiply %x, %x : tensor<4xf32>
    ///        return %y : tensor<4xf32>
    ///      }",
    /// )?;
    /// let g = Graph::new("step");
    /// let w = g.argument("w", TensorType::new(DType::F32, [4])?, ArgumentKind::Parameter);
    /// let loss = g.sum(g.inline(&square.module, &[w])?[0], &[0])?;
    /// g.output("gradient", g.gradients(loss, &[w], &|_| Recompute::Nothing)?[0]);
    /// verify(g.finish())?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// When the operands are not what the program takes, or it has what no program that is written here can have.
    pub fn inline(&self, program: &VerifiedModule, operands: &[ValueId]) -> Result<Vec<ValueId>, GraphError> {
        let written = self.written(program, operands);
        let (instructions, outputs) = written.map_err(|problem| GraphError::Inline {
            unit: self.unit_path(),
            program: program.name.clone(),
            problem: Box::new(problem),
        })?;
        self.module.borrow_mut().instructions.extend(instructions);
        Ok(outputs)
    }

    fn written(
        &self,
        program: &Module,
        operands: &[ValueId],
    ) -> Result<(Vec<Instruction>, Vec<ValueId>), InlineProblem> {
        let (expected, given) = (program.arguments.len(), operands.len());
        if expected != given {
            return Err(InlineProblem::Count { expected, given });
        }
        let mut names = HashMap::new();
        for (argument, &operand) in program.arguments.iter().zip(operands) {
            let (expected, given) = (program.ty(argument.value).clone(), self.ty(operand));
            if expected != given {
                return Err(InlineProblem::Type { name: argument.name.clone(), expected, given });
            }
            names.insert(argument.value, operand);
        }
        let mut inlined = Inlined { graph: self, program, names, depth: 0, left: MAX_INSTRUCTIONS };
        let instructions = inlined.code(&program.instructions)?;
        let outputs = program.outputs.iter().map(|output| inlined.names[&output.value]).collect();
        Ok((instructions, outputs))
    }
}

/// A program that is being written as a part of another.
struct Inlined<'a> {
    graph: &'a Graph,
    program: &'a Module,
    /// What its values are called there.
    names: HashMap<ValueId, ValueId>,
    depth: usize,
    left: usize,
}

impl Inlined<'_> {
    fn code(&mut self, code: &[Instruction]) -> Result<Vec<Instruction>, InlineProblem> {
        let mut written = Vec::with_capacity(code.len());
        for instruction in code {
            self.left = self.left.checked_sub(1).ok_or(InlineProblem::Size)?;
            match &instruction.op {
                Op::Call(function) => {
                    let body = &self.program.functions[function.0 as usize].body;
                    self.rename(&body.arguments, &instruction.operands);
                    self.depth += 1;
                    if self.depth > MAX_DEPTH {
                        return Err(InlineProblem::Depth);
                    }
                    written.extend(self.code(&body.instructions)?);
                    self.depth -= 1;
                    self.rename(&instruction.results, &body.results);
                }
                Op::Boundary(_) => self.rename(&instruction.results, &instruction.operands),
                _ => written.push(self.instruction(instruction)?),
            }
        }
        Ok(written)
    }

    fn instruction(&mut self, instruction: &Instruction) -> Result<Instruction, InlineProblem> {
        let operands = self.known(&instruction.operands);
        let regions = instruction.regions.iter().map(|region| self.region(region, &instruction.op));
        let regions = regions.collect::<Result<_, _>>()?;
        let results = self.new_values(&instruction.results, &instruction.op)?;
        let location = Location { source: None, ..self.graph.location.get() };
        Ok(Instruction { op: instruction.op.clone(), operands, results, regions, location })
    }

    fn region(&mut self, region: &Region, op: &Op) -> Result<Region, InlineProblem> {
        let arguments = self.new_values(&region.arguments, op)?;
        let instructions = self.code(&region.instructions)?;
        Ok(Region { arguments, instructions, results: self.known(&region.results) })
    }

    fn new_values(&mut self, values: &[ValueId], op: &Op) -> Result<Vec<ValueId>, InlineProblem> {
        let mut new = Vec::with_capacity(values.len());
        for &value in values {
            let ty = match &self.program.values[value.0 as usize] {
                ValueType::Tensor(ty) => ty.clone(),
                ValueType::Other(ty) => {
                    return Err(InlineProblem::NotAnArray { op: op.name().to_owned(), ty: ty.to_string() });
                }
            };
            let renamed = self.graph.new_value(ty);
            self.names.insert(value, renamed);
            new.push(renamed);
        }
        Ok(new)
    }

    /// From here on, `values` are other names for `known`.
    fn rename(&mut self, values: &[ValueId], known: &[ValueId]) {
        let known = self.known(known);
        self.names.extend(values.iter().copied().zip(known));
    }

    fn known(&self, values: &[ValueId]) -> Vec<ValueId> {
        values.iter().map(|value| self.names[value]).collect()
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use shardwright_hlo::{ArgumentKind, parse, print, verify};
    use shardwright_tensor::DType;

    use super::*;
    use crate::Recompute;

    /// What is said of a program applied to `f32[2]`, with the gradient of the sum of its output.
    #[track_caller]
    fn check(text: &str, expect: Expect) {
        let program = parse(text).unwrap().module;
        let g = Graph::new("outer");
        let x = g.argument("x", TensorType::new(DType::F32, [2]).unwrap(), ArgumentKind::Parameter);
        let written = g.unit("head", "Head", || {
            let y = g.inline(&program, &[x])?[0];
            let sum = g.sum(y, &[0])?;
            Ok(g.gradients(sum, &[x], &|_| Recompute::Nothing)?[0])
        });
        let said = match written {
            Err(e) => e.to_string(),
            Ok(gradient) => {
                g.output("gradient", gradient);
                print(&verify(g.finish()).unwrap(), None)
            }
        };
        expect.assert_eq(&said);
    }

    fn function(body: &str) -> String {
        format!("func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {{ {body} return %y : tensor<2xf32> }}")
    }

    #[test]
    fn functions_are_written_where_they_are_called() {
        let twice = function(
            "%a = func.call @twice(%x) : (tensor<2xf32>) -> tensor<2xf32>
             %y = func.call @twice(%a) : (tensor<2xf32>) -> tensor<2xf32>",
        );
        let callee = "func.func private @twice(%x: tensor<2xf32>) -> tensor<2xf32> {
            %y = stablehlo.add %x, %x : tensor<2xf32>
            return %y : tensor<2xf32>
        }";
        check(
            &format!("module {{ {twice} {callee} }}"),
            expect![[r#"
            module @outer attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
              func.func public @main(%arg0: tensor<2xf32> loc("x")) -> (tensor<2xf32> {jax.result_info = "gradient"}) {
                %0 = stablehlo.add %arg0, %arg0 : tensor<2xf32> loc("head")
                %1 = stablehlo.add %0, %0 : tensor<2xf32> loc("head")
                %2 = stablehlo.constant dense<0.0e0> : tensor<f32>
                %3 = stablehlo.reduce(%1 init: %2) applies stablehlo.add across dimensions = [0] : (tensor<2xf32>, tensor<f32>) -> tensor<f32> loc("head")
                %4 = stablehlo.constant dense<1.0e0> : tensor<f32> loc("head")
                %5 = stablehlo.broadcast_in_dim %4, dims = [] : (tensor<f32>) -> tensor<2xf32> loc("head/backward")
                %6 = stablehlo.add %5, %5 : tensor<2xf32> loc("head/backward")
                %7 = stablehlo.add %6, %6 : tensor<2xf32> loc("head/backward")
                return %7 : tensor<2xf32>
              }
            }
        "#]],
        );
    }

    #[test]
    fn what_is_wrong_is_said() {
        let text = "func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> { return %x : tensor<3xf32> }";
        check(
            text,
            expect![
                "head: program main cannot be used here: its argument arg0 is f32[3], and was given f32[2]"
            ],
        );
        let text = "func.func @main(%x: tensor<2xf32>, %y: tensor<2xf32>) -> tensor<2xf32> { return %y : tensor<2xf32> }";
        check(text, expect!["head: program main cannot be used here: it takes 2 arguments, and was given 1"]);
        check(
            &function("%y = \"stablehlo.round_nearest_magic\"(%x) : (tensor<2xf32>) -> tensor<2xf32>"),
            expect!["head: stablehlo.round_nearest_magic has no gradient"],
        );
    }

    #[test]
    fn calls_that_double_each_time_are_refused() {
        let call = |name: &str| format!("func.call @{name}(%x) : (tensor<2xf32>) -> tensor<2xf32>");
        let function = |name: &str, callee: &str| {
            format!(
                "func.func @{name}(%x: tensor<2xf32>) -> tensor<2xf32> {{ %a = {0} %y = {0} return %y : tensor<2xf32> }}",
                call(callee)
            )
        };
        let mut text = function("main", "f0");
        for i in 0..40 {
            text += &function(&format!("f{i}"), &format!("f{}", i + 1));
        }
        text += "func.func @f40(%x: tensor<2xf32>) -> tensor<2xf32> { return %x : tensor<2xf32> }";
        check(
            &format!("module {{ {text} }}"),
            expect![
                "head: program main cannot be used here: with the functions that it calls it is more than 262144 instructions"
            ],
        );
    }
}
