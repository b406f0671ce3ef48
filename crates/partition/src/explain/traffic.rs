//! What travels, by purpose and axes, against what FSDP needs.

use std::collections::{BTreeMap, BTreeSet};

use shardwright_hlo::ArgumentKind;
use shardwright_hlo::compiled::CollectiveKind;
use shardwright_mesh::AxisName;

use super::{Cause, ExplainedCollective, Pass, Piece, Purpose, Subject, SubjectArgument, Traffic, Volume};
use crate::data_axes;
use crate::report::Bytes;

/// How many differences are told one by one.
const MOST_DIFFERENCES: usize = 4;

type Key = (Purpose, Option<Vec<String>>);

impl Volume {
    /// One array that travels so many times.
    pub(super) fn of(kind: CollectiveKind, array_bytes: u64, devices: usize, times: u64) -> Volume {
        Volume {
            arrays: times,
            array_bytes: array_bytes.saturating_mul(times),
            sent_bytes: kind.sent_bytes(array_bytes, devices).saturating_mul(times),
        }
    }

    pub(super) fn add(&mut self, other: Volume) {
        self.arrays = self.arrays.saturating_add(other.arrays);
        self.array_bytes = self.array_bytes.saturating_add(other.array_bytes);
        self.sent_bytes = self.sent_bytes.saturating_add(other.sent_bytes);
    }
}

/// What one piece of a collective amounts to in one run of the program.
pub(super) fn volume(collective: &ExplainedCollective, piece: &Piece) -> Volume {
    let devices = collective.group_size.unwrap_or(1);
    Volume::of(collective.kind, piece.array_bytes, devices, collective.runs.count)
}

/// What the strategy is held to.
pub(super) struct Plan<'a> {
    pub(super) subject: &'a Subject,
    /// Whether a program of which that was not known before gathers weights again for the backward pass.
    gathers_again: bool,
    /// The parameters that the program gives a new value, or their optimizer state.
    trained: BTreeSet<usize>,
}

impl<'a> Plan<'a> {
    pub(super) fn new(subject: &'a Subject, collectives: &[ExplainedCollective]) -> Plan<'a> {
        let is_again = |piece: &Piece| {
            piece.purpose == Purpose::Weight && matches!(piece.pass, Some(Pass::Recompute | Pass::Backward))
        };
        let gathers_again = collectives.iter().flat_map(|collective| &collective.pieces).any(is_again);
        let updated = subject.outputs.iter().filter_map(|output| output.updates);
        let trained = |updated: usize| match subject.arguments.get(updated)?.kind {
            ArgumentKind::State { parameter, .. } => Some(parameter),
            _ => Some(updated),
        };
        Plan { subject, gathers_again, trained: updated.filter_map(trained).collect() }
    }

    /// Whether the program gives a parameter a new value, or its optimizer state.
    pub(super) fn is_trained(&self, parameter: usize) -> bool {
        self.trained.contains(&parameter)
    }

    /// How often the strategy gathers a parameter in one run.
    pub(super) fn gathers(&self, argument: &SubjectArgument) -> u64 {
        match &self.subject.fsdp {
            Some(fsdp) if self.subject.is_split(argument) => {
                let gathers_again = argument.gathers_again.unwrap_or(self.gathers_again);
                let passes = if gathers_again && fsdp.strategy.reshards_after_forward() { 2 } else { 1 };
                argument.turns.gathered.saturating_mul(passes)
            }
            _ => 0,
        }
    }
}

/// All traffic by purpose and axes, and what was planned of it.
pub(super) fn traffic(plan: &Plan<'_>, collectives: &[ExplainedCollective]) -> Vec<Traffic> {
    let mut rows: BTreeMap<Key, (Option<Volume>, Volume)> = BTreeMap::new();
    for (key, volume) in predicted(plan) {
        rows.entry(key).or_default().0.get_or_insert_default().add(volume);
    }
    for collective in collectives {
        for piece in &collective.pieces {
            let row = rows.entry((piece.purpose, collective.axes.clone())).or_default();
            row.1.add(volume(collective, piece));
        }
    }
    let row = |((purpose, axes), (predicted, actual)): (Key, (Option<Volume>, Volume))| Traffic {
        differences: differences(plan.subject, collectives, purpose, axes.as_ref()),
        purpose,
        axes,
        predicted,
        actual,
    };
    rows.into_iter().map(row).collect()
}

/// What the strategy needs: each split parameter gathered, each gradient scattered over the axis that splits it and
/// summed over the others that split the batch.
fn predicted(plan: &Plan<'_>) -> Vec<(Key, Volume)> {
    use CollectiveKind::{AllGather, AllReduce, ReduceScatter};
    let subject = plan.subject;
    let mut predicted = Vec::new();
    if subject.fsdp.is_none() {
        return predicted;
    }
    for (index, parameter) in subject.parameters() {
        let is_trained = plan.is_trained(index);
        // Over one axis after the other: the minor ones gather first, and scatter last, what the major ones split.
        let mut bytes = subject.bytes_in_use(parameter);
        for axis in subject.split_axes(parameter) {
            let (axes, devices) = (Some(vec![axis.to_string()]), subject.size(axis));
            let gathers = Volume::of(AllGather, bytes, devices, plan.gathers(parameter));
            predicted.push(((Purpose::Weight, axes.clone()), gathers));
            if is_trained {
                let scatter = Volume::of(ReduceScatter, bytes, devices, parameter.turns.reduced);
                predicted.push(((Purpose::Gradient, axes), scatter));
            }
            bytes = bytes.div_ceil(devices.max(1) as u64);
        }
        let is_summed = |axis: &&AxisName| {
            subject.size(axis) > 1 && subject.split_axes(parameter).all(|split| split != *axis)
        };
        let summed: Vec<&AxisName> = data_axes(&subject.mesh).filter(is_summed).collect();
        if is_trained && !summed.is_empty() {
            let replicas = summed.iter().map(|axis| subject.size(axis)).product();
            let axes = summed.iter().map(ToString::to_string).collect();
            let sum = Volume::of(AllReduce, bytes, replicas, parameter.turns.reduced);
            predicted.push(((Purpose::Gradient, Some(axes)), sum));
        }
    }
    predicted
}

/// What makes the traffic of one purpose over some axes another than was planned.
fn differences(
    subject: &Subject,
    collectives: &[ExplainedCollective],
    purpose: Purpose,
    axes: Option<&Vec<String>>,
) -> Vec<String> {
    let mut folded: BTreeMap<String, Volume> = BTreeMap::new();
    let of_row = collectives.iter().filter(|collective| collective.axes.as_ref() == axes);
    for collective in of_row {
        for piece in collective.pieces.iter().filter(|piece| piece.purpose == purpose) {
            if let Some(difference) = difference(subject, collective, piece) {
                folded.entry(difference).or_default().add(volume(collective, piece));
            }
        }
    }
    let mut told: Vec<(String, Volume)> = folded.into_iter().collect();
    told.sort_by_key(|(text, volume)| (std::cmp::Reverse(volume.array_bytes), text.clone()));
    let left_out = told.len().saturating_sub(MOST_DIFFERENCES);
    let line = |(text, volume): (String, Volume)| {
        format!("{}× {text}: {}", volume.arrays, Bytes(volume.array_bytes))
    };
    let mut lines: Vec<String> = told.into_iter().take(MOST_DIFFERENCES).map(line).collect();
    if left_out > 0 {
        lines.push(format!("and {left_out} more kinds of them"));
    }
    lines
}

/// What of a piece was not planned, if anything; equal for pieces of layers that are alike.
fn difference(subject: &Subject, collective: &ExplainedCollective, piece: &Piece) -> Option<String> {
    subject.fsdp.as_ref()?;
    let kind = collective.kind;
    let argument = |name: &str| subject.arguments.iter().find(|argument| argument.name == name);
    let planned = match (piece.purpose, &piece.cause) {
        (Purpose::Scalar, _) => return None,
        (Purpose::Weight, _) => Some(CollectiveKind::AllGather),
        (Purpose::Gradient, Cause::GradientOf(name)) => {
            // Over the other axes, the parts are summed.
            let is_over =
                |split: &AxisName| collective.axes.iter().flatten().any(|axis| axis == split.as_str());
            let is_scattered = argument(name).is_some_and(|a| subject.split_axes(a).any(is_over));
            Some(if is_scattered { CollectiveKind::ReduceScatter } else { CollectiveKind::AllReduce })
        }
        _ => None,
    };
    if planned == Some(kind) {
        return other_dtype(subject, collective, piece);
    }
    let instead = planned.map(|planned| format!(" in place of {planned}")).unwrap_or_default();
    Some(format!("{kind}{instead}, {}", folded_cause(piece)))
}

/// What a piece comes from; equal for pieces of layers that are alike.
pub(super) fn folded_cause(piece: &Piece) -> String {
    match &piece.cause {
        Cause::Argument(name) | Cause::Output(name) | Cause::Op(name) => folded_name(name),
        Cause::GradientOf(name) => format!("gradient of {}", folded_name(name)),
        Cause::Unknown => format!("an array {}", piece.ty),
    }
}

/// What of a planned exchange is not as the plan counts it: it is of another dtype than the parameter.
fn other_dtype(subject: &Subject, collective: &ExplainedCollective, piece: &Piece) -> Option<String> {
    let (Cause::Argument(name) | Cause::GradientOf(name)) = &piece.cause else { return None };
    let planned = subject.arguments.iter().find(|argument| argument.name == *name)?.ty.dtype.to_string();
    let (found, _) = piece.ty.split_once('[')?;
    (found != planned)
        .then(|| format!("{} of {} in {found}, counted as {planned}", collective.kind, folded_name(name)))
}

/// A name with its numbers left out: `model.layers.*.mlp.up_proj.weight`.
pub(super) fn folded_name(name: &str) -> String {
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let fold = |part: &str| if is_number(part) { "*".to_owned() } else { part.to_owned() };
    name.split('.').map(fold).collect::<Vec<_>>().join(".")
}
