//! The tables of the page.

use indexmap::IndexMap;
use shardwright_partition::explain::{ExplainedCollective, Explanation, Grade, Volume};

use super::bytes;
use super::markup::Column::{Number, Text};
use super::markup::{Cell, Table, escape};
use super::words;

/// What travels, by purpose and axes, against what the strategy needs.
pub(super) fn traffic(explanation: &Explanation) -> String {
    let mut table = Table::new(
        "What travels in one run, against what FSDP needs",
        &[
            Text("purpose"),
            Text("axes"),
            Number("arrays needed"),
            Number("arrays"),
            Number("bytes needed"),
            Number("bytes"),
            Number("sent by a device"),
        ],
    );
    for traffic in &explanation.traffic {
        let Volume { arrays, array_bytes, sent_bytes } = traffic.actual;
        let none = || Cell::Number { value: -1.0, text: "–".to_owned() };
        table.row([
            Cell::Text(traffic.purpose.to_string()),
            Cell::Name(words::axes(traffic.axes.as_deref())),
            traffic.predicted.map_or_else(none, |needed| count(needed.arrays)),
            count(arrays),
            traffic.predicted.map_or_else(none, |needed| bytes(needed.array_bytes)),
            bytes(array_bytes),
            bytes(sent_bytes),
        ]);
    }
    let differences = explanation.traffic.iter().flat_map(|traffic| {
        let item = |difference| format!("<li>{}: {}</li>\n", escape(traffic.purpose), escape(difference));
        traffic.differences.iter().map(item)
    });
    match differences.collect::<String>() {
        none if none.is_empty() => table.html(),
        items => format!("{}<ul class=\"small\">\n{items}</ul>\n", table.html()),
    }
}

/// The wrapped units.
pub(super) fn units(explanation: &Explanation) -> String {
    let mut table = Table::new(
        "Units",
        &[
            Text("unit"),
            Text("class"),
            Text("verdict"),
            Number("parameters split"),
            Number("of"),
            Number("parameter bytes"),
            Number("gathered forward"),
            Number("gathered backward"),
            Number("gradients summed"),
            Number("activations moved"),
            Text("why"),
        ],
    );
    for unit in &explanation.units {
        table.row([
            Cell::Name(unit.path.clone()),
            Cell::Name(unit.class.clone()),
            badge(unit.verdict.grade),
            count(unit.parameters.0 as u64),
            count(unit.parameters.1 as u64),
            bytes(unit.parameter_bytes),
            bytes(unit.gathered_bytes.0),
            bytes(unit.gathered_bytes.1),
            bytes(unit.reduced_bytes),
            bytes(unit.activation_bytes),
            Cell::Text(unit.verdict.summary.clone()),
        ]);
    }
    table.html()
}

/// The parameters.
pub(super) fn parameters(explanation: &Explanation) -> String {
    let mut table = Table::new(
        "Parameters",
        &[
            Text("parameter"),
            Text("type"),
            Text("spec"),
            Text("verdict"),
            Number("bytes per device"),
            Number("gathers forward"),
            Number("gathers backward"),
            Text("gradient"),
            Text("why"),
        ],
    );
    for parameter in &explanation.parameters {
        table.row([
            Cell::Name(parameter.name.clone()),
            Cell::Name(parameter.ty.clone()),
            Cell::Name(parameter.spec.clone()),
            badge(parameter.verdict.grade),
            bytes(parameter.bytes_per_device),
            count(parameter.forward_gathers),
            count(parameter.backward_gathers),
            Cell::Text(parameter.reduced.to_string()),
            Cell::Text(parameter.verdict.summary.clone()),
        ]);
    }
    table.html()
}

/// Collectives that differ in nothing but the numbers in their names, such as those of a model's layers, as one row.
pub(super) fn collectives(explanation: &Explanation) -> String {
    let mut table = Table::new(
        "Collectives",
        &[
            Text("collective"),
            Text("axes"),
            Text("of"),
            Text("purpose"),
            Text("pass"),
            Number("runs"),
            Number("bytes of one"),
            Number("sent by a device, in all"),
            Text("overlaps"),
        ],
    );
    for (_, group) in folded(&explanation.collectives) {
        let first = group[0];
        let piece = first.pieces.first();
        let runs = words::total(group.iter().map(|c| c.runs.count));
        let unknown = if group.iter().any(|c| c.runs.is_unknown) { " or more" } else { "" };
        table.row([
            Cell::Text(first.kind.to_string()),
            Cell::Name(words::axes(first.axes.as_deref())),
            Cell::Name(without_numbers(&words::cause(&first.pieces), group.len())),
            Cell::Text(piece.map(|piece| piece.purpose.to_string()).unwrap_or_default()),
            Cell::Text(piece.and_then(|piece| piece.pass).map(|pass| pass.to_string()).unwrap_or_default()),
            Cell::Number { value: runs as f64, text: format!("{runs}{unknown}") },
            bytes(first.array_bytes),
            bytes(words::total(group.iter().copied().map(words::sent))),
            Cell::Text(if first.is_async { "yes" } else { "no" }.to_owned()),
        ]);
    }
    table.html()
}

type Groups<'a> = IndexMap<String, Vec<&'a ExplainedCollective>>;

fn folded(collectives: &[ExplainedCollective]) -> Groups<'_> {
    let mut groups = Groups::new();
    for collective in collectives {
        let ExplainedCollective { kind, axes, is_async, array_bytes, pieces, .. } = collective;
        let what = pieces.first().map(|piece| (piece.purpose, piece.pass));
        let name = without_numbers(&words::cause(pieces), 2);
        let key = format!("{kind:?} {axes:?} {is_async} {array_bytes} {what:?} {name}");
        groups.entry(key).or_default().push(collective);
    }
    groups
}

/// A name in which `*` stands for the numbers, where it stands for several.
fn without_numbers(name: &str, count: usize) -> String {
    if count == 1 {
        return name.to_owned();
    }
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let parts = name.split_inclusive(['.', '/', '[', ']', ' ', '_']).map(|part| {
        let (word, end) = match part.char_indices().last() {
            Some((place, '.' | '/' | '[' | ']' | ' ' | '_')) => part.split_at(place),
            _ => (part, ""),
        };
        format!("{}{end}", if is_number(word) { "*" } else { word })
    });
    parts.collect()
}

pub(super) fn badge(grade: Grade) -> Cell {
    Cell::Badge { class: words::grade_class(grade), word: grade.to_string(), order: grade as usize }
}

pub(super) fn count(count: u64) -> Cell {
    Cell::Number { value: count as f64, text: count.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_share_a_name() {
        let check = |name, expected| assert_eq!(without_numbers(name, 2), expected);
        check("model.layers.13.mlp.up_proj.weight", "model.layers.*.mlp.up_proj.weight");
        check("gradient of params['layers'][2]['wq']", "gradient of params['layers'][*]['wq']");
        check("w1", "w1");
        check("", "");
        assert_eq!(without_numbers("layers.13", 1), "layers.13");
    }
}
