//! Along which axes the values of a manual region vary; what that means is in `collective.rs`.
//!
//! Loops are gone through until nothing more is found to vary: what an iteration hands on, the next one is given.

use std::collections::{BTreeSet, HashMap};

use shardwright_mesh::{AxisName, NamedSharding};

use crate::{AxisGroup, Instruction, ManualComputation, Op, Region, ValueId};

/// What is wrong with how a value varies.
pub(crate) enum VaryingProblem<'m> {
    /// A collective in a place where it is not defined.
    Collective { op: &'m str, axis: AxisName, reason: &'static str },
    /// A result of the region that varies along an axis that does not split it.
    Result { index: usize, axis: AxisName },
}

impl ManualComputation {
    /// Checks how the values of the region vary; see the documentation of `collective.rs`.
    pub(crate) fn check_varying<'m>(&self, region: &'m Region) -> Vec<VaryingProblem<'m>> {
        let mut varying = Varying { manual: self, axes: HashMap::new(), problems: Vec::new() };
        for (&argument, sharding) in region.arguments.iter().zip(&self.in_shardings) {
            varying.axes.insert(argument, self.split_over(sharding));
        }
        for instruction in &region.instructions {
            varying.instruction(instruction);
        }
        for (index, (result, sharding)) in region.results.iter().zip(&self.out_shardings).enumerate() {
            let found = varying.axes.remove(result).unwrap_or_default();
            if let Some(axis) = found.difference(&self.split_over(sharding)).next().cloned() {
                varying.problems.push(VaryingProblem::Result { index, axis });
            }
        }
        varying.problems
    }

    /// The manual axes of more than one device that split an array.
    fn split_over(&self, sharding: &NamedSharding) -> Axes {
        let manual = sharding.spec().axes().filter(|axis| self.manual_axes.contains(axis));
        manual.filter(|axis| sharding.mesh().axis_size(axis) > Some(1)).cloned().collect()
    }
}

type Axes = BTreeSet<AxisName>;

/// How often a loop is gone through. If values that it carries change places for longer than that, each is taken to
/// vary as all of them together do: the time for a text is to be in proportion to its length.
const PASSES: usize = 16;

/// The axes along which the values of a region vary.
struct Varying<'m, 'a> {
    manual: &'a ManualComputation,
    axes: HashMap<ValueId, Axes>,
    problems: Vec<VaryingProblem<'m>>,
}

impl<'m> Varying<'m, '_> {
    fn instruction(&mut self, instruction: &'m Instruction) {
        let Instruction { op, operands, results, .. } = instruction;
        match op {
            Op::OptimizationBarrier => {
                for (operand, &result) in operands.iter().zip(results) {
                    self.extend(result, self.of(operand));
                }
                return;
            }
            Op::While => return self.while_loop(instruction),
            Op::If | Op::Case => return self.branches(instruction),
            _ => {}
        }
        let mut axes: Axes = instruction.uses().iter().flat_map(|value| self.of(value)).collect();
        match op {
            Op::AllGather { axes: group, .. } | Op::ReduceScatter { axes: group, .. } => {
                self.group(instruction, group, &axes, true);
            }
            Op::AllReduce { axes: group, .. } => {
                self.group(instruction, group, &axes, true);
                axes.retain(|axis| !group.axes().contains(axis));
            }
            Op::Vary(group) => {
                self.group(instruction, group, &axes, false);
                axes.extend(group.axes().iter().cloned());
            }
            _ => {}
        }
        for &result in results {
            self.axes.insert(result, axes.clone());
        }
    }

    /// The state of a loop varies along the axes that it does at first, those that an iteration makes it vary along,
    /// and those along which devices may differ in how often it runs.
    fn while_loop(&mut self, Instruction { operands, results, regions, .. }: &'m Instruction) {
        let [condition, body] = &regions[..] else { return };
        for region in regions {
            for (operand, &argument) in operands.iter().zip(&region.arguments) {
                self.extend(argument, self.of(operand));
            }
        }
        // What is found wrong on the way is found in the last pass too.
        let known = self.problems.len();
        for pass in 0.. {
            self.problems.truncate(known);
            regions.iter().flat_map(|region| &region.instructions).for_each(|inner| self.instruction(inner));
            let runs: Axes = condition.results.iter().flat_map(|result| self.of(result)).collect();
            let all: Axes = body.results.iter().flat_map(|result| self.of(result)).collect();
            let mut news = false;
            for (index, result) in body.results.iter().enumerate() {
                let own = if pass < PASSES { self.of(result) } else { all.clone() };
                let axes: Axes = own.union(&runs).cloned().collect();
                for region in regions {
                    news |= region.arguments.get(index).is_some_and(|&a| self.extend(a, axes.clone()));
                }
            }
            if !news {
                break;
            }
        }
        for (&result, argument) in results.iter().zip(&body.arguments) {
            self.extend(result, self.of(argument));
        }
    }

    /// Results of branches vary as those of each branch do, and along the axes where devices may take different ones.
    fn branches(&mut self, Instruction { operands, results, regions, .. }: &'m Instruction) {
        let chosen: Axes = operands.iter().flat_map(|operand| self.of(operand)).collect();
        for region in regions {
            region.instructions.iter().for_each(|inner| self.instruction(inner));
            for (inner, &result) in region.results.iter().zip(results) {
                self.extend(result, self.of(inner));
            }
        }
        for &result in results {
            self.extend(result, chosen.clone());
        }
    }

    fn of(&self, value: &ValueId) -> Axes {
        self.axes.get(value).cloned().unwrap_or_default()
    }

    /// Adds axes along which a value varies, and tells whether that is news.
    fn extend(&mut self, value: ValueId, axes: Axes) -> bool {
        let known = self.axes.entry(value).or_default();
        let before = known.len();
        known.extend(axes);
        known.len() > before
    }

    /// Checks a collective whose operand has to vary along all of its axes, or none.
    fn group(&mut self, instruction: &'m Instruction, group: &AxisGroup, found: &Axes, varies: bool) {
        let Some(first) = group.axes().first() else { return };
        let op = instruction.op.name();
        let mut problem = |axis: &AxisName, reason| {
            let axis = axis.clone();
            self.problems.push(VaryingProblem::Collective { op, axis, reason });
        };
        if self.manual.mesh() != Some(group.mesh()) {
            return problem(first, "its mesh is not that of the region around it");
        }
        for axis in group.axes() {
            if !self.manual.manual_axes.contains(axis) {
                problem(axis, "the region around it is not manual there");
            } else if found.contains(axis) != varies {
                problem(
                    axis,
                    if varies { "its operand is the same there" } else { "its operand varies there" },
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use shardwright_mesh::AbstractMesh;
    use shardwright_tensor::{DType, HostArray, Shape, TensorType};

    use super::*;
    use crate::{Binary, Comparison, Location, Module, Reduction, verify};

    fn over(axes: &[&str]) -> AxisGroup {
        let mesh = AbstractMesh::parse("data=2,fsdp=2").unwrap();
        AxisGroup::new(&mesh, axes.iter().map(|&axis| axis.into())).unwrap()
    }

    fn one(m: &mut Module, op: Op, operands: &[ValueId]) -> ValueId {
        m.push(op, operands).unwrap()[0]
    }

    /// What `write` writes, as a region.
    fn region(
        m: &mut Module,
        arguments: Vec<ValueId>,
        write: impl FnOnce(&mut Module, &[ValueId]) -> Vec<ValueId>,
    ) -> Region {
        let around = std::mem::take(&mut m.instructions);
        let results = write(m, &arguments);
        let instructions = std::mem::replace(&mut m.instructions, around);
        Region { arguments, instructions, results }
    }

    /// A loop over `f32` scalars while the first of them is below 9.
    fn repeat(
        m: &mut Module,
        init: &[ValueId],
        body: impl FnOnce(&mut Module, &[ValueId]) -> Vec<ValueId>,
    ) -> Vec<ValueId> {
        let arguments =
            |m: &mut Module| init.iter().map(|_| m.new_value(scalar().into())).collect::<Vec<_>>();
        let taken = arguments(m);
        let condition = region(m, taken, |m, values| {
            let limit = one(m, Op::Constant(HostArray::scalar(9f32)), &[]);
            vec![one(m, Op::Compare(Comparison::Less), &[values[0], limit])]
        });
        let taken = arguments(m);
        let body = region(m, taken, body);
        m.push_with_regions(Op::While, init, vec![condition, body], Location::default()).unwrap()
    }

    fn scalar() -> TensorType {
        TensorType::scalar(DType::F32)
    }

    /// Checks a region that takes an invariant scalar and one that varies over fsdp, and gives one invariant scalar.
    #[track_caller]
    fn check(write: impl FnOnce(&mut Module, [ValueId; 2]) -> ValueId, expect: Expect) {
        let mesh = AbstractMesh::parse("data=2,fsdp=2").unwrap();
        let on = |spec: &str| NamedSharding::new(&mesh, spec.parse().unwrap()).unwrap();
        let mut m = Module::new("m");
        let same = m.add_argument("same", scalar());
        let split = m.add_argument("split", TensorType::new(DType::F32, [2]).unwrap());
        let inner = [scalar(), TensorType::new(DType::F32, [1]).unwrap()].map(|ty| m.new_value(ty.into()));
        let region = region(&mut m, inner.to_vec(), |m, values| {
            let shape = Shape::new([0usize; 0]).unwrap();
            let differs = one(m, Op::Reshape(shape), &[values[1]]);
            vec![write(m, [values[0], differs])]
        });
        let manual = ManualComputation {
            in_shardings: vec![on("()"), on("(fsdp)")],
            out_shardings: vec![on("()")],
            manual_axes: vec!["data".into(), "fsdp".into()],
            results: vec![scalar()],
        };
        let op = Op::ManualComputation(Box::new(manual));
        let result = m.push_with_regions(op, &[same, split], vec![region], Location::default()).unwrap();
        m.add_output("y", result[0]);
        expect.assert_eq(&verify(m).map_or_else(|e| e.to_string(), |_| "sound".into()));
    }

    const SUM: Op = Op::Binary(Binary::Add);

    fn all_reduce(m: &mut Module, x: ValueId) -> ValueId {
        one(m, Op::AllReduce { kind: Reduction::Add, axes: over(&["fsdp"]) }, &[x])
    }

    #[test]
    fn what_a_loop_carries_varies_as_its_iterations_make_it() {
        check(
            |m, [same, _]| repeat(m, &[same], |m, v| vec![one(m, SUM, &[v[0], v[0]])])[0],
            expect!["sound"],
        );
        // Found in the second pass: the third value gets what the second one has after the first.
        check(
            |m, [same, differs]| {
                repeat(m, &[same, same, same], |m, v| vec![v[0], one(m, SUM, &[v[1], differs]), v[1]])[2]
            },
            expect![[r#"
                module m has 1 problem
                  instruction 0 (sdy.manual_computation): result 0 is not split over fsdp, and may differ along it"#]],
        );
        check(
            |m, [same, differs]| {
                let results = repeat(m, &[same, same], |m, v| {
                    let total = all_reduce(m, differs);
                    vec![v[0], one(m, SUM, &[v[1], total])]
                });
                results[1]
            },
            expect!["sound"],
        );
        // Through more values than the loop is gone through.
        check(
            |m, [same, differs]| {
                repeat(m, &[same; 40], |m, v| {
                    let first = one(m, SUM, &[v[1], differs]);
                    [&[v[0], first], &v[1..39]].concat()
                })[39]
            },
            expect![[r#"
                module m has 1 problem
                  instruction 0 (sdy.manual_computation): result 0 is not split over fsdp, and may differ along it"#]],
        );
        check(
            |m, [same, differs]| repeat(m, &[differs, same], |_, v| v.to_vec())[1],
            expect![[r#"
            module m has 1 problem
              instruction 0 (sdy.manual_computation): result 0 is not split over fsdp, and may differ along it"#]],
        );
    }

    #[test]
    fn collectives_in_loops_and_branches_fit_their_operands() {
        check(
            |m, [same, _]| repeat(m, &[same, same], |m, v| vec![v[0], all_reduce(m, v[1])])[1],
            expect![[r#"
            module m has 1 problem
              all_reduce in instruction 0 (sdy.manual_computation) along fsdp: its operand is the same there"#]],
        );
        // The same value varies from the second iteration on.
        check(
            |m, [same, differs]| {
                let results = repeat(m, &[same, same, same], |m, v| {
                    let total = all_reduce(m, v[1]);
                    vec![v[0], differs, one(m, SUM, &[v[2], total])]
                });
                results[2]
            },
            expect!["sound"],
        );
        let branches = |m: &mut Module, chosen: ValueId, x: ValueId| {
            let limit = one(m, SUM, &[chosen, chosen]);
            let chosen = one(m, Op::Compare(Comparison::Less), &[chosen, limit]);
            let on_true = region(m, vec![], |m, _| vec![one(m, SUM, &[x, x])]);
            let on_false = region(m, vec![], |_, _| vec![x]);
            m.push_with_regions(Op::If, &[chosen], vec![on_true, on_false], Location::default()).unwrap()[0]
        };
        check(|m, [same, _]| branches(m, same, same), expect!["sound"]);
        check(
            |m, [same, differs]| branches(m, same, differs),
            expect![[r#"
            module m has 1 problem
              instruction 0 (sdy.manual_computation): result 0 is not split over fsdp, and may differ along it"#]],
        );
        check(
            |m, [same, differs]| branches(m, differs, same),
            expect![[r#"
            module m has 1 problem
              instruction 0 (sdy.manual_computation): result 0 is not split over fsdp, and may differ along it"#]],
        );
    }
}
