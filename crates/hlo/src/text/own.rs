//! Pieces of forms that only one op has, or that are put together of several things.

use super::parse::Parser;
use super::scan::{Raw, Result};
use super::tree::Operation;

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
    parser.cursor.expect("{")?;
    while !parser.cursor.eat("}") {
        let before = parser.cursor;
        let key = parser.cursor.word("a part of the window")?;
        parser.cursor.expect("=")?;
        let list = parser.bracketed_text("[")?;
        let (name, value) = match key {
            "stride" => ("window_strides", array("i64", &list)),
            "pad" => ("padding", padding(&list)),
            "lhs_dilate" => ("lhs_dilation", array("i64", &list)),
            "rhs_dilate" => ("rhs_dilation", array("i64", &list)),
            "reverse" => ("window_reversal", array("i1", &list)),
            _ => {
                let expected = "`stride`, `pad`, `lhs_dilate`, `rhs_dilate` or `reverse`";
                return Err(before.unexpected(expected));
            }
        };
        parser.set(op, name, &value);
        if !parser.cursor.eat(",") && parser.cursor.peek() != Some(b'}') {
            return Err(parser.cursor.unexpected("`,` or `}`"));
        }
    }
    Ok(())
}

/// The elements of `[[1, 1], [1, 1]]`, one alone where all are equal.
fn padding(list: &str) -> String {
    let dims = list.matches('[').count() - 1;
    let mut numbers = list.split(['[', ']', ',']).map(str::trim).filter(|text| !text.is_empty());
    let elements = match numbers.next() {
        None => String::new(),
        Some(first) if numbers.all(|number| number == first) => first.into(),
        Some(_) => list.into(),
    };
    format!("dense<{elements}> : tensor<{dims}x2xi64>")
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
