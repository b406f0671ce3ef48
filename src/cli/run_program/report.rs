//! What is told of a program that was run.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use serde::Serialize;
use shardwright_partition::printable;

use super::super::arrays::{Difference, Summary};
use super::super::failure::{Cause, Failure};

/// A run, in figures; what `--json` writes.
#[derive(Debug, Serialize)]
pub(super) struct RunReport<'a> {
    /// What the program calls itself.
    pub(super) program: &'a str,
    /// Its mesh, such as `data=2, fsdp=4`.
    pub(super) mesh: String,
    /// The ids of its devices, in the order of the mesh.
    pub(super) devices: Vec<usize>,
    /// Until the program was compiled, or loaded from the cache.
    pub(super) compile_seconds: f64,
    /// The first run.
    pub(super) first_run_seconds: f64,
    /// The median of the others; null where there were none.
    pub(super) median_run_seconds: Option<f64>,
    /// How often it ran.
    pub(super) runs: usize,
    /// What it gave, in its order.
    pub(super) outputs: Vec<OutputReport<'a>>,
    /// Where that was written.
    pub(super) written: Option<&'a Path>,
}

/// One output.
#[derive(Debug, Serialize)]
pub(super) struct OutputReport<'a> {
    pub(super) name: &'a str,
    #[serde(rename = "type")]
    pub(super) ty: String,
    pub(super) spec: String,
    #[serde(flatten)]
    pub(super) summary: Summary,
    /// How far it is from what one device gives; null where that was not asked for.
    pub(super) difference: Option<Difference>,
}

impl RunReport<'_> {
    /// The times, in a line.
    pub(super) fn times(&self) -> String {
        let seconds = |seconds: f64| format!("{:.1?}", Duration::from_secs_f64(seconds));
        let repeats = self.median_run_seconds.map(|median| {
            let count = self.runs - 1;
            format!(", then {} in the median of {count}", seconds(median))
        });
        format!(
            "compiled in {}, first run {}{}",
            seconds(self.compile_seconds),
            seconds(self.first_run_seconds),
            repeats.unwrap_or_default()
        )
    }

    /// Whether all outputs are as near to those of one device as they should be.
    pub(super) fn verdict(&self) -> Result<(), Failure> {
        let differs = |output: &&OutputReport<'_>| output.difference.as_ref().is_some_and(|d| d.is_too_large);
        let names: Vec<&str> = self.outputs.iter().filter(differs).map(|output| output.name).collect();
        if names.is_empty() {
            return Ok(());
        }
        const SHOWN: usize = 5;
        let more = names.len().saturating_sub(SHOWN);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let message = format!(
            "program {}: {} of {} outputs differ from those of one device by more than is tolerated: {}{more}",
            self.program,
            names.len(),
            self.outputs.len(),
            names[..names.len().min(SHOWN)].join(", "),
        );
        let hint = "sums over devices have another order; --tolerance says how far outputs may be apart";
        Err(Failure::new(Cause::Run, anyhow::Error::msg(message)).with_hint(hint))
    }
}

/// A table with a line for each output.
impl fmt::Display for RunReport<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.outputs.is_empty() {
            return write!(f, "the program has no outputs");
        }
        let is_compared = self.outputs.iter().any(|output| output.difference.is_some());
        let mut headings = vec!["output", "type", "spec", "min", "max", "mean", "NaN"];
        if is_compared {
            headings.extend(["difference", "of largest", "at"]);
        }
        let mut rows: Vec<Vec<String>> = vec![headings.into_iter().map(str::to_owned).collect()];
        rows.extend(self.outputs.iter().map(OutputReport::cells));
        let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..rows[0].len()).map(width).collect();
        for (number, row) in rows.iter().enumerate() {
            let mut line = String::new();
            for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
                let pad = " ".repeat(width - cell.chars().count());
                // Numbers stand at the right.
                line += &if (3..9).contains(&column) {
                    format!("{pad}{cell}  ")
                } else {
                    format!("{cell}{pad}  ")
                };
            }
            let end = if number + 1 < rows.len() { "\n" } else { "" };
            write!(f, "{}{end}", line.trim_end())?;
        }
        Ok(())
    }
}

impl OutputReport<'_> {
    fn cells(&self) -> Vec<String> {
        let Summary { min, max, mean, nan } = self.summary;
        let optional = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), number);
        let mut cells = vec![printable(self.name), self.ty.clone(), self.spec.clone()];
        cells.extend([optional(min), optional(max), optional(mean), nan.to_string()]);
        if let Some(difference) = &self.difference {
            cells.extend([number(difference.absolute), number(difference.relative), place(difference)]);
        }
        cells
    }
}

/// Where the difference is and what stands there; nothing where there is none.
fn place(difference: &Difference) -> String {
    let (Some(at), Some([found, expected])) = (&difference.at, difference.values) else {
        return String::new();
    };
    let too_large = if difference.is_too_large { ": too much" } else { "" };
    format!("{at:?}, {} for {}{too_large}", number(found), number(expected))
}

/// A number in a few characters.
fn number(value: f64) -> String {
    let magnitude = value.abs();
    if value == value.trunc() && magnitude < 1e7 {
        return format!("{value:.0}");
    }
    if (1e-3..1e5).contains(&magnitude) {
        return format!("{value:.5}");
    }
    format!("{value:.4e}")
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use shardwright_tensor::HostArray;

    use super::super::super::arrays::{Tolerance, compare};
    use super::*;

    #[test]
    fn the_table_tells_what_and_where() {
        let found = HostArray::from_slice(&[2], &[1f32, 250.5]).unwrap();
        let expected = HostArray::from_slice(&[2], &[1f32, 250.0]).unwrap();
        let output = |name, array: &HostArray| OutputReport {
            name,
            ty: array.ty().to_string(),
            spec: "(fsdp)".to_owned(),
            summary: Summary::of(array),
            difference: Some(compare(array, &expected, Tolerance::OfDtype)),
        };
        let report = RunReport {
            program: "step",
            mesh: "fsdp=2".to_owned(),
            devices: vec![0, 1],
            compile_seconds: 0.25,
            first_run_seconds: 0.002,
            median_run_seconds: Some(0.001),
            runs: 3,
            outputs: vec![output("new_params['w']", &found), output("loss", &expected)],
            written: None,
        };
        assert!(report.verdict().is_err());
        expect!["compiled in 250.0ms, first run 2.0ms, then 1.0ms in the median of 2"]
            .assert_eq(&report.times());
        expect![[r#"
            output           type    spec    min        max       mean  NaN  difference  of largest  at
            new_params['w']  f32[2]  (fsdp)    1  250.50000  125.75000    0     0.50000     0.00200  [1], 250.50000 for 250: too much
            loss             f32[2]  (fsdp)    1        250  125.50000    0           0           0"#]]
        .assert_eq(&report.to_string());
    }
}
