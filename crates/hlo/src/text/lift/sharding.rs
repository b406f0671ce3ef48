//! Meshes, and the shardings that values are given.

use shardwright_mesh::{HloSharding, Mesh, SdySharding};

use super::attribute::{list, string};
use super::{Lifter, ProgramProblem, Result, find, property, types};
use crate::text::tree::{Named, Operation, Position};
use crate::{Op, Role, StatedSharding, ValueId};

/// Shardy's sharding of an argument, output or result.
pub(super) const SDY: &str = "sdy.sharding";
/// HLO's sharding of the same.
pub(super) const HLO: &str = "mhlo.sharding";

impl Lifter<'_> {
    /// Enters a mesh.
    pub(super) fn mesh(&mut self, op: &Operation) -> Result<()> {
        let name = self.symbol_name(op)?;
        let text = property(op, "mesh").unwrap_or_default();
        let mesh = Mesh::from_sdy_text(text).map_err(|error| self.error(op.at, error.into()))?;
        if mesh.shape().axes().is_empty() && text.contains("device_ids") {
            return Err(self.error(op.at, ProgramProblem::MaximalMesh { name }));
        }
        if self.meshes.insert(name.clone(), self.stated.meshes.len()).is_some() {
            return Err(self.error(op.at, ProgramProblem::DuplicateSymbol { name }));
        }
        self.stated.meshes.push((name, mesh));
        Ok(())
    }

    /// Where attributes say that an argument or output lies.
    pub(super) fn stated(&self, attributes: &[Named]) -> Result<Option<StatedSharding>> {
        if let Some(entry) = find(attributes, SDY) {
            return self.sdy(&entry.value, entry.at).map(Some);
        }
        let Some(entry) = find(attributes, HLO) else { return Ok(None) };
        let wrong = || self.attribute_error(entry.at, HLO, Some(&entry.value), "a sharding in HLO's text");
        hlo(&entry.value).map(|sharding| Some(StatedSharding::Hlo(sharding.into()))).ok_or_else(wrong)
    }

    /// Enters where the results of an operation lie.
    pub(super) fn result_shardings(&mut self, op: &Operation, kind: &Op, results: &[ValueId]) -> Result<()> {
        if let (Op::Boundary(_), Some(text)) = (kind, property(op, "sharding")) {
            let sharding = self.sdy(text, op.at)?;
            self.stated.values.insert(results[0], sharding);
        }
        for entry in op.attributes.iter().filter(|entry| is_sharding(op, entry)) {
            let inner =
                entry.value.strip_prefix("#sdy.sharding_per_value<").and_then(|t| t.strip_suffix('>'));
            let shardings = match inner {
                Some(inner) => {
                    let texts = list(inner.trim()).filter(|texts| texts.len() == results.len());
                    let expected = "a sharding for each result";
                    let texts = texts
                        .ok_or_else(|| self.attribute_error(entry.at, SDY, Some(&entry.value), expected))?;
                    texts.into_iter().map(|text| self.sdy(text, entry.at)).collect::<Result<Vec<_>>>()?
                }
                None => self.stated(std::slice::from_ref(entry))?.into_iter().collect(),
            };
            self.stated.values.extend(results.iter().copied().zip(shardings));
        }
        Ok(())
    }

    fn sdy(&self, text: &str, at: Position) -> Result<StatedSharding> {
        let sharding: SdySharding =
            text.parse().map_err(|error: shardwright_mesh::TextError| self.error(at, error.into()))?;
        let name = sharding.mesh_name();
        match self.meshes.get(name) {
            Some(&index) => {
                let mesh = &self.stated.meshes[index].1;
                sharding.check_axes(mesh.shape()).map_err(|error| self.error(at, error.into()))?;
                Ok(StatedSharding::Sdy { mesh: mesh.shape().clone(), sharding })
            }
            None => {
                let meshes = self.stated.meshes.iter().map(|(name, _)| name.clone()).collect();
                Err(self.error(at, ProgramProblem::UnknownMesh { name: name.to_owned(), meshes }))
            }
        }
    }
}

/// The boundary that an operation is, if it pins a value and does nothing else.
pub(super) fn constraint(op: &Operation) -> Option<Op> {
    let is_array = || match (&op.operands[..], &op.result_types[..]) {
        ([_], [ty]) => types::value_type(ty).is_ok_and(|ty| ty.tensor().is_some()),
        _ => false,
    };
    let is_constraint = match &*op.name {
        "sdy.sharding_constraint" => op.properties.len() == 1 && op.attributes.is_empty(),
        "stablehlo.custom_call" => {
            let says_nothing = |entry: &Named| match &*entry.name {
                "call_target_name" => entry.value == "\"Sharding\"",
                "backend_config" => entry.value == "\"\"",
                "has_side_effect" => entry.value == "false",
                "api_version" => entry.value == "1 : i32",
                _ => is_sharding(op, entry) && entry.name == HLO,
            };
            let is_pinned = property(op, HLO).is_some();
            property(op, "call_target_name") == Some("\"Sharding\"")
                && is_pinned
                && op.properties.iter().chain(&op.attributes).all(says_nothing)
        }
        _ => false,
    };
    (is_constraint && is_array()).then_some(Op::Boundary(Role::Constraint))
}

/// Whether an attribute of an operation is where its results lie, which is kept beside the program.
pub(super) fn is_sharding(op: &Operation, entry: &Named) -> bool {
    let is_hlo = || entry.name == HLO && op.result_types.len() == 1 && hlo(&entry.value).is_some();
    entry.name == SDY || is_hlo()
}

/// `"{devices=[2,1]<=[2]}"`, quoted.
fn hlo(text: &str) -> Option<HloSharding> {
    string(text)?.parse().ok()
}
