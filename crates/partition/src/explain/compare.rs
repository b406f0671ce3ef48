//! Two explanations side by side: of two lowerings of one plan, or of two plans.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use super::table::{Table, axes_text, count_text};
use super::{Explanation, Volume};
use crate::report::Bytes;

/// Two programs compared.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// What the two are called.
    pub names: [String; 2],
    /// The verdict on each.
    pub verdicts: [String; 2],
    /// Collectives by kind and axes.
    pub rows: Vec<ComparisonRow>,
    /// Bytes of memory that are in use at one time: the compiler's figure, or else the estimate.
    pub peak_bytes: [u64; 2],
}

/// The collectives of one kind over the same axes, in both programs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ComparisonRow {
    /// HLO's name of the collective.
    pub kind: String,
    /// The axes; none if unknown.
    pub axes: Option<Vec<String>>,
    /// What travels, in each program.
    pub volumes: [Volume; 2],
}

impl Comparison {
    /// Compares two programs.
    pub fn new(left: (&str, &Explanation), right: (&str, &Explanation)) -> Comparison {
        let both = [left, right];
        let mut rows: BTreeMap<(String, Option<Vec<String>>), [Volume; 2]> = BTreeMap::new();
        for (side, (_, explanation)) in both.iter().enumerate() {
            for collective in &explanation.collectives {
                let key = (collective.kind.to_string(), collective.axes.clone());
                let runs = collective.runs.count;
                rows.entry(key).or_default()[side].add(Volume {
                    arrays: runs.saturating_mul(collective.pieces.len() as u64),
                    array_bytes: runs.saturating_mul(collective.array_bytes),
                    sent_bytes: runs.saturating_mul(collective.sent_bytes),
                });
            }
        }
        let row = |((kind, axes), volumes)| ComparisonRow { kind, axes, volumes };
        Comparison {
            names: both.map(|(name, _)| name.to_owned()),
            verdicts: both.map(|(_, explanation)| explanation.verdict.summary.clone()),
            rows: rows.into_iter().map(row).collect(),
            peak_bytes: both.map(|(_, explanation)| explanation.memory.peak_bytes()),
        }
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, verdict) in self.names.iter().zip(&self.verdicts) {
            writeln!(f, "{name}: {verdict}")?;
        }
        let [left, right] = &self.names;
        let mut table = Table::new(&["", "over", left, "bytes", "sent", right, "bytes", "sent"], 2);
        for row in &self.rows {
            let mut cells = vec![row.kind.clone(), axes_text(row.axes.as_deref())];
            cells.extend(row.volumes.iter().flat_map(cells_of));
            table.push(cells);
        }
        let sum = |side: usize| {
            self.rows.iter().fold(Volume::default(), |mut sum, row| {
                sum.add(row.volumes[side]);
                sum
            })
        };
        let mut cells = vec!["all".to_owned(), String::new()];
        cells.extend([sum(0), sum(1)].iter().flat_map(cells_of));
        table.push(cells);
        write!(f, "\n{table}\n")?;
        let [left_peak, right_peak] = self.peak_bytes.map(Bytes);
        writeln!(f, "peak memory per device: {left} {left_peak}, {right} {right_peak}")
    }
}

fn cells_of(volume: &Volume) -> [String; 3] {
    if *volume == Volume::default() {
        return ["–", "", ""].map(str::to_owned);
    }
    [count_text(volume.arrays), Bytes(volume.array_bytes).to_string(), Bytes(volume.sent_bytes).to_string()]
}
