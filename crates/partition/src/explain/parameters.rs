//! What became of each parameter.

use std::collections::BTreeMap;

use shardwright_hlo::compiled::{CollectiveKind, CompiledProgram};

use super::traffic::Plan;
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

/// One report for each parameter. `collectives` are those of the program, in its order.
pub(super) fn parameters(
    plan: &Plan<'_>,
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
            let sum = &mut found.gathered[usize::from(again)];
            *sum = sum.saturating_add(elements.saturating_mul(collective.runs.count));
            found.is_gathered_oddly |= collective.kind != CollectiveKind::AllGather;
        }
        (Cause::GradientOf(name), _) => exchanges.entry(name).or_default().reduced.push(collective.kind),
        _ => {}
    }
}

fn parameter(
    plan: &Plan<'_>,
    index: usize,
    argument: &SubjectArgument,
    exchanges: &Exchanges,
) -> ParameterReport {
    let size = plan.subject.elements_in_use(argument).max(1) as f64 * plan.subject.parts_gathered(argument);
    // A padded gather gives more elements than the array has.
    let times = |elements: u64| match elements {
        0 => 0,
        _ => ((elements as f64 / size).round() as u64).max(1),
    };
    let [forward, backward] = exchanges.gathered.map(times);
    let reduced = reduced(&exchanges.reduced);
    let verdict = if plan.subject.is_split(argument) {
        let (grade, gathers) = of_gathers(plan, argument, [forward, backward], exchanges.is_gathered_oddly);
        let (sum_grade, sum) = match grade {
            Grade::Lost => (grade, ""),
            _ => of_sum(reduced, plan.is_trained(index)),
        };
        Verdict::new(grade.max(sum_grade), gathers + sum)
    } else if forward + backward == 0 {
        Verdict::new(Grade::NotSharded, "not split for storage")
    } else {
        Verdict::new(Grade::Costly, "not split for storage, and brought together all the same")
    };
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
        verdict,
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

/// What is said of how a parameter that is split is gathered: in the forward pass, and in recomputation and backward.
fn of_gathers(
    plan: &Plan<'_>,
    argument: &SubjectArgument,
    [forward, backward]: [u64; 2],
    is_gathered_oddly: bool,
) -> (Grade, String) {
    let mut grade = Grade::AsPlanned;
    let mut summary = match (forward, backward) {
        (0, 0) => {
            return (Grade::Lost, "never gathered: what is computed from it travels instead".to_owned());
        }
        (times, 0) => format!("gathered {}", Times(times)),
        (0, times) => format!("gathered {} in backward", Times(times)),
        (forward, backward) => {
            format!("gathered {} in forward, {} in backward", Times(forward), Times(backward))
        }
    };
    // Whoever gathers a weight again where that was not planned keeps it for less long, and pays for that.
    let may_gather_again =
        plan.subject.fsdp.as_ref().is_some_and(|fsdp| fsdp.strategy.reshards_after_forward());
    let planned = plan.gathers(argument);
    let most = if may_gather_again { argument.turns.gathered.saturating_mul(2) } else { planned };
    if forward.saturating_add(backward) > most {
        grade = Grade::Costly;
        summary += &format!(" where the plan has {planned}");
    }
    if is_gathered_oddly {
        grade = Grade::Costly;
        summary += ", not by an all-gather";
    }
    (grade, summary)
}

/// What is said of the sum of a gradient.
fn of_sum(reduced: Reduced, is_trained: bool) -> (Grade, &'static str) {
    match reduced {
        Reduced::ReduceScatter => (Grade::AsPlanned, "; gradient reduce-scattered"),
        Reduced::AllReduce => (Grade::Costly, "; gradient summed whole by an all-reduce, then cut"),
        Reduced::AllToAll => (Grade::Costly, "; gradient exchanged by an all-to-all"),
        Reduced::Ring => (Grade::Costly, "; gradient summed by a loop that sends to neighbours"),
        Reduced::Nowhere if is_trained => (Grade::Costly, "; no sum of its gradient was found"),
        Reduced::Nowhere => (Grade::AsPlanned, ""),
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
