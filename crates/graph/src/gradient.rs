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

use std::collections::HashMap;
use std::ops::Range;

use shardwright_hlo::{ArgumentKind, Instruction, Op, Phase, Role, Unit, UnitId, ValueId};

use crate::rules::vjp;
use crate::{Graph, GraphError};

type Result<T> = std::result::Result<T, GraphError>;

impl Graph {
    /// Appends the reverse pass: the gradients of `loss`, a float scalar, with respect to each value of `wrt`.
    ///
    /// Units for which `remat` holds are computed again in the reverse pass. The gradient of a parameter is a
    /// [`Role::Gradient`] boundary; one that `loss` does not depend on is zero.
    ///
    /// # Errors
    /// When `loss` is not a float scalar, or depends on `wrt` through an op that has no gradient.
    pub fn gradients(
        &self,
        loss: ValueId,
        wrt: &[ValueId],
        remat: &dyn Fn(&Unit) -> bool,
    ) -> Result<Vec<ValueId>> {
        let ty = self.ty(loss);
        if ty.rank() != 0 || !ty.dtype.is_float() {
            return Err(GraphError::NotAScalar { ty });
        }
        let mut reverse = Reverse { graph: self, depends: Vec::new(), cotangents: HashMap::new() };
        reverse.find_dependent(wrt);
        reverse.cotangents.insert(loss, self.full_like(loss, 1.0)?);
        let (end, units) = {
            let module = self.module.borrow();
            let ranges = outermost(&module.units, remat);
            (module.instructions.len(), ranges)
        };
        reverse.walk(0..end, &units)?;
        wrt.iter().map(|&value| reverse.finish(value)).collect()
    }
}

/// A unit that is to be rematerialised.
#[derive(Clone)]
struct Remat {
    unit: UnitId,
    instructions: Range<usize>,
}

/// The outermost units for which `remat` holds, by where their instructions end.
fn outermost(units: &[Unit], remat: &dyn Fn(&Unit) -> bool) -> HashMap<usize, Remat> {
    let ids = (0..).map(UnitId);
    let chosen: Vec<(UnitId, &Range<usize>)> = ids
        .zip(units)
        .filter(|(_, unit)| !unit.instructions.is_empty() && remat(unit))
        .map(|(id, unit)| (id, &unit.instructions))
        .collect();
    let inside = |inner: &Range<usize>, outer: &Range<usize>| {
        inner != outer && outer.start <= inner.start && inner.end <= outer.end
    };
    let outer = chosen.iter().filter(|(_, range)| !chosen.iter().any(|(_, other)| inside(range, other)));
    outer.map(|&(unit, range)| (range.end, Remat { unit, instructions: range.clone() })).collect()
}

struct Reverse<'g> {
    graph: &'g Graph,
    /// For each value, whether it depends on one that gradients are wanted of. Shorter than the table of values:
    /// what the reverse pass adds does not matter.
    depends: Vec<bool>,
    cotangents: HashMap<ValueId, ValueId>,
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
        let instruction = self.graph.module.borrow().instructions[index].clone();
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

    /// Computes the unit again behind a barrier, and goes back through that.
    fn rematerialise(&mut self, Remat { unit, instructions }: &Remat) -> Result<()> {
        let (inputs, outputs) = {
            let module = self.graph.module.borrow();
            let body = &module.instructions[instructions.clone()];
            (inputs_of(body), outputs_of(body))
        };
        let outputs: Vec<(ValueId, ValueId)> =
            outputs.into_iter().filter_map(|v| Some((v, self.cotangent(v)?))).collect();
        if outputs.is_empty() || !inputs.iter().any(|&v| self.depends_on_wrt(v)) {
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
        for index in instructions.clone() {
            self.write_again(index, &mut copies)?;
        }
        let end = self.graph.module.borrow().instructions.len();
        self.inherit(&copies);

        for ((output, _), &cotangent) in outputs.iter().zip(released_cotangents) {
            self.accumulate(copies[output], cotangent)?;
        }
        self.walk(start..end, &HashMap::new())?;
        for (&input, released) in inputs.iter().zip(released_inputs) {
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
fn inputs_of(body: &[Instruction]) -> Vec<ValueId> {
    let mut known: std::collections::HashSet<ValueId> = outputs_of(body).into_iter().collect();
    body.iter().flat_map(|i| &i.operands).copied().filter(|&v| known.insert(v)).collect()
}

/// What `body` defines.
fn outputs_of(body: &[Instruction]) -> Vec<ValueId> {
    body.iter().flat_map(|i| &i.results).copied().collect()
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
    fn layers(remat: &dyn Fn(&Unit) -> bool) -> Module {
        let g = Graph::new("layers");
        let (w0, w1) = (parameter(&g, "w0"), parameter(&g, "w1"));
        let mut x = g.full_like(w0, 2.0).unwrap();
        for (i, w) in [w0, w1].into_iter().enumerate() {
            let body = || g.activation(g.unary(Unary::Tanh, g.mul(x, g.weight(w)?)?)?);
            x = g.unit(format!("layers.{i}"), "Layer", body).unwrap();
        }
        let loss = g.sum(x, &[0]).unwrap();
        for (name, gradient) in ["g0", "g1"].into_iter().zip(g.gradients(loss, &[w0, w1], remat).unwrap()) {
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
        let plain = layers(&|_| false);
        assert_eq!(count(&plain, "tanh", Phase::Recompute), 0);
        assert_eq!(count(&plain, "optimization_barrier", Phase::Recompute), 0);

        let remat = layers(&|unit| unit.class == "Layer");
        assert_eq!(count(&remat, "tanh", Phase::Forward), 2);
        assert_eq!(count(&remat, "tanh", Phase::Recompute), 2);
        assert_eq!(count(&remat, "optimization_barrier", Phase::Recompute), 2);
    }

    #[test]
    fn gradients_of_parameters_are_boundaries_of_their_shape() {
        let module = layers(&|_| false);
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
        let gradients = g.gradients(loss, &[w, unused], &|_| false).unwrap();
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
        let error = g.gradients(w, &[w], &|_| false).unwrap_err();
        assert_eq!(error.to_string(), "gradients are of a float scalar, not of f32[4]");
    }
}
