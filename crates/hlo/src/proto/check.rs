//! What aborts or confuses XLA when it is not so: ids are unique, instructions use what was defined before them, so
//! that nothing is cyclic, and the module takes and gives what it says.
//!
//! Compilers check the rest, op by op, and answer with errors.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use super::error::HloError;
use super::read::{Computation, Instruction, Module};
use super::shape::{Shape, ShapeProblem};
use super::wire::Fields;

/// The computation that a program is, as far as its callers see it. Instructions are named by their positions.
pub(super) struct EntryPoint<'m, 'a> {
    /// Its position in the module.
    pub(super) index: usize,
    pub(super) computation: &'m Computation<'a>,
    /// In the order of their numbers.
    pub(super) parameters: Vec<(usize, Shape)>,
    pub(super) root: usize,
    pub(super) result: Shape,
}

/// Checks a module whole, and gives its entry.
pub(super) fn check<'m, 'a>(module: &'m Module<'a>) -> Result<EntryPoint<'m, 'a>, HloError> {
    let mut names: HashMap<u64, &str> = HashMap::with_capacity(module.computations.len());
    for computation in &module.computations {
        check_computation(computation, &names)?;
        if let Some(first) = names.insert(computation.id, computation.name) {
            let (first, second) = (first.to_owned(), computation.name.to_owned());
            return Err(HloError::DuplicateComputation { id: computation.id, first, second });
        }
    }
    let index = module.computations.iter().position(|computation| computation.id == module.entry_id);
    let missing = || HloError::Entry { name: module.entry_name.to_owned(), id: module.entry_id };
    let entry = EntryPoint::of(module, index.ok_or_else(missing)?)?;
    check_program_shape(module, &entry)?;
    Ok(entry)
}

/// `callable` are the computations that come before this one, by id.
fn check_computation(computation: &Computation<'_>, callable: &HashMap<u64, &str>) -> Result<(), HloError> {
    let mut defined: HashMap<u32, &Instruction<'_>> = HashMap::with_capacity(computation.instructions.len());
    let is_defined = |defined: &HashMap<u32, &Instruction<'_>>, id: u64| {
        defined.get(&local(id)).is_some_and(|instruction| instruction.id == id)
    };
    for instruction in &computation.instructions {
        shape_of(computation, instruction)?;
        let mut used = instruction.operands.iter().chain(&instruction.predecessors);
        if let Some(&id) = used.find(|&&id| !is_defined(&defined, id)) {
            let computation = computation.name.to_owned();
            return Err(HloError::Undefined { computation, instruction: instruction.name.to_owned(), id });
        }
        if let Some(&id) = instruction.called.iter().find(|id| !callable.contains_key(id)) {
            let computation = computation.name.to_owned();
            return Err(HloError::UndefinedCall {
                computation,
                instruction: instruction.name.to_owned(),
                id,
            });
        }
        match defined.entry(local(instruction.id)) {
            Entry::Vacant(place) => drop(place.insert(instruction)),
            Entry::Occupied(first) => {
                return Err(HloError::DuplicateInstruction {
                    computation: computation.name.to_owned(),
                    id: instruction.id,
                    first: first.get().name.to_owned(),
                    second: instruction.name.to_owned(),
                });
            }
        }
    }
    if !is_defined(&defined, computation.root) {
        return Err(HloError::Root { computation: computation.name.to_owned(), id: computation.root });
    }
    parameters(computation).map(drop)
}

/// What tells the instructions of a computation apart: newer modules have the computation's id in front of it.
fn local(id: u64) -> u32 {
    id as u32
}

/// The positions of the parameters, in the order of their numbers.
fn parameters(computation: &Computation<'_>) -> Result<Vec<usize>, HloError> {
    let instructions = computation.instructions.iter().enumerate();
    let found: Vec<(usize, &Instruction<'_>)> =
        instructions.filter(|(_, instruction)| instruction.opcode == "parameter").collect();
    let mut ordered = vec![None; found.len()];
    for (position, instruction) in &found {
        let number = usize::try_from(instruction.parameter_number).ok();
        match number.and_then(|number| ordered.get_mut(number)) {
            Some(place @ None) => *place = Some(*position),
            _ => {
                return Err(HloError::ParameterNumber {
                    computation: computation.name.to_owned(),
                    instruction: instruction.name.to_owned(),
                    number: instruction.parameter_number.cast_signed(),
                    count: found.len(),
                });
            }
        }
    }
    // As many numbers as places, each once.
    Ok(ordered.into_iter().flatten().collect())
}

fn shape_of(computation: &Computation<'_>, instruction: &Instruction<'_>) -> Result<Shape, HloError> {
    let shape = instruction.shape.ok_or(ShapeProblem::Missing).and_then(Shape::read);
    shape.map_err(|problem| HloError::Shape {
        computation: computation.name.to_owned(),
        instruction: instruction.name.to_owned(),
        problem,
    })
}

impl<'m, 'a> EntryPoint<'m, 'a> {
    /// The entry of a module whose computations are right.
    fn of(module: &'m Module<'a>, index: usize) -> Result<EntryPoint<'m, 'a>, HloError> {
        let computation = &module.computations[index];
        let shape = |position: usize| shape_of(computation, &computation.instructions[position]);
        let with_shape = |position| Ok((position, shape(position)?));
        let parameters =
            parameters(computation)?.into_iter().map(with_shape).collect::<Result<_, HloError>>()?;
        let is_root = |instruction: &Instruction<'_>| instruction.id == computation.root;
        let root = computation.instructions.iter().position(is_root).expect("its root was found before");
        Ok(EntryPoint { index, computation, parameters, root, result: shape(root)? })
    }

    /// The instruction at a position.
    pub(super) fn instruction(&self, position: usize) -> &'m Instruction<'a> {
        &self.computation.instructions[position]
    }

    /// The instructions that compute the outputs, where the root is a tuple of them or an array itself.
    pub(super) fn outputs(&self) -> Option<Vec<usize>> {
        let root = self.instruction(self.root);
        match &self.result {
            Shape::Array(_) => Some(vec![self.root]),
            Shape::Tuple(parts) if root.opcode == "tuple" && parts.len() == root.operands.len() => {
                let position: HashMap<u64, usize> =
                    self.computation.instructions.iter().enumerate().map(|(at, i)| (i.id, at)).collect();
                root.operands.iter().map(|id| position.get(id).copied()).collect()
            }
            Shape::Tuple(_) => None,
        }
    }
}

/// Checks that the module says of its entry what that takes and gives.
fn check_program_shape(module: &Module<'_>, entry: &EntryPoint<'_, '_>) -> Result<(), HloError> {
    let wrong = |problem| HloError::ProgramShape { problem };
    let (parameters, result) =
        module.program_shape.ok_or(ShapeProblem::Missing).and_then(program_shape).map_err(wrong)?;
    let contradiction =
        |what: String, stated: String, found: String| Err(HloError::Contradiction { what, stated, found });
    let (stated, found) = (parameters.len(), entry.parameters.len());
    if stated != found {
        let what = "the number of its arguments".to_owned();
        return contradiction(what, stated.to_string(), found.to_string());
    }
    for (number, (stated, (_, found))) in parameters.iter().zip(&entry.parameters).enumerate() {
        if stated != found {
            return contradiction(format!("argument {number}"), stated.to_string(), found.to_string());
        }
    }
    if result != entry.result {
        return contradiction("its result".to_owned(), result.to_string(), entry.result.to_string());
    }
    Ok(())
}

/// The parameters and the result of a `ProgramShapeProto`.
fn program_shape(bytes: &[u8]) -> Result<(Vec<Shape>, Shape), ShapeProblem> {
    let (mut parameters, mut result) = (Vec::new(), None);
    for field in Fields::of(bytes) {
        let field = field?;
        match field.number {
            1 => parameters.push(Shape::read(field.bytes()?)?),
            2 => result = Some(Shape::read(field.bytes()?)?),
            _ => {}
        }
    }
    Ok((parameters, result.ok_or(ShapeProblem::Missing)?))
}
