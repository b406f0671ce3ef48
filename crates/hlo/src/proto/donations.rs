//! Which outputs take over the memory of which arguments: read, added to, written.

use std::collections::{BTreeMap, HashSet};

use super::check::EntryPoint;
use super::error::{DonationProblem, HloError, Place};
use super::read::{Module, module};
use super::shape::Shape;
use super::wire::{Fields, WireError, Writer, with_field};
use crate::Signature;

/// `HloInputOutputAliasProto.entries` and `HloBufferDonorProto.entries`.
const ENTRIES: u64 = 1;
/// Donated if the caller gives the argument up, and copied otherwise.
const MAY_ALIAS: u64 = 1;

/// An entry of `HloInputOutputAliasProto`.
struct Alias {
    /// The part of the result; `None` if the result is no tuple.
    output: Option<u64>,
    argument: u64,
    /// Whether a part of a part is meant.
    is_inside: bool,
}

/// Adds the donors that the module states to a signature that has none yet, and those that it leaves to the compiler
/// where there is but one way to pair them.
pub(super) fn add(
    module: &Module<'_>,
    entry: &EntryPoint<'_, '_>,
    signature: &mut Signature,
) -> Result<(), HloError> {
    let in_module = |error| HloError::Wire { place: Place::Module, error };
    let index = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    let is_tuple = matches!(entry.result, Shape::Tuple(_));
    let mut given = HashSet::new();
    for Alias { output, argument, is_inside } in aliases(module.aliases).map_err(in_module)? {
        let is_wrong = is_inside || output.is_some() != is_tuple;
        let output = output.unwrap_or(0);
        let checked = match is_wrong {
            true => Err(DonationProblem::Inside),
            false => check(signature, &given, index(output), index(argument)),
        };
        checked.map_err(|problem| HloError::Donation { output, argument, problem })?;
        pair(signature, index(output), index(argument));
        given.insert(index(argument));
    }
    pair_in_order(signature, given, &donors(module.donors).map_err(in_module)?);
    Ok(())
}

/// Has an output take over the memory of an argument, and its name.
pub(super) fn donate(
    signature: &mut Signature,
    output: usize,
    argument: usize,
) -> Result<(), DonationProblem> {
    check(signature, &given(signature), output, argument)?;
    pair(signature, output, argument);
    Ok(())
}

/// `given` are the arguments whose memory other outputs take over.
fn check(
    signature: &Signature,
    given: &HashSet<usize>,
    output: usize,
    argument: usize,
) -> Result<(), DonationProblem> {
    let (arguments, outputs) = (signature.arguments.len(), signature.outputs.len());
    if argument >= arguments || output >= outputs {
        return Err(DonationProblem::Missing { arguments, outputs });
    }
    let (from, to) = (&signature.arguments[argument].ty, &signature.outputs[output].ty);
    if from != to {
        return Err(DonationProblem::Type { output: to.clone(), argument: from.clone() });
    }
    if given.contains(&argument) || signature.outputs[output].donor.is_some() {
        return Err(DonationProblem::Taken);
    }
    Ok(())
}

fn given(signature: &Signature) -> HashSet<usize> {
    signature.outputs.iter().filter_map(|output| output.donor).collect()
}

fn pair(signature: &mut Signature, output: usize, index: usize) {
    let (output, argument) = (&mut signature.outputs[output], &mut signature.arguments[index]);
    output.donor = Some(index);
    output.name = argument.name.clone();
    argument.donated = false;
}

/// Pairs arguments that are given up to no output in particular with the outputs of their type, if there are as many;
/// else they are [donated](crate::ArgumentInfo::donated).
fn pair_in_order(signature: &mut Signature, mut given: HashSet<usize>, given_up: &[usize]) {
    let mut of_type: BTreeMap<String, (Vec<usize>, Vec<usize>)> = BTreeMap::new();
    for &argument in given_up {
        if argument < signature.arguments.len() && given.insert(argument) {
            signature.arguments[argument].donated = true;
            let ty = signature.arguments[argument].ty.to_string();
            of_type.entry(ty).or_default().0.push(argument);
        }
    }
    for (index, output) in signature.outputs.iter().enumerate() {
        let waiting = of_type.get_mut(&output.ty.to_string()).filter(|_| output.donor.is_none());
        waiting.into_iter().for_each(|(_, outputs)| outputs.push(index));
    }
    for (arguments, outputs) in of_type.into_values() {
        if arguments.len() == outputs.len() {
            outputs
                .into_iter()
                .zip(arguments)
                .for_each(|(output, argument)| pair(signature, output, argument));
        }
    }
}

/// Writes the donors of a signature that the module does not state itself.
pub(super) fn write(
    message: &[u8],
    read: &Module<'_>,
    entry: &EntryPoint<'_, '_>,
    signature: &Signature,
) -> Result<Vec<u8>, WireError> {
    let stated: HashSet<u64> = aliases(read.aliases)?.into_iter().map(|alias| alias.argument).collect();
    let is_tuple = matches!(entry.result, Shape::Tuple(_));
    let mut added = Writer::default();
    for (output, donor) in signature.outputs.iter().enumerate() {
        let Some(argument) = donor.donor.map(|donor| donor as u64) else { continue };
        if stated.contains(&argument) {
            continue;
        }
        let mut entry = Writer::default();
        if is_tuple {
            entry.numbers(1, [output as u64]);
        }
        entry.number(2, argument).number(4, MAY_ALIAS);
        added.bytes(ENTRIES, &entry.finish());
    }
    let added = added.finish();
    if added.is_empty() {
        return Ok(message.to_vec());
    }
    let written = with_field(message, module::ALIASES, &[read.aliases, &added].concat())?;
    // What is paired is not to be given up a second time.
    let paired = given(signature);
    let mut left = Writer::default();
    for entry in Fields::of(read.donors) {
        let entry = entry?;
        let is_paired = usize::try_from(donor(entry.bytes()?)?).is_ok_and(|d| paired.contains(&d));
        if !is_paired {
            left.field(&entry);
        }
    }
    with_field(&written, module::DONORS, &left.finish())
}

fn aliases(message: &[u8]) -> Result<Vec<Alias>, WireError> {
    let mut aliases = Vec::new();
    for entry in Fields::of(message) {
        let (mut output, mut argument, mut inside) = (Vec::new(), 0, Vec::new());
        for field in Fields::of(entry?.bytes()?) {
            let field = field?;
            match field.number {
                1 => field.numbers(&mut output)?,
                2 => argument = field.number()?,
                3 => field.numbers(&mut inside)?,
                _ => {}
            }
        }
        let is_inside = output.len() > 1 || !inside.is_empty();
        aliases.push(Alias { output: output.first().copied(), argument, is_inside });
    }
    Ok(aliases)
}

/// The arguments of `HloBufferDonorProto`.
fn donors(message: &[u8]) -> Result<Vec<usize>, WireError> {
    let mut donors = Vec::new();
    for entry in Fields::of(message) {
        donors.extend(usize::try_from(donor(entry?.bytes()?)?));
    }
    Ok(donors)
}

/// The argument of an entry of `HloBufferDonorProto`.
fn donor(entry: &[u8]) -> Result<u64, WireError> {
    let mut argument = 0;
    for field in Fields::of(entry) {
        let field = field?;
        if field.number == 1 {
            argument = field.number()?;
        }
    }
    Ok(argument)
}
