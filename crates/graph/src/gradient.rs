//! Reverse-mode differentiation.
//!
//! The instructions that are there are walked from last to first. Each turns the gradients of its results, its
//! cotangents, into those of its operands by its op's rule; a value that is used several times gets the sum. What
//! does not depend on the values that gradients are wanted of is left out.
//!
//! **Rematerialisation.** When the walk comes to the end of a unit that is to be rematerialised, all gradients of
//! what the unit hands on are known. Its inputs and these gradients go through one `optimization_barrier`; the unit's
//! instructions are then written again on the inputs that come out of it, and the walk goes through the copies. The
//! barrier makes the copies depend on the incoming gradients, so they can neither be merged with the originals nor
//! start early, and the originals' values die in the forward pass. Of nested units the outermost one counts.
//!
//! What is written again can be a part of the unit: its [weights](Role::Weight) only, with what is made of them alone,
//! so that parameters which a sharding plan gathers there are gathered a second time and are not kept in between; or
//! everything but the weights.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use shardwright_hlo::{ArgumentKind, Instruction, Op, Phase, Role, Unit, UnitId, ValueId};

use crate::rules::vjp;
use crate::{Graph, GraphError};

type Result<T> = std::result::Result<T, GraphError>;

/// What of a unit is computed again in the reverse pass, instead of being kept from the forward pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Recompute {
    /// Nothing.
    #[default]
    Nothing,
    /// The [`Role::Weight`] boundaries, what brings [stored](Graph::stored_as) parameters together before them, and
    /// what is made of weights alone: parameters are gathered again, activations are kept.
    Weights,
    /// All but the weights: these are kept as they were gathered.
    Activations,
    /// All.
    All,
}

/// What an instruction of a unit gives.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Gives {
    Weight,
    /// Something that is made of weights alone, such as one broadcast. It keeps them alive wherever it is kept.
    OfWeights,
    Activation,
}

impl Recompute {
    fn includes(self, gives: Gives) -> bool {
        match self {
            Recompute::Nothing => false,
            Recompute::Weights => gives != Gives::Activation,
            Recompute::Activations => gives != Gives::Weight,
            Recompute::All => true,
        }
    }
}

impl Graph {
    /// Appends the reverse pass: the gradients of `loss`, a float scalar, with respect to each value of `wrt`.
    ///
    /// `recompute` says for each unit what of it is computed again in the reverse pass. The gradient of a parameter is
    /// a [`Role::Gradient`] boundary; one that `loss` does not depend on is zero.
    ///
    /// # Errors
    /// When `loss` is not a float scalar, or depends on `wrt` through an op that has no gradient.
    pub fn gradients(
        &self,
        loss: ValueId,
        wrt: &[ValueId],
        recompute: &dyn Fn(&Unit) -> Recompute,
    ) -> Result<Vec<ValueId>> {
        let ty = self.ty(loss);
        if ty.rank() != 0 || !ty.dtype.is_float() {
            return Err(GraphError::NotAScalar { ty });
        }
        let mut reverse =
            Reverse { graph: self, depends: Vec::new(), cotangents: HashMap::new(), copies: HashMap::new() };
        reverse.find_dependent(wrt);
        reverse.cotangents.insert(loss, self.full_like(loss, 1.0)?);
        let (end, units) = {
            let module = self.module.borrow();
            let ranges = outermost(&module.units, recompute);
            (module.instructions.len(), ranges)
        };
        reverse.walk(0..end, &units)?;
        wrt.iter().map(|&value| reverse.finish(value)).collect()
    }
}

/// A unit of which something is computed again.
#[derive(Clone)]
struct Remat {
    unit: UnitId,
    instructions: Range<usize>,
    recompute: Recompute,
}

/// The outermost units of which something is computed again, by where their instructions end.
fn outermost(units: &[Unit], recompute: &dyn Fn(&Unit) -> Recompute) -> HashMap<usize, Remat> {
    let remat = |(id, unit): (UnitId, &Unit)| {
        let recompute = Some(recompute(unit)).filter(|what| *what != Recompute::Nothing);
        let recompute = recompute.filter(|_| !unit.instructions.is_empty())?;
        Some(Remat { unit: id, instructions: unit.instructions.clone(), recompute })
    };
    let chosen: Vec<Remat> = (0..).map(UnitId).zip(units).filter_map(remat).collect();
    let inside = |inner: &Range<usize>, outer: &Range<usize>| {
        inner != outer && outer.start <= inner.start && inner.end <= outer.end
    };
    let is_outer =
        |unit: &&Remat| !chosen.iter().any(|other| inside(&unit.instructions, &other.instructions));
    chosen.iter().filter(is_outer).map(|unit| (unit.instructions.end, unit.clone())).collect()
}

struct Reverse<'g> {
    graph: &'g Graph,
    /// For each value, whether it depends on one that gradients are wanted of. Shorter than the table of values:
    /// what the reverse pass adds does not matter.
    depends: Vec<bool>,
    cotangents: HashMap<ValueId, ValueId>,
    /// Values of a unit that is being walked, and what they are computed as again.
    copies: HashMap<ValueId, ValueId>,
}

impl Reverse<'_> {
    fn find_dependent(&mut self, wrt: &[ValueId]) {
        let module = self.graph.module.borrow();
        let detached = self.graph.detached.borrow();
        self.depends = vec![false; module.values.len()];
        for value in wrt {
            self.depends[value.index()] = true;
        }
        for instruction in &module.instructions {
            let depends = instruction.operands.iter().any(|v| self.depends[v.index()]);
            for result in &instruction.results {
                let float = module.ty(*result).dtype.is_float();
                self.depends[result.index()] |= depends && float && !detached.contains(result);
            }
        }
    }

    fn depends_on_wrt(&self, value: ValueId) -> bool {
        self.depends.get(value.index()).copied().unwrap_or(false)
    }

    /// Goes through the instructions in `range` from last to first; `units` are rematerialised.
    fn walk(&mut self, range: Range<usize>, units: &HashMap<usize, Remat>) -> Result<()> {
        let mut end = range.end;
        while end > range.start {
            match units.get(&end) {
                Some(unit) => {
                    self.rematerialise(unit)?;
                    end = unit.instructions.start;
                }
                None => {
                    end -= 1;
                    self.instruction(end)?;
                }
            }
        }
        Ok(())
    }

    fn instruction(&mut self, index: usize) -> Result<()> {
        let mut instruction = self.graph.module.borrow().instructions[index].clone();
        for operand in &mut instruction.operands {
            *operand = *self.copies.get(operand).unwrap_or(operand);
        }
        let wanted: Vec<bool> = instruction.operands.iter().map(|&v| self.depends_on_wrt(v)).collect();
        let arriving: Vec<Option<ValueId>> = instruction.results.iter().map(|&v| self.cotangent(v)).collect();
        if !wanted.contains(&true) || arriving.iter().all(Option::is_none) {
            return Ok(());
        }
        let graph = self.graph;
        graph.at(instruction.location.unit, Phase::Backward, || {
            let leaving = vjp(graph, &instruction, &arriving, &wanted)?;
            for ((&operand, cotangent), wanted) in instruction.operands.iter().zip(leaving).zip(wanted) {
                if let (Some(cotangent), true) = (cotangent, wanted) {
                    self.accumulate(operand, cotangent)?;
                }
            }
            Ok(())
        })
    }

    /// Computes the unit again behind a barrier, and goes back through that and what was kept.
    fn rematerialise(&mut self, Remat { unit, instructions, recompute }: &Remat) -> Result<()> {
        let (again, kept) = self.divided(instructions, *recompute);
        if again.is_empty() {
            return self.walk(instructions.clone(), &HashMap::new());
        }
        let (inputs, outputs) = {
            let module = self.graph.module.borrow();
            let body: Vec<&Instruction> = again.iter().map(|&index| &module.instructions[index]).collect();
            (inputs_of(&body), outputs_of(module.instructions[instructions.clone()].iter()))
        };
        let outputs: Vec<(ValueId, ValueId)> =
            outputs.into_iter().filter_map(|v| Some((v, self.cotangent(v)?))).collect();
        if outputs.is_empty() {
            return Ok(());
        }

        let held: Vec<ValueId> = inputs.iter().copied().chain(outputs.iter().map(|o| o.1)).collect();
        let released = self
            .graph
            .at(Some(*unit), Phase::Recompute, || self.graph.push(Op::OptimizationBarrier, &held))?;
        let (released_inputs, released_cotangents) = released.split_at(inputs.len());
        let mut copies: HashMap<ValueId, ValueId> =
            inputs.iter().copied().zip(released_inputs.iter().copied()).collect();
        self.inherit(&copies);

        let start = self.graph.module.borrow().instructions.len();
        for index in again {
            self.write_again(index, &mut copies)?;
        }
        let end = self.graph.module.borrow().instructions.len();
        self.inherit(&copies);

        for ((output, _), &cotangent) in outputs.iter().zip(released_cotangents) {
            self.cotangents.remove(output);
            self.accumulate(*copies.get(output).unwrap_or(output), cotangent)?;
        }
        // Weights, and what is made of them, depend on nothing else in the unit, so they come last.
        if *recompute == Recompute::Weights {
            self.walk_kept(&kept, copies)?;
            self.walk(start..end, &HashMap::new())?;
            self.release(&inputs, released_inputs)
        } else {
            self.walk(start..end, &HashMap::new())?;
            self.release(&inputs, released_inputs)?;
            self.walk_kept(&kept, HashMap::new())
        }
    }

    /// The instructions of a unit that are computed again, and those that are not.
    fn divided(&self, unit: &Range<usize>, recompute: Recompute) -> (Vec<usize>, Vec<usize>) {
        let module = self.graph.module.borrow();
        let mut of_weights: HashSet<ValueId> = HashSet::new();
        unit.clone().partition(|&index| {
            let instruction = &module.instructions[index];
            let operands = &instruction.operands;
            let gives = if self.graph.is_weight(instruction) {
                Gives::Weight
            } else if !operands.is_empty() && operands.iter().all(|operand| of_weights.contains(operand)) {
                Gives::OfWeights
            } else {
                Gives::Activation
            };
            if gives != Gives::Activation {
                of_weights.extend(&instruction.results);
            }
            recompute.includes(gives)
        })
    }

    /// Goes through instructions of a unit that are not computed again; they use `copies` in place of the originals.
    fn walk_kept(&mut self, kept: &[usize], copies: HashMap<ValueId, ValueId>) -> Result<()> {
        self.copies = copies;
        let walked = kept.iter().rev().try_for_each(|&index| self.instruction(index));
        self.copies = HashMap::new();
        walked
    }

    /// What arrived at values that came out of a barrier belongs to those that went in.
    fn release(&mut self, inputs: &[ValueId], released: &[ValueId]) -> Result<()> {
        for (&input, released) in inputs.iter().zip(released) {
            if let Some(cotangent) = self.cotangents.remove(released) {
                self.accumulate(input, cotangent)?;
            }
        }
        Ok(())
    }

    fn write_again(&self, index: usize, copies: &mut HashMap<ValueId, ValueId>) -> Result<()> {
        let Instruction { op, operands, results, location, .. } =
            self.graph.module.borrow().instructions[index].clone();
        let operands: Vec<ValueId> = operands.iter().map(|v| copies[v]).collect();
        let again = self.graph.at(location.unit, Phase::Recompute, || self.graph.push(op, &operands))?;
        let mut detached = self.graph.detached.borrow_mut();
        for (result, copy) in results.into_iter().zip(again) {
            if detached.contains(&result) {
                detached.insert(copy);
            }
            copies.insert(result, copy);
        }
        Ok(())
    }

    /// Copies depend on what their originals depend on.
    fn inherit(&mut self, copies: &HashMap<ValueId, ValueId>) {
        self.depends.resize(self.graph.module.borrow().values.len(), false);
        for (original, copy) in copies {
            self.depends[copy.index()] = self.depends[original.index()];
        }
    }

    fn cotangent(&self, value: ValueId) -> Option<ValueId> {
        self.cotangents.get(&value).copied().filter(|_| self.depends_on_wrt(value))
    }

    fn accumulate(&mut self, value: ValueId, cotangent: ValueId) -> Result<()> {
        let sum = match self.cotangents.get(&value) {
            Some(&sum) => self.graph.add(sum, cotangent)?,
            None => cotangent,
        };
        self.cotangents.insert(value, sum);
        Ok(())
    }

    /// The gradient of one of the values that were asked for.
    fn finish(&self, value: ValueId) -> Result<ValueId> {
        let gradient = match self.cotangents.get(&value) {
            Some(&cotangent) => cotangent,
            None => self.graph.full_like(value, 0.0)?,
        };
        let is_parameter =
            |a: &shardwright_hlo::Argument| a.value == value && a.kind == ArgumentKind::Parameter;
        let parameter = self.graph.module.borrow().arguments.iter().position(is_parameter);
        match parameter {
            Some(parameter) => self.graph.op(Op::Boundary(Role::Gradient { parameter }), &[gradient]),
            None => Ok(gradient),
        }
    }
}

/// What `body` uses and does not define, in order of first use.
fn inputs_of(body: &[&Instruction]) -> Vec<ValueId> {
    let mut known: HashSet<ValueId> = outputs_of(body.iter().copied()).into_iter().collect();
    body.iter().flat_map(|i| &i.operands).copied().filter(|&v| known.insert(v)).collect()
}

/// What `body` defines.
fn outputs_of<'i>(body: impl Iterator<Item = &'i Instruction>) -> Vec<ValueId> {
    body.flat_map(|i| &i.results).copied().collect()
}

#[cfg(test)]
mod tests {
    use shardwright_hlo::{Module, Unary, print, verify};
    use shardwright_tensor::{DType, TensorType};

    use super::*;

    fn parameter(g: &Graph, name: &str) -> ValueId {
        g.argument(name, TensorType::new(DType::F32, [4]).unwrap(), ArgumentKind::Parameter)
    }

    /// Two layers `x ← tanh(x · w)`, and the gradients of their sum.
    fn layers(recompute: &dyn Fn(&Unit) -> Recompute) -> Module {
        let g = Graph::new("layers");
        let (w0, w1) = (parameter(&g, "w0"), parameter(&g, "w1"));
        let mut x = g.full_like(w0, 2.0).unwrap();
        for (i, w) in [w0, w1].into_iter().enumerate() {
            let body = || g.activation(g.unary(Unary::Tanh, g.mul(x, g.weight(w)?)?)?);
            x = g.unit(format!("layers.{i}"), "Layer", body).unwrap();
        }
        let loss = g.sum(x, &[0]).unwrap();
        for (name, gradient) in ["g0", "g1"].into_iter().zip(g.gradients(loss, &[w0, w1], recompute).unwrap())
        {
            g.output(name, gradient);
        }
        verify(g.finish()).unwrap().into_inner()
    }

    fn count(module: &Module, op: &str, phase: Phase) -> usize {
        let matches = |i: &&Instruction| i.op.name() == op && i.location.phase == phase;
        module.instructions.iter().filter(matches).count()
    }

    #[test]
    fn a_rematerialised_unit_is_written_again_behind_a_barrier() {
        let plain = layers(&|_| Recompute::Nothing);
        assert_eq!(count(&plain, "tanh", Phase::Recompute), 0);
        assert_eq!(count(&plain, "optimization_barrier", Phase::Recompute), 0);

        let remat = layers(&|_| Recompute::All);
        assert_eq!(count(&remat, "tanh", Phase::Forward), 2);
        assert_eq!(count(&remat, "tanh", Phase::Recompute), 2);
        assert_eq!(count(&remat, "optimization_barrier", Phase::Recompute), 2);
    }

    #[test]
    fn a_part_of_a_unit_is_written_again() {
        let weight = |i: &&Instruction| i.op == Op::Boundary(Role::Weight);
        let weights = |module: &Module, phase| {
            module.instructions.iter().filter(weight).filter(|i| i.location.phase == phase).count()
        };
        let gathered_again = layers(&|_| Recompute::Weights);
        assert_eq!(weights(&gathered_again, Phase::Recompute), 2);
        assert_eq!(count(&gathered_again, "tanh", Phase::Recompute), 0);
        assert_eq!(count(&gathered_again, "optimization_barrier", Phase::Recompute), 2);
        let kept = layers(&|_| Recompute::Activations);
        assert_eq!(weights(&kept, Phase::Recompute), 0);
        assert_eq!(count(&kept, "tanh", Phase::Recompute), 2);
    }

    #[test]
    fn weights_that_are_gathered_again_are_what_the_reverse_pass_uses() {
        let module = layers(&|_| Recompute::Weights);
        let phase_of = |value: ValueId| {
            let defines = |i: &&Instruction| i.results.contains(&value);
            module.instructions.iter().find(defines).map(|i| (i.op.clone(), i.location.phase))
        };
        let backward = module.instructions.iter().filter(|i| i.location.phase == Phase::Backward);
        let used: Vec<_> = backward.flat_map(|i| &i.operands).filter_map(|&v| phase_of(v)).collect();
        assert!(used.contains(&(Op::Boundary(Role::Weight), Phase::Recompute)));
        assert!(!used.contains(&(Op::Boundary(Role::Weight), Phase::Forward)));
    }

    #[test]
    fn what_is_made_of_weights_alone_is_not_kept_in_their_place() {
        let scaled = |recompute: Recompute| {
            let g = Graph::new("norm");
            let w = parameter(&g, "w");
            let x = g.full(DType::F32, &[2, 4], 2.0).unwrap();
            let scale = || g.mul(x, g.broadcast_in_dim(g.weight(w)?, &[2, 4], &[1])?);
            let y = g.unit("norm", "Norm", || g.unary(Unary::Tanh, scale()?)).unwrap();
            let loss = g.sum(y, &[0, 1]).unwrap();
            g.output("g", g.gradients(loss, &[w], &|_| recompute).unwrap()[0]);
            verify(g.finish()).unwrap().into_inner()
        };
        let broadcasts = |recompute| count(&scaled(recompute), "broadcast_in_dim", Phase::Recompute);
        assert_eq!([Recompute::Weights, Recompute::Activations].map(broadcasts), [1, 1]);
        assert_eq!(count(&scaled(Recompute::Weights), "tanh", Phase::Recompute), 0);
    }

    #[test]
    fn gradients_of_parameters_are_boundaries_of_their_shape() {
        let module = layers(&|_| Recompute::Nothing);
        let role = |o: &shardwright_hlo::Output| {
            module.instructions.iter().find(|i| i.results.contains(&o.value)).map(|i| i.op.clone())
        };
        let roles: Vec<_> = module.outputs.iter().map(role).collect();
        let gradient = |parameter| Some(Op::Boundary(Role::Gradient { parameter }));
        assert_eq!(roles, [gradient(0), gradient(1)]);
    }

    #[test]
    fn what_does_not_matter_has_no_reverse_pass() {
        let g = Graph::new("m");
        let (w, unused) = (parameter(&g, "w"), parameter(&g, "unused"));
        let shift = g.detach(g.max(w, &[0]).unwrap());
        let shifted = g.sub(w, g.broadcast_in_dim(shift, &[4], &[]).unwrap()).unwrap();
        let loss = g.sum(shifted, &[0]).unwrap();
        let gradients = g.gradients(loss, &[w, unused], &|_| Recompute::Nothing).unwrap();
        g.output("w", gradients[0]);
        g.output("unused", gradients[1]);
        let text = print(&verify(g.finish()).unwrap(), None);
        assert_eq!(text.matches("stablehlo.compare").count(), 0, "{text}");
        assert_eq!(text.matches("stablehlo.negate").count(), 0, "{text}");
    }

    #[test]
    fn only_float_scalars_have_gradients() {
        let g = Graph::new("m");
        let w = parameter(&g, "w");
        let error = g.gradients(w, &[w], &|_| Recompute::Nothing).unwrap_err();
        assert_eq!(error.to_string(), "gradients are of a float scalar, not of f32[4]");
    }
}
