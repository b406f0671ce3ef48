//! What became of each parameter.

use std::collections::{BTreeMap, BTreeSet};

use shardwright_hlo::compiled::{CollectiveKind, CompiledProgram};

use super::traffic::{Plan, is_trained};
use super::verdict::against_plan;
use super::{
    Cause, ExplainedCollective, Grade, ParameterReport, Pass, Piece, Purpose, Reduced, SubjectArgument,
    Verdict,
};

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

/// What the verdict on a parameter depends on.
struct Found {
    forward: u64,
    backward: u64,
    reduced: Reduced,
    is_gathered_oddly: bool,
    /// Whether activations travel in the module that it is a parameter of.
    is_beside_activations: bool,
}

/// One report for each parameter. `collectives` are those of the program, in its order.
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
    let module_of = |op_name: &'_ str| op_name.split('/').next().unwrap_or_default().to_owned();
    let astray: BTreeSet<String> =
        against_plan(plan.subject, collectives).map(|(_, piece)| module_of(&piece.op_name)).collect();
    plan.subject
        .parameters()
        .map(|(index, argument)| {
            let found = exchanges.get(argument.name.as_str()).unwrap_or(&nothing);
            let module = argument.name.rsplit_once('.').map_or("", |(module, _)| module);
            parameter(plan, index, argument, found, astray.contains(module))
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
            let sum = &mut found.gathered[usize::from(again)];
            *sum = sum.saturating_add(elements.saturating_mul(collective.runs.count));
            found.is_gathered_oddly |= collective.kind != CollectiveKind::AllGather;
        }
        (Cause::GradientOf(name), _) => exchanges.entry(name).or_default().reduced.push(collective.kind),
        _ => {}
    }
}

fn parameter(
    plan: Plan<'_>,
    index: usize,
    argument: &SubjectArgument,
    exchanges: &Exchanges,
    is_beside_activations: bool,
) -> ParameterReport {
    let size = argument.ty.shape.element_count().max(1) as f64;
    // A gather over one axis after the other, or a padded one, gives more elements than the array has.
    let times = |elements: u64| match elements {
        0 => 0,
        _ => ((elements as f64 / size).round() as u64).max(1),
    };
    let [forward, backward] = exchanges.gathered.map(times);
    let reduced = reduced(&exchanges.reduced);
    let is_gathered_oddly = exchanges.is_gathered_oddly;
    let found = Found { forward, backward, reduced, is_gathered_oddly, is_beside_activations };
    let shard = argument.sharding.bytes_per_device(argument.ty.dims(), argument.ty.dtype.size());
    ParameterReport {
        argument: index,
        name: argument.name.clone(),
        ty: argument.ty.to_string(),
        spec: argument.sharding.spec().to_string(),
        bytes_per_device: shard.map_or(0, |bytes| bytes as u64),
        unit: plan.subject.unit_of(&argument.name).map(|unit| unit.path.clone()),
        forward_gathers: forward,
        backward_gathers: backward,
        reduced,
        verdict: verdict(plan, index, argument, &found),
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

fn verdict(plan: Plan<'_>, index: usize, argument: &SubjectArgument, found: &Found) -> Verdict {
    let subject = plan.subject;
    let gathers = found.forward.saturating_add(found.backward);
    if !subject.is_split(argument) {
        return match gathers {
            0 => Verdict::new(Grade::NotSharded, "not split for storage"),
            _ => Verdict::new(Grade::Costly, "not split for storage, and brought together all the same"),
        };
    }
    let mut grade = Grade::AsPlanned;
    let mut summary = match (found.forward, found.backward) {
        (0, 0) => {
            return Verdict::new(Grade::Lost, "never gathered: what is computed from it travels instead");
        }
        (times, 0) => format!("gathered {}", Times(times)),
        (0, times) => format!("gathered {} in backward", Times(times)),
        (forward, backward) => {
            format!("gathered {} in forward, {} in backward", Times(forward), Times(backward))
        }
    };
    // Whoever gathers a weight again where that was not planned keeps it for less long, and pays for that.
    let may_gather_again = subject.fsdp.as_ref().is_some_and(|fsdp| fsdp.strategy.reshards_after_forward());
    let planned = plan.gathers(argument);
    let most = if may_gather_again { 2 } else { planned };
    if gathers > most {
        grade = Grade::Costly;
        summary += &format!(" where the plan has {planned}");
    }
    if found.is_gathered_oddly {
        grade = Grade::Costly;
        summary += ", not by an all-gather";
    }
    let (is_dear, sum) = sum_of_gradient(found, is_trained(subject, index));
    let grade = if is_dear { Grade::Costly } else { grade };
    Verdict::new(grade, summary + sum)
}

/// What is said of the sum of a gradient, and whether it costs more than a reduce-scatter.
fn sum_of_gradient(found: &Found, is_trained: bool) -> (bool, &'static str) {
    match found.reduced {
        Reduced::ReduceScatter => (false, "; gradient reduce-scattered"),
        Reduced::AllReduce => (true, "; gradient summed whole by an all-reduce, then cut"),
        Reduced::AllToAll => (true, "; gradient exchanged by an all-to-all"),
        Reduced::Ring => (true, "; gradient summed by a loop that sends to neighbours"),
        Reduced::Nowhere if !is_trained => (false, ""),
        Reduced::Nowhere if found.is_beside_activations => {
            (true, "; gradient made from activations that travel, and not summed")
        }
        Reduced::Nowhere => (true, "; no sum of its gradient was found"),
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
