//! The parameters of a plan as a table.

use std::fmt;

use shardwright_hlo::ArgumentKind;
use shardwright_mesh::AxisName;

use crate::report::printable;
use crate::{PlannedArgument, ShardingPlan};

/// A table of the parameters: name, type, spec, bytes on each device, padding.
impl fmt::Display for ShardingPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parameters: Vec<&PlannedArgument> =
            self.arguments.iter().filter(|a| a.kind == ArgumentKind::Parameter).collect();
        let header = ["parameter", "shape", "spec", "bytes/device", "padding"].map(String::from);
        let row = |a: &PlannedArgument| {
            let padding = if a.padding_bytes == 0 { String::new() } else { a.padding_bytes.to_string() };
            let spec = a.sharding.spec().to_string();
            [printable(&a.name), a.ty.to_string(), spec, a.bytes_per_device.to_string(), padding]
        };
        let rows: Vec<[String; 5]> =
            std::iter::once(header).chain(parameters.iter().map(|&a| row(a))).collect();
        let width = |column: usize| rows.iter().map(|r| r[column].chars().count()).max().unwrap_or(0);
        let widths = [0, 1, 2, 3, 4].map(width);
        for row in &rows {
            let [name, shape, spec, bytes, padding] = row;
            let [w0, w1, w2, w3, w4] = widths;
            let line = format!("{name:w0$}  {shape:w1$}  {spec:w2$}  {bytes:>w3$}  {padding:>w4$}");
            writeln!(f, "{}", line.trim_end())?;
        }
        let (split, count) = self.split_parameters();
        let (all, each) = self.state_bytes();
        let axis = self.axis.as_ref().map_or("no axis", AxisName::as_str);
        write!(
            f,
            "mesh {}: {split} of {count} parameters split over {axis}; parameters and optimizer state {all} bytes, \
             {each} on each device",
            self.mesh
        )
    }
}
