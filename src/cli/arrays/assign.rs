//! Which array of the files is which argument of the program.

use shardwright_hlo::ArgumentInfo;

use super::super::names::nearest;
use super::read::StoredArray;

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
    let mut targets: Vec<Option<usize>> = arrays.iter().map(|array| target(arguments, &array.name)).collect();
    if arrays.iter().all(|array| named(arguments, &array.name).is_none() && number(&array.name).is_none()) {
        targets = (0..arrays.len()).map(|place| (place < arguments.len()).then_some(place)).collect();
    }
    let mut assigned: Vec<Option<usize>> = vec![None; arguments.len()];
    let mut problems = Vec::new();
    for (index, (array, target)) in arrays.iter().zip(targets).enumerate() {
        let Some(target) = target else {
            problems.push(extra(arguments, array));
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

fn named(arguments: &[ArgumentInfo], name: &str) -> Option<usize> {
    arguments.iter().position(|argument| argument.name == name)
}

fn number(name: &str) -> Option<usize> {
    let digits = name.strip_prefix("arr_").unwrap_or(name);
    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok()).flatten()
}

fn target(arguments: &[ArgumentInfo], name: &str) -> Option<usize> {
    named(arguments, name).or_else(|| number(name).filter(|&place| place < arguments.len()))
}

fn extra(arguments: &[ArgumentInfo], array: &StoredArray) -> String {
    let names: Vec<&str> = arguments.iter().map(|argument| argument.name.as_str()).collect();
    let hint = match nearest(&array.name, &names) {
        Some(name) => format!("; did you mean {name}?"),
        None => String::new(),
    };
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
