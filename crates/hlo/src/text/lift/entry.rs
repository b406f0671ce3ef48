//! The main function: what its arguments and outputs are called, where they lie and which of them share memory.

use std::collections::{BTreeMap, HashMap};

use shardwright_tensor::TensorType;

use super::attribute::{dictionary, list, location_name, size, string};
use super::sharding::{HLO, SDY};
use super::{Lifter, ProgramProblem, Result, find, ops, property, types};
use crate::text::error::ParseError;
use crate::text::tree::{Named, Operation, Position, TreeArgument, TreeRegion};
use crate::{Argument, ArgumentKind, Output, ValueId, ValueType};

const ALIAS: &str = "tf.aliasing_output";
const DONOR: &str = "jax.buffer_donor";
const ARGUMENT_INFO: &str = "jax.arg_info";
const RESULT_INFO: &str = "jax.result_info";

impl<'t> Lifter<'t> {
    /// What the program says of itself: for how many devices it is, and what is kept as written.
    pub(super) fn module_attributes(&mut self, module: &Operation) -> Result<()> {
        let count = |name: &'static str| {
            let Some(text) = property(module, name) else { return Ok(None) };
            let count = size(text).filter(|&count| count > 0).map(Some);
            count.ok_or_else(|| self.attribute_error(module.at, name, Some(text), "a number of at least 1"))
        };
        let (partitions, replicas) = (count("mhlo.num_partitions")?, count("mhlo.num_replicas")?);
        if let Some(replicas) = replicas.filter(|&replicas| replicas > 1) {
            return Err(self.error(module.at, ProgramProblem::Replicas { replicas }));
        }
        // A mesh of one device splits nothing.
        let mut meshes = self.stated.meshes.iter().filter(|(_, mesh)| mesh.shape().size() > 1);
        let largest = meshes.clone().map(|(_, mesh)| mesh.shape().size()).max();
        let partitions = partitions.or(largest).unwrap_or(1);
        if let Some((name, mesh)) = meshes.find(|(_, mesh)| mesh.shape().size() != partitions) {
            let (name, size) = (name.clone(), mesh.shape().size());
            return Err(self.error(module.at, ProgramProblem::MeshSize { name, size, partitions }));
        }
        self.stated.num_partitions = partitions;
        let known = ["sym_name", "sym_visibility", "mhlo.num_partitions", "mhlo.num_replicas"];
        self.module.attributes = others(module.properties.iter().chain(&module.attributes), &known);
        Ok(())
    }

    pub(super) fn main(&mut self, op: &'t Operation) -> Result<()> {
        self.module.main_attributes = function_attributes(op);
        let (region, result_attributes) = self.function_body(op)?;
        let body = self.region(region, op)?;
        self.check_function(op, &body)?;
        let mut aliases = BTreeMap::new();
        let mut names = Names::default();
        for (index, (argument, &value)) in region.arguments.iter().zip(&body.arguments).enumerate() {
            let name = names.distinct(argument_name(argument).unwrap_or_else(|| format!("arg{index}")));
            self.argument(argument, value, name, &mut aliases)?;
        }
        let mut names = Names::default();
        for (index, &value) in body.results.iter().enumerate() {
            let attributes = result_attributes.get(index).map_or(&[][..], |entries| entries);
            let info = find(attributes, RESULT_INFO);
            let info = info.and_then(|entry| string(&entry.value)).filter(|info| !info.is_empty());
            let name = names.distinct(info.unwrap_or_else(|| format!("out{index}")));
            self.output(op, attributes, value, name, aliases.remove(&index))?;
        }
        if let Some((output, argument)) = aliases.pop_first() {
            return Err(self.alias_error(argument, output, "the index of an output"));
        }
        self.module.instructions = body.instructions;
        self.pair_donors();
        Ok(())
    }

    fn argument(
        &mut self,
        argument: &TreeArgument,
        value: ValueId,
        name: String,
        aliases: &mut BTreeMap<usize, usize>,
    ) -> Result<()> {
        let TreeArgument { attributes, at, .. } = argument;
        let index = self.module.arguments.len();
        self.check_passable(value, || format!("argument {name}"), *at)?;
        let alias = find(attributes, ALIAS);
        if let Some(entry) = alias {
            let output = size(&entry.value).filter(|&output| aliases.insert(output, index).is_none());
            if output.is_none() {
                let expected = "the index of an output that no other argument has";
                return Err(self.attribute_error(entry.at, ALIAS, Some(&entry.value), expected));
            }
        }
        if let Some(sharding) = self.stated(attributes)? {
            self.stated.values.insert(value, sharding);
        }
        let known = [ALIAS, DONOR, ARGUMENT_INFO, sharding_name(attributes)];
        self.module.arguments.push(Argument {
            name,
            value,
            kind: ArgumentKind::Other,
            donated: alias.is_none() && find(attributes, DONOR).is_some_and(|entry| entry.value == "true"),
            attributes: others(attributes.iter(), &known),
        });
        Ok(())
    }

    fn output(
        &mut self,
        op: &Operation,
        attributes: &[Named],
        value: ValueId,
        name: String,
        donor: Option<usize>,
    ) -> Result<()> {
        self.check_passable(value, || format!("output {name}"), op.at)?;
        let index = self.module.outputs.len();
        let types = &self.module.values;
        let is_of_its_type =
            |&donor: &usize| types[self.module.arguments[donor].value.index()] == types[value.index()];
        if let Some(argument) = donor.filter(|donor| !is_of_its_type(donor)) {
            return Err(self.alias_error(argument, index, "the index of an output of the argument's type"));
        }
        if let Some(sharding) = self.stated(attributes)? {
            self.stated.outputs.insert(index, sharding);
        }
        let attributes = others(attributes.iter(), &[RESULT_INFO, sharding_name(attributes)]);
        self.module.outputs.push(Output { name, value, donor, attributes });
        Ok(())
    }

    /// The donation of an argument to an output is none.
    fn alias_error(&self, argument: usize, output: usize, expected: &'static str) -> ParseError {
        let at = self.positions[self.module.arguments[argument].value.index()];
        self.attribute_error(at, ALIAS, Some(&output.to_string()), expected)
    }

    fn check_passable(&self, value: ValueId, what: impl FnOnce() -> String, at: Position) -> Result<()> {
        match &self.module.values[value.index()] {
            ValueType::Tensor(_) => Ok(()),
            ValueType::Other(ty) => {
                let problem = ProgramProblem::NotPassable { what: what(), ty: types::clip(ty) };
                Err(self.error(at, problem))
            }
        }
    }

    /// The region of a function, and the attributes of each of its results, as far as they have any.
    pub(super) fn function_body(&self, op: &'t Operation) -> Result<(&'t TreeRegion, Vec<Vec<Named>>)> {
        let Some(region) = op.regions.first().filter(|region| !region.operations.is_empty()) else {
            return Err(self.error(op.at, ProgramProblem::NoBody { name: self.symbol_name(op)? }));
        };
        let Some(text) = property(op, "res_attrs") else { return Ok((region, Vec::new())) };
        let named = |(name, value): (&str, &str)| Named { name: name.into(), value: value.into(), at: op.at };
        let entries = |text| Some(dictionary(text)?.into_iter().map(named).collect());
        let results: Option<Vec<Vec<Named>>> =
            list(text).and_then(|each| each.into_iter().map(entries).collect());
        let wrong = || self.attribute_error(op.at, "res_attrs", Some(text), "a list of dictionaries");
        Ok((region, results.ok_or_else(wrong)?))
    }

    /// Gives donated arguments the outputs that take over their memory, where there can be no doubt: as many donors as
    /// outputs of a type, which go together in order.
    fn pair_donors(&mut self) {
        let (module, stated) = (&mut self.module, &self.stated);
        let mut by_type: HashMap<TensorType, (Vec<usize>, Vec<usize>)> = HashMap::new();
        let mut types = Vec::new();
        let mut enter = |value: ValueId, index, is_donor: bool| {
            let Some(ty) = module.values[value.index()].tensor() else { return };
            let pair = by_type.entry(ty.clone()).or_insert_with(|| {
                types.push(ty.clone());
                Default::default()
            });
            if is_donor { pair.0.push(index) } else { pair.1.push(index) }
        };
        for (index, argument) in module.arguments.iter().enumerate().filter(|(_, a)| a.donated) {
            enter(argument.value, index, true);
        }
        for (index, output) in module.outputs.iter().enumerate().filter(|(_, o)| o.donor.is_none()) {
            enter(output.value, index, false);
        }
        for ty in types {
            let (donors, outputs) = &by_type[&ty];
            let pairs = || donors.iter().zip(outputs);
            let lies_alike = |(&donor, &output): (&usize, &usize)| {
                let donor = stated.values.get(&module.arguments[donor].value);
                let output = stated.outputs.get(&output);
                donor.is_none() || output.is_none() || donor == output
            };
            if donors.len() == outputs.len() && pairs().all(lies_alike) {
                for (&donor, &output) in pairs() {
                    module.outputs[output].donor = Some(donor);
                    module.arguments[donor].donated = false;
                }
            }
        }
    }
}

/// Names that are given once each.
#[derive(Default)]
struct Names {
    /// How many of a name there are.
    counts: HashMap<String, usize>,
}

impl Names {
    /// The name, or with a number behind it where it is given already.
    fn distinct(&mut self, name: String) -> String {
        let mut candidate = name.clone();
        while self.counts.contains_key(&candidate) {
            let count = self.counts.entry(name.clone()).or_default();
            *count += 1;
            candidate = format!("{name}_{count}");
        }
        self.counts.insert(candidate.clone(), 0);
        candidate
    }
}

/// What an argument is called where the program was traced.
fn argument_name(argument: &TreeArgument) -> Option<String> {
    let info = find(&argument.attributes, ARGUMENT_INFO);
    let info = info.and_then(|entry| string(&entry.value)).filter(|info| !info.is_empty());
    argument.location.as_deref().and_then(location_name).or(info)
}

/// The attribute that says where something lies, if one does.
fn sharding_name(attributes: &[Named]) -> &'static str {
    if find(attributes, SDY).is_some() { SDY } else { HLO }
}

/// What is written of a function beside its name, types and body.
pub(super) fn function_attributes(op: &Operation) -> String {
    let known = ["sym_name", "sym_visibility", "function_type", "arg_attrs", "res_attrs"];
    others(op.properties.iter().chain(&op.attributes), &known)
}

/// Attributes as they are kept, but for those that are known.
fn others<'e>(entries: impl Iterator<Item = &'e Named>, known: &[&str]) -> String {
    ops::written(entries.filter(|entry| !known.contains(&&*entry.name)))
}
