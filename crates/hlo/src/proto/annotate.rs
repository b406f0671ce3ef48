//! Shardings written into a module, everything else byte for byte as it was.
//!
//! XLA has two partitioners, and the module says for which of them it is written:
//!
//! - **GSPMD** reads an `OpSharding` of the parameters, of the root, and of any instruction between.
//! - **Shardy** reads attributes: the mesh's on the module, a sharding's on parameters and on instructions between,
//!   and on a call behind each result. A module that has any of these is refused by GSPMD, or aborts it; one that has
//!   only `OpSharding`s aborts a TPU's compiler under Shardy. So a module keeps its form, and one with no shardings
//!   gets GSPMD's, which changes the least. In Shardy's form `OpSharding`s are written too, as frameworks do.

use std::collections::BTreeMap;

use shardwright_mesh::{AbstractMesh, Mesh, NamedSharding, SdySharding, ShardingError};
use thiserror::Error;

use super::changes::Changes;
use super::check::{EntryPoint, check};
use super::error::{HloError, Place};
use super::read::{Module, instruction, module, with_attribute};
use super::shape::Shape;
use super::wire::{WireError, Writer, with_field, with_items};
use super::{HloInstructionId, donations, sdy};
use crate::Signature;
use crate::op_sharding::{write_op_sharding, write_tuple_sharding};

/// `CustomCallApiVersion.API_VERSION_ORIGINAL`.
const ORIGINAL_API: u64 = 1;

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
    let in_module = |error| HloError::Wire { place: Place::Module, error };
    let mut written = bytes.to_vec();
    // A single device has everything whole, and no partitioner runs.
    if annotations.mesh.size() > 1 {
        let mut annotator = Annotator::new(&read, &entry, annotations)?;
        annotator.pin_arguments().map_err(in_module)?;
        annotator.pin_outputs()?;
        annotator.pin_constraints()?;
        let Annotator { mut changes, meshes, .. } = annotator;
        let change = |index: usize, content: &[u8]| {
            changes.remove(&index).map(|changes| changes.apply(content)).transpose()
        };
        written = with_items(bytes, module::COMPUTATIONS, change).map_err(in_module)?;
        if let Some(meshes) = meshes {
            written = with_field(&written, module::ATTRIBUTES, &meshes).map_err(in_module)?;
        }
    }
    Ok(donations::write(&written, &read, &entry, signature).map_err(in_module)?)
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
    next_id: u64,
}

/// What the attribute of a sharding is called where it stands.
#[derive(Clone, Copy)]
enum Holder {
    Parameter,
    Other,
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
        let ids = entry.computation.instructions.iter().map(|instruction| instruction.id);
        let next_id = ids.max().unwrap_or(0) + 1;
        Ok(Annotator { module, entry, annotations, mesh_name, meshes, changes: BTreeMap::new(), next_id })
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
                        let packed = Writer::packed(ids);
                        self.set(self.entry.root, instruction::OPERANDS, packed);
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
        let in_module = |error| HloError::Wire { place: Place::Module, error };
        if result.target == sdy::RESULT {
            for (field, content) in
                self.fields(result.attributes, sharding, Holder::Other).map_err(in_module)?
            {
                self.set(position, field, content);
            }
            return Ok(result.id);
        }
        let id = self.next_id;
        self.next_id += 1;
        let mut call = Writer::default();
        call.bytes(instruction::NAME, format!("output_sharding.{}", id as u32).as_bytes());
        let is_shardy = self.mesh_name.is_some();
        call.bytes(instruction::OPCODE, if is_shardy { b"custom-call" } else { b"copy" });
        call.bytes(instruction::SHAPE, result.shape.unwrap_or_default());
        if is_shardy {
            call.bytes(instruction::TARGET, sdy::RESULT.as_bytes());
            call.number(instruction::SIDE_EFFECT, 1).number(instruction::API_VERSION, ORIGINAL_API);
        }
        call.number(instruction::ID, id).numbers(instruction::OPERANDS, [result.id]);
        for (field, content) in self.fields(&[], sharding, Holder::Other).map_err(in_module)? {
            call.bytes(field, &content);
        }
        // The root of an array may stand anywhere, that of a tuple stands behind what it is made of.
        let place = match self.entry.result {
            Shape::Tuple(_) => self.entry.root,
            Shape::Array(_) => self.entry.computation.instructions.len(),
        };
        self.entry_changes().insert(place, call.finish());
        Ok(id)
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
            let fields = self.fields(found.attributes, sharding, Holder::Other);
            let fields = fields.map_err(|error| HloError::Wire { place: Place::Module, error })?;
            let changes = self.changes.entry(id.computation).or_default();
            fields.into_iter().for_each(|(field, content)| changes.set(id.instruction, field, content));
        }
        Ok(())
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
    stated: &[(String, Mesh)],
    given: &AbstractMesh,
) -> Result<MeshName, AnnotateError> {
    if let Some((name, _)) = stated.iter().find(|(_, mesh)| mesh.shape() == given && mesh.is_iota()) {
        return Ok((Some(name.clone()), None));
    }
    if !stated.is_empty() {
        let stated: Vec<String> = stated.iter().map(|(_, mesh)| mesh.sdy_text()).collect();
        return Err(AnnotateError::Mesh { stated: stated.join(", "), given: given.sdy_text() });
    }
    let meshes = format!("{{mesh = #sdy.mesh{}}}", given.sdy_text());
    let attributes = with_attribute(module.attributes, sdy::MESHES, &meshes);
    let attributes = attributes.map_err(|error| HloError::Wire { place: Place::Module, error })?;
    Ok((Some("mesh".to_owned()), Some(attributes)))
}
