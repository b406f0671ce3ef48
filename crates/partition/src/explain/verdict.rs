//! What is to be said of parameters, units and the whole program.

use std::collections::BTreeMap;

use shardwright_hlo::compiled::{CollectiveKind, CompiledProgram};

use super::traffic::{Plan, is_trained, volume};
use super::{
    Cause, ExplainedCollective, Grade, ParameterReport, Pass, Piece, Purpose, Reduced, Subject,
    SubjectArgument, UnitReport, Verdict,
};
use crate::report::Bytes;
use crate::{Strategy, data_axes};

/// What travels for one parameter.
#[derive(Default)]
struct Exchanges {
    /// Elements that are gathered in the forward pass, and in recomputation and backward.
    gathered: [u64; 2],
    /// By which collectives its gradient is summed.
    reduced: Vec<CollectiveKind>,
    /// Whether it is brought together otherwise than by a gather.
    is_gathered_oddly: bool,
}

/// One verdict for each parameter. `collectives` are those of the program, in its order.
pub(super) fn parameters(
    plan: Plan<'_>,
    program: &CompiledProgram,
    collectives: &[ExplainedCollective],
) -> Vec<ParameterReport> {
    let mut exchanges: BTreeMap<&str, Exchanges> = BTreeMap::new();
    for (collective, compiled) in collectives.iter().zip(&program.collectives) {
        for (piece, compiled) in collective.pieces.iter().zip(&compiled.pieces) {
            note(&mut exchanges, collective, piece, compiled.array.elements());
        }
    }
    let nothing = Exchanges::default();
    plan.subject
        .parameters()
        .map(|(index, argument)| {
            let found = exchanges.get(argument.name.as_str()).unwrap_or(&nothing);
            parameter(plan, index, argument, found)
        })
        .collect()
}

fn note<'a>(
    exchanges: &mut BTreeMap<&'a str, Exchanges>,
    collective: &ExplainedCollective,
    piece: &'a Piece,
    elements: u64,
) {
    match (&piece.cause, piece.purpose) {
        (Cause::Argument(name), Purpose::Weight) => {
            let found = exchanges.entry(name).or_default();
            let again = matches!(piece.pass, Some(Pass::Recompute | Pass::Backward));
            let elements = elements.saturating_mul(collective.runs.count);
            let sum = &mut found.gathered[usize::from(again)];
            *sum = sum.saturating_add(elements);
            found.is_gathered_oddly |= collective.kind != CollectiveKind::AllGather;
        }
        (Cause::GradientOf(name), _) => exchanges.entry(name).or_default().reduced.push(collective.kind),
        _ => {}
    }
}

fn parameter(plan: Plan<'_>, index: usize, argument: &SubjectArgument, found: &Exchanges) -> ParameterReport {
    let subject = plan.subject;
    let size = argument.ty.shape.element_count().max(1) as f64;
    // A gather over one axis after the other, or a padded one, gives more elements than the array has.
    let times = |elements: u64| match elements {
        0 => 0,
        _ => ((elements as f64 / size).round() as u64).max(1),
    };
    let [forward_gathers, backward_gathers] = found.gathered.map(times);
    let reduced = reduced(&found.reduced);
    let shard = argument.sharding.bytes_per_device(argument.ty.dims(), argument.ty.dtype.size());
    let gathers = (forward_gathers, backward_gathers);
    ParameterReport {
        argument: index,
        name: argument.name.clone(),
        ty: argument.ty.to_string(),
        spec: argument.sharding.spec().to_string(),
        bytes_per_device: shard.map_or(0, |bytes| bytes as u64),
        unit: subject.unit_of(&argument.name).map(|unit| unit.path.clone()),
        forward_gathers,
        backward_gathers,
        reduced,
        verdict: of_parameter(plan, index, argument, gathers, reduced, found.is_gathered_oddly),
    }
}

/// How a gradient is summed: by the best of what is there, since a sum over one axis comes after that over another.
fn reduced(kinds: &[CollectiveKind]) -> Reduced {
    use CollectiveKind::{AllReduce, AllToAll, CollectivePermute, ReduceScatter};
    let order = [
        (ReduceScatter, Reduced::ReduceScatter),
        (CollectivePermute, Reduced::Ring),
        (AllToAll, Reduced::AllToAll),
        (AllReduce, Reduced::AllReduce),
    ];
    order.into_iter().find(|(kind, _)| kinds.contains(kind)).map_or(Reduced::Nowhere, |(_, reduced)| reduced)
}

fn of_parameter(
    plan: Plan<'_>,
    index: usize,
    argument: &SubjectArgument,
    (forward, backward): (u64, u64),
    reduced: Reduced,
    is_gathered_oddly: bool,
) -> Verdict {
    let subject = plan.subject;
    if !subject.is_split(argument) {
        return match forward + backward {
            0 => Verdict::new(Grade::NotSharded, "not split for storage"),
            _ => Verdict::new(Grade::Costly, "not split for storage, and brought together all the same"),
        };
    }
    let (planned, gathers) = (plan.gathers(argument), forward.saturating_add(backward));
    let may_gather_again = subject.fsdp.as_ref().is_some_and(|fsdp| fsdp.strategy.reshards_after_forward());
    let most = if may_gather_again { 2 } else { planned };
    let gathered = match (forward, backward) {
        (0, 0) => {
            return Verdict::new(Grade::Lost, "never gathered: what is computed from it travels instead");
        }
        (times, 0) => format!("gathered {}", Times(times)),
        (0, times) => format!("gathered {} in backward", Times(times)),
        (forward, backward) => {
            format!("gathered {} in forward, {} in backward", Times(forward), Times(backward))
        }
    };
    let (mut grade, mut summary) = (Grade::AsPlanned, gathered);
    if gathers > most {
        grade = Grade::Costly;
        summary += &format!(" where the plan has {planned}");
    }
    if is_gathered_oddly {
        grade = Grade::Costly;
        summary += ", not by an all-gather";
    }
    let (is_dear, sum) = match reduced {
        Reduced::ReduceScatter => (false, "; gradient reduce-scattered"),
        Reduced::AllReduce => (true, "; gradient summed whole by an all-reduce, then cut"),
        Reduced::AllToAll => (true, "; gradient exchanged by an all-to-all"),
        Reduced::Ring => (true, "; gradient summed by a loop that sends to neighbours"),
        Reduced::Nowhere if is_trained(subject, index) => (true, "; no sum of its gradient was found"),
        Reduced::Nowhere => (false, ""),
    };
    summary += sum;
    let grade = if is_dear { grade.max(Grade::Costly) } else { grade };
    Verdict::new(grade, summary)
}

impl Verdict {
    fn new(grade: Grade, summary: impl Into<String>) -> Verdict {
        Verdict { grade, summary: summary.into(), next_step: None }
    }
}

/// How often, for people.
struct Times(u64);

impl std::fmt::Display for Times {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            1 => f.write_str("once"),
            2 => f.write_str("twice"),
            times => write!(f, "{times} times"),
        }
    }
}

/// One verdict for each wrapped unit.
pub(super) fn units(
    subject: &Subject,
    parameters: &[ParameterReport],
    collectives: &[ExplainedCollective],
) -> Vec<UnitReport> {
    let mut reports: Vec<UnitReport> = subject
        .units
        .iter()
        .map(|unit| UnitReport {
            path: unit.path.clone(),
            class: unit.class.clone(),
            parameters: (0, 0),
            parameter_bytes: 0,
            gathered_bytes: (0, 0),
            reduced_bytes: 0,
            activation_bytes: 0,
            verdict: Verdict::new(Grade::NotSharded, "none of its parameters is split for storage"),
        })
        .collect();
    let places: BTreeMap<&str, usize> =
        subject.units.iter().enumerate().map(|(place, unit)| (unit.path.as_str(), place)).collect();
    for parameter in parameters {
        let Some(&place) = parameter.unit.as_deref().and_then(|unit| places.get(unit)) else { continue };
        let argument = &subject.arguments[parameter.argument];
        let report = &mut reports[place];
        report.parameters.0 += usize::from(subject.is_split(argument));
        report.parameters.1 += 1;
        report.parameter_bytes = report.parameter_bytes.saturating_add(argument.ty.byte_count() as u64);
        if parameter.verdict.grade > report.verdict.grade {
            report.verdict = parameter.verdict.clone();
            report.verdict.summary = format!("{}: {}", parameter.name, parameter.verdict.summary);
        }
    }
    for collective in collectives {
        for piece in &collective.pieces {
            let name = match &piece.cause {
                Cause::Argument(name) | Cause::GradientOf(name) => name,
                _ => &piece.op_name,
            };
            let unit = subject.unit_of(name).map(|unit| places[unit.path.as_str()]);
            if let Some(place) = unit {
                travels(&mut reports[place], collective, piece, subject);
            }
        }
    }
    reports.iter_mut().for_each(conclude);
    reports
}

fn travels(report: &mut UnitReport, collective: &ExplainedCollective, piece: &Piece, subject: &Subject) {
    let bytes = volume(collective, piece).array_bytes;
    let sum = match (piece.purpose, piece.pass) {
        (Purpose::Weight, Some(Pass::Recompute | Pass::Backward)) => &mut report.gathered_bytes.1,
        (Purpose::Weight, _) => &mut report.gathered_bytes.0,
        (Purpose::Gradient, _) => &mut report.reduced_bytes,
        (Purpose::Activation, _) if is_against_plan(subject, collective, piece) => {
            &mut report.activation_bytes
        }
        _ => return,
    };
    *sum = sum.saturating_add(bytes);
}

/// The last word on a unit.
fn conclude(report: &mut UnitReport) {
    let (split, all) = report.parameters;
    if report.verdict.grade == Grade::AsPlanned {
        report.verdict.summary =
            format!("{split} of {all} parameters are gathered and their gradients reduced");
    }
    if report.activation_bytes > 0 {
        report.verdict.grade = report.verdict.grade.max(Grade::Costly);
        report.verdict.summary += &format!("; {} of activations travel", Bytes(report.activation_bytes));
    }
}

/// Whether an activation travels over axes that the batch is split over, so that each device should have its own.
fn is_against_plan(subject: &Subject, collective: &ExplainedCollective, piece: &Piece) -> bool {
    let is_of_batch = |axes: &Vec<String>| {
        data_axes(&subject.mesh).any(|data| axes.iter().any(|axis| axis == data.as_str()))
    };
    piece.purpose == Purpose::Activation && collective.axes.as_ref().is_none_or(is_of_batch)
}

/// The last word on the program.
pub(super) fn overall(
    subject: &Subject,
    parameters: &[ParameterReport],
    collectives: &[ExplainedCollective],
) -> Verdict {
    let split: Vec<&ParameterReport> =
        parameters.iter().filter(|p| subject.is_split(&subject.arguments[p.argument])).collect();
    let astray: u64 = collectives
        .iter()
        .flat_map(|collective| collective.pieces.iter().map(move |piece| (collective, piece)))
        .filter(|(collective, piece)| is_against_plan(subject, collective, piece))
        .fold(0, |sum, (collective, piece)| sum.saturating_add(volume(collective, piece).array_bytes));
    if split.is_empty() {
        return nothing_split(subject, collectives);
    }
    let count = |wanted: &dyn Fn(&ParameterReport) -> bool| split.iter().filter(|p| wanted(p)).count();
    let lost = count(&|p| p.verdict.grade == Grade::Lost);
    let n = split.len();
    if lost > 0 {
        let astray =
            if astray > 0 { format!(", and {} of activations travel", Bytes(astray)) } else { String::new() };
        let verb = if lost == 1 { "is" } else { "are" };
        return Verdict {
            grade: Grade::Lost,
            summary: format!("not FSDP: {lost} of {n} split parameters {verb} never gathered{astray}"),
            next_step: Some(
                "write the gathers and scatters by hand with --lowering explicit, or make the batch of each device larger"
                    .into(),
            ),
        };
    }
    let whole_sums = count(&|p| p.reduced == Reduced::AllReduce);
    let rings = count(&|p| p.reduced == Reduced::Ring);
    let costly = count(&|p| p.verdict.grade == Grade::Costly);
    let mut prices = Vec::new();
    if whole_sums > 0 {
        prices.push(format!(
            "{whole_sums} gradients are summed whole by all-reduces and then cut, which sends twice what reduce-scatters would"
        ));
    }
    if rings > 0 {
        prices.push(format!("{rings} gradients are summed in loops that send to neighbours"));
    }
    if costly > whole_sums + rings {
        let others = costly - whole_sums - rings;
        prices.push(format!("{others} parameters are gathered or summed otherwise than planned"));
    }
    if astray > 0 {
        prices.push(format!(
            "{} of activations travel between devices that have different examples",
            Bytes(astray)
        ));
    }
    let gathered = format!("FSDP: each of {n} split parameters is gathered");
    if prices.is_empty() {
        let summary = format!("{gathered}, and its gradient reduced, as planned");
        return Verdict::new(Grade::AsPlanned, summary);
    }
    let next_step = if astray > 0 {
        "pin the activations that travel, listed below, to the axes of the batch, or use --lowering explicit"
    } else {
        "use --lowering explicit, which writes the reduce-scatters itself; whether they stay is up to the compiler"
    };
    Verdict {
        grade: Grade::Costly,
        summary: format!("{gathered}, at a price: {}", prices.join("; ")),
        next_step: Some(next_step.into()),
    }
}

fn nothing_split(subject: &Subject, collectives: &[ExplainedCollective]) -> Verdict {
    let count = collectives.len();
    let wants_split = subject.fsdp.as_ref().is_some_and(|fsdp| fsdp.strategy != Strategy::NoShard);
    let is_alone = subject.mesh.size() == 1;
    let summary = match (is_alone, wants_split) {
        (true, _) => "one device: nothing is split".to_owned(),
        (false, true) => format!("not FSDP: no parameter is split; {count} collectives"),
        (false, false) => format!("no parameter is split for storage; {count} collectives"),
    };
    let next_step = "split parameters over an axis of the mesh, with a strategy or a rule that does";
    Verdict {
        grade: Grade::NotSharded,
        summary,
        next_step: (!is_alone && wants_split).then(|| next_step.to_owned()),
    }
}
