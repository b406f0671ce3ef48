//! Where values lie, as the text says it.

use std::collections::BTreeMap;
use std::fmt::{self, Write};

use shardwright_mesh::{AbstractMesh, NamedSharding};

use super::words::{Quoted, Separated, Symbol};
use crate::{Stated, StatedSharding, ValueId};

/// Where the values of a module lie on a mesh. Lives beside the module; values that are not named are left to
/// the compiler.
#[derive(Clone, Debug, PartialEq)]
pub struct Shardings {
    /// The mesh that all of them are on.
    pub mesh: AbstractMesh,
    /// Arguments and [boundaries](crate::Op::Boundary) that are pinned.
    pub values: BTreeMap<ValueId, NamedSharding>,
    /// Outputs that are pinned, by index into [`Module::outputs`](crate::Module::outputs).
    pub outputs: BTreeMap<usize, NamedSharding>,
    /// What the program itself says of values and outputs that are not named above. Its mesh called `mesh` is the one
    /// above.
    pub stated: Stated,
}

/// What is printed of shardings: those of a plan, before those that the program came with.
pub(super) struct Annotations<'m> {
    pub(super) shardings: Option<&'m Shardings>,
    pub(super) stated: Option<&'m Stated>,
}

/// Where one value lies.
#[derive(Clone, Copy)]
pub(super) enum Pinned<'m> {
    Named(&'m NamedSharding),
    Stated(&'m StatedSharding),
}

impl<'m> Annotations<'m> {
    pub(super) fn num_partitions(&self) -> usize {
        let stated = self.stated.map_or(1, |stated| stated.num_partitions);
        self.shardings.map_or(stated, |shardings| shardings.mesh.size())
    }

    /// Names and attribute bodies of the meshes.
    pub(super) fn meshes(&self) -> Vec<(&'m str, String)> {
        let own = self.shardings.map(|shardings| ("mesh", shardings.mesh.sdy_text()));
        let stated = self.stated.into_iter().flat_map(|stated| &stated.meshes);
        let stated = stated.map(|(name, mesh)| (name.as_str(), mesh.sdy_text()));
        let is_own = |name: &str| own.is_some() && name == "mesh";
        own.clone().into_iter().chain(stated.filter(|(name, _)| !is_own(name))).collect()
    }

    /// Where a value lies, if that is said.
    pub(super) fn of(&self, value: ValueId) -> Option<Pinned<'m>> {
        let own = self.shardings.and_then(|s| s.values.get(&value)).map(Pinned::Named);
        own.or_else(|| self.stated?.values.get(&value).map(Pinned::Stated))
    }

    /// Where an output lies, if that is said.
    pub(super) fn of_output(&self, index: usize) -> Option<Pinned<'m>> {
        let own = self.shardings.and_then(|s| s.outputs.get(&index)).map(Pinned::Named);
        own.or_else(|| self.stated?.outputs.get(&index).map(Pinned::Stated))
    }

    /// Where the results of an instruction lie, given with their ranks, as one attribute. A result of which nothing is
    /// said is open.
    pub(super) fn of_results(&self, results: &[(ValueId, usize)]) -> Option<String> {
        let pinned: Vec<_> = results.iter().map(|&(value, _)| self.of(value)).collect();
        if let [Some(Pinned::Stated(StatedSharding::Hlo(_)))] = pinned[..] {
            return pinned[0].map(Pinned::attribute);
        }
        let bodies: Vec<Option<String>> = pinned.iter().map(|pinned| pinned.and_then(Pinned::sdy)).collect();
        let mesh = pinned.iter().flatten().find_map(|pinned| pinned.mesh_name())?;
        let open = |rank| format!("<@{}, [{}]>", Symbol(mesh), Separated(std::iter::repeat_n("{?}", rank)));
        let bodies =
            bodies.into_iter().zip(results).map(|(body, (_, rank))| body.unwrap_or_else(|| open(*rank)));
        let bodies: Vec<String> = bodies.collect();
        Some(format!("sdy.sharding = #sdy.sharding_per_value<[{}]>", bodies.join(", ")))
    }
}

impl Pinned<'_> {
    /// The attribute of an argument, an output or a single result.
    pub(super) fn attribute(self) -> String {
        match self {
            Pinned::Stated(StatedSharding::Hlo(sharding)) => {
                format!("mhlo.sharding = {}", Quoted(&sharding.to_string()))
            }
            Pinned::Stated(StatedSharding::Sdy { sharding, .. }) => {
                format!("sdy.sharding = #sdy.sharding{sharding}")
            }
            Pinned::Named(sharding) => format!("sdy.sharding = #sdy.sharding{}", sharding.sdy_text()),
        }
    }

    /// Writes the identity that pins `x`, which is of type `ty`.
    pub(super) fn constraint(self, out: &mut String, x: &str, ty: &impl fmt::Display) -> fmt::Result {
        match self.sdy() {
            Some(body) => write!(out, "sdy.sharding_constraint {x} {body} : {ty}"),
            None => {
                let attribute = self.attribute();
                write!(out, "stablehlo.custom_call @Sharding({x}) {{backend_config = \"\", {attribute}}}")?;
                write!(out, " : ({ty}) -> {ty}")
            }
        }
    }

    /// The body of a Shardy attribute, if it is one.
    fn sdy(self) -> Option<String> {
        match self {
            Pinned::Named(sharding) => Some(sharding.sdy_text()),
            Pinned::Stated(StatedSharding::Sdy { sharding, .. }) => Some(sharding.to_string()),
            Pinned::Stated(StatedSharding::Hlo(_)) => None,
        }
    }

    fn mesh_name(&self) -> Option<&str> {
        match self {
            Pinned::Named(_) => Some("mesh"),
            Pinned::Stated(StatedSharding::Sdy { sharding, .. }) => Some(sharding.mesh_name()),
            Pinned::Stated(StatedSharding::Hlo(_)) => None,
        }
    }
}
