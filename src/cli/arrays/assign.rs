//! Which array of the files is which argument of the program.

use std::collections::HashMap;

use shardwright_hlo::ArgumentInfo;

use super::super::names::nearest;
use super::read::StoredArray;

/// Of how many arrays that are no argument's the nearest name is told.
const HINTED: usize = 20;

/// For each argument, the index of its array, if there is one.
///
/// An array goes to the argument that has its name. One whose name is a number (`003`, or `arr_3` as NumPy calls what
/// it is given without a name) goes to the argument of that number, from 0. Where no array is called as an argument,
/// nor by a number, they go to the arguments in their order.
///
/// # Errors
/// Everything that is wrong: arrays that are no argument's, arguments with two arrays, other types, and, unless
/// `may_lack`, arguments without an array.
pub(in super::super) fn assign(
    arguments: &[ArgumentInfo],
    arrays: &[StoredArray],
    may_lack: bool,
) -> Result<Vec<Option<usize>>, Vec<String>> {
    let places: HashMap<&str, usize> =
        arguments.iter().enumerate().map(|(place, argument)| (argument.name.as_str(), place)).collect();
    let named = |name: &str| places.get(name).copied();
    let counted = |name: &str| number(name).filter(|&place| place < arguments.len());
    let targets: Vec<Option<usize>> =
        match arrays.iter().all(|array| named(&array.name).is_none() && number(&array.name).is_none()) {
            true => (0..arrays.len()).map(|place| (place < arguments.len()).then_some(place)).collect(),
            false => arrays.iter().map(|array| named(&array.name).or_else(|| counted(&array.name))).collect(),
        };
    let mut assigned: Vec<Option<usize>> = vec![None; arguments.len()];
    let mut problems = Vec::new();
    for (index, (array, target)) in arrays.iter().zip(targets).enumerate() {
        let Some(target) = target else {
            // To look for the nearest name takes time, and nobody reads very many.
            let is_hinted = problems.len() < HINTED;
            problems.push(extra(
                arguments,
                array,
                is_hinted.then(|| nearest_name(arguments, &array.name)).flatten(),
            ));
            continue;
        };
        match assigned[target].replace(index) {
            None => problems.extend(misfit(&arguments[target], array)),
            Some(first) => problems.push(format!(
                "argument {}: two arrays are given for it, {} of {} and {} of {}",
                arguments[target].name,
                arrays[first].name,
                arrays[first].path.display(),
                array.name,
                array.path.display()
            )),
        }
    }
    if !may_lack {
        let lacking = arguments.iter().zip(&assigned).filter(|(_, array)| array.is_none());
        problems.extend(lacking.map(|(argument, _)| {
            format!("argument {}: expected {}, nothing given", argument.name, argument.ty)
        }));
    }
    if problems.is_empty() { Ok(assigned) } else { Err(problems) }
}

fn number(name: &str) -> Option<usize> {
    let digits = name.strip_prefix("arr_").unwrap_or(name);
    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok()).flatten()
}

/// The argument whose name is most like that of an array, of as many as can be compared in no time.
fn nearest_name<'a>(arguments: &'a [ArgumentInfo], array: &str) -> Option<&'a str> {
    const COMPARED: usize = 10_000;
    const LONGEST: usize = 200;
    let names = arguments.iter().map(|argument| argument.name.as_str());
    let names: Vec<&str> = names.filter(|name| name.len() <= LONGEST).take(COMPARED).collect();
    if array.len() <= LONGEST { nearest(array, &names) } else { None }
}

fn extra(arguments: &[ArgumentInfo], array: &StoredArray, nearest: Option<&str>) -> String {
    let hint = nearest.map(|name| format!("; did you mean {name}?")).unwrap_or_default();
    format!(
        "array {} of {} is no argument of the program, which takes {}{hint}",
        array.name,
        array.path.display(),
        arguments.len()
    )
}

fn misfit(argument: &ArgumentInfo, array: &StoredArray) -> Option<String> {
    (argument.ty != array.ty).then(|| {
        format!(
            "argument {}: expected {}, found {} in array {} of {}",
            argument.name,
            argument.ty,
            array.ty,
            array.name,
            array.path.display()
        )
    })
}
