//! What a program says itself: its mesh, and where its arguments and outputs lie.

use shardwright_hlo::{Signature, StatedSharding};
use shardwright_mesh::{AbstractMesh, HloSharding, NamedSharding};
use thiserror::Error;

use super::{Planner, RuleProblem};
use crate::explain::clip;

/// A mesh that cannot be chosen, for a program from elsewhere.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum MeshChoiceError {
    /// The mesh that was asked for is not the program's.
    #[error(
        "the mesh {asked} was asked for, and the program states shardings over its own mesh {stated}; leave the mesh \
         out to use that, or export the program without shardings"
    )]
    Conflict {
        /// The mesh that was asked for.
        asked: AbstractMesh,
        /// The program's.
        stated: AbstractMesh,
    },
    /// The program states two meshes.
    #[error("the program states shardings over two meshes, {first} and {second}, and can be run on one")]
    Two {
        /// The first.
        first: AbstractMesh,
        /// One that differs.
        second: AbstractMesh,
    },
    /// Neither the program nor anyone else says what the mesh is.
    #[error("there is no mesh: the program states none, so give one, such as --mesh fsdp=8")]
    None,
}

/// The mesh to plan a program over: the one that was asked for, or its own. `meshes` are those that the program defines
/// besides the ones of the shardings in its signature.
///
/// # Errors
/// When there is none, or more than one.
pub fn choose_mesh<'a>(
    signature: &'a Signature,
    meshes: impl IntoIterator<Item = &'a AbstractMesh>,
    asked: Option<AbstractMesh>,
) -> Result<AbstractMesh, MeshChoiceError> {
    let stated =
        signature.arguments.iter().map(|a| &a.stated).chain(signature.outputs.iter().map(|o| &o.stated));
    let of_shardings = stated.flatten().filter_map(|stated| match stated {
        StatedSharding::Sdy { mesh, .. } => Some(mesh),
        StatedSharding::Hlo(sharding) => match &**sharding {
            HloSharding::Named(sharding) => Some(sharding.mesh().shape()),
            _ => None,
        },
    });
    let mut meshes = of_shardings.chain(meshes);
    let own = meshes.next();
    if let (Some(first), Some(second)) = (own, meshes.find(|mesh| Some(*mesh) != own)) {
        return Err(MeshChoiceError::Two { first: first.clone(), second: second.clone() });
    }
    match (asked, own) {
        (Some(asked), Some(own)) if asked != *own => {
            Err(MeshChoiceError::Conflict { asked, stated: own.clone() })
        }
        (Some(mesh), _) => Ok(mesh),
        (None, Some(mesh)) => Ok(mesh.clone()),
        (None, None) => Err(MeshChoiceError::None),
    }
}

/// What a program says, and why that is of no use.
#[derive(Clone)]
pub(super) struct Unusable {
    stated: String,
    reason: String,
}

impl<'a> Planner<'a> {
    /// Where the program says that an argument lies, or else the output that takes over its memory.
    pub(super) fn stated_of_argument(
        &mut self,
        index: usize,
        of_output: Option<&NamedSharding>,
    ) -> Option<NamedSharding> {
        let argument = &self.signature.arguments[index];
        match &argument.stated {
            None => of_output.cloned(),
            stated => self.named("argument", &argument.name, argument.ty.dims(), stated.as_ref()),
        }
    }

    /// Where the program says that each output lies.
    pub(super) fn stated_of_outputs(&mut self) -> Vec<Option<NamedSharding>> {
        let outputs = self.signature.outputs.iter();
        outputs.map(|o| self.named("output", &o.name, o.ty.dims(), o.stated.as_ref())).collect()
    }

    fn named(
        &mut self,
        what: &'static str,
        name: &str,
        shape: &[usize],
        stated: Option<&'a StatedSharding>,
    ) -> Option<NamedSharding> {
        let named = match stated? {
            StatedSharding::Sdy { sharding, .. } => {
                let named = sharding.clone().closed()?.to_named(self.mesh).map_err(|error| error.to_string());
                let fits = |named: NamedSharding| {
                    named.check_rank(shape).map(|()| named).map_err(|error| error.to_string())
                };
                let wrong = |reason| Unusable { stated: clip(&sharding.to_string()), reason };
                named.and_then(fits).map_err(wrong)
            }
            StatedSharding::Hlo(sharding) if **sharding == HloSharding::Unknown => return None,
            StatedSharding::Hlo(sharding) => self.named_hlo(sharding, shape.len()),
        };
        match named {
            Ok(named) => Some(named),
            Err(Unusable { stated, reason }) => {
                self.problems.push(RuleProblem::Unusable { what, name: name.to_owned(), stated, reason });
                None
            }
        }
    }

    /// Where a sharding in HLO's form puts arrays of this rank. Outputs may share one that lists many devices, so it is
    /// looked at once.
    fn named_hlo(&mut self, sharding: &'a HloSharding, rank: usize) -> Result<NamedSharding, Unusable> {
        let named = || {
            let named = sharding.to_named(self.mesh, rank);
            named.map_err(|error| Unusable { stated: clip(&sharding.to_string()), reason: error.to_string() })
        };
        self.named.entry((sharding, rank)).or_insert_with(named).clone()
    }
}
