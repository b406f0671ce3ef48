//! What things are called on the page.

use shardwright_hlo::compiled::CollectiveKind;
use shardwright_partition::explain::{Cause, Grade, Pass, Piece, Purpose, Reduced, Runs};

/// The axes that a collective runs over.
pub(super) fn axes(axes: Option<&[String]>) -> String {
    match axes {
        Some([]) => "no axis".to_owned(),
        Some(axes) => axes.join(", "),
        None => "other".to_owned(),
    }
}

/// The class of the boxes of a kind.
pub(super) fn kind_class(kind: CollectiveKind) -> &'static str {
    use CollectiveKind::{AllGather, AllReduce, AllToAll, CollectivePermute, ReduceScatter};
    match kind {
        AllGather => "k-gather",
        ReduceScatter => "k-scatter",
        AllReduce => "k-reduce",
        AllToAll => "k-exchange",
        CollectivePermute => "k-permute",
        _ => "k-other",
    }
}

/// Class and word of a grade.
pub(super) fn grade(grade: Grade) -> (&'static str, &'static str) {
    match grade {
        Grade::NotSharded => ("g-none", "not sharded"),
        Grade::AsPlanned => ("g-good", "as planned"),
        Grade::Costly => ("g-costly", "costly"),
        Grade::Lost => ("g-lost", "lost"),
    }
}

/// What the pieces of a collective come from: the first, and how many more there are.
pub(super) fn cause(pieces: &[Piece]) -> String {
    let Some((first, rest)) = pieces.split_first() else { return "unknown".to_owned() };
    let name = match &first.cause {
        Cause::Argument(name) => name.clone(),
        Cause::GradientOf(name) => format!("gradient of {name}"),
        Cause::Output(name) => format!("output {name}"),
        Cause::Op(name) => name.clone(),
        Cause::Unknown => "unknown".to_owned(),
    };
    if rest.is_empty() { name } else { format!("{name} and {} more", rest.len()) }
}

/// How often something runs.
pub(super) fn runs(runs: Runs) -> String {
    let most = if runs.is_conditional { "at most " } else { "" };
    let unknown = if runs.is_unknown { " × unknown" } else { "" };
    format!("{most}{}{unknown} ×", runs.count)
}

/// A pass.
pub(super) fn pass(pass: Pass) -> &'static str {
    match pass {
        Pass::Forward => "forward",
        Pass::Recompute => "recompute",
        Pass::Backward => "backward",
        Pass::Update => "update",
    }
}

/// A purpose.
pub(super) fn purpose(purpose: Purpose) -> &'static str {
    match purpose {
        Purpose::Weight => "weights",
        Purpose::Gradient => "gradients",
        Purpose::State => "optimizer state",
        Purpose::Batch => "batch",
        Purpose::Activation => "activations",
        Purpose::Scalar => "a few numbers",
        Purpose::Other => "other",
    }
}

/// How a gradient is summed.
pub(super) fn reduced(reduced: Reduced) -> &'static str {
    match reduced {
        Reduced::ReduceScatter => "reduce-scatter",
        Reduced::AllReduce => "all-reduce",
        Reduced::AllToAll => "all-to-all",
        Reduced::Ring => "ring",
        Reduced::Nowhere => "not summed",
    }
}
