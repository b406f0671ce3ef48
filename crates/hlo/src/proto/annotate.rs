//! Shardings written into a module, everything else byte for byte as it was.
//!
//! XLA has two partitioners, and the module says for which of them it is written:
//!
//! - **GSPMD** reads an `OpSharding` of the parameters, of the root, and of any instruction between.
//! - **Shardy** reads attributes: the mesh's on the module, a sharding's on parameters and on instructions between,
//!   and on a call behind each result. A module that has any of these is refused by GSPMD, or aborts it; one that has
//!   only `OpSharding`s aborts a TPU's compiler under Shardy. So a module keeps its form, and one with no shardings
//!   gets GSPMD's, which changes the least. In Shardy's form `OpSharding`s are written too, as frameworks do.

use std::collections::{BTreeMap, BTreeSet};

use shardwright_mesh::{AbstractMesh, Mesh, NamedSharding, SdySharding, ShardingError};
use thiserror::Error;

use super::changes::Changes;
use super::check::{EntryPoint, check};
use super::error::{HloError, Place};
use super::read::{Instruction, Module, instruction, module, with_attribute};
use super::shape::Shape;
use super::wire::{WireError, Writer, with_field, with_items};
use super::{HloInstructionId, donations, sdy};
use crate::Signature;
use crate::op_sharding::{write_op_sharding, write_tuple_sharding};

/// `CustomCallApiVersion.API_VERSION_ORIGINAL`.
const ORIGINAL_API: u64 = 1;
/// What a call has as its target that pins what it is given.
const SHARDING_CALL: &str = "Sharding";

/// Where the arrays of a program are to lie.
#[derive(Clone, Copy, Debug)]
pub struct HloAnnotations<'s> {
    /// The mesh that all shardings are over.
    pub mesh: &'s AbstractMesh,
    /// One for each argument.
    pub arguments: &'s [NamedSharding],
    /// One for each output.
    pub outputs: &'s [NamedSharding],
    /// What the results of instructions between are pinned to.
    pub constraints: &'s [(HloInstructionId, NamedSharding)],
}

/// Shardings that cannot be written into a module.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum AnnotateError {
    /// The module cannot be read.
    #[error(transparent)]
    Module(#[from] HloError),
    /// A module that a compiler has been through, whose shapes are those of one device.
    #[error("the module is what a compiler made of another one; annotate that one")]
    Compiled,
    /// More or fewer shardings than there are arguments or outputs.
    #[error("the module has {expected} {what}, and {found} shardings were given for them")]
    Count {
        /// `arguments` or `outputs`.
        what: &'static str,
        /// How many there are.
        expected: usize,
        /// How many were given.
        found: usize,
    },
    /// The module's own mesh is another.
    #[error("the module is written for the mesh {stated}, and the shardings are over {given}")]
    Mesh {
        /// The module's.
        stated: String,
        /// That of the shardings.
        given: String,
    },
    /// A result whose parts cannot be pinned one by one.
    #[error(
        "the result is a tuple that {root} gives as a whole; expected an instruction `tuple` of the outputs"
    )]
    Root {
        /// The opcode and the name of the root.
        root: String,
    },
    /// A computation whose instructions have the last id that there is, and that has to have another one.
    #[error("computation {computation} has no id left for another instruction")]
    Full {
        /// Its name.
        computation: String,
    },
    /// A constraint on an instruction that cannot have one.
    #[error("{instruction} cannot be pinned to {sharding}: {problem}")]
    Constraint {
        /// The instruction.
        instruction: String,
        /// The sharding.
        sharding: String,
        /// Why not.
        problem: ConstraintProblem,
    },
}

/// Why an instruction cannot be pinned.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum ConstraintProblem {
    /// It is an argument or the result.
    #[error("arguments and outputs have shardings of their own")]
    Outermost,
    /// It gives no array.
    #[error("it gives {shape}, and no array")]
    NoArray {
        /// What it gives.
        shape: String,
    },
    /// The rank.
    #[error(transparent)]
    Sharding(#[from] ShardingError),
    /// It is not there.
    #[error("the module has no such instruction")]
    Missing,
}

/// Writes shardings and donations into a module. `signature` is what it takes and gives, with its donors.
pub(super) fn annotate(
    bytes: &[u8],
    signature: &Signature,
    annotations: &HloAnnotations<'_>,
) -> Result<Vec<u8>, AnnotateError> {
    let read = Module::read(bytes)?;
    let entry = check(&read)?;
    if read.is_compiled() {
        return Err(AnnotateError::Compiled);
    }
    count("arguments", entry.parameters.len(), annotations.arguments.len())?;
    count("outputs", signature.outputs.len(), annotations.outputs.len())?;
    let mut written = bytes.to_vec();
    // A single device has everything whole, and no partitioner runs.
    if annotations.mesh.size() > 1 {
        let mut annotator = Annotator::new(&read, &entry, annotations)?;
        annotator.pin_arguments().map_err(in_module)?;
        annotator.pin_constraints()?;
        annotator.pin_outputs()?;
        annotator.replace_operands();
        let Annotator { mut changes, meshes, .. } = annotator;
        let change = |index: usize, content: &[u8]| {
            changes.remove(&index).map(|changes| changes.apply(content)).transpose()
        };
        written = with_items(bytes, module::COMPUTATIONS, change).map_err(in_module)?;
        if let Some(meshes) = meshes {
            written = with_field(&written, module::ATTRIBUTES, &meshes).map_err(in_module)?;
        }
    }
    donations::write(&written, &read, &entry, signature).map_err(in_module)
}

fn count(what: &'static str, expected: usize, found: usize) -> Result<(), AnnotateError> {
    if expected == found { Ok(()) } else { Err(AnnotateError::Count { what, expected, found }) }
}

/// Collects what is to change.
struct Annotator<'m, 'a> {
    module: &'m Module<'a>,
    entry: &'m EntryPoint<'m, 'a>,
    annotations: &'m HloAnnotations<'m>,
    /// What the module calls the mesh; `None` in GSPMD's form.
    mesh_name: Option<String>,
    /// The attributes of the module, if the mesh has to be put there.
    meshes: Option<Vec<u8>>,
    /// By the position of the computation.
    changes: BTreeMap<usize, Changes>,
    /// The ids of the next instructions that are put in, while there are any, by the position of the computation.
    next_ids: BTreeMap<usize, Option<u64>>,
    /// The instructions that are put in to be used in place of others: ids by computation and id.
    replaced: BTreeMap<(usize, u64), u64>,
}

/// What has a sharding, which decides how Shardy's is written.
#[derive(Clone, Copy)]
enum Holder {
    Parameter,
    Other,
}

/// An instruction that is put in to pin what another gives.
#[derive(Clone, Copy)]
enum Added {
    /// Of an argument that is the result, for GSPMD.
    Copy,
    /// Between, for Shardy.
    Constraint,
    /// Of a result, for Shardy.
    Result,
}

impl Added {
    fn opcode(self) -> &'static str {
        match self {
            Added::Copy => "copy",
            Added::Constraint | Added::Result => "custom-call",
        }
    }

    fn target(self) -> Option<&'static str> {
        match self {
            Added::Copy => None,
            Added::Constraint => Some(SHARDING_CALL),
            Added::Result => Some(sdy::RESULT),
        }
    }
}

fn in_module(error: WireError) -> AnnotateError {
    HloError::Wire { place: Place::Module, error }.into()
}

impl<'m, 'a> Annotator<'m, 'a> {
    fn new(
        module: &'m Module<'a>,
        entry: &'m EntryPoint<'m, 'a>,
        annotations: &'m HloAnnotations<'m>,
    ) -> Result<Annotator<'m, 'a>, AnnotateError> {
        let (mesh_name, meshes) = match sdy::meshes(module) {
            Ok(None) => (None, None),
            Ok(Some(stated)) => mesh_of(module, &stated, annotations.mesh)?,
            Err(problem) => return Err(HloError::Stated { what: "its meshes".to_owned(), problem }.into()),
        };
        let (changes, next_ids, replaced) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Ok(Annotator { module, entry, annotations, mesh_name, meshes, changes, next_ids, replaced })
    }

    fn pin_arguments(&mut self) -> Result<(), WireError> {
        let parameters = self.entry.parameters.iter();
        for ((position, _), sharding) in parameters.zip(self.annotations.arguments) {
            let attributes = self.entry.instruction(*position).attributes;
            for (field, content) in self.fields(attributes, sharding, Holder::Parameter)? {
                self.set(*position, field, content);
            }
        }
        Ok(())
    }

    fn pin_constraints(&mut self) -> Result<(), AnnotateError> {
        for (id, sharding) in self.annotations.constraints {
            let instruction = id.of(self.module);
            let wrong = |problem| AnnotateError::Constraint {
                instruction: instruction.map_or_else(|| id.to_string(), |found| found.name.to_owned()),
                sharding: sharding.spec().to_string(),
                problem,
            };
            let found = instruction.ok_or_else(|| wrong(ConstraintProblem::Missing))?;
            let is_outermost = id.computation == self.entry.index
                && (found.opcode == "parameter" || id.instruction == self.entry.root);
            if is_outermost {
                return Err(wrong(ConstraintProblem::Outermost));
            }
            let shape = Shape::read(found.shape.unwrap_or_default());
            let shape = shape.expect("the shapes of a checked module can be read");
            let no_array = || wrong(ConstraintProblem::NoArray { shape: shape.to_string() });
            let dims = shape.dims().ok_or_else(no_array)?;
            sharding.check_rank(dims).map_err(|error| wrong(error.into()))?;
            self.pin_between(*id, found, sharding)?;
        }
        Ok(())
    }

    /// Pins what an instruction gives where others use it. Shardy takes notice of calls only.
    fn pin_between(
        &mut self,
        id: HloInstructionId,
        found: &Instruction<'_>,
        sharding: &NamedSharding,
    ) -> Result<(), AnnotateError> {
        let is_call = [SHARDING_CALL, sdy::RESULT].contains(&found.target);
        if self.mesh_name.is_none() || is_call {
            let fields = self.fields(found.attributes, sharding, Holder::Other).map_err(in_module)?;
            let changes = self.changes.entry(id.computation).or_default();
            fields.into_iter().for_each(|(field, content)| changes.set(id.instruction, field, content));
            return Ok(());
        }
        let call = self.add(Added::Constraint, id.computation, id.instruction + 1, found, sharding)?;
        self.replaced.insert((id.computation, found.id), call);
        Ok(())
    }

    /// Pins the result as a whole, and in Shardy's form each output by a call.
    fn pin_outputs(&mut self) -> Result<(), AnnotateError> {
        let outputs = self.annotations.outputs;
        let root = self.entry.instruction(self.entry.root);
        match (&self.entry.result, self.mesh_name.is_some()) {
            (Shape::Tuple(_), is_shardy) => {
                let whole = write_tuple_sharding(outputs);
                self.set(self.entry.root, instruction::SHARDING, whole);
                if is_shardy {
                    let missing = || AnnotateError::Root { root: format!("{} {}", root.opcode, root.name) };
                    let positions = self.entry.outputs().ok_or_else(missing)?;
                    let pinned = positions.into_iter().zip(outputs);
                    let ids: Vec<u64> = pinned
                        .map(|(at, sharding)| self.pin_result(at, sharding))
                        .collect::<Result<_, _>>()?;
                    if ids != root.operands {
                        self.set(self.entry.root, instruction::OPERANDS, Writer::packed(ids));
                    }
                }
            }
            // An argument that is handed on may lie elsewhere at the end.
            (Shape::Array(_), is_shardy) if is_shardy || root.opcode == "parameter" => {
                let id = self.pin_result(self.entry.root, &outputs[0])?;
                if id != root.id {
                    self.entry_changes().set_root(id);
                }
            }
            (Shape::Array(_), _) => {
                let sharding = write_op_sharding(&outputs[0]);
                self.set(self.entry.root, instruction::SHARDING, sharding);
            }
        }
        Ok(())
    }

    /// Pins one result, and gives the id of what has it pinned.
    fn pin_result(&mut self, position: usize, sharding: &NamedSharding) -> Result<u64, AnnotateError> {
        let result = self.entry.instruction(position);
        if result.target == sdy::RESULT {
            let fields = self.fields(result.attributes, sharding, Holder::Other).map_err(in_module)?;
            fields.into_iter().for_each(|(field, content)| self.set(position, field, content));
            return Ok(result.id);
        }
        // The root of an array may stand anywhere, that of a tuple stands behind what it is made of.
        let place = match self.entry.result {
            Shape::Tuple(_) => self.entry.root,
            Shape::Array(_) => self.entry.computation.instructions.len(),
        };
        let kind = if self.mesh_name.is_some() { Added::Result } else { Added::Copy };
        self.add(kind, self.entry.index, place, result, sharding)
    }

    /// Puts in an instruction that gives what another gives, pinned, and gives its id.
    fn add(
        &mut self,
        kind: Added,
        computation: usize,
        place: usize,
        operand: &Instruction<'_>,
        sharding: &NamedSharding,
    ) -> Result<u64, AnnotateError> {
        let read = &self.module.computations[computation];
        let next_id = self.next_ids.entry(computation).or_insert_with(|| read.free_id());
        let id = next_id.ok_or_else(|| AnnotateError::Full { computation: read.name.to_owned() })?;
        *next_id = id.checked_add(1).filter(|next| *next as u32 != 0);
        let operand_id = self.replaced.get(&(computation, operand.id)).copied().unwrap_or(operand.id);
        let mut added = Writer::default();
        added.bytes(instruction::NAME, format!("pinned.{computation}.{}", id as u32).as_bytes());
        added.bytes(instruction::OPCODE, kind.opcode().as_bytes());
        added.bytes(instruction::SHAPE, operand.shape.unwrap_or_default());
        if let Some(target) = kind.target() {
            added.bytes(instruction::TARGET, target.as_bytes());
            added.number(instruction::API_VERSION, ORIGINAL_API);
        }
        if let Added::Result = kind {
            added.number(instruction::SIDE_EFFECT, 1);
        }
        added.number(instruction::ID, id).numbers(instruction::OPERANDS, [operand_id]);
        for (field, content) in self.fields(&[], sharding, Holder::Other).map_err(in_module)? {
            added.bytes(field, &content);
        }
        self.changes.entry(computation).or_default().insert(place, added.finish());
        Ok(id)
    }

    /// Has instructions use those that were put in to be used in place of others.
    fn replace_operands(&mut self) {
        let replaced = std::mem::take(&mut self.replaced);
        let computations: BTreeSet<usize> = replaced.keys().map(|(computation, _)| *computation).collect();
        for computation in computations {
            let read = &self.module.computations[computation];
            let changes = self.changes.entry(computation).or_default();
            let new = |id: &u64| replaced.get(&(computation, *id)).copied().unwrap_or(*id);
            for (position, found) in read.instructions.iter().enumerate() {
                let operands: Vec<u64> = found.operands.iter().map(new).collect();
                // Those of the result are what pins the outputs.
                if operands != found.operands && !changes.sets(position, instruction::OPERANDS) {
                    changes.set(position, instruction::OPERANDS, Writer::packed(operands));
                }
            }
            if new(&read.root) != read.root {
                changes.set_root(new(&read.root));
            }
        }
    }

    /// The fields that pin what an instruction with these attributes gives.
    fn fields(
        &self,
        attributes: &[u8],
        sharding: &NamedSharding,
        holder: Holder,
    ) -> Result<Vec<(u64, Vec<u8>)>, WireError> {
        let mut fields = vec![(instruction::SHARDING, write_op_sharding(sharding))];
        if let Some(mesh) = &self.mesh_name {
            let text = SdySharding::from(sharding).with_mesh_name(mesh).to_string();
            let text = match holder {
                Holder::Parameter => format!("#sdy.sharding{text}"),
                Holder::Other => sdy::per_value(&text),
            };
            fields.push((instruction::ATTRIBUTES, with_attribute(attributes, sdy::SHARDING, &text)?));
        }
        Ok(fields)
    }

    /// Gives a field of an instruction of the entry this content.
    fn set(&mut self, position: usize, number: u64, content: Vec<u8>) {
        self.entry_changes().set(position, number, content);
    }

    fn entry_changes(&mut self) -> &mut Changes {
        self.changes.entry(self.entry.index).or_default()
    }
}

/// What the module calls the mesh, and its attributes with the mesh, if they are without.
type MeshName = (Option<String>, Option<Vec<u8>>);

fn mesh_of(
    module: &Module<'_>,
    stated: &BTreeMap<String, Mesh>,
    given: &AbstractMesh,
) -> Result<MeshName, AnnotateError> {
    if let Some((name, _)) = stated.iter().find(|(_, mesh)| mesh.shape() == given && mesh.is_iota()) {
        return Ok((Some(name.clone()), None));
    }
    if !stated.is_empty() {
        let stated: Vec<String> = stated.values().map(Mesh::sdy_text).collect();
        return Err(AnnotateError::Mesh { stated: stated.join(", "), given: given.sdy_text() });
    }
    let meshes = format!("{{mesh = #sdy.mesh{}}}", given.sdy_text());
    let attributes = with_attribute(module.attributes, sdy::MESHES, &meshes);
    Ok((Some("mesh".to_owned()), Some(attributes.map_err(in_module)?)))
}
