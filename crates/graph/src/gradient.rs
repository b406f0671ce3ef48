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

use crate::depends::Dependent;
use crate::rules::vjp;
use crate::{Graph, GraphError};

type Result<T> = std::result::Result<T, GraphError>;

/// What of a unit is computed again in the reverse pass, instead of being kept from the forward pass.
///
/// Going back through a [scan](Graph::scan) never keeps weights, whatever is chosen: there would be one for each
/// iteration.
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
    /// In the body of a loop these are gradients of what one iteration computes; what it is handed from the one before
    /// counts as a constant. They go back through what was written around the loop too, as far as `wrt` lies beyond it;
    /// of that, nothing is computed again.
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
        let code = self.open_code();
        let mut reverse = Reverse {
            graph: self,
            recompute,
            in_unit: false,
            depends: Dependent::find(self, wrt, &code),
            cotangents: HashMap::new(),
            copies: HashMap::new(),
        };
        reverse.cotangents.insert(loss, self.full_like(loss, 1.0)?);
        let range = |id: UnitId| (id, self.module.borrow().unit(id).instructions.clone());
        let units: Vec<(UnitId, Range<usize>)> = self.units_here().into_iter().map(range).collect();
        let mut units = reverse.outermost(&units);
        for region in &code {
            reverse.walk(region, &std::mem::take(&mut units))?;
        }
        wrt.iter().map(|&value| reverse.finish(value)).collect()
    }
}

/// A unit of which something is computed again.
#[derive(Clone)]
pub(crate) struct Remat {
    unit: UnitId,
    instructions: Range<usize>,
    recompute: Recompute,
}

/// Units of which something is computed again, by where their instructions end.
pub(crate) type Remats = HashMap<usize, Remat>;

pub(crate) struct Reverse<'g> {
    pub(crate) graph: &'g Graph,
    recompute: &'g dyn Fn(&Unit) -> Recompute,
    /// Whether what is walked through lies in a unit of which something is computed again.
    in_unit: bool,
    pub(crate) depends: Dependent,
    pub(crate) cotangents: HashMap<ValueId, ValueId>,
    /// Values of a unit that is being walked, and what they are computed as again.
    pub(crate) copies: HashMap<ValueId, ValueId>,
}

impl Reverse<'_> {
    /// The outermost of these units of which something is computed again.
    pub(crate) fn outermost(&self, units: &[(UnitId, Range<usize>)]) -> Remats {
        if self.in_unit {
            return Remats::new();
        }
        let module = self.graph.module.borrow();
        let remat = |(unit, instructions): &(UnitId, Range<usize>)| {
            let recompute = Some((self.recompute)(module.unit(*unit)));
            let recompute =
                recompute.filter(|what| *what != Recompute::Nothing && !instructions.is_empty())?;
            Some(Remat { unit: *unit, instructions: instructions.clone(), recompute })
        };
        let chosen: Vec<Remat> = units.iter().filter_map(remat).collect();
        let inside = |inner: &Range<usize>, outer: &Range<usize>| {
            inner != outer && outer.start <= inner.start && inner.end <= outer.end
        };
        let is_outer =
            |unit: &&Remat| !chosen.iter().any(|other| inside(&unit.instructions, &other.instructions));
        chosen.iter().filter(is_outer).map(|unit| (unit.instructions.end, unit.clone())).collect()
    }

    /// Goes through instructions from last to first; `units`, ranges of them, are rematerialised.
    pub(crate) fn walk(&mut self, code: &[Instruction], units: &Remats) -> Result<()> {
        let mut end = code.len();
        while end > 0 {
            match units.get(&end) {
                Some(unit) => {
                    self.rematerialise(&code[unit.instructions.clone()], unit)?;
                    end = unit.instructions.start;
                }
                None => {
                    end -= 1;
                    self.instruction(&code[end])?;
                }
            }
        }
        Ok(())
    }

    fn instruction(&mut self, instruction: &Instruction) -> Result<()> {
        let arriving: Vec<Option<ValueId>> = instruction.results.iter().map(|&v| self.cotangent(v)).collect();
        if arriving.iter().all(Option::is_none) {
            return Ok(());
        }
        let graph = self.graph;
        graph.at(instruction.location.unit, Phase::Backward, || match graph.loop_of(instruction) {
            Some((scan, forward)) => self.scan(&scan, &forward, &arriving),
            None => self.by_rule(instruction, &arriving),
        })
    }

    fn by_rule(&mut self, instruction: &Instruction, arriving: &[Option<ValueId>]) -> Result<()> {
        let mut instruction = instruction.clone();
        for operand in &mut instruction.operands {
            *operand = *self.copies.get(operand).unwrap_or(operand);
        }
        let wanted: Vec<bool> = instruction.operands.iter().map(|&v| self.depends.has(v)).collect();
        if !wanted.contains(&true) && instruction.regions.is_empty() {
            return Ok(());
        }
        let leaving = vjp(self.graph, &instruction, arriving, &wanted)?;
        for ((&operand, cotangent), wanted) in instruction.operands.iter().zip(leaving).zip(wanted) {
            if let (Some(cotangent), true) = (cotangent, wanted) {
                self.accumulate(operand, cotangent)?;
            }
        }
        Ok(())
    }

    /// Computes a unit, which is `code`, again behind a barrier, and goes back through that and what was kept.
    fn rematerialise(&mut self, code: &[Instruction], remat: &Remat) -> Result<()> {
        let outer = std::mem::replace(&mut self.in_unit, true);
        let done = self.write_unit_again(code, remat.unit, remat.recompute);
        self.in_unit = outer;
        done
    }

    fn write_unit_again(&mut self, code: &[Instruction], unit: UnitId, recompute: Recompute) -> Result<()> {
        let (again, kept) = self.divided(code, recompute);
        if again.is_empty() {
            return self.walk(code, &Remats::new());
        }
        let inputs = inputs_of(&again);
        let outputs = outputs_of(code.iter());
        let outputs: Vec<(ValueId, ValueId)> =
            outputs.into_iter().filter_map(|v| Some((v, self.cotangent(v)?))).collect();
        if outputs.is_empty() {
            return Ok(());
        }

        let graph = self.graph;
        let held: Vec<ValueId> = inputs.iter().copied().chain(outputs.iter().map(|o| o.1)).collect();
        let released =
            graph.at(Some(unit), Phase::Recompute, || graph.push(Op::OptimizationBarrier, &held))?;
        let (released_inputs, released_cotangents) = released.split_at(inputs.len());
        let mut copies: HashMap<ValueId, ValueId> =
            inputs.iter().copied().zip(released_inputs.iter().copied()).collect();
        for (&input, &released) in inputs.iter().zip(released_inputs) {
            graph.same_cotangent_dtype(input, released);
        }
        let start = graph.position();
        again.iter().for_each(|instruction| graph.write_again(instruction, &mut copies));
        let written = graph.module.borrow().instructions[start..].to_vec();
        self.depends.inherit(&copies, graph.module.borrow().values.len());

        for ((output, _), &cotangent) in outputs.iter().zip(released_cotangents) {
            self.cotangents.remove(output);
            self.accumulate(*copies.get(output).unwrap_or(output), cotangent)?;
        }
        // Weights, and what is made of them, depend on nothing else in the unit, so they come last.
        if recompute == Recompute::Weights {
            self.walk_kept(&kept, copies)?;
            self.walk(&written, &Remats::new())?;
            self.release(&inputs, released_inputs)
        } else {
            self.walk(&written, &Remats::new())?;
            self.release(&inputs, released_inputs)?;
            self.walk_kept(&kept, HashMap::new())
        }
    }

    /// The instructions of a unit that are computed again, and those that are not.
    fn divided<'i>(
        &self,
        unit: &'i [Instruction],
        recompute: Recompute,
    ) -> (Vec<&'i Instruction>, Vec<&'i Instruction>) {
        let mut of_weights: HashSet<ValueId> = HashSet::new();
        unit.iter().partition(|instruction| {
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
    fn walk_kept(&mut self, kept: &[&Instruction], copies: HashMap<ValueId, ValueId>) -> Result<()> {
        self.copies = copies;
        let walked = kept.iter().rev().try_for_each(|instruction| self.instruction(instruction));
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

    fn cotangent(&self, value: ValueId) -> Option<ValueId> {
        self.cotangents.get(&value).copied().filter(|_| self.depends.has(value))
    }

    pub(crate) fn accumulate(&mut self, value: ValueId, cotangent: ValueId) -> Result<()> {
        let cotangent = self.graph.convert(cotangent, self.graph.cotangent_ty(value).dtype)?;
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
            None => {
                let ty = self.graph.cotangent_ty(value);
                self.graph.full(ty.dtype, ty.dims(), 0.0)?
            }
        };
        self.graph.as_gradient(value, gradient)
    }
}

impl Graph {
    /// The gradient of a value, pinned as such if that is a parameter.
    pub(crate) fn as_gradient(&self, of: ValueId, gradient: ValueId) -> Result<ValueId> {
        match self.parameter(of) {
            Some(parameter) => self.op(Op::Boundary(Role::Gradient { parameter }), &[gradient]),
            None => Ok(gradient),
        }
    }

    /// The index of the argument that a value is, if that is a parameter.
    pub(crate) fn parameter(&self, value: ValueId) -> Option<usize> {
        let module = self.module.borrow();
        module.arguments.iter().position(|a| a.value == value && a.kind == ArgumentKind::Parameter)
    }
}

/// What `body` uses and does not define, in order of first use.
fn inputs_of(body: &[&Instruction]) -> Vec<ValueId> {
    let mut known: HashSet<ValueId> = outputs_of(body.iter().copied()).into_iter().collect();
    body.iter().flat_map(|i| i.uses()).filter(|&v| known.insert(v)).collect()
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
