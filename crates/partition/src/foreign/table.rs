//! The plan of a program from elsewhere as a table: each argument and output, and why it lies where it does.

use std::fmt;

use shardwright_hlo::ArgumentKind;

use crate::report::printable;
use crate::{Decision, KindSource, ShardingPlan};

/// [`ShardingPlan::table`].
#[derive(Clone, Copy, Debug)]
pub struct PlanTable<'a>(&'a ShardingPlan);

impl ShardingPlan {
    /// A table of all arguments and outputs, with what decided about each.
    pub fn table(&self) -> PlanTable<'_> {
        PlanTable(self)
    }

    /// Why something lies where it does, in words.
    pub fn reason(&self, decision: &Decision) -> String {
        match decision {
            Decision::Rule(rule) => format!("rule {rule}"),
            Decision::Stated => "stated by the program".to_owned(),
            Decision::Fsdp => "FSDP rule".to_owned(),
            Decision::FsdpPast { sliced } => format!("FSDP rule; dim {sliced} is sliced"),
            Decision::Batch => "dim 0 over the data axes".to_owned(),
            Decision::Follows(index) => format!("as {}", self.arguments()[*index].name),
            Decision::Whole => "default".to_owned(),
        }
    }
}

const HEADER: [&str; 7] = ["", "name", "type", "kind", "spec", "bytes/device", "decided by"];

impl fmt::Display for PlanTable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plan = self.0;
        let arguments = plan.arguments().iter().enumerate().map(|(index, a)| {
            let guessed = a.kind_source == KindSource::Guess && a.kind != ArgumentKind::Other;
            let kind = format!("{}{}", a.kind.word(), if guessed { "?" } else { "" });
            let spec = a.sharding.spec().to_string();
            let bytes = a.bytes_per_device.to_string();
            [
                format!("#{index}"),
                printable(&a.name),
                a.ty.to_string(),
                kind,
                spec,
                bytes,
                printable(&plan.reason(&a.decision)),
            ]
        });
        let outputs = plan.outputs().iter().enumerate().map(|(index, o)| {
            let spec = o.sharding.spec().to_string();
            let bytes = o.sharding.bytes_per_device(o.ty.dims(), o.ty.dtype.size());
            let bytes = bytes.map(|bytes| bytes.to_string()).unwrap_or_default();
            let kind = if o.donor.is_some() { "in place" } else { "output" }.to_owned();
            [
                format!("out:#{index}"),
                printable(&o.name),
                o.ty.to_string(),
                kind,
                spec,
                bytes,
                printable(&plan.reason(&o.decision)),
            ]
        });
        let rows: Vec<[String; 7]> =
            [HEADER.map(str::to_owned)].into_iter().chain(arguments).chain(outputs).collect();
        let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        let [w0, w1, w2, w3, w4, w5, _] = [0, 1, 2, 3, 4, 5, 6].map(width);
        for [index, name, ty, kind, spec, bytes, why] in &rows {
            let line =
                format!("{index:w0$}  {name:w1$}  {ty:w2$}  {kind:w3$}  {spec:w4$}  {bytes:>w5$}  {why}");
            writeln!(f, "{}", line.trim_end())?;
        }
        let (total, each) = plan.argument_bytes();
        write!(f, "mesh {}: arguments {total} bytes, {each} on each device", plan.mesh())?;
        let guesses = plan
            .arguments()
            .iter()
            .any(|a| a.kind_source == KindSource::Guess && a.kind != ArgumentKind::Other);
        if guesses {
            f.write_str("\n? is what it looks like; a rule such as NAME=batch says what it is")?;
        }
        Ok(())
    }
}

impl ShardingPlan {
    /// Bytes of all arguments: of the global arrays, and on each device.
    pub fn argument_bytes(&self) -> (usize, usize) {
        self.arguments().iter().fold((0usize, 0usize), |(all, each), a| {
            (all.saturating_add(a.ty.byte_count()), each.saturating_add(a.bytes_per_device))
        })
    }
}
