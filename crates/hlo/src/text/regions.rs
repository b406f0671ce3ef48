//! Pieces of forms with regions: modules, functions, reductions, loops.

use super::form::Types;
use super::own::{array, quoted};
use super::parse::Parser;
use super::scan::Result;
use super::shared::Text;
use super::tree::{Operation, ResultName, TreeArgument, TreeRegion, Use};
use super::write::dictionary;

/// `@name attributes {…} {…}`.
pub(super) fn module(parser: &mut Parser<'_>, op: &mut Operation) -> Result<()> {
    if parser.cursor.peek() == Some(b'@') {
        let name = parser.symbol()?;
        parser.set(op, "sym_name", &quoted(name));
    }
    attributes_keyword(parser, op)?;
    op.regions.push(parser.region(Vec::new())?);
    Ok(())
}

/// `public @name(%a: type {…}, …) -> (type {…}, …) attributes {…} {…}`; a function that is only declared has no body, and
/// its arguments may have no names.
pub(super) fn function(parser: &mut Parser<'_>, op: &mut Operation) -> Result<()> {
    for visibility in ["public", "private", "nested"] {
        if parser.cursor.eat_word(visibility) {
            parser.set(op, "sym_visibility", &quoted(visibility));
        }
    }
    let name = parser.symbol()?;
    parser.set(op, "sym_name", &quoted(name));
    let named = parser.cursor;
    let arguments = parameters(parser)?;
    let results = match (parser.cursor.eat("->"), parser.cursor.peek()) {
        (false, _) => Vec::new(),
        (true, Some(b'(')) => parameters(parser)?,
        // What follows in braces is the body.
        (true, _) => {
            let at = parser.cursor.position();
            let ty = parser.ty()?;
            vec![TreeArgument { name: Text::default(), ty, attributes: Vec::new(), location: None, at }]
        }
    };
    parser.set(op, "function_type", &function_type(&arguments, &results));
    set_dictionaries(parser, op, "res_attrs", &results);
    attributes_keyword(parser, op)?;
    if parser.cursor.peek() != Some(b'{') {
        set_dictionaries(parser, op, "arg_attrs", &arguments);
        op.regions.push(TreeRegion::default());
        return Ok(());
    }
    if arguments.iter().any(|argument| argument.name.is_empty()) {
        return Err(named.unexpected("names for the arguments of a function that has a body"));
    }
    op.regions.push(parser.region(arguments)?);
    Ok(())
}

/// `(%a: type {…} loc(…), …)`, the names where they are there.
fn parameters(parser: &mut Parser<'_>) -> Result<Vec<TreeArgument>> {
    parser.cursor.expect("(")?;
    let mut list = Vec::new();
    while !parser.cursor.eat(")") {
        if !list.is_empty() {
            parser.cursor.expect(",")?;
        }
        list.push(match parser.cursor.peek() {
            Some(b'%') => parser.argument()?,
            _ => {
                let at = parser.cursor.position();
                parser.argument_called(Text::default(), at)?
            }
        });
    }
    Ok(list)
}

/// `[{…}, {…}]` of those that go with types, unless all are empty.
fn set_dictionaries(parser: &mut Parser<'_>, op: &mut Operation, name: &str, list: &[TreeArgument]) {
    if list.iter().any(|one| !one.attributes.is_empty()) {
        let each: Vec<String> = list.iter().map(|one| dictionary(&one.attributes)).collect();
        parser.set(op, name, &format!("[{}]", each.join(", ")));
    }
}

fn function_type(arguments: &[TreeArgument], results: &[TreeArgument]) -> String {
    let join = |list: &[TreeArgument]| list.iter().map(|one| one.ty.as_str()).collect::<Vec<_>>().join(", ");
    match results {
        [one] if !one.ty.starts_with('(') => format!("({}) -> {}", join(arguments), one.ty),
        _ => format!("({}) -> ({})", join(arguments), join(results)),
    }
}

/// `attributes {…}`, if it is there.
fn attributes_keyword(parser: &mut Parser<'_>, op: &mut Operation) -> Result<()> {
    if parser.cursor.eat_word("attributes") { parser.attributes(op) } else { Ok(()) }
}

/// `(%x init: %i), (%y init: %j) applies name across dimensions = [1] : …`, or without `applies` and with
/// `reducer(%a: type, %b: type) (%c: type, %d: type) {…}` at the end.
pub(super) fn reduce(parser: &mut Parser<'_>, op: &mut Operation) -> Result<()> {
    let mut inits = Vec::new();
    loop {
        parser.cursor.expect("(")?;
        op.operands.push(parser.value()?);
        parser.cursor.expect("init")?;
        parser.cursor.expect(":")?;
        inits.push(parser.value()?);
        parser.cursor.expect(")")?;
        if !parser.cursor.eat(",") {
            break;
        }
    }
    op.operands.append(&mut inits);
    let applied = match parser.cursor.eat_word("applies") {
        true => Some(parser.cursor.word("the name of an op")?),
        false => None,
    };
    parser.cursor.expect("across")?;
    parser.cursor.expect("dimensions")?;
    parser.cursor.expect("=")?;
    let dims = parser.bracketed_text("[")?;
    parser.set(op, "dimensions", &array("i64", &dims));
    parser.attributes(op)?;
    parser.types_of(Types::Same, op)?;
    let region = match applied {
        Some(name) => {
            op.location = parser.location()?;
            applied_region(parser, op, name)
        }
        None => reducer(parser)?,
    };
    op.regions.push(region);
    Ok(())
}

/// A region that joins its two arguments with one op.
fn applied_region(parser: &mut Parser<'_>, op: &Operation, name: &str) -> TreeRegion {
    let ty = op.operand_types.last().cloned().unwrap_or_default();
    let [lhs, rhs, joined] = ["lhs", "rhs", "joined"].map(|name| parser.made(name));
    let argument = |name: &Text| TreeArgument {
        name: name.clone(),
        ty: ty.clone(),
        attributes: Vec::new(),
        location: op.location.clone(),
        at: op.at,
    };
    let value = |name: &Text| Use { name: name.clone(), index: 0, at: op.at };
    let join = Operation {
        name: parser.made(name),
        results: vec![ResultName { name: joined.clone(), count: 1 }],
        operands: vec![value(&lhs), value(&rhs)],
        operand_types: vec![ty.clone(); 2],
        result_types: vec![ty.clone()],
        location: op.location.clone(),
        at: op.at,
        ..Operation::default()
    };
    let give = Operation {
        name: parser.made("stablehlo.return"),
        operands: vec![value(&joined)],
        operand_types: vec![ty.clone()],
        location: op.location.clone(),
        at: op.at,
        ..Operation::default()
    };
    TreeRegion { arguments: vec![argument(&lhs), argument(&rhs)], operations: vec![join, give] }
}

/// `reducer(%a: type, %b: type) (%c: type, %d: type) {…}`: pairs of what was joined so far and what joins it.
fn reducer(parser: &mut Parser<'_>) -> Result<TreeRegion> {
    parser.cursor.expect("reducer")?;
    let (mut arguments, mut joining) = (Vec::new(), Vec::new());
    while parser.cursor.eat("(") {
        let mut pair = parser.arguments()?;
        parser.cursor.expect(")")?;
        joining.extend(pair.pop());
        arguments.append(&mut pair);
    }
    arguments.append(&mut joining);
    parser.region(arguments)
}

/// `(%a = %x, …) : types attributes {…} cond {…} do {…}`: both regions have the arguments.
pub(super) fn while_loop(parser: &mut Parser<'_>, op: &mut Operation) -> Result<()> {
    parser.cursor.expect("(")?;
    let mut names = Vec::new();
    while parser.cursor.peek() == Some(b'%') {
        let argument = parser.value()?;
        parser.cursor.expect("=")?;
        op.operands.push(parser.value()?);
        names.push(argument);
        if !parser.cursor.eat(",") {
            break;
        }
    }
    parser.cursor.expect(")")?;
    parser.types_of(Types::Each, op)?;
    attributes_keyword(parser, op)?;
    let arguments: Vec<TreeArgument> = names
        .into_iter()
        .zip(&op.operand_types)
        .map(|(Use { name, at, .. }, ty)| TreeArgument {
            name,
            ty: ty.clone(),
            attributes: Vec::new(),
            location: None,
            at,
        })
        .collect();
    parser.cursor.expect("cond")?;
    op.regions.push(parser.region(arguments.clone())?);
    parser.cursor.expect("do")?;
    op.regions.push(parser.region(arguments)?);
    Ok(())
}

/// `(%a: type, …) {…}`.
pub(super) fn body_with_arguments(parser: &mut Parser<'_>, op: &mut Operation) -> Result<()> {
    parser.cursor.expect("(")?;
    let arguments = parser.arguments()?;
    parser.cursor.expect(")")?;
    op.regions.push(parser.region(arguments)?);
    Ok(())
}
