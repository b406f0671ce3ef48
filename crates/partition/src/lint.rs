//! What can be told of a plan before anything is compiled, from shapes alone.
//!
//! What makes a plan impossible is an error of planning; a [`Lint`] is about a plan that works, and costs memory or
//! time that it need not cost.

mod tile;

use std::fmt;

use shardwright_hlo::ArgumentKind;
use shardwright_mesh::AxisName;

use self::tile::tile_lint;
use crate::{Bytes, PlannedArgument, ShardingPlan, Strategy};

/// One thing that is worth knowing about a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lint {
    /// How bad it is.
    pub severity: Severity,
    /// What it is about.
    pub code: LintCode,
    /// The argument or output that it is about; empty for the plan as a whole.
    pub name: String,
    /// What is the case, with its numbers.
    pub message: String,
    /// What can be done.
    pub advice: String,
}

/// How bad a [`Lint`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Worth knowing; nothing need be done.
    Note,
    /// Probably not what was meant.
    Warning,
}

/// What a [`Lint`] is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum LintCode {
    /// `idle-devices`: the mesh has fewer devices than there are.
    IdleDevices,
    /// `unused-axis`: no argument is split over an axis.
    UnusedAxis,
    /// `no-batch`: nothing is known to be a batch.
    NoBatch,
    /// `padding`: a dim does not divide.
    Padding,
    /// `whole-parameter`: a large parameter is whole on every device.
    WholeParameter,
    /// `below-tile`: shards are smaller than what a TPU stores.
    BelowTile,
    /// `list-of-axes`: axes in parentheses that could be meant as a spec.
    ListOfAxes,
    /// `rule-overruled`: a rule that decides nothing.
    RuleOverruled,
    /// `sliced-dim`: a dim is split of which the program takes one index at a time.
    SlicedDim,
    /// `inside-unknown`: a program of which only arguments and outputs are pinned.
    InsideUnknown,
}

/// By what plans are judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LintOptions {
    /// How many devices there are, where that is known.
    pub devices: Option<usize>,
    /// Parameters of at least so many bytes are large.
    pub large_parameter_bytes: usize,
}

impl Default for LintOptions {
    /// Unknown devices; a parameter of 1 MiB is large.
    fn default() -> Self {
        LintOptions { devices: None, large_parameter_bytes: 1 << 20 }
    }
}

/// What is worth knowing about a plan, the worst first, and in the program's order.
///
/// ```
/// use shardwright_hlo::{ArgumentKind, Module};
/// use shardwright_mesh::AbstractMesh;
/// use shardwright_partition::{LintCode, LintOptions, PlanOptions, ShardingPlan, lint};
/// use shardwright_tensor::{DType, TensorType};
///
/// let mut module = Module::new("step");
/// module.add_argument_of_kind("w", TensorType::new(DType::F32, [13, 3])?, ArgumentKind::Parameter);
/// let plan = ShardingPlan::new(&module, &AbstractMesh::parse("fsdp=8")?, &PlanOptions::default())?;
/// let lints = lint(&plan, &LintOptions::default());
/// assert_eq!(lints[0].code, LintCode::Padding);
/// assert!(lints[0].message.contains("dim 0 of 13 does not divide into 8 shards"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn lint(plan: &ShardingPlan, options: &LintOptions) -> Vec<Lint> {
    let mut lints = plan.notes.clone();
    lints.extend(idle_devices(plan, options));
    lints.extend(unused_axes(plan));
    for argument in plan.arguments() {
        lints.extend(padding(argument));
        lints.extend(whole_parameter(plan, argument, options));
        lints.extend(tile_lint(argument));
    }
    lints.sort_by_key(|lint| std::cmp::Reverse(lint.severity));
    lints
}

fn idle_devices(plan: &ShardingPlan, options: &LintOptions) -> Option<Lint> {
    let (devices, used) = (options.devices?, plan.mesh().size());
    let idle = devices.checked_sub(used).filter(|idle| *idle > 0)?;
    let message = format!("the mesh {} has {used} devices, and {idle} of {devices} are idle", plan.mesh());
    Some(Lint::warning(LintCode::IdleDevices, "", message, "a size of -1 lets one axis take the rest".into()))
}

fn unused_axes(plan: &ShardingPlan) -> Vec<Lint> {
    let uses =
        |axis: &AxisName| plan.arguments().iter().any(|a| a.sharding.spec().axes().any(|used| used == axis));
    let larger = plan.mesh().axes().iter().filter(|(_, size)| *size > 1);
    let unused = larger.filter(|(axis, _)| !uses(axis)).map(|(axis, size)| {
        let message =
            format!("no argument is split over axis {axis}: {size} groups of devices compute the same");
        let advice = format!("split a batch or parameters over {axis}, or leave it out of the mesh");
        Lint::warning(LintCode::UnusedAxis, "", message, advice)
    });
    unused.collect()
}

fn padding(argument: &PlannedArgument) -> Option<Lint> {
    /// Padding of a hundredth is no reason to do anything.
    const WORTH_A_WARNING: usize = 100;
    let shards = argument.sharding.shards_per_dim();
    let mut uneven =
        argument.ty.dims().iter().zip(&shards).enumerate().filter(|(_, (size, n))| *size % *n != 0);
    let (dim, (size, n)) = uneven.next()?;
    let padding = argument.padding_bytes;
    let message = format!(
        "{} {}: dim {dim} of {size} does not divide into {n} shards; padding costs {} ({:.1} %)",
        argument.ty,
        argument.sharding.spec(),
        Bytes(padding as u64),
        100.0 * padding as f64 / argument.ty.byte_count().max(1) as f64
    );
    let (below, above) = (size / n * n, size.next_multiple_of(*n));
    let advice = match below {
        0 => format!("a size of {above} would do, or another dim"),
        _ => format!("sizes of {below} and {above} would do, or another dim"),
    };
    let is_large = padding.saturating_mul(WORTH_A_WARNING) > argument.ty.byte_count();
    let lint = if is_large { Lint::warning } else { Lint::note };
    Some(lint(LintCode::Padding, &argument.name, message, advice))
}

fn whole_parameter(plan: &ShardingPlan, argument: &PlannedArgument, options: &LintOptions) -> Option<Lint> {
    let is_kept = matches!(argument.kind, ArgumentKind::Parameter | ArgumentKind::State { .. });
    let bytes = argument.ty.byte_count();
    let is_meant = plan.strategy() == Strategy::NoShard || plan.mesh().size() == 1;
    if is_meant
        || !is_kept
        || bytes < options.large_parameter_bytes
        || !argument.sharding.is_fully_replicated()
    {
        return None;
    }
    let kind = argument.kind.word();
    let message = format!(
        "{kind} {} of {} is whole on each of {} devices",
        argument.ty,
        Bytes(bytes as u64),
        plan.mesh().size()
    );
    let advice = match plan.axis() {
        Some(axis) => format!("split it over {axis}"),
        None => "split it over an axis of the mesh".to_owned(),
    };
    Some(Lint::warning(LintCode::WholeParameter, &argument.name, message, advice))
}

impl Lint {
    pub(crate) fn note(code: LintCode, name: &str, message: String, advice: String) -> Lint {
        Lint { severity: Severity::Note, code, name: name.to_owned(), message, advice }
    }

    pub(crate) fn warning(code: LintCode, name: &str, message: String, advice: String) -> Lint {
        Lint { severity: Severity::Warning, code, name: name.to_owned(), message, advice }
    }
}

/// One line: `w: message; advice [padding]`.
impl fmt::Display for Lint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Lint { code, name, message, advice, .. } = self;
        match name.as_str() {
            "" => write!(f, "{message}; {advice} [{code}]"),
            name => write!(f, "{name}: {message}; {advice} [{code}]"),
        }
    }
}

/// As in the list of codes: `unused-axis`.
impl fmt::Display for LintCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LintCode::IdleDevices => "idle-devices",
            LintCode::UnusedAxis => "unused-axis",
            LintCode::NoBatch => "no-batch",
            LintCode::Padding => "padding",
            LintCode::WholeParameter => "whole-parameter",
            LintCode::BelowTile => "below-tile",
            LintCode::ListOfAxes => "list-of-axes",
            LintCode::RuleOverruled => "rule-overruled",
            LintCode::SlicedDim => "sliced-dim",
            LintCode::InsideUnknown => "inside-unknown",
        })
    }
}

/// `note` or `warning`.
impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Severity::Note => "note",
            Severity::Warning => "warning",
        })
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use shardwright_hlo::Module;
    use shardwright_mesh::AbstractMesh;
    use shardwright_tensor::{DType, TensorType};

    use super::*;
    use crate::PlanOptions;

    #[track_caller]
    fn check(mesh: &str, plan: &PlanOptions, devices: Option<usize>, expect: Expect) {
        let mut m = Module::new("step");
        let arguments: [(&str, &[usize]); 4] =
            [("embed", &[1024, 512]), ("odd", &[1003, 3]), ("norm", &[64]), ("fine", &[256, 1024])];
        for (name, dims) in arguments {
            let ty = TensorType::new(DType::F32, dims).unwrap();
            m.add_argument_of_kind(name, ty, ArgumentKind::Parameter);
        }
        let plan = ShardingPlan::new(&m, &AbstractMesh::parse(mesh).unwrap(), plan).unwrap();
        let lints = lint(&plan, &LintOptions { devices, ..LintOptions::default() });
        let lines: Vec<String> = lints.iter().map(|lint| format!("{}: {lint}", lint.severity)).collect();
        expect.assert_eq(&lines.join("\n"));
    }

    #[test]
    fn what_costs_is_told_with_numbers() {
        check(
            "fsdp=8",
            &PlanOptions::default(),
            Some(8),
            expect![[r#"
            note: odd: f32[1003,3] (fsdp, -): dim 0 of 1003 does not divide into 8 shards; padding costs 60 B (0.5 %); sizes of 1000 and 1008 would do, or another dim [padding]
            note: norm: shards f32[8] are below the tile of a TPU, 8x128: each of 32 B is stored in 512 B; on a TPU, split it fewer ways, or leave it whole [below-tile]"#]],
        );
        let small = PlanOptions { min_shard_bytes: 4 << 20, ..PlanOptions::default() };
        check(
            "data=2, fsdp=4",
            &small,
            Some(16),
            expect![[r#"
            warning: the mesh data=2, fsdp=4 has 8 devices, and 8 of 16 are idle; a size of -1 lets one axis take the rest [idle-devices]
            warning: no argument is split over axis data: 2 groups of devices compute the same; split a batch or parameters over data, or leave it out of the mesh [unused-axis]
            warning: no argument is split over axis fsdp: 4 groups of devices compute the same; split a batch or parameters over fsdp, or leave it out of the mesh [unused-axis]
            warning: embed: parameter f32[1024,512] of 2.0 MiB is whole on each of 8 devices; split it over fsdp [whole-parameter]
            warning: fine: parameter f32[256,1024] of 1.0 MiB is whole on each of 8 devices; split it over fsdp [whole-parameter]"#]],
        );
    }

    #[test]
    fn what_is_meant_is_not_told() {
        let none = PlanOptions { strategy: Strategy::NoShard, ..PlanOptions::default() };
        check("fsdp=1", &none, None, expect![[""]]);
    }
}
