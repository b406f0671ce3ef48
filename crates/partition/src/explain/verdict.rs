//! What is to be said of the whole program.

use super::traffic::volume;
use super::{ExplainedCollective, Grade, ParameterReport, Piece, Purpose, Reduced, Subject, Verdict};
use crate::report::Bytes;
use crate::{Strategy, data_axes};

const BY_HAND: &str = "write the gathers and scatters by hand (for train steps, lowering explicit)";
const TO_GATHER: &str = "pin weights whole where they are used, or make the batch of each device larger";
const TO_PIN: &str = "pin the activations that travel to the axes of the batch";
const TO_END_LOOPS: &str = "keep the compiler from making loops, with its flag \
     xla_jf_spmd_threshold_for_windowed_einsum_mib=1000000";
const TO_SPLIT: &str = "split parameters over an axis of the mesh, with a strategy or a rule that does";

/// A program is no FSDP if one in so many bytes of split parameters is never gathered.
const TOLERATED_LOSS: u64 = 10;

impl Verdict {
    pub(super) fn new(grade: Grade, summary: impl Into<String>) -> Verdict {
        Verdict { grade, summary: summary.into(), next_step: None }
    }

    fn with_next(grade: Grade, summary: String, next_step: Option<String>) -> Verdict {
        Verdict { grade, summary, next_step }
    }
}

/// What can be done: to write the exchanges by hand, where a program can be written so, or something else.
fn by_hand_or(subject: &Subject, other: Option<&str>) -> Option<String> {
    let by_hand = subject.is_split_as_batches().then_some(BY_HAND);
    let ways: Vec<&str> = by_hand.into_iter().chain(other).collect();
    (!ways.is_empty()).then(|| ways.join(", or "))
}

/// The activations that travel over axes that the batch is split over, so that each device should keep its own. Over
/// other axes, such as one that layers are split over, they are meant to.
pub(super) fn against_plan<'a>(
    subject: &'a Subject,
    collectives: &'a [ExplainedCollective],
) -> impl Iterator<Item = (&'a ExplainedCollective, &'a Piece)> {
    let is_of_batch = |axes: &Vec<String>| {
        data_axes(&subject.mesh).any(|data| axes.iter().any(|axis| axis == data.as_str()))
    };
    collectives
        .iter()
        .filter(move |collective| collective.axes.as_ref().is_none_or(is_of_batch))
        .flat_map(|collective| collective.pieces.iter().map(move |piece| (collective, piece)))
        .filter(|(_, piece)| piece.purpose == Purpose::Activation)
}

/// The verdict on the program.
pub(super) fn overall(
    subject: &Subject,
    parameters: &[ParameterReport],
    collectives: &[ExplainedCollective],
) -> Verdict {
    let split: Vec<&ParameterReport> =
        parameters.iter().filter(|p| subject.is_split(&subject.arguments[p.argument])).collect();
    let n = split.len();
    if n == 0 {
        return nothing_split(subject, collectives);
    }
    let astray = against_plan(subject, collectives)
        .fold(0, |sum: u64, (collective, piece)| sum.saturating_add(volume(collective, piece).array_bytes));
    let bytes = |sum: u64, p: &ParameterReport| sum.saturating_add(p.bytes_per_device);
    let lost: Vec<&ParameterReport> =
        split.iter().copied().filter(|p| p.verdict.grade == Grade::Lost).collect();
    let lost_bytes = lost.iter().copied().fold(0, bytes);
    if !lost.is_empty() && lost_bytes >= split.iter().copied().fold(0, bytes) / TOLERATED_LOSS {
        let lost = lost.len();
        let is = if lost == 1 { "is" } else { "are" };
        let mut summary = format!("not FSDP: {lost} of {n} split parameters {is} never gathered");
        if astray > 0 {
            summary += &format!(", and {} of activations travel", Bytes(astray));
        }
        return Verdict::with_next(Grade::Lost, summary, by_hand_or(subject, Some(TO_GATHER)));
    }
    let prices = prices(&split, lost.len(), astray);
    if prices.is_empty() {
        let summary = match split.iter().any(|p| p.reduced != Reduced::Nowhere) {
            true => format!(
                "FSDP: each of {n} split parameters is gathered, and its gradient reduced, as planned"
            ),
            false => format!("FSDP: each of {n} split parameters is gathered as planned"),
        };
        return Verdict::new(Grade::AsPlanned, summary);
    }
    let gathered = n - lost.len();
    let summary =
        format!("FSDP: {gathered} of {n} split parameters are gathered, at a price: {}", prices.join("; "));
    let other = if astray > 0 {
        Some(TO_PIN)
    } else if split.iter().any(|p| p.reduced == Reduced::Ring) {
        Some(TO_END_LOOPS)
    } else {
        None
    };
    Verdict::with_next(Grade::Costly, summary, by_hand_or(subject, other))
}

/// What a program that gathers its parameters, but for some of no weight, pays beyond the plan.
fn prices(split: &[&ParameterReport], lost: usize, astray: u64) -> Vec<String> {
    let count = |reduced| split.iter().filter(|p| p.reduced == reduced).count();
    let (sums, rings) = (count(Reduced::AllReduce), count(Reduced::Ring));
    let costly = split.iter().filter(|p| p.verdict.grade == Grade::Costly).count();
    let others = costly.saturating_sub(sums + rings);
    let mut prices = Vec::new();
    let mut price = |count: usize, one: &str, many: &str, what: &str| match count {
        0 => {}
        1 => prices.push(format!("1 {one} {what}")),
        _ => prices.push(format!("{count} {many} {what}")),
    };
    price(
        sums,
        "gradient is",
        "gradients are",
        "summed whole by all-reduces and then cut, which sends twice what reduce-scatters would",
    );
    price(rings, "gradient is", "gradients are", "summed in loops that send to neighbours");
    price(lost, "parameter is", "parameters are", "never gathered");
    price(others, "parameter is", "parameters are", "gathered or summed otherwise than planned");
    if astray > 0 {
        let astray = Bytes(astray);
        prices.push(format!("{astray} of activations travel between devices that have different examples"));
    }
    prices
}

fn nothing_split(subject: &Subject, collectives: &[ExplainedCollective]) -> Verdict {
    let count = collectives.len();
    if subject.mesh.size() == 1 {
        return Verdict::new(Grade::NotSharded, "one device: nothing is split");
    }
    if subject.fsdp.as_ref().is_some_and(|fsdp| fsdp.strategy != Strategy::NoShard) {
        let summary = format!("not FSDP: no parameter is split for storage; {count} collectives");
        return Verdict::with_next(Grade::NotSharded, summary, Some(TO_SPLIT.to_owned()));
    }
    Verdict::new(Grade::NotSharded, format!("no parameter is split for storage; {count} collectives"))
}
