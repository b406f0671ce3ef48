//! Two lowerings of one step, side by side.

use shardwright_partition::explain::{Comparison, Volume};

use super::markup::Column::{Number, Text};
use super::markup::{Cell, Column, Table};
use super::tables::{badge, count};
use super::{bytes, section, words};

/// The section that compares them.
pub(super) fn lowerings(comparison: &Comparison) -> String {
    let content = [summary(comparison), traffic(comparison), differences(comparison)].concat();
    let rest = "<p class=\"small\">The rest of the page is of the explicit lowering.</p>\n";
    section("Two lowerings", &(content + rest))
}

fn summary(comparison: &Comparison) -> String {
    let columns =
        &[Text("lowering"), Text("verdict"), Number("sent by a device"), Number("peak memory"), Text("why")];
    let mut table = Table::new("What became of each lowering", columns);
    let each = comparison.names.iter().zip(&comparison.verdicts).zip(comparison.totals());
    for (((name, verdict), total), peak) in each.zip(comparison.peak_bytes) {
        table.row([
            Cell::Text(name.clone()),
            badge(verdict.grade),
            bytes(total.sent_bytes),
            bytes(peak),
            Cell::Text(verdict.summary.clone()),
        ]);
    }
    table.html()
}

/// All that travels.
fn traffic(comparison: &Comparison) -> String {
    static COLUMNS: [Column; 7] = columns("purpose");
    let mut table = Table::new("What travels in one run", &COLUMNS);
    for row in &comparison.rows {
        let purpose = Cell::Text(row.purpose.to_string());
        table.row(cells(purpose, &row.kind, row.axes.as_deref(), &row.volumes));
    }
    table.html()
}

/// What does not travel alike.
fn differences(comparison: &Comparison) -> String {
    static COLUMNS: [Column; 7] = columns("of");
    let mut table = Table::new("Collectives that differ", &COLUMNS);
    for row in &comparison.differences {
        let cause = Cell::Name(row.cause.clone());
        table.row(cells(cause, &row.kind, row.axes.as_deref(), &row.volumes));
    }
    match table.html() {
        none if none.is_empty() => "<p>All collectives are alike.</p>\n".to_owned(),
        table => format!("<p class=\"small\">Collectives that differ, by what they carry:</p>\n{table}"),
    }
}

/// The columns that [`cells`] fill.
const fn columns(of: &'static str) -> [Column; 7] {
    [
        Text(of),
        Text("collective"),
        Text("axes"),
        Number("arrays, annotate"),
        Number("arrays, explicit"),
        Number("sent, annotate"),
        Number("sent, explicit"),
    ]
}

/// The cells of a row: numbers of the one program beside those of the other.
fn cells(of: Cell, kind: &str, axes: Option<&[String]>, volumes: &[Volume; 2]) -> Vec<Cell> {
    let mut cells = vec![of, Cell::Text(kind.to_owned()), Cell::Name(words::axes(axes))];
    cells.extend(volumes.iter().map(|volume| count(volume.arrays)));
    cells.extend(volumes.iter().map(|volume| bytes(volume.sent_bytes)));
    cells
}
