//! A tree as text, in the generic form.

use std::fmt::Write;

use crate::text::shared::Text;
use crate::text::tree::{Named, Operation, TreeArgument, TreeRegion};
use crate::text::write::dictionary;

/// Appends an operation as it stands in a region that is indented by `indent` spaces, without a line break at its end.
/// Of locations only those of operations and arguments are written that have one.
pub(super) fn operation(out: &mut String, op: &Operation, indent: usize) {
    for (i, result) in op.results.iter().enumerate() {
        out.push_str(if i == 0 { "%" } else { ", %" });
        out.push_str(&result.name);
        if result.count != 1 {
            let _ = write!(out, ":{}", result.count);
        }
    }
    out.push_str(if op.results.is_empty() { "" } else { " = " });
    let _ = write!(out, "\"{}\"(", op.name);
    for (i, operand) in op.operands.iter().enumerate() {
        out.push_str(if i == 0 { "%" } else { ", %" });
        out.push_str(&operand.name);
        if operand.index > 0 {
            let _ = write!(out, "#{}", operand.index);
        }
    }
    out.push(')');
    let properties = properties(op);
    if !properties.is_empty() {
        let _ = write!(out, " <{}>", dictionary(&properties));
    }
    regions(out, &op.regions, indent);
    if !op.attributes.is_empty() {
        let _ = write!(out, " {}", dictionary(&op.attributes));
    }
    let _ = write!(out, " : {} -> ", list(&op.operand_types));
    match &op.result_types[..] {
        [one] if !one.starts_with('(') => out.push_str(one),
        types => out.push_str(&list(types)),
    }
    location(out, &op.location);
}

/// The properties as they are written: those of a function's arguments are among them.
fn properties(op: &Operation) -> Vec<Named> {
    let mut properties = op.properties.clone();
    let arguments = op.regions.first().filter(|_| op.name == "func.func").map(|region| &region.arguments);
    if let Some(arguments) = arguments.filter(|list| list.iter().any(|one| !one.attributes.is_empty())) {
        let each: Vec<String> = arguments.iter().map(|argument| dictionary(&argument.attributes)).collect();
        let value = format!("[{}]", each.join(", ")).into();
        properties.insert(0, Named { name: "arg_attrs".into(), value, at: op.at });
    }
    properties
}

fn regions(out: &mut String, regions: &[TreeRegion], indent: usize) {
    for (i, region) in regions.iter().enumerate() {
        out.push_str(if i == 0 { " ({\n" } else { ", {\n" });
        if !region.arguments.is_empty() {
            let _ = write!(out, "{:indent$}^bb0(", "");
            for (i, TreeArgument { name, ty, location: place, .. }) in region.arguments.iter().enumerate() {
                let _ = write!(out, "{}%{name}: {ty}", if i == 0 { "" } else { ", " });
                location(out, place);
            }
            out.push_str("):\n");
        }
        for inner in &region.operations {
            let _ = write!(out, "{:width$}", "", width = indent + 2);
            operation(out, inner, indent + 2);
            out.push('\n');
        }
        let _ = write!(out, "{:indent$}}}", "");
    }
    out.push_str(if regions.is_empty() { "" } else { ")" });
}

fn list(types: &[Text]) -> String {
    format!("({})", types.iter().map(Text::as_str).collect::<Vec<_>>().join(", "))
}

fn location(out: &mut String, location: &Option<Text>) {
    if let Some(location) = location {
        out.push(' ');
        out.push_str(location);
    }
}
