//! Pieces of forms that only one op has, or that are put together of several things.

use super::form::Types;
use super::parse::Parser;
use super::scan::{Raw, Result};
use super::shared::Text;
use super::tree::{Named, Operation, ResultName, TreeArgument, TreeRegion, Use};

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

/// `public @name(%a: type {…}, …) -> (type {…}, …) attributes {…} {…}`; a function that is only declared has types
/// alone, and no body.
pub(super) fn function(parser: &mut Parser<'_>, op: &mut Operation) -> Result<()> {
    for visibility in ["public", "private", "nested"] {
        if parser.cursor.eat_word(visibility) {
            parser.set(op, "sym_visibility", &quoted(visibility));
        }
    }
    let name = parser.symbol()?;
    parser.set(op, "sym_name", &quoted(name));
    parser.cursor.expect("(")?;
    let named = parser.cursor.peek() == Some(b'%');
    let mut region = TreeRegion { arguments: parser.arguments()?, operations: Vec::new() };
    let mut arguments: Vec<(Text, Vec<Named>)> = Vec::new();
    if !named && parser.cursor.peek() != Some(b')') {
        arguments = typed_list(parser)?;
    }
    parser.cursor.expect(")")?;
    let results = if parser.cursor.eat("->") { results(parser)? } else { Vec::new() };
    let argument_types: Vec<&Text> = match named {
        true => region.arguments.iter().map(|argument| &argument.ty).collect(),
        false => arguments.iter().map(|(ty, _)| ty).collect(),
    };
    let ty = function_type(&argument_types, &results.iter().map(|(ty, _)| ty).collect::<Vec<_>>());
    parser.set(op, "function_type", &ty);
    set_dictionaries(parser, op, "arg_attrs", &arguments);
    set_dictionaries(parser, op, "res_attrs", &results);
    attributes_keyword(parser, op)?;
    if parser.cursor.peek() == Some(b'{') {
        region = parser.region(region.arguments)?;
    }
    op.regions.push(region);
    Ok(())
}

fn results(parser: &mut Parser<'_>) -> Result<Vec<(Text, Vec<Named>)>> {
    if parser.cursor.peek() != Some(b'(') {
        return Ok(vec![(parser.ty()?, Vec::new())]);
    }
    parser.cursor.expect("(")?;
    let results = if parser.cursor.peek() == Some(b')') { Vec::new() } else { typed_list(parser)? };
    parser.cursor.expect(")")?;
    Ok(results)
}

/// `type {…}, …`.
fn typed_list(parser: &mut Parser<'_>) -> Result<Vec<(Text, Vec<Named>)>> {
    let mut list = Vec::new();
    loop {
        let ty = parser.ty()?;
        let attributes = if parser.cursor.peek() == Some(b'{') { parser.dictionary()? } else { Vec::new() };
        parser.location()?;
        list.push((ty, attributes));
        if !parser.cursor.eat(",") {
            return Ok(list);
        }
    }
}

/// `[{…}, {…}]` of those that go with types, unless all are empty.
fn set_dictionaries(parser: &mut Parser<'_>, op: &mut Operation, name: &str, list: &[(Text, Vec<Named>)]) {
    if list.iter().all(|(_, attributes)| attributes.is_empty()) {
        return;
    }
    let dictionaries: Vec<String> =
        list.iter().map(|(_, attributes)| super::write::dictionary(attributes)).collect();
    parser.set(op, name, &format!("[{}]", dictionaries.join(", ")));
}

fn function_type(arguments: &[&Text], results: &[&Text]) -> String {
    let join = |types: &[&Text]| types.iter().map(|ty| ty.as_str()).collect::<Vec<_>>().join(", ");
    match results {
        [one] if !one.starts_with('(') => format!("({}) -> {one}", join(arguments)),
        _ => format!("({}) -> ({})", join(arguments), join(results)),
    }
}

/// `attributes {…}`, if it is there.
fn attributes_keyword(parser: &mut Parser<'_>, op: &mut Operation) -> Result<()> {
    if parser.cursor.eat_word("attributes") { parser.attributes(op) } else { Ok(()) }
}

/// `@name` of the function that is called.
pub(super) fn callee(parser: &mut Parser<'_>, op: &mut Operation) -> Result<()> {
    let symbol = parser.symbol()?;
    parser.set(op, "callee", &format!("@{symbol}"));
    Ok(())
}

/// `{…} dense<1.0> : tensor<f32>`, which has the type of the result.
pub(super) fn constant(parser: &mut Parser<'_>, op: &mut Operation) -> Result<()> {
    parser.attributes(op)?;
    let value = parser.plain_attribute()?;
    parser.cursor.expect(":")?;
    let ty = parser.cursor.ty()?;
    let value = Raw { start: value.start, end: ty.end, refers: value.refers || ty.refers };
    let (value, ty) = (parser.text(value)?, parser.text(ty)?);
    parser.set(op, "value", &value);
    op.result_types = vec![ty];
    Ok(())
}

/// `LT, %a, %b, FLOAT`, the last where it is stated.
pub(super) fn compare(parser: &mut Parser<'_>, op: &mut Operation) -> Result<()> {
    let direction = parser.cursor.word("a direction of comparison, such as `LT`")?;
    parser.set(op, "comparison_direction", &format!("#stablehlo<comparison_direction {direction}>"));
    parser.cursor.expect(",")?;
    op.operands = parser.uses()?;
    if parser.cursor.eat(",") {
        let ty = parser.cursor.word("a type of comparison, such as `FLOAT`")?;
        parser.set(op, "compare_type", &format!("#stablehlo<comparison_type {ty}>"));
    }
    Ok(())
}

/// `e8m7`.
pub(super) fn float_format(parser: &mut Parser<'_>, op: &mut Operation) -> Result<()> {
    let before = parser.cursor;
    let word = parser.cursor.word("a format, such as `e8m7`")?;
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match word.strip_prefix('e').and_then(|rest| rest.split_once('m')) {
        Some((exponent, mantissa)) if digits(exponent) && digits(mantissa) => {
            parser.set(op, "exponent_bits", &format!("{exponent} : i32"));
            parser.set(op, "mantissa_bits", &format!("{mantissa} : i32"));
            Ok(())
        }
        _ => Err(before.unexpected("a format, such as `e8m7`")),
    }
}

/// `[0:4, 2:16:2]`: start, limit and, where it is not 1, stride of each dim.
pub(super) fn slice_bounds(parser: &mut Parser<'_>, op: &mut Operation) -> Result<()> {
    let mut bounds: [Vec<String>; 3] = Default::default();
    parser.cursor.expect("[")?;
    while !parser.cursor.eat("]") {
        if !bounds[0].is_empty() {
            parser.cursor.expect(",")?;
        }
        let start = parser.cursor.number()?;
        parser.cursor.expect(":")?;
        let limit = parser.cursor.number()?;
        let stride = if parser.cursor.eat(":") { parser.cursor.number()? } else { 1 };
        for (list, value) in bounds.iter_mut().zip([start, limit, stride]) {
            list.push(value.to_string());
        }
    }
    for (name, list) in ["start_indices", "limit_indices", "strides"].iter().zip(&bounds) {
        parser.set(op, name, &array("i64", &list.join(", ")));
    }
    Ok(())
}

/// `[1]` behind the tuple whose part it is.
pub(super) fn tuple_index(parser: &mut Parser<'_>, op: &mut Operation) -> Result<()> {
    parser.cursor.expect("[")?;
    let index = parser.cursor.number()?;
    parser.set(op, "index", &format!("{index} : i32"));
    parser.cursor.expect("]")
}

/// `%a, %b`, or `()` if there are none.
pub(super) fn barrier(parser: &mut Parser<'_>, op: &mut Operation) -> Result<()> {
    parser.attributes(op)?;
    if parser.cursor.eat("(") {
        return parser.cursor.expect(")");
    }
    op.operands = parser.uses()?;
    Ok(())
}

/// `, batching_dims = [0] x [0], contracting_dims = [2] x [1]`, the first if there are any.
pub(super) fn dot_dims(parser: &mut Parser<'_>, op: &mut Operation) -> Result<()> {
    let mut parts = Vec::new();
    for (key, name) in [("batching_dims", "batching"), ("contracting_dims", "contracting")] {
        if !parser.key(key) {
            continue;
        }
        let lhs = parser.bracketed_text("[")?;
        parser.cursor.expect("x")?;
        let rhs = parser.bracketed_text("[")?;
        for (side, dims) in [("lhs", lhs), ("rhs", rhs)] {
            if !inner(&dims).is_empty() {
                parts.push(format!("{side}_{name}_dimensions = {dims}"));
            }
        }
    }
    parser.set(op, "dot_dimension_numbers", &format!("#stablehlo.dot<{}>", parts.join(", ")));
    Ok(())
}

/// `, precision = [HIGHEST, DEFAULT]`, if it is there.
pub(super) fn precision(parser: &mut Parser<'_>, op: &mut Operation) -> Result<()> {
    if !parser.key("precision") {
        return Ok(());
    }
    parser.cursor.expect("[")?;
    let mut list = Vec::new();
    while !parser.cursor.eat("]") {
        if !list.is_empty() {
            parser.cursor.expect(",")?;
        }
        let word = parser.cursor.word("a precision, such as `DEFAULT`")?;
        list.push(format!("#stablehlo<precision {word}>"));
    }
    parser.set(op, "precision_config", &format!("[{}]", list.join(", ")));
    Ok(())
}

/// ` dim_numbers = […]x[…]->[…], window = {stride = […], pad = […], lhs_dilate = […], rhs_dilate = […], reverse = […]}`.
pub(super) fn convolution(parser: &mut Parser<'_>, op: &mut Operation) -> Result<()> {
    parser.cursor.expect("dim_numbers")?;
    parser.cursor.expect("=")?;
    let dims = parser.cursor.until(",", "the dim numbers")?;
    let dims = parser.text(dims)?;
    parser.set(op, "dimension_numbers", &format!("#stablehlo.conv<{dims}>"));
    if !parser.key("window") {
        return Err(parser.cursor.unexpected("`, window =`"));
    }
    for entry in parser.dictionary()? {
        let list = inner(&entry.value);
        let (name, value) = match entry.name.as_str() {
            "stride" => ("window_strides", array("i64", list)),
            "lhs_dilate" => ("lhs_dilation", array("i64", list)),
            "rhs_dilate" => ("rhs_dilation", array("i64", list)),
            "reverse" => ("window_reversal", array("i1", list)),
            "pad" => ("padding", padding(list)),
            _ => {
                let expected = "`stride`, `pad`, `lhs_dilate`, `rhs_dilate` or `reverse`";
                return Err(parser.error_at(entry.at, format!("`{}`", entry.name), expected));
            }
        };
        parser.set(op, name, &value);
    }
    Ok(())
}

/// The elements of `[[1, 1], [1, 1]]`, one alone where all are equal.
fn padding(list: &str) -> String {
    let dims = list.matches('[').count();
    let mut numbers = list.split(['[', ']', ',']).map(str::trim).filter(|text| !text.is_empty());
    let elements = match numbers.next() {
        None => String::new(),
        Some(first) if numbers.all(|number| number == first) => first.into(),
        Some(_) => format!("[{list}]"),
    };
    format!("dense<{elements}> : tensor<{dims}x2xi64>")
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
    parser.set(op, "dimensions", &array("i64", inner(&dims)));
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

/// `in_shardings=[…] out_shardings=[…]`, as far as they are there.
pub(super) fn maybe_shardings(parser: &mut Parser<'_>, op: &mut Operation) -> Result<()> {
    for name in ["in_shardings", "out_shardings"] {
        if parser.cursor.eat_word(name) {
            parser.cursor.expect("=")?;
            parser.wrapped(op, name, "[", ("#sdy.sharding_per_value<", ">"))?;
        }
    }
    Ok(())
}

/// `NONE`, `FORWARD`, `BACKWARD` or `BOTH`, in the generic form a number.
pub(super) fn direction(parser: &mut Parser<'_>, op: &mut Operation) -> Result<()> {
    let found = ["NONE", "FORWARD", "BACKWARD", "BOTH"].iter().position(|word| parser.cursor.eat_word(word));
    let number = found.ok_or_else(|| parser.cursor.unexpected("`NONE`, `FORWARD`, `BACKWARD` or `BOTH`"))?;
    parser.set(op, "allowed_direction", &format!("{number} : i32"));
    Ok(())
}

/// An array attribute of the items of a list, which may stand in brackets.
pub(super) fn array(element: &str, list: &str) -> String {
    match inner(list) {
        "" => format!("array<{element}>"),
        items => format!("array<{element}: {items}>"),
    }
}

/// A name of a symbol as a string.
pub(super) fn quoted(symbol: &str) -> String {
    if symbol.starts_with('"') { symbol.into() } else { format!("\"{symbol}\"") }
}

/// What stands between brackets.
fn inner(list: &str) -> &str {
    list.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(list).trim()
}
