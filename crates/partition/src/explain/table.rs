//! An explanation as tables for a terminal: the summary first.

use std::collections::BTreeMap;
use std::fmt;

use super::traffic::{folded_name, volume};
use super::{
    Cause, ExplainedCollective, Explanation, Grade, MemoryReport, Pass, Piece, Purpose, Reduced, UnitReport,
    Verdict, Volume,
};
use crate::report::{Bytes, printable};

/// How many rows of collectives are shown.
const MOST_ROWS: usize = 60;

/// Cells in columns as wide as they need to be.
pub(super) struct Table {
    rows: Vec<Vec<String>>,
    /// Columns before this one are aligned to the left, the others to the right.
    numbers_from: usize,
}

impl Table {
    pub(super) fn new(header: &[&str], numbers_from: usize) -> Table {
        Table { rows: vec![header.iter().map(|&cell| printable(cell)).collect()], numbers_from }
    }

    pub(super) fn push(&mut self, row: Vec<String>) {
        self.rows.push(row.iter().map(|cell| printable(cell)).collect());
    }

    fn is_empty(&self) -> bool {
        self.rows.len() == 1
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            self.rows
                .iter()
                .filter_map(|row| row.get(column))
                .map(|cell| cell.chars().count())
                .max()
                .unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        for row in &self.rows {
            let mut line = String::new();
            for (column, cell) in row.iter().enumerate() {
                let width = widths[column];
                let cell = match column < self.numbers_from {
                    true => format!("{cell:width$}"),
                    false => format!("{cell:>width$}"),
                };
                line = line + if column == 0 { "  " } else { "   " } + &cell;
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

pub(super) fn axes_text(axes: Option<&[String]>) -> String {
    match axes {
        None => "?".to_owned(),
        Some([]) => "–".to_owned(),
        Some(axes) => axes.join(", "),
    }
}

pub(super) fn count_text(count: u64) -> String {
    format!("{count}×")
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} on {} ({} devices)", printable(&self.program), self.mesh, self.devices)?;
        writeln!(f, "{}", self.verdict)?;
        section(f, "Traffic in one run, per device", &self.traffic_table())?;
        for traffic in &self.traffic {
            for difference in &traffic.differences {
                writeln!(f, "  {}: {}", traffic.purpose, printable(difference))?;
            }
        }
        section(f, "Units", &self.unit_table())?;
        section(f, "Collectives", &self.collective_table())?;
        write!(f, "{}", self.memory)?;
        for note in &self.notes {
            writeln!(f, "note: {note}")?;
        }
        Ok(())
    }
}

fn section(f: &mut fmt::Formatter<'_>, title: &str, table: &Table) -> fmt::Result {
    if table.is_empty() { Ok(()) } else { write!(f, "\n{title}\n{table}") }
}

impl Explanation {
    fn traffic_table(&self) -> Table {
        let header = ["for", "over", "planned", "bytes", "sent", "actual", "bytes", "sent"];
        let mut table = Table::new(&header, 2);
        for row in &self.traffic {
            let mut cells = vec![row.purpose.to_string(), axes_text(row.axes.as_deref())];
            cells.extend(row.predicted.map_or(["", "", ""].map(str::to_owned), cells_of));
            cells.extend(cells_of(row.actual));
            table.push(cells);
        }
        table
    }

    /// The units; neighbours that are alike are one row.
    fn unit_table(&self) -> Table {
        let mut table = Table::new(&["unit", "verdict", "weights", "gathered", "again", "reduced"], 2);
        let mut rows: Vec<(String, String, &UnitReport, usize)> = Vec::new();
        for unit in &self.units {
            let (path, verdict) = (folded_name(&unit.path), folded_name(&unit.verdict.summary));
            match rows.last_mut() {
                Some((last_path, last_verdict, _, count))
                    if *last_path == path && *last_verdict == verdict =>
                {
                    *count += 1;
                }
                _ => rows.push((path, verdict, unit, 1)),
            }
        }
        for (path, verdict, unit, count) in rows {
            let name = if count == 1 { unit.path.clone() } else { format!("{count}× {path}") };
            let (forward, again) = unit.gathered_bytes;
            let bytes =
                [unit.parameter_bytes, forward, again, unit.reduced_bytes].map(|b| Bytes(b).to_string());
            table.push([vec![name, verdict], bytes.to_vec()].concat());
        }
        table
    }

    /// The collectives, those that are alike joined, in the order in which they run first.
    fn collective_table(&self) -> Table {
        let mut rows: Vec<([String; 5], Volume)> = Vec::new();
        let mut places: BTreeMap<[String; 5], usize> = BTreeMap::new();
        for collective in &self.collectives {
            for piece in &collective.pieces {
                let key = key(collective, piece);
                let place = *places.entry(key.clone()).or_insert_with(|| {
                    rows.push((key, Volume::default()));
                    rows.len() - 1
                });
                rows[place].1.add(volume(collective, piece));
            }
        }
        let mut table = Table::new(&["", "of", "type", "over", "pass", "runs", "bytes", "sent"], 5);
        let left_out = rows.len().saturating_sub(MOST_ROWS);
        for (key, volume) in rows.into_iter().take(MOST_ROWS) {
            table.push([key.to_vec(), cells_of(volume).to_vec()].concat());
        }
        if left_out > 0 {
            table.push(vec![format!("and {left_out} more kinds")]);
        }
        table
    }
}

/// By what collectives are joined in the table.
fn key(collective: &ExplainedCollective, piece: &Piece) -> [String; 5] {
    let marks = [
        (collective.is_async, "async"),
        (collective.runs.is_unknown, "turns unknown"),
        (collective.runs.is_conditional, "in a branch"),
    ];
    let marks: Vec<&str> = marks.into_iter().filter(|(is_so, _)| *is_so).map(|(_, mark)| mark).collect();
    let marks = if marks.is_empty() { String::new() } else { format!(" ({})", marks.join(", ")) };
    let of = match &piece.cause {
        Cause::Argument(name) | Cause::Op(name) => folded_name(name),
        Cause::Output(name) => format!("output {}", folded_name(name)),
        Cause::GradientOf(name) => format!("gradient of {}", folded_name(name)),
        Cause::Unknown => piece.purpose.to_string(),
    };
    [
        format!("{}{marks}", collective.kind),
        of,
        piece.ty.clone(),
        axes_text(collective.axes.as_deref()),
        piece.pass.map(|pass| pass.to_string()).unwrap_or_default(),
    ]
}

fn cells_of(volume: Volume) -> [String; 3] {
    [count_text(volume.arrays), Bytes(volume.array_bytes).to_string(), Bytes(volume.sent_bytes).to_string()]
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.summary)?;
        if let Some(next_step) = &self.next_step {
            write!(f, "\nnext: {next_step}")?;
        }
        Ok(())
    }
}

impl fmt::Display for MemoryReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\nMemory per device: ")?;
        match (&self.compiler, self.ratio) {
            (Some(compiler), Some(ratio)) => writeln!(
                f,
                "{} by the compiler's figures, {} estimated (ratio {ratio:.2})",
                Bytes(compiler.in_use()),
                Bytes(self.estimated_peak)
            )?,
            _ => writeln!(f, "{} estimated", Bytes(self.estimated_peak))?,
        }
        let mut table = Table::new(&["at the peak", "bytes"], 1);
        for class in self.at_peak.iter().filter(|class| class.bytes > 0) {
            table.push(vec![class.class.name().to_owned(), Bytes(class.bytes).to_string()]);
        }
        write!(f, "{table}")
    }
}

impl MemoryReport {
    /// The most that is in use at one time: the compiler's figure, or else the estimate.
    pub fn peak_bytes(&self) -> u64 {
        self.compiler.map_or(self.estimated_peak, |compiler| compiler.in_use())
    }
}

impl fmt::Display for Purpose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Purpose::Weight => "weights",
            Purpose::Gradient => "gradients",
            Purpose::State => "optimizer state",
            Purpose::Batch => "batch",
            Purpose::Activation => "activations",
            Purpose::Scalar => "a few numbers",
            Purpose::Other => "other",
        })
    }
}

impl fmt::Display for Pass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Pass::Forward => "forward",
            Pass::Recompute => "recompute",
            Pass::Backward => "backward",
            Pass::Update => "update",
        })
    }
}

impl fmt::Display for Reduced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Reduced::ReduceScatter => "reduce-scatter",
            Reduced::AllReduce => "all-reduce",
            Reduced::AllToAll => "all-to-all",
            Reduced::Ring => "ring",
            Reduced::Nowhere => "none",
        })
    }
}

impl fmt::Display for Grade {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Grade::NotSharded => "not sharded",
            Grade::AsPlanned => "as planned",
            Grade::Costly => "costly",
            Grade::Lost => "lost",
        })
    }
}
