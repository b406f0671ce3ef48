//! What a module says of its arguments and outputs: names, types, donations, shardings.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use shardwright_mesh::{HloSharding, Mesh, SdySharding};
use shardwright_tensor::TensorType;

use super::check::EntryPoint;
use super::error::{HloError, StatedProblem};
use super::read::{Instruction, Module, attribute};
use super::shape::Shape;
use super::{donations, sdy};
use crate::{ArgumentInfo, ArgumentKind, OutputInfo, Signature, StatedSharding, read_op_sharding};

/// Reads the signature of a module that was checked.
pub(super) fn signature(module: &Module<'_>, entry: &EntryPoint<'_, '_>) -> Result<Signature, HloError> {
    let names = argument_names(entry);
    let mut arguments = Vec::with_capacity(names.len());
    for (name, (_, shape)) in names.into_iter().zip(&entry.parameters) {
        if let Shape::Tuple(_) = shape {
            return Err(HloError::TupleArgument { argument: name, shape: shape.to_string() });
        }
        let ty = array(&format!("argument {name}"), shape)?;
        arguments.push(ArgumentInfo { name, ty, kind: ArgumentKind::Other, donated: false, stated: None });
    }
    let mut outputs = Vec::new();
    for (index, shape) in entry.result.leaves().iter().enumerate() {
        let name = format!("out{index}");
        let ty = array(&format!("output {index}"), shape)?;
        outputs.push(OutputInfo { name, ty, donor: None, stated: None });
    }
    let mut signature = Signature { name: module.name.to_owned(), arguments, outputs };
    donations::add(module, entry, &mut signature)?;
    Stated::of(module)?.add(module, entry, &mut signature)?;
    Ok(signature)
}

fn array(what: &str, shape: &Shape) -> Result<TensorType, HloError> {
    shape.tensor().ok_or_else(|| HloError::NotAnArray { what: what.to_owned(), shape: shape.to_string() })
}

/// The names of the arguments, each once: what the framework calls them, unless it calls several alike; then the names
/// of the instructions.
fn argument_names(entry: &EntryPoint<'_, '_>) -> Vec<String> {
    let parameters = entry.parameters.iter().map(|(position, _)| entry.instruction(*position));
    let candidates = |i: &Instruction<'_>| [i.op_name.to_owned(), i.name.to_owned()];
    let mut counts: HashMap<String, usize> = HashMap::new();
    for parameter in parameters.clone() {
        let [op_name, name] = candidates(parameter);
        if op_name != name {
            *counts.entry(name).or_default() += 1;
        }
        *counts.entry(op_name).or_default() += 1;
    }
    let name = |(number, parameter): (usize, &Instruction<'_>)| {
        let is_its_own = |name: &String| !name.is_empty() && counts[name] == 1;
        candidates(parameter).into_iter().find(is_its_own).unwrap_or_else(|| format!("#{number}"))
    };
    parameters.enumerate().map(name).collect()
}

/// The shardings that a module states, in the form that it has them in.
enum Stated {
    /// HLO's alone.
    Hlo,
    /// Shardy's; beside them are HLO's, which say less.
    Sdy(BTreeMap<String, Mesh>),
}

impl Stated {
    fn of(module: &Module<'_>) -> Result<Stated, HloError> {
        match sdy::meshes(module) {
            Ok(None) => Ok(Stated::Hlo),
            Ok(Some(meshes)) => Ok(Stated::Sdy(meshes)),
            Err(problem) => Err(HloError::Stated { what: "its meshes".to_owned(), problem }),
        }
    }

    fn add(
        &self,
        module: &Module<'_>,
        entry: &EntryPoint<'_, '_>,
        signature: &mut Signature,
    ) -> Result<(), HloError> {
        for (number, (position, _)) in entry.parameters.iter().enumerate() {
            let parameter = entry.instruction(*position);
            let left = module.spmd_parameters.get(number).copied();
            let stated = self.of_argument(parameter, left);
            let argument = &mut signature.arguments[number];
            argument.stated = stated.map_err(|problem| HloError::Stated {
                what: format!("argument {}", argument.name),
                problem,
            })?;
        }
        let outputs = self.of_outputs(module, entry, signature.outputs.len());
        let outputs =
            outputs.map_err(|problem| HloError::Stated { what: "the outputs".to_owned(), problem })?;
        for (output, stated) in signature.outputs.iter_mut().zip(outputs) {
            output.stated = stated;
        }
        Ok(())
    }

    /// `left` is what a partitioner left behind.
    fn of_argument(
        &self,
        parameter: &Instruction<'_>,
        left: Option<&[u8]>,
    ) -> Result<Option<StatedSharding>, StatedProblem> {
        if let Stated::Sdy(meshes) = self {
            let text = attribute(parameter.attributes, sdy::SHARDING)?;
            return text.map(|text| over_mesh(text.parse()?, meshes)).transpose();
        }
        let Some(bytes) = parameter.sharding.or(left) else { return Ok(None) };
        let shardings = op_shardings(bytes)?;
        let [sharding] = &shardings[..] else {
            return Err(StatedProblem::Count { expected: 1, found: shardings.len() });
        };
        Ok(Some(StatedSharding::Hlo(Arc::clone(sharding))))
    }

    fn of_outputs(
        &self,
        module: &Module<'_>,
        entry: &EntryPoint<'_, '_>,
        count: usize,
    ) -> Result<Vec<Option<StatedSharding>>, StatedProblem> {
        if let Stated::Sdy(meshes) = self {
            let Some(positions) = entry.outputs() else { return Ok(vec![None; count]) };
            let stated = positions.into_iter().map(|position| {
                let result = entry.instruction(position);
                if result.target != sdy::RESULT {
                    return Ok(None);
                }
                let text = attribute(result.attributes, sdy::SHARDING)?;
                let only = text.map(sdy::only_value).transpose()?;
                only.map(|sharding| over_mesh(sharding, meshes)).transpose()
            });
            return stated.collect();
        }
        let Some(bytes) = entry.instruction(entry.root).sharding.or(module.spmd_output) else {
            return Ok(vec![None; count]);
        };
        let shardings = op_shardings(bytes)?;
        // One for all, as XLA has it for the parts of a tuple.
        let shardings = match &shardings[..] {
            [sharding] => vec![Arc::clone(sharding); count],
            _ => shardings,
        };
        if shardings.len() != count {
            return Err(StatedProblem::Count { expected: count, found: shardings.len() });
        }
        Ok(shardings.into_iter().map(|sharding| Some(StatedSharding::Hlo(sharding))).collect())
    }
}

fn op_shardings(bytes: &[u8]) -> Result<Vec<Arc<HloSharding>>, StatedProblem> {
    Ok(read_op_sharding(bytes)?.into_iter().map(Arc::new).collect())
}

fn over_mesh(
    sharding: SdySharding,
    meshes: &BTreeMap<String, Mesh>,
) -> Result<StatedSharding, StatedProblem> {
    let mesh = meshes.get(sharding.mesh_name());
    let known = || meshes.keys().map(|name| format!("@{name}")).collect::<Vec<_>>().join(", ");
    let missing = || StatedProblem::Mesh { name: sharding.mesh_name().to_owned(), known: known() };
    let mesh = mesh.ok_or_else(missing)?.shape().clone();
    Ok(StatedSharding::Sdy { mesh, sharding })
}
