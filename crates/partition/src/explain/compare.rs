//! Two explanations side by side: of two lowerings of one plan, or of two plans.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use super::table::{Table, axes_text, count_text};
use super::traffic::{folded_cause, volume};
use super::{Explanation, Purpose, Verdict, Volume};
use crate::report::Bytes;

/// How many differences are shown.
const MOST_DIFFERENCES: usize = 12;

/// Two programs compared.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// What the two are called.
    pub names: [String; 2],
    /// The verdict on each.
    pub verdicts: [Verdict; 2],
    /// What travels, by purpose, kind and axes.
    pub rows: Vec<ComparisonRow>,
    /// What travels otherwise in one program than in the other, by what it comes from; that of most bytes first.
    pub differences: Vec<ComparisonDifference>,
    /// Bytes of memory that are in use at one time: the compiler's figure, or else the estimate.
    pub peak_bytes: [u64; 2],
}

/// What travels for one purpose by collectives of one kind over the same axes, in both programs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ComparisonRow {
    /// What for.
    pub purpose: Purpose,
    /// HLO's name of the collective.
    pub kind: String,
    /// The axes; none if unknown.
    pub axes: Option<Vec<String>>,
    /// How much, in each program.
    pub volumes: [Volume; 2],
}

/// What comes from the same parameters or ops, those of layers that are alike together, and does not travel alike.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ComparisonDifference {
    /// What it comes from: `gradient of model.layers.*.mlp.up_proj.weight`.
    pub cause: String,
    /// HLO's name of the collective.
    pub kind: String,
    /// The axes; none if unknown.
    pub axes: Option<Vec<String>>,
    /// How much, in each program.
    pub volumes: [Volume; 2],
}

type Axes = Option<Vec<String>>;

impl Comparison {
    /// Compares two programs.
    pub fn new(left: (&str, &Explanation), right: (&str, &Explanation)) -> Comparison {
        let both = [left, right];
        let mut rows: BTreeMap<(Purpose, String, Axes), [Volume; 2]> = BTreeMap::new();
        let mut causes: BTreeMap<(String, String, Axes), [Volume; 2]> = BTreeMap::new();
        for (side, (_, explanation)) in both.iter().enumerate() {
            for collective in &explanation.collectives {
                for piece in &collective.pieces {
                    let (kind, axes) = (collective.kind.to_string(), collective.axes.clone());
                    let volume = volume(collective, piece);
                    let row = rows.entry((piece.purpose, kind.clone(), axes.clone())).or_default();
                    row[side].add(volume);
                    if piece.purpose != Purpose::Scalar {
                        causes.entry((folded_cause(piece), kind, axes)).or_default()[side].add(volume);
                    }
                }
            }
        }
        let row = |((purpose, kind, axes), volumes)| ComparisonRow { purpose, kind, axes, volumes };
        let difference = |((cause, kind, axes), volumes)| ComparisonDifference { cause, kind, axes, volumes };
        let differs = |difference: &ComparisonDifference| difference.volumes[0] != difference.volumes[1];
        let mut differences: Vec<_> = causes.into_iter().map(difference).filter(differs).collect();
        differences.sort_by_key(|d| std::cmp::Reverse(d.volumes.map(|v| v.array_bytes).into_iter().max()));
        Comparison {
            names: both.map(|(name, _)| name.to_owned()),
            verdicts: both.map(|(_, explanation)| explanation.verdict.clone()),
            rows: rows.into_iter().map(row).collect(),
            differences,
            peak_bytes: both.map(|(_, explanation)| explanation.memory.peak_bytes()),
        }
    }

    /// All that travels, in each program.
    pub fn totals(&self) -> [Volume; 2] {
        let mut totals = [Volume::default(); 2];
        for row in &self.rows {
            totals.iter_mut().zip(row.volumes).for_each(|(total, volume)| total.add(volume));
        }
        totals
    }

    fn table(&self, of: &str) -> Table {
        let [left, right] = &self.names;
        Table::new(&[of, "", "over", left, "bytes", "sent", right, "bytes", "sent"], 3)
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, verdict) in self.names.iter().zip(&self.verdicts) {
            writeln!(f, "{name}: {}", verdict.summary)?;
        }
        let mut table = self.table("for");
        for row in &self.rows {
            table.push(cells(&row.purpose.to_string(), &row.kind, row.axes.as_deref(), &row.volumes));
        }
        table.push(cells("all", "", Some(&[]), &self.totals()));
        write!(f, "\nTraffic in one run, per device\n{table}")?;
        if !self.differences.is_empty() {
            let mut table = self.table("of");
            for row in self.differences.iter().take(MOST_DIFFERENCES) {
                table.push(cells(&row.cause, &row.kind, row.axes.as_deref(), &row.volumes));
            }
            write!(f, "\nWhat differs\n{table}")?;
            let left_out = self.differences.len().saturating_sub(MOST_DIFFERENCES);
            if left_out > 0 {
                writeln!(f, "  and {left_out} more, of fewer bytes")?;
            }
        }
        let ([left, right], [left_peak, right_peak]) = (&self.names, self.peak_bytes.map(Bytes));
        writeln!(f, "\nPeak memory per device: {left} {left_peak}, {right} {right_peak}")
    }
}

fn cells(of: &str, kind: &str, axes: Option<&[String]>, volumes: &[Volume; 2]) -> Vec<String> {
    let mut cells = vec![of.to_owned(), kind.to_owned(), axes_text(axes)];
    cells.extend(volumes.iter().flat_map(cells_of));
    cells
}

fn cells_of(volume: &Volume) -> [String; 3] {
    if *volume == Volume::default() {
        return ["–", "", ""].map(str::to_owned);
    }
    [count_text(volume.arrays), Bytes(volume.array_bytes).to_string(), Bytes(volume.sent_bytes).to_string()]
}
